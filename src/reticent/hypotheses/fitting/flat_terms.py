"""The terms of a fit on one vector of tables: what `FitProblem` does term by term, in a few calls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.dense.flat import FlatTables
from reticent.hypotheses.dense.flat_kernels import centre

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import Term

__all__ = ["FlatTerms"]


class FlatTerms:
    """From parameters to expected statistics, and from weights of statistics to their covariances."""

    def __init__(
        self,
        terms: Sequence[tuple[Term, slice, int]],
        shapes: Sequence[tuple[int, ...]],
        base: Sequence[np.ndarray],
        tables: FlatTables,
    ) -> None:
        """`terms` come with the place of their parameters and the number of their set."""
        ends = np.cumsum([0, *map(prod, shapes)])
        sets = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._tables = tables
        self._size = max((place.stop for _, place, _ in terms), default=0)
        self._base = np.zeros(tables.size)
        for place, logs in zip(sets, base, strict=False):
            self._base[place] = logs.ravel()
        whole = [(place, sets[number]) for term, place, number in terms if term.whole]
        self._from = _joined([place for place, _ in whole])
        self._to = _joined([place for _, place in whole])
        self._others = [(t, place, sets[number], shapes[number]) for t, place, number in terms if not t.whole]
        residuals = [(place.start, term.values.shape) for term, place, _ in terms if term.residual]
        axes = [
            (start, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
            for start, shape in residuals
            for axis in range(len(shape))
        ]
        self._axes = np.array(axes, dtype=np.int64).reshape(-1, 4)

    def expected(self, flat: np.ndarray) -> np.ndarray:
        """Every term's statistic at some parameters."""
        return self._gathered(self._tables.evaluate(self._spread(flat, self._base)))

    def covaried(self, weights: np.ndarray) -> np.ndarray:
        """Where `expected` was last called: the covariances of all statistics with their weighted sum."""
        return self._gathered(self._tables.covary(self._spread(weights)))

    def centred(self, found: np.ndarray) -> np.ndarray:
        """Statistics with the mean along every axis of a residual taken off, in place."""
        centre(found, self._axes)
        return found

    def _spread(self, flat: np.ndarray, base: np.ndarray | None = None) -> np.ndarray:
        tables = np.zeros(self._tables.size) if base is None else base.copy()
        tables[self._to] += flat[self._from]
        for term, place, rows, shape in self._others:
            tables[rows] += np.ravel(term.table(flat[place], shape))
        return tables

    def _gathered(self, tables: np.ndarray) -> np.ndarray:
        found = np.empty(self._size)
        found[self._from] = tables[self._to]
        for term, place, rows, shape in self._others:
            found[place] = term.statistic(tables[rows].reshape(shape))
        return found


def _joined(places: Sequence[slice]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(p.start, p.stop) for p in places)])
