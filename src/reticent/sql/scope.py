"""A scope is what a FROM clause provides: names for the protected table's columns, and a filter on its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from reticent.domain import Domain
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of
from reticent.sql.refusals import CLAUSES, only, refused, wording

_FILTER_ONLY = "a subquery or CTE may only rename and filter"
_INNER = {
    "group": "GROUP BY belongs in the outer SELECT",
    "having": "HAVING belongs in the outer SELECT",
    "order": "ORDER BY belongs in the outer SELECT",
    "limit": "LIMIT belongs in the outer SELECT",
    "offset": "OFFSET belongs in the outer SELECT",
}


@dataclass(frozen=True, eq=False)
class Scope:
    """Columns by lower-case name, each standing for an attribute; `names` are the qualifiers a column may carry."""

    domain: Domain
    columns: Mapping[str, str]
    names: frozenset[str]
    where: Predicate

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
            raise QueryError(f"unknown column {shown(node.name)}{closest(node.name, self.columns.values())}")
        return found

    def find(self, name: str) -> str | None:
        return self.columns.get(name.lower())


Condition = Callable[[exp.Expr, Scope], Predicate]


def scope_of(select: exp.Select, domain: Domain, table: str | None, condition: Condition) -> Scope:
    """The outer SELECT's scope, its own WHERE included."""
    return _filtered(select, _Sources(domain, [] if table is None else [table], condition, {}))


@dataclass(frozen=True, eq=False)
class _Sources:
    """What may stand behind FROM: the CTEs in view, and one table.

    The table may have any name unless it was given one, but only one: else a misspelt CTE would be the whole table.
    """

    domain: Domain
    tables: list[str]
    condition: Condition
    ctes: Mapping[str, Scope]

    def named(self, table: exp.Table) -> Scope:
        only(table, "this", "alias")
        if not isinstance(table.this, exp.Identifier):
            raise refused(f"{wording(table)} is not the protected table", "name the table itself after FROM")
        name = table.name
        scope = self.ctes.get(name.lower())
        if scope is None:
            if not self.tables:
                self.tables.append(name)
            if name.lower() != self.tables[0].lower():
                raise refused(f"unknown table {shown(name)}", f"the table is called {self.tables[0]}")
            columns = {column.lower(): column for column in self.domain.names}
            scope = Scope(self.domain, columns, frozenset({name.lower()}), Everything())
        return _renamed(scope, table.args.get("alias"), name)

    def source(self, node: exp.Expr | None) -> Scope:
        if isinstance(node, exp.Table):
            return self.named(node)
        if isinstance(node, exp.Subquery):
            only(node, "this", "alias")
            inner = node.this
            while isinstance(inner, exp.Subquery):
                only(inner, "this")
                inner = inner.this
            if isinstance(inner, exp.Table):
                return self.named(inner)
            return _renamed(_projected(inner, self), node.args.get("alias"), "")
        if node is None:
            raise refused("the statement names no table", "add FROM and the table's name")
        raise refused(f"{wording(node)} is not the protected table", "name the table itself after FROM")

    def with_ctes(self, clause: exp.With | None) -> _Sources:
        if clause is None:
            return self
        only(clause, "expressions", "recursive")
        if clause.args.get("recursive"):
            raise refused("WITH RECURSIVE walks through records", f"leave RECURSIVE out: {_FILTER_ONLY}")
        ctes = dict(self.ctes)
        for cte in clause.expressions:
            only(cte, "this", "alias")
            inside = _Sources(self.domain, self.tables, self.condition, ctes)
            ctes[cte.alias.lower()] = _renamed(_projected(cte.this, inside), cte.args.get("alias"), cte.alias)
        return _Sources(self.domain, self.tables, self.condition, ctes)


def _filtered(select: exp.Select, sources: _Sources) -> Scope:
    """FROM and WHERE of one SELECT."""
    for clause in ("joins", "laterals"):
        if select.args.get(clause):
            raise QueryError(CLAUSES[clause])
    sources = sources.with_ctes(select.args.get("with_"))
    clause = select.args.get("from_")
    scope = sources.source(clause.this if clause is not None else None)
    where = select.args.get("where")
    if where is None:
        return scope
    kept = all_of((scope.where, sources.condition(where.this, scope)))
    return Scope(scope.domain, scope.columns, scope.names, kept)


def _projected(select: exp.Expr, sources: _Sources) -> Scope:
    """A subquery's own columns, renamed as it says."""
    if not isinstance(select, exp.Select):
        kind = type(select).__name__.upper()
        raise refused(f"{kind} in FROM is not possible", f"{_FILTER_ONLY} the one table")
    for clause, remedy in _INNER.items():
        if select.args.get(clause):
            raise refused(_FILTER_ONLY, remedy)
    only(select, "expressions", "from_", "where", "with_", "joins", "laterals")
    scope = _filtered(select, sources)
    columns: dict[str, str] = {}
    for item in select.expressions:
        for name, attribute in _items(item, scope):
            if columns.setdefault(name.lower(), attribute) != attribute:
                raise refused(f"a subquery names two columns {shown(name)}", "give them different names")
    return Scope(scope.domain, columns, scope.names, scope.where)


def _items(item: exp.Expr, scope: Scope) -> list[tuple[str, str]]:
    if isinstance(item, exp.Star):
        only(item)
        return list(scope.columns.items())
    alias, inner = (item.alias, item.this) if isinstance(item, exp.Alias) else (None, item)
    if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
        return list(scope.columns.items())
    if not isinstance(inner, exp.Column):
        raise refused(f"{wording(item)} computes a column; {_FILTER_ONLY}", "compute in the outer SELECT")
    return [(alias or inner.name, scope.attribute(inner))]


def _renamed(scope: Scope, alias: exp.TableAlias | None, name: str) -> Scope:
    """The same columns under an alias, which may also list new column names."""
    if alias is None:
        return Scope(scope.domain, scope.columns, frozenset({name.lower()} - {""}) or scope.names, scope.where)
    only(alias, "this", "columns")
    columns = dict(scope.columns)
    listed = [identifier.name for identifier in alias.args.get("columns") or ()]
    if listed:
        if len(listed) > len(columns):
            raise refused(f"{len(listed)} names for {len(columns)} columns", "list at most as many")
        kept = list(columns.items())
        pairs = [(new.lower(), attribute) for new, (_, attribute) in zip(listed, kept, strict=False)]
        columns = dict([*pairs, *kept[len(listed) :]])
        if len(columns) < len(kept):
            raise refused("a list of column names makes two columns alike", "give them different names")
    called = alias.this.name.lower() if alias.this is not None else name.lower()
    return Scope(scope.domain, columns, frozenset({called}), scope.where)
