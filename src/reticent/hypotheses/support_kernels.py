"""Compiled inner loops of marginals over a support; public numbers only."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["add_up", "read_cells", "read_off", "sum_cells"]

_AT_ONCE = 4
"""Rows that share a loop: a sum that waits for the one before it in its own cell does not keep the others waiting."""


@njit(cache=True, nogil=True)
def add_up(places: np.ndarray, weights: np.ndarray, starts: np.ndarray, sums: np.ndarray) -> None:
    """Adds each record's weight to its cell of each set, in the order of the records: the same bits as `bincount`."""
    rows, records = places.shape
    last = rows - rows % _AT_ONCE
    for row in range(0, last, _AT_ONCE):
        a, b, c, d = starts[row], starts[row + 1], starts[row + 2], starts[row + 3]
        for record in range(records):
            weight = weights[record]
            sums[a + places[row, record]] += weight
            sums[b + places[row + 1, record]] += weight
            sums[c + places[row + 2, record]] += weight
            sums[d + places[row + 3, record]] += weight
    for row in range(last, rows):
        start = starts[row]
        for record in range(records):
            sums[start + places[row, record]] += weights[record]


@njit(cache=True, nogil=True)
def read_off(places: np.ndarray, values: np.ndarray, starts: np.ndarray, totals: np.ndarray) -> None:
    """The adjoint: adds to each record's total its cell of each set, in the order of the sets."""
    rows, records = places.shape
    last = rows - rows % _AT_ONCE
    for row in range(0, last, _AT_ONCE):
        a, b, c, d = starts[row], starts[row + 1], starts[row + 2], starts[row + 3]
        for record in range(records):
            total = totals[record] + values[a + places[row, record]]
            total += values[b + places[row + 1, record]]
            total += values[c + places[row + 2, record]]
            totals[record] = total + values[d + places[row + 3, record]]
    for row in range(last, rows):
        start = starts[row]
        for record in range(records):
            totals[record] += values[start + places[row, record]]


@njit(cache=True, nogil=True)
def read_cells(tables: np.ndarray, index: np.ndarray, links: np.ndarray, values: np.ndarray) -> None:
    """Adds to values what they have in some tables; a link has the first value, how many, and where their places are
    listed."""
    for link in range(links.shape[0]):
        value, length, listed = links[link]
        for step in range(length):
            values[value + step] += tables[index[listed + step]]


@njit(cache=True, nogil=True)
def sum_cells(values: np.ndarray, index: np.ndarray, links: np.ndarray, tables: np.ndarray) -> None:
    """The adjoint: adds each value to its places in the tables."""
    for link in range(links.shape[0]):
        value, length, listed = links[link]
        for step in range(length):
            tables[index[listed + step]] += values[value + step]
