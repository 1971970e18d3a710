"""One small table for all SQL tests: its exact histogram behind a View, and the same decoded rows in DuckDB."""

from __future__ import annotations

import datetime
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.hypotheses.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.sql import ResultTable, run
from reticent.sql.keys import ColumnKey
from reticent.sql.statement import compile_sql
from reticent.view import View

ROWS = 4000
DOMAIN = Domain(
    age=Numeric(edges=[17, 25, 35, 45, 55, 65, 90], whole=True, other=False),
    sex=Categorical(["Female", "Male"], other=False),
    region=Categorical(["north", "south", "east", "north-east"], nullable=True, other=True),
    income=Numeric(edges=[0, 10, 20, 50, 100], nullable=True),
    smoker=Categorical([True, False], nullable=True),
    children=Integer(4),
    visit=Numeric(edges=[datetime.date(2024, month, 1) for month in (1, 4, 7, 10)], other=False),
)


@cache
def codes() -> np.ndarray:
    """Seeded records, uneven and dependent, as codes."""
    generator = np.random.default_rng(6)
    columns = [generator.choice(size, ROWS, p=generator.dirichlet(np.full(size, 4.0))) for size in DOMAIN.shape]
    columns[3] = np.where(generator.random(ROWS) < 0.5, columns[3], np.minimum(columns[0], 4))
    return np.stack(columns, axis=1)


@cache
def view() -> View:
    """A release's view whose hypothesis is the exact histogram; there is no switch that turns noise off."""
    weights = np.zeros(DOMAIN.shape)
    np.add.at(weights, tuple(codes().T), 1.0)
    return View(Snapshot(DenseHypothesis(DOMAIN, weights)), (), float(ROWS), "exact")


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """The decoded table under the name `t`."""
    columns: dict[str, Any] = {}
    for place, name in enumerate(DOMAIN.names):
        values = [DOMAIN[name].value(code) for code in range(DOMAIN[name].size)]
        columns[name] = pa.array([values[code] for code in codes()[:, place]])
    connected = duckdb.connect()
    connected.register("decoded", pa.table(columns))
    connected.execute("CREATE TABLE t AS SELECT * FROM decoded")
    return connected


def ask(text: str) -> ResultTable:
    """The statement on the exact view."""
    return run(text, DOMAIN, view().answer, records=ROWS)


def decoded(text: str) -> list[tuple[Any, ...]]:
    """Our rows with the labels of bins turned into the values that DuckDB holds."""
    statement, table = compile_sql(text, DOMAIN), ask(text)
    lookups: list[dict[Any, Any] | None] = []
    for output in statement.outputs:
        if isinstance(output.source, ColumnKey):
            attribute = DOMAIN[output.source.attribute]
            shown = statement.grouping.values(output.source)
            lookups.append({label: attribute.value(code) for code, label in enumerate(shown)})
        else:
            lookups.append(None)
    return [
        tuple(cell if lookup is None else lookup[cell] for cell, lookup in zip(row, lookups, strict=True))
        for row in table.rows
    ]
