"""The log-linear engine on an explicit tensor: every pass is one reduction tree, forwards or backwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reticent.hypotheses.exponential import softmax_in_place
from reticent.hypotheses.marginal_tree import marginal_tree

__all__ = ["DenseEngine"]


class DenseEngine:
    """Evaluates p(x) ~ exp(sum of parameters) on all cells of a shape; `probabilities` holds the last p."""

    def __init__(self, shape: tuple[int, ...], axis_sets: Sequence[tuple[int, ...]]) -> None:
        self._tree = marginal_tree(shape, tuple(axis_sets))
        self.probabilities = np.empty(shape)
        self._scratch = np.empty(shape)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        table = self._tree.expand(parameters, self.probabilities)
        return softmax_in_place(table), self._tree.reduce(table)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        product = self._tree.expand(weights, self._scratch)
        mean = float(np.vdot(product, self.probabilities))
        product -= mean
        product *= self.probabilities
        return self._tree.reduce(product)
