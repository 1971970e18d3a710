"""A clique's table as a product of small tables, merged pairwise so that only the last merges touch every cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import log2

import numpy as np

from reticent.hypotheses.junction_tree.potentials import combine


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
