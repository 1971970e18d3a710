"""Python's database interface (DB-API 2.0, PEP 249) over a server: `connect`, cursors, rows with their errors.

Example:
    >>> from reticent import dbapi
    >>> dbapi.apilevel, dbapi.paramstyle
    ('2.0', 'pyformat')
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from reticent.client import Connection as Client
from reticent.client import connect as connect_client
from reticent.errors import QueryError, ReticentError
from reticent.knowledge.request import Records

if TYPE_CHECKING:
    from reticent.sql.result import ResultTable

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "sql_literal",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 1
"""Threads may share the module, not connections."""
paramstyle = "pyformat"

_PLACE = re.compile(r"%(?:\((\w+)\))?([s%])|%")
T = TypeVar("T")


class Warning(Exception):
    """PEP 249 asks for it; nothing here raises it."""


class Error(Exception):
    """Base of all errors of this module; the error of `reticent.errors` behind it is its `__cause__`."""


class InterfaceError(Error):
    """The module was used incorrectly, for example after `close`."""


class DatabaseError(Error):
    """The server refused."""


class DataError(DatabaseError):
    """A value cannot be sent."""


class OperationalError(DatabaseError):
    """The server cannot be reached, its ledger is busy, or the budget cannot pay."""


class IntegrityError(DatabaseError):
    """PEP 249 asks for it; nothing here raises it."""


class InternalError(DatabaseError):
    """PEP 249 asks for it; nothing here raises it."""


class ProgrammingError(DatabaseError):
    """The statement cannot be answered in this form; the message suggests one that can."""


class NotSupportedError(DatabaseError):
    """The function is not supported by this interface."""


STRING, BINARY, NUMBER, DATETIME, ROWID = "STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"
"""Type codes in `Cursor.description`."""


def connect(
    url: str,
    token: str,
    *,
    table: str | None = None,
    errors: bool = True,
    error: float | Records | str | None = None,
    confidence: float | None = None,
    max_price: float | None = None,
    timeout: float = 60.0,
) -> Connection:
    """Open a connection to a server that `reticent serve` runs.

    Args:
        url: The server's address, for example `https://data.example.org`.
        token: The text of a token.
        table: The table to ask about; SQL may name another after FROM.
        errors: Whether each aggregate is followed by a column with its error.
        error: The error that answers must meet, for example `rt.records(80)` or `"1%"`; answers that are not known so
            well are bought. None buys nothing.
        confidence: The probability with which the errors of a result hold; None leaves it to the server.
        max_price: The most that one statement may cost, in the budget's unit.
        timeout: Seconds to wait for the server.

    Returns:
        A connection of PEP 249.

    Raises:
        OperationalError: The server cannot be reached.
        ProgrammingError: The address is invalid, or the token gives no access to the table.
    """
    client = _translated(connect_client, url, token, table=table, timeout=timeout)
    return Connection(client, errors=errors, error=error, confidence=confidence, max_price=max_price)


class Connection:
    """A connection to a server; nothing is written, so `commit` and `rollback` have no effect."""

    def __init__(
        self,
        client: Client,
        *,
        errors: bool = True,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        max_price: float | None = None,
    ) -> None:
        self._client: Client | None = client
        self.errors = errors
        self.error = error
        self.confidence = confidence
        self.max_price = max_price

    def cursor(self) -> Cursor:
        self.ask_client()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing to do."""

    def rollback(self) -> None:
        """No effect: purchases are not undone."""

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def ask_client(self) -> Client:
        """The client beneath, while the connection is open."""
        if self._client is None:
            raise InterfaceError("the connection is closed")
        return self._client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


