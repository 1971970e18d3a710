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
from reticent.losses.base import ConvexLoss, ScalarLoss
from reticent.losses.features import build_blocks, spread_over
from reticent.losses.losses import (
    LOSSES,
    Hinge,
    Huber,
    Logistic,
    Margin,
    MeanVector,
    Multinomial,
    Poisson,
    Quantile,
    Ridge,
    Squared,
    checked_loss,
    loss_from_dict,
)
from reticent.losses.public import Problem
from reticent.losses.ramps import RampLoss
from reticent.losses.risk import (
    ListedRisk,
    QuadraticRisk,
    TensorRisk,
    by_output,
    certificate_tensor,
    loss_tensor,
)
from reticent.losses.solver import minimum, quadratic_minimum

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
V = [(0, 1), (1, 0), (2, 4)]
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
    Hinge(features=["age", "level"], label="happy", width=0.0),
    Quantile(features=["age", "job"], label="income", level=0.8),
    Quantile(features=["level"], label="weight", level=0.3, width=0.05, ridge=0.1),
    Poisson(features=["age", "job"], label="income"),
    Poisson(features=["level"], label="weight", cap=None, radius=1),
    Multinomial(features=["age", "level"], label="job", radius=3),
    Margin(
        features=["age", "level"], label="happy", slopes={"no": [(-1, 0), (-1, 1), (2, 3)], "yes": [(0, -2), (1, 0)]}
    ),
    Margin(features=["age"], label="income", slopes=[(-0.2, -0.3), (0, -0.1), (0, 0.5), (1, 0.9)]),
    Margin(
        features=["job"],
        label="level",
        values={0: [(0, 0), (1, 2)], 1: [(0, 1), (1, 0), (2, 4)], 2: [(0, 3), (5, 0)], 3: [(0, 3), (1, 3)]},
    ),
]
KINKED = [loss for loss in ALL if isinstance(loss, RampLoss) and not np.isfinite(loss.sharpest(1.0))]
CERTIFIED = 3e-6
"""How far above the minimum a solver may end where kinks had to be rounded off, as a share of the loss' range."""


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


def labelled(problem: Problem) -> np.ndarray:
    """Which of these records have a label; the loss of the others is zero."""
    design = problem.design
    if design.label is None:
        return np.ones(int(np.prod(design.shape)), dtype=bool)
    return design.labelled[np.indices(design.shape)[design.attributes.index(design.label)].ravel()]


