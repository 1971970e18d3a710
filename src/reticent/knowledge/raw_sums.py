"""Sums of the rows' own numbers for SQL, one for each group, without binning error (answers 5.3).

A statement adds up shares (value - lower) / (upper - lower) of records; the kernel releases the part around the middle
of the range: share = released sum / n + present / (2 n). Statements ask for the counts separately, so that one count
serves all uses. Means bought from Python, and statements of earlier ledgers, have their own counts.

`bought_mean` finds purchased means of the rows' own numbers: as means, or as sums for SQL whose records are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from reticent.domain import Domain
from reticent.domain.numeric import STEPS, has_positions
from reticent.domain.values import number_text
from reticent.kernel.curator import Asked, Noise, Settled
from reticent.kernel.numeric_sums import RANGE, ClippedSums
from reticent.kernel.statistics import fine
from reticent.knowledge.answer import Answer
from reticent.knowledge.measured import possible
from reticent.knowledge.raw_means import ROUNDED, best_answer, counted_records, hidden_numbers, raw_mean
from reticent.knowledge.request import shared_confidence
from reticent.knowledge.tails import Shares, noise_failure, placed, reach
from reticent.queries.base import Query
from reticent.queries.forms import allowed_codes, bin_ends, essential, scaled_numbers
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Mean, OfColumn, Ratio, Total
from reticent.queries.predicate import all_of, col

if TYPE_CHECKING:
    from reticent.knowledge.knowledge import Knowledge

Rows = TypeVar("Rows", bound="RowsAnswer")


class RowsAnswer(Answer):
    """Shares of a total of the rows' own numbers: no binning error is to be added."""


class CentredAnswer(RowsAnswer):
    """Shares of a total around the middle of the range: half the share of the records makes it a total."""


def farthest_sums(query: Query, domain: Domain, present: np.ndarray) -> CentredAnswer:
    """Substitutes for centred sums before any is bought: as far from the middle as bins allow, where means have the
    largest errors.

    `present` are the shares of the records.
    """
    groups = summed_groups(query, domain)
    assert groups is not None, "only totals are summed"
    assert groups.column is not None, "a column is summed"
    attribute, (_, lower, upper) = domain[groups.column], scaled_numbers(domain, groups.column)
    assert attribute.representatives is not None, "scaled"
    allowed = allowed_codes(groups.where.compile(domain), groups.column, domain) & ~np.isnan(attribute.representatives)
    far = np.zeros(attribute.size)
    for code in np.flatnonzero(allowed):
        ends = [(end - (lower / 2 + upper / 2)) / (upper - lower) for end in bin_ends(attribute, int(code))]
        far[code] = max(ends, key=abs)
    names = query.names if isinstance(query, Groups) else ()
    shares = np.reshape(present, domain.shape_of(names))
    if groups.column in names:
        extents = [-1 if name == groups.column else 1 for name in names]
        value = shares * far.reshape(extents)
    else:
        value = shares * max(far, key=abs)
    return CentredAnswer(query.text, value, None, None, None, "hypothesis", certified=False)


def with_counts(
    centred: CentredAnswer, present: tuple[np.ndarray, np.ndarray, np.ndarray], most: float = 1.0
) -> RowsAnswer:
    """Shares of the whole total from its centred part and the shares of its records: value, lowest and highest.

    No share is larger than `most`.
    """
    value, low, high = (np.reshape(part, np.shape(centred.value)) / 2 for part in present)
    value = np.clip(np.asarray(centred.value) + value, 0.0, most)
    if centred.interval is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        return RowsAnswer(centred.query, value, None, None, None, centred.origin, certified=False, price=centred.price)
    value, low, high = placed(value, centred.interval[0] + low, centred.interval[1] + high, 0.0, most)
    error = float(np.max(np.maximum(value - low, high - value), initial=0.0))
    return replace(
        RowsAnswer(centred.query, value, None, error, centred.confidence, centred.origin, certified=True),
        price=centred.price,
        ledger_id=centred.ledger_id,
        interval=(low, high),
    )


def summed_groups(query: Query, domain: Domain) -> Groups | None:
    """The sum of a statement's question in each group, if the numbers of its column differ within bins."""
    if isinstance(query, Total):
        query = Groups((), query.where, query.column)
    if not isinstance(query, Groups) or query.column is None or not has_positions(domain[query.column]):
        return None
    return query.ordered(domain.canonical(query.names))


def counted_groups(groups: Groups) -> Count | Groups:
    """The records of a sum: those with a number."""
    assert groups.column is not None, "a column is summed"
    if not groups.names:
        return Total(groups.column, groups.where).present
    return Groups(groups.names, all_of((groups.where, col(groups.column).is_known())))


