"""PIVOT: one column of the result for each value of a column, as aggregates with FILTER."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from reticent.domain.attribute import shown
from reticent.sql.refusals import only, refused, wording
from reticent.sql.scalars import text
from reticent.sql.scope import Scope
from reticent.sql.vectors import Labels, without_other

if TYPE_CHECKING:
    from reticent.sql.planner import Planner, Source

MAX_PIVOTED = 256
"""Columns that a PIVOT makes."""
_NAMELESS = {"count(*)": "count_star()"}


def pivoted(node: exp.Expr, planner: Planner) -> exp.Select:
    """The SELECT that a PIVOT means."""
    if isinstance(node, exp.Pivot):
        clause, source = node, node.this
    else:
        clauses = node.args["pivots"]
        if len(clauses) > 1:
            raise refused("several PIVOTs of one table", "use one")
        clause, source = clauses[0], node.copy()
        source.set("pivots", None)
    if clause.args.get("unpivot"):
        raise refused("UNPIVOT turns columns into rows", "use UNION ALL of one SELECT for each")
    standing = planner.source(source.copy())
    aggregates: Sequence[exp.Expr]
    if isinstance(node, exp.Pivot):
        only(clause, "this", "expressions", "using", "group", "alias", "with_")
        columns, aggregates = clause.expressions, list(clause.args.get("using") or (exp.Count(this=exp.Star()),))
    else:
        columns, aggregates = clause.args.get("fields") or [], clause.expressions
    if not columns:
        raise refused("PIVOT names no column", "write PIVOT t ON a column USING COUNT(*) GROUP BY another")
    group = clause.args.get("group")
    choices = [_choices(item, standing) for item in columns]
    keys = list(group.expressions) if group is not None else _others(standing, columns, aggregates)
    made = _columns(choices, aggregates)
    select = exp.Select(expressions=[*(key.copy() for key in keys), *made])
    select.set("from_", exp.From(this=source))
    if keys:
        select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return select


def _choices(item: exp.Expr, standing: Source) -> list[tuple[exp.Expr, str]]:
    """Conditions on one pivoted column, each with the name of its values."""
    if isinstance(item, exp.In):
        column, listed = item.this, item.expressions
        found = []
        for value in listed:
            name = None
            if isinstance(value, exp.PivotAlias):
                name, value = value.args["alias"].name, value.this
            found.append((_equals(column, value), name or _written(value)))
        return found
    if not isinstance(item, exp.Column):
        raise refused(f"PIVOT ON {wording(item)} is not a column", "pivot on a column")
    return [(_equals(item, _literal(value)), text(value)) for value in _values(item, standing)]


def _equals(column: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.EQ(this=column.copy(), expression=value.copy())


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, (int, float)):
        return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))
    return exp.Literal.string(text(value))


def _written(value: exp.Expr) -> str:
    if isinstance(value, exp.Boolean):
        return "true" if value.this else "false"
    return value.name if isinstance(value, exp.Literal) else value.sql(dialect="duckdb")


def _values(column: exp.Column, standing: Source) -> list[Any]:
    """The public values of a column, sorted."""
    if isinstance(standing, Scope):
        attribute = standing.domain[standing.attribute(column)]
        if attribute.representatives is not None and attribute.radii.any():
            raise refused(
                f"PIVOT ON {column.name}, whose bins hold many values", "list them: ON CASE ..., or GROUP BY it"
            )
        listed = without_other([attribute.value(code) for code in range(attribute.size)])
    else:
        vector = standing.column(column.name, None).expr.known
        if not isinstance(vector, Labels):
            raise refused(f"PIVOT ON {column.name}, which is not a public column of values", "list the values with IN")
        listed = without_other(list(dict.fromkeys(vector.listed())))
    return sorted(listed)


def _columns(choices: list[list[tuple[exp.Expr, str]]], aggregates: Sequence[exp.Expr]) -> list[exp.Expr]:
    found = []
    for combination in itertools.product(*choices):
        condition = combination[0][0].copy()
        for other, _ in combination[1:]:
            condition = exp.And(this=condition, expression=other.copy())
        name = "_".join(part for _, part in combination)
        for aggregate in aggregates:
            alias = aggregate.alias if isinstance(aggregate, exp.Alias) else None
            inner = aggregate.this if isinstance(aggregate, exp.Alias) else aggregate
            if isinstance(inner, exp.Filter):
                kept = exp.And(this=exp.Paren(this=inner.expression.this.copy()), expression=condition.copy())
                inner, where = inner.this, exp.Where(this=kept)
            else:
                where = exp.Where(this=condition.copy())
            plain = inner.sql(dialect="duckdb").lower()
            suffix = alias or (_NAMELESS.get(plain, plain) if len(aggregates) > 1 else "")
            title = f"{name}_{suffix}" if suffix else name
            found.append(exp.alias_(exp.Filter(this=inner.copy(), expression=where), title, quoted=True))
    if not found or len(found) > MAX_PIVOTED:
        raise refused(f"PIVOT makes {len(found)} columns; at least 1, at most {MAX_PIVOTED}", "list values with IN")
    return found


def _others(standing: Source, columns: list[exp.Expr], aggregates: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Without GROUP BY: every column that is neither pivoted nor aggregated."""
    used = {column.name.lower() for item in (*columns, *aggregates) for column in item.find_all(exp.Column)}
    names = list(standing.columns) if isinstance(standing, Scope) else [one.name for one in standing.fields]
    left = [name for name in names if name.lower() not in used]
    if len(left) > 8:
        raise refused(
            f"PIVOT without GROUP BY would group by {len(left)} columns, {shown(left[0])} and others", "add GROUP BY"
        )
    return [exp.column(name, quoted=True) for name in left]
