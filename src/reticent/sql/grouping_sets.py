"""ROLLUP, CUBE and GROUPING SETS as a list of plain GROUP BY clauses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from reticent.errors import QueryError
from reticent.sql.aggregates import AGGREGATES, has_aggregate, is_aggregate
from reticent.sql.refusals import STANDS_FOR, only, refused, wording

MAX_SETS = 64
_HIDDEN = "__leaf_"
_NUMBERED = (exp.Ordered, exp.WindowSpec, exp.DataTypeParam, exp.Interval)
"""Nodes whose numbers are places, rows or units: no values, even where a constant of GROUP BY is written alike."""


@dataclass(frozen=True, eq=False)
class Sets:
    """The expressions that each set groups by."""

    listed: list[list[exp.Expr]]
    several: bool

    @property
    def keys(self) -> list[exp.Expr]:
        """Every expression that some set groups by."""
        found: list[exp.Expr] = []
        for listed in self.listed:
            found += [key for key in listed if not any(same_expression(key, other) for other in found)]
        return found

    def rewritten(self, select: exp.Select) -> tuple[exp.Select, dict[str, exp.Expr]]:
        """The SELECT over rows that hold its keys and aggregates, and what each of these columns is."""
        copied = select.copy()
        for clause in ("group", "where", "from_", "joins", "with_"):
            copied.set(clause, None)
        leaves: dict[str, exp.Expr] = {}
        for part in [
            *copied.expressions,
            *(copied.args[n] for n in ("having", "qualify", "order") if copied.args.get(n)),
        ]:
            if isinstance(part, exp.Alias):
                part.set("this", self._replaced(part.this, leaves))
            elif part in copied.expressions and not isinstance(part, (exp.Having, exp.Qualify, exp.Order)):
                name = part.name if isinstance(part, exp.Column) else part.sql(dialect="duckdb").lower()
                new = exp.alias_(self._replaced(part.copy(), leaves), name, quoted=True)
                copied.set("expressions", [new if item is part else item for item in copied.expressions])
            else:
                self._replaced(part, leaves)
        self._refuse_others(copied)
        return copied, leaves

    @staticmethod
    def _refuse_others(select: exp.Select) -> None:
        """Columns that are neither grouped by nor aggregated."""
        aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
        for item in select.expressions:
            for column in item.find_all(exp.Column):
                name = column.name.lower()
                own = isinstance(item, exp.Alias) and item.alias.lower() == name
                if (
                    not name.startswith(_HIDDEN)
                    and (name not in aliases or own)
                    and column.find_ancestor(exp.Query) is select
                ):
                    raise refused(f"{wording(column)} is a raw column", f"add GROUP BY {column.name}, or use MAX")

    def _replaced(self, tree: exp.Expr, leaves: dict[str, exp.Expr]) -> exp.Expr:
        if self._is_leaf(tree):
            return _column(tree, leaves)
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            inner = _window_function(node)
            for child in list(node.iter_expressions()):
                if child is inner or child is None:
                    # The window's own function stays; what it looks at is replaced.
                    waiting.append(child)
                elif self._is_leaf(child):
                    child.replace(_column(child, leaves))
                else:
                    waiting.append(child)
        return tree

    def _is_leaf(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Query) or (isinstance(node, exp.Literal) and isinstance(node.parent, _NUMBERED)):
            return False
        if isinstance(node, exp.Grouping) or any(same_expression(node, key) for key in self.keys):
            return True
        if isinstance(node, exp.Filter):
            return is_aggregate(node.this)
        return is_aggregate(node) or (isinstance(node, AGGREGATES) and has_aggregate(node))

    def value_of(self, leaf: exp.Expr, keys: Sequence[exp.Expr]) -> Any:
        """What a column is in one set, if known: NULL for a key it does not group by; else the sets themselves."""
        if isinstance(leaf, exp.Grouping):
            number = 0
            for item in leaf.expressions:
                if not any(same_expression(item, key) for key in self.keys):
                    raise refused(f"{wording(leaf)} uses a column that is not in GROUP BY", "name a column of GROUP BY")
                number = number * 2 + (not any(same_expression(item, key) for key in keys))
            return number
        if any(same_expression(leaf, key) for key in self.keys):
            return self if any(same_expression(leaf, key) for key in keys) else None
        return self


def same_expression(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two expressions are alike; columns by their names."""
    if isinstance(one, exp.Column) and isinstance(other, exp.Column):
        return one.name.lower() == other.name.lower()
    return type(one) is type(other) and one == other


