"""Steps that are too long: refused without a warning, and never accepted for being no number."""

from __future__ import annotations

import warnings

import numpy as np

from reticent.hypotheses.fitting.quasi_newton import Diagonal, Objective, descend


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
