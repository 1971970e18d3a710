"""Plans for parsed queries: scans of the protected table, and relations made of their groups.

FROM gives a scope (records of the table, under names) or a relation (public rows). A SELECT with aggregates over a
scope is a scan; everything after it is a relation, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import Domain
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError
from reticent.queries import Predicate
from reticent.sql.aggregates import has_aggregate
from reticent.sql.builder import flat
from reticent.sql.cells import columns_of, on_cells
from reticent.sql.combining import join_sources, set_operation
from reticent.sql.compilers import (
    GroupedRowCompiler,
    RowCompiler,
    SelectCompiler,
    or_zero,
    positive,
    repeated_row,
    settled_truth,
)
from reticent.sql.conditions import condition
from reticent.sql.expressions import Computed, Expr
from reticent.sql.grouping import ColumnKey, GroupedBy, Grouping, grouped_by
from reticent.sql.grouping_sets import Sets, grouping_sets
from reticent.sql.output import ordered_and_limited, positioned, row_condition, selected_rows, title
from reticent.sql.pivots import pivoted
from reticent.sql.refusals import CLAUSES, Meter, only, refused, refused_node, wording
from reticent.sql.relations import (
    Field,
    Relation,
    looked_up,
    member,
    take,
    union,
)
from reticent.sql.rewriting import first_of_each, semijoined
from reticent.sql.scan import Measures, Scan
from reticent.sql.scan_compilers import FilteredScanCompiler, FineCompiler, ScanCompiler
from reticent.sql.scope import Scope, Selection, both, renamed, table_scope
from reticent.sql.subqueries import (
    COPIED_STEPS,
    constants_inlined,
    counts_rows,
    existence,
    has_count,
    outer_columns,
    value_lookup,
)
from reticent.sql.vectors import NULL, TRUTH, kind_of

SELECT_STEPS = 2000
"""Of planning one SELECT, without what its clauses ask for."""
SYNTHETIC = "_synthetic"
"""After the name of the table: its synthetic rows."""
_CLAUSES = (
    *("expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "qualify"),
    *("with_", "joins", "laterals", "windows"),
)
Source = Scope | Relation


class Planner:
    """Plans one statement."""

    def __init__(
        self,
        domain: Domain,
        table: str | None,
        meter: Meter,
        synthetic: Relation | None = None,
        where: Predicate | None = None,
    ) -> None:
        self.domain = domain
        self.where = where
        """A condition on all records, beside those of the text."""
        self.meter = meter
        self.measures = Measures(meter)
        self.tables = [] if table is None else [table]
        """The table may have any name unless it was given one, but only one: else a misspelt CTE would be all of it."""
        self.synthetic = synthetic
        """Rows of the synthetic table, once they are drawn."""
        self.told: list[list[str]] = []
        """What is to be said with the result, filled while expressions are compiled."""
        self.public: list[str] = []
        self._ctes: Mapping[str, Source] = {}

    # Queries.

    def query(self, tree: exp.Expr) -> Source:
        """What a query stands for in FROM: records, or rows of a result."""
        if isinstance(tree, (exp.Subquery, exp.Paren)):
            return self._enclosed(tree)
        with self._with(tree.args.get("with_")):
            if isinstance(tree, exp.Select):
                return self._select(tree)
            if isinstance(tree, exp.SetOperation):
                return set_operation(tree, self)
            if isinstance(tree, exp.Pivot):
                return self.query(pivoted(tree, self))
        if isinstance(tree, exp.Values):
            return self._values(tree)
        if isinstance(tree, exp.Table):
            return self._table(tree)
        raise refused_node(tree, "use a SELECT")

    def relation(self, tree: exp.Expr) -> Relation:
        """A query that must be rows of a result."""
        found = self.query(tree)
        if isinstance(found, Scope):
            raise self.rows_refused(tree)
        return found

    def rows_refused(self, tree: exp.Expr) -> QueryError:
        """A SELECT that lists records."""
        select = tree.find(exp.Select) if not isinstance(tree, exp.Select) else tree
        items = [] if select is None else select.expressions
        if select is not None and not items:
            return refused("the statement selects nothing", "list what to count")
        if select is None or any(item.is_star for item in items):
            name = self.tables[0] if self.tables else "t"
            return refused(
                "SELECT * would show rows", f"ask COUNT(*), or SELECT * FROM {name}{SYNTHETIC} for synthetic ones"
            )
        first = items[0].this if isinstance(items[0], exp.Alias) else items[0]
        if isinstance(first, exp.Column):
            return refused(
                f"{wording(first)} is a raw column",
                f"add GROUP BY {first.name}, or use COUNT({first.name}), SUM or AVG",
            )
        return refused(f"{wording(first)} is computed per record", "group by it, or put it inside COUNT, SUM or AVG")

    def scalar(self, tree: exp.Expr, compiler: SelectCompiler) -> Expr:
        """A subquery of one value beside every row, or of one for each row."""
        self._weigh(tree)
        lookup = value_lookup(tree)
        if lookup is None:
            return repeated_row(self.single(tree), compiler.rows)
        found = self.relation(lookup.inner).closed()
        if found.filters:
            raise refused(f"{wording(tree)} depends on the outer row and on noisy values", "join on the column instead")
        picks = looked_up([compiler.expr(outer) for outer in lookup.outer], found, self.meter)
        value = take(found.fields[-1].expr, picks)
        if (picks >= 0).all() or not has_count(lookup):
            return value
        if not counts_rows(lookup):
            raise refused(f"{wording(tree)} counts rows, and there may be none", "select COUNT(*) alone")
        return Computed(or_zero, (value,), compiler.rows, value.kind)

    def _weigh(self, tree: exp.Expr) -> None:
        """Of looking through a subquery and copying it, again for each query around it."""
        self.meter.charge(COPIED_STEPS * sum(1 for _ in tree.walk()))

    def existence(self, tree: exp.Exists, compiler: SelectCompiler) -> Expr:
        """Whether a subquery has a row, for every row alike or for each."""
        self._weigh(tree)
        lookup = existence(tree)
        if isinstance(lookup, exp.Select):
            counted = self.single(lookup)
            return repeated_row(Computed(positive, (counted,), 1, TRUTH), compiler.rows)
        found = self.relation(lookup.inner).closed()
        inside = member([compiler.expr(outer) for outer in lookup.outer], found, self.meter)
        return Computed(settled_truth, (inside,), compiler.rows, TRUTH)

    def single(self, tree: exp.Expr) -> Expr:
        """The one value of a subquery."""
        self.refuse_correlated(tree)
        found = self.relation(tree).closed()
        if len(found.fields) != 1:
            raise refused("a subquery used as a value has several columns", "select one")
        if found.rows != 1 or found.filters:
            raise refused("a subquery used as a value may have several rows", "aggregate it: MAX, SUM or AVG")
        return found.fields[0].expr

    def refuse_correlated(self, tree: exp.Expr) -> None:
        """A subquery that looks at the row it stands in has another value for each."""
        own = {node.alias_or_name.lower() for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE, exp.Values)}
        own |= {node.name.lower() for node in tree.find_all(exp.Table)}
        for column in tree.find_all(exp.Column):
            qualifier = column.text("table").lower()
            if qualifier and qualifier not in own:
                raise refused(f"the subquery looks at {wording(column)} of the outer query", "group by it, and join")

    def _enclosed(self, tree: exp.Expr) -> Source:
        """Parentheses, perhaps with an alias, an order and a limit of their own."""
        only(tree, "this", "alias", "with_", "order", "limit", "offset", "pivots")
        with self._with(tree.args.get("with_")):
            found = self.query(tree.this)
        if tree.args.get("pivots"):
            return self.query(pivoted(tree, self))
        if any(tree.args.get(name) for name in ("order", "limit", "offset")):
            if isinstance(found, Scope):
                raise self.rows_refused(tree.this)
            return ordered_and_limited(found.closed(), tree, self)
        return found

    @contextmanager
    def _with(self, clause: exp.With | None) -> Any:
        """Named queries in view."""
        before = self._ctes
        try:
            if clause is not None:
                only(clause, "expressions", "recursive")
                for cte in clause.expressions:
                    only(cte, "this", "alias", "materialized")
                    if clause.args.get("recursive") and any(
                        table.name.lower() == cte.alias.lower() for table in cte.this.find_all(exp.Table)
                    ):
                        raise refused(
                            f"{cte.alias} is defined in terms of itself",
                            "list numbers or dates with GENERATE_SERIES(1, 10)",
                        )
                    self._ctes = {
                        **self._ctes,
                        cte.alias.lower(): self._named(self.query(cte.this), cte.args.get("alias"), cte.alias),
                    }
            yield
        finally:
            self._ctes = before

    def _named(self, found: Source, alias: exp.TableAlias | None, name: str) -> Source:
        if isinstance(found, Scope):
            return renamed(found, alias, name)
        if alias is not None:
            only(alias, "this", "columns")
            name = alias.this.name if alias.this is not None else name
        columns = [] if alias is None else [identifier.name for identifier in alias.args.get("columns") or ()]
        return found.closed().named(name, columns)

    # FROM.

    def is_named(self, name: str) -> bool:
        """Whether a query of WITH that is in view has this name."""
        return name.lower() in self._ctes

    def _from(self, tree: exp.Select) -> Source:
        clause = tree.args.get("from_")
        if clause is None:
            return Relation(1, ())
        found = self.source(clause.this)
        for join in tree.args.get("joins") or ():
            found = join_sources(found, join, self)
        if tree.args.get("laterals"):
            raise QueryError(CLAUSES["laterals"])
        return found

    def source(self, node: exp.Expr) -> Source:
        if isinstance(node, exp.Table):
            if node.args.get("pivots"):
                return self.query(pivoted(node, self))
            return self._table(node)
        if isinstance(node, exp.Subquery):
            return self._named(self._enclosed(node), node.args.get("alias"), "")
        if isinstance(node, exp.Values):
            return self._values(node)
        raise refused(f"{wording(node)} is not the protected table", "name the table itself after FROM")

    def _table(self, table: exp.Table) -> Source:
        only(table, "this", "alias", "joins", "hints")  # WITH (NOLOCK) asks for nothing here
        if table.args.get("joins"):
            raise QueryError(CLAUSES["joins"])
        name = table.name
        if not isinstance(table.this, exp.Identifier) or "." in name or "/" in name:
            raise refused(f"{wording(table)} is not the protected table", "name the table itself after FROM")
        found: Source | None = self._ctes.get(name.lower())
        if found is None:
            found = self._base(name)
        return self._named(found, table.args.get("alias"), name)

    def _base(self, name: str) -> Source:
        lowered = name.lower()
        if lowered.endswith(SYNTHETIC) and (not self.tables or lowered != self.tables[0].lower()):
            own = name[: -len(SYNTHETIC)]
            self._check_name(own, name)
            if self.synthetic is None:
                raise SyntheticNeeded
            return self.synthetic
        self._check_name(name, name)
        found = table_scope(self.domain, name, self.meter, self.single)
        return found if self.where is None else replace(found, where=Selection(self.where))

    def _check_name(self, name: str, written: str) -> None:
        if not self.tables:
            self.tables.append(name)
        if name.lower() != self.tables[0].lower():
            known = [self.tables[0], *self._ctes]
            hint = closest(written, known) if len(known) > 1 else f"; the table is called {self.tables[0]}"
            raise QueryError(f"unknown table {shown(written)}{hint}")

    def _values(self, tree: exp.Values) -> Relation:
        only(tree, "expressions", "alias", "order", "limit", "offset")
        compiler = RowCompiler(self, Relation(1, ()), {})
        rows = []
        for item in tree.expressions:
            cells = item.expressions if isinstance(item, exp.Tuple) else [item]
            rows.append([compiler.expr(cell) for cell in cells])
        if len({len(row) for row in rows}) != 1:
            raise refused("the rows of VALUES have different lengths", "list as many values in each")
        parts = [Relation(1, tuple(Field(f"col{place}", expr) for place, expr in enumerate(row))) for row in rows]
        found = union(parts, self.meter)
        named = self._named(found, tree.args.get("alias"), "")
        assert isinstance(named, Relation), "constants are no records"
        return named

    # SELECT.

    def _select(self, tree: exp.Select) -> Source:
        only(tree, *_CLAUSES)
        self.meter.charge(SELECT_STEPS)
        if tree.args.get("joins"):
            self._weigh(tree)
        tree = semijoined(tree, self._ctes)
        if tree.args.get("joins"):
            tree = constants_inlined(tree, self._views(), self._columns, self.meter)
        source = self._from(tree)
        distinct = tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            if isinstance(source, Scope) and not _grouped(tree):
                raise refused("DISTINCT ON picks single rows", "use GROUP BY and MAX")
            return self._select(first_of_each(tree))
        if isinstance(source, Scope):
            if source.limited:
                raise refused("LIMIT in a subquery picks single records", "LIMIT belongs in the outer SELECT")
            source = self._where(source, tree)
            if not _grouped(tree) and distinct is None:
                return self._projected(source, tree)
            return self._over_records(source, tree)
        return self._over_rows(source, tree)

    @property
    def _columns(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.domain.names)

    def _views(self) -> dict[str, list[str]]:
        """Named queries, with the columns of those that have just one row."""
        found: dict[str, list[str]] = {name: [] for name in self._ctes}
        for name, view in self._ctes.items():
            if isinstance(view, Relation) and view.rows == 1 and not view.filters:
                found[name] = [one.name for one in view.fields]
        return found

    def _where(self, scope: Scope, tree: exp.Select) -> Scope:
        where = tree.args.get("where")
        if where is None:
            return scope
        aliases = _aliases(tree)
        parts, pending = [scope.where], list(scope.pending)
        for part in flat(where.this, exp.And):
            part = _expanded(part, scope, aliases, self.meter)
            inner, base = scope.inlined(part)
            if inner.find(exp.Query) is None:
                parts.append(condition(inner, base))
            elif self._is_noisy(inner, base):
                pending.append(inner)
            else:
                parts.append(condition(inner, base))
        selected = both(parts)
        self.meter.charge(selected.true.size)
        return replace(scope, where=selected, pending=tuple(pending))

    def _is_noisy(self, tree: exp.Expr, scope: Scope) -> bool:
        """Whether a condition with subqueries needs answers."""
        if any(isinstance(node, exp.Exists) for node in tree.walk()) or outer_columns(tree):
            return True
        if any(isinstance(node, exp.In) and node.args.get("query") is not None for node in tree.walk()):
            return True
        return on_cells(tree, scope).known is None

    def _projected(self, scope: Scope, tree: exp.Select) -> Scope:
        """A SELECT that renames, computes and filters records."""
        for clause in ("having", "qualify", "windows"):
            if tree.args.get(clause):
                raise QueryError(CLAUSES.get(clause, f"{clause.upper()} needs aggregates; add GROUP BY"))
        columns: dict[str, str | exp.Expr] = {}
        self.meter.charge(len(tree.expressions) * len(scope.columns))
        for item in tree.expressions:
            for name, meaning in self._items(item, scope):
                known = columns.setdefault(name.lower(), meaning)
                if known is not meaning and known != meaning:
                    raise refused(f"a subquery names two columns {shown(name)}", "give them different names")
        # An order of records changes nothing; a limit would pick single ones.
        limited = any(tree.args.get(name) for name in ("limit", "offset"))
        return replace(scope, columns=columns, limited=scope.limited or limited)

    def _items(self, item: exp.Expr, scope: Scope) -> list[tuple[str, str | exp.Expr]]:
        if item.is_star:
            star = item if isinstance(item, exp.Star) else item.this
            left_out = {column.name.lower() for column in star.args.get("except_") or ()}
            only(star, "except_")
            return [(name, meaning) for name, meaning in scope.columns.items() if name not in left_out]
        alias, inner = (item.alias, item.this) if isinstance(item, exp.Alias) else (None, item)
        if inner.find(exp.Window) is not None:
            raise refused(f"{wording(inner)} ranks records", "group first, and rank the groups")
        if isinstance(inner, exp.Column):
            meaning = scope.columns.get(inner.name.lower())
            return [(alias or inner.name, meaning if isinstance(meaning, exp.Expr) else scope.attribute(inner))]
        computed, base = scope.inlined(inner)
        if computed is inner:
            computed = _in_base(inner, scope)
        on_cells(computed, base if scope.computes else scope.base)  # judged now, where it is written
        return [(alias or title(inner), computed)]

    def _over_records(self, scope: Scope, tree: exp.Select) -> Relation:
        """A SELECT with aggregates over records: one scan, or one for each set of GROUP BY."""
        aliases = _aliases(tree)
        sets = grouping_sets(tree, lambda key: self._resolved(key, tree, scope.find, aliases))
        if sets.several:
            return self._several(sets, tree, lambda keys: self._scan(scope, keys, {}))
        keys = sets.listed[0]
        if tree.args.get("distinct") is not None and not _grouped(tree):
            keys = [*keys, *(inner for inner in _plain_items(tree, scope))]
            if not keys:
                raise self.rows_refused(tree)
            found = selected_rows(self._scan(scope, keys, aliases), tree, grouped=True)
            return replace(found, note="values of the declared domain, some of which may have no records")
        return selected_rows(self._scan(scope, keys, aliases), tree, grouped=True)

    def _scan(self, scope: Scope, keys: Sequence[exp.Expr], aliases: Mapping[str, exp.Expr]) -> ScanCompiler:
        listed: list[GroupedBy] = []
        for key in keys:
            entry = grouped_by(key, scope)
            self.meter.charge(50 * len(listed))
            if not any(type(other.tree) is type(entry.tree) and other.tree == entry.tree for other in listed):
                listed.append(entry)
                self.public += [entry.note] if entry.note else []
        scan = Scan.of(scope, listed, self.measures)
        if scope.pending:
            return self._filtered(scan, listed, aliases)
        return ScanCompiler(self, scan, listed, aliases)

    def _filtered(self, scan: Scan, listed: list[GroupedBy], aliases: Mapping[str, exp.Expr]) -> ScanCompiler:
        """Groups of records that are compared with noisy values."""
        scope = scan.scope
        base = scope.base if scope.computes else scope
        names = {base.attribute(c) for test in scope.pending for c in (*columns_of(test), *outer_columns(test))}
        names = [name for name in scope.domain.canonical(names) if name not in scan.grouping.columns]
        extra = [GroupedBy(exp.column(name), ColumnKey(name), kind_of(scope.domain[name])) for name in names]
        # Keys of this scan come first, so that the added columns vary fastest.
        keys = (*scan.grouping.keys, *(entry.key for entry in extra))
        grouping = Grouping(scope.domain, keys, scan.grouping.where)
        self.meter.charge(grouping.steps)
        fine = Scan(scope, grouping, self.measures)
        columns = [entry for entry in listed if isinstance(entry.tree, exp.Column)]
        judge = FineCompiler(self, Scan(base, grouping, self.measures), [*columns, *extra], {})
        tests = [judge.condition(test) for test in scope.pending]
        size = int(np.prod([scope.domain[name].size for name in names])) if names else 1
        index = np.searchsorted(scan.grouping.rows, grouping.rows // size)
        inner = ScanCompiler(self, fine, [*listed, *extra], {})
        self.public.append("records are compared with a noisy value: bins are counted by their middle")
        found = FilteredScanCompiler(self, scan, listed, aliases, inner, tests, index)
        # Conditions on what is grouped by alone choose whole groups; without groups the one row stays.
        found.filters += tests if listed and not extra else []
        return found

    def _over_rows(self, source: Relation, tree: exp.Select) -> Relation:
        """A SELECT over rows of a result."""
        aliases = _aliases(tree)
        where = tree.args.get("where")
        if where is not None:
            compiler = RowCompiler(self, source, aliases)
            source = replace(source, filters=(*source.filters, row_condition(compiler, where.this, "WHERE")))
        if not _grouped(tree):
            return selected_rows(RowCompiler(self, source, aliases), tree, grouped=False)
        if tree.args.get("from_") is None:
            raise refused("the statement names no table", "add FROM and the table's name")
        sets = grouping_sets(tree, lambda key: self._resolved(key, tree, lambda n: source.find(n) is not None, aliases))
        if sets.several:
            return self._several(sets, tree, lambda keys: GroupedRowCompiler(RowCompiler(self, source, {}), keys, {}))
        grouped = GroupedRowCompiler(RowCompiler(self, source, aliases), sets.listed[0], aliases)
        return selected_rows(grouped, tree, grouped=True)

    def _several(
        self, sets: Sets, tree: exp.Select, compile_set: Callable[[Sequence[exp.Expr]], SelectCompiler]
    ) -> Relation:
        """GROUPING SETS: keys and aggregates of each set, one below the other, and the rest of the SELECT on them."""
        rewritten, leaves = sets.rewritten(tree)
        parts = []
        for keys in sets.listed:
            compiler = compile_set(keys)
            fields = []
            for name, leaf in leaves.items():
                value = sets.value_of(leaf, keys)
                expr = (
                    compiler.constant(value, NULL if value is None else "integer")
                    if value is not sets
                    else compiler.expr(leaf)
                )
                fields.append(Field(name, expr))
            exists = compiler.exists
            parts.append(Relation(compiler.rows, tuple(fields), (), exists))
        return selected_rows(RowCompiler(self, union(parts, self.meter), _aliases(rewritten)), rewritten, grouped=True)

    def _resolved(
        self, tree: exp.Expr, select: exp.Select, is_column: Callable[[str], bool], aliases: Mapping[str, exp.Expr]
    ) -> exp.Expr:
        """GROUP BY names a column, else an alias, else a position of the select list."""
        items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
        if isinstance(tree, exp.Literal) and not tree.is_string:
            tree = positioned(tree, items, "GROUP BY")
        elif isinstance(tree, exp.Column) and tree.args.get("table") is None and not is_column(tree.name):
            tree = aliases.get(tree.name.lower(), tree)
        if has_aggregate(tree):
            raise refused("GROUP BY names an aggregate", "group by a column, and use HAVING for aggregates")
        if tree.find(exp.Window) is not None:
            raise refused("GROUP BY names a window function", "use it in an outer SELECT")
        return tree


class SyntheticNeeded(Exception):  # no error: the statement is compiled again with its rows
    """A statement asks for synthetic rows."""


def _grouped(tree: exp.Select) -> bool:
    if tree.args.get("group") is not None:
        return True
    listed = [*tree.expressions, *(tree.args[name] for name in ("having", "qualify", "order") if tree.args.get(name))]
    return tree.args.get("having") is not None or any(has_aggregate(item) for item in listed)


def _aliases(tree: exp.Select) -> dict[str, exp.Expr]:
    return {item.alias.lower(): item.this for item in tree.expressions if isinstance(item, exp.Alias)}


def _expanded(tree: exp.Expr, scope: Scope, aliases: Mapping[str, exp.Expr], meter: Meter) -> exp.Expr:
    """Aliases in WHERE stand for what they name, unless a column has that name."""
    if not aliases:
        return tree
    used = [
        column
        for column in columns_of(tree)
        if column.args.get("table") is None and not scope.find(column.name) and column.name.lower() in aliases
    ]
    if not used:
        return tree
    meter.charge(10 * sum(1 for _ in tree.walk()))
    copied = tree.copy()
    for column in columns_of(copied):
        if column.args.get("table") is None and not scope.find(column.name) and column.name.lower() in aliases:
            meaning = aliases[column.name.lower()]
            if has_aggregate(meaning):
                raise refused(
                    f"{wording(column)} is an aggregate, and WHERE is evaluated for each record", "use HAVING"
                )
            meter.charge(10 * sum(1 for _ in meaning.walk()))
            put = exp.Paren(this=meaning.copy())
            if column is copied:
                return put
            column.replace(put)
    return copied


def _plain_items(tree: exp.Select, scope: Scope) -> list[exp.Expr]:
    """The select list of a DISTINCT over records; a star is every column."""
    found: list[exp.Expr] = []
    for item in tree.expressions:
        if item.is_star:
            found += [exp.column(name, quoted=True) for name in scope.columns]
        else:
            found.append(item.this if isinstance(item, exp.Alias) else item)
    return found


def _in_base(tree: exp.Expr, scope: Scope) -> exp.Expr:
    """An expression over renamed or qualified columns, in terms of the table's own."""
    copied = tree.copy()
    for column in columns_of(copied):
        column.replace(exp.column(scope.attribute(column), quoted=True))
    return copied
