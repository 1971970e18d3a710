"""Free answers: plain functions of knowledge and request.

`free_answer` is the whole path for a session, a release and a reader of the service. `answered` computes the value and
the stated error of an answer from a certified reading.

Before a column is measured, free answers about it are the same for every table; a note says so.

The synthetic table of a snapshot is a function of its digest, so it is public and constant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf, isfinite
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from reticent.domain import Domain
from reticent.domain.values import number_text, shown_bound
from reticent.errors import QueryError
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import NANO
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.knowledge.answer import JOINT_ORIGINS, Answer
from reticent.knowledge.knowledge import VACUOUS, Knowledge, Reading, Single
from reticent.knowledge.offsets import mean_offset
from reticent.knowledge.raw_sums import bought_mean
from reticent.knowledge.request import (
    ROUNDING,
    Promise,
    Records,
    Request,
    WantedError,
    error_in_unit,
    part_name,
    shared_confidence,
    with_shortfall,
)
from reticent.knowledge.tails import joined
from reticent.queries.base import RECORDS_FAILURE, Linear, Query, checked_query
from reticent.queries.forms import allowed_codes, bin_ends, scaled_numbers
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Marginal, OfColumn, Ratio, Residual, Total
from reticent.queries.literals import readable_name

WIDE = frozenset({"certificate", "derived", "batch"})
"""Origins of statements that a session makes for all questions at once, and which hold jointly."""

FITTED = frozenset({"hypothesis", "certificate", "theorem", "typical", "conflict"})
"""Origins of answers whose values are those of a fitted distribution."""

Recall = Callable[[str], Sequence[float] | None]
"""The errors recorded for a question's parts when it was asked before, by `part_name`; None if it was not."""

Told = Callable[[str], dict[str, Any] | None]
"""The answer recorded for a purchase by `part_name`; None where its parts give the same answer again."""


def free_answer(knowledge: Knowledge, request: Request, recall: Recall | None = None) -> Answer | None:
    """The answer to one query from knowledge; None if it is not accurate enough for the request.

    Without a requested error there is always an answer, if necessary from the hypothesis, unless the request is strict.
    """
    request = resolved(request, checked_query(request.question), knowledge)
    query, error, confidence = request.question, request.error, request.confidence
    strict, promise = request.strict, request.promise
    assert error is None or isinstance(error, float), "resolved"
    if isinstance(query, Single):
        found = free_single(known_for(knowledge, request), query, error, confidence, strict=strict, promise=promise)
    elif isinstance(query, Ratio):
        found = free_ratio(knowledge, query, error, confidence, strict=strict, recall=recall)
    else:
        assert isinstance(query, Query), "resolved"
        raise not_one(query)
    return None if found is None else finished(found, request, knowledge)


def finished(answer: Answer, request: Request, knowledge: Knowledge) -> Answer:
    """The final answer to a resolved request: with its basis, and a note if it misses the requested error."""
    query, error = request.question, request.error
    if _is_mean(type(query)):
        answer = based(answer, query, knowledge)  # pyright: ignore[reportArgumentType]
    if answer.origin == "hypothesis" and answer.wanted is None and isinstance(query, Query):
        answer = replace(answer, note=unmeasured_note(knowledge, answer.origin, [query]))
    if known_for(knowledge, request).counting and not answer.basis:
        answer = replace(answer, basis=_of_released(answer, knowledge.records))
    return with_shortfall(answer, error) if isinstance(error, float) else answer


def _of_released(answer: Answer, records: float) -> str:
    """What the share and the error of a count refer to, where the number of all records is private."""
    text = f"a share of {records:,.0f} records, the released number"
    return text if answer.error is None else f"{text}: the count is within {shown_bound(answer.error * records)}"


