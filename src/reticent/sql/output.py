"""The rows that a SELECT returns: HAVING, the select list, QUALIFY, DISTINCT, ORDER BY and LIMIT.

They follow FROM, WHERE and GROUP BY, whose rows a compiler holds, and cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import ErrorLevel, exp

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql.compilers import GroupedRowCompiler, RowCompiler, SelectCompiler
from reticent.sql.constants import constant, whole_constant
from reticent.sql.expressions import Expr, Known, walk
from reticent.sql.ordering import Ranking
from reticent.sql.refusals import only, refused, refused_node, wording
from reticent.sql.relations import Field, Relation, key_codes, row_groups, take
from reticent.sql.scan_compilers import ScanCompiler
from reticent.sql.vectors import TRUTH, Labels

if TYPE_CHECKING:
    from reticent.sql.planner import Planner

MAX_ROWS = 2**31
_QUOTED = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')""")


def row_condition(compiler: SelectCompiler, tree: exp.Expr, clause: str) -> Expr:
    """A condition on rows; where public values leave it open, it is refused."""
    found = compiler.condition(tree)
    for expr in _public_parts(found):
        if expr.kind == TRUTH and expr.cut and not isinstance(expr.vector, Labels):
            raise QueryError(f"{clause}: {expr.cut}")
    return found


def selected_rows(compiler: SelectCompiler, tree: exp.Select, *, grouped: bool) -> Relation:
    """Select list, HAVING, QUALIFY, DISTINCT, ORDER BY and LIMIT over rows."""
    compiler.windows = {window.name.lower(): window for window in tree.args.get("windows") or ()}
    having = tree.args.get("having")
    if having is not None:
        if not grouped:
            raise refused("HAVING needs groups", "use WHERE")
        if having.this.find(exp.Window) is not None:
            raise refused("HAVING comes before window functions", "use QUALIFY")
        compiler.filters.append(row_condition(compiler, having.this, "HAVING"))
    fields = _outputs(compiler, tree)
    filters = list(compiler.filters)
    qualify = tree.args.get("qualify")
    if qualify is not None:
        filters.append(row_condition(compiler, qualify.this, "QUALIFY"))
    keys = compiler.groups
    found = Relation(compiler.rows, fields, tuple(filters), compiler.exists, keys)
    if tree.args.get("distinct") is not None:
        if isinstance(compiler, ScanCompiler) and not filters and _covers(fields, compiler):
            return ordered_and_limited(found, tree, compiler.planner, compiler)
        return ordered_and_limited(distinct_rows(found, compiler.planner), tree, compiler.planner)
    return ordered_and_limited(found, tree, compiler.planner, compiler)


def distinct_rows(found: Relation, planner: Planner) -> Relation:
    """Each combination of public values once."""
    codes = [key_codes(one.expr, f"DISTINCT {one.name}") for one in found.fields]
    index, first = row_groups(codes, found.rows)
    inner = RowCompiler(planner, found, {})
    grouped = GroupedRowCompiler(inner, [exp.column(one.name, quoted=True) for one in found.fields], {})
    fields = tuple(replace(one, expr=take(one.expr, first)) for one in found.fields)
    exists = grouped.exists
    filters: tuple[Expr, ...] = ()
    if found.filters and (there := exists()) is not None:
        filters = (there,)
    assert len(index) == found.rows, "every row has a group"
    return Relation(len(first), fields, filters, exists)


def _outputs(compiler: SelectCompiler, tree: exp.Select) -> tuple[Field, ...]:
    """The select list; repeated names get a number."""
    found: list[Field] = []
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for item in tree.expressions:
        for base, expr in _select_item(compiler, item):
            name, place = base, numbers.get(base, 2)
            while name.lower() in taken:
                name, place = f"{base}_{place}", place + 1
            numbers[base] = place
            taken.add(name.lower())
            found.append(Field(name, expr))
    if not found:
        raise refused("the statement selects nothing", "list what to count")
    return tuple(found)


def _select_item(compiler: SelectCompiler, item: exp.Expr) -> list[tuple[str, Expr]]:
    if item.is_star and isinstance(compiler, RowCompiler):
        return _star(compiler, item)
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, exp.Aliases):
        raise refused(f"unknown function {shown(inner.this.name)}", "use COUNT, SUM, AVG or a function of these")
    if isinstance(item, exp.Alias):
        named = compiler.alias(exp.column(item.alias)) if item.alias.lower() in compiler.aliases else None
        same = compiler.aliases.get(item.alias.lower()) is inner
        return [(item.alias, named if named is not None and same else compiler.expr(inner))]
    return [(title(inner), compiler.expr(inner))]


