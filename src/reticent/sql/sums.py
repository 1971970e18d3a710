"""Sums over records: a number that is linear in columns, possibly different in disjoint pieces of the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of, any_of, col
from reticent.queries.forms import scaled_numbers
from reticent.sql.conditions import CONDITION_STEPS, exactly
from reticent.sql.constants import constant, is_constant, number
from reticent.sql.refusals import only, refused, refused_node, wording
from reticent.sql.scope import Scope, otherwise
from reticent.sql.vectors import hides_null

MAX_PIECES = 64


class NonLinearError(QueryError):
    """A number that is not linear in the columns; it may still have a value in every cell of them."""


_FLOATS = (exp.DType.DOUBLE, exp.DType.FLOAT)


@dataclass(frozen=True, eq=False)
class Piece:
    """`constant + sum of coefficient * column` for the records of `where` in which all these columns have a number."""

    where: Predicate
    constant: float
    columns: Mapping[str, float]

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.constant, *self.columns.values()))):
            raise refused("a constant in a sum is not finite", "write a smaller one")

    def present(self, domain: Domain, apart_from: str | None = None) -> Predicate:
        """Where it is not NULL; without the condition on one column, for a total that is zero there."""
        needed = [name for name in self.columns if name != apart_from and domain[name].size > domain[name].known]
        return all_of((self.where, *(col(name).is_known() for name in needed)))

    def extent(self, domain: Domain) -> tuple[float, float]:
        """Smallest and largest value one record can have."""
        low = high = self.constant
        for name, coefficient in self.columns.items():
            ends = sorted(coefficient * bound for bound in scaled_numbers(domain, name)[1:])
            low, high = low + ends[0], high + ends[1]
        return low, high

    def scaled(self, factor: float) -> Piece:
        return Piece(self.where, self.constant * factor, {name: value * factor for name, value in self.columns.items()})

    def plus(self, other: Piece) -> Piece:
        columns = dict(self.columns)
        for name, coefficient in other.columns.items():
            columns[name] = columns.get(name, 0.0) + coefficient
        return Piece(all_of((self.where, other.where)), self.constant + other.constant, columns)

    def within(self, where: Predicate) -> Piece:
        return Piece(all_of((where, self.where)), self.constant, self.columns)


def pieces(node: exp.Expr, scope: Scope) -> list[Piece]:
    """A numeric expression over one record; records in no piece are NULL."""
    if is_constant(node):
        return [] if constant(node) is None else [Piece(Everything(), number(node), {})]
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise _not_a_number(node)
    scope.meter.charge(CONDITION_STEPS)
    found = handler(node, scope)
    scope.meter.charge(sum(piece.where.size + len(piece.columns) for piece in found))
    if len(found) > MAX_PIECES:
        raise refused(f"{len(found)} cases inside one aggregate; at most {MAX_PIECES}", "split the statement")
    return found


def present_where(node: exp.Expr, scope: Scope) -> Predicate:
    """Where an expression of any type is not NULL: what COUNT(expression) counts."""
    node = _bare(node)
    if is_constant(node):
        return ~Everything() if constant(node) is None else Everything()
    if isinstance(node, exp.Column):
        return not_null(scope.attribute(node), scope.domain)
    if isinstance(node, (exp.Case, exp.If)):
        return any_of(all_of((where, present_where(value, scope))) for where, value in branches(node, scope))
    return any_of(piece.present(scope.domain) for piece in pieces(node, scope))


def not_null(name: str, domain: Domain) -> Predicate:
    """Where a column has a value: a number or date, or text other than `(null)`."""
    attribute = domain[name]
    if attribute.size == attribute.known:
        return Everything()
    if attribute.representatives is not None or hides_null(attribute):
        return col(name).is_known()
    return ~col(name).is_null() if attribute.nullable else Everything()


def branches(node: exp.Expr, scope: Scope) -> list[tuple[Predicate, exp.Expr]]:
    """Each value of a CASE or IF with the records that get it, in disjoint order."""
    if isinstance(node, exp.If):
        only(node, "this", "true", "false")
        tests, default = [(exactly(node.this, scope), node.args["true"])], node.args.get("false")
    else:
        only(node, "this", "ifs", "default")
        tests = [(_test(node, branch, scope), branch.args["true"]) for branch in node.args["ifs"]]
        default = node.args.get("default")
    if len(tests) >= MAX_PIECES:
        raise refused(f"CASE with {len(tests)} branches; at most {MAX_PIECES - 1}", "split the statement")
    found: list[tuple[Predicate, exp.Expr]] = []
    left: Predicate = Everything()
    for test, value in tests:
        scope.meter.charge(left.size + CONDITION_STEPS * test.size)
        found.append((all_of((left, test)), value))
        left = all_of((left, otherwise(test, scope.domain)))
    found.append((left, default if default is not None else exp.Null()))
    return found


def _test(case: exp.Expr, branch: exp.Expr, scope: Scope) -> Predicate:
    only(branch, "this", "true")
    if case.this is None:
        return exactly(branch.this, scope)
    return exactly(exp.EQ(this=case.this.copy(), expression=branch.this.copy()), scope)


def _column(node: exp.Expr, scope: Scope) -> list[Piece]:
    assert isinstance(node, exp.Column)
    name = scope.attribute(node)
    scaled_numbers(scope.domain, name)
    return [Piece(Everything(), 0.0, {name: 1.0})]


def _case(node: exp.Expr, scope: Scope) -> list[Piece]:
    return [piece.within(where) for where, value in branches(node, scope) for piece in pieces(value, scope)]


def _inner(node: exp.Expr, scope: Scope) -> list[Piece]:
    only(node, "this")
    return pieces(node.this, scope)


def _negative(node: exp.Expr, scope: Scope) -> list[Piece]:
    only(node, "this")
    return [piece.scaled(-1.0) for piece in pieces(node.this, scope)]


def _sum(node: exp.Expr, scope: Scope) -> list[Piece]:
    only(node, "this", "expression")
    sign = -1.0 if isinstance(node, exp.Sub) else 1.0
    left, right = pieces(node.this, scope), [piece.scaled(sign) for piece in pieces(node.expression, scope)]
    sizes = [sum(piece.where.size + len(piece.columns) for piece in side) for side in (left, right)]
    scope.meter.charge(sizes[0] * len(right) + sizes[1] * len(left))
    return [first.plus(second) for first in left for second in right]


def _product(node: exp.Expr, scope: Scope) -> list[Piece]:
    only(node, "this", "expression", "typed", "safe")
    left, right = node.this, node.expression
    if isinstance(node, exp.Mul) and is_constant(left):
        left, right = right, left
    if not is_constant(right):
        raise NonLinearError(f"{wording(node)} is not linear in the columns; multiply or divide by constants only")
    factor = number(right)
    if isinstance(node, exp.Div):
        if factor == 0:
            raise refused(f"{wording(node)} divides by zero", "use another divisor")
        factor = 1.0 / factor
    return [piece.scaled(factor) for piece in pieces(left, scope)]


def _cast(node: exp.Expr, scope: Scope) -> list[Piece]:
    only(node, "this", "to")
    if node.args["to"].this not in _FLOATS:
        raise NonLinearError(f"{wording(node)} converts a column; sum the column itself")
    return pieces(node.this, scope)


def _coalesce(node: exp.Expr, scope: Scope) -> list[Piece]:
    only(node, "this", "expressions")
    found: list[Piece] = []
    left: Predicate = Everything()
    for item in (node.this, *node.expressions):
        inner = pieces(item, scope)
        scope.meter.charge(sum(left.size + CONDITION_STEPS * piece.where.size for piece in inner))
        found += [piece.within(left) for piece in inner]
        missing = otherwise(any_of(piece.present(scope.domain) for piece in inner), scope.domain)
        left = all_of((left, missing))
    return found


def _not_a_number(node: exp.Expr) -> QueryError:
    if isinstance(node, exp.Distinct):
        return refused("DISTINCT inside SUM or AVG depends on single records", "COUNT(*) ... GROUP BY the column")
    if isinstance(node, (exp.AggFunc, exp.Filter)):
        return refused(f"{wording(node)} is an aggregate inside an aggregate", "use one at a time")
    if isinstance(node, exp.Star):
        return refused("only COUNT takes a star", "name a column")
    if isinstance(node, exp.Order):
        return refused("ORDER BY inside an aggregate depends on single records", "leave it out")
    return NonLinearError(str(refused_node(node, "sum columns, constants times columns, or CASE of these")))


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def any_piece(parts: Iterable[Piece], domain: Domain) -> Predicate:
    """Where any of the pieces has a value."""
    return any_of(piece.present(domain) for piece in parts)


_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], list[Piece]]] = {
    exp.Column: _column,
    exp.Paren: _inner,
    exp.Neg: _negative,
    exp.Add: _sum,
    exp.Sub: _sum,
    exp.Mul: _product,
    exp.Div: _product,
    exp.Case: _case,
    exp.If: _case,
    exp.Cast: _cast,
    exp.Coalesce: _coalesce,
}
