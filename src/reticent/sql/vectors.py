"""Columns of a small table with public keys: exact values, bins, noisy numbers, and conditions that may be undecided.

The rows are groups of a result, or the cells of a few columns of the domain: the same expressions are evaluated over
both. A cell determines each column up to its code, a group each aggregate up to an interval; both are bounded numbers.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from reticent.domain import OTHER_LABEL, Categorical, Numeric
from reticent.domain.attribute import Attribute
from reticent.domain.values import date_at, datetime_at, day_of, microsecond_of
from reticent.sql.intervals import Interval
from reticent.sql.refusals import refused

NUMBER, INTEGER, TEXT, TRUTH = "number", "integer", "text", "truth"
DATE, TIMESTAMP, DURATION, NULL = "date", "timestamp", "duration", "null"
NUMERIC = (NUMBER, INTEGER, TRUTH)
TEMPORAL = (DATE, TIMESTAMP)
DAY = 86_400_000_000
"""Microseconds."""
SHOWN_UNIT = {TIMESTAMP: float(DAY)}
"""Of errors that are shown and asked for, in the unit of the computation: days for times; 1 for other kinds."""
KEPT_CODES = 2**14
"""Columns with more codes are computed anew each time: what is kept has a bound."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Values of any kind by row, as codes into a list; None is NULL."""

    codes: np.ndarray
    values: tuple[Any, ...]
    certain: np.ndarray | None = None
    """Rows whose value is decided; None where all are. Elsewhere the value is the likeliest, and may be any other."""

    @classmethod
    def of(cls, values: Sequence[Any]) -> Labels:
        """One value per row; 1, 1.0 and True are different values."""
        places: dict[tuple[type, Any], int] = {}
        codes = [places.setdefault((type(value), value), len(places)) for value in values]
        return cls(np.array(codes, dtype=np.int64), tuple(value for _, value in places))

    @classmethod
    def constant(cls, value: Any, rows: int) -> Labels:
        return cls(np.broadcast_to(np.int64(0), rows), (value,))

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> Labels:
        return Labels(self.codes[rows], self.values, None if self.certain is None else self.certain[rows])

    def spread(self, rows: int) -> Labels:
        if len(self) == rows:
            return self
        return Labels(
            np.repeat(self.codes, rows), self.values, None if self.certain is None else self.certain.repeat(rows)
        )

    def listed(self) -> list[Any]:
        return [self.values[code] for code in self.codes.tolist()]

    @property
    def null(self) -> np.ndarray:
        return np.array([value is None for value in self.values], dtype=bool)[self.codes]

    @property
    def ranks(self) -> np.ndarray:
        """By size within one kind; numbers come before text, NaN for NULL."""
        known = sorted((value for value in self.values if value is not None), key=_sort_key)
        places: dict[Any, int] = {}
        for value in known:
            places.setdefault(_sort_key(value), len(places))
        ranks = [np.nan if value is None else float(places[_sort_key(value)]) for value in self.values]
        return np.array(ranks, dtype=float)[self.codes]


class BinText(str):
    """The text of a bin in a column that also holds NULL or values in doubt: it sorts by the numbers of the bin."""

    rank: float

    @classmethod
    def of(cls, text: str, rank: float) -> BinText:
        found = cls(text)
        found.rank = rank
        return found


def _sort_key(value: Any) -> tuple[int, Any]:
    if isinstance(value, BinText):
        return 0, value.rank
    if isinstance(value, str):
        return 2, value
    if isinstance(value, datetime.date):
        return 1, microsecond_of(value)
    return (1, value.total_seconds()) if isinstance(value, datetime.timedelta) else (0, value)


@dataclass(frozen=True, eq=False)
class Bins:
    """A column of numbers or dates by row, each known by its code: public, shown by the text of its bin."""

    codes: np.ndarray
    attribute: Attribute
    open: bool = False
    """Whether the last bin is taken without its upper edge, where values beyond it are clamped to."""

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> Bins:
        return Bins(self.codes[rows], self.attribute, self.open)

    def spread(self, rows: int) -> Bins:
        return self if len(self) == rows else Bins(np.repeat(self.codes, rows), self.attribute, self.open)

    @property
    def interval(self) -> Interval:
        """Where a record's own number may lie; `(other)` has none."""
        found = bounds_of(self.attribute)
        return (_opened(found, self.attribute) if self.open else found).take(self.codes)

    def listed(self) -> list[Any]:
        """The text of each bin; one whole number is shown as that number."""
        shown = shown_values(self.attribute)
        return [shown[code] for code in self.codes.tolist()]

    @property
    def null(self) -> np.ndarray:
        code = self.attribute.null_code
        return np.zeros(len(self), dtype=bool) if code is None else self.codes == code

    @property
    def ranks(self) -> np.ndarray:
        """Numbers by size, `(other)` after them, NaN for NULL."""
        numbers = np.array(self.attribute.representatives, dtype=float)
        if (other := self.attribute.other_code) is not None:
            numbers[other] = np.inf
        return numbers[self.codes]

    def labelled(self) -> Labels:
        """The texts as values, for a column that also holds others."""
        pairs = zip(self.listed(), self.ranks.tolist(), strict=True)
        return Labels.of([BinText.of(text, rank) if isinstance(text, str) else text for text, rank in pairs])


