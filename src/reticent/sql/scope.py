"""`Scope`: the protected table as a FROM clause shows it, with names for its columns and a selection of its records.

A selection holds the records for which a condition is true, and those for which bins leave it open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from reticent.domain import OTHER_LABEL, Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.queries import Everything, Predicate, all_of, any_of, col
from reticent.queries.predicate import Comparison, Junction, Not
from reticent.sql.expressions import Expr, Known, Repeated
from reticent.sql.refusals import Meter, only, refused, unknown_column, wording


class CutError(QueryError):
    """A condition that is open for some bins, where each bin must be decided."""


@dataclass(frozen=True, eq=False)
class Selection:
    """A condition on one record, with three truth values.

    If a comparison cuts a bin, its records are in `possible` and not in `true`.
    """

    true: Predicate
    stated_false: Predicate | None = None
    possible: Predicate | None = None
    """Where it may be true; None where that is the same as `true`."""
    refutable: Predicate | None = None
    """Where it may be false; None where that is the same as `false`."""
    share: float = 1.0
    """The part of the open records that is meant, if all lie evenly within their bins."""
    cut: str = ""
    """What is cut, in the words of a refusal."""
    limits: tuple[tuple[str, float, float], ...] = ()
    """Columns that bins cut, each with the smallest and largest number for which it may be true."""

    @property
    def exact(self) -> bool:
        return self.possible is None

    @property
    def widest(self) -> Predicate:
        """Where it may be true."""
        return self.true if self.possible is None else self.possible

    @property
    def widest_false(self) -> Predicate:
        """Where it may be false."""
        return self.false if self.refutable is None else self.refutable

    @cached_property
    def false(self) -> Predicate:
        return ~self.true if self.stated_false is None else self.stated_false

    def decided(self) -> Predicate:
        """The predicate itself, if no bin is cut."""
        if not self.exact:
            raise CutError(self.cut)
        return self.true

    def open(self, domain: Domain) -> Predicate:
        """Records for which the condition is undecided."""
        assert self.possible is not None, "only a cut leaves records open"
        return all_of((self.possible, otherwise(self.true, domain)))

    def __invert__(self) -> Selection:
        if self.exact and self.stated_false is None:
            return Selection(~self.true)
        possible = None if self.exact else self.widest_false
        refutable = None if self.exact else self.possible
        return Selection(self.false, self.true, possible, refutable, 1.0 - self.share, self.cut)

    def two_valued(self, domain: Domain) -> Selection:
        """IS TRUE: where it is not true it is false."""
        if self.exact and self.stated_false is None:
            # Written as before, for what was bought under this text.
            return Selection(~otherwise(self.true, domain))
        refutable = None if self.exact else otherwise(self.true, domain)
        false = otherwise(self.widest, domain)
        return replace(self, stated_false=false, refutable=refutable)


EVERYTHING = Selection(Everything())


def both(parts: Sequence[Selection]) -> Selection:
    """AND."""
    true = all_of(part.true for part in parts)
    if all(part.exact and part.stated_false is None for part in parts):
        return Selection(true)
    false = any_of(part.false for part in parts)
    if all(part.exact for part in parts):
        return Selection(true, false)
    limits = _common(parts)
    if (empty := next((name for name, low, high in limits if low > high), None)) is not None:
        # No number is above one end and below the other: within a bin, too, no record is meant.
        return Selection(~Everything(), any_of((false, col(empty).is_known())))
    possible = all_of(part.widest for part in parts)
    refutable = any_of(part.widest_false for part in parts)
    return Selection(true, false, possible, refutable, _share(parts), _cut(parts), limits)


def _common(parts: Sequence[Selection]) -> tuple[tuple[str, float, float], ...]:
    """The numbers of each column that all parts allow."""
    found: dict[str, tuple[float, float]] = {}
    for name, low, high in (limit for part in parts for limit in part.limits):
        least, most = found.get(name, (low, high))
        found[name] = (max(least, low), min(most, high))
    return tuple((name, low, high) for name, (low, high) in found.items())


def either(parts: Sequence[Selection]) -> Selection:
    """OR."""
    true = any_of(part.true for part in parts)
    if all(part.exact and part.stated_false is None for part in parts):
        return Selection(true)
    false = all_of(part.false for part in parts)
    if all(part.exact for part in parts):
        return Selection(true, false)
    possible = any_of(part.widest for part in parts)
    refutable = all_of(part.widest_false for part in parts)
    return Selection(true, false, possible, refutable, _share(parts), _cut(parts))


def _share(parts: Sequence[Selection]) -> float:
    shares = [part.share for part in parts if not part.exact]
    return sum(shares) / len(shares)


def _cut(parts: Sequence[Selection]) -> str:
    return next(part.cut for part in parts if not part.exact)


def otherwise(predicate: Predicate, domain: Domain) -> Predicate:
    """Where a predicate is not true: false or unknown. `~` selects only where it is false."""
    return _without(predicate, domain, True)


def _without(predicate: Predicate, domain: Domain, outcome: bool) -> Predicate:
    """Where a predicate does not have the given outcome, by De Morgan down to comparisons."""
    if isinstance(predicate, Not):
        return _without(predicate.operand, domain, not outcome)
    if isinstance(predicate, Junction):
        parts = [_without(operand, domain, outcome) for operand in predicate.operands]
        return any_of(parts) if (predicate.op == "and") is outcome else all_of(parts)
    opposite = ~predicate if outcome else predicate
    if not isinstance(predicate, Comparison):
        return opposite
    return any_of((opposite, *_unknown(predicate, domain)))


def _unknown(comparison: Comparison, domain: Domain) -> list[Predicate]:
    """The codes on which a comparison is neither true nor false."""
    attribute = domain[comparison.name]
    truth = attribute.truth(comparison.op, comparison.value, comparison.name)
    column, undecided = col(comparison.name), ~(truth.true | truth.false)
    found: list[Predicate] = []
    if attribute.null_code is not None and undecided[attribute.null_code]:
        found.append(column.is_null())
    if attribute.other_code is not None and undecided[attribute.other_code]:
        found.append(column == OTHER_LABEL)
    return found


NODE_STEPS = 10
"""Of copying one node of a tree."""


def _no_subquery(tree: exp.Expr) -> Expr:
    raise refused("a subquery is used where a value is needed", "ask it on its own")


@dataclass(frozen=True, eq=False)
class Scope:
    """Columns by lower-case name; `names` are the qualifiers that a column may have."""

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
    literal: bool = False
    """Whether comparisons mean what they mean as predicates, also where SQL sees NULL: in the rules of a domain."""

    def attribute(self, node: exp.Column) -> str:
        """The attribute a column refers to."""
        only(node, "this", "table")
        if not isinstance(node.this, exp.Identifier):
            raise refused(f"{wording(node)} refers to whole records", "name the columns to count")
        qualifier = node.args.get("table")
        if qualifier is not None and qualifier.name.lower() not in self.names:
            known = " or ".join(sorted(self.names))
            raise refused(f"unknown table {shown(qualifier.name)} in {wording(node)}", f"here it is called {known}")
        found = self.columns.get(node.name.lower())
        if found is None:
            listed = [name if isinstance(meaning, exp.Expr) else meaning for name, meaning in self.columns.items()]
            raise unknown_column(node, listed)
        assert isinstance(found, str), "computed columns are inlined first"
        return found

    def find(self, name: str) -> bool:
        """Whether a column has this name."""
        return name.lower() in self.columns

    def scalar(self, tree: exp.Expr, rows: int) -> Expr:
        """A subquery with one value, repeated for every row."""
        found = self.subquery(tree)
        vector = found.known
        return Repeated(found, rows) if vector is None else Known(vector.spread(rows), found.kind)

    @cached_property
    def computes(self) -> bool:
        """Whether a column is a computed expression."""
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
        raise refused("two columns of the subquery have the same name", "give them different names")
    return replace(scope, columns=dict(zip(names, (meaning for _, meaning in kept), strict=True)))