def resolved(request: Request, asked: Query, knowledge: Knowledge) -> Request:
    """The query as this domain resolves it, with the error as a number in the unit of its answer."""
    query, error = asked.resolve(knowledge.domain), request.error
    if error is None:
        return request if query is asked else request.but(question=query)
    known = knowledge.of_counts if isinstance(error, Records) else knowledge
    wanted = error_in_unit(error, query, knowledge.domain, knowledge.records, known.whole[1])
    found = request.but(question=query, error=wanted, counting=known.counting)
    if isinstance(error, Records) and isinstance(query, (Linear, Marginal)):
        _refuse_private_records(knowledge, query, error, request.confidence)
    return found


def known_for(knowledge: Knowledge, request: Request) -> Knowledge:
    """The knowledge that answers a request: of counts, or of shares of the table."""
    return knowledge.of_counts if request.counting else knowledge


def _refuse_private_records(knowledge: Knowledge, query: Single, error: Records, confidence: float) -> None:
    """Refuse fewer records than the number of all records is known within, for a known share of them.

    Such a share needs no purchase, and none would make its count better.
    """
    least = knowledge.records_error * knowledge.records
    if error.number * ROUNDING >= least:
        return
    if isinstance(query, Linear) and not knowledge.form(query).attributes:
        exact = knowledge.guess(query, named=False)
    else:
        exact = knowledge.free(query, confidence, None)
        exact = None if exact is None or exact.error > 0 else exact
    if exact is not None and np.max(exact.compute()) > 0:
        raise QueryError(
            f"{query.wording}: the number of records is private and known within {least:.0f} here, whatever is paid; "
            f"an error of {error.number:g} records cannot be met, ask for a larger one"
        )


def free_single(
    knowledge: Knowledge,
    query: Single,
    error: float | None,
    confidence: float,
    *,
    strict: bool,
    promise: Promise = "certified",
) -> Answer | None:
    """The answer from the first certified reading within `error`, in the query's own unit; without `error`, from the
    best one.

    If a typical error suffices, the answer of the fit if most questions like this one have at most that error.
    """
    domain = knowledge.domain
    if _is_mean(type(query)):
        known = known_mean(query, domain) or _bought_mean(knowledge, query, error, confidence)
        if known is not None:
            return known
        if error is not None and error <= query.binning(domain)[0]:
            return _clipped_mean(knowledge, query, error, confidence)
    reading = knowledge.free(query, confidence, None if error is None else share_of(query, error, domain))
    if reading is not None:
        return answered(knowledge, query, reading, confidence)
    if error is not None and promise == "typical":
        return _typical(knowledge, query, error, confidence)
    if error is not None or strict:
        return None
    return answered(knowledge, query, knowledge.guess(query), None)


def _clipped_mean(knowledge: Knowledge, query: Single, error: float, confidence: float) -> Answer | None:
    """The best free mean if the bins that its condition allows bound it within `error`, although they hide more.

    Refused otherwise.
    """
    best = knowledge.free(query, confidence, None)
    found = None if best is None else answered(knowledge, query, best, confidence)
    if found is not None and found.error is not None and found.error <= error * ROUNDING:
        return found
    share_of(query, error, knowledge.domain)
    return None


def _typical(knowledge: Knowledge, query: Single, error: float, confidence: float) -> Answer | None:
    """The best free value, if most questions like this one are within `error`; this one is not certified.

    What was learned since a snapshot was audited may have moved the best value too far from it: then the snapshot's
    own value, of which the typical error speaks.
    """
    best = knowledge.free(query, confidence, None) or knowledge.guess(query)
    found = answered(knowledge, query, best, confidence)
    if found.typical is None or found.typical > error:
        audited = knowledge.audited(query, confidence)
        found = found if audited is None else answered(knowledge, query, audited, confidence)
    if found.typical is None or found.typical > error:
        return None
    stated = {"error": None, "confidence": None, "certified": False, "interval": None, "origin": "typical"}
    return replace(found, query=query.text, **stated)


