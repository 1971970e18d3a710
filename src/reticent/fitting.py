"""How a session answers convex losses: the hypothesis' own minimiser is free; certainty is audited or bought."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.algorithms.audit import LAST_INDEX, NOISE_SHARE
from reticent.algorithms.convex import loss_difference, project
from reticent.algorithms.minimizer_choice import cheapest_within
from reticent.algorithms.risks import public_minimum
from reticent.algorithms.tails import noise_failure, reach
from reticent.errors import BudgetError, KeyReusedError, QueryError
from reticent.hypotheses.snapshot import Snapshot
from reticent.journal import ASK, AUDIT
from reticent.kernel.accounting import NANO
from reticent.kernel.curator import Noise
from reticent.kernel.events import Reservation
from reticent.kernel.excess_risk import FLOATS, GAP, ExcessRisk
from reticent.kernel.mechanisms import Gaussian, Laplace
from reticent.kernel.minimizers import Minimizer
from reticent.models import Model, implied_error, minimize_on
from reticent.queries.convex import ConvexLoss, checked_loss

if TYPE_CHECKING:
    from reticent.session import Session

LARGEST_SHARE = 0.5
"""An audit is tried when it costs at most this share of what remains."""


@dataclass(frozen=True)
class Wish:
    """What an asker wants of the models, and under which name it is paid for; `strict` refuses uncertified ones."""

    error: float
    confidence: float
    key: str | None = None
    analyst: str | None = None
    strict: bool = False
    batch: bool = False
    """Several losses under one key: each purchase then has a key of its own."""

    def __post_init__(self) -> None:
        if not self.error > 0:
            raise QueryError(f"an excess risk of {self.error!r} cannot be met; ask for one above 0")


@dataclass(frozen=True, eq=False)
class Audit:
    """One noisy largest excess risk, ready to be paid, or paid for already; `cost` is what it would still charge."""

    key: str
    statistic: ExcessRisk
    noise: Noise
    failure: float
    scale: float
    cost: int
    settled: bool


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
            guesses = _guesses(session, unknown, wish)
            audit = _planned(session, guesses, wish)
            _write_down(session, guesses, audit, wish)
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
    audit = _planned(session, _guesses(session, unknown, wish), wish)
    verdict = _judged(session, audit, wish) if audit is not None and audit.settled else None
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
    begun = _written(session, wish)
    for loss in losses:
        if loss.digest in begun:
            continue
        model = free_model(session, loss, wish.confidence)
        if model.certified and model.error is not None and model.error <= wish.error:
            models[loss] = model
    return models, [loss for loss in dict.fromkeys(losses) if loss not in models]


def free_model(session: Session, loss: ConvexLoss, confidence: float) -> Model:
    """From the snapshot whose certificate bounds the loss best, else from the working hypothesis."""
    problem, found = loss.on(session.domain), []
    for certified in reversed(session._knowledge.certified):
        bound, _ = implied_error(certified.certificates, problem, 0.0, confidence)
        if bound is not None:
            found.append((bound, certified.snapshot))
    if not found:
        return guess(session, loss)
    bound, snapshot = min(found, key=lambda way: way[0])
    theta, gap = public_minimum(snapshot, problem)
    return Model(
        loss, session.domain, theta, bound + gap, confidence, "certificate", True,
        snapshot=snapshot.digest, gap=gap,
    )  # fmt: skip


def guess(session: Session, loss: ConvexLoss) -> Model:
    """The working hypothesis' own minimiser, without a certificate."""
    current = session._knowledge.current
    theta, gap = public_minimum(current, loss.on(session.domain))
    return Model(loss, session.domain, theta, None, None, "hypothesis", False, snapshot=current.digest, gap=gap)


def _guesses(session: Session, losses: Sequence[ConvexLoss], wish: Wish) -> dict[ConvexLoss, Model]:
    """The hypothesis' own minimisers, or those that this key began with."""
    begun = _written(session, wish)
    if not begun:
        return {loss: guess(session, loss) for loss in losses}
    if set(begun) != {loss.digest for loss in losses}:
        raise KeyReusedError(f"key {wish.key} belongs to other losses: use a new key")
    plain: dict[str, Any] = {"error": None, "confidence": None, "origin": "hypothesis", "certified": False}
    return {loss: Model(loss, session.domain, **plain, **begun[loss.digest]) for loss in losses}


