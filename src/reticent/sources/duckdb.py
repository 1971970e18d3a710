"""DuckDB reads files, Arrow data and its own relations, and bins and groups them in this process."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
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

Coded = Mapping[str, tuple[str, str, str]]
NO_CODES: Coded = MappingProxyType({})
NO_NAMES: Mapping[str, str] = MappingProxyType({})

# Scans whose columns get a type that depends on the rows, and where the same rows are read without that.
_INFERRING = {
    "READ_CSV": "read the file with Table.read(path, query=...), where every field is text",
    "READ_JSON": "write it as Parquet with declared types and read that",
    "PANDAS_SCAN": "give the pandas frame itself",
}

_IN_QUERIES: dict[str, str] = dict.fromkeys(
    ("READ_CSV", "READ_JSON", "READ_NDJSON", "READ_XLSX"),
    "write that file as Parquet with declared types and use read_parquet in the query",
)

_FORMS = {
    "csv": "cannot be read as CSV; check that it is UTF-8 text with as many fields in each line as in its header",
    "parquet": "cannot be read as Parquet; check that the file is whole",
}

_DOUBLE_DIGITS = 15
_INTEGERS = {"tinyint", "smallint", "integer", "bigint"}
_KINDS: dict[str, ColumnType] = {
    **dict.fromkeys(_INTEGERS | {f"u{name}" for name in _INTEGERS}, ColumnType("integer")),
    **dict.fromkeys(("hugeint", "uhugeint"), ColumnType("integer", wide=True)),
    **dict.fromkeys(("float", "double"), ColumnType("float")),
    "boolean": ColumnType("boolean"),
    **dict.fromkeys(("varchar", "enum"), ColumnType("text")),
    "date": ColumnType("date"),
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms"), ColumnType("timestamp")),
    "timestamp_ns": ColumnType("timestamp", wide=True),
    "timestamp with time zone": ColumnType("instant"),
}


def quoted_text(text: str) -> str:
    """A quoted SQL text."""
    return DuckDBEngine.dialect.literal(text)


def duckdb_type(declared: Any) -> ColumnType:
    """The kind of a DuckDB type."""
    if declared.id == "decimal":
        return ColumnType("decimal", wide=dict(declared.children)["precision"] > _DOUBLE_DIGITS)
    return _KINDS.get(declared.id, ColumnType("other"))


class DuckDBEngine:
    """One relation, `rows` or a query over it; a connection opened by `over` is its own and creates no files."""

    dialect: dialects.Dialect = dialects.DuckDB()
    near = True

    def __init__(
        self, run: Callable[[str], Any], *, label: str, query: str | None, coded: Coded = NO_CODES, form: str = ""
    ) -> None:
        self._run = run
        self._coded = coded
        self._form = form
        self._queried = query is not None
        self._unread: Sequence[str] = ()
        self._read: Sequence[str] = ()
        self._named: Mapping[str, str] = NO_NAMES
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._closing: list[Callable[[], None]] = []
        self.label = label
        self.relation = "rows" if query is None else f"({query}) AS queried"
        self.filtered = query is not None

    @classmethod
    def over(
        cls,
        scan: Any,
        *,
        label: str,
        query: str | None = None,
        coded: Coded = NO_CODES,
        form: str = "",
        unread: Sequence[str] = (),
        read: Sequence[str] = (),
        named: Mapping[str, str] = NO_NAMES,
    ) -> Self:
        """A separate connection over a table function (SQL text) or Arrow data.

        Messages name the file's `form` and list the `unread` columns among the others; `read` columns hold readings,
        and `named` ones the texts of identifiers in another column.
        """
        connection = duckdb.connect()
        engine = cls(connection.sql, label=label, query=query, coded=coded, form=form)
        engine._connection, engine._unread, engine._read, engine._named = connection, unread, read, named
        # Spilled rows are private: a folder only this user can read, removed on close, never the working folder.
        spill = tempfile.mkdtemp(prefix="reticent-")
        engine._closing = [connection.close, lambda: shutil.rmtree(spill, ignore_errors=True)]

        def prepare() -> None:
            connection.execute(f"SET temp_directory = {quoted_text(spill)}")
            _count_progress(connection)
            connection.execute("SET preserve_insertion_order = false")
            if isinstance(scan, str):
                # In the view, so that the conditions of a query are not decided by statistics either.
                connection.execute(f"CREATE TEMP VIEW rows AS SELECT * FROM {without_nan(connection.sql, scan)}")
            else:
                connection.register("rows", scan)

        try:
            engine._guarded(prepare)
            if query is not None:
                engine._refuse_inferring_query(connection)
        except BaseException:
            engine.close()
            raise
        return engine

    @classmethod
    def of_connection(cls, connection: duckdb.DuckDBPyConnection, *, label: str, query: str | None) -> Self:
        """A query on a connection that the caller opened and closes."""
        engine = cls(connection.sql, label=label, query=query)
        engine._connection = connection
        engine._settle_relation(engine._run, _INFERRING)
        return engine

    def offer(self, rows: Any) -> None:
        """Register Arrow data as the rows of an engine that has a connection, in place of those before."""
        assert self._connection is not None
        self._connection.register("rows", rows)

    @classmethod
    def of_relation(cls, relation: Any, *, label: str) -> DuckDBEngine:
        """A relation of the caller's own connection, which stays open and cannot be interrupted, because the relation
        hides it.
        """
        engine = cls(lambda statement: relation.query("rows", statement), label=label, query=None)
        engine.filtered = relation.type not in _WHOLE_RELATIONS
        engine._settle_relation(engine._run, _INFERRING)
        return engine

    def columns(self) -> Mapping[str, ColumnType]:
        described = self._guarded(lambda: self._run(f"SELECT * FROM {self.relation} LIMIT 0"))
        types = dict(zip(described.columns, map(duckdb_type, described.types), strict=True))
        for name, stored in self._coded.items():
            types[name] = ColumnType("codes", stored=stored)
            for column in stored:
                del types[column]
        for name in self._read:
            types[name] = replace(types[name], read=True)
        for name, text in self._named.items():
            types[name] = replace(types[name], named=text)
            del types[text]
        return types | dict.fromkeys(self._unread, ColumnType("other"))

    def fetch(self, statement: str, width: int) -> Generator[np.ndarray]:
        reader = self._guarded(lambda: self._run(statement).to_arrow_reader(_BATCH))
        while (batch := self._guarded(lambda: next(reader, None))) is not None:
            block = np.empty((width, batch.num_rows), dtype=np.int64)
            for row, column in zip(block, batch.columns, strict=True):
                row[:] = column.to_numpy(zero_copy_only=False)
            yield block

    def texts(self, statement: str) -> list[str]:
        return [text for (text,) in self._guarded(lambda: self._run(statement).fetchall())]

    def tally(self, statement: str) -> tuple[list, np.ndarray]:
        table = self._guarded(lambda: self._run(statement).to_arrow_table())
        return table.column(0).to_pylist(), table.column(1).to_numpy().astype(np.int64)

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

    def _refuse_inferring_query(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Refuse a query with such scans other than `rows`; the query is explained on an empty copy of `rows`."""
        empty = self._guarded(lambda: connection.sql("SELECT * FROM rows LIMIT 0").to_arrow_table())
        with duckdb.connect() as scratch:
            scratch.register("rows", empty)
            scratch.execute("PRAGMA disable_optimizer")  # which leaves scans out that an empty table needs not
            self._settle_relation(scratch.sql, _IN_QUERIES)

    def _settle_relation(self, run: Callable[[str], Any], inferring: Mapping[str, str]) -> None:
        """Refuse these scans, which infer a column's type from its cells, and leave NaN out: one cell could change the
        codes of all others.
        """
        explained = self._guarded(lambda: run(f"EXPLAIN (FORMAT JSON) SELECT * FROM {self.relation}").fetchall())
        scans = set(_operators(json.loads(explained[0][1])))
        for scan, remedy in inferring.items():
            if any(name.startswith(scan) for name in scans):
                raise SourceError(f"{self.label}: its column types depend on the cells ({scan}); {remedy}")
        self.relation = self._guarded(lambda: without_nan(self._run, self.relation))

    def _guarded(self, action: Callable[[], Any]) -> Any:
        # DuckDB's messages quote cells ("could not convert '...'"): neither they nor their context are passed on.
        try:
            return action()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            reason = _reason(error, self._form, queried=self._queried)
        raise SourceError(f"{self.label}: {reason}")


