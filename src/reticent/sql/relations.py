"""Relations: small tables with public rows, whose columns are expressions over answers.

Synthetic rows as a table of SQL are a function of the certified snapshot, so they are public and constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import Domain
from reticent.domain.attribute import Attribute, shown
from reticent.knowledge.free import ROWS
from reticent.sql.expressions import Binning, Computed, Expr, Known, Presence, Run, Sum, Taken
from reticent.sql.grouping import Key
from reticent.sql.ordering import Limited, Ranking
from reticent.sql.refusals import CELLS_A_STEP, Meter, refused, unknown_column
from reticent.sql.scan import Scan
from reticent.sql.vectors import (
    INTEGER,
    NULL,
    NUMBER,
    TEXT,
    TRUTH,
    Bins,
    Labels,
    Truth,
    Vector,
    comparable,
    kind_of,
    stacked,
    taken,
    to_labels,
    to_truth,
)

MAX_RELATION = 2**17
"""Rows of one table of a plan."""
ROW_STEPS = 4
"""Of looking up one row."""
COMPARED_KEY_STEPS = 2
"""Of comparing two keys one of which has a NULL."""


@dataclass(frozen=True, eq=False)
class Field:
    """A column; `owners` are the qualifiers it may carry."""

    name: str
    expr: Expr
    owners: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Relation:
    """Rows that may be there, and the conditions under which they are."""

    rows: int
    fields: tuple[Field, ...]
    filters: tuple[Expr, ...] = ()
    """Conditions of HAVING, WHERE, QUALIFY and LIMIT, by estimate where they are not decided."""
    exists: Callable[[], Expr | None] = lambda: None
    """Whether a row exists at all: a group of the domain may have no records."""
    groups: Grouped | None = None
    """The scan whose groups its rows are, where they are just these."""
    order: tuple[Ranking, ...] = ()
    limit: int | None = None
    offset: int = 0
    note: str = ""
    """What is to be said where it is shown."""

    def closed(self) -> Relation:
        """As a source of another SELECT: LIMIT becomes a condition, and the order is forgotten."""
        if self.limit is None and not self.offset:
            return replace(self, order=(), note="")
        kept = Limited(self.order, presence_of(self.filters, self.rows), self.limit, self.offset, self.rows)
        return replace(self, filters=(kept,), order=(), limit=None, offset=0, note="")

    def named(self, name: str, columns: Sequence[str] = ()) -> Relation:
        """Under an alias, which may also list new column names."""
        if len(columns) > len(self.fields):
            raise refused(f"{len(columns)} names for {len(self.fields)} columns", "list at most as many")
        owner = frozenset({name.lower()} - {""})
        fields = tuple(
            Field(columns[place] if place < len(columns) else one.name, one.expr, owner)
            for place, one in enumerate(self.fields)
        )
        return replace(self, fields=fields)

    def find(self, name: str, owner: str | None = None) -> Field | None:
        """The column with a name; None if there is none."""
        found = [
            one
            for one in self.fields
            if one.name.lower() == name.lower() and (owner is None or owner.lower() in one.owners)
        ]
        if len(found) > 1 and len({id(one.expr) for one in found}) > 1:
            raise refused(f"the column {shown(name)} is in several tables", "write the table's name before it")
        return found[0] if found else None

    def column(self, name: str, owner: str | None, node: exp.Column | None = None) -> Field:
        """The column with a name; where `node` names it, a refusal also says how to write what may be meant."""
        found = self.find(name, owner)
        if found is not None:
            return found
        owners = sorted({one for fields in self.fields for one in fields.owners})
        if owner is not None and owner.lower() not in owners:
            known = f"here it is called {' or '.join(owners)}" if owners else "leave it out"
            raise refused(f"unknown table {shown(owner)}", known)
        raise unknown_column(exp.column(name) if node is None else node, [one.name for one in self.fields])

    def presence(self, filters: Sequence[Expr] | None = None, *, existing: bool = True) -> Expr | None:
        """Whether each row is there."""
        listed = list(self.filters if filters is None else filters)
        if existing and (exists := self.exists()) is not None:
            listed.append(exists)
        return presence_of(listed, self.rows)


@dataclass(frozen=True, eq=False)
class Grouped:
    """The groups of a scan, with the column of each key."""

    scan: Scan
    keys: tuple[tuple[Expr, Key], ...]

    def key(self, expr: Expr) -> Key | None:
        return next((key for column, key in self.keys if column is expr), None)


def presence_of(conditions: Sequence[Expr], rows: int) -> Expr | None:
    return Presence(tuple(conditions), rows) if conditions else None


def key_codes(expr: Expr, what: str) -> np.ndarray:
    """A number for each value of a public column; equal values have equal ones."""
    vector = expr.known
    if isinstance(vector, Bins):
        return vector.codes
    labels = None if vector is None else to_labels(vector, expr.kind)
    if labels is None:
        raise refused(f"{what} is noisy, and rows are compared by it", "use public columns, such as those of GROUP BY")
    return labels.codes


def row_groups(codes: Sequence[np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row, and the first row of each group, in the order of their first rows."""
    if not codes:
        return np.zeros(rows, dtype=np.int64), np.zeros(1, dtype=np.int64)
    table = np.stack(codes, axis=1)
    _, first, index = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[index.ravel()], first[order]


