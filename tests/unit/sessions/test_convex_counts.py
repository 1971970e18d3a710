"""Counts asked of a convex session: tested, bought and learned in the same run as its losses (spec 8.6)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.session_tables import forbidden

import reticent as rt
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.minimizers import families as minimizers
from reticent.kernel.table import Table
from reticent.queries.linear import Marginal
from reticent.sessions.convex import ConvexEngine
from reticent.sessions.convex_counts import ConvexCounts
from reticent.sessions.convex_epochs import ConvexEpochs

DOMAIN = rt.Domain({"a": 4, "b": 3, "y": 2, "z": 5})
SURE = 1 - 1e-6
LOSSES = [rt.Logistic(features=["a", "b"], label="y", radius=2), rt.Squared(features=["b"], label="y", radius=1)]
COUNT, BUDGET = 10**9, rt.Budget(rho=1)
QUESTIONS = [
    rt.count(rt.col("a") >= 2),
    rt.count((rt.col("a") == 1) | (rt.col("b") == 0)),
    rt.linear("b", "y", values=[[0.0, 0.5], [0.25, 1.0], [1.0, 0.0]]),
    rt.marginal("a", "y"),
    rt.count((rt.col("y") == 1) & (rt.col("b") >= 1)),
    rt.marginal("b"),
]


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy descent of thousands of rounds takes seconds; other minimisers take over."""
    monkeypatch.setattr(minimizers, "MOST_ROUNDS", 200)


def shares(concentration: float = 0.3) -> np.ndarray:
    return np.random.default_rng(5).dirichlet(np.full(DOMAIN.size, concentration)).reshape(DOMAIN.shape)


def table(**facts: Any) -> Table:
    counts = np.floor(shares() * COUNT).astype(np.int64)
    counts.flat[0] += COUNT - counts.sum()
    codes = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)
    source = Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes, strict=True)), counts.ravel())
    return Table(source, DOMAIN, **(facts or {"records": COUNT}))


def opened(path: Path | None, engine: str = "convex-tuned", rows: Table | None = None, **options: Any) -> rt.Session:
    first = {"losses": LOSSES, "queries": 40, "error": 0.05, "confidence": SURE} | options
    return rt.Session.open(path, rows or table(), BUDGET, engine=engine, **first)


def parts_of(session: rt.Session) -> tuple[ConvexEpochs, ConvexCounts]:
    engine = session.answering
    assert isinstance(engine, ConvexEngine)
    assert isinstance(engine.counts, ConvexCounts)
    return engine.epochs, engine.counts


def truth(query: Any) -> np.ndarray:
    held, names = shares(), DOMAIN.names
    if isinstance(query, Marginal):
        return held.sum(axis=tuple(i for i, name in enumerate(names) if name not in query.names))
    form = query.compile(DOMAIN)
    kept = held.sum(axis=tuple(i for i, name in enumerate(names) if name not in form.attributes))
    return np.asarray((kept * form.tensor()).sum())


def divergence(epochs: ConvexEpochs) -> float:
    """Of the planned attributes: only these are ever moved."""
    names = epochs.plan.attributes
    data = shares().sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in names))
    return float(np.sum(data * np.log(data / epochs.snapshot.marginal(names))))


