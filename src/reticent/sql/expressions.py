"""Expressions over the rows of a small table: trees that turn answers into bounded columns.

A row set is public and fixed when a statement is compiled: groups of the domain, or results of relational operators on
them. Parts that depend on no answer are computed then, once; the others from the answers, each expression once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from reticent.sql.intervals import Interval
from reticent.sql.refusals import CELLS_A_STEP
from reticent.sql.vectors import (
    NUMBER,
    TRUTH,
    Labels,
    Truth,
    Vector,
    between_truths,
    rows_of,
    taken,
    to_interval,
    to_truth,
)

ARRAY_STEPS = 10
"""Of one operation on an array, however short."""
CELL_BYTES = 8


@dataclass(frozen=True, eq=False)
class Binning:
    """What the bins of a summed column hide: its total is of representatives, the truth of the rows' own numbers.

    A record of the selection lies at most `radius` from its representative, and at most `ratio` times as far as the
    representative lies above the lower end of the range; both in units of the range.
    """

    columns: tuple[str, ...]
    radius: float
    ratio: float
    present: int
    """The measure that counts the selection."""
    reach: int | None = None
    """A measure of the mean radius as a part of the largest, where one was asked."""

    def hidden(self, total: Interval, present: Interval, reach: Interval | None) -> np.ndarray:
        """The most that the share of the total may be off, from the largest shares that all of these may have."""
        found = self.radius * _most(present)
        if np.isfinite(self.ratio):
            found = np.minimum(found, self.ratio * _most(total))
        return found if reach is None else np.minimum(found, self.radius * _most(reach))


def _ends(share: Interval) -> tuple[np.ndarray, np.ndarray]:
    return np.clip(np.nan_to_num(share.low, nan=0.0), 0.0, 1.0), _most(share)


def _most(share: Interval) -> np.ndarray:
    return np.clip(np.nan_to_num(share.high, nan=1.0), 0.0, 1.0)


@dataclass(eq=False)
class Run:
    """What was answered: one interval per measure, in fractions of the table, and the number of records.

    Where that number is private, fractions are of the released one, so that their products with it are counts.
    """

    measures: Sequence[Interval]
    records: Interval
    """One row."""
    binned: Mapping[int, Binning] = field(default_factory=dict)
    bins: bool = True
    """Whether what bins hide is counted."""
    shifts: Mapping[int, np.ndarray] = field(default_factory=dict)
    """What offsets measured within bins add to the share of a total, by place: to its value, not to its bounds."""
    sample: Callable[[], Sequence[Vector]] | None = None
    """Synthetic rows, for statements that ask for them."""
    centred: Mapping[int, int] = field(default_factory=dict)
    """Totals of which the part around the middle of the range was answered, with the measure that counts their records:
    share of the total = answered share + share of the records / 2."""
    whole: bool = False
    """Whether bounds are kept that say no more than the range; otherwise such a bound is none."""
    fit: Run | None = None
    """The same measures in one fitted distribution, without bounds."""
    fitted: frozenset[int] = frozenset()
    """Measures whose values are those of the fit."""
    most: float = 1.0
    """The largest possible share, above 1 where shares are of a released number of records."""
    public: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Rows that are all records, by measure: what is known of them is known of the number of records."""
    _known: dict[int, Any] = field(default_factory=dict)

    def of(self, expr: Expr) -> Vector:
        """The column of an expression, computed once."""
        found = self._known.get(id(expr))
        if found is None:
            found = self._consistent(expr, expr.evaluate(self))
            if expr.kind == TRUTH and isinstance(found, Interval):  # as MAX, COALESCE and others compute it
                found = between_truths(found)
            self._known[id(expr)] = found
        return found

    def _consistent(self, expr: Expr, found: Vector) -> Vector:
        """A number that has a meaning only if its parts agree, from the fit unless every part was measured.

        Parts of several sources may contradict each other: their quotient can be any number. The bounds are those of
        all parts, and the value of the fit is moved into them (spec answers.md 1).
        """
        if self.fit is None or not expr.joint or not isinstance(found, Interval):
            return found
        if self.fitted.isdisjoint(self.read_places(expr.places)):
            return found
        value = self.fit.numbers(expr).value
        return found.near(np.where(expr.absent(self), np.nan, np.where(np.isnan(value), found.value, value)))

    def numbers(self, expr: Expr) -> Interval:
        found = self.of(expr)
        return found if isinstance(found, Interval) else to_interval(found)

    def truth(self, expr: Expr) -> Truth:
        return to_truth(self.of(expr))

    def changed(self, measures: Sequence[Interval]) -> Run:
        """The same answers but for some intervals; nothing is computed yet."""
        return replace(self, measures=measures, fit=None, _known={})

    def unbinned(self) -> Run:
        return replace(self, bins=False, _known={})

    def possible(self) -> Run:
        """An evaluation whose bounds are the ranges of all numbers: measures without bounds may be any share."""
        measures = []
        for place, share in enumerate(self.measures):
            known, (least, most) = np.isfinite(share.low) & np.isfinite(share.high), self.limits(place)
            ends = zip((share.value, share.low, share.high), ((least + most) / 2, least, most), strict=True)
            measures.append(Interval(*(np.where(known, one, blank) for one, blank in ends)))
        return replace(self.changed(measures), whole=True)

    def useful(self, found: Interval, low: float, high: float) -> Interval:
        """A bound that says no more than the range is none."""
        if self.whole or not high > low:
            return found
        idle = (found.low <= low) & (found.high >= high)
        return Interval(found.value, np.where(idle, -np.inf, found.low), np.where(idle, np.inf, found.high), found.null)

    def hidden(self, terms: Sequence[tuple[float, int]], rows: int) -> np.ndarray:
        """What binning may add to or take from the sum of coefficient * share; nothing beyond the range."""
        total = np.zeros(rows)
        for coefficient, place in terms if self.bins and not self.whole else ():
            if (binning := self.binned.get(place)) is not None:
                reach = None if binning.reach is None else self.measures[binning.reach]
                total += abs(coefficient) * binning.hidden(self.measures[place], self.measures[binning.present], reach)
        return total

    def shifted(
        self, terms: Sequence[tuple[float, int]], found: Interval, divisor: np.ndarray | float = 1.0
    ) -> Interval:
        """The sum of coefficient * share over a divisor, moved by measured offsets within its bounds."""
        moves = [coefficient * self.shifts[place] for coefficient, place in terms if place in self.shifts]
        if not moves or not self.bins:
            return found
        with np.errstate(divide="ignore", invalid="ignore"):
            value = found.value + np.nan_to_num(sum(moves) / divisor, posinf=0.0, neginf=0.0)
        return Interval(np.clip(value, found.low, found.high), found.low, found.high, found.null)

    def combined(self, terms: Sequence[tuple[float, int]], rows: int) -> Interval:
        """Sum of coefficient * share."""
        total, answered = Interval.exactly(0.0, rows), self.answered_terms(terms)
        for coefficient, place in answered:
            total = total + Interval.exactly(coefficient, rows) * self.measures[place]
        return total if answered is terms else self._extent(terms, rows).cut(total)

    def _extent(self, terms: Sequence[tuple[float, int]], rows: int) -> Extent:
        """Where a sum with centred totals lies whatever noise says: each total is at most the share of its records."""
        left: dict[int, float] = {}
        for coefficient, place in terms:
            left[place] = left.get(place, 0.0) + coefficient
        least, most = np.zeros(rows), np.zeros(rows)
        for place in [place for place in left if place in self.centred]:
            total, counted = left.pop(place), self.centred[place]
            alone = left.pop(counted, 0.0)
            shares = _ends(self.measures[counted])
            products = [coefficient * share for coefficient in (alone, alone + total) for share in shares]
            least, most = least + np.min(products, axis=0), most + np.max(products, axis=0)
        for place, coefficient in left.items():
            products = [coefficient * share for share in _ends(self.measures[place])]
            least, most = least + np.min(products, axis=0), most + np.max(products, axis=0)
        return Extent(least, most)

    def answered_terms(self, terms: Sequence[tuple[float, int]]) -> Sequence[tuple[float, int]]:
        """The same sum in terms of what was answered: counts of the records of centred totals meet other counts."""
        if not any(place in self.centred for _, place in terms):
            return terms
        merged: dict[int, float] = {}
        for coefficient, place in terms:
            merged[place] = merged.get(place, 0.0) + coefficient
            if (counted := self.centred.get(place)) is not None:
                merged[counted] = merged.get(counted, 0.0) + coefficient / 2
        return [(coefficient, place) for place, coefficient in merged.items() if coefficient]

    def quotient(self, terms: Sequence[tuple[float, int]], bottom: int, rows: int) -> Interval:
        """Sum of coefficient * share over another share; of centred totals that share itself leaves no error."""
        answered = self.answered_terms(terms)
        if answered is terms:
            return self.combined(terms, rows) / self.measures[bottom]
        same = sum(coefficient for coefficient, place in answered if place == bottom)
        others = [(coefficient, place) for coefficient, place in answered if place != bottom]
        total = Interval.exactly(0.0, rows)
        for coefficient, place in others:
            total = total + Interval.exactly(coefficient, rows) * self.measures[place]
        return total / self.measures[bottom] + Interval.exactly(same, rows)

    def limits(self, place: int) -> tuple[float, float]:
        """Between which the share of a measure lies."""
        return (-self.most / 2, self.most / 2) if place in self.centred else (0.0, self.most)

    def of_rows(self, places: Iterable[int]) -> bool:
        """Whether no total among these is of representatives: bins hide nothing of their sum."""
        return not any(place in self.binned for place in places)

    def read_places(self, places: Iterable[int]) -> tuple[int, ...]:
        """Measures that these are computed from, each once."""
        pairs = ((place, self.centred.get(place, place)) for place in places)
        return tuple(dict.fromkeys(place for pair in pairs for place in pair))