class Cursor:
    """Runs statements and returns their rows; `result` is the last result as a `ResultTable`."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.result: ResultTable | None = None
        self.description: list[tuple[str, str, None, None, None, None, bool]] | None = None
        self.rowcount = -1
        self._rows: list[tuple[Any, ...]] | None = None
        self._place = 0
        self._closed = False

    def execute(self, operation: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Cursor:
        """Ask one statement; `%s` and `%(name)s` stand for parameters."""
        if self._closed:
            raise InterfaceError("the cursor is closed")
        connection = self.connection
        ask: Any = connection.ask_client().ask
        table: ResultTable = _translated(
            ask,
            operation if parameters is None else _filled(operation, parameters),
            error=connection.error,
            confidence=connection.confidence,
            max_price=connection.max_price,
        )
        self.result = table
        columns, self._rows = _listed(table, errors=connection.errors)
        self.description = [(name, kind, None, None, None, None, True) for name, kind in columns]
        self.rowcount, self._place = len(self._rows), 0
        return self

    def executemany(self, operation: str, sequence: Sequence[Any]) -> None:
        """PEP 249 leaves results of it undefined, and nothing can be written."""
        raise NotSupportedError("executemany is for writing, and nothing is written here; use execute")

    def fetchone(self) -> tuple[Any, ...] | None:
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        if self._rows is None or self._closed:
            raise InterfaceError("there is no result: execute a statement first")
        end = self._place + (self.arraysize if size is None else size)
        found, self._place = self._rows[self._place : end], min(end, len(self._rows))
        return found

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.fetchmany(len(self._rows or ()))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchone, None)

    def close(self) -> None:
        self._closed, self._rows = True, None

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing to do."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing to do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


def sql_literal(value: Any) -> str:
    """A value as an SQL literal; text is quoted with every quote doubled, so that it cannot end the literal.

    Args:
        value: None, a truth value, a number, text, a date or time, or a list of them.

    Returns:
        Text to be put into a statement.

    Raises:
        QueryError: The value has no literal.

    Example:
        >>> sql_literal("it's"), sql_literal([1, None])
        ("'it''s'", '(1, NULL)')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float, Decimal)):
        if not math.isfinite(value):
            raise QueryError("a parameter must be a finite number")
        text = format(value, "f") if isinstance(value, Decimal) else repr(value)
        return f"({text})" if text.startswith("-") else text
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(sql_literal, cast('Sequence[Any]', value))) or 'NULL'})"
    if isinstance(value, (str, datetime.date, datetime.time)):
        text = value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else str(value)
        if "\0" in text:
            raise QueryError("a text cannot hold the character NUL")
        return "'" + text.replace("'", "''") + "'"
    raise QueryError(f"a parameter is of type {type(value).__name__}; give a number, text, a date or a list of them")


def _filled(operation: str, parameters: Sequence[Any] | Mapping[str, Any]) -> str:
    """The statement with literals in place of its parameters."""
    by_name = isinstance(parameters, Mapping)
    waiting = iter(() if by_name else parameters)

    def value(found: re.Match[str]) -> str:
        name, kind = found.groups()
        if kind == "%" and name is None:
            return "%"
        if kind != "s" or (name is not None) != by_name:
            raise ProgrammingError("a parameter is written %s with a list of values, or %(name)s with named ones")
        try:
            return _translated(sql_literal, parameters[name] if by_name else next(waiting))  # type: ignore[index]
        except (KeyError, StopIteration):
            raise ProgrammingError(
                f"the statement has more parameters than values ({name or 'a %s'} has none)"
            ) from None

    text = _PLACE.sub(value, operation)
    if not by_name and next(waiting, waiting) is not waiting:
        raise ProgrammingError("there are more values than parameters in the statement")
    return text


def _listed(table: ResultTable, *, errors: bool) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    """Columns with their type codes, and rows; each aggregate is followed by its error."""
    arrow = table.to_arrow()
    if not errors:
        kinds = [NUMBER if number else STRING for number in table.aggregates]
        return list(zip(table.columns, kinds, strict=True)), list(table.rows)
    columns = [(name, STRING if str(kind) in ("string", "null") else NUMBER) for name, kind in _fields(arrow)]
    return columns, list(zip(*(column.to_pylist() for column in arrow.columns), strict=True))


def _fields(arrow: Any) -> list[tuple[str, Any]]:
    return list(zip(arrow.column_names, arrow.schema.types, strict=True))


def _translated(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """The result, or the refusal as one of this module's errors."""
    try:
        return function(*arguments, **named)
    except QueryError as error:
        kind = DataError if function is sql_literal else ProgrammingError
        raise kind(str(error)) from error
    except ReticentError as error:
        raise OperationalError(str(error)) from error