@pytest.mark.parametrize(
    ("engine", "error"), [("convex-tuned", 0.05), pytest.param("convex-textbook", 0.08, marks=pytest.mark.slow)]
)
def test_counts_and_losses_keep_one_promise(engine: str, error: float) -> None:
    """Every answer within its bound, every update worth what the number of epochs was planned with."""
    with opened(None, engine, error=error) as session:
        epochs, counts = parts_of(session)
        assert counts.error == pytest.approx(error / epochs.plan.scale)
        assert session.describe()["epochs"]["counts within"] == counts.error
        needed = epochs.plan.log_size / epochs.plan.epochs * 0.99
        for turn, query in enumerate(QUESTIONS):
            before, entropy, updates = session.spent, epochs.entropy, epochs.updates
            quoted = session.cost(query, error=counts.error)
            answer = session.ask(query, error=counts.error)
            assert session.spent - before == pytest.approx(answer.price, abs=1e-12)
            assert answer.price <= quoted + 1e-12
            assert answer.certified
            assert answer.confidence == SURE
            assert np.abs(np.asarray(answer.value) - truth(query)).max() <= answer.error <= counts.error
            assert entropy - epochs.entropy >= needed * (epochs.updates - updates)
            assert divergence(epochs) <= epochs.entropy
            if turn % 2 == 0:
                model = session.minimize(LOSSES[turn // 2 % 2])
                assert model.certified
        assert 0 < epochs.updates <= epochs.opened <= epochs.plan.epochs
        assert epochs.tests <= len(QUESTIONS) + len(LOSSES)
        before = session.spent
        for query in QUESTIONS:  # asked again all are free, also without an error
            again, _ = session.ask(query, error=counts.error), session.ask(query)
            assert np.abs(np.asarray(again.value) - truth(query)).max() <= again.error
        assert session.spent == before


def test_a_count_may_come_first_and_a_loss_share_its_epoch() -> None:
    """Noises of an epoch are drawn for excess risks, which one record moves more than a count."""
    flat = np.full(DOMAIN.shape, COUNT // DOMAIN.size)
    codes = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1)
    source = Records.of_codes(DOMAIN, dict(zip(DOMAIN.names, codes, strict=True)), flat.ravel().astype(np.int64))
    with opened(None, rows=Table(source, DOMAIN, records=int(flat.sum()))) as session:
        epochs, counts = parts_of(session)
        # Uniform rows: the uniform hypothesis passes every test.
        assert session.ask(QUESTIONS[0], error=counts.error).origin == "tested"
        assert session.minimize(LOSSES[0]).origin == "tested"
        assert session.ask(QUESTIONS[3], error=counts.error).origin == "tested"
        assert (epochs.opened, epochs.updates, epochs.tests) == (1, 0, 3)


def test_a_killed_session_resumes_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "rows.ledger"
    with opened(path) as session:
        epochs, counts = parts_of(session)
        answers = []
        for turn, query in enumerate(QUESTIONS):
            answers.append(session.ask(query, error=counts.error, key=f"k{turn}"))
            if turn < len(LOSSES):
                session.minimize(LOSSES[turn])
        assert {answer.origin for answer in answers} >= {"measured"}
        spent = session.spent
    with rt.Session.open(path, forbidden(table()), BUDGET, engine="convex-tuned") as session:
        resumed, _ = parts_of(session)
        assert resumed.snapshot.digest == epochs.snapshot.digest
        assert (resumed.entropy, resumed.updates, resumed.opened) == (epochs.entropy, epochs.updates, epochs.opened)
        for turn, (query, told) in enumerate(zip(QUESTIONS, answers, strict=True)):
            if told.price or told.origin == "measured":
                again = session.ask(query, error=counts.error, key=f"k{turn}")
                assert (np.asarray(again.value).tolist(), again.error, again.price) == (
                    np.asarray(told.value).tolist(), told.error, told.price
                )  # fmt: skip
        assert session.spent == spent
        with pytest.raises(rt.ReticentError, match="another"):
            session.ask(rt.count(rt.col("a") == 0), error=0.1, key="k0")


def test_what_a_crash_interrupted_is_answered_without_another_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.ledger"

    def killed(*asked: object) -> None:
        raise KeyboardInterrupt

    with opened(path) as session:
        _, counts = parts_of(session)
        with monkeypatch.context() as patch:
            patch.setattr("reticent.kernel.mechanisms.noise.discrete_gaussian", killed)
            with pytest.raises(KeyboardInterrupt):
                session.ask(QUESTIONS[0], error=counts.error, key="mine")
        spent = session.spent
        assert spent > 0
    with rt.Session.open(path, table(), BUDGET, engine="convex-tuned") as session:
        answer = session.ask(QUESTIONS[0], error=counts.error, key="mine")
        assert session.spent == spent
        assert (answer.origin, answer.price) == ("measured", pytest.approx(spent))
        assert parts_of(session)[0].updates == 1


def test_sql_groups_and_quotients_are_bought_like_single_counts() -> None:
    with opened(None) as session:
        _, counts = parts_of(session)
        found = session.ask("SELECT b, COUNT(*) FROM t WHERE a >= 1 GROUP BY b", error=counts.error * COUNT * 1.01)
        exact = shares()[1:].sum(axis=(0, 2, 3)) * COUNT
        assert [abs(row[1] - count) <= counts.error * COUNT for row, count in zip(found.rows, exact, strict=True)]
        spent = session.spent
        assert spent > 0
        mean = session.ask("SELECT AVG(b) FROM t WHERE a >= 1", error=0.9)
        held = shares()[1:].sum(axis=(0, 2, 3))
        assert abs(mean.rows[0][0] - held @ np.arange(3) / held.sum()) <= 0.9
        assert session.spent > spent


def test_without_means_nothing_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(None, queries=1) as session:
        _, counts = parts_of(session)
        session.ask(QUESTIONS[0], error=counts.error)
        looked = []
        monkeypatch.setattr(Curator, "exceeds", lambda *asked: looked.append(asked))
        answer = session.ask(QUESTIONS[1], error=counts.error)
        assert not answer.certified
        assert looked == []
        session.strict = True
        with pytest.raises(rt.BudgetError, match="losses are tested"):
            session.ask(QUESTIONS[1], error=counts.error)


def test_what_no_plan_covers_is_refused_before_anything_is_spent() -> None:
    with opened(None) as session:
        epochs, counts = parts_of(session)
        with pytest.raises(rt.QueryError, match="looks at z, which no planned loss does"):
            session.ask(rt.count(rt.col("z") == 1), error=0.1)
        with pytest.raises(rt.QueryError, match="use engine='default'"):
            session.ask(QUESTIONS[0], error=counts.error / 2)
        assert session.spent == 0
        loose = ConvexEpochs.__new__(ConvexEpochs)
        loose.plan = replace(epochs.plan, records_error=0.02)
        loose._position = epochs._position
        with pytest.raises(rt.QueryError, match="number of records"):
            ConvexCounts(session.state.curator, loose).ask(QUESTIONS[0], key="k")


def test_a_private_number_of_records_keeps_the_promise() -> None:
    with opened(None, rows=table(neighbours="add-remove"), error=0.1) as session:
        epochs, counts = parts_of(session)
        assert epochs.plan.records_error > 0
        for query in QUESTIONS:
            answer = session.ask(query, error=counts.error)
            assert answer.certified
            assert np.abs(np.asarray(answer.value) - truth(query)).max() <= answer.error
        assert divergence(epochs) <= epochs.entropy


def test_a_small_entropy_certifies_every_count_without_a_test() -> None:
    with opened(None) as session:
        epochs, _ = parts_of(session)
        small = ConvexEpochs(session.state.curator, epochs.plan, epochs.snapshot, entropy=1e-6)
        verdict = ConvexCounts(session.state.curator, small).ask(QUESTIONS[0], key="k")
        assert (verdict.error, small.tests) == (pytest.approx(math.sqrt(5e-7)), 0)
