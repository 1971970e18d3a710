"""Named functions: text, numbers, dates and casts, on known values and, where bounds carry over, on bounded numbers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql import calendar, scalars
from reticent.sql.builder import NOT_CONSTANT, OPERATORS, Builder, Duration, Function, constant_of, read_texts
from reticent.sql.expressions import Expr
from reticent.sql.intervals import Curve, Interval
from reticent.sql.refusals import only, refused, wording
from reticent.sql.scalars import REGULAR_STEPS, Matcher, matching_texts
from reticent.sql.vectors import (
    DATE,
    DAY,
    DURATION,
    INTEGER,
    NULL,
    NUMBER,
    TEMPORAL,
    TEXT,
    TIMESTAMP,
    TRUTH,
    Labels,
)

MAX_DECIMALS = 15
_INTEGERS = (
    *(exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT, exp.DType.INT128),
    *(exp.DType.UINT, exp.DType.UBIGINT, exp.DType.USMALLINT, exp.DType.UTINYINT),
)
_FLOATS = (exp.DType.DOUBLE, exp.DType.FLOAT)
_TEXTS = (exp.DType.VARCHAR, exp.DType.TEXT, exp.DType.CHAR, exp.DType.NVARCHAR, exp.DType.NCHAR)
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME, exp.DType.TIMESTAMPTZ)
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
_LENGTHS = {
    "week": 7 * DAY,
    "day": DAY,
    "hour": DAY // 24,
    "minute": DAY // 1440,
    "second": 10**6,
    "millisecond": 1000,
    "microsecond": 1,
}
_INTERVAL_TEXT = 100


# Text.


MOST_BUCKETS = 10_000
"""Of WIDTH_BUCKET."""


def _text_function(scalar: Callable[..., Any], names: tuple[str, ...], kind: str = TEXT, *, strict: bool = True) -> Any:
    """A function of known values; arguments in the order of names, left out where the tree has none."""

    def build(builder: Builder, tree: exp.Expr) -> Expr:
        only(tree, *names, "expressions", "safe", "coalesce", "charset")
        operands = [builder.expr(tree.args[name]) for name in names if tree.args.get(name) is not None]
        operands += [builder.expr(item) for item in tree.expressions]
        name = "||" if isinstance(tree, exp.DPipe) else tree.key.upper()
        return builder.call(Function(name, scalar, None, kind, strict=strict), operands, tree)

    return build


def _trim(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "expression", "position")
    side = str(tree.args.get("position") or "BOTH").upper()
    operands = [builder.expr(tree.this)]
    if tree.args.get("expression") is not None:
        operands.append(builder.expr(tree.expression))
    return builder.call(Function("TRIM", partial(scalars.trimmed, side=side), None, TEXT), operands, tree)


def _pad(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "expression", "fill_pattern", "is_left")
    operands = [builder.expr(tree.this), builder.expr(tree.expression)]
    if tree.args.get("fill_pattern") is not None:
        operands.append(builder.expr(tree.args["fill_pattern"]))
    scalar = partial(scalars.padded, on_left=bool(tree.args.get("is_left")))
    return builder.call(Function("LPAD" if tree.args.get("is_left") else "RPAD", scalar, None, TEXT), operands, tree)


def _capitals(builder: Builder, tree: exp.Expr) -> Expr:
    return builder.call(Function("INITCAP", scalars.initcap, None, TEXT), (builder.expr(tree.this),), tree)


def _like(builder: Builder, tree: exp.Expr, escape: str = "") -> Expr:
    only(tree, "this", "expression", "negate")
    pattern = tree.expression
    if isinstance(pattern, (exp.Any, exp.All)):
        raise refused(f"{wording(tree)} lists patterns", "join several LIKE with OR")
    written = constant_of(builder.expr(pattern))
    if not isinstance(written, str):
        raise refused(f"{wording(tree)} needs a pattern", "write a text such as 'A%'")
    operand = builder.expr(tree.this)
    if operand.kind not in (TEXT, NULL):
        raise refused(f"{wording(tree)}: LIKE needs text", "use =, IN or BETWEEN")
    matcher = Matcher.of(written, escape, ignore_case=isinstance(tree, exp.ILike))
    vector = operand.known
    if isinstance(vector, Labels):
        builder.meter.charge(sum(matcher.steps(value) for value in vector.values if value is not None))
    found = builder.call(Function("LIKE", matcher.matches, None, TRUTH, steps=1), (operand,), tree)
    return _negated(builder, found, tree)


def _regular(builder: Builder, tree: exp.Expr) -> Expr:
    """Regular expressions as DuckDB reads them (RE2), whose matches take time linear in the text."""
    only(tree, "this", "expression", "flag", "full_match")
    pattern, flag = constant_of(builder.expr(tree.expression)), tree.args.get("flag")
    flags = "" if flag is None else constant_of(builder.expr(flag))
    if not isinstance(pattern, str) or flags not in ("", "c", "i"):
        raise refused(f"{wording(tree)} needs a pattern, and no option but 'i'", "write a text such as '^A'")
    operand = builder.expr(tree.this)
    if operand.kind not in (TEXT, NULL):
        raise refused(f"{wording(tree)}: regular expressions need text", "use =, IN or BETWEEN")
    vector = operand.known
    texts = [value for value in vector.values if isinstance(value, str)] if isinstance(vector, Labels) else []
    builder.meter.charge(sum(map(len, texts)) + len(pattern) * REGULAR_STEPS)
    whole = isinstance(tree, (exp.RegexpFullMatch, exp.SimilarTo))
    ignore_case = flags == "i" or isinstance(tree, exp.RegexpILike)
    found = matching_texts(pattern, texts, whole=whole, ignore_case=ignore_case)
    if found is None:
        raise refused(f"{wording(tree)} is no regular expression of RE2", "use LIKE or IN")
    return builder.call(Function("REGEXP", found.__contains__, None, TRUTH, steps=1), (operand,), tree)


def _negated(builder: Builder, found: Expr, tree: exp.Expr) -> Expr:
    if not tree.args.get("negate"):
        return found
    return builder.call(Function("NOT", lambda value: not value, None, TRUTH), (found,), tree)


def _escaped(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "expression")
    mark = constant_of(builder.expr(tree.expression))
    if not isinstance(mark, str) or len(mark) != 1 or not isinstance(tree.this, (exp.Like, exp.ILike)):
        raise refused(f"{wording(tree)} needs one character after ESCAPE", "write ESCAPE '!'")
    return _like(builder, tree.this, mark)


# Numbers.


def _rising(
    scalar: Callable[[float], float], curve: Curve, low: float = -np.inf, kind: str = NUMBER, high: float = np.inf
) -> Any:
    """A non-decreasing function of numbers in [low, high], NULL elsewhere."""
    limited = np.isfinite(low) or np.isfinite(high)

    def bounded(numbers: Interval) -> Interval:
        return (numbers.restricted(low, high) if limited else numbers).mapped(curve)

    def build(builder: Builder, tree: exp.Expr) -> Expr:
        only(tree, "this")
        return builder.call(
            Function(tree.key.upper(), scalars.guarded(scalar), bounded, kind), (builder.expr(tree.this),), tree
        )

    return build


def _waving(scalar: Callable[[float], float], curve: Curve) -> Any:
    """Sine and cosine: between -1 and 1."""

    def build(builder: Builder, tree: exp.Expr) -> Expr:
        only(tree, "this")
        bounded = partial(Interval.within, function=curve, low=-1.0, high=1.0)
        return builder.call(
            Function(tree.key.upper(), scalars.guarded(scalar), lambda numbers: bounded(numbers), NUMBER),
            (builder.expr(tree.this),),
            tree,
        )

    return build


def _pointwise(scalar: Callable[..., float], names: tuple[str, ...] = ("this",)) -> Any:
    """A function that has a value where its argument is known, and no bound elsewhere."""

    def build(builder: Builder, tree: exp.Expr) -> Expr:
        only(tree, *names)
        operands = [builder.expr(tree.args[name]) for name in names]
        return builder.call(Function(tree.key.upper(), scalars.guarded(scalar), None, NUMBER), operands, tree)

    return build


def _log(builder: Builder, tree: exp.Expr) -> Expr:
    """LOG(x) is to base ten; LOG(b, x) to base b."""
    only(tree, "this", "expression")
    if tree.args.get("expression") is None:
        base, operand = 10.0, builder.expr(tree.this)
    else:
        base, operand = builder.known_value(tree.this, "the base of"), builder.expr(tree.expression)
    base = float(scalars.as_number(base))
    if not base > 0 or base == 1:
        raise refused(f"{wording(tree)} has no base above 0 other than 1", "use LN or LOG10")
    scale = math.log(base)

    def bounded(numbers: Interval) -> Interval:
        found = numbers.restricted(np.nextafter(0.0, 1.0)).mapped(lambda values: np.log(values) / abs(scale))
        return found if scale > 0 else -found

    return builder.call(
        Function("LOG", scalars.guarded(partial(scalars.logarithm, base)), bounded, NUMBER), (operand,), tree
    )


def _power(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "expression")
    base, exponent = builder.expr(tree.this), builder.expr(tree.expression)
    constant = constant_of(exponent)
    bounded: Callable[..., Interval] | None = None
    operands: tuple[Expr, ...] = (base, exponent)
    scalar: Callable[..., Any] = scalars.power
    if isinstance(constant, (int, float)) and not isinstance(constant, bool):
        power = float(constant)
        operands, scalar = (base,), lambda value: scalars.power(value, power)
        bounded = partial(_to_power, power)
    elif isinstance(constant_of(base), (int, float)) and (root := float(constant_of(base))) > 0:
        operands, scalar = (exponent,), lambda value: scalars.power(root, value)
        bounded = partial(_of_base, root)
    return builder.call(Function("POWER", scalars.guarded(scalar), bounded, NUMBER), operands, tree)


def _of_base(root: float, numbers: Interval) -> Interval:
    found = numbers if root >= 1 else -numbers
    return found.mapped(lambda values: np.power(max(root, 1 / root), values))


def _to_power(power: float, numbers: Interval) -> Interval:
    if power == 0:
        return numbers.mapped(lambda values: np.where(np.isnan(values), np.nan, 1.0))
    if power < 0:
        return Interval.exactly(1.0, len(numbers.value)) / _to_power(-power, numbers)
    if power.is_integer():
        if power % 2:
            return numbers.mapped(lambda values: np.power(values, power))
        return numbers.absolute().mapped(lambda values: np.power(values, power))
    return numbers.restricted(0.0).mapped(lambda values: np.power(values, power))


def _absolute(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this")
    inner = builder.expr(tree.this)
    return builder.call(Function("ABS", scalars.guarded(abs), Interval.absolute, inner.kind), (inner,), tree)


def _rounded(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "decimals")
    decimals = _decimals(builder, tree)
    inner = builder.expr(tree.this)
    scalar = scalars.guarded(lambda value: scalars.rounded(value, decimals))
    return builder.call(
        Function("ROUND", scalar, lambda numbers: numbers.rounded(decimals), inner.kind), (inner,), tree
    )


def _truncated(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "decimals")
    decimals = _decimals(builder, tree)
    inner, scale = builder.expr(tree.this), 10.0**decimals
    scalar = scalars.guarded(lambda value: scalars.truncated(value, decimals))
    curve: Curve = lambda values: np.trunc(values * scale) / scale  # noqa: E731
    return builder.call(Function("TRUNC", scalar, lambda numbers: numbers.mapped(curve), inner.kind), (inner,), tree)


def _decimals(builder: Builder, tree: exp.Expr) -> int:
    digits = tree.args.get("decimals")
    if digits is None:
        return 0
    found = builder.known_value(digits, "decimals")
    if isinstance(found, bool) or not isinstance(found, int) or not -MAX_DECIMALS <= found <= MAX_DECIMALS:
        raise refused(
            f"decimals {wording(digits)} is not a whole number from -{MAX_DECIMALS} to {MAX_DECIMALS}", "write one"
        )
    return found


def _stepped(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this")
    inner = builder.expr(tree.this)
    curve, scalar = (np.floor, scalars.floor) if isinstance(tree, exp.Floor) else (np.ceil, scalars.ceiling)
    kind = INTEGER if inner.kind == INTEGER else NUMBER
    return builder.call(
        Function(tree.key.upper(), scalars.guarded(scalar), lambda n: n.mapped(curve), kind), (inner,), tree
    )


def _bucket(builder: Builder, tree: exp.Expr) -> Expr:
    """WIDTH_BUCKET(x, low, high, count): 0 below, count + 1 from high on."""
    only(tree, "this", "min_value", "max_value", "num_buckets")
    ends = [builder.known_value(tree.args[name], "an end of") for name in ("min_value", "max_value", "num_buckets")]
    low, high, count = (float(scalars.as_number(end)) for end in ends)
    if not low < high or count < 1 or not count.is_integer():
        raise refused(f"{wording(tree)} needs low < high and a whole number of buckets", "correct them")

    if count > MOST_BUCKETS:
        raise refused(f"{wording(tree)} has over {MOST_BUCKETS} buckets", "use fewer, or group by the column")
    edges = low + (high - low) * np.arange(count + 1) / count

    def curve(values: np.ndarray) -> np.ndarray:
        # Compared with the edges themselves: the largest number below one would round up to it in a quotient.
        return np.where(np.isnan(values), values, np.searchsorted(edges, values, side="right").astype(float))

    scalar = lambda value: int(curve(np.array(float(value))))  # noqa: E731
    return builder.call(
        Function("WIDTH_BUCKET", scalars.guarded(scalar), lambda n: n.mapped(curve), INTEGER),
        (builder.expr(tree.this),),
        tree,
    )


def _pi(builder: Builder, tree: exp.Expr) -> Expr:
    return builder.constant(math.pi, NUMBER)


def _scaled(factor: float) -> Any:
    return _rising(lambda value: value * factor, lambda values: values * factor)


# Dates.


def _duration(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "unit")
    unit = tree.args.get("unit")
    inner = tree.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    value = constant_of(builder.expr(inner)) if inner is not None else NOT_CONSTANT
    if unit is None:
        return builder.constant(_read_duration(str(value), tree), DURATION)
    try:
        amount = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise refused(f"{wording(tree)} is not an interval of time", "write INTERVAL 3 MONTH") from None
    return builder.constant(_length(amount, unit.name, tree), DURATION)


def _length(amount: float, unit: str, tree: exp.Expr) -> Duration:
    name = calendar.unit_of(unit)
    if name in _MONTHS and (amount * _MONTHS[name]).is_integer() and abs(amount) < 10**5:
        return Duration(int(amount * _MONTHS[name]), 0)
    if name in _LENGTHS and abs(amount) < 10**9:
        return Duration(0, round(amount * _LENGTHS[name]))
    raise refused(f"{wording(tree)} is not an interval of time", "write INTERVAL 3 MONTH")


def _read_duration(text: str, tree: exp.Expr) -> Duration:
    words = text.replace(",", " ").split()
    if not words or len(words) % 2 or len(text) > _INTERVAL_TEXT:
        raise refused(f"{wording(tree)} is not an interval of time", "write INTERVAL 3 MONTH")
    found = Duration(0, 0)
    for amount, unit in zip(words[::2], words[1::2], strict=True):
        try:
            part = _length(float(amount), unit, tree)
        except ValueError:
            raise refused(f"{wording(tree)} is not an interval of time", "write INTERVAL 3 MONTH") from None
        found = Duration(found.months + part.months, found.microseconds + part.microseconds)
    return found


def _added(builder: Builder, tree: exp.Expr) -> Expr:
    """+ and - of numbers, and of dates with days, intervals and other dates."""
    only(tree, "this", "expression", "typed", "safe")
    left, right = read_texts(builder.expr(tree.this), builder.expr(tree.expression))
    if not {left.kind, right.kind} & {DATE, TIMESTAMP, DURATION}:
        return builder.combined(tree, left, right)
    return _moved(builder, tree, left, right, backwards=isinstance(tree, (exp.Sub, exp.DateSub)))


def _moved(builder: Builder, tree: exp.Expr, left: Expr, right: Expr, *, backwards: bool) -> Expr:
    if not backwards and right.kind in TEMPORAL:
        left, right = right, left
    if left.kind in TEMPORAL and right.kind == DURATION:
        return _shifted(builder, tree, left, right, -1 if backwards else 1)
    if left.kind == DATE and right.kind in (INTEGER, TRUTH):
        operation = Interval.__sub__ if backwards else Interval.__add__
        sign = -1 if backwards else 1
        scalar = lambda date, days: calendar.to_date(date) + datetime.timedelta(days=sign * days)  # noqa: E731
        return builder.call(Function("+", scalar, operation, DATE), (left, right), tree)
    if backwards and left.kind == right.kind == DATE:
        scalar = lambda one, other: (calendar.to_date(one) - calendar.to_date(other)).days  # noqa: E731
        return builder.call(Function("-", scalar, Interval.__sub__, INTEGER), (left, right), tree)
    raise refused(f"{wording(tree)} computes with times", "use DATE_DIFF, or a date plus or minus days or an INTERVAL")


def _shifted(builder: Builder, tree: exp.Expr, left: Expr, right: Expr, sign: int) -> Expr:
    by = constant_of(right)
    if not isinstance(by, Duration):
        raise refused(f"{wording(tree)} moves by an interval that is not constant", "write INTERVAL 3 MONTH")
    delta = datetime.timedelta(microseconds=sign * by.microseconds)

    def scalar(value: Any) -> datetime.datetime | None:
        try:
            return calendar.shifted(calendar.to_timestamp(value), months=sign * by.months, delta=delta)  # type: ignore[return-value]
        except (ValueError, OverflowError):
            return None

    return builder.call(Function("+", scalar, calendar.rising(scalar, left.kind, TIMESTAMP), TIMESTAMP), (left,), tree)


def _date_side(builder: Builder, tree: exp.Expr, whole: exp.Expr) -> Expr:
    """An argument that must be a date; a text constant is read as one."""
    found = builder.expr(tree)
    if found.kind == TEXT and isinstance(value := constant_of(found), str):
        read = calendar.to_moment(value)
        return builder.constant(read, TIMESTAMP if isinstance(read, datetime.datetime) else DATE)
    if found.kind not in (*TEMPORAL, NULL):
        raise refused(f"{wording(whole)} needs a date", "use a column of dates")
    return found


def _part(builder: Builder, tree: exp.Expr, unit: str, argument: exp.Expr) -> Expr:
    name = calendar.unit_of(unit)
    operand = _date_side(builder, argument, tree)
    bounded = calendar.bounded_part(name, operand.kind) if operand.kind in TEMPORAL else None
    return builder.call(Function(name, calendar.part(name), bounded, calendar.part_kind(name)), (operand,), tree)


def _extract(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "expression")
    inner = tree.expression
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Anonymous) and inner.name.upper() == "AGE":
        return _age(builder, tree, calendar.unit_of(tree.this.name), inner)
    return _part(builder, tree, tree.this.name, inner)


def _age(builder: Builder, tree: exp.Expr, unit: str, age: exp.Expr) -> Expr:
    """EXTRACT(YEAR FROM AGE(later, earlier)): whole years."""
    if len(age.expressions) != 2:
        raise refused(f"{wording(age)} changes with each run", "write AGE(DATE '2024-12-31', column)")
    if unit != "year":
        raise refused(f"{wording(tree)}: only whole years of an age are supported", "use DATE_DIFF('month', a, b)")
    return _elapsed(builder, tree, unit, *age.expressions)


def _elapsed(builder: Builder, tree: exp.Expr, unit: str, later: exp.Expr, earlier: exp.Expr) -> Expr:
    one, other = _date_side(builder, later, tree), _date_side(builder, earlier, tree)
    count = calendar.elapsed(unit)
    return builder.call(
        Function(unit, count, calendar.corners(count, (one.kind, other.kind)), INTEGER), (one, other), tree
    )


def _named_part(unit: str) -> Any:
    def build(builder: Builder, tree: exp.Expr) -> Expr:
        only(tree, "this")
        return _part(builder, tree, unit, tree.this)

    return build


def _truncated_date(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "unit", "input_type_preserved")
    unit = tree.args.get("unit")
    if unit is None:
        raise refused(f"{wording(tree)} names no unit", "write DATE_TRUNC('month', column)")
    return _cut_to(builder, tree, calendar.unit_of(unit.name), tree.this)


def _cut_to(builder: Builder, tree: exp.Expr, unit: str, argument: exp.Expr) -> Expr:
    operand = _date_side(builder, argument, tree)
    floor = calendar.floor_of(unit)
    kind = operand.kind if isinstance(tree, exp.DateBin) else TIMESTAMP
    scalar = (lambda moment: floor(moment).date()) if kind == DATE else floor
    return builder.call(
        Function("DATE_TRUNC", scalar, calendar.rising(scalar, operand.kind, kind), kind), (operand,), tree
    )


def _bucketed_date(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "expression", "unit", "zone", "origin")
    width = constant_of(builder.expr(tree.this))
    units = {Duration(months, 0): name for name, months in _MONTHS.items()} | {
        Duration(0, DAY): "day",
        Duration(0, 7 * DAY): "week",
    }
    if width not in units:
        raise refused(f"{wording(tree)} needs buckets of a day, week, month, quarter or year", "use DATE_TRUNC")
    return _cut_to(builder, tree, units[width], tree.expression)


def _difference(builder: Builder, tree: exp.Expr) -> Expr:
    """DATE_DIFF(unit, earlier, later): how many units begin in between."""
    only(tree, "this", "expression", "unit", "big_int")
    unit = calendar.unit_of(tree.args["unit"].name if tree.args.get("unit") is not None else "day")
    later, earlier = (_date_side(builder, side, tree) for side in (tree.this, tree.expression))
    index = calendar.index_of(unit)
    scalar = lambda one, other: index(one) - index(other)  # noqa: E731
    curves = [calendar.rising(index, side.kind, NUMBER) for side in (later, earlier)]
    bounded = lambda one, other: curves[0](one) - curves[1](other)  # noqa: E731
    return builder.call(Function("DATE_DIFF", scalar, bounded, INTEGER), (later, earlier), tree)


def _last_day(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this")
    operand = _date_side(builder, tree.this, tree)
    return builder.call(
        Function("LAST_DAY", calendar.last_day, calendar.rising(calendar.last_day, operand.kind, DATE), DATE),
        (operand,),
        tree,
    )


def _written_date(scalar: Callable[[Any], str], unit: str) -> Any:
    """The name of a day or month: of bins that lie within one."""

    def build(builder: Builder, tree: exp.Expr) -> Expr:
        only(tree, "this")
        operand = _date_side(builder, tree.this, tree)
        bounded = calendar.whole_bins(scalar, unit, operand.kind) if operand.kind in TEMPORAL else None
        return builder.call(Function(tree.key.upper(), scalar, bounded, TEXT), (_public(operand, tree),), tree)

    return build


def _public(operand: Expr, tree: exp.Expr) -> Expr:
    if operand.known is None:
        raise refused(f"{wording(tree)} writes a noisy date as text", "show the date itself")
    return operand


def _format(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "format")
    date, pattern = tree.this, tree.args["format"]
    if isinstance(date, exp.Literal) and not isinstance(pattern, exp.Literal):
        date, pattern = pattern, date
    written = builder.known_value(pattern, "the format")
    if not isinstance(written, str):
        raise refused(f"{wording(tree)} needs a format", "write STRFTIME(column, '%Y-%m')")
    operand = _public(_date_side(builder, date, tree), tree)
    scalar = lambda value: calendar.formatted_date(value, written)  # noqa: E731
    bounded = (
        calendar.whole_bins(scalar, calendar.constant_on(written), operand.kind) if operand.kind in TEMPORAL else None
    )
    return builder.call(Function("STRFTIME", scalar, bounded, TEXT), (operand,), tree)


_POSTGRES = (
    *(("YYYY", "%Y"), ("YY", "%y"), ("Month", "%B"), ("Mon", "%b"), ("MM", "%m"), ("DDD", "%j"), ("DD", "%d")),
    *(("Day", "%A"), ("Dy", "%a"), ("HH24", "%H"), ("MI", "%M"), ("SS", "%S"), ("IYYY", "%G"), ("IW", "%V")),
)


def _to_char(builder: Builder, tree: exp.Expr) -> Expr:
    """PostgreSQL's TO_CHAR of a date, with the commonest patterns."""
    only(tree, "this", "format")
    written = builder.known_value(tree.args["format"], "the format") if tree.args.get("format") is not None else None
    if not isinstance(written, str):
        raise refused(f"{wording(tree)} needs a format", "write TO_CHAR(column, 'YYYY-MM')")
    found, rest = "", written
    while rest:
        code = next(((name, put) for name, put in _POSTGRES if rest.startswith(name)), None)
        if code is None and rest[0].isalpha():
            raise refused(f"the format {shown(written)} is not supported", "use YYYY, MM, Mon, DD or Day")
        found, rest = found + (rest[0] if code is None else code[1]), rest[1 if code is None else len(code[0]) :]
    return _format(builder, exp.TimeToStr(this=tree.this, format=exp.Literal.string(found)))