def margins(problem: Problem, features: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return by_output(problem, theta) @ features.T


def in_ball(problem: Problem, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    point = generator.normal(size=problem.dimension)
    return point / np.linalg.norm(point) * problem.radius * generator.choice([1.0, generator.random()])


@pytest.mark.parametrize("loss", ALL, ids=repr)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bounds_hold_for_every_record_and_parameter(loss: ConvexLoss, seed: int) -> None:
    problem = loss.on(DOMAIN)
    features, labels = (part[labelled(problem)] for part in rows(problem))
    here, there = in_ball(problem, seed), in_ball(problem, seed + 1)
    ridge = loss.ridge / 2
    own = [loss.values(margins(problem, features, t), labels) for t in (here, there)]
    values = [own[0] + ridge * here @ here, own[1] + ridge * there @ there]
    assert np.abs(values[0] - values[1]).max() <= problem.scale
    assert max(np.abs(value).max() for value in values) <= problem.height
    above, below = problem.swing(here)
    assert -below <= (own[0] - own[1]).min()
    assert (own[0] - own[1]).max() <= above <= problem.scale * (1 + 1e-6)
    slopes = np.linalg.norm(loss.slopes(margins(problem, features, here), labels), axis=0)
    slopes = slopes * np.linalg.norm(features, axis=1)
    assert slopes.max() <= problem.lipschitz
    assert np.linalg.norm(features, axis=1).max() <= problem.feature_norm
    curves = loss.curvatures(margins(problem, features, here), labels)
    curves = np.moveaxis(np.broadcast_to(curves, (*curves.shape[:2], len(labels))), -1, 0)
    assert np.linalg.eigvalsh(curves).max() <= loss.sharpest(problem.feature_norm * problem.radius) * (1 + 1e-12)


@pytest.mark.parametrize("loss", KINKED, ids=repr)
@pytest.mark.parametrize("height", [1e-3, 0.3])
def test_a_rounded_loss_is_smooth_and_nowhere_far_above(loss: RampLoss, height: float) -> None:
    labels = loss.on(DOMAIN).design.label_choices[:, None]
    smooth = loss.rounded(height, labels)
    line = np.linspace(-6, 6, 24_001)[None]
    more = smooth.value(line, labels) - loss.value(line, labels)
    assert more.min() >= -1e-12
    assert 0.5 * height <= more.max() <= height * (1 + 1e-9)
    slopes = smooth.slope(line, labels)
    steps = np.diff(slopes, axis=1)
    assert steps.min() >= -1e-12
    assert steps.max() <= smooth.sharpest(6.0) * (line[0, 1] - line[0, 0]) * (1 + 1e-6) + 1e-12
    assert np.abs(slopes).max() <= loss.steepest * (1 + 1e-12)


@pytest.mark.parametrize("loss", [Squared, Logistic, Huber, Quantile, lambda **o: Hinge(width=0.0, **o)])
def test_the_scale_is_attained_by_some_record(loss: Make) -> None:
    problem = loss(features=["level"], label="happy", radius=1.0).on(DOMAIN)
    features, labels = rows(problem)
    own = problem.loss
    assert isinstance(own, ScalarLoss)
    ends = [s * f / np.linalg.norm(f) for f in features for s in (-1.0, 1.0)]
    reached = max(float(np.ptp([own.value(f @ e, y) for e in ends])) for f, y in zip(features, labels, strict=True))
    assert reached >= 0.8 * problem.scale


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_derivatives_match_differences(loss: ConvexLoss) -> None:
    problem = loss.on(DOMAIN)
    risk = TensorRisk(problem, weights(5, problem.attributes))
    theta, h = in_ball(problem, 9) * 0.7, 1e-6
    steps = np.eye(problem.dimension) * h
    slopes = [(risk.value(theta + s) - risk.value(theta - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(risk.gradient(theta), slopes, atol=1e-8)
    if not isinstance(loss, RampLoss):  # their second derivative jumps
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
    # kinks are rounded off, and equal parameters of all classes change nothing
    near = 1e-2 if loss in KINKED else 1e-4 if problem.outputs > 1 else NEAR
    for risk in risks[1:]:
        assert risk.value(theta) == pytest.approx(risks[0].value(theta), abs=1e-12)
        np.testing.assert_allclose(risk.gradient(theta), risks[0].gradient(theta), atol=1e-12)
        np.testing.assert_allclose(risk.hessian(theta), risks[0].hessian(theta), atol=1e-12)
        np.testing.assert_allclose(minimum(risk)[0], minimum(risks[0])[0], atol=near)
    assert float((loss_tensor(problem, theta) * tensor).sum()) == pytest.approx(risks[0].value(theta))
    ahead = in_ball(problem, 6)
    expected = float(risks[0].gradient(theta) @ (ahead - theta))
    assert float((certificate_tensor(problem, ahead, theta) * tensor).sum()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("loss", [loss for loss in ALL if loss.label in ("weight", "mood")], ids=repr)
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
        assert gap <= (CERTIFIED * problem.scale if loss in KINKED else 1e-9)
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
        return float(mass @ loss.values((features @ t)[None], labels)) + loss.ridge / 2 * float(t @ t)

    found = scipy_minimize(risk, np.zeros(len(theta)), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    assert risk(theta) <= found.fun + 1e-12
    np.testing.assert_allclose(theta, found.x, atol=1e-4)  # differences of a flat function cannot do better


def test_a_quantile_matches_scikit_learn() -> None:
    from sklearn.linear_model import QuantileRegressor

    loss = Quantile(features=["age", "job", "level"], label="income", level=0.7, radius=50)
    theta, features, labels, mass = _fit(loss)
    peer = QuantileRegressor(quantile=0.7, alpha=0, fit_intercept=False, solver="highs")
    peer.fit(features, labels, sample_weight=mass)
    found = [float(mass @ loss.value(features @ t, labels)) for t in (theta, peer.coef_)]
    assert found[0] <= found[1] + CERTIFIED * loss.on(DOMAIN).scale


def test_the_hinge_itself_matches_a_linear_program() -> None:
    from scipy.optimize import linprog

    loss = Hinge(features=["age", "level"], label="happy", width=0.0, radius=100)
    theta, features, labels, mass = _fit(loss)
    count, width = features.shape
    # minimise the weighted slacks s >= 0 with s >= 1 - label <theta, v>
    lacks = np.hstack([-labels[:, None] * features, -np.eye(count)])
    free = [(None, None)] * width + [(0, None)] * count
    best = linprog(np.concatenate([np.zeros(width), mass]), lacks, np.full(count, -1.0), bounds=free).fun
    assert float(mass @ loss.value(features @ theta, labels)) <= best + CERTIFIED * loss.on(DOMAIN).scale


def test_poisson_loss_matches_scikit_learn() -> None:
    from sklearn.linear_model import PoissonRegressor

    loss = Poisson(features=["age", "job"], label="income", radius=20)
    theta, features, labels, mass = _fit(loss)
    assert (features @ theta).max() < 0  # no mean reaches the cap, so this is plain Poisson regression
    plain = Poisson(features=["age", "job"], label="income", radius=20, cap=None)
    np.testing.assert_allclose(_fit(plain)[0], theta, atol=NEAR)
    peer = PoissonRegressor(alpha=0, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    np.testing.assert_allclose(theta, peer.fit(features, labels, sample_weight=mass).coef_, atol=NEAR)


def test_multinomial_loss_matches_scikit_learn_and_logistic_loss() -> None:
    from sklearn.linear_model import LogisticRegression

    loss = Multinomial(features=["age", "level"], label="job", radius=100, ridge=0.1)
    problem = loss.on(DOMAIN)
    tensor = weights(2, problem.attributes)
    theta = minimum(TensorRisk(problem, tensor))[0]
    features, labels = rows(problem)
    place = problem.attributes.index("job")
    known = (np.indices(tensor.shape)[place] < 3).ravel()
    mass = tensor.ravel() * known
    peer = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-12, max_iter=10_000)
    peer.fit(features[known], labels[known], sample_weight=mass[known])
    np.testing.assert_allclose(by_output(problem, theta), peer.coef_, atol=1e-5)
    two = {"features": ["age", "level"], "label": "happy", "radius": 100}
    other = minimum(TensorRisk(Multinomial(**two).on(DOMAIN), weights(2, ("age", "level", "happy"))))[0]
    single = minimum(TensorRisk(Logistic(**two).on(DOMAIN), weights(2, ("age", "level", "happy"))))[0]
    np.testing.assert_allclose(other[3:] - other[:3], single, atol=NEAR)


def test_knots_declare_the_losses_that_have_a_name() -> None:
    """The hinge, a quantile and Huber loss, each in the words of a user."""
    line, half = np.linspace(-3, 3, 61), 0.25
    named = Hinge(features=["age"], label="happy", width=0.0)
    own = Margin(
        features=["age"], label="happy", values={"no": [(-2, 0), (-1, 0), (0, 1)], "yes": [(0, 1), (1, 0), (2, 0)]}
    )
    for place, sign in enumerate((-1.0, 1.0)):
        found = own.value(line, np.array(float(place)))
        np.testing.assert_allclose(found, named.value(line, np.array(sign)), atol=1e-12)
    for slopes, other in (
        ([(0, -0.9), (0, 0.1)], Quantile(features=["age"], label="income", level=0.9)),
        ([(-half, -half), (half, half)], Huber(features=["age"], label="income", width=half)),
    ):
        knots = Margin(features=["age"], label="income", slopes=slopes)
        for label in (-0.5, 0.1):
            found = knots.value(line, np.array(label)) - other.value(line, np.array(label))
            np.testing.assert_allclose(found, found[0], atol=1e-12)
        mine, theirs = knots.on(DOMAIN), other.on(DOMAIN)
        assert mine.scale == pytest.approx(theirs.scale)
        assert (mine.lipschitz, mine.smoothness) == (theirs.lipschitz, theirs.smoothness)


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
    (lambda: Hinge(features=["level"], label="happy", width=1e-4), "width"),
    (lambda: Huber(features=["level"], label="income", width=0), "Quantile"),
    (lambda: Quantile(features=["level"], label="income", level=1.0), "level"),
    (lambda: Poisson(features=["level"], label="happy").on(DOMAIN), "no numbers"),
    (
        lambda: Poisson(features=["level"], label="low").on(Domain(level=4, low=Numeric(lower=-1, upper=1, bins=2))),
        "-1",
    ),
    (lambda: Poisson(features=["level"], label="income", cap=0), "cap"),
    (lambda: Multinomial(features=["level"], label="one").on(Domain(level=4, one=Categorical(["a"]))), "one value"),
    (lambda: Multinomial(features=["x"], label="y").on(Domain(x=70, y=110)), "parameters"),
    (lambda: Margin(features=["level"], label="happy"), "either"),
    (lambda: Margin(features=["level"], label="happy", slopes={"no": [(0, 1), (1, 0)]}), "not convex"),
    (lambda: Margin(features=["level"], label="happy", slopes={"no": [(1, 0), (0, 1)]}), "sort"),
    (lambda: Margin(features=["level"], label="happy", slopes={"no": [(0, 0), (1e-4, 1)]}), "closer"),
    (lambda: Margin(features=["level"], label="happy", slopes={"no": [(0, np.nan)]}), "pair of numbers"),
    (lambda: Margin(features=["level"], label="happy", slopes={"no": "code"}), "list"),
    (lambda: Margin(features=["level"], label="happy", slopes=[{"label": "no"}]), "object"),
    (lambda: Margin(features=["level"], label="happy", slopes={"no": [(0, 1)]}).on(DOMAIN), "yes"),
    (lambda: Margin(features=["level"], label="happy", slopes={"no": [(0, 1)], "maybe": [(0, 1)]}).on(DOMAIN), "maybe"),
    (lambda: Margin(features=["level"], label="happy", values={"no": [(0, 1)]}), "two"),
    (lambda: Ridge(features=["level"], label="happy", ridge=0), "Squared"),
    (lambda: loss_from_dict({"loss": "mean", "features": ["level"], "label": "income"}), "mean"),
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
        steepest = 0.0  # pyright: ignore[reportAssignmentType]

    with pytest.raises(QueryError, match="not a known loss"):
        checked_loss(Flat(features=["age"], label="income"))
    assert all(checked_loss(loss) is loss for loss in ALL)
    assert {type(loss) for loss in ALL} == set(LOSSES.values())
