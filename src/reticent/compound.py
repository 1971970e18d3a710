"""Questions that are several at once: a SQL statement, or groups that must be asked one by one, put to a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.algorithms.knowledge import Knowledge, Reading
from reticent.algorithms.online import least_error
from reticent.answer import Answer
from reticent.errors import QueryError
from reticent.kernel.events import sha256
from reticent.kernel.statistics import MARGINAL_CELLS
from reticent.queries.base import Query
from reticent.queries.groups import Groups
from reticent.reading import answered, free, guess

if TYPE_CHECKING:
    from reticent.session import Session
    from reticent.sql import Statement


def shared_confidence(confidence: float, parts: int) -> float:
    """So many parts hold together if each fails that much less often."""
    return 1 - (1 - confidence) / max(1, parts)


def ask_sql(
    session: Session, text: str, error: float | None, confidence: float, key: str | None, analyst: str | None
) -> Any:
    """Each question behind the statement is asked on its own; paid ones share the confidence between them."""
    from reticent.sql import compile_sql, shortfall

    statement, knowledge = compile_sql(text, session.domain), session._knowledge
    each = confidence if error is None else shared_confidence(confidence, len(statement.queries))
    targets: Mapping[Query, float | None] = dict.fromkeys(statement.queries)
    if error is not None:
        targets = _fixed_targets(session, statement, (text, float(error), confidence), key)

    missed: list[float] = []

    def answer(query: Query) -> Answer:
        wanted = targets[query]
        found = session.ask(query, error=wanted, confidence=each, key=_part_key(key, query), analyst=analyst)
        reached = inf if found.error is None else found.error
        if wanted is not None and reached > wanted * (1 + 1e-9):
            missed.append(reached)
        return found

    table = statement.run(answer, records=knowledge.records, records_error=knowledge.records_error)
    if error is None:
        return table
    return replace(table, note=shortfall(statement, table, error) or _unreached(missed, error))


def _unreached(missed: Sequence[float], error: float) -> str:
    """Says that the budget left could not pay for what was wanted; empty if it could."""
    if not missed:
        return ""
    reached = f"±{max(missed):.3g} is" if max(missed) < inf else "no bound is"
    return f"±{error:g} was not reached: {reached} what the budget left allows"


def sql_cost(session: Session, text: str, error: float, confidence: float, key: str | None) -> float:
    """At most what asking would charge: the sum over its questions, some of which may answer others for free."""
    from reticent.sql import compile_sql

    statement = compile_sql(text, session.domain)
    each = shared_confidence(confidence, len(statement.queries))
    targets = _fixed_targets(session, statement, (text, float(error), confidence), key, asking=False)
    return sum(
        session.cost(query, error=target, confidence=each, key=_part_key(key, query))
        for query, target in targets.items()
    )


def _part_key(key: str | None, query: Query) -> str | None:
    return key and f"{key}:{query.digest[:16]}"


def _fixed_targets(
    session: Session, statement: Statement, asked: tuple[str, float, float], key: str | None, *, asking: bool = True
) -> dict[Query, float]:
    """The error each question needs, as this key was first asked it."""
    _, error, confidence = asked
    each = shared_confidence(confidence, len(statement.queries))

    def pays(errors: list[float]) -> bool:
        pairs = zip(statement.queries, errors, strict=True)
        return asking and any(session.cost(query, error=wanted, confidence=each) > 0 for query, wanted in pairs)

    found = fixed(session, key, asked, lambda: list(_targets(session, statement, error, each).values()), pays)
    return dict(zip(statement.queries, found, strict=True))


def _targets(session: Session, statement: Statement, error: float, confidence: float) -> dict[Query, float]:
    """The error each question needs, judged by what is known for free before anything is bought."""
    from reticent.sql import targets

    knowledge = session._knowledge
    if session._epochs is not None:
        return dict.fromkeys(statement.queries, error)
    estimates = {}
    for query in statement.queries:
        reading = free(knowledge, query, confidence, None) or guess(knowledge, query)  # pyright: ignore[reportArgumentType]
        estimates[query] = answered(knowledge, query, reading, confidence)  # pyright: ignore[reportArgumentType]
    found = targets(statement, estimates, error, records=knowledge.records, records_error=knowledge.records_error)
    return {query: reachable_part(part, error, "this statement", knowledge) for query, part in found.items()}


def reachable_part(part: float, error: float, what: str, knowledge: Knowledge) -> float:
    """The error wanted of a part, unless no budget buys it."""
    least = least_error(knowledge, binary=False)
    if part == error or part > least:
        return part
    raise QueryError(
        f"{what}: an error of {error:g} needs its counts within {part:.3g} of the table, which is not above "
        f"{least:.3g}, what counting leaves whatever is paid; ask for a larger one, or leave small groups out"
    )


def fixed(
    session: Session,
    key: str | None,
    asked: object,
    compute: Callable[[], list[float]],
    pays: Callable[[list[float]], bool],
) -> list[float]:
    """What is wanted of the parts of a keyed question, written down before any is paid: a retry knows more, but asks

    the same. What is free leaves no trace.
    """
    if key is None:
        return compute()
    digest = sha256(repr(asked).encode())
    with session._paying:
        found = session._journal.targets(key, digest)
        if found is None:
            found = compute()
            if pays(found):
                session._journal.save_targets(key, digest, found)
        return found


def one_by_one(session: Session, query: Groups) -> bool:
    """Whether its groups cannot be measured at once: a threshold test looks at one, and a marginal may be too large."""
    return session._epochs is not None or session.domain.cells(query.span(session.domain)) > MARGINAL_CELLS


def ask_parts(
    session: Session, query: Groups, error: float | None, confidence: float, key: str | None, analyst: str | None
) -> Answer:
    """From what is known if that is good enough, else group by group."""
    knowledge = session._knowledge
    if session._epochs is not None and error is None:
        error = session._epochs.plan.error
    reading = free(knowledge, query, confidence, error)
    if reading is not None or error is None:
        return answered(knowledge, query, reading or guess(knowledge, query), confidence)
    parts = list(query.parts(session.domain))
    each = shared_confidence(confidence, len(parts))
    answers = [
        session.ask(part, error=error, confidence=each, key=key and f"{key}:{place}", analyst=analyst)
        for place, part in enumerate(parts)
    ]
    return _joined(query, answers, confidence, knowledge)


def parts_cost(session: Session, query: Groups, error: float, confidence: float, key: str | None) -> float:
    """At most what `ask_parts` would charge: a part may buy a marginal that answers the next one for free."""
    parts = list(query.parts(session.domain))
    each = shared_confidence(confidence, len(parts))
    return sum(
        session.cost(part, error=error, confidence=each, key=key and f"{key}:{place}")
        for place, part in enumerate(parts)
    )


def _joined(query: Groups, parts: Sequence[Answer], confidence: float, knowledge: Knowledge) -> Answer:
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
