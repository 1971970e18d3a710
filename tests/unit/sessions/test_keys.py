"""A key stands for one request at one price; what is free leaves no trace in the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.faults.payments import content, price
from tests.small_tables import mixed, skewed, uniform

import reticent as rt
from reticent.errors import KeyReusedError
from reticent.sessions.engine import SessionEngine
from reticent.sessions.models import charged
from reticent.sessions.session import Session


@pytest.fixture
def session() -> Session:
    return Session.open(None, uniform(3000, seed=1), rt.Budget(rho=5), warm_start=0.0)


@pytest.mark.parametrize("second", ["COUNT(*) FROM t WHERE b = 2", "COUNT(*), AVG(b) FROM t WHERE b = 3"])
def test_a_key_belongs_to_one_statement(session: Session, second: str) -> None:
    """The second one was answered within the errors of the first, or failed without a word about the key."""
    session.ask("SELECT COUNT(*) FROM t WHERE a >= 1 AND b = 2", error="5%", key="k")
    spent = session.spent
    with pytest.raises(KeyReusedError):
        session.ask(f"SELECT {second}", error="0.5%", key="k")
    with pytest.raises(KeyReusedError):
        session.ask("SELECT COUNT(*) FROM t WHERE a >= 1 AND b = 2", error="0.5%", key="k")
    assert session.spent == spent


def test_a_refused_key_is_named_as_it_was_given(session: Session) -> None:
    """It was shown with the prefix that it has in the ledger."""
    session.ask(rt.count((rt.col("a") >= 1) & (rt.col("b") == 2)), error="2%", key="ask:k")
    with pytest.raises(KeyReusedError, match=r'^key "ask:k" belongs to another request: use a new key$'):
        session.ask(rt.count((rt.col("a") >= 2) | (rt.col("b") == 1)), error="1%", key="ask:k")
    ages = pa.table({"age": np.arange(4000) % 80})
    table = rt.Table.of(ages, rt.Domain(age=rt.Numeric(edges=range(0, 81, 10))), numbers=True)
    with Session.open(None, table, rt.Budget(rho=20), warm_start=0.0) as numbers:
        numbers.ask(rt.mean("age", rt.col("age") >= 20), error=5, key="m")
        with pytest.raises(KeyReusedError, match=r'^key "m" belongs'):
            numbers.ask(rt.mean("age", rt.col("age") >= 40), error=5, key="m")


def test_a_key_buys_models_of_one_error(session: Session) -> None:
    """The same key audited, and paid, once more for every other error."""
    loss = rt.Logistic(features=["a", "b"], label="c", radius=1.0)
    model = session.minimize(loss, error=0.3, key="m")
    spent = session.spent
    with pytest.raises(KeyReusedError):
        session.minimize(loss, error=0.1, key="m")
    assert np.array_equal(session.minimize(loss, error=0.3, key="m").theta, model.theta)
    assert session.spent == spent > 0


def test_a_keyed_fit_is_priced_whole_however_often_it_is_asked() -> None:
    loss = rt.Squared(features=["x"], label="y")
    with rt.Session.open(None, mixed(), rt.Budget(rho=1), warm_start=0) as session:
        first, again = (session.minimize(loss, error=0.05, key="alice/k", analyst="alice") for _ in range(2))
        assert first.to_dict() == again.to_dict()
        assert first.price == session.spent_by("alice") > 0
        assert session.budget.amount(charged(session.state, "alice/k")) == first.price


def test_free_keyed_statements_leave_no_trace(tmp_path: Path) -> None:
    with rt.Session.open(tmp_path / "l", skewed(), rt.Budget(rho=1), warm_start=0.5) as session:
        before = sum(1 for _ in session.state.ledger.events())
        for turn in range(3):
            session.ask("SELECT a, COUNT(*) FROM t GROUP BY a", error="20%", key=f"k{turn}")
        assert sum(1 for _ in session.state.ledger.events()) == before


def test_free_answers_name_no_ledger_event() -> None:
    with rt.Session.open(None, skewed(), rt.Budget(rho=1), warm_start=0.5) as session:
        assert session.ask(rt.count(rt.col("a") == 1)).ledger_id is None
        query = rt.count((rt.col("a") == 1) | (rt.col("c") == 1))
        assert session.ask(query, error=0.0003).ledger_id is not None
        assert session.ask(query, error=0.0003).ledger_id is None


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ("SELECT a, COUNT(*), AVG(c) FROM t WHERE b <= 1 GROUP BY a", "4%"),
        ("SELECT COUNT(*), AVG(c) FROM t WHERE a <= 1 AND b <= 1", "4%"),
        (rt.mean("c", where=(rt.col("a") <= 1) & (rt.col("b") == 1)), 0.05),
    ],
    ids=["groups", "statement", "mean"],
)
@pytest.mark.parametrize("share", [0.55, 0.8])
def test_a_key_that_paid_for_some_of_its_parts_is_quoted_nothing(
    question: Any, error: Any, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that the budget could not pay were quoted again, and bought once a cap was raised.

    A budget that cannot pay the whole pays nothing; earlier versions paid for some parts.
    """
    terms: dict[str, Any] = {"error": error, "key": "k", "analyst": "ann"}
    other: dict[str, Any] = {**terms, "error": "3%"}
    opening: tuple[Any, ...] = (tmp_path / "l", uniform(3000, seed=1), rt.Budget(rho=5))
    with Session.open(*opening, warm_start=0) as session:
        quoted = session.cost(question, **terms)
        session.set_cap("ann", share * quoted)
        assert price(session.ask(question, **terms)) == session.spent == 0
        with monkeypatch.context() as patch:
            patch.setattr(SessionEngine, "payable", lambda _, quote: quote.parts)
            first = session.ask(question, **terms)
        assert 0 < price(first) < quoted
        assert session.spent == pytest.approx(price(first))
        spent = session.spent
    with Session.open(*opening, warm_start=0) as session:
        session.set_cap("ann", 5.0)
        assert session.cost(question, **terms) == 0
        again = session.ask(question, **terms)
        assert (content(again), price(again), session.spent) == (content(first), price(first), spent)
        with pytest.raises(KeyReusedError):
            session.cost("SELECT COUNT(*), AVG(b) FROM t WHERE c = 1", **other)
        assert session.cost(question, error=error, key="new", analyst="ann") > 0


