"""Limited-memory quasi-Newton descent with a preconditioner, for fits whose gradient costs extra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = ["DescentResult", "Diagonal", "Objective", "Pairs", "Preconditioner", "descend"]

_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-10
_WINDOW = 10


@dataclass(frozen=True)
class Objective:
    """A function in two calls: `value(x)`, then `gradient()` at the point last valued, if it is accepted."""

    value: Callable[[np.ndarray], float]
    gradient: Callable[[], np.ndarray]
    curvature: Callable[[np.ndarray], float] | None = None
    """Along a direction from the point last valued, about; the first step is then as long as it says."""


@dataclass(frozen=True, eq=False)
class DescentResult:
    """Where a descent ended; `certified` says that the caller's gap bound was met, not just progress small."""

    point: np.ndarray
    objective: float
    gap: float
    iterations: int
    evaluations: int
    certified: bool


class Preconditioner(Protocol):
    """A symmetric positive matrix near the inverse of the Hessian."""

    def apply(self, gradient: np.ndarray) -> np.ndarray:
        """Its product with a gradient."""
        ...

    def square(self, gradient: np.ndarray) -> float:
        """The gradient times that product."""
        ...


class Diagonal:
    """A preconditioner with these numbers on its diagonal."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._numbers = numbers

    def apply(self, gradient: np.ndarray) -> np.ndarray:
        return gradient * self._numbers

    def square(self, gradient: np.ndarray) -> float:
        return float(gradient @ (self._numbers * gradient))


PAIRS = 30


class Pairs:
    """The last pairs of steps and gradient changes, and a product with the inverse Hessian they imply."""

    def __init__(self, size: int) -> None:
        self._steps = np.empty((PAIRS, size))
        self._changes = np.empty((PAIRS, size))
        self._inverse = np.empty(PAIRS)
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._order)

    def add(self, step: np.ndarray, change: np.ndarray) -> None:
        curvature = float(step @ change)
        # Skipping pairs without positive curvature keeps the implied Hessian positive off convexity.
        if curvature <= 1e-12 * np.sqrt(float(step @ step) * float(change @ change)):
            return
        slot = self._order.pop(0) if len(self._order) == PAIRS else len(self._order)
        self._steps[slot], self._changes[slot], self._inverse[slot] = step, change, 1.0 / curvature
        self._order.append(slot)

    def solve(self, gradient: np.ndarray, preconditioner: Preconditioner) -> np.ndarray:
        direction, scratch = gradient.copy(), np.empty(gradient.size)
        weights: list[float] = []
        for slot in reversed(self._order):
            weight = self._inverse[slot] * float(self._steps[slot] @ direction)
            direction -= np.multiply(self._changes[slot], weight, out=scratch)
            weights.append(weight)
        direction = preconditioner.apply(direction)
        if self._order:
            slot = self._order[-1]
            direction /= self._inverse[slot] * preconditioner.square(self._changes[slot])
        for slot, weight in zip(self._order, reversed(weights), strict=True):
            weight -= self._inverse[slot] * float(self._changes[slot] @ direction)
            direction += np.multiply(self._steps[slot], weight, out=scratch)
        return direction


def descend(
    objective: Objective,
    start: np.ndarray,
    *,
    preconditioner: Preconditioner,
    gap_bound: Callable[[np.ndarray], float],
    tolerance: float,
    progress: float,
    iterations: int,
    pairs: Pairs | None = None,
) -> DescentResult:
    """Minimise until `gap_bound(gradient) <= tolerance`; give up when ten steps gain less than `progress`.

    `pairs` of an earlier descent of the same objective go on, so that a new preconditioner need not learn them again.
    """
    point, gradient_of = start, objective.gradient
    value = objective.value(point)
    gradient = gradient_of()
    pairs = Pairs(point.size) if pairs is None else pairs
    history, evaluations, done = [value], 1, 0
    gap = gap_bound(gradient)
    while gap > tolerance and done < iterations:
        if done >= _WINDOW and history[-1 - _WINDOW] - value < progress:
            break
        direction = -pairs.solve(gradient, preconditioner)
        slope = float(gradient @ direction)
        if slope >= 0:
            break
        step = 1.0
        if not pairs and objective.curvature is not None:
            step = min(1.0, -slope / objective.curvature(direction))
        while True:
            candidate = point + step * direction
            with np.errstate(over="ignore", invalid="ignore"):  # a step too long is refused, whatever its value
                offered = objective.value(candidate)
            evaluations += 1
            excess = offered - value - step * slope
            if offered <= value + _SUFFICIENT * step * slope or step < _SMALLEST_STEP:
                break
            # The minimiser of the parabola through value, slope and the rejected value, within [.1, .5].
            parabola = -slope * step / (2 * excess) if np.isfinite(excess) and excess > 0 else 0.1
            step *= min(0.5, max(0.1, parabola))
        if not offered < value:
            break
        fresh = gradient_of()
        pairs.add(candidate - point, fresh - gradient)
        point, value, gradient = candidate, offered, fresh
        gap = gap_bound(gradient)
        history.append(value)
        done += 1
    return DescentResult(point, value, gap, done, evaluations, gap <= tolerance)
