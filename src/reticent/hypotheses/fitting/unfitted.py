"""What a fit left of the measurements, and distributions moved by it (docs/proofs/population.md, claim 4b).

A fit stays away from what was measured as far as its prior and its stopping rule have it, cell by cell within the
noise. Statistics that add up many cells add these distances up. The distances are known: measured less fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.dense.dense import DenseEngine, DenseHypothesis
from reticent.hypotheses.fitting.consistent import as_residuals, consistent_of, has_residuals
from reticent.hypotheses.fitting.prior import LEAST_KEPT, collapse
from reticent.hypotheses.fitting.support_engine import SupportEngine
from reticent.hypotheses.support import SupportHypothesis
from reticent.queries.linear import Marginal

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Hypothesis, Measurement
    from reticent.hypotheses.fitting.proportional import Rescaling

__all__ = ["PAIR", "moved_pairs", "unfitted"]

Set = tuple[str, ...]

PAIR = 2
"""Attributes of the largest sets that are moved: means by group and coefficients are functions of pairs."""
RAISED = 9.0
"""Of its fitted weight, what a cell is moved at most: far beyond any that is well measured. A sweep of proportional
fitting moves none by a larger factor either: a replicate may have emptied cells that the release has not."""
TINY = 1e-200
"""Cells below it are as good as empty; quotients of others do not overflow."""
SWEEPS = 4
"""Of proportional fitting, begun within the noise of where it leads."""


def unfitted(hypothesis: Hypothesis, measurements: Sequence[Measurement]) -> dict[Set, np.ndarray]:
    """Measured less fitted, of every pair that was measured, by itself or inside a wider set.

    No cell has more than `RAISED` times its weight to gain, so that weights of rows stay even.
    """
    known = _measured_pairs(hypothesis.domain, measurements)
    fitted = zip(known, hypothesis.marginals(list(known)), strict=True)
    return {names: np.clip(known[names] - own, -RAISED * own, RAISED * own) for names, own in fitted}


def _measured_pairs(domain: Domain, measurements: Sequence[Measurement]) -> dict[Set, np.ndarray]:
    """Estimates without a prior: least squares on residuals, else the mean of the marginals by inverse variance."""
    pairs = list(combinations(domain.names, PAIR))
    measurements = as_residuals(measurements, domain)
    if has_residuals(measurements):
        known = consistent_of(measurements, domain)
        return {names: known.marginal(names)[0] for names in pairs if known.knows(names)}
    told = [m for m in measurements if isinstance(m.query, Marginal)]
    marginals = [(domain.canonical(m.query.attributes), m.values, m.sd) for m in told]
    found = {names: collapse(marginals, names) for names in pairs}
    return {names: estimate[0] for names, estimate in found.items() if estimate is not None}


def moved_pairs(hypothesis: Hypothesis, moves: Mapping[Set, np.ndarray]) -> dict[Set, np.ndarray]:
    """What brings the pairs of a hypothesis to where they are moved: logarithms of factors, by attribute set.

    Proportional fitting, so that all else stays as it is, single attributes included: these are measured too well for
    a fit to leave anything. A cell keeps a hundredth of its weight at least: what was measured below zero is noise.
    """
    sets = list(moves)
    own = hypothesis.marginals(sets)
    aims = [_aim(cells, move) for cells, move in zip(own, moves.values(), strict=True)]
    engine = _engine(hypothesis, sets)
    logs = {names: np.zeros(aim.shape) for names, aim in zip(sets, aims, strict=True)}
    for _ in range(SWEEPS):
        for place, (names, aim) in enumerate(zip(sets, aims, strict=True)):
            logs[names] += np.log(engine.rescale(place, partial(_quotient, aim)))
    return logs


def _aim(cells: np.ndarray, move: np.ndarray) -> np.ndarray:
    """A pair moved, its single attributes as they were: proportional fitting of the pair by itself."""
    aim = np.clip(cells + move, LEAST_KEPT * cells, (1 + RAISED) * cells)
    for _ in range(SWEEPS):
        for axis in (0, 1):
            aim = aim * _quotient(cells.sum(axis=axis, keepdims=True), aim.sum(axis=axis, keepdims=True))
    return aim


def _quotient(aim: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Cells that no record has cannot be filled."""
    known = (cells > TINY) & (aim > TINY)
    found = np.divide(aim, cells, out=np.ones(cells.shape), where=known)
    return np.clip(found, LEAST_KEPT, 1 + RAISED)


def _engine(hypothesis: Hypothesis, sets: Sequence[Set]) -> Rescaling:
    """One that holds the hypothesis."""
    domain = hypothesis.domain
    if isinstance(hypothesis, SupportHypothesis):
        with np.errstate(divide="ignore"):
            logs = np.log(hypothesis.weights)

        def cells(axes: tuple[int, ...]) -> np.ndarray:
            return hypothesis.cells(tuple(domain.names[axis] for axis in axes))

        engine = SupportEngine(domain.shape, [tuple(map(domain.index, names)) for names in sets], cells, logs)
        engine.evaluate([np.zeros(domain.shape_of(names)) for names in sets])
        return engine
    assert isinstance(hypothesis, DenseHypothesis), "no others have replicates"
    engine = DenseEngine(domain.shape, [tuple(map(domain.index, names)) for names in sets])
    engine.probabilities[...] = hypothesis.probabilities()
    return engine
