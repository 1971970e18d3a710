"""What a suite shows of its numbers: claims held against marks, tables with units, and one plot for each claim.

A suite is a module with `run(quick) -> dict`: plain numbers under plain names, recorded in results/full.json, where
pages quote them by path. It may also have `present(found) -> list`, which turns a recorded result into the shapes
below, in the order of the page. The renderer calls it whenever docs/validation.md is written, so looks change without
measuring again (`python -m benchmarks --render`). Example:

    def present(found):
        return [
            "A paragraph of Markdown.",
            Claim("a release on seven attributes takes", found["seconds"], at_most=60, unit="s"),
            Claim("slope of error in n", found["slope"], expected=-0.5, within=0.05),
            Plot(
                "error-by-epsilon", "Error of a release", "epsilon", "mean total variation", log="xy",
                series={"ours": [(e, y, low, high), ...], "AIM": [(e, y), ...]},  # 2 numbers, or 4 with an error bar
                lines={"slope -1": [(x, y), ...]},                                # what a theorem expects, dashed
                marks={"mark": 0.022},                                            # one level, dotted
                expected="Half the error at twice the budget.",
            ),
            Grid("Peers on the same rows", {"peer": "", "seconds": "s"}, [{"peer": "AIM", "seconds": 261.0}]),
        ]

Points whose x is text are drawn as bars. A suite without `present` is shown by its names: entries of `ratios` whose
name ends in "(at most 2.5)" or "(at least 5)" become claims, `plots` are read as `Plot(**entry)`, the rest becomes
tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

Points = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Claim:
    """One measured value and the mark it is held against."""

    text: str
    value: float
    _: KW_ONLY
    at_most: float | None = None
    at_least: float | None = None
    expected: float | None = None
    within: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        given = [mark for mark in (self.at_most, self.at_least, self.expected) if mark is not None]
        if len(given) != 1 or (self.expected is None) != (self.within is None):
            raise ValueError(f"{self.text}: give one of at_most, at_least, or expected with within")
        if not math.isfinite(self.value):
            raise ValueError(f"{self.text}: {self.value} was measured")

    @property
    def met(self) -> bool:
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return abs(self.value - self._expected) <= self._within

    @property
    def mark(self) -> str:
        if self.at_most is not None:
            return f"at most {number(self.at_most)}{self._suffix}"
        if self.at_least is not None:
            return f"at least {number(self.at_least)}{self._suffix}"
        return f"{number(self._expected)} ± {number(self._within)}{self._suffix}"

    @property
    def verdict(self) -> str:
        """`met`, or by how much it was missed."""
        if self.met:
            return "met"
        if self.expected is not None:
            return f"**missed by {number(abs(self.value - self.expected) - self._within)}{self._suffix}**"
        mark = self.at_most if self.at_most is not None else self.at_least
        if not mark or self.value / mark >= 2:
            return f"**missed by {number(abs(self.value - (mark or 0)))}{self._suffix}**"
        return f"**missed by {abs(self.value / mark - 1):.1%}**"

    @property
    def measured(self) -> str:
        return f"{number(self.value)}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return f" {self.unit}" if self.unit else ""

    @property
    def _expected(self) -> float:
        return self.expected or 0.0

    @property
    def _within(self) -> float:
        return self.within or 0.0


@dataclass(frozen=True)
class Grid:
    """A table: its columns with their units, and one mapping a row; a missing value stays empty."""

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        unknown = {name for row in self.rows for name in row} - set(self.columns)
        if unknown:
            raise ValueError(f"{self.title}: no column {', '.join(sorted(unknown))}")


@dataclass(frozen=True)
class Plot:
    """Points, expected lines and marks over two axes; text as x makes bars. `name` becomes the file's name."""

    name: str
    title: str
    x: str
    y: str
    series: Mapping[str, Points]
    _: KW_ONLY
    lines: Mapping[str, Points] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)
    log: str = ""
    expected: str = ""

    def __post_init__(self) -> None:
        if not any(self.series.values()):
            raise ValueError(f"{self.name}: a plot needs points")
        if set(self.log) - set("xy"):
            raise ValueError(f"{self.name}: log is some of x and y, not {self.log!r}")
        for name, points in {**self.series, **self.lines}.items():
            for point in points:
                if len(point) not in (2, 4):
                    raise ValueError(f"{self.name}, {name}: a point is (x, y) or (x, y, low, high), not {point!r}")
                placed = [(v, axis) for v, axis in zip(point, "xyyy", strict=False) if not isinstance(v, str)]
                if any(not math.isfinite(v) or (axis in self.log and v <= 0) for v, axis in placed):
                    raise ValueError(f"{self.name}, {name}: {point!r} cannot be drawn")

    @property
    def bars(self) -> bool:
        return any(isinstance(point[0], str) for points in self.series.values() for point in points)


Shown = Claim | Grid | Plot | str


def number(value: float) -> str:
    """Four digits at most, thousands apart, no exponent where a reader can do without."""
    size = abs(value)
    if size >= 1e12:
        return f"{value:.2e}"
    if float(value).is_integer():
        return f"{int(value):,}"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 0.0001:
        return f"{value:.4g}" if size < 100 else f"{value:.1f}"
    return f"{value:.2e}"


def shown_value(value: Any) -> str:
    """One cell of a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown_value(v)}" for name, v in value.items())
    return str(value)
