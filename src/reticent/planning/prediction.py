"""What a start is expected to certify, from public facts: before it is bought, and then before its audit.

An expectation decides what is bought and is stated as one; what holds is what the audit then certifies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, log, prod, sqrt
from typing import NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.errors import ReticentError
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.consistent import centred
from reticent.hypotheses.fitting.loglinear import Redraw
from reticent.kernel.counting.boxes import largest_box
from reticent.queries.linear import Residual
from reticent.releases.replicates import fresh_noise, refit

Set = tuple[str, ...]

QUARTERS = 4
"""Ranges of a column that are about independent of each other: neighbouring ones share most of their noise."""
LOW_ORDER = 2
"""Up to so many columns any interaction is expected."""
INTERACTION = 1 / 40
"""Assumed of an interaction of three or more columns: how far it moves the share of a box that takes half of each. With
it 0.9 to 1.8 of the largest error was predicted on seven tables, Adult among them; without it up to 2.7."""
REFITTED_CELLS = 2**19
"""Universes of up to this size are fitted twice more for a prediction: a few seconds."""
GRID = 2.0**40
"""Differences of probabilities as whole numbers, which the search for the worst range takes."""
PUBLIC_SEED = 20261118
"""Draws the noise of predictions: public post-processing."""


class Largest(NamedTuple):
    """Expected largest errors of a fit, as shares of the table, over sets of so many attributes."""

    boxes: float
    predicates: tuple[float, ...]
    """One for each list of sets that was given."""


def expected_largest(domain: Domain, noise: Mapping[Set, float], order: int) -> float:
    """The largest error over all boxes on `order` attributes of the least-squares fit to measured marginals.

    `noise` is the standard deviation of each measured marginal's cells, as a share of the table. A marginal S tells the
    interaction A inside it with the variance of its cells times cells(S) / cells(A) in each cell of A, and what several
    marginals tell about A adds up. A box that takes half of each of k columns has 4^-k cells(A) times that variance
    from every A inside it, and of N about independent boxes the largest error is about sqrt(2 ln N) of their standard
    deviations. Of an interaction that is smaller than its noise a fit that shrinks keeps nothing: then the interaction
    itself is the error, and of three or more columns it is assumed to be small.
    """
    precision: dict[Set, float] = {}
    for names, sd in noise.items():
        cells = domain.cells(names)
        for size in range(1, len(names) + 1):
            for inside in itertools.combinations(names, size):
                precision[inside] = precision.get(inside, 0.0) + domain.cells(inside) / (cells * sd**2)
    largest, boxes = 0.0, 0
    for names in itertools.combinations(domain.names, order):
        inside = [a for size in range(1, order + 1) for a in itertools.combinations(names, size)]
        variances = (_variance(len(a), domain.cells(a) / 4.0**order, precision.get(a, 0.0)) for a in inside)
        largest = max(largest, sqrt(sum(variances)))
        boxes += prod(min(QUARTERS, domain[name].size) for name in names)
    return largest * sqrt(2 * log(max(2, boxes)))


def _variance(columns: int, weight: float, precision: float) -> float:
    """Of a box's error, from one interaction of so many columns."""
    assumed = (INTERACTION * 2.0**-columns) ** 2 if columns > LOW_ORDER else inf
    if precision == 0:
        return assumed if columns > LOW_ORDER else 0.0  # left to the fit's prior; nothing to say beforehand
    noise = weight / precision
    return noise if assumed == inf else noise * assumed / (noise + assumed)


def refitted_largest(
    hypothesis: Hypothesis,
    measurements: Sequence[Measurement],
    boxes: Sequence[Set],
    predicates: Sequence[Sequence[Set]] = (),
) -> Largest | None:
    """The largest errors of fits to what would be measured if the hypothesis were the table; None if that takes long.

    Two fits: one to the hypothesis' own marginals with fresh noise, which shrinks interactions as strong as those that
    were found, and one whose prior has its centres drawn anew, which has them where nothing was found. The larger
    error counts: either alone was seen to be a third too low.
    """
    if not isinstance(hypothesis, DenseHypothesis) or hypothesis.domain.size > REFITTED_CELLS or not measurements:
        return None
    domain, generator = hypothesis.domain, np.random.default_rng(PUBLIC_SEED)
    tables = hypothesis.marginals([domain.canonical(m.query.attributes) for m in measurements])
    own = [centred(t) if isinstance(m.query, Residual) else t for m, t in zip(measurements, tables, strict=True)]
    drawn = [fresh_noise(measured, generator) for measured in measurements]
    told = list(zip(measurements, own, drawn, strict=True))
    alike = [replace(measured, values=here + noise) for measured, here, noise in told]
    moved = [replace(measured, values=measured.values + noise) for measured, _, noise in told]
    try:
        fits = [_fitted(domain, alike), refit(hypothesis, moved, Redraw(alike, generator))]
    except ReticentError:
        return None
    worst = max(_worst_box(hypothesis, fit, boxes) for fit in fits)
    return Largest(worst, tuple(max(_variation(hypothesis, fit, sets) for fit in fits) for sets in predicates))


def _fitted(domain: Domain, measurements: Sequence[Measurement]) -> Hypothesis:
    fresh = DenseHypothesis(domain)
    fresh.fit(measurements)
    return fresh


def _worst_box(true: Hypothesis, fitted: Hypothesis, sets: Sequence[Set]) -> float:
    pairs = zip(fitted.marginals(sets), true.marginals(sets), strict=True)
    return max(largest_box(np.rint((there - here) * GRID).astype(np.int64)) for there, here in pairs) / GRID


def _variation(true: Hypothesis, fitted: Hypothesis, sets: Sequence[Set]) -> float:
    """The largest error over all predicates on a set: half of what the cells differ by in all."""
    pairs = zip(fitted.marginals(sets), true.marginals(sets), strict=True)
    return max(float(np.abs(there - here).sum()) for there, here in pairs) / 2
