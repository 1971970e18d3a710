"""Steps that are too long: refused without a warning, and never accepted for being no number."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from reticent.hypotheses.fitting.quasi_newton import DescentResult, Diagonal, Objective, Pairs, descend


class Cosh:
    """sum cosh(x), whose value overflows far from its minimum at 0; `broken` values are no numbers at all."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken, self.last = broken, np.zeros(0)

    def value(self, point: np.ndarray) -> float:
        self.last = point
        if self.broken and np.abs(point).max() != 1:
            return float("nan")
        return float(np.cosh(point).sum())

    def gradient(self) -> np.ndarray:
        return np.sinh(self.last)


def found(problem: Cosh, curvature: float) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return descend(
            Objective(problem.value, problem.gradient),
            np.ones(3),
            preconditioner=Diagonal(np.full(3, 1 / curvature)),
            gap_bound=lambda gradient: float(gradient @ gradient),
            tolerance=1e-16,
            progress=1e-16,
            iterations=100,
        ).point


def test_an_overflowing_step_is_shortened_silently() -> None:
    """The first step is a million times too long, as under a preconditioner that knows nothing of the curvature."""
    assert np.abs(found(Cosh(), 1e-6)).max() < 1e-6


def test_a_value_that_is_no_number_is_never_accepted() -> None:
    assert (found(Cosh(broken=True), 1.0) == 1).all()


def test_a_measured_first_step_is_not_tried_too_long() -> None:
    """Along a parabola of unequal curvatures, which the preconditioner takes for a thousandth of what they are."""
    curvatures, seen = np.array([1.0, 4.0, 9.0]), [np.zeros(3)]

    def value(point: np.ndarray) -> float:
        seen.append(point)
        return 0.5 * float(curvatures @ point**2)

    def reached(curvature: Callable[[np.ndarray], float] | None, pairs: Pairs | None = None) -> DescentResult:
        objective = Objective(value, lambda: curvatures * seen[-1], curvature)
        return descend(
            objective,
            np.ones(3),
            preconditioner=Diagonal(1e3 / curvatures[::-1]),
            gap_bound=lambda gradient: float(gradient @ gradient),
            tolerance=1e-12,
            progress=1e-16,
            iterations=100,
            pairs=pairs,
        )

    known = Pairs(3)
    plain, measured = reached(None), reached(lambda along: float(curvatures @ along**2), known)
    assert plain.certified
    assert measured.certified
    assert measured.evaluations < plain.evaluations
    assert len(known) > 0
    again = reached(None, known)
    assert again.certified
    assert again.evaluations < plain.evaluations, "what was learnt spares the long first step"
