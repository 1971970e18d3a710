"""The convex engines as sessions: quoted, carried out, stopped without a look at rows, resumed from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.minimizers import families as minimizers
from reticent.kernel.table import Table
from reticent.losses.base import ConvexLoss
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum
from reticent.sessions.convex import ConvexEngine

DOMAIN = rt.Domain({"a": 4, "b": 3, "y": 2, "z": 5})
SURE = 1 - 1e-6
"""No bound of these tests is missed by chance."""
LOSSES: list[ConvexLoss] = [
    rt.Logistic(features=["a", "b"], label="y", radius=2),
    rt.Squared(features=["a", "b"], label="y", radius=1),
    rt.Huber(features=["b"], label="a", radius=1),
]
OTHERS: list[ConvexLoss] = [
    rt.Logistic(features=["a"], label="y", radius=2),
    rt.Logistic(features=["b"], label="y", radius=1.5),
    rt.Quantile(features=["b", "y"], label="a", level=0.3, radius=1),
]
COUNT, BUDGET = 10**9, rt.Budget(rho=1)


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy descent of thousands of rounds takes seconds; other minimisers take over."""
    monkeypatch.setattr(minimizers, "MOST_ROUNDS", 200)


def shares() -> np.ndarray:
    return np.random.default_rng(5).dirichlet(np.full(DOMAIN.size, 0.3)).reshape(DOMAIN.shape)


def table(**facts: Any) -> Table:
    """A table of few distinct records, so that it may be huge."""
    counts = np.floor(shares() * COUNT).astype(np.int64)
    counts.flat[0] += COUNT - counts.sum()
    codes = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)
    source = Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes, strict=True)), counts.ravel())
    return Table(source, DOMAIN, **(facts or {"records": COUNT}))


def opened(path: Path | None, rows: Table | None = None, engine: str = "convex-tuned", **options: Any) -> rt.Session:
    first = {"losses": LOSSES, "queries": 40, "error": 0.03, "confidence": SURE} | options
    return rt.Session.open(path, rows or table(), BUDGET, engine=engine, **first)


def excess(model: rt.Model) -> float:
    problem = model.problem
    axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in problem.attributes)
    risk = TensorRisk(problem, shares().sum(axis=axes))
    best, gap = minimum(risk)
    return risk.value(model.theta) - risk.value(best) - gap


def engine_of(session: rt.Session) -> ConvexEngine:
    assert isinstance(session.answering, ConvexEngine)
    return session.answering


@pytest.mark.parametrize(
    ("engine", "error"), [("convex-tuned", 0.03), pytest.param("convex-textbook", 0.04, marks=pytest.mark.slow)]
)
def test_a_session_keeps_its_promise_and_charges_what_it_quotes(engine: str, error: float) -> None:
    with opened(None, engine=engine, error=error) as session:
        origins = set()
        for loss in [*LOSSES, *OTHERS, *LOSSES]:
            before, quoted = session.spent, session.cost(loss, error=error)
            model = session.minimize(loss)
            assert session.spent - before == pytest.approx(model.price)
            assert model.price <= quoted + 1e-12
            assert model.certified
            assert model.confidence == SURE
            assert model.error is not None
            assert excess(model) <= model.error <= error
            origins.add(model.origin)
        assert "measured" in origins
        facts = session.describe()["epochs"]
        assert facts["updates"] == engine_of(session).epochs.updates <= facts["opened"] <= facts["planned"]
        # Asked again, every loss is free: also as a batch, and in another order.
        before = session.spent
        again = session.minimize([*OTHERS, *LOSSES])
        assert session.spent == before
        assert [model.price for model in again] == [0.0] * 6


