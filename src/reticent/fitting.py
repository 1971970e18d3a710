"""How a session answers convex losses: the hypothesis' own minimiser is free; certainty is audited or bought."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.algorithms.convex import loss_difference, project
from reticent.algorithms.minimizer_choice import cheapest_within
from reticent.algorithms.risks import public_minimum
from reticent.algorithms.tails import noise_failure, reach
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.snapshot import Snapshot
from reticent.journal import ASK, AUDIT
from reticent.kernel.accounting import NANO
from reticent.kernel.events import Reservation
from reticent.kernel.excess_risk import FLOATS, GAP, ExcessRisk
from reticent.kernel.mechanisms import Gaussian, Laplace, Noise
from reticent.kernel.minimizers import Minimizer
from reticent.models import Model, implied_error, minimize_on
from reticent.queries.convex import ConvexLoss, checked_loss

if TYPE_CHECKING:
    from reticent.session import Session

NOISE_SHARE = 0.5
"""Of the wanted error: an audit passes more often than not when the true excess is at most the other half."""
LARGEST_SHARE = 0.5
"""An audit is tried when it costs at most this share of what remains."""
LAST_INDEX = 200


@dataclass(frozen=True)
class Verdict:
    """What an audit of a batch showed: every excess risk is at most `high`, and the largest is at least `low`."""

    low: float
    high: float
    cost: int
    ledger_id: int


def minimize(
    session: Session,
    loss: ConvexLoss | Sequence[ConvexLoss],
    error: float | None,
    confidence: float,
    key: str | None,
    analyst: str | None,
) -> Any:
    """One model, or one per loss of a declared batch; bad losses are refused before anything is spent."""
    if isinstance(loss, Sequence):
        return minimize_all(session, loss, error, confidence, analyst)
    return minimize_all(session, [loss], error, confidence, analyst, key)[0]


def minimize_all(
    session: Session,
    losses: Sequence[ConvexLoss],
    error: float | None,
    confidence: float,
    analyst: str | None,
    key: str | None = None,
) -> list[Model]:
    """Free where certificates suffice; else one audit of the largest excess risk; else bought singly (online.md 2)."""
    for loss in losses:
        checked_loss(loss).on(session.domain)
    if not losses:
        raise QueryError("a batch needs at least one loss")
    if error is None:
        return [free_model(session, loss, confidence) for loss in losses]
    if not error > 0:
        raise QueryError(f"an excess risk of {error!r} cannot be met; ask for one above 0")
    models: dict[ConvexLoss, Model] = {}
    for loss in losses:
        model = free_model(session, loss, confidence)
        if model.certified and model.error is not None and model.error <= error:
            models[loss] = model
    unknown = [loss for loss in dict.fromkeys(losses) if loss not in models]
    if unknown:
        with session._paying:
            models |= _resolve(session, unknown, error, confidence, key, analyst)
    return [models[loss] for loss in losses]


def free_model(session: Session, loss: ConvexLoss, confidence: float) -> Model:
    """From the certified snapshot where its certificate covers the loss, else from the working hypothesis."""
    for certified in reversed(session._knowledge.certified):
        problem = loss.on(session.domain)
        bound, _, ledger_id = implied_error(certified.certificates, problem, 0.0, confidence)
        if bound is not None:
            theta, gap = public_minimum(certified.snapshot, problem)
            return Model(
                loss, session.domain, theta, bound + gap, confidence, "certificate", True,
                snapshot=certified.snapshot.digest, ledger_id=ledger_id, gap=gap,
            )  # fmt: skip
    return guess(session, loss)


def guess(session: Session, loss: ConvexLoss) -> Model:
    """The working hypothesis' own minimiser, without a certificate."""
    current = session._knowledge.current
    theta, gap = public_minimum(current, loss.on(session.domain))
    return Model(loss, session.domain, theta, None, None, "hypothesis", False, snapshot=current.digest, gap=gap)


def _resolve(
    session: Session,
    losses: Sequence[ConvexLoss],
    error: float,
    confidence: float,
    key: str | None,
    analyst: str | None,
) -> dict[ConvexLoss, Model]:
    guesses = {loss: guess(session, loss) for loss in losses}
    if all(_bought(session, loss, error, confidence, key, analyst) for loss in losses):
        return {
            loss: _buy(session, loss, model, error, confidence, 0.0, key, analyst) for loss, model in guesses.items()
        }
    verdict = _audit(session, guesses, error, confidence, analyst)
    if verdict is not None and verdict.high <= error:
        share = session.budget.amount(verdict.cost) / len(losses)
        return {
            loss: replace(
                model, error=verdict.high + model.gap, confidence=confidence, certified=True, origin="batch",
                price=share, ledger_id=verdict.ledger_id,
            )
            for loss, model in guesses.items()
        }  # fmt: skip
    bought = {}
    for loss, model in guesses.items():
        low = verdict.low if verdict is not None and len(losses) == 1 else 0.0
        bought[loss] = _buy(session, loss, model, error, confidence, low, key, analyst)
    return bought


