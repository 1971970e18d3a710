"""Losses: bounds hold on the whole universe, minimisers match other software, bad declarations are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.errors import QueryError
from reticent.queries.convex import (
    LOSSES,
    ConvexLoss,
    Hinge,
    Huber,
    Logistic,
    MeanVector,
    Ridge,
    Squared,
    checked_loss,
    loss_from_dict,
)
from reticent.queries.features import build_blocks, spread_over
from reticent.queries.minimum import minimum, quadratic_minimum
from reticent.queries.problem import Problem
from reticent.queries.risk import ListedRisk, QuadraticRisk, TensorRisk, certificate_tensor, loss_tensor

DOMAIN = Domain(
    age=Numeric(edges=[20, 30, 45, 60, 90], nullable=True),
    job=Categorical(["cook", "clerk", "smith"]),
    level=Integer(4),
    income=Numeric(lower=0, upper=100, bins=5, other=False),
    happy=Categorical(["no", "yes"], other=False),
    weight=Numeric(lower=40, upper=120, bins=3, nullable=True),
    mood=Categorical(["low", "high"], nullable=True, other=True),
)
NEAR = 1e-6
"""How closely other software must agree."""

Make = Callable[..., ConvexLoss]
ALL: list[ConvexLoss] = [
    Squared(features=["age", "job", "level"], label="income"),
    Squared(features=["age", ("age", "job")], label="happy"),
    Ridge(features=["job", "level"], label="income", ridge=0.2, categories=["level"]),
    Logistic(features=["age", "job", "level"], label="happy", radius=3),
    Logistic(features=["job", "level"], label="happy", positive="no", ridge=0.05, intercept=False),
    Hinge(features=["age", "level"], label="happy"),
    Huber(features=["age", "job"], label="income", width=0.1),
    MeanVector(features=["age", "job", "level"]),
    Squared(features=["age", "job", ("age", "level")], label="weight"),
    Ridge(features=["age", "job"], label="mood"),
    Logistic(features=["age", "level"], label="mood"),
    Huber(features=["job"], label="mood", positive="low"),
]


def weights(seed: int, names: tuple[str, ...]) -> np.ndarray:
    shape = DOMAIN.shape_of(names)
    return np.random.default_rng(seed).dirichlet(np.full(int(np.prod(shape)), 0.5)).reshape(shape)


def rows(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Every record of the universe as an explicit feature row, and its label."""
    design = problem.design
    codes = np.indices(design.shape).reshape(len(design.attributes), -1)
    spread = [
        np.broadcast_to(spread_over(b.table, b.attributes, design.attributes), (*design.shape, b.width))
        for b in design.blocks
    ]
    features = np.concatenate([s.reshape(-1, s.shape[-1]) for s in spread], axis=1)
    if design.label is None:
        return features, np.ones(len(features))
    return features, design.label_values[codes[design.attributes.index(design.label)]]


