"""A question of several parts is paid as a whole or not at all: a part alone is no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.errors import BudgetError
from reticent.sessions.session import Session

DOMAIN = rt.Domain(x=rt.Integer(7), y=rt.Integer(3), w=rt.Categorical([True, False], other=False))
RECORDS = 300
WHERE = rt.col("w") == True  # noqa: E712  (a condition, not a comparison)
QUESTIONS = [
    (rt.mean("x", where=WHERE), "20%"),
    ("SELECT AVG(x) FROM t WHERE w", "20%"),
    ("SELECT STDDEV(x), MEDIAN(x) FROM t", "12%"),
    ("SELECT y, AVG(x), COUNT(*) FROM t WHERE w GROUP BY y", "20%"),
]


def table() -> rt.Table:
    generator = np.random.default_rng(1)
    columns = {"x": generator.integers(0, 7, RECORDS), "y": generator.integers(0, 3, RECORDS)}
    return rt.Table.of(pa.table(columns | {"w": generator.random(RECORDS) < 0.3}), DOMAIN, progress=False)


def opened(budget: rt.Budget, *, strict: bool) -> Session:
    return Session.open(None, table(), budget, warm_start=0, strict=strict, progress=False)


def short(question: Any, error: str, share: float, *, pure: bool = False) -> rt.Budget:
    """A budget of a share of what the question costs."""
    whole = rt.Budget(epsilon=40) if pure else rt.Budget(rho=2)
    cost = opened(whole, strict=False).cost(question, error=error)
    return rt.Budget(epsilon=cost * share) if pure else rt.Budget(rho=cost * share)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(("question", "error"), QUESTIONS)
def test_what_cannot_be_paid_whole_costs_nothing(question: Any, error: str, pure: bool) -> None:
    budget = short(question, error, 0.9, pure=pure)
    strict, plain = opened(budget, strict=True), opened(budget, strict=False)
    with pytest.raises(BudgetError, match=r"this costs .* and the budget has .* left"):
        strict.ask(question, error=error)
    answer = plain.ask(question, error=error)
    assert not answer.certified
    assert "not reached" in answer.note
    assert "is left" in answer.note
    assert strict.spent == plain.spent == answer.price == 0


@pytest.mark.parametrize(("question", "error"), QUESTIONS)
def test_what_can_be_paid_whole_is_paid(question: Any, error: str) -> None:
    session = opened(short(question, error, 1.001), strict=True)
    answer = session.ask(question, error=error)
    assert session.spent == answer.price > 0


def test_a_cap_counts_as_the_budget_does() -> None:
    question, error = QUESTIONS[0]
    session = opened(rt.Budget(rho=2), strict=True)
    session.set_cap("ann", session.cost(question, error=error) * 0.9)
    with pytest.raises(BudgetError, match="the analyst's cap has"):
        session.ask(question, error=error, analyst="ann")
    assert session.spent == 0


def test_a_strict_batch_is_paid_whole() -> None:
    questions = [rt.count((rt.col("x") == x) & (rt.col("y") == y)) for x in range(7) for y in range(3)]
    whole = opened(rt.Budget(rho=2), strict=True)
    asked = [whole.cost(question, error=0.05) for question in questions]
    session = opened(rt.Budget(rho=max(asked) * 1.5), strict=True)
    with pytest.raises(BudgetError):
        session.ask_all(questions, error=0.01)
    assert session.spent == 0


def test_a_batch_of_a_session_that_is_not_strict_answers_what_it_can_pay() -> None:
    """Each question is answered by itself: the first is paid, the second is told what it lacks."""
    questions = [rt.count(rt.col("x") == 0), rt.count(rt.col("y") == 0)]
    price = opened(rt.Budget(rho=0.03), strict=False).ask(questions[0], error=0.05).price
    session = opened(rt.Budget(rho=price * 1.5), strict=False)
    first, second = session.ask_all(questions, error=0.05)
    assert first.certified
    assert not second.certified
    assert session.spent == first.price + second.price


def test_a_key_that_could_not_pay_the_rest_is_told_the_same_again() -> None:
    """Its first part was paid before a crash, others have spent what the second part needs."""
    question, error = QUESTIONS[0]
    session = opened(short(question, error, 1.001), strict=False)
    quote = session.quote(session.request(question, error, key="k"))
    assert quote.begin()  # type: ignore[union-attr]
    assert session.answering.carry_out(quote.parts[0]).certified  # type: ignore[union-attr]
    paid = session.spent
    answer = session.ask(rt.count(rt.col("y") == 0), error=0.06)
    assert answer.price > 0
    told = session.ask(question, error=error, key="k")
    assert session.ask(question, error=error, key="k") == told
    assert session.spent == pytest.approx(paid + answer.price, abs=1e-12)
