"""Variances, covariances, correlations, slopes and skewness from means of powers, with their binning errors.

Both moments are of the representatives; what bins hide is in the bounds. With x = m + d, m the representative of a
record's bin and d its offset, |d| <= r of that bin, the triangle inequality in L2 gives |sd(x) - sd(m)| <= sd(d), and
Var(d) = E d^2 - (E d)^2 <= E r^2 - (E x - E m)^2. Cauchy and Schwarz bound what offsets add to a covariance
(docs/proofs/moments.md; spec answers.md 5.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sqlglot import exp

from reticent.queries import Predicate, all_of
from reticent.sql.expressions import Expr, MeanExpr, Run, Sum
from reticent.sql.intervals import Interval
from reticent.sql.scan import Scan
from reticent.sql.variables import Variable, mean_of, own_mean, product_mean
from reticent.sql.vectors import INTEGER, NUMBER

PAIRS: dict[type[exp.Expr], str] = {
    exp.CovarPop: "covariance",
    exp.CovarSamp: "sample covariance",
    exp.Corr: "correlation",
    exp.RegrSlope: "slope",
    exp.RegrIntercept: "intercept",
    exp.RegrR2: "r2",
    exp.RegrCount: "count",
    exp.RegrAvgx: "mean x",
    exp.RegrAvgy: "mean y",
    exp.RegrSxx: "sxx",
    exp.RegrSyy: "syy",
    exp.RegrSxy: "sxy",
}

ROUNDING = 1e-11
"""Of a variance, relative to the largest possible."""


@dataclass(frozen=True, eq=False)
class Second:
    """A number's mean and spread among some records: from its mean, and the mean of its square about a centre."""

    mean: MeanExpr
    """Of the representatives, as the mean of the square."""
    square: MeanExpr
    centre: float
    radius: float
    """The most that a record's number lies from its representative."""
    reach: MeanExpr | None
    """The mean of the squared radius."""
    low: float
    high: float
    """Between which all numbers lie."""
    squares: tuple[float, float]
    """Between which the squares of the representatives about the centre lie."""
    own: MeanExpr | None = None
    """AVG, which is of the rows' own numbers if it was bought so."""

    @property
    def parts(self) -> tuple[Expr, ...]:
        return tuple(part for part in (self.mean, self.square, self.reach, self.own) if part is not None)

    def means(self, run: Run) -> tuple[Interval, Interval]:
        """Of the representatives and of the numbers themselves: no farther apart than sqrt(E r^2).

        Bounds of one narrow those of the other; values stay those of the representatives, so that they are of one fit.
        """
        middles, reach = self.mean.centred(run), self._reach(run)
        numbers = middles.widened(reach).clipped(self.low, self.high)
        if self.own is None or not run.bins or not run.of_rows(self.own.places):
            return middles, numbers
        numbers = self.own.centred(run).meet(numbers)
        met = middles.meet(numbers.widened(reach))
        return Interval(middles.value, met.low, met.high), numbers

    def variance(self, run: Run) -> Interval:
        """Of the representatives."""
        about = self.means(run)[0] + Interval.exactly(-self.centre, self.mean.rows)
        squared = about.absolute() * about.absolute()
        most = (self.high - self.low) ** 2 / 4
        square = self.square.centred(run).clipped(*self.squares)
        found = (square - squared).clipped(0.0, most)
        # What rounding leaves of no spread at all is none: a correlation with it is NULL, not any number.
        return Interval(np.where(found.value <= ROUNDING * most, 0.0, found.value), found.low, found.high, found.null)

    def _reach(self, run: Run) -> np.ndarray:
        """The most that sqrt(E d^2) is: sqrt(E r^2)."""
        if self.radius == 0 or not run.bins:
            return np.zeros(self.mean.rows)
        if self.reach is None:
            return np.full(self.mean.rows, self.radius)
        found = self.reach.centred(run).high
        return np.sqrt(np.clip(np.nan_to_num(found, nan=np.inf), 0.0, self.radius**2))

    def hidden(self, run: Run) -> np.ndarray:
        """The most that sd(d) is, and sd(x) lies from that of the representatives: sqrt(E r^2 - (E x - E m)^2)."""
        reach, (middles, numbers) = self._reach(run), self.means(run)
        apart = np.fmax(np.fmax(numbers.low - middles.high, middles.low - numbers.high), 0.0)
        return np.sqrt(np.maximum(reach**2 - apart**2, 0.0))

    def deviation(self, run: Run) -> Interval:
        """The standard deviation of the numbers themselves; at most that of numbers at both ends with the same mean."""
        mean = self.means(run)[1]
        farthest = np.clip((self.low + self.high) / 2, mean.low, mean.high)
        most = np.sqrt(np.maximum((self.high - farthest) * (farthest - self.low), 0.0))
        found = self.variance(run).mapped(np.sqrt).widened(self.hidden(run)).clipped(0.0, (self.high - self.low) / 2)
        return found.meet(Interval(found.value, np.zeros_like(most), most))


