"""`reticent audit`: runs mechanisms on neighbouring tables and counts events that distinguish the tables.

Whole runs are also recorded on one table and replayed on its neighbours (`replay`). All tables are generated; no user
data is read. A pass proves nothing by itself. A failure shows a broken guarantee, except for one audit in a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.auditing.algorithms import algorithm_cases
from reticent.auditing.cases import Case, Effort, VerdictLine, judge
from reticent.auditing.exact_checks import exact_lines
from reticent.auditing.mechanisms import mechanism_cases, minimizer_cases
from reticent.auditing.programs import PROGRAMS, Program
from reticent.auditing.replay import replay_line
from reticent.errors import QueryError

__all__ = ["DEEP", "FALSE_ALARM", "QUICK", "Audit", "Case", "Effort", "VerdictLine", "all_cases", "audit", "effort_for"]

FALSE_ALARM = 1e-3
"""The probability that an audit of correct mechanisms reports any failure, divided evenly over all lines."""
QUICK, DEEP = Effort(seconds=2.0), Effort(seconds=60.0, runs=20_000_000)
"""Processor time of the two efforts: about two minutes and about an hour."""
MOST_MINUTES = 7 * 24 * 60


@dataclass(frozen=True)
class Audit:
    """All verdicts, in the order in which they were reached."""

    lines: tuple[VerdictLine, ...]

    @property
    def green(self) -> bool:
        return all(line.green for line in self.lines)

    @property
    def verdict(self) -> str:
        """One sentence."""
        red = [line.name for line in self.lines if not line.green]
        if red:
            return f"VIOLATED: {'; '.join(red)}. Do not publish with this installation."
        return f"All {len(self.lines)} checks hold: no run contradicts what is claimed."

    def to_dict(self) -> dict[str, Any]:
        return {
            "green": self.green,
            "verdict": self.verdict,
            "false_alarm": FALSE_ALARM,
            "lines": [line.to_dict() for line in self.lines],
        }


def all_cases() -> list[Case]:
    return [*mechanism_cases(), *minimizer_cases(), *algorithm_cases()]


def effort_for(minutes: float) -> Effort:
    """The effort of each line if all lines together should take about this many minutes of processor time.

    The exact checks and the smallest number of pairs of a replay are not cut short; they take about half a minute.
    """
    if not 0 < minutes <= MOST_MINUTES:
        raise QueryError(f"{minutes:g} minutes: an audit takes more than 0 and at most {MOST_MINUTES}, which is a week")
    shares = len(PROGRAMS) + sum(case.weight for case in all_cases())
    return Effort(seconds=60 * minutes / shares, runs=DEEP.runs)


def audit(
    effort: Effort = QUICK,
    *,
    cases: Sequence[Case] | None = None,
    programs: Mapping[str, Program] = PROGRAMS,
    listener: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> Audit:
    """Run the exact checks, then replay every program and run every case with the given effort.

    `listener` is called with each name before its line starts.
    """
    chosen = all_cases() if cases is None else list(cases)
    lines, total = exact_lines(), len(programs) + len(chosen)
    for done, (name, program) in enumerate(programs.items()):
        listener(name, done, total)
        lines.append(replay_line(name, program, effort))
    for done, case in enumerate(chosen, len(programs)):
        listener(case.name, done, total)
        lines.append(judge(case, effort, FALSE_ALARM / len(chosen)))
    return Audit(tuple(lines))
