"""Linear queries as frozen public values with a stable text and digest.

The answer of a linear query is a fraction q(D) in [0, 1]; `units(domain)` = (offset, scale) turns it into the
user's units as offset + scale * q.

A residual is the part of a marginal that marginals of fewer attributes do not determine. Releases measure residuals;
analysts do not ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, has_type, is_mapping
from reticent.queries.base import Linear, Query, checked_predicate, domain_order
from reticent.queries.forms import MAX_CELLS, Form, Product, bin_reach, checked_values, scaled_numbers, weighted_by
from reticent.queries.literals import name_text, readable_text
from reticent.queries.predicate import Everything, Predicate, all_of, col


@dataclass(frozen=True, eq=False, repr=False)
class Count(Linear):
    """The fraction of records for which a predicate is true."""

    predicate: Predicate = field(default_factory=Everything)

    def __post_init__(self) -> None:
        checked_predicate(self.predicate)

    @property
    def attributes(self) -> frozenset[str]:
        return self.predicate.attributes

    def to_dict(self) -> dict[str, Any]:
        return {"query": "count", "where": self.predicate.to_dict()}

    def _compile(self, domain: Domain) -> Form:
        return self.predicate.compile(domain)

    def _write(self) -> str:
        return f"count({self.predicate.text})"


@dataclass(frozen=True, eq=False, repr=False)
class OfColumn(Linear):
    """Base of queries about one column's numbers among the records that satisfy a predicate."""

    column: str
    where: Predicate = field(default_factory=Everything)

    def __post_init__(self) -> None:
        col(self.column)
        checked_predicate(self.where)

    @property
    def attributes(self) -> frozenset[str]:
        return self.where.attributes | {self.column}


@dataclass(frozen=True, eq=False, repr=False)
class Total(OfColumn):
    """Mean over *all* records of the column's scaled number where the predicate holds, and 0 elsewhere.

    A record's number is the representative of its bin; sums and means add the binning error. With
    (lower, upper) = `bounds(domain)`, SUM(column) = n * (lower * present + (upper - lower) * q), where `present` is
    the answer of `self.present`: sums are post-processing of two linear queries.
    """

    @cached_property
    def present(self) -> Count:
        """Records that satisfy the predicate and have a number in the column."""
        return Count(all_of((self.where, col(self.column).is_known())))

    def bounds(self, domain: Domain) -> tuple[float, float]:
        """Declared smallest and largest number of the column."""
        return scaled_numbers(domain, self.column)[1:]

    def to_dict(self) -> dict[str, Any]:
        return {"query": "total", "column": self.column, "where": self.where.to_dict()}

    def _compile(self, domain: Domain) -> Form:
        return weighted_by(self.where.compile(domain), self.column, domain)

    def _write(self) -> str:
        return f"total({name_text(self.column)}, {self.where.text})"


@dataclass(frozen=True, eq=False, repr=False)
class Mean(OfColumn):
    """Mean of a column's numbers, among the records that satisfy a predicate.

    It is linear only if every record counts: no predicate and no `(null)` or `(other)` code. Otherwise `resolve`
    returns the ratio to ask instead, and `compile` raises an error.
    """

    def resolve(self, domain: Domain) -> Mean | Ratio:
        values = scaled_numbers(domain, self.column)[0]
        if len(values) == domain[self.column].known and isinstance(self.where, Everything):
            return self
        total = Total(self.column, self.where)
        return Ratio(total, total.present)

    def units(self, domain: Domain) -> tuple[float, float]:
        _, lower, upper = scaled_numbers(domain, self.column)
        return lower, upper - lower

    def binning(self, domain: Domain) -> tuple[float, float]:
        return bin_reach(self.compile(domain), self.column, domain)

    def to_dict(self) -> dict[str, Any]:
        return {"query": "mean", "column": self.column, "where": self.where.to_dict()}

    def _compile(self, domain: Domain) -> Form:
        if self.resolve(domain) is not self:
            raise QueryError(f"{self.wording} is a ratio on this domain, not linear; ask the parts of resolve(domain)")
        return Product((self.column,), (scaled_numbers(domain, self.column)[0],))

    def _write(self) -> str:
        return f"mean({name_text(self.column)}, {self.where.text})"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Conjunction(Linear):
    """The fraction of records with given codes in some attributes: one cell of a marginal."""

    codes: tuple[tuple[str, int], ...]

    def __init__(self, codes: Mapping[str, int]) -> None:
        pairs = _named(codes, "codes")
        object.__setattr__(self, "codes", tuple((name, _code(name, code)) for name, code in pairs))

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.codes)

    def to_dict(self) -> dict[str, Any]:
        return {"query": "conjunction", "codes": dict(self.codes)}

    def _compile(self, domain: Domain) -> Form:
        return _spans(domain, {name: (code, code) for name, code in self.codes})

    def _write(self) -> str:
        return f"conjunction({', '.join(f'{name_text(name)}={code}' for name, code in self.codes)})"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Range(Linear):
    """The fraction of records whose codes lie in intervals, both ends included."""

    spans: tuple[tuple[str, tuple[int, int]], ...]

    def __init__(self, spans: Mapping[str, tuple[int, int]]) -> None:
        checked: list[tuple[str, tuple[int, int]]] = []
        for name, span in _named(spans, "spans"):
            if not has_type(span, (tuple, list)) or len(span) != 2:
                raise QueryError(f"range on {shown(name)} needs a pair (first code, last code)")
            low, high = _code(name, span[0]), _code(name, span[1])
            if low > high:
                raise QueryError(f"range on {shown(name)} is empty: first code {low} exceeds last code {high}")
            checked.append((name, (low, high)))
        object.__setattr__(self, "spans", tuple(checked))

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.spans)

    def to_dict(self) -> dict[str, Any]:
        return {"query": "range", "spans": {name: list(span) for name, span in self.spans}}

    def _compile(self, domain: Domain) -> Form:
        return _spans(domain, dict(self.spans))

    def _write(self) -> str:
        return f"range({', '.join(f'{name_text(name)}={low}..{high}' for name, (low, high) in self.spans)})"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Weighted(Linear):
    """A product of explicit vectors, one value in [0, 1] for each code of each named attribute."""

    vectors: tuple[tuple[str, np.ndarray], ...]

    def __init__(self, vectors: Mapping[str, Any]) -> None:
        pairs = _named(vectors, "vectors")
        object.__setattr__(self, "vectors", tuple((name, checked_values(vector, 1)) for name, vector in pairs))

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.vectors)

    def to_dict(self) -> dict[str, Any]:
        return {"query": "weighted", "vectors": {name: vector.tolist() for name, vector in self.vectors}}

    def _compile(self, domain: Domain) -> Form:
        named = dict(self.vectors)
        names = domain_order(domain, named)
        for name in names:
            if len(named[name]) != domain[name].size:
                raise QueryError(f"{shown(name)} has {domain[name].size} codes, not {len(named[name])} values")
        return Product(names, tuple(named[name] for name in names))

    def _write(self) -> str:
        parts = [f"{name_text(name)}=[{', '.join(map(repr, vector.tolist()))}]" for name, vector in self.vectors]
        return f"weighted({', '.join(parts)})"


