"""A ratio asked of a session: two counts that hold together, and the error they need for a wanted quotient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.answer import Answer
from reticent.compound import fixed, reachable_part, shared_confidence
from reticent.errors import QueryError
from reticent.queries.base import Linear
from reticent.queries.linear import Ratio
from reticent.reading import free, guess
from reticent.view import ratio_of

if TYPE_CHECKING:
    from reticent.session import Session


def ask_ratio(
    session: Session, query: Ratio, error: float | None, confidence: float, key: str | None, analyst: str | None
) -> Answer:
    """Each part fails half as often, so both hold together."""
    part, each = None, shared_confidence(confidence, 2)
    if error is not None and session._epochs is None:
        part = _part(session, query, error, confidence, key)
    top, bottom = (
        session.ask(q, error=part, confidence=each, key=named, analyst=analyst) for q, named in _parts(query, key)
    )
    return ratio_of(query, top, bottom, session.domain)


def ratio_cost(session: Session, query: Ratio, error: float, confidence: float, key: str | None) -> float:
    part, each = _part(session, query, error, confidence, key, asking=False), shared_confidence(confidence, 2)
    return sum(session.cost(q, error=part, confidence=each, key=named) for q, named in _parts(query, key))


def _parts(query: Ratio, key: str | None) -> list[tuple[Linear, str | None]]:
    return [(query.numerator, key and f"{key}:top"), (query.denominator, key and f"{key}:bottom")]


def _part(
    session: Session, query: Ratio, error: float, confidence: float, key: str | None, *, asking: bool = True
) -> float:
    asked, each = (query.text, float(error), confidence), shared_confidence(confidence, 2)

    def pays(errors: list[float]) -> bool:
        return asking and any(session.cost(q, error=errors[0], confidence=each) > 0 for q, _ in _parts(query, key))

    (part,) = fixed(session, key, asked, lambda: [part_error(session, query, error, confidence)], pays)
    return part


def part_error(session: Session, query: Ratio, error: float, confidence: float) -> float:
    """The error e of both parts that keeps the quotient within the wanted E, judged by what is known for free.

    Answers may come out e away from what is known, so bottom may be stated as bottom - e, and the quotient r as r + E:
    the bound (1 + r + E) e / (bottom - 2e) is E for the e returned.
    """
    each, knowledge = shared_confidence(confidence, 2), session._knowledge
    found = [free(knowledge, q, each, None) or guess(knowledge, q) for q in (query.numerator, query.denominator)]
    top, bottom = (float(reading.compute()) for reading in found)
    if bottom <= 0:
        raise QueryError(f"{query.text}: hardly any record satisfies the condition; ask for its count first")
    wanted = error / abs(query.units(session.domain)[1])
    part = wanted * bottom / (1 + min(1.0, max(0.0, top / bottom)) + 3 * wanted)
    return reachable_part(part, error, query.text, knowledge)
