"""What a fit left of the measurements, and distributions moved by it (docs/proofs/population.md, claim 4b).

A fit stays away from what was measured as far as its prior and its stopping rule have it, cell by cell within the
noise. Statistics that add up many cells add these distances up: shares of single attributes, and trends along ordered
ones, which means and slopes are made of. The distances are known: measured less fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.dense.dense import DenseEngine, DenseHypothesis
from reticent.hypotheses.fitting.consistent import as_residuals, centred, consistent_of, has_residuals
from reticent.hypotheses.fitting.prior import LEAST_KEPT, collapse
from reticent.hypotheses.fitting.smoothness import ordered_codes
from reticent.hypotheses.fitting.support_engine import SupportEngine
from reticent.hypotheses.support import SupportHypothesis
from reticent.queries.linear import Marginal

if TYPE_CHECKING:
    from reticent.domain import Attribute, Domain
    from reticent.hypotheses.base import Hypothesis, Measurement
    from reticent.hypotheses.fitting.proportional import Rescaling

__all__ = ["PAIR", "factors_moving", "unfitted"]

Set = tuple[str, ...]

PAIR = 2
"""Attributes of the largest sets that are moved: means by group and coefficients are functions of pairs."""
RAISED = 3.0
"""Of its fitted weight, what a cell is moved at most. Were a share f of all records raised so far, the effective
number of rows by weight would be (1 - f) / (1 + 8 f): above the third from which weights are refused, for f up to 2/11.
A sweep of proportional fitting moves no cell by a larger factor either: a replicate may have emptied some."""
TINY = 1e-200
"""Cells below it are as good as empty; quotients of others do not overflow."""
SWEEPS = 4
"""Of proportional fitting, begun within the noise of where it leads."""


def unfitted(hypothesis: Hypothesis, measurements: Sequence[Measurement]) -> dict[Set, np.ndarray]:
    """Measured less fitted, of every attribute and pair that was measured, by itself or inside a wider set.

    Of pairs what interacts, and of that the trends along ordered attributes: zero where neither attribute is ordered,
    so that such a pair stays as it is. No cell has more than `RAISED` times its weight to gain, so that weights of rows
    stay even.
    """
    domain = hypothesis.domain
    known = _measured(domain, measurements)
    found = {}
    for (names, values), own in zip(known.items(), hypothesis.marginals(list(known)), strict=True):
        away = centred(values - own)
        if len(names) == PAIR:
            away = _along(away, [_trend(domain[name]) for name in names])
        found[names] = np.clip(away, -RAISED * own, RAISED * own)
    return found


def _measured(domain: Domain, measurements: Sequence[Measurement]) -> dict[Set, np.ndarray]:
    """Estimates without a prior: least squares on residuals, else the mean of the marginals by inverse variance."""
    sets = [*((name,) for name in domain.names), *combinations(domain.names, PAIR)]
    measurements = as_residuals(measurements, domain)
    if has_residuals(measurements):
        known = consistent_of(measurements, domain)
        return {names: known.marginal(names)[0] for names in sets if known.knows(names)}
    told = [m for m in measurements if isinstance(m.query, Marginal)]
    marginals = [(domain.canonical(m.query.attributes), m.values, m.sd) for m in told]
    found = {names: collapse(marginals, names) for names in sets}
    return {names: estimate[0] for names, estimate in found.items() if estimate is not None}


def _trend(attribute: Attribute) -> np.ndarray | None:
    """The unit vector of the numbers of its codes, less their mean; None without an order."""
    run = ordered_codes(attribute)
    if not run:
        return None
    numbers = attribute.representatives
    along = np.arange(run, dtype=float) if numbers is None else numbers[:run]
    along = along - along.mean()
    vector = np.zeros(attribute.size)
    vector[:run] = along / np.linalg.norm(along)
    return vector


def _along(table: np.ndarray, trends: Sequence[np.ndarray | None]) -> np.ndarray:
    """The part of a table that runs along the trend of either axis: what is left without both is taken off."""
    rest = table
    for axis, trend in enumerate(trends):
        if trend is not None:
            projected = np.expand_dims(np.tensordot(rest, trend, axes=(axis, 0)), axis)
            rest = rest - projected * trend.reshape([-1 if i == axis else 1 for i in range(table.ndim)])
    return table - rest


def factors_moving(hypothesis: Hypothesis, moves: Mapping[Set, np.ndarray]) -> dict[Set, np.ndarray]:
    """What brings attributes and pairs of a hypothesis to where they are moved: logarithms of factors, by set.

    Proportional fitting, so that all else stays as it is. A cell keeps a hundredth of its weight at least: what was
    measured below zero is noise.
    """
    sets = list(moves)
    own = dict(zip(sets, hypothesis.marginals(sets), strict=True))
    singles = {names[0]: _bounded(cells, moves[names]) for names, cells in own.items() if len(names) == 1}
    singles = {name: cells / cells.sum() for name, cells in singles.items()}
    aims = [_aim(names, own[names], moves[names], singles) for names in sets]
    engine = _engine(hypothesis, sets)
    logs = {names: np.zeros(aim.shape) for names, aim in zip(sets, aims, strict=True)}
    for _ in range(SWEEPS):
        for place, (names, aim) in enumerate(zip(sets, aims, strict=True)):
            cells = engine.held(place, np.arange(aim.size).reshape(aim.shape))
            logs[names].reshape(-1)[cells] += np.log(engine.rescale(place, partial(_quotient, engine.held(place, aim))))
    return logs


def _bounded(cells: np.ndarray, move: np.ndarray) -> np.ndarray:
    return np.clip(cells + move, LEAST_KEPT * cells, (1 + RAISED) * cells)


def _aim(names: Set, cells: np.ndarray, move: np.ndarray, singles: Mapping[str, np.ndarray]) -> np.ndarray:
    """A pair moved, its attributes where they are moved to: proportional fitting of the pair by itself."""
    if len(names) == 1:
        return singles[names[0]]
    aim = _bounded(cells, move)
    for _ in range(SWEEPS):
        for axis, name in enumerate(names):
            wanted = singles.get(name, cells.sum(axis=1 - axis))
            aim = aim * _quotient(np.expand_dims(wanted, 1 - axis), aim.sum(axis=1 - axis, keepdims=True))
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