@dataclass(frozen=True, eq=False, repr=False)
class Ratio(Query):
    """The quotient of two linear queries: post-processing, never measured itself."""

    numerator: Linear
    denominator: Linear

    def __post_init__(self) -> None:
        if not has_type(self.numerator, Linear) or not has_type(self.denominator, Linear):
            raise QueryError("a ratio needs two linear queries")

    @property
    def attributes(self) -> frozenset[str]:
        return self.numerator.attributes | self.denominator.attributes

    @cached_property
    def is_mean(self) -> bool:
        """Whether it is the mean of a column: a total of its numbers over the records that have one."""
        return isinstance(self.numerator, Total) and self.denominator == self.numerator.present

    @property
    def wording(self) -> str:
        """As it was asked, for messages: a mean is not called a quotient of its parts."""
        if isinstance(self.numerator, Total) and self.is_mean:
            return readable_text(f"mean({name_text(self.numerator.column)}, {self.numerator.where.text})")
        return super().wording

    def units(self, domain: Domain) -> tuple[float, float]:
        """(offset, scale): the user's value is offset + scale * numerator / denominator."""
        if isinstance(self.numerator, Total):
            lower, upper = self.numerator.bounds(domain)
            return lower, upper - lower
        return 0.0, 1.0

    def binning(self, domain: Domain) -> tuple[float, float]:
        """The binning error of a mean; for a total over another denominator it is unbounded."""
        if not isinstance(self.numerator, Total):
            return 0.0, 0.0
        reach = bin_reach(self.numerator.present.compile(domain), self.numerator.column, domain)
        return reach if reach[0] == 0 or self.is_mean else (math.inf, math.inf)

    def bounded(self, domain: Domain) -> bool:
        """Whether the numerator is part of the denominator, record by record: then the quotient is at most 1."""
        return is_part(self.numerator.compile(domain), self.denominator.compile(domain), domain)

    def to_dict(self) -> dict[str, Any]:
        parts = {"numerator": self.numerator.to_dict(), "denominator": self.denominator.to_dict()}
        return {"query": "ratio", **parts}

    def _write(self) -> str:
        return f"ratio({self.numerator.text}, {self.denominator.text})"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Marginal(Query):
    """All cells of the contingency table over some attributes; with no attributes, the total."""

    names: tuple[str, ...]

    def __init__(self, attributes: Iterable[str]) -> None:
        if isinstance(attributes, str):
            raise QueryError(f"marginal attributes {shown(attributes)} must be a list of names")
        names = tuple(attributes)
        for name in names:
            col(name)
        if len(set(names)) < len(names):
            raise QueryError(f"marginal names an attribute twice: {', '.join(names)}")
        object.__setattr__(self, "names", names)

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.names)

    def canonical(self, domain: Domain) -> tuple[str, ...]:
        """The attributes in the domain's order: the axes of its values."""
        return domain_order(domain, self.names)

    def resolve(self, domain: Domain) -> Query:
        """With no attributes it is asked as the count of all records."""
        return self if self.names else Count()

    def to_dict(self) -> dict[str, Any]:
        return {"query": "marginal", "attributes": list(self.names)}

    def _write(self) -> str:
        return f"marginal({', '.join(sorted(map(name_text, self.names)))})"


