"""Aggregates over records: COUNT, SUM, AVG and the like, compiled to measures of each group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain import Numeric
from reticent.queries import Everything, Predicate, all_of
from reticent.queries.forms import allowed_codes, bin_ends, bin_reach, scaled_numbers
from reticent.sql import distribution, moments
from reticent.sql.builder import NODE_STEPS
from reticent.sql.cells import on_cells
from reticent.sql.conditions import condition
from reticent.sql.constants import is_constant, number
from reticent.sql.expressions import Clipped, Computed, Expr, Extent, Known, MeanExpr, Partly, Sum
from reticent.sql.grouping import ColumnKey, compile_steps, reachable
from reticent.sql.refusals import only, refused, refused_node, wording
from reticent.sql.scan import HALF, Scan
from reticent.sql.scope import CutError, Scope, Selection, both
from reticent.sql.sums import NonLinearError, Piece, any_piece, not_null, pieces, present_where
from reticent.sql.variables import Variable, blur_total, present_numbers, sum_of
from reticent.sql.vectors import INTEGER, NUMBER, TRUTH, Bins, Labels, Truth, Vector, kind_of, to_interval, value_at

_OTHER_NAMES = {
    "FSUM": exp.Sum,
    "KAHAN_SUM": exp.Sum,
    "SUMKAHAN": exp.Sum,
    "FAVG": exp.Avg,
    "EVERY": exp.LogicalAnd,
}
_POPULATION = "KURTOSIS_POP"


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node itself is a function of many rows."""
    if isinstance(node, (exp.AggFunc, exp.CountIf)):
        return True
    return isinstance(node, exp.Anonymous) and node.name.upper() in {
        *_OTHER_NAMES,
        *(_POPULATION, "SEM", "PRODUCT", "MAD", "ENTROPY"),
    }


