"""Guesses are a session's own free models of convex losses; a keyed request goes on from those it began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reticent.algorithms.risks import public_minimum
from reticent.errors import KeyReusedError, QueryError
from reticent.models import Model, implied_error
from reticent.queries.convex import ConvexLoss

if TYPE_CHECKING:
    from reticent.session import Session


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


def guesses_of(session: Session, losses: Sequence[ConvexLoss], wish: Wish) -> dict[ConvexLoss, Model]:
    """The hypothesis' own minimisers, or those that this key began with."""
    begun = written(session, wish)
    if not begun:
        return {loss: guess(session, loss) for loss in losses}
    if set(begun) != {loss.digest for loss in losses}:
        raise KeyReusedError(f"key {wish.key} belongs to other losses: use a new key")
    plain: dict[str, Any] = {"error": None, "confidence": None, "origin": "hypothesis", "certified": False}
    return {loss: Model(loss, session.domain, **plain, **begun[loss.digest]) for loss in losses}


def write_down(session: Session, guesses: dict[ConvexLoss, Model], audit: str | None, wish: Wish) -> None:
    """Before anything is paid under a key: a retry knows more, but audits (under the key `audit`) and buys the same."""
    if wish.key is not None and not written(session, wish):
        entries = [
            {"loss": loss.digest, "theta": model.theta.tolist(), "gap": model.gap, "snapshot": model.snapshot}
            for loss, model in guesses.items()
        ]
        own = audit if audit is not None and session._ledger.lookup(audit) is None else None
        session._journal.save_guesses(wish.key, [wish.error, wish.confidence], entries, own)


def written(session: Session, wish: Wish) -> dict[str, dict[str, Any]]:
    """Parameters, solver's gap and snapshot of each guess under this key, by the loss' digest."""
    if wish.key is None:
        return {}
    begun = session._journal.guesses(wish.key)
    if begun is None:
        return {}
    if begun["wanted"] != [wish.error, wish.confidence]:
        raise KeyReusedError(f"key {wish.key} was asked for another error or confidence: use a new key")
    return {entry["loss"]: {k: v for k, v in entry.items() if k != "loss"} for entry in begun["models"]}
