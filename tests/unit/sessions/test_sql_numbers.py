"""SQL sells sums and means of the rows' own numbers as Python does: bounds hold on raw rows, and are paid for once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.faults.payments import Disk, Killed, opened
from tests.unit.sessions.test_numbers import FRAME, TABLE, domain

import reticent as rt
from reticent.errors import QueryError
from reticent.knowledge.request import part_name
from reticent.sessions.session import Session

AMPLE = rt.Budget(rho=5)
SESSIONS = 16
ROWS = FRAME.assign(income=FRAME["income"].clip(0, 300), age=FRAME["age"].clip(18, 90))
WOMEN = ROWS[ROWS["sex"] == "f"]
STATEMENTS: dict[str, tuple[float, list[float]]] = {
    "SELECT AVG(income) FROM t": (5.0, [ROWS["income"].mean()]),
    "SELECT AVG(income) FROM t WHERE sex = 'f'": (6.0, [WOMEN["income"].mean()]),
    "SELECT SUM(income) FROM t WHERE sex = 'f'": (12000.0, [WOMEN["income"].sum()]),
    "SELECT SUM(2 * income + 3) FROM t": (24000.0, [(2 * ROWS["income"] + 3).sum()]),
    "SELECT AVG(age) FROM t WHERE sex = 'f'": (3.0, [WOMEN["age"].mean()]),
    "SELECT sex, AVG(income) FROM t GROUP BY sex": (8.0, ROWS.groupby("sex")["income"].mean().tolist()),
}
"""Errors far below what bins hide (100 of income, 20 of age), and what is true of the rows."""


def fresh(table: rt.Table = TABLE, budget: rt.Budget = AMPLE, **options: Any) -> Session:
    return Session.open(None, table, budget, warm_start=0, progress=False, **options)


def numbers(table: Any) -> tuple[list[float], list[float]]:
    return [float(row[-1]) for row in table.rows], [float(errors[-1]) for errors in table.errors]


def test_bounds_hold_against_the_rows_own_numbers() -> None:
    """A twentieth may miss. Statements of one session share purchases, sessions share nothing: each statement is
    counted by itself, and one of the six misses more often than this by chance once in 10^6 runs.
    """
    missed = dict.fromkeys(STATEMENTS, 0)
    for _ in range(SESSIONS):
        with fresh() as session:
            for text, (error, truth) in STATEMENTS.items():
                before = session.spent
                found = session.ask(text, error=error)
                values, errors = numbers(found)
                assert found.certified
                assert max(errors) <= 3 * error, "what it is told beforehand of a small group may be off"
                assert found.price == pytest.approx(session.spent - before, rel=1e-12)
                missed[text] += any(abs(v - t) > e for v, t, e in zip(values, truth, errors, strict=True))
    for text, misses in missed.items():
        assert stats.binom.sf(misses - 1, SESSIONS, 0.05) > 1e-6 / len(STATEMENTS), (text, misses)


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_is_paid_for_once_and_known_for_ever(text: str, tmp_path: Path) -> None:
    path, error = tmp_path / "a.ledger", STATEMENTS[text][0]
    with Session.open(path, TABLE, AMPLE, warm_start=0, progress=False) as session:
        price = session.cost(text, error=error)
        first = session.ask(text, error=error, key="mine")
        assert first.price == pytest.approx(price) == pytest.approx(session.spent)
        assert price > 0
        for key in ("mine", None):
            assert session.ask(text, error=error, key=key).rows == first.rows
        free = session.ask(text)
        assert free.price == 0
        assert max(numbers(free)[1]) <= max(numbers(first)[1]) * (1 + 1e-9), "as good as what was paid for"
        spent = session.spent
        assert spent == pytest.approx(price)
    plain = rt.Table.of(FRAME, domain(), progress=False)
    with Session.open(path, plain, AMPLE, progress=False) as session:
        assert session.ask(text, error=error, key="mine").rows == first.rows
        assert session.ask(text).rows == free.rows
        assert session.spent == spent


def test_what_sql_bought_answers_python_and_the_other_way() -> None:
    query = rt.mean("income", where=rt.col("sex") == "f")
    with fresh() as session:
        session.ask("SELECT AVG(income) FROM t WHERE sex = 'f'", error=5.0)
        spent, answer = session.spent, session.ask(query)
        assert answer.certified
        assert answer.error <= 5.0
        assert "own values" in answer.basis
        assert session.spent == spent
    with fresh() as session:
        session.ask(query, error=5.0)
        spent, found = session.spent, session.ask("SELECT SUM(income) FROM t WHERE sex = 'f'")
        assert found.errors[0][0] < 20_000, "bins alone hide 100 a record"
        assert session.spent == spent


def test_groups_come_in_the_order_asked() -> None:
    sex, age = np.tile(["f", "m"], 10_000), np.repeat([20, 60], 10_000)
    income = 20.0 + 100 * (sex == "m") + 40 * (age == 60)
    declared = rt.Domain(
        income=rt.Numeric(edges=[0, 300], nullable=False, other=False),
        age=rt.Numeric(edges=[18, 50, 90], whole=True, nullable=False, other=False),
        sex=rt.Categorical(["f", "m"], other=False),
    )
    table = rt.Table.of(pd.DataFrame({"income": income, "age": age, "sex": sex}), declared, numbers=True)
    with fresh(table, rt.Budget(rho=100)) as session:
        by_sex = session.ask("SELECT sex, age, AVG(income) FROM t GROUP BY sex, age", error=5.0)
        by_age = session.ask("SELECT age, sex, AVG(income) FROM t GROUP BY age, sex", error=5.0)
    for rows, place in ((by_sex.rows, 0), (by_age.rows, 1)):
        found = {
            (row[place], "60" if str(row[1 - place]).lstrip("[").startswith("50") else "20"): float(row[2])
            for row in rows
        }
        truth = {("f", "20"): 20.0, ("m", "20"): 120.0, ("f", "60"): 60.0, ("m", "60"): 160.0}
        assert found == pytest.approx(truth, abs=15.0), "three times the error"


def test_bins_that_are_known_well_enough_serve() -> None:
    fine = rt.Domain(income=rt.Numeric(edges=range(0, 301, 10)), sex=rt.Categorical(["f", "m"], other=False))
    table = rt.Table.of(FRAME[["income", "sex"]], fine, numbers=True, progress=False)
    with fresh(table) as session:
        session.ask(rt.marginal("income", "sex"), error=0.001)
        spent = session.spent
        found = session.ask("SELECT AVG(income) FROM t WHERE sex = 'f'", error=20.0)
        assert found.certified
        assert session.spent == spent
        assert not session.state.knowledge.sums


@pytest.mark.parametrize(
    ("text", "column", "where", "error"),
    [
        ("SELECT AVG(income) FROM t", "income", None, 5.0),
        ("SELECT AVG(income) FROM t WHERE sex = 'f'", "income", rt.col("sex") == "f", 6.0),
        ("SELECT AVG(age) FROM t WHERE sex = 'f'", "age", rt.col("sex") == "f", 3.0),
        ("SELECT AVG(income), COUNT(income) FROM t WHERE age < 50", "income", rt.col("age") < 50, "2%"),
    ],
)
def test_an_average_costs_what_the_mean_costs(text: str, column: str, where: Any, error: Any) -> None:
    """The sum and the count of its records are bought once each, and the average is within the wanted error."""
    query = rt.mean(column) if where is None else rt.mean(column, where=where)
    with fresh() as session:
        price = session.cost(text, error=error)
        assert 0 < price <= 1.1 * session.cost(query, error=error)


def test_one_count_serves_all_that_needs_it() -> None:
    """AVG, SUM and COUNT together cost less than a tenth more than AVG; a count that is known costs nothing."""
    declared = rt.Domain(
        income=rt.Numeric(edges=[0, 100, 300], nullable=False, other=False),
        sex=rt.Categorical(["f", "m"], other=False),
    )
    table = rt.Table.of(FRAME[["income", "sex"]], declared, numbers=True, progress=False)
    alone, where = "SELECT sex, AVG(income) FROM t GROUP BY sex", rt.col("sex") == "f"
    together = "SELECT sex, AVG(income), SUM(income), COUNT(*) FROM t GROUP BY sex"
    with fresh(table) as session:
        assert session.cost(together, error="3%") <= 1.1 * session.cost(alone, error="3%")
        mean = session.cost(rt.mean("income", where=where), error=6.0)
        session.ask(rt.count(where), error=0.001)
        assert session.cost("SELECT AVG(income) FROM t WHERE sex = 'f'", error=6.0) <= 0.6 * mean


def test_what_an_earlier_version_began_goes_on_as_it_was(tmp_path: Path) -> None:
    """Errors written down without a mark are of totals with counts of their own: the key returns what it bought."""
    text, error, path = "SELECT AVG(income) FROM t WHERE sex = 'f'", 6.0, tmp_path / "a.ledger"
    with Session.open(path, TABLE, AMPLE, warm_start=0, progress=False) as session:
        session.state.remember(part_name(text, error, 0.95), "mine", [0.004, -0.006])
        price = session.cost(text, error=error, key="mine")
        first = session.ask(text, error=error, key="mine")
        assert first.price == pytest.approx(price) == pytest.approx(session.spent)
        (sums,) = next(iter(session.state.knowledge.sums.values()))
        assert sums.counts is not None, "its own"
        free = session.ask(text)
        assert session.ask(rt.mean("income", where=rt.col("sex") == "f")).certified
    with Session.open(path, TABLE, AMPLE, progress=False) as session:
        for key in ("mine", None):
            assert session.ask(text, error=error, key=key).rows == first.rows
        assert session.ask(text).rows == free.rows
        assert session.spent == pytest.approx(price)


def test_without_numbers_it_is_refused_unspent() -> None:
    plain = rt.Table.of(FRAME, domain(), progress=False)
    with fresh(plain) as session:
        with pytest.raises(QueryError, match="finer bins"):
            session.ask("SELECT AVG(income) FROM t", error=5.0)
        assert session.spent == 0


def test_what_the_budget_cannot_pay_is_answered_from_bins() -> None:
    poor = rt.Budget(rho=1e-6)
    with fresh(budget=poor) as session:
        found = session.ask("SELECT AVG(income) FROM t WHERE sex = 'f'", error=5.0)
        assert not found.certified
        assert "not reached" in found.note
        assert session.spent == 0
    with fresh(budget=poor, strict=True) as session, pytest.raises(rt.BudgetError):
        session.ask("SELECT AVG(income) FROM t WHERE sex = 'f'", error=5.0)


@pytest.mark.parametrize("facts", [{"neighbours": "add-remove"}, {"person": "who", "records": 4000 // 3}])
def test_private_totals_and_persons(facts: dict[str, Any]) -> None:
    table = rt.Table.of(FRAME, domain(nullable=False), numbers=True, progress=False, **facts)
    rows = FRAME.assign(income=FRAME["income"].clip(0, 300))
    truth = rows.groupby("who")["income"].mean().mean() if "person" in facts else rows["income"].mean()
    with fresh(table, confidence=0.99999) as session:
        found = session.ask("SELECT AVG(income) FROM t", error=30.0)
        assert session.state.knowledge.sums
        value, error = found.rows[0][0], found.errors[0][0]
        assert abs(value - truth) <= 1.5 * error, "half as much again: not once in a million runs"


@pytest.mark.parametrize("key", [None, "mean"])
@pytest.mark.parametrize("text", ["SELECT AVG(income) FROM t WHERE sex = 'f'", "SELECT SUM(income) FROM t"])
def test_a_crash_at_any_step_charges_nothing_twice(text: str, key: str | None) -> None:
    error = 6.0 if "AVG" in text else 24000.0
    with opened(Disk(), TABLE, warm_start=0) as session:
        price = session.cost(text, error=error)
    for fatal in range(1, 15, 2):
        disk = Disk()
        with opened(disk, TABLE, warm_start=0) as session:
            disk.arm(fatal)
            with suppress(Killed):
                session.ask(text, error=error, key=key)
        with opened(disk, TABLE) as session:
            found = session.ask(text, error=error, key=key)
            assert session.spent == pytest.approx(price, rel=1e-9)
            assert session.ask(text, error=error, key=key).rows == found.rows
            assert np.isfinite(found.errors[0][0])
            session.state.ledger.verify()
