"""Readings: a column's value as a number, text, truth value or time, in SQL; null if there is none.

It mirrors `reticent.domain.values`, which defines the same for single Python values, and `reticent.domain.rules`, with
one expression for each text column.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from reticent.domain import Attribute, Categorical, Numeric, Undeclared
from reticent.domain.formats import FULL_MONTHS, MONTHS, NO_INSTANT, PIVOT, Format
from reticent.domain.rules import BLANKS, UNREADABLE, Rules, folding
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
    """SQL for the reading, the type of its result, and SQL for "present but unreadable" if that can happen."""

    sql: str
    kind: Kind
    misfit: str | None = None


def text_behind(attribute: Attribute, column: str, kind: ColumnType, dialect: Dialect) -> str | None:
    """SQL for the text from which an attribute's reading starts; None if the column is read in its own type."""
    if kind.kind == "text":
        return dialect.as_text(column)
    if kind.kind == "boolean" and isinstance(attribute, Categorical | Undeclared) and attribute.kind == "text":
        return f"CASE WHEN {column} THEN 'true' WHEN NOT {column} THEN 'false' END"
    formatted = attribute.rules is not None and bool(attribute.rules.formats)
    return dialect.as_text(column) if kind.kind == "integer" and formatted else None


def read(attribute: Attribute, column: str, text: str | None, kind: ColumnType, dialect: Dialect) -> ColumnReading:
    """The reading of a column, or of the text behind it, that an attribute needs."""
    if isinstance(attribute, Numeric | Undeclared) and attribute.kind in ("date", "datetime"):
        return _time(column, text, kind, dialect)
    if isinstance(attribute, Categorical | Undeclared) and attribute.kind == "text":
        return _text(column, text, kind, dialect)
    if isinstance(attribute, Categorical) and attribute.kind == "truth values":
        return _truth(column, text, kind, dialect)
    return _number(column, text, kind, dialect)


def _is_instant(text: str, dialect: Dialect) -> str:
    """Whether a text is the ISO text of an instant; year 0 exists in SQL calendars but not in Python's."""
    return f"({dialect.matches(text, INSTANT_PATTERN)} AND {text} NOT LIKE '0000%')"


def present(column: str, kind: ColumnType, dialect: Dialect) -> str:
    """Whether a row has a value; NaN counts as none."""
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
        matched = _is_instant(text, dialect)
        reading = f"CASE WHEN {matched} THEN {dialect.parsed_timestamp(text)} END"
        return ColumnReading(reading, "timestamp", f"({text} IS NOT NULL AND NOT {matched})")
    return ColumnReading(f"CAST(NULL AS {dialect.plain_timestamp})", "timestamp", present(column, kind, dialect))


def _text(column: str, text: str | None, kind: ColumnType, dialect: Dialect) -> ColumnReading:
    """The reading as text; whole numbers and dates keep their type, in which categories are compared."""
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


_ISO_LENGTH = len("2000-01-01 00:00:00.000000")


def rewritten(attribute: Attribute, text: str, dialect: Dialect) -> str:
    """SQL for the plain text of a text expression; null if the text is null or marks a missing value."""
    rules = attribute.rules
    if rules is None:
        return text
    stripped = dialect.trimmed(text, BLANKS) if rules.strip else text
    if isinstance(attribute, Undeclared) and rules.kind == "text":
        return _otherwise(_key(stripped, rules, None, dialect), rules, rules.alias_texts, "", dialect)
    if rules.kind == "text":
        # Aliases are looked up among the categories (`spellings`), by the same search.
        return _otherwise(_key(stripped, rules, spellings(attribute), dialect), rules, {}, "", dialect)
    key = _key(stripped, rules, rules.alias_texts, dialect)
    return _otherwise(key, rules, rules.alias_texts, _read(stripped, rules, dialect), dialect)


def spellings(attribute: Attribute) -> dict[str, int]:
    """For a list of texts, every key that has a code: declared values and their aliases."""
    assert isinstance(attribute, Categorical)
    codes = {key: code for code, key in enumerate(attribute.keys)}
    aliases = {} if attribute.rules is None else attribute.rules.alias_texts
    return codes | {alias: codes[key] for alias, key in aliases.items()}


def _key(stripped: str, rules: Rules, wanted: Iterable[str] | None, dialect: Dialect) -> str:
    """SQL for the comparison key of a text; only characters that occur in some key need to be folded."""
    if not rules.casefold:
        return stripped
    sources, targets = folding(None if wanted is None else [*wanted, *rules.missing_texts])
    return dialect.translated(stripped, sources, targets) if sources else stripped


