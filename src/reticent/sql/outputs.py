"""Select list, HAVING and ORDER BY over groups: names resolved to keys, numbers compiled, all of it post-processing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlglot import ErrorLevel, exp

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql.aggregates import Compiler, has_aggregate
from reticent.sql.conditions import condition
from reticent.sql.constants import constant, is_constant, number
from reticent.sql.expressions import Measures, Node, Number, Shares
from reticent.sql.keys import ClassKey, ColumnKey, Grouping, Key, reachable, ungrouped
from reticent.sql.refusals import only, refused, refused_node, wording
from reticent.sql.scope import Scope

_COMPARE: dict[type[exp.Expr], np.ufunc] = {
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
}


@dataclass(frozen=True, eq=False)
class Output:
    """One column of the result: a key or a number."""

    name: str
    tree: exp.Expr
    source: Key | Node


@dataclass(frozen=True, eq=False)
class Ranking:
    """One item of ORDER BY."""

    source: Key | Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, eq=False)
class Group:
    """The groups a HAVING is evaluated on."""

    grouping: Grouping
    rows: np.ndarray
    shares: Shares


Test = Callable[[Group], tuple[np.ndarray, np.ndarray]]
"""Where a HAVING condition is true and where it is false, per row."""


class Namer:
    """Compiles what stands over groups; aliases of the select list may be used wherever SQL allows them."""

    def __init__(self, scope: Scope, keys: Sequence[Key], measures: Measures, aliases: dict[str, exp.Expr]) -> None:
        self.scope = scope
        self.keys = keys
        self.aliases = aliases
        self._compiler = Compiler(scope, measures, self._alias)

    def source(self, tree: exp.Expr) -> Key | Node:
        """A key if the expression is grouped by, else a number per group."""
        key = self.key(tree)
        if key is not None:
            return key
        found = self._alias(tree) if isinstance(tree, exp.Column) else None
        if found is not None:
            return self.source(found)
        if not has_aggregate(tree) and not is_constant(tree) and tree.find(exp.Column, exp.Star) is not None:
            if tree.find(exp.Star, exp.Window, exp.Query):
                return self._compiler.node(tree)
            raise ungrouped(tree, self.scope)
        return self._compiler.node(tree)

    def key(self, tree: exp.Expr) -> Key | None:
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Identifier):
            if tree.args.get("table") is None and self.scope.find(tree.name) is None:
                return None
            attribute = self.scope.attribute(tree)
            return next((k for k in self.keys if isinstance(k, ColumnKey) and k.attribute == attribute), None)
        return next((k for k in self.keys if isinstance(k, ClassKey) and k.tree == tree), None)

    def test(self, tree: exp.Expr) -> Test:
        """A HAVING condition."""
        if isinstance(tree, exp.Paren):
            return self.test(tree.this)
        if isinstance(tree, exp.Not):
            inner = self.test(tree.this)
            return lambda group: (inner(group)[1], inner(group)[0])
        if isinstance(tree, (exp.And, exp.Or)):
            only(tree, "this", "expression")
            return _joined(self.test(tree.this), self.test(tree.expression), isinstance(tree, exp.And))
        tree = self._expanded(tree)
        if not has_aggregate(tree):
            return self._on_keys(tree)
        return self._on_numbers(tree)

    def _on_numbers(self, tree: exp.Expr) -> Test:
        if type(tree) in _COMPARE:
            only(tree, "this", "expression")
            self._refuse_null(tree, tree.this, tree.expression)
            return _compared(_COMPARE[type(tree)], self._number(tree.this), self._number(tree.expression))
        if isinstance(tree, exp.Between):
            only(tree, "this", "low", "high")
            self._refuse_null(tree, tree.args["low"], tree.args["high"])
            middle = self._number(tree.this)
            above = _compared(np.greater_equal, middle, self._number(tree.args["low"]))
            return _joined(above, _compared(np.less_equal, middle, self._number(tree.args["high"])), True)
        if isinstance(tree, exp.In):
            only(tree, "this", "expressions")
            left = self._number(tree.this)
            tests = [_compared(np.equal, left, Number(number(item))) for item in tree.expressions]
            return _any(tests)
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            node = self._number(tree.this)
            return lambda group: _decided(np.isnan(node.evaluate(group.shares).value))
        raise refused_node(tree, "compare aggregates with numbers")

    def _refuse_null(self, tree: exp.Expr, *sides: exp.Expr) -> None:
        if any(is_constant(side) and constant(side) is None for side in sides):
            raise refused(f"{wording(tree)} is never true", "use IS NULL")

    def _number(self, tree: exp.Expr) -> Node:
        source = self.source(tree)
        if isinstance(source, (ColumnKey, ClassKey)):
            raise refused(f"{wording(tree)} is compared with an aggregate", "compare aggregates with numbers")
        return source

    def _on_keys(self, tree: exp.Expr) -> Test:
        """A condition on grouped columns alone holds or fails for a whole group."""
        predicate = condition(tree, self.scope)
        columns = [key.attribute for key in self.keys if isinstance(key, ColumnKey)]
        loose = [name for name in self.scope.domain.names if name in predicate.attributes and name not in columns]
        if loose:
            raise refused(f"HAVING {wording(tree)} looks at {loose[0]}, which is not grouped", "use WHERE")
        # Compiled now, so that a comparison that cuts a bin is refused before anything is paid for.
        true, false = (
            reachable(wanted.compile(self.scope.domain), columns, self.scope.domain).ravel()
            for wanted in (predicate, ~predicate)
        )
        return lambda group: (true[group.rows % true.size], false[group.rows % true.size])

    def _expanded(self, tree: exp.Expr) -> exp.Expr:
        """Aliases in a HAVING condition stand for what they name, unless a column has that name."""
        if not self.aliases:
            return tree
        copied = tree.copy()
        for column in list(copied.find_all(exp.Column)):
            found = self._alias(column)
            if found is not None:
                if column is copied:
                    return found.copy()
                column.replace(exp.Paren(this=found.copy()))
        return copied

    def _alias(self, tree: exp.Column) -> exp.Expr | None:
        if tree.args.get("table") is not None or self.scope.find(tree.name) is not None:
            return None
        return self.aliases.get(tree.name.lower())


def outputs_of(select: exp.Select, namer: Namer) -> tuple[Output, ...]:
    """The select list; repeated names get a number."""
    found: list[Output] = []
    taken: set[str] = set()
    for item in select.expressions:
        tree = item.this if isinstance(item, exp.Alias) else item
        source = namer.source(tree)
        base = item.alias if isinstance(item, exp.Alias) else _title(tree)
        name, place = base, 2
        while name.lower() in taken:
            name, place = f"{base}_{place}", place + 1
        taken.add(name.lower())
        found.append(Output(name, tree, source))
    return tuple(found)


def rankings_of(order: exp.Order | None, outputs: Sequence[Output], namer: Namer) -> tuple[Ranking, ...]:
    """ORDER BY positions, names of the result, keys or aggregates."""
    if order is None:
        return ()
    only(order, "expressions")
    found = []
    for item in order.expressions:
        if not isinstance(item, exp.Ordered):
            raise refused_node(item, "order by result columns")
        only(item, "this", "desc", "nulls_first")
        source = _ranked(item.this, outputs, namer)
        found.append(Ranking(source, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
    return tuple(found)


def _ranked(tree: exp.Expr, outputs: Sequence[Output], namer: Namer) -> Key | Node:
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return positioned(tree, outputs, "ORDER BY").source
    if isinstance(tree, exp.Column) and tree.args.get("table") is None:
        named = [output for output in outputs if output.name.lower() == tree.name.lower()]
        if named:
            return named[0].source
        if tree.name.lower() == "all":
            raise refused("ORDER BY ALL is not supported", "list the columns to order by")
    return namer.source(tree)


def positioned(tree: exp.Expr, items: Sequence, clause: str):
    """The select item at a position counted from one."""
    place = constant(tree)
    if not isinstance(place, int) or not 1 <= place <= len(items):
        raise refused(f"{clause} {wording(tree)} is not a position from 1 to {len(items)}", "use a column's name")
    return items[place - 1]


def _title(tree: exp.Expr) -> str:
    return (
        tree.name
        if isinstance(tree, exp.Column)
        else " ".join(tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE).split()).lower()
    )


def _compared(compare: np.ufunc, left: Node, right: Node) -> Test:
    def test(group: Group) -> tuple[np.ndarray, np.ndarray]:
        one, other = left.evaluate(group.shares).value, right.evaluate(group.shares).value
        known = ~(np.isnan(one) | np.isnan(other))
        with np.errstate(invalid="ignore"):
            holds = compare(one, other)
        return holds & known, ~holds & known

    return test


def _joined(left: Test, right: Test, both: bool) -> Test:
    def test(group: Group) -> tuple[np.ndarray, np.ndarray]:
        (yes, no), (also, nor) = left(group), right(group)
        return (yes & also, no | nor) if both else (yes | also, no & nor)

    return test


def _any(tests: list[Test]) -> Test:
    if not tests:
        raise QueryError(f"IN needs at least one value, not {shown('()')}; list them")
    found = tests[0]
    for test in tests[1:]:
        found = _joined(found, test, False)
    return found


def _decided(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return mask, ~mask
