"""Compiled inner loops of marginals over a support; public numbers only."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

__all__ = ["add_up", "in_two", "read_off", "read_places", "sum_places"]

_AT_ONCE = 4
"""Rows that share a loop: a sum that waits for the one before it in its own cell does not keep the others waiting."""

_WORTH = 1 << 20
"""Numbers that a loop must read to be divided: half a millisecond, beside a fifth of one to start a thread."""


def in_two(loop: Callable[[int, int], None], count: int, work: int) -> None:
    """Runs a loop over `count` things, as two halves at once if `work` is long and two processors may be used.

    The halves must write to different places: then results do not depend on whether they ran at once.
    """
    half = count // 2
    if work < _WORTH or not half or _PROCESSORS < 2:
        loop(0, count)
        return
    with ThreadPoolExecutor(max_workers=1) as others:
        other = others.submit(loop, 0, half)
        loop(half, count)
        other.result()  # a half that failed left its places empty


def _processors() -> int:
    """Those that this process may use; OMP_NUM_THREADS limits them as it limits linear algebra."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    may = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(may, int(limit)) if limit.isdecimal() and int(limit) else may


_PROCESSORS = _processors()


@njit(cache=True, nogil=True)
def add_up(places: np.ndarray, weights: np.ndarray, starts: np.ndarray, sums: np.ndarray, first: int, end: int) -> None:
    """Adds each record's weight to its cell of some sets, in the order of the records: the same bits as `bincount`."""
    records = places.shape[1]
    last = end - (end - first) % _AT_ONCE
    for row in range(first, last, _AT_ONCE):
        a, b, c, d = starts[row], starts[row + 1], starts[row + 2], starts[row + 3]
        for record in range(records):
            weight = weights[record]
            sums[a + places[row, record]] += weight
            sums[b + places[row + 1, record]] += weight
            sums[c + places[row + 2, record]] += weight
            sums[d + places[row + 3, record]] += weight
    for row in range(last, end):
        start = starts[row]
        for record in range(records):
            sums[start + places[row, record]] += weights[record]


@njit(cache=True, nogil=True)
def read_off(
    places: np.ndarray, values: np.ndarray, starts: np.ndarray, totals: np.ndarray, first: int, end: int
) -> None:
    """The adjoint: adds to the totals of some records their cells of each set, in the order of the sets."""
    rows = places.shape[0]
    last = rows - rows % _AT_ONCE
    for row in range(0, last, _AT_ONCE):
        a, b, c, d = starts[row], starts[row + 1], starts[row + 2], starts[row + 3]
        for record in range(first, end):
            total = totals[record] + values[a + places[row, record]]
            total += values[b + places[row + 1, record]]
            total += values[c + places[row + 2, record]]
            totals[record] = total + values[d + places[row + 3, record]]
    for row in range(last, rows):
        start = starts[row]
        for record in range(first, end):
            totals[record] += values[start + places[row, record]]


@njit(cache=True, nogil=True)
def read_places(tables: np.ndarray, index: np.ndarray, links: np.ndarray, values: np.ndarray) -> None:
    """Adds to values what they have in some tables; a link has the first value, how many, and where their places are
    listed."""
    for link in range(links.shape[0]):
        value, length, listed = links[link]
        for step in range(length):
            values[value + step] += tables[index[listed + step]]


@njit(cache=True, nogil=True)
def sum_places(values: np.ndarray, index: np.ndarray, links: np.ndarray, tables: np.ndarray) -> None:
    """The adjoint: adds each value to its places in the tables."""
    for link in range(links.shape[0]):
        value, length, listed = links[link]
        for step in range(length):
            tables[index[listed + step]] += values[value + step]
