"""Dialects: the parts in which the SQL of engines differs; the encoding rule is common to all."""

from __future__ import annotations

from collections.abc import Sequence


class Dialect:
    """Common SQL; subclasses change only what their engine writes differently."""

    bigint = "BIGINT"
    double = "DOUBLE"
    text = "VARCHAR"
    plain_timestamp = "TIMESTAMP"
    barrier = ""
    """What ends a subquery whose columns must not be computed again for every use of them."""

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def can_hold(self, value: str) -> bool:
        """Whether the engine can store this text; if not, no row has it."""
        return True

    def as_text(self, column: str) -> str:
        """A text column, compared byte by byte, independent of its collation or enumeration."""
        return f"CAST({column} AS {self.text})"

    def whole(self, value: int) -> str:
        """An exact integer that compares with integer and decimal columns of any width."""
        return str(value)

    def number(self, value: float) -> str:
        # repr is the shortest text that reads back as the same double wherever reading rounds correctly.
        return f"CAST('{value!r}' AS {self.double})"

    def as_double(self, expression: str, *, wide: bool) -> str:
        inner = f"CAST({expression} AS {self.text})" if wide else expression
        return f"CAST({inner} AS {self.double})"

    def nan(self, kind: str) -> str | None:
        """The NaN that a column of this kind may hold."""
        return f"CAST('NaN' AS {self.double})" if kind == "float" else None

    def date(self, iso: str) -> str:
        return f"DATE '{iso}'"

    def timestamp(self, iso: str) -> str:
        return f"{self.plain_timestamp} '{iso}'"

    def instant(self, iso: str) -> str:
        return f"TIMESTAMPTZ '{iso}+00'"

    def as_microseconds(self, timestamp: str) -> str:
        """A timestamp of nanoseconds floored to the microsecond."""
        raise NotImplementedError

    def days(self, date: str) -> str:
        """Whole days since 1970 of a date."""
        return f"({date} - {self.date('1970-01-01')})"

    def microseconds(self, moment: str, kind: str) -> str:
        """Microseconds since 1970 of a `timestamp` or an `instant`, in UTC."""
        raise NotImplementedError

    def element(self, listed: Sequence[str], place: str) -> str:
        """The element at a place counted from 0."""
        raise NotImplementedError

    def place_of(self, text: str, literals: Sequence[str]) -> str | None:
        """The place of a text among literals, from 0, or NULL; None if the engine is no faster than comparisons."""
        return None

    def hashed(self, text: str) -> str:
        """32 hexadecimal digits, to be compared byte by byte."""
        return f"MD5({text})"

    def matches(self, text: str, pattern: str) -> str:
        """Whether the whole text matches `^pattern$`; newlines are ordinary characters."""
        raise NotImplementedError

    def parsed_double(self, text: str) -> str:
        """The double of a text already known to be a decimal number."""
        return f"CAST(TRIM({text}) AS {self.double})"

    def parsed_timestamp(self, text: str) -> str:
        """The timestamp of a text already known to be one."""
        return f"CAST({text} AS {self.plain_timestamp})"

    def minutes_before(self, timestamp: str, minutes: str) -> str:
        """The timestamp a number of minutes earlier."""
        raise NotImplementedError

    def iso_timestamp(self, timestamp: str) -> str:
        """The text of a timestamp, with a blank in the middle and six digits after the point."""
        raise NotImplementedError

    def replaced(self, text: str, pattern: str, template: tuple[str | int, ...], *, everywhere: bool = False) -> str:
        """The match of the pattern replaced by texts and groups (by number); the same text if it does not match."""
        flags = ", 'g'" if everywhere else ""
        return f"REGEXP_REPLACE({text}, {self.literal(pattern)}, {self.literal(_template(template, chr(92)))}{flags})"

    def trimmed(self, text: str, characters: str) -> str:
        """The text without these characters at both ends."""
        return f"TRIM(BOTH {self.literal(characters)} FROM {text})"

    def translated(self, text: str, sources: str, targets: str) -> str:
        """Each source character replaced by its target, or removed if there is none."""
        return f"TRANSLATE({text}, {self.literal(sources)}, {self.literal(targets)})"

    def seconds(self, time: str, kind: str) -> str:
        """Seconds since 1970 of a date, a timestamp or an instant, as a double."""
        return f"CAST(EXTRACT(EPOCH FROM {time}) AS {self.double})"

    def iso_date(self, date: str) -> str:
        """The text of a date."""
        return f"CAST({date} AS {self.text})"

    def divided(self, numerator: str, denominator: str) -> str:
        """Whole-number division of non-negative integers."""
        return f"({numerator} / {denominator})"


class DuckDB(Dialect):
    """RE2 and SQL close to PostgreSQL's; `/` would give a double."""

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_MATCHES({text}, {self.literal(pattern)})"

    def trimmed(self, text: str, characters: str) -> str:
        return f"TRIM({text}, {self.literal(characters)})"

    def seconds(self, time: str, kind: str) -> str:
        # Whole microseconds divided once; its own seconds are rounded twice.
        return f"EPOCH_US({time}) / 1e6"

    def divided(self, numerator: str, denominator: str) -> str:
        return f"({numerator} // {denominator})"

    def element(self, listed: Sequence[str], place: str) -> str:
        return f"[{', '.join(listed)}][{place} + 1]"

    def place_of(self, text: str, literals: Sequence[str]) -> str | None:
        # Planning a CASE takes 0.4 ms for each literal; an enumeration is a hash table, 30 times faster.
        return f"CAST(enum_code(TRY_CAST({text} AS ENUM({', '.join(literals)}))) AS {self.bigint})"

    def microseconds(self, moment: str, kind: str) -> str:
        return f"EPOCH_US({moment})"

    def minutes_before(self, timestamp: str, minutes: str) -> str:
        return f"({timestamp} - TO_MINUTES({minutes}))"

    def iso_timestamp(self, timestamp: str) -> str:
        return f"STRFTIME({timestamp}, '%Y-%m-%d %H:%M:%S.%f')"

    def as_microseconds(self, timestamp: str) -> str:
        # A cast would round toward 1970.
        nanoseconds = f"EPOCH_NS({timestamp})"
        return f"MAKE_TIMESTAMP(({nanoseconds} - ({nanoseconds} % 1000 + 1000) % 1000) // 1000)"


