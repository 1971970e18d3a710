"""How a question is read from what a session knows: every free way to it, and the answer one of them gives."""

from __future__ import annotations

from functools import partial
from math import inf

import numpy as np

from reticent.algorithms.certificates import tightest
from reticent.algorithms.knowledge import Knowledge, Reading, best
from reticent.answer import Answer
from reticent.domain import Domain
from reticent.kernel.accounting import NANO
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal
from reticent.view import group_values

Question = Linear | Marginal | Groups


def free(knowledge: Knowledge, query: Question, confidence: float, wanted: float | None) -> Reading | None:
    """The first reading within `wanted`, a fraction; without one, that of least error."""
    if isinstance(query, Linear):
        return knowledge.free(query, confidence, wanted)
    return best(readings(knowledge, query, confidence), wanted)


def readings(knowledge: Knowledge, query: Question, confidence: float) -> list[Reading]:
    """Every certified way to answer."""
    if isinstance(query, Linear):
        return knowledge.readings(query, confidence)
    if isinstance(query, Marginal):
        return knowledge.cells(query.canonical(knowledge.domain), confidence)
    return _groups(knowledge, query, confidence)


def guess(knowledge: Knowledge, query: Question) -> Reading:
    """The working hypothesis' own answer, without any certificate."""
    current = knowledge.current
    if isinstance(query, Linear):
        return Reading(inf, "hypothesis", partial(current.expect, query), current.digest)
    if isinstance(query, Marginal):
        compute = partial(current.marginal, query.canonical(knowledge.domain))
        return Reading(inf, "hypothesis", compute, current.digest)
    return Reading(inf, "hypothesis", partial(group_values, query, current), current.digest)


def answered(
    knowledge: Knowledge, query: Question, reading: Reading, confidence: float | None, cost: int = 0
) -> Answer:
    """What the reading says, in the query's own unit."""
    domain, certified = knowledge.domain, reading.error < inf
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    error = reading.error
    if isinstance(query, Linear):
        offset, scale = query.units(domain)
        share = float(reading.compute())
        value = offset + scale * share
        count = share * knowledge.records if scale == 1 and offset == 0 else None
        error = abs(scale) * error
    else:
        value = _table(query, np.asarray(reading.compute()), domain)
        labels = tuple((name, domain[name].labels) for name in query.names)
        count = value * knowledge.records if isinstance(query, Marginal) or query.column is None else None
    return Answer.built(
        query,
        value=value,
        count=count,
        error=error if certified else None,
        confidence=confidence if certified else None,
        origin=reading.origin,
        certified=certified,
        price=cost / NANO,
        snapshot=reading.snapshot,
        ledger_id=reading.ledger_id if cost else None,
        labels=labels,
    )


def _table(query: Marginal | Groups, values: np.ndarray, domain: Domain) -> np.ndarray:
    """Axes in the order asked; a marginal comes in the domain's order."""
    if isinstance(query, Groups):
        return values
    canonical = query.canonical(domain)
    return np.transpose(values, [canonical.index(name) for name in query.names])


def _groups(knowledge: Knowledge, query: Groups, confidence: float) -> list[Reading]:
    """One bound serves every group."""
    domain = knowledge.domain
    if not query.fits(domain):
        return []
    found = [
        Reading(measured.error_at(confidence), "cache", partial(measured.over, query), None, measured.ledger_id)
        for measured in knowledge.groups
        if measured.answers(query)
    ]
    forms, span = query.representatives(domain), query.span(domain)
    for certified in knowledge.certified:
        bounds = [tightest(certified.certificates, form, confidence) for form in forms]
        error, certificate = max(bounds, key=lambda pair: pair[0])
        if certificate is not None:
            compute = partial(group_values, query, certified.snapshot)
            found.append(Reading(error, "certificate", compute, certified.snapshot.digest, certificate.ledger_id))
    for measured in knowledge.marginals:
        if set(span) <= set(measured.attributes):
            error = max(measured.error_of(form, confidence) for form in forms)
            compute = partial(query.read, domain, measured.over(span))
            found.append(Reading(error, "derived", compute, None, measured.ledger_id))
    return found
