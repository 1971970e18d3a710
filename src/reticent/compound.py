"""Questions that are several at once: a SQL statement, or a GROUP BY with a condition, put to a session."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.algorithms.certificates import tightest
from reticent.algorithms.knowledge import Knowledge, Reading, best
from reticent.answer import Answer
from reticent.domain import Domain
from reticent.queries.base import Query
from reticent.queries.groups import Groups
from reticent.view import group_values

if TYPE_CHECKING:
    from reticent.session import Session


def shared_confidence(confidence: float, parts: int) -> float:
    """So many parts hold together if each fails that much less often."""
    return 1 - (1 - confidence) / max(1, parts)


def ask_sql(
    session: Session, text: str, error: float | None, confidence: float, key: str | None, analyst: str | None
) -> Any:
    """Each question behind the statement is asked on its own; paid ones share the confidence between them."""
    from reticent.sql import compile_sql

    statement = compile_sql(text, session.domain)
    each = confidence if error is None else shared_confidence(confidence, len(statement.queries))

    def answer(query: Query) -> Answer:
        part = key and f"{key}:{query.digest[:16]}"
        return session.ask(query, error=error, confidence=each, key=part, analyst=analyst)

    knowledge = session._knowledge
    return statement.run(answer, records=knowledge.records, records_error=knowledge.records_error)


def ask_groups(
    session: Session, query: Groups, error: float | None, confidence: float, key: str | None, analyst: str | None
) -> Answer:
    """From what is known if that is good enough, else group by group."""
    knowledge = session._knowledge
    reading = best(group_readings(knowledge, query, confidence), error)
    if reading is None and error is None:
        current = knowledge.current
        reading = Reading(inf, "hypothesis", partial(group_values, query, current), current.digest)
    if reading is not None:
        return _answer(query, reading, confidence, knowledge)
    parts = list(query.parts(session.domain))
    each = shared_confidence(confidence, len(parts))
    answers = [
        session.ask(part, error=error, confidence=each, key=key and f"{key}:{place}", analyst=analyst)
        for place, part in enumerate(parts)
    ]
    return _joined(query, answers, confidence, knowledge)


def compound_cost(session: Session, question: Groups | str, error: float, confidence: float) -> float:
    """At most what asking would charge: the sum over its parts, unless it is free as a whole.

    A part may buy a marginal that answers the next one for free.
    """
    if isinstance(question, Groups):
        if best(group_readings(session._knowledge, question, confidence), error) is not None:
            return 0.0
        parts: Sequence[Query] = list(question.parts(session.domain))
    else:
        from reticent.sql import compile_sql

        parts = compile_sql(question, session.domain).queries
    each = shared_confidence(confidence, len(parts))
    return sum(session.cost(part, error=error, confidence=each) for part in parts)


def group_readings(knowledge: Knowledge, query: Groups, confidence: float) -> list[Reading]:
    """Every certified way to answer all groups for free; one bound serves every group."""
    domain: Domain = knowledge.domain
    if not query.fits(domain):
        return []
    forms, span, found = query.representatives(domain), query.span(domain), []
    for certified in knowledge.certified:
        bounds = [tightest(certified.certificates, form, confidence) for form in forms]
        error, certificate = max(bounds, key=lambda pair: pair[0])
        if certificate is not None:
            compute = partial(group_values, query, certified.snapshot)
            found.append(Reading(error, "certificate", compute, certified.snapshot.digest, certificate.ledger_id))
    for measured in knowledge.marginals:
        if set(span) <= set(measured.attributes):
            error = max(measured.error_of(form, confidence) for form in forms)
            dropped = tuple(i for i, name in enumerate(measured.attributes) if name not in span)
            compute = partial(query.read, domain, measured.values.sum(axis=dropped))
            found.append(Reading(error, "derived", compute, None, measured.ledger_id))
    return found


def _answer(query: Groups, reading: Reading, confidence: float, knowledge: Knowledge, price: float = 0.0) -> Answer:
    certified = isfinite(reading.error)
    values = np.asarray(reading.compute())
    return Answer(
        query=query.text,
        value=values,
        count=values * knowledge.records if query.column is None else None,
        error=reading.error if certified else None,
        confidence=confidence if certified else None,
        origin=reading.origin,
        certified=certified,
        price=price,
        snapshot=reading.snapshot,
        ledger_id=reading.ledger_id,
        labels=tuple((name, knowledge.domain[name].labels) for name in query.names),
    )


def _joined(query: Groups, parts: Sequence[Answer], confidence: float, knowledge: Knowledge) -> Answer:
    """Parts asked so that all of them hold together with `confidence`; one uncertified part leaves no joint bound."""
    errors = [part.error for part in parts if part.certified and part.error is not None]
    error = max(errors) if len(errors) == len(parts) else inf
    origins = {part.origin for part in parts}
    origin = "measured" if "measured" in origins else origins.pop() if len(origins) == 1 else "derived"
    values = np.array([float(part.value) for part in parts]).reshape(knowledge.domain.shape_of(query.names))
    price = sum(part.price for part in parts)
    return _answer(query, Reading(error, origin, lambda: values), confidence, knowledge, price)
