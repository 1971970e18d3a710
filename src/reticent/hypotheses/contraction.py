"""The partition function as a tree of pairwise contractions, and its gradient: the marginals of every factor.

Variable elimination never needs a clique's whole table: the last product of a clique and the sum to its separator
are one batched matrix product. Running the tree backwards gives d log Z / d factor, hence all factor marginals, for
twice the work. The tree is written as a tape of integers, so one compiled interpreter serves every structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log, log2, prod

import numpy as np

from reticent.hypotheses import contraction_kernels as kernels
from reticent.hypotheses.junction import JunctionTree
from reticent.hypotheses.products import bits, greedy_pairs

_LONG_RUN = 16
SAFE_LOWEST = 1e-150
"""Tables have maximum 1: above this, every product of two entries stays a normal float64."""


@dataclass
class _Node:
    axes: tuple[int, ...]
    offset: int


@dataclass
class Tape:
    """A contraction program for fixed attribute sets: values and gradients live in two workspaces."""

    tree: JunctionTree
    sets: Sequence[tuple[int, ...]]
    _nodes: list[_Node] = field(default_factory=list, init=False)
    _rows: list[list[int]] = field(default_factory=list, init=False)
    _pool: list[np.ndarray] = field(default_factory=list, init=False)
    _pooled: int = field(default=0, init=False)
    _space: int = field(default=0, init=False)
    _closed: set[int] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        leaves = [self._new(tuple(s)) for s in self.sets]
        self._starts = np.array([*(self._nodes[n].offset for n in leaves), self._space], np.int64)
        self.leaf_cells = self._space
        self._one = self._new(())
        self._record(leaves)
        self.rows = np.array(self._rows, np.int64).reshape(-1, kernels.COLUMNS)
        self.pool = np.concatenate([np.zeros(1, np.int64), *self._pool])
        self.values = np.empty(self._space)
        self._slopes = np.zeros(self._space)
        self.values[self._nodes[self._one].offset] = 1.0
        self._scales = np.ones(len(self.rows))
        self._totals = np.array([row[kernels.OUT] in self._closed for row in self._rows], np.bool_)
        covered = {p for s in self.sets for p in s}
        self._constant = sum(log(size) for p, size in enumerate(self.tree.sizes) if p not in covered)

        self._moves = self._bends = np.empty(0)

    @property
    def products(self) -> int:
        """Multiplications of one forward pass."""
        return int(self.rows[:, kernels.BATCH : kernels.RIGHT + 1].prod(axis=1).sum())

    def evaluate(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """log Z and the marginals of exp(factors), both flat, set after set.

        Raises FloatingPointError where factors span so many nats that products could underflow.
        """
        last = self.leaf_cells
        self.values[:last] = flat
        log_partition, lowest = kernels.forward(self.rows, self.pool, self.values, self._starts, self._scales)
        if not lowest > SAFE_LOWEST:
            raise FloatingPointError("factors span too many nats for probability space")
        kernels.backward(self.rows, self.pool, self.values, self._slopes, self._scales, self._totals)
        return self._constant + log_partition, self.values[:last] * self._slopes[:last]

    def covary(self, flat: np.ndarray) -> np.ndarray:
        """The derivative of the marginals last evaluated along `flat`: the covariance of w(x) with every cell."""
        if not self._moves.size:
            self._moves, self._bends = np.zeros(self._space), np.zeros(self._space)
        last = self.leaf_cells
        values, slopes, moves, bends = self.values, self._slopes, self._moves, self._bends
        np.multiply(values[:last], flat, out=moves[:last])
        kernels.forward_along(self.rows, self.pool, values, self._scales, moves)
        kernels.backward_along(self.rows, self.pool, values, slopes, self._scales, self._totals, moves, bends)
        return moves[:last] * slopes[:last] + values[:last] * bends[:last]

    # -- recording -----------------------------------------------------------------------------------------

    def _cells(self, axes: Sequence[int]) -> int:
        return prod(self.tree.sizes[a] for a in axes)

    def _reserve(self, cells: int) -> int:
        start, self._space = self._space, self._space + cells
        return start

    def _new(self, axes: tuple[int, ...]) -> int:
        self._nodes.append(_Node(axes, self._reserve(self._cells(axes))))
        return len(self._nodes) - 1

    def _record(self, leaves: Sequence[int]) -> None:
        held: list[list[int]] = [[] for _ in self.tree.cliques]
        for leaf, clique in zip(leaves, self.tree.assign(self.sets), strict=True):
            held[clique].append(leaf)
        for clique in range(len(self.tree.cliques) - 1, -1, -1):
            separator = frozenset(self.tree.separators[clique])
            result = self._contract_all(held[clique], separator)
            if result is not None and self._nodes[result].axes:
                held[self.tree.parents[clique]].append(result)

    def _contract_all(self, active: list[int], separator: frozenset[int]) -> int | None:
        """Contract a clique's tables onto its separator, cheapest pair first."""
        if not active:
            return None
        nodes = list(active)

        def join(first: int, second: int, alive: set[int]) -> int:
            needed = separator.union(*(self._nodes[nodes[n]].axes for n in alive))
            nodes.append(self._step(nodes[first], nodes[second], needed))
            return bits(self._nodes[nodes[-1]].axes)

        members = sorted({a for n in active for a in self._nodes[n].axes})
        logs = {a: log2(self.tree.sizes[a]) + 1e-6 for a in members}
        masks = [bits(self._nodes[n].axes) for n in active]
        greedy_pairs(masks, lambda mask: sum(v for a, v in logs.items() if mask >> a & 1), join)
        result = nodes[-1]
        if not separator.issuperset(self._nodes[result].axes) or not self._nodes[result].axes:
            result = self._step(result, self._one, separator)
        if not self._nodes[result].axes:
            self._closed.add(self._nodes[result].offset)
        return result

    def _step(self, first: int, second: int, needed: frozenset[int]) -> int:
        one, two = set(self._nodes[first].axes), set(self._nodes[second].axes)
        if self._cells(sorted((one - two) & needed)) > self._cells(sorted((two - one) & needed)):
            first, second, one, two = second, first, two, one
        batch, joint = _split(self._nodes[first].axes, lambda a: a in two, needed)
        left = [a for a in self._nodes[first].axes if a not in two and a in needed]
        right = [a for a in self._nodes[second].axes if a not in one and a in needed]
        sizes = [self._cells(group) for group in (batch, left, joint, right)]
        # the innermost loop runs over `right`, or over the batch where that is the longer run
        inner = sizes[3] < _LONG_RUN and sizes[0] > sizes[3]
        orders = (
            ((*left, *joint, *batch), (*joint, *right, *batch), (*left, *right, *batch))
            if inner
            else ((*batch, *left, *joint), (*batch, *joint, *right), (*batch, *left, *right))
        )
        out = self._new(orders[2])
        row = [int(inner), *sizes, self._nodes[out].offset]
        for node, order in ((first, orders[0]), (second, orders[1])):
            row.extend(self._lay_out(node, order))
        self._rows.append(row)
        return out

    def _lay_out(self, node: int, order: tuple[int, ...]) -> list[int]:
        """Where a factor lies, where its packed copy goes (itself if already in order), and the gather offsets."""
        axes, start = self._nodes[node].axes, self._nodes[node].offset
        if axes == order:
            return [start, start, 0, self._cells(axes), 0, 1]
        dropped = tuple(a for a in axes if a not in order)
        keep, drop = self._offsets(axes, order), self._offsets(axes, dropped)
        pack = self._reserve(keep.size)
        return [start, pack, self._pool_in(keep), keep.size, self._pool_in(drop), drop.size]

    def _pool_in(self, offsets: np.ndarray) -> int:
        start = 1 + self._pooled
        self._pool.append(offsets)
        self._pooled += offsets.size
        return start

    def _offsets(self, axes: tuple[int, ...], order: Sequence[int]) -> np.ndarray:
        stride, strides = 1, {}
        for axis in reversed(axes):
            strides[axis] = stride
            stride *= self.tree.sizes[axis]
        offsets = np.zeros(1, np.int64)
        for axis in order:
            offsets = (offsets[:, None] + np.arange(self.tree.sizes[axis]) * strides[axis]).ravel()
        return offsets


def _split(axes, shared, needed) -> tuple[list[int], list[int]]:
    """Shared axes of a factor: those that stay (batch) and those that are summed (joint)."""
    both = [a for a in axes if shared(a)]
    return [a for a in both if a in needed], [a for a in both if a not in needed]