@dataclass(frozen=True, eq=False)
class Stacked(Expr):
    """Columns of several tables, one below the other."""

    children: tuple[Expr, ...] = field()
    kind: str = field()

    @property
    def rows(self) -> int:  # type: ignore[override]
        return sum(child.rows for child in self.children)

    @property
    def value_columns(self) -> tuple[Expr, ...]:
        return tuple(column for child in self.children for column in child.value_columns)

    def evaluate(self, run: Run) -> Vector:
        return stacked([run.of(child) for child in self.children], self.kind)


def stack_columns(columns: Sequence[Expr], kind: str) -> Expr:
    if all(column.known is not None for column in columns):
        cut = next((column.cut for column in columns if isinstance(column, Known) and column.cut), "")
        return Known(stacked([column.known for column in columns], kind), kind, cut)  # type: ignore[misc]
    return Stacked(tuple(columns), kind)


def common_kind(kinds: Sequence[str], name: str) -> str:
    """The kind of a column that several tables share."""
    found = {kind for kind in kinds if kind != NULL}
    if len(found) <= 1:
        return found.pop() if found else NULL
    if found <= {INTEGER, NUMBER, TRUTH}:
        return NUMBER
    if TEXT in found:
        raise refused(f"the column {name} holds text in one SELECT and numbers in another", "use one kind")
    raise refused(f"the column {name} holds values of different kinds", "use one kind")


