"""Conditions over bounded columns: comparisons and choices that may be undecided, with SQL's three truth values."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.sql.intervals import Interval
from reticent.sql.vectors import (
    INTEGER,
    NULL,
    NUMBER,
    TEMPORAL,
    TRUTH,
    Bins,
    Labels,
    Truth,
    Vector,
    rows_of,
    stacked,
    to_interval,
    to_truth,
)

POINTS = 8
"""Places within a bin at which a comparison of two bins is tried."""
_SIGNS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def all_true(*operands: Vector) -> Truth:
    return reduce(operator.and_, map(to_truth, operands))


def any_true(*operands: Vector) -> Truth:
    return reduce(operator.or_, map(to_truth, operands))


def negation(operand: Vector) -> Truth:
    return ~to_truth(operand)


def is_true(operand: Vector) -> Truth:
    return to_truth(operand).is_true()


def is_false(operand: Vector) -> Truth:
    return (~to_truth(operand)).is_true()


def is_null(operand: Vector) -> Truth:
    rows = rows_of(operand)
    never = np.zeros(rows, dtype=bool)
    if isinstance(operand, Interval):
        return Truth(np.isnan(operand.value).astype(float), operand.maybe_null, operand.number, never)
    if isinstance(operand, Truth):
        return Truth(np.isnan(operand.value).astype(float), operand.null, operand.true | operand.false, never)
    missing = operand.null
    if isinstance(operand, Labels) and operand.certain is not None:
        return Truth(missing.astype(float), missing | ~operand.certain, ~missing | ~operand.certain, never)
    return Truth.exact(missing.astype(float))


def same(one: Vector, other: Vector) -> Truth:
    """IS NOT DISTINCT FROM: equal, or both NULL; never unknown."""
    equal = comparison(exp.EQ, discrete=True, spread=False)(one, other).is_true()
    return equal | (is_null(one) & is_null(other))


def comparison(sign: type[exp.Expr], *, discrete: bool, spread: bool) -> Callable[[Vector, Vector], Truth]:
    """One of = <> < <= > >=. `discrete` numbers are whole; `spread` numbers are distributed uniformly within their
    bounds.
    """

    def compared(one: Vector, other: Vector) -> Truth:
        if isinstance(one, Labels) and isinstance(other, Labels):
            return _exactly(sign, one, other)
        if sign in (exp.GT, exp.GTE):
            mirrored = exp.LT if sign is exp.GT else exp.LTE
            return comparison(mirrored, discrete=discrete, spread=spread)(other, one)
        first, second = to_interval(one), to_interval(other)
        if sign in (exp.EQ, exp.NEQ):
            found = _equal(first, second, discrete=discrete, spread=spread)
            return ~found if sign is exp.NEQ else found
        return _less(first, second, sign is exp.LT, discrete=discrete, spread=spread)

    return compared


def _exactly(sign: type[exp.Expr], one: Labels, other: Labels) -> Truth:
    """Known values against known values."""
    holds = _SIGNS[sign]
    if len(one.values) == 1 or len(other.values) == 1:
        left, right = np.broadcast_arrays(one.codes, other.codes)
        pairs = [(a, b) for a in range(len(one.values)) for b in range(len(other.values))]
        places = left * len(other.values) + right
    else:
        joint = one.codes * len(other.values) + other.codes
        distinct, places = np.unique(joint, return_inverse=True)
        pairs = [divmod(int(pair), len(other.values)) for pair in distinct]
    outcomes = []
    for a, b in pairs:
        x, y = _plain(one.values[a]), _plain(other.values[b])
        outcomes.append(np.nan if x is None or y is None else float(holds(x, y)))
    found = Truth.exact(np.array(outcomes, dtype=float)[places])
    if one.certain is None and other.certain is None:
        return found
    open_ = ~(_certain(one) & _certain(other))
    return Truth(found.value, found.true | open_, found.false | open_, found.null | open_)


def _certain(labels: Labels) -> np.ndarray:
    return np.ones(len(labels), dtype=bool) if labels.certain is None else labels.certain


def _plain(value: Any) -> Any:
    """Dates and datetimes compare as instants."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    return value


def _equal(one: Interval, other: Interval, *, discrete: bool, spread: bool) -> Truth:
    with np.errstate(invalid="ignore"):
        true = (one.low <= other.high) & (other.low <= one.high)
        false = (
            one.number & other.number & ~((one.low == one.high) & (other.low == other.high) & (one.low == other.low))
        )
        value = (one.value == other.value).astype(float)
        if spread:
            width = np.maximum(one.high - one.low, other.high - other.low)
            part = 1.0 / (width + 1.0) if discrete else np.full(len(value), 0.5)
            value = np.where(true & false, part, true.astype(float))
    return _with_null(value, true, false, one, other)


