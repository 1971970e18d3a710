"""Keys of GROUP BY: columns of the domain, and expressions that divide records into a few classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of, any_of
from reticent.queries.forms import Dense, Form
from reticent.sql.builder import kind_of_value
from reticent.sql.cells import OnCells, on_cells
from reticent.sql.conditions import condition, cut_by_comparison
from reticent.sql.constants import constant, is_constant
from reticent.sql.expressions import Known
from reticent.sql.refusals import CELLS_A_STEP, refused, wording
from reticent.sql.scope import CutError, Scope, otherwise
from reticent.sql.sums import branches
from reticent.sql.vectors import INTEGER, NULL, NUMBER, TRUTH, Labels, column_vector, hides_null, kind_of, to_labels

MAX_GROUPS = 2**16
MAX_CLASSES = 256
"""Combinations of classes; each is a question of its own."""
_UNITS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DECADE")
COMPARED_STEPS = 50
"""Of comparing one expression with one key of the grouping."""
COMPILED_STEPS = 20
"""Of compiling the simplest predicate."""


@dataclass(frozen=True, eq=False)
class ColumnKey:
    """One group per code of an attribute."""

    attribute: str


@dataclass(frozen=True, eq=False)
class ClassKey:
    """One group per value of an expression, each with its records."""

    labels: tuple[Any, ...]
    predicates: tuple[Predicate, ...]


Key = ColumnKey | ClassKey


@dataclass(frozen=True, eq=False)
class GroupedBy:
    """An expression of GROUP BY, and its key."""

    tree: exp.Expr
    """In terms of the table's own columns; recognises it in the select list."""
    key: Key
    kind: str
    labels: tuple[Any, ...] | None = None
    """What each code of a column is called, where the expression is another name for each."""
    note: str = ""
    """What is to be said of it."""

    def column(self, grouping: Grouping) -> Known:
        """Its value in every group."""
        codes = grouping.codes(self.key, grouping.rows)
        if isinstance(self.key, ClassKey):
            return Known(Labels(codes, self.key.labels), self.kind)
        if self.labels is not None:
            return Known(Labels(codes, self.labels), self.kind)
        return Known(column_vector(grouping.domain[self.key.attribute], codes), self.kind)


def grouped_by(tree: exp.Expr, scope: Scope) -> GroupedBy:
    """The key of an expression in GROUP BY."""
    tree, scope = scope.inlined(tree)
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Column):
        name = scope.attribute(tree)
        attribute = scope.domain[name]
        if hides_null(attribute) and attribute.nullable:
            return _classes(tree, scope)  # both codes are NULL, which is one group
        return GroupedBy(tree, ColumnKey(name), kind_of(attribute))
    if is_constant(tree):
        label = constant(tree)
        return GroupedBy(tree, ClassKey((label,), (Everything(),)), kind_of_value(label))
    if isinstance(tree, (exp.Case, exp.If)):
        try:
            found = _cases(tree, scope)
        except CutError as cut:
            return _classes(tree, scope, str(cut))
        if found is not None:
            return found
    if isinstance(tree, (exp.Predicate, exp.Not, exp.And, exp.Or)):
        test = condition(tree, scope)
        true, false = test.decided(), test.false
        scope.meter.charge(COMPILED_STEPS * true.size)
        neither = all_of((otherwise(true, scope.domain), otherwise(false, scope.domain)))
        return GroupedBy(tree, ClassKey((True, False, None), (true, false, neither)), TRUTH)
    return _classes(tree, scope)


def _cases(tree: exp.Expr, scope: Scope) -> GroupedBy | None:
    """CASE with constant labels, each class a predicate as it is written."""
    listed = branches(tree, scope)
    if not all(is_constant(value) for _, value in listed):
        return None
    classes: dict[tuple[type, Any], list[Predicate]] = {}
    for where, value in listed:
        label = constant(value)
        classes.setdefault((type(label), label), []).append(where)
    kinds = {kind_of_value(label) for _, label in classes} - {NULL}
    if len(kinds) > 1 and kinds != {INTEGER, NUMBER}:
        raise refused(f"{wording(tree)} mixes text and numbers", "use one kind of label")
    kind = NUMBER if len(kinds) > 1 else next(iter(kinds), NULL)
    labels = tuple(label for _, label in classes)
    return GroupedBy(tree, ClassKey(labels, tuple(any_of(parts) for parts in classes.values())), kind)