class PostgreSQL(Dialect):
    """Text has a collation, `numeric` has NaN and no bounds, and casts out of range are errors."""

    double = "DOUBLE PRECISION"
    text = "TEXT"
    barrier = " OFFSET 0"

    # Beyond half a step above the largest double reading gives infinity; up to half the smallest one it gives zero.
    _INFINITE = str(2**1024 - 2**970)
    _ZERO = "2.470328229206232721e-324"

    def can_hold(self, value: str) -> bool:
        return "\x00" not in value

    def as_text(self, column: str) -> str:
        return f'CAST({column} AS TEXT) COLLATE "C"'

    def as_double(self, expression: str, *, wide: bool) -> str:
        cast = f"CAST({expression} AS {self.double})"
        if not wide:
            return cast
        return (
            f"CASE WHEN {expression} = {self.nan('decimal')} THEN CAST('NaN' AS {self.double}) "
            f"WHEN {expression} >= {self._INFINITE} THEN CAST('Infinity' AS {self.double}) "
            f"WHEN {expression} <= -{self._INFINITE} THEN CAST('-Infinity' AS {self.double}) "
            f"WHEN ABS({expression}) <= {self._ZERO} THEN 0 ELSE {cast} END"
        )

    def nan(self, kind: str) -> str | None:
        return "CAST('NaN' AS NUMERIC)" if kind == "decimal" else super().nan(kind)

    def element(self, listed: Sequence[str], place: str) -> str:
        return f"(ARRAY[{', '.join(listed)}])[CAST({place} AS INTEGER) + 1]"

    def hashed(self, text: str) -> str:
        return f'MD5({text}) COLLATE "C"'

    def microseconds(self, moment: str, kind: str) -> str:
        return f"(EXTRACT(EPOCH FROM {moment}) * 1000000)"

    def minutes_before(self, timestamp: str, minutes: str) -> str:
        return f"({timestamp} - MAKE_INTERVAL(mins => CAST({minutes} AS INTEGER)))"

    def iso_date(self, date: str) -> str:
        return f"TO_CHAR({date}, 'YYYY-MM-DD')"

    def iso_timestamp(self, timestamp: str) -> str:
        return f"TO_CHAR({timestamp}, 'YYYY-MM-DD HH24:MI:SS.US')"

    def matches(self, text: str, pattern: str) -> str:
        return f"({text} ~ {self.literal(pattern)})"


class Spark(Dialect):
    """Backquoted names, backslashes in literals, Java's regular expressions, instants by default."""

    text = "STRING"
    plain_timestamp = "TIMESTAMP_NTZ"

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def literal(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def instant(self, iso: str) -> str:
        return f"TIMESTAMP_LTZ '{iso}+00:00'"

    def element(self, listed: Sequence[str], place: str) -> str:
        return f"GET(ARRAY({', '.join(listed)}), CAST({place} AS INT))"

    def days(self, date: str) -> str:
        return f"DATEDIFF({date}, {self.date('1970-01-01')})"

    def microseconds(self, moment: str, kind: str) -> str:
        if kind == "instant":  # the difference of two instants is that of their local times, an hour off in summer
            return f"UNIX_MICROS({moment})"
        return f"TIMESTAMPDIFF(MICROSECOND, {self.timestamp('1970-01-01 00:00:00')}, {moment})"

    def seconds(self, time: str, kind: str) -> str:
        if kind == "date":
            return f"CAST(UNIX_DATE({time}) AS DOUBLE) * 86400"
        if kind == "instant":
            return f"UNIX_MICROS({time}) / 1e6D"
        return f"TIMESTAMPDIFF(MICROSECOND, {self.timestamp('1970-01-01 00:00:00')}, {time}) / 1e6D"

    def minutes_before(self, timestamp: str, minutes: str) -> str:
        return f"TIMESTAMPADD(MINUTE, -CAST({minutes} AS INT), {timestamp})"

    def iso_timestamp(self, timestamp: str) -> str:
        return f"DATE_FORMAT({timestamp}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"

    def matches(self, text: str, pattern: str) -> str:
        return f"({text} RLIKE {self.literal(_to_the_end(pattern))})"

    def replaced(self, text: str, pattern: str, template: tuple[str | int, ...], *, everywhere: bool = False) -> str:
        # Every match is replaced; our other patterns begin with `^` and match once.
        return f"REGEXP_REPLACE({text}, {self.literal(_to_the_end(pattern))}, {self.literal(_template(template, '$'))})"

    def divided(self, numerator: str, denominator: str) -> str:
        return f"({numerator} DIV {denominator})"


def _to_the_end(pattern: str) -> str:
    """In Java `$` also matches before a final line break."""
    return pattern.removesuffix("$") + r"\z" if pattern.endswith("$") else pattern


def _template(pieces: tuple[str | int, ...], sign: str) -> str:
    return "".join(f"{sign}{piece}" if isinstance(piece, int) else piece for piece in pieces)
