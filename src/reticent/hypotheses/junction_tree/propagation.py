"""Exact beliefs on a junction tree, computed on demand; a change drops only what depends on it.

Every cached table is a function of the factors alone, not of the order of past questions: equal factors give
bit-identical answers, before and after a save. Rows are drawn clique after clique, each conditional on the values of
its separator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple, Self

import numpy as np

from reticent.errors import DomainError
from reticent.hypotheses.junction_tree.potentials import ProductTree, combine, peaks, reduce
from reticent.hypotheses.junction_tree.tree import JunctionTree

SAFE_SPAN = 600.0
"""Limit in nats: while the ranges of a clique's factors and messages sum to less, no product of their shifted
exponentials leaves the normal float64 numbers (e^-600 = 1e-261). Beyond it the clique collects in logarithms.
"""


class Upward(NamedTuple):
    """What a clique has collected from below; its conditional given the separator is table / sums.

    The message is scaled to maximum 1 (or is a logarithm with maximum 0); `shift` is the logarithm of the scale.
    """

    table: np.ndarray
    sums: np.ndarray
    message: np.ndarray
    logs: bool
    span: float
    shift: float


class Propagation:
    """Beliefs of p(x) ~ exp(sum of factors), keyed by attribute positions: logarithms, minus infinity where p is 0."""

    def __init__(self, tree: JunctionTree, factors: Mapping[tuple[int, ...], np.ndarray]) -> None:
        self.tree = tree
        self._factors: dict[tuple[int, ...], np.ndarray] = {}
        self._spans: dict[tuple[int, ...], float] = {}
        self._held: list[list[tuple[int, ...]]] = [[] for _ in tree.cliques]
        self._hosts: dict[tuple[int, ...], int] = {}
        self._plans: list[ProductTree | None] = [None] * len(tree.cliques)
        self._separator_axes = [
            tuple(clique.index(p) for p in separator)
            for clique, separator in zip(tree.cliques, tree.separators, strict=True)
        ]
        self._up: list[Upward | None] = [None] * len(tree.cliques)
        self._beliefs: dict[int, np.ndarray] = {}
        self._separator_beliefs: dict[int, np.ndarray] = {}
        for positions, factor in factors.items():
            self.update(positions, factor)

    def copy(self) -> Self:
        """An independent copy; tables are never changed in place, so both share them."""
        twin = object.__new__(type(self))
        for name, value in self.__dict__.items():
            setattr(twin, name, value.copy() if isinstance(value, dict | list) else value)
        twin._held = [held.copy() for held in self._held]
        return twin

    def update(self, positions: tuple[int, ...], factor: np.ndarray) -> None:
        """Set one factor (new ones need a clique that holds them); drops only what depends on it."""
        table = self._checked(positions, factor)
        if positions not in self._factors:
            (clique,) = self.tree.assign([positions])
            self._hosts[positions] = clique
            self._held[clique].append(positions)
            self._plans[clique] = None
        self._factors[positions] = table
        self._spans[positions] = _span(table)
        clique = self._hosts[positions]
        while clique >= 0:
            self._up[clique] = None
            clique = self.tree.parents[clique]
        self._beliefs.clear()
        self._separator_beliefs.clear()

    def _checked(self, positions: tuple[int, ...], factor: np.ndarray) -> np.ndarray:
        expected = self.tree.shape_of(positions)
        if np.shape(factor) != expected:
            raise DomainError(f"a factor has shape {np.shape(factor)}, its attributes need {expected}: transpose it")
        table = np.ascontiguousarray(factor, dtype=np.float64).reshape(-1)
        if not -np.inf < table.max(initial=-np.inf) < np.inf:
            raise DomainError("a factor holds an infinite or undefined logarithm: bound its values")
        return table

    def _plan(self, clique: int) -> ProductTree:
        plan = self._plans[clique]
        if plan is None:
            below = [self.tree.separators[c] for c in self.tree.children[clique]]
            leaves = [*self._held[clique], *filter(None, below)]
            plan = ProductTree(self.tree.sizes, self.tree.cliques[clique], leaves)
            self._plans[clique] = plan
        return plan

    def _collect(self) -> None:
        """Upward pass over the cliques whose collected table was dropped."""
        for clique in range(len(self._up) - 1, -1, -1):
            if self._up[clique] is None:
                self._up[clique] = self._absorb(clique)

    def _absorb(self, clique: int) -> Upward:
        children = self.tree.children[clique]
        shift = sum(self._collected(c).shift for c in children)
        # across an empty separator only the scale counts: the message itself is the constant 1
        below = [self._collected(c) for c in children if self.tree.separators[c]]
        held = self._held[clique]
        tables = [self._factors[s] for s in held]
        span = sum(self._spans[s] for s in held) + sum(up.span for up in below)
        if span > SAFE_SPAN or any(up.logs for up in below):
            return self._absorb_logs(clique, tables, below, shift)
        plan, axes = self._plan(clique), self._separator_axes[clique]
        highest = [float(t.max()) for t in tables]
        scaled = [np.exp(t - h) for t, h in zip(tables, highest, strict=True)]
        table = plan.multiply([*scaled, *(up.message for up in below)])
        sums = reduce(plan.shape, table, axes)
        largest = float(sums.max())
        if largest == 0.0:
            return Upward(table, sums, sums, False, 0.0, -np.inf)
        shift += sum(highest) + log(largest)
        return Upward(table, sums, sums / largest, False, log(largest / _least(sums)), shift)

    def _absorb_logs(self, clique: int, tables: list[np.ndarray], below: list[Upward], shift: float) -> Upward:
        """log m(s) = max + log sum exp(. - max), the maximum taken for each separator cell."""
        plan, axes = self._plan(clique), self._separator_axes[clique]
        with np.errstate(divide="ignore"):
            messages = [up.message if up.logs else np.log(up.message) for up in below]
        table = plan.multiply([*tables, *messages], logs=True)
        top = peaks(plan.shape, table, axes)
        top[np.isneginf(top)] = 0.0  # nothing is possible there, at any scale
        table = np.exp(combine(plan.shape, table, tuple(range(len(plan.shape))), -top, axes, logs=True))
        sums = reduce(plan.shape, table, axes)
        with np.errstate(divide="ignore"):
            message = np.log(sums) + top
        largest = float(message.max())
        if largest == -np.inf:
            return Upward(table, sums, sums, False, 0.0, largest)
        message -= largest
        span, shift = _span(message), shift + largest
        if span > SAFE_SPAN:
            return Upward(table, sums, message, True, span, shift)
        return Upward(table, sums, np.exp(message), False, span, shift)

    def _collected(self, clique: int) -> Upward:
        up = self._up[clique]
        assert up is not None  # children precede parents in the upward pass
        return up

    @property
    def log_partition(self) -> float:
        self._collect()
        return self._collected(0).shift

    def conditional(self, clique: int) -> tuple[np.ndarray, np.ndarray]:
        """An unnormalised table of the clique given its separator, and its sums: divide to condition; both flat."""
        self._collect()
        up = self._collected(clique)
        return up.table, up.sums

    def belief(self, clique: int) -> np.ndarray:
        """The marginal of one clique, flat; costs the path from the root."""
        self._collect()
        if clique not in self._beliefs:
            up, plan = self._collected(clique), self._plan(clique)
            separator = self.separator_belief(clique)
            self._beliefs[clique] = combine(
                plan.shape,
                up.table,
                tuple(range(len(plan.shape))),
                zero_safe_quotient(separator, up.sums),
                self._separator_axes[clique],
            )
        return self._beliefs[clique]

    def separator_belief(self, clique: int) -> np.ndarray:
        parent = self.tree.parents[clique]
        if parent < 0:
            return np.ones(1)
        if clique not in self._separator_beliefs:
            above = self.tree.cliques[parent]
            axes = tuple(above.index(p) for p in self.tree.separators[clique])
            self._separator_beliefs[clique] = reduce(self.tree.shape_of(above), self.belief(parent), axes)
        return self._separator_beliefs[clique]

    def inside(self, positions: Sequence[int], clique: int) -> np.ndarray:
        """The marginal of a set held by a clique, shaped."""
        members = self.tree.cliques[clique]
        axes = tuple(members.index(p) for p in positions)
        shape = self.tree.shape_of(members)
        table = self.belief(clique)
        flat = table.copy() if len(axes) == len(shape) else reduce(shape, table, axes)
        return flat.reshape(self.tree.shape_of(positions))


def zero_safe_quotient(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient, and zero if the denominator is zero: a cell without weight contributes nothing."""
    if denominator.min() > 0:
        return numerator / denominator
    return np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=denominator > 0)


