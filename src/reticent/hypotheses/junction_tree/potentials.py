"""Tables over attribute sets: broadcast products and reductions, one compiled kernel each for every structure.

A table's axes are attribute positions in ascending order, so a subset's table never needs a transpose. A subset's
flat index is linear in the coordinates; it splits into offsets over outer blocks, offsets over inner blocks, and a
contiguous run on which the subset's index either advances with the table or stands still.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numba
import numpy as np

_INNER_BLOCKS = 512
_LONGEST_RUN = 2048
_PLAIN_BLOCKS = 512


class Layout(NamedTuple):
    """How one subset's table lies inside a larger table."""

    outer: np.ndarray
    inner: np.ndarray
    run: int
    moving: bool


@lru_cache(maxsize=4096)
def _layouts(shape: tuple[int, ...], subsets: tuple[tuple[int, ...], ...]) -> tuple[Layout, ...]:
    """Layouts of several subsets (axis numbers) that share blocks and run, for kernels that walk them together."""
    kept = [[axis in subset for axis in range(len(shape))] for subset in subsets]
    first = max(len(shape) - 1, 0)
    while first > 0 and all(k[first - 1] == k[-1] for k in kept) and prod(shape[first - 1 :]) <= _LONGEST_RUN:
        first -= 1
    run = prod(shape[first:])
    middle = first
    while middle > 0 and prod(shape[middle - 1 : first]) <= _INNER_BLOCKS:
        middle -= 1
    if middle == first and first > 0:
        middle = first - 1
    return tuple(
        Layout(
            _offsets(shape, keep, 0, middle),
            _offsets(shape, keep, middle, first),
            run,
            bool(keep and keep[-1]),
        )
        for keep in kept
    )


def _offsets(shape: tuple[int, ...], keep: Sequence[bool], start: int, stop: int) -> np.ndarray:
    offsets = np.zeros(1, np.int64)
    for axis in range(start, stop):
        stride = prod(s for s, k in zip(shape[axis + 1 :], keep[axis + 1 :], strict=True) if k) if keep[axis] else 0
        offsets = (offsets[:, None] + np.arange(shape[axis], dtype=np.int64) * stride).ravel()
    return offsets


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _combine(
    out,
    first,
    first_outer,
    first_inner,
    first_moving,
    second,
    second_outer,
    second_inner,
    second_moving,
    run,
    logs,
):  # pragma: no cover - compiled
    position = 0
    for a in range(first_outer.size):
        for b in range(first_inner.size):
            f = first_outer[a] + first_inner[b]
            s = second_outer[a] + second_inner[b]
            if first_moving and second_moving:
                if logs:
                    for i in range(run):
                        out[position + i] = first[f + i] + second[s + i]
                else:
                    for i in range(run):
                        out[position + i] = first[f + i] * second[s + i]
            elif first_moving:
                fixed = second[s]
                if logs:
                    for i in range(run):
                        out[position + i] = first[f + i] + fixed
                else:
                    for i in range(run):
                        out[position + i] = first[f + i] * fixed
            elif second_moving:
                fixed = first[f]
                if logs:
                    for i in range(run):
                        out[position + i] = fixed + second[s + i]
                else:
                    for i in range(run):
                        out[position + i] = fixed * second[s + i]
            else:
                fixed = first[f] + second[s] if logs else first[f] * second[s]
                for i in range(run):
                    out[position + i] = fixed
            position += run


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _reduce_block(block, part, inner, moving, run):  # pragma: no cover - compiled
    part[:] = 0.0
    position = 0
    for b in range(inner.size):
        target = inner[b]
        if moving:
            for i in range(run):
                part[target + i] += block[position + i]
        else:
            total = 0.0
            for i in range(run):
                total += block[position + i]
            part[target] += total
        position += run


@numba.njit(cache=True)
def _reduce(table, out, outer, inner, moving, run):  # pragma: no cover - compiled
    """Sum blocks plainly and many blocks into the result with compensation: millions of equal cells would drift.

    No fast mathematics here, it would cancel the compensation away.
    """
    cells = inner.size * run
    width = inner[-1] + (run if moving else 1)
    part = np.empty(width)
    lost = np.zeros(out.size if outer.size > _PLAIN_BLOCKS else 0)
    for a in range(outer.size):
        block = table[a * cells : (a + 1) * cells]
        if width < cells:
            _reduce_block(block, part, inner, moving, run)
        else:
            part = block
        start = outer[a]
        if lost.size == 0:
            for i in range(width):
                out[start + i] += part[i]
            continue
        for i in range(width):
            term = part[i] - lost[start + i]
            total = out[start + i] + term
            lost[start + i] = (total - out[start + i]) - term
            out[start + i] = total


@numba.njit(cache=True)
def _peaks(table, out, outer, inner, moving, run):  # pragma: no cover - compiled
    position = 0
    for a in range(outer.size):
        for b in range(inner.size):
            target = outer[a] + inner[b]
            if moving:
                for i in range(run):
                    out[target + i] = max(out[target + i], table[position + i])
            else:
                highest = out[target]
                for i in range(run):
                    highest = max(highest, table[position + i])
                out[target] = highest
            position += run


def combine(
    shape: tuple[int, ...],
    first: np.ndarray,
    first_axes: tuple[int, ...],
    second: np.ndarray,
    second_axes: tuple[int, ...],
    *,
    logs: bool = False,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """The product (sum, for logarithms) of two flat tables, broadcast over `shape`; flat."""
    if out is None:
        out = np.empty(prod(shape))
    one, two = _layouts(shape, (first_axes, second_axes))
    _combine(out, first, one.outer, one.inner, one.moving, second, two.outer, two.inner, two.moving, one.run, logs)
    return out


def reduce(shape: tuple[int, ...], table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Sum a flat table of this shape onto some of its axes; flat."""
    (layout,) = _layouts(shape, (axes,))
    out = np.zeros(prod(shape[a] for a in axes))
    _reduce(table, out, layout.outer, layout.inner, layout.moving, layout.run)
    return out


def peaks(shape: tuple[int, ...], table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The largest value of a flat table for each cell of some of its axes; flat."""
    (layout,) = _layouts(shape, (axes,))
    out = np.full(prod(shape[a] for a in axes), -np.inf)
    _peaks(table, out, layout.outer, layout.inner, layout.moving, layout.run)
    return out
