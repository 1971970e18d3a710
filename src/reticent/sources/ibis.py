"""An Ibis expression names rows in a backend; its compiled SQL is the relation of that backend's own engine."""

from __future__ import annotations

from typing import Any

from reticent.errors import SourceError
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.engine import Engine
from reticent.sources.postgres import PostgresEngine
from reticent.sources.spark import SparkEngine
from reticent.sources.streamed import StreamedEngine


def frame_behind(expression: Any) -> Any:
    """The pandas or polars frame that an in-memory table holds; its own schema was inferred from the cells."""
    from ibis.expr import operations

    operation = expression.op() if hasattr(expression, "op") else None
    if not isinstance(operation, operations.InMemoryTable):
        return None
    held = getattr(operation.data, "obj", None)
    return held if type(held).__module__.split(".")[0] in ("pandas", "polars") else None


def open_expression(expression: Any, label: str) -> Engine:
    """The engine of an expression's backend; only those that pass the conformance suite bin rows themselves."""
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
