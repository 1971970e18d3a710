"""Functions of dates, on known dates and on bins of which only the first and the last day are known."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np

from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.sql.intervals import Curve, Interval
from reticent.sql.refusals import refused
from reticent.sql.vectors import DATE, INTEGER, NUMBER, TIMESTAMP, Labels, comparable_number, value_at

Moment = datetime.date | datetime.datetime
_UNITS = {
    "microseconds": "microsecond",
    "us": "microsecond",
    "milliseconds": "millisecond",
    "ms": "millisecond",
    "sec": "second",
    "s": "second",
    "min": "minute",
    "m": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "dayofmonth": "day",
    "w": "week",
    "weekofyear": "week",
    "mon": "month",
    "y": "year",
    "yr": "year",
    "weekday": "dow",
    "dayofweek": "dow",
    "dayofyear": "doy",
    "dec": "decade",
    "decades": "decade",
    "cent": "century",
    "centuries": "century",
    "mil": "millennium",
    "millennia": "millennium",
}
_EPOCH = datetime.date(1970, 1, 1)


def today() -> datetime.date:
    """The day in UTC: what CURRENT_DATE means."""
    return datetime.datetime.now(datetime.UTC).date()


def unit_of(word: str) -> str:
    """One name for each unit of time."""
    name = word.strip().lower()
    name = _UNITS.get(name, name)
    if name.endswith("s") and name[:-1] in (*_FLOORS, *_PARTS):
        name = name[:-1]
    if name not in _FLOORS and name not in _PARTS:
        raise refused(f"{shown(word)} is not a unit of time", "use year, quarter, month, week or day")
    return name


def day(value: Any) -> datetime.date:
    return value.date() if isinstance(value, datetime.datetime) else moment(value)


def moment(value: Any) -> Moment:
    """A date or datetime; text in ISO form is read."""
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, str):
        return to_moment(value)
    raise refused(f"a {type(value).__name__} is used where a date is needed", "use a column of dates")


def to_moment(value: str) -> Moment:
    for read in (datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            return read(value.strip())
        except ValueError:
            continue
    raise QueryError(f"{shown(value)} is not an ISO date; write it as DATE '2024-12-31'")


def to_date(value: Any) -> datetime.date:
    return day(moment(value))


def to_timestamp(value: Any) -> datetime.datetime:
    found = moment(value)
    return found if isinstance(found, datetime.datetime) else datetime.datetime(found.year, found.month, found.day)


def _clock(value: Moment) -> datetime.datetime:
    return to_timestamp(value)


def _midnight(value: datetime.date) -> datetime.datetime:
    return datetime.datetime(value.year, value.month, value.day)


def _first(year: int, month: int = 1) -> datetime.datetime:
    return datetime.datetime(max(year, 1), month, 1)


_FLOORS: dict[str, Callable[[Moment], datetime.datetime]] = {
    "millennium": lambda t: _first((t.year - 1) // 1000 * 1000 + 1),
    "century": lambda t: _first((t.year - 1) // 100 * 100 + 1),
    "decade": lambda t: _first(t.year // 10 * 10),
    "year": lambda t: _first(t.year),
    "quarter": lambda t: _first(t.year, (t.month - 1) // 3 * 3 + 1),
    "month": lambda t: _first(t.year, t.month),
    "week": lambda t: _midnight(day(t) - datetime.timedelta(days=day(t).weekday())),
    "day": lambda t: _midnight(day(t)),
    "hour": lambda t: _clock(t).replace(minute=0, second=0, microsecond=0),
    "minute": lambda t: _clock(t).replace(second=0, microsecond=0),
    "second": lambda t: _clock(t).replace(microsecond=0),
}
"""What DATE_TRUNC cuts to; each is non-decreasing in time."""

_PARTS: dict[str, tuple[Callable[[Moment], float], str | None, float, float]] = {
    "millennium": (lambda t: (t.year - 1) // 1000 + 1, None, 1, 10),
    "century": (lambda t: (t.year - 1) // 100 + 1, None, 1, 100),
    "decade": (lambda t: t.year // 10, None, 0, 999),
    "year": (lambda t: t.year, None, 1, 9999),
    "isoyear": (lambda t: day(t).isocalendar().year, None, 1, 9999),
    "yearweek": (lambda t: day(t).isocalendar().year * 100 + day(t).isocalendar().week, None, 0, 999999),
    "epoch": (lambda t: (to_timestamp(t) - _midnight(_EPOCH)).total_seconds(), None, -1e12, 1e12),
    "quarter": (lambda t: (t.month + 2) // 3, "year", 1, 4),
    "month": (lambda t: t.month, "year", 1, 12),
    "week": (lambda t: day(t).isocalendar().week, "isoyear", 1, 53),
    "day": (lambda t: t.day, "month", 1, 31),
    "doy": (lambda t: day(t).timetuple().tm_yday, "year", 1, 366),
    "isodow": (lambda t: day(t).isoweekday(), "week", 1, 7),
    "dow": (lambda t: day(t).isoweekday() % 7, "sunday", 0, 6),
    "hour": (lambda t: _clock(t).hour, "day", 0, 23),
    "minute": (lambda t: _clock(t).minute, "hour", 0, 59),
    "second": (lambda t: _clock(t).second, "minute", 0, 59),
    "millisecond": (lambda t: _clock(t).second * 1e3 + _clock(t).microsecond // 1000, "minute", 0, 59999),
    "microsecond": (lambda t: _clock(t).second * 1e6 + _clock(t).microsecond, "minute", 0, 59999999),
}
"""What EXTRACT reads: the function, the unit within which it is non-decreasing (None: always), and its range."""


def part(unit: str) -> Callable[[Any], float]:
    """EXTRACT of one known date."""
    function = _PARTS[unit][0]
    return lambda value: function(moment(value))


def floor_of(unit: str) -> Callable[[Any], datetime.datetime]:
    """DATE_TRUNC of one known date; a week begins on Monday."""
    if unit not in _FLOORS:
        raise refused(f"dates cannot be truncated to {unit}", "use year, quarter, month, week or day")
    function = _FLOORS[unit]
    return lambda value: function(moment(value))


def part_kind(unit: str) -> str:
    return NUMBER if unit == "epoch" else INTEGER


def _over(function: Callable[[Any], Any], kind: str, result: str) -> Curve:
    """A function of dates as one of numbers; beyond the calendar it is infinite."""

    def curve(numbers: np.ndarray) -> np.ndarray:
        distinct, places = np.unique(numbers, return_inverse=True)
        found = np.empty(len(distinct))
        for place, number in enumerate(distinct.tolist()):
            try:
                value = function(value_at(number, kind)) if np.isfinite(number) else None
                found[place] = number if value is None else _number(value, result)
            except (ValueError, OverflowError):
                found[place] = np.copysign(np.inf, number)
        return found[places]

    return curve


def _number(value: Any, result: str) -> float:
    if result == TIMESTAMP:
        return comparable_number(to_timestamp(value))
    return comparable_number(to_date(value)) if result == DATE else float(value)


def rising(function: Callable[[Any], Any], kind: str, result: str) -> Callable[[Interval], Interval]:
    """A non-decreasing function of time, of bins of time."""
    curve = _over(function, kind, result)
    return lambda numbers: numbers.mapped(curve)


def bounded_part(unit: str, kind: str) -> Callable[[Interval], Interval]:
    """EXTRACT of bins: exact where a bin has one such part, else between the part of its first and last day."""
    function, parent, least, most = _PARTS[unit]
    curve = _over(function, kind, NUMBER)
    if parent is None:
        return lambda numbers: numbers.mapped(curve)
    owner = _over(_owner(parent), kind, TIMESTAMP)

    def bounded(numbers: Interval) -> Interval:
        value, low, high = curve(numbers.value), curve(numbers.low), curve(numbers.high)
        together = owner(numbers.low) == owner(numbers.high)
        gone = np.isnan(numbers.low)
        return Interval(
            value,
            np.where(gone, np.nan, np.where(together, low, least)),
            np.where(gone, np.nan, np.where(together, high, most)),
            numbers.null,
        )

    return bounded


def _owner(parent: str) -> Callable[[Moment], datetime.datetime]:
    if parent == "isoyear":
        return lambda t: _first(day(t).isocalendar().year)
    if parent == "sunday":
        return lambda t: _midnight(day(t) - datetime.timedelta(days=day(t).isoweekday() % 7))
    return _FLOORS[parent]


_INDEX: dict[str, Callable[[Moment], int]] = {
    "millennium": lambda t: (t.year - 1) // 1000,
    "century": lambda t: (t.year - 1) // 100,
    "decade": lambda t: t.year // 10,
    "year": lambda t: t.year,
    "isoyear": lambda t: day(t).isocalendar().year,
    "quarter": lambda t: t.year * 4 + (t.month - 1) // 3,
    "month": lambda t: t.year * 12 + t.month - 1,
    "day": lambda t: day(t).toordinal(),
    "hour": lambda t: _seconds(t) // 3600,
    "minute": lambda t: _seconds(t) // 60,
    "second": lambda t: _seconds(t),
}
"""How many units began before a time: DATE_DIFF is a difference of two."""


def _seconds(value: Moment) -> int:
    return int((to_timestamp(value) - datetime.datetime(1, 1, 1)) // datetime.timedelta(seconds=1))


def index_of(unit: str) -> Callable[[Any], int]:
    """The number of a unit of time, counted from year one."""
    if unit not in _INDEX:
        raise refused(f"a difference in {unit} is not supported", "use year, quarter, month or day")
    function = _INDEX[unit]
    return lambda value: function(moment(value))


def full_months(later: Any, earlier: Any) -> int:
    """Whole months from one date to another, negative backwards."""
    one, two = to_timestamp(moment(later)), to_timestamp(moment(earlier))
    if one < two:
        return -full_months(two, one)
    months = (one.year - two.year) * 12 + one.month - two.month
    return months - (shifted(two, months=months) > one)


def elapsed(unit: str) -> Callable[[Any, Any], int]:
    """Whole units from one date to another: what AGE and DATE_SUB count."""
    size = {"year": 12, "quarter": 3, "month": 1, "decade": 120, "century": 1200}.get(unit)
    if size is not None:
        return lambda later, earlier: _cut(full_months(later, earlier), size)
    seconds = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}.get(unit)
    if seconds is None:
        raise refused(f"time elapsed in {unit} is not supported", "use year, month or day")
    return lambda later, earlier: _cut(_seconds(moment(later)) - _seconds(moment(earlier)), seconds)


def _cut(number: int, size: int) -> int:
    return abs(number) // size * (1 if number >= 0 else -1)


def corners(function: Callable[[Any, Any], int], kinds: tuple[str, str]) -> Callable[[Interval, Interval], Interval]:
    """A function that rises with the first date and falls with the second."""

    def curve(later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        pairs = zip(*np.broadcast_arrays(later, earlier), strict=True)
        found = []
        for one, two in pairs:
            if np.isfinite(one) and np.isfinite(two):
                found.append(float(function(value_at(float(one), kinds[0]), value_at(float(two), kinds[1]))))
            else:
                found.append(float(one) - float(two))
        return np.array(found)

    def bounded(later: Interval, earlier: Interval) -> Interval:
        null = later.maybe_null | earlier.maybe_null
        return Interval(
            curve(later.value, earlier.value),
            curve(later.low, earlier.high),
            curve(later.high, earlier.low),
            null if null.any() else None,
        )

    return bounded


def shifted(value: Moment, *, months: int = 0, delta: datetime.timedelta = datetime.timedelta()) -> Moment:
    """A date moved by months (the last day where there is no such day) and by a fixed time."""
    if months:
        count = value.year * 12 + value.month - 1 + months
        year, month = divmod(count, 12)
        value = value.replace(year=year, month=month + 1, day=min(value.day, last_of(year, month + 1)))
    return value + delta


def last_of(year: int, month: int) -> int:
    following = datetime.date(year + month // 12, month % 12 + 1, 1)
    return (following - datetime.timedelta(days=1)).day


def last_day(value: Any) -> datetime.date:
    found = day(moment(value))
    return found.replace(day=last_of(found.year, found.month))


def day_name(value: Any) -> str:
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return names[day(moment(value)).weekday()]


def month_name(value: Any) -> str:
    names = "January February March April May June July August September October November December"
    return names.split()[moment(value).month - 1]


_WRITTEN: dict[str, Callable[[datetime.datetime], str]] = {
    "Y": lambda t: f"{t.year}",
    "y": lambda t: f"{t.year % 100:02d}",
    "m": lambda t: f"{t.month:02d}",
    "-m": lambda t: f"{t.month}",
    "d": lambda t: f"{t.day:02d}",
    "-d": lambda t: f"{t.day}",
    "H": lambda t: f"{t.hour:02d}",
    "M": lambda t: f"{t.minute:02d}",
    "S": lambda t: f"{t.second:02d}",
    "j": lambda t: f"{t.timetuple().tm_yday:03d}",
    "B": month_name,
    "b": lambda t: month_name(t)[:3],
    "A": day_name,
    "a": lambda t: day_name(t)[:3],
    "u": lambda t: f"{t.isoweekday()}",
    "w": lambda t: f"{t.isoweekday() % 7}",
    "V": lambda t: f"{t.isocalendar().week:02d}",
    "G": lambda t: f"{t.isocalendar().year}",
    "q": lambda t: f"{(t.month + 2) // 3}",
    "%": lambda t: "%",
}


def formatted_date(value: Any, pattern: Any) -> str:
    """STRFTIME with the codes that do not depend on a language."""
    stamp = to_timestamp(moment(value))
    return "".join(_WRITTEN[piece](stamp) if code else piece for piece, code in _pieces(str(pattern)))


def constant_on(pattern: str) -> str:
    """The longest unit of time on which a written form does not change."""
    codes = {piece.lstrip("-") for piece, code in _pieces(pattern) if code}
    if codes <= {"Y", "y", "%"}:
        return "year"
    if codes <= {"Y", "y", "q", "%"}:
        return "quarter"
    if codes <= {"Y", "y", "q", "m", "B", "b", "%"}:
        return "month"
    return "second" if codes & {"H", "M", "S"} else "day"


def _pieces(pattern: str) -> list[tuple[str, bool]]:
    """Characters, and codes after a percent sign."""
    found: list[tuple[str, bool]] = []
    place = 0
    while place < len(pattern):
        if pattern[place] != "%":
            found.append((pattern[place], False))
            place += 1
            continue
        code = (
            pattern[place + 1 : place + 3] if pattern[place + 1 : place + 2] == "-" else pattern[place + 1 : place + 2]
        )
        if code not in _WRITTEN:
            raise refused(f"the format code {shown('%' + code)} is not supported", "use %Y, %m, %d, %H, %b or %B")
        found.append((code, True))
        place += 1 + len(code)
    return found


def whole_bins(function: Callable[[Any], str], unit: str, kind: str) -> Callable[[Interval], Labels]:
    """A text of a date, of bins: certain where one lies within one unit of time, else that of its middle."""
    owner = _over(_FLOORS[unit], kind, TIMESTAMP)

    def bounded(numbers: Interval) -> Labels:
        gone = np.isnan(numbers.low)
        certain = gone | (owner(numbers.low) == owner(numbers.high))
        cells = zip(gone.tolist(), numbers.value.tolist(), strict=True)
        found = Labels.of([None if none else function(value_at(value, kind)) for none, value in cells])
        return Labels(found.codes, found.values, None if certain.all() else certain)

    return bounded
