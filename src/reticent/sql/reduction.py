"""Aggregates over the rows of a small table with bounded numbers and rows whose presence may be uncertain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from reticent.sql.expressions import Expr, Run, array_steps
from reticent.sql.intervals import Interval
from reticent.sql.scalars import LONGEST_TEXT, text
from reticent.sql.vectors import (
    Bins,
    Labels,
    Truth,
    Vector,
    between_truths,
    rows_of,
    to_interval,
    to_truth,
)


@dataclass(frozen=True, eq=False)
class Weight:
    """The rows that count: by estimate, certainly, possibly."""

    value: np.ndarray
    sure: np.ndarray
    possible: np.ndarray

    @classmethod
    def of(cls, truth: Truth | None, rows: int) -> Weight:
        if truth is None:
            every = np.ones(rows, dtype=bool)
            return cls(np.ones(rows), every, every)
        estimate = np.where(np.isnan(truth.value), 0.0, truth.value)
        return cls(estimate, truth.sure, truth.true)

    def having(self, value: np.ndarray, never: np.ndarray, maybe: np.ndarray) -> Weight:
        """Only rows with a value: `value` by estimate, `never` and `maybe` where it is certainly or possibly NULL."""
        return Weight(self.value * value, self.sure & ~maybe, self.possible & ~never)


GROUP_STEPS = 10
"""Of one group whose rows are looked at on their own."""
Groups = tuple[np.ndarray, int]
"""The group of each row, and how many there are."""
Reducer = Callable[[Sequence[Vector], Weight, Groups], Vector]


def _sums(numbers: np.ndarray, groups: Groups) -> np.ndarray:
    index, count = groups
    found = np.zeros(count)
    np.add.at(found, index, numbers)
    return found


def _most(numbers: np.ndarray, groups: Groups, empty: float = -np.inf) -> np.ndarray:
    index, count = groups
    found = np.full(count, -np.inf)
    with np.errstate(invalid="ignore"):
        np.maximum.at(found, index, numbers)
    return np.where(np.isinf(found) & (found < 0), empty, found)


def _present(vector: Vector, weight: Weight) -> Weight:
    """Rows that have a value in a column."""
    if isinstance(vector, Interval):
        return weight.having(~np.isnan(vector.value), ~vector.number, vector.maybe_null)
    if isinstance(vector, Truth):
        return weight.having(~np.isnan(vector.value), ~(vector.true | vector.false), vector.null)
    if isinstance(vector, Bins):
        numbers = vector.interval
        return weight.having(numbers.number, ~numbers.number, ~numbers.number)
    null = vector.null
    open_ = np.zeros(len(null), dtype=bool) if vector.certain is None else ~vector.certain
    return weight.having(~null, null & ~open_, null | open_)


def count_rows(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Interval:
    """COUNT(*), and COUNT(x) of rows that have one."""
    if operands:
        weight = _present(operands[0], weight)
    return Interval(*(_sums(part.astype(float), groups) for part in (weight.value, weight.sure, weight.possible)))


def total(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Interval:
    """SUM: rows that may be absent add between nothing and their number."""
    numbers = to_interval(operands[0])
    kept = _present(operands[0], weight)
    value = np.where(kept.value > 0, np.nan_to_num(numbers.value), 0.0) * kept.value
    low = np.where(kept.sure, numbers.low, np.where(kept.possible, np.fmin(numbers.low, 0.0), 0.0))
    high = np.where(kept.sure, numbers.high, np.where(kept.possible, np.fmax(numbers.high, 0.0), 0.0))
    with np.errstate(invalid="ignore"):
        sums = [_sums(part, groups) for part in (value, low, high)]
    some, sure = _sums(kept.value, groups), _sums(kept.sure.astype(float), groups)
    possible = _sums(kept.possible.astype(float), groups)
    null = (sure == 0) & (possible > 0)
    ends = [np.where(possible == 0, np.nan, part) for part in sums]
    return Interval(np.where(some < 0.5, np.nan, ends[0]), ends[1], ends[2], null if null.any() else None)


def mean_rows(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Interval:
    """AVG: between the smallest and the largest number, within the bounds that sum and count allow."""
    numbers, kept = to_interval(operands[0]), _present(operands[0], weight)
    counted = count_rows(operands, weight, groups)
    summed = total(operands, weight, groups)
    plain = summed / counted
    least = -_most(np.where(kept.possible, -numbers.low, -np.inf), groups)
    most = _most(np.where(kept.possible, numbers.high, -np.inf), groups)
    with np.errstate(invalid="ignore"):
        low, high = np.fmax(plain.low, least), np.fmin(plain.high, most)
    return Interval(plain.value, low, high, plain.null)


def largest(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Vector:
    """MAX."""
    if not isinstance(operands[0], (Interval, Truth)):
        return _extreme_label(operands[0], weight, groups, 1.0)
    numbers, kept = to_interval(operands[0]), _present(operands[0], weight)
    held = kept.value >= 0.5
    value = _most(np.where(held, numbers.value, -np.inf), groups, np.nan)
    some = _sums(kept.possible.astype(float), groups) > 0
    sure = _most(np.where(kept.sure, numbers.low, -np.inf), groups)
    floor = -_most(np.where(kept.possible, -numbers.low, -np.inf), groups)
    low = np.where(np.isneginf(sure), floor, sure)
    high = _most(np.where(kept.possible, numbers.high, -np.inf), groups)
    null = _sums(kept.sure.astype(float), groups) == 0
    gone = np.where(some, 0.0, np.nan)
    return Interval(value + gone, low + gone, high + gone, null if null.any() else None)


def smallest(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Vector:
    """MIN."""
    if not isinstance(operands[0], (Interval, Truth)):
        return _extreme_label(operands[0], weight, groups, -1.0)
    found = largest([-to_interval(operands[0])], weight, groups)
    return -to_interval(found)


def _extreme_label(vector: Labels | Bins, weight: Weight, groups: Groups, sign: float) -> Vector:
    """The row with the largest value; certain if it is there, and no row that may be there is larger."""
    kept, ranks = _present(vector, weight), sign * vector.ranks
    best = _best(np.where(kept.value >= 0.5, ranks, np.nan), groups)
    top = _most(np.where(kept.possible, ranks, -np.inf), groups)
    none = best < 0
    safe = np.where(none, 0, best)
    own = np.where(none, -np.inf, ranks[safe]) if len(ranks) else np.full(len(best), -np.inf)
    certain = (own >= top) & (kept.sure[safe] if len(ranks) else False)
    picked = vector.labelled() if isinstance(vector, Bins) and (none.any() or not certain.all()) else vector
    if isinstance(picked, Bins):
        return picked.take(safe)
    values = (*picked.values, None)
    codes = np.where(none, len(values) - 1, picked.codes[safe] if len(picked) else 0)
    certain = certain | (none & np.isneginf(top))
    return Labels(codes, values, None if certain.all() else certain)


def _best(keys: np.ndarray, groups: Groups) -> np.ndarray:
    """The first row of each group with the largest key; -1 where no row has one."""
    index, count_ = groups
    found = np.full(count_, -1)
    usable = np.flatnonzero(~np.isnan(keys))
    order = usable[np.lexsort((-usable, keys[usable], index[usable]))]
    found[index[order]] = order
    return found


def at_largest(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Vector:
    """ARG_MAX(value, number)."""
    return _at(operands, weight, groups, 1.0)


def at_smallest(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Vector:
    """ARG_MIN(value, number)."""
    return _at(operands, weight, groups, -1.0)


def _at(operands: Sequence[Vector], weight: Weight, groups: Groups, sign: float) -> Vector:
    values, keys = operands[0], operands[1]
    if isinstance(keys, (Labels, Bins)):
        numbers = Interval.exact(sign * keys.ranks)
    else:
        numbers = to_interval(keys) if sign > 0 else -to_interval(keys)
    kept = _present(values, _present(keys, weight))
    best = _best(np.where(kept.value >= 0.5, numbers.value, np.nan), groups)
    count_ = groups[1]
    certain = np.zeros(count_, dtype=bool)
    hull = [np.full(count_, np.inf), np.full(count_, -np.inf)]
    bounds = to_interval(values) if isinstance(values, (Interval, Truth)) else None
    for group, members in _by_group(groups):
        row = int(best[group])
        if row < 0:
            continue
        rivals = members[kept.possible[members] & (members != row)]
        certain[group] = bool(kept.sure[row] and (numbers.high[rivals] <= numbers.low[row]).all())
        if bounds is not None:
            floor = numbers.low[row] if kept.sure[row] else -np.inf
            candidates = members[kept.possible[members] & (numbers.high[members] >= floor)]
            hull[0][group], hull[1][group] = bounds.low[candidates].min(), bounds.high[candidates].max()
    if bounds is not None:
        return Interval(np.append(bounds.value, np.nan)[best], hull[0], hull[1])
    picked = values.labelled() if isinstance(values, Bins) else values
    assert isinstance(picked, Labels), "truth values are numbers here"
    listed = (*picked.values, None)
    codes = np.append(picked.codes, len(listed) - 1)[best]
    return Labels(codes, listed, None if certain.all() else certain)


def first(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Vector:
    """ANY_VALUE and FIRST: the value of the first present row."""
    vector = operands[0]
    kept = _present(vector, weight)
    keys = np.where(kept.value >= 0.5, -np.arange(rows_of(vector), dtype=float), np.nan)
    best = _best(keys, groups)
    if isinstance(vector, (Interval, Truth)):
        numbers = to_interval(vector)
        low = -_most(np.where(kept.possible, -numbers.low, -np.inf), groups)
        high = _most(np.where(kept.possible, numbers.high, -np.inf), groups)
        return Interval(np.append(numbers.value, np.nan)[best], low, high)
    picked = vector.labelled() if isinstance(vector, Bins) else vector
    listed = (*picked.values, None)
    same = np.zeros(groups[1], dtype=bool)
    for group, members in _by_group(groups):
        values = {picked.values[code] for code in picked.codes[members[kept.possible[members]]]}
        same[group] = len(values) <= 1 and bool(kept.sure[members].any())
    codes = np.append(picked.codes, len(listed) - 1)[best]
    return Labels(codes, listed, None if same.all() else same)


def distinct_values(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Interval:
    """COUNT(DISTINCT x) of known values."""
    vector = operands[0]
    labels = vector.labelled() if isinstance(vector, Bins) else vector
    assert isinstance(labels, Labels), "noisy numbers have no distinct values"
    kept = _present(vector, weight)
    index, count_ = groups
    canonical = Labels.of(labels.values).codes[labels.codes]
    size = len(labels.values)
    pairs, places = np.unique(index * size + canonical, return_inverse=True)
    owner = (pairs // size, count_)
    parts = []
    for part in (kept.value >= 0.5, kept.sure, kept.possible):
        seen = np.zeros(len(pairs))
        np.maximum.at(seen, places, part.astype(float))
        parts.append(_sums(seen, owner))
    return Interval(*parts)


def every(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Vector:
    """BOOL_AND."""
    return between_truths(smallest([to_truth(operands[0])], weight, groups))


def some(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Vector:
    """BOOL_OR."""
    return between_truths(largest([to_truth(operands[0])], weight, groups))


def quantile_rows(part: float, *, continuous: bool, descending: bool) -> Reducer:
    """QUANTILE of the rows: order statistics of the lower and of the upper ends bound that of the truth."""

    def statistic(numbers: np.ndarray) -> float:
        return (
            -order_statistic(-numbers, part, continuous) if descending else order_statistic(numbers, part, continuous)
        )

    def reduce(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Interval:
        numbers, kept = to_interval(operands[0]), _present(operands[0], weight)
        value, low, high = (np.full(groups[1], np.nan) for _ in range(3))
        for group, members in _by_group(groups):
            held = members[kept.value[members] >= 0.5]
            if held.size:
                value[group] = statistic(numbers.value[held])
            possible, sure = members[kept.possible[members]], members[kept.sure[members]]
            if len(possible) == len(sure):
                if sure.size:
                    low[group] = statistic(numbers.low[sure])
                    high[group] = statistic(numbers.high[sure])
            else:
                low[group], high[group] = numbers.low[possible].min(), numbers.high[possible].max()
        null = _sums(kept.sure.astype(float), groups) == 0
        return Interval(value, low, high, null if null.any() else None)

    return reduce


def order_statistic(numbers: np.ndarray, part: float, continuous: bool) -> float:
    ordered = np.sort(numbers)
    if not continuous:
        return float(ordered[max(math.ceil(len(ordered) * part - 1e-9), 1) - 1])
    place = (len(ordered) - 1) * part
    below = math.floor(place + 1e-9)
    above = min(below + 1, len(ordered) - 1)
    share = max(place - below, 0.0)
    if share == 0.0 or ordered[above] == ordered[below] or np.isinf(ordered[below]):
        return float(ordered[below])
    if np.isinf(ordered[above]):
        return float(ordered[above])
    return float(ordered[below] + share * (ordered[above] - ordered[below]))


def deviation_rows(*, sample: bool, root: bool) -> Reducer:
    """VARIANCE and STDDEV of the rows: |sd(x) - sd(m)| <= sqrt(mean r^2)."""

    def reduce(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Interval:
        numbers, kept = to_interval(operands[0]), _present(operands[0], weight)
        index, _ = groups
        size = _sums(kept.value, groups)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            values = np.where(kept.value > 0, np.nan_to_num(numbers.value), 0.0)
            middle = _sums(values * kept.value, groups) / size
            square = _sums(kept.value * (values - middle[index]) ** 2, groups)
            radii = np.where(kept.possible, np.nan_to_num(numbers.reach, nan=np.inf), 0.0)
            hidden = np.sqrt(_sums(radii**2, groups) / size)
            deviation = np.sqrt(square / size)
            certain = _sums((kept.possible & ~kept.sure).astype(float), groups) == 0
            hidden = np.where(certain, hidden, np.inf)
            low, high = np.maximum(deviation - hidden, 0.0), deviation + hidden
            factor = size / (size - 1) if sample else np.ones(groups[1])
            ends = [end**2 * factor for end in (deviation, low, high)]
            ends = [np.sqrt(end) if root else end for end in ends]
            few = size < (1.5 if sample else 0.5)
        value, low, high = (np.where(few, np.nan, end) for end in ends)
        return Interval(value, low, high, ~certain if not certain.all() else None)

    return reduce


def joint(what: str) -> Reducer:
    """COVAR, CORR and REGR of the rows; certified if every number is known."""

    def reduce(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Interval:
        y, x = (to_interval(operand) for operand in operands)
        kept = _present(operands[1], _present(operands[0], weight))
        found, certain = np.full(groups[1], np.nan), np.ones(groups[1], dtype=bool)
        for group, members in _by_group(groups):
            held = members[kept.value[members] >= 0.5]
            found[group] = of_pairs(what, y.value[held], x.value[held])
            loose = kept.possible[members] & ~kept.sure[members]
            certain[group] = bool((y.decided & x.decided)[members].all() and not loose.any())
        return Interval(found, np.where(certain, found, -np.inf), np.where(certain, found, np.inf))

    return reduce


def of_pairs(what: str, y: np.ndarray, x: np.ndarray) -> float:
    """A statistic of two columns of numbers."""
    size = len(x)
    if what == "count":
        return float(size)
    if size == 0 or (what == "sample covariance" and size < 2):
        return math.nan
    mean_x, mean_y = float(x.mean()), float(y.mean())
    sxx, syy = float(((x - mean_x) ** 2).sum()), float(((y - mean_y) ** 2).sum())
    sxy = float(((x - mean_x) * (y - mean_y)).sum())
    plain = {"mean x": mean_x, "mean y": mean_y, "sxx": sxx, "syy": syy, "sxy": sxy, "covariance": sxy / size}
    if what in plain:
        return plain[what]
    if what == "sample covariance":
        return sxy / (size - 1)
    if sxx == 0 or (what in ("correlation",) and syy == 0):
        return math.nan
    if what == "correlation":
        return sxy / math.sqrt(sxx * syy)
    if what == "r2":
        return 1.0 if syy == 0 else sxy**2 / (sxx * syy)
    slope = sxy / sxx
    return slope if what == "slope" else mean_y - slope * mean_x


def joined_texts(separator: str, *, descending: bool = False, distinct: bool = False) -> Reducer:
    """STRING_AGG of known texts, in the order of the rows or of a second operand; `distinct` ones once each."""

    def reduce(operands: Sequence[Vector], weight: Weight, groups: Groups) -> Labels:
        vector = operands[0]
        labels = vector.labelled() if isinstance(vector, Bins) else vector
        assert isinstance(labels, Labels), "numbers were refused"
        kept, found = _present(vector, weight), []
        certain = np.ones(groups[1], dtype=bool)
        listed: dict[int, np.ndarray] = dict(_by_group(groups))
        ranks, sure = (None, True) if len(operands) == 1 else _ranks_of(operands[1])
        for group in range(groups[1]):
            members = listed.get(group, np.zeros(0, dtype=int))
            held = members[kept.value[members] >= 0.5]
            certain[group] = bool((kept.sure[members] == kept.possible[members]).all()) and (sure or held.size < 2)
            if ranks is not None:
                keys = -ranks[held] if descending else ranks[held]
                held = held[np.argsort(keys, kind="stable")]  # NaN, which is NULL, comes last
            listed_words = [text(labels.values[code]) for code in labels.codes[held].tolist()]
            words = separator.join(dict.fromkeys(listed_words) if distinct else listed_words)
            found.append(words[:LONGEST_TEXT] if held.size else None)
        outcome = Labels.of(found)
        return Labels(outcome.codes, outcome.values, None if certain.all() else certain)

    return reduce


def _ranks_of(vector: Vector) -> tuple[np.ndarray, bool]:
    """Numbers by which rows are sorted, and whether their order is known."""
    if isinstance(vector, (Labels, Bins)):
        return vector.ranks, True
    numbers = to_interval(vector)
    return numbers.value, bool((numbers.low == numbers.high).all())


def _by_group(groups: Groups) -> list[tuple[int, np.ndarray]]:
    index, _ = groups
    if not len(index):
        return []
    order = np.argsort(index, kind="stable")
    cuts = np.flatnonzero(np.diff(index[order])) + 1
    return [(int(index[part[0]]), part) for part in np.split(order, cuts)]


@dataclass(frozen=True, eq=False)
class Reduced(Expr):
    """An aggregate of the rows of another table, by public groups."""

    reducer: Reducer
    operands: tuple[Expr, ...]
    presence: Expr | None
    index: np.ndarray
    """The group of each row of the other table."""
    rows: int = field()
    kind: str = field()
    tight: Expr | None = None
    """The same number as a measure of its own, which may be known better."""

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        found = self.operands if self.presence is None else (*self.operands, self.presence)
        return found if self.tight is None else (*found, self.tight)

    @property
    def cost(self) -> int:
        return 60 * array_steps(len(self.index)) + GROUP_STEPS * self.rows

    def evaluate(self, run: Run) -> Vector:
        truth = None if self.presence is None else run.truth(self.presence).is_true()
        weight = Weight.of(truth, len(self.index))
        found = self.reducer([run.of(operand) for operand in self.operands], weight, (self.index, self.rows))
        if self.tight is not None and isinstance(found, Interval):
            better = run.numbers(self.tight)
            return found.meet(Interval(found.value, better.low, better.high))
        return found
