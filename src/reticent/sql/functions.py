"""Named functions of text, numbers and casts, on known values and, if bounds can be propagated, on bounded numbers.

Those of dates are in `date_functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sqlglot import exp

from reticent.errors import QueryError
from reticent.sql import calendar, scalars
from reticent.sql.builder import OPERATORS, Builder, Function, constant_of
from reticent.sql.date_functions import DATE_FUNCTIONS, DATE_HANDLERS, read_duration
from reticent.sql.expressions import Expr
from reticent.sql.intervals import Curve, Interval
from reticent.sql.refusals import only, refused, wording
from reticent.sql.scalars import REGULAR_STEPS, Matcher, matching_texts
from reticent.sql.vectors import (
    DATE,
    DURATION,
    INTEGER,
    NULL,
    NUMBER,
    TEMPORAL,
    TEXT,
    TIMESTAMP,
    TRUTH,
    Labels,
    computed_kind,
)

MAX_DECIMALS = 15
_INTEGERS = (
    *(exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT, exp.DType.INT128),
    *(exp.DType.UINT, exp.DType.UBIGINT, exp.DType.USMALLINT, exp.DType.UTINYINT),
)
_FLOATS = (exp.DType.DOUBLE, exp.DType.FLOAT)
_TEXTS = (exp.DType.VARCHAR, exp.DType.TEXT, exp.DType.CHAR, exp.DType.NVARCHAR, exp.DType.NCHAR)
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME, exp.DType.TIMESTAMPTZ)


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
        raise refused(f"{wording(tree)} needs a constant base above 0, other than 1", "use LN or LOG10")
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
    return builder.call(
        Function("ABS", scalars.guarded(abs), Interval.absolute, computed_kind(inner.kind)), (inner,), tree
    )


def _rounded(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "decimals")
    decimals = _decimals(builder, tree)
    inner = builder.expr(tree.this)
    scalar = scalars.guarded(lambda value: scalars.rounded(value, decimals))
    return builder.call(
        Function("ROUND", scalar, lambda numbers: numbers.rounded(decimals), computed_kind(inner.kind)), (inner,), tree
    )


def _truncated(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "decimals")
    decimals = _decimals(builder, tree)
    inner, scale = builder.expr(tree.this), 10.0**decimals
    scalar = scalars.guarded(lambda value: scalars.truncated(value, decimals))
    curve: Curve = lambda values: np.trunc(values * scale) / scale  # noqa: E731
    return builder.call(
        Function("TRUNC", scalar, lambda numbers: numbers.mapped(curve), computed_kind(inner.kind)), (inner,), tree
    )


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
        raise refused(
            f"{wording(tree)} needs low < high and a whole number of buckets", "write WIDTH_BUCKET(x, 0, 100, 10)"
        )

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


# Casts.


def _cast(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "to", "safe")
    kind = tree.args["to"].this
    if kind == exp.DType.INTERVAL or isinstance(tree.args["to"], exp.Interval):
        value = builder.known_value(tree.this, "the interval")
        return builder.constant(read_duration(str(value), tree), DURATION)
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
        raise refused(f"{wording(tree)} converts a date to a number", "use EXTRACT or DATE_DIFF")
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
    raise refused(f"{wording(tree)} is not a known type", "cast to DOUBLE, BIGINT, VARCHAR or DATE")


def _to_time(tree: exp.Expr, kind: Any, operand: Expr) -> Function:
    if operand.kind not in (TEXT, NULL, *TEMPORAL):
        raise refused(f"{wording(tree)} converts a number to a date", "use a column of dates")
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


def _listed_text(scalar: Callable[..., Any], kind: str) -> Any:
    def build(builder: Builder, tree: exp.Expr) -> Expr:
        operands = [builder.expr(item) for item in tree.expressions]
        return builder.call(Function(tree.name.upper(), scalar, None, kind), operands, tree)

    return build


_ANONYMOUS: dict[str, Callable[[Builder, exp.Expr], Expr]] = DATE_FUNCTIONS | {
    "PREFIX": _listed_text(lambda value, part: scalars.text(value).startswith(scalars.text(part)), TRUTH),
    "SUFFIX": _listed_text(lambda value, part: scalars.text(value).endswith(scalars.text(part)), TRUTH),
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

_OTHER_HANDLERS: dict[type[exp.Expr], Any] = {
    exp.Date: _to_date_function,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _anonymous,
}


class Compiler(Builder):
    """Compiles operators and named functions over one row set."""

    handlers = OPERATORS | _TEXT_HANDLERS | _NUMBER_HANDLERS | DATE_HANDLERS | _OTHER_HANDLERS
