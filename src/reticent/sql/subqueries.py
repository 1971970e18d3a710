"""Correlated subqueries: EXISTS and values of single rows, as groups that are looked up.

`(SELECT MAX(n) FROM g b WHERE b.k = a.k)` has one value for each k: it is `SELECT k, MAX(n) FROM g GROUP BY k`, looked
up by a.k. Equalities with columns of the outer query become keys of the groups; other conditions stay.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from reticent.sql.aggregates import has_aggregate
from reticent.sql.builder import flat
from reticent.sql.refusals import Meter, refused, wording

_PLAIN = ("expressions", "from_", "joins", "where", "with_", "kind")
_VALUE = "value"
COPIED_STEPS = 30
"""Of one node of a subquery that is looked through and copied."""
_OF_ONE = (exp.Max, exp.Min, exp.Avg, exp.AnyValue)
"""Aggregates of a value that all records share: that value."""


@dataclass(frozen=True, eq=False)
class Lookup:
    """A subquery by the values of outer columns that it is compared with."""

    outer: tuple[exp.Expr, ...]
    """Expressions of the outer row."""
    inner: exp.Select
    """Groups with these columns first; where a value is wanted, it is the last column."""


def bare_query(tree: exp.Expr) -> exp.Expr:
    """A query without its parentheses."""
    while isinstance(tree, (exp.Subquery, exp.Paren)) and not any(
        value for name, value in tree.args.items() if name != "this"
    ):
        tree = tree.this
    return tree


def outer_columns(tree: exp.Expr) -> list[exp.Column]:
    """Columns that subqueries of an expression take from outside: those under a name that no table in them has."""
    found: list[exp.Column] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, exp.Query):
            waiting += list(node.iter_expressions())
            continue
        own = _own_names(node)
        found += [column for column in node.find_all(exp.Column) if _is_outer(column, own)]
    return found


def _own_names(tree: exp.Expr) -> set[str]:
    listed = tree.find_all(exp.Table, exp.Subquery, exp.CTE, exp.Values)
    return {node.alias_or_name.lower() for node in listed}


def _is_outer(column: exp.Column, own: Container[str]) -> bool:
    qualifier = column.text("table").lower()
    return bool(qualifier) and qualifier not in own


def _sides(test: exp.Expr, own: Container[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """The inner and the outer side of an equality that ties a subquery to the row it stands in."""
    while isinstance(test, exp.Paren):
        test = test.this
    if not isinstance(test, exp.EQ):
        return None
    sides = [[_is_outer(column, own) for column in side.find_all(exp.Column)] for side in (test.this, test.expression)]
    if not all(sides) or test.find(exp.Query) is not None:
        return None
    if all(sides[0]) and not any(sides[1]):
        return test.expression, test.this
    return (test.this, test.expression) if all(sides[1]) and not any(sides[0]) else None


def _split(tree: exp.Select) -> tuple[list[tuple[exp.Expr, exp.Expr]], exp.Select]:
    """Equalities with the outer row, and the query without them."""
    own, where = _own_names(tree), tree.args.get("where")
    tests = [] if where is None else flat(where.this, exp.And)
    tied = [(test, _sides(test, own)) for test in tests]
    rest = tree.copy()
    rest.set("where", None)
    for test, sides in tied:
        if sides is None:
            rest.where(test.copy(), copy=False)
    left = next((column for column in rest.find_all(exp.Column) if _is_outer(column, own)), None)
    if left is not None:
        raise refused(
            f"the subquery looks at {wording(left)} of the outer query", "compare it with = in the subquery's WHERE"
        )
    return [sides for _, sides in tied if sides is not None], rest


def _keyed(pairs: Sequence[tuple[exp.Expr, exp.Expr]], rest: exp.Select) -> exp.Select:
    """The same query for each value of its keys, which it selects."""
    keys = [inner for inner, _ in pairs]
    rest.set("expressions", [exp.alias_(key.copy(), f"key{place}", quoted=True) for place, key in enumerate(keys)])
    group = rest.args.get("group") or exp.Group(expressions=[])
    group.set("expressions", [*group.expressions, *(key.copy() for key in keys)])
    rest.set("group", group)
    return rest


def row_count_query(tree: exp.Expr) -> exp.Select:
    """How many rows a query has."""
    if isinstance(tree, exp.Select):
        tree = _unlimited(tree)
        plain = all(name in _PLAIN for name, value in tree.args.items() if value)
        if plain and not any(has_aggregate(item) for item in tree.expressions):
            tree.set("expressions", [exp.Count(this=exp.Star())])
            return tree
        if any(item.is_star for item in tree.expressions) and tree.args.get("group") is not None:
            tree.set("expressions", [exp.Literal.number(1)])
    rows = exp.Subquery(this=tree, alias=exp.TableAlias(this=exp.to_identifier("counted")))
    return exp.select(exp.Count(this=exp.Star())).from_(rows)


def _unlimited(tree: exp.Select) -> exp.Select:
    """Whether there is a row does not depend on the order, nor on a LIMIT above zero."""
    found = tree.copy()
    found.set("order", None)
    limit = found.args.get("limit")
    size = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(size, exp.Literal) and size.is_int and int(size.name) > 0 and not found.args.get("offset"):
        found.set("limit", None)
    return found


def existence(tree: exp.Exists) -> Lookup | exp.Select:
    """EXISTS: by what to look up whether there is a row, or how many rows there are for every outer row alike."""
    query = bare_query(tree.this)
    if not isinstance(query, exp.Select):
        return row_count_query(query)
    pairs, rest = _split(query)
    if not pairs:
        return row_count_query(rest)
    rest = _unlimited(rest)
    ungrouped = rest.args.get("group") is None and (
        rest.args.get("having") is not None or any(has_aggregate(item) for item in rest.expressions)
    )
    if ungrouped or any(rest.args.get(name) for name in ("limit", "offset", "qualify")):
        raise refused(f"{wording(tree)} has more than WHERE and GROUP BY", "use x IN (SELECT ... GROUP BY x)")
    return Lookup(tuple(outer for _, outer in pairs), _keyed(pairs, rest))


def value_lookup(tree: exp.Expr) -> Lookup | None:
    """A value that depends on the outer row, by what to look it up; None where it does not."""
    if not outer_columns(tree):
        return None
    query = bare_query(tree)
    if not isinstance(query, exp.Select):
        raise refused(f"{wording(tree)} depends on the outer row", "use one SELECT with one aggregate")
    pairs, rest = _split(query)
    if not pairs or len(rest.expressions) != 1 or not has_aggregate(rest.expressions[0]):
        raise refused(
            f"{wording(tree)} depends on the outer row", "select one aggregate, and compare with = in its WHERE"
        )
    if any(value and name not in _PLAIN for name, value in rest.args.items()):
        raise refused(f"{wording(tree)} has more than WHERE", "leave GROUP BY, ORDER BY and LIMIT out")
    item = rest.expressions[0]
    value = item.this if isinstance(item, exp.Alias) else item
    inner = _keyed(pairs, rest)
    inner.append("expressions", exp.alias_(value.copy(), _VALUE, quoted=True))
    return Lookup(tuple(outer for _, outer in pairs), inner)


def counts_rows(lookup: Lookup) -> bool:
    """Whether the value of a lookup is a plain count: zero where nothing is found."""
    return isinstance(lookup.inner.expressions[-1].this, (exp.Count, exp.CountIf))


def has_count(lookup: Lookup) -> bool:
    """Whether a count is part of the value."""
    return lookup.inner.expressions[-1].find(exp.Count, exp.CountIf) is not None


def constants_inlined(
    tree: exp.Select, views: Mapping[str, Sequence[str]], columns: Container[str], meter: Meter
) -> exp.Select:
    """FROM t, (SELECT AVG(x) AS a FROM t) m: m.a as the value of a subquery.

    `views` are named queries, with columns where they have one row; `columns` are those of the table.
    """
    clause, joins = tree.args.get("from_"), tree.args.get("joins") or ()
    table = None if clause is None else clause.this
    if not isinstance(table, exp.Table) or table.name.lower() in views or not joins:
        return tree
    sources = {join.this.alias_or_name.lower(): _outputs(join, views) for join in joins}
    if any(names is None for names in sources.values()) or len(sources) < len(joins):
        return tree
    found = tree.copy()
    queries = {join.this.alias_or_name.lower(): join.this for join in joins}
    steps = {name: COPIED_STEPS * (5 + sum(1 for _ in query.walk())) for name, query in queries.items()}
    found.set("joins", None)
    for column in list(found.find_all(exp.Column)):
        owner = _owner(column, sources, columns)
        if owner is None:
            continue
        meter.charge(steps[owner])
        chosen = exp.select(exp.column(column.name, quoted=True)).from_(queries[owner].copy())
        if isinstance(column.parent, exp.Group):
            column.pop()  # one value for all records divides nothing
        elif isinstance(column.parent, _OF_ONE):
            column.parent.replace(exp.Subquery(this=chosen))
        else:
            column.replace(exp.Subquery(this=chosen))
    return found


def _outputs(join: exp.Join, views: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The names of the columns of what is joined without a condition; None for other joins."""
    if any(join.args.get(name) for name in ("on", "using", "method", "side")):
        return None
    if isinstance(join.this, exp.Table):
        return [name.lower() for name in views.get(join.this.name.lower(), ())] or None
    inner = bare_query(join.this.this) if isinstance(join.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or any(item.is_star for item in inner.expressions):
        return None
    # Only a query of one row: aggregates without groups.
    if inner.args.get("group") is not None or not all(has_aggregate(item) for item in inner.expressions):
        return None
    return [item.alias_or_name.lower() for item in inner.expressions]


def _owner(column: exp.Column, sources: Mapping[str, Sequence[str] | None], columns: Container[str]) -> str | None:
    qualifier, name = column.text("table").lower(), column.name.lower()
    if qualifier:
        return qualifier if qualifier in sources else None
    owners = [owner for owner, names in sources.items() if name in (names or ())]
    return owners[0] if len(owners) == 1 and name not in columns else None


def compared_with_all(node: exp.Expr) -> exp.Expr | None:
    """x > ALL (SELECT ...) as x > the largest, x > ANY (SELECT ...) as x > the smallest; None for other comparisons."""
    right = node.expression
    taken = right.this if isinstance(right, (exp.All, exp.Any)) else None
    query = None if taken is None else bare_query(taken)
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return None
    if any(query.args.get(name) for name in ("having", "limit", "offset", "qualify")):
        raise refused(f"{wording(node)} uses a subquery that may have no rows", "leave HAVING and LIMIT out")
    upwards = isinstance(node, (exp.GT, exp.GTE))
    extreme = exp.Max if upwards is isinstance(right, exp.All) else exp.Min
    value = exp.column("value", quoted=True)
    columns = exp.TableAlias(this=exp.to_identifier("compared"), columns=[exp.to_identifier("value", quoted=True)])
    # NULL among the values leaves the comparison open.
    known = exp.EQ(this=exp.Count(this=exp.Star()), expression=exp.Count(this=value.copy()))
    chosen = exp.Case(ifs=[exp.If(this=known, true=extreme(this=value))])
    rows = exp.Subquery(this=query.copy(), alias=columns)
    return type(node)(this=node.this.copy(), expression=exp.Subquery(this=exp.select(chosen).from_(rows)))
