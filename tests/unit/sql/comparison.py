"""What it takes for a row of ours to be DuckDB's."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import duckdb
from tests.unit.sql.sql_table import Exact

CLOSE = 1e-7


def plain(cell: Any) -> Any:
    """Numbers as floats, dates as text; infinity and NaN, which we call NULL, as None."""
    if isinstance(cell, (bool, str)) or cell is None:
        return cell
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    if isinstance(cell, (int, float, decimal.Decimal)):
        number = float(cell)
        return number if math.isfinite(number) else None
    raise TypeError(type(cell))


def alike(ours: Any, theirs: Any) -> bool:
    one, other = plain(ours), plain(theirs)
    if other is None and isinstance(one, float):
        return one == 0.0  # SUM of no records: noise cannot tell it from zero, so we say zero
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
    return type(one) is type(other) and one == other


def match(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return len(ours) == len(theirs) and all(map(alike, ours, theirs))


def difference(table: Exact, text: str, *, ordered: bool = False, meant: str = "") -> str:
    """Empty where our rows are DuckDB's, of `meant` if it reads the text otherwise; we may show more groups without
    records."""
    ours, theirs = table.rows(text), table.decoded.execute(meant or text).fetchall()
    if ordered:
        same = len(ours) == len(theirs) and all(map(match, ours, theirs))
        return "" if same else f"{text}: {ours[:3]} instead of {theirs[:3]}"
    left = list(theirs)
    for row in ours:
        found = next((other for other in left if match(row, other)), None)
        if found is not None:
            left.remove(found)
        elif "GROUP BY" not in text.upper() or any(cell for cell in row if isinstance(cell, float)):
            return f"{text}: {row} is not among {left[:3]}"
    return f"{text}: {left[:3]} is missing" if left else ""


def misses(
    table: Exact, raw: duckdb.DuckDBPyConnection, text: str, result: Any, public: list[bool]
) -> tuple[int, list[str]]:
    """How many stated bounds there are, and those that exclude what the raw rows say."""
    keys = [place for place, number in enumerate(result.aggregates) if not number]
    if any(public[place] for place in keys):
        return 0, []  # bins are shown by their texts, which raw rows do not have
    truth: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in raw.execute(text).fetchall():
        truth.setdefault(tuple(plain(row[place]) for place in keys), []).append(row)
    checked, found = 0, []
    for row, errors in zip(result.rows, result.errors, strict=True):
        theirs = truth.get(tuple(plain(row[place]) for place in keys), [])
        if len(theirs) != 1:
            continue
        for place, (cell, error) in enumerate(zip(row, errors, strict=True)):
            true = plain(theirs[0][place])
            if not result.aggregates[place] or error is None or cell is None or true is None:
                continue
            checked += 1
            if not _within(plain(cell), true, error):
                found.append(f"{text}: {cell} ± {error}, but {true}")
    return checked, found


def _within(cell: Any, true: Any, error: float) -> bool:
    if isinstance(cell, float) and isinstance(true, float):
        return abs(cell - true) <= error * (1 + CLOSE) + 1e-6
    if isinstance(cell, str) and isinstance(true, str) and error > 0:
        days = abs((_moment(cell) - _moment(true)).total_seconds()) / 86400
        return days <= error * (1 + CLOSE) + 1.0  # a date is shown by its day
    return cell == true


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)