def _less(one: Interval, other: Interval, strict: bool, *, discrete: bool, spread: bool) -> Truth:
    with np.errstate(invalid="ignore"):
        if strict:
            true, false = one.low < other.high, one.high >= other.low
            value = (one.value < other.value).astype(float)
        else:
            true, false = one.low <= other.high, one.high > other.low
            value = (one.value <= other.value).astype(float)
        if spread:
            value = true.astype(float)
            open_ = np.flatnonzero(true & false)
            if open_.size:
                value[open_] = _part_below(one.take(open_), other.take(open_), strict, discrete)
    return _with_null(value, true, false, one, other)


def _part_below(one: Interval, other: Interval, strict: bool, discrete: bool) -> np.ndarray:
    """The probability that one number is below another, if both are uniform within their bounds."""
    with np.errstate(invalid="ignore", divide="ignore"):
        known = other.low == other.high
        width = one.high - one.low
        if discrete:
            below = (np.ceil(other.low) if strict else np.floor(other.low) + 1) - one.low
            part = below / (width + 1)
        else:
            part = np.where(width > 0, (other.low - one.low) / width, 0.5)
        tries = (np.arange(POINTS) + 0.5) / POINTS
        reach = other.high - other.low
        each = [np.clip((other.high - (one.low + width * t)) / reach, 0.0, 1.0) for t in tries]
        both = np.mean(each, axis=0)
        return np.clip(np.where(known, part, both), 0.0, 1.0)


def _with_null(value: np.ndarray, true: np.ndarray, false: np.ndarray, one: Interval, other: Interval) -> Truth:
    unknown = np.isnan(one.value) | np.isnan(other.value)
    null = one.maybe_null | other.maybe_null
    return Truth(np.where(unknown, np.nan, value), true, false, null)


def first_number(*operands: Interval) -> Interval:
    """COALESCE of bounded numbers."""
    return reduce(Interval.filled, operands)


def folded(pick: Callable[[Interval, Interval], Interval]) -> Callable[..., Interval]:
    return lambda *operands: reduce(pick, operands)


def as_labels(vectors: Sequence[Vector]) -> list[Labels]:
    """Columns of values, the likeliest if they are undecided."""
    found = []
    for vector in vectors:
        if isinstance(vector, (Bins, Truth)):
            found.append(vector.labelled())
        else:
            assert isinstance(vector, Labels), "numbers are not values"
            found.append(vector)
    return found


def first_true(tests: Sequence[Vector], values: Sequence[Vector], kind: str) -> Vector:
    """CASE: the value of the first true test; the last value if none is true."""
    truths = [to_truth(test).is_true() for test in tests]
    if kind in (NUMBER, INTEGER, *TEMPORAL) and not _all_exact(truths, values):
        return _bounded_choice(truths, [to_interval(value) for value in values])
    if kind == TRUTH and not _all_exact(truths, values):
        return _judged_choice(truths, [to_truth(value) for value in values])
    labels = [vector.labelled() if isinstance(vector, Bins) else as_labels((vector,))[0] for vector in values]
    rows = len(truths[0])
    chosen = np.full(rows, len(truths))
    certain = np.ones(rows, dtype=bool)
    for place in reversed(range(len(truths))):
        chosen = np.where(truths[place].holds, place, chosen)
        certain &= truths[place].decided
    pool = stacked(labels, NULL)
    assert isinstance(pool, Labels), "labels stay labels"
    picked = pool.take(chosen * rows + np.arange(rows))
    sure = certain if picked.certain is None else certain & picked.certain
    return Labels(picked.codes, picked.values, None if sure.all() else sure)


def _all_exact(truths: Sequence[Truth], values: Sequence[Vector]) -> bool:
    exact = all(isinstance(value, Labels) and value.certain is None for value in values)
    return exact and all(truth.decided.all() for truth in truths)


def _bounded_choice(truths: Sequence[Truth], values: Sequence[Interval]) -> Interval:
    found = values[-1]
    for truth, value in zip(reversed(truths), reversed(values[:-1]), strict=True):
        mixed = truth.true & truth.false
        either = value.hull(found, truth.holds)
        with np.errstate(invalid="ignore"):
            # A part of a bin takes one branch and the rest the other: the mean of both stands for it.
            part = (truth.value > 0) & (truth.value < 1)
            blend = truth.value * value.value + (1 - truth.value) * found.value
        estimate = np.where(part & ~np.isnan(blend), blend, either.value)
        either = Interval(estimate, either.low, either.high, either.null)
        found = either.where(mixed, value.where(truth.sure, found))
    return found


def _judged_choice(truths: Sequence[Truth], values: Sequence[Truth]) -> Truth:
    found = values[-1]
    for truth, value in zip(reversed(truths), reversed(values[:-1]), strict=True):
        chosen = truth.holds
        found = Truth(
            np.where(chosen, value.value, found.value),
            (truth.true & value.true) | (truth.false & found.true),
            (truth.true & value.false) | (truth.false & found.false),
            (truth.true & value.null) | (truth.false & found.null),
        )
    return found