def _made_date(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "year", "month", "day")
    operands = [builder.expr(tree.args[name]) for name in ("year", "month", "day")]

    def scalar(year: Any, month: Any, day: Any) -> datetime.date:
        try:
            return datetime.date(scalars.whole(year), scalars.whole(month), scalars.whole(day))
        except ValueError:
            raise refused(f"{wording(tree)} is not a date", "write a day of the calendar") from None

    return builder.call(Function("MAKE_DATE", scalar, None, DATE), operands, tree)


# Casts.


def _cast(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "to", "safe")
    kind = tree.args["to"].this
    if kind == exp.DType.INTERVAL or isinstance(tree.args["to"], exp.Interval):
        value = builder.known_value(tree.this, "the interval")
        return builder.constant(_read_duration(str(value), tree), DURATION)
    operand = builder.expr(tree.this)
    function = _conversion(tree, kind, operand)
    if isinstance(tree, exp.TryCast):
        function = Function(function.name, _tried(function.scalar), function.bounded, function.kind)
    return builder.call(function, (operand,), tree)


def _conversion(tree: exp.Expr, kind: Any, operand: Expr) -> Function:
    if kind in _TEXTS:
        if operand.known is None:
            raise refused(f"{wording(tree)} writes a noisy number as text", "show the number itself")
        return Function("CAST", scalars.text, None, TEXT)
    if kind in (exp.DType.DATE, *_TIMES):
        return _to_time(tree, kind, operand)
    if operand.kind in (*TEMPORAL, DURATION):
        raise refused(f"{wording(tree)} makes a date a number", "use EXTRACT or DATE_DIFF")
    if kind in _FLOATS:
        return Function("CAST", scalars.to_double, lambda numbers: numbers, NUMBER)
    if kind in _INTEGERS:
        return Function("CAST", scalars.to_integer, lambda numbers: numbers.mapped(np.rint), INTEGER)
    if kind == exp.DType.DECIMAL:
        params = [param.name for param in tree.args["to"].expressions]
        decimals = int(params[1]) if len(params) > 1 and params[1].isdigit() and int(params[1]) <= MAX_DECIMALS else 0
        scalar = lambda value: scalars.rounded(scalars.to_double(value), decimals)  # noqa: E731
        return Function("CAST", scalar, lambda numbers: numbers.rounded(decimals), NUMBER)
    if kind == exp.DType.BOOLEAN:
        return Function("CAST", scalars.truth_value, None, TRUTH)
    raise refused(f"{wording(tree)} is not a type that is known here", "cast to DOUBLE, BIGINT, VARCHAR or DATE")


