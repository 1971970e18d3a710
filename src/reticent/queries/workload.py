"""A workload is a weighted stack of queries, kept structured: a marginal or all ranges are one entry each."""

from __future__ import annotations

import hashlib
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from numbers import Real
from typing import Any

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, whole_number
from reticent.queries.base import Linear, Query, canonical
from reticent.queries.linear import Conjunction, Marginal, Range, Ratio
from reticent.queries.parsing import query_from_dict
from reticent.queries.ranges import AllRanges

MAX_SETS = 2_000_000
"""Marginals in one workload."""


class Workload:
    """Marginals, ranges and single queries, each with a positive weight; `on(domain)` validates and binds it.

    A ratio stands for its two linear parts. Weights say how much an error matters relative to other entries; the
    weights of repeated entries add up.
    """

    marginals: tuple[tuple[str, ...], ...]
    marginal_weights: tuple[float, ...]
    ranges: tuple[AllRanges, ...]
    range_weights: tuple[float, ...]
    queries: tuple[Linear, ...]
    query_weights: tuple[float, ...]
    domain: Domain | None

    def __init__(
        self,
        queries: Iterable[Query] = (),
        *,
        weights: Iterable[float] | None = None,
        domain: Domain | None = None,
    ) -> None:
        if isinstance(queries, (Query, str, Mapping)) or not isinstance(queries, Iterable):
            raise QueryError("a workload needs a list of queries")
        entries = list(queries)
        listed = [1.0] * len(entries) if weights is None else [_weight(weight) for weight in weights]
        if len(listed) != len(entries):
            raise QueryError(f"{len(entries)} queries need as many weights, not {len(listed)}")
        self._fill(_parts(zip(entries, listed, strict=True), domain), domain)

    def _fill(self, weighted: Iterable[tuple[Query | tuple[str, ...], float]], domain: Domain | None) -> None:
        sets: dict[tuple[str, ...], float] = {}
        spans: dict[AllRanges, float] = {}
        single: dict[Linear, float] = {}
        for part, weight in weighted:
            if isinstance(part, tuple):
                sets[part] = sets.get(part, 0.0) + weight
            elif isinstance(part, AllRanges):
                spans[part] = spans.get(part, 0.0) + weight
            elif isinstance(part, Linear):
                single[part] = single.get(part, 0.0) + weight
        if len(sets) > MAX_SETS:
            raise QueryError(f"{len(sets)} marginals exceed the limit of {MAX_SETS}")
        self.marginals, self.marginal_weights = tuple(sets), tuple(sets.values())
        self.ranges, self.range_weights = tuple(spans), tuple(spans.values())
        self.queries, self.query_weights = tuple(single), tuple(single.values())
        self.domain = domain

    def _weighted(self) -> Iterator[tuple[Query | tuple[str, ...], float]]:
        yield from zip(self.marginals, self.marginal_weights, strict=True)
        yield from zip(self.ranges, self.range_weights, strict=True)
        yield from zip(self.queries, self.query_weights, strict=True)

    def on(self, domain: Domain) -> Workload:
        """The same workload bound to a domain: names checked, marginals in its order, means resolved."""
        if self.domain is domain:
            return self
        bound = object.__new__(Workload)
        bound._fill(_parts(self._weighted(), domain), domain)
        for query in bound.queries:
            query.compile(domain)
        return bound

    def __add__(self, other: Workload) -> Workload:
        if not isinstance(other, Workload):
            return NotImplemented
        domain = self.domain or other.domain
        if domain is not None:
            first, second = self.on(domain), other.on(domain)
        else:
            first, second = self, other
        joined = object.__new__(Workload)
        joined._fill(itertools.chain(first._weighted(), second._weighted()), domain)
        return joined

    @cached_property
    def size(self) -> int:
        """Number of scalar queries, exact however many: every cell and every range counts."""
        if self.domain is None:
            if self.marginals or self.ranges:
                raise QueryError("the number of queries depends on the domain: use workload.on(domain)")
            return len(self.queries)
        cells = sum(self.domain.cells(names) for names in self.marginals)
        return cells + sum(entry.count(self.domain) for entry in self.ranges) + len(self.queries)

    def __len__(self) -> int:
        if self.size > sys.maxsize:
            raise QueryError("the workload has more queries than len() can say; use workload.size")
        return self.size

    def __bool__(self) -> bool:
        return bool(self.marginals or self.ranges or self.queries)

    def attribute_sets(self, domain: Domain) -> dict[tuple[str, ...], float]:
        """The marginals from which everything can be answered, with the summed weights of what needs them."""
        sets: dict[tuple[str, ...], float] = {}
        for part, weight in self.on(domain)._weighted():
            names = part if isinstance(part, tuple) else domain.canonical(part.attributes)
            sets[names] = sets.get(names, 0.0) + weight
        return sets

    def scalars(self, domain: Domain) -> Iterator[Linear]:
        """Every scalar query, one by one and lazily: for tests and small workloads."""
        bound = self.on(domain)
        for names in bound.marginals:
            for codes in itertools.product(*(range(size) for size in domain.shape_of(names))):
                yield Conjunction(dict(zip(names, codes, strict=True)))
        for entry in bound.ranges:
            for first, last in zip(*entry.spans(domain), strict=True):
                yield Range({entry.column: (int(first), int(last))})
        yield from bound.queries

    @cached_property
    def text(self) -> str:
        """Canonical text: entries sorted, weights where they are not 1."""
        lines = []
        for part, weight in self._weighted():
            text = Marginal(part).text if isinstance(part, tuple) else part.text
            lines.append(text if weight == 1.0 else f"{text} * {weight!r}")
        return "\n".join(sorted(lines))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        parts = f"{len(self.marginals)} marginals, {len(self.ranges)} range sets, {len(self.queries)} queries"
        return f"Workload({parts})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `Workload.from_dict` is the inverse (unbound)."""
        return {
            "marginals": [list(names) for names in self.marginals],
            "marginal_weights": list(self.marginal_weights),
            "queries": [query.to_dict() for query in (*self.ranges, *self.queries)],
            "query_weights": [*self.range_weights, *self.query_weights],
        }

    @classmethod
    def from_dict(cls, description: Any) -> Workload:
        """The inverse of `to_dict`; weights may be left out."""
        if not isinstance(description, Mapping) or not set(description) <= _KEYS:
            raise QueryError(f"a workload is an object with the keys {', '.join(sorted(_KEYS))}")
        sets, queries = description.get("marginals", []), description.get("queries", [])
        if not isinstance(sets, list) or not isinstance(queries, list):
            raise QueryError('"marginals" and "queries" must be lists')
        entries: list[Query] = [Marginal(_names(names)) for names in sets]
        entries += [query_from_dict(query) for query in queries]
        weights = [
            *_weights(description, "marginal_weights", len(sets)),
            *_weights(description, "query_weights", len(queries)),
        ]
        return cls(entries, weights=weights)

    @classmethod
    def parse(cls, text: str, domain: Domain) -> Workload:
        """`marginals:3`, `ranges:age`, `prefixes:age`, joined by +, or the name of a workload file."""
        from reticent.queries.files import parse_workload

        return parse_workload(text, domain)


