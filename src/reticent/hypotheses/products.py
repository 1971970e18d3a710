"""A clique's table as a product of small tables, merged pairwise so that only the last merges touch every cell."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from reticent.hypotheses.potentials import combine, reduce


class ProductTree:
    """Merges the tables of `leaves` (sets of attribute positions inside `clique`) into one over the clique.

    Going up multiplies (adds logarithms); going down sums a belief over the clique onto every leaf, each from its
    smallest computed superset. Tables are flat.
    """

    def __init__(self, sizes: Sequence[int], clique: tuple[int, ...], leaves: Sequence[tuple[int, ...]]) -> None:
        self.clique = clique
        self.leaf_count = len(leaves)
        sets = [*leaves]
        if not sets:
            sets.append(())
        merges = _greedy_merges(sizes, sets)
        if len(sets) == 1 or merges[-1][2] != clique:
            # the leaves may not cover the clique (fill-in): a last merge with the constant table broadcasts them
            last = len(sets) + len(merges) - 1
            sets.append(())
            merges = [
                (left + (left >= len(sets) - 1), right + (right >= len(sets) - 1), union)
                for left, right, union in merges
            ]
            last = len(sets) + len(merges) - 1 if merges else 0
            merges.append((last, len(sets) - 1, clique))
        self._sets = [*sets, *(union for _, _, union in merges)]
        self._base = len(sets)
        self._steps = []
        for step, (left, right, union) in enumerate(merges):
            shape = tuple(int(sizes[p]) for p in union)
            place = {p: i for i, p in enumerate(union)}
            self._steps.append(
                (
                    self._base + step,
                    left,
                    right,
                    shape,
                    tuple(place[p] for p in self._sets[left]),
                    tuple(place[p] for p in self._sets[right]),
                )
            )
        self.shape = tuple(int(sizes[p]) for p in clique)
        self.cells = prod(self.shape)

    def multiply(self, tables: Sequence[np.ndarray], *, logs: bool = False) -> np.ndarray:
        """The product of the leaves' tables (the sum of their logarithms) over the clique."""
        nodes: list[np.ndarray] = [*tables]
        nodes.extend(np.full(1, 0.0 if logs else 1.0) for _ in range(self._base - len(nodes)))
        for _, left, right, shape, left_axes, right_axes in self._steps:
            nodes.append(combine(shape, nodes[left], left_axes, nodes[right], right_axes, logs=logs))
        return nodes[-1]

    def marginals(self, belief: np.ndarray) -> list[np.ndarray]:
        """Sums of a belief over the clique onto each leaf."""
        nodes: list[np.ndarray] = [np.empty(0)] * len(self._sets)
        nodes[-1] = belief
        for node, left, right, shape, left_axes, right_axes in reversed(self._steps):
            for child, axes in ((left, left_axes), (right, right_axes)):
                if axes:
                    nodes[child] = nodes[node] if len(axes) == len(shape) else reduce(shape, nodes[node], axes)
        total = np.full(1, 1.0)
        return [nodes[leaf] if self._sets[leaf] else total * belief.sum() for leaf in range(self.leaf_count)]


def _greedy_merges(sizes: Sequence[int], sets: Sequence[tuple[int, ...]]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Pairs to merge, cheapest union first; node k of the result is numbered len(sets) + k."""
    count = len(sets)
    weights = np.log2(np.asarray(sizes, dtype=np.float64))
    members = np.zeros((2 * count - 1, len(sizes)), np.bool_)
    for row, positions in enumerate(sets):
        members[row, list(positions)] = True
    cost = np.full((2 * count - 1, 2 * count - 1), np.inf)
    for row in range(1, count):
        cost[row, :row] = (members[:row] | members[row]) @ weights
    merges = []
    for node in range(count, 2 * count - 1):
        left, right = divmod(int(cost.argmin()), cost.shape[1])
        members[node] = members[left] | members[right]
        merges.append((left, right, tuple(np.flatnonzero(members[node]).tolist())))
        cost[[left, right], :] = np.inf
        cost[:, [left, right]] = np.inf
        alive = np.ones(node, np.bool_)
        for used_left, used_right, _ in merges:
            alive[[used_left, used_right]] = False
        row = np.full(node, np.inf)
        row[alive] = (members[:node][alive] | members[node]) @ weights
        cost[node, :node] = row
    return merges
