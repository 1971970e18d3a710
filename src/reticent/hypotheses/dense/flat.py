"""All tables of a universe as one vector, for fits of thousands of steps: each step is a few calls.

A reduction tree reads a large tensor once. On a thousand cells most of its time is call overhead, so compiled loops
over one index replace it in the repeated fits of replicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from reticent.hypotheses.dense.marginal_tree import marginal_tree, softmax_in_place

__all__ = ["FlatTables"]

MOST_PLACES = 1 << 19
"""Limit on cells times tables: two megabytes of indices, which fit in caches. Beyond it a tree that reads cells once is
faster.
"""


class FlatTables:
    """p(x) ~ exp(sum of tables at x) and its marginals; the tables of all sets are concatenated in one vector."""

    def __init__(
        self,
        shape: tuple[int, ...],
        axis_sets: Sequence[tuple[int, ...]],
        impossible: np.ndarray | None = None,
        *,
        repeated: bool = True,
    ) -> None:
        small = repeated and prod(shape) * len(axis_sets) <= MOST_PLACES
        self._sums: _Indexed | _Reduced
        self._sums = _Indexed(shape, axis_sets) if small else _Reduced(shape, axis_sets, repeated=repeated)
        self.size = self._sums.size
        self.kept: list[np.ndarray | None] = [None] * len(axis_sets)
        """Of every set all cells, for `FlatTerms`."""
        self._impossible = None if impossible is None else impossible.ravel()
        self.probabilities, self.scratch = np.empty(prod(shape)), np.empty(prod(shape))

    def evaluate(self, tables: np.ndarray) -> np.ndarray:
        """The marginals of the distribution that has these logarithms."""
        cells = self.probabilities
        self._sums.read(tables, cells)
        if self._impossible is not None:
            cells[self._impossible] = -np.inf
        softmax_in_place(cells)
        return self._sums.marginals(cells)

    def covary(self, weights: np.ndarray) -> np.ndarray:
        """At the last evaluated distribution: E[(w - E w) 1_c] for every cell c of every table."""
        cells = self.scratch
        self._sums.read(weights, cells)
        cells -= float(cells @ self.probabilities)
        cells *= self.probabilities
        return self._sums.marginals(cells)


class _Indexed:
    """Every cell has its index in all tables."""

    def __init__(self, shape: tuple[int, ...], axis_sets: Sequence[tuple[int, ...]]) -> None:
        cells = np.indices(shape, dtype=np.int32).reshape(len(shape), -1)
        self._index = np.empty((cells.shape[1], len(axis_sets)), np.int32)
        self.size = 0
        for place, axes in enumerate(axis_sets):
            sizes = tuple(shape[axis] for axis in axes)
            inside = np.ravel_multi_index([cells[axis] for axis in axes], sizes) if axes else 0
            self._index[:, place] = self.size + inside
            self.size += prod(sizes)

    def read(self, tables: np.ndarray, cells: np.ndarray) -> None:
        """For every cell, the sum of its entries in the tables."""
        from reticent.hypotheses.dense.flat_kernels import read_tables

        read_tables(tables, self._index, cells)

    def marginals(self, cells: np.ndarray) -> np.ndarray:
        """The marginals of the cells."""
        from reticent.hypotheses.dense.flat_kernels import sum_cells

        found = np.empty(self.size)
        sum_cells(cells, self._index, found)
        return found


class _Reduced:
    """The same through a reduction tree."""

    def __init__(self, shape: tuple[int, ...], axis_sets: Sequence[tuple[int, ...]], *, repeated: bool) -> None:
        self._tree = marginal_tree(shape, tuple(axis_sets), repeated=repeated)
        self._shapes = [tuple(shape[axis] for axis in axes) for axes in axis_sets]
        ends = [int(end) for end in np.cumsum([0, *map(prod, self._shapes)])]
        self._places = [slice(a, b) for a, b in pairwise(ends)]
        self.size = ends[-1]

    def read(self, tables: np.ndarray, cells: np.ndarray) -> None:
        parts = zip(self._places, self._shapes, strict=True)
        self._tree.expand([tables[place].reshape(shape) for place, shape in parts], cells)

    def marginals(self, cells: np.ndarray) -> np.ndarray:
        return np.concatenate([marginal.ravel() for marginal in self._tree.reduce(cells)])
