"""Compilation of SQL trees to expressions over one row set: constants, operators, conditions, CASE and casts.

Each row set defines the meaning of names and aggregates (`leaf`); everything else has the same meaning over the groups
of a result and over the cells of the domain.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sqlglot import exp

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql import logic, scalars
from reticent.sql.calendar import to_date, to_moment, to_timestamp
from reticent.sql.constants import literal_value
from reticent.sql.expressions import Computed, Expr, Known, Sum, constant_expr
from reticent.sql.intervals import Interval
from reticent.sql.refusals import CELLS_A_STEP, Meter, only, refused, refused_node, wording
from reticent.sql.vectors import (
    DATE,
    DAY,
    DURATION,
    INTEGER,
    NULL,
    NUMBER,
    NUMERIC,
    TEMPORAL,
    TEXT,
    TIMESTAMP,
    TRUTH,
    Bins,
    Labels,
    Truth,
    Vector,
    computed_kind,
    settled,
    to_interval,
    value_at,
)
from reticent.sql.windows import Neighbour

NODE_STEPS = 10
"""Of reading one operation."""
FOLDED_ROWS = 25
"""Rows of a public column that are computed in one step."""
VALUE_STEPS = 6
"""Of computing one known value."""
_NEAREST = "use COUNT, SUM, AVG and other aggregates, columns of GROUP BY, constants, and functions of these"


def _shows_bins(expr: Expr) -> bool:
    """Whether it is a bin of some row, such as LAG of a grouped number: a range, neither zero nor not."""
    known = expr.known
    if known is not None:
        return isinstance(known, Bins) or (isinstance(known, Labels) and any(isinstance(v, str) for v in known.values))
    return isinstance(expr, Neighbour) and any(map(_shows_bins, expr.operands))


@dataclass(frozen=True, eq=False)
class Function:
    """What an operation means on known values, and on bounded numbers where it has a bound there."""

    name: str
    scalar: Callable[..., Any]
    bounded: Callable[..., Vector] | None
    kind: str
    strict: bool = True
    """NULL where an operand is."""
    steps: int = VALUE_STEPS


class Duration(NamedTuple):
    """INTERVAL: months, and a fixed time."""

    months: int
    microseconds: int


class Builder:
    """Compiles the operators of one row set; `reticent.sql.functions` adds named functions."""

    handlers: ClassVar[Mapping[type[exp.Expr], Callable[[Any, exp.Expr], Expr]]] = {}

    def __init__(self, rows: int, meter: Meter) -> None:
        self.rows = rows
        self.meter = meter

    def leaf(self, tree: exp.Expr) -> Expr | None:
        """What the row set itself knows: names, aggregates, window functions, subqueries; None for all else."""
        raise NotImplementedError

    def expr(self, tree: exp.Expr) -> Expr:
        """One column."""
        self.meter.charge(NODE_STEPS)
        found = self.leaf(tree)
        if found is not None:
            return found
        handler = self.handlers.get(type(tree))
        if handler is None:
            raise self.unusable(tree)
        return handler(self, tree)

    def unusable(self, tree: exp.Expr) -> QueryError:
        return refused_node(tree, _NEAREST)

    def constant(self, value: Any, kind: str) -> Known:
        return constant_expr(value, kind, self.rows)

    def condition(self, tree: exp.Expr) -> Expr:
        """A column of truth values."""
        found = self.expr(tree)
        if found.kind not in (*NUMERIC, NULL) or (found.known is None and _shows_bins(found)):
            raise refused(f"{wording(tree)} is not a condition", "compare it with a value")
        return found

    def known_value(self, tree: exp.Expr, what: str) -> Any:
        """A constant argument."""
        found = self.expr(tree)
        value = constant_of(found)
        if value is NOT_CONSTANT:
            raise refused(f"{what} {wording(tree)} is not a constant", "write the value itself")
        return value

    def call(self, function: Function, operands: Sequence[Expr], tree: exp.Expr) -> Expr:
        """A function of columns, computed now if all of them are public."""
        known = [operand.known for operand in operands]
        if all(vector is not None for vector in known):
            return self._folded(function, known, operands, tree)  # type: ignore[arg-type]
        if function.bounded is None:
            raise refused(f"{wording(tree)}: {function.name} needs known values, not noisy ones", _NEAREST)
        for operand in operands:
            if operand.kind not in (*NUMERIC, *TEMPORAL, NULL):
                raise refused(f"{wording(tree)} computes with {_article(operand.kind)}", "use numbers")
        self.meter.charge(NODE_STEPS + self.rows // CELLS_A_STEP)
        bounded = function.bounded
        return Computed(
            lambda *vectors: bounded(*map(to_interval, vectors)),  # type: ignore[arg-type, return-value]
            tuple(operands),
            self.rows,
            function.kind,
            joint=bounded is Interval.__truediv__ and operands[1].known is None,
        )

    def _folded(self, function: Function, vectors: Sequence[Vector], operands: Sequence[Expr], tree: exp.Expr) -> Known:
        self.meter.charge(NODE_STEPS + self.rows // FOLDED_ROWS)
        cut = next((operand.cut for operand in operands if isinstance(operand, Known) and operand.cut), "")
        declared = next((o.declared for o in operands if isinstance(o, Known) and o.declared), "")
        if all(isinstance(vector, Labels) for vector in vectors):
            typed = [_typed(vector, operand.kind) for vector, operand in zip(vectors, operands, strict=True)]  # type: ignore[arg-type]
            return Known(self.mapped(function, typed), function.kind, cut, declared)
        if function.bounded is None:
            labels = [_likely(vector, operand.kind) for vector, operand in zip(vectors, operands, strict=True)]
            return Known(self.mapped(function, labels), function.kind, _cut_text(operands), declared)
        found = function.bounded(*map(to_interval, vectors))
        return Known(settled(found, function.kind), function.kind, _cut_text(operands, found), declared)

    def mapped(self, function: Function, vectors: Sequence[Labels]) -> Labels:
        """A function of known values, computed once for each combination of them that occurs."""
        certain: np.ndarray | None = None
        for vector in vectors:
            if vector.certain is not None:
                certain = vector.certain if certain is None else certain & vector.certain
        several = [vector for vector in vectors if len(vector.values) > 1]
        if len(several) <= 1:
            codes = several[0].codes if several else np.broadcast_to(np.int64(0), self.rows)
            choices = [[place] for place in range(len(several[0].values))] if several else [[]]
        else:
            sizes = [len(vector.values) for vector in several]
            if math.prod(sizes) > 2**62:
                raise refused("an expression combines too many values", "ask its parts one by one")
            joint = np.ravel_multi_index([vector.codes for vector in several], sizes)
            distinct, codes = np.unique(joint, return_inverse=True)
            choices = np.stack(np.unravel_index(distinct, sizes), axis=1).tolist()
        self.meter.charge(function.steps * len(choices))
        results = []
        for choice in choices:
            picks = iter(choice)
            arguments = [v.values[next(picks) if len(v.values) > 1 else 0] for v in vectors]
            missing = function.strict and any(argument is None for argument in arguments)
            results.append(None if missing else function.scalar(*arguments))
        outcome = Labels.of(results)
        return Labels(outcome.codes[codes], outcome.values, certain)

    # What the handlers of all row sets share.

    def arithmetic(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expression", "typed", "safe")
        return self.combined(tree, *read_texts(self.expr(tree.this), self.expr(tree.expression)))

    def combined(self, tree: exp.Expr, left: Expr, right: Expr) -> Expr:
        """+ - * / of numbers; sums of measures are combined before errors are."""
        kind = _arithmetic_kind(tree, left, right)
        if isinstance(left, Sum) and isinstance(right, Sum) and isinstance(tree, (exp.Add, exp.Sub)):
            self.meter.charge(len(left.terms) + len(right.terms))
            return left.plus(right.times(-1.0 if isinstance(tree, exp.Sub) else 1.0, kind), kind)
        if isinstance(tree, exp.Mul):
            one, other = (right, left) if isinstance(right, Sum) else (left, right)
            factor = constant_of(other)
            if isinstance(one, Sum) and is_number(factor):
                self.meter.charge(len(one.terms))
                return one.times(float(factor), kind)
        if isinstance(tree, (exp.Div, exp.IntDiv, exp.Mod)) and is_number(value := constant_of(right)) and value == 0:
            raise refused(f"{wording(tree)} divides by zero", "use another divisor")
        scalar, bounded = _OPERATIONS[type(tree)]
        if isinstance(tree, exp.IntDiv) and kind == NUMBER:
            bounded = Interval.__truediv__
        return self.call(Function(tree.key, scalars.guarded(scalar), bounded, kind), (left, right), tree)

    def negative(self, tree: exp.Expr) -> Expr:
        only(tree, "this")
        inner = self.expr(tree.this)
        if isinstance(inner, Sum):
            return inner.times(-1.0, inner.kind)
        kind = computed_kind(inner.kind)
        return self.call(Function("-", scalars.guarded(scalars.negative), Interval.__neg__, kind), (inner,), tree)

    def inner(self, tree: exp.Expr) -> Expr:
        only(tree, "this")
        return self.expr(tree.this)

    def literal(self, tree: exp.Expr) -> Expr:
        value = literal_value(tree)
        return self.constant(value, kind_of_value(value))

    # Conditions.

    def junction(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expression")
        parts = [self.condition(part) for part in flat(tree, type(tree))]
        join = logic.all_true if isinstance(tree, exp.And) else logic.any_true
        return self.judged(join, parts)

    def negation(self, tree: exp.Expr) -> Expr:
        only(tree, "this")
        return self.judged(logic.negation, (self.condition(tree.this),))

    def judged(self, function: Callable[..., Truth], operands: Sequence[Expr]) -> Expr:
        """A condition made of others."""
        self.meter.charge(NODE_STEPS + len(operands) * (1 + self.rows // FOLDED_ROWS))
        vectors = [operand.known for operand in operands]
        if all(vector is not None for vector in vectors):
            cut = next((operand.cut for operand in operands if isinstance(operand, Known) and operand.cut), "")
            return Known(settled(function(*vectors), TRUTH), TRUTH, cut)  # type: ignore[arg-type]
        return Computed(function, tuple(operands), self.rows, TRUTH, 4 * len(operands))

    def comparison(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expression")
        left, right = self.expr(tree.this), self.expr(tree.expression)
        return self.compared(type(tree), left, right, tree)

    def compared(self, sign: type[exp.Expr], left: Expr, right: Expr, tree: exp.Expr) -> Expr:
        left, right = self.alike(left, right, tree)
        discrete = left.kind in (INTEGER, DATE, TRUTH) and right.kind in (INTEGER, DATE, TRUTH)
        function = logic.comparison(sign, discrete=discrete, spread=left.known is not None and right.known is not None)
        found = self.judged(function, (left, right))
        if isinstance(found, Known) and isinstance(found.vector, Truth):
            where = _cut_text((left, right), found.vector)
            return Known(found.vector, TRUTH, f"{wording(tree)} cuts {where or 'a bin'}; use the edges of bins")
        return found

    def alike(self, left: Expr, right: Expr, tree: exp.Expr) -> tuple[Expr, Expr]:
        """Two columns that can be compared: text beside a date or number is read as one."""
        left, right = read_texts(left, right)
        kinds = {left.kind, right.kind} - {NULL}
        if kinds == {DATE, TIMESTAMP}:
            left, right = (self.as_days(side) if side.kind == TIMESTAMP else side for side in (left, right))
            return left, right
        families = {
            TEXT if kind == TEXT else "time" if kind in TEMPORAL else kind if kind == DURATION else NUMBER
            for kind in kinds
        }
        if len(families) > 1:
            raise refused(f"{wording(tree)} compares values of different kinds", "compare like with like")
        return left, right

    def as_days(self, side: Expr) -> Expr:
        function = Function("days", to_date, lambda numbers: numbers * Interval.exactly(1 / DAY, self.rows), DATE)
        vector = side.known
        if isinstance(vector, Labels) and all(v is None or v == to_timestamp(to_date(v)) for v in vector.values):
            return Known(self.mapped(function, (vector,)), DATE)
        if vector is not None:
            return Known(function.bounded(to_interval(vector)), DATE)  # type: ignore[misc, arg-type]
        return Computed(lambda numbers: function.bounded(to_interval(numbers)), (side,), self.rows, DATE)  # type: ignore[misc, arg-type, return-value]

    def between(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "low", "high")
        middle = self.expr(tree.this)
        above = self.compared(exp.GTE, middle, self.expr(tree.args["low"]), tree)
        below = self.compared(exp.LTE, middle, self.expr(tree.args["high"]), tree)
        return self.judged(logic.all_true, (above, below))

    def listed(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expressions")
        if not tree.expressions:
            raise refused(f"{wording(tree)} lists nothing", "list at least one value")
        left = self.expr(tree.this)
        self.meter.charge(NODE_STEPS * len(tree.expressions))
        tests = [self.compared(exp.EQ, left, self.expr(item), tree) for item in tree.expressions]
        return self.judged(logic.any_true, tests)

    def is_(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expression")
        right = tree.expression
        if isinstance(right, exp.Null):
            return self.judged(logic.is_null, (self.expr(tree.this),))
        if isinstance(right, exp.Boolean):
            inner = self.condition(tree.this)
            return self.judged(logic.is_true if right.this else logic.is_false, (inner,))
        raise refused_node(tree, "use IS NULL, IS TRUE or a comparison")

    def distinct_from(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expression")
        left, right = self.alike(self.expr(tree.this), self.expr(tree.expression), tree)
        same = self.judged(logic.same, (left, right))
        return same if isinstance(tree, exp.NullSafeEQ) else self.judged(logic.negation, (same,))

    # Choices.

    def case(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "ifs", "default")
        subject = None if tree.this is None else self.expr(tree.this)
        tests, values = [], []
        for branch in tree.args["ifs"]:
            only(branch, "this", "true")
            if subject is None:
                tests.append(self.condition(branch.this))
            else:
                tests.append(self.compared(exp.EQ, subject, self.expr(branch.this), branch))
            values.append(self.expr(branch.args["true"]))
        default = tree.args.get("default")
        values.append(self.constant(None, NULL) if default is None else self.expr(default))
        return self.chosen(tests, values, tree)

    def if_(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "true", "false")
        other = tree.args.get("false")
        values = [self.expr(tree.args["true"]), self.constant(None, NULL) if other is None else self.expr(other)]
        return self.chosen([self.condition(tree.this)], values, tree)

    def chosen(self, tests: Sequence[Expr], values: Sequence[Expr], tree: exp.Expr) -> Expr:
        """The value of the first test that holds, else the last one."""
        kind, values = self.common(values, tree)
        self.meter.charge(NODE_STEPS + len(tests) * (1 + self.rows // FOLDED_ROWS))
        count = len(tests)
        operands = (*tests, *values)
        vectors = [operand.known for operand in operands]

        def pick(*found: Vector) -> Vector:
            return logic.first_true(found[:count], found[count:], kind)

        if all(vector is not None for vector in vectors):
            picked = pick(*vectors)  # type: ignore[arg-type]
            cut = next((operand.cut for operand in operands if isinstance(operand, Known) and operand.cut), "")
            return Known(settled(picked, kind), kind, cut)
        return Computed(pick, operands, self.rows, kind, 8 * count)

    def coalesced(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expressions")
        kind, values = self.common([self.expr(item) for item in (tree.this, *tree.expressions)], tree)
        if kind == TEXT or all(isinstance(value.known, Labels) for value in values):
            vectors = [value.known for value in values]
            function = Function("COALESCE", scalars.first_known, None, kind, strict=False)
            if all(isinstance(vector, Labels) for vector in vectors):
                return Known(self.mapped(function, vectors), kind)  # type: ignore[arg-type]
            return Computed(
                lambda *found: self.mapped(function, logic.as_labels(found)), tuple(values), self.rows, kind
            )
        return self.call(
            Function("COALESCE", scalars.first_known, logic.first_number, kind, strict=False), values, tree
        )

    def extreme(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expressions", "ignore_nulls")
        kind, values = self.common([self.expr(item) for item in (tree.this, *tree.expressions)], tree)
        largest = isinstance(tree, exp.Greatest)
        scalar, pick = (scalars.greatest, Interval.largest) if largest else (scalars.least, Interval.smallest)
        return self.call(Function(tree.key.upper(), scalar, logic.folded(pick), kind, strict=False), values, tree)

    def nullified(self, tree: exp.Expr) -> Expr:
        only(tree, "this", "expression")
        left, right = self.alike(self.expr(tree.this), self.expr(tree.expression), tree)
        function = Function("NULLIF", scalars.unless_equal, Interval.without, left.kind, strict=False)
        return self.call(function, (left, right), tree)

    def common(self, values: Sequence[Expr], tree: exp.Expr) -> tuple[str, list[Expr]]:
        """One kind for the branches of a choice."""
        kinds = {value.kind for value in values} - {NULL}
        if TEXT in kinds and kinds - {TEXT}:
            raise refused(f"{wording(tree)} mixes text and numbers", "use one kind of value")
        if kinds & {DATE, TIMESTAMP} and kinds & {*NUMERIC, DURATION}:
            raise refused(f"{wording(tree)} mixes dates and numbers", "use one kind of value")
        if kinds == {DATE, TIMESTAMP}:
            return DATE, [self.as_days(value) if value.kind == TIMESTAMP else value for value in values]
        if len(kinds) == 1:
            return kinds.pop(), list(values)
        return (NULL if not kinds else INTEGER if kinds <= {INTEGER, TRUTH} else NUMBER), list(values)


def _typed(vector: Labels, kind: str) -> Labels:
    """Values of the column's type: among numbers that are not whole each one is a float, as `//` and CAST see it."""
    if kind != NUMBER:
        return vector
    return Labels(vector.codes, tuple(float(v) if isinstance(v, int) else v for v in vector.values), vector.certain)