def _to_time(tree: exp.Expr, kind: Any, operand: Expr) -> Function:
    if operand.kind not in (TEXT, NULL, *TEMPORAL):
        raise refused(f"{wording(tree)} makes a number a date", "use a column of dates")
    result = DATE if kind == exp.DType.DATE else TIMESTAMP
    scalar = calendar.to_date if result == DATE else calendar.to_timestamp
    bounded = calendar.rising(scalar, operand.kind, result) if operand.kind in TEMPORAL else None
    return Function("CAST", scalar, bounded, result)


def _tried(scalar: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        try:
            return scalar(value)
        except QueryError:
            return None

    return converted


def _to_date_function(builder: Builder, tree: exp.Expr) -> Expr:
    """DATE(x)."""
    if tree.this is None:
        raise refused("DATE needs an argument", "write DATE '2024-12-31', or DATE(column)")
    only(tree, "this")
    return _cast(builder, exp.Cast(this=tree.this, to=exp.DataType(this=exp.DType.DATE)))


# Functions that sqlglot has no class for.


def _anonymous(builder: Builder, tree: exp.Expr) -> Expr:
    name = tree.name.upper()
    handler = _ANONYMOUS.get(name)
    if handler is None:
        raise builder.unusable(tree)
    return handler(builder, tree)


def _dated(builder: Builder, tree: exp.Expr) -> Expr:
    unit, argument = _two(tree)
    inner = argument
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Anonymous) and inner.name.upper() == "AGE":
        return _age(builder, tree, calendar.unit_of(str(builder.known_value(unit, "the unit"))), inner)
    return _part(builder, tree, str(builder.known_value(unit, "the unit")), inner)


