"""Questions that are several at once: SQL statements, quotients, and groups that must be asked one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from reticent.kernel.accounting import NANO
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import (
    answered,
    free_ratio,
    known_mean,
    parts_of,
    ratio_of,
    ratio_part_error,
    uncertified,
)
from reticent.knowledge.knowledge import Knowledge, Reading
from reticent.knowledge.request import Request, part_name, shared_confidence
from reticent.queries.base import Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Ratio
from reticent.sessions.quote import Free, Quote, Split

if TYPE_CHECKING:
    from reticent.sessions.engine import SessionEngine
    from reticent.sql.statement import Statement


def quote_statement(engine: SessionEngine, request: Request, statement: Statement) -> Quote:
    """Each query behind the statement is a part; paid ones share the confidence between them."""
    from reticent.sql.asking import (
        Part,
        chosen_errors,
        free_table,
        part_confidence,
        refuse_sums,
        result_table,
        wanted_parts,
    )

    knowledge, error, confidence = engine.state.knowledge, request.error, request.confidence
    refuse_sums(statement, knowledge.unit)
    if statement.explained is not None and error is not None:
        return _explained(engine, request, statement.text, statement.explained)
    if error is None and engine.reads_knowledge and not any(map(engine.splits_query, statement.queries)):
        table = free_table(knowledge, request)
        if table is not None:
            return Free(request, knowledge, table)
    if error is None:
        asked, each, begin = [Part(query, None) for query in statement.queries], confidence, _nothing
    else:
        name = part_name(statement.text, error, confidence)
        errors, begin = engine.state.recall(name, request.key), _nothing
        if errors is None:
            free, own = partial(_is_free, engine, request), engine.own_error
            errors = chosen_errors(statement, knowledge, error, confidence, own=own, sold=engine.sells, free=free)
            begin = partial(_write_down, engine, request, name, errors)
        asked, each = wanted_parts(statement, errors), part_confidence(statement, errors, confidence)
    parts = [
        engine.quote_part(
            request.part(part.query, part.error, confidence=each, name=part.query.digest[:16], numbers=part.numbers)
        )
        for part in asked
    ]
    join = partial(result_table, statement, knowledge, asked, error=error, confidence=each)
    return Split(request, knowledge, parts, join, begin if any(part.price for part in parts) else _nothing)


def _is_free(engine: SessionEngine, request: Request, query: Query, error: float, confidence: float) -> bool:
    part = request.part(query, error, confidence=confidence, name=query.digest[:16])
    return isinstance(engine.quote_part(part), Free)


def _explained(engine: SessionEngine, request: Request, text: str, statement: Statement) -> Free:
    """What each part would be answered by and cost; nothing is bought."""
    from reticent.sql.describe import Prospect, explained_table

    quote = quote_statement(engine, request.but(question=statement), statement)
    prospects = []
    for part in quote.parts if isinstance(quote, Split) else ():
        query = part.request.question
        assert isinstance(query, Query), "parts of statements are queries"
        if isinstance(part, Free):
            prospects.append(Prospect.free(query, part.result))
        else:
            wanted = part.request.error
            bound = wanted if isinstance(wanted, float) else None
            prospects.append(Prospect(query, "measured", bound, part.request.confidence, part.price / NANO))
    return Free(request, quote.known, explained_table(text, prospects, wanted=True))


def quote_ratio(engine: SessionEngine, request: Request, query: Ratio) -> Quote:
    """Two counts that hold together, within the error that the wanted quotient needs."""
    knowledge, error, confidence = engine.state.knowledge, request.error, request.confidence
    assert error is None or isinstance(error, float), "resolved before"
    if (known := known_mean(query, knowledge.domain)) is not None:
        return Free(request, knowledge, known)
    each, begin, part = shared_confidence(confidence, 2), _nothing, None
    if engine.own_error is None and error is None:
        found = free_ratio(knowledge, query, None, confidence, strict=request.strict)
        if found is None:
            raise uncertified(query)
        return Free(request, knowledge, found)
    if engine.own_error is None and error is not None:
        name = part_name(query.text, error, confidence)
        recalled = engine.state.recall(name, request.key)
        part = ratio_part_error(knowledge, query, error, confidence) if recalled is None else recalled[0]
        if recalled is None:
            begin = partial(_write_down, engine, request, name, [part])
    top, bottom = (
        engine.quote_part(request.part(count, part, confidence=each, name=name))
        for count, name in zip(parts_of(query), ("top", "bottom"), strict=True)
    )
    return Split(
        request,
        knowledge,
        (top, bottom),
        lambda answers: ratio_of(query, answers[0], answers[1], knowledge),
        begin if top.price or bottom.price else _nothing,
    )


def quote_groups(engine: SessionEngine, request: Request, query: Groups) -> Quote:
    """From what is known if that is good enough, else group by group."""
    knowledge, confidence = engine.state.knowledge, request.confidence
    error = engine.own_error if request.error is None else request.error
    assert error is None or isinstance(error, float), "resolved before"
    reading = engine.reading(query, confidence, error)
    if reading is not None:
        return Free(request, knowledge, answered(knowledge, query, reading, confidence))
    if error is None:
        return Free(request, knowledge, engine.guessed(request, query))
    listed = list(query.parts(knowledge.domain))
    each = shared_confidence(confidence, len(listed))
    parts = [
        engine.quote_part(request.part(part, error, confidence=each, name=str(place)))
        for place, part in enumerate(listed)
    ]
    return Split(request, knowledge, parts, partial(_joined, query, confidence, knowledge))


def _nothing() -> bool:
    """What is free leaves no trace."""
    return True


def _write_down(engine: SessionEngine, request: Request, name: str, errors: list[float]) -> bool:
    """Whether these are the errors that this question's parts are asked with from now on."""
    state = engine.state
    with state.lock:
        begun = state.recall(name, request.key)
        if begun is None:
            state.remember(name, request.key, errors)
        return begun is None or begun == errors


def _joined(query: Groups, confidence: float, knowledge: Knowledge, parts: Sequence[Answer]) -> Answer:
    """One uncertified part leaves no joint bound."""
    errors = [part.error for part in parts if part.certified and part.error is not None]
    error = max(errors) if len(errors) == len(parts) else inf
    origins = {part.origin for part in parts}
    origin = "measured" if "measured" in origins else origins.pop() if len(origins) == 1 else "derived"
    values = np.array([float(part.value) for part in parts]).reshape(knowledge.domain.shape_of(query.names))
    joint = _joint_confidence([part.confidence or 0.0 for part in parts], confidence)
    whole = answered(knowledge, query, Reading(error, origin, lambda: values), joint)
    return replace(whole, query=query.text, price=sum(part.price for part in parts))


def _joint_confidence(stated: Sequence[float], confidence: float) -> float:
    """Parts were asked so that all of them hold together with `confidence`; what states less came from a threshold.

    Those answers hold together with the confidence of the engine's opening, whatever was asked.
    """
    each = shared_confidence(confidence, len(stated))
    planned = max((1 - part for part in stated if part < each), default=0.0)
    return 1 - planned - sum(1 - each for part in stated if part >= each) if planned else confidence
