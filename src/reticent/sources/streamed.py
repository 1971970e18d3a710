"""Rows of any other backend that Ibis speaks come as Arrow batches; DuckDB in this process bins and groups them.

Its SQL is not proven to compare and cast like ours, so it is asked for plain columns only, and the codes are right.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from reticent.errors import SourceError
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.engine import ColumnType

_BATCH = 1 << 17
_WIDE = (pa.int64(), pa.uint64())


class StreamedEngine(DuckDBEngine):
    """An Ibis table expression, run anew for every statement; batches are dropped as soon as they are counted."""

    _expression: Any
    _schema: pa.Schema

    @classmethod
    def of_expression(cls, expression: Any, *, label: str, filtered: bool) -> Self:
        schema = _asked(label, lambda: expression.schema().to_pyarrow())
        engine = cls.over(schema.empty_table(), label=label)
        engine._expression, engine._schema, engine.filtered = expression, schema, filtered
        return engine

    def columns(self) -> Mapping[str, ColumnType]:
        self._offer(self._schema.empty_table())
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
        self._offer(_asked(self.label, lambda: self._batches(used or self._schema.names[:1])))

    def _batches(self, names: list[str]) -> pa.RecordBatchReader:
        """Whole numbers travel as text: drivers that pass through pandas round them where there are nulls."""
        schema = pa.schema([self._schema.field(name) for name in names])
        chosen = self._expression.select(names)
        wide = {field.name: chosen[field.name].cast("string") for field in schema if field.type in _WIDE}
        return chosen.mutate(**wide).to_pyarrow_batches(chunk_size=_BATCH).cast(schema)

    def _offer(self, rows: Any) -> None:
        assert self._connection is not None
        self._connection.register("rows", rows)


def _asked(label: str, action: Any) -> Any:
    """Drivers raise what they like, and their messages may quote cells or addresses."""
    try:
        return action()
    except Exception:
        pass
    raise SourceError(f"{label}: its backend does not deliver these columns; try the expression there first")
