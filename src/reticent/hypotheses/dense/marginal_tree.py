"""A reduction tree: many marginals of one tensor in little more than one read, and its adjoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

__all__ = ["MarginalTree", "marginal_tree", "softmax_in_place"]

# Below this a NumPy pass costs less than waiting for the compiler. A fixed number, so that a replay takes
# the same path and yields the same bits whatever was imported before.
COMPILED_CELLS = 1 << 16
# Sets above this order are summed out of the root one by one: k+1 blocks would need too many branches.
_HIGHEST_SPLIT_ORDER = 4
_FAN = 4
# A run is summed in two steps when the rows behind it are shorter than this and the first step still shrinks
# the tensor well: adding short rows costs more than adding a few cells twice.
_LONG_ROW = 512
_LEAST_SHRINKAGE = 8


@dataclass(frozen=True)
class _Fan:
    """One read of a node seen as (a, b, c, d): for each block with a target >= 0, the node without it."""

    source: int
    shape: tuple[int, ...]
    targets: tuple[int, ...]


class MarginalTree:
    """All requested marginals of a tensor of one shape, through shared intermediate sums.

    The axes split into k+1 contiguous blocks; every set of k axes misses one of them. Each block is summed
    out and each set follows the first branch that can serve it. Smaller sets come from the smallest node
    computed on the way. `expand` runs the same steps backwards. Trees that are `repeated` thousands of times are worth
    the compiler however small the tensor is.
    """

    def __init__(self, shape: Sequence[int], axis_sets: Sequence[Sequence[int]], *, repeated: bool = False) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.axis_sets = tuple(tuple(sorted(int(axis) for axis in axes)) for axes in axis_sets)
        known = set(range(len(self.shape)))
        for axes in self.axis_sets:
            if len(set(axes)) != len(axes) or not known.issuperset(axes):
                raise ValueError(f"axes {axes} must be distinct and below {len(self.shape)}")
        root = (1 << len(self.shape)) - 1
        self._nodes: dict[int, int] = {root: 0}
        self._masks: list[int] = [root]
        self._fans: list[_Fan] = []
        self._plan([_mask(axes) for axes in self.axis_sets])
        self._lay_out()
        self._compiled = repeated or self._sizes[0] >= COMPILED_CELLS

    @property
    def cells_read(self) -> int:
        """Cells that one `reduce` reads: the measure of its work."""
        return sum(math.prod(fan.shape) for fan in self._fans)

    def reduce(self, tensor: np.ndarray) -> list[np.ndarray]:
        """The marginals of a tensor, in the order of the sets."""
        root = np.ascontiguousarray(tensor, dtype=np.float64).reshape(-1)
        if root.size != self._sizes[0]:
            raise ValueError(f"a tensor of shape {np.shape(tensor)} does not fit a tree of shape {self.shape}")
        space = np.empty(self._space)
        if self._compiled:
            from reticent.hypotheses.dense import marginal_kernels

            marginal_kernels.reduce_fans(root, space, self._table)
        else:
            self._reduce_plainly(root, space)
        return [self._view(root, space, node).copy().reshape(shape) for node, shape in self._outputs]

    def expand(self, arrays: Sequence[np.ndarray], out: np.ndarray | None = None) -> np.ndarray:
        """The adjoint of `reduce`: the sum of the arrays, each broadcast over the axes it lacks."""
        if len(arrays) != len(self.axis_sets):
            raise ValueError(f"{len(arrays)} arrays were given for {len(self.axis_sets)} sets")
        root = np.empty(self._sizes[0]) if out is None else out.reshape(-1)
        fresh = self._compiled and self._feeds_root
        if not fresh:
            root[...] = 0.0
        space = np.zeros(self._space)
        for array, (node, shape) in zip(arrays, self._outputs, strict=True):
            if np.shape(array) != shape:
                raise ValueError(f"an array of shape {np.shape(array)} was given where {shape} is needed")
            view = self._view(root, space, node)
            view += np.ravel(array)
        if self._compiled:
            from reticent.hypotheses.dense import marginal_kernels

            marginal_kernels.expand_fans(root, space, self._table, fresh)
        else:
            self._expand_plainly(root, space)
        return root.reshape(self.shape)

    # -- planning ------------------------------------------------------------------------------------------

    def _plan(self, wanted: list[int]) -> None:
        distinct = sorted(set(wanted), key=lambda mask: (-mask.bit_count(), mask))
        maximal = _maximal(distinct)
        root = self._masks[0]
        large = [mask for mask in maximal if mask.bit_count() > _HIGHEST_SPLIT_ORDER]
        for mask in large:
            self._reach(root, mask)
        self._serve(root, [mask for mask in maximal if mask.bit_count() <= _HIGHEST_SPLIT_ORDER])
        for mask in distinct:
            if mask not in self._nodes:
                holders = (node for node in self._masks if mask & ~node == 0)
                self._reach(min(holders, key=self._cells), mask)

    def _serve(self, node: int, wanted: list[int]) -> None:
        """Plan every wanted set (none contains another) from one node."""
        wanted = [mask for mask in wanted if mask not in self._nodes]
        if not wanted:
            return
        union = 0
        for mask in wanted:
            union |= mask
        if union != node:
            self._reach(node, union)
            self._serve(union, wanted)
            return
        blocks = self._split(node, max(mask.bit_count() for mask in wanted) + 1)
        branches: list[tuple[int, list[int]]] = []
        for block in blocks:
            served = [mask for mask in wanted if mask & block == 0]
            wanted = [mask for mask in wanted if mask & block]
            branches.append((block, served))
        self._fan_out(node, blocks, [block for block, served in branches if served])
        for block, served in branches:
            self._serve(node & ~block, served)

    def _reach(self, node: int, wanted: int) -> None:
        """Sum out what is not wanted, one run of neighbouring axes at a time, the largest first."""
        while node != wanted:
            run = max(_runs(node, wanted), key=lambda block: (self._cells(block), block))
            run = self._leading_part(node, run)
            before = node & ((run & -run) - 1)
            self._fan_out(node, [block for block in (before, run, node & ~before & ~run) if block], [run])
            node &= ~run

    def _leading_part(self, node: int, run: int) -> int:
        """Leave enough of the run's last axes for a second step when the rows behind the run are short."""
        kept = self._cells(node >> run.bit_length() << run.bit_length())
        if kept == 1:
            return run
        part = run
        while kept < _LONG_ROW and part & (part - 1):
            last = 1 << (part.bit_length() - 1)
            kept *= self._cells(last)
            part &= ~last
        return part if self._cells(part) >= _LEAST_SHRINKAGE else run

    def _fan_out(self, node: int, blocks: list[int], dropped: list[int]) -> None:
        """Record the steps that sum each dropped block out of a node; up to four share one read."""
        dropped = [block for block in dropped if node & ~block not in self._nodes]
        while dropped:
            now, groups = _coarsen(blocks, dropped)
            dropped = dropped[len(now) :]
            targets, shape = [-1] * _FAN, [1] * _FAN
            for place, group in enumerate(groups, start=_FAN - len(groups)):
                shape[place] = self._cells(group)
                if group in now:
                    targets[place] = self._nodes[node & ~group] = len(self._masks)
                    self._masks.append(node & ~group)
            self._fans.append(_Fan(self._nodes[node], tuple(shape), tuple(targets)))

    def _split(self, node: int, count: int) -> list[int]:
        """Cut the axes of a node into contiguous blocks so that the branches hold few cells."""
        axes = _axes(node)
        sizes = [self.shape[axis] for axis in axes]
        cuts = _best_cuts(tuple(sizes), min(count, len(axes)))
        return [_mask(axes[start:stop]) for start, stop in cuts]

    def _cells(self, mask: int) -> int:
        return math.prod(self.shape[axis] for axis in _axes(mask))

    def _lay_out(self) -> None:
        """Give every node but the root a place in one workspace; write the steps as a table of integers."""
        self._sizes = [self._cells(mask) for mask in self._masks]
        starts, position = [-1], 0
        for size in self._sizes[1:]:
            starts.append(position)
            position += size
        self._offsets, self._space = starts, position
        self._outputs = [
            (self._nodes[_mask(axes)], tuple(self.shape[axis] for axis in axes)) for axes in self.axis_sets
        ]
        # whether the steps alone fill the root, so that nobody needs to clear it first
        self._feeds_root = bool(self._fans) and all(node != 0 for node, _ in self._outputs)
        rows = [
            (
                starts[fan.source],
                *fan.shape,
                *(starts[target] if target >= 0 else -1 for target in fan.targets),
            )
            for fan in self._fans
        ]
        self._table = np.array(rows, dtype=np.int64).reshape(len(rows), 1 + 2 * _FAN)

    # -- the NumPy path ------------------------------------------------------------------------------------

    def _view(self, root: np.ndarray, space: np.ndarray, node: int) -> np.ndarray:
        if node == 0:
            return root
        return space[self._offsets[node] : self._offsets[node] + self._sizes[node]]

    def _reduce_plainly(self, root: np.ndarray, space: np.ndarray) -> None:
        for fan in self._fans:
            source = self._view(root, space, fan.source)
            for place, target in enumerate(fan.targets):
                if target >= 0:
                    outer, block, inner = _around(fan.shape, place)
                    sums = self._view(root, space, target).reshape(outer, inner)
                    np.add.reduce(source.reshape(outer, block, inner), axis=1, out=sums)

    def _expand_plainly(self, root: np.ndarray, space: np.ndarray) -> None:
        for fan in reversed(self._fans):
            source = self._view(root, space, fan.source)
            for place, target in enumerate(fan.targets):
                if target >= 0:
                    outer, block, inner = _around(fan.shape, place)
                    view = source.reshape(outer, block, inner)
                    view += self._view(root, space, target).reshape(outer, 1, inner)