def _otherwise(key: str, rules: Rules, aliases: dict[str, str], reading: str, dialect: Dialect) -> str:
    """The reading, or the key itself if there is none, except for marks of missing values and aliases."""
    marks = sorted(filter(dialect.can_hold, rules.missing_texts))
    branches = [f"WHEN {key} IN ({', '.join(map(dialect.literal, marks))}) THEN NULL"] if marks else []
    for alias, plain in aliases.items():
        if dialect.can_hold(alias):
            branches.append(f"WHEN {key} = {dialect.literal(alias)} THEN {dialect.literal(plain)}")
    return f"CASE {' '.join(branches)} ELSE {reading or key} END" if branches else reading or key


def _read(stripped: str, rules: Rules, dialect: Dialect) -> str:
    if rules.number_forms:
        branches = [f"WHEN {stripped} IS NULL THEN NULL"]
        for pattern, template in rules.number_forms:
            digits = dialect.replaced(stripped, pattern, template)
            pointed = dialect.translated(digits, rules.decimal + rules.thousands_marks, ".")
            branches.append(f"WHEN {dialect.matches(stripped, pattern)} THEN {pointed}")
        return f"CASE {' '.join(branches)} ELSE {dialect.literal(UNREADABLE)} END"
    branches = [f"WHEN {dialect.matches(stripped, f.pattern)} THEN {_iso(stripped, f, dialect)}" for f in rules.formats]
    return f"CASE {' '.join(branches)} ELSE {stripped} END" if branches else stripped


def _iso(text: str, form: Format, dialect: Dialect) -> str:
    """`Format.iso` in SQL: the groups in ISO's order with a zero before each; where that makes three digits it goes."""
    place = {name: number for number, name in enumerate(form.groups, start=1)}

    def padded(name: str, default: str) -> tuple[str | int, ...]:
        return ("0", place[name]) if name in place else (default,)

    month = next((("0", place[name]) for name in "mbB" if name in place), ("01",))
    day = (place["Y" if "Y" in place else "y"], "-", *month, "-", *padded("d", "01"), " ")
    fraction = (place["f"], "000000") if "f" in place else ("000000",)
    rest = (":", *padded("M", "00"), ":", *padded("S", "00"), ".", *fraction)
    if "I" in place:
        half = f"CASE WHEN LOWER({dialect.replaced(text, form.pattern, (place['p'],))}) = 'pm' THEN 12 ELSE 0 END"
        hour = f"(CAST({dialect.replaced(text, form.pattern, (place['I'],))} AS {dialect.bigint}) % 12 + {half})"
        parts = (
            dialect.replaced(text, form.pattern, day),
            f"LPAD(CAST({hour} AS {dialect.text}), 2, '0')",
            dialect.replaced(text, form.pattern, rest),
        )
        iso = f"({' || '.join(parts)})"
    else:
        iso = dialect.replaced(text, form.pattern, (*day, *padded("H", "00"), *rest))
    names = FULL_MONTHS if "B" in place else MONTHS if "b" in place else ()
    if names:
        iso = f"LOWER({iso})"
    for number, name in enumerate(names, start=1):
        iso = f"REPLACE({iso}, '{name}', '{number:02}')"
    if "y" in place:
        young = f"^([0-{int(PIVOT[0]) - 1}][0-9]|{PIVOT[0]}[0-{int(PIVOT[1]) - 1}])-"
        iso = dialect.replaced(dialect.replaced(iso, young, ("20", 1, "-")), "^([0-9][0-9])-", ("19", 1, "-"))
    shortened = dialect.replaced(iso, "([-: ])0([0-9][0-9])", (1, 2), everywhere=True)
    local = f"SUBSTR({shortened}, 1, {_ISO_LENGTH})"
    if "z" not in place:
        return local
    return _in_utc(local, dialect.replaced(text, form.pattern, (place["z"],)), dialect)


def _in_utc(local: str, offset: str, dialect: Dialect) -> str:
    """`formats._in_utc` in SQL."""
    digits = f"REPLACE({offset}, ':', '')"
    hours = f"CAST(SUBSTR({digits}, 2, 2) AS {dialect.bigint})"
    minutes = f"CAST(SUBSTR({digits} || '00', 4, 2) AS {dialect.bigint})"
    ahead = f"({hours} * 60 + {minutes}) * CASE WHEN {digits} LIKE '-%' THEN -1 ELSE 1 END"
    ahead = f"CASE WHEN {digits} IN ('Z', 'z') THEN 0 ELSE {ahead} END"
    moment = dialect.minutes_before(dialect.parsed_timestamp(local), ahead)
    ends = (dialect.timestamp(end.isoformat(sep=" ")) for end in (datetime.datetime.min, datetime.datetime.max))
    # Python's calendar ends where SQL's goes on.
    return (
        f"CASE WHEN NOT {_is_instant(local, dialect)} THEN {dialect.literal(NO_INSTANT)} "
        f"WHEN {moment} BETWEEN {' AND '.join(ends)} THEN {dialect.iso_timestamp(moment)} "
        f"ELSE {dialect.literal(NO_INSTANT)} END"
    )
