"""Queries from plain values (HTTP, ledger): a closed vocabulary, checked before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.queries.base import Linear, Query
from reticent.queries.expectation import Expectation, Weights
from reticent.queries.groups import Groups
from reticent.queries.linear import Conjunction, Count, Marginal, Mean, Range, Ratio, Total, Weighted
from reticent.queries.predicate import Everything, Predicate, predicate_from_dict
from reticent.queries.ranges import AllRanges
from reticent.queries.tabulated import tabulated_from_dict

MAX_NAMES = 1_000
"""Attributes in one query."""


def query_from_dict(description: Any) -> Query:
    """The inverse of `Query.to_dict`."""
    kind = description.get("query") if isinstance(description, (dict, Mapping)) else None
    if not isinstance(kind, str):
        raise QueryError('a query is an object such as {"query": "count", "where": {...}}')
    if kind not in _BUILDERS:
        raise QueryError(f"unknown query {shown(kind)}; use {', '.join(_BUILDERS)}")
    required, optional, build = _BUILDERS[kind]
    given = description.keys() - _QUERY
    if not required <= given <= required | optional:
        keys = ", ".join([*sorted(required), *(f"{key} (optional)" for key in sorted(optional))])
        raise QueryError(f"query {kind} needs exactly the keys {keys}")
    return build(description)


def linear_from_dict(description: Any) -> Linear:
    """A query that must be linear."""
    query = query_from_dict(description)
    if not isinstance(query, Linear):
        raise QueryError(f"{shown(description['query'])} is not a linear query")
    return query


def _where(description: Mapping[str, Any]) -> Predicate:
    return predicate_from_dict(description["where"]) if "where" in description else Everything()


def _mapping(description: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    entries = description[key]
    if not isinstance(entries, Mapping) or len(entries) > MAX_NAMES:
        raise QueryError(f'"{key}" must be an object with at most {MAX_NAMES} attribute names')
    return entries


def _attributes(description: Mapping[str, Any]) -> list[Any]:
    names = description["attributes"]
    if not isinstance(names, list) or len(names) > MAX_NAMES:
        raise QueryError(f'"attributes" must be a list of at most {MAX_NAMES} names')
    return names


def _groups(description: Mapping[str, Any]) -> Groups:
    weights = Weights.from_list(description["weights"]) if "weights" in description else None
    return Groups(_attributes(description), _where(description), description.get("column"), weights=weights)


def _ranges(description: Mapping[str, Any]) -> AllRanges:
    across = description.get("across", [])
    if not isinstance(across, list) or len(across) > MAX_NAMES:
        raise QueryError(f'"across" must be a list of at most {MAX_NAMES} names')
    return AllRanges(description["column"], description.get("prefixes", False), tuple(across))


def _ratio(description: Mapping[str, Any]) -> Ratio:
    return Ratio(linear_from_dict(description["numerator"]), linear_from_dict(description["denominator"]))


_QUERY = frozenset({"query"})
_Builder = Callable[[Mapping[str, Any]], Query]
_BUILDERS: dict[str, tuple[set[str], set[str], _Builder]] = {
    "count": (set(), {"where"}, lambda entry: Count(_where(entry))),
    "mean": ({"column"}, {"where"}, lambda entry: Mean(entry["column"], _where(entry))),
    "total": ({"column"}, {"where"}, lambda entry: Total(entry["column"], _where(entry))),
    "conjunction": ({"codes"}, set(), lambda entry: Conjunction(_mapping(entry, "codes"))),
    "range": ({"spans"}, set(), lambda entry: Range(_mapping(entry, "spans"))),
    "linear": ({"attributes", "values"}, set(), tabulated_from_dict),
    "weighted": ({"vectors"}, set(), lambda entry: Weighted(_mapping(entry, "vectors"))),
    "ratio": ({"numerator", "denominator"}, set(), _ratio),
    "ranges": ({"column"}, {"prefixes", "across"}, _ranges),
    "marginal": ({"attributes"}, set(), lambda entry: Marginal(_attributes(entry))),
    "groups": ({"attributes"}, {"where", "column", "weights"}, _groups),
    "expectation": (
        {"weights"},
        {"where"},
        lambda entry: Expectation(Weights.from_list(entry["weights"]), _where(entry)),
    ),
}
