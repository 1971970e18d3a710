"""A filtered GROUP BY is one purchase, and a wanted error of an average is reached by the average itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.session_tables import DOMAIN, codes, forbidden, of_codes, table

import reticent as rt
from reticent.errors import QueryError
from reticent.kernel.mechanisms.noise import Noise
from reticent.queries.base import Query
from reticent.queries.groups import Groups
from reticent.sessions.session import Session

BUDGET = rt.Budget(epsilon=1, delta=1e-9)
SURE = 1 - 1e-6
FILTERED = Groups(["b", "e"], rt.col("a") >= 2)
SQL = "SELECT b, e, COUNT(*) AS n FROM t WHERE a >= 2 GROUP BY b, e"


@pytest.fixture
def plain() -> Session:
    return Session.open(None, table(), BUDGET, warm_start=0, confidence=SURE)


def shares() -> np.ndarray:
    columns, found = codes(), np.zeros((3, 2))
    kept = columns["a"] >= 2
    np.add.at(found, (columns["b"][kept], columns["e"][kept]), 1 / len(kept))
    return found


@pytest.mark.parametrize(("neighbours", "moved"), [("replace-one", 2), ("add-remove", 1)])
def test_all_groups_cost_as_much_as_one_marginal(neighbours: str, moved: int) -> None:
    session = Session.open(None, table(neighbours=neighbours), BUDGET, warm_start=0, confidence=0.999)
    # Six groups hold together if each fails a sixth as often; the price is that of one sum, times what a record moves.
    one = session.cost(rt.count((rt.col("a") >= 2) & (rt.col("e") == 1)), error=0.03, confidence=1 - 0.001 / 6)
    cost = session.cost(FILTERED, error=0.03)
    assert cost == pytest.approx(moved * one, rel=1e-2)
    each = 1 - 0.001 / 6
    assert cost < sum(session.cost(part, error=0.03, confidence=each) for part in FILTERED.parts(DOMAIN)) / 2
    before = session.spent
    answer = session.ask(FILTERED, error=0.03)
    assert answer.price == pytest.approx(cost)
    assert session.spent - before == pytest.approx(cost)


def test_groups_stay_within_their_error_and_are_known_from_then_on(plain: Session) -> None:
    answer, exact = plain.ask(FILTERED, error=0.01), shares()
    assert answer.origin == "measured"
    assert np.abs(np.asarray(answer.value) - exact).max() <= answer.error <= 0.01
    spent = plain.spent
    again = plain.ask(Groups(["e", "b"], rt.col("a") > 1), error=0.01)
    assert again.origin == "cache"
    assert np.array_equal(np.asarray(again.value).T, np.asarray(answer.value))
    single = plain.ask(rt.count((rt.col("a") >= 2) & (rt.col("b") == 1) & (rt.col("e") == 0)), error=0.01)
    assert (single.origin, single.value) == ("cache", np.asarray(answer.value)[1, 0])
    assert single.error <= answer.error
    other = plain.cost(rt.count((rt.col("a") >= 1) & (rt.col("b") == 1) & (rt.col("e") == 0)), error=0.01)
    assert other > 0, "a group under another condition is another question"
    assert plain.spent == spent


def test_totals_of_a_column_are_one_purchase_too(plain: Session) -> None:
    columns, totals = codes(), Groups(["b"], rt.col("a") >= 2, "c")
    answer = plain.ask(totals, error=0.01)
    kept = columns["a"] >= 2
    exact = [np.sum(columns["c"][kept & (columns["b"] == code)] / 4) / len(kept) for code in range(3)]
    assert np.abs(np.asarray(answer.value) - exact).max() <= answer.error <= 0.01
    assert answer.price == pytest.approx(plain.spent)


def test_a_condition_with_or_is_one_purchase_too(plain: Session) -> None:
    columns, either = codes(), Groups(["b"], (rt.col("a") == 3) | (rt.col("e") == 1))
    answer = plain.ask(either, error=0.01)
    kept = (columns["a"] == 3) | (columns["e"] == 1)
    exact = [np.mean(kept & (columns["b"] == code)) for code in range(3)]
    assert np.abs(np.asarray(answer.value) - exact).max() <= answer.error
    assert plain.ask(either, error=0.01).origin == "cache"


def test_groups_that_cannot_occur_are_zero(plain: Session) -> None:
    answer = plain.ask(Groups(["a", "b"], (rt.col("a") >= 2) & (rt.col("e") == 1)), error=0.01)
    assert not np.asarray(answer.value)[:2].any()
    assert np.asarray(answer.value)[2:].any()


def test_bought_groups_come_back_without_touching_a_row(tmp_path: Path) -> None:
    path = tmp_path / "groups.ledger"
    with Session.open(path, table(), BUDGET, warm_start=0) as session:
        first = session.ask(SQL, error="1%", key="mine")
        assert session.state.knowledge.unfitted
    with Session.open(path, forbidden(table()), BUDGET, warm_start=0) as session:
        again = session.ask(SQL, error="1%", key="mine")
        assert (again.rows, again.errors) == (first.rows, first.errors)
        assert session.ask(FILTERED, error=0.011).origin == "cache"
        assert session.refit(), "what was bought goes into the fit"
        assert np.abs(np.asarray(session.ask(rt.marginal("b", "e")).value)).sum() == pytest.approx(1)


class Died(Exception):
    """Stands for the end of a process."""


AND = (rt.col("a") >= 2) & (rt.col("c").isin([1, 3]))
DNA = (rt.col("c").isin([3, 1, 3])) & (rt.col("a") >= 2)


@pytest.mark.parametrize("key", [None, "mine"])
@pytest.mark.parametrize(
    ("asked", "again"),
    [
        (Groups(["e", "b"], rt.col("a") >= 2), Groups(["b", "e"], rt.col("a") >= 2)),
        (Groups(["b"], AND, "c"), Groups(["b"], DNA, "c")),
        (rt.count(AND | (rt.col("e") == 1)), rt.count((rt.col("e") == 1) | DNA)),
    ],
    ids=["columns", "conditions", "count"],
)
def test_a_question_paid_before_a_crash_is_the_same_in_another_order(
    asked: Query, again: Query, key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Died

    path = tmp_path / "died.ledger"
    with Session.open(path, table(), BUDGET, warm_start=0) as session, monkeypatch.context() as dying:
        dying.setattr(Noise, "release", die)
        with pytest.raises(Died):
            session.ask(asked, error=0.01, key=key)
        spent = session.spent
        assert spent > 0
    with Session.open(path, table(), BUDGET, warm_start=0) as session:
        answer = session.ask(again, error=0.01, key=key)
        assert (answer.origin, answer.price, session.spent) == ("measured", spent, spent)
    with Session.open(path, forbidden(table()), BUDGET, warm_start=0) as session:
        assert np.array_equal(session.ask(again, error=0.01, key=key).value, answer.value)
        first = session.ask(asked, error=0.01, key=key)
    names = [name for name, _ in answer.labels]
    order = [names.index(name) for name, _ in first.labels]
    assert [name for name, _ in first.labels] == list(getattr(asked, "names", ()))
    assert np.array_equal(np.transpose(answer.value, order), first.value)


def test_threshold_engines_ask_group_by_group() -> None:
    session = Session.open(None, table(records=400_000), rt.Budget(rho=0.5), engine="tuned", queries=100)
    answer = session.ask(FILTERED)
    assert answer.certified
    assert np.shape(answer.value) == (3, 2)


# ---- averages


AVERAGE = "SELECT b, AVG(c) AS m FROM t WHERE a <= 1 GROUP BY b"


def averages() -> list[float]:
    columns = codes()
    return [columns["c"][(columns["a"] <= 1) & (columns["b"] == code)].mean() for code in range(3)]


@pytest.mark.parametrize("wanted", [0.5, 0.2, 0.1])
def test_an_average_reaches_the_wanted_error(wanted: float) -> None:
    session = Session.open(None, table(), rt.Budget(rho=1), confidence=SURE)
    cost = session.cost(AVERAGE, error=wanted)
    rows = session.ask(AVERAGE, error=wanted)
    assert rows.price <= cost * (1 + 1e-9)
    for row, errors, exact in zip(rows.rows, rows.errors, averages(), strict=True):
        assert abs(row[1] - exact) <= errors[1] <= wanted
    assert rows.note == ""
    assert rows.certified


def test_a_quotient_of_counts_reaches_the_wanted_error() -> None:
    session = Session.open(None, table(), rt.Budget(rho=1), confidence=SURE)
    text = "SELECT 100.0 * COUNT(*) FILTER (WHERE e = 1 AND c >= 1) / COUNT(*) AS percent FROM t WHERE a >= 1"
    rows = session.ask(text, error=1.0)
    columns = codes()
    kept = columns["a"] >= 1
    exact = 100 * np.mean((columns["e"][kept] == 1) & (columns["c"][kept] >= 1))
    assert abs(rows.rows[0][0] - exact) <= rows.errors[0][0] <= 1.0


def test_what_was_not_reached_is_said(plain: Session) -> None:
    rows = plain.ask(AVERAGE, error=0.004)
    assert plain.cost(AVERAGE, error=0.004) > plain.remaining
    assert "m: ±0.004 was not reached in 3 of 3 rows" in rows.note
    assert rows.note in repr(rows)
    assert type(rows).from_dict(rows.to_dict()).note == rows.note


def test_what_no_budget_can_reach_is_refused_in_one_line(plain: Session) -> None:
    with pytest.raises(QueryError, match="cannot reach an error") as caught:
        plain.ask("SELECT FLOOR(AVG(c)) FROM t WHERE a = 0", error=0.1)
    assert "\n" not in str(caught.value)
    assert plain.spent == 0


@pytest.mark.parametrize("question", [rt.count(rt.col("c") >= 2), rt.marginal("a"), FILTERED, rt.mean("c"), SQL])
def test_a_tiny_error_is_refused_in_one_line(plain: Session, question: Query | str) -> None:
    for ask in (plain.ask, plain.cost):
        with pytest.raises(QueryError) as caught:
            ask(question, error="0.0000001%" if question is SQL else 1e-9)
        text = str(caught.value)
        assert "is not above" in text, "the value and the bound"
        assert "ask for a larger one" in text
        assert "\n" not in text
    assert plain.spent == 0


def test_a_keyed_average_asks_the_same_again_whatever_is_known_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "keyed.ledger"
    mean = rt.mean("c", where=rt.col("a") == 0)
    with Session.open(path, table(), BUDGET, warm_start=0) as session:
        rows = session.ask(AVERAGE, error=0.4, key="k")
        value = session.ask(mean, error=0.4, key="m")
        session.ask(rt.marginal("a", "b"), error=0.005)
        assert session.ask(AVERAGE, error=0.4, key="k").rows == rows.rows
        assert session.ask(mean, error=0.4, key="m").value == value.value
    with Session.open(path, forbidden(table()), BUDGET, warm_start=0) as session:
        assert session.ask(AVERAGE, error=0.4, key="k").errors == rows.errors
        assert session.ask(mean, error=0.4, key="m").value == value.value


def test_ratios_reach_their_error_from_good_estimates() -> None:
    session = Session.open(None, table(), rt.Budget(rho=1), confidence=SURE)
    mean = rt.mean("c", where=(rt.col("a") == 0) & (rt.col("b") == 1) & (rt.col("e") == 0))
    cost = session.cost(mean, error=0.15)
    answer = session.ask(mean, error=0.15)
    assert answer.error <= 0.15
    assert answer.price <= cost * (1 + 1e-9)


def test_an_average_of_hardly_any_record_is_refused_in_one_line() -> None:
    session = Session.open(None, table(), rt.Budget(rho=1), confidence=SURE)
    with pytest.raises(QueryError, match=r"needs its counts within|too few records") as caught:
        session.ask(rt.mean("c", where=(rt.col("a") == 0) & (rt.col("b") == 1) & (rt.col("e") == 1)), error=0.15)
    assert "\n" not in str(caught.value)


def test_rows_of_one_code_only() -> None:
    """A table without the condition's value: shares near zero, averages without a bound, and no crash."""
    columns = {name: np.zeros(2_000, dtype=np.int64) for name in ("a", "b", "c", "e")}
    session = Session.open(None, of_codes(DOMAIN, columns), BUDGET, warm_start=0)
    rows = session.ask("SELECT b, COUNT(*) AS n, AVG(c) FROM t WHERE a = 3 GROUP BY b", error="20%")
    assert len(rows) == 3


def test_asking_again_starts_from_better_estimates(plain: Session) -> None:
    """A uniform hypothesis thinks half of the records have a >= 2; a quarter has."""
    text = "SELECT AVG(c) AS m FROM t WHERE a >= 2 AND b <> 1"
    first = plain.ask(text, error=0.3)
    assert "m: ±0.3 was not reached" in first.note
    cost = plain.cost(text, error=0.3)
    better = plain.ask(text, error=0.3)
    assert better.note == ""
    assert 0 < better.price <= cost + 1e-12
    again = plain.ask(text, error=0.3)
    assert (again.rows, again.errors, again.price) == (better.rows, better.errors, 0)
