"""Records of a support moved to where the measurements have them.

A fit on chosen records changes their weights only. Where records are missing that the measurements need, no weights
reach what was measured, and descent takes thousands of steps. Such a support is resampled by weight, and one value of
one record is changed at a time as long as that brings the records nearer to the marginals they should have. The next
fit starts with equal weights, near the measurements. All of it is post-processing of public numbers; the generator is
public too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.fitting.consistent import consistent_of, is_laplace, maximal_sets
from reticent.hypotheses.fitting.descent import furthest_noise, largest_noise
from reticent.hypotheses.sampling import TARGET_CELLS, TARGET_SETS, refined_rows
from reticent.hypotheses.support import SupportHypothesis

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import FitReport, Measurement
    from reticent.hypotheses.fitting.consistent import Consistent
    from reticent.hypotheses.fitting.loglinear import LogLinear

__all__ = ["Mover", "fit_and_move", "log_density", "stratified_support"]

Set = tuple[str, ...]

MOVES, STEPS_BETWEEN_MOVES = 2, 100
"""Times that records are moved, and the steps of a fit before it is judged: enough to tell which cells lack records,
not to solve what the wrong records contradict. Other values: `python -m benchmarks plan_constants`."""


def fit_and_move(
    hypothesis: SupportHypothesis, measurements: Sequence[Measurement], start: LogLinear, rows: int, seed: int
) -> tuple[SupportHypothesis, FitReport]:
    """Fit the weights of a support, and move its records where some of those that the measurements need are missing.

    A fit of some steps that leaves a measured cell further off than noise does shows that records are missing. Moved
    records are kept if the objective is smaller on them. The last fit goes on until it converges or its steps are used
    up.
    """
    fitted = hypothesis.fit(measurements, start=start, iterations=STEPS_BETWEEN_MOVES)
    furthest = furthest_noise(measurements)
    mover = Mover.of(hypothesis.domain, measurements, rows, seed) if fitted.misfit > furthest else None
    for _ in range(MOVES):
        if mover is None or fitted.converged or fitted.misfit <= furthest:
            break
        moved = mover.moved(hypothesis)
        again = moved.fit(measurements, start=_model_of(hypothesis), iterations=STEPS_BETWEEN_MOVES)
        if again.objective >= fitted.objective:
            break
        hypothesis, fitted = moved, again
    if fitted.converged:
        return hypothesis, fitted
    return hypothesis, hypothesis.fit(measurements, start=_model_of(hypothesis))


class Mover:
    """Moves records toward the least-squares marginals of some measurements."""

    def __init__(self, known: Consistent, sets: Sequence[Set], reach: float, rows: int, seed: int) -> None:
        self._known, self._sets, self._reach, self._rows = known, sets, reach, rows
        self._generator = np.random.default_rng(seed)

    @classmethod
    def of(cls, domain: Domain, measurements: Sequence[Measurement], rows: int, seed: int) -> Mover | None:
        """For supports of so many rows; None where the measured tables are too many or too large."""
        known = consistent_of(measurements, domain)
        sets = maximal_sets([names for names in known.precisions if names and known.knows(names)])
        cells = sum(map(domain.cells, sets))
        if not sets or len(sets) > TARGET_SETS or cells > TARGET_CELLS:
            return None
        # As far as a fit may leave a cell that noise alone would not have left further off (`descent.py`).
        reach = max(largest_noise(cells, laplace=any(map(is_laplace, measurements))) - 1, 1.0)
        return cls(known, sets, reach, rows, seed)

    def moved(self, hypothesis: SupportHypothesis) -> SupportHypothesis:
        """Records whose marginals are those of the hypothesis, cells that it misses within reach of what was measured.

        Their density is that of the hypothesis' model, under which they have equal weights.
        """
        domain = hypothesis.domain
        codes = np.ascontiguousarray(hypothesis.systematic(self._rows, self._generator), dtype=np.int64)
        pairs = zip(self._sets, hypothesis.marginals(self._sets), strict=True)
        targets = np.concatenate([self._target(names, cells).ravel() for names, cells in pairs])
        codes = refined_rows(codes, domain, self._sets, self._rows * targets, self._generator)
        return stratified_support(domain, codes, log_density(domain, codes, _model_of(hypothesis)))

    def _target(self, names: Set, cells: np.ndarray) -> np.ndarray:
        values, sd = self._known.marginal(names)
        near = np.clip(cells, values - self._reach * sd, values + self._reach * sd)
        shares = np.maximum(near, 0.0)
        return shares / shares.sum()


def stratified_support(
    domain: Domain, codes: np.ndarray, density: np.ndarray, *, distinct: bool = True
) -> SupportHypothesis:
    """A support of records that were drawn from a density, each once if `distinct`.

    A record that was drawn k times stands for itself k times: a fit divides by the density over k. Neighbours are
    alike, so that rows drawn at equal steps through the weights are stratified.
    """
    order = np.lexsort([codes[:, i] for i in np.argsort(domain.shape, kind="stable")])
    codes, density = codes[order], density[order]
    if distinct:
        first = np.concatenate([[True], (codes[1:] != codes[:-1]).any(axis=1)])
        counts = np.diff(np.flatnonzero(np.append(first, True)))
        codes, density = codes[first], density[first] - np.log(counts)
    return SupportHypothesis(domain, codes, log_density=density)


def log_density(domain: Domain, codes: np.ndarray, model: LogLinear) -> np.ndarray:
    """The logarithm of a model's density at some records, up to a constant."""
    total = np.zeros(len(codes))
    for names, potential in zip(model.sets, model.potentials, strict=True):
        total += potential[tuple(codes[:, domain.index(name)] for name in names)]
    return total


def _model_of(hypothesis: SupportHypothesis) -> LogLinear:
    assert hypothesis.model is not None, "a fit leaves its model"
    return hypothesis.model
