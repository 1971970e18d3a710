"""Exact beliefs on a junction tree, computed on demand; a change drops only what depends on it.

Every cached table is a function of the factors alone, never of the order of past questions: equal factors give
bit-identical answers, before and after a save.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

import numpy as np

from reticent.errors import DomainError
from reticent.hypotheses.junction import JunctionTree
from reticent.hypotheses.potentials import combine, peaks, reduce
from reticent.hypotheses.products import ProductTree

SAFE_RANGE = 600.0
"""Below this sum of factor ranges (nats) no product of shifted exponentials can leave the normal float64 range
(e^-600 = 1e-261), so messages may live in probability space; above it they are kept as logarithms."""


class Upward:
    """What a clique has collected from below: its table, and the message to its parent.

    The conditional of the clique given its separator is table / sums; log message = log(sums) + shift.
    """

    __slots__ = ("message", "shift", "sums", "table")

    def __init__(self, table: np.ndarray, sums: np.ndarray, message: np.ndarray, shift: float) -> None:
        self.table, self.sums, self.message, self.shift = table, sums, message, shift


class Propagation:
    """Beliefs of p(x) ~ exp(sum of factors), factors keyed by attribute positions, finite logarithms."""

    def __init__(self, tree: JunctionTree, factors: Mapping[tuple[int, ...], np.ndarray]) -> None:
        self.tree = tree
        self.factors: dict[tuple[int, ...], np.ndarray] = {}
        sets = list(factors)
        self._host = dict(zip(sets, tree.assign(sets), strict=True))
        self._held: list[list[tuple[int, ...]]] = [[] for _ in tree.cliques]
        for positions, clique in self._host.items():
            self._held[clique].append(positions)
        self._plans: list[ProductTree | None] = [None] * len(tree.cliques)
        self._separator_axes = [
            tuple(clique.index(p) for p in separator)
            for clique, separator in zip(tree.cliques, tree.separators, strict=True)
        ]
        self._up: list[Upward | None] = [None] * len(tree.cliques)
        self._beliefs: dict[int, np.ndarray] = {}
        self._separator_beliefs: dict[int, np.ndarray] = {}
        for positions, factor in factors.items():
            self.factors[positions] = self._checked(positions, factor)

    def _checked(self, positions: tuple[int, ...], factor: np.ndarray) -> np.ndarray:
        table = np.ascontiguousarray(factor, dtype=np.float64).reshape(-1)
        expected = self.tree.shape_of(positions)
        if np.shape(factor) != expected:
            raise DomainError(
                f"a factor has shape {np.shape(factor)}, its attributes need {expected}: transpose it"
            )
        if not np.isfinite(table).all():
            raise DomainError("a factor holds an infinite or undefined logarithm: bound its values")
        return table

    def update(self, positions: tuple[int, ...], factor: np.ndarray) -> None:
        """Replace one factor; everything collected away from its clique's path to the root is kept."""
        before = self._logs
        self.factors[positions] = self._checked(positions, factor)
        if before != self._logs:
            self._up = [None] * len(self._up)
        clique = self._host[positions]
        while clique >= 0:
            self._up[clique] = None
            clique = self.tree.parents[clique]
        self._beliefs.clear()
        self._separator_beliefs.clear()

    @property
    def _logs(self) -> bool:
        return sum(float(np.ptp(f)) for f in self.factors.values() if f.size) > SAFE_RANGE

    def _plan(self, clique: int) -> ProductTree:
        plan = self._plans[clique]
        if plan is None:
            below = [self.tree.separators[c] for c in self.tree.children[clique]]
            plan = ProductTree(self.tree.sizes, self.tree.cliques[clique], [*self._held[clique], *below])
            self._plans[clique] = plan
        return plan

    def _collect(self) -> None:
        """Upward pass over the cliques whose collected table was dropped."""
        logs = self._logs
        for clique in range(len(self._up) - 1, -1, -1):
            if self._up[clique] is None:
                self._up[clique] = self._absorb(clique, logs=logs)

    def _absorb(self, clique: int, *, logs: bool) -> Upward:
        plan, axes = self._plan(clique), self._separator_axes[clique]
        below = [self._collected(c) for c in self.tree.children[clique]]
        tables = [self.factors[s] for s in self._held[clique]]
        shift = sum(up.shift for up in below)
        if logs:
            # log m(s) = max + log sum exp(. - max), the maximum taken for each separator cell
            table = plan.multiply([*tables, *(up.message for up in below)], logs=True)
            top = peaks(plan.shape, table, axes)
            table = np.exp(combine(plan.shape, table, tuple(range(len(plan.shape))), -top, axes, logs=True))
            sums = reduce(plan.shape, table, axes)
            return Upward(table, sums, np.log(sums) + top, shift)
        highest = [float(t.max()) for t in tables]
        scaled = [np.exp(t - h) for t, h in zip(tables, highest, strict=True)]
        table = plan.multiply([*scaled, *(up.message for up in below)])
        sums = reduce(plan.shape, table, axes)
        largest = float(sums.max())
        return Upward(table, sums, sums / largest, shift + sum(highest) + log(largest))

    def _collected(self, clique: int) -> Upward:
        up = self._up[clique]
        assert up is not None  # children precede parents in the upward pass
        return up

    @property
    def log_partition(self) -> float:
        self._collect()
        root = self._collected(0)
        return root.shift + (float(root.message[0]) if self._logs else 0.0)

    def belief(self, clique: int) -> np.ndarray:
        """The marginal of one clique, flat; costs the path from the root."""
        self._collect()
        if clique not in self._beliefs:
            up, plan = self._collected(clique), self._plan(clique)
            separator = self._separator_belief(clique)
            self._beliefs[clique] = combine(
                plan.shape,
                up.table,
                tuple(range(len(plan.shape))),
                separator / up.sums,
                self._separator_axes[clique],
            )
        return self._beliefs[clique]

    def _separator_belief(self, clique: int) -> np.ndarray:
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
