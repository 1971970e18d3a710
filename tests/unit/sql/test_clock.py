"""CURRENT_DATE and its kin are the day in UTC, said with the result, and nothing kept outlives that day."""

from __future__ import annotations

import datetime

import pytest
from tests.unit.sql.comparison import difference
from tests.unit.sql.sql_table import STAYS, stays

from reticent.errors import ReticentError
from reticent.sql import calendar, compile_sql
from reticent.sql import statement as statements
from reticent.sql.statement import Kept

CLOCKED = {
    "admitted >= CURRENT_DATE - INTERVAL '3 months'": "admitted >= DATE '2023-07-01'",
    "admitted < CURRENT_DATE AND admitted >= CURRENT_DATE - INTERVAL 1 MONTH": "MONTH(admitted) = 9",
    "admitted < TODAY()": "admitted < '2023-10-01'",
    "admitted < NOW()": "admitted < '2023-10-01'",
    "admitted >= CURRENT_TIMESTAMP": "admitted >= '2023-10-01'",
    "admitted >= GETDATE()": "admitted >= '2023-10-01'",
    "admitted < DATEADD(month, -2, GETDATE())": "admitted < '2023-08-01'",
    "admitted >= DATE_SUB(CURDATE(), INTERVAL 2 MONTH)": "admitted >= '2023-08-01'",
    "admitted >= DATE_TRUNC('year', CURRENT_DATE)": "TRUE",
    "EXTRACT(YEAR FROM AGE(DATE '2020-10-01')) = 3 AND los > 2": "los > 2",
    "EXTRACT(QUARTER FROM admitted) < EXTRACT(QUARTER FROM CURRENT_DATE)": "QUARTER(admitted) < 4",
}


@pytest.fixture
def october(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar, "today", lambda: datetime.date(2023, 10, 1))
    statements.STATEMENTS.clear()


@pytest.mark.usefixtures("october")
def test_the_clock_is_a_date() -> None:
    count = "SELECT COUNT(*) FROM stays WHERE "
    found = [difference(stays(), count + text, meant=count + meant) for text, meant in CLOCKED.items()]
    statements.STATEMENTS.clear()
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.usefixtures("october")
def test_the_result_says_which_day_was_taken() -> None:
    told = stays().ask("SELECT COUNT(*) FROM stays WHERE admitted < CURRENT_DATE AND admitted < NOW()").note
    statements.STATEMENTS.clear()
    assert told is not None
    assert "CURRENT_DATE is taken as 2023-10-01, the day in UTC" in told
    assert "NOW is taken as 2023-10-01 00:00:00 UTC" in told


def test_what_was_kept_yesterday_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Kept[str, int] = Kept(4, 1000)
    kept.put("a", 1, 10)
    assert kept.get("a") == 1
    later = statements._day() + 1
    monkeypatch.setattr(statements, "_day", lambda: later)
    assert kept.get("a") is None
    kept.put("a", 2, 10)
    assert kept.get("a") == 2


def test_a_rule_of_a_domain_has_no_clock() -> None:
    from reticent.sql.rules import read_rule

    with pytest.raises(ReticentError, match="would change from day to day"):
        read_rule("admitted < CURRENT_DATE", STAYS)


def test_the_same_text_is_compiled_once_a_day() -> None:
    text = "SELECT COUNT(*) FROM stays WHERE admitted < CURRENT_DATE"
    assert compile_sql(text, STAYS) is compile_sql(text, STAYS)