def has_aggregate(tree: exp.Expr) -> bool:
    """Whether an aggregate occurs in it that is not a window function's own, nor a subquery's."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Query):
            continue
        if isinstance(node, exp.Window):
            waiting += _window_arguments(node)
        elif is_aggregate(node):
            return True
        else:
            waiting += list(node.iter_expressions())
    return False


def _window_arguments(node: exp.Window) -> list[exp.Expr]:
    """What stands inside a window function and its clause, without the function itself."""
    function = node.this
    while isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        function = function.this
    listed = list(function.iter_expressions())
    listed += [child for key, child in _clauses(node)]
    return listed


def _clauses(node: exp.Window) -> list[tuple[str, exp.Expr]]:
    found = [("partition_by", item) for item in node.args.get("partition_by") or ()]
    return found + ([("order", node.args["order"])] if node.args.get("order") is not None else [])


class Aggregator:
    """Compiles the aggregates of one scan."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.cuts: list[str] = []
        """Conditions that cut bins, told with the result."""
        self.declared: list[str] = []
        """Values that are the declared range's."""

    @property
    def scope(self) -> Scope:
        return self.scan.scope

    def aggregate(self, tree: exp.Expr) -> Expr:
        """One number per group."""
        kept: Selection | None = None
        if isinstance(tree, exp.Filter):
            only(tree, "this", "expression")
            kept = self._condition(tree.expression.this)
            tree = tree.this
        if isinstance(tree, (exp.IgnoreNulls, exp.RespectNulls)):
            tree = tree.this
        self.scan.meter.charge(NODE_STEPS)
        where = self.scan.where if kept is None else both((self.scan.where, kept))
        self.scan.meter.charge(where.true.size)
        if not where.exact and where.cut not in self.cuts:
            self.cuts.append(where.cut)
        if isinstance(tree, (exp.Sum, exp.Avg)):
            tree = self._counting_truth(tree)
        handler = _HANDLERS.get(type(tree))
        if isinstance(tree, exp.Anonymous) and len(tree.expressions) == 1:
            if tree.name.upper() in _OTHER_NAMES:
                tree = _OTHER_NAMES[tree.name.upper()](this=tree.expressions[0])
                handler = _HANDLERS[type(tree)]
            elif tree.name.upper() == _POPULATION:
                return self._shape(tree.expressions[0], where, _POPULATION)
        if handler is None:
            raise refused_node(tree, "use COUNT, SUM, AVG, MEDIAN, STDDEV, CORR or COUNT(*) ... GROUP BY the column")
        return handler(self, tree, where)

    def _counting_truth(self, tree: exp.Expr) -> exp.Expr:
        """SUM and AVG of a column of truth values: true is 1, false 0."""
        column = tree.this
        if not isinstance(column, exp.Column) or not isinstance(self.scope.columns.get(column.name.lower()), str):
            return tree
        if kind_of(self.scan.domain[self.scope.attribute(column)]) != TRUTH:
            return tree
        return type(tree)(this=exp.cast(column.copy(), "int"))

    def _condition(self, tree: exp.Expr) -> Selection:
        tree, scope = self.scope.inlined(tree)
        return condition(tree, scope)

    def count(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this", "big_int", "expressions")
        if tree.expressions:
            raise refused(f"{wording(tree)} counts several columns at once", "use COUNT(*) FILTER (WHERE ...)")
        if isinstance(tree.this, exp.Distinct):
            return self.distinct(tree, where)
        counted: Predicate = Everything()
        if isinstance(tree.this, exp.Star):
            only(tree.this)
        elif tree.this is not None:
            counted = self._present(tree.this, where)
        return self.scan.number_of(both((where, Selection(counted))))

    def _present(self, tree: exp.Expr, where: Selection) -> Predicate:
        tree, scope = self.scope.inlined(tree)
        try:
            return present_where(tree, scope)
        except (NonLinearError, CutError):
            return _not_null(tree, scope, where.widest)

    def count_if(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this")
        selected = both((where, self._condition(tree.this)))
        if not selected.exact and selected.cut not in self.cuts:
            self.cuts.append(selected.cut)
        return self.scan.number_of(selected)

    def sum(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this")
        if where.exact:
            return self._sum(tree.this, where.true)
        opened = where.open(self.scan.domain)
        sure, open_ = self._sum(tree.this, where.true), self._sum(tree.this, opened)
        least, most = self._extent(tree.this, where.widest)
        return Partly(sure, open_, self.scan.count(opened), where.share, least, most)

    def mean(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this")
        if where.exact:
            return self._mean(tree, where.true)
        total, (low, high) = self.sum(exp.Sum(this=tree.this.copy()), where), self._extent(tree.this, where.widest)
        counted = self.scan.number_of(both((where, Selection(self._present(tree.this, where)))))
        quotient = Computed(_quotient, (total, counted), self.scan.rows, NUMBER, joint=True)
        found = self._pieces(tree.this, where.widest)
        extent = None if isinstance(found, Variable) else self._allowed_extent(self._listed(found, where.widest))
        return Clipped(quotient, low, high, extent)

    def _pieces(self, tree: exp.Expr, where: Predicate) -> list[Piece] | Variable:
        """A sum of columns, or any number that is bounded in each cell of a selection."""
        tree, scope = self.scope.inlined(tree)
        try:
            return pieces(tree, scope)
        except (NonLinearError, CutError):
            return Variable.of(tree, scope, where)

    def _sum(self, tree: exp.Expr, where: Predicate) -> Sum:
        found = self._pieces(tree, where)
        if isinstance(found, Variable):
            return sum_of(self.scan, found, where)
        return self._linear(self._listed(found, where), self._kind(tree))

    def _kind(self, tree: exp.Expr) -> str:
        """Whole where every column and constant in it is."""
        tree, scope = self.scope.inlined(tree)
        for node in tree.walk():
            if isinstance(node, exp.Column) and kind_of(scope.domain[scope.attribute(node)]) != INTEGER:
                return NUMBER
            if isinstance(node, exp.Div) or (isinstance(node, exp.Literal) and not str(node.this).isdigit()):
                return NUMBER
        return INTEGER

    def _listed(self, found: list[Piece], where: Predicate) -> list[Piece]:
        self.scan.meter.charge(sum(where.size + piece.where.size for piece in found))
        return [piece.within(where) for piece in found]

    def _linear(self, listed: list[Piece], kind: str = NUMBER) -> Sum:
        """SUM = n * (lower * present + (upper - lower) * total) for each column (see `queries.Total`)."""
        domain, total = self.scan.domain, Sum((), self.scan.rows, kind)
        for piece in listed:
            flat = piece.constant
            for name, coefficient in piece.columns.items():
                _, lower, upper = scaled_numbers(domain, name)
                flat += coefficient * lower
                if coefficient * (upper - lower):
                    place = self.scan.place(piece.present(domain, apart_from=name), name)
                    blur_total(self.scan, place, name, piece.present(domain))
                    total = total.plus(Sum(((coefficient * (upper - lower), place),), self.scan.rows))
            if flat:
                place = self.scan.place(piece.present(domain))
                total = total.plus(Sum(((flat, place),), self.scan.rows))
        return total

    def _radius(self, piece: Piece) -> float:
        """How far a record's number may lie from that of its bins' representatives."""
        domain = self.scan.domain
        form = piece.present(domain).compile(domain)
        return sum(abs(weight) * bin_reach(form, name, domain)[0] for name, weight in piece.columns.items())

    def _mean(self, tree: exp.Expr, where: Predicate) -> MeanExpr:
        found, domain = self._pieces(tree.this, where), self.scan.domain
        if isinstance(found, Variable):
            cells = found.within(where)
            if not cells.any():
                raise refused(f"{wording(tree)} has no value for any record", "name a column")
            low, high = float(found.numbers.low[cells].min()), float(found.numbers.high[cells].max())
            bottom = self.scan.place(all_of((where, found.present)))
            return MeanExpr(sum_of(self.scan, found, where), bottom, low, high, float(found.radii[cells].max()))
        if not found:
            raise refused(f"{wording(tree)} has no value for any record", "name a column")
        listed = self._listed(found, where)
        extents = [piece.extent(domain) for piece in listed]
        bottom = self.scan.place(any_piece(listed, domain))
        low, high = min(low for low, _ in extents), max(high for _, high in extents)
        radius, extent = max(map(self._radius, listed)), self._allowed_extent(listed)
        return MeanExpr(self._linear(listed), bottom, low, high, radius, extent=extent)

    def _allowed_extent(self, listed: list[Piece]) -> Extent | None:
        """Between which numbers the mean of each group lies, by the bins that conditions and groups allow."""
        ends = [self._piece_extent(piece) for piece in listed]
        if not ends:
            return None
        return Extent(np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0))

    def _piece_extent(self, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
        least = most = np.full(self.scan.rows, piece.constant)
        present = piece.present(self.scan.domain)
        for name, coefficient in piece.columns.items():
            ends = self._column_extent(name, present)
            low, high = ends if coefficient >= 0 else ends[::-1]
            least, most = least + coefficient * low, most + coefficient * high
        return least, most

    def _column_extent(self, name: str, present: Predicate) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and largest number that a column can have in each group."""
        domain, grouping, meter = self.scan.domain, self.scan.grouping, self.scan.meter
        attribute, (_, lower, upper) = domain[name], scaled_numbers(domain, name)
        numbers, cells = attribute.representatives, domain.cells(grouping.columns)
        assert numbers is not None, "scaled"
        ends = np.array([bin_ends(attribute, code) for code in range(attribute.known)])
        if name in grouping.columns:
            codes = grouping.codes(ColumnKey(name), grouping.rows)
            inside = codes < attribute.known
            own = ends[np.where(inside, codes, 0)].T
            return np.where(inside, own[0], lower), np.where(inside, own[1], upper)
        found = []
        for chosen in grouping.combinations:
            where = all_of((present, chosen))
            meter.charge(compile_steps(where, domain, cells))
            allowed = allowed_codes(where.compile(domain, meter), name, domain)[: attribute.known]
            reached = ends[allowed & ~np.isnan(numbers[: attribute.known])]
            low, high = (float(reached[:, 0].min()), float(reached[:, 1].max())) if len(reached) else (lower, upper)
            found.append(np.tile([[low], [high]], cells))
        least, most = np.concatenate(found, axis=1)[:, grouping.rows]
        return least, most

    def _extent(self, tree: exp.Expr, where: Predicate) -> tuple[float, float]:
        """The smallest and the largest number a record of a selection can have."""
        found = self._pieces(tree, where)
        if isinstance(found, Variable):
            if not found.mask.any():
                return 0.0, 0.0
            return float(found.numbers.low[found.mask].min()), float(found.numbers.high[found.mask].max())
        extents = [piece.extent(self.scan.domain) for piece in found]
        return min((low for low, _ in extents), default=0.0), max((high for _, high in extents), default=0.0)

    def extreme(self, tree: exp.Expr, where: Selection) -> Expr:
        """MIN and MAX: the declared range, which is public; what the rows themselves reach is not."""
        only(tree, "this", "expressions")
        if tree.expressions:
            raise refused(f"{wording(tree)} lists several records", "use MIN or MAX of the column")
        inner, scope = self.scope.inlined(tree.this)
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            inner = inner.expressions[0]
        cells = on_cells(inner, scope)
        known = cells.known
        if known is None:
            raise refused(f"{wording(tree)} depends on a noisy value", "write the value itself")
        ends = _ends(known, self._allowed(cells, where), isinstance(tree, exp.Min))
        note = f"{wording(tree)} is of the declared values, which are public, not of the rows"
        if isinstance(inner, exp.Column) and isinstance(scope.domain[scope.attribute(inner)], Numeric):
            level = 0 if isinstance(tree, exp.Min) else 1
            note = f"{note}; QUANTILE_DISC({wording(inner)}, {level}) bounds that of the rows"
        if note not in self.declared:
            self.declared.append(note)
        return Known(Labels.constant(ends, self.scan.rows), known.kind, declared=note)

    def _allowed(self, cells: Any, where: Selection) -> np.ndarray:
        """Cells of an expression that a selection leaves."""
        domain, possible = self.scan.domain, where.widest
        if not cells.names:
            return np.ones(1, dtype=bool)
        return reachable(possible.compile(domain, self.scan.meter), cells.names, domain).ravel()

    def distinct(self, tree: exp.Expr, where: Selection) -> Expr:
        """COUNT(DISTINCT x) of categories: how many of them have a record."""
        counted = tree.this.expressions if isinstance(tree.this, exp.Distinct) else [tree.this]
        if len(counted) != 1 or isinstance(counted[0], exp.Tuple):
            listed = ", ".join(map(wording, counted))
            raise refused(
                f"COUNT(DISTINCT {listed}) counts combinations", "SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM ...)"
            )
        inner, scope = self.scope.inlined(counted[0])
        return distribution.distinct(self.scan, self._categories(inner, scope, tree), where.decided())

    def mode(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this")
        if tree.this is None:
            raise refused("MODE needs a column", "write MODE(column)")
        inner, scope = self.scope.inlined(tree.this)
        return distribution.mode(self.scan, self._categories(inner, scope, tree), where.decided())

    def _categories(self, tree: exp.Expr, scope: Scope, whole: exp.Expr) -> distribution.Categories:
        """An expression of one column that has one value for each code."""
        cells = on_cells(tree, scope)
        known = cells.known
        if known is None or len(cells.names) != 1:
            raise refused(f"{wording(whole)} needs one column", "name one, or use GROUP BY")
        if isinstance(known.vector, Bins) and known.vector.interval.decided.all():
            return distribution.Categories(cells.names[0], Labels.of(known.vector.listed()), known.kind)
        if not isinstance(known.vector, Labels) or known.vector.certain is not None:
            raise refused(
                f"{wording(whole)} depends on values within the bins of {cells.names[0]}",
                "COUNT(*) ... GROUP BY the column shows its whole distribution",
            )
        return distribution.Categories(cells.names[0], known.vector, known.kind)

    def median(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this")
        return self._quantile(tree, tree.this, 0.5, where, continuous=True)

    def quantile(self, tree: exp.Expr, where: Selection) -> Expr:
        """QUANTILE(x, p) and its relatives; QUANTILE alone is a value of the column, as in DuckDB."""
        only(tree, "this", "expression", "quantile", "accuracy", "weight")
        part = tree.args.get("expression") or tree.args.get("quantile")
        continuous = isinstance(tree, (exp.PercentileCont, exp.ApproxQuantile))
        return self._quantile(tree, tree.this, self._part(part, tree), where, continuous=continuous)

    def within_group(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this", "expression")
        function, order = tree.this, tree.expression
        items = order.expressions if isinstance(order, exp.Order) else []
        if len(items) != 1:
            raise refused(f"{wording(tree)} needs one column to order by", "write WITHIN GROUP (ORDER BY column)")
        column, descending = items[0].this, bool(items[0].args.get("desc"))
        if isinstance(function, exp.Mode):
            return self.mode(exp.Mode(this=column.copy()), where)
        if not isinstance(function, (exp.PercentileCont, exp.PercentileDisc)):
            raise refused_node(function, "use PERCENTILE_CONT or PERCENTILE_DISC")
        part = self._part(function.this, tree)
        continuous = isinstance(function, exp.PercentileCont)
        return self._quantile(tree, column, part, where, continuous=continuous, descending=descending)

    def _part(self, tree: exp.Expr | None, whole: exp.Expr) -> float:
        if tree is None or not is_constant(tree):
            raise refused(f"{wording(whole)} needs a constant between 0 and 1", "write QUANTILE_CONT(column, 0.5)")
        found = number(tree)
        if not 0 <= found <= 1:
            raise refused(f"{wording(whole)} needs a number between 0 and 1", "write QUANTILE_CONT(column, 0.5)")
        return found

    def _quantile(
        self,
        tree: exp.Expr,
        inner: exp.Expr,
        part: float,
        where: Selection,
        *,
        continuous: bool,
        descending: bool = False,
    ) -> Expr:
        inner, scope = self.scope.inlined(inner)
        cells = on_cells(inner, scope)
        known = cells.known
        if known is None or len(cells.names) != 1:
            raise refused(f"{wording(tree)} needs one column", "name one, or AVG, which takes any number")
        numbers = known.vector
        if isinstance(numbers, Labels) and any(isinstance(value, str) for value in numbers.values):
            raise refused(f"{wording(tree)} needs numbers or dates", "use MODE, or COUNT(*) ... GROUP BY the column")
        bounds = present_numbers(cells, inner, where.widest)
        return distribution.select_quantile(
            self.scan,
            distribution.Ordered(cells.names[0], bounds, known.kind),
            where.decided(),
            part,
            continuous=continuous,
            descending=descending,
        )

    def spread(self, tree: exp.Expr, where: Selection) -> Expr:
        only(tree, "this")
        sample = not isinstance(tree, (exp.StddevPop, exp.VariancePop))
        root = isinstance(tree, (exp.Stddev, exp.StddevPop, exp.StddevSamp))
        return moments.deviation(self.scan, self._variable(tree.this, where), where.decided(), sample=sample, root=root)

    def shape(self, tree: exp.Expr, where: Selection) -> Expr:
        """SKEWNESS and KURTOSIS."""
        only(tree, "this")
        return self._shape(tree.this, where, "SKEWNESS" if isinstance(tree, exp.Skewness) else "KURTOSIS")

    def _shape(self, tree: exp.Expr, where: Selection, what: str) -> Expr:
        return moments.shape(self.scan, self._variable(tree, where), where.decided(), what)

    def occurs(self, tree: exp.Expr, where: Selection) -> Expr:
        """BOOL_OR and BOOL_AND: whether a record has the condition, or one is against it."""
        only(tree, "this")
        inner = tree.this
        if isinstance(inner, exp.Distinct):
            raise refused(f"DISTINCT changes nothing in {wording(tree)}", "leave it out")
        sides = [both((where, self._condition(side))) for side in (inner, exp.Not(this=exp.Paren(this=inner.copy())))]
        for side in sides:
            if not side.exact and side.cut not in self.cuts:
                self.cuts.append(side.cut)
        counted = tuple(self.scan.number_of(side) for side in sides)
        function = _all_hold if isinstance(tree, exp.LogicalAnd) else _any_holds
        return Computed(function, counted, self.scan.rows, TRUTH)

    def pair(self, tree: exp.Expr, where: Selection) -> Expr:
        """COVAR, CORR and REGR: the first argument is y, the second x."""
        only(tree, "this", "expression", "null_on_zero_variance")
        second = tree.args.get("expression")
        if second is None:
            raise refused(f"{wording(tree)} needs two columns", "name both")
        y, x = self._variable(tree.this, where), self._variable(second, where)
        return moments.pair(self.scan, y, x, where.decided(), moments.PAIRS[type(tree)])

    def _variable(self, tree: exp.Expr, where: Selection) -> Variable:
        return Variable.of(tree, self.scope, where.widest)


def _quotient(total: Vector, counted: Vector) -> Vector:
    return to_interval(total) / to_interval(counted)


def _any_holds(those: Vector, others: Vector) -> Truth:
    """Whether one of those occurs; NULL where none of them and none of the others does."""
    one, other = to_interval(those), to_interval(others)
    value = np.where(one.value >= HALF, 1.0, np.where(other.value >= HALF, 0.0, np.nan))
    absent = ~(one.low > 0)
    return Truth(value, one.high > 0, absent & (other.high > 0), absent & ~(other.low > 0))


def _all_hold(those: Vector, others: Vector) -> Truth:
    return ~_any_holds(others, those)


def _not_null(tree: exp.Expr, scope: Scope, where: Predicate) -> Predicate:
    """Where any expression has a value, among the records of a selection."""
    if isinstance(tree, exp.Column):
        return not_null(scope.attribute(tree), scope.domain)
    cells = on_cells(tree, scope)
    known = cells.known
    if known is None:
        raise refused(
            f"{wording(tree)} combines values of records with a noisy value", "ask for it first, and write the value"
        )
    vector = known.vector
    if isinstance(vector, Labels):
        return cells.predicate(~vector.null)
    numbers = to_interval(vector)
    open_ = numbers.maybe_null & numbers.number
    if open_.any() and cells.names:
        open_ &= reachable(where.compile(scope.domain, scope.meter), cells.names, scope.domain).ravel()
    if open_.any():
        place = cells.bins_of(int(open_.argmax()))
        raise CutError(f"{wording(tree)} may be NULL within {place}; leave it out with WHERE, at the edges of bins")
    return cells.predicate(numbers.number)


def _ends(known: Known, allowed: np.ndarray, smallest: bool) -> Any:
    """The smallest or largest possible value among some cells."""
    if isinstance(known.vector, Labels):
        listed = {
            value for value in Labels(known.vector.codes[allowed], known.vector.values).listed() if value is not None
        }
        if not listed:
            return None
        return min(listed) if smallest else max(listed)
    numbers = to_interval(known.vector).take(np.flatnonzero(allowed))
    ends = numbers.low if smallest else numbers.high
    found = ends[~np.isnan(ends)]
    if not found.size:
        return None
    number = float(found.min() if smallest else found.max())
    return value_at(number, known.kind)


_HANDLERS: dict[type[exp.Expr], Callable[[Aggregator, Any, Selection], Expr]] = {
    exp.Count: Aggregator.count,
    exp.CountIf: Aggregator.count_if,
    exp.Sum: Aggregator.sum,
    exp.Avg: Aggregator.mean,
    exp.Min: Aggregator.extreme,
    exp.Max: Aggregator.extreme,
    exp.ApproxDistinct: Aggregator.distinct,
    exp.Mode: Aggregator.mode,
    exp.Median: Aggregator.median,
    exp.Quantile: Aggregator.quantile,
    exp.ApproxQuantile: Aggregator.quantile,
    exp.PercentileCont: Aggregator.quantile,
    exp.PercentileDisc: Aggregator.quantile,
    exp.WithinGroup: Aggregator.within_group,
    **dict.fromkeys((exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop), Aggregator.spread),
    **dict.fromkeys(moments.PAIRS, Aggregator.pair),
    **dict.fromkeys((exp.Skewness, exp.Kurtosis), Aggregator.shape),
    **dict.fromkeys((exp.LogicalAnd, exp.LogicalOr), Aggregator.occurs),
}
AGGREGATES = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, *_HANDLERS)
"""Nodes that a scan compiles as a whole."""
