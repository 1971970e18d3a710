"""Exact counts of a million conjunctions: one bitmap per literal, then AND and popcount.

The work depends on the table's total weight, never on which rows are equal or satisfy a condition
(docs/threat-model.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit, prange

from reticent.queries.conjunctions import ABSENT, Conjunctions

WORD = 64
UNIT_ROWS = 1 << 26
"""Up to this total weight every row has as many places in the bitmaps as it weighs; beyond, weights are bit planes."""


def conjunction_counts(
    conjunctions: Conjunctions, column: Callable[[int], np.ndarray], weights: np.ndarray
) -> np.ndarray:
    """The weight of records that satisfy each conjunction, as exact int64.

    `column(attribute)` yields the codes of one attribute for all rows; only attributes that occur are requested, in
    order.
    """
    pairs, places = conjunctions.literals
    weights = np.ascontiguousarray(weights, dtype=np.int64)
    total = int(weights.sum())
    repeats = weights if total <= UNIT_ROWS else np.ones_like(weights)
    bitmaps = np.zeros((len(pairs), (int(repeats.sum()) + WORD - 1) // WORD), dtype=np.uint64)
    attribute, codes = -1, np.empty(0)
    for position, (owner, code) in enumerate(pairs.tolist()):
        if owner != attribute:
            attribute, codes = owner, np.repeat(column(owner), repeats)
        _fill(bitmaps[position], codes == code)
    counts = np.zeros(len(conjunctions), dtype=np.int64)
    if total <= UNIT_ROWS:
        _popcounts(bitmaps, places, counts)
        return counts
    planes = np.zeros((total.bit_length(), bitmaps.shape[1]), dtype=np.uint64)
    for bit, plane in enumerate(planes):
        _fill(plane, (weights >> bit) & 1)
    _weigh(bitmaps, places, planes, counts)
    return counts


def _fill(bitmap: np.ndarray, truth: np.ndarray) -> None:
    bits = np.packbits(truth.astype(bool), bitorder="little")
    bitmap.view(np.uint8)[: len(bits)] = bits


@njit(cache=True, nogil=True, inline="always")
def _ones(word: np.uint64) -> np.uint64:
    """Set bits of a word, by adding neighbours; compilers turn it into one instruction where there is one."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True, nogil=True, inline="always")
def _both(bitmaps: np.ndarray, places: np.ndarray, query: int, position: int) -> np.uint64:
    word = bitmaps[places[query, 0], position]
    for place in range(1, places.shape[1]):
        if places[query, place] != ABSENT:
            word &= bitmaps[places[query, place], position]
    return word


@njit(cache=True, nogil=True, parallel=True)
def _popcounts(bitmaps: np.ndarray, places: np.ndarray, counts: np.ndarray) -> None:
    for query in prange(places.shape[0]):
        total = np.uint64(0)
        for position in range(bitmaps.shape[1]):
            total += _ones(_both(bitmaps, places, query, position))
        counts[query] = np.int64(total)


@njit(cache=True, nogil=True, parallel=True)
def _weigh(bitmaps: np.ndarray, places: np.ndarray, planes: np.ndarray, counts: np.ndarray) -> None:
    for query in prange(places.shape[0]):
        total = np.int64(0)
        for position in range(bitmaps.shape[1]):
            word = _both(bitmaps, places, query, position)
            for bit in range(planes.shape[0]):
                total += np.int64(_ones(word & planes[bit, position])) << bit
        counts[query] = total