def _write_down(session: Session, guesses: dict[ConvexLoss, Model], audit: Audit | None, wish: Wish) -> None:
    """Before anything is paid under a key: a retry knows more, but audits and buys the same."""
    if wish.key is not None and not _written(session, wish):
        entries = [
            {"loss": loss.digest, "theta": model.theta.tolist(), "gap": model.gap, "snapshot": model.snapshot}
            for loss, model in guesses.items()
        ]
        own = audit.key if audit is not None and session._ledger.lookup(audit.key) is None else None
        session._journal.save_guesses(wish.key, [wish.error, wish.confidence], entries, own)


def _written(session: Session, wish: Wish) -> dict[str, dict[str, Any]]:
    """Parameters, solver's gap and snapshot of each guess under this key, by the loss' digest."""
    if wish.key is None:
        return {}
    begun = session._journal.guesses(wish.key)
    if begun is None:
        return {}
    if begun["wanted"] != [wish.error, wish.confidence]:
        raise KeyReusedError(f"key {wish.key} was asked for another error or confidence: use a new key")
    return {entry["loss"]: {k: v for k, v in entry.items() if k != "loss"} for entry in begun["models"]}


def _resolve(
    session: Session, guesses: dict[ConvexLoss, Model], audit: Audit | None, wish: Wish
) -> dict[ConvexLoss, Model]:
    losses = tuple(guesses)
    if all(_bought(session, loss, wish) for loss in losses):
        return {loss: _buy(session, loss, model, wish, 0.0) for loss, model in guesses.items()}
    verdict = None if audit is None else _audited(session, audit, wish)
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


def _audited(session: Session, planned: Audit, wish: Wish) -> Verdict | None:
    """What a joint audit shows (spec online.md 1); None when nobody can pay for it."""
    session._journal.save_snapshot(session._knowledge)
    try:
        return _judged(session, planned, wish)
    except BudgetError:
        return None


def _judged(session: Session, planned: Audit, wish: Wish) -> Verdict:
    """Pays for the audit, or reads again what was paid for."""
    knowledge = session._knowledge
    settled = session._curator.measure([planned.statistic], planned.noise, key=planned.key, analyst=wish.analyst)
    reading, stray = float(settled.values[0]), reach(planned.noise, planned.failure) + float(FLOATS)
    unit = planned.scale / knowledge.records
    spread = knowledge.records_error
    high = max(0.0, reading + stray + float(GAP)) * unit / (1 - spread)
    low = max(0.0, reading - stray) * unit / (1 + spread)
    return Verdict(low, high, settled.cost, settled.ledger_id)


def _planned(session: Session, guesses: dict[ConvexLoss, Model], wish: Wish) -> Audit | None:
    """The joint audit of these guesses; None when it is not worth its price."""
    knowledge, losses = session._knowledge, tuple(guesses)
    scale = max(loss.on(session.domain).scale for loss in losses)
    digests = "".join(f"{model.snapshot}{loss.digest}" for loss, model in guesses.items())
    named = hashlib.sha256(digests.encode()).hexdigest()[:24]
    key = f"{AUDIT}losses:{named}:{wish.error:.17g}:{wish.confidence:.17g}:{wish.analyst or ''}"
    key = session._journal.usable(key)
    index = session._journal.audit_index(key)
    failure = noise_failure(wish.confidence, knowledge.records_error) / 2**index
    if index > LAST_INDEX or not failure > 0 or knowledge.records_error >= 1:
        return None
    one: Noise = Laplace(1) if session.budget.pure else Gaussian(1)
    width = NOISE_SHARE * wish.error * knowledge.records / scale / reach(one, failure)
    noise: Noise = Laplace(width) if session.budget.pure else Gaussian(width)
    thetas = tuple(model.theta for model in guesses.values())
    statistic = ExcessRisk(losses, thetas, (scale,) * len(losses), session.domain, knowledge.records)
    price = session.budget.cost(session._curator.price([statistic], noise))
    found = session._ledger.lookup(key)
    if found is None and price > LARGEST_SHARE * session._ledger.remaining:
        return None
    settled = found is not None and not isinstance(found, Reservation)
    return Audit(key, statistic, noise, failure, scale, price if found is None else 0, settled)


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


__all__ = ["cost", "free_model", "minimize", "minimize_all", "minimize_on"]
