"""Table 1 of 001: how the number of records grows as the error shrinks, for each family of losses.

Exponents are fitted over a range of errors; logarithms bend them a little, hence the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.algorithms.convex import ConvexPlan
from reticent.kernel import minimizers
from reticent.kernel.curator import Curator
from reticent.kernel.ledger import Ledger
from reticent.kernel.minimizers import (
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    RidgeGLM,
    SufficientStatistics,
)
from reticent.kernel.records import Records
from reticent.kernel.table import Table
from reticent.queries.convex import ConvexLoss
from reticent.queries.minimum import minimum
from reticent.queries.risk import TensorRisk

DOMAIN = rt.Domain({"a": 2, "b": 2, "c": 2, "y": 2})
LINEAR = rt.Huber(features=["a", "b", "c"], label="y", radius=0.15, width=0.15, intercept=False)
"""Far from its kink Huber loss is linear: Lipschitz, bounded, and nothing more."""
RHO = 0.1
FAILURE = 0.05
RUNS = 24
BEND = 0.35
"""How far a fitted exponent may lie from the theorem's."""


def table(counts: np.ndarray) -> Table:
    codes = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)
    source = Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes, strict=True)), counts.ravel().astype(np.int64))
    return Table(source, DOMAIN, records=int(counts.sum()))


def mean_excess(kind: type[Minimizer], loss: ConvexLoss, counts: np.ndarray, runs: int) -> float:
    private = table(counts)
    curator = Curator(private, Ledger.memory(rt.Budget(rho=10**6), private.identity))
    problem = loss.on(DOMAIN)
    risk = TensorRisk(problem, private._source.marginal(problem.attributes) / counts.sum())
    least = risk.value(minimum(risk)[0])
    minimizer = kind(loss, DOMAIN, neighbours="replace-one", records=int(counts.sum()), rho=RHO)
    return float(np.mean([risk.value(curator.minimize(minimizer).values[0]) - least for _ in range(runs)]))


