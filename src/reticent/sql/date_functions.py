"""Functions of dates as SQL names them: intervals, parts, truncation, differences and formats, on top of `calendar`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from reticent.domain.attribute import shown
from reticent.sql import calendar, scalars
from reticent.sql.builder import NOT_CONSTANT, Builder, Duration, Function, constant_of, read_texts
from reticent.sql.expressions import Expr
from reticent.sql.intervals import Interval
from reticent.sql.refusals import only, refused, wording
from reticent.sql.vectors import DATE, DAY, DURATION, INTEGER, NULL, NUMBER, TEMPORAL, TEXT, TIMESTAMP, TRUTH

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


def _duration(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "this", "unit")
    unit = tree.args.get("unit")
    inner = tree.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    value = constant_of(builder.expr(inner)) if inner is not None else NOT_CONSTANT
    if unit is None:
        return builder.constant(read_duration(str(value), tree), DURATION)
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


def read_duration(text: str, tree: exp.Expr) -> Duration:
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
    if isinstance(tree, exp.Add) and left.kind == right.kind == TEXT:
        return builder.call(Function("||", scalars.concatenated, None, TEXT), (left, right), tree)
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
        raise refused(f"{wording(tree)} adds an interval that is not constant", "write INTERVAL 3 MONTH")
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
        raise refused(f"{wording(age)} needs one date or two", "write AGE(DATE '2024-12-31', column)")
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
    *(("YYYY", "%Y"), ("YY", "%y"), ("Q", "%q"), ("Month", "%B"), ("Mon", "%b"), ("MM", "%m"), ("DDD", "%j")),
    *(("DD", "%d"), ("Day", "%A"), ("Dy", "%a"), ("HH24", "%H"), ("MI", "%M"), ("SS", "%S")),
    *(("IYYY", "%G"), ("IW", "%V")),
)


_READ = {
    "MONTH": "%B",
    "MON": "%b",
    "YYYY": "%Y",
    "YY": "%y",
    "MM": "%m",
    "DD": "%d",
    "HH24": "%H",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "MS": "%f",
}
"""Patterns of TO_DATE and TO_TIMESTAMP, in upper or lower case alike."""


def _read_date(builder: Builder, tree: exp.Expr) -> Expr:
    """TO_DATE, STR_TO_DATE and TO_TIMESTAMP of a constant text and its pattern; TO_DATE of an ISO date without one."""
    whole, pattern = not isinstance(tree, exp.UnixToTime), None
    if isinstance(tree, exp.Anonymous):
        text, pattern = _two(tree) if len(tree.expressions) != 1 else (tree.expressions[0], None)
    else:
        text, pattern = tree.this, tree.args.get("format" if whole else "scale")
    hint = f"write {'TO_DATE' if whole else 'TO_TIMESTAMP'}('2024-12-31', 'YYYY-MM-DD')"
    if pattern is None and whole:
        return builder.constant(calendar.to_date(builder.known_value(text, "a date's text")), DATE)
    parts = [] if pattern is None else [text, pattern]
    values = [builder.known_value(part, "a date's text or pattern") for part in parts]
    if not values or not all(isinstance(value, str) for value in values):
        raise refused(f"{wording(tree)} needs a text and its pattern", hint)
    codes = str(values[1])
    if "%" not in codes:
        codes = re.sub("|".join(_READ), lambda found: _READ[found[0].upper()], codes, flags=re.IGNORECASE)
    try:
        moment = datetime.datetime.strptime(str(values[0]), codes)
    except (ValueError, re.error):
        raise refused(f"{wording(tree)}: the text does not have this pattern", hint) from None
    return builder.constant(moment.date(), DATE) if whole else builder.constant(moment, TIMESTAMP)


def _to_char(builder: Builder, tree: exp.Expr) -> Expr:
    """PostgreSQL's TO_CHAR of a date, with the commonest patterns."""
    only(tree, "this", "format")
    written = builder.known_value(tree.args["format"], "the format") if tree.args.get("format") is not None else None
    if not isinstance(written, str):
        raise refused(f"{wording(tree)} needs a format", "write TO_CHAR(column, 'YYYY-MM')")
    if builder.expr(tree.this).kind in (INTEGER, NUMBER):
        raise refused("TO_CHAR writes a number as text", "show the number itself, or use ROUND")
    found, rest = "", written
    while rest:
        code = next(((name, put) for name, put in _POSTGRES if rest.startswith(name)), None)
        if code is None and rest[0].isalpha():
            raise refused(f"the format {shown(written)} is not supported", "use YYYY, MM, Mon, DD or Day")
        found, rest = found + (rest[0] if code is None else code[1]), rest[1 if code is None else len(code[0]) :]
    return _format(builder, exp.TimeToStr(this=tree.this, format=exp.Literal.string(found)))


def _made_date(builder: Builder, tree: exp.Expr) -> Expr:
    only(tree, "year", "month", "day")
    if any(tree.args.get(name) is None for name in ("year", "month", "day")):
        raise refused("MAKE_DATE needs a year, a month and a day", "write MAKE_DATE(2024, 2, 29)")
    operands = [builder.expr(tree.args[name]) for name in ("year", "month", "day")]

    def scalar(year: Any, month: Any, day: Any) -> datetime.date:
        try:
            return datetime.date(scalars.whole(year), scalars.whole(month), scalars.whole(day))
        except ValueError:
            raise refused(f"{wording(tree)} is not a date", "write a day of the calendar") from None

    return builder.call(Function("MAKE_DATE", scalar, None, DATE), operands, tree)


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


def _months(builder: Builder, tree: exp.Expr) -> Expr:
    unit = tree.name[3:] if isinstance(tree, exp.Anonymous) else "days"
    argument = tree.expressions[0] if isinstance(tree, exp.Anonymous) else tree.this
    amount = builder.known_value(argument, "the length")
    return builder.constant(_length(float(scalars.as_number(amount)), unit, tree), DURATION)


DATE_HANDLERS: dict[type[exp.Expr], Any] = {
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
    exp.StrToDate: _read_date,
    exp.UnixToTime: _read_date,
    exp.ToDays: _months,
    exp.Add: _added,
    exp.Sub: _added,
}

DATE_FUNCTIONS: dict[str, Callable[[Builder, exp.Expr], Expr]] = {
    "DATE_PART": _dated,
    "DATEPART": _dated,
    "DATE_SUB": _subtracted,
    "DATESUB": _subtracted,
    "AGE": _age_alone,
    "TO_DATE": _read_date,
    "TO_MONTHS": _months,
    "TO_YEARS": _months,
    "TO_WEEKS": _months,
}
"""Those that sqlglot has no class for."""
