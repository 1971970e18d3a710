"""A dialect is the handful of words in which one engine's SQL differs from another's; the rule for codes is common."""

from __future__ import annotations


class Dialect:
    """Common SQL; subclasses change only what their engine spells differently."""

    bigint = "BIGINT"
    double = "DOUBLE"
    text = "VARCHAR"

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def as_text(self, column: str) -> str:
        """A text column, to be compared byte by byte, whatever collation or enumeration it has."""
        return f"CAST({column} AS {self.text})"

    def whole(self, value: int) -> str:
        """An exact integer that compares with integer and decimal columns of any width."""
        return str(value)

    @property
    def nan(self) -> str:
        return f"CAST('NaN' AS {self.double})"

    def number(self, value: float) -> str:
        # repr is the shortest text that reads back as the same double wherever reading rounds correctly.
        return f"CAST('{value!r}' AS {self.double})"

    def as_double(self, expression: str, *, wide: bool) -> str:
        inner = f"CAST({expression} AS {self.text})" if wide else expression
        return f"CAST({inner} AS {self.double})"

    def date(self, iso: str) -> str:
        return f"DATE '{iso}'"

    def timestamp(self, iso: str) -> str:
        return f"TIMESTAMP '{iso}'"

    def instant(self, iso: str) -> str:
        return f"TIMESTAMPTZ '{iso}+00'"

    def as_microseconds(self, timestamp: str) -> str:
        """A timestamp of nanoseconds floored to the microsecond."""
        raise NotImplementedError

    def is_nan(self, double: str) -> str:
        return f"({double} = {self.nan})"

    def matches(self, text: str, pattern: str) -> str:
        """Whether the whole text matches `^pattern$`; newlines are ordinary characters."""
        raise NotImplementedError

    def parsed_double(self, text: str) -> str:
        """The double of a text already known to be a decimal number."""
        return f"CAST(TRIM({text}) AS {self.double})"

    def parsed_timestamp(self, text: str) -> str:
        """The timestamp of a text already known to be one."""
        return f"CAST({text} AS TIMESTAMP)"

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
