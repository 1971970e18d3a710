"""Sales of means and sums of the rows' own numbers, if binning causes most of the requested error.

One charge buys the sum of the clipped numbers and, if it is not public, the count of its records; for SQL, those of all
groups. The noise is recorded before it is paid for, so that a retry asks for the same and is charged once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from reticent.errors import BudgetError, QueryError
from reticent.kernel.curator import Asked, Noise
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import free_ratio, free_single, known_for
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.raw_means import (
    LARGEST,
    counted_records,
    hidden_numbers,
    raw_mean,
    rounding,
    summed_numbers,
)
from reticent.knowledge.raw_sums import (
    all_count,
    asked_of,
    best_centred,
    best_sums,
    bought_mean,
    group_count,
    raw_sums,
    rounding_share,
    summed_groups,
    with_sums,
)
from reticent.knowledge.request import Request, part_name
from reticent.knowledge.tails import noise_failure, noise_within
from reticent.queries.base import Query
from reticent.queries.forms import scaled_numbers
from reticent.queries.groups import Groups
from reticent.queries.linear import Mean, OfColumn, Ratio, Total
from reticent.sessions.engine import Certify, Free, Quote
from reticent.sessions.journal import ASK, NUMBERS, SUM

if TYPE_CHECKING:
    from reticent.sessions.default import DefaultEngine

DOMINATES = 0.5
"""If the binning error exceeds this share of a requested error, the rows' own numbers are cheaper."""
SMALLEST_ROOM = 2.0
"""The least noise allowed, in records: one record covers the grid of a count."""

COUNT_PART = 2 ** (1 / 3) / 2
"""The part of a share's error for the count, half of which enters the share, besides the sum: it minimises their total
price."""


class SumPurchase(NamedTuple):
    """A sum to buy, and its noise."""

    column: OfColumn
    asked: tuple[Asked, ...]
    noises: tuple[Noise, ...]


def quote_mean(engine: DefaultEngine, request: Request) -> Quote | None:
    """The quote of a mean by the rows' own numbers; None if its bins suffice or must be used."""
    query, error, state = request.question, request.error, engine.state
    if not isinstance(query, (Mean, Ratio)) or not isinstance(error, float):
        return None
    known = state.knowledge
    column = hidden_numbers(query, known.domain)
    if column is None:
        return None
    found = bought_mean(known, query, error, request.confidence)
    paid = request.key is not None and state.charged(SUM + request.key)
    if found is not None and not paid:
        return Free(request, known, found)
    hidden = query.binning(known.domain)[0]
    wanted = hidden > DOMINATES * error and state.curator.has_numbers(column.column)
    if not paid and (not wanted or _binned(engine, request, query, error)):
        return None
    name = part_name(f"numbers of {query.text}", error, request.confidence)
    recalled = state.recall(name, None if request.key is None else request.key + NUMBERS)
    within = _records_within(known, query, column, error) if recalled is None else recalled[0]
    bought = _purchase(known, column, within, request.confidence, pure=state.budget.pure)
    least = min((mean.noises[0].sd for mean in known.means.get(query.digest, ())), default=inf)
    if recalled is not None and not paid and least <= bought.noises[0].sd:
        # What was bought misses the error: choose again, by the number of records that was measured with it.
        recalled, within = None, min(_records_within(known, query, column, error), within / 2)
        bought = _purchase(known, column, within, request.confidence, pure=state.budget.pure)
    key = _key(engine, query, bought, request)
    price = 0 if state.charged(key) else state.budget.cost(state.curator.price(bought.asked, bought.noises))
    run = partial(_run, engine, request, query, bought, key, (name, [within]))
    return Certify(request, known, run, lambda: price)


def _binned(engine: DefaultEngine, request: Request, query: Mean | Ratio, error: float) -> bool:
    """Whether the bins answer the question well enough, or its key has begun to buy that answer."""
    state, key = engine.state, request.key
    if key is not None and state.charged(ASK + key):
        return True
    if isinstance(query, Ratio) and state.recall(part_name(query.text, error, request.confidence), key) is not None:
        return True
    with suppress(QueryError):  # bins hide more than the error, and what is known does not meet it
        return _free(state.knowledge, request, query, error) is not None
    return False


def _free(known: Knowledge, request: Request, query: Mean | Ratio, error: float) -> Answer | None:
    if isinstance(query, Ratio):
        return free_ratio(known, query, error, request.confidence, strict=request.strict)
    return free_single(known, query, error, request.confidence, strict=request.strict)


