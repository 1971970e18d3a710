"""The log-linear engine on an explicit tensor: every pass is one reduction tree, forwards or backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reticent.hypotheses.dense.exponential import softmax_in_place
from reticent.hypotheses.dense.marginal_tree import marginal_tree

__all__ = ["DenseEngine"]


class DenseEngine:
    """Evaluates p(x) ~ exp(sum of parameters) on all possible cells of a shape; `probabilities` holds the last p."""

    def __init__(
        self, shape: tuple[int, ...], axis_sets: Sequence[tuple[int, ...]], impossible: np.ndarray | None = None
    ) -> None:
        self._impossible = impossible
        self._axis_sets = tuple(axis_sets)
        self._tree = marginal_tree(shape, self._axis_sets)
        self.probabilities = np.empty(shape)
        self._scratch = np.empty(shape)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        table = self._tree.expand(parameters, self.probabilities)
        if self._impossible is not None:
            np.copyto(table, -np.inf, where=self._impossible)
        return softmax_in_place(table), self._tree.reduce(table)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        product = self._tree.expand(weights, self._scratch)
        mean = float(np.vdot(product, self.probabilities))
        product -= mean
        product *= self.probabilities
        return self._tree.reduce(product)

    def rescale(self, index: int, ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply p by `ratio(marginal)` of one set, without making it add up to one again."""
        tree = marginal_tree(self.probabilities.shape, (self._axis_sets[index],))
        factor = ratio(tree.reduce(self.probabilities)[0])
        self.probabilities *= tree.expand([factor], self._scratch).reshape(self.probabilities.shape)
        return factor
