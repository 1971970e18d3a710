"""A declared batch is one question: its largest error is audited at once, and only if that fails it is asked singly."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reticent.algorithms.audit import LAST_INDEX, NOISE_SHARE
from reticent.algorithms.certificates import Certificate
from reticent.algorithms.knowledge import PassedBatch
from reticent.algorithms.tails import reach
from reticent.answer import Answer
from reticent.errors import BudgetError
from reticent.journal import AUDIT
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms import Gaussian, Laplace
from reticent.kernel.statistics import VALUE_ROUNDING, AnswerErrors, fine
from reticent.queries.base import Linear, Query

if TYPE_CHECKING:
    from reticent.session import Session

WORTH = 0.5
"""An audit is tried when it costs at most this share of asking singly."""


def ask_batch(
    session: Session, questions: Sequence[Query], error: float, confidence: float, analyst: str | None = None
) -> list[Answer]:
    """Answers in the order asked; every one holds with `confidence`, those of one audit all together."""
    unknown = _unknown(session, questions, error, confidence)
    if unknown and session._epochs is None:
        _try_audit(session, unknown, error, confidence, analyst)
    return [session.ask(question, error=error, confidence=confidence, analyst=analyst) for question in questions]


def batch_cost(session: Session, questions: Sequence[Query], error: float, confidence: float) -> float:
    """The most that `ask_batch` would charge: the audit, if it is tried, and then every question singly."""
    singly = sum(session.cost(question, error=error, confidence=confidence) for question in questions)
    unknown = _unknown(session, questions, error, confidence)
    noise = _worthwhile(session, unknown, error, confidence) if unknown else None
    audit = 0.0 if noise is None else session.budget.amount(_audit_cost(session, unknown, noise))
    return singly + audit


def _unknown(session: Session, questions: Sequence[Query], error: float, confidence: float) -> list[Linear]:
    """The linear questions in fractions that no free answer serves yet, each once."""
    found: dict[str, Linear] = {}
    for question in questions:
        query = question.resolve(session.domain)
        if not isinstance(query, Linear) or query.units(session.domain) != (0.0, 1.0):
            continue
        if session._knowledge.free(query, confidence, error) is None:
            found.setdefault(session._knowledge.form(query).digest, query)
    return list(found.values())


def _worthwhile(session: Session, unknown: Sequence[Linear], error: float, confidence: float) -> Noise | None:
    """The audit's noise, or None when asking singly is the better bet."""
    index = session._journal.audit_index("")
    room = NOISE_SHARE * (error - session._knowledge.records_error) * session._knowledge.records
    if index > LAST_INDEX or room <= 1:
        return None
    one: Noise = Laplace(1) if session.budget.pure else Gaussian(1)
    # Tails scale with the noise: so wide that its one-sided reach is the room.
    width = room / reach(one, (1 - confidence) / 2**index)
    noise: Noise = Laplace(width) if session.budget.pure else Gaussian(width)
    singly = sum(session.cost(query, error=error, confidence=confidence) for query in unknown)
    cost = session.budget.amount(_audit_cost(session, unknown, noise))
    return noise if cost <= WORTH * singly and cost <= session.remaining else None


def _audit_cost(session: Session, unknown: Sequence[Linear], noise: Noise) -> int:
    errors = AnswerErrors(tuple(unknown), np.zeros(len(unknown)), session.domain)
    return session.budget.cost(session._curator.price([errors], noise))


def _try_audit(
    session: Session, unknown: Sequence[Linear], error: float, confidence: float, analyst: str | None
) -> None:
    with session._paying:
        noise = _worthwhile(session, unknown, error, confidence)
        if noise is None:
            return
        knowledge = session._knowledge
        guesses = np.array([knowledge.current.expect(query) for query in unknown]) * knowledge.records
        digests = [knowledge.form(query).digest for query in unknown]
        # By their wording, as the ledger describes them: what is worded otherwise is another request.
        worded = [query.digest for query in unknown]
        named = hashlib.sha256("".join([knowledge.current.digest, *worded]).encode()).hexdigest()[:24]
        key = session._journal.usable(f"{AUDIT}batch:{named}:{float(noise.sd):.17g}:{analyst or ''}")
        index = session._journal.audit_index(key)
        session._journal.save_snapshot(knowledge)
        try:
            settled = session._curator.measure(
                [AnswerErrors(tuple(unknown), guesses, session.domain)], noise, key=key, analyst=analyst
            )
        except BudgetError:
            return
        certificate = Certificate(
            kind="cells",
            sets=(),  # it covers no class, only the questions it names
            snapshot=knowledge.current.digest,
            reading=float(settled.values[0]) / knowledge.records,
            noise=noise.describe(),
            # Guesses and discrete noise stray a step each; values of fractional queries were rounded before.
            slack=2 / fine(1) / knowledge.records + VALUE_ROUNDING,
            records=knowledge.records,
            records_error=knowledge.records_error,
            index=index,
            confidence=confidence,
            ledger_id=settled.ledger_id,
        )
        if certificate.bound <= error:
            session._journal.save_batch(certificate, digests)
            session._knowledge = knowledge.with_batch(tuple(digests), PassedBatch(knowledge.current, certificate))


__all__ = ["ask_batch", "batch_cost"]
