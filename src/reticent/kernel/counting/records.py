"""Records: distinct encoded rows with integer weights, held in memory as byte planes.

`Subsample` is a secret sample of a table, drawn without replacement: smaller and faster, but no more private (spec
7.4).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.domain.numeric import HALF, has_positions
from reticent.errors import SourceError
from reticent.kernel.counting.marginals import SMALL_ROWS, Counts, compile_counting, tally
from reticent.kernel.table import WEIGHT_LIMIT, Table, exact_counts
from reticent.queries.conjunctions import Conjunctions

WEIGH_BLOCK = 1 << 16
ROOM = 1 << 62
"""Of a source that is made in memory: more than any table has."""

Layout = dict[str, tuple[tuple[int, int], ...]]


def plane_layout(domain: Domain) -> Layout:
    """For each attribute its byte planes as (row of the plane matrix, multiplier)."""
    layout: Layout = {}
    planes = 0
    for name in domain.names:
        width = (max(domain[name].size - 1, 1).bit_length() + 7) // 8
        layout[name] = tuple((planes + byte, 256**byte) for byte in range(width))
        planes += width
    return layout


class Records(Counts):
    """The in-memory source; a code of 300 values takes two byte planes, so one compiled kernel serves all.

    `positions` holds, for each attribute that has them, every record's sum of weight times position in its bin. `room`
    is the number of distinct records that would have been held.
    """

    __slots__ = ("_layout", "_planes", "_positions", "_weights", "room")

    def __init__(
        self,
        domain: Domain,
        planes: np.ndarray,
        weights: np.ndarray,
        positions: Mapping[str, np.ndarray] | None = None,
        room: int = ROOM,
    ) -> None:
        super().__init__(domain, positions or ())
        if weights.size and (int(weights.min()) < 0 or float(weights.sum(dtype=float)) >= WEIGHT_LIMIT):
            # Raised only while the custodian loads the table, before any session (docs/proofs/person-weights.md).
            raise SourceError(
                "the table is too large for its integer grid: declare a larger records= and read it again"
            )
        self._layout = plane_layout(domain)
        self._planes = planes
        self._weights = weights
        self._positions = dict(positions or {})
        self.room = room
        compile_counting(len(weights))

    @classmethod
    def of_codes(
        cls,
        domain: Domain,
        columns: Mapping[str, np.ndarray],
        weights: np.ndarray,
        positions: Mapping[str, np.ndarray] | None = None,
    ) -> Records:
        """Records from one array of codes per attribute, and of sums of positions where they are known."""
        planes = np.empty((sum(map(len, plane_layout(domain).values())), len(weights)), dtype=np.uint8)
        write_planes(plane_layout(domain), columns, planes)
        return cls(domain, planes, np.asarray(weights, dtype=np.int64), positions)

    def sampled(self, records: int, size: int) -> Records:
        """`size` of the declared records; every set of places is equally likely, and equal records have separate
        places.

        If fewer records were read than declared, the remaining places are persons without rows: they are drawn like the
        others and have no weight. If more were read, all of them have a place. For every two neighbours, also if one
        person's rows appear or vanish, samples can therefore be coupled to differ in one record
        (docs/proofs/dualquery.md).
        """
        ends = np.cumsum(self._weights)
        total = int(ends[-1]) if len(ends) else 0
        places = np.array(secrets.SystemRandom().sample(range(max(records, total)), size), dtype=np.int64)
        rows = np.searchsorted(ends, places[places < total], side="right")
        weights = np.bincount(rows, minlength=len(ends))
        kept = np.flatnonzero(weights)
        return Records(self.domain, np.ascontiguousarray(self._planes[:, kept]), weights[kept].astype(np.int64))

    def _count(self, attribute_sets: Sequence[tuple[str, ...]]) -> Iterator[np.ndarray]:
        # The compiled kernel releases the interpreter lock, so large tables are counted on all cores, one set each.
        threads = (os.cpu_count() or 1) if len(self._weights) > SMALL_ROWS else 1
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(attribute_sets), threads):
                batch = attribute_sets[start : start + threads]
                yield from pool.map(self._tallied, batch) if threads > 1 else map(self._tallied, batch)

    def _tallied(self, attributes: tuple[str, ...]) -> np.ndarray:
        return self._tally(attributes, self._weights)

    def _tally(self, attributes: tuple[str, ...], weights: np.ndarray) -> np.ndarray:
        chosen, strides, stride = [], [], 1
        for name in reversed(attributes):
            for plane, multiplier in self._layout[name]:
                chosen.append(plane)
                strides.append(multiplier * stride)
            stride *= self.domain[name].size
        counted = tally(self._planes, weights, chosen, strides, stride)
        return counted.reshape(self.domain.shape_of(attributes))

    def _sum_positions(self, name: str, attributes: tuple[str, ...]) -> np.ndarray:
        sums = self._known_positions(name).astype(np.int64)
        # In two parts: tallies that add doubles are exact for 2^27 records of 24 bits, and so are the others.
        high, low = (self._tally(attributes, part) for part in (sums >> 24, sums & (2**24 - 1)))
        return (high << 24) + low

    def weigh_bins(self, name: str, vectors: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        sums, size = self._known_positions(name), self.domain[name].size
        found = np.zeros((2, size), dtype=np.int64)
        for start in range(0, len(self._weights), WEIGH_BLOCK):
            block = slice(start, start + WEIGH_BLOCK)
            chosen = np.ones(len(self._weights[block]), dtype=bool)
            for owner, vector in vectors.items():
                chosen &= vector[self._codes(owner, block)] == 1
            codes = self._codes(name, block)
            for row, values in zip(found, (self._weights[block], sums[block]), strict=True):
                np.add.at(row, codes, np.where(chosen, values, 0).astype(np.int64))
        return found[0], found[1]

    def _known_positions(self, name: str) -> np.ndarray:
        self.require_positions(name)
        return self._positions[name] if has_positions(self.domain[name]) else HALF * self._weights

    def _weigh_rows(self, vectors: Mapping[str, np.ndarray]) -> int:
        result = 0
        for start in range(0, len(self._weights), WEIGH_BLOCK):
            block = slice(start, start + WEIGH_BLOCK)
            product = self._weights[block].copy()
            for name, vector in vectors.items():
                product *= vector[self._codes(name, block)]
            result += int(product.sum())
        return result

    def conjunctions(self, conjunctions: Conjunctions) -> np.ndarray:
        # Imported late, because it imports Numba, which small tables do not need.
        from reticent.kernel.counting.conjunctions import conjunction_counts

        def column(attribute: int) -> np.ndarray:
            return self._codes(self.domain.names[attribute], slice(None))

        return self.remembered(conjunctions.digest, lambda: conjunction_counts(conjunctions, column, self._weights))

    def _codes(self, name: str, block: slice) -> np.ndarray:
        slots = self._layout[name]
        if len(slots) == 1:
            return self._planes[slots[0][0], block]
        return np.sum([self._planes[plane, block].astype(np.int64) * by for plane, by in slots], axis=0)


def narrow(sums: np.ndarray) -> np.ndarray:
    """Non-negative integers in the fewest bytes that hold them, because most records occur once or twice."""
    largest = int(sums.max(initial=0))
    return sums.astype(np.uint16 if largest < 2**16 else np.uint32 if largest < 2**32 else np.int64)


def write_planes(layout: Layout, columns: Mapping[str, np.ndarray], planes: np.ndarray) -> None:
    """Write one array of codes per attribute into its byte planes."""
    for name, slots in layout.items():
        for plane, multiplier in slots:
            planes[plane] = columns[name] if len(slots) == 1 else (columns[name] // multiplier) & 255


class Subsample(Table):
    """`size` records of a table; the selection stays secret and exists as long as this object.

    Its releases are priced for `size` records and charged without amplification to the ledger of the whole table. The
    smaller epsilon of a stand-alone run (`dualquery_analysis.amplified`) holds for one sample and one run.
    """

    __slots__ = ("_identity",)

    _identity: dict[str, Any]

    def __init__(self, table: Table, size: int) -> None:
        if table.neighbours != "replace-one" or table.unit != "record" or table.records is None:
            raise SourceError("sampling needs a replace-one table whose unit is the record; use the whole table")
        source = exact_counts(table)
        # A table that fits only because many rows are equal is refused too: that is not a public fact.
        if not isinstance(source, Records) or source.room < table.records:
            raise SourceError(
                f"sampling needs the rows in memory: read the table with hold={table.records} or more, or use all of it"
            )
        if not 1 <= size <= table.records:
            raise SourceError(f"a sample of {size} must have between 1 and {table.records} records")
        super().__init__(
            source.sampled(table.records, size),
            table.domain,
            records=size,
            neighbours=table.neighbours,
            unit=table.unit,
            name=f"a sample of {table.name}",
            version=table.version,
        )
        object.__setattr__(self, "_identity", dict(table.identity))

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of the whole table, whose ledger pays."""
        return dict(self._identity)
