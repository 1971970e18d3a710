"""Where a projection goes and how far: targets, clamps and the one-dimensional tilt (spec 4.2, 4.3)."""

from __future__ import annotations

import math

import numpy as np

from reticent.errors import QueryError

__all__ = ["MARGIN", "binary_eta", "clamp_target", "conservative_target", "finite_target", "solve_tilt"]

# A target is kept this share of the range away from the ends of the range: near enough that a target at an
# end is still met to 1e-12, far enough that eta stays below 28 from the middle.
MARGIN = 2.0**-40
_NEWTON_STEPS = 200


def finite_target(target: float) -> float:
    """A target that can be met or clamped; an infinity or a NaN would silently wreck every weight."""
    target = float(target)
    if not math.isfinite(target):
        raise QueryError(f"cannot project to {target}; the target must be a finite number")
    return target


def conservative_target(*, measured: float, bound: float, guess: float) -> float | None:
    """The measurement moved by its noise bound toward the guess; None when it would reach it (spec 4.3).

    By keyword only: three fractions in another order make another target, and nothing would show it.
    """
    distance = measured - guess
    if not abs(distance) > bound:
        return None
    return measured - math.copysign(bound, distance)


def clamp_target(target: float, low: float, high: float) -> float:
    """The nearest number strictly inside the range a query has on the support."""
    margin = MARGIN * (high - low)
    return min(max(target, low + margin), high - margin)


def binary_eta(inside: float, outside: float, target: float) -> float:
    """eta = logit t - logit q(p) for a 0/1 query that holds on weight `inside`, not on `outside`."""
    target = clamp_target(target, 0.0, 1.0)
    return math.log(target) - math.log1p(-target) - (math.log(inside) - math.log(outside))


def solve_tilt(values: np.ndarray, weights: np.ndarray, target: float) -> float:
    """The eta with sum(w q exp(eta q)) = t sum(w exp(eta q)); 0.0 when q is constant where w > 0.

    The mean is increasing in eta with the variance as its slope: Newton, kept inside a bracket.
    """
    values, weights = np.ravel(values), np.ravel(weights)
    alive = weights > 0
    if not alive.all():
        values, weights = values[alive], weights[alive]
    if values.size == 0 or values.min() == values.max():
        return 0.0
    low, high = float(values.min()), float(values.max())
    aim = clamp_target(target, low, high)
    below, above, eta = -math.inf, math.inf, 0.0
    for _ in range(_NEWTON_STEPS):
        # centred at the end of the range that dominates, so that no exponent is positive
        tilted = weights * np.exp(eta * (values - (high if eta > 0 else low)))
        total = tilted.sum()
        mean = float((tilted @ values) / total)
        miss = mean - aim
        if miss > 0:
            above = eta
        else:
            below = eta
        if abs(miss) <= 1e-16 * (high - low) or not below < above:
            break
        slope = float((tilted @ np.square(values - mean)) / total)
        step = _safeguarded(eta, -miss / slope if slope > 0 else math.copysign(math.inf, -miss), below, above)
        if step == eta:
            break
        eta = step
    return eta


def _safeguarded(eta: float, newton: float, below: float, above: float) -> float:
    """The Newton point when it falls inside the bracket and is not a leap; else bisect, or double outward."""
    reach = 2.0 * abs(eta) + 64.0
    point = eta + max(min(newton, reach), -reach)
    if below < point < above:
        return point
    if math.isinf(below) or math.isinf(above):
        return eta + math.copysign(reach, newton)
    return 0.5 * (below + above)
