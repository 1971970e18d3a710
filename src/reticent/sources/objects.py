"""Tables already in memory become DuckDB relations through Arrow."""

from __future__ import annotations

import sys
from typing import Any

import duckdb
import pyarrow as pa

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.engine import Engine
from reticent.sources.frames import ArrowFrame, arrow_frame, pandas_frame, polars_frame, untyped_columns
from reticent.sources.ibis import frame_behind, open_expression
from reticent.sources.spark import SparkEngine


def open_object(rows: Any, domain: Domain, name: str, person: str | None = None) -> Engine:
    """The engine over a dataframe, an Arrow table, a DuckDB relation, an Ibis expression or a Spark frame."""
    if isinstance(rows, duckdb.DuckDBPyRelation):
        return DuckDBEngine.of_relation(rows, label=name)
    package = type(rows).__module__.split(".")[0]
    if package == "ibis":
        behind = frame_behind(rows)
        if behind is None:
            return open_expression(rows, name)
        rows = behind
    if package == "pyspark" and hasattr(rows, "sparkSession"):
        return SparkEngine.of_frame(rows, label=name)
    frame = _frame(rows, domain, person, name)
    if not frame.table.column_names:
        raise SourceError(f"{name} has no column whose name is text; name the columns as the domain does")
    return DuckDBEngine.over(
        frame.table, label=name, coded=frame.coded, unread=frame.unread, read=frame.read, named=frame.named
    )


def untyped(rows: Any) -> frozenset[str]:
    """Columns of an object whose cells may have any type."""
    behind = frame_behind(rows) if type(rows).__module__.split(".")[0] == "ibis" else rows
    return frozenset() if behind is None else untyped_columns(behind)


def _frame(rows: Any, domain: Domain, person: str | None, name: str) -> ArrowFrame:
    if _is(rows, "pandas", "DataFrame"):
        return pandas_frame(rows, domain, person, name)
    if _is(rows, "polars", "DataFrame"):
        return polars_frame(rows, domain, person, name)
    if isinstance(rows, pa.RecordBatch):
        return arrow_frame(pa.Table.from_batches([rows]), domain, person, name)
    if isinstance(rows, pa.Table):
        return arrow_frame(rows, domain, person, name)
    if (streamed := _streamed(rows)) is not None:
        return arrow_frame(streamed, domain, person, name)
    raise SourceError(
        f"a {type(rows).__name__} is not a table; give a pandas, polars or Arrow table, a DuckDB relation or an Ibis "
        "expression (collect a lazy frame first), or read a file or a database with Table.read"
    )


def _streamed(rows: Any) -> pa.Table | None:
    """An object that offers its columns as an Arrow stream; None for a single column, which is also a stream."""
    if not hasattr(rows, "__arrow_c_stream__") or _is(rows, "polars", "Series") or _is(rows, "pandas", "Series"):
        return None
    return pa.table(rows)


def _is(rows: Any, package: str, kind: str) -> bool:
    """Whether this is an instance, subclasses included, of a class in a package that may not be installed."""
    module = sys.modules.get(package)
    return module is not None and isinstance(rows, getattr(module, kind, ()))
