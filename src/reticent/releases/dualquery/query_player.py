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

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.linear_scores import LinearScores
from reticent.kernel.statistics import CellScores, ConjunctionScores
from reticent.queries.conjunctions import ABSENT, Conjunctions
from reticent.queries.forms import Form, Product
from reticent.queries.linear import Linear
from reticent.queries.scalars import ScalarQueries
from reticent.queries.workload import Workload
from reticent.releases.dualquery.data_player import Clauses, Drawn, merged_clauses
from reticent.releases.dualquery.tables import DrawnTables

LISTED_SETS = 256
LISTED_CELLS = 1 << 22
"""More marginals than the first, with no more cells than the second, are one list: the kernel counts it in one pass."""


class QueryPlayer(Protocol):
    """Queries 0..k-1 and their complements k..2k-1."""

    def __len__(self) -> int: ...

    def observe(self, records: np.ndarray) -> None:
        """Take note of the records played in one round."""
        ...

    def clauses(self, indices: np.ndarray) -> Drawn:
        """Drawn candidates for the data player."""
        ...

    def uniform(self, draws: int, public: np.random.Generator) -> np.ndarray:
        """Candidates before any record was played: as the workload weighs them."""
        ...

    def scores(self, scale: float, epsilon: float) -> CellScores | ConjunctionScores | LinearScores:
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
        self._met += self.counted(records)

    def counted(self, records: np.ndarray) -> np.ndarray:
        """How many of the records fall into each cell."""
        # Padding has stride 0, so whatever value attribute -1 picks up does not matter.
        cells = self._first[:-1] + (records[:, self._attributes] * self._strides).sum(axis=2)
        return np.bincount(cells.ravel(), minlength=len(self._met))

    def clauses(self, indices: np.ndarray) -> Clauses:
        query, gains = _unsigned(indices, len(self))
        row = np.searchsorted(self._first, query, side="right") - 1
        within = (query - self._first[row])[:, None]
        attributes = self._attributes[row]
        codes = np.where(attributes == ABSENT, 0, within // np.maximum(self._strides[row], 1) % self._sizes[row])
        return merged_clauses(attributes, codes, gains)

    def scores(self, scale: float, epsilon: float) -> CellScores:
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
        return merged_clauses(attributes, self.conjunctions.codes[query].astype(np.int64), gains)

    def scores(self, scale: float, epsilon: float) -> ConjunctionScores:
        offsets = self._offsets(scale)
        return ConjunctionScores(self.conjunctions, offsets, weights=self._weights, bonuses=self._bonuses(epsilon))


class LinearPlayer(_Weighted):
    """Any linear queries: cells, intervals, conjunctions and single queries of a workload."""

    def __init__(self, queries: ScalarQueries) -> None:
        self.queries = queries
        self._domain = queries.domain
        self._cells = CellPlayer(self._domain, queries.sets) if queries.sets else None
        self._met = np.zeros(queries.size)
        self._weights = queries.weights
        self._singles = queries.forms
        self._forms: dict[int, Form] = {}

    def __len__(self) -> int:
        return self.queries.size

    def observe(self, records: np.ndarray) -> None:
        queries, domain = self.queries, self._domain
        parts = []
        if self._cells is not None:
            parts.append(self._cells.counted(records))
        for entry in queries.ranges:
            codes = records[:, domain.index(entry.column)]
            parts.append(entry.answers(domain, np.bincount(codes, minlength=domain[entry.column].size)))
        if queries.conjunctions is not None:
            parts.append(queries.conjunctions.tally(records))
        parts.append([_summed(form, records, domain) for form in self._singles])
        self._met += np.concatenate(parts)

    def clauses(self, indices: np.ndarray) -> DrawnTables:
        query, gains = _unsigned(indices, len(self))
        distinct, which = np.unique(query, return_inverse=True)
        net = np.bincount(which.ravel(), weights=gains, minlength=len(distinct)).astype(np.int64)
        distinct, net = distinct[net != 0], net[net != 0]
        return DrawnTables(self._domain, [self._form(int(index)) for index in distinct], net)

    def scores(self, scale: float, epsilon: float) -> LinearScores:
        offsets = self._offsets(scale)
        return LinearScores(self.queries, offsets, weights=self._weights, bonuses=self._bonuses(epsilon))

    def _form(self, index: int) -> Form:
        found = self._forms.get(index)
        if found is None:
            found = self._forms[index] = self.queries.query(index).compile(self._domain)
        return found


def _summed(form: Form, records: np.ndarray, domain: Domain) -> float:
    """The sum of a query's values over records."""
    columns = [records[:, domain.index(name)] for name in form.attributes]
    if not isinstance(form, Product):
        return float(np.broadcast_to(form.values[tuple(columns)], len(records)).sum())
    values = np.ones(len(records))
    for vector, codes in zip(form.vectors, columns, strict=True):
        values *= vector[codes]
    return float(values.sum())


def _unsigned(indices: np.ndarray, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """The query behind each candidate, and +1 if a record should meet it, -1 if it should miss it."""
    complement = indices >= queries
    return np.where(complement, indices - queries, indices), np.where(complement, -1, 1)


def _relative(weights: np.ndarray) -> np.ndarray | None:
    """Divided by the largest; None where all are equal."""
    return None if np.ptp(weights) == 0 else weights / weights.max()


def query_player(workload: Workload | Conjunctions, domain: Domain) -> QueryPlayer:
    """The player for a workload: cells of a few large marginals, a list of conjunctions, or any linear queries."""
    if isinstance(workload, Conjunctions):
        return ConjunctionPlayer(workload)
    if workload.ranges or any(_literals(query, domain) is None for query in workload.queries):
        return LinearPlayer(ScalarQueries(workload, domain))
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
    """Linear queries that are conjunctions of `attribute == value`."""
    literals = [_literals(query, domain) or [] for query in queries]
    width = max(len(pairs) for pairs in literals)
    attributes = np.full((len(literals), width), ABSENT, dtype=np.int32)
    codes = np.zeros((len(literals), width), dtype=np.int32)
    for row, pairs in enumerate(literals):
        for place, (attribute, code) in enumerate(pairs):
            attributes[row, place], codes[row, place] = attribute, code
    return Conjunctions(domain, attributes, codes)


def _literals(query: Linear, domain: Domain) -> list[tuple[int, int]] | None:
    """A conjunction of `attribute == value` as (attribute, code) pairs; None for any other query."""
    form = query.compile(domain)
    if isinstance(form, Product) and form.attributes and form.binary:
        chosen = [np.flatnonzero(vector) for vector in form.vectors]
        if all(len(codes) == 1 for codes in chosen):
            return [(domain.index(n), int(c[0])) for n, c in zip(form.attributes, chosen, strict=True)]
    return None
