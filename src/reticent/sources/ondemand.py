"""Counts on demand: where distinct records are too many to hold, the engine stays open and counts covering sets."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from reticent.domain import Domain
from reticent.kernel.counts import Counts
from reticent.kernel.records import Records, plane_layout
from reticent.sources.engine import Engine
from reticent.sources.grouping import Packing, coded_rows, grouping
from reticent.sources.progress import watched

_WORTH_STREAMING = 3
"""Fewer sets than this are grouped one by one: encoding all their attributes at once saves nothing."""

_STREAMED_CELLS = 1 << 25
"""Tables tallied in one pass hold at most 256 MiB together."""


class OnDemand(Counts):
    """One grouping statement per covering set; the marginals served by it are cached (`kernel.counts`).

    An engine in this process streams encoded rows instead and all covering sets are tallied in one pass over them.
    """

    __slots__ = ("__weakref__", "_engine", "_grid", "_lock", "_person", "close")

    def __init__(self, engine: Engine, domain: Domain, *, person: str | None, grid: int) -> None:
        super().__init__(domain)
        self._engine = engine
        self._person = person
        self._grid = grid
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
            cells = self._domain.cells(attributes)
            if cells > room:
                batches.append([])
                room = _STREAMED_CELLS
            batches[-1].append(attributes)
            room -= cells
        return batches

    def _grouped(self, attributes: tuple[str, ...]) -> np.ndarray:
        packing, statement = self._statement(attributes)
        counts = np.zeros(self._domain.shape_of(attributes), dtype=np.int64)
        width = len(packing.groups)
        with self._lock:
            for block in watched(self._engine, statement, width + 1):
                codes = packing.unpacked(block[:width])
                place = tuple(codes[name] for name in attributes)
                counts[place if attributes else ...] = block[width] if attributes else block[width].sum()
        return counts

    def _streamed(self, batch: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
        names = self._domain.canonical({name for attributes in batch for name in attributes})
        packing, statement = self._statement_of_rows(names)
        used = Domain({name: self._domain[name] for name in names})
        layout = plane_layout(used)
        totals = [np.zeros(used.shape_of(attributes), dtype=np.int64) for attributes in batch]
        width = len(packing.groups)
        with self._lock:
            for block in watched(self._engine, statement, width + 1):
                records = Records(used, packing.planes(layout, block[:width]), block[width])
                for total, counted in zip(totals, records._count(batch), strict=True):
                    total += counted
        return totals

    def _statement(self, attributes: tuple[str, ...]) -> tuple[Packing, str]:
        if self._person is None:
            return grouping(self._engine, self._domain, attributes, person=None, grid=1)
        # A person's rows are weighed in the order of all codes, so the whole record is grouped before it is cut.
        whole, weighed = grouping(self._engine, self._domain, self._domain.names, person=self._person, grid=self._grid)
        packing = Packing.of(self._domain, attributes)
        keys = packing.keys(whole.digits(self._engine.dialect), self._engine.dialect.bigint)
        listed = ", ".join(f"{key} AS j{place}" for place, key in enumerate(keys))
        names = ", ".join(f"j{place}" for place in range(len(keys)))
        total = f"CAST(SUM(w) AS {self._engine.dialect.bigint})"
        cut = f"SELECT {listed}, w FROM ({weighed}) AS weighed"
        return packing, f"SELECT {names}, {total} AS w FROM ({cut}) AS cut GROUP BY {names}"

    def _weigh_rows(self, vectors: Mapping[str, np.ndarray]) -> int:
        packing, weighed = self._statement_of_rows(tuple(vectors))
        digits = packing.digits(self._engine.dialect)
        factors = ["w", *(_factor(digits[name], vector) for name, vector in vectors.items())]
        bigint = self._engine.dialect.bigint
        # COALESCE: a relation without rows sums to null.
        statement = f"SELECT CAST(COALESCE(SUM({' * '.join(factors)}), 0) AS {bigint}) AS s FROM ({weighed}) AS weighed"
        with self._lock:
            return int(sum(int(block[0].sum()) for block in watched(self._engine, statement, 1)))

    def _statement_of_rows(self, attributes: tuple[str, ...]) -> tuple[Packing, str]:
        """Packed keys with weights: the rows themselves where each weighs one, else the weighed records."""
        if self._person is not None:
            return grouping(self._engine, self._domain, self._domain.names, person=self._person, grid=self._grid)
        packing = Packing.of(self._domain, attributes)
        coded = coded_rows(self._engine, self._domain, packing, None)
        return packing, f"SELECT coded.*, CAST(1 AS {self._engine.dialect.bigint}) AS w FROM ({coded}) AS coded"


def _factor(code: str, vector: np.ndarray) -> str:
    """The vector's value at a code, its codes listed value by value."""
    branches = []
    for value in np.unique(vector[vector != 0]).tolist():
        listed = ", ".join(map(str, np.flatnonzero(vector == value).tolist()))
        branches.append(f"WHEN {code} IN ({listed}) THEN {value}")
    return f"CASE {' '.join(branches)} ELSE 0 END" if branches else "0"
