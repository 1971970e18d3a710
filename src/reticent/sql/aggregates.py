"""COUNT, SUM, AVG and arithmetic on them, compiled to expressions over linear measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of
from reticent.queries.numbers import scaled_numbers
from reticent.sql.conditions import condition
from reticent.sql.constants import is_constant, number, whole_number
from reticent.sql.expressions import Mean, Measures, Node, Number, Operation, Sum
from reticent.sql.intervals import Interval
from reticent.sql.pieces import Piece, pieces, present, union
from reticent.sql.refusals import only, refused, refused_node, wording
from reticent.sql.scope import Scope

AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.CountIf, exp.Filter)
MAX_DECIMALS = 15
_NEAREST = "use COUNT, SUM and AVG, constants, + - * /, ROUND, ABS, GREATEST, LEAST, COALESCE or NULLIF"
_FLOATS = (exp.DType.DOUBLE, exp.DType.FLOAT)
_WHOLE = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT)


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate that is not a window function's occurs in it."""
    return any(isinstance(found, (exp.AggFunc, exp.CountIf)) for found in node.walk())


@dataclass(frozen=True, eq=False)
class Compiler:
    """Turns expressions over groups into nodes; `look_up` finds what a bare column stands for, an alias say."""

    scope: Scope
    measures: Measures
    look_up: Callable[[exp.Column], exp.Expr | None]

    def node(self, tree: exp.Expr) -> Node:
        """One number per group."""
        if is_constant(tree):
            return Number(number(tree))
        if isinstance(tree, AGGREGATES):
            return self.aggregate(tree, Everything())
        if isinstance(tree, exp.Column):
            return self._column(tree)
        handler = _HANDLERS.get(type(tree))
        if handler is None:
            raise _unusable(tree)
        return handler(self, tree)

    def aggregate(self, tree: exp.Expr, kept: Predicate) -> Node:
        if isinstance(tree, exp.Filter):
            only(tree, "this", "expression")
            if not isinstance(tree.this, (exp.Count, exp.Sum, exp.Avg)):
                raise refused_node(tree.this, "FILTER goes with COUNT, SUM and AVG")
            return self.aggregate(tree.this, condition(tree.expression.this, self.scope))
        where = all_of((self.scope.where, kept))
        if isinstance(tree, exp.CountIf):
            only(tree, "this")
            return self._count(all_of((where, condition(tree.this, self.scope))))
        if isinstance(tree, exp.Count):
            return self._count(all_of((where, self._counted(tree))))
        only(tree, "this")
        listed = [piece.within(where) for piece in pieces(tree.this, self.scope)]
        return self._sum(listed) if isinstance(tree, exp.Sum) else self._mean(tree, listed)

    def _counted(self, tree: exp.Count) -> Predicate:
        only(tree, "this", "big_int", "expressions")
        if tree.expressions:
            raise refused(f"{wording(tree)} counts several columns at once", "use COUNT(*) FILTER (WHERE ...)")
        if tree.this is None or isinstance(tree.this, exp.Star):
            if tree.this is not None:
                only(tree.this)
            return Everything()
        return present(tree.this, self.scope)

    def _count(self, where: Predicate) -> Sum:
        return Sum(((1.0, self.measures.place(where)),))

    def _sum(self, listed: list[Piece]) -> Sum:
        """SUM = n * (lower * present + (upper - lower) * total) for each column (see `queries.Total`)."""
        domain, total = self.scope.domain, Sum(())
        for piece in listed:
            flat = piece.constant
            for name, coefficient in piece.columns.items():
                _, lower, upper = scaled_numbers(domain, name)
                flat += coefficient * lower
                if coefficient * (upper - lower):
                    place = self.measures.place(piece.present(domain, apart_from=name), name)
                    total = total.plus(Sum(((coefficient * (upper - lower), place),)))
            if flat:
                total = total.plus(Sum(((flat, self.measures.place(piece.present(domain))),)))
        return total

    def _mean(self, tree: exp.Expr, listed: list[Piece]) -> Mean:
        if not listed:
            raise refused(f"{wording(tree)} has no value for any record", "name a column")
        domain = self.scope.domain
        extents = [piece.extent(domain) for piece in listed]
        bottom = self.measures.place(union(listed, domain))
        low, high = min(low for low, _ in extents), max(high for _, high in extents)
        return Mean(self._sum(listed), bottom, low, high)

    def _column(self, tree: exp.Column) -> Node:
        found = self.look_up(tree)
        if found is not None:
            return self.node(found)
        name = self.scope.attribute(tree)
        raise refused(f"{wording(tree)} is a raw column", f"use SUM({name}), AVG({name}) or GROUP BY {name}")

    def binary(self, tree: exp.Expr) -> Node:
        only(tree, "this", "expression", "typed", "safe")
        left, right = self.node(tree.this), self.node(tree.expression)
        if isinstance(tree, (exp.Add, exp.Sub)):
            sign = -1.0 if isinstance(tree, exp.Sub) else 1.0
            if isinstance(left, Sum) and isinstance(right, Sum):
                return left.plus(right.times(sign))
            return Operation(Interval.__add__ if sign > 0 else Interval.__sub__, (left, right))
        if isinstance(tree, exp.Mul):
            return self._times(left, right)
        if isinstance(right, Number) and right.value == 0:
            raise refused(f"{wording(tree)} divides by zero", "use another divisor")
        return Operation(Interval.__truediv__, (left, right))

    def _times(self, left: Node, right: Node) -> Node:
        if isinstance(left, Number) and isinstance(right, Sum):
            left, right = right, left
        if isinstance(left, Sum) and isinstance(right, Number):
            return left.times(right.value)
        return Operation(Interval.__mul__, (left, right))

    def negative(self, tree: exp.Expr) -> Node:
        only(tree, "this")
        inner = self.node(tree.this)
        return inner.times(-1.0) if isinstance(inner, Sum) else Operation(Interval.__neg__, (inner,))

    def inner(self, tree: exp.Expr) -> Node:
        only(tree, "this")
        return self.node(tree.this)

    def rounded(self, tree: exp.Expr) -> Node:
        only(tree, "this", "decimals")
        digits = tree.args.get("decimals")
        decimals = 0 if digits is None else whole_number(digits, "decimals", MAX_DECIMALS)
        return Operation(lambda value: value.rounded(decimals), (self.node(tree.this),))

    def stepped(self, tree: exp.Expr) -> Node:
        only(tree, "this")
        step: np.ufunc = np.floor if isinstance(tree, exp.Floor) else np.ceil
        return Operation(lambda value: value.mapped(step), (self.node(tree.this),))

    def absolute(self, tree: exp.Expr) -> Node:
        only(tree, "this")
        return Operation(Interval.absolute, (self.node(tree.this),))

    def extreme(self, tree: exp.Expr) -> Node:
        only(tree, "this", "expressions", "ignore_nulls")
        pick = Interval.largest if isinstance(tree, exp.Greatest) else Interval.smallest
        found = self.node(tree.this)
        for item in tree.expressions:
            found = Operation(pick, (found, self.node(item)))
        return found

    def coalesced(self, tree: exp.Expr) -> Node:
        only(tree, "this", "expressions")
        found = self.node(tree.this)
        for item in tree.expressions:
            found = Operation(Interval.filled, (found, self.node(item)))
        return found

    def nullified(self, tree: exp.Expr) -> Node:
        only(tree, "this", "expression")
        excluded = number(tree.expression)
        return Operation(lambda value: value.without(excluded), (self.node(tree.this),))

    def cast(self, tree: exp.Expr) -> Node:
        only(tree, "this", "to")
        kind = tree.args["to"].this
        if kind in _FLOATS:
            return self.node(tree.this)
        if kind in _WHOLE:
            return Operation(lambda value: value.rounded(0), (self.node(tree.this),))
        raise refused(f"{wording(tree)} is not a numeric type", "cast to DOUBLE or BIGINT")


