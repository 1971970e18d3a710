"""Writes docs/validation.md and its plots from recorded results: every figure there is one that a run measured.

How a suite says what to show stands in `benchmarks/shown.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.drawing import svg
from benchmarks.plainly import shown
from benchmarks.shown import Claim, Grid, Plot, Shown, shown_value

DOCS = Path(__file__).resolve().parents[1] / "docs"
DOCUMENT, FIGURES = DOCS / "validation.md", DOCS / "figures"
OUTDATED = "**Recorded by an earlier form of this suite; to be measured again.**"
HEAD = """# Validation

Every figure on this page was measured by `make bench` on the machine described below and is written here from
`benchmarks/results/full.json`; `python -m benchmarks NAME` measures one suite again. Ratios compare within one run;
seconds depend on the machine and its load. True errors are computed in benchmarks only, never by the library. A mark
is what we set out to reach before measuring; a missed one stays on the page with the distance.
"""


def write_validation(record: dict[str, Any], titles: dict[str, str]) -> None:
    """The page and one SVG file for each plot; plots that no suite shows any more are removed."""
    record, missing = ordered(record, titles)
    sections = {name: presented(name, entry["found"]) for name, entry in record.items() if "found" in entry}
    DOCUMENT.write_text(render(record, sections, missing))
    FIGURES.mkdir(parents=True, exist_ok=True)
    drawn = {
        file_name(name, part): svg(part) for name, parts in sections.items() for part in parts if isinstance(part, Plot)
    }
    for stale in {file.name for file in FIGURES.glob("*.svg")} - set(drawn):
        (FIGURES / stale).unlink()
    for file, text in drawn.items():
        (FIGURES / file).write_text(text)


def ordered(record: dict[str, Any], titles: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """What was recorded, in the order of the page, and the titles of suites that were not."""
    kept = {name: record[name] | {"title": title} for name, title in titles.items() if name in record}
    return kept, [title for name, title in titles.items() if name not in record]


def presented(suite: str, found: Any) -> list[Shown]:
    """What a suite wants to be shown, or everything by its own names."""
    present = getattr(import_module(f"benchmarks.{suite}"), "present", None)
    if present is None or "skipped" in found:
        return shown(found)
    try:
        return present(found)
    except (KeyError, TypeError):
        return [OUTDATED]


def file_name(suite: str, plot: Plot) -> str:
    return f"{suite}-{plot.name}.svg"


def render(record: dict[str, Any], sections: dict[str, list[Shown]], missing: Sequence[str] = ()) -> str:
    parts = [HEAD, _summary(record, sections)]
    if missing:
        parts.append("**Not recorded yet:** " + "; ".join(missing) + ".\n")
    for name, entry in record.items():
        parts.append(f"## {entry['title']}\n")
        parts.append(f"`python -m benchmarks {name}`, {entry['at']}, {entry['seconds']:.0f} s.\n")
        if "failed" in entry:
            parts.append(f"**This run failed:** {entry['failed']}\n")
            continue
        parts += _section(name, sections[name])
    return "\n".join(parts).rstrip() + "\n"


def _summary(record: dict[str, Any], sections: dict[str, list[Shown]]) -> str:
    """Which suites met their marks, and every mark that was missed."""
    rows, missed = [], []
    for name, entry in record.items():
        claims = [part for part in sections.get(name, ()) if isinstance(part, Claim)]
        lost = [claim for claim in claims if not claim.met]
        verdict = "failed" if "failed" in entry else f"{len(claims) - len(lost)} of {len(claims)}" if claims else "–"
        rows.append(f"| [{entry['title']}](#{_anchor(entry['title'])}) | {verdict} | {entry['at'].split()[0]} |")
        missed += [f"- {entry['title']}: {c.text}: {c.measured}, mark {c.mark}, {c.verdict}" for c in lost]
    table = "\n".join(["| suite | marks met | measured |", "|---|---|---|", *rows])
    told = "\n".join(["**Missed:**", "", *missed]) if missed else "No mark was missed."
    return f"{table}\n\n{told}\n"


def _anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in "- _")
    return kept.strip().replace(" ", "-")


def _section(suite: str, parts: list[Shown]) -> list[str]:
    """Claims that follow each other share one table."""
    lines: list[str] = []
    claims: list[Claim] = []
    for part in [*parts, ""]:
        if isinstance(part, Claim):
            claims.append(part)
            continue
        if claims:
            lines.append(_claims(claims))
            claims = []
        if isinstance(part, Plot):
            lines.append(f"![{part.title}. {part.expected}](figures/{file_name(suite, part)})\n")
        elif isinstance(part, Grid):
            lines.append(grid_text(part))
        elif part:
            lines.append(f"{part}\n")
    return lines


def _claims(claims: list[Claim]) -> str:
    rows = [f"| {_cell(c.text)} | {c.measured} | {c.mark} | {c.verdict} |" for c in claims]
    return "\n".join(["| claim | measured | mark | |", "|---|---:|---:|---|", *rows]) + "\n"


def grid_text(grid: Grid) -> str:
    heads = [f"{name}, {unit}" if unit else name for name, unit in grid.columns.items()]
    lines = [f"### {grid.title}\n"] if grid.title else []
    lines += [f"| {' | '.join(heads)} |", f"|{''.join(_rule(grid, name) for name in grid.columns)}"]
    lines += [f"| {' | '.join(_cell(row.get(name, '')) for name in grid.columns)} |" for row in grid.rows]
    return "\n".join(lines) + "\n"


def _rule(grid: Grid, column: str) -> str:
    """Columns of numbers stand on the right."""
    values = [row[column] for row in grid.rows if row.get(column, "") != ""]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return "---:|" if values and numbers else "---|"


def _cell(value: Any) -> str:
    return shown_value(value).replace("|", "\\|")
