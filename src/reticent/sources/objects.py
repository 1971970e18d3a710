"""Tables already in memory become DuckDB relations through Arrow."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.engine import Engine
from reticent.sources.ibis import open_expression
from reticent.sources.spark import SparkEngine


def open_object(rows: Any, domain: Domain, name: str) -> Engine:
    """The engine over a dataframe, an Arrow table, a DuckDB relation, an Ibis expression or a Spark frame."""
    if isinstance(rows, duckdb.DuckDBPyRelation):
        return DuckDBEngine.of_relation(rows, label=name)
    package = type(rows).__module__.split(".")[0]
    if package == "ibis":
        return open_expression(rows, name)
    if package == "pyspark" and hasattr(rows, "sparkSession"):
        return SparkEngine.of_frame(rows, label=name)
    table, coded = _arrow(rows, domain)
    names = table.column_names
    if not names:
        raise SourceError(f"{name} has no columns with a text as name; name them as the domain does")
    twice = next((column for column in names if names.count(column) > 1), None)
    if twice is not None:
        raise SourceError(f"{name} names the column {twice!r} twice; rename one")
    return DuckDBEngine.over(table, label=name, coded=coded)


def _arrow(rows: Any, domain: Domain) -> tuple[pa.Table, frozenset[str]]:
    package = type(rows).__module__.split(".")[0]
    if package == "pandas" and hasattr(rows, "columns"):
        return _pandas(rows, domain)
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows]), frozenset()
    if isinstance(rows, pa.Table):
        return rows, frozenset()
    if package == "polars" and hasattr(rows, "to_arrow"):
        return rows.to_arrow(), frozenset()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows), frozenset()
    raise SourceError(
        f"a {type(rows).__name__} is not a table; give a pandas, polars or Arrow table, a DuckDB relation or an Ibis "
        "expression (collect a lazy frame first)"
    )


def _pandas(frame: Any, domain: Domain) -> tuple[pa.Table, frozenset[str]]:
    """Columns of mixed objects have no Arrow type: those are encoded here, by the reference rule itself."""
    columns: list[tuple[str, Any]] = []
    coded = set()
    for place, name in enumerate(frame.columns):
        if not isinstance(name, str):
            continue
        values = frame.iloc[:, place]
        try:
            columns.append((name, pa.array(values, from_pandas=True)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # The message of the failed conversion quotes a cell.
            if name not in domain:
                continue
            columns.append((name, pa.array(domain[name].encode(values))))
            coded.add(name)
    return pa.table([array for _, array in columns], names=[name for name, _ in columns]), frozenset(coded)