def _classes(tree: exp.Expr, scope: Scope, cut: str = "") -> GroupedBy:
    """The classes of any expression with one value in every cell of its columns; `cut` names the condition that has
    several.
    """
    cells = on_cells(tree, scope)
    known = cells.known
    if known is None:
        raise refused(f"GROUP BY {wording(tree)} depends on a noisy value", "write the value itself")
    if not cells.names:
        raise refused(f"GROUP BY {wording(tree)} is constant", "group by a column")
    labels, beyond = to_labels(known.vector, known.kind), ""
    if labels is None:
        # What is clamped to the upper edge of the last bin may be all that differs within it.
        opened, compared = on_cells(tree, scope, opened=True), cut_by_comparison(tree, scope)
        if opened.known is not None and not compared:
            labels = to_labels(opened.known.vector, known.kind)
        if labels is not None:
            beyond = (
                f"{wording(tree)}: values at the upper end of {', '.join(cells.names)} and beyond are in the last bin"
            )
        elif (chosen := _left(cells, scope)) is not None:
            return _of_left(tree, cells, chosen, scope)
        elif compared or cut:
            raise QueryError(f"GROUP BY: {compared or cut}")
        else:
            _suggest_unit(tree, scope, opened.first_open() or cells.first_open())
            where = (opened if opened.first_open() else cells).first_open() or "a bin"
            raise refused(
                f"GROUP BY {wording(tree)} divides {where}",
                "group by the column, or at the edges of its bins, or leave that bin out with WHERE",
            )
    found = labels.codes
    distinct = np.unique(found)
    if len(cells.names) == 1 and len(distinct) == len(found):
        values = tuple(labels.values[code] for code in found.tolist())
        return GroupedBy(tree, ColumnKey(cells.names[0]), known.kind, values, beyond)
    if len(distinct) > MAX_CLASSES:
        raise refused(
            f"{wording(tree)} has {len(distinct)} values; at most {MAX_CLASSES}", "group by the column itself"
        )
    scope.meter.charge(len(distinct) * (COMPILED_STEPS + len(found) // CELLS_A_STEP))
    predicates = tuple(cells.predicate(found == code) for code in distinct)
    found_key = ClassKey(tuple(labels.values[code] for code in distinct.tolist()), predicates)
    return GroupedBy(tree, found_key, known.kind, note=beyond)


def _left(cells: OnCells, scope: Scope) -> tuple[np.ndarray, Labels] | None:
    """The cells that WHERE keeps, with their values, if each of these has one."""
    known = cells.known
    assert known is not None, "noisy values were refused"
    form = scope.where.widest.compile(scope.domain, scope.meter)
    places = np.flatnonzero(reachable(form, cells.names, scope.domain).ravel())
    if not 0 < len(places) < cells.size:
        return None
    vector = known.vector.take(places)
    if isinstance(vector, Labels) and vector.certain is not None and vector.certain.all():
        vector = Labels(vector.codes, vector.values)
    labels = to_labels(vector, known.kind)
    return None if labels is None else (places, labels)


def _of_left(tree: exp.Expr, cells: OnCells, chosen: tuple[np.ndarray, Labels], scope: Scope) -> GroupedBy:
    """Classes of the cells that WHERE keeps."""
    places, labels = chosen
    distinct = np.unique(labels.codes)
    if len(distinct) > MAX_CLASSES:
        raise refused(
            f"{wording(tree)} has {len(distinct)} values; at most {MAX_CLASSES}", "group by the column itself"
        )
    scope.meter.charge(len(distinct) * (COMPILED_STEPS + cells.size // CELLS_A_STEP))
    predicates = []
    for code in distinct:
        mask = np.zeros(cells.size, dtype=bool)
        mask[places[labels.codes == code]] = True
        predicates.append(cells.predicate(mask))
    assert cells.known is not None, "noisy values were refused"
    key = ClassKey(tuple(labels.values[code] for code in distinct.tolist()), tuple(predicates))
    return GroupedBy(tree, key, cells.known.kind)


@dataclass(frozen=True, eq=False)
class Grouping:
    """All groups of a statement: every combination of classes, and within each the cells of the columns."""

    domain: Domain
    keys: tuple[Key, ...]
    where: Predicate

    def __post_init__(self) -> None:
        classes = math.prod(len(key.labels) for key in self._classes)
        if classes > MAX_CLASSES:
            raise refused(f"{classes} combinations of classes; at most {MAX_CLASSES}", "group by fewer")
        groups = classes * self.domain.cells(self.columns)
        if groups > MAX_GROUPS:
            raise refused(f"GROUP BY makes {groups} groups; at most {MAX_GROUPS}", "group by fewer or coarser columns")

    @cached_property
    def size(self) -> int:
        """The number of groups, including those that WHERE excludes."""
        return math.prod(len(key.labels) for key in self._classes) * self.domain.cells(self.columns)

    @cached_property
    def steps(self) -> int:
        """The work of finding the groups that WHERE keeps, once for each combination of classes."""
        combinations = math.prod(len(key.labels) for key in self._classes)
        listed = sum(max((part.size for part in key.predicates), default=0) for key in self._classes)
        each = compile_steps(self.where, self.domain, self.domain.cells(self.columns))
        return combinations * (each + 5 * listed)

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
        """Groups that the domain and WHERE allow, as indices; without keys there is always the single group."""
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
            return np.unravel_index(rows % cells, self.shape)[self.columns.index(key.attribute)].astype(np.int64)
        sizes = [len(other.labels) for other in self._classes]
        return np.unravel_index(rows // cells, sizes)[self._classes.index(key)]


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


def compile_steps(predicate: Predicate, domain: Domain, cells: int) -> int:
    """The work of compiling a predicate and finding the groups that it reaches; tensors are charged separately."""
    codes = max((domain[name].size for name in predicate.attributes), default=1)
    return COMPILED_STEPS + predicate.size * (5 + codes // CELLS_A_STEP) + 4 * cells // CELLS_A_STEP


def same_key(one: Key, other: Key) -> bool:
    return isinstance(one, ColumnKey) and isinstance(other, ColumnKey) and one.attribute == other.attribute


def distinct_keys(listed: Sequence[GroupedBy]) -> tuple[Key, ...]:
    """Repeated columns are one key."""
    found: list[Key] = []
    for entry in listed:
        if not any(same_key(entry.key, other) for other in found):
            found.append(entry.key)
    return tuple(found)


def ungrouped(tree: exp.Column, scope: Scope) -> QueryError:
    """A select item that is neither an aggregate nor grouped."""
    name = tree.name if scope.find(tree.name) else scope.attribute(tree)
    return refused(f"{wording(tree)} is a raw column", f"add GROUP BY {name}, or use COUNT({name}), SUM or AVG")


def _suggest_unit(tree: exp.Expr, scope: Scope, divided: str | None) -> None:
    """Refuse a DATE_TRUNC that divides bins with the shortest unit that does not, where there is one."""
    if not isinstance(tree, (exp.TimestampTrunc, exp.DateTrunc)) or tree.args.get("unit") is None:
        return
    for unit in _UNITS:
        longer = tree.copy()
        longer.set("unit", exp.Var(this=unit))
        cells = on_cells(longer, scope, opened=True)
        if cells.known is not None and to_labels(cells.known.vector, cells.known.kind) is not None:
            raise refused(f"GROUP BY {wording(tree)} divides {divided or 'a bin'}", f"use {wording(longer)}")