def free_ratio(
    knowledge: Knowledge,
    query: Ratio,
    error: float | None,
    confidence: float,
    *,
    strict: bool,
    recall: Recall | None = None,
) -> Answer | None:
    """A quotient of two counts that hold jointly: each with half the failure probability, unless certificates of one
    snapshot cover both.
    """
    knowledge = knowledge.of_counts  # the number of records cancels
    domain, half = knowledge.domain, shared_confidence(confidence, 2)
    if (known := known_mean(query, domain) or _bought_mean(knowledge, query, error, confidence)) is not None:
        return known
    wanted = None
    if error is not None:
        before = None if recall is None else recall(part_name(query.text, error, confidence))
        if before is None and knowledge.shares.joint:
            free = free_ratio(knowledge, query, None, confidence, strict=False)
            if free is not None and free.error is not None and free.error <= error * ROUNDING:
                sure = free.confidence is not None and free.confidence >= confidence - 2 * RECORDS_FAILURE
                if sure:
                    return free
        wanted = ratio_part_error(knowledge, query, error, confidence) if before is None else before[0]
    found = [knowledge.free(part, half, wanted) for part in parts_of(query)]
    if knowledge.shares.joint:
        # Session-wide statements hold jointly: only single purchases must share the failure probability.
        whole = [knowledge.free(part, confidence, wanted) for part in parts_of(query)]
        if _joint(whole[0], whole[1], knowledge):
            found, half = whole, confidence
    elif None in found and error is None:
        # A theorem holds at its own confidence only, but for both parts jointly.
        whole = [knowledge.free(part, confidence, None) for part in parts_of(query)]
        found = whole if _joint(whole[0], whole[1], knowledge) else found
    if None in found and (strict or error is not None):
        return None
    top, bottom = query.numerator, query.denominator
    above, below = found[0] or knowledge.guess(top), found[1] or knowledge.guess(bottom)
    each = half
    if error is None and not knowledge.shares.joint and _joint(above, below, knowledge):
        above, below = knowledge.restated(above, top, confidence), knowledge.restated(below, bottom, confidence)
        each = confidence
    parts = answered(knowledge, top, above, each), answered(knowledge, bottom, below, each)
    fit = _own_quotient(knowledge, query, parts) if error is None and knowledge.shares.joint else None
    quotient = ratio_of(query, *parts, knowledge, fit=fit)
    if fit is not None and any(part.origin == "cache" for part in parts):
        # The same interval: the value of what was bought lies nearer to its middle, perhaps.
        quotient = min(quotient, ratio_of(query, *parts, knowledge), key=lambda found: _bound(found.error))
    wishes = error is not None and knowledge.shares.joint  # ledgers of version 0.1 judge by the errors of parts
    missed = wishes and (quotient.error is None or quotient.error > (error or 0.0) * ROUNDING)
    return None if missed else quotient


def of_fit(answer: Answer, own: Answer) -> bool:
    """Whether the value of an answer is the fit's `own`, perhaps moved into its bounds."""
    return answer.origin in FITTED or (answer.fitted is not None and np.array_equal(answer.fitted, own.value))


def _own_quotient(knowledge: Knowledge, query: Ratio, parts: tuple[Answer, Answer]) -> float | None:
    """The quotient of the working hypothesis alone; None if both parts were measured, and no value is the fit's.

    Parts of two sources may contradict each other: their quotient can be any number.
    """
    own = [answered(knowledge, part, knowledge.guess(part, named=False), None) for part in parts_of(query)]
    if not any(of_fit(part, one) for part, one in zip(parts, own, strict=True)):
        return None
    top, bottom = (float(one.value) for one in own)
    return top / bottom if bottom > 0 else None


def _bound(error: float | None) -> float:
    return inf if error is None else error


def parts_of(query: Ratio) -> tuple[Linear, Linear]:
    return query.numerator, query.denominator


