"""The log-linear engine on chosen records: marginals are weighted counts of the records (spec 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import numpy as np

__all__ = ["SupportEngine"]


class SupportEngine:
    """Evaluates p(x) ~ exp(log_base(x) + sum of parameters) on the records; `probabilities` holds the last p."""

    def __init__(self, places: Sequence[np.ndarray], log_base: np.ndarray) -> None:
        self._places = places
        self._log_base = log_base
        self._shapes: list[tuple[int, ...]] = []
        self.probabilities = np.full(log_base.size, 1.0 / log_base.size)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        self._shapes = [np.shape(parameter) for parameter in parameters]
        exponents = self._log_base + self._spread(parameters)
        peak = float(exponents.max())
        weights = np.exp(exponents - peak)
        total = float(weights.sum())
        self.probabilities = weights / total
        return log(total) + peak, self._gather(self.probabilities)

    def covary(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        values = self._spread(weights)
        values -= values @ self.probabilities
        return self._gather(values * self.probabilities)

    def rescale(self, index: int, ratio: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply p by `ratio(marginal)` of one set, without making it add up to one again."""
        places, shape = self._places[index], self._shapes[index]
        cells = np.bincount(places, weights=self.probabilities, minlength=int(np.prod(shape)))
        factor = ratio(cells.reshape(shape))
        self.probabilities *= np.ravel(factor)[places]
        return factor

    def _spread(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros(self._log_base.size)
        for array, places in zip(arrays, self._places, strict=True):
            total += np.ravel(array)[places]
        return total

    def _gather(self, weights: np.ndarray) -> list[np.ndarray]:
        return [
            np.bincount(places, weights=weights, minlength=int(np.prod(shape))).reshape(shape)
            for places, shape in zip(self._places, self._shapes, strict=True)
        ]