def _two(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    if len(tree.expressions) != 2:
        raise refused(f"{wording(tree)} needs two arguments", "give both")
    return tree.expressions[0], tree.expressions[1]


def _subtracted(builder: Builder, tree: exp.Expr) -> Expr:
    """DATE_SUB(unit, earlier, later): how many whole units lie in between."""
    if len(tree.expressions) != 3:
        raise refused(f"{wording(tree)} needs a unit and two dates", "write DATE_SUB('month', a, b)")
    unit, earlier, later = tree.expressions
    return _elapsed(builder, tree, calendar.unit_of(str(builder.known_value(unit, "the unit"))), later, earlier)


def _age_alone(builder: Builder, tree: exp.Expr) -> Expr:
    raise refused(f"{wording(tree)} is an interval of time", "use EXTRACT(YEAR FROM AGE(DATE '2024-12-31', column))")


def _listed_text(scalar: Callable[..., Any], kind: str) -> Any:
    def build(builder: Builder, tree: exp.Expr) -> Expr:
        operands = [builder.expr(item) for item in tree.expressions]
        return builder.call(Function(tree.name.upper(), scalar, None, kind), operands, tree)

    return build


def _months(builder: Builder, tree: exp.Expr) -> Expr:
    unit = tree.name[3:] if isinstance(tree, exp.Anonymous) else "days"
    argument = tree.expressions[0] if isinstance(tree, exp.Anonymous) else tree.this
    amount = builder.known_value(argument, "the length")
    return builder.constant(_length(float(scalars.as_number(amount)), unit, tree), DURATION)


_ANONYMOUS: dict[str, Callable[[Builder, exp.Expr], Expr]] = {
    "DATE_PART": _dated,
    "DATEPART": _dated,
    "DATE_SUB": _subtracted,
    "DATESUB": _subtracted,
    "AGE": _age_alone,
    "PREFIX": _listed_text(lambda value, part: scalars.text(value).startswith(scalars.text(part)), TRUTH),
    "SUFFIX": _listed_text(lambda value, part: scalars.text(value).endswith(scalars.text(part)), TRUTH),
    "TO_MONTHS": _months,
    "TO_YEARS": _months,
    "TO_WEEKS": _months,
}

_TEXT_HANDLERS: dict[type[exp.Expr], Any] = {
    exp.Lower: _text_function(scalars.lower, ("this",)),
    exp.Upper: _text_function(scalars.upper, ("this",)),
    exp.Trim: _trim,
    exp.Initcap: _capitals,
    exp.Substring: _text_function(scalars.substring, ("this", "start", "length")),
    exp.Left: _text_function(scalars.left, ("this", "expression")),
    exp.Right: _text_function(scalars.right, ("this", "expression")),
    exp.Length: _text_function(scalars.length, ("this",), INTEGER),
    exp.DPipe: _text_function(scalars.concatenated, ("this", "expression")),
    exp.Concat: _text_function(scalars.concat, (), strict=False),
    exp.ConcatWs: _text_function(scalars.concat_with, (), strict=False),
    exp.Replace: _text_function(scalars.replaced, ("this", "expression", "replacement")),
    exp.Reverse: _text_function(lambda value: scalars.text(value)[::-1], ("this",)),
    exp.StrPosition: _text_function(scalars.position, ("this", "substr"), INTEGER),
    exp.StartsWith: _text_function(
        lambda value, part: scalars.text(value).startswith(scalars.text(part)), ("this", "expression"), TRUTH
    ),
    exp.EndsWith: _text_function(
        lambda value, part: scalars.text(value).endswith(scalars.text(part)), ("this", "expression"), TRUTH
    ),
    exp.Contains: _text_function(
        lambda value, part: scalars.text(part) in scalars.text(value), ("this", "expression"), TRUTH
    ),
    exp.SplitPart: _text_function(scalars.split_part, ("this", "delimiter", "part_index")),
    exp.Pad: _pad,
    exp.Repeat: _text_function(scalars.repeated, ("this", "times")),
    exp.Ascii: _text_function(lambda value: ord(scalars.text(value)[0]) if value else 0, ("this",), INTEGER),
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escaped,
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike, exp.RegexpFullMatch, exp.SimilarTo), _regular),
}

