"""How a session answers convex losses: the hypothesis' own minimiser is free; certainty is audited or bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.algorithms.convex import loss_difference, project
from reticent.algorithms.minimizer_choice import cheapest_within
from reticent.algorithms.tails import noise_failure
from reticent.errors import BudgetError, QueryError
from reticent.guesses import Wish, free_model, guesses_of, write_down, written
from reticent.hypotheses.snapshot import Snapshot
from reticent.journal import ASK
from reticent.kernel.accounting import NANO
from reticent.kernel.events import Reservation
from reticent.kernel.minimizers import Minimizer
from reticent.loss_audits import Audit, audited, judged, planned_audit
from reticent.models import Model
from reticent.queries.convex import ConvexLoss, checked_loss

if TYPE_CHECKING:
    from reticent.session import Session


def minimize(
    session: Session,
    loss: ConvexLoss | Sequence[ConvexLoss],
    error: float | None,
    confidence: float,
    key: str | None,
    analyst: str | None,
    strict: bool,
) -> Any:
    """One model, or one per loss of a declared batch; bad losses are refused before anything is spent."""
    batch = isinstance(loss, Sequence)
    losses = _checked(session, loss if batch else [loss])
    if error is None:
        models = [free_model(session, loss, confidence) for loss in losses]
    else:
        models = minimize_all(session, losses, Wish(error, confidence, key, analyst, strict, batch))
    return models if batch else models[0]


def minimize_all(session: Session, losses: Sequence[ConvexLoss], wish: Wish) -> list[Model]:
    """Free where certificates suffice; else one audit of the largest excess risk; else bought singly (online.md 2)."""
    models, unknown = _known(session, losses, wish)
    if unknown:
        with session._paying:
            guesses = guesses_of(session, unknown, wish)
            audit = planned_audit(session, guesses, wish)
            write_down(session, guesses, audit and audit.key, wish)
            models |= _resolve(session, guesses, audit, wish)
    return [models[loss] for loss in losses]


def charged(session: Session, key: str) -> int:
    """Nano-units that a keyed request has paid so far, before a crash or after: its own audit, and what it bought."""
    begun = session._journal.guesses(key)
    audit = 0 if begun is None or begun.get("audit") is None else session._ledger.charged(begun["audit"])
    return session._ledger.charged(ASK + key) + audit


def cost(session: Session, loss: ConvexLoss | Sequence[ConvexLoss], wish: Wish) -> int:
    """The most that `minimize` would charge now, in nano-units: an audit, and what is bought should it fail.

    What cannot be paid is not bought: then models stay uncertified, or a strict session refuses. Where neither the
    audit nor any private minimiser can be paid, this is the least that would be needed.
    """
    _, unknown = _known(session, _checked(session, loss if isinstance(loss, Sequence) else [loss]), wish)
    if all(_bought(session, loss, wish) for loss in unknown):
        return 0
    left = session._ledger.remaining if wish.analyst is None else session._ledger.remaining_for(wish.analyst)
    audit = planned_audit(session, guesses_of(session, unknown, wish), wish)
    verdict = judged(session, audit, wish) if audit is not None and audit.settled else None
    if verdict is not None and verdict.high <= wish.error:
        return 0
    prices = [] if audit is None or audit.settled else [audit.cost]
    for loss in unknown:
        minimizer = _affordable(session, loss, wish, inf)
        if minimizer is not None:
            prices.append(session.budget.cost(minimizer.price()))
    total = 0
    for price in prices:
        total += price if total + price <= left else 0
    if not prices:
        raise QueryError(f"nothing certifies an excess risk of {wish.error:g} on this table: ask for more error")
    return total or min(prices)


def _checked(session: Session, losses: Sequence[ConvexLoss]) -> Sequence[ConvexLoss]:
    if not losses:
        raise QueryError("a batch needs at least one loss")
    for loss in losses:
        checked_loss(loss).on(session.domain)
    return losses


def _known(
    session: Session, losses: Sequence[ConvexLoss], wish: Wish
) -> tuple[dict[ConvexLoss, Model], list[ConvexLoss]]:
    """What certificates answer within the error, and what they do not; what a key began to buy, it goes on buying."""
    models: dict[ConvexLoss, Model] = {}
    begun = written(session, wish)
    for loss in losses:
        if loss.digest in begun:
            continue
        model = free_model(session, loss, wish.confidence)
        if model.certified and model.error is not None and model.error <= wish.error:
            models[loss] = model
    return models, [loss for loss in dict.fromkeys(losses) if loss not in models]


def _resolve(
    session: Session, guesses: dict[ConvexLoss, Model], audit: Audit | None, wish: Wish
) -> dict[ConvexLoss, Model]:
    losses = tuple(guesses)
    if all(_bought(session, loss, wish) for loss in losses):
        return {loss: _buy(session, loss, model, wish, 0.0) for loss, model in guesses.items()}
    verdict = None if audit is None else audited(session, audit, wish)
    if verdict is not None and verdict.high <= wish.error:
        share = session.budget.amount(verdict.cost) / len(losses)
        return {
            loss: replace(
                model, error=verdict.high, confidence=wish.confidence, certified=True, origin="batch",
                price=share, ledger_id=verdict.ledger_id,
            )
            for loss, model in guesses.items()
        }  # fmt: skip
    low = verdict.low if verdict is not None and len(losses) == 1 else 0.0
    return {loss: _buy(session, loss, model, wish, low) for loss, model in guesses.items()}


def _buy(session: Session, loss: ConvexLoss, model: Model, wish: Wish, low: float) -> Model:
    """A private minimiser that errs at most `error`, or the uncertified guess when the budget cannot pay."""
    knowledge, remaining = session._knowledge, session._ledger.remaining / NANO
    minimizer = _affordable(session, loss, wish, inf if _bought(session, loss, wish) else remaining)
    if minimizer is None:
        if wish.strict:
            raise QueryError(
                f"no private minimiser within {remaining:.3g} of rho guarantees {wish.error:g}; ask for more error"
            )
        return model
    try:
        settled = session._curator.minimize(minimizer, key=_ledger_key(session, loss, wish), analyst=wish.analyst)
    except BudgetError:
        if wish.strict:
            raise
        return model
    spread = knowledge.records_error
    theta, bound = settled.values[0], minimizer.bound(noise_failure(wish.confidence, spread), spread)
    _teach(session, loss, theta, model.theta, low - bound - model.gap)
    return replace(
        model, theta=theta, error=bound, confidence=wish.confidence, certified=True, origin="measured",
        price=session.budget.amount(settled.cost), snapshot=None, ledger_id=settled.ledger_id, gap=0.0,
    )  # fmt: skip


def _ledger_key(session: Session, loss: ConvexLoss, wish: Wish) -> str:
    """One key per question, so that a repeat and a crash find what was paid for."""
    if wish.key is not None:
        return f"{ASK}{wish.key}:{loss.digest[:16]}" if wish.batch else f"{ASK}{wish.key}"
    named = f"{loss.digest[:24]}:{wish.error:.17g}:{wish.confidence:.17g}:{wish.analyst or ''}"
    return session._journal.usable(f"{ASK}minimize:{named}")


def _bought(session: Session, loss: ConvexLoss, wish: Wish) -> bool:
    found = session._ledger.lookup(_ledger_key(session, loss, wish))
    return found is not None and not isinstance(found, Reservation)


def _affordable(session: Session, loss: ConvexLoss, wish: Wish, most: float) -> Minimizer | None:
    spread = session._knowledge.records_error
    failure = noise_failure(wish.confidence, spread)
    if session.budget.pure or most <= 0 or not failure > 0 or spread >= 1:
        return None
    return cheapest_within(
        loss,
        session.domain,
        neighbours=session._curator.neighbours,
        records=session._knowledge.records,
        error=wish.error,
        failure=failure,
        most=most,
        spread=spread,
    )


def _teach(session: Session, loss: ConvexLoss, there: np.ndarray, here: np.ndarray, margin: float) -> None:
    """Move the working hypothesis by the loss difference, as far as the audit and the minimiser vouch for (8.3)."""
    if margin <= 0:
        return
    hypothesis = session._knowledge.current.thaw()
    direction = loss_difference(loss.on(session.domain), there, here)
    if direction is not None and project(hypothesis, direction, margin):
        session._knowledge = replace(session._knowledge, current=Snapshot(hypothesis))
        session._journal.save_snapshot(session._knowledge)