@dataclass(frozen=True, eq=False)
class Truth:
    """A condition by row: an estimate (1 true, 0 false, a fraction where a part of a bin is, NaN unknown), and which
    of the three outcomes are possible."""

    value: np.ndarray
    true: np.ndarray
    false: np.ndarray
    null: np.ndarray

    def __len__(self) -> int:
        return len(self.value)

    @classmethod
    def exact(cls, value: np.ndarray) -> Truth:
        """Of 1, 0 and NaN."""
        return cls(value, value == 1.0, value == 0.0, np.isnan(value))

    @classmethod
    def guess(cls, value: np.ndarray) -> Truth:
        """An estimate about which nothing is known."""
        possible = np.ones(len(value), dtype=bool)
        return cls(value, possible, possible, possible)

    @property
    def decided(self) -> np.ndarray:
        return self.true.astype(int) + self.false + self.null == 1

    @property
    def holds(self) -> np.ndarray:
        """Where the estimate says true."""
        with np.errstate(invalid="ignore"):
            return self.value >= 0.5

    @property
    def sure(self) -> np.ndarray:
        """Where it is certainly true."""
        return self.true & ~self.false & ~self.null

    def take(self, rows: np.ndarray) -> Truth:
        return Truth(self.value[rows], self.true[rows], self.false[rows], self.null[rows])

    def spread(self, rows: int) -> Truth:
        if len(self) == rows:
            return self
        return Truth(*(np.broadcast_to(part, rows) for part in (self.value, self.true, self.false, self.null)))

    def __invert__(self) -> Truth:
        return Truth(1.0 - self.value, self.false, self.true, self.null)

    def __and__(self, other: Truth) -> Truth:
        with np.errstate(invalid="ignore"):
            value = np.where((self.value == 0) | (other.value == 0), 0.0, self.value * other.value)
        true, false = self.true & other.true, self.false | other.false
        # Unknown needs one unknown side and another that is not false.
        null = (self.null & (other.null | other.true)) | (other.null & (self.null | self.true))
        return Truth(value, true, false, null)

    def __or__(self, other: Truth) -> Truth:
        return ~(~self & ~other)

    def is_true(self) -> Truth:
        """Two-valued: what is not true is false."""
        value = np.where(np.isnan(self.value), 0.0, self.value)
        return Truth(value, self.true, self.false | self.null, np.zeros(len(self), dtype=bool))

    def labelled(self) -> Labels:
        """The likeliest outcome as a value."""
        codes = np.where(np.isnan(self.value), 2, np.where(self.holds, 0, 1))
        decided = self.decided
        return Labels(codes, (True, False, None), None if decided.all() else decided)


Vector = Labels | Bins | Truth | Interval


def rows_of(vector: Vector) -> int:
    return len(vector.value) if isinstance(vector, Interval) else len(vector)


def taken(vector: Vector, picks: np.ndarray) -> Vector:
    """Rows by number, NULL where the number is negative."""
    missing = picks < 0
    if not missing.any():
        return vector.take(picks)
    safe = np.where(missing, 0, picks)
    if isinstance(vector, Interval):
        return Interval.exact(np.full(len(picks), np.nan)).where(missing, _padded(vector, safe))
    if isinstance(vector, Truth):
        found, none = vector.take(safe), np.full(len(picks), np.nan)
        return Truth(
            np.where(missing, none, found.value),
            found.true & ~missing,
            found.false & ~missing,
            found.null | missing,
        )
    labels = vector.labelled() if isinstance(vector, Bins) else vector
    values = (*labels.values, None)
    codes = np.where(missing, len(values) - 1, labels.codes[safe] if len(labels) else 0)
    certain = None if labels.certain is None else labels.certain[safe] | missing
    return Labels(codes, values, certain)


def _padded(vector: Interval, rows: np.ndarray) -> Interval:
    return vector.take(rows) if len(vector.value) else Interval.exact(np.full(len(rows), np.nan))


