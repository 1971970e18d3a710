"""Perturb and refit: replicates of a release, which show how far it may be from the population (spec population.md 1).

Each replicate draws a table from the release and shifts every measured value by two amounts: the difference between the
marginals of this table and of the release, and fresh noise of the recorded scale. It draws the centres of the prior and
fits again. It reads only the release and public randomness (docs/proofs/population.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from reticent.errors import QueryError
from reticent.hypotheses.base import Hypothesis, Measurement, average
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.dense.marginal_tree import COMPILED_CELLS
from reticent.hypotheses.fitting.consistent import centred
from reticent.hypotheses.fitting.histogram import estimate, is_drowned
from reticent.hypotheses.fitting.loglinear import LogLinear, Redraw
from reticent.hypotheses.fitting.prior import collapse
from reticent.hypotheses.fitting.unfitted import factors_moving, unfitted
from reticent.hypotheses.replicates import Replicates, difference, drawn_table, tilted_further
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.mechanisms.base import Laplace, restore
from reticent.knowledge.guarantees import Progress, Report, silent
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal, Residual

if TYPE_CHECKING:
    from reticent.domain import Domain

__all__ = ["MOST_REPLICATES", "PUBLIC_SEED", "fresh_noise", "made_replicates", "refit"]

Set = tuple[str, ...]

PUBLIC_SEED = 20261117
"""The seed of the replicates unless another one is given; the same release has the same replicates."""
FEWEST_REPLICATES, MOST_REPLICATES = 10, 1000
THREADS = 2
LEAST_CELLS = COMPILED_CELLS
"""The smallest universe whose replicates are computed in threads. On smaller ones a fit holds the interpreter's lock
most of the time, and two threads that hand it over took twice the processor time of one.
"""
SUPPORTED = "Adaptive"


def made_replicates(
    hypothesis: Hypothesis,
    measurements: Sequence[Measurement],
    *,
    records: float,
    public_records: bool,
    count: int,
    sets: Sequence[Set] = (),
    seed: int = PUBLIC_SEED,
    progress: Report = silent,
) -> Replicates:
    """`count` replicates; a function of its arguments alone, independent of the number of threads.

    `sets` are the sets inside those of the workload; a histogram of the whole universe is fitted to them.
    """
    if not measurements:
        raise QueryError("this release holds no measurements to perturb: replicates need those of rt.Adaptive()")
    measured_sets = [hypothesis.domain.canonical(m.query.attributes) for m in measurements]

    def measured_of(held: Hypothesis) -> list[np.ndarray]:
        told = zip(measurements, held.marginals(measured_sets), strict=True)
        return [_measured_of(m.query, cells, held.domain) for m, cells in told]

    own = measured_of(hypothesis)
    # The posterior of a drowned histogram is spread by the noise already.
    posterior = _posterior(hypothesis.domain, measurements)
    # Beside single queries the tables of attributes are an aside, and noise is most of what a fit leaves of them.
    single = any(isinstance(m.query, Linear) for m in measurements)
    left = {} if posterior or single else unfitted(hypothesis, measurements)
    start = _start(hypothesis, measurements)
    seeds = np.random.SeedSequence(seed).spawn(count)

    def one(place: int) -> dict[Set, np.ndarray]:
        generator = np.random.default_rng(seeds[place])
        drawn = measured_of(drawn_table(hypothesis, max(1, round(records)), generator))
        choices, perturbed = [], []
        for measured, there, here in zip(measurements, drawn, own, strict=True):
            noise = fresh_noise(measured, generator)
            choices.append(replace(measured, values=there + noise))
            fresh = 0.0 if posterior else noise
            perturbed.append(replace(measured, values=measured.values + there - here + fresh))
        if not public_records:
            choices, perturbed = _counted(choices), _counted(perturbed)
        refitted = refit(hypothesis, perturbed, Redraw(choices, generator), start, sets)
        found = difference(hypothesis, refitted)
        if not left:
            return found
        moves = {names: _sign(place) * away for names, away in left.items()}
        return tilted_further(hypothesis, found, factors_moving(refitted, moves))

    threads = THREADS if hypothesis.domain.size >= LEAST_CELLS else 1
    return Replicates.of(hypothesis, seed, _in_threads(one, count, progress, threads))


def _measured_of(query: Linear | Marginal | Residual, cells: np.ndarray, domain: Domain) -> np.ndarray:
    """What an exact measurement would say of a table with these cells."""
    if isinstance(query, Linear):
        return np.asarray(average(query.compile(domain), cells))
    return centred(cells) if isinstance(query, Residual) else cells


def _sign(place: int) -> int:
    """The sign of the fit's residual in a replicate: it is added and subtracted in turn."""
    return (1, -1)[place % 2]


