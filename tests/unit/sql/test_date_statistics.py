"""Quantiles of dates and times: errors are days, as they are stated and as they are asked for."""

from __future__ import annotations

import datetime
from functools import cache

import pyarrow as pa
import pytest

import reticent as rt
from reticent.queries.statistics import StatisticQuery
from reticent.sql.asking import answer_of
from reticent.sql.result import ResultTable

RECORDS = 6000
START = datetime.date(2021, 3, 1)
WEEK = datetime.timedelta(days=7)
EPOCH = datetime.date(1970, 1, 1)
FIRST = datetime.datetime(2024, 5, 1)


@cache
def session() -> rt.Session:
    """Days of twenty weeks, each once; times of one day in bins of an hour."""
    days = [START + datetime.timedelta(days=row % 140) for row in range(RECORDS)]
    times = [FIRST + datetime.timedelta(minutes=row % 1440) for row in range(RECORDS)]
    domain = rt.Domain(
        day=rt.Numeric(edges=[START + WEEK * week for week in range(21)]),
        time=rt.Numeric(edges=[FIRST + datetime.timedelta(hours=hour) for hour in range(25)]),
    )
    table = rt.Table.of(pa.table({"day": days, "time": times}), domain)
    return rt.Session.open(None, table, rt.Budget(epsilon=4, delta=1e-9), warm_start=0.5)


def test_the_quantile_of_dates_is_a_number_of_days_with_its_error() -> None:
    answer = session().ask(rt.quantile("day", 0.25))
    truth = (START - EPOCH).days + 0.25 * 139
    assert answer.certified
    assert abs(answer.value - truth) <= answer.error < 30
    date = (EPOCH + datetime.timedelta(days=int(answer.value))).isoformat()
    assert answer.basis.startswith(date)
    assert "days since 1970-01-01" in answer.basis
    assert session().release().ask(rt.quantile("day", 0.25)).value == pytest.approx(answer.value, abs=8)


def test_the_quantile_of_times_has_a_fraction_of_a_day() -> None:
    answer = session().ask(rt.median("time"))
    truth = (FIRST.date() - EPOCH).days + 0.5
    assert abs(answer.value - truth) <= answer.error < 0.3


@pytest.mark.parametrize("sql", ["MEDIAN(day)", "QUANTILE_DISC(day, 0.4)", "MEDIAN(time)"])
def test_a_wish_is_in_the_unit_of_the_stated_error(sql: str) -> None:
    text = f"SELECT {sql} FROM t"
    stated = session().ask(text).errors[0][0]
    found = session().ask(text, error=3 * stated)
    assert found.errors[0][0] <= 3 * stated * (1 + 1e-9)
    assert "days" in str(found)
    assert " ± " in str(found)


@pytest.mark.parametrize("asked", [rt.median("day"), "SELECT MEDIAN(day) FROM t"], ids=str)
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (1, "an error of 1 day at any price"),
        (90, "an error of 90 days is half the range .* 2021-03-01 00:00:00 to 2021-07-1[89] 00:00:00"),
        ("80%", "days is half the range"),
        (rt.records(3), "as a number of days"),
    ],
)
def test_refusals_speak_of_days(asked: StatisticQuery | str, error: float, words: str) -> None:
    spent = session().spent
    with pytest.raises(rt.QueryError, match=words):
        session().ask(asked, error=error)
    assert session().spent == spent


def test_a_missed_wish_is_told() -> None:
    table = ResultTable(
        sql="", columns=("m",), aggregates=(True,), rows=(("2021-05-01 12:00:00",),), errors=((9.0,),),
        confidence=0.95, certified=True, origin="measured", price=0.0, types=("timestamp",),
    )  # fmt: skip
    assert answer_of(rt.median("day"), table, 5.0).wanted == 5.0
    assert answer_of(rt.median("day"), table, 10.0).wanted is None
    assert answer_of(rt.median("day"), table).wanted is None
    assert answer_of(rt.median("day"), table).value == (datetime.date(2021, 5, 1) - EPOCH).days + 0.5