_NUMBER_HANDLERS: dict[type[exp.Expr], Any] = {
    exp.Abs: _absolute,
    exp.Round: _rounded,
    exp.Trunc: _truncated,
    exp.Floor: _stepped,
    exp.Ceil: _stepped,
    exp.Sqrt: _rising(math.sqrt, np.sqrt, 0.0),
    exp.Cbrt: _rising(scalars.cube_root, np.cbrt),
    exp.Exp: _rising(math.exp, np.exp),
    exp.Ln: _rising(math.log, np.log, float(np.nextafter(0.0, 1.0))),
    exp.Log: _log,
    exp.Pow: _power,
    exp.Sign: _rising(scalars.sign, np.sign, kind=INTEGER),
    exp.Sin: _waving(math.sin, np.sin),
    exp.Cos: _waving(math.cos, np.cos),
    exp.Tan: _pointwise(math.tan),
    exp.Asin: _rising(math.asin, np.arcsin, -1.0, NUMBER, 1.0),
    exp.Atan: _rising(math.atan, np.arctan),
    exp.Atan2: _pointwise(math.atan2, ("this", "expression")),
    exp.Degrees: _scaled(180 / math.pi),
    exp.Radians: _scaled(math.pi / 180),
    exp.Pi: _pi,
    exp.WidthBucket: _bucket,
}

