"""Steps of precise fits: pairs move without single attributes, and no cell ends further off than noise leaves it."""

import itertools
from functools import partial

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.dense.dense import DenseEngine
from reticent.hypotheses.fitting.descent import FURTHEST, Reached
from reticent.hypotheses.fitting.loglinear import FitProblem, terms_of
from reticent.hypotheses.fitting.preconditioning import PreciselyCoupled, centred_curvature
from reticent.hypotheses.fitting.prior import Prior, product_base
from reticent.hypotheses.fitting.quasi_newton import Diagonal, Objective, descend
from reticent.queries.linear import Marginal

SHAPE, SD, STEPS = (12, 9, 4), 2e-5, 60
DOMAIN = Domain({f"c{i}": size for i, size in enumerate(SHAPE)})


def exclusive() -> np.ndarray:
    """The first codes of two columns hold nearly everything, and no record has another code of both."""
    generator = np.random.default_rng(5)
    table = np.zeros(SHAPE[:2])
    table[0, 0] = 0.87
    table[1:, 0] = 0.085 * generator.dirichlet(np.ones(SHAPE[0] - 1))
    table[0, 1:] = 0.045 * generator.dirichlet(np.ones(SHAPE[1] - 1))
    return table[:, :, None] * generator.dirichlet(np.ones(SHAPE[2]), SHAPE[:2])


def problem() -> FitProblem:
    truth, generator, measured = exclusive(), np.random.default_rng(1), []
    for order in (1, 2):
        for kept in itertools.combinations(range(3), order):
            values = truth.sum(axis=tuple(i for i in range(3) if i not in kept))
            noisy = values + generator.normal(0, SD, values.shape)
            measured.append(Measurement(Marginal([DOMAIN.names[i] for i in kept]), noisy, SD))
    terms = terms_of(measured, DOMAIN, Prior())
    base = product_base(DOMAIN, [(t.attributes, t.values, t.sd) for t in terms.values()])
    return FitProblem(
        list(terms.values()),
        base,
        lambda sets: DenseEngine(SHAPE, [tuple(map(DOMAIN.index, s)) for s in sets]),
        degrees=2.0,
    )


def test_it_is_symmetric_and_positive():
    at = problem()
    generator = np.random.default_rng(2)
    matrix = at.preconditioner(generator.normal(0, 0.1, at.size), nested=True)
    one, other = generator.normal(size=(2, at.size))
    assert one @ matrix.apply(other) == pytest.approx(other @ matrix.apply(one))
    assert matrix.square(one) == pytest.approx(one @ matrix.apply(one))
    assert matrix.square(one) > 0


def test_a_direction_of_a_pair_leaves_single_attributes_alone():
    """To first order, at a point without interactions, where conditional means are exact."""
    at = problem()
    matrix = at.preconditioner(np.zeros(at.size), nested=True)
    gradient = np.zeros(at.size)
    at.part(("c0", "c1"), gradient)[0] = 1.0
    moved = at.engine.covary(at.spread(matrix.apply(gradient)))
    assert np.abs(moved[at.place(("c0", "c1"))]).max() > 0
    for name in ("c0", "c1"):
        assert np.abs(moved[at.place((name,))]).max() < 1e-9 * np.abs(moved[at.place(("c0", "c1"))]).max()


def test_curvatures_of_independent_attributes_are_exact():
    generator = np.random.default_rng(3)
    first, second = generator.dirichlet(np.ones(4)), generator.dirichlet(np.ones(3))
    found = centred_curvature(np.multiply.outer(first, second))
    for i, j in itertools.product(range(4), range(3)):
        along = [shares * (np.eye(shares.size)[k] - shares[k]) for shares, k in ((first, i), (second, j))]
        assert found[i, j] == pytest.approx(np.square(np.multiply.outer(*along)).sum())


def test_precise_measurements_of_heavy_codes_are_reached_in_fewer_steps():
    values = {}
    for nested in (False, True):
        at = problem()
        point = np.zeros(at.size)
        for level in range(at.levels(point), -1, -1):
            at.at_level(level)
            point = descend(
                Objective(at.value, at.gradient),
                point,
                preconditioner=at.preconditioner(point, nested=nested),
                gap_bound=at.gap_bound,
                tolerance=1e-9,
                progress=-np.inf,
                iterations=STEPS,
            ).point
        values[nested] = at.value(point)
    assert values[True] < 0.9 * values[False]


def test_a_point_with_a_cell_beyond_noise_is_not_moved_to():
    at = problem()
    point = np.zeros(at.size)
    reached = Reached(1e-4, 0.1, 2000, FURTHEST)
    found = reached.descend(at, point)
    assert at.misfit(found) < FURTHEST < at.misfit(point)
    move = partial(reached.move, at, found)
    assert move(point) is found
    nearby = found + 1e-9
    assert move(nearby) is nearby


def test_precise_numbers_are_added_to_a_preconditioner():
    """Its inverse is the sum of both Hessians."""
    generator = np.random.default_rng(3)
    numbers, slopes, precisions = generator.uniform(0.1, 2, 9), generator.normal(size=(3, 9)), np.array([1.0, 1e2, 1e6])
    whole = np.diag(1 / numbers) + slopes.T @ (precisions[:, None] * slopes)
    coupled, gradient = PreciselyCoupled(Diagonal(numbers), slopes, precisions), generator.normal(size=9)
    np.testing.assert_allclose(whole @ coupled.apply(gradient), gradient, atol=1e-6)
    assert coupled.square(gradient) == pytest.approx(gradient @ np.linalg.solve(whole, gradient), rel=1e-6)