def slope(sizes: list[int], errors: list[float]) -> float:
    """Fitted exponent of error against size."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def even(count: int) -> np.ndarray:
    return np.full(DOMAIN.shape, count // 16)


def tilted(count: int, tilt: float) -> np.ndarray:
    """Mean of label times feature `a` is `tilt`, of the others nothing."""
    counts = even(count).astype(float)
    counts[:, :, :, 1] += tilt * count / 16 * np.array([-1.0, 1.0])[:, None, None]
    counts[:, :, :, 0] -= tilt * count / 16 * np.array([-1.0, 1.0])[:, None, None]
    return np.rint(counts)


def nearly_even(count: int) -> np.ndarray:
    """A mean gradient about as large as the noise at this size: the hard case of the lower bounds."""
    return tilted(count, 32.0 / count)


def ridge_hard(count: int) -> np.ndarray:
    """A mean gradient for which the ridge added at this size stops half way to the ball: half its bias is lost."""
    ridge = RidgeGLM(LINEAR, DOMAIN, neighbours="replace-one", records=count, rho=RHO).convexity
    return tilted(count, ridge * LINEAR.radius / (2 * 0.15))


ROWS: list[tuple[str, type[Minimizer], ConvexLoss, Callable[[int], np.ndarray], list[int], float]] = [
    (
        "Lipschitz, bounded: 1/n",
        NoisyGradientDescent,
        LINEAR,
        nearly_even,
        [160, 640, 2560],
        -1.0,
    ),
    (
        "unconstrained generalised linear: 1/sqrt(n)",
        RidgeGLM,
        LINEAR,
        ridge_hard,
        [10_000, 100_000, 1_000_000],
        -0.5,
    ),
    (
        "strongly convex: 1/n^2",
        OutputPerturbation,
        rt.MeanVector(features=["a", "b", "c"]),
        even,
        [1600, 6400, 25600],
        -2.0,
    ),
    (
        "strongly convex by descent: 1/n^2",
        NoisyGradientDescent,
        rt.MeanVector(features=["a", "b", "c"]),
        even,
        [32, 64, 160],
        -2.0,
    ),
]


@pytest.mark.parametrize(("kind", "loss", "data", "sizes", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_one_loss_needs_as_many_records_as_table_1_says(
    kind: type[Minimizer], loss: ConvexLoss, data: Callable[[int], np.ndarray], sizes: list[int], expected: float
) -> None:
    errors = [mean_excess(kind, loss, data(size), RUNS) for size in sizes]
    assert slope(sizes, errors) == pytest.approx(expected, abs=BEND)


def required(price: Callable[[float], float]) -> float:
    """The smallest number of records whose whole price is at most RHO."""
    low, high = 2.0, 2.0**60
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if price(middle) <= RHO else (middle, high)
    return high


def plan_for(loss: ConvexLoss, error: float, records: float) -> ConvexPlan:
    return ConvexPlan(error, 10**4, loss.on(DOMAIN).scale, records, math.log(DOMAIN.size), FAILURE, "textbook")


def watching_price(loss: ConvexLoss, error: float, records: float) -> float:
    try:
        plan = plan_for(loss, error, records)
    except rt.QueryError:
        return math.inf
    return plan.updates * float(plan.watch("replace-one").price().rho)


def minimisers_price(kind: type[Minimizer], loss: ConvexLoss, error: float, records: float) -> float:
    """All updates together, each by a minimiser that errs at most error/4."""
    try:
        plan = plan_for(loss, error, records)
    except rt.QueryError:
        return math.inf
    share = RHO / plan.updates
    facts: dict[str, Any] = {"neighbours": "replace-one", "records": records, "rho": share}
    good = kind(loss, DOMAIN, **facts).bound(FAILURE / (2 * plan.updates)) <= error / 4
    return RHO if good else math.inf


def exponent(need: Callable[[float], float], errors: tuple[float, float]) -> float:
    return -slope([1, 1000], [need(e) for e in errors]) * math.log(1000) / math.log(errors[1] / errors[0])


def test_many_losses_need_one_over_error_squared_for_the_tests() -> None:
    loss = rt.Logistic(features=["a", "b"], label="y", radius=1)
    found = exponent(lambda error: required(lambda n: watching_price(loss, error, n)), (0.1, 0.001))
    assert found == pytest.approx(2.0, abs=BEND)


@pytest.mark.parametrize(
    ("kind", "loss", "errors", "expected"),
    [
        (NoisyGradientDescent, rt.Huber(features=["a", "b"], label="y", radius=0.5, width=1.0), (0.1, 0.01), 2.0),
        (RidgeGLM, rt.Logistic(features=["a", "b"], label="y", radius=1), (0.1, 0.01), 3.0),
        (OutputPerturbation, rt.MeanVector(features=["a", "b"], radius=3), (0.1, 0.001), 1.5),
    ],
    ids=["Lipschitz", "generalised linear", "strongly convex"],
)
def test_many_losses_need_as_many_records_as_table_1_says(
    kind: type[Minimizer], loss: ConvexLoss, errors: tuple[float, float], expected: float
) -> None:
    found = exponent(lambda error: required(lambda n: minimisers_price(kind, loss, error, n)), errors)
    assert found == pytest.approx(expected, abs=BEND)


def test_updates_grow_with_the_logarithm_of_the_universe_and_the_square_of_the_error() -> None:
    plans = [
        ConvexPlan(e, 10, 1.0, 10**6, size, FAILURE, "textbook") for e, size in ((0.1, 5.0), (0.05, 5.0), (0.1, 10.0))
    ]
    assert plans[1].updates == pytest.approx(4 * plans[0].updates, rel=0.01)
    assert plans[2].updates == pytest.approx(2 * plans[0].updates, rel=0.01)
    assert plans[0].updates == math.ceil(64 * 5.0 / 0.01)


CURVED = rt.Logistic(features=["a", "b", "c"], label="y", radius=1)
RIDGED = rt.Logistic(features=["a", "b", "c"], label="y", radius=1, ridge=0.1)
FITTED = rt.Squared(features=["a", "b", "c"], label="y", radius=1)
RARELY = 1e-4
TABLES = 6


@pytest.mark.parametrize("weight", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("rho", [1e4, 0.5])
@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (NoisyGradientDescent, CURVED),
        (NoisyGradientDescent, RIDGED),
        (NoisyGradientDescent, FITTED),
        (OutputPerturbation, RIDGED),
        (RidgeGLM, CURVED),
        (RidgeGLM, RIDGED),
        (SufficientStatistics, FITTED),
    ],
)
def test_bounds_hold_on_tables_of_another_size_than_declared(
    kind: type[Minimizer], loss: ConvexLoss, rho: float, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lopsided tables, whose best parameters often lie on the ball's edge; rows weigh `weight` times too much."""
    monkeypatch.setattr(minimizers, "MOST_ROUNDS", 60)
    problem, spread = loss.on(DOMAIN), abs(1 - weight)
    for seed in range(TABLES):
        counts = np.rint(np.random.default_rng(seed).dirichlet(np.full(16, 0.2)) * 10**6).reshape(DOMAIN.shape)
        true, source = counts.sum(), table(counts)._source
        minimizer = kind(loss, DOMAIN, neighbours="add-remove", records=round(true / weight), rho=rho)
        theta = minimizer.release(minimizer.fetch(source, 1))
        for divisor, bound in (
            (true, minimizer.bound(RARELY, spread)),
            (float(minimizer.records), minimizer._excess(RARELY, 1 + spread)),
        ):
            risk = TensorRisk(problem, source.marginal(problem.attributes) / divisor)
            assert risk.value(theta) - risk.value(minimum(risk)[0]) <= bound * (1 + 1e-9)


def test_a_minimiser_sought_outside_the_ball_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the loss' own ball replaced by one that holds the unconstrained minimiser."""
    own = RidgeGLM._shape.fget
    assert own is not None
    monkeypatch.setattr(RidgeGLM, "_shape", property(lambda self: replace(own(self), radius=50.0)))
    with pytest.raises(AssertionError):
        test_bounds_hold_on_tables_of_another_size_than_declared(RidgeGLM, CURVED, 1e4, 1.0, monkeypatch)


def test_steps_too_long_for_heavier_rows_are_paid_for() -> None:
    """The bound grows with the doubt about the number of records, from its plain value on."""
    minimizer = NoisyGradientDescent(CURVED, DOMAIN, neighbours="add-remove", records=10**6, rho=1)
    bounds = [minimizer._excess(FAILURE, weight) for weight in (1.0, 1.1, 1.5)]
    assert bounds[0] < bounds[1] < bounds[2]
    assert minimizer.bound(FAILURE) == bounds[0]
    assert minimizer.bound(FAILURE, 0.01) > bounds[0] + 0.01 * minimizer.problem.scale
