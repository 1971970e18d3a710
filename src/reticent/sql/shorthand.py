"""Short forms of conditions, written out: (a, b) = (1, 2), (a, b) IN ((1, 2), (3, 4)), = ANY (SELECT ...)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from reticent.sql.refusals import refused, wording


def spelled_out(tree: exp.Expr) -> exp.Expr:
    """The same statement with comparisons of single values only; forms that are not short stay as they are."""
    for node in list(tree.find_all(exp.EQ, exp.NEQ, exp.In)):
        longer = _in_rows(node) if isinstance(node, exp.In) else _compared(node)
        if longer is not None:
            node.replace(longer)
    return tree


def _compared(node: exp.Expr) -> exp.Expr | None:
    left, right = _bare(node.this), _bare(node.expression)
    if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        equal = _all_equal(left, right, node)
        return exp.Not(this=equal) if isinstance(node, exp.NEQ) else equal
    listed = exp.Any if isinstance(node, exp.EQ) else exp.All
    if isinstance(right, listed) and isinstance(right.this, (exp.Subquery, exp.Select)):
        inner = right.this if isinstance(right.this, exp.Subquery) else exp.Subquery(this=right.this)
        found = exp.In(this=node.this, query=inner)
        return exp.Not(this=found) if listed is exp.All else found
    return None


def _in_rows(node: exp.In) -> exp.Expr | None:
    left = _bare(node.this)
    rows = [_bare(item) for item in node.expressions]
    if not isinstance(left, exp.Tuple) or not rows or not all(isinstance(row, exp.Tuple) for row in rows):
        return None
    return exp.Paren(this=_joined(exp.Or, [_all_equal(left, row, node) for row in rows]))


def _all_equal(left: exp.Expr, right: exp.Expr, whole: exp.Expr) -> exp.Expr:
    if len(left.expressions) != len(right.expressions):
        raise refused(f"{wording(whole)} compares lists of different lengths", "list as many values in each")
    pairs = zip(left.expressions, right.expressions, strict=True)
    # In a list of columns NULL is a value like others, as DuckDB compares them: the whole is true or false.
    equal = [exp.NullSafeEQ(this=one.copy(), expression=other.copy()) for one, other in pairs]
    return exp.Paren(this=_joined(exp.And, equal))


def _joined(kind: type[exp.And | exp.Or], parts: Sequence[exp.Expr]) -> exp.Expr:
    found = parts[0]
    for part in parts[1:]:
        found = kind(this=found, expression=part)
    return found


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
