"""Meaning of names, aggregates and window functions over rows of a relation, single or grouped.

Compilers over groups of protected records are in `scan_compilers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql import reduction
from reticent.sql.aggregates import is_aggregate
from reticent.sql.builder import constant_of
from reticent.sql.constants import whole_constant
from reticent.sql.expressions import Computed, Expr, Known, Repeated, Sum
from reticent.sql.functions import Compiler
from reticent.sql.grouping import COMPARED_STEPS
from reticent.sql.intervals import Interval
from reticent.sql.moments import PAIRS
from reticent.sql.ordering import Ranking
from reticent.sql.reduction import Reduced, Reducer
from reticent.sql.refusals import CELLS_A_STEP, only, refused, refused_node, wording
from reticent.sql.relations import Grouped, Relation, coarsened, key_codes, member, presence_of, row_groups, take
from reticent.sql.vectors import (
    INTEGER,
    NUMBER,
    NUMERIC,
    TEMPORAL,
    TEXT,
    TRUTH,
    Labels,
    Truth,
    Vector,
    to_interval,
    to_truth,
)
from reticent.sql.windows import MAX_FRAMES, RANKS, RUNNING, WHOLE, Frame, Neighbour, Rank, WindowAggregate, frame_rows

if TYPE_CHECKING:
    from reticent.sql.planner import Planner

_RANKS: dict[type[exp.Expr], str] = {
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.RowNumber: "row_number",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
}
_NEIGHBOURS = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_FAR = 2**20
"""Rows that LAG and frames look back or ahead."""


class SelectCompiler(Compiler):
    """Expressions of a select list, HAVING, QUALIFY and ORDER BY."""

    def __init__(self, planner: Planner, rows: int, aliases: Mapping[str, exp.Expr]) -> None:
        super().__init__(rows, planner.meter)
        self.planner = planner
        self.aliases = aliases
        self.filters: list[Expr] = []
        """Conditions on the rows that window functions look at."""
        self.windows: Mapping[str, exp.Window] = {}
        self._named: dict[str, Expr | None] = {}

    def leaf(self, tree: exp.Expr) -> Expr | None:
        if isinstance(tree, exp.Column):
            return self.column(tree)
        if isinstance(tree, exp.Window):
            return self.window(tree)
        if isinstance(tree, exp.Query):
            return self.planner.scalar(tree, self)
        if isinstance(tree, exp.In) and tree.args.get("query") is not None:
            return self.member(tree)
        if isinstance(tree, exp.Exists):
            return self.planner.existence(tree, self)
        return self.special(tree)

    def column(self, tree: exp.Column) -> Expr:
        raise NotImplementedError

    def special(self, tree: exp.Expr) -> Expr | None:
        """Aggregates, and keys that are expressions."""
        raise NotImplementedError

    def exists(self) -> Expr | None:
        """Whether each row exists at all."""
        raise NotImplementedError

    @property
    def groups(self) -> Grouped | None:
        """The scan whose groups the rows are."""
        return None

    def alias(self, tree: exp.Column) -> Expr | None:
        """What an alias of the select list stands for; compiled once, however often it is used."""
        if tree.args.get("table") is not None or not isinstance(tree.this, exp.Identifier):
            return None
        name = tree.name.lower()
        if name not in self.aliases:
            return None
        if name in self._named:
            found = self._named[name]
            if found is None:
                raise refused(f"{shown(tree.name)} is defined in terms of itself", "give the column another name")
            return found
        self._named[name] = None
        self._named[name] = found = self.expr(self.aliases[name])
        return found

    def unusable(self, tree: exp.Expr) -> QueryError:
        if isinstance(tree, exp.Star):
            return refused("* is used where one column is needed", "name the columns")
        return super().unusable(tree)

    def member(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "query")
        self.planner.refuse_correlated(tree.args["query"])
        left = tree.this
        while isinstance(left, exp.Paren):
            left = left.this
        exprs = [self.expr(item) for item in (left.expressions if isinstance(left, exp.Tuple) else [left])]
        return member(exprs, self.planner.relation(tree.args["query"]).closed(), self.meter)

    # Window functions.

    def window(self, tree: exp.Window) -> Expr:
        only(tree, "this", "partition_by", "order", "spec", "over", "alias", "first")
        function, kept = _unwrapped(tree.this)
        tree = self._completed(tree)
        parts = self._parts(tree)
        order = self.rankings(tree.args.get("order"))
        self.meter.charge(20 * (1 + self.rows // CELLS_A_STEP))
        if type(function) in _RANKS:
            return self._rank(function, parts, order)
        if isinstance(function, _NEIGHBOURS):
            return self._neighbour(function, parts, order, tree)
        return self._window_aggregate(tree, function, kept, parts, order)

    def _completed(self, tree: exp.Window) -> exp.Window:
        """OVER w: with the clauses of the named window."""
        name = tree.args.get("alias")
        if name is None:
            return tree
        named = self.windows.get(name.name.lower())
        if named is None:
            raise refused(f"unknown window {shown(name.name)}", "define it with WINDOW")
        clauses = {key: tree.args.get(key) or named.args.get(key) for key in ("partition_by", "order", "spec")}
        return exp.Window(this=tree.this.copy(), **{k: _copied(v) for k, v in clauses.items()})

    def _parts(self, tree: exp.Window) -> np.ndarray:
        codes = [
            key_codes(self.expr(item), f"PARTITION BY {wording(item)}") for item in tree.args.get("partition_by") or ()
        ]
        return row_groups(codes, self.rows)[0]

    def rankings(self, order: exp.Order | None) -> tuple[Ranking, ...]:
        """Items of an ORDER BY, as expressions of the rows."""
        if order is None:
            return ()
        only(order, "expressions")
        found = []
        for item in order.expressions:
            only(item, "this", "desc", "nulls_first")
            found.append(Ranking(self.expr(item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
        return tuple(found)

    def _there(self, *, existing: bool) -> Expr | None:
        listed = list(self.filters)
        if existing and (exists := self.exists()) is not None:
            listed.append(exists)
        return presence_of(listed, self.rows)

    def _rank(self, function: exp.Expr, parts: np.ndarray, order: tuple[Ranking, ...]) -> Expr:
        what, buckets = _RANKS[type(function)], 1
        if what == "ntile":
            buckets = whole_constant(function.this, "NTILE", _FAR) if function.this is not None else 0
            if buckets < 1:
                raise refused("NTILE needs a number of buckets above 0", "write NTILE(4)")
        return Rank((), self._there(existing=True), parts, order, RANKS[what], what, buckets)

    def _neighbour(self, function: exp.Expr, parts: np.ndarray, order: tuple[Ranking, ...], tree: exp.Window) -> Expr:
        only(function, "this", "offset", "default")
        operand = self.expr(function.this)
        operands: tuple[Expr, ...] = (operand,)
        if function.args.get("default") is not None:
            _, values = self.common([operand, self.expr(function.args["default"])], tree)
            operands = tuple(values)
        offset = function.args.get("offset")
        steps = 1 if offset is None else whole_constant(offset, "the offset", _FAR)
        place = _places(function, steps, self._frame(tree, order))
        return Neighbour(operands, self._there(existing=False), parts, order, operand.kind, place)

    def _window_aggregate(
        self, tree: exp.Window, function: exp.Expr, kept: exp.Expr | None, parts: np.ndarray, order: tuple[Ranking, ...]
    ) -> Expr:
        reducer, operands, kind = self.reducer(function)
        frame = self._frame(tree, order)
        if (count := frame_rows(parts, frame)) > MAX_FRAMES:
            raise refused(
                f"{wording(tree)} looks at {count} rows; at most {MAX_FRAMES}", "use fewer rows or no ORDER BY"
            )
        self.meter.charge(count // 50)
        # As for LAG, all groups of the result stand in a frame that counts rows, those without records too.
        presence = self._there(existing=not frame.counted)
        if kept is not None:
            presence = presence_of([self.condition(kept), *([] if presence is None else [presence])], self.rows)
        shown, tight = None if frame.whole else self._there(existing=False), None
        if frame.whole and kept is None and not self.filters and isinstance(function, exp.Sum):
            tight = self._tight(operands[0], [self.expr(item) for item in tree.args.get("partition_by") or ()])
        return WindowAggregate(operands, presence, parts, order, kind, reducer, frame, shown, tight)

    def _tight(self, operand: Expr, keys: Sequence[Expr]) -> Expr | None:
        """A sum over groups of a scan is a measure of coarser groups."""
        if self.groups is None or not isinstance(operand, Sum):
            return None
        kept = [self.groups.key(key) for key in keys]
        if any(key is None for key in kept):
            return None
        coarse, index = self.groups.scan.coarser([key for key in kept if key is not None])
        return take(coarsened(operand, self.groups.scan, coarse), index)

    def _frame(self, tree: exp.Window, order: tuple[Ranking, ...]) -> Frame:
        spec = tree.args.get("spec")
        if spec is None:
            return RUNNING if order else WHOLE
        kind = str(spec.args.get("kind") or "ROWS").upper()
        if spec.args.get("exclude"):
            raise refused("EXCLUDE in a window is not supported", "leave it out")
        start = _bound(spec.args.get("start"), spec.args.get("start_side"), "PRECEDING")
        end = _bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), "FOLLOWING")
        if start == -np.inf and end == np.inf:
            return WHOLE
        if kind != "ROWS" and not {start, end} <= {-np.inf, 0.0, np.inf}:
            raise refused(f"{kind} frames with an offset are not supported", "use ROWS BETWEEN")
        return Frame(start, end, kind != "ROWS")

    # Aggregates of rows.

    def reducer(self, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
        """What an aggregate of rows computes, from which columns, and the kind of its result."""
        if isinstance(tree, exp.Count):
            return self._counted(tree)
        if isinstance(tree, exp.CountIf):
            only(tree, "this")
            truth = self.condition(tree.this)
            held = Computed(_only_true, (truth,), self.rows, TRUTH)
            return reduction.count_rows, (held,), INTEGER
        build = _REDUCERS.get(type(tree))
        if build is not None:
            return build(self, tree)
        if isinstance(tree, (exp.ArrayAgg, exp.ArrayUniqueAgg)):
            raise refused(f"{wording(tree)} gives a list", "use STRING_AGG, which gives a text")
        raise refused_node(tree, "use COUNT, SUM, AVG, MIN, MAX, MEDIAN or STDDEV of rows")

    def _counted(self, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
        only(tree, "this", "big_int")
        if tree.this is None or isinstance(tree.this, exp.Star):
            return reduction.count_rows, (), INTEGER
        if isinstance(tree.this, exp.Distinct):
            if len(tree.this.expressions) != 1:
                raise refused(f"{wording(tree)} counts combinations", "SELECT COUNT(*) FROM (SELECT DISTINCT a, b ...)")
            operand = self.expr(tree.this.expressions[0])
            return reduction.distinct_values, (public_values(operand, tree),), INTEGER
        return reduction.count_rows, (self.expr(tree.this),), INTEGER

    def number(self, tree: exp.Expr, whole: exp.Expr) -> Expr:
        operand = self.expr(tree)
        if operand.kind not in NUMERIC:
            raise refused(f"{wording(whole)} needs numbers", "use COUNT, MIN or MAX")
        return operand


def public_values(operand: Expr, tree: exp.Expr) -> Expr:
    vector = operand.known
    if vector is None or not (isinstance(vector, Labels) or hasattr(vector, "labelled")):
        raise refused(f"{wording(tree)} looks at single values of a noisy column", "use a public column")
    return operand


def _only_true(vector: Vector) -> Vector:
    """NULL where a condition is not true."""
    truth = to_truth(vector)
    value = np.where(truth.holds, 1.0, np.nan)
    never = np.zeros(len(truth), dtype=bool)
    return Truth(value, truth.true, never, truth.false | truth.null)


def _copied(value: Any) -> Any:
    return [item.copy() for item in value] if isinstance(value, list) else value.copy() if value is not None else None


def _unwrapped(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """The function of a window, and the condition of its FILTER."""
    kept = None
    while isinstance(tree, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        if isinstance(tree, exp.IgnoreNulls) and isinstance(tree.this, _NEIGHBOURS):
            raise refused(f"{wording(tree)} skips NULLs, which is not supported", "leave IGNORE NULLS out")
        if isinstance(tree, exp.Filter):
            kept = tree.expression.this
        tree = tree.this
    return tree, kept


def _bound(value: Any, side: Any, default: str) -> float:
    side = str(side or default).upper()
    sign = -1.0 if side == "PRECEDING" else 1.0
    if isinstance(value, str):
        return 0.0 if value.upper() == "CURRENT ROW" else sign * np.inf
    if value is None:
        return sign * np.inf
    return sign * whole_constant(value, "the frame", _FAR)


def _places(function: exp.Expr, steps: int, frame: Frame) -> Callable[[np.ndarray, int], int]:
    """Which row of its part a row looks at, by the peers of all; -1 for none."""
    if isinstance(function, exp.Lag):
        return lambda peers, place: place - steps
    if isinstance(function, exp.Lead):
        return lambda peers, place: place + steps
    from_end = isinstance(function, exp.LastValue)
    offset = steps - 1 if isinstance(function, exp.NthValue) else 0

    def within(peers: np.ndarray, place: int) -> int:
        first, last = frame.ends(peers, place)
        found = last if from_end else first + offset
        return found if offset >= 0 and first <= found <= last else -1

    return within


def _plain(reducer: Reducer, kind: str | None = None) -> Any:
    """An aggregate of one column of numbers."""

    def build(compiler: SelectCompiler, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
        only(tree, "this")
        if isinstance(tree.this, exp.Distinct):
            raise refused(f"{wording(tree)} sums distinct values", "use DISTINCT in a subquery")
        operand = compiler.number(tree.this, tree)
        found = INTEGER if operand.kind == TRUTH else operand.kind
        return reducer, (operand,), found if kind is None else kind

    return build


def _extreme(reducer: Reducer) -> Any:
    def build(compiler: SelectCompiler, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
        only(tree, "this")
        inner = tree.this
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            inner = inner.expressions[0]
        operand = compiler.expr(inner)
        return reducer, (operand,), operand.kind

    return build


def _at(reducer: Reducer) -> Any:
    def build(compiler: SelectCompiler, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
        only(tree, "this", "expression")
        operands = (compiler.expr(tree.this), compiler.expr(tree.expression))
        return reducer, operands, operands[0].kind

    return build


def _condition(reducer: Reducer) -> Any:
    def build(compiler: SelectCompiler, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
        only(tree, "this")
        return reducer, (compiler.condition(tree.this),), TRUTH

    return build


def _quantile(compiler: SelectCompiler, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
    if isinstance(tree, exp.WithinGroup):
        items = tree.expression.expressions
        if len(items) != 1 or not isinstance(tree.this, (exp.PercentileCont, exp.PercentileDisc)):
            raise refused_node(tree.this, "use PERCENTILE_CONT or PERCENTILE_DISC of one column")
        part, operand = tree.this.this, compiler.expr(items[0].this)
        continuous, descending = isinstance(tree.this, exp.PercentileCont), bool(items[0].args.get("desc"))
    else:
        operand, descending = compiler.expr(tree.this), False
        part = tree.args.get("expression") or tree.args.get("quantile")
        continuous = isinstance(tree, (exp.PercentileCont, exp.ApproxQuantile, exp.Median))
    if operand.kind not in (*NUMERIC, *TEMPORAL):
        raise refused(f"{wording(tree)} needs numbers", "use MIN or MAX")
    value: Any = 0.5 if isinstance(tree, exp.Median) else constant_of(compiler.expr(part)) if part is not None else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise refused(f"{wording(tree)} needs a number between 0 and 1", "write QUANTILE_CONT(column, 0.5)")
    kind = NUMBER if operand.kind == INTEGER and continuous else operand.kind
    return reduction.quantile_rows(value, continuous=continuous, descending=descending), (operand,), kind


def _spread(*, sample: bool, root: bool) -> Any:
    return _plain(reduction.deviation_rows(sample=sample, root=root), NUMBER)


def _pair(compiler: SelectCompiler, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
    only(tree, "this", "expression", "null_on_zero_variance")
    operands = (compiler.number(tree.this, tree), compiler.number(tree.expression, tree))
    return reduction.joint(PAIRS[type(tree)]), operands, NUMBER


def _listed(compiler: SelectCompiler, tree: exp.Expr) -> tuple[Reducer, tuple[Expr, ...], str]:
    item, items, mark = listing(tree, compiler)
    distinct = isinstance(item, exp.Distinct)
    operand = public_values(compiler.expr(item.expressions[0] if distinct else item), tree)
    keys = [compiler.expr(one.this) for one in items]
    descending = bool(items) and bool(items[0].args.get("desc"))
    return reduction.joined_texts(mark, descending=descending, distinct=distinct), (operand, *keys), TEXT


def listing(tree: exp.Expr, compiler: SelectCompiler) -> tuple[exp.Expr, Sequence[exp.Expr], str]:
    """What STRING_AGG lists, by what it is ordered, and the separator."""
    only(tree, "this", "separator")
    separator = tree.args.get("separator")
    mark = "," if separator is None else str(compiler.known_value(separator, "the separator"))
    ordered = tree.this if isinstance(tree.this, exp.Order) else None
    items = [] if ordered is None else ordered.expressions
    if len(items) > 1 or any(item.args.get("nulls_first") for item in items):
        raise refused(f"{wording(tree)} is ordered by {len(items)} columns", "order it by one, NULLs last")
    item = tree.this if ordered is None else ordered.this
    if isinstance(item, exp.Distinct) and len(item.expressions) != 1:
        raise refused(f"{wording(tree)} lists several columns", "join them with ||")
    return item, items, mark


_REDUCERS: dict[type[exp.Expr], Callable[[SelectCompiler, exp.Expr], tuple[Reducer, tuple[Expr, ...], str]]] = {
    exp.Sum: _plain(reduction.total),
    exp.Avg: _plain(reduction.mean_rows, NUMBER),
    exp.Min: _extreme(reduction.smallest),
    exp.Max: _extreme(reduction.largest),
    exp.ArgMax: _at(reduction.at_largest),
    exp.ArgMin: _at(reduction.at_smallest),
    exp.AnyValue: _extreme(reduction.first),
    exp.First: _extreme(reduction.first),
    exp.LogicalAnd: _condition(reduction.every),
    exp.LogicalOr: _condition(reduction.some),
    exp.Median: _quantile,
    exp.Quantile: _quantile,
    exp.ApproxQuantile: _quantile,
    exp.PercentileCont: _quantile,
    exp.PercentileDisc: _quantile,
    exp.WithinGroup: _quantile,
    exp.Stddev: _spread(sample=True, root=True),
    exp.StddevSamp: _spread(sample=True, root=True),
    exp.StddevPop: _spread(sample=False, root=True),
    exp.Variance: _spread(sample=True, root=False),
    exp.VariancePop: _spread(sample=False, root=False),
    exp.GroupConcat: _listed,
    **dict.fromkeys(PAIRS, _pair),
}
FUNCTIONS = (*_RANKS, *_NEIGHBOURS, *_REDUCERS)
"""Window functions, and aggregates over the rows of a result."""


class RowCompiler(SelectCompiler):
    """Over the rows of a relation."""

    def __init__(self, planner: Planner, relation: Relation, aliases: Mapping[str, exp.Expr]) -> None:
        super().__init__(planner, relation.rows, aliases)
        self.relation = relation
        self.filters = list(relation.filters)

    @property
    def groups(self) -> Grouped | None:
        return self.relation.groups

    def exists(self) -> Expr | None:
        return self.relation.exists()

    def column(self, tree: exp.Column) -> Expr:
        only(tree, "this", "table")
        if not isinstance(tree.this, exp.Identifier):
            raise self.unusable(tree.this)
        owner = tree.args.get("table")
        found = self.relation.find(tree.name, None if owner is None else owner.name)
        if found is not None:
            return found.expr
        alias = self.alias(tree)
        if alias is not None:
            return alias
        return self.relation.column(tree.name, None if owner is None else owner.name, tree).expr

    def special(self, tree: exp.Expr) -> Expr | None:
        if is_aggregate(tree) or isinstance(tree, exp.Filter):
            raise refused(
                f"{wording(tree)} is an aggregate, and this is evaluated for each row", "use HAVING, or a subquery"
            )
        return None


class GroupedRowCompiler(SelectCompiler):
    """Over groups of the rows of a relation."""

    def __init__(self, inner: RowCompiler, keys: Sequence[exp.Expr], aliases: Mapping[str, exp.Expr]) -> None:
        found = [(tree, inner.expr(tree)) for tree in keys]
        codes = [key_codes(expr, f"GROUP BY {wording(tree)}") for tree, expr in found]
        self.index, first = row_groups(codes, inner.rows)
        if not codes:
            first = first[: min(1, inner.rows)]
        super().__init__(inner.planner, len(first) if codes else 1, aliases)
        self.members = inner
        self.meter.charge(10 * (1 + inner.rows // CELLS_A_STEP))
        self._keys = [(tree, take(expr, first)) for tree, expr in found]
        self._sources = [expr for _, expr in found]
        self._sums: dict[str, Expr] = {}

    def exists(self) -> Expr | None:
        """A group is there if one of its rows is."""
        if not self._keys:
            return None
        presence = self.members.relation.presence()
        if presence is None:
            return None
        counted = Reduced(reduction.count_rows, (), presence, self.index, self.rows, INTEGER)
        return Computed(positive, (counted,), self.rows, TRUTH)

    def column(self, tree: exp.Column) -> Expr:
        key = self._key(tree)
        if key is not None:
            return key
        if self.members.relation.find(tree.name, tree.text("table") or None) is None:
            alias = self.alias(tree)
            if alias is not None:
                return alias
            self.members.column(tree)
        raise refused(f"{wording(tree)} is neither grouped nor aggregated", f"add GROUP BY {tree.name}, or use MAX")

    def _key(self, tree: exp.Expr) -> Expr | None:
        self.meter.charge(COMPARED_STEPS * len(self._keys))
        if isinstance(tree, exp.Column):
            field = self.members.relation.find(tree.name, tree.text("table") or None)
            if field is not None:
                for (_, own), source in zip(self._keys, self._sources, strict=True):
                    if source is field.expr:
                        return own
        return next((own for known, own in self._keys if type(known) is type(tree) and known == tree), None)

    def special(self, tree: exp.Expr) -> Expr | None:
        if not isinstance(tree, (exp.Literal, exp.Paren)) and (key := self._key(tree)) is not None:
            return key
        kept = None
        function = tree
        if isinstance(tree, exp.Filter):
            only(tree, "this", "expression")
            function, kept = tree.this, tree.expression.this
        while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
            function = function.this
        if not (is_aggregate(function) or isinstance(function, exp.WithinGroup)):
            return None
        return self._aggregate(function, kept)

    def _aggregate(self, function: exp.Expr, kept: exp.Expr | None) -> Expr:
        reducer, operands, kind = self.members.reducer(function)
        presence = self.members.relation.presence()
        tight = None
        if kept is not None:
            condition = self.members.condition(kept)
            presence = presence_of([condition, *([] if presence is None else [presence])], self.members.rows)
        elif isinstance(function, exp.Sum) and not self.members.relation.filters:
            tight = self._tight_sum(operands[0])
        self.meter.charge(10 * (1 + self.members.rows // CELLS_A_STEP))
        return Reduced(reducer, operands, presence, self.index, self.rows, kind, tight)

    def _tight_sum(self, operand: Expr) -> Expr | None:
        """Over all groups of a scan, or over coarser ones by some of its keys."""
        groups = self.members.groups
        if groups is None or not isinstance(operand, Sum):
            return None
        kept = [groups.key(source) for source in self._sources]
        if any(key is None for key in kept):
            return None
        coarse, index = groups.scan.coarser([key for key in kept if key is not None])
        places = np.zeros(self.rows, dtype=np.int64)
        places[self.index] = index
        return take(coarsened(operand, groups.scan, coarse), places)


def positive(vector: Vector) -> Vector:
    numbers = to_interval(vector)
    never = np.zeros(len(numbers.value), dtype=bool)
    return Truth((numbers.value >= 0.5).astype(float), numbers.high > 0, ~(numbers.low > 0), never)


def settled_truth(vector: Vector) -> Truth:
    """What is not true is false."""
    return to_truth(vector).is_true()


def or_zero(vector: Vector) -> Vector:
    """A sum of no records is zero."""
    numbers = to_interval(vector)
    return numbers.filled(Interval.exactly(0.0, len(numbers.value)))


def repeated_row(expr: Expr, rows: int) -> Expr:
    """The single row of a table beside every row of another."""
    vector = expr.known
    return Repeated(expr, rows) if vector is None else Known(vector.spread(rows), expr.kind)