def _span(logs: np.ndarray) -> float:
    """The difference between the highest and the lowest finite logarithm."""
    low = float(logs.min())
    if low == -np.inf:
        logs = logs[logs > -np.inf]
        return float(np.ptp(logs)) if logs.size else 0.0
    return float(logs.max()) - low


def _least(sums: np.ndarray) -> float:
    """The smallest positive value."""
    least = float(sums.min())
    return least if least > 0 else float(sums[sums > 0].min())


_GOLDEN = 0.6180339887498949


def ancestral_rows(beliefs: Propagation, rows: int, generator: np.random.Generator, *, systematic: bool) -> np.ndarray:
    """Codes, one row per record, attributes in domain order.

    If systematic, rows that agree on a separator share one random start and equal steps along the conditional, so each
    of its cells is off by less than one row; starts of neighbouring groups are spread evenly, so that errors cancel.
    """
    tree = beliefs.tree
    codes = np.zeros((rows, len(tree.sizes)), np.int32)
    if rows == 0:
        return codes
    for clique, (members, separator) in enumerate(zip(tree.cliques, tree.separators, strict=True)):
        fresh = tuple(p for p in members if p not in separator)
        table = beliefs.conditional(clique)[0].reshape(tree.shape_of(members))
        table = table.transpose([members.index(p) for p in (*separator, *fresh)])
        width = int(np.prod(tree.shape_of(fresh)))
        groups, member_of = np.unique(_flat_index(codes, tree.sizes, separator), return_inverse=True)
        climb = np.cumsum(table.reshape(-1, width)[groups], axis=1)
        climb /= climb[:, -1:]
        heights = _systematic_heights if systematic else _independent_heights
        cells = _cells_at(climb, member_of, heights(member_of, len(groups), generator))
        for position, column in zip(fresh, np.unravel_index(cells, tree.shape_of(fresh)), strict=True):
            codes[:, position] = column
    return codes


