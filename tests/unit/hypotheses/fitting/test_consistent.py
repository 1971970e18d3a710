"""Residuals in fits: the same as marginals that tell as much."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseEngine, DenseHypothesis
from reticent.hypotheses.fitting.consistent import (
    Consistent,
    Departure,
    as_marginals,
    centred,
    held_squares,
    maximal_sets,
)
from reticent.hypotheses.fitting.loglinear import FitProblem, terms_of
from reticent.hypotheses.fitting.prior import Prior, product_base
from reticent.queries.linear import Marginal, Residual

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
PAIRS = list(combinations(DOMAIN.names, 2))


def truth() -> np.ndarray:
    return np.random.default_rng(5).dirichlet(np.full(DOMAIN.size, 2.0)).reshape(DOMAIN.shape)


def summed(cells: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    return cells.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in names))


def noisy_marginals(sd: float) -> list[Measurement]:
    generator = np.random.default_rng(6)
    return [
        Measurement(Marginal(s), summed(truth(), s) + generator.normal(0, sd, DOMAIN.shape_of(s)), sd) for s in PAIRS
    ]


def as_residuals(measurements: list[Measurement]) -> list[Measurement]:
    """What the marginals tell, as if residuals had been measured."""
    known = Consistent.of((DOMAIN.canonical(m.query.attributes), m.values, m.sd) for m in measurements)
    return [
        Measurement(Residual(names), known.residuals[names], precision**-0.5)
        for names, precision in known.precisions.items()
        if names
    ]


def test_residuals_and_marginals_that_tell_as_much_are_one() -> None:
    marginals = noisy_marginals(0.01)
    residuals = as_residuals(marginals)
    first = Consistent.of((DOMAIN.canonical(m.query.attributes), m.values, m.sd) for m in marginals)
    second = Consistent.of([], ((m.query.names, m.values, m.sd) for m in residuals if isinstance(m.query, Residual)))
    for names in PAIRS:
        assert second.marginal(names)[0] == pytest.approx(first.marginal(names)[0])
    back = as_marginals(residuals, DOMAIN)
    assert [m.query for m in back] == [Marginal(s) for s in PAIRS]
    assert back[0].values == pytest.approx(first.marginal(PAIRS[0])[0])
    assert as_marginals(marginals, DOMAIN) == marginals


def test_a_fit_to_residuals_reaches_exact_ones() -> None:
    every = [names for order in (1, 2, 3) for names in combinations(DOMAIN.names, order)]
    measured = [Measurement(Residual(s), centred(summed(truth(), s)), 1e-6) for s in every]
    hypothesis = DenseHypothesis(DOMAIN)
    report = hypothesis.fit(measured)
    assert np.abs(hypothesis.probabilities().reshape(DOMAIN.shape) - truth()).max() < 1e-4
    assert report.misfit < 60


def test_marginals_and_residuals_of_one_table_are_joined() -> None:
    marginals = noisy_marginals(0.01)
    joined = terms_of([*marginals, *as_residuals(marginals)], DOMAIN, Prior())
    alone = terms_of(as_residuals(marginals), DOMAIN, Prior())
    assert joined.keys() == alone.keys()
    for key, term in joined.items():
        assert term.residual
        assert term.sd == pytest.approx(alone[key].sd / 2**0.5)
        assert term.values == pytest.approx(alone[key].values)


def test_the_gradient_is_that_of_the_objective() -> None:
    terms = list(terms_of(as_residuals(noisy_marginals(0.02)), DOMAIN, Prior()).values())
    base = product_base(DOMAIN, [(s, summed(truth(), s), 0.01) for s in PAIRS])

    def engine(sets: Sequence[tuple[str, ...]]) -> DenseEngine:
        return DenseEngine(DOMAIN.shape, [tuple(DOMAIN.index(name) for name in names) for names in sets])

    problem = FitProblem(terms, base, engine, degrees=2.0)
    generator = np.random.default_rng(7)
    point, step = generator.normal(0, 0.3, problem.size), generator.normal(0, 1, problem.size)
    problem.value(point)
    slope = float(problem.gradient() @ step)
    size = 1e-5
    found = (problem.value(point + size * step) - problem.value(point - size * step)) / (2 * size)
    assert slope == pytest.approx(found, rel=1e-5)


def _held(cells: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The cells with the pairs of another table: proportional fitting."""
    for _ in range(60):
        for axis in range(cells.ndim):
            cells = cells * (like.sum(axis=axis, keepdims=True) / cells.sum(axis=axis, keepdims=True))
    return cells


def _products(shares: list[np.ndarray]) -> np.ndarray:
    return np.einsum("i,j,k->ijk", *shares)


@pytest.mark.parametrize(("independent", "factor"), [(True, 1.5), (False, 4.0)])
def test_parameters_move_cells_as_far_as_the_sets_inside_let_them(independent: bool, factor: float) -> None:
    """Squares of what random parameters change while pairs stay as they are: of independent attributes as stated, of
    dependent ones nearly. The square of a heavy cell itself is a thousand times too much."""
    generator, scale = np.random.default_rng(8), 0.05
    q = _products([np.array([0.9, 0.1]), np.array([0.8, 0.15, 0.05]), np.array([0.7, 0.1, 0.1, 0.1])])
    if not independent:
        q = generator.dirichlet(np.full(24, 5.0)).reshape(2, 3, 4)
    moved = [_held(q * np.exp(scale * generator.normal(size=q.shape)), q) - q for _ in range(400)]
    ratios = np.mean(np.square(moved), axis=0) / (held_squares(q) * scale**2)
    assert 1 / factor < ratios.min()
    assert ratios.max() < factor
    assert not independent or (q * q / held_squares(q)).max() > 1000


def test_departures_of_residuals_have_the_variance_they_are_weighed_with() -> None:
    """Of independent attributes, whose distributions stay: mean squares over what centring leaves."""
    generator = np.random.default_rng(8)
    first, second, scale, sd = np.array([0.7, 0.2, 0.1]), np.array([0.4, 0.3, 0.2, 0.1]), 0.1, 0.002
    q = np.outer(first, second)
    squares = []
    for _ in range(4000):
        values = _held(q * np.exp(scale * generator.normal(size=q.shape)), q) + generator.normal(0, sd, q.shape)
        departure = Departure.from_expected(centred(values), sd, q, residual=True)
        squares.append(departure.squares)
    assert np.mean(squares, axis=0) == pytest.approx(departure.spread * scale**2 + sd**2, rel=0.2)


def test_maximal_sets_lie_inside_no_other() -> None:
    sets = [s for order in range(4) for s in combinations("dabc", order)] + [("e",), ("b", "e"), ("e", "b"), ("f",)]
    assert maximal_sets(sets) == [*combinations("dabc", 3), ("b", "e"), ("e", "b"), ("f",)]
    assert maximal_sets([(), ()]) == [(), ()]
    assert maximal_sets([]) == []