def stacked(vectors: Sequence[Vector], kind: str) -> Vector:
    """One below the other."""
    if all(isinstance(vector, Bins) for vector in vectors) and len({v.attribute for v in vectors}) == 1:  # type: ignore[union-attr]
        return Bins(np.concatenate([vector.codes for vector in vectors]), vectors[0].attribute)  # type: ignore[union-attr]
    if kind in (NUMBER, INTEGER, DATE, TIMESTAMP) and any(isinstance(vector, (Interval, Truth)) for vector in vectors):
        parts = [to_interval(vector) for vector in vectors]
        maybe = np.concatenate([part.maybe_null for part in parts])
        value, low, high = (np.concatenate([getattr(part, end) for part in parts]) for end in ("value", "low", "high"))
        return Interval(value, low, high, maybe if maybe.any() else None)
    if any(isinstance(vector, Truth) for vector in vectors):
        truths = [to_truth(vector) for vector in vectors]
        return Truth(
            *(np.concatenate([getattr(t, name) for t in truths]) for name in ("value", "true", "false", "null"))
        )
    parts = [vector.labelled() if isinstance(vector, Bins) else vector for vector in vectors]
    offsets = np.cumsum([0, *(len(part.values) for part in parts)])  # type: ignore[union-attr]
    codes = np.concatenate([part.codes + offset for part, offset in zip(parts, offsets, strict=False)])  # type: ignore[union-attr]
    values = tuple(value for part in parts for value in part.values)  # type: ignore[union-attr]
    certain = None
    if any(part.certain is not None for part in parts):  # type: ignore[union-attr]
        sure = [np.ones(len(part), bool) if part.certain is None else part.certain for part in parts]  # type: ignore[union-attr, arg-type]
        certain = np.concatenate(sure)
    return Labels(codes, values, certain)


def bounds_of(attribute: Attribute) -> Interval:
    """For each code the representative, and the smallest and largest number of its bin."""
    return _kept_bounds(attribute) if attribute.size <= KEPT_CODES else _bounds(attribute)


def _bounds(attribute: Attribute) -> Interval:
    numbers = attribute.representatives
    if numbers is None:
        raise refused("a column of text is used where a number is needed", "use a column of numbers")
    if not isinstance(attribute, Numeric):
        return Interval.exact(np.array(numbers, dtype=float))
    low, high = np.full(attribute.size, np.nan), np.full(attribute.size, np.nan)
    low[: attribute.known], high[: attribute.known] = attribute.cuts[:-1], attribute.cuts[1:]
    inner = slice(0, attribute.known - 1)
    # The upper end belongs to the next bin: what comes just before it is the largest number of this one.
    high[inner] = high[inner] - 1 if attribute.whole else np.nextafter(high[inner], -np.inf)
    return Interval(np.array(numbers, dtype=float), low, high)


def _opened(found: Interval, attribute: Attribute) -> Interval:
    if not isinstance(attribute, Numeric):
        return found
    high, last = found.high.copy(), attribute.known - 1
    before = high[last] - 1 if attribute.whole else np.nextafter(high[last], -np.inf)
    high[last] = max(before, found.value[last], found.low[last])
    return Interval(found.value, found.low, high)


_kept_bounds = lru_cache(maxsize=64)(_bounds)


def shown_values(attribute: Attribute) -> tuple[Any, ...]:
    """What each code of a column is shown as: a category, the text of a bin, None for null."""
    return attribute.group_keys


def computed_kind(kind: str) -> str:
    """The kind of what is computed from a number: truth values count as 1 and 0."""
    return INTEGER if kind == TRUTH else kind


def kind_of(attribute: Attribute) -> str:
    """The kind of a column's values."""
    if isinstance(attribute, Numeric):
        if attribute.kind == "number":
            return INTEGER if attribute.whole else NUMBER
        return DATE if attribute.kind == "date" else TIMESTAMP
    if isinstance(attribute, Categorical):
        if attribute.kind == "text":
            return TEXT
        if attribute.kind == "truth values":
            return TRUTH
        return INTEGER if all(isinstance(value, int) for value in attribute.values) else NUMBER
    return INTEGER


def column_vector(attribute: Attribute, codes: np.ndarray, *, literal: bool = False) -> Vector:
    """A column of the domain over rows whose codes are given; `literal`: `(other)` is a value of its own."""
    if isinstance(attribute, Numeric) or (attribute.representatives is not None and attribute.other):
        return Bins(codes, attribute)
    values = [attribute.value(code) for code in range(attribute.size)]
    if hides_null(attribute) and not literal:
        values[attribute.size - 1] = None
    return Labels(codes, tuple(values))


def hides_null(attribute: Attribute) -> bool:
    """Whether a column of truth values has an `(other)` code, which is NULL in SQL: no truth value is another one."""
    return attribute.other and kind_of(attribute) == TRUTH


