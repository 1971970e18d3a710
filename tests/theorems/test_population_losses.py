"""What a model's bound on its table says about the population (docs/proofs/population.md, claims 15 and 16)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.session_tables import of_codes

import reticent as rt
from reticent.knowledge.population_losses import LossSample, population_excess, uniform_deviation
from reticent.losses.base import ConvexLoss
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum

SURE = 1 - 1e-6
WIDTH = 8
BITS = rt.Domain({f"b{i}": 2 for i in range(WIDTH)} | {"y": 2})
STRAIGHT = rt.Margin(
    features=[f"b{i}" for i in range(WIDTH)], label="y", radius=0.5, slopes={0: [(0, 1)], 1: [(0, -1)]}, intercept=False
)
SMALL = rt.Domain({"a": 3, "b": 2, "y": 3})
LOSSES: list[ConvexLoss] = [
    rt.Logistic(features=["a", "b"], label="y", positive=1, radius=2),
    rt.Squared(features=["a", "b"], label="y", radius=1),
    rt.Hinge(features=["a", "b"], label="y", positive=2, radius=2),
    rt.Multinomial(features=["a", "b"], label="y", radius=2),
    rt.Ridge(features=["a"], label="y", radius=1, ridge=0.2),
    rt.MeanVector(features=["a", "b"]),
]


def test_a_straight_loss_strays_as_far_as_the_bound_says() -> None:
    """On random signs the largest deviation is R times the length of their mean: half of the bound's first term."""
    problem, n, generator = STRAIGHT.on(BITS), 1000, np.random.default_rng(1)
    design = np.array([-1.0, 1.0])
    signs = design[generator.integers(0, 2, size=(300, n, WIDTH))] * design[generator.integers(0, 2, size=(300, n, 1))]
    strayed = STRAIGHT.radius * np.linalg.norm(signs.mean(axis=1), axis=1)
    mean = uniform_deviation(problem, n, 1.0)
    assert problem.lipschitz == pytest.approx(math.sqrt(WIDTH))
    assert 0.4 * mean <= strayed.mean() <= 0.6 * mean
    assert strayed.max() <= uniform_deviation(problem, n, 1e-6)
    assert uniform_deviation(problem, 4 * n, 1e-3) == pytest.approx(uniform_deviation(problem, n, 1e-3) / 2)


def population() -> np.ndarray:
    return np.random.default_rng(7).dirichlet(np.full(SMALL.size, 0.6)).reshape(SMALL.shape)


def risk_on(loss: ConvexLoss, shares: np.ndarray) -> TensorRisk:
    problem = loss.on(SMALL)
    axes = tuple(i for i, name in enumerate(SMALL.names) if name not in problem.attributes)
    return TensorRisk(problem, shares.sum(axis=axes))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_what_is_best_on_a_table_is_good_on_its_population(loss: ConvexLoss) -> None:
    """Minimisers of drawn tables, and parameters pushed as far as the table lets them."""
    generator, shares, problem = np.random.default_rng(3), population(), loss.on(SMALL)
    whole = risk_on(loss, shares)
    least = whole.value(minimum(whole)[0])
    for records in (60, 2000):
        for _ in range(10):
            drawn = risk_on(loss, generator.multinomial(records, shares.ravel()).reshape(SMALL.shape) / records)
            theta, gap = minimum(drawn)
            bound = gap + uniform_deviation(problem, records, 1e-6)
            assert whole.value(theta) - least <= bound


def test_models_of_a_session_speak_about_the_population() -> None:
    generator, n = np.random.default_rng(5), 40_000
    cells = generator.choice(SMALL.size, n, p=population().ravel())
    codes = dict(zip(SMALL.names, (np.array(part) for part in np.unravel_index(cells, SMALL.shape)), strict=True))
    loss = LOSSES[0]
    with rt.Session.open(None, of_codes(SMALL, codes), rt.Budget(rho=0.5), confidence=SURE) as session:
        model = session.minimize(loss, error=0.05)
        found = model.population_excess(1 - 1e-5)
        several = session.minimize([loss, LOSSES[2]], error=0.1)
    whole = risk_on(loss, population())
    true = whole.value(model.theta) - whole.value(minimum(whole)[0])
    assert found.error == pytest.approx(model.error + uniform_deviation(loss.on(SMALL), n, SURE - (1 - 1e-5)))
    assert true <= found.error < loss.on(SMALL).zero_excess
    assert found.adaptive_error is None, "rho 0.5 limits no overfitting"
    assert "if this loss was chosen beforehand" in found.note
    assert all(one.knows_table for one in several)
    with pytest.raises(rt.QueryError, match="lower confidence"):
        model.population_excess(SURE)
    sent = rt.Model.from_dict(model.to_dict())
    with pytest.raises(rt.QueryError, match="records="):
        sent.population_excess(0.9)
    assert sent.population_excess(1 - 1e-5, records=n).error == pytest.approx(found.error)
    with pytest.raises(rt.QueryError, match="nothing certifies"):
        rt.Model(loss, SMALL, model.theta, None, None, "hypothesis", False).population_excess()


def test_a_small_budget_covers_losses_chosen_from_answers() -> None:
    """a + 2S (exp(e) - 1 + c + 2 g), failing with b1 / c + d / g: only at high confidences of the model."""
    problem, epsilon = LOSSES[0].on(SMALL), 0.01
    sample = LossSample(10**9, budget=lambda: rt.Budget(epsilon=Fraction(1, 100)))

    def adaptive(stated: float) -> float | None:
        return population_excess(problem, 0.02, stated, sample, 0.9).adaptive_error

    found = adaptive(1 - 1e-6)
    assert found is not None
    least = 0.02 + 2 * problem.scale * (math.expm1(epsilon) + 1e-6 / 0.1)
    assert least <= found <= 1.05 * least
    assert adaptive(0.95) is None
    assert population_excess(problem, 0.02, 0.95, sample._replace(unit="person"), 0.9).error is None
