"""Predictions of what a warm start will certify, from public facts: before it is bought, and again before its audit.

Predictions decide what is bought and are labelled as predictions; only the audit certifies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, log, prod, sqrt
from statistics import fmean
from typing import NamedTuple, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import ReticentError
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.consistent import centred, consistent_of, subsets_of
from reticent.hypotheses.fitting.loglinear import Key, Redraw, Term
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.counting.boxes import largest_box
from reticent.planning.misfit import Misfit, table_with
from reticent.queries.linear import Marginal, Residual
from reticent.releases.replicates import fresh_noise

Set = tuple[str, ...]

QUARTERS = 4
"""Ranges of a column that are about independent of each other: neighbouring ones share most of their noise."""
LOW_ORDER = 2
"""Up to so many columns any interaction is expected."""
INTERACTION = 1 / 40
"""Assumed of an interaction of three or more columns: how far it moves the share of a box that takes half of each. With
it 0.9 to 1.8 of the largest error was predicted on seven tables, Adult among them; without it up to 2.7."""
REFITTED_CELLS = 2**19
"""Universes of up to this size are fitted a few times more for a prediction, in seconds; larger ones once."""
REFITTED_WORK = 2**25
"""Numbers that one step of a fit on chosen records passes over: up to here a few refits take seconds too."""
REFITS, DRAWS = 3, 6
"""Refits where they take seconds, and draws of what they do not show: the largest of many errors moves by a tenth, and
that of one refit of a large universe by a third."""
REFIT_STEPS, REFIT_WORK = 100, 2**31
"""A refit on chosen records goes on until it converges, or has taken so many steps and passed over so many numbers,
which takes some seconds. Stopped early, its errors are larger than at the optimum: by a fifth on the KDD 99 table,
whose refits converge after 450 to 720 steps of a million numbers each."""
GRID = 2.0**40
"""Differences of probabilities as whole numbers, which the search for the worst range takes."""
PUBLIC_SEED = 20261118
"""Draws the noise of predictions: public post-processing."""


class Largest(NamedTuple):
    """Expected largest errors of a fit, as shares of the table, over sets of so many attributes."""

    boxes: float
    predicates: tuple[float, ...]
    """One for each list of sets that was given."""


class Tables(Protocol):
    """What has marginals: a hypothesis, or the table that one stands for."""

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]: ...


class Unshrunk:
    """A table with the interactions that a fit shrank: twice the fit less a fit to the fit's own marginals.

    Of a coefficient T measured with noise z a fit keeps the share h, and the fit `p = h (T + z)` is the smaller the
    more it shrinks. Refits to a table as small as p shrink less, in absolute numbers, than the fit did, and their
    errors are too small. A fit to p without noise is `h p`, so that `2 p - h p = h (2 - h) (T + z)`. If h is what the
    coefficient warrants, `h (T^2 + noise) = T^2`, this has the mean square `h (2 - h)^2 T^2`, where p has `h T^2`:
    for h from 0.3 to 1 it lies between 0.87 and 1.19 times `T^2` (Tukey's twicing).
    """

    def __init__(self, hypothesis: Tables, again: Tables) -> None:
        self._hypothesis, self._again = hypothesis, again

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        pairs = zip(self._hypothesis.marginals(sets), self._again.marginals(sets), strict=True)
        return [2 * once - twice for once, twice in pairs]


class _SameScales(Redraw):
    """Prior scales learnt from given measurements, as the fit to them had; the prior stays centred at the base."""

    def centres(self, terms: dict[Key, Term]) -> dict[Key, np.ndarray]:
        return {}


def expected_largest(domain: Domain, noise: Mapping[Set, float], order: int) -> float:
    """The largest error over all boxes on `order` attributes of the least-squares fit to measured marginals.

    `noise` is the standard deviation of each measured marginal's cells, as a share of the table. A marginal S
    determines the interaction A inside it with the variance of its cells times cells(S) / cells(A) in each cell of A,
    and the precisions of several marginals add up. A box that takes half of each of k columns has 4^-k cells(A) times
    that variance from every A inside it, and the largest error of N approximately independent boxes is about sqrt(2 ln
    N) standard deviations. A fit with shrinkage drops an interaction that is smaller than its noise: the interaction
    itself is then the error, and for three or more columns it is assumed to be small.
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
    """The variance of a box's error from one interaction of a given number of columns."""
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
    """The largest errors that a fit is expected to have, given its residuals; None if unknown.

    Fits to simulated measurements show the errors caused by noise and shrinkage. What is measured is not the fit
    itself, whose interactions are shrunk already, but the fit with these enlarged (`Unshrunk`). The additional misfit
    of the real table is estimated from the residuals (`misfit.py`), drawn, and added. The result is the mean of a few
    draws.
    """
    told = [m for m in measurements if isinstance(m.query, (Marginal, Residual))]
    if not isinstance(hypothesis, (DenseHypothesis, SupportHypothesis)) or not told:
        return None
    generator, domain = np.random.default_rng(PUBLIC_SEED), hypothesis.domain
    if isinstance(hypothesis, SupportHypothesis):
        quick = len(hypothesis.codes) * len(told) <= REFITTED_WORK
    else:
        quick = domain.size <= REFITTED_CELLS
    try:
        table = _unshrunk(hypothesis, told, generator)
        fits = [_refitted(hypothesis, table, told, generator) for _ in range(REFITS if quick else 1)]
    except ReticentError:
        return None
    asked = list(dict.fromkeys(names for sets in (boxes, *predicates) for names in sets))
    inner = dict.fromkeys(a for names in asked for _, a in subsets_of(names) if a)
    measured = consistent_of(told, domain)
    known = [names for names in inner if names in measured.precisions]
    seen = [(consistent_of(alike, domain), _residuals(fit, known)) for alike, fit in fits]
    misfit = Misfit.of(measured, _residuals(hypothesis, known), _residuals(table, known), seen)
    shapes = {names: domain.shape_of(names) for names in inner}
    errors = [_errors(table, fit, asked) for _, fit in fits]
    drawn: list[float] = []
    for place in range(DRAWS):
        excess, own = misfit.draw(shapes, generator), errors[place % len(errors)]
        field = {names: own[names] + table_with(excess, names, own[names].shape) for names in boxes}
        drawn.append(_worst_box(field, boxes))
    # Absolute errors of cells add up: only their root mean square is larger than that of refits.
    variations = [
        misfit.growth.get(len(sets[0]), 1.0) * fmean(_variation(own, sets) for own in errors) for sets in predicates
    ]
    return Largest(fmean(drawn), tuple(variations))


def _unshrunk(
    hypothesis: DenseHypothesis | SupportHypothesis, told: Sequence[Measurement], generator: np.random.Generator
) -> Unshrunk:
    again = _fit(hypothesis, _measured(hypothesis, hypothesis.domain, told), _SameScales(told, generator))
    return Unshrunk(hypothesis, again)


def _refitted(
    hypothesis: DenseHypothesis | SupportHypothesis,
    table: Tables,
    told: Sequence[Measurement],
    generator: np.random.Generator,
) -> tuple[list[Measurement], Hypothesis]:
    """Simulated measurements of a table, and a fit to them on the records of the hypothesis."""
    exact = _measured(table, hypothesis.domain, told)
    alike = [replace(m, values=m.values + fresh_noise(m, generator)) for m in exact]
    return alike, _fit(hypothesis, alike)


def _measured(table: Tables, domain: Domain, told: Sequence[Measurement]) -> list[Measurement]:
    """What the same measurements would say of a table without noise."""
    tables = table.marginals([domain.canonical(m.query.attributes) for m in told])
    own = [centred(t) if isinstance(m.query, Residual) else t for m, t in zip(told, tables, strict=True)]
    return [replace(m, values=here) for m, here in zip(told, own, strict=True)]


def _fit(
    hypothesis: DenseHypothesis | SupportHypothesis, alike: Sequence[Measurement], redraw: Redraw | None = None
) -> Hypothesis:
    if isinstance(hypothesis, SupportHypothesis):
        chosen = hypothesis.copy()
        steps = max(REFIT_STEPS, REFIT_WORK // (len(hypothesis.codes) * len(alike)))
        chosen.fit(alike, iterations=steps, redraw=redraw)
        return chosen
    fresh = DenseHypothesis(hypothesis.domain)
    fresh.fit(alike, redraw=redraw)
    return fresh


def _residuals(hypothesis: Tables, sets: Sequence[Set]) -> dict[Set, np.ndarray]:
    return {names: centred(table) for names, table in zip(sets, hypothesis.marginals(sets), strict=True)}


def _errors(true: Tables, fitted: Tables, sets: Sequence[Set]) -> dict[Set, np.ndarray]:
    pairs = zip(sets, true.marginals(sets), fitted.marginals(sets), strict=True)
    return {names: here - there for names, here, there in pairs}


def _worst_box(errors: Mapping[Set, np.ndarray], sets: Sequence[Set]) -> float:
    return max(largest_box(np.rint(errors[names] * GRID).astype(np.int64)) for names in sets) / GRID


def _variation(errors: Mapping[Set, np.ndarray], sets: Sequence[Set]) -> float:
    """The largest error over all predicates on a set: half the L1 distance of the cells."""
    return max(float(np.abs(errors[names]).sum()) for names in sets) / 2
