"""A reading is a column's value as a number, text, truth value or time, in SQL; null where there is none.

The mirror of `reticent.domain.values`, which says the same for single Python values.
"""

from __future__ import annotations

from dataclasses import dataclass

from reticent.domain import Attribute, Categorical, Numeric, Undeclared
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
class ColumnReading:
    """SQL for the reading, the kind of its result, and SQL for "present but unreadable" where that can happen."""

    sql: str
    kind: Kind
    misfit: str | None = None


def text_behind(attribute: Attribute, column: str, kind: ColumnType, dialect: Dialect) -> str | None:
    """SQL for the text that an attribute's reading begins with; None where the column is read in its own type."""
    if kind.kind == "text":
        return dialect.as_text(column)
    if kind.kind == "boolean" and isinstance(attribute, Categorical | Undeclared) and attribute.kind == "text":
        return f"CASE WHEN {column} THEN 'true' WHEN NOT {column} THEN 'false' END"
    formatted = attribute.rules is not None and bool(attribute.rules.formats)
    return dialect.as_text(column) if kind.kind == "integer" and formatted else None


def read(attribute: Attribute, column: str, text: str | None, kind: ColumnType, dialect: Dialect) -> ColumnReading:
    """The reading that an attribute asks of a column, or of the text behind it."""
    if isinstance(attribute, Numeric | Undeclared) and attribute.kind in ("date", "datetime"):
        return _time(column, text, kind, dialect)
    if isinstance(attribute, Categorical | Undeclared) and attribute.kind == "text":
        return _text(column, text, kind, dialect)
    if isinstance(attribute, Categorical) and attribute.kind == "truth values":
        return _truth(column, text, kind, dialect)
    return _number(column, text, kind, dialect)


def is_instant(text: str, dialect: Dialect) -> str:
    """Whether a text is the ISO text of an instant; year 0 exists in SQL calendars but not in Python's."""
    return f"({dialect.matches(text, INSTANT_PATTERN)} AND {text} NOT LIKE '0000%')"


def present(column: str, kind: ColumnType, dialect: Dialect) -> str:
    """Whether a row has a value at all; NaN counts as none."""
    nan = dialect.nan(kind.kind)
    return f"{column} IS NOT NULL" if nan is None else f"({column} IS NOT NULL AND {column} <> {nan})"


def _number(column: str, text: str | None, kind: ColumnType, dialect: Dialect) -> ColumnReading:
    if kind.kind in _NUMBERS:
        double = dialect.as_double(column, wide=kind.wide)
        return ColumnReading(
            double if dialect.nan(kind.kind) is None else f"NULLIF({double}, {dialect.nan('float')})", "float"
        )
    if kind.kind == "boolean":
        return ColumnReading(
            f"CAST(CASE WHEN {column} THEN 1 WHEN NOT {column} THEN 0 END AS {dialect.double})", "float"
        )
    if text is not None:
        matched = dialect.matches(text, NUMBER_PATTERN)
        reading = f"CASE WHEN {matched} THEN {dialect.parsed_double(text)} END"
        return ColumnReading(reading, "float", f"({text} IS NOT NULL AND NOT {matched})")
    return ColumnReading(f"CAST(NULL AS {dialect.double})", "float", present(column, kind, dialect))


def _time(column: str, text: str | None, kind: ColumnType, dialect: Dialect) -> ColumnReading:
    if kind.kind in _TIMES:
        return ColumnReading(dialect.as_microseconds(column) if kind.wide else column, kind.kind)
    if text is not None:
        matched = is_instant(text, dialect)
        reading = f"CASE WHEN {matched} THEN {dialect.parsed_timestamp(text)} END"
        return ColumnReading(reading, "timestamp", f"({text} IS NOT NULL AND NOT {matched})")
    return ColumnReading(f"CAST(NULL AS {dialect.plain_timestamp})", "timestamp", present(column, kind, dialect))


def _text(column: str, text: str | None, kind: ColumnType, dialect: Dialect) -> ColumnReading:
    """Whole numbers and dates stay what they are: categories are compared in the column's own type."""
    if text is not None:
        return ColumnReading(text, "text")
    if kind.kind in ("integer", "decimal", "float", "date"):
        nan = dialect.nan(kind.kind)
        return ColumnReading(column if nan is None else f"NULLIF({column}, {nan})", kind.kind)
    return ColumnReading(f"CAST(NULL AS {dialect.text})", "text", present(column, kind, dialect))


def _truth(column: str, text: str | None, kind: ColumnType, dialect: Dialect) -> ColumnReading:
    if kind.kind == "boolean":
        return ColumnReading(column, "boolean")
    given = present(column, kind, dialect)
    if text is not None:
        lowered, given = f"LOWER({text})", f"{text} IS NOT NULL"
        truth = f"CASE WHEN {lowered} = 'true' THEN TRUE WHEN {lowered} = 'false' THEN FALSE END"
    elif kind.kind in _NUMBERS:
        number = dialect.as_double(column, wide=kind.wide)
        truth = f"CASE WHEN {number} = 1 THEN TRUE WHEN {number} = 0 THEN FALSE END"
    else:
        truth = "CAST(NULL AS BOOLEAN)"
    return ColumnReading(truth, "boolean", f"({given} AND {truth} IS NULL)")
