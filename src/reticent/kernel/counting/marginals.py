"""Counts: cached marginals and exact weighted sums from one primitive, a table per covering set.

Counting is one pass over byte planes per covering set; smaller marginals are sums of a covering table.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import prod
from typing import Any, NoReturn

import numpy as np

from reticent.domain import Domain
from reticent.domain.numeric import has_positions
from reticent.errors import QueryError
from reticent.kernel.table import QUERY_GRID
from reticent.queries.conjunctions import ABSENT, Conjunctions

CONJUNCTION_CELLS = 1 << 22
"""Conjunctions over fewer cells than this are read from one marginal."""

HELD_CELLS = 1 << 28
"""A dense marginal beyond this many cells (2 GiB) is refused, by its public size."""


class Cache:
    """The most recently used marginals, within a fixed number of bytes; arrays are read-only."""

    __slots__ = ("_arrays", "_bytes", "_limit", "_lock")

    def __init__(self, limit: int = 1 << 26) -> None:
        self._arrays: OrderedDict[tuple[str, ...], np.ndarray] = OrderedDict()
        self._bytes = 0
        self._limit = limit
        self._lock = threading.Lock()

    def get(self, attributes: tuple[str, ...]) -> np.ndarray | None:
        with self._lock:
            found = self._arrays.get(attributes)
            if found is not None:
                self._arrays.move_to_end(attributes)
            return found

    def put(self, attributes: tuple[str, ...], array: np.ndarray) -> np.ndarray:
        array.setflags(write=False)
        with self._lock:
            if array.nbytes <= self._limit and attributes not in self._arrays:
                self._arrays[attributes] = array
                self._bytes += array.nbytes
            while self._bytes > self._limit:
                self._bytes -= self._arrays.popitem(last=False)[1].nbytes
        return array


class Counts:
    """Common part of all sources: caching, covering sets and exact weighted sums over `_count`, one table per cover."""

    __slots__ = ("_cache", "domain", "placed")

    def __init__(self, domain: Domain, placed: Iterable[str] = ()) -> None:
        self.domain = domain
        self._cache = Cache()
        self.placed = frozenset(placed)
        """Attributes whose positions in bins are known, or can be read: as declared, whatever the rows are."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a source holds private rows and is neither pickled nor copied")

    def _count(self, attribute_sets: Sequence[tuple[str, ...]]) -> Iterable[np.ndarray]:
        """The marginal of each set, one pass each, in the order given."""
        raise NotImplementedError

    def total(self) -> int:
        return int(self.marginal(()))

    def marginal(self, attributes: tuple[str, ...]) -> np.ndarray:
        return self.marginals([attributes])[0]

    def marginals(self, sets: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
        sets = [self._checked(attributes) for attributes in sets]
        found = {attributes: self._cache.get(attributes) for attributes in sets}
        wanted = [attributes for attributes, array in found.items() if array is None]
        if not wanted:
            return [array for attributes in sets if (array := found[attributes]) is not None]
        index = self.domain.index
        covers = covering([tuple(index(a) for a in s) for s in wanted], self.domain.shape)
        names = [tuple(self.domain.names[axis] for axis in cover.axes) for cover in covers]
        for cover, cover_names, counted in zip(covers, names, self._count(names), strict=True):
            for position in cover.serves:
                attributes = wanted[position]
                dropped = tuple(i for i, name in enumerate(cover_names) if name not in attributes)
                # A copy, so that the cache never keeps a whole covering table alive through a view.
                found[attributes] = self._cache.put(attributes, np.asarray(summed(counted, dropped), dtype=np.int64))
        return [array for attributes in sets if (array := found[attributes]) is not None]

    def weigh(self, vectors: Mapping[str, np.ndarray]) -> int:
        attributes = self.domain.canonical(vectors)
        arrays = {name: _vector(name, vectors[name], self.domain[name].size) for name in attributes}
        largest = 1
        for array in arrays.values():
            largest *= max(int(np.abs(array).max()), 1)
        # Each partial product stays below G_q, so sums of weights times products are exact int64 (spec 1.3).
        if largest > QUERY_GRID:
            raise QueryError(f"the vectors' product reaches {largest}: at most {QUERY_GRID} keeps int64 sums exact")
        if self.domain.cells(attributes) > COVER_CELLS:
            return self._weigh_rows(arrays)
        result = self.marginal(attributes)
        for array in reversed(arrays.values()):
            result = result @ array
        return int(result)

    def positions(self, name: str, attributes: tuple[str, ...]) -> np.ndarray:
        """For each cell of `attributes` the sum of weight times position in the bin of `name`."""
        attributes = self._checked(attributes)
        # No attribute has an empty name, so the key is free.
        key = ("", name, *attributes)
        found = self._cache.get(key)
        return self._cache.put(key, self._sum_positions(name, attributes)) if found is None else found

    def _sum_positions(self, name: str, attributes: tuple[str, ...]) -> np.ndarray:
        raise NotImplementedError

    def require_positions(self, name: str) -> None:
        """QueryError if the numbers of an attribute differ within bins and this source has no positions."""
        if has_positions(self.domain[name]) and name not in self.placed:
            raise QueryError(f"this table holds codes only: read it with numbers=True to use the numbers of {name}")

    def weigh_bins(self, name: str, vectors: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Weight, and weight times position, in each bin of `name`, of the records where all vectors are 1."""
        raise NotImplementedError

    def conjunctions(self, conjunctions: Conjunctions) -> np.ndarray:
        """The weight of each conjunction, from the marginal of its attributes or, if that is too large, counted
        directly.
        """
        names = self.domain.names
        counts = np.empty(len(conjunctions), dtype=np.int64)
        for used in np.unique(conjunctions.attributes, axis=0):
            which = (conjunctions.attributes == used).all(axis=1)
            axes = used[used != ABSENT].tolist()
            codes = conjunctions.codes[which][:, : len(axes)]
            attributes = tuple(names[axis] for axis in axes)
            if self.domain.cells(attributes) <= CONJUNCTION_CELLS:
                counts[which] = self.marginal(attributes)[tuple(codes.T)]
            else:
                counts[which] = [self._weigh_rows(_ones(self.domain, attributes, row)) for row in codes.tolist()]
        return counts

    def remembered(self, key: str, count: Callable[[], np.ndarray]) -> np.ndarray:
        """The result of `count`, cached because a run asks for the same long list in every round."""
        name = ("", key)  # no attribute has an empty name, so it is free
        found = self._cache.get(name)
        return self._cache.put(name, count()) if found is None else found

    def _weigh_rows(self, vectors: Mapping[str, np.ndarray]) -> int:
        raise NotImplementedError

    def _checked(self, attributes: tuple[str, ...]) -> tuple[str, ...]:
        attributes = self.domain.canonical(attributes)
        cells = self.domain.cells(attributes)
        if cells > HELD_CELLS:
            raise QueryError(
                f"a marginal over {', '.join(attributes)} has {cells} cells: at most {HELD_CELLS}; ask for fewer"
            )
        return attributes


def summed(table: np.ndarray, dropped: Sequence[int]) -> np.ndarray:
    """The table with these axes summed out.

    Adjacent axes that are all kept or all dropped count as one. The dropped ones are then summed one at a time: the
    first sums add long stretches of memory and leave little for the others, while NumPy's own sum over many short axes
    at once takes ten times as long.
    """
    runs = [(gone, list(axes)) for gone, axes in groupby(range(table.ndim), key=set(dropped).__contains__)]
    kept = [table.shape[axis] for gone, axes in runs if not gone for axis in axes]
    table = table.reshape([prod(table.shape[axis] for axis in axes) for _, axes in runs])
    for place in range(len(runs)):
        if runs[place][0]:
            table = table.sum(axis=place, keepdims=True)
    return table.reshape(kept)


def _ones(domain: Domain, attributes: tuple[str, ...], codes: list[int]) -> dict[str, np.ndarray]:
    return {
        name: (np.arange(domain[name].size) == code).astype(np.int64)
        for name, code in zip(attributes, codes, strict=True)
    }


def _vector(name: str, values: np.ndarray, size: int) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iub" or array.shape != (size,):
        raise QueryError(f"the vector of {name} must hold {size} whole numbers on the query grid")
    return array.astype(np.int64)


COVER_CELLS = 1 << 16
"""A covering table of int64 this large stays in a second-level cache (design/engines.md)."""

SMALL_ROWS = 1 << 17
"""Below this NumPy finishes before a compiler would have started."""

BLOCK = 1 << 12


@dataclass(frozen=True)
class CoveringSet:
    """A set of axes counted in one pass, and the positions of the requested sets that it serves."""

    axes: tuple[int, ...]
    serves: tuple[int, ...]


def covering(sets: Sequence[tuple[int, ...]], shape: Sequence[int], limit: int = COVER_CELLS) -> list[CoveringSet]:
    """Greedily merge attribute sets into covers of at most `limit` cells; a larger set is its own cover."""
    member = np.zeros((len(sets), len(shape)), dtype=bool)
    for row, axes in enumerate(sets):
        member[row, list(axes)] = True
    bits = np.log2(np.maximum(np.asarray(shape, dtype=float), 1.0))
    room = np.log2(limit) + 1e-9
    weight = member @ bits
    waiting = np.ones(len(sets), dtype=bool)
    covers = []
    while waiting.any():
        seed = int(np.argmax(np.where(waiting, weight, -1.0)))
        chosen = _grow(member[waiting], member[seed].copy(), bits, room)
        served = waiting & ~(member & ~chosen).any(axis=1)
        covers.append(CoveringSet(tuple(np.flatnonzero(chosen).tolist()), tuple(np.flatnonzero(served).tolist())))
        waiting &= ~served
    return covers


def _grow(member: np.ndarray, chosen: np.ndarray, bits: np.ndarray, room: float) -> np.ndarray:
    missing = (member & ~chosen).sum(axis=1)
    while True:
        free = ~chosen & (bits <= room - bits[chosen].sum())
        # A set that lacks one attribute counts fully, one that lacks two an eighth: it may be covered next.
        urgency = np.where(missing > 0, 8.0 ** (1 - missing.astype(float)), 0.0)
        gain = np.where(free, (urgency @ member) / np.maximum(bits, 0.1), 0.0)
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            return chosen
        chosen[best] = True
        missing -= member[:, best]


@cache
def compiled_tally() -> Callable[..., np.ndarray]:
    """The Numba kernel, imported and compiled (or loaded from its cache) only when a table is large."""
    from numba import njit

    compiled = njit(cache=True, nogil=True)(_tally)
    compiled(*(np.zeros((1, 1), np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint32)), 1)
    return compiled


def compile_counting(rows: int) -> None:
    """Compile while a table is loaded, so that the first paid count of a large table does not include compilation."""
    if rows > SMALL_ROWS:
        compiled_tally()


def _tally(planes: np.ndarray, weights: np.ndarray, chosen: np.ndarray, strides: np.ndarray, cells: int) -> np.ndarray:
    out = np.zeros(cells, np.int64)
    keys = np.empty(BLOCK, np.uint32)
    rows = weights.shape[0]
    for start in range(0, rows, BLOCK):
        length = min(BLOCK, rows - start)
        for i in range(length):
            keys[i] = 0
        for j in range(chosen.shape[0]):
            plane = planes[chosen[j], start : start + length]
            stride = strides[j]
            for i in range(length):
                keys[i] += np.uint32(plane[i]) * stride
        for i in range(length):
            out[keys[i]] += weights[start + i]
    return out


def tally(
    planes: np.ndarray, weights: np.ndarray, chosen: Sequence[int], strides: Sequence[int], cells: int
) -> np.ndarray:
    """The int64 histogram of `sum(planes[chosen] * strides)`, each row counted with its weight."""
    if weights.shape[0] > SMALL_ROWS and cells < 1 << 32:
        return compiled_tally()(
            planes, weights, np.asarray(chosen, dtype=np.int64), np.asarray(strides, dtype=np.uint32), cells
        )
    keys = np.zeros(weights.shape[0], dtype=np.int64)
    for plane, stride in zip(chosen, strides, strict=True):
        keys += planes[plane].astype(np.int64) * stride
    # bincount adds doubles: exact, because all weights together stay below 2^43 (kernel/table.py).
    return np.bincount(keys, weights=weights, minlength=cells).astype(np.int64)
