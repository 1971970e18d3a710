"""The custodian learns exactly what did not fit, and is told not to publish it."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pytest

from reticent.custodian import WARNING, check
from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.errors import SourceError

DOMAIN = Domain(
    age=Numeric(edges=[0, 18, 65], whole=True),
    sex=Categorical(["f", "m"]),
    visits=Integer(3),
    seen=Numeric(edges=[date(2000, 1, 1), date(2020, 12, 31)], nullable=True),
)
ROWS = pa.table(
    {
        "age": ["17", "65", "65.5", "66", "-1", "x", None],
        "sex": ["f", "m", "F", None, "m", "m", ""],
        "visits": [0.0, 1.5, 2.0, 3.0, -1.0, float("nan"), None],
        "seen": [datetime(2020, 12, 31, 23), datetime(2021, 1, 1), None, None, None, None, datetime(1999, 1, 1)],
        "who": ["a", "a", "b", None, "c", "c", None],
    }
)
EXPECTED = {"age": (1, 1, 2), "sex": (1, 2, 0), "visits": (2, 3, 0), "seen": (4, 0, 2)}


def test_counts_of_what_did_not_fit() -> None:
    found = check(ROWS, DOMAIN, person="who", records=4)
    assert {fit.attribute: (fit.null, fit.unfit, fit.outside) for fit in found.attributes} == EXPECTED
    assert (found.rows, found.units, found.nameless) == (7, 3, 2)
    assert not any(fit.fits for fit in found.attributes)
    text = str(found)
    assert text.startswith(WARNING)
    assert "records=4 was declared but there are 3" in text
    assert "2 rows name no person" in text
    assert found.to_dict()["warning"] == WARNING


def test_records_as_the_unit() -> None:
    found = check(ROWS, DOMAIN, records=7)
    assert (found.rows, found.units, found.nameless) == (7, 7, 0)
    assert "declared" not in str(found)


def test_a_fitting_table() -> None:
    rows = pa.table({"a": [0, 1, 2]})
    assert check(rows, Domain(a=3)).attributes[0].fits


def test_missing_columns_are_named() -> None:
    with pytest.raises(SourceError, match="no column 'b'"):
        check(pa.table({"a": [1]}), Domain(a=3, b=2))