def together(knowledge: Knowledge) -> frozenset[str]:
    """Origins of answers that all hold jointly with their stated confidence."""
    return WIDE if knowledge.shares.joint else frozenset()


def _joint(top: Answer | Reading | None, bottom: Answer | Reading | None, knowledge: Knowledge) -> bool:
    """Whether two answers hold jointly with their confidence: both from one statement, or both session-wide."""
    if top is None or bottom is None:
        return False
    if knowledge.shares.joint and {top.origin, bottom.origin} <= WIDE:
        return True
    return top.snapshot == bottom.snapshot and top.origin == bottom.origin and top.origin in JOINT_ORIGINS


def ratio_part_error(knowledge: Knowledge, query: Ratio, error: float, confidence: float) -> float:
    """The error e of both parts that keeps the quotient within the requested E, estimated from free answers.

    Measured parts may differ from the estimates by e, so the denominator may be stated as bottom - e, and the quotient
    r as r + E: the bound (1 + r + E) e / (bottom - 2e) equals E for the returned e.
    """
    half, knowledge = shared_confidence(confidence, 2), knowledge.of_counts
    found = [knowledge.free(part, half, None) or knowledge.guess(part, named=False) for part in parts_of(query)]
    top, bottom = (float(reading.compute()) for reading in found)
    if bottom <= 0:
        raise QueryError(f"{query.wording}: too few records satisfy the condition; ask for their count first")
    wanted = share_of(query, error, knowledge.domain)
    most = 1.0 if query.bounded(knowledge.domain) else inf
    part = wanted * bottom / (1 + min(most, max(0.0, top / bottom)) + 3 * wanted)
    return reachable_part(part, error, query.wording, knowledge)


def reachable_part(part: float, error: WantedError, what: str, knowledge: Knowledge, unit: str = "") -> float:
    """The requested error of a part; refused if no budget can buy it. `unit` is that of a bare number."""
    least = error_floor(knowledge, binary=False)
    if part == error or part > least:
        return part
    refuse_unknown_size(knowledge, least)
    wanted = f"{error:g}{unit}" if isinstance(error, (int, float)) else error
    raise QueryError(
        f"{what}: an error of {wanted} needs its counts within {part:.3g} of the table, which is not above "
        f"{least:.3g}, what counting leaves whatever is paid; ask for a larger one, or leave small groups out"
    )


def refuse_unknown_size(knowledge: Knowledge, least: float) -> None:
    """Refuse if the number of records is private and so uncertain that no error can be met."""
    if least >= VACUOUS and knowledge.records_error > 0 and not knowledge.counting:
        raise QueryError(
            f"no share of the table can be certified: its private number of records is {knowledge.records:.0f} give or "
            f"take {knowledge.records_error * knowledge.records:.0f} here{counts_instead(knowledge)}; use a larger "
            "budget, or neighbours='replace-one' where the number may be public"
        )


def counts_instead(knowledge: Knowledge) -> str:
    """The remedy for a share that is limited by a private number of records, if counts are not."""
    limited = knowledge.shares.in_records and not knowledge.counting
    return "; a count can be asked in records, error=rt.records(80)" if limited and knowledge.records_error else ""


def error_floor(knowledge: Knowledge, *, binary: bool) -> float:
    """The part of an answer's error that does not depend on noise, as a share of the table."""
    doubt = knowledge.records_error * (VALUE_ROUNDING if knowledge.counting else 1.0)
    return doubt + 1 / knowledge.records + (0.0 if binary else VALUE_ROUNDING)


def uncertified(query: Query) -> QueryError:
    return QueryError(f"{query.wording}: no certificate covers it; give error= to pay for an answer, or strict=False")


def not_one(query: Query) -> QueryError:
    return QueryError(f"{query.wording} is a workload entry, not one question; ask rt.count, rt.mean or rt.marginal")


