"""DuckDB reads files, Arrow data and its own relations, and bins and groups them in this process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from typing import Any, Self

import duckdb
import numpy as np
import pyarrow as pa

from reticent.errors import SourceError
from reticent.sources import dialects
from reticent.sources.engine import ColumnType

_BATCH = 1 << 18

# Relations that cannot leave rows out; any other one may be a filter.
_WHOLE_RELATIONS = ("TABLE_RELATION", "READ_CSV_RELATION", "TABLE_FUNCTION_RELATION", "VALUE_LIST_RELATION")

_DOUBLE_DIGITS = 15
_INTEGERS = {"tinyint", "smallint", "integer", "bigint"}
_KINDS: dict[str, ColumnType] = {
    **dict.fromkeys(_INTEGERS | {f"u{name}" for name in _INTEGERS}, ColumnType("integer")),
    "hugeint": ColumnType("integer", wide=True),
    "uhugeint": ColumnType("integer", wide=True),
    "float": ColumnType("float"),
    "double": ColumnType("float"),
    "boolean": ColumnType("boolean"),
    "varchar": ColumnType("text"),
    "enum": ColumnType("text"),
    "date": ColumnType("date"),
    "timestamp": ColumnType("timestamp"),
    "timestamp_s": ColumnType("timestamp"),
    "timestamp_ms": ColumnType("timestamp"),
    "timestamp_ns": ColumnType("timestamp", wide=True),
    "timestamp with time zone": ColumnType("instant"),
}


def literal(text: str) -> str:
    """A quoted SQL text."""
    return DuckDBEngine.dialect.literal(text)


def column_type(declared: Any) -> ColumnType:
    """The kind of a DuckDB type."""
    if declared.id == "decimal":
        return ColumnType("decimal", wide=dict(declared.children)["precision"] > _DOUBLE_DIGITS)
    return _KINDS.get(declared.id, ColumnType("other"))


class DuckDBEngine:
    """One relation, `rows` or a query over it; what `over` opens is its own and leaves no file behind."""

    dialect: dialects.Dialect = dialects.DuckDB()
    near = True

    def __init__(
        self, run: Callable[[str], Any], *, label: str, query: str | None, coded: frozenset[str] = frozenset()
    ) -> None:
        self._run = run
        self._coded = coded
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._closing: list[Callable[[], None]] = []
        self.label = label
        self.relation = "rows" if query is None else f"({query}) AS queried"
        self.filtered = query is not None

    @classmethod
    def over(cls, scan: Any, *, label: str, query: str | None = None, coded: frozenset[str] = frozenset()) -> Self:
        """A connection of its own over a table function (SQL text) or Arrow data."""
        connection = duckdb.connect()
        engine = cls.of_connection(connection, label=label, query=query, coded=coded)
        # Spilled rows are private: a folder only this user can read, removed on close, never the working folder.
        spill = tempfile.mkdtemp(prefix="reticent-")
        engine._closing = [connection.close, lambda: shutil.rmtree(spill, ignore_errors=True)]

        def prepare() -> None:
            connection.execute(f"SET temp_directory = {literal(spill)}")
            # Counted, so that `scanned` knows, and never printed.
            connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
            connection.execute("SET preserve_insertion_order = false")
            if isinstance(scan, str):
                connection.execute(f"CREATE TEMP VIEW rows AS SELECT * FROM {scan}")
            else:
                connection.register("rows", scan)

        try:
            engine._guarded(prepare)
        except BaseException:
            engine.close()
            raise
        return engine

    @classmethod
    def of_connection(
        cls,
        connection: duckdb.DuckDBPyConnection,
        *,
        label: str,
        query: str | None,
        coded: frozenset[str] = frozenset(),
    ) -> Self:
        """A query on a connection that somebody else opened and closes."""
        engine = cls(connection.sql, label=label, query=query, coded=coded)
        engine._connection = connection
        return engine

    @classmethod
    def of_relation(cls, relation: Any, *, label: str) -> DuckDBEngine:
        """A relation of the caller's own connection, which stays open; it hides it, so nothing can interrupt it."""
        engine = cls(lambda statement: relation.query("rows", statement), label=label, query=None)
        engine.filtered = relation.type not in _WHOLE_RELATIONS
        return engine

    def columns(self) -> Mapping[str, ColumnType]:
        described = self._guarded(lambda: self._run(f"SELECT * FROM {self.relation} LIMIT 0"))
        types = dict(zip(described.columns, map(column_type, described.types), strict=True))
        return types | dict.fromkeys(self._coded, ColumnType("codes"))

    def fetch(self, statement: str, width: int) -> Generator[np.ndarray]:
        reader = self._guarded(lambda: self._run(statement).to_arrow_reader(_BATCH))
        while (batch := self._guarded(lambda: next(reader, None))) is not None:
            block = np.empty((width, batch.num_rows), dtype=np.int64)
            for row, column in zip(block, batch.columns, strict=True):
                row[:] = column.to_numpy(zero_copy_only=False)
            yield block

    def scanned(self) -> float | None:
        if self._connection is None or (percent := self._connection.query_progress()) < 0:
            return None
        return min(percent / 100, 1.0)

    def interrupt(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()

    def close(self) -> None:
        while self._closing:
            self._closing.pop(0)()

    def _guarded(self, action: Callable[[], Any]) -> Any:
        # DuckDB's messages quote cells ("could not convert '...'"): neither they nor their context are passed on.
        try:
            return action()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            reason = _reason(error)
        raise SourceError(f"{self.label}: {reason}")


def _reason(error: Exception) -> str:
    if isinstance(error, (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException)):
        return "the query does not run on it; check its table and column names"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "memory ran out while grouping; read it on a larger machine or from a database"
    if isinstance(error, (duckdb.IOException, duckdb.PermissionException)):
        return "cannot be opened or read; check the path and its permissions"
    return "cannot be read in its format; check that the file is whole, a CSV in UTF-8, as many fields in each line"
