"""What cannot be answered is refused in one line that says why and what can; never by another kind of exception."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.sql.sql_analysts import REFUSED_ORDERS, REFUSED_TRIPS
from tests.unit.sql.sql_offices import REFUSED_STAFF, REFUSED_STAYS
from tests.unit.sql.sql_refusals import REFUSED
from tests.unit.sql.sql_table import DOMAIN, Exact, ask, orders, people, staff, stays, trips

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.sql import compile_sql

LEAST_REFUSALS = 200
LEAST_REASONS = 120
LONGEST_LINE = 300


EVERY = [
    *((people, *refusal) for refusal in REFUSED),
    *((trips, *refusal) for refusal in REFUSED_TRIPS),
    *((orders, *refusal) for refusal in REFUSED_ORDERS),
    *((stays, *refusal) for refusal in REFUSED_STAYS),
    *((staff, *refusal) for refusal in REFUSED_STAFF),
]


@pytest.mark.parametrize(("table", "text", "reason"), EVERY)
def test_a_refusal_names_the_reason_and_the_remedy(table: Callable[[], Exact], text: str, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        table().ask(text)
    message = str(caught.value)
    assert reason in message
    assert "\n" not in message
    assert "\x1b" not in message
    assert len(message) <= LONGEST_LINE
    assert caught.value.__cause__ is None


def test_enough_reasons_are_distinct() -> None:
    assert len(EVERY) >= LEAST_REFUSALS
    assert len({reason for _, _, reason in EVERY}) >= LEAST_REASONS


def test_too_many_groups_are_refused_before_anything_is_computed() -> None:
    wide = Domain(a=1000, b=1000)
    with pytest.raises(QueryError, match=r"GROUP BY makes 1000000 groups; at most 65536; group by fewer"):
        compile_sql("SELECT a, b, COUNT(*) FROM t GROUP BY a, b", wide)


def test_too_many_classes_are_refused() -> None:
    cases = ", ".join(f"CASE WHEN children = {k % 4} THEN {k} ELSE -1 END AS c{k}" for k in range(9))
    names = ", ".join(f"c{k}" for k in range(9))
    with pytest.raises(QueryError, match="512 combinations of classes; at most 256"):
        ask(f"SELECT {cases}, COUNT(*) FROM t GROUP BY {names}")


def test_a_table_with_a_name_is_called_by_it() -> None:
    assert compile_sql("SELECT COUNT(*) FROM Census", DOMAIN, table="census").queries == ()
    with pytest.raises(QueryError, match='unknown table "other"; the table is called census'):
        compile_sql("SELECT COUNT(*) FROM other", DOMAIN, table="census")


@pytest.mark.parametrize("text", [None, 3, b"SELECT 1", ["SELECT"]])
def test_only_text_is_sql(text: object) -> None:
    with pytest.raises(QueryError, match="SQL must be text"):
        compile_sql(text, DOMAIN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM t WHERE " + "(" * 3000 + "age >= 45" + ")" * 3000,
        "SELECT COUNT(*) FROM t WHERE " + "NOT " * 3000 + "age >= 45",
        "SELECT " + "-" * 3001 + " COUNT(*) FROM t",
        "SELECT " + "1 + " * 3000 + "COUNT(*) FROM t",
        "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 500 + "t" + ")" * 500,
        "SELECT COUNT(*) FROM t WHERE " + " OR ".join(f"children = {k % 4}" for k in range(30_000)),
        "x" * 200_000,
    ],
    ids=["parentheses", "not", "minus", "sum", "subqueries", "or", "long"],
)
def test_monsters_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(text)
    assert len(str(caught.value)) <= LONGEST_LINE


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM t; SET age FROM t", "SELECT COUNT(*) FROM t FOR UPDATE"])
def test_a_refused_text_is_not_logged(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(QueryError):
        compile_sql(text, DOMAIN)
    assert caplog.records == []