def answered(knowledge: Knowledge, query: Single, reading: Reading, confidence: float | None, cost: int = 0) -> Answer:
    """The answer from a reading, in the query's own unit."""
    error, origin, compute, snapshot, ledger_id, bounds = reading
    domain, certified = knowledge.domain, error < inf
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    keys: tuple[tuple[Any, ...], ...] = ()
    share: float | np.ndarray = compute()
    fit = None if bounds is None else bounds.fitted
    if bounds is None and certified:
        share = _nearest_possible(share, error, knowledge.whole[1]) if knowledge.shares.possible else share
        bounds = joined([(share, error)], share, knowledge.whole)
        share = bounds.value() if knowledge.shares.possible else share
        error = bounds.error(share) if knowledge.shares.joint else error
    if origin == "cache":
        fit = None  # the value is of its own purchase, within what all else leaves possible
    fitted = fit if reading.bounds is not None else share if snapshot is not None else None
    interval = None if bounds is None else (bounds.low, bounds.high)
    if certified and isinstance(query, Count) and type(share) is float:
        # A count has no unit and no bins; most answers take this path.
        value, count = share, share * knowledge.records
    elif isinstance(query, Linear):
        offset, scale = query.units(domain)
        value = offset + scale * float(share)
        count = float(share) * knowledge.records if scale == 1 and offset == 0 else None
        fitted = None if fitted is None else offset + scale * float(fitted)
        if interval is not None:
            interval = (offset + scale * float(interval[0]), offset + scale * float(interval[1]))
        if certified and interval is not None:
            value, error, interval = _in_unit(query, knowledge, value, abs(scale) * error, interval, fitted)
        elif knowledge.bin_means:
            value = _moved(query, knowledge, value)
        certified = error < inf
    else:
        value = _table(query, np.asarray(share), domain)
        labels = tuple((name, domain[name].labels) for name in query.names)
        keys = tuple(domain[name].group_keys for name in query.names)
        count = value * knowledge.records if isinstance(query, Marginal) or query.counts else None
        fitted = None if fitted is None else _table(query, np.asarray(fitted), domain)
        if interval is not None:
            low, high = (np.broadcast_to(np.asarray(end), np.shape(share)) for end in interval)
            interval = (_table(query, low, domain), _table(query, high, domain))
    typical = None
    if knowledge.typical and (count is not None or not certified):
        stated = confidence or knowledge.typical[-1].error.confidence
        typical = partial(knowledge.typical_error, query, share, fit, stated)
    return Answer.built(
        query,
        typical,
        value=value,
        count=count,
        error=error if certified else None,
        confidence=confidence if certified else None,
        origin=origin,
        certified=certified,
        price=cost / NANO,
        snapshot=snapshot,
        ledger_id=ledger_id if cost else None,
        labels=labels,
        keys=keys,
        interval=interval,
        fitted=fitted,
    )


def _nearest_possible(share: float | np.ndarray, error: float, most: float) -> float | np.ndarray:
    """A reading, moved to the nearest possible share if its whole interval lies below 0 or above the largest.

    The true value is a share of the table, so the nearest share is at least as close to it as the reading: if the
    reading is within `error` of the true value, so is the moved value.
    """
    if isinstance(share, float):
        return 0.0 if share < -error else most if share > most + error else share
    return np.where(share < -error, 0.0, np.where(share > most + error, most, share))


def _in_unit(
    query: Linear,
    knowledge: Knowledge,
    value: float,
    error: float,
    interval: tuple[float, float],
    fitted: float | None,
) -> tuple[float, float, tuple[float, float] | None]:
    """Value, error and interval of a number, including the binning error of its column."""
    if query.binning(knowledge.domain)[0] == 0:
        return value, error, interval
    if knowledge.shares.joint:
        return placed_mean(query, knowledge, interval, value if fitted is None else fitted)
    error, (least, most) = with_binning(query, knowledge.domain, value, error), allowed_range(query, knowledge.domain)
    return value, error, (max(value - error, least), min(value + error, most)) if isfinite(error) else None


