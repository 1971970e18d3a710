"""PostgreSQL bins, weights and groups in one read-only snapshot; keys and weights come back as binary COPY."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import numpy as np

from reticent.errors import SourceError
from reticent.sources import dialects
from reticent.sources.engine import ColumnType

_CONNECT_SECONDS = 10
_COPY_HEADER = 19
_COPY_TRAILER = b"\xff\xff"
_BLOCK_BYTES = 1 << 24
_SAFE_PRECISION = 300
"""A numeric with at most this many digits cannot leave the range of a double."""

_KINDS: dict[int, ColumnType] = {
    16: ColumnType("boolean"),
    **dict.fromkeys((20, 21, 23), ColumnType("integer")),
    **dict.fromkeys((700, 701), ColumnType("float")),
    **dict.fromkeys((25, 1042, 1043, 19), ColumnType("text")),
    1082: ColumnType("date"),
    1114: ColumnType("timestamp"),
    1184: ColumnType("instant"),
}
_NUMERIC = 1700

# Only these words ever leave: the server's own messages quote cells, and a connection's may quote its address.
_REASONS = {
    "28": "user or password was refused; check the credentials in the URL",
    "3D": "the database does not exist; check its name in the URL",
    "42501": "permission denied; grant SELECT on the tables of the query",
    "42P01": "a table of the query does not exist; check its name and schema",
    "42703": "a column of the query does not exist; check its name",
    "42": "the query does not run; check its text",
    "57014": "the server cancelled the query, perhaps by its statement timeout; raise it and read again",
    "57P": "the server is shutting down or starting; read again later",
    "08": "the connection was lost; read again",
    "53": "the server ran out of memory, disk or connections; read again later",
    "22": "the query fails on a value; let it select the columns as they are",
}


class PostgresEngine:
    """One query in one repeatable-read, read-only transaction, so that all counts refer to the same rows."""

    dialect: dialects.Dialect = dialects.PostgreSQL()
    near = False

    def __init__(self, connection: Any, query: str, *, label: str, filtered: bool, owned: bool) -> None:
        self._connection = connection
        self._owned = owned
        self.label = label
        self.filtered = filtered
        self.relation = f"({query.strip().rstrip(';')}) AS queried"

    @classmethod
    def connect(cls, url: str, query: str | None) -> PostgresEngine:
        """Open a URL such as `postgresql://user:password@host/database`; messages never show it."""
        psycopg = _psycopg()
        if query is None:
            raise SourceError("a database needs query=, such as 'SELECT * FROM visits'")
        try:
            known = psycopg.conninfo.conninfo_to_dict(url)
            known.setdefault("connect_timeout", _CONNECT_SECONDS)
            connection = psycopg.connect(**known)
            # Compiling a rule of thousands of comparisons takes longer than running it.
            connection.execute("SET jit = off")
            connection.commit()
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            return cls(connection, query, label=f"postgresql {connection.info.dbname}", filtered=True, owned=True)
        except psycopg.Error as error:
            reason = _connect_reason(error)
        raise SourceError(f"PostgreSQL: {reason}")

    def columns(self) -> Mapping[str, ColumnType]:
        def describe() -> dict[str, ColumnType]:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {self.relation} LIMIT 0")
                described = list(cursor.description or ())
                textual = self._textual(cursor, [column.type_code for column in described])
                return {column.name: _column_type(column, textual) for column in described}

        return self._guarded(describe)

    def origins(self) -> list[tuple[str, str, int, int]]:
        """The name and type of each column, and its table and number there; 0 for a computed column."""

        def describe() -> list[tuple[str, str, int, int]]:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {self.relation} LIMIT 0")
                result, columns = cursor.pgresult, list(cursor.description or ())
                places = [(result.ftable(place), result.ftablecol(place)) for place in range(len(columns))]
                codes = [column.type_code for column in columns]
                cursor.execute("SELECT oid, typname FROM pg_type WHERE oid = ANY(%s)", (codes,))
                types = dict(cursor.fetchall())
            return [(c.name, types.get(c.type_code, ""), *place) for c, place in zip(columns, places, strict=True)]

        return self._guarded(describe)

    def catalogue(self, statement: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Rows of the database's own catalogue."""

        def read() -> list[tuple[Any, ...]]:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return cursor.fetchall()

        return self._guarded(read)

    def fetch(self, statement: str, width: int) -> Generator[np.ndarray]:
        reason = None
        try:
            yield from self._copied(statement, width)
        except _psycopg().Error as error:
            reason = _reason(error)
        finally:
            self._renew()
        if reason is not None:
            raise SourceError(f"{self.label}: {reason}")

    def _copied(self, statement: str, width: int) -> Iterator[np.ndarray]:
        row = np.dtype([("fields", ">i2"), *((f"f{i}", [("size", ">i4"), ("value", ">i8")]) for i in range(width))])
        copying = f"COPY ({statement}) TO STDOUT (FORMAT BINARY)"
        with self._connection.cursor() as cursor, cursor.copy(copying) as copy:
            chunks, held = iter(copy), bytearray()
            _fill(held, chunks, _COPY_HEADER)
            del held[:_COPY_HEADER]
            while len(held) >= row.itemsize or _fill(held, chunks, _BLOCK_BYTES):
                whole = len(held) // row.itemsize * row.itemsize
                rows = np.frombuffer(bytes(held[:whole]), dtype=row)
                del held[:whole]
                yield np.stack([rows[f"f{i}"]["value"].astype(np.int64) for i in range(width)])

    def texts(self, statement: str) -> list[str]:
        def read() -> list[str]:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return [text for (text,) in cursor.fetchall()]

        return self._guarded(read)

    def tally(self, statement: str) -> tuple[list, np.ndarray]:
        def read() -> tuple[list, np.ndarray]:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                rows = cursor.fetchall()
            return [value for value, _ in rows], np.array([count for _, count in rows], dtype=np.int64)

        return self._guarded(read)

    def scanned(self) -> float | None:
        return None

    def interrupt(self) -> None:
        # A connection that is already gone has nothing to cancel.
        with contextlib.suppress(_psycopg().Error):
            self._connection.cancel_safe(timeout=_CONNECT_SECONDS)

    def close(self) -> None:
        if self._owned:
            self._connection.close()
        else:
            self._guarded(self._connection.rollback)

    def _renew(self) -> None:
        """End a failed or abandoned transaction; the next statement starts a new one."""
        psycopg = _psycopg()
        if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            with contextlib.suppress(psycopg.Error):
                self._connection.rollback()

    def _textual(self, cursor: Any, codes: list[int]) -> frozenset[int]:
        """Read enumerations and citext as text."""
        unknown = [code for code in codes if code not in _KINDS and code != _NUMERIC]
        cursor.execute(
            "SELECT oid FROM pg_type WHERE oid = ANY(%s) AND (typtype = 'e' OR typname = 'citext')", (unknown,)
        )
        return frozenset(found for (found,) in cursor.fetchall())

    def _guarded(self, action: Callable[[], Any]) -> Any:
        psycopg = _psycopg()
        try:
            return action()
        except psycopg.Error as error:
            reason = _reason(error)
        self._renew()
        raise SourceError(f"{self.label}: {reason}")