def all_count(groups: Groups, domain: Domain) -> bool:
    """Whether every record counts, by the domain alone."""
    assert groups.column is not None, "a column is summed"
    return not groups.names and not essential(Total(groups.column, groups.where).present.compile(domain)).attributes


def asked_of(groups: Groups, domain: Domain, *, alone: bool) -> tuple[Asked, ...]:
    """The statistics that the kernel measures for one purchase; `alone` if the count is public."""
    sums = ClippedSums(groups, domain)
    return (sums,) if alone else (sums, counted_groups(groups))


def group_count(groups: Groups, domain: Domain) -> int:
    """The number of groups that may contain records; so many numbers hold jointly."""
    counted = counted_groups(groups)
    return max(1, int(possible(counted, domain).sum())) if isinstance(counted, Groups) else 1


@dataclass(frozen=True, eq=False)
class RawSums:
    """One purchase of sums."""

    groups: Groups
    domain: Domain
    totals: np.ndarray
    """In records, from -1/2 to 1/2 each; axes in the domain's order."""
    counts: np.ndarray | None
    """None where all records count, and their number is public."""
    noises: Sequence[Noise]
    records: float
    records_error: float
    shares: Shares
    ledger_id: int
    counting: bool = False
    """Whether shares are of the released number of records (`Knowledge.counting`)."""

    @property
    def most(self) -> float:
        """The largest possible share of records."""
        return 1 + self.records_error if self.counting else 1.0

    @property
    def whole(self) -> bool:
        """Whether the number of summed records is known: they were counted, or all records count and their number is
        public.
        """
        return self.counts is not None or (self.records_error == 0 and all_count(self.groups, self.domain))

    def centred(self, query: Query, confidence: float, *, price: float = 0.0, bought: bool = False) -> CentredAnswer:
        """Shares of the sum around the middle of the range in each group."""
        failure = noise_failure(confidence, self.records_error) * self.shares.own / len(self.noises)
        value, low, high = self.totals / self.records, -inf, inf
        if failure > 0 and self.records_error < 1:
            stray = reach(self.noises[0], failure / group_count(self.groups, self.domain) / 2) + 2 / fine(1)
            low, high = self._true_shares((self.totals - stray) / self.records, (self.totals + stray) / self.records)
        shares = placed(value, low, high, -self.most / 2, self.most / 2)
        return CentredAnswer(**self._stated(query, confidence, shares, price=price, bought=bought))

    def answer(self, query: Query, confidence: float, *, price: float = 0.0, bought: bool = False) -> RowsAnswer:
        """Shares of the total in each group; only if the number of summed records is known."""
        failure = noise_failure(confidence, self.records_error) * self.shares.own / len(self.noises)
        value, low, high = self._share(self.totals, self.counts), -inf, inf
        if failure > 0 and self.records_error < 1:
            low, high = self._ends(failure / group_count(self.groups, self.domain))
        shares = placed(value, low, high, 0.0, self.most)
        return RowsAnswer(**self._stated(query, confidence, shares, price=price, bought=bought))

    def _stated(
        self, query: Query, confidence: float, shares: tuple[np.ndarray, ...], *, price: float, bought: bool
    ) -> dict[str, Any]:
        """Fields of an answer with these values, and their lowest and highest."""
        value, low, high = shares
        error = float(np.max(np.maximum(value - low, high - value), initial=0.0))
        certified = error < self.most / 2
        value, low, high = (self._asked(query, part) for part in (value, low, high))
        return {
            "query": query.text,
            "value": value,
            "count": None,
            "error": error if certified else None,
            "confidence": confidence if certified else None,
            "origin": "measured" if bought else "cache",
            "certified": certified,
            "price": price,
            "ledger_id": self.ledger_id if price else None,
            "interval": (low, high) if certified else None,
        }

    def _asked(self, query: Query, shares: np.ndarray) -> Any:
        """Values with axes in the order of the question's names."""
        if not isinstance(query, Groups):
            return float(shares)
        return np.transpose(shares, [self.groups.names.index(name) for name in query.names])

    def _share(self, totals: np.ndarray, counts: np.ndarray | float | None) -> np.ndarray:
        return np.asarray(totals / self.records + (0.5 if counts is None else counts / (2 * self.records)))

    def _ends(self, failure: float) -> tuple[np.ndarray, np.ndarray]:
        """The interval of each share, including rounded positions and a noisy number of records."""
        stray = reach(self.noises[0], failure / 2) + 2 / fine(1)
        off = 0.0 if self.counts is None else reach(self.noises[1], failure / 2) + 1
        counts = self.counts
        low = self._share(self.totals - stray, None if counts is None else counts - off)
        high = self._share(self.totals + stray, None if counts is None else counts + off)
        return self._true_shares(low, high)

    def _true_shares(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Intervals widened by rounded positions and by the error of the number of records."""
        slack = rounding_share(self.groups, self.domain) * self.most
        low, high = low - slack, high + slack
        if self.counting:
            return low, high
        low = np.where(low > 0, low / (1 + self.records_error), low / (1 - self.records_error))
        high = np.where(high > 0, high / (1 - self.records_error), high / (1 + self.records_error))
        return low, high


def rounding_share(groups: Groups, domain: Domain) -> float:
    """The largest effect of rounded positions on a share (numeric-sums.md, what follows)."""
    assert groups.column is not None, "a column is summed"
    _, lower, upper = scaled_numbers(domain, groups.column)
    return 3 * float(domain[groups.column].radii.max()) / STEPS / (upper - lower) + 1 / RANGE


def best_sums(bought: Sequence[RawSums], query: Query, error: float | None, confidence: float) -> RowsAnswer | None:
    """The first purchase within the requested error, else the narrowest; None if none has a bound."""
    stated = [answer for sums in bought if sums.whole and (answer := sums.answer(query, confidence)).certified]
    return _best(stated, error)


def best_centred(
    bought: Sequence[RawSums], query: Query, error: float | None, confidence: float
) -> CentredAnswer | None:
    """The same for sums around the middle of the range."""
    stated = [answer for sums in bought if (answer := sums.centred(query, confidence)).certified]
    return _best(stated, error)


def _best(stated: Sequence[Rows], error: float | None) -> Rows | None:
    if error is not None:
        return next((answer for answer in stated if (answer.error or 0.0) <= error * ROUNDED), None)
    return min(stated, key=lambda answer: answer.error or inf, default=None)


def raw_sums(known: Knowledge, groups: Groups, noises: Sequence[Noise], settled: Settled) -> RawSums:
    """The content of a settled purchase, for groups whose names are in the domain's order."""
    shape = known.domain.shape_of(groups.names)
    totals, *counts = (np.asarray(values, dtype=np.float64).reshape(shape) for values in settled.values)
    return RawSums(
        groups,
        known.domain,
        totals,
        counts[0] if counts else None,
        tuple(noises),
        known.records,
        known.records_error,
        known.shares,
        settled.ledger_id,
    )


def with_sums(known: Knowledge, groups: Groups, noises: Sequence[Noise], settled: Settled) -> Knowledge:
    """Knowledge with a purchase: sums of groups for SQL, and a sum over all records also as the mean for Python."""
    bought = raw_sums(known, groups, noises, settled)
    known = known.with_sums(groups.digest, bought)
    if groups.names or not bought.whole:
        return known
    assert groups.column is not None, "a column is summed"
    query = Mean(groups.column, groups.where).resolve(known.domain)
    column = query.numerator if isinstance(query, Ratio) else query
    assert isinstance(column, OfColumn), "a mean"
    return known.with_mean(query.digest, raw_mean(known, column, noises, settled))


def bought_mean(knowledge: Knowledge, query: Query, error: float | None, confidence: float) -> Answer | None:
    """The first purchase within the requested error, else the narrowest; None if none has a bound."""
    found = best_answer(knowledge.means.get(query.digest, ()), query, error, confidence) if knowledge.means else None
    if not knowledge.sums or (found is not None and error is not None):
        return found
    summed = _summed_mean(knowledge, query, confidence)
    if summed is None or (error is not None and (summed.error or inf) > error * ROUNDED):
        return found
    return summed if found is None or (summed.error or inf) < (found.error or inf) else found


def _summed_mean(knowledge: Knowledge, query: Query, confidence: float) -> Answer | None:
    """The mean from the narrowest sum around the middle of the range, and the known number of its records.

    Both hold jointly, each with half of the failure probability.
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
    """The mean, with a bound against the rows' own numbers; None if it is no smaller than the range."""
    assert total.interval is not None, "certified"
    value, least, most = counted
    _, lower, upper = scaled_numbers(knowledge.domain, column.column)
    middle, width = lower / 2 + upper / 2, upper - lower
    ends = [middle + width * float(end) / size for end in total.interval for size in (least, most)]
    told = placed(middle + width * float(total.value) / value, min(ends), max(ends), lower, upper)
    mean, low, high = map(float, told)
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
