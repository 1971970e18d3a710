"""Every statement means what DuckDB says it means on the exact table, and stated bounds hold on raw rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.published import Published
from tests.unit.sql.comparison import difference, misses
from tests.unit.sql.sql_analysts import CUT_TRIPS, OF_ORDERS, OF_TRIPS, ORDERS_IN_ORDER, TRIPS_IN_ORDER
from tests.unit.sql.sql_breadth import AS_TYPED, CUT, DATED, IN_ORDER
from tests.unit.sql.sql_offices import COMMENTED, MEANT_OF_OFFICES, OF_STAFF, OF_STAYS
from tests.unit.sql.sql_statements import ORDERED, UNORDERED
from tests.unit.sql.sql_table import ROWS, Exact, calendar, orders, people, staff, stays, trips
from tests.unit.sql.sql_tools import (
    DATES_AND_TIMES,
    MEANT,
    MORE_MEANT,
    MORE_OF_ORDERS,
    MORE_OF_TRIPS,
    TOOLS_OF_ORDERS,
    TOOLS_OF_TRIPS,
)

from reticent.errors import QueryError
from reticent.sql.statement import compile_sql
from reticent.sql.vectors import Bins

LEAST_STATEMENTS = 1800
LEAST_BOUNDS = 1500
DESCRIBED = ("DESCRIBE trips",)
REFUSED_OF_ANALYSTS = {
    "SELECT * FROM trips LIMIT 10": "would show rows",
    "SELECT COUNT(*) FROM trips t JOIN zones z ON t.pickup_area = z.id": "only one table is protected",
    "SELECT cuont(*) FROM trips": "did you mean COUNT",
    "SELECT COUNT(*) FROM trip": "the table is called trips",
    "DELETE FROM trips": "would change data",
}
_TOOLS = [*TOOLS_OF_TRIPS, *TOOLS_OF_ORDERS, *MEANT, *MORE_OF_TRIPS, *MORE_OF_ORDERS, *MORE_MEANT, *DATES_AND_TIMES]
_OFFICES = [*OF_STAYS, *OF_STAFF, *COMMENTED, *MEANT_OF_OFFICES]
SHAPES = """SELECT SKEWNESS(income), KURTOSIS(income), KURTOSIS_POP(income) FROM t
SELECT sex, SKEWNESS(age), KURTOSIS(age) FROM t GROUP BY sex
SELECT region, SKEWNESS(children), KURTOSIS_POP(children) FROM t GROUP BY region
SELECT SKEWNESS(income - age) FILTER (WHERE smoker) FROM t
SELECT sex, BOOL_OR(age > 60), BOOL_AND(age > 20) FROM t GROUP BY sex
SELECT region, BOOL_OR(children = 3), BOOL_AND(smoker) FROM t GROUP BY region""".splitlines()
OF_PEOPLE = list(dict.fromkeys([*UNORDERED, *AS_TYPED]))


@pytest.mark.parametrize("first", range(0, len(OF_PEOPLE), 25))
def test_the_rows_are_duckdbs(first: int) -> None:
    found = [difference(people(), text) for text in OF_PEOPLE[first : first + 25]]
    assert not any(found), "\n".join(filter(None, found))


def test_the_order_is_duckdbs() -> None:
    found = [difference(people(), text, ordered=True) for text in [*ORDERED, *IN_ORDER]]
    assert not any(found), "\n".join(filter(None, found))


def test_dates_are_duckdbs() -> None:
    found = [difference(calendar(), text) for text in DATED]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("first", range(0, len(OF_TRIPS), 25))
def test_trips_are_duckdbs(first: int) -> None:
    found = [difference(trips(), text) for text in OF_TRIPS[first : first + 25]]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("first", range(0, len(OF_ORDERS), 25))
def test_orders_are_duckdbs(first: int) -> None:
    found = [difference(orders(), text) for text in OF_ORDERS[first : first + 25]]
    assert not any(found), "\n".join(filter(None, found))


def test_what_tools_write_is_answered_as_duckdb_does() -> None:
    found = [difference(trips(), text) for text in TOOLS_OF_TRIPS]
    found += [difference(orders(), text) for text in TOOLS_OF_ORDERS]
    found += [difference(trips(), text, meant=meant) for text, meant in MEANT.items()]
    assert not any(found), "\n".join(filter(None, found))


def test_what_textbooks_and_other_databases_write_is_answered_as_duckdb_does() -> None:
    found = [difference(trips(), text) for text in [*MORE_OF_TRIPS, *DATES_AND_TIMES]]
    found += [difference(orders(), text) for text in MORE_OF_ORDERS]
    found += [difference(trips(), text, meant=meant) for text, meant in MORE_MEANT.items()]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("first", range(0, max(len(OF_STAYS), len(OF_STAFF)), 40))
def test_what_offices_write_is_answered_as_duckdb_does(first: int) -> None:
    found = [difference(stays(), text) for text in OF_STAYS[first : first + 40]]
    found += [difference(staff(), text) for text in OF_STAFF[first : first + 40]]
    assert not any(found), "\n".join(filter(None, found))


def test_other_spellings_and_comments_of_offices() -> None:
    found = [difference(stays(), text) for text in COMMENTED]
    for text, meant in MEANT_OF_OFFICES.items():
        found.append(difference(staff() if "staff" in text else stays(), text, meant=meant))
    assert not any(found), "\n".join(filter(None, found))


def test_the_order_of_trips_and_orders_is_duckdbs() -> None:
    found = [difference(trips(), text, ordered=True) for text in TRIPS_IN_ORDER]
    found += [difference(orders(), text, ordered=True) for text in ORDERS_IN_ORDER]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.shared
def test_what_analysts_typed_is_answered_or_refused_with_the_reason(shared_data: Path) -> None:
    """The list of the issue: at least 40 of 45 answered, none of them wrongly."""
    lines = (shared_data / "sql" / "analysts.sql").read_text().splitlines()
    texts = [line.split(" -- ")[0].rstrip(";") for line in lines if line and not line.startswith("--")]
    assert len(texts) == 45
    refused, wrong = [], []
    for text in texts:
        try:
            compile_sql(text, trips().domain, table="trips")
        except QueryError as refusal:
            refused.append((text, str(refusal)))
            continue
        if text not in DESCRIBED and difference(trips(), text):
            wrong.append(text)
    assert [text for text, _ in refused] == list(REFUSED_OF_ANALYSTS)
    assert all(reason in told for (_, told), reason in zip(refused, REFUSED_OF_ANALYSTS.values(), strict=True))
    # A bin that a condition cuts has no one answer: these have bounds, which the tests below hold against raw rows.
    assert set(wrong) <= {*CUT_TRIPS, "SELECT COUNT(*) FROM trips WHERE fare > (SELECT AVG(fare) FROM trips)"}


def test_enough_statements_are_checked() -> None:
    assert len({*OF_PEOPLE, *ORDERED, *IN_ORDER, *DATED, *OF_TRIPS, *OF_ORDERS, *_TOOLS, *_OFFICES}) >= LEAST_STATEMENTS


def bounds(table: Exact, texts: Sequence[str], amount: float, within: str, seed: int) -> tuple[int, list[str]]:
    """Statements on a wrong hypothesis with a true certificate, against rows that lie anywhere in their bins."""
    view, raw = table.blurred(amount, seed), table.raw(within, seed)
    checked, found = 0, []
    for text in texts:
        try:
            statement = compile_sql(text, table.domain)
        except QueryError:
            continue
        result = statement.run(view.answer, records=ROWS, tighten=view.answer)
        public = [isinstance(field.expr.known, Bins) for field in statement.fields]
        count, missed = misses(table, raw, text, result, public)
        checked += count
        found += missed
    return checked, found


def test_bounds_hold_on_raw_rows() -> None:
    checked, found = bounds(people(), [*OF_PEOPLE[::3], *CUT[::2]], 0.05, "ends", 1)
    for within in ("low", "ends"):
        few, wrong = bounds(people(), SHAPES, 0.003, within, 6)
        checked, found = checked + few, [*found, *wrong]
        assert few >= 25, "their bounds say something"
    tables = (
        (calendar(), DATED, "even"),
        (trips(), [*OF_TRIPS[::5], *CUT_TRIPS], "ends"),
        (orders(), OF_ORDERS, "even"),
        (stays(), OF_STAYS[::6], "ends"),
        (staff(), OF_STAFF[::6], "even"),
    )
    for number, (table, texts, within) in enumerate(tables, start=2):
        more, others = bounds(table, texts, 0.05, within, number)
        checked, found = checked + more, [*found, *others]
    assert not found, "\n".join(found[:5])
    assert checked >= LEAST_BOUNDS // 4


@pytest.mark.slow
@pytest.mark.parametrize("within", ["even", "low", "ends"])
@pytest.mark.parametrize("amount", [0.0, 0.03, 0.5])
def test_all_bounds_hold_on_raw_rows(amount: float, within: str) -> None:
    checked, found = bounds(people(), [*OF_PEOPLE, *ORDERED, *IN_ORDER, *CUT], amount, within, 3)
    for table, texts in (
        (calendar(), DATED),
        (trips(), [*OF_TRIPS, *CUT_TRIPS, *MORE_OF_TRIPS]),
        (orders(), OF_ORDERS),
        (stays(), OF_STAYS),
        (staff(), OF_STAFF),
    ):
        more, others = bounds(table, texts, amount, within, 4)
        checked, found = checked + more, [*found, *others]
    assert not found, "\n".join(found[:5])
    assert checked >= LEAST_BOUNDS


def test_the_check_of_bounds_can_fail() -> None:
    """A certificate that claims a thousandth of the error: misses are seen."""
    table = people()
    view = table.blurred(0.2, 5)
    certificate = view.knowledge.certificates[0]
    thousandth = replace(certificate, reading=certificate.reading / 1000)
    shrunk = Published.of(view.knowledge.current, view.records, (thousandth,))
    raw, missed = table.raw("even", 5), []
    for text in OF_PEOPLE[::10]:
        statement = compile_sql(text, table.domain)
        result = statement.run(shrunk.answer, records=ROWS, tighten=shrunk.answer)
        public = [isinstance(field.expr.known, Bins) for field in statement.fields]
        missed += misses(table, raw, text, result, public)[1]
    assert len(missed) >= 10
