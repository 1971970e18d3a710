"""Questions put to a session with a textbook engine: a free test first, a measurement when the hypothesis fails it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.algorithms.epochs import Epochs, Verdict, epoch_key
from reticent.algorithms.knowledge import Reading
from reticent.algorithms.online import learn, understand
from reticent.answer import Answer
from reticent.errors import BudgetError, QueryError
from reticent.journal import ASK
from reticent.kernel.curator import Settled
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal
from reticent.reading import answered, free

if TYPE_CHECKING:
    from reticent.session import Session

Question = Linear | Marginal


def ask_epochs(
    session: Session,
    epochs: Epochs,
    query: Question,
    wanted: float | None,
    confidence: float,
    key: str | None,
    analyst: str | None,
) -> Answer:
    """Serialised: every test belongs to the one running epoch. Without budget the hypothesis answers, uncertified."""
    with session._paying:
        if key is not None:
            known = session._passed.find(key, query)
            if known is None and session._ledger.lookup(ASK + key) is not None:
                known = _with_epochs(session, key, epochs.measure(query, key=ASK + key, analyst=analyst))
            if known is not None:
                return _judged(session, epochs, query, known)
        reading = free(session._knowledge, query, confidence, epochs.plan.error if wanted is None else wanted)
        if reading is not None:
            return answered(session._knowledge, query, reading, confidence)
        if wanted is not None and wanted < epochs.plan.error:
            raise QueryError(
                f"this session certifies errors of {epochs.plan.error:.3g}, not {wanted:.3g}: use engine='default'"
            )
        named = key or f"epoch:{epochs.opened}:{query.digest[:24]}:{epochs.tests}"
        opened = epochs.opened
        try:
            verdict = epochs.ask(query, key=ASK + named, analyst=analyst)
            if key is not None or epochs.opened > opened:  # free tests need no look into a long ledger
                verdict = _with_epochs(session, named, verdict)
        except BudgetError:
            if session.strict:
                raise
            verdict = epochs.guess(query)
        if key is not None and verdict.cost and verdict.origin != "measured":
            session._passed.keep(key, query, verdict)
        return _judged(session, epochs, query, verdict)


def _with_epochs(session: Session, key: str, verdict: Verdict) -> Verdict:
    """The whole price of a key's answer, as the ledger has it, so that it is the same whenever the key comes back.

    Epochs that a crash ended before the answer left are in it: they were charged for this key too.
    """
    return verdict._replace(cost=verdict.cost + session._ledger.charged(epoch_key(ASK + key)))


def _judged(session: Session, epochs: Epochs, query: Question, verdict: Verdict) -> Answer:
    """What was measured is known from now on, as after a restart."""
    if verdict.cost and verdict.ledger_id is not None and verdict.origin == "measured":
        knowledge = session._knowledge
        known = {m.ledger_id for repeats in knowledge.queries.values() for m in repeats}
        if verdict.ledger_id not in known | {m.ledger_id for m in knowledge.marginals}:
            settled = Settled((verdict.values * knowledge.records,), verdict.cost, verdict.ledger_id)
            measured = understand(knowledge, [query], [epochs.noise(query)], settled)
            session._knowledge = learn(knowledge, measured, fitted=True).with_current(epochs.snapshot)
    reading = Reading(verdict.error, verdict.origin, lambda: verdict.values, verdict.snapshot, verdict.ledger_id)
    return answered(session._knowledge, query, reading, session.confidence, verdict.cost)
