"""Counting is one pass over byte planes per covering set; smaller marginals are sums of a covering table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

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
        # A set that lacks one attribute counts fully, one that lacks two an eighth: they may be next.
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
    """While a table is loaded: what compiling takes must not be part of the first paid count of a large one."""
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
