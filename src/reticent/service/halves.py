"""A ratio is bought in two halves, whose error is written down first: a retry must ask for the same."""

from __future__ import annotations

from typing import Any

from reticent.compound import shared_confidence
from reticent.queries.linear import Ratio
from reticent.ratios import part_error
from reticent.session import Session
from reticent.view import ratio_of

PARTS = "parts"
"""Ledger events that fix the error asked of a ratio's two parts."""


def bought_ratio(
    session: Session, question: Ratio, error: float, confidence: float | None, key: str, analyst: str
) -> Any:
    """The error of its parts depends on what is known now, and more may be known at a retry."""
    ledger = session._ledger
    confidence = session.confidence if confidence is None else confidence
    found = [e.payload["error"] for e in ledger.events() if e.kind == PARTS and e.payload["key"] == key]
    part = found[0] if found else part_error(session, question, error, confidence)
    if not found:
        ledger.append(PARTS, {"key": key, "error": part})
    top, bottom = (
        session.ask(
            half,
            error=part,
            confidence=shared_confidence(confidence, 2),
            key=f"{key}:{name}",
            analyst=analyst,
        )
        for name, half in (("top", question.numerator), ("bottom", question.denominator))
    )
    return ratio_of(question, top, bottom, session.domain)
