"""Aggregates of a whole distribution: quantiles, distinct values and the mode, from the counts of each code.

Counts are certified cell by cell, and cumulative counts as such where a certificate covers them: a quantile lies
between the ends of the first bins whose cumulative counts surely and possibly reach it (spec answers.md 5.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reticent.queries import Predicate, all_of
from reticent.sql.cells import codes_predicate
from reticent.sql.expressions import Expr, Run, array_steps
from reticent.sql.intervals import Interval
from reticent.sql.refusals import CELLS_A_STEP, refused
from reticent.sql.scan import HALF, Scan
from reticent.sql.vectors import DATE, DAY, INTEGER, NUMBER, TIMESTAMP, Labels, Vector

MAX_CUTS = 128
"""Cumulative counts that are read on their own; beyond, every so many bins."""
NEAR = 1e-6
"""Records by which rounding may miss a whole number of them."""


@dataclass(frozen=True, eq=False)
class Categories:
    """A column, and the value that each of its codes has."""

    name: str
    labels: Labels
    kind: str


@dataclass(frozen=True, eq=False)
class Ordered:
    """A column, and the bounds of a number that each of its codes has."""

    name: str
    bounds: Interval
    kind: str


@dataclass(frozen=True, eq=False)
class Cells:
    """The counts of each code within each group, as a table; codes that cannot occur are zero."""

    counted: Expr
    """Over the finer scan."""
    owners: np.ndarray
    columns: np.ndarray
    """The place of each finer group's code among those looked at; -1 for codes that are left out."""
    shape: tuple[int, int]

    @classmethod
    def of(cls, scan: Scan, name: str, where: Predicate, places: np.ndarray) -> Cells:
        """`places` says for each code its column in the table."""
        fine, owners, codes = scan.finer(name)
        columns = places[codes]
        shape = (scan.rows, int(places.max(initial=-1)) + 1)
        scan.meter.charge(40 * math.prod(shape) // CELLS_A_STEP)
        if math.prod(shape) > 2**20:
            raise refused(f"{shape[0]} groups of {shape[1]} values of {name}", "group by fewer or coarser columns")
        return cls(fine.count(where), owners, columns, shape)

    @property
    def cost(self) -> int:
        """Of reading this table and one result from each of its rows."""
        return 20 * array_steps(math.prod(self.shape))

    def table(self, run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, least and most; several codes in one column add up."""
        found = run.numbers(self.counted)
        kept = self.columns >= 0
        places = self.owners[kept] * self.shape[1] + self.columns[kept]
        size = math.prod(self.shape)
        low = np.maximum(found.low, 0.0)
        parts = (np.bincount(places, part[kept], size) for part in (found.value, low, found.high))
        value, least, most = (part.reshape(self.shape).astype(float) for part in parts)
        return value, least, most


@dataclass(frozen=True, eq=False)
class Distinct(Expr):
    """How many values have a record."""

    cells: Cells
    rows: int
    kind: str = INTEGER

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.cells.counted,)

    @property
    def cost(self) -> int:
        return self.cells.cost

    def evaluate(self, run: Run) -> Interval:
        value, least, most = self.cells.table(run)
        return Interval(*((part.sum(axis=1)).astype(float) for part in (value >= HALF, least > 0, most > 0)))


@dataclass(frozen=True, eq=False)
class Mode(Expr):
    """The value with the most records; of equals the first."""

    cells: Cells
    values: tuple[object, ...]
    rows: int
    kind: str

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.cells.counted,)

    @property
    def cost(self) -> int:
        return self.cells.cost

    def evaluate(self, run: Run) -> Vector:
        value, least, most = self.cells.table(run)
        best = value.argmax(axis=1)
        index = np.arange(len(best))
        others = most.copy()
        others[index, best] = -np.inf
        certain = (least[index, best] >= others.max(axis=1)) & (least[index, best] > 0)
        codes = np.where(value[index, best] < HALF, len(self.values), best)
        return Labels(codes, (*self.values, None), None if certain.all() else certain)


@dataclass(frozen=True, eq=False)
class QuantileExpr(Expr):
    """The value below which a part of the records lies."""

    cells: Cells
    middles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    """Of the columns of the table, in the order of the number."""
    part: float
    """Counted from the smallest number on, also where the records are ordered from the largest."""
    continuous: bool
    descending: bool
    """Of the numbers that a discrete quantile lies between, the larger: the first when counted from the largest."""
    cuts: tuple[tuple[int, Expr], ...]
    """Cumulative counts up to a column, where one is known on its own account."""
    total: Expr
    rows: int
    kind: str

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.cells.counted, self.total, *(cut for _, cut in self.cuts))

    @property
    def cost(self) -> int:
        return 2 * self.cells.cost + 4 * len(self.cuts) * array_steps(self.rows)

    @property
    def extent(self) -> tuple[float, float]:
        return float(self.lows.min()), float(self.highs.max())

    def evaluate(self, run: Run) -> Interval:
        value, least, most = self.cells.table(run)
        total = run.numbers(self.total)
        below = _cumulative(least, most, total)
        for column, cut in self.cuts:
            found = run.numbers(cut)
            below[0][:, column] = np.fmax(below[0][:, column], found.low)
            below[1][:, column] = np.fmin(below[1][:, column], found.high)
        lows = np.maximum.accumulate(below[0], axis=1)
        highs = np.minimum.accumulate(below[1][:, ::-1], axis=1)[:, ::-1]
        with np.errstate(invalid="ignore"):  # an unbounded count says nothing
            above = most[:, ::-1].cumsum(axis=1)[:, ::-1] - most
        return self._bounded(self._value(value.cumsum(axis=1)), lows, highs, above, total, whole=run.whole)

    def _value(self, below: np.ndarray) -> np.ndarray:
        """From estimated counts, each record at the representative of its bin."""
        count = below[:, -1]
        count = np.where(np.abs(count - np.rint(count)) < NEAR, np.rint(count), count)
        if self.continuous:
            place = np.maximum(count - 1, 0.0) * self.part
            first, part = np.floor(place + NEAR), np.maximum(place - np.floor(place + NEAR), 0.0)
            lower, upper = self._at(below, first + 1), self._at(below, np.where(part > NEAR, first + 2, first + 1))
            found = lower + part * (upper - lower)
        else:
            found = self._at(below, self._rank(count))
        return np.where(count < HALF, np.nan, found)

    def _at(self, below: np.ndarray, number: np.ndarray) -> np.ndarray:
        """The representative of the record with a number, counted from one."""
        reached = below >= np.minimum(number, below[:, -1])[:, None] - NEAR
        return self.middles[reached.argmax(axis=1)]

    def _bounded(
        self,
        value: np.ndarray,
        lows: np.ndarray,
        highs: np.ndarray,
        above: np.ndarray,
        total: Interval,
        *,
        whole: bool,
    ) -> Interval:
        """The record sought lies in a bin or below it if as many records do, whatever the others are.

        `lows` and `highs` bound how many lie up to each bin; at most `above` lie beyond it.
        """
        above_least = np.maximum(total.low[:, None] - highs, 0.0)
        above_most = np.fmin(np.maximum(total.high[:, None] - lows, 0.0), above)
        sure = self._reached(lows, lows + above_most, all_of_it=True)
        possible = self._reached(highs, highs + above_least, all_of_it=False)
        last = len(self.middles) - 1
        high = self.highs[np.where(sure.any(axis=1), sure.argmax(axis=1), last)]
        low = self.lows[np.where(possible.any(axis=1), possible.argmax(axis=1), last)]
        unknown = ~sure.any(axis=1) & (low <= self.lows.min()) & (last > 0 and not whole)
        low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        maybe = ~(total.low > 0)
        with np.errstate(invalid="ignore"):
            value = np.where(np.isnan(value), np.nan, np.clip(value, low, np.maximum(low, high)))
        return Interval(value, low, np.maximum(low, high), maybe if maybe.any() else None)

    def _rank(self, count: np.ndarray) -> np.ndarray:
        """The number of the record of a discrete quantile among so many, counted from one; beyond them the last one."""
        if self.descending:
            return np.floor(count * self.part + NEAR) + 1
        return np.maximum(np.ceil(count * self.part - NEAR), 1.0)

    def _reached(self, below: np.ndarray, count: np.ndarray, *, all_of_it: bool) -> np.ndarray:
        """Whether so many records reach the first or, for all of it, the last record that the quantile depends on.

        The numbers bound whole numbers and need not be whole themselves, so the rank is not rounded either: rounded up,
        it can exceed a bound but not the whole number just below it. Without rounding, what holds for some records
        below holds for more.
        """
        with np.errstate(invalid="ignore"):  # what is not bounded reaches everything
            if self.continuous:
                place = np.maximum(count - 1, 0.0) * self.part
                reached = below >= place + 1 - NEAR if all_of_it else below > place + NEAR
            elif self.descending:
                reached = (below > count * self.part + NEAR) | (count - below <= NEAR)
            else:
                reached = below >= count * self.part - NEAR
        return (reached | np.isinf(below)) & (below > NEAR)


def _cumulative(least: np.ndarray, most: np.ndarray, total: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Least and most records up to each column: what is counted below, or not counted above."""
    with np.errstate(invalid="ignore"):
        low, high = least.cumsum(axis=1), most.cumsum(axis=1)
        above_least = least[:, ::-1].cumsum(axis=1)[:, ::-1] - least
        above_most = most[:, ::-1].cumsum(axis=1)[:, ::-1] - most
        low = np.fmax(low, total.low[:, None] - above_most)
        high = np.fmin(high, total.high[:, None] - above_least)
    return np.nan_to_num(low, nan=0.0, neginf=0.0), np.where(np.isnan(high), np.inf, high)


def distinct(scan: Scan, categories: Categories, where: Predicate) -> Expr:
    """COUNT(DISTINCT x); NULL is not counted."""
    cells, _ = _grouped(scan, categories, where)
    return Distinct(cells, scan.rows)


def mode(scan: Scan, categories: Categories, where: Predicate) -> Expr:
    """MODE(x); NULL is passed over."""
    cells, values = _grouped(scan, categories, where)
    return Mode(cells, values, scan.rows, categories.kind)


def _grouped(scan: Scan, categories: Categories, where: Predicate) -> tuple[Cells, tuple[object, ...]]:
    """Codes with the same value are counted together."""
    places: dict[tuple[type, object], int] = {}
    listed = [
        -1 if value is None else places.setdefault((type(value), value), len(places))
        for value in categories.labels.listed()
    ]
    if not places:
        raise refused(f"{categories.name} has no value", "name another column")
    cells = Cells.of(scan, categories.name, where, np.array(listed))
    return cells, tuple(value for _, value in places)


def select_quantile(
    scan: Scan, ordered: Ordered, where: Predicate, part: float, *, continuous: bool, descending: bool
) -> Expr:
    """QUANTILE of a column's numbers or dates, counted from the largest where descending; NULLs are left out."""
    part = 1.0 - part if descending else part
    bounds = ordered.bounds
    known = np.flatnonzero(bounds.number)
    if not known.size:
        raise refused(f"{ordered.name} has no numbers", "name a column of numbers")
    order = known[np.argsort(bounds.value[known], kind="stable")]
    places = np.full(len(bounds.value), -1)
    places[order] = np.arange(len(order))
    cells = Cells.of(scan, ordered.name, where, places)
    present = np.zeros(len(bounds.value), dtype=bool)
    present[known] = True
    selected = codes_predicate(ordered.name, present, scan.domain, scan.meter)
    total = scan.count(all_of((where, selected)))
    cuts = _cuts(scan, ordered.name, where, order)
    kind = NUMBER if continuous and ordered.kind == INTEGER else ordered.kind
    if continuous and kind == DATE:
        # Between two days lies a time.
        kind, bounds = TIMESTAMP, bounds * Interval.exactly(DAY, len(bounds.value))
    lows, highs = (np.array(end[order]) for end in (bounds.low, bounds.high))
    # Where bins of the number overlap, a bound is that of all bins up to it, or from it on.
    lows, highs = np.minimum.accumulate(lows[::-1])[::-1], np.maximum.accumulate(highs)
    reverse = descending and not continuous  # between two records there is no order
    return QuantileExpr(
        cells, bounds.value[order], lows, highs, part, continuous, reverse, cuts, total, scan.rows, kind
    )


def _cuts(scan: Scan, name: str, where: Predicate, order: np.ndarray) -> tuple[tuple[int, Expr], ...]:
    """Cumulative counts, each one question that is read where that is free."""
    last = len(order) - 1
    if name in scan.grouping.columns or last < 2:
        return ()
    chosen = np.unique(np.linspace(0, last - 1, min(last, MAX_CUTS)).astype(int))
    found = []
    for column in chosen.tolist():
        below = np.zeros(scan.domain[name].size, dtype=bool)
        below[order[: column + 1]] = True
        selected = codes_predicate(name, below, scan.domain, scan.meter)
        found.append((column, scan.count(all_of((where, selected)), aside=True)))
    return tuple(found)