@lru_cache(maxsize=64)
def marginal_tree(
    shape: tuple[int, ...], axis_sets: tuple[tuple[int, ...], ...], *, repeated: bool = False
) -> MarginalTree:
    """A tree from the cache: loops ask for the same workload every round."""
    return MarginalTree(shape, axis_sets, repeated=repeated)


def softmax_in_place(logits: np.ndarray) -> float:
    """exp(logits) / sum, overwriting the logits; returns the logarithm of the sum."""
    peak = float(logits.max())
    if logits.size >= COMPILED_CELLS:
        from reticent.hypotheses.dense.kernels import exponentiate

        total = exponentiate(logits.reshape(-1), peak)
    else:
        logits -= peak
        np.exp(logits, out=logits)
        total = float(logits.sum())
    logits /= total
    return peak + math.log(total)


def _mask(axes: Sequence[int]) -> int:
    mask = 0
    for axis in axes:
        mask |= 1 << axis
    return mask


def _maximal(descending: list[int]) -> list[int]:
    """The sets contained in no other; they come largest first, so only strictly larger ones can hold one."""
    maximal: list[int] = []
    larger, order = 0, -1
    for mask in descending:
        if mask.bit_count() != order:
            larger, order = len(maximal), mask.bit_count()
        if not any(mask & ~holder == 0 for holder in maximal[:larger]):
            maximal.append(mask)
    return maximal


