"""Quotients: `//` by the type of its columns, and divisors that are zero or may be."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.unit.sql.comparison import difference
from tests.unit.sql.sql_table import Exact

from reticent.domain import Categorical, Domain, Numeric
from reticent.errors import QueryError
from reticent.sql.intervals import Interval

DOMAIN = Domain(
    num=Categorical([-3, 1, 2.5, 10], other=False),
    null=Categorical([-3, 1, 2.5, 10], nullable=True),
    whole=Categorical([-3, 2, 7], other=False),
    w=Numeric(edges=[-1, 0, 1, 2], whole=True, other=False),
    v=Numeric(edges=[0, 10, 20], other=False),
)
ALIKE = [
    "SELECT SUM(num // 2), SUM(10 // num), SUM(num % 2) FROM t",
    "SELECT SUM(null // 2), SUM(10 // null), SUM(null % 2) FROM t",
    "SELECT SUM(whole // 2), SUM(7 // whole), SUM(whole % 2), SUM(whole // 2.0) FROM t",
    "SELECT num // 2 AS h, COUNT(*) FROM t GROUP BY 1",
    "SELECT num % 2 AS h, COUNT(*) FROM t GROUP BY 1",
    "SELECT whole // 2 AS h, COUNT(*) FROM t GROUP BY 1",
    "SELECT num // whole AS h, COUNT(*) FROM t GROUP BY 1",
    "SELECT CAST(num AS TEXT) AS h, COUNT(*) FROM t GROUP BY 1",
    "SELECT num // 2, COUNT(*) FROM (SELECT num FROM t) GROUP BY 1",
    "SELECT k // 2, n FROM (SELECT num AS k, COUNT(*) AS n FROM t GROUP BY 1)",
    "SELECT COUNT(*) FROM t WHERE num // 2 = -1.5",
]


@cache
def table() -> Exact:
    return Exact(DOMAIN, 4)


@pytest.mark.parametrize("text", ALIKE)
def test_whole_numbers_among_others_divide_as_their_column_does(text: str) -> None:
    assert not difference(table(), text)


@pytest.mark.parametrize("divided", ["1 / w", "1 // w", "5 % w", "w / w", "num / w", "POWER(w, -1)", "1.5 // w"])
def test_a_quotient_by_a_known_zero_is_null_and_nothing_else(divided: str) -> None:
    zeros = table().ask("SELECT COUNT(*) FROM t WHERE w = 0").rows
    missing = table().ask(f"SELECT COUNT(*) FROM t WHERE {divided} IS NULL")
    assert (missing.rows, missing.note) == (zeros, "")
    known = table().ask(f"SELECT COUNT({divided}) FROM t")
    assert known.rows == table().ask("SELECT COUNT(*) FROM t WHERE w <> 0").rows
    assert len(table().ask(f"SELECT SUM({divided}), AVG({divided}) FROM t").rows) == 1


@pytest.mark.parametrize("operation", [Interval.__truediv__, lambda one, other: (one / other).mapped(np.trunc)])
def test_what_is_certainly_null_has_no_bounds(operation: object) -> None:
    one = Interval(np.array([1.0, np.nan, 2.0]), np.array([0.5, np.nan, 2.0]), np.array([2.0, np.nan, 3.0]))
    other = Interval(np.array([0.0, 1.0, 1.0]), np.array([0.0, -1.0, -1.0]), np.array([0.0, 1.0, 1.0]))
    found = operation(one, other)  # type: ignore[operator]
    assert found.number.tolist() == [False, False, True]
    assert found.maybe_null.tolist() == [True, True, True]
    assert np.isnan(found.value).tolist() == [True, True, False]


@pytest.mark.parametrize(
    "aggregate",
    ["MEDIAN(x)", "AVG(x)", "QUANTILE_DISC(x, 0.3)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)", "STDDEV(x)"],
)
@pytest.mark.parametrize("x", ["CASE WHEN v < 5 THEN 1.5 END", "1 / (v - 5)", "NULLIF(v, 5)"])
def test_what_may_be_null_within_a_bin_has_no_bounded_statistic(aggregate: str, x: str) -> None:
    text = f"SELECT {aggregate.replace('x', x)} FROM t"
    with pytest.raises(QueryError, match=r"may be NULL within the bin \[0, 10\) of v"):
        table().ask(text)
    for other in ("1 / (v - 5)", "NULLIF(v, 5)"):
        assert len(table().ask(f"SELECT {aggregate.replace('x', other)} FROM t WHERE v >= 10").rows) == 1


EDGES = [
    "CASE WHEN v = 20 THEN 'end' ELSE 'other' END",
    "CASE WHEN v >= 20 THEN 'end' ELSE 'other' END",
    "CASE WHEN 20 > v THEN 'below' ELSE 'other' END",
    "CASE WHEN v IN (20, 21) THEN 1 ELSE 0 END",
    "CASE v WHEN 20 THEN 1 ELSE 0 END",
    "CASE WHEN v = 10 THEN 'middle' ELSE 'other' END",
    "IF(v = 20, 1, 0)",
    "COALESCE(CASE WHEN v = 20 THEN num END, 5)",
    "v = 20",
]


@pytest.mark.parametrize("key", EDGES)
def test_a_class_that_divides_a_bin_is_refused_at_every_edge(key: str) -> None:
    """Values at the upper edge of the last bin were counted in the other class, with certainty and a note."""
    with pytest.raises(QueryError, match=r"cuts|divides"):
        table().ask(f"SELECT {key} AS c, COUNT(*) FROM t GROUP BY c")


def test_rounded_values_and_conditions_that_leave_the_bin_out_still_divide_records() -> None:
    rounded = table().ask("SELECT FLOOR(v / 10) AS c, COUNT(*) FROM t GROUP BY c")
    assert [row[0] for row in rounded.rows] == [0, 1]
    assert "last bin" in rounded.note
    assert table().ask("SELECT CASE WHEN v = 20 THEN 1 ELSE 0 END AS c, COUNT(*) FROM t WHERE v < 10 GROUP BY c").rows
    assert table().ask("SELECT CASE WHEN v <= 20 THEN 1 ELSE 0 END AS c, COUNT(*) FROM t GROUP BY c").rows
