"""The minimum of a risk over a ball, by Newton steps, with a certified gap."""

from __future__ import annotations

import math

import numpy as np

from reticent.losses.risk import QuadraticRisk, Risk, rounded_risk

NEWTON_STEPS = 60
RELATIVE_GAP = 1e-13
ROUNDINGS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""A kink is rounded off less and less, each time from where the last minimum was; shares of the loss' range."""


def minimum(risk: Risk, *, radius: float | None = None, start: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """(theta, gap): risk(theta) exceeds the minimum over the ball by at most `gap`."""
    reach = risk.problem.radius if radius is None else radius
    dimension = risk.problem.dimension
    theta = np.zeros(dimension) if start is None else np.array(start, dtype=np.float64)
    if not math.isfinite(risk.problem.smoothness):
        return _kinked_minimum(risk, reach, theta)
    # An exponential's range on a large ball is no measure of what can be gained.
    tolerance = RELATIVE_GAP * min(risk.problem.scale, 100 * risk.problem.zero_excess)
    return _newton_minimum(risk, reach, theta, tolerance)


def _kinked_minimum(risk: Risk, reach: float, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """Minimise a smoothed risk, which is at least the risk: min risk >= rounded(theta) - its gap - height."""
    best, least = theta, math.inf
    for share in ROUNDINGS:
        height = share * risk.problem.scale
        smooth = rounded_risk(risk, height)
        theta, gap = _newton_minimum(smooth, reach, theta, height / 20)
        bound = max(0.0, risk.value(theta) - smooth.value(theta)) + gap + height
        if bound < least:
            best, least = theta, bound
    return best, least


def _newton_minimum(risk: Risk, reach: float, theta: np.ndarray, tolerance: float) -> tuple[np.ndarray, float]:
    dimension = risk.problem.dimension
    if isinstance(risk, QuadraticRisk):
        theta = quadratic_minimum(risk.hessian(theta), risk.gradient(np.zeros(dimension)), reach)
        return theta, linear_gap(risk.gradient(theta), theta, reach)
    value, gradient = risk.value(theta), risk.gradient(theta)
    best, gap = theta, linear_gap(gradient, theta, reach)
    for _ in range(NEWTON_STEPS):
        if gap <= tolerance:
            break
        hessian = risk.hessian(theta)
        # A flat direction (smoothed hinge away from its kink) would make the model's step arbitrary.
        damping = 1e-10 * max(float(np.trace(hessian)), 1e-300) / dimension
        model = gradient - hessian @ theta - damping * theta
        aim = quadratic_minimum(hessian + damping * np.eye(dimension), model, reach)
        theta, value, moved = _search(risk, theta, value, aim - theta, float(gradient @ (aim - theta)))
        gradient = risk.gradient(theta)
        fresh = linear_gap(gradient, theta, reach)
        if fresh < gap:
            best, gap = theta, fresh
        if not moved:
            break
    return best, gap


def _search(
    risk: Risk, theta: np.ndarray, value: float, step: np.ndarray, decrease: float
) -> tuple[np.ndarray, float, bool]:
    """Halve the step until the risk drops by a tenth of the drop that its slope predicts; the segment stays in the
    ball.
    """
    share = 1.0
    while share > 1e-12:
        there = theta + share * step
        found = risk.value(there)
        if found <= value + 0.1 * share * decrease + 1e-15 * abs(value):
            return there, found, True
        share /= 2
    return theta, value, False


def linear_gap(gradient: np.ndarray, theta: np.ndarray, radius: float) -> float:
    """max over the ball of <gradient, theta - other>: bounds the excess of any convex function."""
    return max(0.0, float(gradient @ theta) + radius * float(np.linalg.norm(gradient))) * (1 + 1e-12)


def quadratic_minimum(hessian: np.ndarray, gradient: np.ndarray, radius: float) -> np.ndarray:
    """argmin of `theta' H theta / 2 + g' theta` over the ball, H symmetric; a fixed number of bisections.

    In the eigenbasis theta_i = -g_i / (h_i + mu) with the smallest mu >= 0 that keeps it in the ball.
    """
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    pull = vectors.T @ -gradient
    size = float(np.linalg.norm(pull))
    # Eigenvalues below this are noise, or would send the point a trillion radii away.
    tiny = max(max(abs(values[-1]), abs(values[0])) * len(values) * 1e-15, size / radius * 1e-12, 1e-300)
    floor = max(0.0, -values[0])

    def point(shift: float) -> np.ndarray:
        bent = values + shift
        safe = bent > tiny
        return np.where(safe, pull / np.where(safe, bent, 1.0), 0.0)

    def free(shift: float) -> bool:
        # A flat direction that still pulls has no minimum without the ball.
        bent = values + shift
        return bool(np.all((bent > tiny) | (np.abs(pull) <= 1e-14 * (1 + size))))

    if free(floor) and np.linalg.norm(point(floor)) <= radius:
        return vectors @ point(floor)
    low, high = floor, floor + size / radius + tiny
    for _ in range(200):
        middle = math.sqrt(low * high) if low > 1e-300 and high > 4 * low else (low + high) / 2
        if not free(middle) or np.linalg.norm(point(middle)) > radius:
            low = middle
        else:
            high = middle
    answer = point(high)
    length = float(np.linalg.norm(answer))
    return vectors @ (answer * min(1.0, radius / length) if length > 0 else answer)
