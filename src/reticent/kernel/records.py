"""Records are distinct encoded rows with integer weights, held in memory as byte planes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.kernel.counting import SMALL_ROWS, tally
from reticent.kernel.counts import Counts
from reticent.kernel.table import WEIGHT_LIMIT
from reticent.queries.conjunctions import Conjunctions

WEIGH_BLOCK = 1 << 16

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
    """The in-memory source; a code of 300 values takes two byte planes, so one compiled kernel serves all."""

    __slots__ = ("_layout", "_planes", "_weights")

    def __init__(self, domain: Domain, planes: np.ndarray, weights: np.ndarray) -> None:
        super().__init__(domain)
        if weights.size and (int(weights.min()) < 0 or float(weights.sum(dtype=float)) >= WEIGHT_LIMIT):
            # Met only by the custodian while loading, before any session exists (docs/proofs/person-weights.md).
            raise SourceError("the table outgrows its integer grid: declare a larger records= and read it again")
        self._layout = plane_layout(domain)
        self._planes = planes
        self._weights = weights

    @classmethod
    def of_codes(cls, domain: Domain, columns: Mapping[str, np.ndarray], weights: np.ndarray) -> Records:
        """Records from one array of codes per attribute."""
        planes = np.empty((sum(map(len, plane_layout(domain).values())), len(weights)), dtype=np.uint8)
        spread(plane_layout(domain), columns, planes)
        return cls(domain, planes, np.asarray(weights, dtype=np.int64))

    def _count(self, attribute_sets: Sequence[tuple[str, ...]]) -> Iterator[np.ndarray]:
        # The compiled kernel lets go of the interpreter, so large tables are counted by every core, one set each.
        threads = (os.cpu_count() or 1) if len(self._weights) > SMALL_ROWS else 1
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(attribute_sets), threads):
                batch = attribute_sets[start : start + threads]
                yield from pool.map(self._tallied, batch) if threads > 1 else map(self._tallied, batch)

    def _tallied(self, attributes: tuple[str, ...]) -> np.ndarray:
        chosen, strides, stride = [], [], 1
        for name in reversed(attributes):
            for plane, multiplier in self._layout[name]:
                chosen.append(plane)
                strides.append(multiplier * stride)
            stride *= self._domain[name].size
        counted = tally(self._planes, self._weights, chosen, strides, stride)
        return counted.reshape(self._domain.shape_of(attributes))

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
        # Imported late: it brings Numba, which a small table never needs.
        from reticent.kernel.conjunction_counts import conjunction_counts

        def column(attribute: int) -> np.ndarray:
            return self._codes(self._domain.names[attribute], slice(None))

        # DualQuery asks for the same list every round; no attribute has an empty name, so the key is free.
        key = ("", conjunctions.digest)
        found = self._cache.get(key)
        if found is None:
            found = self._cache.put(key, conjunction_counts(conjunctions, column, self._weights))
        return found

    def _codes(self, name: str, block: slice) -> np.ndarray:
        slots = self._layout[name]
        if len(slots) == 1:
            return self._planes[slots[0][0], block]
        return np.sum([self._planes[plane, block].astype(np.int64) * by for plane, by in slots], axis=0)


def spread(layout: Layout, columns: Mapping[str, np.ndarray], planes: np.ndarray) -> None:
    """Write one array of codes per attribute into its byte planes."""
    for name, slots in layout.items():
        for plane, multiplier in slots:
            planes[plane] = columns[name] if len(slots) == 1 else (columns[name] // multiplier) & 255
