"""Clauses that say the same as others, rewritten into them: DISTINCT ON, and joins that only choose groups."""

from __future__ import annotations

from collections.abc import Container

from sqlglot import exp

from reticent.sql.refusals import refused


def first_of_each(tree: exp.Select) -> exp.Select:
    """DISTINCT ON (a) ... ORDER BY a, b as QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, b) = 1."""
    if tree.args.get("qualify") is not None:
        raise refused("DISTINCT ON beside QUALIFY is not supported", "choose the rows with QUALIFY alone")
    found = tree.copy()
    items = [item.this if isinstance(item, exp.Alias) else item for item in found.expressions]
    keys = found.args["distinct"].args["on"].expressions
    order = found.args.get("order")
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_meant(key, items).copy() for key in keys],
        order=None if order is None else order.copy(),
    )
    if order is not None:
        for ordered in window.args["order"].expressions:
            ordered.set("this", _meant(ordered.this, items).copy())
    found.set("distinct", None)
    found.set("qualify", exp.Qualify(this=exp.EQ(this=window, expression=exp.Literal.number(1))))
    return found


def _meant(tree: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """What a position of the select list stands for."""
    position = int(tree.name) if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit() else 0
    if 1 <= position <= len(items):
        return items[position - 1]
    return tree


def semijoined(tree: exp.Select, views: Container[str]) -> exp.Select:
    """FROM t JOIN (SELECT a AS k ... GROUP BY a) s ON a = k, as WHERE a IN (SELECT k FROM ...): tools limit series so.

    Each k comes once, so the join neither repeats nor adds a record. Other joins stay as they are.
    """
    clause, joins = tree.args.get("from_"), tree.args.get("joins") or ()
    table = None if clause is None else clause.this
    if not isinstance(table, exp.Table) or table.name.lower() in views or len(joins) != 1:
        return tree
    join = joins[0]
    inner = join.this.this if isinstance(join.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select):
        return tree
    key = _only_key(inner)
    on, side = join.args.get("on"), str(join.args.get("side") or join.args.get("kind") or "INNER").upper()
    if key is None or side != "INNER" or join.args.get("using") or join.args.get("method"):
        return tree
    while isinstance(on, exp.Paren):
        on = on.this
    if not isinstance(on, exp.EQ) or not isinstance(on.this, exp.Column) or not isinstance(on.expression, exp.Column):
        return tree
    outputs = {item.alias_or_name.lower() for item in inner.expressions}
    alias = join.this.alias.lower()
    theirs = [one for one in (on.this, on.expression) if _is_of(one, alias, outputs)]
    if len(theirs) != 1 or theirs[0].name.lower() != key:
        return tree
    own = on.expression if theirs[0] is on.this else on.this
    found = tree.copy()
    found.set("joins", None)
    if any(_is_of(column, alias, outputs) for column in found.find_all(exp.Column)):
        return tree
    chosen = exp.select(exp.column(theirs[0].name, quoted=True)).from_(join.this.copy())
    found.where(exp.In(this=own.copy(), query=exp.Subquery(this=chosen)), copy=False)
    return found


def _is_of(column: exp.Column, alias: str, outputs: Container[str]) -> bool:
    """Whether a column is one of the joined query's, as far as names tell."""
    qualifier = column.text("table").lower()
    return qualifier == alias if qualifier else column.name.lower() in outputs


def _only_key(tree: exp.Select) -> str | None:
    """The name under which a query shows the one column that it groups by."""
    group = tree.args.get("group")
    if group is None or len(group.expressions) != 1 or any(v for k, v in group.args.items() if k != "expressions"):
        return None
    items = tree.expressions
    key = _meant(group.expressions[0], [item.this if isinstance(item, exp.Alias) else item for item in items])
    for item in items:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Column) and (inner == key or item.alias_or_name.lower() == key.name.lower()):
            return item.alias_or_name.lower()
    return None
