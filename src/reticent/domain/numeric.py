"""Attributes whose values are numbers, dates or datetimes in bins.

The position of a value is its distance from the lower end of its bin, in whole steps.

Every engine computes the same integers (`reticent.sources.encoding`); this is the reference. Values are clipped to the
declared edges, and floored where the attribute is whole.
"""

# Arguments are checked at run time too, for callers without a type checker.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import bisect
import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from reticent.domain.attribute import (
    MAX_SIZE,
    Attribute,
    Status,
    asked_number,
    checked_extras,
    declare,
    extras_of,
    frozen,
    shown,
)
from reticent.domain.rules import Rules
from reticent.domain.values import (
    DAY_MICROSECONDS,
    EXACT_FLOAT,
    Unread,
    date_at,
    datetime_at,
    day_of,
    microsecond_of,
    number_of,
    number_text,
    plain,
)
from reticent.errors import DomainError, QueryError, has_items, whole_number

Edge = int | float | datetime.date | datetime.datetime
Kind = Literal["number", "date", "datetime"]

_READERS = {"number": number_of, "date": day_of, "datetime": microsecond_of}


@dataclass(frozen=True, init=False, eq=False)
class Numeric(Attribute):
    """Bins [e0, e1), [e1, e2), ..., the last one closed; edges may be dates or datetimes.

    With `whole`, values are rounded down, so bins hold integers and `age > 44` is `age >= 45`; dates are whole days.
    Finite and infinite values beyond the edges are clamped into the end bins, or get the code of values that are not
    numbers (`outside="other"`). With `lower, upper, bins` the bins are equally wide (with `whole`, the integers
    lower..upper are divided evenly).

    Reading rules change how a cell is read: `format` of dates, `decimal`, `thousands`, `units` and `negative` of
    numbers, `missing` marks, `aliases`, `strip` and `casefold` (docs/domain.md).

    Args:
        edges: The bins' edges, ascending.
        lower: With `upper` and `bins`, the first edge of equally wide bins.
        upper: The last edge.
        bins: The number of bins.
        whole: Whether values are whole numbers.
        nullable: Whether missing values have a separate code.
        other: Whether values that are not numbers have a separate code.
        outside: "clamp" counts numbers beyond the edges in the end bins, "other" as values that are not numbers.
        format: The format of dates; several formats are tried in order.
        strip: Remove blanks at both ends of a text.
        casefold: Ignore case.
        aliases: A mapping from other spellings to values.
        missing: Marks of a missing value.
        decimal: The decimal mark of numbers.
        thousands: The separator of thousands.
        units: Texts that may stand before or after a number.
        negative: How negative numbers may be written: "parentheses" as in (5), "trailing" as in 5-.

    Raises:
        DomainError: Edges do not ascend, or arguments contradict each other.

    Example:
        >>> import reticent as rt
        >>> rt.Numeric(edges=range(0, 101, 10), other=False).size
        10
    """

    edges: tuple[Edge, ...]
    whole: bool
    nullable: bool
    other: bool
    outside: str
    rules: Rules | None
    type: ClassVar[str] = "numeric"
    ordered: ClassVar[bool] = True

    def __init__(
        self,
        *,
        edges: Iterable[Edge] | None = None,
        lower: Edge | None = None,
        upper: Edge | None = None,
        bins: int | None = None,
        whole: bool = False,
        nullable: bool = False,
        other: bool | None = None,
        outside: str = "clamp",
        format: str | Iterable[str] = (),
        strip: bool = False,
        casefold: bool = False,
        aliases: Mapping[str, Any] | None = None,
        missing: Iterable[Any] = (),
        decimal: str = ".",
        thousands: str = "",
        units: str | Iterable[str] = (),
        negative: str | Iterable[str] = (),
    ) -> None:
        if not isinstance(whole, bool):
            raise DomainError(f"whole {shown(whole)} must be true or false")
        if not isinstance(outside, str) or outside not in ("clamp", "other"):
            raise DomainError(f'outside {shown(outside)} must be "clamp" or "other"')
        nullable, other = checked_extras(nullable, other)
        if edges is not None:
            if lower is not None or upper is not None or bins is not None:
                raise DomainError("give either edges or lower, upper and bins, not both")
            listed = _listed_edges(edges, whole)
        else:
            listed = _even_edges(lower, upper, bins, whole)
        whole = whole or _kind_of(listed[0]) == "date"
        rules = Rules.of(
            "numbers" if _kind_of(listed[0]) == "number" else "dates",
            format=format,
            strip=strip,
            casefold=casefold,
            aliases=aliases,
            missing=missing,
            decimal=decimal,
            thousands=thousands,
            units=units,
            negative=negative,
        )
        extras = {"nullable": nullable, "other": other, "outside": outside, "rules": rules}
        declare(self, edges=listed, known=len(listed) - 1, whole=whole, **extras)

    @cached_property
    def kind(self) -> Kind:
        """`number`, `date` (counted in days since 1970) or `datetime` (in microseconds)."""
        return _kind_of(self.edges[0])

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.cuts[0]), float(self.cuts[-1])

    @cached_property
    def cuts(self) -> np.ndarray:
        """The edges as floats (days or microseconds since 1970 for dates and datetimes)."""
        return frozen(np.array(_numbers(self.edges, self.kind)))

    def bin(self, code: int) -> tuple[float, float]:
        """Smallest and largest number of a bin.

        The largest belongs to the bin only if numbers are whole or the bin is the last.

        Args:
            code: Number of the bin, from 0.

        Returns:
            Both numbers.

        Raises:
            DomainError: The bin does not exist.

        Example:
            >>> import reticent as rt
            >>> rt.Numeric(edges=[0, 10, 20]).bin(1)
            (10.0, 20.0)
        """
        if not 0 <= code < self.known:
            raise DomainError(f"code {code} is not one of the {self.known} bins")
        last = self.whole and code < self.known - 1
        return float(self.cuts[code]), float(self.cuts[code + 1]) - last

    def read(self, value: Any) -> float | Unread:
        """The number of one raw value, neither clipped nor rounded.

        Args:
            value: A cell.

        Returns:
            Its number, or days or microseconds since 1970 for dates and times; otherwise the reason why it has none.

        Example:
            >>> import reticent as rt
            >>> rt.Numeric(edges=[0, 10, 20]).read("12.5")
            12.5
        """
        number = _READERS[self.kind](value if self.rules is None else self.rules.plain(value))
        return Unread.NULL if isinstance(number, float) and self._means_missing(number) else number

    def to_dict(self) -> dict[str, Any]:
        edges = [edge.isoformat() if isinstance(edge, datetime.date) else edge for edge in self.edges]
        whole = {"whole": True} if self.whole and self.kind == "number" else {}
        outside = {"outside": self.outside} if self.outside != "clamp" else {}
        return {"type": self.type, "edges": edges, **whole, **extras_of(self), **outside}

    @cached_property
    def group_keys(self) -> tuple[Any, ...]:
        """The label of each bin; a bin of one integer is that integer."""
        return tuple(None if code == self.null_code else _short(label) for code, label in enumerate(self.labels))

    def _known_labels(self) -> tuple[str, ...]:
        return tuple(self._label(code) for code in range(self.known))

    def _label(self, code: int) -> str:
        low, high = self.bin(code)
        first, last = self._text(low), self._text(high)
        if not self.whole:
            return f"[{first}, {last}{']' if code == self.known - 1 else ')'}"
        if low == high:
            return first
        return f"{first}-{last}" if self.kind == "number" and low >= 0 else f"{first} to {last}"

    def _text(self, number: float) -> str:
        return number_text(number) if self.kind == "number" else self._decoded(number).isoformat()

    def _decoded(self, number: float) -> Any:
        if self.kind == "number":
            return int(number) if self.whole else number
        return date_at(number) if self.kind == "date" else datetime_at(number)

    def _known_value(self, code: int) -> Any:
        return self._decoded(self._known_numbers()[code])

    @cached_property
    def _middles(self) -> np.ndarray:
        # Whole bins take the lower middle integer, so that decoded rows and means agree and rows stay whole.
        ends = [self.bin(code) for code in range(self.known)]
        middles = np.array([low + (high - low) / 2 for low, high in ends])
        return frozen(np.floor(middles) if self.whole or self.kind == "datetime" else middles)

    def _known_numbers(self) -> np.ndarray:
        return self._middles

    @cached_property
    def radii(self) -> np.ndarray:
        """The radii of values clipped to the edges, and rounded down with `whole`."""
        ends = np.array([self.bin(code) for code in range(self.known)])
        reach = np.maximum(self._middles - ends[:, 0], ends[:, 1] - self._middles)
        return frozen(np.concatenate([reach, np.zeros(self.size - self.known)]))

    def _judge_one(self, value: Any) -> tuple[int, Status]:
        number = self.read(value)
        if number is Unread.NULL:
            return self.missing_code, Status.NULL
        if isinstance(number, Unread):
            return self.misfit_code, Status.UNFIT
        value = math.floor(number) if self.whole and math.isfinite(number) else number
        beyond = value < self._listed_cuts[0] or value > self._listed_cuts[-1]
        if beyond and self.outside == "other":
            return self.misfit_code, Status.OUTSIDE
        code = bisect.bisect_right(self._listed_cuts, value, 1, self.known) - 1
        return code, Status.OUTSIDE if beyond else Status.FITS

    def _means_missing(self, number: float) -> bool:
        if self.rules is None:
            return False
        return self.rules.means_missing(number / DAY_MICROSECONDS if self.kind == "datetime" else number)

    @cached_property
    def _listed_cuts(self) -> list[float]:
        return self.cuts.tolist()

    def _encode_numbers(self, values: np.ndarray) -> np.ndarray:
        if self.kind != "number":
            missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
            if self.rules is not None and self.rules.formats and values.dtype.kind in "iu":
                return np.array([self._judge_one(value)[0] for value in values.tolist()], dtype=np.int64)
            return np.where(missing, self.missing_code, self.misfit_code).astype(np.int64)
        numbers = values.astype(np.float64)
        if self.rules is not None and self.rules.missing_numbers:
            numbers = np.where(np.isin(numbers, list(self.rules.missing_numbers)), np.nan, numbers)
        return self._place(numbers)

    def _place(self, numbers: np.ndarray) -> np.ndarray:
        values = np.floor(numbers) if self.whole else numbers
        codes = np.searchsorted(self.cuts[1:-1], values, side="right")
        if self.outside == "other":
            codes = np.where((values < self.cuts[0]) | (values > self.cuts[-1]), self.misfit_code, codes)
        return np.where(np.isnan(values), self.missing_code, codes).astype(np.int64)

    def _asked(self, op: str, value: Any, name: str) -> float:
        if self.kind == "number":
            return asked_number(op, value, name)
        number = _READERS[self.kind](value)
        if not isinstance(number, float):
            raise QueryError(f'{name} {op} {shown(value)}: expected a date such as "2024-12-31"')
        return number

    def _members(self, op: str, values: list[Any], name: str) -> np.ndarray:
        """A bin counts if all of its integers are listed and does not if none is; otherwise the list would cut it."""
        asked = {self._asked(op, value, name) for value in values}
        mask = np.zeros(self.known, dtype=bool)
        hits: dict[int, int] = {}
        for number in asked:
            if self.cuts[0] <= number <= self.cuts[-1] and (not self.whole or number.is_integer()):
                code = int(np.searchsorted(self.cuts[1:-1], number, side="right"))
                hits[code] = hits.get(code, 0) + 1
        for code, count in hits.items():
            low, high = self.bin(code)
            if not self.whole or count != high - low + 1:
                listed = shown(values[0]) if len(values) == 1 else "the list"
                raise QueryError(f"{name} {op} {listed} cuts {self._bin_text(code)}; use >= and < with edges")
            mask[code] = True
        return mask

    def _above(self, op: str, value: Any, name: str) -> np.ndarray:
        """A bin counts as above, or as not above, only if all of its values (clamped to the edges) are."""
        number = self._asked(op, value, name)
        strict = op in (">", "<=")
        starts, ends = self.cuts[:-1], self.cuts[1:].copy()
        if self.whole:
            threshold = math.floor(number) + 1.0 if strict else float(math.ceil(number))
            ends[-1] += 1.0
            above, below = starts >= threshold, ends <= threshold
        else:
            above = starts > number if strict else starts >= number
            below = ends <= number
            if not strict:
                below[-1] = ends[-1] < number
        undecided = ~(above | below)
        if undecided.any():
            raise QueryError(self._cut_message(op, value, number, int(undecided.argmax()), name))
        return above

    def _cut_message(self, op: str, value: Any, number: float, code: int, name: str) -> str:
        message = f"{name} {op} {shown(value)} cuts {self._bin_text(code)}"
        if number == self.cuts[code] and op in (">", "<="):
            return f"{message}; use {name} {'>=' if op == '>' else '<'} {shown(value)}"
        if number == self.cuts[-1] and op in (">=", "<"):
            return f"{message}; the last bin is closed: use {name} {'>' if op == '>=' else '<='} {shown(value)}"
        return message

    def _bin_text(self, code: int) -> str:
        low, high = self._text(self.cuts[code]), self._text(self.cuts[code + 1])
        return f"the bin {self._label(code)}; nearest edges are {low} and {high}"


