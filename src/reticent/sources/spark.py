"""Spark bins, weights and groups on its cluster; only distinct keys and their weights are collected."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from reticent.errors import SourceError
from reticent.sources import dialects
from reticent.sources.engine import ColumnType

_DOUBLE_DIGITS = 15
_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), ColumnType("integer")),
    **dict.fromkeys(("float", "double"), ColumnType("float")),
    "boolean": ColumnType("boolean"),
    "date": ColumnType("date"),
    "timestamp": ColumnType("instant"),
    "timestamp_ntz": ColumnType("timestamp"),
}


class SparkEngine:
    """A relation of the caller's own session, which stays open; its configuration names the cluster."""

    dialect: dialects.Dialect = dialects.Spark()
    near = False

    def __init__(self, session: Any, relation: str, *, label: str, filtered: bool) -> None:
        self._session = session
        self._view: str | None = None
        self._tag = f"reticent_{uuid.uuid4().hex}"
        self.label = label
        self.filtered = filtered
        self.relation = f"{relation} AS queried"

    @classmethod
    def of_frame(cls, frame: Any, *, label: str) -> SparkEngine:
        """A relation of a data frame; it may filter rows, so its size is not public."""
        view = f"reticent_{uuid.uuid4().hex}"
        engine = cls(frame.sparkSession, view, label=label, filtered=True)
        engine._guarded(lambda: frame.createOrReplaceTempView(view))
        engine._view = view
        return engine

    def columns(self) -> Mapping[str, ColumnType]:
        described = self._guarded(lambda: self._session.sql(f"SELECT * FROM {self.relation}").dtypes)
        return {name: _column_type(declared) for name, declared in described}

    def fetch(self, statement: str, width: int) -> Generator[np.ndarray]:
        def collected() -> Any:
            # Tags belong to the thread that runs the job.
            self._session.addTag(self._tag)
            try:
                return self._session.sql(statement).toArrow()
            finally:
                self._session.removeTag(self._tag)

        table = self._guarded(collected)
        for batch in table.to_batches():
            yield np.stack([column.to_numpy(zero_copy_only=False).astype(np.int64) for column in batch.columns])

    def texts(self, statement: str) -> list[str]:
        return [text for (text,) in self._guarded(lambda: self._session.sql(statement).collect())]

    def tally(self, statement: str) -> tuple[list, np.ndarray]:
        table = self._guarded(lambda: self._session.sql(statement).toArrow())
        return table.column(0).to_pylist(), table.column(1).to_numpy().astype(np.int64)

    def scanned(self) -> float | None:
        return None

    def interrupt(self) -> None:
        self._guarded(lambda: self._session.interruptTag(self._tag))

    def close(self) -> None:
        if self._view is not None:
            self._session.catalog.dropTempView(self._view)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            # pyspark is the caller's, not imported here; whatever else fails keeps its own name and message.
            if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
                raise
            reason = _reason(error)
        # Spark's messages quote cells and plans; neither they nor their context are passed on.
        raise SourceError(f"{self.label}: {reason}")


def _reason(error: Exception) -> str:
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return "the query does not run; check its tables and columns"
    if type(error).__name__ in ("NumberFormatException", "DateTimeException", "ArithmeticException"):
        return "the query fails on a value; let it select the columns as they are"
    if "spark.driver.maxResultSize" in str(error):
        return "more distinct records than spark.driver.maxResultSize; raise it, or read fewer attributes"
    return "the query failed on the cluster; see its log"


def _column_type(declared: str) -> ColumnType:
    name = declared.split("(")[0].split(" ")[0]
    if name == "decimal":
        return ColumnType("decimal", wide=int(declared[8:].split(",")[0]) > _DOUBLE_DIGITS)
    if name in ("string", "varchar", "char"):
        return ColumnType("text")
    return _KINDS.get(name, ColumnType("other"))
