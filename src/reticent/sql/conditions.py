"""Conditions on one record: SQL's WHERE, FILTER and CASE as predicates on the domain, with three truth values."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from reticent.domain import OTHER_LABEL, Categorical, Domain
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of, any_of, col
from reticent.queries.predicate import Column, Comparison, Junction, Not
from reticent.sql.constants import constant, is_constant
from reticent.sql.refusals import only, refused, refused_node, wording
from reticent.sql.scope import Scope

_COMPARE: dict[type[exp.Expr], Callable[[Column, object], Predicate]] = {
    exp.EQ: Column.__eq__,
    exp.NEQ: Column.__ne__,
    exp.LT: Column.__lt__,
    exp.LTE: Column.__le__,
    exp.GT: Column.__gt__,
    exp.GTE: Column.__ge__,
}
_MIRRORED = {exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_SIGNS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_COLUMN_ONLY = "compare the column itself with constants"


def condition(node: exp.Expr, scope: Scope) -> Predicate:
    """The records for which a condition is true."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise _misplaced(node)
    predicate = handler(node, scope)
    return ~predicate if node.args.get("negate") else predicate


def otherwise(predicate: Predicate, domain: Domain) -> Predicate:
    """Where a predicate is not true: false or unknown. `~` keeps only where it is false."""
    return _without(predicate, domain, True)


def _without(predicate: Predicate, domain: Domain, outcome: bool) -> Predicate:
    """Where a predicate does not have the outcome, by De Morgan down to comparisons."""
    if isinstance(predicate, Not):
        return _without(predicate.operand, domain, not outcome)
    if isinstance(predicate, Junction):
        parts = [_without(operand, domain, outcome) for operand in predicate.operands]
        return any_of(parts) if (predicate.op == "and") is outcome else all_of(parts)
    opposite = ~predicate if outcome else predicate
    if not isinstance(predicate, Comparison):
        return opposite
    return any_of((opposite, *_unknown(predicate, domain)))


def _unknown(comparison: Comparison, domain: Domain) -> list[Predicate]:
    """The codes on which a comparison is neither true nor false."""
    attribute = domain[comparison.name]
    truth = attribute.truth(comparison.op, comparison.value, comparison.name)
    column, undecided = col(comparison.name), ~(truth.true | truth.false)
    found: list[Predicate] = []
    if attribute.null_code is not None and undecided[attribute.null_code]:
        found.append(column.is_null())
    if attribute.other_code is not None and undecided[attribute.other_code]:
        found.append(column == OTHER_LABEL)
    return found


def _misplaced(node: exp.Expr) -> QueryError:
    if isinstance(node, exp.Filter):
        node = node.this
    if isinstance(node, (exp.Count, exp.Sum, exp.Avg, exp.CountIf)):
        return refused(f"{wording(node)} is an aggregate, and WHERE looks at one record", "use HAVING")
    if isinstance(node, exp.Literal):
        return refused(f"{wording(node)} is not a condition", "compare a column with it")
    return refused_node(node, _COLUMN_ONLY)


