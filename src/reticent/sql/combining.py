"""Two relations become one: JOIN, UNION, EXCEPT and INTERSECT, on public columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from reticent.errors import QueryError
from reticent.sql.builder import flat
from reticent.sql.compilers import RowCompiler
from reticent.sql.expressions import Expr
from reticent.sql.output import distinct_rows, ordered_and_limited, row_condition
from reticent.sql.refusals import CLAUSES, Meter, only, refused, wording
from reticent.sql.relations import Relation, chosen_rows, key_codes, row_groups, union
from reticent.sql.relations import join as joined
from reticent.sql.scope import Scope
from reticent.sql.vectors import Bins, Labels

if TYPE_CHECKING:
    from reticent.sql.planner import Planner, Source


def join_sources(left: Source, join: exp.Join, planner: Planner) -> Relation:
    """One JOIN of FROM; its sides must be rows of results."""
    only(join, "this", "side", "kind", "on", "using", "method")
    node = join.this
    if isinstance(node, exp.Table) and not planner.is_named(node.name):
        raise QueryError(CLAUSES["joins"])
    if not isinstance(node, (exp.Table, exp.Subquery, exp.Values)):
        raise QueryError(CLAUSES["joins"])
    right = planner.source(node)
    if isinstance(left, Scope) and isinstance(right, Scope):
        raise QueryError(CLAUSES["joins"])
    if isinstance(left, Scope) or isinstance(right, Scope):
        raise refused(
            f"{wording(join)} joins records with rows of a result",
            "group first, and join the groups: FROM (SELECT ... GROUP BY ...) a JOIN ...",
        )
    kind = str(join.args.get("side") or "INNER").upper()
    if str(join.args.get("kind") or "").upper() not in ("", "INNER", "OUTER", "CROSS"):
        raise refused(f"{wording(join)} is not supported", "use JOIN, LEFT JOIN or CROSS JOIN")
    keys, merged, others = _join_keys(left, right, join, planner)
    if others and kind != "INNER":
        raise refused(f"ON {wording(others[0])} is not an equality of columns", "join on a = b, and use WHERE")
    found = joined(left.closed(), right.closed(), keys, kind, merged, planner.meter)
    tests = [row_condition(RowCompiler(planner, found, {}), test, "ON") for test in others]
    return replace(found, filters=(*found.filters, *tests)) if tests else found


def _join_keys(
    left: Relation, right: Relation, join: exp.Join, planner: Planner
) -> tuple[list[tuple[Expr, Expr]], list[str], list[exp.Expr]]:
    """Pairs of equal columns, those of USING, and the other conditions."""
    merged = [identifier.name for identifier in join.args.get("using") or ()]
    if str(join.args.get("method") or "").upper() == "NATURAL":
        merged = [one.name for one in left.fields if right.find(one.name) is not None]
        if not merged:
            raise refused("the tables of a NATURAL JOIN share no column", "write JOIN ... ON")
    elif join.args.get("method"):
        raise refused(f"{wording(join)} is not supported", "use JOIN ... ON")
    keys = [(left.column(name, None).expr, right.column(name, None).expr) for name in merged]
    on = join.args.get("on")
    sides = RowCompiler(planner, left, {}), RowCompiler(planner, right, {})
    others: list[exp.Expr] = []
    for test in [] if on is None else flat(on, exp.And):
        while isinstance(test, exp.Paren):
            test = test.this
        pair = _paired(test, sides) if isinstance(test, exp.EQ) else None
        if pair is None or any(side.known is None for side in pair):
            others.append(test)
        else:
            keys.append(pair)
    return keys, merged, others


def _paired(test: exp.EQ, sides: tuple[RowCompiler, RowCompiler]) -> tuple[Expr, Expr] | None:
    """The sides of an equality, each of its own table; None where they are not."""
    one, other = test.this, test.expression
    for first, second in ((one, other), (other, one)):
        try:
            return sides[0].expr(first), sides[1].expr(second)
        except QueryError:
            continue
    return None


def set_operation(tree: exp.SetOperation, planner: Planner) -> Relation:
    """UNION, EXCEPT and INTERSECT."""
    only(tree, "this", "expression", "distinct", "with_", "order", "limit", "offset", "by_name")
    kind = type(tree).__name__.upper()
    if tree.args.get("by_name"):
        raise QueryError(CLAUSES["by_name"])
    if not isinstance(tree, exp.Union):
        return ordered_and_limited(_chosen(tree, kind, planner), tree, planner)
    parts = [planner.relation(part).closed() for part in _united(tree)]
    found = union(parts, planner.meter)
    if tree.args.get("distinct") and not _all_differ(found, planner.meter):
        if any(one.expr.known is None for one in found.fields):
            raise refused("UNION leaves out equal rows, and noisy numbers are never equal", "use UNION ALL")
        found = distinct_rows(found, planner)
    return ordered_and_limited(found, tree, planner)


def _chosen(tree: exp.SetOperation, kind: str, planner: Planner) -> Relation:
    """EXCEPT and INTERSECT of public columns."""
    if not tree.args.get("distinct"):
        raise refused(f"{kind} ALL counts equal rows", f"use {kind}")
    left, right = (planner.relation(side).closed() for side in (tree.this, tree.expression))
    if any(one.expr.known is None for side in (left, right) for one in side.fields):
        raise refused(
            f"{kind} compares rows, and noisy numbers are never equal",
            "select public columns, such as GROUP BY keys",
        )
    return distinct_rows(chosen_rows(left, right, planner.meter, common=isinstance(tree, exp.Intersect)), planner)


def _united(tree: exp.Expr) -> list[exp.Expr]:
    """The SELECTs of a chain of UNIONs of one kind; no recursion, for chains are long."""
    parts: list[exp.Expr] = []
    waiting = [tree]
    once = bool(tree.args.get("distinct"))
    while waiting:
        node = waiting.pop()
        plain = not any(node.args.get(name) for name in ("order", "limit", "offset", "with_"))
        if node is tree or (isinstance(node, exp.Union) and bool(node.args.get("distinct")) is once and plain):
            waiting += [node.expression, node.this]
        else:
            parts.append(node)
    return parts


def _all_differ(found: Relation, meter: Meter) -> bool:
    """Whether no two rows have the same public values: then no two are equal."""
    public = [one.expr for one in found.fields if one.expr.known is not None]
    labelled = [expr for expr in public if isinstance(expr.known, (Labels, Bins))]
    if not labelled or found.rows < 2:
        return found.rows < 2
    meter.charge(found.rows * len(labelled))
    codes = [key_codes(expr, "a column of UNION") for expr in labelled]
    return len(row_groups(codes, found.rows)[1]) == found.rows