def _within(value: float, ends: tuple[float, float]) -> float:
    """The nearest possible number; it is at least as close to the true value, so it keeps its error."""
    return min(max(value, ends[0]), ends[1])


def placed_mean(
    query: Query, knowledge: Knowledge, interval: tuple[float, float], fitted: float
) -> tuple[float, float, tuple[float, float]]:
    """Value, error and interval of a mean of the rows' own numbers, from the interval of the mean of representatives.

    The binning error is at most the width of the bins, and no mean lies outside the bins that the selection allows.
    """
    low, high = interval
    middle = low + (high - low) / 2
    reach = with_binning(query, knowledge.domain, middle, (high - low) / 2)
    least, most = allowed_range(query, knowledge.domain)
    low, high = max(middle - reach, least), min(middle + reach, most)
    value = _within(fitted + mean_offset(knowledge, query), (low, high))
    error = max(value - low, high - value)
    return value, error if reach < inf else inf, (low, high)


def _moved(query: Query, knowledge: Knowledge, value: float) -> float:
    """An uncertified mean, moved by measured offsets within the range that its bins allow."""
    offset = mean_offset(knowledge, query)
    if offset == 0:
        return value
    return _within(value + offset, allowed_range(query, knowledge.domain))


def allowed_range(query: Query, domain: Domain) -> tuple[float, float]:
    """The smallest and largest possible mean, by the bins of its column that the condition allows."""
    column = query.numerator if isinstance(query, Ratio) else query
    assert isinstance(column, OfColumn), "only means are of numbers"
    attribute, (_, lower, upper) = domain[column.column], scaled_numbers(domain, column.column)
    numbers = attribute.representatives
    assert numbers is not None, "scaled"
    allowed = allowed_codes(column.where.compile(domain), column.column, domain) & ~np.isnan(numbers)
    if not allowed.any():
        return lower, upper
    ends = [bin_ends(attribute, int(code)) for code in np.flatnonzero(allowed)]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _table(query: Marginal | Groups, values: np.ndarray, domain: Domain) -> np.ndarray:
    """The values with axes in the order asked; a marginal has them in the domain's order."""
    if isinstance(query, Groups):
        return values
    canonical = query.canonical(domain)
    return np.transpose(values, [canonical.index(name) for name in query.names])


@cache
def _is_mean(kind: type) -> bool:
    """Whether questions of this kind are about a column's numbers, or quotients; called for every free answer."""
    return issubclass(kind, (OfColumn, Ratio)) and not issubclass(kind, Total)


def known_mean(query: Query, domain: Domain) -> Answer | None:
    """The mean of a column with a single possible number, known from the domain."""
    if not _is_mean(type(query)):
        return None
    offset, scale = query.units(domain)  # pyright: ignore[reportAttributeAccessIssue]
    if scale != 0:
        return None
    return Answer(query.text, offset, None, error=0.0, confidence=1.0, origin="public", certified=True)


def _bought_mean(knowledge: Knowledge, query: Query, error: float | None, confidence: float) -> Answer | None:
    """A purchased mean of the rows' own numbers, if it is accurate enough."""
    if not (knowledge.means or knowledge.sums) or not _is_mean(type(query)):
        return None
    return bought_mean(knowledge, query, error, confidence)


def share_of(query: Query, error: float, domain: Domain) -> float:
    """The part of a requested error left for noise, as a fraction, after the binning error."""
    hidden, _ = query.binning(domain)
    if hidden and error <= hidden:
        raise QueryError(
            f"{query.wording}: an error of {error:g} is not above {hidden:g}, which the column's bins hide whatever is "
            "paid; ask for a larger one, declare finer bins, or read the table with numbers=True"
        )
    scale = query.units(domain)[1] if isinstance(query, (Linear, Ratio)) else 1.0
    return (error - hidden) / abs(scale) if hidden else error / abs(scale)


