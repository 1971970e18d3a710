"""Audits that losses request for themselves: a noisy largest excess risk of the hypothesis' minimisers (online.md 1).

Such an audit is the request's own purchase, like a private minimiser: it shares its failure probability only with
further audits of the same losses, so the hundredth loss of a session pays no more than the first. An audit that fails
although its reading lies within the requested error is repeated, as long as that is cheaper than a minimiser.

A late start measures the attributes of losses before their models are audited, if a session has no warm start. A
hypothesis without measurements of any pair of a loss' attributes is far from its minimiser, and its audit would fail. A
private minimiser answers only one loss; a start at the same price makes audits pass for this loss and for others. It is
an investment (spec answers 4) within the rule, bought once, and recorded before anything is paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import isfinite

import numpy as np

from reticent.errors import BudgetError
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import NAMED, Curator, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace, restore
from reticent.kernel.minimizers.excess_risk import LARGEST_HIDDEN, ExcessRisk, least_scale
from reticent.kernel.minimizers.solvers import MOST_WORK
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.learning import learn, refitted
from reticent.knowledge.paid_models import ExcessReading, audited_state
from reticent.knowledge.request import Request
from reticent.knowledge.tails import audit_share, noise_failure, reach
from reticent.losses.losses import ConvexLoss
from reticent.releases.adaptive import Adaptive
from reticent.releases.models import Model
from reticent.sessions.investments import Investments
from reticent.sessions.journal import OWN_AUDIT, Journal
from reticent.sessions.resume import WARM, excess_reading, understood
from reticent.sessions.state import State
from reticent.sessions.warm_start import default_workload

NOISE_SHARE = 2 / 3
"""The share of a requested error that the noise of an audit may reach. With the shares of `audit_share`, three
attempts, and then a minimiser at ten times the price, this minimises the cost if the true excess is at most a tenth of
the error, and is within a tenth of the minimum up to a fifth (docs/convex.md)."""
HIDDEN_SHARE = 1 / 40
"""The share of a requested error that is added to every bound, for a ridge with which the private minimum takes four
tenths of the steps (docs/proofs/excess-risk.md, claim 5). A certified model costs a twentieth more; half as much would
save half of that and take two fifths more steps, twice as much costs a tenth (`benchmarks/audit_constants.py`)."""
WIDEST_SHARE = 1 - HIDDEN_SHARE - 1 / 20
"""The largest share of the error that noise may reach if the budget of a loss is limited: a model whose excess is a
twentieth of the error then passes every second time, and with more noise an audit would fail more often than pass."""
ATTEMPTS = 3
"""The largest number of audits of the same models in one request."""


@dataclass(frozen=True, eq=False)
class RiskAudit:
    """One noisy largest excess risk, ready to be paid for or already paid; `cost` is the remaining charge."""

    key: str
    statistic: ExcessRisk
    noise: Noise
    cost: int
    settled: bool


class RiskAudits:
    """Audits of the models with which one request begins, decided on one value of knowledge."""

    def __init__(
        self, state: State, knowledge: Knowledge, request: Request, error: float, guesses: dict[ConvexLoss, Model]
    ) -> None:
        self._state = state
        self._knowledge = knowledge
        self._request = request
        self._error = error
        self._guesses = guesses

    @cached_property
    def _models(self) -> list[tuple[str | None, ConvexLoss]]:
        return [(model.snapshot, loss) for loss, model in self._guesses.items()]

    def key(self, attempt: int) -> str:
        """The key of the audit with this number, counted from 1."""
        asked = f"{self._error:.17g}:{self._request.confidence:.17g}:{self._request.analyst or ''}"
        return self._state.journal.usable(f"{OWN_AUDIT}{attempt}:{audited_state(self._models)[:NAMED]}:{asked}")

    @property
    def attempt(self) -> int:
        """The number of the next audit: one more than any of the losses has had."""
        known = self._knowledge.models
        had = [model.proof for loss in self._guesses for model in known.get(loss.digest, ())]
        return 1 + max((proof.attempt for proof in had if isinstance(proof, ExcessReading)), default=0)

    def made(self, key: str, most: int | None = None) -> RiskAudit | None:
        """The audit with this key; None if a loss has a kink, no noise suffices, or it would take too long.

        The minimum of a loss with a kink cannot be computed to a public gap in a feasible number of steps. `most` is
        its largest cost, in ledger units. An audit that was charged before is unchanged.
        """
        state, knowledge, losses = self._state, self._knowledge, tuple(self._guesses)
        if not all(isfinite(loss.on(state.domain).smoothness) for loss in losses):
            return None
        thetas = tuple(model.theta for model in self._guesses.values())
        ordered = state.ledger.requested(key)
        if ordered is not None:
            (described,), (told,) = ordered["statistics"], ordered["mechanisms"]
            noise = restore(told)
            assert isinstance(noise, (Laplace, Gaussian)), "audits are measured with additive noise"
            statistic = self._statistic(losses, thetas, described["scales"], described.get("hidden", 0.0))
            return RiskAudit(key, statistic, noise, 0, state.settled(key))
        failure = noise_failure(self._request.confidence, knowledge.records_error)
        failure *= audit_share(state.journal.attempt(key))
        if not failure > 0 or knowledge.records_error >= 1:
            return None
        kinds = {"replace-one", state.curator.neighbours}  # the statistic itself asks for the former under either
        facts = zip(losses, thetas, strict=True)
        scale = max(least_scale(loss.on(state.domain), theta, kind) for loss, theta in facts for kind in kinds)
        # One unit for all, so that the largest score belongs to the largest excess.
        hidden = min(HIDDEN_SHARE * self._error / scale, LARGEST_HIDDEN)
        statistic = self._statistic(losses, thetas, [scale] * len(losses), hidden)
        if statistic.work > MOST_WORK:
            return None
        audit = self._with_noise(key, statistic, failure, NOISE_SHARE)
        if most is not None and audit.cost > most > 0:
            wider = min(WIDEST_SHARE, NOISE_SHARE * (audit.cost / most) ** (1.0 if state.budget.pure else 0.5))
            audit = self._with_noise(key, statistic, failure, wider)
        return audit

    def read(self, audit: RiskAudit) -> ExcessReading:
        """Pay for the audit, or read its result again."""
        state = self._state
        settled = state.curator.measure([audit.statistic], audit.noise, key=audit.key, analyst=self._request.analyst)
        return excess_reading(state.journal, self._knowledge, audit.statistic, settled.noises[0], settled, audit.key)

    def _statistic(
        self, losses: tuple[ConvexLoss, ...], thetas: tuple[np.ndarray, ...], scales: Sequence[float], hidden: float
    ) -> ExcessRisk:
        state = audited_state(self._models)
        return ExcessRisk(losses, thetas, tuple(scales), self._state.domain, self._knowledge.records, state, hidden)

    def _with_noise(self, key: str, statistic: ExcessRisk, failure: float, share: float) -> RiskAudit:
        state, pure = self._state, self._state.budget.pure
        one: Noise = Laplace(1) if pure else Gaussian(1)
        width = share * self._error * self._knowledge.records / statistic.scales[0] / reach(one, failure)
        noise: Noise = Laplace(width) if pure else Gaussian(width)
        return RiskAudit(key, statistic, noise, state.budget.cost(state.curator.price([statistic], noise)), False)


LATE = f"{WARM}:late"
"""The key of a late start."""
LEAST_SHARE = Fraction(1, 100)
"""The share of the budget for a late start. After it, seven audits in ten of generated tables pass, nearly as many as
after ten times as much; after a quarter of it hardly more than half (`benchmarks/audit_constants.py`)."""


def unmeasured(knowledge: Knowledge, sets: Iterable[Iterable[str]]) -> bool:
    """Whether some pair of attributes within one of the sets is in no measured marginal."""
    domain, measured = knowledge.domain, [set(marginal.attributes) for marginal in knowledge.marginals]
    for attributes in sets:
        names = domain.canonical(attributes)
        for pair in combinations(names, min(2, len(names))):
            if not any(covered >= set(pair) for covered in measured):
                return True
    return False


def late_units(
    state: State, rule: Investments | None, losses: Sequence[ConvexLoss], singly: int | None, analyst: str | None
) -> int:
    """The price of a late start that is worth buying before these losses are audited, in ledger units; 0 for none.

    It is at most the price of their minimisers, if these are available (`singly`), and what the rule of investments and
    the analyst's cap allow.
    """
    settings = state.journal.settings() or {}
    if rule is None or settings.get("share") or "late" in settings or state.journal.start() is not None:
        return 0
    units = rule.left if singly is None else min(rule.left, singly)
    if units < LEAST_SHARE * state.budget.limit or units > state.ledger.remaining_for(analyst):
        return 0
    return units if unmeasured(state.knowledge, [loss.on(state.domain).attributes for loss in losses]) else 0


def start_late(
    state: State, rule: Investments, units: int, *, key: str | None, analyst: str | None, limit: int
) -> None:
    """Buy the late start for the first request that needs it, and continue from it.

    `limit` is the largest cost of the rest of the request: after a crash its key continues within the same quote.
    """
    settings = state.journal.settings() or {}
    rule.invest(LATE, units)
    asked = {"late": units, "late for": analyst, "late key": key, "late limit": limit}
    state.journal.save_settings({**settings, **asked})
    state.learn(finish_late(state.curator, state.journal, state.knowledge))


def bought_for(state: State, key: str | None) -> tuple[tuple[str, ...], int | None]:
    """Keys of the late start that the request with this key has paid for, and the largest cost of its rest."""
    settings = state.journal.settings() or {}
    if key is None or settings.get("late key") != key or not state.ledger.charged(LATE):
        return (), None
    return (LATE,), settings["late limit"]


def finish_late(curator: Curator, journal: Journal, knowledge: Knowledge) -> Knowledge:
    """Buy the recorded late start, or read its results again; no effect if it is finished.

    If it cannot be finished, its measurements are learned nevertheless.
    """
    settings = journal.settings() or {}
    units = settings.get("late", 0)
    if not units or settings.get("late fitted"):
        return knowledge
    before = {marginal.ledger_id for marginal in knowledge.marginals}
    warm = Adaptive(audit_share=Fraction(0), histogram_cells=0, at_once=True)
    asked = default_workload(curator.domain).on(curator.domain)
    outcome = None
    if not journal.forfeited(LATE):  # two crashes lose what was paid for
        with suppress(BudgetError):  # others have spent what the rest needs
            outcome = warm.run(curator, asked, allowance=units, key=LATE, analyst=settings.get("late for"))
    waiting = knowledge.unfitted or bool(knowledge.marginals or knowledge.groups or len(knowledge.queries))
    if outcome is not None:
        knowledge = replace(knowledge, current=Snapshot(outcome.hypothesis))
    found = [bought for bought in journal.bought(LATE) if bought.sequence not in before]
    for bought in found:
        knowledge = learn(knowledge, understood(journal, knowledge, bought, declared=False), fitted=True)
    if found:
        # No hypothesis was fitted to an unfinished start.
        knowledge = refitted(replace(knowledge, unfitted=int(bool(waiting) or outcome is None)))
        journal.save_snapshot(knowledge)
    journal.save_settings({**settings, "late fitted": True})
    return knowledge
