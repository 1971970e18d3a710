"""Dividing an allowance among marginals, in whole ledger units: all of it, and never a unit more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from reticent.algorithms.tails import counted
from reticent.errors import BudgetError
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.prior import collapse
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms import Gaussian, Laplace, Sensitivity
from reticent.kernel.statistics import of_one_marginal
from reticent.queries.linear import Marginal

__all__ = ["Collection", "Noisy", "divide", "noise_costing"]

Set = tuple[str, ...]


def divide(units: int, weights: Sequence[float]) -> list[int]:
    """Whole shares in proportion to the weights, with the given sum."""
    ends = [0.0, *accumulate(weights)]
    marks = [round(units * end / ends[-1]) for end in ends]
    return [high - low for low, high in pairwise(marks)]


TOTAL_SHARE = Fraction(1, 50)
"""Of the allowance under add-remove, for the number of records, which is private there (spec 1.1)."""


def noise_costing(budget: Budget, sensitivity: Sensitivity, units: int) -> Noise:
    """The least noise that `units` of this budget can pay for."""
    amount = Fraction(units, NANO)
    if budget.pure:
        return Laplace.costing(sensitivity=sensitivity, epsilon=amount)
    return Gaussian.costing(sensitivity=sensitivity, rho=amount)


def too_little(units: int, budget: Budget, what: str, *, needed: int) -> BudgetError:
    """For a budget that is spent, or was too small from the start; `needed` is the least that would do."""
    text = f"{budget.unit} {budget.amount(units):.3g} cannot pay for {what}; ask for fewer, or give a larger budget"
    if units == 0:
        text = f"nothing is left of this ledger's {budget.unit} to pay for {what}; what it published stays free to ask"
    return BudgetError(text, requested=budget.amount(needed), remaining=budget.amount(units))


class Noisy(NamedTuple):
    """A released marginal in records, and the noise of each cell."""

    attributes: Set
    values: np.ndarray
    noise: Noise


class Collection:
    """What a run has measured, and what is left to spend; every batch is one ledger event under its own key."""

    def __init__(self, curator: Curator, allowance: int, key: str) -> None:
        self._curator = curator
        self._key = key
        self.allowance = allowance
        self.left = allowance
        self.noisy: list[Noisy] = []

    @property
    def spent_share(self) -> float:
        return 1 - self.left / self.allowance

    @property
    def pure(self) -> bool:
        """Whether noise is Laplace's; else it is normal."""
        return self._curator.budget.pure

    def sd(self, units: int) -> float:
        """The noise of a marginal that `units` pay for, in records."""
        return noise_costing(self._curator.budget, of_one_marginal(self._curator.neighbours), units).sd

    def measure(self, name: str, units: Mapping[Set, int]) -> None:
        """Measure marginals, each with noise that its units pay for."""
        if not units:
            return
        if min(units.values()) < 1 or sum(units.values()) > self.left:
            raise too_little(self.left, self._curator.budget, f"{len(units)} marginals", needed=len(units))
        moved = of_one_marginal(self._curator.neighbours)
        noises = [noise_costing(self._curator.budget, moved, share) for share in units.values()]
        queries = [Marginal(attributes) for attributes in units]
        settled = self._curator.measure(queries, noises, key=f"{self._key}:{name}")
        self.left -= settled.cost
        for attributes, values, noise in zip(units, settled.values, noises, strict=True):
            self.noisy.append(Noisy(attributes, np.asarray(values, dtype=np.float64), noise))

    @property
    def records(self) -> tuple[float, float]:
        """The number of records and a bound on its relative error: public, or the mean of all measured totals."""
        if self._curator.records is not None:
            return float(self._curator.records), 0.0
        total = collapse(((n.attributes, n.values, n.noise.sd) for n in self.noisy), ())
        assert total is not None  # a run measures before it asks
        return counted(float(total[0]), total[1], pure=self._curator.budget.pure)

    def measurements(self) -> list[Measurement]:
        """As fractions of the table."""
        count, _ = self.records
        return [
            Measurement(Marginal(n.attributes), n.values / count, n.noise.sd / count, n.noise.describe())
            for n in self.noisy
        ]
