"""The payments for a private number of records: how large they are, how they combine, and how they resume."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.session_tables import forbidden, of_codes, table

import reticent as rt
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.knowledge.tails import RECORDS_FAILURE, counted
from reticent.sessions import warm_start
from reticent.sessions.record_count import SECOND_TOTAL, TOTAL, combined, record_count_share, second_units
from reticent.sessions.session import Session

GAUSSIAN = Budget(epsilon=1, delta=1e-9)
PAGE = Path(__file__).parents[3] / "docs" / "budget.md"


def people(records: int) -> rt.Table:
    return table(records, weight=1, neighbours="add-remove")


def answered(share: np.ndarray, doubt: float, power: float) -> np.ndarray:
    """The number of questions about shares that the rest of the budget answers, up to a constant."""
    left = np.clip(1 - doubt / share**power, 0, None)
    return (1 - share) * left ** (1 / power)


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("doubt", [0.001, 0.03, 0.2, 0.6])
def test_the_share_of_the_number_answers_most_questions(power: float, doubt: float) -> None:
    shares = np.linspace(1e-5, 1, 200_001)[:-1]
    found = answered(shares, doubt, power)
    best = record_count_share(doubt, power, shares_only=True)
    assert best == pytest.approx(shares[found.argmax()], abs=1e-4)
    # If nothing is known of the questions: counts keep as much of the budget as shares keep of their best.
    kept = np.minimum(1 - shares, found / found.max())
    assert record_count_share(doubt, power, shares_only=False) == pytest.approx(shares[kept.argmax()], abs=1e-4)


def test_what_the_whole_budget_cannot_tell_is_not_bought() -> None:
    assert record_count_share(1.0, 0.5, shares_only=True) is None
    assert record_count_share(1.0, 1.0, shares_only=False) is None


@pytest.mark.parametrize("part", [0.5001, 0.6, 0.9, 0.99, 0.9999])
def test_the_mean_of_two_laplace_readings_strays_as_rarely_as_one(part: float) -> None:
    """The exact tail of the sum of two Laplace variables, whose parts of the joint precision are given."""
    sds = [1 / math.sqrt(part), 1 / math.sqrt(1 - part)]
    count, error = combined([(100.0, sds[0]), (100.0, sds[1])], pure=True)
    first, second = (sd**-2 * sd / math.sqrt(2) for sd in sds)  # the scales of the weighted noises
    x = error * count
    tail = (first**2 * math.exp(-x / first) - second**2 * math.exp(-x / second)) / (first**2 - second**2)
    assert count == pytest.approx(100.0)
    assert tail <= RECORDS_FAILURE


def test_readings_are_weighted_by_their_precisions() -> None:
    assert combined([(90.0, 10.0), (120.0, 5.0)], pure=False) == pytest.approx(counted(114.0, 20**0.5, pure=False))


@pytest.mark.parametrize("budget", [GAUSSIAN, Budget(epsilon=1)])
def test_a_small_table_learns_its_size_well_enough_for_shares(budget: Budget, tmp_path: Path) -> None:
    """1,000 records were known within 194, or 720 with Laplace noise: no share could be had within 0.18."""
    records = 1_000
    with Session.open(tmp_path / "s.ledger", people(records), budget, purpose="few", progress=False) as session:
        known, spent = session.state.knowledge, session.spent
        keys = [*session.state.ledger.keys(TOTAL), *session.state.ledger.keys(SECOND_TOTAL)]
        assert keys == [TOTAL, SECOND_TOTAL]
        assert known.records_error < 0.2
        assert abs(known.records - records) <= known.records_error * known.records
        assert budget.amount(budget.limit) / 50 < spent < budget.amount(budget.limit) / 4
        assert session.ask(rt.count(rt.col("e") == 1), error=0.45).certified
    with Session.open(tmp_path / "s.ledger", forbidden(people(records)), budget, progress=False) as again:
        assert (again.state.knowledge.records, again.state.knowledge.records_error) == (
            known.records,
            known.records_error,
        )


@pytest.mark.parametrize("records", [1, 20_000])
def test_no_more_is_paid_where_it_would_not_help_or_is_not_needed(records: int) -> None:
    with Session.open(None, people(records), GAUSSIAN, purpose="few", progress=False) as session:
        assert session.state.ledger.keys(SECOND_TOTAL) == []
        assert session.state.ledger.spent <= session.budget.limit // 50


def test_announced_shares_decide_how_well_the_number_must_be_known() -> None:
    """At 4,000 records the number was known within 5% after a fiftieth: an error of 4% was refused at any price."""
    with Session.open(None, people(4_000), GAUSSIAN, error=0.04, warm_start=0, progress=False) as session:
        assert session.state.knowledge.records_error < 0.02
        assert session.ask(rt.count(rt.col("e") == 1), error=0.04).certified


def test_announced_counts_need_no_number_of_records() -> None:
    """The second payment takes a third of the budget here, of which counts have nothing."""
    told: dict[str, Any] = {"warm_start": 0, "progress": False}
    with Session.open(None, people(4_000), GAUSSIAN, error=rt.records(120), **told) as session:
        assert session.state.ledger.keys(SECOND_TOTAL) == []
        assert session.ask(rt.count(rt.col("e") == 1), error=rt.records(120)).certified
    with Session.open(None, people(4_000), GAUSSIAN, error=120 / 4_000, **told) as session:
        assert session.state.ledger.keys(SECOND_TOTAL) == [SECOND_TOTAL]


@pytest.mark.parametrize("budget", [GAUSSIAN, Budget(epsilon=1)])
def test_no_share_is_bought_with_most_of_what_counts_need(budget: Budget) -> None:
    """Within 1% of 4,000 records, three quarters of the budget for the number left one share, beside 87 counts."""
    with Session.open(None, people(4_000), budget, error=0.01, warm_start=0, progress=False) as session:
        assert session.state.ledger.keys(SECOND_TOTAL) == []


@pytest.mark.parametrize("error", [rt.records(2_000), rt.records(2_001)])
def test_announced_counts_that_say_nothing_are_refused_unspent(error: Any, tmp_path: Path) -> None:
    rows = table(4_000, weight=1)
    with pytest.raises(rt.QueryError, match="half of the 4000 records"):
        Session.open(tmp_path / "s.ledger", rows, GAUSSIAN, error=error, progress=False)
    with Session.open(tmp_path / "s.ledger", rows, GAUSSIAN, warm_start=0, progress=False) as session:
        assert session.spent == 0
    with pytest.raises(rt.QueryError, match="announces counts to the default engine"):
        Session.open(None, rows, GAUSSIAN, error=rt.records(10), engine="convex-tuned", progress=False)


class StoppedError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("settled", [False, True])
def test_a_crash_at_the_second_payment_pays_once(
    settled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, measure = tmp_path / "s.ledger", Curator.measure

    def stopped(self: Curator, statistics: Any, mechanisms: Any, *, key: str, **more: Any) -> Any:
        if key != SECOND_TOTAL:
            return measure(self, statistics, mechanisms, key=key, **more)
        if settled:
            measure(self, statistics, mechanisms, key=key, **more)
        raise StoppedError

    with monkeypatch.context() as patched:
        patched.setattr(Curator, "measure", stopped)
        with pytest.raises(StoppedError):
            Session.open(path, people(400), GAUSSIAN, purpose="few", progress=False)
    with Session.open(path, people(400), GAUSSIAN, purpose="few", progress=False) as session:
        assert session.state.ledger.keys(SECOND_TOTAL) == [SECOND_TOTAL]
        spent, known = session.spent, session.state.knowledge
    with Session.open(path, forbidden(people(400)), GAUSSIAN, progress=False) as again:
        assert (again.spent, again.state.knowledge.records) == (spent, known.records)


def test_earlier_sessions_buy_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.ledger"
    with monkeypatch.context() as patched:
        patched.setattr(warm_start, "refine_record_count", lambda *_: None)
        with Session.open(path, people(400), GAUSSIAN, purpose="few", progress=False) as session:
            spent, known = session.spent, session.state.knowledge
    with Session.open(path, forbidden(people(400)), GAUSSIAN, progress=False) as again:
        assert (again.spent, again.state.knowledge.records) == (spent, known.records)


def test_a_spent_session_of_a_threshold_engine_opens_again(tmp_path: Path) -> None:
    """Its number of records was asked for again with what was left of the budget: a key reused, or nothing left."""
    path, budget = tmp_path / "s.ledger", Budget(rho=1)
    with Session.open(path, people(2_000), budget, engine="tuned", queries=4, progress=False) as session:
        known = session.state.knowledge.records
        session.state.curator.measure([rt.count(rt.col("e") == 1)], _costing_all(session), key="other")
        assert session.state.ledger.remaining < budget.limit // 50
    with Session.open(path, people(2_000), budget, engine="tuned", progress=False) as again:
        assert again.state.knowledge.records == known


def _costing_all(session: Session) -> Any:
    from reticent.kernel.mechanisms.base import Sensitivity
    from reticent.releases.budgeting import noise_costing

    return noise_costing(session.budget, Sensitivity.scalar(), session.state.ledger.remaining)


def test_the_page_states_the_shares_of_small_tables() -> None:
    stated = re.findall(r"^\| ([\d,]+) \| (\d+)% \| (\d+)% \|$", PAGE.read_text(), re.MULTILINE)
    assert len(stated) >= 4
    large = table(20_000, weight=100, neighbours="add-remove")  # whose session makes no second payment
    for budget, column in ((GAUSSIAN, 1), (Budget(epsilon=1), 2)):
        with Session.open(None, large, budget, purpose="few", progress=False) as session:
            for row in stated:
                units = second_units(session.state.curator, float(row[0].replace(",", "")), 0.95, None)
                paid = 1 / 50 + units / session.budget.limit
                assert abs(paid - int(row[column]) / 100) <= 0.0051, (row, paid)


def test_a_batch_of_counts_costs_what_its_counts_cost() -> None:
    """A batch in records was asked in shares of the table: it was refused, or cost up to nine times as much."""
    counts = [rt.count(rt.col("a") == code) for code in range(3)]
    with Session.open(None, people(4_000), GAUSSIAN, purpose="few", progress=False) as session:
        wish = rt.records(0.9 * session.state.knowledge.records_error * session.state.knowledge.records)
        singly = sum(session.cost(query, error=wish) for query in counts)
        assert session.cost(counts, error=wish) <= 1.5 * singly  # an audit may be tried first
        answers = session.ask_all(counts, error=wish)
        for query, answer in zip(counts, answers, strict=True):
            assert answer.certified
            assert answer.error is not None
            assert answer.error * session.state.knowledge.records <= wish.number * (1 + 1e-9)
            assert session.cost(query, error=wish) == 0
            assert "the released number" in answer.basis


def test_an_audited_batch_of_counts_is_bounded_without_the_number_of_records() -> None:
    """Uniform rows, so that the audit passes, and cells that are dearer one by one."""
    domain = rt.Domain(a=10, b=10)
    codes = np.divmod(np.arange(20_000) % 100, 10)
    rows = of_codes(domain, dict(zip("ab", codes, strict=True)), neighbours="add-remove")
    batch = [rt.count((rt.col("a") <= a) & (rt.col("b") <= b)) for a in range(6) for b in range(6)]
    with Session.open(None, rows, GAUSSIAN, warm_start=0, confidence=1 - 1e-6, progress=False) as session:
        doubt = session.state.knowledge.records_error * session.state.knowledge.records
        answers = session.ask_all(batch, error=rt.records(0.95 * doubt))
        assert {answer.origin for answer in answers} == {"batch"}
        stated = [answer.error for answer in answers if answer.error is not None]
        assert len(stated) == len(batch)
        assert max(stated) * session.state.knowledge.records <= 0.95 * doubt