def marginals(domain: Domain, k: int) -> Workload:
    """All marginals over k attributes of the domain."""
    k = whole_number(k, "attributes in each marginal: k", 0, len(domain))
    sets = math.comb(len(domain), k)
    if sets > MAX_SETS:
        raise QueryError(f"{sets} marginals over {k} attributes exceed the limit of {MAX_SETS}; use a smaller k")
    workload = object.__new__(Workload)
    workload._fill(((names, 1.0) for names in itertools.combinations(domain.names, k)), domain)
    return workload


def ranges(*columns: str, prefixes: bool = False, domain: Domain | None = None) -> Workload:
    """All intervals (or all prefixes) of codes of each named column."""
    if not columns:
        raise QueryError("ranges needs at least one column name")
    return Workload([AllRanges(column, prefixes) for column in columns], domain=domain)


_KEYS = frozenset({"marginals", "marginal_weights", "queries", "query_weights"})


def _parts(
    weighted: Iterable[tuple[Query | tuple[str, ...], float]], domain: Domain | None
) -> Iterator[tuple[Query | tuple[str, ...], float]]:
    """Marginals as tuples of names; ratios as their two linear parts; names checked if the domain is known."""
    for entry, weight in weighted:
        part = entry
        if isinstance(part, Marginal):
            part = part.names
        if isinstance(part, tuple):
            yield (part if domain is None else canonical(domain, part)), weight
            continue
        if domain is not None and isinstance(part, Query):
            canonical(domain, part.attributes)
            part = part.resolve(domain)
        if isinstance(part, Ratio):
            yield part.numerator, weight
            yield part.denominator, weight
        elif isinstance(part, (Linear, AllRanges)):
            yield part, weight
        else:
            raise QueryError(f"{type(entry).__name__} is not a query; use count, mean, marginal or ranges")


def _weight(weight: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise QueryError(f"weight {shown(weight)} must be a number")
    number = float(weight)
    if not 0 < number < math.inf:
        raise QueryError(f"weight {shown(number)} must be positive and finite")
    return number


def _weights(description: Mapping[str, Any], key: str, count: int) -> list[float]:
    weights = description.get(key)
    if weights is None:
        return [1.0] * count
    if not isinstance(weights, list) or len(weights) != count:
        raise QueryError(f'"{key}" must list {count} weights')
    return [_weight(weight) for weight in weights]


def _names(names: Any) -> list[str]:
    if not isinstance(names, list):
        raise QueryError(f"a marginal is a list of attribute names, not {shown(names)}")
    return names
