"""The query player's public half: which queries there are, and how often the data player has met each of them.

Its private half, the true counts, stays in the kernel. Weights are never stored: after t rounds the logarithm of a
query's weight is `eta (t q(D) - sum of q(x_i))` (spec 7.2), so a draw needs only that sum and the number of rounds.

How much an error matters (the weights `v <= 1` of a workload) enters the payoff: `v (q(D) - q(x))`. The logarithm above
is multiplied by v, and a query is drawn v times as often, so that drawn queries count alike for the data player.
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
from reticent.queries.forms import Product
from reticent.queries.linear import Linear
from reticent.queries.workload import Workload

LISTED_SETS = 256
LISTED_CELLS = 1 << 22
"""More marginals than the first, with no more cells than the second, are one list: the kernel counts it in one pass."""


class QueryPlayer(Protocol):
    """Queries 0..k-1 and their complements k..2k-1."""

    def __len__(self) -> int: ...

    def observe(self, records: np.ndarray) -> None:
        """Take note of the records played in one round."""
        ...

    def clauses(self, indices: np.ndarray) -> Clauses:
        """Drawn candidates as clauses for the data player."""
        ...

    def uniform(self, draws: int, public: np.random.Generator) -> np.ndarray:
        """Candidates before any record was played: as the workload weighs them."""
        ...

    def scores(self, scale: float, epsilon: float) -> Statistic:
        """Counts minus `scale` times the number of played records that met the query; negated for complements.

        `epsilon` is that of the exponential mechanism which draws by these scores.
        """
        ...


class _Weighted:
    """Relative weights of queries, at most 1, or None where all are alike."""

    _met: np.ndarray
    _weights: np.ndarray | None

    def uniform(self, draws: int, public: np.random.Generator) -> np.ndarray:
        queries = len(self._met)
        if self._weights is None:
            return public.integers(0, 2 * queries, size=draws)
        chances = np.concatenate([self._weights, self._weights])
        return public.choice(2 * queries, size=draws, p=chances / chances.sum())

    def _offsets(self, scale: float) -> np.ndarray:
        return -scale * self._met * (1.0 if self._weights is None else self._weights)

    def _bonuses(self, epsilon: float) -> np.ndarray | None:
        """In records, so that the mechanism multiplies each chance by the weight."""
        return None if self._weights is None else 2 / epsilon * np.log(self._weights)


class CellPlayer(_Weighted):
    """All cells of marginals, never listed: a record touches one cell of each set."""

    def __init__(self, domain: Domain, sets: Sequence[tuple[str, ...]], weights: Sequence[float] = ()) -> None:
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
        self._weights = _relative(np.repeat(weights, cells) if len(weights) else np.ones(1))

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

    def scores(self, scale: float, epsilon: float) -> Statistic:
        offsets = (self._offsets(scale),)
        return CellScores(self.sets, offsets, weights=self._weights, bonuses=self._bonuses(epsilon))


class ConjunctionPlayer(_Weighted):
    """An explicit list of conjunctions, as arrays."""

    def __init__(self, conjunctions: Conjunctions, weights: Sequence[float] | np.ndarray = ()) -> None:
        self.conjunctions = conjunctions
        self._met = np.zeros(len(conjunctions), dtype=np.int64)
        self._weights = _relative(np.asarray(weights) if len(weights) else np.ones(1))

    def __len__(self) -> int:
        return len(self.conjunctions)

    def observe(self, records: np.ndarray) -> None:
        self._met += self.conjunctions.tally(records)

    def clauses(self, indices: np.ndarray) -> Clauses:
        query, gains = _unsigned(indices, len(self))
        attributes = self.conjunctions.attributes[query].astype(np.int64)
        return merged(attributes, self.conjunctions.codes[query].astype(np.int64), gains)

    def scores(self, scale: float, epsilon: float) -> Statistic:
        offsets = self._offsets(scale)
        return ConjunctionScores(self.conjunctions, offsets, weights=self._weights, bonuses=self._bonuses(epsilon))


def _unsigned(indices: np.ndarray, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """The query behind each candidate, and +1 if a record should meet it, -1 if it should miss it."""
    complement = indices >= queries
    return np.where(complement, indices - queries, indices), np.where(complement, -1, 1)


def _relative(weights: np.ndarray) -> np.ndarray | None:
    """Divided by the largest; None where all are equal."""
    return None if np.ptp(weights) == 0 else weights / weights.max()


def query_player(workload: Workload | Conjunctions, domain: Domain) -> QueryPlayer:
    """The player for a workload: cells where it is a few large marginals, else a list of conjunctions."""
    if isinstance(workload, Conjunctions):
        return ConjunctionPlayer(workload)
    if workload.ranges:
        raise QueryError(_refusal(workload.ranges[0].text))
    sets = [domain.canonical(names) for names in workload.marginals]
    many = len(sets) > LISTED_SETS and sum(domain.cells(names) for names in sets) <= LISTED_CELLS
    if not workload.queries and not many:
        return CellPlayer(domain, sets, workload.marginal_weights)
    parts = [Conjunctions.of_cells(domain, sets)] if sets else []
    if workload.queries:
        parts.append(_conjunctions(domain, workload.queries))
    weights = [*np.repeat(workload.marginal_weights, [domain.cells(names) for names in sets]), *workload.query_weights]
    return ConjunctionPlayer(Conjunctions.stack(parts), np.array(weights))


def _conjunctions(domain: Domain, queries: Sequence[Linear]) -> Conjunctions:
    """Linear queries that are conjunctions of `attribute == value`; anything else is refused, by its public form."""
    literals = [_literals(query, domain) for query in queries]
    width = max(len(pairs) for pairs in literals)
    attributes = np.full((len(literals), width), ABSENT, dtype=np.int32)
    codes = np.zeros((len(literals), width), dtype=np.int32)
    for row, pairs in enumerate(literals):
        for place, (attribute, code) in enumerate(pairs):
            attributes[row, place], codes[row, place] = attribute, code
    return Conjunctions(domain, attributes, codes)


def _literals(query: Linear, domain: Domain) -> list[tuple[int, int]]:
    form = query.compile(domain)
    if isinstance(form, Product) and form.attributes and form.binary:
        chosen = [np.flatnonzero(vector) for vector in form.vectors]
        if all(len(codes) == 1 for codes in chosen):
            return [(domain.index(n), int(c[0])) for n, c in zip(form.attributes, chosen, strict=True)]
    raise QueryError(_refusal(query.text))


def _refusal(text: str) -> str:
    return (
        f"DualQuery plays conjunctions of attribute == value, and {text} is not one; "
        "ask for the marginal over its attributes, or use another algorithm"
    )