def in_ball(problem: Problem, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    point = generator.normal(size=problem.dimension)
    return point / np.linalg.norm(point) * problem.radius * generator.choice([1.0, generator.random()])


@pytest.mark.parametrize("loss", ALL, ids=repr)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bounds_hold_for_every_record_and_parameter(loss: ConvexLoss, seed: int) -> None:
    problem = loss.on(DOMAIN)
    features, labels = rows(problem)
    here, there = in_ball(problem, seed), in_ball(problem, seed + 1)
    ridge = loss.ridge / 2
    values = [loss.value(features @ t, labels) + ridge * t @ t for t in (here, there)]
    assert np.abs(values[0] - values[1]).max() <= problem.scale
    slopes = np.abs(loss.slope(features @ here, labels)) * np.linalg.norm(features, axis=1)
    assert slopes.max() <= problem.lipschitz
    assert np.linalg.norm(features, axis=1).max() <= problem.feature_norm
    assert loss.curvature(features @ here, labels).max() <= loss.sharpest


@pytest.mark.parametrize("loss", [Squared, Logistic, Huber])
def test_the_scale_is_attained_by_some_record(loss: Make) -> None:
    problem = loss(features=["level"], label="happy", radius=1.0).on(DOMAIN)
    features, labels = rows(problem)
    ends = [s * f / np.linalg.norm(f) for f in features for s in (-1.0, 1.0)]
    reached = max(
        float(np.ptp([problem.loss.value(f @ e, y) for e in ends])) for f, y in zip(features, labels, strict=True)
    )
    assert reached >= 0.8 * problem.scale


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_derivatives_match_differences(loss: ConvexLoss) -> None:
    problem = loss.on(DOMAIN)
    risk = TensorRisk(problem, weights(5, problem.attributes))
    theta, h = in_ball(problem, 9) * 0.7, 1e-6
    steps = np.eye(problem.dimension) * h
    slopes = [(risk.value(theta + s) - risk.value(theta - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(risk.gradient(theta), slopes, atol=1e-8)
    if loss.kind not in ("hinge", "huber"):  # their second derivative jumps
        curves = [(risk.gradient(theta + s) - risk.gradient(theta - s)) / (2 * h) for s in steps]
        np.testing.assert_allclose(risk.hessian(theta), curves, atol=1e-7)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_tensors_lists_and_moments_agree(loss: ConvexLoss) -> None:
    problem = loss.on(DOMAIN)
    tensor = weights(3, problem.attributes)
    codes = np.indices(tensor.shape).reshape(tensor.ndim, -1).T
    risks = [TensorRisk(problem, tensor), ListedRisk(problem, codes, tensor.ravel())]
    if loss.quadratic:
        risks.append(QuadraticRisk.of_marginals(problem, lambda sets: [_sum(problem, tensor, s) for s in sets], 1.0))  # pyright: ignore[reportArgumentType]
    theta = in_ball(problem, 4)
    for risk in risks[1:]:
        assert risk.value(theta) == pytest.approx(risks[0].value(theta), abs=1e-12)
        np.testing.assert_allclose(risk.gradient(theta), risks[0].gradient(theta), atol=1e-12)
        np.testing.assert_allclose(risk.hessian(theta), risks[0].hessian(theta), atol=1e-12)
        np.testing.assert_allclose(minimum(risk)[0], minimum(risks[0])[0], atol=NEAR)
    assert float((loss_tensor(problem, theta) * tensor).sum()) == pytest.approx(risks[0].value(theta))
    ahead = in_ball(problem, 6)
    expected = float(risks[0].gradient(theta) @ (ahead - theta))
    assert float((certificate_tensor(problem, ahead, theta) * tensor).sum()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("loss", ALL[-4:], ids=repr)
def test_records_without_a_label_are_left_out(loss: ConvexLoss) -> None:
    problem = loss.on(DOMAIN)
    tensor = weights(7, problem.attributes)
    place = problem.attributes.index(loss.label or "")
    bare = np.arange(tensor.shape[place]) >= DOMAIN[loss.label or ""].known
    if loss.positive is not None:  # any other value is known not to be that one; null is not
        bare[-1] = False
    assert bare.any()
    kept = np.where(np.expand_dims(bare, tuple(range(1, tensor.ndim - place))), 0.0, tensor)
    theta, other = in_ball(problem, 4), in_ball(problem, 5)
    whole, part = TensorRisk(problem, tensor), TensorRisk(problem, kept)
    np.testing.assert_allclose(whole.gradient(theta), part.gradient(theta), atol=1e-12)
    assert whole.value(theta) - whole.value(other) == pytest.approx(part.value(theta) - part.value(other))


def test_a_regression_on_nothing_is_the_average_of_what_is_known() -> None:
    problem = Squared(features=[], label="weight").on(DOMAIN)
    shares = weights(1, ("weight",))
    theta = minimum(TensorRisk(problem, shares))[0]
    numbers, known = DOMAIN["weight"].representatives, DOMAIN["weight"].known
    assert numbers is not None
    offset, scale = problem.design.label_units
    assert offset + scale * theta[0] == pytest.approx(np.average(numbers[:known], weights=shares[:known]))


def _sum(problem: Problem, tensor: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    return tensor.sum(axis=tuple(i for i, name in enumerate(problem.attributes) if name not in names))


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_the_gap_of_a_minimum_is_certified(loss: ConvexLoss) -> None:
    problem = loss.on(DOMAIN)
    for radius in (problem.radius, 0.05):
        risk = TensorRisk(problem, weights(8, problem.attributes))
        theta, gap = minimum(risk, radius=radius)
        assert np.linalg.norm(theta) <= radius * (1 + 1e-9)
        assert gap <= 1e-9
        for seed in range(20):
            other = in_ball(problem, seed) * radius / problem.radius
            assert risk.value(other) >= risk.value(theta) - gap - 1e-12


def _fit(loss: ConvexLoss, seed: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    problem = loss.on(DOMAIN)
    tensor = weights(seed, problem.attributes)
    features, labels = rows(problem)
    return minimum(TensorRisk(problem, tensor))[0], features, labels, tensor.ravel()


def test_squared_loss_matches_weighted_least_squares() -> None:
    from sklearn.linear_model import LinearRegression
    from statsmodels.api import WLS

    theta, features, labels, mass = _fit(Squared(features=["age", "job", "level"], label="income", radius=50))
    model = LinearRegression(fit_intercept=False).fit(features, labels, sample_weight=mass)
    np.testing.assert_allclose(theta, model.coef_, atol=NEAR)
    np.testing.assert_allclose(theta, WLS(labels, features, weights=mass).fit().params, atol=NEAR)


def test_ridge_matches_scikit_learn() -> None:
    from sklearn.linear_model import Ridge as Peer

    theta, features, labels, mass = _fit(Ridge(features=["age", "job"], label="income", ridge=0.3, radius=50))
    peer = Peer(alpha=0.15, fit_intercept=False, tol=1e-12).fit(features, labels, sample_weight=mass)
    np.testing.assert_allclose(theta, peer.coef_, atol=NEAR)


def test_logistic_loss_matches_statsmodels_and_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression
    from statsmodels.api import GLM, families

    loss = Logistic(features=["age", "job", "level"], label="happy", radius=100)
    theta, features, labels, mass = _fit(loss)
    peer = GLM((labels > 0).astype(float), features, family=families.Binomial(), freq_weights=mass * 1e4)
    np.testing.assert_allclose(theta, peer.fit(tol=1e-14, maxiter=200).params, atol=NEAR)
    ridged = Logistic(features=["age", "job", "level"], label="happy", radius=100, ridge=0.1)
    theta, features, labels, mass = _fit(ridged)
    model = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    np.testing.assert_allclose(theta, model.fit(features, labels, sample_weight=mass).coef_[0], atol=NEAR)


@pytest.mark.parametrize(
    "loss",
    [
        Hinge(features=["age", "level"], label="happy", ridge=0.1, radius=50),
        Huber(features=["age", "job"], label="income", width=0.1, ridge=0.1, radius=50),
    ],
    ids=repr,
)
def test_hinge_and_huber_match_a_general_solver(loss: ConvexLoss) -> None:
    theta, features, labels, mass = _fit(loss)

    def risk(t: np.ndarray) -> float:
        return float(mass @ loss.value(features @ t, labels)) + loss.ridge / 2 * float(t @ t)

    found = scipy_minimize(risk, np.zeros(len(theta)), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    assert risk(theta) <= found.fun + 1e-12
    np.testing.assert_allclose(theta, found.x, atol=1e-4)  # differences of a flat function cannot do better


def test_the_mean_is_the_mean() -> None:
    theta, features, _, mass = _fit(MeanVector(features=["age", "job", "level"]))
    np.testing.assert_allclose(theta, mass @ features, atol=1e-12)


def test_quadratics_are_minimised_over_the_ball_even_when_indefinite() -> None:
    generator = np.random.default_rng(0)
    for _ in range(30):
        half = generator.normal(size=(4, 4))
        matrix, pull = half + half.T, generator.normal(size=4)
        best = quadratic_minimum(matrix, pull, 1.5)
        trials = generator.normal(size=(4000, 4))
        trials *= 1.5 * generator.random((4000, 1)) ** 0.25 / np.linalg.norm(trials, axis=1, keepdims=True)
        values = 0.5 * np.einsum("ij,jk,ik->i", trials, matrix, trials) + trials @ pull
        assert 0.5 * best @ matrix @ best + pull @ best <= values.min() + 1e-9
        assert np.linalg.norm(best) <= 1.5 * (1 + 1e-9)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_losses_survive_plain_values(loss: ConvexLoss) -> None:
    again = loss_from_dict(loss.to_dict())
    assert again == loss
    assert type(again) is type(loss)
    assert hash(again) == hash(loss)
    assert again.on(DOMAIN).scale == loss.on(DOMAIN).scale


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: Squared(features=["age"], label="income", bounds={"age": (0, np.inf)}).on(DOMAIN), "unbounded"),
    (lambda: Squared(features=["age", "income"], label="income").on(DOMAIN), "also a feature"),
    (lambda: Squared(features=["one"], label="y").on(Domain({"one": 1, "y": 2})), "one value"),
    (lambda: Squared(features=["x"], label="one").on(Domain({"one": 1, "x": 2})), "one value"),
    (lambda: Squared(features=["level", "level"], label="income"), "twice"),
    (lambda: Squared(features=["lebel"], label="income").on(DOMAIN), "level"),
    (lambda: Squared(features="level", label="income"), "list"),
    (lambda: Squared(features=["level"], label="income", radius=np.inf), "radius"),
    (lambda: Squared(features=["level"], label="income", ridge=-1), "ridge"),
    (lambda: Logistic(features=["level"], label="job").on(DOMAIN), "positive"),
    (lambda: Logistic(features=["level"], label="job", positive="queen").on(DOMAIN), "queen"),
    (lambda: Hinge(features=["level"], label="happy", width=0), "width"),
    (lambda: Ridge(features=["level"], label="happy", ridge=0), "Squared"),
    (lambda: MeanVector(features=["level"], ridge=2), "mean"),
    (lambda: loss_from_dict({"loss": "absolute", "features": []}), "unknown loss"),
    (lambda: loss_from_dict({"loss": "squared", "features": ["level"], "label": "income", "code": "x"}), "code"),
    (lambda: checked_loss("squared"), "not a known loss"),
]


@pytest.mark.parametrize(("declare", "words"), BAD, ids=[words for _, words in BAD])
def test_bad_declarations_say_what_and_why(declare: Callable[[], object], words: str) -> None:
    with pytest.raises(QueryError, match=words) as caught:
        declare()
    assert "\n" not in str(caught.value)


def test_features_collinear_on_the_universe_are_refused() -> None:
    domain = Domain({"a": 2, "b": 3, "y": 2})
    with pytest.raises(QueryError, match="collinear"):
        # for two codes a number and an indicator are the same up to a constant
        build_blocks(domain, ["a", ("a",)], intercept=True, categories=(), bounds={})
    with pytest.raises(QueryError, match="collinear"):
        Squared(features=["a", "b", ("a", "b"), ("b", "a")], label="y").on(domain)


def test_a_subclass_cannot_claim_its_own_bounds() -> None:
    class Flat(Squared):
        sharpest = 0.0  # pyright: ignore[reportAssignmentType]

    with pytest.raises(QueryError, match="not a known loss"):
        checked_loss(Flat(features=["age"], label="income"))
    assert all(checked_loss(loss) is loss for loss in ALL)
    assert {type(loss) for loss in ALL} == set(LOSSES.values())