def _kind_of(edge: Edge) -> Kind:
    if isinstance(edge, datetime.datetime):
        return "datetime"
    return "date" if isinstance(edge, datetime.date) else "number"


def _numbers(edges: Iterable[Edge], kind: Kind) -> list[float]:
    readings = [_READERS[kind](edge) for edge in edges]
    return [reading for reading in readings if isinstance(reading, float)]


def checked_edge(value: Any) -> Edge:
    """One edge in its plain form; JSON writes dates as ISO text."""
    given, value = value, plain(value)
    if isinstance(value, str):
        try:
            value = datetime.date.fromisoformat(value) if len(value) == 10 else datetime.datetime.fromisoformat(value)
        except ValueError:
            raise DomainError(f"edge {shown(given)} is neither a number nor an ISO date") from None
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            raise DomainError(f"edge {shown(given)} has a time zone; write it in UTC without one")
        return value
    if isinstance(value, datetime.date):
        return value
    number = Unread.MISFIT if isinstance(value, bool) else number_of(value)
    if not isinstance(number, float) or not math.isfinite(number):
        raise DomainError(f"edge {shown(given)} must be a finite number or a date; values beyond the edges are clamped")
    return int(number) if number.is_integer() and abs(number) < EXACT_FLOAT else number


def _checked(edges: tuple[Edge, ...], whole: bool) -> tuple[Edge, ...]:
    kind = _kind_of(edges[0])
    if any(_kind_of(edge) != kind for edge in edges):
        raise DomainError("edges mix numbers, dates or datetimes; use one kind")
    whole = whole or kind == "date"
    if whole and kind == "datetime":
        raise DomainError("whole does not apply to datetimes; use dates as edges")
    if whole and kind == "number" and not all(isinstance(edge, int) for edge in edges):
        uneven = next(edge for edge in edges if not isinstance(edge, int))
        raise DomainError(f"edge {shown(uneven)} must be an integer below 2^53 because whole = true")
    numbers = _numbers(edges, kind)
    for place in range(1, len(numbers)):
        single_last = whole and place == len(numbers) - 1 and numbers[place] == numbers[place - 1]
        if numbers[place] <= numbers[place - 1] and not single_last:
            raise DomainError(f"edges must increase: {shown(edges[place - 1])} is followed by {shown(edges[place])}")
    return edges


