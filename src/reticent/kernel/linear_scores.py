"""Scores of any linear queries, as exact integers, for the exponential mechanism (docs/proofs/linear-scores.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.statistics import ONE, LinearCount, Scores, bound_to, digest, fine
from reticent.kernel.table import CountSource
from reticent.queries.ranges import AllRanges
from reticent.queries.scalars import ScalarQueries

BATCH_CELLS = 2**22
"""Marginals of single queries are counted together up to so many cells, and forgotten before the next batch."""


@dataclass(frozen=True, eq=False)
class LinearScores(Scores):
    """As `CellScores`, for every scalar query of a workload: cells, intervals, conjunctions, single linear queries.

    A query's count is the sum over records of `floor(w rint(q steps))`, whole numbers from 0 to `steps`: one record
    changes it by at most `steps`, which is one record on the grid. The source caches the counts of a list.
    """

    queries: ScalarQueries
    offsets: np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.queries) is not ScalarQueries:
            raise QueryError(f"{type(self.queries).__name__} is not the kernel's list of queries; use ScalarQueries")

    @property
    def domain(self) -> Domain:
        return self.queries.domain

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        steps = fine(person_grid)
        weights = np.zeros(0) if self.weights is None else self.weights
        key = f"{self.queries.digest} {digest(weights)} {steps}"
        moved = source.remembered(key, lambda: self._counted(source, steps))
        return self.both_signs(moved, self.offsets, person_grid)

    def _counted(self, source: CountSource, steps: int) -> np.ndarray:
        """Weighted counts on the grid, in the order of the queries."""
        queries, domain = self.queries, self.domain
        plain = [marginal.ravel() for marginal in source.marginals(queries.sets)] if queries.sets else []
        for entry in queries.ranges:
            plain.append(_intervals(source, entry, domain))
        if queries.conjunctions is not None:
            plain.append(source.conjunctions(queries.conjunctions))
        counts = np.concatenate([np.zeros(0, dtype=np.int64), *plain])
        weights = None if self.weights is None else self.weights[: len(counts)]
        # Weights round down: the sensitivity stays below the stated one.
        counts = counts * (steps if weights is None else np.floor(weights * steps).astype(np.int64))
        return np.concatenate([counts, self._singles(source, steps, len(counts))])

    def _singles(self, source: CountSource, steps: int, first: int) -> np.ndarray:
        found = np.zeros(len(self.queries.queries), dtype=np.int64)
        for sets, places in self._batches():
            # Counted together, so that one pass over the rows serves many sets; the source keeps the last of them.
            source.marginals(sets)
            for place in places:
                weight = 1.0 if self.weights is None else float(self.weights[first + place])
                # Compiled again, and forgotten: the tensors of all queries need not fit into memory together.
                found[place] = LinearCount(self.queries.queries[place], self.domain).total(source, steps, weight)
        return found

    def _batches(self) -> Iterator[tuple[list[tuple[str, ...]], list[int]]]:
        """Places of single queries, checked by the kernel, in groups whose marginals fit together in memory."""
        sets: dict[tuple[str, ...], None] = {}
        places: list[int] = []
        room = BATCH_CELLS
        counts = (LinearCount(query, self.domain) for query in self.queries.queries)
        read = [(count.form.attributes, count.by_marginal) for count in counts]
        for place in sorted(range(len(read)), key=lambda i: read[i][0]):
            names, by_marginal = read[place]
            cells = math.prod(self.domain.shape_of(names)) if by_marginal and names not in sets else 0
            if places and cells > room:
                yield list(sets), places
                sets, places, room = {}, [], BATCH_CELLS
            places.append(place)
            sets |= {names: None} if by_marginal else {}
            room -= cells
        if places:
            yield list(sets), places

    def describe(self) -> dict[str, object]:
        return {"linear queries": self.queries.digest, **self.bound_offsets(self.offsets)}


@dataclass(frozen=True, eq=False)
class LargestError:
    """The largest error of public guesses over every scalar query of a workload: one number of sensitivity 1."""

    queries: ScalarQueries
    guesses: np.ndarray
    """In records."""
    state: str | None = None

    @property
    def domain(self) -> Domain:
        return self.queries.domain

    def resolution(self, person_grid: int) -> int:
        return fine(person_grid)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return ONE

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        # Errors and, for complements, their negatives: the largest of both is the largest absolute error.
        return np.asarray(LinearScores(self.queries, -self.guesses).evaluate(source, person_grid).max())

    def describe(self) -> dict[str, object]:
        return {"largest error of": self.queries.digest, **bound_to(self.state, "guesses", self.guesses)}


def _intervals(source: CountSource, entry: AllRanges, domain: Domain) -> np.ndarray:
    """Counts of all intervals of a column from its one-way marginal: exact differences of integer prefix sums."""
    if type(entry) is not AllRanges:
        raise QueryError(f"{type(entry).__name__} is not the kernel's list of intervals; use AllRanges")
    counts = source.marginal(domain.canonical((entry.column,)))
    first, last = entry.spans(domain)
    if not ((first >= 0) & (first <= last) & (last < len(counts))).all():
        raise QueryError(f"{entry.text}: an interval leaves the codes of its column")
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    return sums[last + 1] - sums[first]
