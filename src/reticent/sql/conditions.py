"""Conditions on one record: SQL's WHERE, FILTER and CASE as selections of records.

A comparison of a plain column with a constant is already a predicate; every other condition is evaluated on the cells
of its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import ceil, floor, inf, isfinite, nextafter
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import OTHER_LABEL, Attribute, Categorical, Numeric
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, any_of, col
from reticent.queries.predicate import MAX_SIZE, Column, Comparison
from reticent.sql.builder import flat
from reticent.sql.cells import OnCells, columns_of, on_cells
from reticent.sql.constants import constant, is_constant
from reticent.sql.refusals import CONDITIONS, only, refused, refused_node, wording
from reticent.sql.scalars import Matcher
from reticent.sql.scope import Scope, Selection, both, either, otherwise
from reticent.sql.vectors import (
    INTEGER,
    NULL,
    NUMBER,
    NUMERIC,
    TEXT,
    Labels,
    hides_null,
    kind_of,
    to_truth,
    without_other,
)

_COMPARE: dict[type[exp.Expr], Callable[[Column, object], Predicate]] = {
    exp.EQ: Column.__eq__,
    exp.NEQ: Column.__ne__,
    exp.LT: Column.__lt__,
    exp.LTE: Column.__le__,
    exp.GT: Column.__gt__,
    exp.GTE: Column.__ge__,
}
_MIRRORED = {exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_ENDS = ("<", "<=", ">", ">=", "==")
CONDITION_STEPS = 10
"""Of reading one comparison, junction or negation."""


def condition(node: exp.Expr, scope: Scope) -> Selection:
    """The records for which a condition is true."""
    handler = _HANDLERS.get(type(node), _general)
    scope.meter.charge(CONDITION_STEPS)
    found = handler(node, scope)
    return ~found if node.args.get("negate") and handler is not _general else found


def exactly(node: exp.Expr, scope: Scope) -> Predicate:
    """The same, where each record must be in or out."""
    return condition(node, scope).decided()


def _general(node: exp.Expr, scope: Scope) -> Selection:
    """Any condition, by its outcome in each cell of its columns."""
    refusal = _misplaced(node)
    if refusal is not None:
        raise refusal
    cells = on_cells(node, scope)
    known = cells.known
    if known is None:
        raise refused(f"{wording(node)} compares records with a noisy value", "ask for it first, and write the value")
    if known.kind not in (*NUMERIC, NULL) or isinstance(node, (exp.Literal, exp.Column)):
        raise refused(f"{wording(node)} is not a condition", "compare it with a value")
    truth = to_truth(known.vector)
    _refuse_empty(node, scope, truth.true)
    false = truth.false & ~truth.true & ~truth.null
    if not cells.names:
        return _constant_outcome(node, bool(truth.true.any()), bool(truth.null.any()))
    if truth.decided.all():
        if _complementary(cells, truth.true, false):
            return Selection(cells.predicate(truth.true))
        return Selection(cells.predicate(truth.true), cells.predicate(false))
    sure = truth.sure
    open_ = truth.true & ~sure
    estimates = truth.value[open_]
    share = float(np.nanmean(estimates)) if estimates.size and not np.isnan(estimates).all() else 0.5
    return Selection(
        cells.predicate(sure),
        cells.predicate(false),
        cells.predicate(truth.true),
        cells.predicate(truth.false),
        share,
        f"{wording(node)} cuts {cells.first_open()}",
    )


def _complementary(cells: OnCells, true: np.ndarray, false: np.ndarray) -> bool:
    """Whether a column has so many values that where it is false is written as the opposite of where it is true.

    Otherwise both are listed, as what was bought before is named.
    """
    if len(cells.names) != 1 or int(false.sum()) <= MAX_SIZE:
        return False
    known = cells.scope.domain[cells.names[0]].known
    return bool((true | false)[:known].all()) and not (true | false)[known:].any()


def _constant_outcome(node: exp.Expr, holds: bool, unknown: bool) -> Selection:
    if unknown:
        raise refused(f"{wording(node)} is never true", "use IS NULL with a column")
    return Selection(Everything() if holds else ~Everything())


def _refuse_empty(node: exp.Expr, scope: Scope, true: np.ndarray) -> None:
    """A computed text that no declared value has is a slip, as it is for a plain column."""
    if true.any() or not isinstance(node, exp.EQ):
        return
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        wanted = constant(other) if is_constant(other) else None
        if isinstance(wanted, str) and not is_constant(side) and columns_of(side):
            known = on_cells(side, scope).known
            if known is not None and known.kind == TEXT and isinstance(known.vector, Labels):
                hint = closest(wanted, map(str, without_other(known.vector.values)))
                raise QueryError(f"{wording(side)} = {shown(wanted)}: no declared value gives it{hint}")


def _misplaced(node: exp.Expr) -> QueryError | None:
    """Pieces that have no meaning for one record, told before their columns are looked up."""
    if type(node).__name__ in CONDITIONS:
        return refused_node(node, "compare columns with constants")
    inner = node.this if isinstance(node, exp.Filter) else node
    if isinstance(inner, exp.AggFunc):
        return refused(f"{wording(inner)} is an aggregate, and WHERE is evaluated for each record", "use HAVING")
    for part in node.walk():
        if isinstance(part, exp.Query):
            break
        if isinstance(part, exp.AggFunc):
            return refused(f"{wording(part)} is an aggregate, and WHERE is evaluated for each record", "use HAVING")
        if type(part).__name__ in CONDITIONS and part is not node:
            return refused_node(part, "compare columns with constants")
    return None


def _junction(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this", "expression")
    parts = [condition(part, scope) for part in flat(node, type(node))]
    scope.meter.charge(sum(part.true.size for part in parts))
    return both(parts) if isinstance(node, exp.And) else either(parts)


def _not(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this")
    return ~condition(node.this, scope)


def _paren(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this")
    return condition(node.this, scope)


def _boolean(node: exp.Expr, scope: Scope) -> Selection:
    return Selection(Everything() if node.this else ~Everything())


def _truth_column(node: exp.Expr, scope: Scope) -> Selection:
    assert isinstance(node, exp.Column)
    name = scope.attribute(node)
    attribute = scope.domain[name]
    if not isinstance(attribute, Categorical) or attribute.kind != "truth values":
        raise refused(f"{wording(node)} is a column, not a condition", "compare it with a value")
    return _unless_null(col(name) == True, scope)  # noqa: E712


def _unless_null(predicate: Predicate, scope: Scope) -> Selection:
    """A plain comparison. In a column of truth values `(other)` is NULL, and no comparison is true or false there."""
    assert isinstance(predicate, Comparison), "one column is compared"
    attribute = scope.domain[predicate.name]
    if scope.literal or not hides_null(attribute) or predicate.value == OTHER_LABEL:
        return Selection(predicate)
    assert isinstance(attribute, Categorical), "truth values are categories"
    holds = attribute.where(predicate.op, predicate.value, name=predicate.name).tolist()
    true, false = (
        [value for value, held in zip(attribute.values, holds, strict=False) if held is wanted]
        for wanted in (True, False)
    )
    column = col(predicate.name)
    found = predicate if predicate.op != "!=" else column.isin(true) if true else ~Everything()
    return Selection(found, column.isin(false) if false else ~Everything())


def _missing(name: str, scope: Scope) -> Selection:
    """IS NULL."""
    attribute, missing = scope.domain[name], col(name).is_null()
    if scope.literal or not hides_null(attribute):
        return Selection(missing)
    other = col(name) == OTHER_LABEL
    return Selection(any_of((missing, other)) if attribute.nullable else other)


def _comparison(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this", "expression")
    left, right, kind = _bare(node.this), _bare(node.expression), type(node)
    if is_constant(left) and not is_constant(right):
        left, right, kind = right, left, _MIRRORED[type(node)]
    if not isinstance(left, exp.Column) or not is_constant(right):
        return _general(node, scope)
    name = scope.attribute(left)
    value = _read(constant(right), scope.domain[name])
    if value is None:
        test = "IS NOT NULL" if kind is exp.NEQ else "IS NULL"
        raise refused(f"{wording(node)} is never true", f"use {wording(left)} {test}")
    return _plain(_COMPARE[kind](col(name), value), node, scope)


def _plain(predicate: Predicate, node: exp.Expr, scope: Scope) -> Selection:
    """A plain comparison as a predicate, unless it cuts a bin or orders text."""
    assert isinstance(predicate, Comparison), "one column is compared"
    attribute = scope.domain[predicate.name]
    try:
        attribute.truth(predicate.op, predicate.value, predicate.name)
    except QueryError as refusal:
        ordered = predicate.op in ("<", "<=", ">", ">=")
        text = isinstance(attribute, Categorical) and attribute.kind == "text" and isinstance(predicate.value, str)
        if text and not attribute.other and predicate.value == "" and not ordered:
            # Tools ask for texts that are not empty; that none of the declared ones is empty is public, and no slip.
            nowhere, known = ~Everything(), col(predicate.name).is_known()
            return Selection(known, nowhere) if predicate.op == "!=" else Selection(nowhere, known)
        if not (isinstance(attribute, Numeric) or (ordered and text)):
            raise
        return replace(_cut(node, scope, refusal), limits=_limits(predicate, attribute))
    return _unless_null(predicate, scope)


def cut_by_comparison(tree: exp.Expr, scope: Scope) -> str:
    """Where a comparison of a column with constants in an expression cuts a bin; empty if none does."""
    for node in tree.find_all(*_MIRRORED, exp.In, exp.Between, exp.Case):
        tests: list[exp.Expr] = [node]
        if isinstance(node, exp.Case):
            # CASE x WHEN 30: a comparison for each branch.
            compared = node.args.get("this")
            tests = []
            if isinstance(compared, exp.Expr):
                tests = [exp.EQ(this=compared.copy(), expression=branch.this.copy()) for branch in node.args["ifs"]]
        for test in tests:
            sides = [_bare(side) for side in (test.this, test.args.get("expression")) if side is not None]
            if any(isinstance(side, exp.Column) for side in sides) and len(set(test.find_all(exp.Column))) == 1:
                with suppress(QueryError):
                    found = condition(test, scope)
                    if not found.exact:
                        return found.cut
    return ""


def _limits(predicate: Comparison, attribute: Attribute) -> tuple[tuple[str, float, float], ...]:
    """The smallest and largest number of a column for which a comparison may be true."""
    value = attribute.read(predicate.value) if isinstance(attribute, Numeric) and predicate.op in _ENDS else None
    if not isinstance(attribute, Numeric) or not isinstance(value, float):
        return ()
    if predicate.op == ">":
        low = floor(value) + 1.0 if attribute.whole else nextafter(value, inf)
    else:
        low = -inf if predicate.op[0] == "<" else value
    if predicate.op == "<":
        high = ceil(value) - 1.0 if attribute.whole else nextafter(value, -inf)
    else:
        high = inf if predicate.op[0] == ">" else value
    return ((predicate.name, low, high),)


def _cut(node: exp.Expr, scope: Scope, refusal: QueryError) -> Selection:
    """The records of a bin that is cut are open; what cannot be compared at all is refused as it was."""
    try:
        found = _general(node, scope)
    except QueryError:
        raise refusal from None
    if found.exact:
        return found
    return Selection(found.true, found.false, found.possible, found.refutable, found.share, str(refusal))


def _in(node: exp.Expr, scope: Scope) -> Selection:
    if node.args.get("unnest") or node.args.get("field"):
        raise refused(f"{wording(node)} holds a list", "list the values: IN ('a', 'b')")
    if node.args.get("query"):
        raise refused(f"{wording(node)} holds a subquery", "list the values: IN ('a', 'b')")
    only(node, "this", "expressions")
    scope.meter.charge(CONDITION_STEPS * len(node.expressions))
    left = _bare(node.this)
    if not isinstance(left, exp.Column) or not all(is_constant(item) for item in node.expressions):
        return _general(node, scope)
    name = scope.attribute(left)
    values = [_read(constant(item), scope.domain[name]) for item in node.expressions]
    if any(value is None for value in values):
        if _negated(node):
            raise refused(
                f"NOT {wording(node)} lists NULL, so it is never true",
                "leave NULL out of the list; records without a value are left out anyway",
            )
        raise refused(f"{wording(node)} lists NULL, which never matches", "add OR ... IS NULL")
    return _plain(col(name).isin(values), node, scope)


def _negated(node: exp.Expr) -> bool:
    """Whether NOT stands directly before a condition."""
    outer = node.parent
    while isinstance(outer, exp.Paren):
        outer = outer.parent
    return isinstance(outer, exp.Not) or bool(node.args.get("negate"))


def _between(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this", "low", "high")
    low, high = node.args["low"], node.args["high"]
    for end in (low, high):
        if is_constant(end) and constant(end) is None:
            raise refused(f"{wording(node)} is never true", "write both ends")
    left = _bare(node.this)
    if not isinstance(left, exp.Column) or not (is_constant(low) and is_constant(high)):
        return _general(node, scope)
    name = scope.attribute(left)
    column, attribute = col(name), scope.domain[name]
    above = exp.GTE(this=left.copy(), expression=low.copy())
    below = exp.LTE(this=left.copy(), expression=high.copy())
    least, most = _read(constant(low), attribute), _read(constant(high), attribute)
    return both([_plain(column >= least, above, scope), _plain(column <= most, below, scope)])


def _is(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this", "expression")
    left, right = _bare(node.this), node.expression
    if isinstance(right, exp.Null):
        if isinstance(left, exp.Column):
            return _missing(scope.attribute(left), scope)
        return _general(node, scope)
    if isinstance(right, exp.Boolean):
        inner = condition(left, scope)
        inner = inner if right.this else ~inner
        scope.meter.charge(CONDITION_STEPS * inner.true.size)
        return inner.two_valued(scope.domain)
    raise refused_node(node, "use IS NULL, IS TRUE or a comparison")


def _distinct_from(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this", "expression")
    left, right = _bare(node.this), _bare(node.expression)
    if not isinstance(left, exp.Column) or not is_constant(right):
        return _general(node, scope)
    column, value = col(scope.attribute(left)), constant(right)
    same = _missing(column.name, scope) if value is None else _plain(column == value, node, scope)
    if not same.exact or same.stated_false is not None:
        return _general(node, scope)
    # Never unknown: where it is not true it is false.
    found = Selection(same.true, otherwise(same.true, scope.domain))
    return found if isinstance(node, exp.NullSafeEQ) else ~found


def _like(node: exp.Expr, scope: Scope, escape: str = "") -> Selection:
    only(node, "this", "expression", "negate")
    pattern = constant(node.expression) if is_constant(node.expression) else None
    if isinstance(node.expression, (exp.Any, exp.All)):
        raise refused("LIKE ANY and LIKE ALL list patterns", "join several LIKE with OR or AND")
    if not isinstance(pattern, str):
        raise refused(f"{wording(node)} needs a pattern", "write a text such as 'A%'")
    left = _bare(node.this)
    if not isinstance(left, exp.Column):
        plain = node.copy()
        plain.set("negate", None)
        if escape:
            plain = exp.Escape(this=plain, expression=exp.Literal.string(escape))
        return _general(plain, scope)
    column = col(scope.attribute(left))
    attribute = scope.domain[column.name]
    if not isinstance(attribute, Categorical) or attribute.kind != "text":
        raise refused(f"LIKE needs a column of text, and {column.name} has none", "use =, IN or BETWEEN")
    matcher = Matcher.of(pattern, escape, ignore_case=isinstance(node, exp.ILike))
    scope.meter.charge(sum(matcher.steps(str(value)) for value in attribute.values))
    found = [value for value in attribute.values if matcher.matches(str(value))]
    if found:
        return Selection(column.isin(found))
    # False on every text, unknown on null: what a list of no values means.
    return Selection((column == attribute.values[0]) & (column != attribute.values[0]))


def _escaped(node: exp.Expr, scope: Scope) -> Selection:
    only(node, "this", "expression")
    mark = constant(node.expression) if is_constant(node.expression) else None
    if not isinstance(mark, str) or len(mark) != 1 or not isinstance(node.this, (exp.Like, exp.ILike)):
        raise refused(f"{wording(node)} needs one character after ESCAPE", "write ESCAPE '!'")
    inner = _like(node.this, scope, mark)
    return ~inner if node.this.args.get("negate") else inner


def _read(value: Any, attribute: Attribute) -> Any:
    """A number written as text is one beside a column of numbers, as databases read it: age = '30'."""
    if not isinstance(value, str) or kind_of(attribute) not in (INTEGER, NUMBER):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return number if isfinite(number) else value


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Selection]] = {
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