def without_nan(run: Callable[[str], Any], relation: str) -> str:
    """The relation with NULL in place of NaN.

    Statistics of Parquet files leave NaN out, and DuckDB decides comparisons by them: `x = 'NaN'` is false for all rows
    where no statistic says otherwise. What a NaN is read as would then depend on the other rows. `isfinite` and `isinf`
    are computed for every row.
    """
    described = run(f"SELECT * FROM {relation} LIMIT 0")
    typed = zip(map(DuckDBEngine.dialect.quoted, described.columns), described.types, strict=True)
    floats = [name for name, declared in typed if duckdb_type(declared).kind == "float"]
    listed = ", ".join(f"CASE WHEN isfinite({name}) OR isinf({name}) THEN {name} END AS {name}" for name in floats)
    return f"(SELECT * REPLACE ({listed}) FROM {relation}) AS valued" if floats else relation


def _count_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB measure progress for `scanned` without printing; reading continues if it cannot.

    In a notebook its progress bar needs a package that is often absent, and requesting one fails.
    """
    try:
        connection.execute("SET enable_progress_bar_print = false")
        connection.execute("SET enable_progress_bar = true")
    except duckdb.Error:
        with contextlib.suppress(duckdb.Error):
            connection.execute("SET enable_progress_bar = false")


def _operators(plan: list[dict[str, Any]]) -> Iterator[str]:
    for node in plan:
        yield node["name"]
        yield from _operators(node["children"])


def _reason(error: Exception, form: str, *, queried: bool) -> str:
    if isinstance(error, (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException)):
        remedy = "the query does not run on it; check its table and column names"
        return remedy if queried else "its columns cannot be told apart; give each a name of its own"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "memory ran out while grouping; read it on a larger machine or from a database"
    if isinstance(error, (duckdb.IOException, duckdb.PermissionException)):
        return "cannot be opened or read; check the path and its permissions"
    return _FORMS.get(form, "cannot be read; check that the query runs on every row")
