"""A scope is the protected table as a FROM clause shows it: names for its columns, and a selection of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from reticent.domain import Domain
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError
from reticent.sql.expressions import Expr, Known, Repeated
from reticent.sql.meter import Meter
from reticent.sql.refusals import only, refused, wording
from reticent.sql.selection import EVERYTHING, Selection

NODE_STEPS = 10
"""Of copying one node of a tree."""


def _no_subquery(tree: exp.Expr) -> Expr:
    raise refused("a subquery stands where a value is needed", "ask it on its own")


@dataclass(frozen=True, eq=False)
class Scope:
    """Columns by lower-case name; `names` are the qualifiers a column may carry."""

    domain: Domain
    columns: Mapping[str, str | exp.Expr]
    """Each stands for an attribute, or for what a subquery computes from the table's own columns."""
    names: frozenset[str]
    meter: Meter
    where: Selection = EVERYTHING
    pending: tuple[exp.Expr, ...] = ()
    """Conditions that compare records with noisy values, in terms of the table's own columns."""
    limited: bool = False
    """Whether a LIMIT picks single records, of which nothing can be asked."""
    subquery: Callable[[exp.Expr], Expr] = _no_subquery

    def attribute(self, node: exp.Column) -> str:
        """The attribute a column refers to."""
        only(node, "this", "table")
        if not isinstance(node.this, exp.Identifier):
            raise refused(f"{wording(node)} stands for whole records", "name the columns to count")
        qualifier = node.args.get("table")
        if qualifier is not None and qualifier.name.lower() not in self.names:
            known = " or ".join(sorted(self.names))
            raise refused(f"unknown table {shown(qualifier.name)} in {wording(node)}", f"here it is called {known}")
        found = self.columns.get(node.name.lower())
        if found is None:
            listed = [name if isinstance(meaning, exp.Expr) else meaning for name, meaning in self.columns.items()]
            raise QueryError(f"unknown column {shown(node.name)}{closest(node.name, listed)}")
        assert isinstance(found, str), "computed columns are inlined first"
        return found

    def find(self, name: str) -> bool:
        """Whether a column has this name."""
        return name.lower() in self.columns

    def scalar(self, tree: exp.Expr, rows: int) -> Expr:
        """A subquery with one value, beside every row."""
        found = self.subquery(tree)
        vector = found.known
        return Repeated(found, rows) if vector is None else Known(vector.spread(rows), found.kind)

    @cached_property
    def computes(self) -> bool:
        """Whether a column is more than an attribute."""
        return any(isinstance(meaning, exp.Expr) for meaning in self.columns.values())

    @cached_property
    def base(self) -> Scope:
        """The table's own columns, with the same selection."""
        columns = {name.lower(): name for name in self.domain.names}
        return replace(self, columns=columns, names=frozenset())

    def inlined(self, tree: exp.Expr) -> tuple[exp.Expr, Scope]:
        """An expression in terms of the table's own columns, and the scope in which to read it."""
        if not self.computes:
            return tree, self
        self.meter.charge(NODE_STEPS * sum(1 for _ in tree.walk()))
        return _replaced(tree.copy(), self), self.base


def _replaced(tree: exp.Expr, scope: Scope) -> exp.Expr:
    if isinstance(tree, exp.Column):
        return _replacement(tree, scope)
    for column in _outer_columns(tree):
        column.replace(_replacement(column, scope))
    return tree


def _outer_columns(tree: exp.Expr) -> list[exp.Column]:
    found: list[exp.Column] = []
    waiting: list[exp.Expr] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Column):
            found.append(node)
        elif not isinstance(node, exp.Query):
            waiting += [child for child in node.iter_expressions() if isinstance(child, exp.Expr)]
    return found


def _replacement(node: exp.Column, scope: Scope) -> exp.Expr:
    qualifier = node.args.get("table")
    if isinstance(node.this, exp.Identifier) and (qualifier is None or qualifier.name.lower() in scope.names):
        computed = scope.columns.get(node.name.lower())
        if isinstance(computed, exp.Expr):
            scope.meter.charge(NODE_STEPS * sum(1 for _ in computed.walk()))
            return exp.Paren(this=computed.copy())
    return exp.column(scope.attribute(node), quoted=True)


def table_scope(domain: Domain, name: str, meter: Meter, subquery: Callable[[exp.Expr], Expr]) -> Scope:
    """The whole table."""
    columns = {column.lower(): column for column in domain.names}
    return Scope(domain, columns, frozenset({name.lower()}), meter, subquery=subquery)


def renamed(scope: Scope, alias: exp.TableAlias | None, name: str) -> Scope:
    """The same columns under an alias, which may also list new column names."""
    if alias is None:
        return replace(scope, names=frozenset({name.lower()} - {""}) or scope.names)
    only(alias, "this", "columns")
    listed = [identifier.name.lower() for identifier in alias.args.get("columns") or ()]
    called = alias.this.name.lower() if alias.this is not None else name.lower()
    scope = replace(scope, names=frozenset({called}))
    if not listed:
        return scope
    kept = list(scope.columns.items())
    if len(listed) > len(kept):
        raise refused(f"{len(listed)} names for {len(kept)} columns", "list at most as many")
    names = [*listed, *(old for old, _ in kept[len(listed) :])]
    if len(set(names)) < len(names):
        raise refused("a list of column names makes two columns alike", "give them different names")
    return replace(scope, columns=dict(zip(names, (meaning for _, meaning in kept), strict=True)))
