"""Records moved to where a fitted model has them: resampled by weight, then Gibbs sweeps.

A fit on chosen records changes their weights only. Where its model needs records that were not chosen, no weights reach
what was measured, and descent takes thousands of steps. The model itself is defined on all records. Resampling by
weight gives records of the model with equal weights; a Gibbs sweep draws each of their values anew, given the others,
which leaves the model's distribution as it is and brings in the records that were missing. All of it is post-processing
of public numbers; the generator is public too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.fitting.descent import furthest_noise
from reticent.hypotheses.set_layout import SetLayout, rule_tables
from reticent.hypotheses.support import SupportHypothesis

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import FitReport, Measurement
    from reticent.hypotheses.fitting.loglinear import LogLinear

__all__ = ["drawn_support", "fit_and_move", "log_density", "moved_records"]

SWEEPS = 2
"""Gibbs sweeps between two fits: the first separates equal copies of a record, the second mixes what they became."""


MOVES, STEPS_BETWEEN_MOVES = 2, 100
"""Times that records are moved, and the steps of a fit before it is judged: enough to tell where the model has its
records, not to solve what the wrong records contradict."""


def fit_and_move(
    hypothesis: SupportHypothesis, measurements: Sequence[Measurement], start: LogLinear, rows: int, seed: int
) -> tuple[SupportHypothesis, FitReport]:
    """Fit the weights of a support, and move its records where some of those that the model needs are missing.

    A fit of some steps that leaves a measured cell further off than noise does shows that records are missing. On moved
    records the objective may be larger: parameters that fit the former records may favour others that no table has. The
    former records are kept then. The last fit goes on until it converges or its steps are used up.
    """
    generator, furthest = np.random.default_rng(seed), furthest_noise(measurements)
    fitted = hypothesis.fit(measurements, start=start, iterations=STEPS_BETWEEN_MOVES)
    for _ in range(MOVES):
        if fitted.converged or fitted.misfit <= furthest:
            break
        moved = moved_records(hypothesis, model_of(hypothesis), rows, generator)
        again = moved.fit(measurements, start=model_of(hypothesis), iterations=STEPS_BETWEEN_MOVES)
        if again.objective >= fitted.objective:
            break
        hypothesis, fitted = moved, again
    if fitted.converged:
        return hypothesis, fitted
    return hypothesis, hypothesis.fit(measurements, start=model_of(hypothesis))


def model_of(hypothesis: SupportHypothesis) -> LogLinear:
    """The model of its last fit."""
    assert hypothesis.model is not None, "a fit leaves its model"
    return hypothesis.model


def log_density(domain: Domain, codes: np.ndarray, model: LogLinear) -> np.ndarray:
    """The logarithm of a model's density at some records, up to a constant."""
    total = np.zeros(len(codes))
    for names, potential in zip(model.sets, model.potentials, strict=True):
        total += potential[tuple(codes[:, domain.index(name)] for name in names)]
    return total


def drawn_support(
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


def moved_records(
    hypothesis: SupportHypothesis, model: LogLinear, rows: int, generator: np.random.Generator
) -> SupportHypothesis:
    """So many records of the model that a fit of the hypothesis found, from those of the hypothesis on."""
    from reticent.hypotheses.sampling_kernels import gibbs

    domain = hypothesis.domain
    codes = np.ascontiguousarray(hypothesis.systematic(rows, generator), dtype=np.int64)
    layout = SetLayout.of(domain, model.sets)
    cells, rules = layout.cells(codes), rule_tables(codes, domain)
    energies = -np.concatenate([np.ravel(potential) for potential in model.potentials])
    for _ in range(SWEEPS):
        draws = generator.random(codes.shape)
        gibbs(codes, cells, energies, draws, layout.strides, layout.sizes, layout.listed, layout.borders, *rules)
    return drawn_support(domain, codes, log_density(domain, codes, model))