def _start(hypothesis: Hypothesis, measurements: Sequence[Measurement]) -> LogLinear | None:
    """The published model. A release on records does not keep its model, so it is refitted, once for all replicates."""
    if isinstance(hypothesis, SupportHypothesis) and hypothesis.model is None:
        twin = hypothesis.copy()
        twin.fit(measurements)
        return twin.model
    return hypothesis.model if isinstance(hypothesis, (DenseHypothesis, SupportHypothesis)) else None


def refit(
    hypothesis: Hypothesis,
    measurements: Sequence[Measurement],
    redraw: Redraw,
    start: LogLinear | None = None,
    sets: Sequence[Set] = (),
) -> Hypothesis:
    """Fit a hypothesis to measurements as `Adaptive` does; replicates and releases share this function.

    It fits a histogram of the whole universe, a log-linear model on all cells, or weights on the release's own records.
    `hypothesis` is the published one, whose kind and records are reused. The fit starts from `start`, the published
    model: the perturbation is as small as the error, so this takes half as many steps as a fit without a start.
    """
    domain = hypothesis.domain
    if isinstance(hypothesis, SupportHypothesis):
        twin = hypothesis.copy()
        twin.fit(measurements, redraw=redraw, start=start)
        return twin
    if not isinstance(hypothesis, DenseHypothesis):
        raise QueryError(f"replicates of a {hypothesis.kind} hypothesis are not supported; use rt.Adaptive()")
    if (whole := _histogram(domain, measurements)) is not None:
        laplace = _is_laplace(whole)
        cells, _ = estimate(domain, whole, sets, laplace=laplace, generator=redraw.generator, redraw=redraw)
        return DenseHypothesis(domain, cells)
    fresh = DenseHypothesis(domain)
    fresh.fit(measurements, redraw=redraw, start=start)
    return fresh


def _histogram(domain: Domain, measurements: Sequence[Measurement]) -> Measurement | None:
    """Every cell of the universe, if these and the number of records are all that was measured, once."""
    told = [m for m in measurements if m.query.attributes]
    alone = len(told) == 1 and isinstance(told[0].query, Marginal)
    return told[0] if alone and domain.canonical(told[0].query.attributes) == domain.names else None


def _posterior(domain: Domain, measurements: Sequence[Measurement]) -> bool:
    whole = _histogram(domain, measurements)
    return whole is not None and is_drowned(whole)


def fresh_noise(measured: Measurement, generator: np.random.Generator) -> np.ndarray:
    """Fresh noise of the recorded kind and scale, in fractions."""
    shape = np.shape(measured.values)
    if _is_laplace(measured):
        return generator.laplace(0.0, measured.sd / sqrt(2), shape)
    return generator.normal(0.0, measured.sd, shape)


def _is_laplace(measured: Measurement) -> bool:
    return measured.noise is not None and isinstance(restore(dict(measured.noise)), Laplace)


def _counted(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Values divided by the total that they imply, as under add-remove, where the number of records is measured too."""
    told = [m for m in measurements if isinstance(m.query, Marginal) or m.query == Residual(())]
    known = [(tuple(m.query.attributes), m.values, m.sd) for m in told]
    found = collapse(known, ())
    total = 1.0 if found is None else max(float(found[0]), 1e-3)
    return [replace(m, values=m.values / total, sd=m.sd / total) for m in measurements]


def _in_threads(act: Callable[[int], Any], count: int, progress: Report, most: int) -> list[Any]:
    """All results in order, a few at a time; kernels and array operations release the interpreter's lock."""
    threads = max(1, min(most, os.cpu_count() or 1, count))
    results = []
    # Every fit keeps linear algebra to one thread; two that do so at once must not restore each other's limits.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for done, result in enumerate(pool.map(act, range(count)), start=1):
            results.append(result)
            progress(Progress(done, count, f"replicate {done} of {count}", 1.0))
    return results