def union(parts: Sequence[Relation], meter: Meter) -> Relation:
    """UNION ALL."""
    widths = {len(part.fields) for part in parts}
    if len(widths) > 1:
        raise refused("the SELECTs of a UNION have different numbers of columns", "list as many in each")
    rows = sum(part.rows for part in parts)
    if rows > MAX_RELATION:
        raise refused(f"a UNION of {rows} rows; at most {MAX_RELATION}", "ask its parts one by one")
    meter.charge((1 + rows // CELLS_A_STEP) * 4 * widths.copy().pop())
    fields = []
    for place, first in enumerate(parts[0].fields):
        columns = [part.fields[place].expr for part in parts]
        kinds = [column.kind for column in columns]
        if any(isinstance(column.known, Bins) for column in columns) and TEXT in kinds:
            columns = [_labelled(column) for column in columns]
            kinds = [column.kind for column in columns]
        fields.append(Field(first.name, stack_columns(columns, common_kind(kinds, first.name)), first.owners))
    filters: tuple[Expr, ...] = ()
    if any(part.filters for part in parts):
        filters = (stack_columns([_or_true(presence_of(part.filters, part.rows), part.rows) for part in parts], TRUTH),)

    def exists() -> Expr | None:
        found = [part.exists() for part in parts]
        if all(one is None for one in found):
            return None
        return stack_columns([_or_true(one, part.rows) for one, part in zip(found, parts, strict=True)], TRUTH)

    return Relation(rows, tuple(fields), filters, exists)


def _or_true(expr: Expr | None, rows: int) -> Expr:
    return Known(Labels.constant(True, rows), TRUTH) if expr is None else expr


def _labelled(column: Expr) -> Expr:
    """A column of bins as the texts that show them."""
    if isinstance(column.known, Bins):
        labels = column.known.labelled()
        return Known(Labels(labels.codes, tuple(v if v is None else str(v) for v in labels.values)), TEXT)
    return column


def join(
    left: Relation, right: Relation, keys: Sequence[tuple[Expr, Expr]], kind: str, merged: Sequence[str], meter: Meter
) -> Relation:
    """An inner, left, right or full join on equal public columns; without keys every pair of rows."""
    pairs = _matches(left, right, keys, meter)
    one, other = pairs
    if kind in ("LEFT", "FULL"):
        lonely = np.setdiff1d(np.arange(left.rows), one)
        one, other = np.concatenate([one, lonely]), np.concatenate([other, np.full(len(lonely), -1)])
    if kind in ("RIGHT", "FULL"):
        lonely = np.setdiff1d(np.arange(right.rows), pairs[1])
        one, other = np.concatenate([one, np.full(len(lonely), -1)]), np.concatenate([other, lonely])
    if kind != "INNER" and any(side.filters for side in (left, right)):
        raise refused(f"{kind} JOIN of rows that are chosen by noisy values", "use JOIN, or leave HAVING and LIMIT out")
    rows = len(one)
    if rows > MAX_RELATION:
        raise refused(f"the join has {rows} rows; at most {MAX_RELATION}", "join fewer rows")
    meter.charge((1 + rows // CELLS_A_STEP) * 2 * (len(left.fields) + len(right.fields)))
    fields = _joined_fields(left, right, one, other, merged, rows)
    filters = [take(f, picks) for side, picks in ((left, one), (right, other)) for f in side.filters]

    def exists() -> Expr | None:
        found = [
            Computed(_there, (take(expr, picks),), rows, TRUTH) if (picks < 0).any() else take(expr, picks)
            for side, picks in ((left, one), (right, other))
            if (expr := side.exists()) is not None
        ]
        return presence_of(found, rows)

    return Relation(rows, fields, tuple(filters), exists)


def _there(vector: Vector) -> Truth:
    """A row of NULLs on one side of an outer join is there whenever the other side is."""
    truth = to_truth(vector)
    alone = truth.null & ~truth.true & ~truth.false
    return Truth(np.where(alone, 1.0, truth.value), truth.true | alone, truth.false & ~alone, truth.null & ~alone)


def take(expr: Expr, picks: np.ndarray) -> Expr:
    """Some rows of a column."""
    if isinstance(expr, Known):
        return Known(taken(expr.vector, picks), expr.kind, expr.cut, expr.declared)
    return Taken(expr, picks)


def _joined_fields(
    left: Relation, right: Relation, one: np.ndarray, other: np.ndarray, merged: Sequence[str], rows: int
) -> tuple[Field, ...]:
    shared = {name.lower() for name in merged}
    fields = []
    for field_ in left.fields:
        expr = take(field_.expr, one)
        owners = field_.owners
        if field_.name.lower() in shared:
            twin = right.column(field_.name, None)
            owners = owners | twin.owners
            if (one < 0).any():
                mine, theirs = expr.known, take(twin.expr, other).known
                assert mine is not None, "keys of joins are public"
                assert theirs is not None, "keys of joins are public"
                expr = Known(_filled(mine, theirs), field_.expr.kind)
        fields.append(Field(field_.name, expr, owners))
    for field_ in right.fields:
        if field_.name.lower() not in shared:
            fields.append(Field(field_.name, take(field_.expr, other), field_.owners))
    return tuple(fields)


def _filled(one: Vector, other: Vector) -> Vector:
    """The key of either side of a full join."""
    pair = [vector.labelled() if isinstance(vector, (Bins, Truth)) else vector for vector in (one, other)]
    sides = [vector.listed() for vector in pair if isinstance(vector, Labels)]
    return Labels.of([a if a is not None else b for a, b in zip(*sides, strict=True)])


def _matches(
    left: Relation, right: Relation, keys: Sequence[tuple[Expr, Expr]], meter: Meter
) -> tuple[np.ndarray, np.ndarray]:
    if left.rows * right.rows > MAX_RELATION and not keys:
        raise refused(f"every pair of {left.rows} and {right.rows} rows", "join on a column")
    meter.charge(ROW_STEPS * (left.rows + right.rows) * max(1, len(keys)))
    if not keys:
        one, other = np.meshgrid(np.arange(left.rows), np.arange(right.rows), indexing="ij")
        return one.ravel(), other.ravel()
    codes = []
    for first, second in keys:
        pairs = ((first, second), (second, first))
        both = [_key_values(one, "a column of ON or USING", other) for one, other in pairs]
        numbers: dict[Any, int] = {}
        listed = [[-1 if v is None else numbers.setdefault(v, len(numbers)) for v in side] for side in both]
        codes.append([np.array(side, dtype=np.int64) for side in listed])
    places: dict[tuple[int, ...], list[int]] = {}
    for row, key in enumerate(zip(*(pair[1].tolist() for pair in codes), strict=True)):
        if -1 not in key:
            places.setdefault(key, []).append(row)
    one, other = [], []
    for row, key in enumerate(zip(*(pair[0].tolist() for pair in codes), strict=True)):
        matches = places.get(key, ())
        one += [row] * len(matches)
        other += matches
        if len(one) > MAX_RELATION:
            raise refused(f"the join has more than {MAX_RELATION} rows", "join on more columns")
    return np.array(one, dtype=np.int64), np.array(other, dtype=np.int64)


def _key_values(expr: Expr, what: str, other: Expr | None = None) -> list[Any]:
    """The values of a public column; bins are compared as such with bins of the same kind."""
    vector = expr.known
    twin = None if other is None else other.known
    if isinstance(vector, Bins) and isinstance(twin, Bins) and twin.attribute == vector.attribute:
        return vector.listed()
    labels = None if vector is None else to_labels(vector, expr.kind)
    if labels is None:
        kind = "noisy" if vector is None else "in bins of several values"
        raise refused(f"{what} is {kind}", "use public columns of single values, such as categories of GROUP BY")
    return [comparable(value) for value in labels.listed()]


@dataclass(frozen=True, eq=False)
class Member(Expr):
    """x IN (SELECT ...): whether a row of the other table with the same public value is there."""

    matches: np.ndarray = field()
    """For each row the number of its value among those of the other table; -1 where it has none."""
    owners: np.ndarray = field()
    """For each row of the other table the number of its value."""
    unknown: np.ndarray = field()
    """Sets of values that may be equal to one of ours, for NULL: a row for each set, a column for each value."""
    sets: np.ndarray = field()
    """For each row the number of its set."""
    presence: Expr | None = field()
    kind: str = TRUTH

    @property
    def rows(self) -> int:  # type: ignore[override]
        return len(self.matches)

    @property
    def children(self) -> tuple[Expr, ...]:  # type: ignore[override]
        return () if self.presence is None else (self.presence,)

    def evaluate(self, run: Run) -> Truth:
        if self.presence is None:
            listed: tuple[np.ndarray, ...] = (np.ones(len(self.owners), dtype=bool),) * 3
        else:
            truth = run.truth(self.presence).is_true()
            listed = (truth.holds, truth.true, truth.sure)
        likely, possible, sure = (self._there(part) for part in listed)
        inside, maybe, certainly = (part[self.matches] for part in (likely, possible, sure))
        likely_null, possible_null, sure_null = (self._open(part) for part in (likely, possible, sure))
        return Truth(
            np.where(inside, 1.0, np.where(likely_null, np.nan, 0.0)),
            maybe,
            ~certainly & ~sure_null,
            ~certainly & possible_null,
        )

    def _there(self, rows: np.ndarray) -> np.ndarray:
        """Whether each value is among some rows, and last a place that is never there."""
        found = np.zeros(self.unknown.shape[1] + 1, dtype=bool)
        found[self.owners[rows]] = True
        return found

    def _open(self, there: np.ndarray) -> np.ndarray:
        """Where a value that is there may be the same."""
        return np.any(self.unknown & there[:-1], axis=1)[self.sets]


def member(exprs: Sequence[Expr], other: Relation, meter: Meter, *, nulls_equal: bool = False) -> Member:
    """Whether each row of public columns is one of another table's; `nulls_equal`: NULL is a value like others."""
    if len(other.fields) != len(exprs):
        columns = "one" if len(exprs) == 1 else f"{len(exprs)} columns"
        raise refused(f"a subquery of IN has {len(other.fields)} columns instead of {len(exprs)}", f"select {columns}")
    columns = [one.expr for one in other.fields]
    mine, theirs = paired_keys(exprs, columns, "a column compared by IN", "the column of a subquery of IN", meter)
    numbers: dict[tuple[Any, ...], int] = {}
    owners = np.array([numbers.setdefault(key, len(numbers)) for key in theirs], dtype=np.int64)
    known = {key: place for key, place in numbers.items() if nulls_equal or None not in key}
    matches = np.array([known.get(key, -1) for key in mine], dtype=np.int64)
    unknown, sets = _unknown_sets(mine, [] if nulls_equal else list(numbers), len(numbers), meter)
    return Member(matches, owners, unknown, sets, other.presence())


def _unknown_sets(
    mine: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]], values: int, meter: Meter
) -> tuple[np.ndarray, np.ndarray]:
    """Of which values it is unknown whether they are equal to each of ours: NULL leaves a comparison open."""
    with_null = [place for place, key in enumerate(theirs) if None in key]
    distinct = dict.fromkeys(mine)
    # Without NULL on either side every comparison is decided: the first set, of no value.
    open_keys = [key for key in distinct if None in key or with_null]
    listed = [np.zeros(values, dtype=bool)]
    found, numbers = {listed[0].tobytes(): 0}, dict.fromkeys(distinct, 0)
    compared = sum(len(theirs) if None in key else len(with_null) for key in open_keys)
    meter.charge(COMPARED_KEY_STEPS * (compared + len(open_keys)) + len(open_keys) * (values // CELLS_A_STEP))
    for key in open_keys:
        row = np.zeros(values, dtype=bool)
        for place in range(len(theirs)) if None in key else with_null:
            pairs = zip(key, theirs[place], strict=True)
            row[place] = all(one is None or two is None or one == two for one, two in pairs)
        numbers[key] = found.setdefault(row.tobytes(), len(found))
        if len(found) > len(listed):
            meter.charge(1 + values // CELLS_A_STEP)
            listed.append(row)
    sets = np.array([numbers[key] for key in mine], dtype=np.int64)
    return np.array(listed, dtype=bool).reshape(len(listed), values), sets


def paired_keys(
    exprs: Sequence[Expr], others: Sequence[Expr], what: str, other_what: str, meter: Meter
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of public columns that are compared with as many others."""
    meter.charge(ROW_STEPS * sum(one.rows + other.rows for one, other in zip(exprs, others, strict=True)))
    pairs = list(zip(exprs, others, strict=True))
    theirs = [_key_values(other, other_what, one) for one, other in pairs]
    mine = [_key_values(one, what, other) for one, other in pairs]
    return list(zip(*mine, strict=True)), list(zip(*theirs, strict=True))


def looked_up(exprs: Sequence[Expr], found: Relation, meter: Meter) -> np.ndarray:
    """For each row the row of another table whose first columns are the same; -1 where there is none."""
    columns = [one.expr for one in found.fields[: len(exprs)]]
    what = "a column compared with a subquery's"
    mine, theirs = paired_keys(exprs, columns, what, "the column of a subquery that is compared", meter)
    places = {key: row for row, key in enumerate(theirs) if None not in key}
    return np.array([places.get(key, -1) for key in mine], dtype=np.int64)


def chosen_rows(left: Relation, right: Relation, meter: Meter, *, common: bool) -> Relation:
    """INTERSECT (`common`) or EXCEPT: rows of public columns that another table has, or has not."""
    if len(left.fields) != len(right.fields):
        raise refused("the SELECTs have different numbers of columns", "list as many in each")
    inside = member([one.expr for one in left.fields], right, meter, nulls_equal=True)
    test: Expr = inside if common else Computed(_not_there, (inside,), left.rows, TRUTH)
    return replace(left, filters=(*left.filters, test), groups=None)


def _not_there(vector: Vector) -> Truth:
    return ~to_truth(vector)


def coarsened(found: Sum, scan: Scan, coarse: Scan) -> Sum:
    """The same sum of measures over coarser groups, read where that is free."""
    measures = scan.measures
    terms = []
    for coefficient, place in found.terms:
        measure = measures.found[place]
        new = coarse.place(measure.where, measure.weight, aside=True)
        terms.append((coefficient, new))
        binning = measures.binned.get(place)
        if binning is not None and new not in measures.binned:
            counted = measures.found[binning.present]
            reach = None if binning.reach is None else measures.found[binning.reach]
            measures.binned[new] = Binning(
                binning.columns,
                binning.radius,
                binning.ratio,
                coarse.place(counted.where, counted.weight, aside=True),
                None if reach is None else coarse.place(reach.where, reach.weight, aside=True),
            )
    return Sum(tuple(terms), coarse.rows, found.kind)


def limited_rows(tree: exp.Expr) -> int:
    """How many rows a query looks at: all, unless it lists the first few of them as they come."""
    limit = tree.args.get("limit") if isinstance(tree, exp.Select) else None
    plain = isinstance(tree, exp.Select) and not any(
        tree.args.get(name) for name in ("where", "group", "order", "having", "distinct", "qualify", "with_", "joins")
    )
    listed = isinstance(tree, exp.Select) and tree.find(exp.AggFunc, exp.Window, exp.Subquery) is None
    if plain and listed and isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal):
        offset = tree.args.get("offset")
        more = int(offset.expression.this) if offset is not None and offset.expression.is_int else 0
        if limit.expression.is_int:
            return max(1, min(ROWS, int(limit.expression.this) + more))
    return ROWS


def synthetic_relation(codes: np.ndarray, domain: Domain) -> Relation:
    """As `Release.synthesize` decodes them: a bin is its representative, and `(other)` is NULL beside numbers."""
    fields = []
    for place, name in enumerate(domain.names):
        values, kind = _values(domain[name])
        fields.append(Field(name, Known(Labels(codes[:, place].astype(np.int64), values), kind)))
    return Relation(len(codes), tuple(fields))


def placeholder(domain: Domain) -> Relation:
    """One row for each code of the longest column: what any row may hold."""
    sizes = np.array([attribute.size for attribute in domain.attributes.values()])
    return synthetic_relation(np.arange(min(ROWS, int(sizes.max())))[:, None] % sizes, domain)


def _values(attribute: Attribute) -> tuple[tuple[Any, ...], str]:
    values = [attribute.value(code) for code in range(attribute.size)]
    kind = kind_of(attribute)
    if kind != TEXT and attribute.other_code is not None:
        values[attribute.other_code] = None
    return tuple(values), kind
