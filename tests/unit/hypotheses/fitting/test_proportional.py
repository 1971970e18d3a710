"""Least squares against brute force, proportional fitting against its target, and fits that say what they missed."""

import itertools

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseEngine, DenseHypothesis
from reticent.hypotheses.fitting.consistent import Consistent, centred
from reticent.hypotheses.fitting.loglinear import FitProblem, fit_loglinear, terms_of
from reticent.hypotheses.fitting.prior import Base, Prior, product_base
from reticent.hypotheses.fitting.proportional import (
    TRUE,
    consistent_marginals,
    nearest_distribution,
    proportional_start,
)
from reticent.hypotheses.fitting.support_engine import SupportEngine
from reticent.hypotheses.support import SupportHypothesis
from reticent.queries.linear import Marginal, Residual

DOMAIN = Domain(a=3, b=2, c=4)
SETS = [("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")]


def summed(table: np.ndarray, names: tuple[str, ...], domain: Domain = DOMAIN) -> np.ndarray:
    return table.sum(axis=tuple(i for i, name in enumerate(domain.names) if name not in names))


def matrix_of(names: tuple[str, ...]) -> np.ndarray:
    """One row for each cell of a marginal, one column for each cell of the universe."""
    cells = np.eye(DOMAIN.size).reshape(DOMAIN.size, *DOMAIN.shape)
    return np.stack([summed(cell, names).ravel() for cell in cells], axis=1)


@pytest.mark.parametrize("sets", [SETS, SETS[:3], SETS[1:3]], ids=["closed by the universe", "overlapping", "pairs"])
def test_consistent_marginals_are_weighted_least_squares(sets):
    generator = np.random.default_rng(3)
    truth = generator.dirichlet(np.ones(DOMAIN.size)).reshape(DOMAIN.shape)
    noise = dict(zip(sets, (0.02, 0.01, 0.03, 0.05), strict=False))
    measured = {
        names: (summed(truth, names) + generator.normal(0, sd, summed(truth, names).shape), sd)
        for names, sd in noise.items()
    }
    # The total is one: a row of enormous weight.
    rows = [matrix_of(names) / sd for names, sd in noise.items()] + [np.full((1, DOMAIN.size), 1e7)]
    aims = [(values / sd).ravel() for values, sd in measured.values()] + [np.full(1, 1e7)]
    best = np.linalg.lstsq(np.concatenate(rows), np.concatenate(aims), rcond=None)[0]
    consistent = Consistent.of((names, *known) for names, known in measured.items())
    for names in sets:
        found, _ = consistent.marginal(names)
        assert found.ravel() == pytest.approx(matrix_of(names) @ best, abs=1e-6)
    spread = {names for s in sets for k in range(1, len(s) + 1) for names in itertools.combinations(s, k)}
    assert consistent.rank == sum(int(np.prod([DOMAIN[name].size - 1 for name in names])) for names in spread)


def test_the_noise_of_a_consistent_marginal_is_what_it_says():
    generator, noise = np.random.default_rng(4), {("a", "b"): 0.3, ("b", "c"): 0.1, ("b",): 0.2}
    zeros = {names: np.zeros(DOMAIN.shape_of(names)) for names in noise}
    drawn = [
        Consistent.of((n, zeros[n] + generator.normal(0, sd, zeros[n].shape), sd) for n, sd in noise.items())
        for _ in range(1000)
    ]
    for names in (("a", "b"), ("b", "c")):
        tables = np.stack([one.marginal(names)[0] for one in drawn])
        _, sd = drawn[0].marginal(names)
        # The total is taken as known, so that its part of the variance is absent from the tables.
        without = sd**2 - 1 / (drawn[0].precisions[()] * tables[0].size ** 2)
        assert tables.var(axis=0).mean() == pytest.approx(without, rel=0.12)


def test_freedom_goes_from_single_attributes_to_the_rank():
    base = Base({name: np.full(size, 1 / size) for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)})
    measured = {names: (np.full(DOMAIN.shape_of(names), 1 / DOMAIN.cells(names)), 0.01) for names in SETS}
    consistent = Consistent.of((names, *known) for names, known in measured.items())
    every = [n for k in (1, 2, 3) for n in itertools.combinations(DOMAIN.names, k)]
    singles = sum(size - 1 for size in DOMAIN.shape)
    assert consistent.decided(base, dict.fromkeys(every, 1e-9)) == pytest.approx(singles)
    assert consistent.decided(base, dict.fromkeys(every, 1e9)) == pytest.approx(consistent.rank)


def test_the_nearest_distribution_is_nearer_than_any_other():
    generator = np.random.default_rng(5)
    for _ in range(50):
        values = generator.normal(0.1, 0.3, (3, 4))
        found = nearest_distribution(values)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        others = generator.dirichlet(np.full(12, 0.3), 200).reshape(-1, 3, 4)
        assert (((others - values) ** 2).sum(axis=(1, 2)) >= ((found - values) ** 2).sum() - 1e-12).all()


