"""Where a falling function meets a level: plans and prices are solved for with a few evaluations of their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

MOST = 200
"""Evaluations; halving alone needs far fewer."""


def crossing(
    function: Callable[[float], float],
    level: float,
    low: float,
    high: float,
    *,
    guess: float | None = None,
    within: float = 2e-3,
) -> float:
    """The least x from `low` to `high` with function(x) <= level, to a factor of 1 + `within` and never less.

    The function falls, roughly as a power of x: secants of its logarithm close in on the place from both sides, halving
    where it is infinite or zero. Infinite where not even `high` does.
    """
    left, right = math.log(low), math.log(high)
    reached = False
    at = math.log(guess) if guess is not None and low < guess < high else (left + right) / 2
    last: tuple[float, float] | None = None
    power = -1.0
    for _ in range(MOST):
        found = _height(function(math.exp(at)), level)
        if found <= 0:
            right, reached = at, True
        else:
            left = at
        if right - left <= within:
            break
        if math.isfinite(found):
            if last is not None and (slope := (found - last[1]) / (at - last[0])) < -1e-3:
                power = slope
            last = at, found
            # A little beyond where the secant ends, so that the next place lies on the other side.
            at = at - found / power + math.copysign(within / 3, found)
        if not (math.isfinite(found) and left < at < right):
            at = (left + right) / 2
    return math.exp(right) if reached or function(high) <= level else math.inf


def _height(value: float, level: float) -> float:
    """log(value / level); infinite where the value is, minus infinity where it is nothing."""
    if not value < math.inf:
        return math.inf
    return math.log(value / level) if value > 0 else -math.inf
