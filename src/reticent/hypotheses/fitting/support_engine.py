"""The log-linear engine on chosen records: marginals are weighted counts of the records (spec 6.4).

A pass over the records costs far more than one over a table of a few thousand cells. So sets share tables: records are
counted once in a table that holds several sets' attributes, which is then summed down to each of them, and parameters
are added up in such a table before each record reads its sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log, prod
from typing import Self

import numpy as np

from reticent.hypotheses.dense.marginal_tree import MarginalTree

__all__ = ["SharedTable", "SupportEngine", "shared_tables"]

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
        alone = [SharedTable(tuple(axes), [i]) for i, axes in enumerate(axis_sets)]
        tables = shared_tables(shape, axis_sets, log_base.size // RECORDS_A_CELL) if shared else alone
        self._tables = [_Counted.of(table, shape, axis_sets) for table in tables]
        self._ends = np.cumsum([0, *(table.size for table in self._tables)])
        self._narrow = np.uint16 if max((table.size for table in self._tables), default=0) <= 1 << 16 else np.uint32
        self._places = np.empty((len(tables), log_base.size), dtype=self._narrow)
        for row, table in zip(self._places, tables, strict=True):
            row[:] = cells(table.axes)
        self._home = {place: i for i, table in enumerate(tables) for place in table.members}
        self._sets = [tuple(axes) for axes in axis_sets]
        self._log_base = log_base
        self.probabilities = np.full(log_base.size, 1.0 / log_base.size)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        exponents = self._log_base + self._spread(parameters)
        peak = float(exponents.max())
        weights = np.exp(exponents - peak)
        total = float(weights.sum())
        self.probabilities = weights / total
        return log(total) + peak, self._gather(self.probabilities)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        values = self._spread(weights)
        values -= values @ self.probabilities
        return self._gather(values * self.probabilities)

    def occupied(self) -> list[np.ndarray]:
        """Of every set, whether a cell has a record."""
        return [cells > 0 for cells in self._gather(np.ones(self._log_base.size))]

    def rescale(self, index: int, ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply p by `ratio(marginal)` of one set, without making it add up to one again."""
        home = self._home[index]
        table, places = self._tables[home], self._places[home]
        counts = np.bincount(places, weights=self.probabilities, minlength=table.size).reshape(table.shape)
        kept = [table.axes.index(axis) for axis in self._sets[index]]
        others = tuple(axis for axis in range(len(table.shape)) if axis not in kept)
        factor = ratio(counts.sum(axis=others))
        spread = np.broadcast_to(np.expand_dims(factor, others), table.shape)
        self.probabilities *= np.ravel(spread)[places]
        return factor

    def _spread(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Of every record, the sum of its cells of all arrays."""
        from reticent.hypotheses.support_kernels import read_off

        values = np.empty(self._ends[-1])
        for table, start, end in zip(self._tables, self._ends, self._ends[1:], strict=False):
            values[start:end] = table.tree.expand([arrays[i] for i in table.members]).ravel()
        total = np.zeros(self._log_base.size)
        read_off(self._places, values, self._ends[:-1], total)
        return total

    def _gather(self, weights: np.ndarray) -> list[np.ndarray]:
        """The adjoint of `_spread`: of every set, the weight of the records in each cell."""
        from reticent.hypotheses.support_kernels import add_up

        sums = np.zeros(self._ends[-1])
        add_up(self._places, weights, self._ends[:-1], sums)
        found: list[np.ndarray] = [np.empty(0)] * len(self._sets)
        for table, start, end in zip(self._tables, self._ends, self._ends[1:], strict=False):
            for i, marginal in zip(table.members, table.tree.reduce(sums[start:end]), strict=True):
                found[i] = marginal
        return found


@dataclass(frozen=True)
class _Counted:
    """A shared table of one domain, and how it is summed down to its members."""

    axes: Axes
    members: Sequence[int]
    shape: tuple[int, ...]
    tree: MarginalTree

    @classmethod
    def of(cls, table: SharedTable, shape: Sequence[int], axis_sets: Sequence[Axes]) -> Self:
        own = tuple(shape[axis] for axis in table.axes)
        sets = [tuple(table.axes.index(axis) for axis in axis_sets[i]) for i in table.members]
        return cls(table.axes, table.members, own, MarginalTree(own, sets))

    @property
    def size(self) -> int:
        return prod(self.shape)
