"""One interval, then one value: certified statements about a question intersected, and the fit moved into them.

Spec answers 1. Numbers are fractions of the table, single ones or one per cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

Number = float | np.ndarray
WIDER = 3.0
"""Statements so much wider than the narrowest hardly ever cut it: they are not read."""
MOST_READ = 5
"""Statements that are read for one answer, the narrowest first."""


class Bounds(NamedTuple):
    """Where the truth lies, with the confidence of the answer, and what the fit says by itself."""

    low: Number
    high: Number
    fitted: Number

    @property
    def empty(self) -> bool:
        """Whether some statement failed: they contradict each other."""
        if isinstance(self.low, float) and isinstance(self.high, float):
            return self.low > self.high
        return bool(np.any(np.asarray(self.low) > np.asarray(self.high)))

    @property
    def width(self) -> float:
        if isinstance(self.low, float) and isinstance(self.high, float):
            return max(self.high - self.low, 0.0)
        return float(np.max(np.asarray(self.high) - np.asarray(self.low), initial=0.0))

    def value(self, wanted: float | None = None) -> Number:
        """The point of the interval nearest to the fit; with a wanted error, the nearest that has it."""
        low, high, fitted = self.low, self.high, self.fitted
        if isinstance(low, float) and isinstance(high, float) and isinstance(fitted, float):
            if wanted is not None:
                low, high = max(low, high - wanted), min(high, low + wanted)
            return min(max(fitted, low), high)
        if wanted is not None:
            low, high = np.maximum(low, high - wanted), np.minimum(high, low + wanted)
        return _plain(np.clip(self.fitted, low, high))

    def error(self, value: Number) -> float:
        """How far the truth may lie from a value, in the worst cell."""
        if isinstance(value, float) and isinstance(self.low, float) and isinstance(self.high, float):
            return max(value - self.low, self.high - value, 0.0)
        return float(np.max(np.maximum(value - self.low, self.high - value), initial=0.0))


def joined(
    statements: Iterable[tuple[Number, float]], fitted: Number, logical: tuple[float, float] = (0.0, 1.0)
) -> Bounds:
    """The intersection of `value ± error` for all statements with what logic says: fractions lie in [0, 1]."""
    low: Number = logical[0]
    high: Number = logical[1]
    for value, error in statements:
        if isinstance(value, float) and isinstance(low, float) and isinstance(high, float):
            low, high = max(low, float(value - error)), min(high, float(value + error))
            continue
        low, high = np.maximum(low, value - error), np.minimum(high, value + error)
    return Bounds(_plain(low), _plain(high), fitted)


def hull(statements: Iterable[tuple[Number, float]], fitted: Number) -> Bounds:
    """What all statements together reach: told where they contradict each other."""
    lows, highs = zip(*((value - error, value + error) for value, error in statements), strict=True)
    low = np.clip(np.minimum.reduce(lows), 0.0, 1.0)
    return Bounds(_plain(low), _plain(np.clip(np.maximum.reduce(highs), 0.0, 1.0)), fitted)


def _plain(number: Number) -> Number:
    return number if isinstance(number, np.ndarray) and number.ndim else float(number)
