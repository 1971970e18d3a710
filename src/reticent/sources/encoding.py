"""The rule of `Attribute.encode` as SQL: one expression per attribute, the same in every engine.

Numbers are compared as doubles, times in the column's own type against converted edges, text byte by byte. A binary
tree of comparisons finds the bin or category, so a hundred of them cost seven comparisons per row. Where an engine
takes longer to plan a long tree than to look a text up, lists of texts are looked up.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.domain import Attribute, Categorical, Integer, Numeric, Undeclared
from reticent.domain.numeric import HALF, STEPS, has_positions, spans
from reticent.domain.values import EXACT_FLOAT, datetime_at
from reticent.sources.dialects import Dialect
from reticent.sources.engine import ColumnType, Kind
from reticent.sources.readings import ColumnReading, read, rewritten, spellings, text_behind

FEW_TEXTS = 64
"""A tree of so many comparisons takes DuckDB a fortieth of a second to plan."""
_PREPARED = "__reticent_text"
_DAY = 86_400_000_000
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_MICROSECOND = (datetime.datetime.min - _EPOCH) // datetime.timedelta(microseconds=1)
_LAST_MICROSECOND = (datetime.datetime.max - _EPOCH) // datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Coding:
    """`prepared` columns first, then `projected` ones, then `code` and `status` over these.

    An engine therefore rewrites and reads each text only once (`readings_of`).
    """

    prepared: tuple[str, ...]
    projected: tuple[str, ...]
    code: str
    status: str
    """For the custodian: 0 fits, 1 null, 2 fits nowhere, 3 outside the edges."""
    position: str = ""
    """Where in its bin a number lies (`reticent.domain.numeric`), over the projected columns and the code as c0, c1,
    ...; empty for attributes without."""


def coding(attribute: Attribute, column: str, kind: ColumnType, dialect: Dialect, place: int) -> Coding:
    """The rule for one attribute over one column; `place` makes the names of projected columns unique."""
    column = dialect.quoted(column)
    reading, misfit = f"r{place}", f"m{place}"
    if kind.stored is not None:
        code, status, position = map(dialect.quoted, kind.stored)
        projected = f"{code} AS {reading}", f"{status} AS {misfit}"
        if not has_positions(attribute):
            return Coding((), projected, reading, misfit)
        return Coding((), (*projected, f"{position} AS p{place}"), reading, misfit, f"p{place}")
    text, prepared = text_behind(attribute, column, kind, dialect), ()
    if text is not None and attribute.rules is not None:
        prepared, text = (f"{rewritten(attribute, text, dialect)} AS {_PREPARED}{place}",), f"{_PREPARED}{place}"
    read_as = read(attribute, column, text, kind, dialect)
    projected = [f"{read_as.sql} AS {reading}"]
    missing = str(attribute.missing_code)
    null = "1"
    if read_as.misfit is not None:
        projected.append(f"{read_as.misfit} AS {misfit}")
        missing = f"CASE WHEN {misfit} THEN {attribute.misfit_code} ELSE {attribute.missing_code} END"
        null = f"CASE WHEN {misfit} THEN 2 ELSE 1 END"
    if isinstance(attribute, Undeclared):
        return Coding(prepared, tuple(projected), "0", "0")
    if isinstance(attribute, Numeric):
        code, status = _bins(attribute, reading, read_as, dialect)
    else:
        code = _members(attribute, reading, read_as, dialect, unknown=attribute.misfit_code)
        status = f"CASE WHEN {_members(attribute, reading, read_as, dialect, unknown=-1)} < 0 THEN 2 ELSE 0 END"
    position = _position(attribute, reading, read_as, dialect, f"c{place}") if has_positions(attribute) else ""
    absent = " OR ".join([f"{reading} IS NULL", *_marks(attribute, reading, read_as.kind, dialect)])
    return Coding(
        prepared,
        tuple(projected),
        f"CASE WHEN {absent} THEN {missing} ELSE {code} END",
        f"CASE WHEN {absent} THEN {null} ELSE {status} END",
        position,
    )


def readings_of(
    codings: Iterable[Coding], relation: str, dialect: Dialect, others: Iterable[str] = (), where: str = ""
) -> str:
    """A subquery of all expressions from which codes are computed, and of other columns."""
    made = list(codings)
    projected = ", ".join([*others, *(part for each in made for part in each.projected)]) or "0 AS nothing"
    prepared = ", ".join(part for each in made for part in each.prepared)
    if not prepared:
        return f"SELECT {projected} FROM {relation}{where}"
    inner = f"SELECT *, {prepared} FROM {relation}{where}{dialect.barrier}"
    return f"SELECT {projected} FROM ({inner}) AS prepared{dialect.barrier}"


def value_of(attribute: Undeclared, column: str, kind: ColumnType, dialect: Dialect) -> tuple[Coding, str]:
    """For an undeclared column: the projected columns, and SQL over them for its text, number or seconds.

    Null if there is no such reading, or if it marks a missing value.
    """
    if kind.read:  # the frame's cells were read one by one
        return Coding((), (f"{dialect.quoted(column)} AS r0",), "0", "0"), "r0"
    made = coding(attribute, column, kind, dialect, 0)
    behind = text_behind(attribute, dialect.quoted(column), kind, dialect)
    read_as = read(attribute, dialect.quoted(column), behind, kind, dialect)
    value = "r0"
    if attribute.kind in ("date", "datetime"):
        value = dialect.seconds("r0", read_as.kind)
    elif attribute.kind == "text" and read_as.kind != "text":
        return made, rewritten(attribute, _digits(read_as.kind, dialect), dialect)
    marks = _marks(attribute, "r0", read_as.kind, dialect)
    return made, f"CASE WHEN {' OR '.join(marks)} THEN NULL ELSE {value} END" if marks else value


def _digits(kind: Kind, dialect: Dialect) -> str:
    """The text of a whole number or a date; null for any other number (`values.text_of`)."""
    if kind == "date":
        return dialect.iso_date("r0")
    if kind == "integer":
        return dialect.as_text("r0")
    small = f"ABS(r0) < {dialect.whole(EXACT_FLOAT)}"
    if kind == "decimal":  # some engines lose digits when they compare with a floor; their text has all of them
        text, whole = dialect.as_text("r0"), r"^(-?[0-9]+)(\.0*)?$"
        digits = dialect.replaced(text, whole, (1,))
        return f"CASE WHEN r0 = 0 THEN '0' WHEN {small} AND {dialect.matches(text, whole)} THEN {digits} END"
    return f"CASE WHEN {small} AND r0 = FLOOR(r0) THEN CAST(CAST(r0 AS {dialect.bigint}) AS {dialect.text}) END"


def _marks(attribute: Attribute, reading: str, kind: Kind, dialect: Dialect) -> list[str]:
    """Conditions under which a reading marks a missing value; marks in text are already removed."""
    rules = attribute.rules
    if rules is None or kind == "text":
        return []
    if rules.kind == "dates":
        bounds = [(day, day + 1) for day in sorted(rules.missing_numbers)]
        return [
            f"(NOT {_before(first, True, reading, kind, dialect)} AND {_before(next_, True, reading, kind, dialect)})"
            for first, next_ in bounds
        ]
    if rules.kind == "numbers":
        return [f"{reading} = {dialect.number(number)}" for number in sorted(rules.missing_numbers)]
    # Text categories over a column of numbers or dates, which keeps its own type.
    listed = _literals(((text, 0) for text in rules.missing_texts), kind, dialect)
    return [f"{reading} = {literal}" for _, literal, _ in sorted(listed)]


def _bins(attribute: Numeric, reading: str, read_as: ColumnReading, dialect: Dialect) -> tuple[str, str]:
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


def _position(attribute: Attribute, reading: str, read_as: ColumnReading, dialect: Dialect, code: str) -> str:
    """The formula of `reticent.domain.numeric`."""
    assert isinstance(attribute, Numeric), "only numbers have positions"
    low, width = (_looked_up(ends, code, dialect) for ends in spans(attribute))
    number = _clipped(attribute, reading, read_as, dialect)
    scaled = f"(({number} - {low}) + {width}) / {width} * {dialect.number(float(STEPS))}"
    found = f"GREATEST(LEAST(FLOOR({scaled} - {dialect.number(STEPS - 0.5)}), {STEPS}), 0)"
    unknown = f"{reading} IS NULL OR {code} >= {attribute.known}"
    return f"CASE WHEN {unknown} THEN {HALF} ELSE CAST({found} AS {dialect.bigint}) END"


def _looked_up(ends: np.ndarray, code: str, dialect: Dialect) -> str:
    numbers = [dialect.number(end) for end in ends.tolist()]
    return numbers[0] if len(set(numbers)) == 1 else dialect.element(numbers, code)


def _clipped(attribute: Numeric, reading: str, read_as: ColumnReading, dialect: Dialect) -> str:
    """The reading as a double, rounded down if the attribute is whole, clipped to the edges."""
    number = reading if attribute.kind == "number" else _count(attribute, reading, read_as.kind, dialect)
    first, last = map(dialect.number, attribute.bounds)
    clipped = f"LEAST(GREATEST({number}, {first}), {last})"
    # Whole attributes have whole edges, so the order changes nothing; Spark's FLOOR of a huge number overflows.
    return f"FLOOR({clipped})" if attribute.whole else clipped


def _count(attribute: Numeric, reading: str, kind: Kind, dialect: Dialect) -> str:
    """Days or microseconds since 1970, as a double; clipped first, because engines have infinite dates."""
    low, high = (_least_microsecond(cut, attribute.kind == "date") for cut in attribute.bounds)
    ends = _moment(low, kind, dialect), _moment(-(-high // _DAY) * _DAY, kind, dialect)
    finite, day = f"LEAST(GREATEST({reading}, {ends[0]}), {ends[1]})", dialect.number(float(_DAY))
    if kind == "date":
        days = f"CAST({dialect.days(finite)} AS {dialect.double})"
        return days if attribute.kind == "date" else f"({days} * {day})"
    microseconds = f"CAST({dialect.microseconds(finite, kind)} AS {dialect.double})"
    return f"({microseconds} / {day})" if attribute.kind == "date" else microseconds


def _tree(below: Sequence[str], low: int, high: int) -> str:
    """The number of thresholds at or below the value; `below[i]` states that it is below threshold i."""
    if low == high:
        return str(low)
    middle = (low + high) // 2
    return f"CASE WHEN {below[middle]} THEN {_tree(below, low, middle)} ELSE {_tree(below, middle + 1, high)} END"


def _below(cut: float, attribute: Numeric, reading: str, kind: Kind, dialect: Dialect) -> str:
    """Whether the reading, floored if the attribute is whole, is less than the cut."""
    if attribute.kind == "number":
        return f"{reading} < {dialect.number(float(cut))}"
    return _before(cut, attribute.kind == "date", reading, kind, dialect)


def _before(cut: float, days: bool, reading: str, kind: Kind, dialect: Dialect) -> str:
    """Whether an instant lies before a cut, in days or in microseconds since 1970."""
    microsecond = _least_microsecond(cut, days)
    if kind == "date":
        microsecond = -(-microsecond // _DAY) * _DAY
    if microsecond > _LAST_MICROSECOND:
        return f"{reading} IS NOT NULL"
    return f"{reading} < {_moment(microsecond, kind, dialect)}"


def _moment(microsecond: int, kind: Kind, dialect: Dialect) -> str:
    """A literal of a column's own type, within the years of Python's calendar."""
    moment = datetime_at(min(max(microsecond, _FIRST_MICROSECOND), _LAST_MICROSECOND))
    if kind == "date":
        return dialect.date(moment.date().isoformat())
    literal = dialect.instant if kind == "instant" else dialect.timestamp
    return literal(moment.isoformat(sep=" ", timespec="microseconds"))


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


def _members(attribute: Attribute, reading: str, read_as: ColumnReading, dialect: Dialect, *, unknown: int) -> str:
    if isinstance(attribute, Integer):
        whole = f"{reading} >= 0 AND {reading} < {attribute.size} AND {reading} = FLOOR({reading})"
        return f"CASE WHEN {whole} THEN CAST({reading} AS {dialect.bigint}) ELSE {unknown} END"
    assert isinstance(attribute, Categorical)
    listed = _comparable(attribute, read_as.kind, dialect)
    if read_as.kind == "text" and len(listed) > FEW_TEXTS and (found := _listed_code(reading, listed, dialect)):
        return f"COALESCE({found}, {unknown})"
    return _search(reading, [(literal, code) for _, literal, code in sorted(listed)], unknown)


def _listed_code(reading: str, listed: Sequence[tuple[object, str, int]], dialect: Dialect) -> str | None:
    """The code of a text, or NULL, where the engine looks texts up; several texts may have one code."""
    place = dialect.place_of(reading, [literal for _, literal, _ in listed])
    codes = [code for _, _, code in listed]
    if place is None or codes == list(range(len(codes))):
        return place
    return dialect.element([str(code) for code in codes], place)


def _comparable(attribute: Categorical, kind: Kind, dialect: Dialect) -> list[tuple[object, str, int]]:
    """The categories that a column of this kind can hold, as (sort key, literal, code)."""
    values = enumerate(attribute.values)
    if attribute.kind == "numbers":
        return [(float(value), dialect.number(float(value)), code) for code, value in values]
    if attribute.kind == "truth values":
        return [(value, "TRUE" if value else "FALSE", code) for code, value in values]
    return _literals(spellings(attribute).items(), kind, dialect)


def _literals(texts: Iterable[tuple[str, int]], kind: Kind, dialect: Dialect) -> list[tuple[object, str, int]]:
    """The texts that a value in a column of this kind can have."""
    found: list[tuple[object, str, int]] = []
    for value, code in texts:
        if kind == "text" and dialect.can_hold(value):
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
