"""Interval arithmetic on columns of noisy numbers: stated errors stay true bounds whatever is computed from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Interval:
    """Values with the smallest and largest number the truth may be, one of each per row; NaN stands for NULL."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def exactly(cls, number: float, rows: int) -> Interval:
        value = np.full(rows, float(number))
        return cls(value, value, value)

    @property
    def error(self) -> np.ndarray:
        """The farthest end; infinite where nothing is certified, NaN where the value is NULL."""
        with np.errstate(invalid="ignore"):
            reach = np.maximum(self.high - self.value, self.value - self.low)
        return np.where(np.isnan(self.value), np.nan, np.maximum(reach, 0.0))

    def __add__(self, other: Interval) -> Interval:
        with np.errstate(invalid="ignore", over="ignore"):
            return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return Interval(-self.value, -self.high, -self.low)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        with np.errstate(invalid="ignore", over="ignore"):
            return Interval(self.value * other.value, *self._corners(other, np.multiply))

    def __truediv__(self, other: Interval) -> Interval:
        """NULL where the divisor is zero; unbounded where it may be."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            vanishes = (other.low <= 0) & (other.high >= 0)
            # Not times an inverse, which is infinite for the smallest numbers.
            low, high = self._corners(other, np.divide)
            value = np.where(other.value == 0, np.nan, self.value / other.value)
        return Interval(value, np.where(vanishes, -np.inf, low), np.where(vanishes, np.inf, high))

    def _corners(self, other: Interval, operation: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest result of any two ends; an unbounded number times zero is zero."""
        ends = np.stack([operation(a, b) for a in (self.low, self.high) for b in (other.low, other.high)])
        ends = np.where(np.isnan(ends), 0.0, ends)
        return ends.min(axis=0), ends.max(axis=0)

    def absolute(self) -> Interval:
        low, high = np.abs(self.low), np.abs(self.high)
        crosses = (self.low <= 0) & (self.high >= 0)
        return Interval(np.abs(self.value), np.where(crosses, 0.0, np.minimum(low, high)), np.maximum(low, high))

    def rounded(self, decimals: int) -> Interval:
        return Interval(*(_away_from_zero(ends, decimals) for ends in (self.value, self.low, self.high)))

    def mapped(self, rising: np.ufunc) -> Interval:
        """A non-decreasing function of the number."""
        return Interval(rising(self.value), rising(self.low), rising(self.high))

    def clipped(self, low: float, high: float) -> Interval:
        """The truth is known to lie in [low, high]; the value itself is moved there too."""
        return Interval(np.clip(self.value, low, high), np.clip(self.low, low, high), np.clip(self.high, low, high))

    def largest(self, other: Interval) -> Interval:
        return self._picked(other, np.fmax)

    def smallest(self, other: Interval) -> Interval:
        return self._picked(other, np.fmin)

    def _picked(self, other: Interval, pick: np.ufunc) -> Interval:
        return Interval(pick(self.value, other.value), pick(self.low, other.low), pick(self.high, other.high))

    def filled(self, other: Interval) -> Interval:
        """COALESCE: the other where this is NULL.

        Whether the truth is NULL there too is not known, so nothing is certified in such a row.
        """
        null = np.isnan(self.value)
        return Interval(
            np.where(null, other.value, self.value),
            np.where(null, -np.inf, self.low),
            np.where(null, np.inf, self.high),
        )

    def without(self, number: float) -> Interval:
        """NULLIF: NULL where the value is exactly that number."""
        return Interval(np.where(self.value == number, np.nan, self.value), self.low, self.high)


def _away_from_zero(numbers: np.ndarray, decimals: int) -> np.ndarray:
    """SQL rounds halves away from zero; NumPy rounds them to even."""
    scale = 10.0**decimals
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = np.floor(np.abs(numbers) * scale + 0.5) / scale
        return np.where(np.isfinite(shifted), np.copysign(shifted, numbers), numbers)