def test_a_killed_session_resumes_to_the_bit_and_pays_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "rows.ledger"
    with opened(path) as session:
        models = [session.minimize(loss, key=f"k{i}") for i, loss in enumerate(LOSSES)]
        epochs, spent = engine_of(session).epochs, session.spent
        assert epochs.updates > 0
    with rt.Session.open(path, table(), BUDGET, engine="convex-tuned") as session:
        resumed = engine_of(session).epochs
        assert resumed.snapshot.digest == epochs.snapshot.digest
        assert (resumed.entropy, resumed.updates) == (epochs.entropy, epochs.updates)
        assert resumed.opened == epochs.opened
        again = [session.minimize(loss, key=f"k{i}") for i, loss in enumerate(LOSSES)]
        assert session.spent == spent
        assert [(m.theta.tobytes(), m.error, m.price) for m in again] == [
            (m.theta.tobytes(), m.error, m.price) for m in models
        ]
        with pytest.raises(rt.ReticentError, match="another"):
            session.minimize(LOSSES[1], key="k0")


@pytest.mark.parametrize("key", ["mine", None])
def test_what_a_crash_interrupted_is_answered_without_another_charge(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the minimiser was charged: the next one reads it, and makes the update it owes."""
    path = tmp_path / "rows.ledger"
    with opened(path) as session:
        for kind in minimizers.MINIMIZERS:
            monkeypatch.setattr(kind, "release", _killed)
        with pytest.raises(_Killed):
            session.minimize(LOSSES[0], key=key)
        spent = session.spent
        assert spent > 0
    monkeypatch.undo()
    with rt.Session.open(path, table(), BUDGET, engine="convex-tuned") as session:
        assert session.cost(LOSSES[0], error=0.03, key=key) == 0
        model = session.minimize(LOSSES[0], key=key)
        assert session.spent == spent
        assert (model.origin, model.price) == ("measured", pytest.approx(spent))
        assert engine_of(session).epochs.updates == 1
        assert engine_of(session).epochs.entropy < engine_of(session).epochs.plan.log_size


class _Killed(BaseException):
    pass


def _killed(self: object, exact: object) -> np.ndarray:
    raise _Killed


def test_without_means_nothing_is_tested_and_rows_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(None, queries=1) as session:
        session.minimize(LOSSES[0])
        looked = []
        monkeypatch.setattr(Curator, "exceeds", lambda *asked: looked.append(asked))
        model = session.minimize(OTHERS[0])
        assert not model.certified
        assert model.origin == "hypothesis"
        assert looked == []
        session.strict = True
        with pytest.raises(rt.BudgetError, match="losses are tested"):
            session.minimize(OTHERS[0])


def test_counts_without_an_error_are_free() -> None:
    """Where one is wanted they are tested and bought: tests/unit/sessions/test_convex_counts.py."""
    with opened(None) as session:
        spent = session.spent
        assert not session.ask(rt.count(rt.col("a") >= 2)).certified
        assert session.spent == spent


def test_what_no_plan_covers_is_refused_before_anything_is_spent() -> None:
    with opened(None) as session:
        with pytest.raises(rt.QueryError, match="which no planned loss does"):
            session.minimize(rt.Logistic(features=["z"], label="y", radius=1))
        with pytest.raises(rt.QueryError, match="range"):
            session.minimize(rt.Logistic(features=["a"], label="y", radius=50))
        with pytest.raises(rt.QueryError, match="use engine='default'"):
            session.minimize(LOSSES[0], error=0.001)
        assert session.spent == 0
    with pytest.raises(rt.QueryError, match="losses="):
        opened(None, losses=None)
    with pytest.raises(rt.QueryError, match="no effect"):
        opened(None, engine="tuned", error=None)
    with pytest.raises(rt.QueryError, match="delta"):
        rt.Session.open(None, table(), rt.Budget(epsilon=1), engine="convex-tuned", losses=LOSSES)


def test_a_private_number_of_records_is_counted_first() -> None:
    with opened(None, table(neighbours="add-remove"), error=0.05) as session:
        counted = session.spent
        assert counted > 0
        for loss in LOSSES:
            model = session.minimize(loss)
            assert model.certified
            assert model.error is not None
            assert excess(model) <= model.error


def test_a_support_answers_within_the_same_error() -> None:
    """Tests look at the data, whatever the hypothesis is; only the entropy says nothing there."""
    with opened(None, support=300) as session:
        for loss in LOSSES:
            model = session.minimize(loss)
            assert model.certified
            assert model.error is not None
            assert excess(model) <= model.error <= 0.03
        assert session.describe()["epochs"]["entropy"] is None
