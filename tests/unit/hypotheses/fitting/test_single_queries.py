"""Counts and predicates of any precision beside marginals: fits lie where weighted least squares on the simplex do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import nnls

import reticent as rt
from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.consistent import Consistent, MeasuredForm

CASES = 60
NEAR = 5.0
"""Standard deviations of a number that prior and stopping rule may leave: 2.9 at most in 1,000 tables like these."""
HARD = 1e7
"""Weight of the sum of all cells, far above that of the most precise number, 1 / 1e-5."""


@dataclass
class Case:
    """Measurements of a random table: what each sums of the table's cells, and the noise."""

    domain: Domain
    measurements: list[Measurement]
    sums: np.ndarray
    sds: np.ndarray

    @property
    def values(self) -> np.ndarray:
        return np.concatenate([np.ravel(m.values) for m in self.measurements])

    def least_squares(self) -> np.ndarray:
        """The distribution nearest to all measurements, in standard deviations of their noise."""
        weighted = np.concatenate([self.sums / self.sds[:, None], np.full((1, self.domain.size), HARD)])
        cells, _ = nnls(weighted, np.append(self.values / self.sds, HARD), maxiter=100 * self.domain.size)
        return cells / cells.sum()


def random_case(seed: int, noise: float) -> Case:
    """One to three marginals, up to three counts of conditions joined by AND and OR, each with a noise of its own."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 5, size=generator.integers(2, 5)).tolist()
    domain = Domain(**{f"a{i}": size for i, size in enumerate(sizes)})
    table = generator.dirichlet(np.full(domain.size, generator.choice([0.1, 0.3, 1.0, 5.0])))
    codes = np.indices(sizes).reshape(len(sizes), -1)
    measurements, sums, sds = [], [], []

    def measure(query: rt.Query, rows: np.ndarray, shape: list[int]) -> None:
        sd = float(10 ** generator.uniform(-5, -1))
        values = rows @ table + noise * sd * generator.normal(size=len(rows))
        measurements.append(Measurement(query, values.reshape(shape), sd))
        sums.append(rows)
        sds.append(np.full(len(rows), sd))

    def some_axes() -> list[int]:
        return sorted(generator.choice(len(sizes), generator.integers(1, min(3, len(sizes)) + 1), replace=False))

    for _ in range(generator.integers(1, 4)):
        axes = some_axes()
        shape = [sizes[axis] for axis in axes]
        cells = np.ravel_multi_index(codes[axes], shape)
        measure(rt.marginal(*(f"a{axis}" for axis in axes)), np.eye(int(np.prod(shape)))[:, cells], shape)
    for _ in range(generator.integers(0, 4)):
        condition, holds = None, np.ones(domain.size, bool)
        for axis in some_axes():
            code = int(generator.integers(sizes[axis]))
            one, where = rt.col(f"a{axis}") == code, codes[axis] == code
            if condition is None:
                condition, holds = one, where
            elif generator.integers(2):
                condition, holds = condition & one, holds & where
            else:
                condition, holds = condition | one, holds | where
        measure(rt.count(condition), holds[None].astype(float), [])
    return Case(domain, measurements, np.concatenate(sums), np.concatenate(sds))


@pytest.mark.parametrize("noise", [0.0, 1.0], ids=["consistent", "contradictory"])
def test_fits_lie_where_least_squares_on_the_simplex_do(noise: float) -> None:
    for seed in range(CASES):
        case = random_case(seed, noise)
        hypothesis = DenseHypothesis(case.domain)
        report = hypothesis.fit(case.measurements)
        fitted = hypothesis.marginal(case.domain.names).ravel()
        away = np.abs(case.sums @ (fitted - case.least_squares())) / case.sds
        assert away.max() < NEAR, seed
        assert report.converged, (seed, report.message)


@pytest.mark.parametrize("value", [0.25, 0.29, 0.3, 0.33])
@pytest.mark.parametrize("sd", [1e-5, 1e-3, 1e-1])
def test_a_count_beside_a_marginal_is_weighed_by_its_precision(value: float, sd: float) -> None:
    cells = np.array([[0.31, 0.19], [0.4, 0.1]])
    hypothesis = DenseHypothesis(Domain(sex=2, smokes=2))
    query = rt.count(rt.col("smokes") == 1)
    report = hypothesis.fit(
        [Measurement(rt.marginal("sex", "smokes"), cells, 0.01), Measurement(query, np.array(value), sd)]
    )
    # The total is 1 without noise, so that a sum of two of four cells has the variance 4 (1/4) sd^2.
    own, other = 0.01**-2.0, sd**-2.0
    expected = (own * 0.29 + other * value) / (own + other)
    assert hypothesis.expect(query) == pytest.approx(expected, abs=0.5 * (own + other) ** -0.5)
    assert report.converged


def test_a_warm_fit_follows_a_count_that_was_measured_since() -> None:
    generator = np.random.default_rng(3)
    domain = Domain(a=4, b=3, c=3)
    table = generator.dirichlet(np.ones(domain.size)).reshape(domain.shape)
    pairs = [Measurement(rt.marginal("a", "b"), table.sum(axis=2) + generator.normal(0, 0.003, (4, 3)), 0.003)]
    pairs += [Measurement(rt.marginal("b", "c"), table.sum(axis=0) + generator.normal(0, 0.003, (3, 3)), 0.003)]
    hypothesis = DenseHypothesis(domain)
    hypothesis.fit(pairs)
    within, across = rt.count(rt.col("b") == 1), rt.count((rt.col("a") == 0) & (rt.col("c") == 2))
    values = {within: table[:, 1].sum(), across: table[0, :, 2].sum()}
    report = hypothesis.fit([*pairs, *(Measurement(query, value, 1e-5) for query, value in values.items())])
    assert report.converged
    for query, value in values.items():
        assert hypothesis.expect(query) == pytest.approx(value, abs=NEAR * 1e-5)


def test_contradictions_beyond_noise_are_said_to_be_such() -> None:
    domain = Domain(a=2, b=2)
    query = rt.count(rt.col("a") == 0)
    told = [Measurement(rt.marginal("a", "b"), np.full((2, 2), 0.25), 0.001), Measurement(query, np.array(0.55), 0.001)]
    hypothesis = DenseHypothesis(domain)
    report = hypothesis.fit(told)
    assert hypothesis.expect(query) == pytest.approx(0.525, abs=0.001)
    assert not report.converged
    assert report.message.startswith("the measurements contradict each other: least squares leave one 25.0 ")


@pytest.mark.parametrize("seed", range(3))
def test_queries_join_residuals_by_least_squares(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shape, names = (3, 2, 4), ("a", "b", "c")
    sets = [("a", "b"), ("b", "c"), ("a", "c")]
    codes = np.indices(shape).reshape(3, -1)
    marginals, queries, rows = [], [], [np.ones((1, 24))]
    values, sds = [np.ones(1)], [np.full(1, 1e-9)]
    for kept, sd in zip(sets, (0.01, 0.03, 0.002), strict=True):
        sizes = [shape[names.index(name)] for name in kept]
        cells = np.ravel_multi_index(codes[[names.index(name) for name in kept]], sizes)
        noisy = generator.normal(1 / np.prod(sizes), 0.05, sizes)
        marginals.append((kept, noisy, sd))
        rows.append(np.eye(noisy.size)[:, cells])
        values.append(noisy.ravel())
        sds.append(np.full(noisy.size, sd))
        form = generator.random(sizes)
        queries.append(MeasuredForm(kept, form, float(generator.random()), sd / 7))
        rows.append(form.ravel()[cells][None])
        values.append(np.array([queries[-1].value]))
        sds.append(np.array([sd / 7]))
    weights = 1 / np.concatenate(sds)
    system = np.concatenate(rows) * weights[:, None]
    exact = np.linalg.lstsq(system, np.concatenate(values) * weights)[0].reshape(shape)
    unknown = MeasuredForm(names, np.ones(shape), 0.5, 0.001)
    found = Consistent.of(marginals).given([*queries, unknown])
    for kept in sets:
        dropped = tuple(i for i, name in enumerate(names) if name not in kept)
        assert np.allclose(found.marginal(kept)[0], exact.sum(axis=dropped), atol=1e-6)
    assert not found.knows(names)
    assert all(found.knows(pair) for pair in combinations(names, 2))
