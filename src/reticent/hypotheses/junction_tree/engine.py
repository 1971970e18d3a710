"""The engine of a fit on a junction tree: log partition, marginals and covariances of the measured sets.

The partition function as a tree of pairwise contractions, and its gradient: the marginals of every factor.

Variable elimination never needs a clique's whole table: the last product of a clique and the sum to its separator
are one batched matrix product. Running the tree backwards gives d log Z / d factor, hence all factor marginals, for
twice the work. The tree is written as a tape of integers, so one compiled interpreter serves every structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log, log2, prod
from typing import NamedTuple

import numpy as np

from reticent.errors import DomainError
from reticent.hypotheses.junction_tree import contraction_kernels as kernels
from reticent.hypotheses.junction_tree.log_space import LogEngine
from reticent.hypotheses.junction_tree.potentials import bits, greedy_pairs
from reticent.hypotheses.junction_tree.tree import JunctionTree


class FactoredEngine:
    """Exact inference for a fixed list of attribute sets: p(x) ~ exp(sum of parameters[c](x on set c)).

    Works in probability space; parameters that span more nats than float64 can multiply fall back to logarithms.
    `impossible` are cells of some sets where p is 0, whatever the parameters.
    """

    def __init__(
        self,
        tree: JunctionTree,
        measured_sets: Sequence[Sequence[str]],
        impossible: Mapping[tuple[str, ...], np.ndarray] | None = None,
    ) -> None:
        self.tree = tree
        self.flat = FactoredTables(tree, measured_sets, impossible)
        """The same tables as one vector."""
        self.sets = self.flat.sets

    @property
    def products(self) -> int:
        """Multiplications of one forward pass: the measure of an evaluation's work."""
        return self.flat.products

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """The log partition function and the marginal of every set."""
        marginals = self.flat.evaluate(self.flat.joined(parameters))
        return self.flat.log_partition, self.flat.shaped(marginals)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """At the parameters last evaluated: E_p[(w - E_p w) 1_c] for every set c, w(x) = sum of weights[c](x)."""
        return self.flat.shaped(self.flat.covary(self.flat.joined(weights)))