def _audit(
    session: Session, guesses: dict[ConvexLoss, Model], error: float, confidence: float, analyst: str | None
) -> Verdict | None:
    """One noisy largest excess risk (spec online.md 1); None when it is not worth its price."""
    knowledge, losses = session._knowledge, tuple(guesses)
    scale = max(loss.on(session.domain).scale for loss in losses)
    digests = "".join([knowledge.current.digest, *(loss.digest for loss in losses)])
    named = hashlib.sha256(digests.encode()).hexdigest()[:24]
    key = session._journal.usable(f"{AUDIT}losses:{named}:{error:.17g}:{confidence:.17g}:{analyst or ''}")
    index = session._journal.audit_index(key)
    failure = noise_failure(confidence, knowledge.records_error) / 2**index
    if index > LAST_INDEX or not failure > 0 or knowledge.records_error >= 1:
        return None
    one: Noise = Laplace(1) if session.budget.pure else Gaussian(1)
    width = NOISE_SHARE * error * knowledge.records / scale / reach(one, failure)
    noise: Noise = Laplace(width) if session.budget.pure else Gaussian(width)
    thetas = tuple(model.theta for model in guesses.values())
    statistic = ExcessRisk(losses, thetas, (scale,) * len(losses), session.domain, knowledge.records)
    cost = session.budget.cost(session._curator.price([statistic], noise))
    if session._ledger.lookup(key) is None and cost > LARGEST_SHARE * session._ledger.remaining:
        return None
    session._journal.save_snapshot(knowledge)
    try:
        settled = session._curator.measure([statistic], noise, key=key, analyst=analyst)
    except BudgetError:
        return None
    reading, stray = float(settled.values[0]), reach(noise, failure) + float(FLOATS)
    unit = scale / knowledge.records
    spread = knowledge.records_error
    high = max(0.0, reading + stray + float(GAP)) * unit / (1 - spread)
    low = max(0.0, reading - stray) * unit / (1 + spread)
    return Verdict(low, high, settled.cost, settled.ledger_id)


def _buy(
    session: Session,
    loss: ConvexLoss,
    model: Model,
    error: float,
    confidence: float,
    low: float,
    key: str | None,
    analyst: str | None,
) -> Model:
    """A private minimiser that errs at most `error`, or the uncertified guess when the budget cannot pay."""
    knowledge, remaining = session._knowledge, session._ledger.remaining / NANO
    repeat = _bought(session, loss, error, confidence, key, analyst)
    minimizer = _affordable(session, loss, error, confidence, inf if repeat else remaining)
    if minimizer is None:
        if session.strict:
            raise QueryError(
                f"no private minimiser within {remaining:.3g} of rho guarantees {error:g}; ask for more error"
            )
        return model
    ledger_key = _ledger_key(session, loss, error, confidence, key, analyst)
    try:
        settled = session._curator.minimize(minimizer, key=ledger_key, analyst=analyst)
    except BudgetError:
        if session.strict:
            raise
        return model
    theta, bound = settled.values[0], minimizer.bound(noise_failure(confidence, knowledge.records_error))
    _teach(session, loss, theta, model.theta, low - bound - model.gap)
    # Sums were divided by a noisy number of records, the ridge was not: both ways to be off by its error.
    spread = knowledge.records_error
    return replace(
        model, theta=theta, error=(bound + spread * loss.on(session.domain).scale) / (1 - spread),
        confidence=confidence, certified=True, origin="measured", price=session.budget.amount(settled.cost),
        snapshot=None, ledger_id=settled.ledger_id, gap=0.0,
    )  # fmt: skip


def _ledger_key(
    session: Session, loss: ConvexLoss, error: float, confidence: float, key: str | None, analyst: str | None
) -> str:
    """One key per question, so that a repeat and a crash find what was paid for."""
    if key is not None:
        return f"{ASK}{key}"
    return session._journal.usable(f"{ASK}minimize:{loss.digest[:24]}:{error:.17g}:{confidence:.17g}:{analyst or ''}")


def _bought(
    session: Session, loss: ConvexLoss, error: float, confidence: float, key: str | None, analyst: str | None
) -> bool:
    found = session._ledger.lookup(_ledger_key(session, loss, error, confidence, key, analyst))
    return found is not None and not isinstance(found, Reservation)


def _affordable(session: Session, loss: ConvexLoss, error: float, confidence: float, most: float) -> Minimizer | None:
    spread = session._knowledge.records_error
    failure = noise_failure(confidence, spread)
    if session.budget.pure or most <= 0 or not failure > 0 or spread >= 1:
        return None
    return cheapest_within(
        loss,
        session.domain,
        neighbours=session._curator.neighbours,
        records=session._knowledge.records,
        error=error,
        failure=failure,
        most=most,
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


__all__ = ["free_model", "minimize", "minimize_all", "minimize_on"]