def _junction(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this", "expression")
    parts = [condition(part, scope) for part in _flat(node, type(node))]
    return all_of(parts) if isinstance(node, exp.And) else any_of(parts)


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Operands of a chain of ANDs or ORs, which sqlglot nests to the left; no recursion, for chains are long."""
    parts: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if type(current) is kind:
            waiting += [current.expression, current.this]
        else:
            parts.append(current)
    return parts


def _not(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this")
    return ~condition(node.this, scope)


def _paren(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this")
    return condition(node.this, scope)


def _boolean(node: exp.Expr, scope: Scope) -> Predicate:
    return Everything() if node.this else ~Everything()


def _truth_column(node: exp.Expr, scope: Scope) -> Predicate:
    assert isinstance(node, exp.Column)
    name = scope.attribute(node)
    attribute = scope.domain[name]
    if not isinstance(attribute, Categorical) or attribute.kind != "truth values":
        raise refused(f"{wording(node)} is a column, not a condition", "compare it with a value")
    return col(name) == True  # noqa: E712


def _comparison(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this", "expression")
    left, right, kind = _bare(node.this), _bare(node.expression), type(node)
    if is_constant(left):
        if is_constant(right):
            return _constants(node, constant(left), constant(right))
        left, right, kind = right, left, _MIRRORED[type(node)]
    column = _column(left, right, node, scope)
    value = constant(right)
    if value is None:
        test = "IS NOT NULL" if kind is exp.NEQ else "IS NULL"
        raise refused(f"{wording(node)} is never true", f"use {wording(left)} {test}")
    return _COMPARE[kind](column, value)


def _column(left: exp.Expr, right: exp.Expr, node: exp.Expr, scope: Scope) -> Column:
    """The column side of a comparison whose other side is constant."""
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):
        scope.attribute(left)
        scope.attribute(right)
        raise refused(f"{wording(node)} compares two columns", f"{_COLUMN_ONLY}, joined by OR")
    if not is_constant(right):
        raise _misplaced(right)
    if not isinstance(left, exp.Column):
        raise _computed(left)
    return col(scope.attribute(left))


def _computed(node: exp.Expr) -> QueryError:
    if isinstance(node, (exp.Binary, exp.Neg)) and not isinstance(node, exp.Predicate):
        return refused(f"{wording(node)} computes with a column", "move the arithmetic to the constant's side")
    if isinstance(node, exp.Cast):
        return refused(f"{wording(node)} converts a column", _COLUMN_ONLY)
    if isinstance(node, exp.Func) and not isinstance(node, (exp.AggFunc, exp.Case, exp.If)):
        return refused(f"{wording(node)} is a function of a column", f"{_COLUMN_ONLY}, or use LIKE or IN")
    return _misplaced(node)


def _constants(node: exp.Expr, left: object, right: object) -> Predicate:
    """WHERE 1 = 1 and the like."""
    if left is None or right is None:
        raise refused(f"{wording(node)} is never true", "use IS NULL with a column")
    alike = type(left) is type(right) or (isinstance(left, (int, float)) and isinstance(right, (int, float)))
    if not alike:
        raise refused(f"{wording(node)} compares values of different kinds", "compare a column with a value")
    holds = {
        exp.EQ: left == right,
        exp.NEQ: left != right,
        exp.LT: left < right,  # type: ignore[operator]
        exp.LTE: left <= right,  # type: ignore[operator]
        exp.GT: left > right,  # type: ignore[operator]
        exp.GTE: left >= right,  # type: ignore[operator]
    }[type(node)]
    return Everything() if holds else ~Everything()


def _in(node: exp.Expr, scope: Scope) -> Predicate:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        raise refused(f"{wording(node)} holds a subquery", "list the values: IN ('a', 'b')")
    only(node, "this", "expressions")
    values = []
    for item in node.expressions:
        if not is_constant(item):
            raise refused(f"{wording(item)} in a list of values is not a constant", "list constants")
        values.append(constant(item))
    if any(value is None for value in values):
        raise refused(f"{wording(node)} lists NULL, which never matches", "add OR ... IS NULL")
    return _side(node, scope).isin(values)


def _between(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this", "low", "high")
    low, high = node.args["low"], node.args["high"]
    for end in (low, high):
        if not is_constant(end):
            raise refused(f"{wording(end)} is not a constant", "BETWEEN needs two constants")
        if constant(end) is None:
            raise refused(f"{wording(node)} is never true", "write both ends")
    return _side(node, scope).between(constant(low), constant(high))


def _side(node: exp.Expr, scope: Scope) -> Column:
    left = _bare(node.this)
    if not isinstance(left, exp.Column):
        raise _computed(left)
    return col(scope.attribute(left))


def _is(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this", "expression")
    left, right = _bare(node.this), node.expression
    if isinstance(right, exp.Null):
        return _side(node, scope).is_null()
    if isinstance(right, exp.Boolean):
        inner = condition(left, scope)
        inner = inner if right.this else ~inner
        # Two-valued: where it is not true it is false, so that NOT turns it round completely.
        return ~otherwise(inner, scope.domain)
    raise refused_node(node, "use IS NULL, IS TRUE or a comparison")


def _distinct_from(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this", "expression")
    column, right = _column(_bare(node.this), _bare(node.expression), node, scope), constant(_bare(node.expression))
    same = column.is_null() if right is None else column == right
    return same if isinstance(node, exp.NullSafeEQ) else otherwise(same, scope.domain)


def _like(node: exp.Expr, scope: Scope, escape: str = "") -> Predicate:
    only(node, "this", "expression", "negate")
    pattern = constant(node.expression) if is_constant(node.expression) else None
    if not isinstance(pattern, str):
        raise refused(f"{wording(node)} needs a pattern", "write a text such as 'A%'")
    column = _side(node, scope)
    attribute = scope.domain[column.name]
    if not isinstance(attribute, Categorical) or attribute.kind != "text":
        raise refused(f"LIKE needs a column of text, and {column.name} has none", "use =, IN or BETWEEN")
    matches = _matcher(pattern, escape, isinstance(node, exp.ILike))
    found = [value for value in attribute.values if matches(value)]
    if found:
        return column.isin(found)
    # False on every text, unknown on null: what a list of no values means.
    return (column == attribute.values[0]) & (column != attribute.values[0])


def _escaped(node: exp.Expr, scope: Scope) -> Predicate:
    only(node, "this", "expression")
    mark = constant(node.expression) if is_constant(node.expression) else None
    if not isinstance(mark, str) or len(mark) != 1 or not isinstance(node.this, (exp.Like, exp.ILike)):
        raise refused(f"{wording(node)} needs one character after ESCAPE", "write ESCAPE '!'")
    inner = _like(node.this, scope, mark)
    return ~inner if node.this.args.get("negate") else inner


def _matcher(pattern: str, escape: str, ignore_case: bool) -> Callable[[str], bool]:
    """SQL's % and _ as a regular expression, each run of % once so that no pattern backtracks for long."""
    pieces: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces.append(re.escape(next(characters, escape)))
        elif character == "%":
            if not pieces or pieces[-1] != ".*":
                pieces.append(".*")
        else:
            pieces.append("." if character == "_" else re.escape(character))
    if pieces.count(".*") > 8:
        raise refused("a pattern with more than eight % is not supported", "list the values: IN ('a', 'b')")
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    compiled = re.compile("".join(pieces), flags)
    return lambda value: compiled.fullmatch(value) is not None


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Predicate]] = {
    exp.And: _junction,
    exp.Or: _junction,
    exp.Not: _not,
    exp.Paren: _paren,
    exp.Boolean: _boolean,
    exp.Column: _truth_column,
    **dict.fromkeys(_COMPARE, _comparison),
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.NullSafeEQ: _distinct_from,
    exp.NullSafeNEQ: _distinct_from,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escaped,
}