def _fill(held: bytearray, chunks: Iterator[bytes], size: int) -> bool:
    """Append until `size` bytes are held; returns whether anything but the end marker arrived."""
    before = len(held)
    for chunk in chunks:
        held += chunk
        if len(held) >= size:
            break
    return len(held) - before > len(_COPY_TRAILER)


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise SourceError("PostgreSQL needs psycopg: pip install 'reticent[postgres]'") from None
    return psycopg


def _column_type(column: Any, textual: frozenset[int]) -> ColumnType:
    if column.type_code == _NUMERIC:
        safe = column.precision is not None and 0 < column.precision <= _SAFE_PRECISION
        return ColumnType("decimal", wide=not safe)
    if column.type_code in textual:
        return ColumnType("text")
    return _KINDS.get(column.type_code, ColumnType("other"))


def _reason(error: Any) -> str:
    state = getattr(error, "sqlstate", None) or "08"
    found = [state[:length] for length in (5, 3, 2) if state[:length] in _REASONS]
    return _REASONS[found[0]] if found else "the query failed on the server; see its log"


def _connect_reason(error: Any) -> str:
    state = getattr(error, "sqlstate", None)
    if state or "authentication failed" in str(error):
        return _REASONS["28"] if not state else _reason(error)
    if "does not exist" in str(error):
        return _REASONS["3D"]
    return "no connection; check host, port, network and that the server runs"
