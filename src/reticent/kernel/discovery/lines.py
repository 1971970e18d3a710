"""`Line`: the public, ordered list of all values that an edge may have, each with a whole number of copies.

Copies are a prior: the probability of an edge is proportional to them. Round values have more copies, so that they are
preferred among equally good edges, and a value that many records share is found among hundreds of millions.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from reticent.domain.values import DAY_MICROSECONDS
from reticent.errors import QueryError

DIGITS = 7
"""Significant digits of an edge."""
LOWEST, HIGHEST = -9, 16
"""Powers of ten: numbers lie between 1e-9 and 1e16, of either sign, or are zero; others count as the nearest one."""
FIRST_YEAR, END_YEAR = 1800, 2200

_MINUTES = 24 * 60
_DAY_SECONDS = DAY_MICROSECONDS / 1e6


class Line(Protocol):
    """Places 0, 1, ..., size - 1 represent increasing values."""

    @property
    def size(self) -> int: ...

    def located(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each value, the last place whose value is not larger, and whether it is equal; clipped to the line."""
        ...

    def copies_upto(self, places: np.ndarray) -> np.ndarray:
        """Copies of all places up to these, where -1 means none: exact int64."""
        ...

    def value(self, place: int) -> float: ...

    def describe(self) -> dict[str, object]: ...