def _records_within(known: Knowledge, query: Query, column: OfColumn, error: float) -> float:
    """The allowed noise of sum and count, in records, estimated from the free answer for the count.

    If both are within e of N records, the mean is within (1 + 1/2) e / (N - e) of the range; the measured count may
    differ from the estimate by e.
    """
    _, lower, upper = scaled_numbers(known.domain, column.column)
    wanted = (error - rounding(column, known.domain)) / (upper - lower)
    if not wanted > 0:
        what = f"{query.wording}: an error of {error:g} is below the grid of its numbers"
        raise QueryError(f"{what}; ask for a larger one")
    if isinstance(query, Mean) and known.records_error == 0:
        return wanted * known.records
    present = counted_records(column)
    measured = min(known.means.get(query.digest, ()), key=lambda mean: mean.noises[0].sd, default=None)
    if measured is None:
        found = known.free(present, 0.95, None) or known.guess(present, named=False)
        records = float(found.compute()) * known.records
    else:
        records = max(measured.count, 1.0)
    return wanted * records / (1 + LARGEST + 3 * wanted)


def _purchase(known: Knowledge, column: OfColumn, within: float, confidence: float, *, pure: bool) -> SumPurchase:
    alone = isinstance(column, Mean) and known.records_error == 0
    failure = noise_failure(confidence, known.records_error) * known.shares.own
    if not failure > 0 or not within > SMALLEST_ROOM:
        _, lower, upper = scaled_numbers(known.domain, column.column)
        width = upper - lower
        raise QueryError(
            f"the mean of {column.column} needs its sum within {within * width:.3g}, and one record may change it by "
            f"{width:g}: hardly any record counts, or the confidence of {confidence:.9g} is beyond reach; ask for a "
            "larger error, or for more records"
        )
    sums = summed_numbers(column, known.domain)
    if alone:
        return SumPurchase(column, (sums,), (noise_within(within - 1, failure, pure=pure),))
    noise = noise_within(within - SMALLEST_ROOM / 2, failure / 2, pure=pure)
    return SumPurchase(column, (sums, counted_records(column)), (noise, noise))


def _key(engine: DefaultEngine, query: Query, bought: SumPurchase, request: Request) -> str:
    if request.key is not None:
        return SUM + request.key
    named = f"{SUM}{query.digest[:24]}:{float(bought.noises[0].sd):.17g}:{request.analyst or ''}"
    return engine.state.journal.usable(named)


def _run(
    engine: DefaultEngine,
    request: Request,
    query: Mean | Ratio,
    bought: SumPurchase,
    key: str,
    begun: tuple[str, list[float]],
) -> Answer:
    """Pay and answer; if the budget cannot pay, answer as well as knowledge allows.

    The noise is recorded for the question, and for the key, which keeps its own if the question is asked again.
    """
    state, (name, within) = engine.state, begun
    if state.recall(name) != within:
        state.remember(name, None, within)
    if request.key is not None and not state.has_begun(request.key + NUMBERS):
        state.remember(name, request.key + NUMBERS, within)
    fresh = not state.settled(key)
    try:
        settled = state.curator.measure(bought.asked, bought.noises, key=key, analyst=request.analyst)
    except BudgetError:
        if request.strict:
            raise
        found = _unpaid(state.knowledge, request, query)
        assert found is not None, "without a wanted error there is an answer"
        return found
    mean = raw_mean(state.knowledge, bought.column, bought.noises, settled)
    if fresh:
        state.learn(with_sums(state.knowledge, _groups(bought.column), bought.noises, settled))
    return mean.answer(query, request.confidence, price=state.budget.amount(settled.cost), bought=True)


def _unpaid(known: Knowledge, request: Request, query: Mean | Ratio) -> Answer | None:
    if isinstance(query, Ratio):
        return free_ratio(known, query, None, request.confidence, strict=False)
    return free_single(known, query, None, request.confidence, strict=False)


def _groups(column: OfColumn) -> Groups:
    return Groups((), column.where, column.column)


# -- sums of groups, for SQL ---------------------------------------------------------------------------------


def sells_sums(engine: DefaultEngine, query: Query) -> bool:
    """Whether the total behind a statement can be bought as a sum of the rows' own numbers."""
    state = engine.state
    groups = summed_groups(query, state.domain)
    if groups is None or groups.column is None or not state.curator.has_numbers(groups.column):
        return False
    try:
        asked_of(groups, state.domain, alone=False)
    except QueryError:
        return False  # more cells than the kernel sums at once
    return True