def with_binning(query: Query, domain: Domain, value: float, error: float) -> float:
    """The error of a mean of the rows' own numbers; infinite if it is no smaller than the declared range allows.

    The numbers are clipped to the range, so their mean lies in it.
    """
    hidden, ratio = query.binning(domain)
    if hidden == 0:
        return error
    offset, scale = query.units(domain)  # pyright: ignore[reportAttributeAccessIssue]
    hidden = min(hidden, max(0.0, ratio * (value + error - offset)))
    found = min(error + hidden, max(value - offset, offset + scale - value))
    return found if found < scale / 2 else inf


def based(answer: Answer, query: Query, knowledge: Knowledge) -> Answer:
    """The answer with a statement of the values that its mean averages; a quotient of counts needs none."""
    if answer.origin == "public" or answer.basis:
        return answer
    column = query.numerator if isinstance(query, Ratio) else query
    if not isinstance(column, OfColumn) or isinstance(query, Total):
        return answer
    _, lower, upper = scaled_numbers(knowledge.domain, column.column)
    words = [f"of values clipped to [{number_text(lower)}, {number_text(upper)}]"]
    if knowledge.unit == "person":
        words.append("mean of persons' means")
    hidden, _ = query.binning(knowledge.domain)
    if hidden > 0 and (answer.error is None or hidden > answer.error / 2):
        words.append(
            f"the bins of {readable_name(column.column)} may hide ±{shown_bound(hidden)}: finer ones would help"
        )
    return replace(answer, basis="; ".join(words))


def ratio_of(query: Ratio, top: Answer, bottom: Answer, knowledge: Knowledge, fit: float | None = None) -> Answer:
    """The quotient of two answers; its error is the largest that the two errors allow.

    `fit` is the quotient of one fitted distribution, for parts that were not both measured: the value is the nearest
    that their bounds allow.
    """
    domain = knowledge.domain
    offset, scale = query.units(domain)
    low_value = float(bottom.value)
    share = fit if fit is not None else float(top.value) / low_value if low_value > 0 else 0.0
    most = 1.0 if query.bounded(domain) else inf
    value, interval, fitted = offset + scale * share, None, None
    if top.certified and bottom.certified and top.interval is not None and bottom.interval is not None:
        interval = _quotient(top.interval, bottom.interval, most)
    if knowledge.shares.joint and interval is not None:
        fitted = offset + scale * (_fitted_quotient(top, bottom, share) if fit is None else fit)
        interval = (offset + scale * interval[0], offset + scale * interval[1])
        if not isfinite(interval[1]) or not isfinite(query.binning(domain)[0]):
            error = inf
        elif query.is_mean:
            value, error, interval = placed_mean(query, knowledge, interval, fitted)
        else:
            value = _within(fitted, interval)
            error = max(value - interval[0], interval[1] - value)
    else:
        error = (
            abs(scale) * quotient_error(float(top.value), top.error, low_value, bottom.error, most) if scale else 0.0
        )
        error = with_binning(query, domain, value, error)
        ends = allowed_range(query, domain) if query.is_mean else (offset, offset + scale * most if scale else offset)
        value = _within(value, ends) if knowledge.shares.possible else value
        interval = (max(value - error, ends[0]), min(value + error, ends[1]))
    certified = top.certified and bottom.certified and isfinite(error)
    if knowledge.bin_means and not certified and query.is_mean:
        value = _moved(query, knowledge, value if fitted is None else fitted)
    confidences = [c for c in (top.confidence, bottom.confidence) if c is not None]
    confidence = min(confidences) if _joint(top, bottom, knowledge) else 1 - sum(1 - c for c in confidences)
    return Answer(
        query=query.text,
        value=value,
        count=None,
        error=error if certified else None,
        confidence=confidence if certified else None,
        origin=top.origin if top.origin == bottom.origin else "derived",
        certified=certified,
        price=top.price + bottom.price,
        snapshot=top.snapshot,
        ledger_id=top.ledger_id,
        interval=interval if certified else None,
        fitted=fitted,
    )


