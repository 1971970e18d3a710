"""Readers of one raw value as a number, a text, a truth value or an instant, with the same result in every engine.

No function here raises an error for a value or calls a method of an unknown class, so no row can cause an exception.
Each reader returns `Unread.NULL` for a missing value and `Unread.MISFIT` for a value that it cannot read.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

EXACT_FLOAT = 2**53
"""Whole floats below this size are exact, so their decimal text is the same everywhere."""

NAMED_MOST, NAMED_BITS = 2**62, 53
"""Numbers beyond the first share a name; fractions are named in steps of two to minus the second."""

# Bounded repetitions keep every accepted text finite as a float, and make the rule a plain regular expression in SQL.
NUMBER_PATTERN = r"^ *[+-]?([0-9]{1,100}(\.[0-9]{0,100})?|\.[0-9]{1,100})([eE][+-]?[0-9]{1,2})? *$"
INSTANT_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?$"

_NUMBER = re.compile(NUMBER_PATTERN.replace("$", r"\Z"))
_INSTANT = re.compile(INSTANT_PATTERN.replace("$", r"\Z"))
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
DAY_MICROSECONDS = 86_400_000_000
_LONGEST_INTEGER_BITS = 127
_TRUTHS: dict[str | float, bool] = {"true": True, "false": False, 1.0: True, 0.0: False}
_PANDAS_NULLS = frozenset({"NAType", "NaTType"})


class Unread(enum.Enum):
    """The reason why a value cannot be read."""

    NULL = "null"
    MISFIT = "misfit"


def plain(value: Any) -> Any:
    """A Python scalar for a NumPy scalar; None for every form of a missing value."""
    if isinstance(value, np.datetime64):
        return _plain_instant(value)
    if isinstance(value, np.generic):
        # A long double has no Python twin, and comes back from item() as it was.
        value = float(value) if value.dtype.char == "g" else value.item()
    if value is None or type(value).__name__ in _PANDAS_NULLS:
        return None
    # A subclass's own methods are never called: its text or number is that of the base class, as engines see it.
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, int):
        return value if type(value) in (int, bool) else int.__int__(value)
    if isinstance(value, float):
        number = value if type(value) is float else float.__float__(value)
        return None if math.isnan(number) else number
    if isinstance(value, Decimal) and value.is_nan():
        return None
    return value


def _plain_instant(value: np.datetime64) -> Any:
    """A date for a NumPy day, otherwise a datetime; a misfit if Python's calendar does not include it."""
    if np.isnat(value):
        return None
    unit = "D" if np.datetime_data(value.dtype)[0] == "D" else "us"
    try:
        instant = value.astype(f"datetime64[{unit}]").item()
    except (OverflowError, ValueError):
        return Unread.MISFIT
    return instant if isinstance(instant, datetime.date) else Unread.MISFIT