def engines(sets):
    axes = [tuple(DOMAIN.index(name) for name in s) for s in sets]
    codes = np.stack(np.unravel_index(np.arange(DOMAIN.size), DOMAIN.shape), axis=1)

    def cells(axes):
        return np.ravel_multi_index(tuple(codes[:, i] for i in axes), [DOMAIN.shape[i] for i in axes])

    return DenseEngine(DOMAIN.shape, axes), SupportEngine(DOMAIN.shape, axes, cells, np.zeros(DOMAIN.size))


@pytest.mark.parametrize("which", [0, 1], ids=["dense", "support"])
def test_rescaling_multiplies_every_cell_of_a_marginal(which):
    engine = engines(SETS)[which]
    generator = np.random.default_rng(6)
    engine.evaluate([generator.normal(0, 1, DOMAIN.shape_of(s)) for s in SETS])
    before = engine.probabilities.copy().reshape(DOMAIN.shape)
    aim = generator.dirichlet(np.ones(8)).reshape(2, 4)
    factor = engine.rescale(2, lambda marginal: engine.held(2, aim) / marginal).reshape(2, 4)
    after = engine.probabilities.reshape(DOMAIN.shape)
    assert summed(after, ("b", "c")) == pytest.approx(aim)
    assert after == pytest.approx(before * factor[None])


def test_proportional_fitting_ends_at_the_noise_of_what_was_measured():
    generator, sd = np.random.default_rng(7), 1e-6
    truth = generator.dirichlet(np.ones(DOMAIN.size)).reshape(DOMAIN.shape)
    pairs = list(itertools.combinations(DOMAIN.names, 2))
    measurements = [
        Measurement(Marginal(s), summed(truth, s) + generator.normal(0, sd, DOMAIN.shape_of(s)), sd) for s in pairs
    ]
    terms = terms_of(measurements, DOMAIN, Prior())
    base = product_base(DOMAIN, [(t.attributes, t.values, t.sd) for t in terms.values()])
    problem = FitProblem(list(terms.values()), base, lambda sets: engines(sets)[0])
    consistent = consistent_marginals(problem)
    assert consistent is not None
    assert problem.misfit(np.zeros(problem.size)) > 1000
    assert problem.misfit(proportional_start(problem, consistent, np.zeros(problem.size))) < 5


def test_a_fit_that_cannot_reach_a_cell_says_so():
    """A support without records for a heavy cell: the fit ends, is finite, and is not called converged."""
    codes = np.array([[0, 0, 0], [1, 1, 1], [2, 0, 2], [0, 1, 3]])
    values = np.full((3, 2), 0.1)
    values[2, 1] = 0.5
    hypothesis = SupportHypothesis(DOMAIN, codes)
    report = hypothesis.fit([Measurement(Marginal(("a", "b")), values, 1e-4)])
    assert not report.converged
    assert "not converged" in report.message
    assert np.isfinite(hypothesis.weights).all()


def test_a_fit_that_ends_at_the_noise_says_that_it_converged():
    values = np.array([[0.1, 0.2], [0.3, 0.1], [0.1, 0.2]]) + np.random.default_rng(8).normal(0, 1e-3, (3, 2))
    _, report = fit_loglinear([Measurement(Marginal(("a", "b")), values, 1e-3)], DOMAIN, lambda s: engines(s)[0])
    assert report.converged
    assert report.message == ""
    assert report.misfit < 6


def test_a_column_inside_a_wide_set_stays_near_its_own_measurement() -> None:
    """Following the noise of 40,000 cells gained more than 5 sums cost: these were 6 standard deviations off."""
    domain, records, generator = Domain({"a": 8_000, "b": 5}), 20_000, np.random.default_rng(1)
    falling = [1 / np.arange(1, size + 1) ** 1.3 for size in domain.shape]
    first, second = (weights / weights.sum() for weights in falling)
    table = generator.multinomial(records, np.outer(first, second).ravel()).reshape(domain.shape)
    tables = {("a",): (table.sum(axis=1), 14), ("b",): (table.sum(axis=0), 150), ("a", "b"): (table, 13)}
    noisy = {names: centred(t + sd * generator.normal(size=t.shape)) / records for names, (t, sd) in tables.items()}
    hypothesis = DenseHypothesis(domain)
    report = hypothesis.fit([Measurement(Residual(s), noisy[s], tables[s][1] / records) for s in noisy])
    away = np.abs(centred(hypothesis.marginal(("b",))) - noisy["b",]).max() * records / 150
    assert away < 1.05 * TRUE
    assert report.converged