@pytest.mark.parametrize("question", ["mean", "statement"])
def test_a_key_that_paid_for_some_parts_repeats_its_answer(question: str, tmp_path: Path) -> None:
    """A part that was free came back from what was known by then: the same key had another value."""
    where = (rt.col("a") <= 1) & (rt.col("b") <= 1)
    asked: Any = rt.mean("c", where=where) if question == "mean" else "SELECT AVG(c) FROM t WHERE a <= 1 AND b <= 1"
    budget, path = rt.Budget(rho=5), tmp_path / "l"
    with Session.open(path, uniform(3000, seed=1), budget, warm_start=0.0) as session:
        session.ask(rt.marginal("a", "b"), error=0.005)
        first = session.ask(asked, error=0.1, key="k")
        assert first.price > 0
        spent = session.spent
        for shape in (("a", "b"), ("a", "b", "c"), ("b", "c")):
            session.ask(rt.marginal(*shape), error=0.001)
        session.refit()
        after = session.spent
        again = session.ask(asked, error=0.1, key="k")
        assert again.to_dict() == first.to_dict()
        assert session.cost(asked, error=0.1, key="k") == 0
        with pytest.raises(KeyReusedError):
            session.ask(rt.mean("b", where=where) if question == "mean" else "SELECT AVG(b) FROM t", error=0.1, key="k")
        assert session.spent == after > spent
    with Session.open(path, uniform(3000, seed=1), budget) as session:
        assert session.ask(asked, error=0.1, key="k").to_dict() == first.to_dict()
        session.state.ledger.verify()


RARE = {
    "mean": rt.mean("x", where=rt.col("g") == "a"),
    "statement": "SELECT AVG(x) FROM t WHERE g = 'a'",
    "groups": "SELECT g, AVG(x) FROM t GROUP BY g",
}


@pytest.mark.parametrize("question", RARE)
def test_a_key_keeps_its_noise_when_the_question_is_bought_again(question: str, tmp_path: Path) -> None:
    """The first purchase misses the error, for the group is smaller than expected; a second one without the key chose
    other noise, and the key, which had paid, was refused."""
    generator = np.random.default_rng(1)
    rows = pa.table({"x": generator.normal(0, 400, 20_000), "g": np.where(generator.random(20_000) < 0.03, "a", "b")})
    domain = rt.Domain(x=rt.Numeric(edges=[-1000, 5000]), g=rt.Categorical(["a", "b"], other=False))
    table, asked = rt.Table.of(rows, domain, name="t", numbers=True), RARE[question]
    budget = rt.Budget(epsilon=5, delta=1e-9)
    with Session.open(tmp_path / "k.ledger", table, budget, warm_start=0) as session:
        first = session.ask(asked, error=300, key="k")
        assert session.ask(asked, error=300).price > 0
        assert content(session.ask(asked, error=300, key="k")) == content(first)
    with Session.open(tmp_path / "k.ledger", table, budget, warm_start=0) as session:
        spent = session.spent
        assert content(session.ask(asked, error=300, key="k")) == content(first)
        assert session.spent == spent


def test_a_key_repeats_a_mean_that_offsets_moved(tmp_path: Path) -> None:
    """The value was moved by the fit at the time of asking, and changed with every later measurement."""
    generator = np.random.default_rng(2)
    rows = {
        "x": generator.beta(2, 8, 2000) * 100,
        "g": generator.integers(0, 8, 2000),
        "h": generator.integers(0, 6, 2000),
    }
    domain = rt.Domain(x=rt.Numeric(edges=range(0, 101, 10), other=False), g=8, h=6)
    table, budget = rt.Table.of(pa.table(rows), domain, numbers=True), rt.Budget(epsilon=8, delta=1e-9)
    mean = rt.mean("x", where=(rt.col("g") <= 3) & (rt.col("h") == 2))
    workload = rt.marginals(domain, 1)
    with Session.open(tmp_path / "m.ledger", table, budget, warm_start=0.2, workload=workload) as session:
        first = session.ask(mean, error=14.0, key="k")
        assert first.price > 0
        session.ask(rt.marginal("x", "g", "h"), error=0.02)
        session.refit()
        assert session.ask(mean, error=14.0, key="k").to_dict() == first.to_dict()
    with Session.open(tmp_path / "m.ledger", table, budget) as session:
        assert session.ask(mean, error=14.0, key="k").to_dict() == first.to_dict()
