"""Every statement means what DuckDB says it means, on a view of the exact histogram."""

from __future__ import annotations

import math
from typing import Any

import pytest
from sql_statements import ORDERED, UNORDERED
from sql_table import connection, decoded

LEAST_STATEMENTS = 150


def expected(text: str) -> list[tuple[Any, ...]]:
    return connection().execute(text).fetchall()


def alike(ours: Any, theirs: Any) -> bool:
    if theirs is None and isinstance(ours, float):
        return ours == 0.0  # SUM of no records: noise cannot tell it from zero, so we say zero
    if isinstance(ours, float) and not isinstance(theirs, (bool, str)) and theirs is not None:
        return math.isclose(ours, float(theirs), rel_tol=1e-9, abs_tol=1e-9)
    return type(ours) is type(theirs) and ours == theirs


def match(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return len(ours) == len(theirs) and all(map(alike, ours, theirs))


@pytest.mark.parametrize("text", UNORDERED)
def test_the_rows_are_duckdbs(text: str) -> None:
    ours, left = decoded(text), expected(text)
    for row in ours:
        found = next((other for other in left if match(row, other)), None)
        if found is not None:
            left.remove(found)
        else:
            numbers = [cell for cell in row if isinstance(cell, float)]
            assert "GROUP BY" in text, f"{row} is not among {left}"
            assert not any(numbers), f"{row} is not a group of zero records"
    assert not left


@pytest.mark.parametrize("text", ORDERED)
def test_the_order_is_duckdbs(text: str) -> None:
    ours, theirs = decoded(text), expected(text)
    assert len(ours) == len(theirs)
    for row, other in zip(ours, theirs, strict=True):
        assert match(row, other), f"{row} instead of {other}"


def test_enough_statements_are_checked() -> None:
    assert len({*UNORDERED, *ORDERED}) >= LEAST_STATEMENTS
