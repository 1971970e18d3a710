"""Counting on demand: if the distinct records do not fit in memory, the engine stays open and counts covering sets."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from reticent.domain import Domain
from reticent.kernel.counting.marginals import Counts
from reticent.kernel.counting.records import Records, plane_layout
from reticent.sources.engine import Engine
from reticent.sources.grouping import Packing, placed_attributes
from reticent.sources.progress import watched
from reticent.sources.weighing import RECORDS, Weighing, grouping, weighed_rows

_WORTH_STREAMING = 3
"""Fewer sets than this are grouped one by one: encoding all their attributes at once saves nothing."""

_STREAMED_CELLS = 1 << 25
"""Tables tallied in one pass hold at most 256 MiB together."""


class OnDemand(Counts):
    """One grouping statement per covering set; the marginals served by it are cached (`kernel.counts`).

    An engine in this process instead streams encoded rows, and all covering sets are counted in one pass over them.
    """

    __slots__ = ("__weakref__", "_engine", "_lock", "_weighing", "close")

    def __init__(
        self, engine: Engine, domain: Domain, weighing: Weighing = RECORDS, placed: Sequence[str] | None = None
    ) -> None:
        """`placed` are the attributes whose positions in bins may be read; by default all that have them.

        A table that was declared without positions has none here either: whether it is held in memory or counted on
        demand depends on the private number of its distinct records and must not affect which questions are possible.
        """
        super().__init__(domain, placed_attributes(domain) if placed is None else placed)
        self._engine = engine
        self._weighing = weighing
        self._lock = threading.Lock()
        # The connection lives no longer than the table that counts with it.
        self.close = weakref.finalize(self, engine.close)

    def _count(self, attribute_sets: Sequence[tuple[str, ...]]) -> Iterator[np.ndarray]:
        for batch in self._batches(attribute_sets) if self._engine.near else [[each] for each in attribute_sets]:
            if len(batch) < _WORTH_STREAMING:
                yield from map(self._grouped, batch)
            else:
                yield from self._streamed(batch)

    def _batches(self, attribute_sets: Sequence[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
        """Consecutive sets whose tables fit in memory together."""
        batches: list[list[tuple[str, ...]]] = []
        room = 0
        for attributes in attribute_sets:
            cells = self.domain.cells(attributes)
            if cells > room:
                batches.append([])
                room = _STREAMED_CELLS
            batches[-1].append(attributes)
            room -= cells
        return batches

    def _grouped(self, attributes: tuple[str, ...]) -> np.ndarray:
        return self._read(*self._statement(attributes), attributes)

    def _sum_positions(self, name: str, attributes: tuple[str, ...]) -> np.ndarray:
        self.require_positions(name)
        return self._read(*self._statement(attributes, (name,)), attributes, 1)

    def _read(self, packing: Packing, statement: str, attributes: tuple[str, ...], column: int = 0) -> np.ndarray:
        """The cells of a grouping statement: its weights, or the sums of positions."""
        counts = np.zeros(self.domain.shape_of(attributes), dtype=np.int64)
        width = len(packing.groups)
        with self._lock:
            for block in watched(self._engine, statement, width + 1 + column):
                codes = packing.unpacked(block[:width])
                place = tuple(codes[name] for name in attributes)
                found = block[width + column]
                counts[place if attributes else ...] = found if attributes else found.sum()
        return counts

    def _streamed(self, batch: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
        names = self.domain.canonical({name for attributes in batch for name in attributes})
        packing, statement = self._rows(names)
        used = Domain({name: self.domain[name] for name in names})
        layout = plane_layout(used)
        totals = [np.zeros(used.shape_of(attributes), dtype=np.int64) for attributes in batch]
        width = len(packing.groups)
        with self._lock:
            for block in watched(self._engine, statement, width + 1):
                records = Records(used, packing.planes(layout, block[:width]), block[width])
                for total, counted in zip(totals, records.marginals(batch), strict=True):
                    total += counted
        return totals

    def _statement(self, attributes: tuple[str, ...], placed: tuple[str, ...] = ()) -> tuple[Packing, str]:
        return grouping(self._engine, self.domain, attributes, self._weighing, placed)

    def _rows(self, attributes: tuple[str, ...], placed: tuple[str, ...] = ()) -> tuple[Packing, str]:
        return weighed_rows(self._engine, self.domain, attributes, self._weighing, placed)

    def weigh_bins(self, name: str, vectors: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        self.require_positions(name)
        used = self.domain.canonical({name, *vectors})
        packing, weighed = self._rows(used, (name,))
        digits, bigint = packing.digits(self._engine.dialect), self._engine.dialect.bigint
        wanted = [f"{_factor(digits[owner], vector)} = 1" for owner, vector in vectors.items()]
        chosen = " AND ".join(["1 = 1", *wanted])
        code = f"CAST({digits[name]} AS {bigint})"
        statement = (
            f"SELECT j, CAST(SUM(w) AS {bigint}) AS w, CAST(SUM(s0) AS {bigint}) AS s0 FROM "
            f"(SELECT {code} AS j, w, s0 FROM ({weighed}) AS weighed WHERE {chosen}) AS cut GROUP BY j"
        )
        found = np.zeros((2, self.domain[name].size), dtype=np.int64)
        with self._lock:
            for block in watched(self._engine, statement, 3):
                found[:, block[0]] = block[1:]
        return found[0], found[1]

    def _weigh_rows(self, vectors: Mapping[str, np.ndarray]) -> int:
        packing, weighed = self._rows(tuple(vectors))
        digits = packing.digits(self._engine.dialect)
        factors = ["w", *(_factor(digits[name], vector) for name, vector in vectors.items())]
        bigint = self._engine.dialect.bigint
        # COALESCE: a relation without rows sums to null.
        statement = f"SELECT CAST(COALESCE(SUM({' * '.join(factors)}), 0) AS {bigint}) AS s FROM ({weighed}) AS weighed"
        with self._lock:
            return int(sum(int(block[0].sum()) for block in watched(self._engine, statement, 1)))


def _factor(code: str, vector: np.ndarray) -> str:
    """The vector's value at a code, with its codes listed by value."""
    branches = []
    for value in np.unique(vector[vector != 0]).tolist():
        listed = ", ".join(map(str, np.flatnonzero(vector == value).tolist()))
        branches.append(f"WHEN {code} IN ({listed}) THEN {value}")
    return f"CASE {' '.join(branches)} ELSE 0 END" if branches else "0"
