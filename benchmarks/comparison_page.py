"""Writes docs/comparison.md: rows of its tables stay out until their peers were measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.site.quoted import MARKED, look_up, requoted

from benchmarks.render import DOCS

DOCUMENT = DOCS / "comparison.md"
TEMPLATE = Path(__file__).with_suffix(".md")
EMPTY = re.compile(r"^\|.*\|\n\|[-|: ]+\|\n(?!\|)", re.MULTILINE)
UNMEASURED = "*Not recorded yet: these peers have not run to their end on the machine of the last benchmark.*\n"


def write(record: Mapping[str, Any]) -> None:
    DOCUMENT.write_text(render(TEMPLATE.read_text(), dict(record)))


def render(template: str, record: dict[str, Any]) -> str:
    lines = [line for line in template.splitlines(keepends=True) if _recorded(line, record)]
    return EMPTY.sub(UNMEASURED, requoted("".join(lines), record))


def _recorded(line: str, record: dict[str, Any]) -> bool:
    """Prose always stays: a figure missing there fails the tests."""
    if not line.startswith("|"):
        return True
    try:
        for marked in MARKED.finditer(line):
            look_up(record, marked["path"])
    except LookupError:
        return False
    return True