def _star(compiler: RowCompiler, item: exp.Expr) -> list[tuple[str, Expr]]:
    star = item if isinstance(item, exp.Star) else item.this
    only(star, "except_", "replace")
    owner = None if isinstance(item, exp.Star) else item.args.get("table")
    left_out = {column.name.lower() for column in star.args.get("except_") or ()}
    put = {one.alias.lower(): one.this for one in star.args.get("replace") or ()}
    found = []
    for field in compiler.relation.fields:
        if owner is not None and owner.name.lower() not in field.owners:
            continue
        if field.name.lower() in left_out:
            continue
        replaced = put.get(field.name.lower())
        found.append((field.name, field.expr if replaced is None else compiler.expr(replaced)))
    if not found:
        raise refused(f"{wording(item)} matches no column", "name the columns")
    return found


def ordered_and_limited(
    found: Relation, tree: exp.Expr, planner: Planner, compiler: SelectCompiler | None = None
) -> Relation:
    """A relation in the order of ORDER BY, cut by LIMIT and OFFSET; `compiler` reads expressions of its rows."""
    order = _order(tree.args.get("order"), found, RowCompiler(planner, found, {}) if compiler is None else compiler)
    limit, offset = limits_of(tree)
    return replace(found, order=order, limit=limit, offset=offset)


def _order(order: exp.Order | None, found: Relation, compiler: SelectCompiler) -> tuple[Ranking, ...]:
    """ORDER BY positions, names of the result, or any expression of its rows."""
    if order is None:
        return ()
    only(order, "expressions")
    listed: list[Ranking] = []
    for item in order.expressions:
        if not isinstance(item, exp.Ordered):
            raise refused_node(item, "order by result columns")
        only(item, "this", "desc", "nulls_first")
        descending, nulls_first = bool(item.args.get("desc")), bool(item.args.get("nulls_first"))
        for expr in _ranked(item.this, found, compiler):
            listed.append(Ranking(expr, descending, nulls_first))
    return tuple(listed)


def _ranked(tree: exp.Expr, found: Relation, compiler: SelectCompiler) -> list[Expr]:
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return [positioned(tree, found.fields, "ORDER BY").expr]
    if isinstance(tree, (exp.Var, exp.Column)) and tree.name.lower() == "all" and found.find("all") is None:
        return [one.expr for one in found.fields]
    if isinstance(tree, exp.Column) and tree.args.get("table") is None:
        named = [one for one in found.fields if one.name.lower() == tree.name.lower()]
        if named:
            return [named[0].expr]
    return [compiler.expr(tree)]


def _public_parts(expr: Expr) -> list[Known]:
    return [one for one in walk((expr,)) if isinstance(one, Known)]


def _covers(fields: Sequence[Field], compiler: ScanCompiler) -> bool:
    """Whether each combination of shown values is one group."""
    shown_keys = {id(one.expr) for one in fields}
    return all(id(column) in shown_keys for _, column in compiler.keyed)


def limits_of(tree: exp.Expr) -> tuple[int | None, int]:
    """LIMIT, or FETCH FIRST, and OFFSET."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    found = None
    if isinstance(limit, exp.Limit):
        only(limit, "expression")
        found = whole_constant(limit.expression, "LIMIT", MAX_ROWS)
    elif isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise refused("FETCH with PERCENT or TIES is not supported", "use LIMIT and a number")
        found = 1 if limit.args.get("count") is None else whole_constant(limit.args["count"], "FETCH", MAX_ROWS)
    elif limit is not None:
        raise refused_node(limit, "use LIMIT and a number")
    start = 0
    if offset is not None:
        only(offset, "expression")
        start = whole_constant(offset.expression, "OFFSET", MAX_ROWS)
    return found, start


def positioned(tree: exp.Expr, items: Sequence, clause: str) -> Any:
    """The select item at a position counted from one."""
    place = constant(tree)
    if not isinstance(place, int) or not 1 <= place <= len(items):
        raise refused(f"{clause} {wording(tree)} is not a position from 1 to {len(items)}", "use a column's name")
    return items[place - 1]


def title(tree: exp.Expr) -> str:
    """The name of an unnamed column."""
    if isinstance(tree, exp.Column):
        return tree.name
    text = " ".join(tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE).split())
    # Every second piece stands between quotes.
    pieces = enumerate(_QUOTED.split(text))
    return "".join(piece if place % 2 else piece.lower().replace("listagg(", "string_agg(") for place, piece in pieces)
