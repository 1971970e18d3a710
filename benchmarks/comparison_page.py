"""Writes docs/comparison.md from its template: rows of peers that never ran stay out, those that gave up say why.

Numbers in the template are ones: they only show how many digits to write. `<!-- word: path -->` becomes recorded text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.site.quoted import MARKED, found_at, holder_of, look_up, requoted

from benchmarks.fresh import how_timed
from benchmarks.render import DOCS

DOCUMENT = DOCS / "comparison.md"
TEMPLATE = Path(__file__).with_suffix(".md")
EMPTY = re.compile(r"^\|.*\|\n\|[-|: ]+\|\n(?!\|)", re.MULTILINE)
UNMEASURED = "*Not recorded yet: these peers have not been run on the machine of the last benchmark.*\n"
WORD = re.compile(r"<!-- word: (?P<path>[^\n]+?) -->")
TIMING = "<!-- how seconds were taken -->"
BESIDE = ("pgm", "smartnoise")
"""Suites whose seconds the page shows."""


def write(record: Mapping[str, Any]) -> None:
    DOCUMENT.write_text(render(TEMPLATE.read_text(), dict(record)))


def render(template: str, record: dict[str, Any]) -> str:
    lines = [_told(line, record) for line in template.splitlines(keepends=True)]
    text = EMPTY.sub(UNMEASURED, requoted("".join(lines), record))
    return text.replace(TIMING, _timing(record))


def _told(line: str, record: dict[str, Any]) -> str:
    """Prose always stays: a figure missing there fails the tests. A row of a table has its figures, or a reason."""
    if not line.startswith("|"):
        return line
    try:
        words = WORD.sub(lambda match: str(found_at(record, match["path"])), line)
        cells = words.rstrip("\n").split("|")
        missing = [place for place, cell in enumerate(cells) if not _recorded(cell, record)]
        for place in missing:
            reason = _reason(cells[place], record)
            cells[place] = f" {reason} " if place == missing[0] else " \u2013 "
    except LookupError:
        return ""
    return "|".join(cells) + "\n"


def _recorded(cell: str, record: dict[str, Any]) -> bool:
    try:
        for marked in MARKED.finditer(cell):
            look_up(record, marked["path"])
    except LookupError:
        return False
    return True


def _reason(cell: str, record: dict[str, Any]) -> str:
    """Why the peer has no such figure; LookupError where it was not even tried."""
    path = holder_of(next(MARKED.finditer(cell))["path"])
    return str(found_at(record, path)["skipped"]).replace("|", "/")


def _timing(record: dict[str, Any]) -> str:
    return how_timed(case for suite in BESIDE for case in record.get(suite, {}).get("found", {}).get("cases", ()))
