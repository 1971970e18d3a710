"""A ratio asked of a session: two counts that hold together, and the error they need for a wanted quotient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.answer import Answer
from reticent.compound import shared_confidence
from reticent.errors import QueryError
from reticent.queries.linear import Ratio
from reticent.view import ratio_of

if TYPE_CHECKING:
    from reticent.session import Session


def ask_ratio(
    session: Session, query: Ratio, error: float | None, confidence: float, key: str | None, analyst: str | None
) -> Answer:
    """Each part fails half as often, so both hold together."""
    part = None if error is None or session._epochs else part_error(session, query, error, confidence)
    top, bottom = (
        session.ask(
            q,
            error=part,
            confidence=shared_confidence(confidence, 2),
            key=key and f"{key}:{name}",
            analyst=analyst,
        )
        for name, q in (("top", query.numerator), ("bottom", query.denominator))
    )
    return ratio_of(query, top, bottom, session.domain)


def ratio_cost(session: Session, query: Ratio, error: float, confidence: float) -> float:
    part, each = part_error(session, query, error, confidence), shared_confidence(confidence, 2)
    return sum(session.cost(q, error=part, confidence=each) for q in (query.numerator, query.denominator))


def part_error(session: Session, query: Ratio, error: float, confidence: float) -> float:
    """Equal errors e for both parts give a quotient within about e (1 + ratio) / bottom."""
    each, values = shared_confidence(confidence, 2), []
    for part in (query.numerator, query.denominator):
        reading = session._free(part, each, None)
        values.append(session._knowledge.current.expect(part) if reading is None else float(reading.compute()))
    top, bottom = values
    if bottom <= 0:
        raise QueryError(f"{query.text}: hardly any record satisfies the condition; ask for its count first")
    e = error / abs(query.units(session.domain)[1])
    return e * bottom / (1 + min(1.0, max(0.0, top / bottom)) + e)
