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

from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.dense.engine import DenseEngine
from reticent.hypotheses.fitting.consistent import consistent_of
from reticent.hypotheses.fitting.prior import LEAST_KEPT
from reticent.hypotheses.fitting.support_engine import SupportEngine
from reticent.hypotheses.support import SupportHypothesis

if TYPE_CHECKING:
    from reticent.hypotheses.base import Hypothesis, Measurement
    from reticent.hypotheses.fitting.proportional import Rescaling

__all__ = ["PAIR", "moved", "unfitted"]

Set = tuple[str, ...]

PAIR = 2
"""Attributes of the largest sets that are moved: means by group and coefficients are functions of pairs."""
SWEEPS = 4
"""Of proportional fitting, begun within the noise of where it leads."""


def unfitted(hypothesis: Hypothesis, measurements: Sequence[Measurement]) -> dict[Set, np.ndarray]:
    """Measured less fitted, of every pair that was measured and then of every single attribute.

    Measured is the least-squares estimate from all measurements, wider ones included.
    """
    known, domain = consistent_of(measurements, hypothesis.domain), hypothesis.domain
    orders = [combinations(domain.names, order) for order in range(PAIR, 0, -1)]
    sets = [names for order in orders for names in order if known.knows(names)]
    fitted = zip(sets, hypothesis.marginals(sets), strict=True)
    return {names: known.marginal(names)[0] - own for names, own in fitted}


def moved(hypothesis: Hypothesis, moves: Mapping[Set, np.ndarray]) -> dict[Set, np.ndarray]:
    """What brings the marginals of a hypothesis to where they are moved: logarithms of factors, by attribute set.

    Proportional fitting, so that all else stays as it is. A cell keeps a hundredth of its weight at least: what was
    measured below zero is noise. The sets that come last are met exactly.
    """
    sets = list(moves)
    own = hypothesis.marginals(sets)
    farthest = 1 - LEAST_KEPT
    aims = [
        cells + np.clip(move, -farthest * cells, farthest * cells)
        for cells, move in zip(own, moves.values(), strict=True)
    ]
    engine = _engine(hypothesis, sets)
    logs = {names: np.zeros(cells.shape) for names, cells in zip(sets, own, strict=True)}
    for _ in range(SWEEPS):
        for place, (names, aim) in enumerate(zip(sets, aims, strict=True)):
            logs[names] += np.log(engine.rescale(place, partial(_quotient, aim / aim.sum())))
    return logs


def _quotient(aim: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Cells that no record has cannot be filled."""
    return np.divide(aim, cells, out=np.ones(cells.shape), where=(cells > 0) & (aim > 0))


def _engine(hypothesis: Hypothesis, sets: Sequence[Set]) -> Rescaling:
    """One that holds the hypothesis."""
    domain = hypothesis.domain
    if isinstance(hypothesis, SupportHypothesis):
        with np.errstate(divide="ignore"):
            logs = np.log(hypothesis.weights)
        axis_sets = [tuple(map(domain.index, names)) for names in sets]
        places = lambda axes: hypothesis.cells(tuple(domain.names[axis] for axis in axes))  # noqa: E731
        engine = SupportEngine(domain.shape, axis_sets, places, logs)
        engine.evaluate([np.zeros(domain.shape_of(names)) for names in sets])
        return engine
    assert isinstance(hypothesis, DenseHypothesis), "no others have replicates"
    engine = DenseEngine(domain.shape, [tuple(map(domain.index, names)) for names in sets])
    engine.probabilities[...] = hypothesis.probabilities()
    return engine
