"""Threshold engines where the number of records is private: it is paid for once, and widens every bound (spec 1.1)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.session_tables import DOMAIN, codes, forbidden, inside, random_boxes, table

import reticent as rt
from reticent.errors import QueryError
from reticent.planning.thresholds import EpochPlan
from reticent.queries.linear import Range
from reticent.sessions.session import Session

WEIGHT = 20_000
"""Forty million records: the papers' constants certify nothing below."""
BUDGET = rt.Budget(rho=0.5)
QUESTIONS = 150


def opened(engine: str, **facts: object) -> Session:
    private = table(weight=WEIGHT, neighbours="add-remove")
    return Session.open(None, private, BUDGET, engine=engine, queries=QUESTIONS, confidence=1 - 1e-6, **facts)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("engine", ["textbook", "tuned"])
def test_answers_stay_within_their_certified_error(engine: str) -> None:
    session, columns = opened(engine), codes()
    assert session.spent > 0, "the number of records was counted with noise, and paid for"
    origins = set()
    for box in random_boxes(DOMAIN, QUESTIONS, np.random.default_rng(8)):
        answer = session.ask(Range(box))
        assert answer.certified
        assert abs(answer.value - inside(columns, box)) <= answer.error
        origins.add(answer.origin)
    assert {"tested", "measured"} <= origins
    assert session.spent <= float(BUDGET.rho or 0)


@pytest.mark.parametrize("engine", ["textbook", "tuned"])
def test_the_plan_is_widened_by_the_doubt_about_the_number(engine: str) -> None:
    session = opened(engine)
    epochs, knowledge = session.answering.epochs, session.state.knowledge
    assert epochs is not None
    assert knowledge.records_error > 0
    plan = epochs.plan
    narrow = EpochPlan.from_dict({**plan.to_dict(), "threshold": 0.0, "error": 0.0, "measured": 0.0, "rest": 0.0})
    wide = narrow.widened(knowledge.records_error)
    doubt = pytest.approx(knowledge.records_error)
    assert (wide.threshold, wide.measured, wide.rest) == (doubt, doubt, doubt)
    assert wide.error == pytest.approx(2 * knowledge.records_error)


def test_guesses_are_scaled_by_a_noisy_number() -> None:
    """The true number would be a privacy bug; noise of seven records is zero once in eighteen times."""
    assert len({opened("tuned").state.knowledge.records for _ in range(8)}) > 1


def test_a_session_comes_back_with_the_same_noisy_number(tmp_path: Path) -> None:
    path, private = tmp_path / "a.ledger", table(weight=WEIGHT, neighbours="add-remove")
    never = rt.count((rt.col("a") == 0) & (rt.col("e") == 1))
    with Session.open(path, private, BUDGET, engine="tuned", queries=QUESTIONS) as session:
        records, first = session.state.knowledge.records, session.ask(never, key="k")
        assert first.origin == "measured", "uniform is far off"
    with Session.open(path, forbidden(private), BUDGET, engine="tuned", queries=QUESTIONS) as session:
        assert session.state.knowledge.records == records
        assert session.ask(never, key="k").value == first.value


def test_a_confidence_beyond_the_noisy_number_is_refused_in_one_line() -> None:
    with pytest.raises(QueryError, match="noisy number of records") as caught:
        Session.open(None, table(weight=WEIGHT, neighbours="add-remove"), BUDGET, engine="tuned", confidence=1 - 1e-9)
    assert "\n" not in str(caught.value)