def _unusable(tree: exp.Expr) -> QueryError:
    if isinstance(tree, exp.Star):
        return refused("SELECT * would show rows", "ask COUNT(*), or synthesize(rows) for synthetic ones")
    if isinstance(tree, (exp.Case, exp.If)):
        return refused("CASE over aggregates is not supported", "put CASE inside: SUM(CASE WHEN ... THEN 1 ELSE 0 END)")
    if isinstance(tree, (exp.Predicate, exp.And, exp.Or, exp.Not)):
        return refused(f"{wording(tree)} is a condition, not a number", "count it: COUNT(*) FILTER (WHERE ...)")
    if isinstance(tree, exp.IgnoreNulls):
        return refused_node(tree.this, _NEAREST)
    return refused_node(tree, _NEAREST)


_HANDLERS: dict[type[exp.Expr], Callable[[Compiler, exp.Expr], Node]] = {
    exp.Add: Compiler.binary,
    exp.Sub: Compiler.binary,
    exp.Mul: Compiler.binary,
    exp.Div: Compiler.binary,
    exp.Neg: Compiler.negative,
    exp.Paren: Compiler.inner,
    exp.Round: Compiler.rounded,
    exp.Floor: Compiler.stepped,
    exp.Ceil: Compiler.stepped,
    exp.Abs: Compiler.absolute,
    exp.Greatest: Compiler.extreme,
    exp.Least: Compiler.extreme,
    exp.Coalesce: Compiler.coalesced,
    exp.Nullif: Compiler.nullified,
    exp.Cast: Compiler.cast,
}
