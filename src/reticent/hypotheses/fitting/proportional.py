"""A start near the measurements: proportional fitting to their least-squares consistent marginals.

Descent on squared distances crosses many orders of magnitude of noise slowly, because a step must suit heavy and light
cells at once. Proportional fitting divides each cell by what it has too much, so that all cells move at the same rate:
twenty sweeps bring a product to the noise where descent needs thousands of steps. Each factor is a log-linear parameter
of its set, so that the fit goes on from there, with its prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod, sqrt
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reticent.hypotheses.fitting.loglinear import FitProblem
    from reticent.hypotheses.fitting.prior import Base

__all__ = [
    "NEAR",
    "NEARER",
    "Consistent",
    "Rescaling",
    "consistent_marginals",
    "nearest_distribution",
    "proportional_start",
]

Set = tuple[str, ...]

SWEEPS = 300
"""At most: on strongly dependent tables a sweep leaves nine tenths of the squared distance, 300 leave 1e-14 of it."""
SLOW, STALLED = 0.9, 0.99
"""Of the squared distance before a sweep. What is left after a slow one at the noise is noise that no table has; after
a stalled one, records are missing."""
NEAR = 0.1
"""Of the noise in what was measured: a sweep that moves less is the last."""
WIDEST = 8
"""Attributes of a set whose subsets are all looked at: 256 tables. With a wider one there is no such start."""
NEARER = 0.5
"""Share of what was measured that the prior leaves to the measurements. The optimum is this far on the way from the
base to the measurements: above a half, the measurements are the nearer start."""


@runtime_checkable
class Rescaling(Protocol):
    """An engine that holds the probability of every cell or record it knows."""

    def rescale(self, index: int, ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply p by `ratio(marginal)` of one set; returns the ratio. p need not add up to one afterwards."""
        ...


@dataclass(frozen=True, eq=False)
class Consistent:
    """Marginals made consistent by weighted least squares.

    The residual of a set A is the table of A with the mean along every axis taken off. A marginal S of noise sd tells
    it with noise variance `sd^2 |S| / |A|`; inverse-variance means of residuals are weighted least squares, because
    residuals of different sets are orthogonal. Values are fractions: the residual of no attribute is 1.
    """

    residuals: Mapping[Set, np.ndarray]
    precisions: Mapping[Set, float]
    """Of each residual's cells before they are centred."""

    @classmethod
    def of(cls, measured: Mapping[Set, tuple[np.ndarray, float]]) -> Self:
        """From the values and the noise of each measured marginal."""
        sums: dict[Set, np.ndarray] = {}
        weights: dict[Set, float] = {}
        for names, (values, sd) in measured.items():
            for kept, inner in _subsets(names):
                table = _centred(values.sum(axis=_others(names, kept)))
                weight = table.size / (values.size * sd * sd)
                sums[inner] = sums.get(inner, 0.0) + weight * table
                weights[inner] = weights.get(inner, 0.0) + weight
        return cls({inner: total / weights[inner] for inner, total in sums.items()} | {(): np.ones(())}, weights)

    @property
    def rank(self) -> int:
        """How many independent numbers were measured."""
        return sum(_freedom(residual) for names, residual in self.residuals.items() if names)

    def marginal(self, names: Set) -> tuple[np.ndarray, float]:
        """A measured marginal, and the noise of its cells."""
        shape = [self.residuals[name,].size for name in names]
        table, variance = np.zeros(shape), 0.0
        for kept, inner in _subsets(names):
            residual = self.residuals[inner]
            share = residual.size / table.size
            table += share * np.expand_dims(residual, _others(names, kept))
            variance += share * share / self.precisions[inner] * prod(1 - 1 / size for size in residual.shape)
        return table, sqrt(variance)

    def freedom(self, base: Base, scales: Mapping[Set, float], smooth: Mapping[Set, np.ndarray] | None = None) -> float:
        """How many of these numbers the measurements decide under a prior, and not the prior.

        A parameter of scale s moves a cell q by q s: with precision t the share `v t / (1 + v t)`, `v = (q s)^2`, of a
        cell's distance from the base is followed. Of sets without a scale, as single attributes, all of it. Sets in
        `smooth` have these v instead, of their coefficients.
        """
        decided = 0.0
        for names, residual in self.residuals.items():
            share = 1.0
            if len(names) > 1 and names in scales:
                known = None if smooth is None else smooth.get(names)
                variances = (scales[names] * base.table(names)) ** 2 if known is None else known
                signal = self.precisions[names] * variances
                share = float(np.mean(signal / (1 + signal)))
            decided += share * _freedom(residual) if names else 0.0
        return decided


def _freedom(residual: np.ndarray) -> int:
    return prod(size - 1 for size in residual.shape)


def _subsets(names: Set) -> list[tuple[tuple[int, ...], Set]]:
    places = [kept for order in range(len(names) + 1) for kept in combinations(range(len(names)), order)]
    return [(kept, tuple(names[i] for i in kept)) for kept in places]


def _others(names: Set, kept: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in range(len(names)) if i not in kept)


def _centred(table: np.ndarray) -> np.ndarray:
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _maximal(sets: Sequence[Set]) -> list[Set]:
    members = [frozenset(s) for s in sets]
    return [s for s, mine in zip(sets, members, strict=True) if not any(mine < other for other in members)]


def nearest_distribution(values: np.ndarray) -> np.ndarray:
    """The nearest table without negative cells whose sum is one: every cell less a common amount, or zero."""
    falling = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, falling.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    return np.maximum(values - excess[last], 0.0)


def consistent_marginals(problem: FitProblem) -> Consistent | None:
    """Of all that a problem measured; None without marginals, or with one of too many attributes."""
    measured = problem.measured_marginals
    return Consistent.of(measured) if measured and max(map(len, measured)) <= WIDEST else None


def proportional_start(problem: FitProblem, consistent: Consistent, point: np.ndarray) -> np.ndarray:
    """Parameters whose marginals are near the consistent ones, from `point` on; the engine must be `Rescaling`.

    A cell's noise is added above and below a quotient: noise rules nothing out, and drowned cells stay as they are.
    """
    engine = problem.engine
    assert isinstance(engine, Rescaling)
    flat = point.copy()
    problem.statistics(flat)
    aims = [_Aim(problem, names, *consistent.marginal(names)) for names in _maximal(list(problem.measured_marginals))]
    before, noise = np.inf, NEAR * consistent.rank
    for _ in range(SWEEPS):
        distance = sum(aim.rescale(engine, flat) for aim in aims)
        if distance < noise or distance > (SLOW if distance < consistent.rank else STALLED) * before:
            break
        before = distance
    return flat


class _Aim:
    """One marginal to be approached, and where its parameters are."""

    def __init__(self, problem: FitProblem, names: Set, values: np.ndarray, sd: float) -> None:
        self._place, self._parameters, self._sd = problem.place(names), problem.parameters(names), sd
        self._target = nearest_distribution(values) + sd
        self._distance = 0.0

    def rescale(self, engine: Rescaling, flat: np.ndarray) -> float:
        """Bring the marginal to its target; returns the squared distance it had, in variances of the noise."""
        flat[self._parameters] += np.log(engine.rescale(self._place, self._ratio)).ravel()
        return self._distance

    def _ratio(self, marginal: np.ndarray) -> np.ndarray:
        blurred = marginal + self._sd
        self._distance = float(np.square((self._target - blurred) / self._sd).sum())
        # Cells that no record of a support has cannot be filled.
        return np.where(marginal > 0, self._target / blurred, 1.0)