def _likely(vector: Vector, kind: str) -> Labels:
    """A column as single values: that of the representative where a bin holds several, which is then not certain."""
    if isinstance(vector, Labels):
        return _typed(vector, kind)
    if isinstance(vector, Truth):
        return vector.labelled()
    numbers = to_interval(vector)
    distinct, codes = np.unique(numbers.value, return_inverse=True)
    decided = numbers.decided
    values = tuple(value_at(float(number), kind) for number in distinct)
    return Labels(codes.astype(np.int64), values, None if decided.all() else decided)


class _NotConstant:
    pass


NOT_CONSTANT = _NotConstant()


def constant_of(expr: Expr) -> Any:
    """The one value of a constant column."""
    vector = expr.known
    if isinstance(vector, Labels) and len(vector.values) == 1 and vector.certain is None:
        return vector.values[0]
    return NOT_CONSTANT


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def kind_of_value(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, (int, float)):
        return INTEGER if isinstance(value, int) else NUMBER
    if isinstance(value, datetime.datetime):
        return TIMESTAMP
    if isinstance(value, datetime.date):
        return DATE
    return DURATION if isinstance(value, Duration) else TEXT


def flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Operands of a chain of ANDs or ORs, which sqlglot nests to the left; no recursion, for chains are long."""
    parts: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if type(current) is kind:
            waiting += [current.expression, current.this]
        else:
            parts.append(current)
    return parts


def read_texts(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """A text constant beside a date or a number is read as one, as every database does."""
    return _read_text(left, right), _read_text(right, left)


def _read_text(side: Expr, other: Expr) -> Expr:
    vector = side.known
    if side.kind != TEXT or other.kind in (TEXT, NULL, DURATION) or not isinstance(vector, Labels):
        return side
    if len(vector.values) != 1:
        return side
    value = vector.values[0]
    if value is None:
        return side
    if other.kind in TEMPORAL:
        read: Any = to_moment(value)
    elif other.kind == TRUTH:
        read = scalars.truth_value(value)
    else:
        try:
            read = float(value)
        except ValueError:
            raise refused(f"{shown(value)} is not a number", "use numbers with numbers") from None
    return Known(Labels(vector.codes, (read,)), kind_of_value(read))


def _arithmetic_kind(tree: exp.Expr, left: Expr, right: Expr) -> str:
    for side in (left, right):
        if side.kind not in (*NUMERIC, NULL):
            raise refused(f"{wording(tree)} computes with {_article(side.kind)}", "use numbers")
    if isinstance(tree, exp.Div):
        return NUMBER
    return NUMBER if NUMBER in (left.kind, right.kind) else INTEGER


def _article(kind: str) -> str:
    return {
        TEXT: "text",
        TRUTH: "a condition",
        DATE: "a date",
        TIMESTAMP: "a time",
        DURATION: "an interval of time",
    }.get(kind, f"a {kind}")


def _cut_text(operands: Sequence[Expr], found: Vector | None = None) -> str:
    """The bin in which a result is open: of the first row that is, or of the first that is more than one value."""
    rows = np.flatnonzero(~found.decided) if isinstance(found, (Truth, Interval)) else np.zeros(0, dtype=int)
    for operand in operands:
        if isinstance(operand, Known):
            vector = operand.vector
            if isinstance(vector, Bins):
                wide = rows[~vector.interval.decided[rows]] if rows.size else np.flatnonzero(~vector.interval.decided)
                if wide.size:
                    return f"the bin {vector.attribute.labels[int(vector.codes[wide[0]])]}"
            if operand.cut:
                return operand.cut
    return ""


def _divided_whole(one: Interval, other: Interval) -> Interval:
    return (one / other).mapped(np.trunc)


def _remainder(one: Interval, other: Interval) -> Interval:
    """Exact where both are known; else between zero and the divisor, on the side of the first number."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(other.value == 0, np.nan, np.fmod(one.value, other.value))
        exact = one.decided & other.decided
        size = np.maximum(np.abs(other.low), np.abs(other.high))
        low = np.where(one.low < 0, -size, 0.0)
        high = np.where(one.high > 0, size, 0.0)
        # Within one period of a known positive divisor the remainder only rises.
        periods = [np.floor(end / other.low) for end in (one.low, one.high)]
        together = other.decided & (other.low > 0) & (one.low >= 0) & (periods[0] == periods[1])
        low = np.where(together, np.fmod(one.low, other.low), np.maximum(low, np.minimum(one.low, 0.0)))
        high = np.where(together, np.fmod(one.high, other.low), np.minimum(high, np.maximum(one.high, 0.0)))
    null = one.maybe_null | other.maybe_null | ((other.low <= 0) & (other.high >= 0))
    exact |= ~one.number | ((other.low == 0) & (other.high == 0))
    return Interval(value, np.where(exact, value, low), np.where(exact, value, high), null if null.any() else None)