@dataclass(frozen=True, eq=False)
class Extent:
    """The smallest and largest number that the mean of each row can be, by the bins that its condition allows."""

    least: np.ndarray
    most: np.ndarray

    def cut(self, found: Interval) -> Interval:
        """No value outside, and no bound; where a bound contradicts the extent it failed, and the extent remains."""
        low, high = np.maximum(found.low, self.least), np.minimum(found.high, self.most)
        empty = low > high
        low, high = np.where(empty, self.least, low), np.where(empty, self.most, high)
        bounded = np.isfinite(found.low) & np.isfinite(found.high)
        value = np.where(bounded, np.clip(found.value, low, high), np.clip(found.value, self.least, self.most))
        ends = np.where(bounded, low, found.low), np.where(bounded, high, found.high)
        return Interval(value, *ends, found.null)


class Expr:
    """One column over a fixed number of rows."""

    rows: int
    kind: str = NUMBER
    children: tuple[Expr, ...] = ()
    own_places: tuple[int, ...] = ()
    """Measures that it reads itself."""
    joint: ClassVar[bool] = False
    """Whether its parts must be of one distribution, as those of a quotient."""
    work: ClassVar[int] = 1
    """How many arrays, one number per row each, an evaluation computes."""

    def evaluate(self, run: Run) -> Vector:
        raise NotImplementedError

    def absent(self, run: Run) -> np.ndarray:
        """Rows that have no value, as far as is known of their records."""
        return np.zeros(self.rows, dtype=bool)

    @property
    def known(self) -> Vector | None:
        """The column itself, where no answer is needed for it."""
        return None

    @property
    def value_columns(self) -> tuple[Expr, ...]:
        """The columns that its values come from unchanged: itself, unless it only arranges the rows of others."""
        return (self,)

    @property
    def arrays(self) -> int:
        return self.work

    @property
    def cost(self) -> int:
        """Steps of one evaluation, its children not counted."""
        return 0 if self.known is not None else self.arrays * array_steps(self.rows)

    @property
    def places(self) -> tuple[int, ...]:
        """The measures it depends on, each once."""
        found = self.__dict__.get("_places")
        if found is None:
            found = tuple(dict.fromkeys(place for expr in walk((self,)) for place in expr.own_places))
            self.__dict__["_places"] = found
        return found


