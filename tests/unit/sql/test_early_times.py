"""Times before 1970 are counted backwards: the last microsecond of a bin is below its upper edge, not at it."""

from __future__ import annotations

import datetime
from functools import cache

import pytest
from tests.unit.sql.comparison import difference
from tests.unit.sql.sql_table import Exact

from reticent.domain import Categorical, Domain, Numeric

FIRST = datetime.datetime(1969, 12, 30)
EARLY = Domain(
    seen=Numeric(edges=[FIRST + datetime.timedelta(hours=6 * step) for step in range(15)], other=False),
    born=Numeric(edges=[datetime.datetime(year, 1, 1) for year in (1900, 1920, 1931, 1950, 1970, 1980)], other=False),
    kind=Categorical(["a", "b"], other=False),
)
"""Edges at midnight and at New Year, before and after 1970-01-01."""


@cache
def early() -> Exact:
    return Exact(EARLY, 17)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DATE_TRUNC('day', seen) AS d, COUNT(*) AS n FROM t GROUP BY 1",
        "SELECT CAST(seen AS DATE) AS d, kind, COUNT(*) AS n FROM t GROUP BY 1, 2",
        "SELECT YEAR(seen) AS y, COUNT(*) AS n FROM t GROUP BY 1",
        "SELECT DAYOFWEEK(seen) AS w, COUNT(*) AS n FROM t GROUP BY 1",
        "SELECT YEAR(born) >= 1931 AS later, COUNT(*) AS n FROM t GROUP BY 1",
        "SELECT COUNT(*) AS n FROM t WHERE DATE_TRUNC('day', seen) = DATE '1969-12-31'",
        "SELECT COUNT(*) AS n FROM t WHERE YEAR(born) < 1970 AND CAST(seen AS DATE) < DATE '1970-01-01'",
    ],
)
def test_edges_before_1970_divide_days_and_years(text: str) -> None:
    """The largest number below an edge was rounded up to it, so that such a group was refused and such a condition cut
    a bin."""
    assert difference(early(), text) == ""
    assert "cuts" not in early().ask(text).note
