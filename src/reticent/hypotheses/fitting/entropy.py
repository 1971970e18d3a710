"""The plain maximum-entropy fit: min KL(p || uniform) + sum |p_c - y_c|^2 / (2 sigma_c), with a certified gap.

A cell one standard deviation off pulls its parameter by one nat. The dual is convex in the log-linear parameters, and
every dual point bounds the optimum: with `w = 1/sigma` and the dual's gradient `g = p - y + lambda/w`, primal minus
dual value is exactly `sum w g^2 / 2`. (A sweep of
proportional fitting first costs an evaluation per set and saves fewer steps than that.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from reticent.hypotheses.fitting.loglinear import FitProblem, MakeEngine, Term
from reticent.hypotheses.fitting.quasi_newton import Diagonal, Preconditioner

__all__ = ["EntropyProblem"]


class EntropyProblem(FitProblem):
    """The dual objective `log Z - <lambda, y> + sum lambda^2 / (2 w)`; nothing is shrunk beyond that."""

    def __init__(self, terms: Sequence[Term], base: dict[str, np.ndarray], make_engine: MakeEngine) -> None:
        uniform = {name: np.full(vector.size, 1.0 / vector.size) for name, vector in base.items()}
        super().__init__(terms, uniform, make_engine)
        self.precision = np.sqrt(self.measured_precision)
        self._slope = np.zeros(self.size)

    @property
    def unit(self) -> float:
        """The objective is in nats, whatever the number of cells."""
        return 1.0

    def levels(self, flat: np.ndarray) -> int:
        """The dual is convex: one level, the noise as it is."""
        return 0

    def at_level(self, level: int) -> Self:
        return self

    def value(self, flat: np.ndarray) -> float:
        log_partition, marginals = self.engine.evaluate(self.potentials(flat))
        softness = flat / self.precision
        self._slope = self.gather(marginals) - self.targets + softness
        return log_partition - float(flat @ self.targets) + 0.5 * float(flat @ softness)

    def gradient(self) -> np.ndarray:
        return self._slope

    def gap_bound(self, gradient: np.ndarray) -> float:
        """Primal minus dual value: no convexity needs to be hoped for."""
        return 0.5 * float((gradient * gradient) @ self.precision)

    def preconditioner(self, flat: np.ndarray, *, nested: bool = False) -> Preconditioner:
        return Diagonal(1.0 / (self.statistics(flat) + 1.0 / self.precision))