def _listed_edges(edges: Any, whole: bool) -> tuple[Edge, ...]:
    if isinstance(edges, (str, bytes, Mapping)) or not has_items(edges):
        raise DomainError(f"edges {shown(edges)} must be a list")
    listed = tuple(checked_edge(edge) for edge in edges)
    if len(listed) < 2:
        raise DomainError(f"edges has {len(listed)} entries; at least two are needed for one bin")
    return _checked(listed, whole)


def _even_edges(lower: Any, upper: Any, bins: Any, whole: bool) -> tuple[Edge, ...]:
    if lower is None or upper is None or bins is None:
        raise DomainError("a numeric attribute needs edges, or lower, upper and bins")
    bins = whole_number(bins, "bins", 1, error=DomainError)
    if bins > MAX_SIZE:
        raise DomainError(f"bins {bins} exceed the limit of {MAX_SIZE}; use wider bins")
    low, high = _checked((checked_edge(lower), checked_edge(upper)), whole)
    kind = _kind_of(low)
    start, stop = _numbers((low, high), kind)
    if kind == "number" and not whole:
        # start + (stop - start) * i / bins, kept monotone and exact at both ends
        return _checked((low, *(checked_edge(start + (stop - start) * i / bins) for i in range(1, bins)), high), whole)
    if kind == "datetime":
        inner = [datetime_at(start + (int(stop) - int(start)) * i // bins) for i in range(1, bins)]
        return _checked((low, *inner, high), whole)
    count = int(stop) - int(start) + 1
    if bins > count:
        raise DomainError(f"bins {bins} exceed the {count} integers from {shown(lower)} to {shown(upper)}")
    starts = [int(start) + count * i // bins for i in range(1, bins)]
    return _checked((low, *((date_at(day) if kind == "date" else day) for day in starts), high), whole)


def _short(label: str) -> Any:
    return int(label) if label.lstrip("-").isdigit() else label


STEPS = 2**15
"""Of a bin's width. A position is 0 to STEPS; the bin's exact middle is HALF."""
HALF = STEPS // 2
SMALLEST_WIDTH = 1e-290
"""Narrower bins would meet numbers that no engine divides alike."""


def spans(attribute: Numeric) -> tuple[np.ndarray, np.ndarray]:
    """The smallest value of each bin, and the distance of the largest value from it.

    A bin of one value counts as a bin of width 1 around it, so that the value is its middle.
    """
    ends: np.ndarray = np.array([attribute.bin(code) for code in range(attribute.known)])
    low: np.ndarray = ends[:, 0]
    high: np.ndarray = ends[:, 1]
    with np.errstate(over="ignore"):
        width = high - low
    return np.where(width > 0, low, low - 0.5), np.where(width > 0, width, 1.0)


def has_positions(attribute: Attribute) -> bool:
    """Whether some bin holds more than one value, and none is too wide or too narrow for floating point."""
    if not isinstance(attribute, Numeric) or not attribute.radii.any():
        return False
    low, width = spans(attribute)
    return bool((low + width > low).all() and np.isfinite(2 * width * STEPS).all() and (width > SMALLEST_WIDTH).all())


def positions(attribute: Numeric, values: Any) -> np.ndarray:
    """The position of each raw value; HALF if it has no number or no bin."""
    listed = list(values)
    readings = [attribute.read(value) for value in listed]
    numbers = np.array([np.nan if isinstance(number, Unread) else number for number in readings], dtype=np.float64)
    codes = attribute.encode(listed)
    unknown = np.isnan(numbers) | (codes >= attribute.known)
    low, width = (ends[np.where(unknown, 0, codes)] for ends in spans(attribute))
    clipped = np.clip(np.floor(numbers) if attribute.whole else numbers, *attribute.bounds)
    # (x - low) / width * STEPS, rounded. The width is added and taken away: PostgreSQL refuses what underflows.
    found = np.floor(((clipped - low) + width) / width * STEPS - (STEPS - 0.5))
    return np.where(unknown, HALF, np.clip(found, 0, STEPS)).astype(np.int64)
