"""The text of a person's identifier, the same in every engine for texts, whole numbers and UUIDs.

It only decides how the hash of a person's rows differs from that of another person's (docs/proofs/bounded-rows.md).
Persons are told apart by the engine's own comparison, never by this text.
"""

from __future__ import annotations

from reticent.domain.values import NAMED_BITS, NAMED_MOST
from reticent.sources.dialects import Dialect
from reticent.sources.engine import ColumnType, Kind

_WHOLE = r"^(-?[0-9]+)(\.0*)?$"


def identifier_text(column: str, kind: ColumnType, dialect: Dialect) -> str:
    """SQL for the text of an identifier that is present; `reticent.domain.values.name_of` is the same for one cell."""
    if kind.named is not None:
        return dialect.quoted(kind.named)
    if kind.kind == "boolean":
        return f"CASE WHEN {column} THEN '1' ELSE '0' END"
    if kind.kind == "float":
        return _fraction(f"CAST({column} AS {dialect.double})", dialect)
    if kind.kind == "decimal":
        text = dialect.as_text(column)
        digits, rounded = dialect.replaced(text, _WHOLE, (1,)), dialect.as_double(column, wide=True)
        whole = f"WHEN {column} = 0 THEN '0' WHEN {dialect.matches(text, _WHOLE)} THEN {digits}"
        return f"CASE {whole} ELSE {_fraction(rounded, dialect)} END"
    if kind.kind in ("date", "timestamp", "instant"):
        return _microsecond(column, kind, dialect)
    return dialect.as_text(column)


def _fraction(double: str, dialect: Dialect) -> str:
    """The digits of the floor, then those of the fraction in steps that doubles multiply without rounding."""
    most = float(NAMED_MOST)
    clipped = f"LEAST(GREATEST({double}, {dialect.number(-most)}), {dialect.number(most)})"
    floor = f"CAST(FLOOR({clipped}) AS {dialect.bigint})"
    rest = f"({clipped} - CAST({floor} AS {dialect.double})) * {dialect.number(float(1 << NAMED_BITS))}"
    steps = f"CAST(FLOOR({rest}) AS {dialect.bigint})"
    whole, part = (f"CAST({number} AS {dialect.text})" for number in (floor, steps))
    return f"CASE WHEN {clipped} = FLOOR({clipped}) THEN {whole} ELSE CONCAT({whole}, '+', {part}) END"


def _microsecond(column: str, kind: ColumnType, dialect: Dialect) -> str:
    """Microseconds since 1970; clipped to Python's calendar, because engines have infinite dates."""
    time = dialect.as_microseconds(column) if kind.wide else column
    first, last = _calendar(kind.kind, dialect)
    finite = f"LEAST(GREATEST({time}, {first}), {last})"
    if kind.kind == "date":
        found = f"CAST({dialect.days(finite)} AS {dialect.bigint}) * 86400000000"
    else:
        found = dialect.microseconds(finite, kind.kind)
    # As doubles, which are what Python's readers give.
    return f"CAST(CAST(CAST({found} AS {dialect.double}) AS {dialect.bigint}) AS {dialect.text})"


def _calendar(kind: Kind, dialect: Dialect) -> tuple[str, str]:
    if kind == "date":
        return dialect.date("0001-01-01"), dialect.date("9999-12-31")
    literal = dialect.instant if kind == "instant" else dialect.timestamp
    return literal("0001-01-01 00:00:00.000000"), literal("9999-12-31 23:59:59.999999")