_DATE_HANDLERS: dict[type[exp.Expr], Any] = {
    exp.Interval: _duration,
    exp.Extract: _extract,
    exp.Year: _named_part("year"),
    exp.Month: _named_part("month"),
    exp.Quarter: _named_part("quarter"),
    exp.Day: _named_part("day"),
    exp.DayOfMonth: _named_part("day"),
    exp.Week: _named_part("week"),
    exp.WeekOfYear: _named_part("week"),
    exp.DayOfWeek: _named_part("dow"),
    exp.DayOfWeekIso: _named_part("isodow"),
    exp.DayOfYear: _named_part("doy"),
    exp.Hour: _named_part("hour"),
    exp.Minute: _named_part("minute"),
    exp.Second: _named_part("second"),
    exp.TimeToUnix: _named_part("epoch"),
    exp.TimestampTrunc: _truncated_date,
    exp.DateTrunc: _truncated_date,
    exp.DateBin: _bucketed_date,
    exp.DateDiff: _difference,
    exp.DateAdd: _added,
    exp.DateSub: _added,
    exp.LastDay: _last_day,
    exp.Dayname: _written_date(calendar.day_name, "day"),
    exp.Monthname: _written_date(calendar.month_name, "month"),
    exp.TimeToStr: _format,
    exp.ToChar: _to_char,
    exp.DateFromParts: _made_date,
    exp.ToDays: _months,
    exp.Date: _to_date_function,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _anonymous,
    exp.Add: _added,
    exp.Sub: _added,
}


class Compiler(Builder):
    """Compiles operators and named functions over one row set."""

    handlers = OPERATORS | _TEXT_HANDLERS | _NUMBER_HANDLERS | _DATE_HANDLERS