_OPERATIONS: dict[type[exp.Expr], tuple[Callable[..., Any], Callable[..., Interval]]] = {
    exp.Add: (scalars.add, Interval.__add__),
    exp.Sub: (scalars.subtract, Interval.__sub__),
    exp.Mul: (scalars.multiply, Interval.__mul__),
    exp.Div: (scalars.quotient, Interval.__truediv__),
    exp.IntDiv: (scalars.divide_whole, _divided_whole),
    exp.Mod: (scalars.remainder, _remainder),
}

OPERATORS: dict[type[exp.Expr], Callable[[Any, exp.Expr], Expr]] = {
    exp.Literal: Builder.literal,
    exp.Boolean: Builder.literal,
    exp.Null: Builder.literal,
    exp.Paren: Builder.inner,
    **dict.fromkeys(_OPERATIONS, Builder.arithmetic),
    exp.Neg: Builder.negative,
    exp.And: Builder.junction,
    exp.Or: Builder.junction,
    exp.Not: Builder.negation,
    exp.EQ: Builder.comparison,
    exp.NEQ: Builder.comparison,
    exp.LT: Builder.comparison,
    exp.LTE: Builder.comparison,
    exp.GT: Builder.comparison,
    exp.GTE: Builder.comparison,
    exp.Between: Builder.between,
    exp.In: Builder.listed,
    exp.Is: Builder.is_,
    exp.NullSafeEQ: Builder.distinct_from,
    exp.NullSafeNEQ: Builder.distinct_from,
    exp.Case: Builder.case,
    exp.If: Builder.if_,
    exp.Coalesce: Builder.coalesced,
    exp.Greatest: Builder.extreme,
    exp.Least: Builder.extreme,
    exp.Nullif: Builder.nullified,
}
"""By sqlglot's class."""
