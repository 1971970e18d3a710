"""Exact inference on a junction tree in log space: for factors that no float64 product can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from reticent.hypotheses.dense.marginal_tree import marginal_tree
from reticent.hypotheses.junction_tree.potentials import ProductTree, combine, peaks, reduce
from reticent.hypotheses.junction_tree.tree import JunctionTree

__all__ = ["LogEngine"]


class LogEngine:
    """Marginals of p(x) ~ exp(sum of parameters) for sets (attribute positions) that a tree's cliques contain.

    `impossible` cells are additional sets after the others, with fixed parameters.
    """

    def __init__(
        self,
        tree: JunctionTree,
        sets: Sequence[tuple[int, ...]],
        impossible: Mapping[tuple[int, ...], np.ndarray] | None = None,
    ) -> None:
        self._tree = tree
        self._sets = (*sets, *(impossible or ()))
        self._fixed = [np.where(np.ravel(mask), -np.inf, 0.0) for mask in (impossible or {}).values()]
        self._asked = len(sets)
        self._held: list[list[int]] = [[] for _ in tree.cliques]
        for index, host in enumerate(tree.assign(self._sets)):
            self._held[host].append(index)
        leaves = [
            [*(self._sets[i] for i in self._held[c]), *(tree.separators[k] for k in tree.children[c])]
            for c in range(len(tree.cliques))
        ]
        self._plans = [ProductTree(tree.sizes, clique, own) for clique, own in zip(tree.cliques, leaves, strict=True)]
        self._trees = [
            marginal_tree(tree.shape_of(clique), tuple(tuple(clique.index(p) for p in leaf) for leaf in own))
            for clique, own in zip(tree.cliques, leaves, strict=True)
        ]
        self._axes = [
            tuple(clique.index(p) for p in separator)
            for clique, separator in zip(tree.cliques, tree.separators, strict=True)
        ]
        self._tables: list[np.ndarray] = [np.empty(0)] * len(tree.cliques)
        self._sums = list(self._tables)
        self._beliefs = list(self._tables)
        self._separators = list(self._tables)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        flat = [*(np.ravel(p) for p in parameters), *self._fixed]
        log_partition = self._collect(flat)
        outputs: list[np.ndarray] = [np.empty(0)] * len(self._sets)
        self._separators[0] = np.ones(1)
        for clique in range(len(self._plans)):
            ratio = _divide(self._separators[clique], self._sums[clique])
            self._beliefs[clique] = self._scaled(clique, self._tables[clique], ratio)
            self._deliver(clique, self._trees[clique].reduce(self._beliefs[clique]), outputs, self._separators)
        return log_partition, outputs[: self._asked]

    def _collect(self, flat: list[np.ndarray]) -> float:
        """Upward pass: keeps each clique's table and its sums over the separator; returns the log partition
        function.
        """
        messages: list[np.ndarray] = [np.empty(0)] * len(self._plans)
        for clique in range(len(self._plans) - 1, -1, -1):
            plan, axes = self._plans[clique], self._axes[clique]
            below = [messages[child] for child in self._tree.children[clique]]
            table = plan.multiply([*(flat[index] for index in self._held[clique]), *below], logs=True)
            # log m(s) = max + log sum exp(. - max), the maximum taken for each separator cell
            top = peaks(plan.shape, table, axes)
            top[np.isneginf(top)] = 0.0  # nothing is possible there, at any scale
            table = self._shifted(clique, table, -top)
            np.exp(table, out=table)
            self._tables[clique], self._sums[clique] = table, reduce(plan.shape, table, axes)
            with np.errstate(divide="ignore"):
                messages[clique] = np.log(self._sums[clique]) + top
        return float(messages[0][0])

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Up: E[weights below | separator]; down: the same from above; belief times their sum covaries."""
        flat = [*(np.ravel(w) for w in weights), *(np.zeros(fixed.size) for fixed in self._fixed)]
        children = self._tree.children
        known: list[np.ndarray] = [np.empty(0)] * len(self._plans)
        rising = list(known)
        for clique in range(len(self._plans) - 1, -1, -1):
            plan = self._plans[clique]
            below = [rising[child] for child in children[clique]]
            known[clique] = plan.multiply([*(flat[i] for i in self._held[clique]), *below], logs=True)
            if clique:
                moment = reduce(plan.shape, self._tables[clique] * known[clique], self._axes[clique])
                rising[clique] = _divide(moment, self._sums[clique])
        mean = float(self._beliefs[0] @ known[0])
        outputs: list[np.ndarray] = [np.empty(0)] * len(self._sets)
        falling: list[np.ndarray] = [np.empty(0)] * len(self._plans)
        for clique in range(len(self._plans)):
            if clique:
                above = _divide(falling[clique], self._separators[clique]) - rising[clique]
                deviation = self._shifted(clique, known[clique], above)
            else:
                deviation = known[clique] - mean
            deviation *= self._beliefs[clique]
            known[clique] = np.empty(0)
            self._deliver(clique, self._trees[clique].reduce(deviation), outputs, falling)
        return outputs[: self._asked]

    def _deliver(
        self, clique: int, leaves: list[np.ndarray], outputs: list[np.ndarray], separators: list[np.ndarray]
    ) -> None:
        """Leaves of a clique's plan: first the sets it holds, then the separators to its children."""
        held = self._held[clique]
        for index, leaf in zip(held, leaves, strict=False):
            outputs[index] = leaf.reshape(self._tree.shape_of(self._sets[index]))
        for child, leaf in zip(self._tree.children[clique], leaves[len(held) :], strict=True):
            separators[child] = leaf.ravel()

    def _scaled(self, clique: int, table: np.ndarray, factor: np.ndarray) -> np.ndarray:
        shape = self._plans[clique].shape
        return combine(shape, table, tuple(range(len(shape))), factor, self._axes[clique])

    def _shifted(self, clique: int, table: np.ndarray, shift: np.ndarray) -> np.ndarray:
        shape = self._plans[clique].shape
        return combine(shape, table, tuple(range(len(shape))), shift, self._axes[clique], logs=True)


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient, and zero if the denominator is zero: a separator cell without weight contributes nothing."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
