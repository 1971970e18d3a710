"""Means of the rows' own numbers that somebody paid for: as means, or as sums for SQL whose records are known, too."""

from __future__ import annotations

from math import inf

from reticent.domain.values import number_text
from reticent.knowledge.answer import Answer
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.raw_means import ROUNDED, best_answer, counted_records, hidden_numbers
from reticent.knowledge.raw_sums import CentredAnswer, best_centred
from reticent.knowledge.request import shared_confidence
from reticent.queries.base import Query
from reticent.queries.groups import Groups
from reticent.queries.linear import OfColumn
from reticent.queries.numbers import scaled_numbers


def bought_mean(knowledge: Knowledge, query: Query, error: float | None, confidence: float) -> Answer | None:
    """The first that was bought within the wanted error, else the narrowest; None if none states a bound."""
    found = best_answer(knowledge.means.get(query.digest, ()), query, error, confidence) if knowledge.means else None
    if not knowledge.sums or (found is not None and error is not None):
        return found
    summed = _summed_mean(knowledge, query, confidence)
    if summed is None or (error is not None and (summed.error or inf) > error * ROUNDED):
        return found
    return summed if found is None or (summed.error or inf) < (found.error or inf) else found


def _summed_mean(knowledge: Knowledge, query: Query, confidence: float) -> Answer | None:
    """From the narrowest sum around the middle of the range, and what is known of the number of its records.

    Both hold together, each with half of the failure probability.
    """
    column = hidden_numbers(query, knowledge.domain)
    if column is None:
        return None
    alone = [sums for sums in knowledge.sums.get(Groups((), column.where, column.column).digest, ()) if not sums.whole]
    half = shared_confidence(confidence, 2)
    total = best_centred(alone, query, None, half)
    counted = None if total is None else _counted(knowledge, column, half)
    if total is None or counted is None or counted[1] <= 0:
        return None
    return _quotient(knowledge, query, column, total, counted, confidence)


def _counted(knowledge: Knowledge, column: OfColumn, confidence: float) -> tuple[float, float, float] | None:
    """The share of the records that count: value, lowest and highest."""
    reading = knowledge.free(counted_records(column), confidence, None)
    if reading is None or reading.error == inf:
        return None
    value = float(reading.compute())
    if reading.bounds is not None:
        return value, float(reading.bounds.low), float(reading.bounds.high)
    return value, max(0.0, value - reading.error), min(1.0, value + reading.error)


def _quotient(
    knowledge: Knowledge,
    query: Query,
    column: OfColumn,
    total: CentredAnswer,
    counted: tuple[float, float, float],
    confidence: float,
) -> Answer | None:
    """The mean, with a bound against the rows' own numbers; None where that says no more than the range does."""
    assert total.interval is not None, "certified"
    value, least, most = counted
    _, lower, upper = scaled_numbers(knowledge.domain, column.column)
    middle, width = lower / 2 + upper / 2, upper - lower
    ends = [middle + width * float(end) / size for end in total.interval for size in (least, most)]
    low, high = max(lower, min(ends)), min(upper, max(ends))
    mean = min(max(middle + width * float(total.value) / value, low), high)
    error = max(mean - low, high - mean)
    if not error < width / 2:
        return None
    return Answer(
        query=query.text,
        value=mean,
        count=None,
        error=error,
        confidence=confidence,
        origin="derived",
        certified=True,
        interval=(low, high),
        basis=f"of the rows' own values, clipped to [{number_text(lower)}, {number_text(upper)}]",
    )
