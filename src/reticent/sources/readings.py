"""A reading is a column's value as a number, text, truth value or time, in SQL; null where there is none.

The mirror of `reticent.domain.values`, which says the same for single Python values.
"""

from __future__ import annotations

from dataclasses import dataclass

from reticent.domain import Attribute, Categorical, Numeric
from reticent.domain.values import NUMBER_PATTERN
from reticent.sources.dialects import Dialect
from reticent.sources.engine import ColumnType, Kind

_NUMBERS = ("integer", "decimal", "float")
_TIMES = ("date", "timestamp", "instant")

# Only real instants match, so that an engine without TRY_CAST can cast whatever is accepted here.
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_CALENDAR = (
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    f"|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
INSTANT_PATTERN = rf"^{_CALENDAR}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{{1,6}})?)?)?$"


@dataclass(frozen=True)
class Reading:
    """SQL for the reading, the kind of its result, and SQL for "present but unreadable" where that can happen."""

    sql: str
    kind: Kind
    misfit: str | None = None


def read(attribute: Attribute, column: str, kind: ColumnType, dialect: Dialect) -> Reading:
    """The reading that an attribute asks of a column."""
    if isinstance(attribute, Numeric) and attribute.kind != "number":
        return _time(column, kind, dialect)
    if isinstance(attribute, Categorical) and attribute.kind == "text":
        return _text(column, kind, dialect)
    if isinstance(attribute, Categorical) and attribute.kind == "truth values":
        return _truth(column, kind, dialect)
    return _number(column, kind, dialect)


def present(column: str, kind: ColumnType, dialect: Dialect) -> str:
    """Whether a row has a value at all; NaN counts as none."""
    nan = dialect.nan(kind.kind)
    return f"{column} IS NOT NULL" if nan is None else f"({column} IS NOT NULL AND {column} <> {nan})"


def _number(column: str, kind: ColumnType, dialect: Dialect) -> Reading:
    if kind.kind in _NUMBERS:
        double = dialect.as_double(column, wide=kind.wide)
        return Reading(
            double if dialect.nan(kind.kind) is None else f"NULLIF({double}, {dialect.nan('float')})", "float"
        )
    if kind.kind == "boolean":
        return Reading(f"CAST(CASE WHEN {column} THEN 1 WHEN NOT {column} THEN 0 END AS {dialect.double})", "float")
    given = present(column, kind, dialect)
    if kind.kind == "text":
        text = dialect.as_text(column)
        matched = dialect.matches(text, NUMBER_PATTERN)
        reading = f"CASE WHEN {matched} THEN {dialect.parsed_double(text)} END"
        return Reading(reading, "float", f"({given} AND NOT {matched})")
    return Reading(f"CAST(NULL AS {dialect.double})", "float", given)


def _time(column: str, kind: ColumnType, dialect: Dialect) -> Reading:
    if kind.kind in _TIMES:
        return Reading(dialect.as_microseconds(column) if kind.wide else column, kind.kind)
    given = present(column, kind, dialect)
    if kind.kind == "text":
        text = dialect.as_text(column)
        # Year 0 exists in SQL calendars but not in Python's.
        matched = f"({dialect.matches(text, INSTANT_PATTERN)} AND {text} NOT LIKE '0000%')"
        reading = f"CASE WHEN {matched} THEN {dialect.parsed_timestamp(text)} END"
        return Reading(reading, "timestamp", f"({given} AND NOT {matched})")
    return Reading(f"CAST(NULL AS {dialect.plain_timestamp})", "timestamp", given)


def _text(column: str, kind: ColumnType, dialect: Dialect) -> Reading:
    """Whole numbers and dates stay what they are: categories are compared in the column's own type."""
    if kind.kind == "text":
        return Reading(dialect.as_text(column), "text")
    if kind.kind in ("integer", "decimal", "float", "date"):
        nan = dialect.nan(kind.kind)
        return Reading(column if nan is None else f"NULLIF({column}, {nan})", kind.kind)
    if kind.kind == "boolean":
        return Reading(f"CASE WHEN {column} THEN 'true' WHEN NOT {column} THEN 'false' END", "text")
    return Reading(f"CAST(NULL AS {dialect.text})", "text", present(column, kind, dialect))


def _truth(column: str, kind: ColumnType, dialect: Dialect) -> Reading:
    if kind.kind == "boolean":
        return Reading(column, "boolean")
    if kind.kind == "text":
        lowered = f"LOWER({dialect.as_text(column)})"
        truth = f"CASE WHEN {lowered} = 'true' THEN TRUE WHEN {lowered} = 'false' THEN FALSE END"
    elif kind.kind in _NUMBERS:
        number = dialect.as_double(column, wide=kind.wide)
        truth = f"CASE WHEN {number} = 1 THEN TRUE WHEN {number} = 0 THEN FALSE END"
    else:
        truth = "CAST(NULL AS BOOLEAN)"
    return Reading(truth, "boolean", f"({present(column, kind, dialect)} AND {truth} IS NULL)")
