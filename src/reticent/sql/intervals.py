"""Interval arithmetic on columns of noisy numbers, so that stated errors are valid bounds for all derived numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Curve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Interval:
    """Values with the smallest and largest possible true number, one of each per row; NaN means NULL.

    If `low` and `high` are NaN too, the true value is certainly NULL. If a value is NaN and the ends are not, NULL is
    an estimate, and the true value may be any number between them.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    null: np.ndarray | None = None
    """Mask of rows with a value whose true value may be NULL; None if there are none."""

    @classmethod
    def exactly(cls, number: float, rows: int) -> Interval:
        value = np.full(rows, float(number))
        return cls(value, value, value)

    @classmethod
    def exact(cls, numbers: np.ndarray) -> Interval:
        """Known numbers, NaN for known NULLs."""
        return cls(numbers, numbers, numbers)

    @classmethod
    def unknown(cls, value: np.ndarray) -> Interval:
        """An estimate without any certified bound."""
        return cls(value, np.full(value.shape, -np.inf), np.full(value.shape, np.inf))

    @property
    def reach(self) -> np.ndarray:
        """The distance to the farther end if the true value is a number; infinite if nothing is certified, NaN if the
        value is NULL.
        """
        with np.errstate(invalid="ignore"):
            reach = np.maximum(self.high - self.value, self.value - self.low)
        return np.where(np.isnan(self.value), np.nan, np.maximum(reach, 0.0))

    @property
    def error(self) -> np.ndarray:
        """The same, but infinite if the true value may be NULL, because no number is within any distance of NULL."""
        return self.reach if self.null is None else np.where(self.null, self.reach + np.inf, self.reach)

    @property
    def maybe_null(self) -> np.ndarray:
        """Where the true value may be NULL."""
        missing = np.isnan(self.value)
        return missing if self.null is None else missing | self.null

    @property
    def number(self) -> np.ndarray:
        """Where the true value may be a number."""
        return ~np.isnan(self.low)

    @property
    def decided(self) -> np.ndarray:
        """Where the true value is known: one number, or NULL."""
        maybe = self.maybe_null
        return np.where(np.isnan(self.low), maybe, (self.low == self.high) & ~maybe)

    def __add__(self, other: Interval) -> Interval:
        with np.errstate(invalid="ignore", over="ignore"):
            return Interval(
                self.value + other.value, self.low + other.low, self.high + other.high, _either(self, other)
            )

    def __neg__(self) -> Interval:
        return Interval(-self.value, -self.high, -self.low, self.null)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        with np.errstate(invalid="ignore", over="ignore"):
            if other.low is other.high and ((other.low > 0) & (other.low < np.inf)).all():
                # A known positive factor, as the number of records: which ends are the corners is plain.
                low, high = self.low * other.low, self.high * other.low
                return Interval(self.value * other.value, low, high, _either(self, other))
            return Interval(self.value * other.value, *self._corners(other, np.multiply), _either(self, other))

    def __truediv__(self, other: Interval) -> Interval:
        """NULL where the divisor is zero; unbounded where it may be."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            vanishes = (other.low <= 0) & (other.high >= 0)
            # Not times an inverse, which is infinite for the smallest numbers.
            low, high = self._corners(other, np.divide)
            value = np.where(other.value == 0, np.nan, self.value / other.value)
        null = _either(self, other)
        if not vanishes.any():
            return Interval(value, low, high, null)
        gone = np.isnan(low) | (other.low == 0) & (other.high == 0)
        low, high = np.where(vanishes, -np.inf, low), np.where(vanishes, np.inf, high)
        none = np.where(gone, np.nan, value), np.where(gone, np.nan, low), np.where(gone, np.nan, high)
        return Interval(*none, vanishes if null is None else null | vanishes)

    def _corners(self, other: Interval, operation: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest result of any two ends; an unbounded number times zero is zero."""
        ends = np.stack([operation(a, b) for a in (self.low, self.high) for b in (other.low, other.high)])
        ends = np.where(np.isnan(ends), 0.0, ends)
        gone = np.isnan(self.low) | np.isnan(other.low)
        low, high = ends.min(axis=0), ends.max(axis=0)
        return (np.where(gone, np.nan, low), np.where(gone, np.nan, high)) if gone.any() else (low, high)

    def absolute(self) -> Interval:
        low, high = np.abs(self.low), np.abs(self.high)
        crosses = (self.low <= 0) & (self.high >= 0)
        smallest = np.where(crosses, 0.0, np.minimum(low, high))
        return Interval(np.abs(self.value), smallest, np.maximum(low, high), self.null)

    def rounded(self, decimals: int) -> Interval:
        """Halves away from zero."""
        return self.mapped(lambda numbers: away_from_zero(numbers, decimals))

    def mapped(self, rising: Curve) -> Interval:
        """A non-decreasing function of the number."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return Interval(rising(self.value), rising(self.low), rising(self.high), self.null)

    def within(self, function: Curve, low: float, high: float) -> Interval:
        """A function of the number with values in [low, high], for which no other property is used."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            value, exact = function(self.value), function(self.low)
        known, gone = self.low == self.high, np.isnan(self.low)
        return Interval(
            value,
            np.where(gone, np.nan, np.where(known, exact, low)),
            np.where(gone, np.nan, np.where(known, exact, high)),
            self.null,
        )

    def restricted(self, low: float, high: float = np.inf) -> Interval:
        """Only numbers in [low, high] have an image; others give NULL."""
        with np.errstate(invalid="ignore"):
            outside = (self.low < low) | (self.high > high)
            value = np.where((self.value < low) | (self.value > high), np.nan, self.value)
            none = (self.high < low) | (self.low > high)
        if not outside.any():
            return self
        ends = [np.where(none, np.nan, np.clip(end, low, high)) for end in (self.low, self.high)]
        return Interval(value, ends[0], ends[1], outside if self.null is None else self.null | outside)

    def clipped(self, low: float, high: float) -> Interval:
        """The true value is known to lie in [low, high]; the value itself is moved there too."""
        value, lower, upper = (np.clip(end, low, high) for end in (self.value, self.low, self.high))
        return Interval(value, lower, upper, self.null)

    def widened(self, by: np.ndarray) -> Interval:
        """The interval extended on both sides."""
        with np.errstate(invalid="ignore"):
            return Interval(self.value, self.low - by, self.high + by, self.null)

    def near(self, value: np.ndarray) -> Interval:
        """The same bounds, with the number between them nearest to another value; NULL stays where it is certain."""
        with np.errstate(invalid="ignore"):
            moved = np.where(np.isnan(self.low), np.nan, np.clip(value, self.low, self.high))
        return Interval(moved, self.low, self.high, self.null)

    def meet(self, other: Interval) -> Interval:
        """Both intervals hold; the value is moved to the nearest number that both allow.

        If they contradict each other, a bound has failed, and the first interval is kept.
        """
        low, high = np.fmax(self.low, other.low), np.fmin(self.high, other.high)
        with np.errstate(invalid="ignore"):
            empty = low > high
            low, high = np.where(empty, self.low, low), np.where(empty, self.high, high)
            value = np.where(np.isnan(self.value), np.nan, np.clip(self.value, low, high))
        return Interval(value, low, high, self.null)

    def hull(self, other: Interval, chosen: np.ndarray) -> Interval:
        """One of the two: the estimate says this one where `chosen`, and the truth may be either."""
        return Interval(
            np.where(chosen, self.value, other.value),
            np.fmin(self.low, other.low),
            np.fmax(self.high, other.high),
            self.maybe_null | other.maybe_null,
        )

    def where(self, mask: np.ndarray, other: Interval) -> Interval:
        """This one where the mask says so, else the other."""
        null = None
        if self.null is not None or other.null is not None:
            null = np.where(mask, self._null_mask(), other._null_mask())
        return Interval(
            np.where(mask, self.value, other.value),
            np.where(mask, self.low, other.low),
            np.where(mask, self.high, other.high),
            null,
        )

    def _null_mask(self) -> np.ndarray:
        return np.zeros(self.value.shape, dtype=bool) if self.null is None else self.null

    def take(self, rows: np.ndarray) -> Interval:
        null = None if self.null is None else self.null[rows]
        return Interval(self.value[rows], self.low[rows], self.high[rows], null)

    def spread(self, rows: int) -> Interval:
        """One row repeated."""
        if len(self.value) == rows:
            return self
        null = None if self.null is None else np.broadcast_to(self.null, rows)
        if self.low is self.high is self.value:
            value = np.broadcast_to(self.value, rows)
            return Interval(value, value, value, null)
        value, low, high = (np.broadcast_to(end, rows) for end in (self.value, self.low, self.high))
        return Interval(value, low, high, null)

    def largest(self, other: Interval) -> Interval:
        return self._picked(other, np.fmax)

    def smallest(self, other: Interval) -> Interval:
        return self._picked(other, np.fmin)

    def _picked(self, other: Interval, pick: np.ufunc) -> Interval:
        """NULL is passed over. Where one of the two may be NULL, the other may be the result, whichever is larger."""
        low, high = pick(self.low, other.low), pick(self.high, other.high)
        for one, two in ((self, other), (other, self)):
            alone = one.maybe_null & one.number
            low, high = np.where(alone, np.fmin(low, two.low), low), np.where(alone, np.fmax(high, two.high), high)
        null = self.maybe_null & other.maybe_null
        return Interval(pick(self.value, other.value), low, high, null if null.any() else None)

    def filled(self, other: Interval) -> Interval:
        """COALESCE: the other where this is NULL; where it may be, the truth may be either."""
        maybe, number = self.maybe_null, self.number
        low = np.where(maybe, np.where(number, np.fmin(self.low, other.low), other.low), self.low)
        high = np.where(maybe, np.where(number, np.fmax(self.high, other.high), other.high), self.high)
        null = maybe & other.maybe_null
        value = np.where(np.isnan(self.value), other.value, self.value)
        return Interval(value, low, high, null if null.any() else None)

    def without(self, other: Interval) -> Interval:
        """NULLIF: NULL where both are the same number."""
        with np.errstate(invalid="ignore"):
            same = self.value == other.value
            possible = (self.low <= other.high) & (other.low <= self.high)
            certain = same & self.decided & other.decided
        null = possible | self._null_mask()
        low, high = np.where(certain, np.nan, self.low), np.where(certain, np.nan, self.high)
        return Interval(np.where(same, np.nan, self.value), low, high, null if null.any() else None)


def _either(one: Interval, other: Interval) -> np.ndarray | None:
    if one.null is None or other.null is None:
        return other.null if one.null is None else one.null
    return one.null | other.null


def away_from_zero(numbers: np.ndarray, decimals: int) -> np.ndarray:
    """SQL rounds halves away from zero; NumPy rounds them to even."""
    scale = 10.0**decimals
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = np.floor(np.abs(numbers) * scale + 0.5) / scale
        return np.where(np.isfinite(shifted), np.copysign(shifted, numbers), numbers)