def quote_sums(engine: DefaultEngine, request: Request) -> Quote:
    """The quote of a total of the rows' own numbers in each group, within an error that is a share of the table.

    A centred sum is taken around the middle of the range; the counts are separate questions. Only purchases begun by
    earlier versions have their own counts.
    """
    query, error, state = request.question, request.error, engine.state
    assert isinstance(query, (Total, Groups)), "only totals are summed"
    assert isinstance(error, float), "a statement says which"
    known, groups = state.knowledge, summed_groups(query, state.domain)
    assert groups is not None, "sold"
    centred, pure = request.numbers == "centred", state.budget.pure
    bought, best = (_noise, best_centred) if centred else (_noises, best_sums)
    view = known_for(known, request)
    noises, key = bought(view, groups, error, request.confidence, pure=pure), None
    if request.key is not None:
        key = SUM + request.key
    if key is None or not state.charged(key):
        found = best(view.sums_of(groups.digest), query, error, request.confidence)
        if found is not None:
            return Free(request, known, found)
    if key is None:
        named = f"{SUM}{request.numbers if centred else ''}{groups.digest[:24]}"
        key = state.journal.usable(f"{named}:{float(noises[0].sd):.17g}:{request.analyst or ''}")
    asked = asked_of(groups, state.domain, alone=len(noises) == 1)
    price = 0 if state.charged(key) else state.budget.cost(state.curator.price(asked, noises))
    return Certify(request, known, partial(_sum, engine, request, query, groups, noises, key), lambda: price)


def _noise(known: Knowledge, groups: Groups, error: float, confidence: float, *, pure: bool) -> tuple[Noise]:
    """The noise of sums around the middle of the range, so that a share of them is within `error`."""
    failure, room = _failure_and_room(known, groups, error, confidence)
    return (noise_within(room + SMALLEST_ROOM / 2, failure, pure=pure),)


def _failure_and_room(known: Knowledge, groups: Groups, error: float, confidence: float) -> tuple[float, float]:
    """The failure probability of each sum, and its allowed noise, in records."""
    failure = noise_failure(confidence, known.records_error) * known.shares.own / group_count(groups, known.domain)
    slack = rounding_share(groups, known.domain) * known.whole[1]
    share = error - slack if known.counting else error * (1 - known.records_error) - known.records_error - slack
    room = share * known.records - SMALLEST_ROOM
    if not failure > 0 or not room > 0:
        raise QueryError(
            f"{groups.text} within {max(0.0, error * known.records):.3g} records: the numbers of so few records are "
            "not sold; ask for a larger error, or leave small groups out"
        )
    return failure, room


def _noises(
    known: Knowledge, groups: Groups, error: float, confidence: float, *, pure: bool
) -> tuple[Noise] | tuple[Noise, Noise]:
    """The noises of the sums, and of the counts if these are not public; half of a count's error enters the share."""
    alone = known.records_error == 0 and all_count(groups, known.domain)
    failure, room = _failure_and_room(known, groups, error, confidence)
    if alone:
        return (noise_within(room, failure, pure=pure),)
    within = room / (1 + COUNT_PART)
    return (
        noise_within(within, failure / 2, pure=pure),
        noise_within(2 * COUNT_PART * within, failure / 2, pure=pure),
    )


def _sum(
    engine: DefaultEngine,
    request: Request,
    query: Total | Groups,
    groups: Groups,
    noises: tuple[Noise, ...],
    key: str,
) -> Answer:
    """Pay and answer; if the budget cannot pay, answer from bins as well as knowledge allows."""
    state = engine.state
    fresh = not state.settled(key)
    try:
        asked = asked_of(groups, state.domain, alone=len(noises) == 1)
        settled = state.curator.measure(asked, noises, key=key, analyst=request.analyst)
    except BudgetError:
        if request.strict:
            raise
        known = known_for(state.knowledge, request)
        found = free_single(known, query, None, request.confidence, strict=False)
        assert found is not None, "without a wanted error there is an answer"
        return found
    counting = known_for(state.knowledge, request).counting
    sums = replace(raw_sums(state.knowledge, groups, noises, settled), counting=counting)
    if fresh:
        state.learn(with_sums(state.knowledge, groups, noises, settled))
    stated = sums.centred if request.numbers == "centred" else sums.answer
    return stated(query, request.confidence, price=state.budget.amount(settled.cost), bought=True)
