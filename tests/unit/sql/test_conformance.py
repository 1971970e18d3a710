"""Every statement means what DuckDB says it means on the exact table, and stated bounds hold on raw rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.published import Published
from tests.unit.sql.comparison import difference, misses
from tests.unit.sql.sql_breadth import AS_TYPED, CUT, DATED, IN_ORDER
from tests.unit.sql.sql_statements import ORDERED, UNORDERED
from tests.unit.sql.sql_table import ROWS, Exact, calendar, people

from reticent.errors import QueryError
from reticent.sql.statement import compile_sql
from reticent.sql.vectors import Bins

LEAST_STATEMENTS = 900
LEAST_BOUNDS = 1500
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


def test_enough_statements_are_checked() -> None:
    assert len({*OF_PEOPLE, *ORDERED, *IN_ORDER, *DATED}) >= LEAST_STATEMENTS


def bounds(table: Exact, texts: list[str], amount: float, within: str, seed: int) -> tuple[int, list[str]]:
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
    more, others = bounds(calendar(), DATED, 0.05, "even", 2)
    assert not [*found, *others], "\n".join([*found, *others][:5])
    assert checked + more >= LEAST_BOUNDS // 4


@pytest.mark.slow
@pytest.mark.parametrize("within", ["even", "low", "ends"])
@pytest.mark.parametrize("amount", [0.0, 0.03, 0.5])
def test_all_bounds_hold_on_raw_rows(amount: float, within: str) -> None:
    checked, found = bounds(people(), [*OF_PEOPLE, *ORDERED, *IN_ORDER, *CUT], amount, within, 3)
    more, others = bounds(calendar(), DATED, amount, within, 4)
    assert not [*found, *others], "\n".join([*found, *others][:5])
    assert checked + more >= LEAST_BOUNDS


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
