"""Tables over attribute sets: broadcast products and reductions, one compiled kernel each for every structure.

A table's axes are attribute positions in ascending order, so a subset's table never needs a transpose. A subset's
flat index is linear in the coordinates; it splits into offsets over outer blocks, offsets over inner blocks, and a
contiguous run on which the subset's index either advances with the table or stands still.

A clique's table as a product of small tables, merged pairwise so that only the last merges touch every cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from math import log2, prod
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


class ProductTree:
    """Merges the tables of `leaves` (sets of attribute positions inside `clique`) into one over the clique.

    Tables are flat; leaves that do not cover the clique are broadcast.
    """

    def __init__(self, sizes: Sequence[int], clique: tuple[int, ...], leaves: Sequence[tuple[int, ...]]) -> None:
        # the empty set, a constant, broadcasts leaves that do not cover the clique (fill-in)
        sets = [*leaves, *([()] * max(1, 2 - len(leaves)))]
        merges: list[tuple[int, int, tuple[int, ...]]] = []

        def join(first: int, second: int, alive: set[int]) -> int:
            union = (masks[first] | masks[second]) if alive else bits(clique)
            masks.append(union)
            merges.append((first, second, tuple(p for p in clique if union >> p & 1)))
            return union

        masks = [bits(s) for s in sets]
        logs = {p: log2(sizes[p]) for p in clique}
        greedy_pairs(masks.copy(), lambda mask: sum(v for p, v in logs.items() if mask >> p & 1), join)
        nodes = [*sets, *(union for _, _, union in merges)]
        self._constants = len(sets) - len(leaves)
        self._steps = [
            (
                left,
                right,
                tuple(sizes[p] for p in union),
                tuple(union.index(p) for p in nodes[left]),
                tuple(union.index(p) for p in nodes[right]),
            )
            for left, right, union in merges
        ]
        self.shape = tuple(sizes[p] for p in clique)

    def multiply(self, tables: Sequence[np.ndarray], *, logs: bool = False) -> np.ndarray:
        """The product of the leaves' tables (the sum of their logarithms) over the clique."""
        nodes = [*tables, *([np.full(1, 0.0 if logs else 1.0)] * self._constants)]
        for left, right, shape, left_axes, right_axes in self._steps:
            nodes.append(combine(shape, nodes[left], left_axes, nodes[right], right_axes, logs=logs))
        return nodes[-1]


def greedy_pairs(
    masks: Sequence[int], weigh: Callable[[int], float], join: Callable[[int, int, set[int]], int]
) -> None:
    """Merge nodes pairwise, cheapest union first, until one is left.

    `masks` are attribute sets as bits, `weigh` their cost; `join(first, second, alive)` merges two nodes and returns
    the mask of the result, which is numbered after all earlier nodes.
    """
    nodes = list(masks)
    alive = set(range(len(nodes)))
    queue = [(weigh(nodes[i] | nodes[j]), j, i) for i in range(len(nodes)) for j in range(i)]
    heapify(queue)
    while len(alive) > 1:
        _, first, second = heappop(queue)
        if first not in alive or second not in alive:
            continue
        alive -= {first, second}
        new = len(nodes)
        nodes.append(join(first, second, alive))
        for other in alive:
            heappush(queue, (weigh(nodes[new] | nodes[other]), other, new))
        alive.add(new)


def bits(positions: Iterable[int]) -> int:
    """An attribute set as an integer."""
    return sum(1 << p for p in positions)
