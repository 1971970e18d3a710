"""What was paid for is remembered, repeated with the guarantee it had, and found in the words of earlier versions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))

from tests.session_tables import DOMAIN, table
from tests.small_tables import skewed

import reticent as rt
from reticent.errors import KeyReusedError
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.statistics import AnswerErrors, MaxError
from reticent.knowledge.request import part_name
from reticent.queries.linear import Range, Weighted
from reticent.sessions.session import Session

BUDGET = rt.Budget(rho=2)
LOSS = rt.Squared(features=["a"], label="e", radius=1.0)
CHEAP = rt.Squared(features=["a"], label="e", ridge=0.5)
BOX = Range({"a": (0, 1), "b": (0, 1)})


def test_a_looser_wish_finds_what_was_bought_under_another_key(tmp_path: Path) -> None:
    rows = table(300, weight=1000)
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        bought = session.minimize(LOSS, error=0.1, key="first")
        assert bought.certified
        assert bought.price == pytest.approx(session.spent), "the start and audits that failed are in the price"
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        spent = session.spent
        again = session.minimize(LOSS, error=0.15, key="second")
        assert (again.origin, again.price, session.spent) == ("cache", 0.0, spent)
        assert again.error is not None
        assert again.error <= 0.1
        assert session.cost(LOSS, error=0.15) == 0
        assert session.minimize(LOSS).theta.tobytes() == bought.theta.tobytes(), (
            "the best free answer is what was bought"
        )


LOOSER = [
    (rt.quantile("b", 0.6), 0.9, (1.0, 1.2)),
    ("SELECT a, QUANTILE_CONT(b, 0.6) FROM t GROUP BY a", 0.9, (1.0, 1.2)),
    ("SELECT a, AVG(c) FROM t GROUP BY a", 0.1, (0.11, 0.2, 0.4)),
    ("SELECT 100.0 * COUNT(*) FILTER (WHERE b = 1) / COUNT(*) FROM t WHERE a = 1", 5, (6, 10, 20)),
]


@pytest.mark.parametrize("wishes", LOOSER, ids=["median", "medians", "means", "share"])
def test_a_looser_wish_of_a_statement_is_free(wishes: tuple[Any, float, tuple[float, ...]]) -> None:
    """Only the errors chosen for the new wish were looked for, which a purchase that did better may not have."""
    question, error, looser = wishes
    for seed in range(4):
        with Session.open(None, skewed(20_000, seed), rt.Budget(rho=50), warm_start=0) as session:
            while session.ask(question, error=error).price:
                pass
            assert [session.cost(question, error=wish) for wish in looser] == [0.0] * len(looser)


def test_no_audit_where_buying_is_cheaper() -> None:
    with Session.open(None, table(300, weight=1000), BUDGET, warm_start=0) as session:
        model = session.minimize(CHEAP, error=0.05)
        kinds = [e.payload["kind"] for e in session.state.ledger.events() if e.kind == "reserve"]
        assert (model.origin, kinds) == ("measured", ["minimize"])


def test_a_pending_fit_is_redeemed_whatever_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(300, weight=1000)
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        with monkeypatch.context() as broken:
            broken.setattr(Ledger, "settle", _dies)
            with pytest.raises(KeyboardInterrupt):
                session.minimize(CHEAP, error=0.05, key="fit")
        session.certify("cells", order=1, amount=session.remaining - 1e-9)
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        assert session.remaining < 1e-8
        assert session.cost(CHEAP, error=0.05, key="fit") == 0
        model = session.minimize(CHEAP, error=0.05, key="fit")
        assert (model.origin, model.certified) == ("measured", True)


def _dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_repeats_of_a_threshold_engine_keep_the_joint_bound() -> None:
    rows = table(300, weight=100_000)
    with Session.open(None, rows, BUDGET, engine="tuned", queries=2000) as session:
        epochs = session.answering.epochs
        assert epochs is not None
        for number in range(60):
            query = Range({"a": (0, number % 3), "b": (0, number // 3 % 2), "c": (0, number // 6 % 4)})
            first = session.ask(query)
            if first.origin == "measured":
                again = session.ask(query)
                assert (again.origin, again.price) == ("cache", 0)
                assert (again.error, again.value) == (first.error, first.value)
                assert again.error == epochs.plan.measured
                return
        raise AssertionError("nothing was measured: this test shows nothing")


def test_an_average_asked_again_is_not_bought_again(tmp_path: Path) -> None:
    """Its parts want what they wanted first, though more is known now."""
    rows, text = table(300, weight=1000), "SELECT AVG(c) FROM t WHERE a <= 1 AND b <= 1"
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        first = session.ask(text, error=0.01)
        assert first.price > 0
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        spent = session.spent
        for key in (None, "another"):
            again = session.ask(text, error=0.01, key=key)
            assert (again.price, session.spent, again.rows) == (0, spent, first.rows)


def test_requests_are_bound_to_the_state_and_not_to_the_bits_of_guesses() -> None:
    rows = table()
    curator = Curator(rows, Ledger.memory(identity=rows.identity, budget=BUDGET))
    guesses, noise, state = np.full(4, 500.0), Gaussian(10), "5" * 64
    sets = (("a",),)
    bits = guesses * (1 + 2.0**-52)
    first = curator.measure([MaxError("cells", sets, (guesses,), state)], noise, key="audit")
    assert curator.measure([MaxError("cells", sets, (bits,), state)], noise, key="audit").cost == first.cost
    with pytest.raises(KeyReusedError):
        curator.measure([MaxError("cells", sets, (guesses,), "6" * 64)], noise, key="audit")
    with pytest.raises(KeyReusedError):
        curator.measure([MaxError("boxes", sets, (guesses,), state)], noise, key="audit")


def test_requests_in_the_words_of_earlier_versions_are_found() -> None:
    rows = table()
    ledger = Ledger.memory(identity=rows.identity, budget=BUDGET)
    curator, noise, state = Curator(rows, ledger), Gaussian(10), "5" * 64
    guess = np.array([500.0])
    named = f"session:audit:batch:{state[:24]}:10:"
    for key in (named, "release:0:audit:cells"):
        curator.measure([AnswerErrors((BOX,), guess, DOMAIN)], noise, key=key)
    spent, now, other = ledger.spent, AnswerErrors((BOX,), guess, DOMAIN, state), np.array([500.0000001])
    for key in (named, "release:0:audit:cells"):
        curator.measure([now], noise, key=key)
    # Where the key itself names the state, other bits of the same guesses are no other request.
    curator.measure([AnswerErrors((BOX,), other, DOMAIN, state)], noise, key=named)
    assert ledger.spent == spent
    with pytest.raises(KeyReusedError):
        curator.measure([AnswerErrors((BOX,), other, DOMAIN, state)], noise, key="release:0:audit:cells")


def test_a_resumed_session_knows_what_waits_for_a_refit(tmp_path: Path) -> None:
    rows, budget = skewed(), rt.Budget(rho=1)
    with rt.Session.open(tmp_path / "l", rows, budget, warm_start=0) as session:
        session.ask(rt.marginal("b"), error=0.01)
        session.ask(rt.count((rt.col("a") == 1) | (rt.col("c") == 1)), error=0.01)
        session.ask_all([Weighted({"a": [i / 60, 0.5, 0.9 - i / 80]}) for i in range(60)], error=0.4)
        waiting = session.state.knowledge.unfitted
    with rt.Session.open(tmp_path / "l", rows, budget, warm_start=0) as session:
        assert session.state.knowledge.unfitted == waiting == 2
        measured = session.state.knowledge.marginals[0].values
        np.testing.assert_allclose(session.release().answer(rt.marginal("b")).value, measured, atol=0.02)


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("errors", [[0.01], [0.01, 0.02, 0.03, 0.04], [-0.01, 0.01, 0.0]])
def test_errors_of_another_compilation_are_left_alone(key: str | None, errors: list[float]) -> None:
    """A version that asks other queries for a statement finds errors that are not of its queries: no traceback."""
    text = "SELECT AVG(b), COUNT(*) FROM t WHERE a = 1"
    with Session.open(None, skewed(20_000), rt.Budget(rho=5), warm_start=0) as session:
        asked: Any = session.request(text, "2%")
        assert len(asked.question.queries) == 2
        session.state.remember(part_name(text, asked.error, session.confidence), key, errors)
        answer = session.ask(text, error="2%", key=key)
        assert answer.certified
        assert answer.price == pytest.approx(session.spent)
        assert session.ask(text, error="2%", key=key).rows == answer.rows
        assert session.spent == pytest.approx(answer.price)
