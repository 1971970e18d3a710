"""Figures that pages quote: a number followed by `<!-- figure: suite.path -->` is one that a benchmark recorded.

The path walks through what the suite found in benchmarks/results/full.json: keys joined by dots, list entries by their
place or by fields, `release.adult[eps=1.0].tv`; a key that itself has dots or brackets stands in quotes. ` * 1000`
after it changes the unit. A number followed by % is a hundred times the recorded one. The quoted number must agree to
the digits it shows; `python -m benchmarks` writes it anew, with as many digits, whenever it has measured.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from scripts.site.paths import DOCS, ROOT

RESULTS = ROOT / "benchmarks" / "results" / "full.json"
WRITTEN = (DOCS / "validation.md", DOCS / "scale.md")
"""Quote nothing: they are written whole."""
MARKED = re.compile(
    r"(?P<number>[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)(?P<unit>%?)(?P<between>[^\d\n<]*)"
    r"<!-- figure: (?P<path>[^\n]+?)(?: \* (?P<factor>[\d.e-]+))? -->"
)
MARKER = re.compile(r"<!-- figure: ")
STEP = re.compile(r'"(?P<quoted>[^"]+)"|(?P<name>[^.\[\]"]+)|\[(?P<fields>[^=\]]+=[^\]]+)\]|\[(?P<place>\d+)\]')


@dataclass(frozen=True)
class Quoted:
    """One marked number on a page."""

    page: Path
    line: int
    number: str
    path: str
    factor: Decimal = Decimal(1)

    def recorded(self, results: dict[str, Any]) -> Decimal:
        """In the unit of the page."""
        return Decimal(str(look_up(results, self.path))) * self.factor

    def disagreement(self, results: dict[str, Any]) -> str | None:
        """What is wrong with it, or None."""
        where = f"{self.page.relative_to(ROOT)}:{self.line}: {self.number} ({self.path})"
        try:
            value = self.recorded(results)
        except LookupError as problem:
            return f"{where}: no such figure in {RESULTS.name}: {problem}"
        allowed = Decimal(1).scaleb(_exponent(self.number)) * Decimal("0.501")
        if abs(Decimal(self.number.replace(",", "")) - value) <= allowed:
            return None
        return f"{where}: the last recorded benchmark says {value:.6g}; run `python -m benchmarks --render`"


def _exponent(number: str) -> int:
    exponent = Decimal(number.replace(",", "")).as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def like(number: str, value: Decimal) -> str:
    """The value with as many digits that matter as the number shows."""
    digits = len(Decimal(number.replace(",", "")).as_tuple().digits)
    whole = "." not in number and value == value.to_integral_value()
    places = 0 if whole else max(0, digits - 1 - value.adjusted())
    shown = f"{value:,.{places}f}" if "," in number or abs(value) >= 10_000 else f"{value:.{places}f}"
    return shown.removeprefix("0") if number.startswith(".") and shown.startswith("0.") else shown


def _quoted(match: re.Match[str], page: Path, line: int) -> Quoted:
    factor = Decimal(match["factor"] or 1) * (100 if match["unit"] == "%" else 1)
    return Quoted(page, line, match["number"], match["path"], factor)


def quoted(page: Path) -> list[Quoted]:
    """Every marked number; a marker without a number before it is an error in itself."""
    found = []
    for line, text in enumerate(page.read_text().splitlines(), start=1):
        plain = re.sub(r"`[^`]*`", "", text)  # code spans talk about markers, they are none
        matches = list(MARKED.finditer(plain))
        if len(matches) != len(MARKER.findall(plain)):
            raise ValueError(f"{page.name}:{line}: a figure marker needs a number before it")
        found += [_quoted(match, page, line) for match in matches]
    return found


def requoted(text: str, results: dict[str, Any]) -> str:
    """The page with every marked number as it was last recorded; figures that are not recorded stay, and fail tests."""

    def anew(match: re.Match[str]) -> str:
        try:
            value = _quoted(match, DOCS, 0).recorded(results)
        except LookupError:
            return match[0]
        return like(match["number"], value) + match[0][len(match["number"]) :]

    return MARKED.sub(anew, text)


def pages() -> list[Path]:
    return [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if page not in WRITTEN)]


def requote(results: dict[str, Any]) -> None:
    """Writes every page whose figures have changed."""
    for page in pages():
        text = page.read_text()
        if (anew := requoted(text, results)) != text:
            page.write_text(anew)


def look_up(results: dict[str, Any], path: str) -> float:
    """The recorded number at a path; the first name is the suite."""
    value = found_at(results, path)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LookupError("not a number")
    return value


def found_at(results: dict[str, Any], path: str) -> Any:
    """Whatever was recorded at a path."""
    steps = list(STEP.finditer(path))
    if not steps:
        raise LookupError("an empty path")
    suite = results[steps[0]["name"]]
    if "found" not in suite:
        raise LookupError(f"suite {steps[0]['name']} failed")
    value = suite["found"]
    for step in steps[1:]:
        value = _stepped(value, step)
    return value


def holder_of(path: str) -> str:
    """The path without its last step: what the value is a part of."""
    return path[: list(STEP.finditer(path))[-1].start()].removesuffix(".")


def _stepped(value: Any, step: re.Match[str]) -> Any:
    if step["fields"] is None:
        return value[int(step["place"])] if step["place"] is not None else value[step["quoted"] or step["name"]]
    wanted = dict(field.split("=", 1) for field in step["fields"].split(","))
    found = [v for v in value if all(str(v.get(name)) == text for name, text in wanted.items())]
    if len(found) != 1:
        raise LookupError(f"{len(found)} entries are {step[0]}")
    return found[0]


def recorded() -> dict[str, Any]:
    """The last full benchmark; empty where none was recorded, so that only pages that quote figures fail."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
