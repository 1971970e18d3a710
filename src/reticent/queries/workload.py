"""Workloads: weighted collections of queries, in which a marginal or all ranges of a column are one entry."""

from __future__ import annotations

import hashlib
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, has_items, has_type, is_list, is_mapping, real_number, require, whole_number
from reticent.queries.base import Linear, Query, domain_order
from reticent.queries.from_dict import query_from_dict
from reticent.queries.linear import Conjunction, Marginal, Range, Ratio
from reticent.queries.ranges import AllRanges

MAX_SETS = 2_000_000
"""Marginals in one workload."""
LARGEST_WEIGHT = 1e50
"""Squares of ratios of weights stay finite numbers."""


class Workload:
    """Marginals, ranges and single queries, each with a positive weight; `on(domain)` validates and binds it.

    A ratio is replaced by its two linear parts. The weights of repeated entries add up.

    Args:
        queries: The queries.
        weights: The importance of each query's error relative to the others; 1 by default.
        domain: Bind the workload to this domain at once.

    Raises:
        QueryError: An entry is not a query or does not fit the domain, or a weight is not above 0.
        DomainError: A name is not in the domain.

    Example:
        >>> import reticent as rt
        >>> rt.Workload([rt.marginal("age"), rt.count(rt.col("age") >= 60)], weights=[1, 5])
        Workload(1 marginals, 0 range sets, 1 queries)
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
        if isinstance(queries, (Query, str, Mapping)) or not has_items(queries):
            raise QueryError("a workload needs a list of queries")
        if weights is not None and not has_items(weights):
            raise QueryError(f"weights is of type {type(weights).__name__}; give a list of positive numbers")
        entries = list(queries)
        listed = [1.0] * len(entries) if weights is None else [_stated_weight(weight) for weight in weights]
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
        if domain is not None:
            for query in self.queries:
                query.compile(domain)  # a bound workload holds only what its domain can answer

    def _weighted(self) -> Iterator[tuple[Query | tuple[str, ...], float]]:
        yield from zip(self.marginals, self.marginal_weights, strict=True)
        yield from zip(self.ranges, self.range_weights, strict=True)
        yield from zip(self.queries, self.query_weights, strict=True)

    def on(self, domain: Domain) -> Workload:
        """Bind the workload to a domain: names are checked, marginals sorted, means resolved.

        Args:
            domain: The domain.

        Returns:
            The bound workload.

        Raises:
            DomainError: A name is not in the domain.
            QueryError: A query does not fit the domain, for example because it cuts a bin.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> len(rt.Workload([rt.marginal("sex", "age")]).on(domain))
            20
        """
        if self.domain is domain:
            return self
        bound = object.__new__(Workload)
        bound._fill(_parts(self._weighted(), domain), domain)
        return bound

    @classmethod
    def of_sets(cls, sets: Iterable[tuple[str, ...]], domain: Domain) -> Workload:
        """Marginals of many sets of attributes at once.

        Args:
            sets: Names of attributes, each set in the domain's order.
            domain: The domain of these attributes.

        Returns:
            The workload, bound to the domain.

        Raises:
            QueryError: There are more sets than a workload may have.

        Example:
            >>> import reticent as rt
            >>> rt.Workload.of_sets([("a", "b")], rt.Domain(a=2, b=3))
            Workload(1 marginals, 0 range sets, 0 queries)
        """
        workload = object.__new__(cls)
        workload._fill(((names, 1.0) for names in sets), domain)
        return workload

    def __add__(self, other: Workload) -> Workload:
        if not has_type(other, Workload):
            return NotImplemented
        domain = self.domain or other.domain
        if domain is not None:
            first, second = self.on(domain), other.on(domain)
        else:
            first, second = self, other
        joined = object.__new__(Workload)
        joined._fill(itertools.chain(first._weighted(), second._weighted()), domain)
        return joined

    @property
    def singles(self) -> Workload:
        """The single queries alone, without marginals and ranges."""
        if not self.marginals and not self.ranges:
            return self
        alone = object.__new__(Workload)
        alone._fill(zip(self.queries, self.query_weights, strict=True), self.domain)
        return alone

    @cached_property
    def size(self) -> int:
        """The exact number of scalar queries: every cell and every range counts."""
        if self.domain is None:
            if self.marginals or self.ranges:
                raise QueryError("the number of queries depends on the domain: use workload.on(domain)")
            return len(self.queries)
        cells = sum(self.domain.cells(names) for names in self.marginals)
        return cells + sum(entry.count(self.domain) for entry in self.ranges) + len(self.queries)

    def __len__(self) -> int:
        if self.size > sys.maxsize:
            raise QueryError("the workload has more queries than len() can return; use workload.size")
        return self.size

    def __bool__(self) -> bool:
        return bool(self.marginals or self.ranges or self.queries)

    def attribute_sets(self, domain: Domain) -> dict[tuple[str, ...], float]:
        """The marginals from which the whole workload can be answered.

        Args:
            domain: The domain.

        Returns:
            The summed weight of the entries that need each set of attributes.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> list(rt.marginals(domain, 2).attribute_sets(domain))
            [('age', 'sex')]
        """
        sets: dict[tuple[str, ...], float] = {}
        for part, weight in self.on(domain)._weighted():
            names = part if isinstance(part, tuple) else domain.canonical(part.attributes)
            sets[names] = sets.get(names, 0.0) + weight
        return sets

    def scalars(self, domain: Domain) -> Iterator[Linear]:
        """Every scalar query of the workload, one by one: for tests and small workloads.

        Args:
            domain: The domain.

        Returns:
            An iterator.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> sum(1 for _ in rt.marginals(domain, 1).scalars(domain))
            12
        """
        bound = self.on(domain)
        for names in bound.marginals:
            for codes in itertools.product(*(range(size) for size in domain.shape_of(names))):
                yield Conjunction(dict(zip(names, codes, strict=True)))
        for entry in bound.ranges:
            yield from map(Range, entry.boxes(domain))
        yield from bound.queries

    @cached_property
    def text(self) -> str:
        """Canonical text: entries sorted, weights where they are not 1."""
        lines: list[str] = []
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
        """Describe the workload in plain values for JSON.

        Returns:
            The description; `from_dict` is the inverse.

        Example:
            >>> import reticent as rt
            >>> workload = rt.Workload([rt.marginal("a", "b")])
            >>> rt.Workload.from_dict(workload.to_dict())
            Workload(1 marginals, 0 range sets, 0 queries)
        """
        return {
            "marginals": [list(names) for names in self.marginals],
            "marginal_weights": list(self.marginal_weights),
            "queries": [query.to_dict() for query in (*self.ranges, *self.queries)],
            "query_weights": [*self.range_weights, *self.query_weights],
        }

    @classmethod
    def from_dict(cls, description: Any) -> Workload:
        """Restore a workload from the values that `to_dict` returned; weights may be left out.

        Args:
            description: Plain values, as JSON holds them.

        Returns:
            The workload, not bound to a domain.

        Raises:
            QueryError: The description is not that of a workload.

        Example:
            >>> import reticent as rt
            >>> rt.Workload.from_dict({"marginals": [["a", "b"]]})
            Workload(1 marginals, 0 range sets, 0 queries)
        """
        if not is_mapping(description) or not set(description) <= _KEYS:
            raise QueryError(f"a workload is an object with the keys {', '.join(sorted(_KEYS))}")
        sets, queries = description.get("marginals", []), description.get("queries", [])
        if not is_list(sets) or not is_list(queries):
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
        """Read a workload from text, as on the command line.

        Args:
            text: `marginals:3`, `ranges:age`, `prefixes:age`, several joined by +, or the name of a workload file.
            domain: The domain to bind it to.

        Returns:
            The workload.

        Raises:
            QueryError: The text is not a workload.

        Example:
            >>> import reticent as rt
            >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10), other=False), sex=2)
            >>> rt.Workload.parse("marginals:2+ranges:age", domain)
            Workload(1 marginals, 1 range sets, 0 queries)
        """
        from reticent.queries.files import parse_workload

        return parse_workload(text, domain)


def marginals(domain: Domain, k: int | None = None) -> Workload:
    """All marginals over k attributes of the domain.

    Args:
        domain: The public description of the table.
        k: The number of attributes of each marginal. 0 is the number of records, for workloads that hold more than
            that: a release of it alone is refused by default, because every release states it.

    Returns:
        The workload, bound to the domain.

    Raises:
        QueryError: `k` is below 0 or above the number of attributes.

    Example:
        >>> import reticent as rt
        >>> workload = rt.marginals(rt.Domain(a=2, b=3, c=4), 2)
        >>> len(workload.attribute_sets(workload.domain))
        3
    """
    require(domain, Domain, "domain", "rt.Domain(...) or table.domain, then the number of attributes")
    k = whole_number(k, "attributes in each marginal: k", 0, len(domain))
    sets = math.comb(len(domain), k)
    if sets > MAX_SETS:
        raise QueryError(f"{sets} marginals over {k} attributes exceed the limit of {MAX_SETS}; use a smaller k")
    return Workload.of_sets(itertools.combinations(domain.names, k), domain)


def ranges(*columns: str | Sequence[str], prefixes: bool = False, domain: Domain | None = None) -> Workload:
    """All intervals, or all prefixes, of codes of each named column.

    The default release measures such a workload by blocks of codes at several widths, so that an interval's error
    grows with the logarithm of the number of codes and not with its length.

    Args:
        *columns: One name or several; the intervals of each column are separate queries. A tuple of names asks for all
            boxes over these columns, that is, an interval of each at once.
        prefixes: Only the intervals that start at the first code: a cumulative distribution.
        domain: Bind the workload to this domain at once.

    Returns:
        The workload.

    Raises:
        QueryError: There is no name, or a name is not text.
        DomainError: A name is not in the domain.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101)), hours=rt.Numeric(edges=range(0, 81)))
        >>> rt.ranges("age", ("age", "hours"), domain=domain)
        Workload(0 marginals, 2 range sets, 0 queries)
    """
    if not columns:
        raise QueryError("ranges needs at least one column name")
    entries: list[Query] = []
    for asked in columns:
        names: list[Any] = list(asked) if isinstance(asked, (list, tuple)) else [asked]
        if not names:
            raise QueryError("ranges got an empty list of columns; name at least one")
        entries.append(AllRanges(names[0], prefixes, tuple(names[1:])))
    return Workload(entries, domain=domain)


def prefixes(*columns: str | Sequence[str], domain: Domain | None = None) -> Workload:
    """All prefixes of codes of each named column, that is, its cumulative distribution; same as
    `ranges(prefixes=True)`.

    Args:
        *columns: One name or several; a tuple of names asks for all boxes that start at the first code of each.
        domain: Bind the workload to this domain at once.

    Returns:
        The workload.

    Raises:
        QueryError: There is no name, or a name is not text.
        DomainError: A name is not in the domain.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101)))
        >>> len(rt.prefixes("age", domain=domain)) == domain["age"].known
        True
    """
    return ranges(*columns, prefixes=True, domain=domain)


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
            yield (part if domain is None else domain_order(domain, part)), weight
            continue
        if domain is not None and has_type(part, Query):
            domain_order(domain, part.attributes)
            part = part.resolve(domain)
        if isinstance(part, Ratio):
            yield part.numerator, weight
            yield part.denominator, weight
        elif isinstance(part, (Linear, AllRanges)):
            yield part, weight
        else:
            raise QueryError(f"{type(entry).__name__} is not a query; use count, mean, marginal or ranges")


def _weight(weight: Any) -> float:
    number = real_number(weight, "weight", "a positive number")
    if not 0 < number < math.inf:
        raise QueryError(f"weight {shown(number)} must be positive and finite")
    return number


def _stated_weight(weight: Any) -> float:
    """A weight that somebody gives; saved workloads of earlier versions may hold any."""
    number = _weight(weight)
    if not 1 / LARGEST_WEIGHT <= number <= LARGEST_WEIGHT:
        raise QueryError(f"weight {shown(number)} must lie between {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}")
    return number


def _weights(description: Mapping[str, Any], key: str, count: int) -> list[float]:
    weights = description.get(key)
    if weights is None:
        return [1.0] * count
    if not is_list(weights) or len(weights) != count:
        raise QueryError(f'"{key}" must list {count} weights')
    return [_weight(weight) for weight in weights]


def _names(names: Any) -> list[str]:
    if not is_list(names):
        raise QueryError(f"a marginal is a list of attribute names, not {shown(names)}")
    return names
