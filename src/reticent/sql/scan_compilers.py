"""What names and aggregates mean over groups of records: questions about the protected table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from reticent.errors import QueryError
from reticent.sql import reduction
from reticent.sql.aggregates import AGGREGATES, Aggregator, is_aggregate
from reticent.sql.builder import FOLDED_ROWS
from reticent.sql.compilers import SelectCompiler, listing, or_zero, positive, public_values
from reticent.sql.expressions import Computed, Expr, Known
from reticent.sql.grouping import COMPARED_STEPS, ClassKey, ColumnKey, GroupedBy, Grouping, ungrouped
from reticent.sql.reduction import Reduced
from reticent.sql.refusals import refused, refused_node, wording
from reticent.sql.relations import Grouped, presence_of
from reticent.sql.scan import Scan
from reticent.sql.scope import Scope
from reticent.sql.vectors import (
    NUMBER,
    TEXT,
    TRUTH,
    Vector,
    kind_of,
    to_interval,
)

if TYPE_CHECKING:
    from reticent.sql.planner import Planner

LISTED_STEPS = 3
"""Of finding one group whose key STRING_AGG may list."""


class ScanCompiler(SelectCompiler):
    """Over groups of records."""

    def __init__(
        self, planner: Planner, scan: Scan, listed: Sequence[GroupedBy], aliases: Mapping[str, exp.Expr]
    ) -> None:
        super().__init__(planner, scan.rows, aliases)
        self.meter.charge(len(listed) * (1 + scan.rows // FOLDED_ROWS))
        self.scan = scan
        self.keyed = [(entry, entry.column(scan.grouping)) for entry in listed]
        self.aggregator = Aggregator(scan)
        planner.told += [self.aggregator.cuts, self.aggregator.declared]

    @property
    def scope(self) -> Scope:
        return self.scan.scope

    @property
    def groups(self) -> Grouped:
        return Grouped(self.scan, tuple((column, entry.key) for entry, column in self.keyed if self._whole(entry)))

    @staticmethod
    def _whole(entry: GroupedBy) -> bool:
        return isinstance(entry.key, (ColumnKey, ClassKey))

    def exists(self) -> Expr | None:
        return self.scan.exists

    def column(self, tree: exp.Column) -> Expr:
        if isinstance(tree.this, exp.Identifier) and tree.args.get("table") is None and not self.scope.find(tree.name):
            alias = self.alias(tree)
            if alias is not None:
                return alias
        meaning = self.scope.columns.get(tree.name.lower())
        if isinstance(meaning, exp.Expr):
            inner, _ = self.scope.inlined(tree)
            found = self._matching(inner.this if isinstance(inner, exp.Paren) else inner)
            if found is not None:
                return found
            return self._based().expr(inner)
        attribute = self.scope.attribute(tree)
        for entry, column in self.keyed:
            if isinstance(entry.tree, exp.Column) and attribute == self._grouped_attribute(entry):
                return column
        raise ungrouped(tree, self.scope)

    def _grouped_attribute(self, entry: GroupedBy) -> str:
        """The attribute of a key that is a plain column."""
        if isinstance(entry.key, ColumnKey):
            return entry.key.attribute
        assert isinstance(entry.tree, exp.Column), "other keys are expressions"
        return (self.scope.base if self.scope.computes else self.scope).attribute(entry.tree)

    def _based(self) -> ScanCompiler:
        """Reads expressions in terms of the table's own columns."""
        compiler = object.__new__(ScanCompiler)
        compiler.__dict__.update(self.__dict__)
        compiler.scan = Scan(self.scope.base, self.scan.grouping, self.scan.measures)
        return compiler

    def _matching(self, tree: exp.Expr) -> Known | None:
        """The key that an expression is, in terms of the table's own columns."""
        self.meter.charge(COMPARED_STEPS * len(self.keyed))
        for entry, column in self.keyed:
            if type(entry.tree) is type(tree) and not isinstance(tree, exp.Column) and entry.tree == tree:
                return column
        return None

    def special(self, tree: exp.Expr) -> Expr | None:
        found = self._matching(tree)
        if found is None and self.scope.computes and any(type(entry.tree) is type(tree) for entry, _ in self.keyed):
            found = self._matching(self._inlined(tree))
        if found is not None:
            return found
        if isinstance(tree, exp.AnyValue) or (
            isinstance(tree, exp.IgnoreNulls) and isinstance(tree.this, exp.AnyValue)
        ):
            return self._any_value(tree.this if isinstance(tree, exp.IgnoreNulls) else tree)
        if isinstance(tree, exp.GroupConcat) and (texts := self._texts(tree)) is not None:
            return texts
        if isinstance(tree, AGGREGATES) or is_aggregate(tree):
            return self.aggregator.aggregate(tree)
        return None

    def _texts(self, tree: exp.Expr) -> Expr | None:
        """STRING_AGG(DISTINCT x ORDER BY x) of a column: those of its declared values that have records."""
        item, items, mark = listing(tree, self)
        column = item.expressions[0] if isinstance(item, exp.Distinct) else None
        if not isinstance(column, exp.Column) or any(one.this != column for one in items):
            return None
        name, scan = self.scope.attribute(column), self.scan
        if name in scan.grouping.columns or self.scope.computes or self.scope.pending:
            return None
        entry = GroupedBy(column, ColumnKey(name), kind_of(scan.domain[name]))
        # Keys of this scan come first, so that the listed column varies fastest.
        grouping = Grouping(scan.domain, (*scan.grouping.keys, entry.key), scan.grouping.where)
        self.meter.charge(grouping.steps + LISTED_STEPS * grouping.size)
        fine = Scan(self.scope, grouping, scan.measures)
        listed = public_values(entry.column(grouping), tree)
        index = np.searchsorted(scan.grouping.rows, grouping.rows // scan.domain[name].size)
        descending = bool(items) and bool(items[0].args.get("desc"))
        reducer = reduction.joined_texts(mark, descending=descending, distinct=True)
        return Reduced(reducer, (listed, listed), fine.exists, index, self.rows, TEXT)

    def _inlined(self, tree: exp.Expr) -> exp.Expr:
        try:
            return self.scope.inlined(tree)[0]
        except QueryError:
            return tree

    def _any_value(self, tree: exp.Expr) -> Expr:
        """ANY_VALUE of what is grouped by is that."""
        inner = tree.this
        try:
            return self.expr(inner)
        except QueryError:
            raise refused_node(tree, "group by the column") from None

    def unusable(self, tree: exp.Expr) -> QueryError:
        if isinstance(tree, exp.Star):
            return refused("SELECT * would show rows", "ask COUNT(*), or synthesize(rows) for synthetic ones")
        return super().unusable(tree)


class FilteredScanCompiler(ScanCompiler):
    """Over groups of records that are compared with noisy values.

    What is compared divides the groups further; the condition then decides which of these finer groups count.
    """

    def __init__(
        self,
        planner: Planner,
        scan: Scan,
        listed: Sequence[GroupedBy],
        aliases: Mapping[str, exp.Expr],
        fine: ScanCompiler,
        conditions: Sequence[Expr],
        index: np.ndarray,
    ) -> None:
        super().__init__(planner, scan, listed, aliases)
        self.fine = fine
        self.index = index
        self.conditions = conditions

    @property
    def groups(self) -> None:  # type: ignore[override]
        return None

    def special(self, tree: exp.Expr) -> Expr | None:
        function = tree.this if isinstance(tree, exp.Filter) else tree
        if isinstance(function, exp.Avg):
            total = exp.Sum(this=function.this.copy())
            counted = exp.Count(this=function.this.copy())
            parts = [self._summed(_like(tree, part)) for part in (total, counted)]
            return Computed(_divided, tuple(parts), self.rows, NUMBER)
        if isinstance(function, (exp.Count, exp.CountIf, exp.Sum)):
            if isinstance(function.this, exp.Distinct):
                raise refused(f"{wording(tree)} among records compared with a noisy value", "write the value itself")
            return self._summed(tree)
        if isinstance(function, AGGREGATES) or is_aggregate(function):
            raise refused(f"{wording(tree)} among records compared with a noisy value", "write the value itself")
        return super().special(tree)

    def _summed(self, tree: exp.Expr) -> Expr:
        inner = self.fine.aggregator.aggregate(tree)
        presence = presence_of(list(self.conditions), self.fine.rows)
        found = Reduced(reduction.total, (inner,), presence, self.index, self.rows, inner.kind)
        return Computed(or_zero, (found,), self.rows, inner.kind)

    def exists(self) -> Expr | None:
        if not self.scan.grouping.keys:
            return None
        counted = self._summed(exp.Count(this=exp.Star()))
        return Computed(positive, (counted,), self.rows, TRUTH)


class FineCompiler(ScanCompiler):
    """Conditions on the codes of grouped columns, beside noisy values."""

    def special(self, tree: exp.Expr) -> Expr | None:
        if is_aggregate(tree) or isinstance(tree, exp.Filter):
            raise refused(f"{wording(tree)} is an aggregate, and WHERE is evaluated for each record", "use HAVING")
        return None


def _like(tree: exp.Expr, function: exp.Expr) -> exp.Expr:
    return exp.Filter(this=function, expression=tree.expression.copy()) if isinstance(tree, exp.Filter) else function


def _divided(one: Vector, other: Vector) -> Vector:
    return to_interval(one) / to_interval(other)
