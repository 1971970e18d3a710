"""Statistics asked from Python are the SQL aggregates of the same name, and their bounds hold on the rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.queries.statistics import StatisticQuery

RECORDS = 30_000
F = rt.col("sex") == "F"
SAME = [
    (rt.quantile("age", 0.9), "QUANTILE_CONT(age, 0.9)"),
    (rt.quantile("age", 0.25, F), "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) FILTER (WHERE sex = 'F')"),
    (rt.median("income"), "MEDIAN(income)"),
    (rt.variance("age"), "VARIANCE(age)"),
    (rt.variance("age", F, sample=False), "VAR_POP(age) FILTER (WHERE sex = 'F')"),
    (rt.covariance("age", "income"), "COVAR_SAMP(age, income)"),
    (rt.covariance("age", "income", sample=False), "COVAR_POP(age, income)"),
    (rt.correlation("age", "income"), "CORR(age, income)"),
    (rt.correlation("income", "age", F), "CORR(income, age) FILTER (WHERE sex = 'F')"),
]


@cache
def rows() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    age = generator.gamma(9, 5, RECORDS).clip(0, 99.9)
    income = (age * 0.5 + generator.normal(20, 12, RECORDS)).clip(0, 99.9)
    return {"age": age, "income": income, "sex": generator.choice(["F", "M"], RECORDS)}


@cache
def session() -> rt.Session:
    numbers = rt.Numeric(edges=range(0, 101, 4), other=False)
    domain = rt.Domain(age=numbers, income=numbers, sex=rt.Categorical(["F", "M"], other=False))
    table, budget = rt.Table.of(pa.table(rows()), domain), rt.Budget(epsilon=8, delta=1e-9)
    return rt.Session.open(None, table, budget, purpose="unlimited", confidence=1 - 1e-6)


def truth(asked: StatisticQuery) -> float:
    kept = rows()["sex"] == "F" if asked.where.attributes else np.ones(RECORDS, dtype=bool)
    columns = [rows()[name][kept] for name in asked.columns]
    if asked.function == "quantile":
        return float(np.quantile(columns[0], asked.level))
    if asked.function == "correlation":
        return float(np.corrcoef(*columns)[0, 1])
    return float(np.cov(columns[0], columns[-1], ddof=int(asked.sample))[0, 1])


@pytest.mark.parametrize(("asked", "sql"), SAME, ids=[sql for _, sql in SAME])
def test_the_answer_is_that_of_sql_and_its_bound_holds(asked: StatisticQuery, sql: str) -> None:
    answer, table = session().ask(asked), session().ask(f"SELECT {sql} FROM t")
    assert answer.value == pytest.approx(table.rows[0][0], rel=1e-12)
    assert answer.error == (None if table.errors[0][0] is None else pytest.approx(table.errors[0][0], rel=1e-9))
    assert (answer.query, answer.origin, answer.basis, answer.price) == (asked.text, table.origin, table.basis, 0)
    if answer.error is None:
        assert asked.function == "correlation"  # of what may have no spread at all
    else:
        assert abs(answer.value - truth(asked)) <= answer.error


def test_a_wanted_error_is_paid_for_and_reached() -> None:
    asked = rt.variance("income", F)
    wanted = 0.8 * session().ask(asked).error
    price = session().cost(asked, error=wanted)
    paid = session().ask(asked, error=wanted)
    assert 0 < paid.price <= price * (1 + 1e-9)
    assert paid.error <= wanted * (1 + 1e-9)
    assert abs(paid.value - truth(asked)) <= paid.error
    assert session().cost(asked, error=wanted) == 0


def test_a_release_answers_alike() -> None:
    release = session().release()
    for asked, sql in SAME[:4]:
        assert release.ask(asked).value == pytest.approx(release.ask(f"SELECT {sql} FROM t").rows[0][0], rel=1e-12)


def plain(**given: Any) -> StatisticQuery:
    return StatisticQuery.from_dict({"query": "statistic", **given})


@pytest.mark.parametrize("asked", [asked for asked, _ in SAME], ids=repr)
def test_plain_values_and_back(asked: StatisticQuery) -> None:
    assert StatisticQuery.from_dict(asked.to_dict()) == asked
    assert hash(StatisticQuery.from_dict(asked.to_dict())) == hash(asked)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rt.quantile("age", 1.5), "between 0 and 1"),
        (lambda: rt.quantile("age", "much"), "level"),
        (lambda: rt.variance(3), "name"),
        (lambda: session().ask(rt.median("sex")), "sex"),
        (lambda: session().ask(rt.median("agee")), 'unknown column "agee"; did you mean age'),
        (lambda: session().ask(rt.median("age", rt.col("age") > 33)), "cuts the bin"),
        (
            lambda: StatisticQuery.from_dict({"query": "statistic", "function": "mode", "columns": ["a"]}),
            "unknown statistic",
        ),
        (
            lambda: StatisticQuery.from_dict({"query": "statistic", "function": [], "columns": ["a"]}),
            "unknown statistic",
        ),
        (
            lambda: StatisticQuery.from_dict({"query": "statistic", "function": "variance", "columns": "ab"}),
            "list of names",
        ),
        (lambda: StatisticQuery.from_dict({"query": "statistic"}), "keys"),
    ],
)
def test_what_cannot_be_asked_is_one_line(make: Any, words: str) -> None:
    with pytest.raises(rt.QueryError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
