"""Figures that pages quote: a number followed by `<!-- figure: suite.path -->` must be one that a benchmark recorded.

The path walks through what the suite found in benchmarks/results/full.json: keys joined by dots, list entries by their
place or by a field, `release.adult[eps=1.0].tv`. The quoted number must agree to the digits it shows; a number
followed by % is a hundred times the recorded one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from scripts.site.navigation import ROOT

RESULTS = ROOT / "benchmarks" / "results" / "full.json"
MARKED = re.compile(
    r"(?P<number>[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)(?P<unit>%?)[^\d\n<]*<!-- figure: (?P<path>[^\n]+?) -->"
)
MARKER = re.compile(r"<!-- figure: ")
STEP = re.compile(r"(?P<name>[^.\[\]]+)|\[(?P<field>[^=\]]+)=(?P<value>[^\]]+)\]|\[(?P<place>\d+)\]")


@dataclass(frozen=True)
class Quoted:
    """One marked number on a page."""

    page: Path
    line: int
    number: str
    percent: bool
    path: str

    def disagreement(self, results: dict[str, Any]) -> str | None:
        """What is wrong with it, or None."""
        where = f"{self.page.relative_to(ROOT)}:{self.line}: {self.number} ({self.path})"
        try:
            recorded = look_up(results, self.path)
        except LookupError as problem:
            return f"{where}: no such figure in {RESULTS.name}: {problem}"
        shown = Decimal(self.number.replace(",", ""))
        value = Decimal(str(recorded)) * (100 if self.percent else 1)
        exponent = shown.as_tuple().exponent
        assert isinstance(exponent, int)
        allowed = Decimal(1).scaleb(exponent) * Decimal("0.501")
        return None if abs(shown - value) <= allowed else f"{where}: the last recorded benchmark says {value:.6g}"


def quoted(page: Path) -> list[Quoted]:
    """Every marked number; a marker without a number before it is an error in itself."""
    found = []
    for line, text in enumerate(page.read_text().splitlines(), start=1):
        text = re.sub(r"`[^`]*`", "", text)  # code spans talk about markers, they are none
        matches = list(MARKED.finditer(text))
        if len(matches) != len(MARKER.findall(text)):
            raise ValueError(f"{page.name}:{line}: a figure marker needs a number before it")
        found += [Quoted(page, line, m["number"], m["unit"] == "%", m["path"]) for m in matches]
    return found


def look_up(results: dict[str, Any], path: str) -> Any:
    """The recorded value at a path; the first name is the suite."""
    steps = list(STEP.finditer(path))
    if not steps:
        raise LookupError("an empty path")
    suite = results[steps[0]["name"]]
    if "found" not in suite:
        raise LookupError(f"suite {steps[0]['name']} failed")
    value = suite["found"]
    for step in steps[1:]:
        if step["field"] is not None:
            value = next((v for v in value if str(v.get(step["field"])) == step["value"]), None)
            if value is None:
                raise LookupError(step[0])
        else:
            value = value[int(step["place"])] if step["place"] is not None else value[step["name"]]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LookupError("not a number")
    return value


def recorded() -> dict[str, Any]:
    """The last full benchmark; empty where none was recorded, so that only pages that quote figures fail."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
