"""The log-linear engine on chosen records: marginals are weighted counts of the records (spec 6.4).

A pass over the records costs far more than one over a table of a few thousand cells. So sets share tables: records are
counted once in a table that holds several sets' attributes, which is then summed down to each of them, and parameters
are added up in such a table before each record reads its sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log, prod

import numpy as np

__all__ = ["RecordTables", "SharedTable", "SupportEngine", "shared_tables"]

Axes = tuple[int, ...]

RECORDS_A_CELL = 16
"""A shared table has at most one cell for so many records: summing it down for each of a dozen sets then costs less
than one more pass over the records."""


@dataclass
class SharedTable:
    """Attributes whose cells are counted at once, and the sets that are read off them, by their places in a list."""

    axes: Axes
    members: list[int] = field(default_factory=list)


def shared_tables(shape: Sequence[int], axis_sets: Sequence[Axes], most: int) -> list[SharedTable]:
    """Tables of at most `most` cells, or of one set, that hold all sets between them; larger sets are placed first."""
    sizes, tables = np.array(shape, dtype=float), list[SharedTable]()
    held = np.zeros((len(sizes), len(axis_sets)), dtype=bool)  # of every table, its axes
    cells = np.ones(len(axis_sets))
    own = [prod(shape[axis] for axis in axes) for axes in axis_sets]
    for place in sorted(range(len(axis_sets)), key=lambda i: (-own[i], axis_sets[i])):
        axes, made = list(axis_sets[place]), len(tables)
        growth = np.ones(made)
        for axis in axes:
            growth[~held[axis, :made]] *= sizes[axis]
        growth[(growth > 1) & (growth * cells[:made] > most)] = np.inf
        home = int(np.argmin(growth)) if made else made
        if not made or growth[home] == np.inf:
            home = made
            tables.append(SharedTable(()))
        held[axes, home] = True
        tables[home].axes = tuple(sorted({*tables[home].axes, *axes}))
        tables[home].members.append(place)
        cells[home] = prod(shape[axis] for axis in tables[home].axes)
    return tables


class SupportEngine:
    """Evaluates p(x) ~ exp(log_base(x) + sum of parameters) on the records; `probabilities` holds the last p.

    Args:
        shape: Codes of every attribute.
        axis_sets: The sets, as rising places of attributes.
        cells: Of some attributes, each record's place in their flattened table.
        log_base: Of every record.
        shared: Whether sets share tables. Sums round differently then.
    """

    def __init__(
        self,
        shape: Sequence[int],
        axis_sets: Sequence[Axes],
        cells: Callable[[Axes], np.ndarray],
        log_base: np.ndarray,
        *,
        shared: bool = True,
    ) -> None:
        self.flat = RecordTables(shape, axis_sets, cells, log_base, shared=shared)
        """The same tables as one vector, with the same probabilities."""
        self._shapes = [tuple(shape[axis] for axis in axes) for axes in axis_sets]

    @property
    def probabilities(self) -> np.ndarray:
        return self.flat.probabilities

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        marginals = self.flat.evaluate(self._joined(parameters))
        return self.flat.log_partition, self._shaped(marginals)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._shaped(self.flat.covary(self._joined(weights)))

    def occupied(self) -> list[np.ndarray]:
        """Of every set, whether a cell has a record."""
        return [cells > 0 for cells in self._shaped(self.flat.occupied())]

    def held(self, index: int, table: np.ndarray) -> np.ndarray:
        """Of a set's table the cells that have a record; all of a small one."""
        kept = self.flat.kept[index]
        return table if kept is None else np.ravel(table)[kept]

    def rescale(self, index: int, ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply p by `ratio(marginal)` of the held cells of one set, without making it add up to one again."""
        return self.flat.rescale(index, self._shapes[index], ratio)

    def _joined(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        parts = zip(arrays, self.flat.kept, strict=True)
        ravelled = [np.ravel(array) if kept is None else np.ravel(array)[kept] for array, kept in parts]
        return np.concatenate([np.empty(0), *ravelled])

    def _shaped(self, tables: np.ndarray) -> list[np.ndarray]:
        found = []
        for place, kept, shape in zip(self.flat.places, self.flat.kept, self._shapes, strict=True):
            if kept is None:
                found.append(tables[place].reshape(shape))
            else:
                found.append(np.zeros(shape))
                found[-1].reshape(-1)[kept] = tables[place]
        return found


class RecordTables:
    """The tables of all sets as one vector; of a large set, the cells that a record has (arguments as above).

    Each record has its place among the cells of a shared table, and each of these cells its place in the tables of the
    sets: two short lists of indices that compiled loops walk.
    """

    def __init__(
        self,
        shape: Sequence[int],
        axis_sets: Sequence[Axes],
        cells: Callable[[Axes], np.ndarray],
        log_base: np.ndarray,
        *,
        shared: bool,
    ) -> None:
        most = log_base.size // RECORDS_A_CELL
        alone = [SharedTable(tuple(axes), [i]) for i, axes in enumerate(axis_sets)]
        tables = shared_tables(shape, axis_sets, most) if shared else alone
        own = [prod(shape[axis] for axis in axes) for axes in axis_sets]
        self.kept: list[np.ndarray | None] = [None] * len(axis_sets)
        """Of a set the places of the cells that the vector holds, rising; None for all."""
        ranked, inside = list[np.ndarray](), dict[int, np.ndarray]()
        starts = [0]
        for table in tables:
            sizes = [shape[axis] for axis in table.axes]
            held, ranks = _ranked(cells(table.axes), prod(sizes))
            ranked.append(ranks.astype(_narrow(held.size), copy=False))
            starts.append(starts[-1] + held.size)
            codes = np.unravel_index(held, sizes) if sizes else ()
            for i in table.members:
                place = np.zeros(held.size, dtype=np.int64)
                for axis in axis_sets[i]:
                    place *= shape[axis]
                    place += codes[table.axes.index(axis)]
                if own[i] > most:
                    self.kept[i], place = _ranked(place, own[i])
                inside[i] = place
        lengths = [size if kept is None else kept.size for size, kept in zip(own, self.kept, strict=True)]
        ends = np.cumsum([0, *lengths]).tolist()
        self.places = [slice(a, b) for a, b in pairwise(ends)]
        self.size = int(ends[-1])
        self._starts = np.array(starts[:-1], dtype=np.int64)
        self._cells = starts[-1]
        narrow = _narrow(max(map(int, np.diff(starts)), default=0))
        self._records = np.empty((len(tables), log_base.size), dtype=narrow)
        for row in self._records:
            row[:] = ranked.pop(0)
        links, indices, pooled = list[tuple[int, int, int]](), list[np.ndarray](), 0
        self._home = dict[int, tuple[int, slice]]()
        for number, table in enumerate(tables):
            for i in table.members:
                links.append((starts[number], inside[i].size, pooled))
                place = inside.pop(i)
                indices.append((place + self.places[i].start).astype(np.uint32))
                self._home[i] = number, slice(pooled, pooled + place.size)
                pooled += place.size
        self._links = np.array(links, dtype=np.int64).reshape(-1, 3)
        self._index = np.concatenate([np.empty(0, np.uint32), *indices])
        self._log_base = log_base
        self.log_partition = 0.0
        self.probabilities = np.full(log_base.size, 1.0 / log_base.size)

    def evaluate(self, tables: np.ndarray) -> np.ndarray:
        """The marginals of the distribution that has these logarithms beside those of the base."""
        exponents = self._log_base + self._read(tables)
        peak = float(exponents.max())
        weights = np.exp(exponents - peak)
        total = float(weights.sum())
        self.probabilities = weights / total
        self.log_partition = log(total) + peak
        return self._summed(self.probabilities)

    def covary(self, weights: np.ndarray) -> np.ndarray:
        """At the last distribution: E[(w - E w) 1_c] for every cell c of every table."""
        values = self._read(weights)
        values -= values @ self.probabilities
        return self._summed(values * self.probabilities)

    def occupied(self) -> np.ndarray:
        """The number of records of every cell."""
        return self._summed(np.ones(self._log_base.size))

    def rescale(self, index: int, shape: tuple[int, ...], ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply the probabilities by `ratio(marginal)` of the held cells of one set of this shape."""
        home, listed = self._home[index]
        records, held = self._records[home], self.places[index]
        inside = self._index[listed] - np.uint32(held.start)
        counts = np.bincount(records, weights=self.probabilities, minlength=inside.size)
        marginal = np.bincount(inside, weights=counts, minlength=held.stop - held.start)
        factor = ratio(marginal.reshape(shape) if self.kept[index] is None else marginal)
        self.probabilities *= np.ravel(factor)[inside][records]
        return factor

    def _read(self, tables: np.ndarray) -> np.ndarray:
        """Of every record, the sum of its cells of all tables."""
        from reticent.hypotheses.support_kernels import in_two, read_off, read_places

        values = np.zeros(self._cells)
        read_places(tables, self._index, self._links, values)
        total = np.zeros(self._log_base.size)
        work = self._records.size
        in_two(lambda a, b: read_off(self._records, values, self._starts, total, a, b), total.size, work)
        return total

    def _summed(self, weights: np.ndarray) -> np.ndarray:
        """The adjoint: of every cell of all tables, the weight of its records."""
        from reticent.hypotheses.support_kernels import add_up, in_two, sum_places

        sums = np.zeros(self._cells)
        rows, work = len(self._records), self._records.size
        in_two(lambda a, b: add_up(self._records, weights, self._starts, sums, a, b), rows, work)
        tables = np.zeros(self.size)
        sum_places(sums, self._index, self._links, tables)
        return tables


def _ranked(places: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of some places among so many cells, rising, and which of these each place is."""
    taken = np.zeros(cells, dtype=bool)
    taken[places] = True
    held = np.flatnonzero(taken)
    ranks = np.zeros(cells, dtype=np.uint32)
    ranks[held] = np.arange(held.size, dtype=np.uint32)
    return held, ranks[places]


def _narrow(cells: int) -> type:
    """The type of places among so many cells."""
    return np.uint16 if cells <= 1 << 16 else np.uint32