@dataclass(frozen=True)
class Level:
    """Places start, start + step, ..., `count` of them, with a number of additional copies."""

    start: int
    step: int
    count: int
    copies: int

    def upto(self, places: np.ndarray) -> np.ndarray:
        return np.clip((places - self.start) // self.step + 1, 0, self.count) * self.copies


@dataclass(frozen=True)
class NumberLine:
    """Decimal numbers of seven significant digits, of both signs, and zero.

    Numbers of six digits have ten more copies, those of five a hundred more, and so on: the numbers of each length have
    the same total. Zero, with no digits, continues this.
    """

    digits: int = DIGITS
    lowest: int = LOWEST
    highest: int = HIGHEST

    def __post_init__(self) -> None:
        # Powers up to 10^22 are exact doubles, so a value is one correctly rounded product or quotient.
        within = self.lowest - self.digits > -22 and self.highest - self.digits < 22
        if not (1 <= self.digits <= 9 and self.lowest < self.highest and within):
            raise QueryError("a line has 1 to 9 digits and powers of ten between -12 and 22")

    @property
    def _decade(self) -> int:
        return 9 * 10 ** (self.digits - 1)

    @property
    def _half(self) -> int:
        return self._decade * (self.highest - self.lowest)

    @property
    def size(self) -> int:
        return 2 * self._half + 1

    @cached_property
    def _levels(self) -> tuple[Level, ...]:
        half = self._half
        found = [Level(half, 1, 1, 10**self.digits)]
        for zeros in range(self.digits):
            step = 10**zeros
            found += [Level(half + 1, step, half // step, step), Level(step - 1, step, half // step, step)]
        return tuple(found)

    def copies_upto(self, places: np.ndarray) -> np.ndarray:
        return sum((level.upto(places) for level in self._levels), np.zeros(np.shape(places), dtype=np.int64))

    def value(self, place: int) -> float:
        offset = place - self._half
        if offset == 0:
            return 0.0
        power, mantissa = divmod(abs(offset) - 1, self._decade)
        size = _scaled(np.array([mantissa + 10 ** (self.digits - 1)]), np.array([power + self._shift]))[0]
        return float(size if offset > 0 else -size)

    @property
    def _shift(self) -> int:
        return self.lowest - self.digits + 1

    def located(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes = np.abs(values)
        tiny, huge = sizes < _power(self.lowest), sizes >= _power(self.highest)
        offset, exact = self._positive(np.where(tiny | huge, 1.0, sizes))
        offset = np.where(tiny, 0, np.where(huge, self._half, offset))
        exact = np.where(tiny, sizes == 0, exact & ~huge)
        below = values < 0
        # Between two negative numbers the smaller one is the one of the next size.
        places = np.where(below, self._half - offset - ~exact, self._half + offset)
        exact |= places < 0
        return np.maximum(places, 0), exact

    def _positive(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Offsets from zero, from 1 on; logarithms and quotients only estimate, comparisons of doubles decide."""
        powers = np.floor(np.log10(sizes)).astype(np.int64)
        powers -= sizes < _power(powers)
        powers += sizes >= _power(powers + 1)
        shift = powers - self.digits + 1
        mantissa = np.floor(np.where(shift < 0, sizes * _power(-shift), sizes / _power(shift))).astype(np.int64)
        for _ in range(2):
            mantissa -= _scaled(mantissa, shift) > sizes
        for _ in range(2):
            mantissa += _scaled(mantissa + 1, shift) <= sizes
        offset = (powers - self.lowest) * self._decade + mantissa - 10 ** (self.digits - 1) + 1
        return offset, _scaled(mantissa, shift) == sizes

    def describe(self) -> dict[str, object]:
        return {"line": "numbers", "digits": self.digits, "powers": [self.lowest, self.highest]}


def _power(exponent: np.ndarray | int) -> np.ndarray:
    """The doubles nearest to powers of ten."""
    return _POWERS[np.asarray(exponent) + _LEAST_POWER]


_LEAST_POWER = 30
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(-_LEAST_POWER, _LEAST_POWER + 1)])


def _scaled(mantissa: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """mantissa * 10^shift, correctly rounded: both factors are exact doubles."""
    down = shift < 0
    return np.where(down, mantissa / _power(np.where(down, -shift, 0)), mantissa * _power(np.where(down, 0, shift)))


@dataclass(frozen=True)
class CalendarLine:
    """Days from 1800 to 2199, in seconds since 1970; the first days of months and years have more copies.

    With `minutes`, minutes are places, and hours have more copies.
    """

    minutes: bool = False

    @property
    def _per_day(self) -> int:
        return _MINUTES if self.minutes else 1

    @cached_property
    def _days(self) -> tuple[int, int]:
        first, end = (datetime.date(year, 1, 1).toordinal() for year in (FIRST_YEAR, END_YEAR))
        epoch = datetime.date(1970, 1, 1).toordinal()
        return first - epoch, end - epoch

    @property
    def size(self) -> int:
        first, end = self._days
        return (end - first) * self._per_day

    @cached_property
    def _starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Places of the first days of months and of years."""
        months = np.arange(f"{FIRST_YEAR}-01", f"{END_YEAR}-01", dtype="datetime64[M]")
        found = []
        for unit in (months, months[::12]):
            days = unit.astype("datetime64[D]").astype(np.int64) - self._days[0]
            found.append(days * self._per_day)
        return found[0], found[1]

    def copies_upto(self, places: np.ndarray) -> np.ndarray:
        days = self.size // self._per_day
        total = Level(0, self._per_day, days, self._per_day).upto(places)
        if self.minutes:
            total = total + Level(0, 1, self.size, 1).upto(places) + Level(0, 60, self.size // 60, 60).upto(places)
        for starts in self._starts:
            total = total + np.searchsorted(starts, places, side="right") * (self.size // len(starts))
        return total

    @property
    def _step(self) -> float:
        return _DAY_SECONDS / self._per_day

    def value(self, place: int) -> float:
        return (self._days[0] * self._per_day + place) * self._step

    def located(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # The later seconds of a day belong to that day if days are the places.
        steps = np.clip(np.floor(values / self._step), -1e15, 1e15)
        exact = np.ones(len(values), dtype=bool) if not self.minutes else steps * self._step == values
        places = steps.astype(np.int64) - self._days[0] * self._per_day
        return np.clip(places, 0, self.size - 1), exact | (places < 0)

    def describe(self) -> dict[str, object]:
        return {"line": "minutes" if self.minutes else "days", "years": [FIRST_YEAR, END_YEAR]}
