"""What rows are grouped by: columns of the domain, and CASE or conditions that divide records into a few classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import Domain, Numeric
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of, any_of
from reticent.queries.forms import Dense, Form
from reticent.sql.conditions import condition, otherwise
from reticent.sql.constants import constant, is_constant
from reticent.sql.pieces import branches
from reticent.sql.refusals import refused, refused_node, wording
from reticent.sql.scope import Scope

MAX_GROUPS = 2**16
MAX_CLASSES = 256
"""Combinations of CASE values; each is a question of its own."""


@dataclass(frozen=True, eq=False)
class ColumnKey:
    """One group per code of an attribute."""

    attribute: str


@dataclass(frozen=True, eq=False)
class ClassKey:
    """One group per value of a CASE or condition; `tree` recognises it in the select list."""

    tree: exp.Expr
    labels: tuple[Any, ...]
    predicates: tuple[Predicate, ...]


Key = ColumnKey | ClassKey


def key_of(tree: exp.Expr, scope: Scope) -> Key:
    """The key that an expression in GROUP BY means."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Column):
        return ColumnKey(scope.attribute(tree))
    if isinstance(tree, (exp.Case, exp.If)):
        return _cases(tree, scope)
    if isinstance(tree, (exp.Predicate, exp.Not, exp.And, exp.Or)):
        test = condition(tree, scope)
        neither = all_of((otherwise(test, scope.domain), otherwise(~test, scope.domain)))
        return ClassKey(tree, (True, False, None), (test, ~test, neither))
    if isinstance(tree, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
        raise refused(f"{wording(tree)} groups in several ways at once", "ask one GROUP BY at a time")
    if is_constant(tree):
        raise refused(f"GROUP BY {wording(tree)} is constant", "group by a column")
    raise refused_node(tree, "group by columns, CASE or conditions")


def _cases(tree: exp.Expr, scope: Scope) -> ClassKey:
    classes: dict[tuple[type, Any], list[Predicate]] = {}
    for where, value in branches(tree, scope):
        if not is_constant(value):
            raise refused(f"{wording(value)} in a grouped CASE is not a constant", "write a label such as 'old'")
        label = constant(value)
        if not isinstance(label, (str, int, float, bool, type(None))):
            raise refused(f"{wording(value)} cannot be a group's label", "write text or a number")
        classes.setdefault((type(label), label), []).append(where)
    kinds = {str if kind is str else float for kind, _ in classes if kind is not type(None)}
    if len(kinds) > 1:
        raise refused(f"{wording(tree)} mixes text and numbers", "use one kind of label")
    return ClassKey(tree, tuple(label for _, label in classes), tuple(any_of(parts) for parts in classes.values()))


@dataclass(frozen=True, eq=False)
class Grouping:
    """All groups of a statement: every combination of classes, and within each the cells of the columns."""

    domain: Domain
    keys: tuple[Key, ...]
    where: Predicate

    def __post_init__(self) -> None:
        classes = math.prod(len(key.labels) for key in self._classes)
        if classes > MAX_CLASSES:
            raise refused(f"{classes} combinations of CASE values; at most {MAX_CLASSES}", "group by fewer")
        groups = classes * self.domain.cells(self.columns)
        if groups > MAX_GROUPS:
            raise refused(f"GROUP BY makes {groups} groups; at most {MAX_GROUPS}", "group by fewer or coarser columns")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(key.attribute for key in self.keys if isinstance(key, ColumnKey))

    @cached_property
    def _classes(self) -> list[ClassKey]:
        return [key for key in self.keys if isinstance(key, ClassKey)]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return self.domain.shape_of(self.columns)

    @cached_property
    def combinations(self) -> list[Predicate]:
        """The predicate of each combination of classes; `Everything` alone if there is none."""
        chosen = itertools.product(*(key.predicates for key in self._classes))
        return [all_of(parts) if parts else Everything() for parts in chosen]

    @cached_property
    def rows(self) -> np.ndarray:
        """Groups that the domain and WHERE allow, as indices; without keys the single group is always there."""
        if not self.keys:
            return np.zeros(1, dtype=np.int64)
        masks = []
        for chosen in self.combinations:
            form = all_of((self.where, chosen)).compile(self.domain)
            masks.append(reachable(form, self.columns, self.domain).ravel())
        return np.flatnonzero(np.concatenate(masks))

    def codes(self, key: Key, rows: np.ndarray) -> np.ndarray:
        """The code, or the number of the class, that each row has in one key."""
        cells = math.prod(self.shape)
        if isinstance(key, ColumnKey):
            return np.unravel_index(rows % cells, self.shape)[self.columns.index(key.attribute)]
        sizes = [len(other.labels) for other in self._classes]
        return np.unravel_index(rows // cells, sizes)[self._classes.index(key)]

    def values(self, key: Key) -> list[Any]:
        """What each code of a key is shown as: a category, the text of a bin, None for null."""
        if isinstance(key, ClassKey):
            return list(key.labels)
        attribute = self.domain[key.attribute]
        if not isinstance(attribute, Numeric):
            return [attribute.value(code) for code in range(attribute.size)]
        return [None if code == attribute.null_code else _short(label) for code, label in enumerate(attribute.labels)]

    def ranks(self, key: Key) -> np.ndarray:
        """Where ORDER BY puts each code: numbers by size, `(other)` after them, text by its letters; NaN for null."""
        if isinstance(key, ColumnKey):
            numbers = self.domain[key.attribute].representatives
            if numbers is not None:
                ranks = numbers.copy()
                if (other := self.domain[key.attribute].other_code) is not None:
                    ranks[other] = np.inf
                return ranks
        values = self.values(key)
        order = sorted((value for value in values if value is not None), key=_sort_key)
        places = {(type(value), value): place for place, value in enumerate(order)}
        return np.array([np.nan if value is None else places[type(value), value] for value in values], dtype=float)


def _sort_key(value: Any) -> tuple[bool, Any]:
    """`(other)` beside truth values comes last; among text it is text."""
    return (isinstance(value, str), value)


def _short(label: str) -> Any:
    """A bin of one integer is shown as that integer."""
    return int(label) if label.lstrip("-").isdigit() else label


def reachable(form: Form, columns: Sequence[str], domain: Domain) -> np.ndarray:
    """The cells of some columns in which a form is not zero everywhere, axes in the order given."""
    kept = domain.canonical(columns)
    sizes = {name: domain[name].size for name in kept}
    mask = np.ones(tuple(sizes.values()), dtype=bool)
    if isinstance(form, Dense):
        gone = tuple(axis for axis, name in enumerate(form.attributes) if name not in sizes)
        seen = (form.values > 0).any(axis=gone)
        mask = mask & seen.reshape([size if name in form.attributes else 1 for name, size in sizes.items()])
    else:
        for name, vector in zip(form.attributes, form.vectors, strict=True):
            if name in sizes:
                mask = mask & (vector > 0).reshape([size if other == name else 1 for other, size in sizes.items()])
            elif not vector.any():
                mask = np.zeros_like(mask)
    return np.transpose(mask, [kept.index(name) for name in columns])


def checked_keys(keys: Sequence[Key]) -> tuple[Key, ...]:
    """Repeated keys are one."""
    found: list[Key] = []
    for key in keys:
        if not any(same_key(key, other) for other in found):
            found.append(key)
    return tuple(found)


def same_key(one: Key, other: Key) -> bool:
    if isinstance(one, ColumnKey) or isinstance(other, ColumnKey):
        return isinstance(one, ColumnKey) and isinstance(other, ColumnKey) and one.attribute == other.attribute
    return one.tree == other.tree


def ungrouped(tree: exp.Expr, scope: Scope) -> QueryError:
    """A select item that is neither an aggregate nor grouped."""
    if isinstance(tree, exp.Column):
        name = scope.attribute(tree)
        return refused(f"{wording(tree)} is a raw column", f"add GROUP BY {name}, or use COUNT({name}), SUM or AVG")
    if isinstance(tree, exp.Func):
        return refused_node(tree, "use COUNT, SUM or AVG, or group by the column")
    return refused(f"{wording(tree)} is computed per record", "group by it, or put it inside COUNT, SUM or AVG")