def _flat_index(codes: np.ndarray, sizes: tuple[int, ...], positions: tuple[int, ...]) -> np.ndarray:
    index = np.zeros(len(codes), np.int64)
    for position in positions:
        index = index * sizes[position] + codes[:, position]
    return index


def _independent_heights(member_of: np.ndarray, groups: int, generator: np.random.Generator) -> np.ndarray:
    return generator.random(len(member_of))


def _systematic_heights(member_of: np.ndarray, groups: int, generator: np.random.Generator) -> np.ndarray:
    """(rank in the group + start) / (size of the group), ranks in random order."""
    shuffled = generator.permutation(len(member_of))
    order = shuffled[np.argsort(member_of[shuffled], kind="stable")]
    counts = np.bincount(member_of, minlength=groups)
    first = np.cumsum(counts) - counts
    rank = np.empty(len(member_of), np.int64)
    rank[order] = np.arange(len(member_of)) - np.repeat(first, counts)
    start = (generator.random() + _GOLDEN * np.arange(groups)) % 1.0
    return (rank + start[member_of]) / counts[member_of]


def _cells_at(climb: np.ndarray, member_of: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """The cell at each row's height in its own cumulative distribution."""
    groups, width = climb.shape
    stacked = (climb + np.arange(groups)[:, None]).ravel()
    found = np.searchsorted(stacked, member_of + heights, side="right") - member_of * width
    # Rounding may push a height past its row's end: the last cell that holds something takes it.
    last = (climb < climb[:, -1:]).sum(axis=1)
    return np.clip(found, 0, last[member_of])
