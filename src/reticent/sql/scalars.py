"""SQL functions of single known values, as DuckDB defines them. They receive NULL only if they state so.

SQL's LIKE and regular expressions in time linear in the text: no pattern can make a match backtrack.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from reticent.domain.values import number_text
from reticent.sql.refusals import refused

LONGEST_TEXT = 10_000
"""Characters of a computed text."""
_TRUE, _FALSE = ("true", "t", "yes", "y", "1", "on"), ("false", "f", "no", "n", "0", "off")


def text(value: Any) -> str:
    """CAST to text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return number_text(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise refused(f"{type(value).__name__} has no text", "use text, numbers or dates")


def limited(value: str) -> str:
    if len(value) > LONGEST_TEXT:
        raise refused(f"a computed text has {len(value)} characters; at most {LONGEST_TEXT}", "use shorter ones")
    return value


def lower(value: Any) -> str:
    return text(value).lower()


def upper(value: Any) -> str:
    # One letter at a time, as DuckDB: what has no single capital keeps its length.
    return "".join(c.upper() if len(c.upper()) == 1 else ("ẞ" if c == "ß" else c) for c in text(value))


def initcap(value: Any) -> str:
    found, start = [], True
    for character in text(value):
        found.append(character.upper() if start else character.lower())
        start = not character.isalnum()
    return "".join(found)


def trimmed(value: Any, characters: Any = " ", side: str = "BOTH") -> str:
    found, chosen = text(value), text(characters)
    if side != "TRAILING":
        found = found.lstrip(chosen) if chosen else found
    return found if side == "LEADING" or not chosen else found.rstrip(chosen)


def substring(value: Any, start: Any, length: Any = None) -> str:
    """Counted from one; a negative start counts from the end, a negative length goes backwards."""
    source, first = text(value), whole(start)
    begin = first - 1 if first > 0 else len(source) + first if first < 0 else 0
    if length is None:
        return source[max(begin, 0) :]
    count = whole(length)
    if first == 0:
        # Position 0 is before the first character, and counts.
        count = count - 1 if count > 0 else count
    if count < 0:
        begin, count = begin + count, -count
    end = begin + count
    return source[max(begin, 0) : max(end, 0)]


def left(value: Any, count: Any) -> str:
    source, number = text(value), whole(count)
    return source[:number]


def right(value: Any, count: Any) -> str:
    source, number = text(value), whole(count)
    if number < 0:
        return source[-number:]
    return source[len(source) - number :] if number < len(source) else source


def length(value: Any) -> int:
    return len(text(value))


def concatenated(*values: Any) -> str:
    """`||`: NULL if any part is."""
    return limited("".join(map(text, values)))


def concat(*values: Any) -> str:
    """CONCAT leaves NULL out."""
    return limited("".join(text(value) for value in values if value is not None))


def concat_with(separator: Any, *values: Any) -> str | None:
    if separator is None:
        return None
    return limited(text(separator).join(text(value) for value in values if value is not None))


def replaced(value: Any, old: Any, new: Any) -> str:
    source, sought, put = text(value), text(old), text(new)
    if len(source) * max(1, len(put)) > 100 * LONGEST_TEXT:
        raise refused("REPLACE makes too long a text", "use shorter ones")
    return limited(source.replace(sought, put)) if sought else source


def position(value: Any, part: Any) -> int:
    return text(value).find(text(part)) + 1


def split_part(value: Any, separator: Any, place: Any) -> str:
    source, mark, number = text(value), text(separator), whole(place)
    parts = source.split(mark) if mark else [source]
    if number == 0:
        number = 1
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def padded(value: Any, width: Any, fill: Any = " ", *, on_left: bool = True) -> str:
    source, size, mark = text(value), whole(width), text(fill)
    if size > LONGEST_TEXT:
        raise refused(f"a text padded to {size} characters; at most {LONGEST_TEXT}", "use fewer")
    missing = size - len(source)
    if missing <= 0 or not mark:
        return source[: max(size, 0)]
    padding = (mark * (missing // len(mark) + 1))[:missing]
    return padding + source if on_left else source + padding


def repeated(value: Any, times: Any) -> str:
    source, count = text(value), whole(times)
    if len(source) * count > LONGEST_TEXT:
        raise refused(f"a text repeated to {len(source) * count} characters; at most {LONGEST_TEXT}", "use fewer")
    return source * max(count, 0)


def whole(value: Any) -> int:
    """An argument that counts characters or places."""
    found = as_number(value)
    if not math.isfinite(found) or abs(found) > 2**31:
        raise refused("a position or length is not a whole number", "write a smaller one")
    return round(found)


def as_number(value: Any) -> float:
    """An argument that must be a number."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    raise refused(f"{_named(value)} is not a number", "use a number, or a column of numbers")


def _named(value: Any) -> str:
    return f"{value!r}"[:40] if isinstance(value, str) else f"a {type(value).__name__}"


def finite(value: Any) -> float | None:
    """Results that are no numbers are NULL here; DuckDB says infinity or NaN."""
    return value if isinstance(value, int) or math.isfinite(value) else None


def guarded(function: Any) -> Any:
    """A function of numbers that is NULL where it has no finite value."""

    def computed(*values: Any) -> float | None:
        try:
            return finite(function(*map(as_number, values)))
        except (ValueError, OverflowError, ZeroDivisionError):
            return None

    return computed


def add(one: float, other: float) -> float:
    return one + other


def subtract(one: float, other: float) -> float:
    return one - other


def multiply(one: float, other: float) -> float:
    return one * other


def quotient(one: float, other: float) -> float:
    return one / other


def divide_whole(one: float, other: float) -> float:
    """`//` cuts towards zero between integers, and is `/` between others."""
    if isinstance(one, int) and isinstance(other, int):
        return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return one / other


def remainder(one: float, other: float) -> float:
    """With the sign of the first."""
    if isinstance(one, int) and isinstance(other, int):
        return int(math.copysign(1, one)) * (abs(one) % abs(other))
    return math.fmod(one, other)


def negative(value: float) -> float:
    return -value


def power(base: float, exponent: float) -> float:
    found = float(base) ** float(exponent)
    if isinstance(found, complex):
        raise ValueError
    return found


def cube_root(value: float) -> float:
    return math.copysign(abs(value) ** (1 / 3), value)


def logarithm(base: float, value: float) -> float:
    if value > 0 and base in (2, 10):
        return math.log2(value) if base == 2 else math.log10(value)
    return math.log(value) / math.log(base)


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def rounded(value: float, decimals: float = 0) -> float:
    """Halves away from zero."""
    digits = whole(decimals)
    if isinstance(value, int) and digits >= 0:
        return value
    scale = 10.0 ** max(-300, min(digits, 300))
    found = math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value)
    return int(found) if isinstance(value, int) else found


def truncated(value: float, decimals: float = 0) -> float:
    digits = whole(decimals)
    if isinstance(value, int) and digits >= 0:
        return value
    scale = 10.0 ** max(-300, min(digits, 300))
    found = math.trunc(value * scale) / scale
    return int(found) if isinstance(value, int) else found


def floor(value: float) -> float:
    return value if isinstance(value, int) else float(math.floor(value))


def ceiling(value: float) -> float:
    return value if isinstance(value, int) else float(math.ceil(value))


def to_integer(value: Any) -> int | None:
    """Halves to even for doubles, as the processor rounds; away from zero for text, which reads as a decimal."""
    if isinstance(value, str):
        found = rounded(read_number(value))
        return int(found) if math.isfinite(found) else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value) if isinstance(value, (bool, int)) else round(as_number(value))


def to_double(value: Any) -> float:
    return read_number(value) if isinstance(value, str) else float(as_number(value))


def read_number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise refused(f"{_named(value)} is not a number", "use TRY_CAST, which gives NULL there") from None


def truth_value(value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise refused(f"{_named(value)} is not a truth value", "use TRY_CAST, which gives NULL there")
    return bool(as_number(value))


def greatest(*values: Any) -> Any:
    """NULL is passed over."""
    known = [value for value in values if value is not None]
    return max(known) if known else None


def least(*values: Any) -> Any:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def first_known(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def unless_equal(one: Any, other: Any) -> Any:
    return None if one == other else one


ANYTHING = "%"
ANY_ONE = "_"
REGULAR_STEPS = 10
"""Of reading one character of a regular expression."""
WORD_BITS = 2048
"""Bits of a state that one step of Python's integers passes over."""


@dataclass(frozen=True, eq=False)
class Matcher:
    """An automaton with one state per character of the pattern; all states it is in are the bits of one integer.

    Reading a character moves each state whose character fits one place on, and a `%` lets its state stay: two shifts
    and masks for each character of the text, however many `%` there are.
    """

    places: tuple[str | None, ...]
    """The characters of the pattern without its `%`; None for `_`."""
    staying: int
    """States before which the pattern has a `%`."""
    ignore_case: bool
    _fitting: dict[str, int] = field(default_factory=dict)
    """For each character met so far, the places that it fits."""

    @classmethod
    def of(cls, pattern: str, escape: str = "", *, ignore_case: bool = False) -> Matcher:
        """`escape` takes the meaning from the `%` or `_` that follows it; alone at the end it is itself."""
        places: list[str | None] = []
        staying = 0
        for character, special in _read(pattern, escape):
            if special and character == ANYTHING:
                staying |= 1 << len(places)
            else:
                places.append(None if special and character == ANY_ONE else character)
        return cls(tuple(places), staying, ignore_case)

    def matches(self, text: str) -> bool:
        """Whether the pattern covers the whole text."""
        state, staying = 1, self.staying
        for character in text:
            fits = self._fitting.get(character)
            if fits is None:
                fits = self._fitting[character] = self._fits(character)
            state = (state & fits) << 1 | state & staying
            if not state:
                return False
        return bool(state >> len(self.places) & 1)

    def steps(self, text: str) -> int:
        """About the microseconds that `matches` takes."""
        return 1 + len(text) * (1 + len(self.places) // WORD_BITS)

    def _fits(self, character: str) -> int:
        alike = {place: place is None or self._same(place, character) for place in set(self.places)}
        found = 0
        for number, place in enumerate(self.places):
            if alike[place]:
                found |= 1 << number
        return found

    def _same(self, one: str, other: str) -> bool:
        if not self.ignore_case:
            return one == other
        return re.fullmatch(re.escape(one), other, re.IGNORECASE) is not None


def _read(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    """Each character, and whether it may stand for others."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield next(characters, escape), False
        else:
            yield character, True


def matching_texts(pattern: str, texts: Sequence[str], *, whole: bool, ignore_case: bool) -> frozenset[str] | None:
    """Those texts that a regular expression of RE2 matches, as a whole or in some part; None where it is none."""
    import pyarrow as pa
    from pyarrow.compute import MatchSubstringOptions, call_function

    written = rf"\A(?:{pattern})\z" if whole else pattern
    try:
        listed = pa.array([*texts, ""], pa.string())  # never none: a pattern is judged wherever it stands
        options = MatchSubstringOptions(written, ignore_case=ignore_case)
        found = call_function("match_substring_regex", [listed], options)
    except pa.ArrowInvalid:
        return None
    return frozenset(text for text, matched in zip(texts, found.to_pylist(), strict=False) if matched)