def count(predicate: Predicate | None = None) -> Count:
    """The fraction of records that satisfy a condition.

    Args:
        predicate: The condition, built from `rt.col`; by default all records count.

    Returns:
        A query for `ask`, for a workload or for a release.

    Raises:
        QueryError: `predicate` is not a condition.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Numeric(edges=[0, 30, 60, 100]))
        >>> query = rt.count(rt.col("age") >= 60)
        >>> workload = rt.Workload([query]).on(domain)
    """
    return Count() if predicate is None else Count(predicate)


def mean(column: str, where: Predicate | None = None) -> Mean:
    """The mean of a numeric column.

    Args:
        column: A column declared as `rt.Numeric`, or categorical with numbers.
        where: Only records for which this condition holds.

    Returns:
        A query; its answer is in the column's own unit.

    Raises:
        QueryError: `column` is not text or `where` is not a condition.

    Example:
        >>> import reticent as rt
        >>> query = rt.mean("age", where=rt.col("sex") == "f")
    """
    return Mean(column) if where is None else Mean(column, where)


def orthant(bounds: Mapping[str, Any]) -> Count:
    """The fraction of records whose value is at most a given bound in every named column.

    Args:
        bounds: The largest value for each column; columns must be ordered.

    Returns:
        A query, the same as `rt.count((rt.col(...) <= ...) & ...)`.

    Raises:
        QueryError: No column is named.

    Example:
        >>> import reticent as rt
        >>> rt.orthant({"age": 45, "hours": 40})
        count((age <= 45 and hours <= 40))
    """
    if not is_mapping(bounds) or not bounds:
        raise QueryError('an orthant needs a bound for at least one column: rt.orthant({"age": 45})')
    return Count(all_of(col(name) <= bound for name, bound in bounds.items()))


def marginal(*attributes: str) -> Marginal:
    """Counts of every combination of the named attributes.

    Args:
        *attributes: One name or several.

    Returns:
        A query whose answer has one cell for each combination.

    Raises:
        QueryError: There is no name, or a name occurs twice.

    Example:
        >>> import reticent as rt
        >>> sorted(rt.marginal("age", "sex").attributes)
        ['age', 'sex']
    """
    return Marginal(attributes)


def is_part(small: Form, large: Form, domain: Domain) -> bool:
    """Whether one form is at most the other on every record; also False if the test would take too long."""
    if isinstance(small, Product) and isinstance(large, Product):
        if not all(vector.any() for vector in small.vectors):
            return True
        ours = dict(zip(small.attributes, small.vectors, strict=True))
        theirs = zip(large.attributes, large.vectors, strict=True)
        return all((ours.get(name, 1.0) <= vector).all() for name, vector in theirs)
    names = domain.canonical({*small.attributes, *large.attributes})
    if domain.cells(names) > MAX_CELLS:
        return False
    spread = [
        form.tensor().reshape([domain[name].size if name in form.attributes else 1 for name in names])
        for form in (small, large)
    ]
    return bool((spread[0] <= spread[1]).all())


def _spans(domain: Domain, spans: Mapping[str, tuple[int, int]]) -> Product:
    names = domain_order(domain, spans)
    vectors: list[np.ndarray] = []
    for name in names:
        low, high = spans[name]
        size = domain[name].size
        if high >= size:
            raise QueryError(f"code {high} of {shown(name)} is outside 0..{size - 1}")
        vector = np.zeros(size)
        vector[low : high + 1] = 1.0
        vectors.append(vector)
    return Product(names, tuple(vectors))


def _named(entries: Any, what: str) -> list[tuple[str, Any]]:
    if not is_mapping(entries) or not entries:
        raise QueryError(f"{what} must map at least one attribute name")
    return sorted((col(name).name, value) for name, value in entries.items())


def _code(name: str, code: Any) -> int:
    if isinstance(code, (bool, float, str)) or not hasattr(code, "__index__") or int(code) < 0:
        raise QueryError(f"code {shown(code)} of {shown(name)} must be a whole number of at least 0")
    return int(code)


__all__ = ["Residual"]


@dataclass(frozen=True, init=False)
class Residual:
    """The contingency table of some attributes minus the mean along every axis; without attributes, the number of
    records.

    A marginal is the sum of the residuals of all its subsets, each spread evenly over the other attributes.
    """

    names: tuple[str, ...]

    def __init__(self, attributes: Iterable[str]) -> None:
        names = tuple(attributes)
        if len(set(names)) < len(names) or not all(has_type(name, str) and name for name in names):
            raise QueryError(f"a residual of {names!r} needs names of different attributes")
        object.__setattr__(self, "names", names)

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.names)

    def canonical(self, domain: Domain) -> tuple[str, ...]:
        """The attributes in the domain's order: the axes of its values."""
        return domain_order(domain, self.names)

    def to_dict(self) -> dict[str, Any]:
        return {"query": "residual", "attributes": list(self.names)}
