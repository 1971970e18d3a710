"""All scalar queries of a workload in one fixed order: cells of marginals, intervals, conjunctions, single queries."""

from __future__ import annotations

import hashlib
from functools import cached_property
from itertools import accumulate

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.base import Linear
from reticent.queries.conjunctions import ABSENT, Conjunctions
from reticent.queries.forms import Dense, Form
from reticent.queries.linear import Conjunction, Range
from reticent.queries.ranges import AllRanges
from reticent.queries.workload import Workload

MOST_TENSOR_CELLS = 2**24
"""Values of all compiled tensors together: 128 MiB. Products of vectors do not count."""
READ_CELLS = 2**16
"""A single query over more cells is evaluated by itself; below, from the marginal it may share with others."""

SELECTION_BYTES = 8 * (2 * 5 + 5)
"""Of each query while one is selected: five numbers of it and of its complement, and its count, its guess, its weight
and what they add up to.
"""

Set = tuple[str, ...]


class ScalarQueries:
    """Queries 0..size-1; algorithms that close them under complement use indices size..2 size-1 for complements."""

    def __init__(self, workload: Workload | Conjunctions, domain: Domain) -> None:
        self.domain = domain
        if isinstance(workload, Conjunctions):
            workload, self.conjunctions = Workload(domain=domain), workload.on(domain)
        else:
            workload, self.conjunctions = workload.on(domain), None
        # Of no columns there is only the number of records, which these algorithms neither select nor measure.
        named = {names: w for names, w in zip(workload.marginals, workload.marginal_weights, strict=True) if names}
        self.sets: tuple[Set, ...] = tuple(named)
        self.ranges: tuple[AllRanges, ...] = workload.ranges
        for entry in self.ranges:
            if entry.across:
                raise QueryError(
                    f"{entry.wording}: boxes over several columns are answered by the default release, rt.Adaptive(); "
                    "ask this algorithm for ranges of single columns, or for the marginal"
                )
        self.queries: tuple[Linear, ...] = workload.queries
        self._entries = (*named.values(), *workload.range_weights)
        self._single_weights = workload.query_weights
        listed = 0 if self.conjunctions is None else len(self.conjunctions)
        counts = [domain.cells(names) for names in self.sets] + [entry.count(domain) for entry in self.ranges]
        self._starts = [0, *accumulate([*counts, listed])]
        if self.size == 0:
            raise QueryError("the workload is empty; name at least one marginal or query")

    @property
    def size(self) -> int:
        return self._starts[-1] + len(self.queries)

    @property
    def bytes(self) -> int:
        """Memory that a selection among all queries and their complements needs."""
        tensors = 0 if self.cells_only else 2 * 8 * self.tensor_cells  # compiled, and once more by the kernel
        return SELECTION_BYTES * self.size + tensors

    @property
    def cells_only(self) -> bool:
        """Whether these are the cells of marginals and nothing else."""
        return bool(self.sets) and not self.ranges and not self.queries and self.conjunctions is None

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """The single queries, compiled."""
        if self.tensor_cells > MOST_TENSOR_CELLS:
            raise QueryError(
                f"the workload's single queries need tensors of {self.tensor_cells} values together; at most "
                f"{MOST_TENSOR_CELLS}: ask for the marginals over their attributes, or use fewer queries"
            )
        return tuple(query.compile(self.domain) for query in self.queries)

    @cached_property
    def tensor_cells(self) -> int:
        """Values of the tensors of all single queries, which are compiled one after another."""
        forms = (query.compile(self.domain) for query in self.queries)
        return sum(form.values.size for form in forms if isinstance(form, Dense))

    @cached_property
    def weights(self) -> np.ndarray | None:
        """Relative weights, at most 1, one for each query; None if all are equal."""
        each = np.array([*self._entries, *self._single_weights])
        if each.size == 0 or np.ptp(each) == 0:
            return None
        counts = np.diff(self._starts)[: len(self._entries)]
        return np.concatenate([np.repeat(self._entries, counts), self._single_weights]) / each.max()

    @cached_property
    def digest(self) -> str:
        """Identifies domain, queries and their order in a ledger."""
        hasher = hashlib.sha256(self.domain.fingerprint.encode())
        for names in self.sets:
            hasher.update(repr(names).encode())
        for query in (*self.ranges, *self.queries):
            hasher.update(query.digest.encode())
        if self.conjunctions is not None:
            hasher.update(self.conjunctions.digest.encode())
        return hasher.hexdigest()

    @cached_property
    def attributes(self) -> Set:
        """All attributes that the queries use, in the domain's order."""
        names = {name for s in self.sets for name in s} | {entry.column for entry in self.ranges}
        names |= {name for query in self.queries for name in query.attributes}
        if self.conjunctions is not None:
            used = np.unique(self.conjunctions.attributes)
            names |= {self.domain.names[place] for place in used[used != ABSENT].tolist()}
        return self.domain.canonical(names)

    def query(self, index: int) -> Linear:
        """The query behind an index."""
        if index >= self._starts[-1]:
            return self.queries[index - self._starts[-1]]
        place = int(np.searchsorted(self._starts, index, side="right")) - 1
        within = index - self._starts[place]
        if place < len(self.sets):
            names = self.sets[place]
            codes = np.unravel_index(within, self.domain.shape_of(names))
            return Conjunction(dict(zip(names, map(int, codes), strict=True)))
        if place < len(self.sets) + len(self.ranges):
            entry = self.ranges[place - len(self.sets)]
            first, last = entry.spans(self.domain)
            return Range({entry.column: (int(first[within]), int(last[within]))})
        assert self.conjunctions is not None
        return Conjunction(self.conjunctions.literals_of(within))

    @cached_property
    def listed(self) -> tuple[tuple[Set, np.ndarray, np.ndarray], ...]:
        """The conjunctions by attribute set: its names, their places in the list, their codes."""
        if self.conjunctions is None:
            return ()
        rows, which = np.unique(self.conjunctions.attributes, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(which.ravel(), minlength=len(rows)))
        groups = []
        for used, places in zip(rows, np.split(order, ends[:-1]), strict=True):
            names = tuple(self.domain.names[place] for place in used[used != ABSENT].tolist())
            groups.append((names, places, self.conjunctions.codes[places][:, : len(names)]))
        return tuple(groups)

    @cached_property
    def shared_sets(self) -> tuple[Set, ...]:
        """Attribute sets of single queries that are read from marginals."""
        sets = dict.fromkeys(form.attributes for form in self.forms)
        return tuple(names for names in sets if names and self.domain.cells(names) <= READ_CELLS)
