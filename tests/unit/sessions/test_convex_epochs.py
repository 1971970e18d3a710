"""The online mechanism for convex losses keeps its promise, on exact and on noisy numbers of records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.minimizers import families as minimizers
from reticent.kernel.table import Table
from reticent.losses.base import ConvexLoss
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum
from reticent.planning.convex import ConvexPlan, Task, convex_plan
from reticent.sessions.convex_epochs import ConvexEpochs

DOMAIN = rt.Domain({"a": 4, "b": 3, "y": 2})
LOSSES: list[ConvexLoss] = [
    rt.Squared(features=["a", "b"], label="y", radius=1),
    rt.Ridge(features=["a", "b"], label="y", ridge=0.1, radius=1, categories=["b"]),
    rt.Logistic(features=["a", "b"], label="y", radius=2),
    rt.Hinge(features=["a"], label="y", radius=2, width=0.0),
    rt.Huber(features=["a", "b"], label="y", radius=1),
    rt.Multinomial(features=["b"], label="a", radius=2),
]
RHO = 20.0


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy descent of thousands of rounds takes seconds; other minimisers take over."""
    monkeypatch.setattr(minimizers, "MOST_ROUNDS", 200)


def private(count: int, rho: float = RHO, **facts: Any) -> tuple[Curator, np.ndarray]:
    """A table of `count` records with few distinct ones, so that it may be huge."""
    data = np.random.default_rng(5).dirichlet(np.full(DOMAIN.size, 0.7)).reshape(DOMAIN.shape)
    counts = np.floor(data * count).astype(np.int64)
    counts.flat[0] += count - counts.sum()
    codes = np.indices(DOMAIN.shape).reshape(3, -1)
    source = Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes, strict=True)), counts.ravel())
    table = Table(source, DOMAIN, **(facts or {"records": count}))
    return Curator(table, Ledger.memory(rt.Budget(rho=rho), table.identity)), counts / count


def true_excess(loss: ConvexLoss, theta: np.ndarray, data: np.ndarray) -> float:
    problem = loss.on(DOMAIN)
    axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in problem.attributes)
    risk = TensorRisk(problem, data.sum(axis=axes))
    theta_best, gap = minimum(risk)
    return risk.value(theta) - risk.value(theta_best) - gap


def planned(
    engine: str, count: float, *, records_error: float = 0.0, neighbours: str = "replace-one", error: float = 0.05
) -> ConvexPlan:
    task = Task(tuple(LOSSES), DOMAIN, neighbours, count, 40, 0.05, math.log(DOMAIN.size), records_error)
    return convex_plan(engine, task, RHO, error)


def begun(curator: Curator, plan: ConvexPlan) -> ConvexEpochs:
    return ConvexEpochs(curator, plan, Snapshot(DenseHypothesis(DOMAIN)))


def divergence(data: np.ndarray, snapshot: Snapshot) -> float:
    held = data > 0
    return float(np.sum(data[held] * np.log(data[held] / snapshot.marginal(DOMAIN.names)[held])))


@pytest.mark.parametrize("engine", ["convex-tuned", pytest.param("convex-textbook", marks=pytest.mark.slow)])
def test_every_answer_is_within_its_bound_and_the_entropy_within_its_own(engine: str) -> None:
    count = 10**9
    curator, data = private(count)
    mechanism = begun(curator, planned(engine, count))
    origins = []
    for turn in range(18):
        loss = LOSSES[turn % len(LOSSES)]
        reply = mechanism.ask(loss, key=f"q{turn}")
        assert true_excess(loss, reply.theta, data) <= reply.error <= mechanism.plan.error
        origins.append(reply.origin)
    assert 0 < mechanism.updates < mechanism.plan.epochs
    assert {"measured", "tested"} <= set(origins)
    assert divergence(data, mechanism.snapshot) <= mechanism.entropy < mechanism.plan.log_size
    assert mechanism.tests == len(LOSSES)  # asked again, a loss is free


@pytest.mark.parametrize("off", [-1, pytest.param(1, marks=pytest.mark.slow)])
def test_a_noisy_number_of_records_keeps_the_promise(off: int) -> None:
    """The released number lies as far from the truth as its stated error allows, on either side."""
    count, uncertain = 10**9, 0.002
    curator, data = private(count, neighbours="add-remove")
    known = count / (1 + off * uncertain)
    mechanism = begun(curator, planned("convex-tuned", known, records_error=uncertain, neighbours="add-remove"))
    for turn in range(12):
        loss = LOSSES[turn % len(LOSSES)]
        reply = mechanism.ask(loss)
        assert true_excess(loss, reply.theta, data) <= reply.error <= mechanism.plan.error
    assert 0 < mechanism.updates < mechanism.plan.epochs


def test_a_small_entropy_certifies_every_loss_without_a_test() -> None:
    curator, _ = private(10**9)
    plan = planned("convex-tuned", 10**9)
    mechanism = ConvexEpochs(curator, plan, Snapshot(DenseHypothesis(DOMAIN)), entropy=1e-6)
    reply = mechanism.ask(LOSSES[2])
    assert (reply.origin, reply.cost, mechanism.tests) == ("certificate", 0, 0)
    assert reply.error == pytest.approx(plan.scale * math.sqrt(2e-6), rel=0.2)
    assert mechanism.cost(LOSSES[2]) == 0


def test_what_no_plan_covers_is_refused() -> None:
    curator, _ = private(10**9)
    plan = planned("convex-tuned", 10**9)
    with pytest.raises(QueryError, match="the table has"):
        begun(curator, replace(plan, records=10**9 + 1))
    with pytest.raises(QueryError, match="private under add-remove"):
        begun(private(10**9, neighbours="add-remove")[0], plan)
    with pytest.raises(QueryError, match="range"):
        begun(curator, plan).ask(rt.Logistic(features=["a"], label="y", radius=99))
    with pytest.raises(QueryError, match="ask for more"):
        planned("convex-tuned", 10**9, error=1e-5)
    with pytest.raises(QueryError, match="parameters of zero"):
        planned("convex-tuned", 10**3)
    with pytest.raises(QueryError, match="to within"):
        planned("convex-tuned", 10**9, records_error=0.2)


def test_beyond_the_plan_or_the_budget_nothing_is_tested() -> None:
    curator, _ = private(10**9, rho=1e-9)
    mechanism = begun(curator, planned("convex-tuned", 10**9))
    with pytest.raises(BudgetError):
        mechanism.ask(LOSSES[2])
    assert (mechanism.tests, mechanism.opened) == (0, 0)
    assert mechanism.guess(LOSSES[2]).error == math.inf
    rich = private(10**9)[0]
    used = ConvexEpochs(rich, mechanism.plan, mechanism.snapshot, opened=mechanism.plan.epochs)
    with pytest.raises(BudgetError, match="epochs are used up"):
        used.ask(LOSSES[2])
    tested = ConvexEpochs(rich, mechanism.plan, mechanism.snapshot, tests=mechanism.plan.losses)
    with pytest.raises(BudgetError, match="losses are tested"):
        tested.ask(LOSSES[2])
