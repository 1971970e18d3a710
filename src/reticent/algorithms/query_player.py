"""The query player's public half: which queries there are, and how often the data player has met each of them.

Its private half, the true counts, stays in the kernel. Weights are never stored: after t rounds the logarithm of a query's weight
is `eta (t q(D) - sum of q(x_i))` (spec 7.2), so the public offset and the number of rounds are all a draw needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from reticent.algorithms.data_player import Clauses, merged
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.statistics import CellScores, ConjunctionScores, Statistic
from reticent.queries.conjunctions import ABSENT, Conjunctions


class QueryPlayer(Protocol):
    """Queries 0..k-1 and their complements k..2k-1."""

    def __len__(self) -> int: ...

    def observe(self, records: np.ndarray) -> None:
        """Take note of the records played in one round."""
        ...

    def clauses(self, indices: np.ndarray) -> Clauses:
        """Drawn candidates as clauses for the data player."""
        ...

    def scores(self, scale: float) -> Statistic:
        """Counts minus `scale` times the number of played records that met the query; negated for complements."""
        ...


class CellPlayer:
    """All cells of marginals, never listed: a record touches one cell of each set."""

    def __init__(self, domain: Domain, sets: Sequence[tuple[str, ...]]) -> None:
        if not sets or not all(sets):
            raise QueryError("DualQuery needs at least one marginal, each over at least one attribute")
        self.sets = tuple(domain.canonical(names) for names in sets)
        width = max(len(names) for names in self.sets)
        self._attributes = np.full((len(self.sets), width), ABSENT, dtype=np.int64)
        self._strides = np.zeros((len(self.sets), width), dtype=np.int64)
        self._sizes = np.ones((len(self.sets), width), dtype=np.int64)
        cells = []
        for row, names in enumerate(self.sets):
            shape = domain.shape_of(names)
            self._attributes[row, : len(names)] = [domain.index(name) for name in names]
            self._sizes[row, : len(names)] = shape
            self._strides[row, : len(names)] = [math.prod(shape[place + 1 :]) for place in range(len(names))]
            cells.append(math.prod(shape))
        self._first = np.concatenate([[0], np.cumsum(cells)])
        self._met = np.zeros(int(self._first[-1]), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._met)

    def observe(self, records: np.ndarray) -> None:
        # Padding has stride 0, so whatever value attribute -1 picks up does not matter.
        cells = self._first[:-1] + (records[:, self._attributes] * self._strides).sum(axis=2)
        np.add.at(self._met, cells.ravel(), 1)

    def clauses(self, indices: np.ndarray) -> Clauses:
        query, gains = _unsigned(indices, len(self))
        row = np.searchsorted(self._first, query, side="right") - 1
        within = (query - self._first[row])[:, None]
        attributes = self._attributes[row]
        codes = np.where(attributes == ABSENT, 0, within // np.maximum(self._strides[row], 1) % self._sizes[row])
        return merged(attributes, codes, gains)

    def scores(self, scale: float) -> Statistic:
        return CellScores(self.sets, (-scale * self._met,))


class ConjunctionPlayer:
    """An explicit list of conjunctions, as arrays."""

    def __init__(self, conjunctions: Conjunctions) -> None:
        self.conjunctions = conjunctions
        self._met = np.zeros(len(conjunctions), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.conjunctions)

    def observe(self, records: np.ndarray) -> None:
        self._met += self.conjunctions.tally(records)

    def clauses(self, indices: np.ndarray) -> Clauses:
        query, gains = _unsigned(indices, len(self))
        attributes = self.conjunctions.attributes[query].astype(np.int64)
        return merged(attributes, self.conjunctions.codes[query].astype(np.int64), gains)

    def scores(self, scale: float) -> Statistic:
        return ConjunctionScores(self.conjunctions, -scale * self._met)


def _unsigned(indices: np.ndarray, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """The query behind each candidate, and +1 if a record should meet it, -1 if it should miss it."""
    complement = indices >= queries
    return np.where(complement, indices - queries, indices), np.where(complement, -1, 1)
