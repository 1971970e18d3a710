"""A dialect is the handful of words in which one engine's SQL differs from another's; the rule for codes is common."""

from __future__ import annotations


class Dialect:
    """Common SQL; subclasses change only what their engine spells differently."""

    bigint = "BIGINT"
    double = "DOUBLE"
    text = "VARCHAR"
    plain_timestamp = "TIMESTAMP"

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def can_hold(self, value: str) -> bool:
        """Whether the engine has this text at all; if not, no row can hold it."""
        return True

    def as_text(self, column: str) -> str:
        """A text column, to be compared byte by byte, whatever collation or enumeration it has."""
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

    def matches(self, text: str, pattern: str) -> str:
        """Whether the whole text matches `^pattern$`; newlines are ordinary characters."""
        raise NotImplementedError

    def parsed_double(self, text: str) -> str:
        """The double of a text already known to be a decimal number."""
        return f"CAST(TRIM({text}) AS {self.double})"

    def parsed_timestamp(self, text: str) -> str:
        """The timestamp of a text already known to be one."""
        return f"CAST({text} AS {self.plain_timestamp})"

    def divided(self, numerator: str, denominator: str) -> str:
        """Whole-number division of non-negative integers."""
        return f"({numerator} / {denominator})"


class DuckDB(Dialect):
    """RE2 and SQL close to PostgreSQL's; `/` would give a double."""

    def matches(self, text: str, pattern: str) -> str:
        return f"REGEXP_MATCHES({text}, {self.literal(pattern)})"

    def divided(self, numerator: str, denominator: str) -> str:
        return f"({numerator} // {denominator})"

    def as_microseconds(self, timestamp: str) -> str:
        # A cast would round toward 1970.
        nanoseconds = f"EPOCH_NS({timestamp})"
        return f"MAKE_TIMESTAMP(({nanoseconds} - ({nanoseconds} % 1000 + 1000) % 1000) // 1000)"


class PostgreSQL(Dialect):
    """Text has a collation, `numeric` has NaN and no bounds, and casts out of range are errors."""

    double = "DOUBLE PRECISION"
    text = "TEXT"

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

    def matches(self, text: str, pattern: str) -> str:
        # In Java `$` also matches before a final line break.
        return f"({text} RLIKE {self.literal(pattern.removesuffix('$') + chr(92) + 'z')})"

    def divided(self, numerator: str, denominator: str) -> str:
        return f"({numerator} DIV {denominator})"
