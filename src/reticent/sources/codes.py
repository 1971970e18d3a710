"""The rule of `Attribute.encode` as SQL: one expression per attribute, the same in every engine.

Numbers are compared as doubles, times in the column's own type against edges moved to it, text byte by byte.
A binary tree of comparisons finds the bin or category, so a hundred of them cost seven comparisons a row.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

from reticent.domain import Attribute, Categorical, Integer, Numeric
from reticent.domain.values import EXACT_FLOAT, datetime_at
from reticent.sources.dialects import Dialect
from reticent.sources.engine import ColumnType, Kind
from reticent.sources.readings import Reading, read

_DAY = 86_400_000_000
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_MICROSECOND = (datetime.datetime.min - _EPOCH) // datetime.timedelta(microseconds=1)
_LAST_MICROSECOND = (datetime.datetime.max - _EPOCH) // datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Coding:
    """`projected` columns first, then `code` and `status` over them (an engine then reads each text only once)."""

    projected: tuple[str, ...]
    code: str
    status: str
    """For the custodian: 0 fits, 1 null, 2 fits nowhere, 3 outside the edges."""


def coding(attribute: Attribute, column: str, kind: ColumnType, dialect: Dialect, place: int) -> Coding:
    """The rule for one attribute over one column; `place` makes the names of projected columns unique."""
    column = dialect.quoted(column)
    reading, misfit = f"r{place}", f"m{place}"
    if kind.kind == "codes":
        return Coding(
            (f"{column} AS {reading}",), reading, f"CASE WHEN {reading} < {attribute.known} THEN 0 ELSE 2 END"
        )
    read_as = read(attribute, column, kind, dialect)
    projected = [f"{read_as.sql} AS {reading}"]
    missing = str(attribute.missing_code)
    null = "1"
    if read_as.misfit is not None:
        projected.append(f"{read_as.misfit} AS {misfit}")
        missing = f"CASE WHEN {misfit} THEN {attribute.misfit_code} ELSE {attribute.missing_code} END"
        null = f"CASE WHEN {misfit} THEN 2 ELSE 1 END"
    if isinstance(attribute, Numeric):
        code, status = _bins(attribute, reading, read_as, dialect)
    else:
        code = _members(attribute, reading, read_as, dialect, unknown=attribute.misfit_code)
        status = f"CASE WHEN {_members(attribute, reading, read_as, dialect, unknown=-1)} < 0 THEN 2 ELSE 0 END"
    return Coding(
        tuple(projected),
        f"CASE WHEN {reading} IS NULL THEN {missing} ELSE {code} END",
        f"CASE WHEN {reading} IS NULL THEN {null} ELSE {status} END",
    )


def _bins(attribute: Numeric, reading: str, read_as: Reading, dialect: Dialect) -> tuple[str, str]:
    first, *inner, last = attribute.cuts.tolist()
    beyond = last + 1 if attribute.whole else math.nextafter(last, math.inf)
    below = [_below(cut, attribute, reading, read_as.kind, dialect) for cut in inner]
    code = _tree(below, 0, len(inner))
    outside = (
        f"{_below(first, attribute, reading, read_as.kind, dialect)} "
        f"OR NOT {_below(beyond, attribute, reading, read_as.kind, dialect)}"
    )
    status = f"CASE WHEN {outside} THEN 3 ELSE 0 END"
    if attribute.outside == "other":
        code = f"CASE WHEN {outside} THEN {attribute.misfit_code} ELSE {code} END"
    return code, status


def _tree(below: Sequence[str], low: int, high: int) -> str:
    """The number of thresholds at or below the value; `below[i]` says that it is under threshold i."""
    if low == high:
        return str(low)
    middle = (low + high) // 2
    return f"CASE WHEN {below[middle]} THEN {_tree(below, low, middle)} ELSE {_tree(below, middle + 1, high)} END"


def _below(cut: float, attribute: Numeric, reading: str, kind: Kind, dialect: Dialect) -> str:
    """Whether the reading, floored if the attribute is whole, is less than the cut."""
    if attribute.kind == "number":
        return f"{reading} < {dialect.number(float(cut))}"
    microsecond = _least_microsecond(cut, attribute.kind == "date")
    if kind == "date":
        microsecond = -(-microsecond // _DAY) * _DAY
    if microsecond > _LAST_MICROSECOND:
        return f"{reading} IS NOT NULL"
    moment = datetime_at(max(microsecond, _FIRST_MICROSECOND))
    if kind == "date":
        return f"{reading} < {dialect.date(moment.date().isoformat())}"
    literal = dialect.instant if kind == "instant" else dialect.timestamp
    return f"{reading} < {literal(moment.isoformat(sep=' ', timespec='microseconds'))}"


def _least_microsecond(cut: float, days: bool) -> int:
    """The first microsecond whose float reading reaches the cut; far from 1970 that reading is rounded."""

    def reaches(microsecond: int) -> bool:
        return (math.floor(float(microsecond) / _DAY) if days else float(microsecond)) >= cut

    microsecond = int(cut) * (_DAY if days else 1)
    while not reaches(microsecond):
        microsecond += 1
    while reaches(microsecond - 1):
        microsecond -= 1
    return microsecond


def _members(attribute: Attribute, reading: str, read_as: Reading, dialect: Dialect, *, unknown: int) -> str:
    if isinstance(attribute, Integer):
        whole = f"{reading} >= 0 AND {reading} < {attribute.size} AND {reading} = FLOOR({reading})"
        return f"CASE WHEN {whole} THEN CAST({reading} AS {dialect.bigint}) ELSE {unknown} END"
    assert isinstance(attribute, Categorical)
    listed = sorted(_comparable(attribute, read_as.kind, dialect))
    return _search(reading, [(literal, code) for _, literal, code in listed], unknown)


def _comparable(attribute: Categorical, kind: Kind, dialect: Dialect) -> list[tuple[object, str, int]]:
    """The categories that a column of this kind can hold, as (sort key, literal, code)."""
    found: list[tuple[object, str, int]] = []
    for code, value in enumerate(attribute.values):
        if attribute.kind == "numbers":
            found.append((float(value), dialect.number(float(value)), code))
        elif attribute.kind == "truth values":
            found.append((value, "TRUE" if value else "FALSE", code))
        elif kind == "text" and dialect.can_hold(value):
            found.append((value.encode(), dialect.literal(value), code))
        elif kind == "date" and (day := _iso_date(value)):
            found.append((day, dialect.date(day), code))
        elif kind in ("integer", "decimal", "float") and (number := _plain_integer(value, kind)) is not None:
            literal = dialect.number(float(number)) if kind == "float" else dialect.whole(number)
            found.append((number, literal, code))
    return found


def _search(reading: str, listed: Sequence[tuple[str, int]], unknown: int) -> str:
    if not listed:
        return str(unknown)
    if len(listed) <= 3:
        branches = " ".join(f"WHEN {reading} = {literal} THEN {code}" for literal, code in listed)
        return f"CASE {branches} ELSE {unknown} END"
    middle = len(listed) // 2
    lower, upper = _search(reading, listed[:middle], unknown), _search(reading, listed[middle:], unknown)
    return f"CASE WHEN {reading} < {listed[middle][0]} THEN {lower} ELSE {upper} END"


def _iso_date(text: str) -> str | None:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    return text if day.isoformat() == text else None


def _plain_integer(text: str, kind: Kind) -> int | None:
    """The integer whose text this is in a column of the kind; `01` and `+1` are no number's text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 40):
        return None
    number = int(text)
    fits = number.bit_length() <= 127 if kind == "integer" else abs(number) < EXACT_FLOAT
    return number if fits and str(number) == text else None
