"""`Case`: one release on two neighbouring tables, its claimed loss, and runs reduced to one number each.

The tables are generated and have a few records; an audit reads no user data.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from reticent.auditing.bounds import ScoreEvent, Unit, best_event
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Neighbours, Table

LEARNING, SHORT_LEARNING = 1 / 3, 1 / 10
"""The share of the runs that chooses the event, or only determines the charge; the rest is counted."""


@dataclass(frozen=True)
class Runs:
    """Independent runs on one table: a score for each, and the largest charge of any of them."""

    scores: np.ndarray
    charged: float


@dataclass(frozen=True)
class Case:
    """`draw(table)` returns some runs on table 0 or 1; their scores may be any function of what was released."""

    name: str
    group: str
    unit: Unit
    draw: Callable[[int], Runs]
    event: ScoreEvent | None = None
    """An event chosen beforehand; None chooses one on a part of the runs."""
    weight: float = 1.0
    """The share of the time: whole algorithms are slow, and their runs are few."""


@dataclass(frozen=True)
class VerdictLine:
    """The verdict on one case, or on one exact check (then without figures)."""

    name: str
    group: str
    green: bool
    unit: str = ""
    claimed: float | None = None
    seen: float | None = None
    """A lower bound on the loss, except in a false alarm."""
    runs: int = 0
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Effort:
    """Processor time for one case, so that a busy machine weakens no verdict; `runs` limits it further."""

    seconds: float = 3.0
    runs: int = 400_000

    def __post_init__(self) -> None:
        if not self.seconds > 0 or self.runs < 2:
            raise QueryError(f"an audit of {self.seconds} seconds and {self.runs} runs sees nothing; allow more")

    def part(self, share: float) -> Effort:
        return Effort(self.seconds * share, max(2, int(self.runs * share)))


def judge(case: Case, effort: Effort, failure: float) -> VerdictLine:
    """Choose an event on the first runs, count it on the others, and compare the bound with the charge.

    The claim is the largest charge while the event was chosen. A later run with a larger charge counts as stopped at
    that point and is in no event, so the claim holds for what is counted.
    """
    share = LEARNING if case.event is None else SHORT_LEARNING
    effort = Effort(effort.seconds * case.weight, effort.runs)
    learning = gather(case, effort.part(share))
    event = case.event or best_event((learning[0].scores, learning[1].scores), case.unit, failure, 1 / share - 1)
    claimed = max(side.charged for side in learning)
    counted = gather(case, effort.part(1 - share), claimed)
    seen = event.bound((counted[0].scores, counted[1].scores), case.unit, failure)
    total = sum(len(side.scores) for side in (*learning, *counted))
    return VerdictLine(case.name, case.group, seen <= claimed, case.unit, claimed, seen, total)


def gather(case: Case, effort: Effort, claimed: float = math.inf) -> tuple[Runs, Runs]:
    """As many runs on each table as time allows, alternating."""
    kept: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    charged = [0.0, 0.0]
    for table in _turns(effort, kept):
        runs = case.draw(table)
        stopped = runs.charged > claimed * (1 + 1e-12)
        kept[table].append(np.full(len(runs.scores), math.nan) if stopped else runs.scores)
        charged[table] = max(charged[table], runs.charged)
    first, second = (Runs(np.concatenate(scores), most) for scores, most in zip(kept, charged, strict=True))
    return first, second


def _turns(effort: Effort, kept: tuple[list[np.ndarray], list[np.ndarray]]) -> Iterator[int]:
    end = time.process_time() + effort.seconds
    while True:
        yield 0
        yield 1
        if time.process_time() >= end or sum(map(len, kept[0])) >= effort.runs:
            return


DOMAIN = Domain({"a": 2, "b": 2})
CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))
RECORDS = 3
"""The domain of the tables that exact checks enumerate."""

Counts = tuple[int, ...]
"""Records in each of the four cells."""


def four_cell_table(counts: Sequence[int], neighbours: Neighbours = "replace-one") -> Table:
    """A table with these numbers of records in the four cells."""
    codes = np.array(CELLS, dtype=np.int64)
    source = Records.of_codes(DOMAIN, {"a": codes[:, 0], "b": codes[:, 1]}, np.array(counts, dtype=np.int64))
    return Table(source, DOMAIN, records=sum(counts) if neighbours == "replace-one" else None, neighbours=neighbours)


@lru_cache
def neighbours_far_apart(records: int = 8) -> tuple[Table, Table]:
    """One record moves from the first cell to the last: every marginal changes in two cells."""
    rest = records // 4
    counts = [records - 3 * rest, rest, rest, rest]
    return four_cell_table(counts), four_cell_table([counts[0] - 1, rest, rest, rest + 1])


@lru_cache
def neighbours_alone(records: int) -> tuple[Table, Table]:
    """All records in the first cell, or all but one: far from a uniform guess, so that threshold tests fail."""
    return four_cell_table([records, 0, 0, 0]), four_cell_table([records - 1, 0, 0, 1])


def every_pair(neighbours: Neighbours) -> Iterator[tuple[Counts, Counts]]:
    """Every two neighbouring tables of up to three records."""
    for kept in itertools.combinations_with_replacement(range(len(CELLS)), RECORDS - 1):
        for first in range(len(CELLS)):
            if neighbours == "add-remove":
                yield _counts(*kept, first), _counts(*kept)
            else:
                yield from ((_counts(*kept, first), _counts(*kept, other)) for other in range(first))


def _counts(*cells: int) -> Counts:
    return tuple(np.bincount(cells, minlength=len(CELLS)).tolist())
