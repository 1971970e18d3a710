"""Intervals of quantiles against every table of counts that the bounds allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import ceil, floor

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reticent as rt
from reticent.sql.distribution import Cells, QuantileExpr
from reticent.sql.expressions import Expr, Run
from reticent.sql.intervals import Interval
from reticent.sql.reduction import order_statistic
from reticent.sql.vectors import NUMBER

LEVELS = (0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.999, 1.0)
HOW = ("from the smallest", "from the largest", "between")


@dataclass(frozen=True, eq=False)
class Given(Expr):
    """Counts that are what a test says."""

    counts: Interval
    rows: int
    kind: str = NUMBER
    children: tuple[Expr, ...] = field(default=())

    def evaluate(self, run: Run) -> Interval:
        return self.counts


def quantile(lows: list[float], highs: list[float], total: tuple[float, float], part: float, how: str) -> Interval:
    """The interval of one group whose bins 0, 1, 2, ... hold so many records."""
    low, high = np.array(lows), np.array(highs)
    counted = Given(Interval(np.where(np.isinf(high), low, (low + high) / 2), low, high), len(low))
    cells = Cells(counted, np.zeros(len(low), dtype=int), np.arange(len(low)), (1, len(low)))
    codes = np.arange(len(low), dtype=float)
    summed = Given(Interval(np.array([sum(total) / 2]), np.array([total[0]]), np.array([total[1]])), 1)
    descending = how == "from the largest"
    turned = 1 - part if descending else part
    expr = QuantileExpr(cells, codes, codes, codes, turned, how == "between", descending, (), summed, 1, NUMBER)
    return Run([], Interval.exactly(10.0, 1), whole=True).numbers(expr)


def truth(counts: tuple[int, ...], part: float, how: str) -> float:
    numbers = np.repeat(np.arange(len(counts), dtype=float), counts)
    if how == "from the largest":
        return -order_statistic(-numbers, part, False)
    return order_statistic(numbers, part, how == "between")


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(-0.99, 1.6), st.floats(-0.99, 1.6)), min_size=2, max_size=4),
    st.floats(0.0, 1.5),
    st.booleans(),
)
def test_every_table_within_the_bounds_has_its_quantile_in_the_interval(
    bins: list[tuple[int, float, float]], room: float, bounded: bool
) -> None:
    lows = [max(count - max(less, 0.0), 0.0) for count, less, _ in bins]
    highs = [count + max(more, 0.0) for count, _, more in bins]
    records = sum(count for count, _, _ in bins)
    least, most = max(records - room, 0.0), records + room
    ranges = [range(ceil(low), floor(high) + 1) for low, high in zip(lows, highs, strict=True)]
    tables = [counts for counts in product(*ranges) if sum(counts) and least <= sum(counts) <= most]
    for part, how in product(LEVELS, HOW):
        stated = highs if bounded else [float("inf")] * len(highs)
        found = quantile(lows, stated, (least, most), part, how)
        for counts in tables:
            assert found.low[0] <= truth(counts, part, how) <= found.high[0], (counts, part, how)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any),
    st.sampled_from(LEVELS),
    st.sampled_from(HOW),
)
def test_exact_counts_have_exact_quantiles(counts: list[int], part: float, how: str) -> None:
    exact = [float(count) for count in counts]
    found = quantile(exact, exact, (sum(exact), sum(exact)), part, how)
    codes = np.repeat(np.arange(len(counts)), counts)
    if how != "between":
        assert found.low[0] == found.high[0] == truth(tuple(counts), part, how)
    else:
        # Between two records the interval keeps both of them.
        place = (len(codes) - 1) * part
        assert found.low[0] == codes[floor(place + 1e-9)]
        assert found.high[0] == codes[ceil(place - 1e-9)]


@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("order", ["", " DESC"])
def test_quantiles_of_public_rows_are_those_of_duckdb(level: float, order: str) -> None:
    rows = pa.table({"x": [0, 1, 2, 3] * 50})
    table = rt.Table.of(rows, rt.Domain(x=4))
    sql = (
        f"SELECT PERCENTILE_DISC({level}) WITHIN GROUP (ORDER BY n{order}),"
        f" PERCENTILE_CONT({level}) WITHIN GROUP (ORDER BY n{order}) FROM (VALUES (1), (2), (3), (4), (7)) AS v(n)"
    )
    with rt.Session.open(None, table, rt.Budget(rho=1)) as session:
        found = session.ask(sql)
    assert [tuple(map(float, row)) for row in found.rows] == [tuple(map(float, duckdb.sql(sql).fetchall()[0]))]


@pytest.mark.parametrize("level", [0.9, 0.99, 0.999, 1.0])
def test_the_largest_record_lies_within_the_condition(level: float) -> None:
    rows = pa.table({"kids": [0] * 500 + [1] * 500 + [2] * 500})
    with rt.Session.open(None, rt.Table.of(rows, rt.Domain(kids=4)), rt.Budget(rho=50), warm_start=0.5) as session:
        for how in ("DISC", "CONT"):
            found = session.ask(f"SELECT QUANTILE_{how}(kids, {level}) FROM t WHERE kids <= 1")
            assert (found.rows, found.errors) == (((1.0,),), ((0.0,),))


def test_numbers_computed_of_conditions_stand_below_each_other() -> None:
    table = rt.Table.of(pa.table({"kids": [0, 1, 2] * 500}), rt.Domain(kids=4))
    part = "SELECT ABS(BOOL_OR(kids = 1)), ROUND(BOOL_AND(kids < 4), 1), -(COUNT(*) > 10) FROM t"
    with rt.Session.open(None, table, rt.Budget(rho=50), warm_start=0.5) as session:
        found = session.ask(f"{part} UNION ALL {part}")
    assert found.rows == ((1.0, 1.0, -1.0),) * 2


def test_the_largest_value_of_a_group_is_bounded_where_max_says() -> None:
    """MAX is of the declared values; its note names the question about the rows."""
    domain = rt.Domain(x=rt.Numeric(edges=[0, 10, 20, 30]), g=rt.Integer(2))
    rows = pa.table({"x": [5.0, 8.0, 12.0, 27.0] * 500, "g": [0, 0, 0, 1] * 500})
    with rt.Session.open(None, rt.Table.of(rows, domain), rt.Budget(rho=50), warm_start=0.5) as session:
        declared = session.ask("SELECT g, MAX(x), MIN(x) FROM t GROUP BY g")
        assert "QUANTILE_DISC(x, 1) bounds that of the rows" in declared.note
        assert "QUANTILE_DISC(x, 0) bounds that of the rows" in declared.note
        found = session.ask("SELECT g, QUANTILE_DISC(x, 1), QUANTILE_DISC(x, 0) FROM t GROUP BY g")
    for (_, most, least), (_, above, below), truth in zip(
        found.rows, found.errors, [(12.0, 5.0), (27.0, 27.0)], strict=True
    ):
        assert abs(most - truth[0]) <= above
        assert abs(least - truth[1]) <= below