def number_of(value: Any) -> float | Unread:
    """The 64-bit float of a number, a truth value (0 or 1) or a plain decimal text; numbers compare as such floats."""
    value = plain(value)
    if value is None:
        return Unread.NULL
    if isinstance(value, str):
        return float(value) if _NUMBER.match(value) else Unread.MISFIT
    if isinstance(value, (int, float, Decimal, Fraction)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return Unread.MISFIT


def text_of(value: Any) -> str | Unread:
    """The text of a string (as it is), a whole number (`1`, also for 1.0), a truth value (`true`) or a date (ISO)."""
    value = plain(value)
    if value is None:
        return Unread.NULL
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _LONGEST_INTEGER_BITS else Unread.MISFIT
    if isinstance(value, (float, Decimal)):
        small = abs(value) < EXACT_FLOAT
        return str(int(value)) if small and value == int(value) else Unread.MISFIT
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    return Unread.MISFIT


def truth_of(value: Any) -> bool | Unread:
    """True and false, the numbers 1 and 0, and the texts `true` and `false` in any case."""
    value = plain(value)
    if isinstance(value, str):
        return _TRUTHS.get(value.lower(), Unread.MISFIT)
    number = number_of(value)
    return number if isinstance(number, Unread) else _TRUTHS.get(number, Unread.MISFIT)


def microsecond_of(value: Any) -> float | Unread:
    """Microseconds since 1970 of a date, a datetime (aware ones in UTC) or an ISO text without a time zone."""
    value = plain(value)
    if value is None:
        return Unread.NULL
    if isinstance(value, str):
        if not _INSTANT.match(value):
            return Unread.MISFIT
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return Unread.MISFIT
    if isinstance(value, datetime.datetime):
        try:
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return float((value - _EPOCH) // _MICROSECOND)
        except (OverflowError, ValueError, TypeError):
            return Unread.MISFIT
    if isinstance(value, datetime.date):
        return float((value.toordinal() - _EPOCH_DAY) * DAY_MICROSECONDS)
    return Unread.MISFIT


def day_of(value: Any) -> float | Unread:
    """Days since 1970, fractional for a time within the day."""
    microsecond = microsecond_of(value)
    return microsecond / DAY_MICROSECONDS if isinstance(microsecond, float) else microsecond


def identity_of(value: Any) -> tuple[str, Any] | None:
    """The person that a cell of a person column names, from this cell alone; None if it names nobody.

    Equal numbers of any type name one person. All cells of a type that cannot be compared name one common person:
    persons who share a name share one unit of weight.
    """
    value = plain(value)
    if value is None:
        return None
    if isinstance(value, str):
        return "text", value
    if isinstance(value, (int, float, Decimal, Fraction)):
        return "number", value
    if isinstance(value, datetime.date):
        return "time", microsecond_of(value)
    if isinstance(value, (bytes, bytearray)):
        return "bytes", bytes(value)
    if isinstance(value, uuid.UUID):
        return "uuid", value.int
    return "other", None


def name_of(value: Any) -> str | None:
    """The text of a person's identifier; None if the cell names nobody.

    It is the text that engines give whole columns (`reticent.sources.persons`): what a cell is called never depends on
    whether another cell kept the column from having a type.
    """
    identity = identity_of(value)
    if identity is None:
        return None
    kind, what = identity
    if kind == "text":
        return what.encode("utf-8", "backslashreplace").decode()
    if kind == "number":
        return _number_name(what)
    if kind == "time":
        return "" if isinstance(what, Unread) else str(int(what))
    if kind == "bytes":
        return what.hex()
    return str(uuid.UUID(int=what)) if kind == "uuid" else ""


def _number_name(value: float | Decimal | Fraction) -> str:
    double = number_of(value)
    assert isinstance(double, float), "numbers are read as floats"
    if not isinstance(value, float) and abs(double) < 2.0**_LONGEST_INTEGER_BITS and value == (whole := int(value)):
        return str(whole)
    clipped = min(max(double, -float(NAMED_MOST)), float(NAMED_MOST))
    floor = math.floor(clipped)
    steps = math.floor((clipped - floor) * (1 << NAMED_BITS))
    return f"{floor}+{steps}" if steps or clipped != floor else str(floor)


def date_at(day: float) -> datetime.date:
    """The date `day` whole days after 1970-01-01."""
    return datetime.date.fromordinal(_EPOCH_DAY + int(day))


def datetime_at(microsecond: float) -> datetime.datetime:
    """The naive UTC datetime `microsecond` microseconds after 1970."""
    return _EPOCH + datetime.timedelta(microseconds=int(microsecond))


def decimals_of(value: float, error: float | None) -> int:
    """Decimals of a shown number: two digits of the error are enough, and digits of the value below say nothing."""
    if error:
        return min(12, max(0, 1 - math.floor(math.log10(error))))
    if value == round(value):
        return 0
    return min(12, max(0, 5 - math.floor(math.log10(abs(value)))))


def shown_number(value: float, error: float | None = None) -> str:
    """Six digits; thousands are separated, not written with an exponent, and end where the error begins."""
    if not GROUPED <= abs(value) < LONGEST:
        return f"{value:.6g}"
    return f"{value:,.{min(decimals_of(value, None), decimals_of(value, error))}f}"


def shown_bound(bound: float) -> str:
    """Three digits of an error, without an exponent in thousands."""
    return f"{float(f'{bound:.3g}'):,.0f}" if GROUPED <= bound < LONGEST else f"{bound:.3g}"


def with_error(value: float, error: float | None) -> str:
    """A number of a table, and two digits of its error; with an exponent where either has too many digits."""
    size = max(abs(value), error or 0.0)
    if size >= LONGEST or 0 < size < SMALLEST:
        return f"{value:.6g}" + ("" if error is None else f" ± {error:.3g}")
    decimals = decimals_of(value, error)
    return f"{value:,.{decimals}f}" + ("" if error is None else f" ± {error:,.{decimals}f}")


GROUPED, LONGEST = 1000, 1e15
SMALLEST = 1e-10
"""Below it two digits of an error have more decimals than are shown."""


def confidence_text(confidence: float, digits: int = 4) -> str:
    """A probability in a few digits, or as 1 - 1e-15 where all digits are nines: no rounding makes it certainty."""
    for places in (digits, 9):
        if (short := f"{confidence:.{places}g}") != "1" or confidence == 1:
            return short
    return f"1 - {1 - confidence:.2g}"


def number_text(number: float) -> str:
    """Shortest text that reads back as the same float; whole numbers without a point."""
    if float(number).is_integer() and abs(number) < EXACT_FLOAT:
        return str(int(number))
    return repr(float(number))
