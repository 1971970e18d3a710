"""Means of the rows' own numbers, bought as clipped sums without binning error (spec answers 5.3).

The sum is that of (value - middle of the declared range) / range over the records that count, so that mean = middle +
range * sum / count. docs/proofs/numeric-sums.md proves its sensitivity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from reticent.domain import Domain
from reticent.domain.numeric import STEPS, has_positions
from reticent.domain.values import number_text
from reticent.kernel.curator import Noise, Settled
from reticent.kernel.numeric_sums import RANGE, ClippedSums
from reticent.kernel.statistics import fine
from reticent.knowledge.answer import Answer
from reticent.knowledge.tails import Shares, noise_failure, placed, reach
from reticent.queries.base import Query
from reticent.queries.forms import scaled_numbers
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Mean, OfColumn, Ratio, Total

if TYPE_CHECKING:
    from reticent.knowledge.knowledge import Knowledge

LARGEST = 0.5
"""Of a record's share in a sum: its value is at most half a range away from the middle."""
ROUNDED = 1 + 1e-9
"""Of an error that was just met."""


def hidden_numbers(query: Query, domain: Domain) -> OfColumn | None:
    """The column whose mean a question asks for, if its numbers differ within bins."""
    column = query.numerator if isinstance(query, Ratio) else query
    if not isinstance(column, (Mean, Total)) or (isinstance(query, Total)):
        return None
    if isinstance(query, Ratio) and (not isinstance(column, Total) or query.denominator != column.present):
        return None
    return column if has_positions(domain[column.column]) and query.binning(domain)[0] > 0 else None  # pyright: ignore[reportAttributeAccessIssue]


def summed_numbers(column: OfColumn, domain: Domain) -> ClippedSums:
    """The sum that the kernel measures for a mean."""
    return ClippedSums(Groups((), column.where, column.column), domain)


def counted_records(column: OfColumn) -> Count:
    """The records that count in a mean."""
    return Total(column.column, column.where).present


def rounding(column: OfColumn, domain: Domain) -> float:
    """The largest effect of rounded positions on a mean, in the column's unit (numeric-sums.md, what follows)."""
    _, lower, upper = scaled_numbers(domain, column.column)
    return 3 * float(domain[column.column].radii.max()) / STEPS + (upper - lower) / RANGE


@dataclass(frozen=True, eq=False)
class RawMean:
    """One purchased sum, with the count of its records if that is not public."""

    column: OfColumn
    domain: Domain
    total: float
    """In records, from -1/2 to 1/2 each."""
    noises: Sequence[Noise]
    """Of the sum, and of the count if it was bought."""
    count: float
    records_error: float
    """Bounds how far a public `count` is off, as a share of it; bought counts state their own."""
    shares: Shares
    ledger_id: int | None

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """The interval of the mean, in the column's unit, for a given noise bound; None if it is vacuous."""
        failure = noise_failure(confidence, self.records_error) * self.shares.own / len(self.noises)
        if not failure > 0:
            return None
        stray = reach(self.noises[0], failure / 2) + 2 / fine(1)
        off = reach(self.noises[1], failure / 2) + 1 if len(self.noises) > 1 else self.records_error * self.count
        least, most = self.count - off, self.count + off
        if least <= 0:
            return None
        ends = [end / size for end in (self.total - stray, self.total + stray) for size in (least, most)]
        _, lower, upper = scaled_numbers(self.domain, self.column.column)
        middle, slack = lower / 2 + upper / 2, rounding(self.column, self.domain)
        low, high = (middle + (upper - lower) * end for end in (min(ends), max(ends)))
        return low - slack, high + slack

    def value(self) -> float:
        _, lower, upper = scaled_numbers(self.domain, self.column.column)
        share = min(max(self.total / self.count, -LARGEST), LARGEST) if self.count > 0 else 0.0
        return lower / 2 + upper / 2 + (upper - lower) * share

    def answer(self, query: Query, confidence: float, *, price: float = 0.0, bought: bool = False) -> Answer:
        """The answer, with a bound against the rows' own numbers."""
        _, lower, upper = scaled_numbers(self.domain, self.column.column)
        found = self.interval(confidence)
        ends = (-inf, inf) if found is None else found
        value, low, high = map(float, placed(self.value(), *ends, lower, upper))
        error = max(value - low, high - value)
        certified = error < (upper - lower) / 2
        return Answer(
            query=query.text,
            value=value,
            count=None,
            error=error if certified else None,
            confidence=confidence if certified else None,
            origin="measured" if bought else "cache",
            certified=certified,
            price=price,
            ledger_id=self.ledger_id if price else None,
            interval=(low, high) if certified else None,
            basis=f"of the rows' own values, clipped to [{number_text(lower)}, {number_text(upper)}]",
        )


def best_answer(means: Sequence[RawMean], query: Query, error: float | None, confidence: float) -> Answer | None:
    """The first purchase within the requested error, else the narrowest; None if none has a bound."""
    found = [mean.answer(query, confidence) for mean in means]
    stated = [answer for answer in found if answer.certified and answer.error is not None]
    if error is not None:
        return next((answer for answer in stated if answer.error <= error * ROUNDED), None)  # pyright: ignore[reportOptionalOperand]
    return min(stated, key=lambda answer: answer.error or 0.0, default=None)


def raw_mean(known: Knowledge, column: OfColumn, noises: Sequence[Noise], settled: Settled) -> RawMean:
    """The content of a settled purchase."""
    count = float(settled.values[1]) if len(noises) > 1 else known.records
    return RawMean(
        column=column,
        domain=known.domain,
        total=float(settled.values[0]),
        noises=noises,
        count=count,
        records_error=known.records_error if len(noises) == 1 else 0.0,
        shares=known.shares,
        ledger_id=settled.ledger_id,
    )
