"""Private minimisers: sensitivities on every neighbour of tiny universes, a sampled audit, planted bugs turn red."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy import minimizer_checks as checks

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Exponential, Gaussian
from reticent.kernel.minimizers import excess_risk, phased
from reticent.kernel.minimizers import families as module
from reticent.kernel.minimizers import solvers as minimizer_steps
from reticent.kernel.minimizers.excess_risk import ExcessRisk, ExcessRisks
from reticent.kernel.minimizers.families import (
    MINIMIZERS,
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    PhasedERM,
    RidgeGLM,
    SufficientStatistics,
    UnconstrainedGLM,
)
from reticent.kernel.minimizers.solvers import Shape, guaranteed_minimum, located_minimum
from reticent.kernel.statistics import FINE
from reticent.kernel.table import Table
from reticent.losses.losses import (
    ConvexLoss,
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
)
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum

ROOT = Path(__file__).resolve().parents[2]
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_claims_hold(check: Callable[[], None]) -> None:
    check()


def _no_clip(risk: TensorRisk, theta: np.ndarray, limit: float) -> np.ndarray:
    return risk.gather(risk.slopes(theta) / limit)


def _half(neighbours: str) -> int:
    return 1


def _released_plainly(values: np.ndarray, noise: Gaussian) -> np.ndarray:
    return np.array(values)


def _unlocated(patch: pytest.MonkeyPatch) -> None:
    def ignored(self: OutputPerturbation) -> Any:
        return minimizer_steps.sum_sensitivity(Fraction(2), self.problem.dimension, Fraction(0))

    patch.setattr(OutputPerturbation, "sensitivity", property(ignored))


def _small_scales(patch: pytest.MonkeyPatch) -> None:
    own = excess_risk.least_scale
    for place in (excess_risk, checks):
        patch.setattr(place, "least_scale", lambda *facts: 0.6 * own(*facts))


def _next_unit(patch: pytest.MonkeyPatch) -> None:
    own = PhasedERM._convexity

    def unit(self: PhasedERM, phase: int) -> float:
        return self.problem.lipschitz / (own(self, phase) * phased.GROWTH * float(self.records))

    patch.setattr(PhasedERM, "_unit", unit)


def _last_phase_free(patch: pytest.MonkeyPatch) -> None:
    def price(self: PhasedERM) -> Price:
        parts = [noise.price(self.sensitivity(phase)) for phase, noise in enumerate(self.noises[:-1])]
        return sum(parts, start=Price.free())

    patch.setattr(PhasedERM, "price", price)


BUGS: list[tuple[str, Patch, Callable[[], None]]] = [
    (
        "factor 2 in output perturbation",
        lambda p: p.setattr(minimizer_steps, "records_moved", _half),
        checks.check_output_perturbation,
    ),
    ("gradient sensitivity L/n", lambda p: p.setattr(module, "records_moved", _half), checks.check_gradient_sums),
    (
        "gradient sensitivity, transcript",
        lambda p: p.setattr(module, "records_moved", _half),
        checks.check_descent_by_quadrature,
    ),
    ("solver gap ignored", _unlocated, checks.check_imperfect_solver),
    ("unclipped gradient", lambda p: p.setattr(module, "clipped_sum", _no_clip), checks.check_gradient_sums),
    ("minimum over data released", lambda p: p.setattr(module, "noisy", _released_plainly), checks.check_sampled_audit),
    (
        "excess risk moved by one",
        lambda p: p.setattr(excess_risk, "records_moved", lambda _: 0),
        checks.check_excess_risk,
    ),
    ("a unit smaller than what one record moves", _small_scales, checks.check_excess_risk),
    ("a phase left unpaid", _last_phase_free, checks.check_phases),
    ("phases in the unit of the next one", _next_unit, checks.check_phases),
    ("factor 2 in phases", lambda p: p.setattr(minimizer_steps, "records_moved", _half), checks.check_phases),
    (
        "cross moments moved by one",
        lambda p: p.setattr(module, "records_moved", _half),
        checks.check_sufficient_statistics,
    ),
]


@pytest.mark.parametrize(("plant", "check"), [b[1:] for b in BUGS], ids=[b[0] for b in BUGS])
def test_planted_bugs_turn_red(plant: Patch, check: Callable[[], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError):
            check()


LOSSES: list[ConvexLoss] = [
    Squared(features=["a", "b"], label="y", radius=1.5),
    Ridge(features=["a", "b"], label="y", ridge=0.2, radius=1.5, categories=["a"]),
    Logistic(features=["a", "b"], label="y", radius=2),
    Logistic(features=["a"], label="y", radius=2, ridge=0.1),
    Hinge(features=["a", "b"], label="y", radius=2),
    Huber(features=["a", "b"], label="y", width=0.1),
    MeanVector(features=["a", "b"], categories=["a"]),
    Hinge(features=["a", "b"], label="y", radius=2, width=0),
    Quantile(features=["b"], label="a", level=0.8, ridge=0.2),
    Poisson(features=["b"], label="a"),
    Multinomial(features=["b"], label="a", radius=2),
    Margin(features=["b"], label="a", slopes={0: [(0, 0), (1, 2)], 1: [(-1, -1), (1, 1)], 2: [(0, -1), (0, 1)]}),
]
DOMAIN = checks.DOMAIN


@settings(max_examples=40, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    kind=st.sampled_from(MINIMIZERS),
    counts=st.lists(st.integers(0, 40), min_size=12, max_size=12),
    out=st.integers(0, 11),
    into=st.integers(0, 11),
)
def test_no_random_neighbours_exceed_the_price(
    loss: ConvexLoss, kind: type[Minimizer], counts: list[int], out: int, into: int
) -> None:
    table = np.array(counts).reshape(DOMAIN.shape)
    table.flat[out] += 1
    other = table.copy()
    other.flat[out] -= 1
    other.flat[into] += 1
    total = int(table.sum())
    try:
        minimizer = kind(loss, DOMAIN, neighbours="replace-one", records=total, rho=0.5)
    except QueryError:
        return
    if isinstance(minimizer, NoisyGradientDescent):  # each round costs the same
        object.__setattr__(minimizer, "rounds", 2)
    sums = []
    for weights in (table, other):
        source = _source(weights)
        seen: list[tuple[np.ndarray, Gaussian]] = []
        with checks.transcript(seen):
            minimizer.release(minimizer.fetch(source, 1))
        sums.append(seen)
    spent = sum(
        float(np.square(x - y).sum()) / (2 * float(noise.sigma) ** 2) for (x, noise), (y, _) in zip(*sums, strict=True)
    )
    assert spent <= float(minimizer.price().rho) * (1 + 1e-9)


def _source(weights: np.ndarray) -> Records:
    codes = np.indices(DOMAIN.shape).reshape(3, -1)
    return Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes, strict=True)), weights.ravel().astype(np.int64))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_guaranteed_methods_meet_their_guarantee(loss: ConvexLoss) -> None:
    """The a-priori number of steps suffices."""
    problem = loss.on(DOMAIN)
    weights = np.random.default_rng(7).dirichlet(np.ones(12)).reshape(DOMAIN.shape)
    axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in problem.attributes)
    risk = TensorRisk(problem, weights.sum(axis=axes))
    best, _ = minimum(risk)
    gap = 1e-3 * problem.scale
    if not np.isfinite(problem.smoothness):
        problem, gap = problem.rounded(gap), 2 * gap
        risk = TensorRisk(problem, weights.sum(axis=axes))
    plain = Shape(problem.radius, problem.lipschitz, problem.smoothness, 0.0)
    found = guaranteed_minimum(risk, plain.to_gap(gap))
    assert risk.value(found) <= risk.value(best) + gap
    if problem.strong_convexity > 0:
        shape = Shape(problem.radius, problem.lipschitz, problem.smoothness, problem.strong_convexity)
        found = located_minimum(risk, shape, 1e-3)
        assert np.linalg.norm(found - minimum(risk)[0]) <= 1e-3


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_bounds_on_the_excess_hold_in_practice(loss: ConvexLoss, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROUNDS", 150)
    count, failure, rho = 600, 0.05, 0.2
    weights = np.random.default_rng(3).multinomial(count, np.random.default_rng(4).dirichlet(np.ones(12)))
    source = _source(weights.reshape(DOMAIN.shape))
    table = Table(source, DOMAIN, records=count)
    curator = Curator(table, Ledger.memory(Budget(rho=1000), table.identity))
    problem = loss.on(DOMAIN)
    risk = TensorRisk(problem, source.marginal(problem.attributes) / count)
    least = risk.value(minimum(risk)[0])
    for kind in MINIMIZERS:
        try:
            minimizer = kind(loss, DOMAIN, neighbours="replace-one", records=count, rho=rho)
        except QueryError:
            continue
        misses = 0
        for _ in range(3):
            theta = curator.minimize(minimizer).values[0]
            assert np.linalg.norm(theta) <= problem.radius * (1 + 1e-9) or kind is UnconstrainedGLM
            misses += risk.value(theta) - least > minimizer.bound(failure)
        assert misses <= 1
        assert rho * (1 - 1e-6) <= float(minimizer.price().rho) <= rho * (1 + 1e-9)


def test_persons_weigh_as_their_mean() -> None:
    """A person grid only rescales: the same sums, the same excess."""
    weights = np.arange(12).reshape(DOMAIN.shape)
    loss = Logistic(features=["a", "b"], label="y", radius=2)
    statistic = ExcessRisk((loss,), (np.array([2.0, 0, 0]),), (loss.on(DOMAIN).scale,), DOMAIN, 66)
    plain = int(statistic.evaluate(_source(weights), 1)) / FINE
    grid = 60
    weighted = int(statistic.evaluate(_source(weights * grid), grid)) / (statistic.resolution(grid) * grid)
    assert weighted == pytest.approx(plain, abs=1e-4)
    for kind, own in ((SufficientStatistics, Squared(features=["a"], label="y")), (NoisyGradientDescent, loss)):
        minimizer = kind(own, DOMAIN, neighbours="replace-one", records=66, rho=0.5)
        for one, other in zip(
            _flat(minimizer.fetch(_source(weights), 1)),
            _flat(minimizer.fetch(_source(weights * grid), grid)),
            strict=True,
        ):
            np.testing.assert_allclose(one, other)


def _flat(fetched: Any) -> tuple[np.ndarray, ...]:
    return fetched if isinstance(fetched, tuple) else (fetched,)


def test_only_the_kernels_own_minimisers_and_statistics_reach_the_rows() -> None:
    table = Table(_source(np.ones(DOMAIN.shape, dtype=np.int64)), DOMAIN, records=12)
    ledger = Ledger.memory(Budget(rho=1), table.identity)
    curator = Curator(table, ledger)

    class Free(OutputPerturbation):
        def price(self) -> Any:
            return super().price() * 0

    mean = MeanVector(features=["b"])
    facts: dict[str, Any] = {"neighbours": "replace-one", "records": 12, "rho": 0.1}
    other = Domain({"a": 3, "b": 2, "y": 3})
    scores = ExcessRisks((mean,), (np.zeros(1),), (mean.on(DOMAIN).scale,), DOMAIN, 12)
    refused: list[Callable[[], object]] = [
        lambda: curator.minimize(Free(mean, DOMAIN, **facts)),
        lambda: curator.minimize(OutputPerturbation(mean, other, **facts)),
        lambda: curator.minimize(OutputPerturbation(mean, DOMAIN, **(facts | {"neighbours": "add-remove"}))),
        lambda: curator.minimize(OutputPerturbation(mean, DOMAIN, **(facts | {"records": 13}))),
        lambda: curator.minimize(object()),  # pyright: ignore[reportArgumentType]
        lambda: curator.measure([scores], Gaussian(1)),
        lambda: OutputPerturbation(Squared(features=["a"], label="y"), DOMAIN, **facts),
        lambda: RidgeGLM(Squared(features=["a"], label="y"), DOMAIN, **facts),
        lambda: SufficientStatistics(mean, DOMAIN, **facts),
        lambda: ExcessRisk((mean,), (np.full(1, 9.0),), (9.0,), DOMAIN, 12),
        lambda: ExcessRisk((mean,), (np.zeros(1),), (1e-3,), DOMAIN, 12),
    ]
    for request in refused:
        with pytest.raises(QueryError):
            request()
    assert ledger.spent == 0
    assert curator.select(scores, Exponential(0.1)).values[0][0] == 0
    assert ledger.spent > 0


def test_each_minimiser_names_a_proof_that_exists() -> None:
    for kind in MINIMIZERS:
        assert (ROOT / kind.proof).is_file(), kind.proof
    assert (ROOT / "docs/proofs/excess-risk.md").is_file()


def test_a_repeated_key_returns_the_same_bytes() -> None:
    table = Table(_source(np.ones(DOMAIN.shape, dtype=np.int64)), DOMAIN, records=12)
    curator = Curator(table, Ledger.memory(Budget(rho=1), table.identity))
    minimizer = NoisyGradientDescent(LOSSES[2], DOMAIN, neighbours="replace-one", records=12, rho=0.1)
    first = curator.minimize(minimizer, key="k")
    again = curator.minimize(minimizer, key="k")
    assert first.values[0].tobytes() == again.values[0].tobytes()
    assert first.ledger_id == again.ledger_id
