"""Ibis expressions: the compiled SQL becomes a relation of the backend's own engine.

Rows of other Ibis backends arrive as Arrow batches; DuckDB in this process bins and groups them. The SQL of these
backends is not proven to compare and cast as ours does, so they only deliver plain columns.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from reticent.errors import SourceError
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.engine import ColumnType, Engine
from reticent.sources.postgres import PostgresEngine
from reticent.sources.spark import SparkEngine


def frame_behind(expression: Any) -> Any:
    """The pandas or polars frame of an in-memory table, whose schema Ibis inferred from the cells."""
    from ibis.expr import operations

    operation = expression.op() if hasattr(expression, "op") else None
    if not isinstance(operation, operations.InMemoryTable):
        return None
    held = getattr(operation.data, "obj", None)
    return held if type(held).__module__.split(".")[0] in ("pandas", "polars") else None


def open_expression(expression: Any, label: str) -> Engine:
    """The engine of an expression's backend; only backends that pass the conformance suite bin rows themselves."""
    import ibis
    from ibis.expr import operations

    if not isinstance(expression, ibis.Table):
        raise SourceError("an Ibis expression must be a table; select the columns of the domain")
    operation = expression.op()
    if isinstance(operation, operations.InMemoryTable):
        return DuckDBEngine.over(operation.data.to_pyarrow(operation.schema), label=label)
    backends: list[Any] = expression._find_backends()[0]
    if len(backends) != 1:
        raise SourceError("an Ibis expression must name tables of one connected backend")
    backend = backends[0]
    # Only a plain table is known to leave no row out.
    filtered = not isinstance(operation, operations.DatabaseTable)
    if backend.name not in ("duckdb", "postgres", "pyspark"):
        return StreamedEngine.of_expression(expression, label=label, filtered=filtered)
    query = str(ibis.to_sql(expression))
    if backend.name == "duckdb":
        engine = DuckDBEngine.of_connection(backend.con, label=label, query=query)
        engine.filtered = filtered
        return engine
    if backend.name == "postgres":
        return PostgresEngine(backend.con, query, label=label, filtered=filtered, owned=False)
    return SparkEngine(backend._session, f"({query})", label=label, filtered=filtered)


_BATCH = 1 << 17
_WIDE = (pa.int64(), pa.uint64())


class StreamedEngine(DuckDBEngine):
    """An Ibis table expression, run again for every statement; batches are discarded as soon as they are counted."""

    _expression: Any
    _schema: pa.Schema

    @classmethod
    def of_expression(cls, expression: Any, *, label: str, filtered: bool) -> Self:
        schema = _asked(label, lambda: expression.schema().to_pyarrow())
        engine = cls.over(schema.empty_table(), label=label)
        engine._expression, engine._schema, engine.filtered = expression, schema, filtered
        return engine

    def columns(self) -> Mapping[str, ColumnType]:
        self.offer(self._schema.empty_table())
        return super().columns()

    def fetch(self, statement: str, width: int) -> Generator[np.ndarray]:
        # In the caller's thread, not when the first block is wanted: some drivers serve no other.
        self._offer_for(statement)
        return super().fetch(statement, width)

    def texts(self, statement: str) -> list[str]:
        self._offer_for(statement)
        return super().texts(statement)

    def tally(self, statement: str) -> tuple[list, np.ndarray]:
        self._offer_for(statement)
        return super().tally(statement)

    def _offer_for(self, statement: str) -> None:
        used = [name for name in self._schema.names if self.dialect.quoted(name) in statement]
        self.offer(_asked(self.label, lambda: self._batches(used or self._schema.names[:1])))

    def _batches(self, names: list[str]) -> pa.RecordBatchReader:
        """The batches; whole numbers travel as text, because drivers that use pandas round them if there are nulls."""
        schema = pa.schema([self._schema.field(name) for name in names])
        chosen = self._expression.select(names)
        wide = {field.name: chosen[field.name].cast("string") for field in schema if field.type in _WIDE}
        return chosen.mutate(**wide).to_pyarrow_batches(chunk_size=_BATCH).cast(schema)


def _asked(label: str, action: Any) -> Any:
    """Replace errors of drivers, whose messages may quote cells or addresses."""
    try:
        return action()
    except Exception:
        pass
    raise SourceError(f"{label}: its backend does not return these columns; run the expression there first")