def array_steps(rows: int) -> int:
    """Of one operation on an array with a number for each row."""
    return ARRAY_STEPS + rows * CELL_BYTES // CELLS_A_STEP


def walk(roots: Iterable[Expr]) -> Iterable[Expr]:
    """Every expression below, each once."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        expr = waiting.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            yield expr
            waiting += expr.children


@dataclass(frozen=True, eq=False)
class Known(Expr):
    """A public column."""

    vector: Vector
    kind: str
    cut: str = ""
    """Why a row is not one value, where bins leave it open."""
    declared: str = ""
    """What it is of, where that is not plain: the declared range instead of the rows' own."""

    @property
    def rows(self) -> int:  # type: ignore[override]
        return rows_of(self.vector)

    @property
    def known(self) -> Vector:
        return self.vector

    def evaluate(self, run: Run) -> Vector:
        return self.vector


def constant_expr(value: Any, kind: str, rows: int) -> Known:
    return Known(Labels.constant(value, rows), kind)


@dataclass(frozen=True, eq=False)
class Sum(Expr):
    """records * (sum of coefficient * share): COUNT and SUM, and any combination of them with constants."""

    terms: tuple[tuple[float, int], ...]
    rows: int
    kind: str = NUMBER

    @property
    def own_places(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(place for _, place in self.terms)

    @property
    def arrays(self) -> int:
        return 2 + 2 * len(self.terms)

    def evaluate(self, run: Run) -> Interval:
        shares = run.combined(self.terms, self.rows).widened(run.hidden(self.terms, self.rows))
        shares = run.shifted(self.terms, shares)
        return shares * run.records.spread(self.rows)

    def times(self, factor: float, kind: str) -> Sum:
        return Sum(tuple((coefficient * factor, place) for coefficient, place in self.terms), self.rows, kind)

    def plus(self, other: Sum, kind: str | None = None) -> Sum:
        """Equal measures meet, so that what cancels leaves no error."""
        merged: dict[int, float] = {}
        for coefficient, place in (*self.terms, *other.terms):
            merged[place] = merged.get(place, 0.0) + coefficient
        terms = tuple((coefficient, place) for place, coefficient in merged.items() if coefficient)
        return Sum(terms, self.rows, self.kind if kind is None else kind)


@dataclass(frozen=True, eq=False)
class MeanExpr(Expr):
    """AVG: low + (top - low * bottom) / bottom, every record in [low, high]; the number of records cancels.

    Shifting by `low` makes the quotient one of non-negative numbers, top' <= (high - low) * bottom, and spares the
    error of the part that is the same for every record. A mean of numbers lies no farther from the mean of their
    representatives than the farthest number from its own: `radius`.
    """

    top: Sum
    bottom: int
    low: float
    high: float
    radius: float = 0.0
    kind: str = NUMBER
    extent: Extent | None = None
    joint: ClassVar[bool] = True

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.top.rows

    def absent(self, run: Run) -> np.ndarray:
        return ~(run.measures[self.bottom].value > 0)

    @property
    def own_places(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys((*self.top.own_places, self.bottom)))

    @property
    def arrays(self) -> int:
        return 8 + self.top.arrays

    def evaluate(self, run: Run) -> Interval:
        found = self.centred(run)
        # A bound that only says "somewhere in the column's range" is none.
        known = np.isfinite(found.low) & np.isfinite(found.high)
        if self.high > self.low and not run.whole:
            known &= (found.low > self.low) | (found.high < self.high)
        unknown = np.full(self.rows, np.inf)
        bottom = run.measures[self.bottom]
        maybe = ~(bottom.low > 0)
        mean = Interval(
            np.where(self.absent(run), np.nan, found.value),
            np.where(known, found.low, -unknown),
            np.where(known, found.high, unknown),
            maybe if maybe.any() else None,
        )
        return mean if self.extent is None else self.extent.cut(mean)

    def centred(self, run: Run) -> Interval:
        """The mean with what is known of it, also where that is no more than the range."""
        shifted = self.top.plus(Sum(((-self.low, self.bottom),), self.rows))
        bottom = run.measures[self.bottom]
        raw = run.quotient(shifted.terms, self.bottom, self.rows)
        width = self.high - self.low
        wide = raw.clipped(0.0, width).widened(self._hidden(run, bottom))
        cut = run.shifted(self.top.terms, wide, bottom.value).clipped(0.0, width)
        return Interval(cut.value, cut.low, cut.high) + Interval.exactly(self.low, self.rows)

    def _hidden(self, run: Run, bottom: Interval) -> np.ndarray:
        """What binning may hide: never more than for the record it hides most of, often less than for all of them."""
        if not run.binned or not run.bins:
            return np.zeros(self.rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(bottom.low > 0, run.hidden(self.top.terms, self.rows) / bottom.low, np.inf)
        return np.minimum(self.radius, share)


@dataclass(frozen=True, eq=False)
class Partly(Expr):
    """A count or sum over records of which some may or may not be meant: a condition that cuts their bins.

    `sure` is of the records that are; `open` of the others, each between `least` and `most`; `share` of them are meant
    if they lie evenly within their bins.
    """

    sure: Sum
    open: Sum
    counted: Sum
    """How many are open."""
    share: float
    least: float
    most: float

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.sure.rows

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.sure.kind

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.sure, self.open, self.counted)

    @property
    def value_columns(self) -> tuple[Expr, ...]:
        return (self.sure,)

    @property
    def arrays(self) -> int:
        return 8

    def evaluate(self, run: Run) -> Interval:
        sure, open_, counted = (run.numbers(part) for part in self.children)
        most = np.maximum(counted.high, 0.0)
        below = min(0.0, self.least) * most if self.least < 0 else np.zeros(self.rows)
        above = max(0.0, self.most) * most if self.most > 0 else np.zeros(self.rows)
        if self.least >= 0:
            above = np.minimum(above, np.maximum(open_.high, 0.0))
        if self.most <= 0:
            below = np.maximum(below, np.minimum(open_.low, 0.0))
        low, high = sure.low + below, sure.high + above
        value = np.clip(sure.value + self.share * open_.value, low, high)
        return Interval(value, low, high)


@dataclass(frozen=True, eq=False)
class Clipped(Expr):
    """A number that is known to lie in a range; a bound that says no more than that is none."""

    inner: Expr
    low: float
    high: float
    extent: Extent | None = None

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.inner.rows

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.inner,)

    def evaluate(self, run: Run) -> Interval:
        found = run.useful(run.numbers(self.inner).clipped(self.low, self.high), self.low, self.high)
        return found if self.extent is None else self.extent.cut(found)


