"""The terms of a fit on one vector of tables: what `FitProblem` does term by term, in a few calls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np

from reticent.hypotheses.dense.flat_kernels import add_rows, centre, copy_rows

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import Term
    from reticent.hypotheses.fitting.term_vector import TermVector

__all__ = ["FlatTerms", "VectorTables"]


class VectorTables(Protocol):
    """The tables of all sets of an engine, one after the other in one vector."""

    @property
    def size(self) -> int: ...

    @property
    def kept(self) -> Sequence[np.ndarray | None]:
        """Of a set the places of the cells that the vector holds, rising; None for all."""
        ...

    def evaluate(self, tables: np.ndarray) -> np.ndarray:
        """The marginals of the distribution that has these logarithms."""
        ...

    def covary(self, weights: np.ndarray) -> np.ndarray:
        """At the last evaluated distribution: E[(w - E w) 1_c] for every cell c of every table."""
        ...


class FlatTerms:
    """From parameters to expected statistics, and from weights of statistics to their covariances."""

    def __init__(
        self,
        terms: Sequence[Term],
        vector: TermVector,
        numbers: Sequence[int],
        shapes: Sequence[tuple[int, ...]],
        base: Sequence[np.ndarray],
        tables: VectorTables,
    ) -> None:
        """`vector` has the places of the terms' parameters, `numbers` the set of each term, `base` the logarithms of
        the first sets.
        """
        lengths = [prod(s) if kept is None else kept.size for s, kept in zip(shapes, tables.kept, strict=True)]
        ends = np.cumsum([0, *lengths]).tolist()
        self._sets = sets = [slice(a, b) for a, b in pairwise(ends)]
        self._shapes = list(shapes)
        self._tables, self._size = tables, vector.size
        self._base = np.zeros(tables.size)
        for place, logs, kept in zip(sets, base, tables.kept, strict=False):
            self._base[place] = logs.ravel() if kept is None else logs.ravel()[kept]
        rows, listed, pooled = list[tuple[int, int, int, int]](), list[np.ndarray](), 0
        self._others: list[tuple[Term, slice, slice, tuple[int, ...], np.ndarray | None]] = []
        for i, (term, number) in enumerate(zip(terms, numbers, strict=True)):
            place, held, kept = vector.places[i], sets[number], tables.kept[number]
            if not term.whole:
                self._others.append((term, place, held, shapes[number], kept))
            elif kept is None or vector.kept[i] is not None:
                rows.append((place.start, held.start, lengths[number], CONTIGUOUS))
            else:
                rows.append((place.start, held.start, lengths[number], pooled))
                listed.append(kept)
                pooled += kept.size
        self._rows = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self._listed = np.concatenate([np.empty(0, np.int64), *listed])
        residuals = [(p.start, t.values.shape) for t, p in zip(terms, vector.places, strict=True) if t.residual]
        axes = [
            (start, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
            for start, shape in residuals
            for axis in range(len(shape))
        ]
        self._axes = np.array(axes, dtype=np.int64).reshape(-1, 4)

    def marginals(self, flat: np.ndarray) -> list[np.ndarray]:
        """Of every set the cells that the vector holds; all of them as a table."""
        tables = self._tables.evaluate(self._spread(flat, self._base.copy()))
        parts = zip(self._sets, self._shapes, self._tables.kept, strict=True)
        return [tables[place].reshape(shape) if kept is None else tables[place] for place, shape, kept in parts]

    def expected(self, flat: np.ndarray) -> np.ndarray:
        """Every term's statistic at some parameters."""
        return self._gathered(self._tables.evaluate(self._spread(flat, self._base.copy())))

    def covaried(self, weights: np.ndarray) -> np.ndarray:
        """Where `expected` was last called: the covariances of all statistics with their weighted sum."""
        return self._gathered(self._tables.covary(self._spread(weights, np.zeros(self._tables.size))))

    def centred(self, found: np.ndarray) -> np.ndarray:
        """Statistics with the mean along every axis of a residual taken off, in place."""
        centre(found, self._axes)
        return found

    def _spread(self, flat: np.ndarray, tables: np.ndarray) -> np.ndarray:
        add_rows(flat, self._rows, self._listed, tables)
        for term, place, held, shape, kept in self._others:
            table = np.ravel(term.table(flat[place], shape))
            tables[held] += table if kept is None else table[kept]
        return tables

    def _gathered(self, tables: np.ndarray) -> np.ndarray:
        found = np.zeros(self._size)
        copy_rows(tables, self._rows, self._listed, found)
        for term, place, held, shape, kept in self._others:
            table = tables[held]
            if kept is not None:
                table = np.zeros(prod(shape))
                table[kept] = tables[held]
            found[place] = term.statistic(table.reshape(shape))
        return found


CONTIGUOUS = -1
"""In the place of a list of cells: a set's table holds all cells, or its term has parameters of those only."""
