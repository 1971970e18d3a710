"""A start near the measurements: proportional fitting to their least-squares consistent marginals.

Descent on squared distances crosses many orders of magnitude of noise slowly, because a step must suit heavy and light
cells at once. Proportional fitting divides each cell by what it has too much, so that all cells move at the same rate:
twenty sweeps bring a product to the noise where descent needs thousands of steps. Each factor is a log-linear parameter
of its set, so that the fit goes on from there, with its prior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from reticent.hypotheses.fitting.consistent import Consistent, maximal_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    from reticent.hypotheses.fitting.loglinear import FitProblem

__all__ = [
    "NEAR",
    "NEARER",
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


def nearest_distribution(values: np.ndarray) -> np.ndarray:
    """The nearest table without negative cells whose sum is one: every cell less a common amount, or zero."""
    falling = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, falling.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    return np.maximum(values - excess[last], 0.0)


def consistent_marginals(problem: FitProblem) -> Consistent | None:
    """Of all that a problem measured; None without marginals, or with one of too many attributes."""
    measured = problem.measured_sets
    if not measured or max(map(len, measured)) > WIDEST:
        return None
    marginals = [(t.attributes, t.values, t.sd) for t in measured.values() if not t.residual]
    residuals = [(t.attributes, t.values, t.sd) for t in measured.values() if t.residual]
    found = Consistent.of(marginals, residuals)
    return found if all(found.knows(names) for names in maximal_sets(list(measured))) else None


def proportional_start(problem: FitProblem, consistent: Consistent, point: np.ndarray) -> np.ndarray:
    """Parameters whose marginals are near the consistent ones, from `point` on; the engine must be `Rescaling`.

    A cell's noise is added above and below a quotient: noise rules nothing out, and drowned cells stay as they are.
    """
    engine = problem.engine
    assert isinstance(engine, Rescaling)
    flat = point.copy()
    problem.statistics(flat)
    aims = [_Aim(problem, names, *consistent.marginal(names)) for names in maximal_sets(list(problem.measured_sets))]
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