def _window_function(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Window):
        return node.this
    # FILTER and the like around a window's function.
    if isinstance(node.parent, exp.Window) and isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        return node.this
    return None


def _column(leaf: exp.Expr, leaves: dict[str, exp.Expr]) -> exp.Expr:
    name = next((name for name, known in leaves.items() if same_expression(known, leaf)), f"{_HIDDEN}{len(leaves)}")
    leaves.setdefault(name, leaf.copy())
    column = exp.column(name, quoted=True)
    column.meta[STANDS_FOR] = leaves[name]
    return column


def grouping_sets(select: exp.Select, resolve: Callable[[exp.Expr], exp.Expr]) -> Sets:
    """The sets of a GROUP BY; without one, the one set that groups by nothing."""
    clause = select.args.get("group")
    if clause is None:
        return Sets([[]], False)
    items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    if clause.args.get("all"):
        listed = [item for item in items if not has_aggregate(item) and item.find(exp.Window) is None]
        return Sets([[resolve(item) for item in listed if not item.is_star]], False)
    only(clause, "expressions", "rollup", "cube", "grouping_sets")
    plain = [key for item in clause.expressions for key in _flattened(item, resolve)]
    factors: list[list[list[exp.Expr]]] = []
    for rollup in clause.args.get("rollup") or ():
        if not rollup.expressions:  # GROUP BY a, b WITH ROLLUP
            factors.append(_rollup([[key] for key in plain]))
            plain = []
            continue
        factors.append(_rollup([_flattened(item, resolve) for item in rollup.expressions]))
    for cube in clause.args.get("cube") or ():
        listed_items = [_flattened(item, resolve) for item in cube.expressions] or [[key] for key in plain]
        factors.append(_cube(listed_items))
    for sets in clause.args.get("grouping_sets") or ():
        factors.append([found for item in sets.expressions for found in _set(item, resolve)])
    if not factors:
        return Sets([_distinct(plain)], False)
    count = 1
    for factor in factors:
        count *= len(factor)
    if count > MAX_SETS:
        raise refused(f"{count} ways of grouping; at most {MAX_SETS}", "ask one GROUP BY at a time")
    combined = [_distinct([*plain, *itertools.chain(*choice)]) for choice in itertools.product(*factors)]
    return Sets(combined, True)


def _set(item: exp.Expr, resolve: Callable[[exp.Expr], exp.Expr]) -> list[list[exp.Expr]]:
    if isinstance(item, exp.Rollup):
        return _rollup([_flattened(one, resolve) for one in item.expressions])
    if isinstance(item, exp.Cube):
        return _cube([_flattened(one, resolve) for one in item.expressions])
    if isinstance(item, exp.GroupingSets):
        return [found for one in item.expressions for found in _set(one, resolve)]
    return [_flattened(item, resolve)]


def _flattened(item: exp.Expr, resolve: Callable[[exp.Expr], exp.Expr]) -> list[exp.Expr]:
    if isinstance(item, exp.Tuple):
        return [key for one in item.expressions for key in _flattened(one, resolve)]
    if isinstance(item, exp.Paren):
        return _flattened(item.this, resolve)
    if isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)):
        raise QueryError(f"{wording(item)} is not allowed here; write GROUP BY {wording(item)}")
    return [resolve(item)]


def _rollup(items: Sequence[list[exp.Expr]]) -> list[list[exp.Expr]]:
    return [list(itertools.chain(*items[:size])) for size in range(len(items), -1, -1)]


def _cube(items: Sequence[list[exp.Expr]]) -> list[list[exp.Expr]]:
    if len(items) > 10:
        raise refused(f"CUBE of {len(items)} columns", "ask one GROUP BY at a time")
    chosen: Iterable[tuple[list[exp.Expr], ...]] = (
        choice for size in range(len(items), -1, -1) for choice in itertools.combinations(items, size)
    )
    return [list(itertools.chain(*choice)) for choice in chosen]


def _distinct(keys: Sequence[exp.Expr]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for key in keys:
        if not any(same_expression(key, other) for other in found):
            found.append(key)
    return found
