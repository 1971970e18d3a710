"""Select-list expressions over aggregates: small trees that turn shares of the table into bounded numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from reticent.queries import Predicate
from reticent.sql.intervals import Interval


@dataclass(frozen=True, eq=False)
class Measure:
    """A linear query per group: the share of records with `where`, or a Total of a column among them."""

    where: Predicate
    column: str | None = None


@dataclass(eq=False)
class Measures:
    """Distinct measures of one statement while it is compiled."""

    found: list[Measure] = field(default_factory=list)
    _places: dict[tuple[str, str | None], int] = field(default_factory=dict)

    def place(self, where: Predicate, column: str | None = None) -> int:
        key = (where.text, column)
        if key not in self._places:
            self._places[key] = len(self.found)
            self.found.append(Measure(where, column))
        return self._places[key]


@dataclass(frozen=True, eq=False)
class Shares:
    """What was answered: one interval per measure, in fractions of the table, and the number of records."""

    rows: int
    measures: Sequence[Interval]
    records: Interval

    def combined(self, terms: Sequence[tuple[float, int]]) -> Interval:
        """Sum of coefficient * share."""
        total = Interval.exactly(0.0, self.rows)
        for coefficient, place in terms:
            total = total + Interval.exactly(coefficient, self.rows) * self.measures[place]
        return total


class Node(Protocol):
    """An expression that yields one number per group."""

    @property
    def places(self) -> tuple[int, ...]:
        """The measures it looks at, each once."""
        ...

    def evaluate(self, shares: Shares) -> Interval: ...


@dataclass(frozen=True, eq=False)
class Number:
    value: float

    @property
    def places(self) -> tuple[int, ...]:
        return ()

    def evaluate(self, shares: Shares) -> Interval:
        return Interval.exactly(self.value, shares.rows)


@dataclass(frozen=True, eq=False)
class Sum:
    """records * (sum of coefficient * share): COUNT and SUM, and any combination of them with constants."""

    terms: tuple[tuple[float, int], ...]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(place for _, place in self.terms)

    def evaluate(self, shares: Shares) -> Interval:
        return shares.combined(self.terms) * shares.records

    def times(self, factor: float) -> Sum:
        return Sum(tuple((coefficient * factor, place) for coefficient, place in self.terms))

    def plus(self, other: Sum) -> Sum:
        """Equal measures meet, so that what cancels leaves no error."""
        merged: dict[int, float] = {}
        for coefficient, place in (*self.terms, *other.terms):
            merged[place] = merged.get(place, 0.0) + coefficient
        return Sum(tuple((coefficient, place) for place, coefficient in merged.items() if coefficient))


@dataclass(frozen=True, eq=False)
class Mean:
    """AVG: low + (top - low * bottom) / bottom, every record in [low, high]; the number of records cancels.

    Shifting by `low` makes the quotient one of non-negative numbers, top' <= (high - low) * bottom, and spares the
    error of the part that is the same for every record.
    """

    top: Sum
    bottom: int
    low: float
    high: float

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*self.top.places, self.bottom)))

    def evaluate(self, shares: Shares) -> Interval:
        shifted = self.top.plus(Sum(((-self.low, self.bottom),)))
        bottom = shares.measures[self.bottom]
        raw = shares.combined(shifted.terms) / bottom
        cut = raw.clipped(0.0, self.high - self.low)
        # A bound that only says "somewhere in the column's range" is none.
        known = np.isfinite(raw.low) & np.isfinite(raw.high)
        quotient = Interval(
            np.where(bottom.value > 0, cut.value, np.nan),
            np.where(known, cut.low, raw.low),
            np.where(known, cut.high, raw.high),
        )
        return quotient + Interval.exactly(self.low, shares.rows)


@dataclass(frozen=True, eq=False)
class Operation:
    """Anything computed from other expressions by interval arithmetic."""

    function: Callable[..., Interval]
    operands: tuple[Node, ...]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(place for operand in self.operands for place in operand.places))

    def evaluate(self, shares: Shares) -> Interval:
        return self.function(*(operand.evaluate(shares) for operand in self.operands))