def second_of(scan: Scan, variable: Variable, where: Predicate) -> Second:
    """Centred at the middle of the range that the selection leaves: bounds are smallest there in the worst case."""
    cells = variable.within(where)
    chosen = variable.numbers.take(np.flatnonzero(cells)) if cells.any() else Interval.exactly(0.0, 1)
    low, high = float(chosen.low.min()), float(chosen.high.max())
    centre = float(chosen.value.min() + chosen.value.max()) / 2
    radius = float(variable.radii[cells].max()) if cells.any() else 0.0
    mean = mean_of(scan, variable, where)
    square = mean_of(scan, variable, where, power=2, centre=centre)
    reach = None
    if radius > 0:
        kept = all_of((where, variable.present))
        place = scan.place(kept, variable.weights((variable.radii / radius) ** 2), aside=True)
        reach = MeanExpr(Sum(((radius**2, place),), scan.rows), mean.bottom, 0.0, radius**2)
        scan.measures.coarse |= dict.fromkeys(square.own_places, variable.names)
    squares = (variable.middles[cells] - centre) ** 2 if cells.any() else np.zeros(1)
    ends = float(squares.min()), float(squares.max())
    return Second(mean, square, centre, radius, reach, low, high, ends, own_mean(scan, variable, where))


@dataclass(frozen=True, eq=False)
class Spread(Expr):
    """VARIANCE and STDDEV."""

    second: Second
    counted: Sum
    sample: bool
    root: bool
    kind: str = NUMBER
    joint: ClassVar[bool] = True

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.counted.rows

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (*self.second.parts, self.counted)

    @property
    def arrays(self) -> int:
        return 90

    @property
    def least(self) -> float:
        """The fewest records with a value."""
        return 2.0 if self.sample else 1.0

    def absent(self, run: Run) -> np.ndarray:
        return _too_few(run.numbers(self.counted), self.least)

    def evaluate(self, run: Run) -> Interval:
        found = self.second.deviation(run)
        if not self.root:
            found = found * found
        count = run.numbers(self.counted)
        most = (self.second.high - self.second.low) / 2
        found = run.useful(found, 0.0, most if self.root else most**2)
        if self.sample:
            found = found * _corrected(count, self.root)
        return _stated(found, count, self.least)


def _corrected(count: Interval, root: bool) -> Interval:
    """n / (n - 1), which falls with n, or its root; at most 2, that of two records."""
    found = _falling(count, 2.0, lambda n: n / (n - 1.0))
    return found.mapped(np.sqrt) if root else found


def _falling(count: Interval, least: float, factor: Callable[[np.ndarray], np.ndarray], limit: float = 1.0) -> Interval:
    """A factor that falls with the number of records to its limit; at most that of `least` records."""
    ends = [np.minimum(np.maximum(end, least), 1e100) for end in (count.value, count.high, count.low)]
    factors = [factor(end) for end in ends]
    return Interval(*(np.where(np.isfinite(found), found, limit) for found in factors))