def _quotient(top: Any, bottom: Any, most: float) -> tuple[float, float]:
    """The range of quotients of numbers in two intervals; unbounded if the denominator may be zero."""
    low = max(0.0, float(top[0])) / float(bottom[1]) if bottom[1] > 0 else 0.0
    high = float(top[1]) / float(bottom[0]) if bottom[0] > 0 else inf
    return min(low, most), min(high, most)


def _fitted_quotient(top: Answer, bottom: Answer, otherwise: float) -> float:
    above = top.value if top.fitted is None else top.fitted
    below = bottom.value if bottom.fitted is None else bottom.fitted
    return float(above) / float(below) if float(below) > 0 else otherwise


def quotient_error(
    top: float, top_error: float | None, bottom: float, bottom_error: float | None, most: float = inf
) -> float:
    """sup |t'/b' - t/b| over |t'-t| <= top_error, |b'-b| <= bottom_error, 0 <= t' <= most b'.

    Infinite if b' may vanish. `most` is 1 if the numerator is part of the denominator; the quotient of unrelated counts
    has no such bound.
    """
    if top_error is None or bottom_error is None or bottom - bottom_error <= 0:
        return inf
    centre = top / bottom
    highest = min(most, (top + top_error) / (bottom - bottom_error))
    lowest = max(0.0, (top - top_error) / (bottom + bottom_error))
    return max(highest - centre, centre - lowest)


UNMEASURED = "nothing was measured here yet, so all values count as equally likely: ask for an error to measure it"


def nothing_measured(knowledge: Knowledge) -> bool:
    """Whether knowledge consists only of the initial hypothesis of a session."""
    return _unknown(knowledge, frozenset(knowledge.domain.names))


def unmeasured_note(knowledge: Knowledge, origin: str, queries: Iterable[Query]) -> str:
    """A note for an answer of the hypothesis if none of the question's columns was measured; otherwise empty.

    Synthetic rows have all columns.
    """
    if knowledge.certified or not {"hypothesis", "synthetic"}.intersection(origin.split(" + ")):
        return ""
    columns = {name for query in queries for name in _columns(query, knowledge)}
    columns = {*knowledge.domain.names} if origin == "synthetic" else columns
    return UNMEASURED if columns and _unknown(knowledge, columns) else ""


def _unknown(knowledge: Knowledge, columns: Collection[str]) -> bool:
    if knowledge.certified or not all(map(knowledge.current.uniform, columns)):
        return False
    if knowledge.learnt.intersection(columns):
        return False
    return not any(name in columns for one in knowledge.measurements() for name in _columns(one.query, knowledge))


def _columns(query: Query | Residual, knowledge: Knowledge) -> Iterable[str]:
    if isinstance(query, Ratio):
        return (*_columns(query.numerator, knowledge), *_columns(query.denominator, knowledge))
    return knowledge.form(query).attributes if isinstance(query, Linear) else getattr(query, "names", ())


ROWS = 10_000
"""The number of rows of the synthetic table; a release's `synthesize` draws any number."""

_DRAWN: WeakKeyDictionary[Snapshot, np.ndarray] = WeakKeyDictionary()
_LOCK = Lock()


def drawn_rows(knowledge: Knowledge, rows: int) -> np.ndarray:
    """The codes of the first rows: independent draws from the newest certified snapshot, seeded by its digest."""
    snapshot = knowledge.newest.snapshot
    with _LOCK:
        codes = _DRAWN.get(snapshot)
    if codes is None:
        codes = snapshot.sample(ROWS, np.random.default_rng(int(snapshot.digest, 16)))
        with _LOCK:
            _DRAWN[snapshot] = codes
    return codes[:rows]