@lru_cache(maxsize=1 << 16)
def _axes(mask: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(mask.bit_length()) if mask >> axis & 1)


def _runs(node: int, wanted: int) -> list[int]:
    """The unwanted axes of a node, grouped into runs that are neighbours in the node's own layout."""
    runs: list[int] = []
    extend = False
    for axis in _axes(node):
        if wanted >> axis & 1:
            extend = False
        elif extend:
            runs[-1] |= 1 << axis
        else:
            runs.append(1 << axis)
            extend = True
    return runs


def _coarsen(blocks: list[int], dropped: list[int]) -> tuple[list[int], list[int]]:
    """As many of the dropped blocks as one read can serve, and at most four groups that keep these apart."""
    for count in range(min(len(dropped), _FAN), 0, -1):
        now = dropped[:count]
        groups: list[int] = []
        for block in blocks:
            if groups and block not in now and groups[-1] not in now:
                groups[-1] |= block
            else:
                groups.append(block)
        if len(groups) <= _FAN:
            return now, groups
    raise AssertionError("one dropped block and its two sides are three groups")


def _around(shape: tuple[int, ...], place: int) -> tuple[int, int, int]:
    return math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :])


@lru_cache(maxsize=4096)
def _best_cuts(sizes: tuple[int, ...], count: int) -> list[tuple[int, int]]:
    """The contiguous partition into `count` blocks with the least sum of 1/cells, the branches' share."""
    length = len(sizes)
    best: list[dict[int, tuple[float, int]]] = [{0: (0.0, 0)}]
    for _ in range(count):
        layer: dict[int, tuple[float, int]] = {}
        for start, (cost, _) in best[-1].items():
            cells = 1
            for stop in range(start + 1, length + 1):
                cells *= sizes[stop - 1]
                offer = cost + 1.0 / cells
                if stop not in layer or offer < layer[stop][0]:
                    layer[stop] = (offer, start)
        best.append(layer)
    cuts: list[tuple[int, int]] = []
    stop = length
    for layer in reversed(best[1:]):
        start = layer[stop][1]
        cuts.append((start, stop))
        stop = start
    return cuts[::-1]