def comparable_number(value: Any) -> float:
    """Dates in days and datetimes in microseconds since 1970; NaN for NULL."""
    if value is None:
        return np.nan
    if isinstance(value, datetime.datetime):
        return float(microsecond_of(value))  # pyright: ignore[reportArgumentType]
    if isinstance(value, datetime.date):
        return float(day_of(value))  # pyright: ignore[reportArgumentType]
    if isinstance(value, (bool, int, float)):
        return float(value)
    raise refused(f"{value if len(str(value)) < 40 else 'a text'} is not a number", "use a column of numbers")


def value_at(number: float, kind: str) -> Any:
    """The inverse of `number_of`."""
    if np.isnan(number):
        return None
    if kind == DATE:
        return date_at(np.floor(number))
    if kind == TIMESTAMP:
        return datetime_at(np.floor(number))
    if kind == TRUTH:
        return bool(number)
    return int(number) if kind == INTEGER and np.isfinite(number) else float(number)


def to_interval(vector: Vector) -> Interval:
    """Any column as bounded numbers."""
    if isinstance(vector, Interval):
        return vector
    if isinstance(vector, Bins):
        return vector.interval
    if isinstance(vector, Truth):
        low = np.where(vector.false, 0.0, np.where(vector.true, 1.0, np.nan))
        high = np.where(vector.true, 1.0, np.where(vector.false, 0.0, np.nan))
        maybe = vector.null & (vector.true | vector.false)
        return Interval(vector.value, low, high, maybe if maybe.any() else None)
    numbers = np.array([comparable_number(value) for value in vector.values], dtype=float)[vector.codes]
    if vector.certain is None:
        return Interval.exact(numbers)
    unknown = Interval.unknown(numbers)
    return Interval(
        numbers,
        np.where(vector.certain, numbers, unknown.low),
        np.where(vector.certain, numbers, unknown.high),
        ~vector.certain,
    )


def to_truth(vector: Vector) -> Truth:
    """Any column as a condition: numbers are true where they are not zero."""
    if isinstance(vector, Truth):
        return vector
    if isinstance(vector, Labels):
        if any(isinstance(value, (str, datetime.date)) for value in vector.values):
            raise refused("a text is used where a condition is needed", "compare it with a value")
        outcome = [np.nan if value is None else float(bool(value)) for value in vector.values]
        found = Truth.exact(np.array(outcome, dtype=float)[vector.codes])
        if vector.certain is None:
            return found
        open_ = ~vector.certain
        return Truth(found.value, found.true | open_, found.false | open_, found.null | open_)
    numbers = to_interval(vector)
    with np.errstate(invalid="ignore"):
        zero = (numbers.low <= 0) & (numbers.high >= 0)
        other = (numbers.low < 0) | (numbers.high > 0)
        value = np.where(np.isnan(numbers.value), np.nan, (numbers.value != 0).astype(float))
    return Truth(value, other, zero, numbers.maybe_null)


def between_truths(vector: Vector) -> Truth:
    """Numbers computed from truth values, of which 1 is true and 0 false, as a condition."""
    numbers = to_interval(vector)
    with np.errstate(invalid="ignore"):
        return Truth(numbers.value, numbers.high >= 1.0, numbers.low <= 0.0, numbers.maybe_null)


def to_labels(vector: Vector, kind: str) -> Labels | None:
    """The exact values of a column, each with one code; None where a row is not one value."""
    if isinstance(vector, Labels):
        return _distinct(vector) if vector.certain is None else None
    if isinstance(vector, Truth):
        return Labels(vector.labelled().codes, (True, False, None)) if vector.decided.all() else None
    numbers = to_interval(vector)
    if not numbers.decided.all():
        return None
    distinct, codes = np.unique(numbers.value, return_inverse=True)
    return Labels(codes.astype(np.int64), tuple(value_at(float(number), kind) for number in distinct))


def _distinct(labels: Labels) -> Labels:
    """The same rows with one code for equal values: the branches of a CASE may have values in common."""
    codes, first = [], {}
    for value in map(comparable, labels.values):
        codes.append(first.setdefault((type(value), value), len(first)))
    if len(first) == len(codes):
        return labels
    kept = dict(zip(reversed(codes), reversed(labels.values), strict=True))
    return Labels(np.array(codes, dtype=np.int64)[labels.codes], tuple(kept[code] for code in range(len(first))))


def comparable(value: Any) -> Any:
    """1 and 1.0 are one value of a column, and so are a date and its midnight."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time())
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def settled(vector: Vector, kind: str) -> Vector:
    """A public column in its simplest form."""
    if isinstance(vector, (Labels, Bins)):
        return vector
    return to_labels(vector, kind) or vector


def shown_text(value: Any) -> Any:
    """A value as a result shows it: dates by their text."""
    if isinstance(value, BinText):
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, datetime.date) else value


def without_other(values: Sequence[Any]) -> list[Any]:
    """Declared values only."""
    return [value for value in values if value is not None and value != OTHER_LABEL]