def _too_few(count: Interval, least: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return count.value < least - 0.5


def _stated(found: Interval, count: Interval, least: float) -> Interval:
    """NULL where there are too few records."""
    with np.errstate(invalid="ignore"):
        maybe = ~(count.low >= least)
        maybe = maybe if found.null is None else maybe | found.null
    value = np.where(_too_few(count, least), np.nan, found.value)
    return Interval(value, found.low, found.high, maybe if maybe.any() else None)


@dataclass(frozen=True, eq=False)
class Pair(Expr):
    """A function of the joint second moments of two numbers."""

    x: Second
    y: Second
    product: MeanExpr
    """Of both, each scaled into [0, 1]."""
    scales: tuple[tuple[float, float], tuple[float, float]]
    counted: Sum
    what: str

    @property
    def kind(self) -> str:  # type: ignore[override]
        return INTEGER if self.what == "count" else NUMBER

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.counted.rows

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (*self.x.parts, *self.y.parts, self.product, self.counted)

    @property
    def arrays(self) -> int:
        return 350

    @property
    def joint(self) -> bool:  # type: ignore[override]
        return self.what != "count"

    @property
    def least(self) -> float:
        """The fewest records with a value."""
        return 2.0 if self.what == "sample covariance" else 1.0

    def absent(self, run: Run) -> np.ndarray:
        return _too_few(run.numbers(self.counted), self.least)

    def evaluate(self, run: Run) -> Interval:
        count = run.numbers(self.counted)
        if self.what == "count":
            return count
        return _stated(self._value(run, count), count, self.least)

    def _value(self, run: Run, count: Interval) -> Interval:
        what = self.what
        if what in ("mean x", "mean y"):
            return (self.x if what == "mean x" else self.y).means(run)[1]
        if what in ("sxx", "syy"):
            deviation = (self.x if what == "sxx" else self.y).deviation(run)
            return deviation * deviation * count
        covariance = self._covariance(run)
        if what == "covariance":
            return covariance
        if what == "sample covariance":
            return covariance * _corrected(count, root=False)
        if what == "sxy":
            return covariance * count
        one, other = self.x.deviation(run), self.y.deviation(run)
        if what in ("correlation", "r2"):
            found = (covariance / (one * other)).clipped(-1.0, 1.0)
            if what == "correlation":
                return run.useful(found, -1.0, 1.0)
            return run.useful(_determination(found, one, other), 0.0, 1.0)
        slope = covariance / (one * one)
        if what == "slope":
            return slope
        return self.y.means(run)[1] - slope * self.x.means(run)[1]

    def _covariance(self, run: Run) -> Interval:
        """Of the representatives m and n, and what offsets d and e may add: sd(m) sd(e) + sd(n) sd(d) + sd(d) sd(e)."""
        (x_low, x_width), (y_low, y_width) = self.scales
        rows = self.rows
        x = (self.x.means(run)[0] + Interval.exactly(-x_low, rows)) * Interval.exactly(_inverse(x_width), rows)
        y = (self.y.means(run)[0] + Interval.exactly(-y_low, rows)) * Interval.exactly(_inverse(y_width), rows)
        scaled = (self.product.centred(run) - x * y).clipped(-0.25, 0.25)
        found = scaled * Interval.exactly(x_width * y_width, rows)
        one, other = (np.sqrt(np.maximum(side.variance(run).high, 0.0)) for side in (self.x, self.y))
        ends = one * other
        # |cov| is at most the product of both deviations.
        found = found.meet(Interval(found.value, -ends, ends))
        hidden = [side.hidden(run) for side in (self.x, self.y)]
        found = found.widened(one * hidden[1] + other * hidden[0] + hidden[0] * hidden[1])
        ends = self.x.deviation(run).high * self.y.deviation(run).high
        return found.meet(Interval(found.value, -ends, ends))


def _determination(correlation: Interval, x: Interval, y: Interval) -> Interval:
    """R2 of y on x from their correlation and deviations: 1 if y does not vary, and NULL only if x does not."""
    squared = correlation.absolute() * correlation.absolute()
    flat, level = y.low <= 0, y.high <= 0
    value = np.where((y.value == 0) & (x.value > 0), 1.0, squared.value)
    low = np.where(level, 1.0, np.where(flat, 0.0, squared.low))
    found = Interval(value, low, np.where(flat, 1.0, squared.high), x.maybe_null | y.maybe_null | (x.low <= 0))
    return found.where(~(x.high <= 0), Interval.exact(np.full(len(value), np.nan)))


def _inverse(width: float) -> float:
    return 1.0 / width if width else 0.0


SHAPES = {"SKEWNESS": 3, "KURTOSIS": 4, "KURTOSIS_POP": 4}
"""The highest power that each takes the mean of."""


@dataclass(frozen=True, eq=False)
class HigherMoment(Expr):
    """SKEWNESS and KURTOSIS: central moments from the means of powers about a centre, as DuckDB corrects them."""

    second: Second
    powers: tuple[MeanExpr, ...]
    """Means of the third power and, for kurtosis, of the fourth."""
    hidden: tuple[float, ...]
    """The most that a record's power, from the second on, lies from that of its representative."""
    counted: Sum
    what: str
    kind: str = NUMBER
    joint: ClassVar[bool] = True

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.counted.rows

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return (*self.second.parts, *self.powers, self.counted)

    @property
    def arrays(self) -> int:
        return 400

    def absent(self, run: Run) -> np.ndarray:
        return _too_few(run.numbers(self.counted), {"SKEWNESS": 3.0, "KURTOSIS": 4.0}.get(self.what, 1.0))

    def evaluate(self, run: Run) -> Interval:
        count = run.numbers(self.counted)
        deviation = self.second.deviation(run)
        squared = deviation * deviation
        if self.what == "SKEWNESS":
            found = self._third(run) / (squared * deviation)
            corrected = found * _falling(count, 3.0, lambda n: np.sqrt(n * (n - 1.0)) / (n - 2.0))
            return _stated(corrected, count, 3.0)
        found = self._fourth(run) / (squared * squared)
        if self.what == "KURTOSIS_POP":
            return _stated(found - Interval.exactly(3.0, self.rows), count, 1.0)
        corrected = found * _falling(count, 4.0, lambda n: (n * n - 1.0) / ((n - 2.0) * (n - 3.0)))
        subtracted = _falling(count, 4.0, lambda n: 3.0 * (n - 1.0) ** 2 / ((n - 2.0) * (n - 3.0)), 3.0)
        return _stated(corrected - subtracted, count, 4.0)

    def _means(self, run: Run) -> list[Interval]:
        """Of the numbers' own powers about the centre, from the first on."""
        middles, numbers = self.second.means(run)
        first = Interval(middles.value, numbers.low, numbers.high) + Interval.exactly(-self.second.centre, self.rows)
        higher = [self.second.square.centred(run), *(power.centred(run) for power in self.powers)]
        if run.bins:
            higher = [one.widened(np.full(self.rows, by)) for one, by in zip(higher, self.hidden, strict=True)]
        return [first, *higher]

    def _third(self, run: Run) -> Interval:
        """E(y - Ey)^3 = Ey^3 - 3 Ey Ey^2 + 2 (Ey)^3."""
        one, two, three = self._means(run)
        thrice, twice = Interval.exactly(3.0, self.rows), Interval.exactly(2.0, self.rows)
        return three - thrice * one * two + twice * one * one * one

    def _fourth(self, run: Run) -> Interval:
        """E(y - Ey)^4 = Ey^4 - 4 Ey Ey^3 + 6 (Ey)^2 Ey^2 - 3 (Ey)^4."""
        one, two, three, four = self._means(run)
        squared = one.absolute() * one.absolute()
        times = [Interval.exactly(float(number), self.rows) for number in (4, 6, 3)]
        found = four - times[0] * one * three + times[1] * squared * two - times[2] * squared * squared
        return found.clipped(0.0, np.inf)


def shape(scan: Scan, variable: Variable, where: Predicate, what: str) -> Expr:
    """SKEWNESS, KURTOSIS or KURTOSIS_POP."""
    second, highest = second_of(scan, variable, where), SHAPES[what]
    centre, cells = second.centre, variable.within(where)
    powers = [mean_of(scan, variable, where, power=power, centre=centre) for power in range(3, highest + 1)]
    hidden = [0.0] * (highest - 1)
    if second.radius > 0:
        chosen, middles = variable.numbers.take(np.flatnonzero(cells)), variable.middles[cells]
        for power in range(2, highest + 1):
            # A power is farthest from that of the middle at an end of the bin, or where it vanishes.
            ends = [np.abs((end - centre) ** power - (middles - centre) ** power) for end in (chosen.low, chosen.high)]
            least = np.where((chosen.low < centre) & (centre < chosen.high), np.abs(middles - centre) ** power, 0.0)
            hidden[power - 2] = float(max(map(np.max, (*ends, least))))
        for mean in powers:
            scan.measures.coarse |= dict.fromkeys(mean.own_places, variable.names)
    counted = scan.count(all_of((where, variable.present)))
    return HigherMoment(second, tuple(powers), tuple(hidden), counted, what)


def deviation(scan: Scan, variable: Variable, where: Predicate, *, sample: bool, root: bool) -> Expr:
    """VARIANCE, STDDEV and their population versions."""
    second = second_of(scan, variable, where)
    return Spread(second, scan.count(all_of((where, variable.present))), sample, root)


def pair(scan: Scan, y: Variable, x: Variable, where: Predicate, what: str) -> Expr:
    """A statistic of two numbers, among the records that have both."""
    kept = all_of((where, x.present, y.present))
    product, scales = product_mean(scan, (x, y), where)
    one, other = second_of(scan, x, kept), second_of(scan, y, kept)
    return Pair(one, other, product, (scales[0], scales[1]), scan.count(kept), what)