class FactoredTables:
    """The tables of all sets as one vector, set after set (arguments as above)."""

    def __init__(
        self,
        tree: JunctionTree,
        measured_sets: Sequence[Sequence[str]],
        impossible: Mapping[tuple[str, ...], np.ndarray] | None = None,
    ) -> None:
        self._tree = tree
        self.sets = tuple(tree.positions(s) for s in measured_sets)
        self.kept: list[np.ndarray | None] = [None] * len(self.sets)
        """Of every set all cells, for `FlatTerms`."""
        self._ruled = {tree.positions(names): mask for names, mask in (impossible or {}).items()}
        self._shapes = [tree.shape_of(s) for s in self.sets]
        self._ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]
        self._tape = Tape(tree, self.sets, self._ruled)
        self.size = self._tape.leaf_cells
        self.log_partition = 0.0
        self._extreme = False
        self._logs: LogEngine | None = None

    @property
    def products(self) -> int:
        return self._tape.products

    def evaluate(self, tables: np.ndarray) -> np.ndarray:
        """The marginals of the distribution that has these logarithms."""
        try:
            self.log_partition, marginals = self._tape.evaluate(tables)
        except FloatingPointError:
            self._extreme = True
            self.log_partition, found = self._log_engine.evaluate(self.shaped(tables))
            return self.joined(found)
        self._extreme = False
        return marginals

    def covary(self, weights: np.ndarray) -> np.ndarray:
        """At the last distribution: E[(w - E w) 1_c] for every cell c of every table."""
        if self._extreme:
            return self.joined(self._log_engine.covary(self.shaped(weights)))
        return self._tape.covary(weights)

    @property
    def _log_engine(self) -> LogEngine:
        if self._logs is None:
            self._logs = LogEngine(self._tree, self.sets, self._ruled)
        return self._logs

    def joined(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The vector of some arrays, one for each set."""
        if [np.shape(a) for a in arrays] != self._shapes:
            raise DomainError(f"{len(arrays)} arrays do not match the {len(self._shapes)} measured sets' shapes")
        return np.concatenate([np.ravel(a) for a in arrays]) if arrays else np.empty(0)

    def shaped(self, flat: np.ndarray) -> list[np.ndarray]:
        """Its parts as arrays, one for each set."""
        parts = np.split(flat, self._ends) if self.sets else []
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]


_LONG_RUN = 16
SAFE_LOWEST = 1e-150
"""Tables have maximum 1: above this, every product of two entries stays a normal float64."""


class Tape:
    """A contraction program for fixed attribute sets: values and slopes live in one workspace each.

    Impossible cells are leaves of their own, behind those of the sets: zero there, one elsewhere.
    """

    def __init__(
        self,
        tree: JunctionTree,
        sets: Sequence[tuple[int, ...]],
        impossible: Mapping[tuple[int, ...], np.ndarray] | None = None,
    ) -> None:
        impossible = impossible or {}
        recorder = _Recorder(tree, [*sets, *impossible])
        sets_end = recorder.leaf_starts[len(sets)]
        self.leaf_cells = sets_end
        self._starts = np.array(recorder.leaf_starts, np.int64)
        self._rows = np.array(recorder.rows, np.int64).reshape(-1, kernels.COLUMNS)
        self._pool = np.concatenate([np.zeros(1, np.int32), *recorder.pool])
        self._totals = np.array([row[kernels.OUT] in recorder.totals for row in recorder.rows], np.bool_)
        self._scales = np.ones(len(self._rows))
        self._values = np.empty(recorder.space)
        self._values[recorder.one.offset] = 1.0
        self._slopes = np.zeros(recorder.space)
        self._moves = self._bends = np.empty(0)
        covered = {p for s in (*sets, *impossible) for p in s}
        self._constant = sum(log(size) for p, size in enumerate(tree.sizes) if p not in covered)
        self._possible = np.empty(0)
        if impossible:
            self._possible = np.ones(recorder.space)
            masks = np.concatenate([np.ravel(mask) for mask in impossible.values()])
            self._possible[sets_end : recorder.leaf_starts[-1]] = ~masks
            kernels.mark_possible(self._rows, self._pool, self._possible)

    @property
    def products(self) -> int:
        """Multiplications of one forward pass."""
        return int(self._rows[:, kernels.BATCH : kernels.RIGHT + 1].prod(axis=1).sum())

    def evaluate(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """log Z and the marginals of exp(factors), both flat, set after set.

        Raises FloatingPointError where factors span so many nats that products could underflow.
        """
        last = self.leaf_cells
        self._values[:last] = flat
        if self._possible.size:
            self._values[last : self._starts[-1]] = 0.0
            log_partition, lowest = kernels.forward_possible(
                self._rows, self._pool, self._values, self._starts, self._scales, self._possible
            )
        else:
            log_partition, lowest = kernels.forward(self._rows, self._pool, self._values, self._starts, self._scales)
        if not lowest > SAFE_LOWEST:
            raise FloatingPointError("factors span too many nats for probability space")
        kernels.backward(self._rows, self._pool, self._values, self._slopes, self._scales, self._totals)
        return self._constant + log_partition, self._values[:last] * self._slopes[:last]

    def covary(self, flat: np.ndarray) -> np.ndarray:
        """The derivative of the marginals last evaluated along `flat`: the covariance of w(x) with every cell."""
        if not self._moves.size:
            self._moves, self._bends = np.zeros_like(self._values), np.zeros_like(self._values)
        last = self.leaf_cells
        values, slopes, moves, bends = self._values, self._slopes, self._moves, self._bends
        np.multiply(values[:last], flat, out=moves[:last])
        kernels.forward_along(self._rows, self._pool, values, self._scales, moves)
        kernels.backward_along(self._rows, self._pool, values, slopes, self._scales, self._totals, moves, bends)
        return moves[:last] * slopes[:last] + values[:last] * bends[:last]


class _Node(NamedTuple):
    """A table in the workspace: its axes in storage order, and where it starts."""

    axes: tuple[int, ...]
    offset: int


class _Recorder:
    """Writes the tape: clique after clique from the leaves of the tree, each contracted onto its separator."""

    def __init__(self, tree: JunctionTree, sets: Sequence[tuple[int, ...]]) -> None:
        self.sizes = tree.sizes
        self.space = 0
        self.rows: list[list[int]] = []
        self.pool: list[np.ndarray] = []
        self.totals: set[int] = set()
        self._pooled = 0
        leaves = [self._new(tuple(s)) for s in sets]
        self.leaf_starts = [*(leaf.offset for leaf in leaves), self.space]
        self.one = self._new(())
        held: list[list[_Node]] = [[] for _ in tree.cliques]
        for leaf, clique in zip(leaves, tree.assign(sets), strict=True):
            held[clique].append(leaf)
        for clique in range(len(tree.cliques) - 1, -1, -1):
            result = self._contract_all(held[clique], frozenset(tree.separators[clique]))
            if result is not None and result.axes:
                held[tree.parents[clique]].append(result)

    def _cells(self, axes: Iterable[int]) -> int:
        return prod(self.sizes[a] for a in axes)

    def _reserve(self, cells: int) -> int:
        start, self.space = self.space, self.space + cells
        return start

    def _new(self, axes: tuple[int, ...]) -> _Node:
        return _Node(axes, self._reserve(self._cells(axes)))

    def _contract_all(self, active: Sequence[_Node], separator: frozenset[int]) -> _Node | None:
        """Contract a clique's tables onto its separator, cheapest pair first."""
        if not active:
            return None
        nodes = list(active)

        def join(first: int, second: int, alive: set[int]) -> int:
            needed = separator.union(*(nodes[n].axes for n in alive))
            nodes.append(self._step(nodes[first], nodes[second], needed))
            return bits(nodes[-1].axes)

        # the small constant prefers short unions among equals
        logs = {a: log2(self.sizes[a]) + 1e-6 for node in active for a in node.axes}
        masks = [bits(node.axes) for node in active]
        greedy_pairs(masks, lambda mask: sum(v for a, v in logs.items() if mask >> a & 1), join)
        result = nodes[-1]
        if not separator.issuperset(result.axes) or not result.axes:
            result = self._step(result, self.one, separator)
        if not result.axes:
            self.totals.add(result.offset)
        return result

    def _step(self, first: _Node, second: _Node, needed: frozenset[int]) -> _Node:
        """One product: batch axes stay in both factors, joint ones are summed, left and right belong to one factor."""
        if self._own_cells(first, second, needed) > self._own_cells(second, first, needed):
            first, second = second, first
        shared = [a for a in first.axes if a in second.axes]
        batch, joint = [a for a in shared if a in needed], [a for a in shared if a not in needed]
        left = [a for a in first.axes if a not in second.axes and a in needed]
        right = [a for a in second.axes if a not in first.axes and a in needed]
        sizes = [self._cells(group) for group in (batch, left, joint, right)]
        # the innermost loop runs over `right`, or over the batch where that is the longer run
        inner = sizes[3] < _LONG_RUN and sizes[0] > sizes[3]
        orders = (
            ((*left, *joint, *batch), (*joint, *right, *batch), (*left, *right, *batch))
            if inner
            else ((*batch, *left, *joint), (*batch, *joint, *right), (*batch, *left, *right))
        )
        out = self._new(orders[2])
        sides = [*self._lay_out(first, orders[0]), *self._lay_out(second, orders[1])]
        self.rows.append([int(inner), *sizes, out.offset, *sides])
        return out

    def _own_cells(self, node: _Node, other: _Node, needed: frozenset[int]) -> int:
        return self._cells(a for a in node.axes if a in needed and a not in other.axes)

    def _lay_out(self, node: _Node, order: tuple[int, ...]) -> list[int]:
        """Where a factor lies, where its packed copy goes (itself if already in order), and the gather offsets."""
        if node.axes == order:
            return [node.offset, node.offset, 0, self._cells(order), 0, 1]
        dropped = tuple(a for a in node.axes if a not in order)
        keep, drop = self._offsets(node.axes, order), self._offsets(node.axes, dropped)
        pack = self._reserve(keep.size)
        return [node.offset, pack, self._pool_in(keep), keep.size, self._pool_in(drop), drop.size]

    def _pool_in(self, offsets: np.ndarray) -> int:
        start = 1 + self._pooled
        self.pool.append(offsets)
        self._pooled += offsets.size
        return start

    def _offsets(self, axes: tuple[int, ...], order: Sequence[int]) -> np.ndarray:
        """Flat indices into a table of these axes, in the order of a walk along others."""
        stride, strides = 1, {}
        for axis in reversed(axes):
            strides[axis] = stride
            stride *= self.sizes[axis]
        offsets = np.zeros(1, np.int32)  # half the traffic of 64 bits; the size guard stays far below 2^31
        for axis in order:
            steps = np.arange(self.sizes[axis], dtype=np.int32) * np.int32(strides[axis])
            offsets = (offsets[:, None] + steps).ravel()
        return offsets
