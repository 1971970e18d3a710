"""Questions about all records: free where their number is public, and never certified beyond what is known of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.small_tables import uniform

import reticent as rt
from reticent.sessions.session import Session

RECORDS = 2_000
BUDGET = rt.Budget(rho=0.02)
EVERYTHING = (rt.col("c") == 0) | (rt.col("c") != 0)
QUESTIONS = [rt.count(), rt.count(EVERYTHING), rt.marginal()]


def opened(share: float, **facts: Any) -> Session:
    return Session.open(None, uniform(RECORDS, **facts), BUDGET, warm_start=share, progress=False)


@pytest.mark.parametrize("share", [0, 0.5])
@pytest.mark.parametrize("question", QUESTIONS, ids=repr)
def test_a_public_number_of_records_is_not_paid_for(question: Any, share: float) -> None:
    session = opened(share)
    spent = session.spent
    for error in (None, 0.01, rt.records(20)):
        answer = session.ask(question, error=error)
        assert (float(answer.value), answer.error, answer.certified, answer.price) == (1.0, 0.0, True, 0)
    assert session.cost(question, error=0.01) == 0
    assert session.spent == spent


@pytest.mark.parametrize("share", [0, 0.5])
def test_a_marginal_of_no_columns_is_the_count_of_all_records(share: float) -> None:
    """Within 500 records it was certified as exactly the released number, which noise had moved; without a warm start
    the question was paid for and then failed."""
    session = opened(share, neighbours="add-remove")
    known = session.state.knowledge
    for error in (rt.records(1.5 * known.records * known.records_error), None):
        count, total = (session.ask(question, error=error) for question in (rt.count(), rt.marginal()))
        assert (total.value, total.error, total.origin) == (count.value, count.error, count.origin)
        if error is not None:
            assert total.certified
            assert abs(total.count - RECORDS) <= total.error * known.records
            assert total.error >= known.records_error * 0.99
