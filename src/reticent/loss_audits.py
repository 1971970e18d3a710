"""An audit of losses is one noisy number: the largest excess risk of several models at once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reticent.algorithms.audit import LAST_INDEX, NOISE_SHARE
from reticent.algorithms.tails import noise_failure, reach
from reticent.errors import BudgetError
from reticent.guesses import Wish
from reticent.journal import AUDIT
from reticent.kernel.curator import Noise
from reticent.kernel.events import Reservation
from reticent.kernel.excess_risk import FLOATS, GAP, ExcessRisk
from reticent.kernel.mechanisms import Gaussian, Laplace
from reticent.models import Model
from reticent.queries.convex import ConvexLoss

if TYPE_CHECKING:
    from reticent.session import Session

LARGEST_SHARE = 0.5
"""An audit is tried when it costs at most this share of what remains."""


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


def audited(session: Session, planned: Audit, wish: Wish) -> Verdict | None:
    """What a joint audit shows (spec online.md 1); None when nobody can pay for it."""
    session._journal.save_snapshot(session._knowledge)
    try:
        return judged(session, planned, wish)
    except BudgetError:
        return None


def judged(session: Session, planned: Audit, wish: Wish) -> Verdict:
    """Pays for the audit, or reads again what was paid for."""
    knowledge = session._knowledge
    settled = session._curator.measure([planned.statistic], planned.noise, key=planned.key, analyst=wish.analyst)
    reading, stray = float(settled.values[0]), reach(planned.noise, planned.failure) + float(FLOATS)
    unit = planned.scale / knowledge.records
    spread = knowledge.records_error
    high = max(0.0, reading + stray + float(GAP)) * unit / (1 - spread)
    low = max(0.0, reading - stray) * unit / (1 + spread)
    return Verdict(low, high, settled.cost, settled.ledger_id)


def planned_audit(session: Session, guesses: dict[ConvexLoss, Model], wish: Wish) -> Audit | None:
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