@dataclass(frozen=True, eq=False)
class Computed(Expr):
    """A function of other columns."""

    function: Callable[..., Vector]
    children: tuple[Expr, ...] = field()
    rows: int = field()
    kind: str = field()
    arrays: int = 4  # type: ignore[assignment]
    joint: bool = False  # type: ignore[misc]

    def evaluate(self, run: Run) -> Vector:
        return self.function(*(run.of(child) for child in self.children))


@dataclass(frozen=True, eq=False)
class Repeated(Expr):
    """The single row of another table, beside every row of this one."""

    inner: Expr
    rows: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.inner.kind

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.inner,)

    @property
    def value_columns(self) -> tuple[Expr, ...]:
        return self.inner.value_columns

    def evaluate(self, run: Run) -> Vector:
        return run.of(self.inner).spread(self.rows)


@dataclass(frozen=True, eq=False)
class Taken(Expr):
    """Rows of another table in another order, some perhaps several times; -1 is a row of NULLs."""

    inner: Expr
    picks: np.ndarray

    @property
    def rows(self) -> int:  # type: ignore[override]
        return len(self.picks)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.inner.kind

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (self.inner,)

    @property
    def value_columns(self) -> tuple[Expr, ...]:
        return self.inner.value_columns

    def evaluate(self, run: Run) -> Vector:
        return taken(run.of(self.inner), self.picks)


@dataclass(frozen=True, eq=False)
class Presence(Expr):
    """Whether each row is there: all conditions on it hold, and it exists."""

    children: tuple[Expr, ...] = field()
    rows: int = field()
    kind: str = TRUTH

    @property
    def arrays(self) -> int:
        return 4 * len(self.children)

    def evaluate(self, run: Run) -> Truth:
        found = run.truth(self.children[0]).is_true()
        for child in self.children[1:]:
            found = found & run.truth(child).is_true()
        return found


def is_count(expr: Expr, columns: Sequence[object]) -> bool:
    """Whether it is counted in records: sums of measures none of which weighs records by a column."""
    sums = [one for one in expr.value_columns if one.known is None]
    return bool(sums) and all(
        isinstance(one, Sum) and all(columns[place] is None for place in one.own_places) for one in sums
    )
