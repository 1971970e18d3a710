"""How a session answers convex losses: the hypothesis' own minimiser is free; certainty is audited or bought.

A request with a key goes on from the models it began with: a retry knows more, but audits the same ones and buys alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np

from reticent.errors import BudgetError, KeyReusedError, QueryError
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.transfer import learned
from reticent.kernel.accounting import NANO
from reticent.kernel.curator import NAMED, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.kernel.minimizers.excess_risk import ExcessRisk
from reticent.kernel.minimizers.families import Minimizer
from reticent.kernel.minimizers.solvers import MOST_WORK
from reticent.knowledge.audit import LAST_INDEX, NOISE_SHARE, WORTH
from reticent.knowledge.directions import loss_difference, project
from reticent.knowledge.minimizers import cheapest_within, recorded_minimizer
from reticent.knowledge.paid_models import ExcessReading, PaidModel, audited_state
from reticent.knowledge.request import Request, excess_error
from reticent.knowledge.tails import noise_failure, reach
from reticent.losses.losses import ConvexLoss, checked_loss
from reticent.releases.budgeting import divide
from reticent.releases.models import Model, free_model, guessed_model
from reticent.sessions.journal import ASK, AUDIT
from reticent.sessions.quote import Certify, Free
from reticent.sessions.resume import excess_reading
from reticent.sessions.state import State

LARGEST_SHARE = 0.5
"""An audit is tried when it costs at most this share of what remains."""


def quote_models(state: State, request: Request) -> Free | Certify:
    """Free where what is known suffices; else one audit of the largest excess; else bought singly (online.md 2).

    Bad losses are refused before anything is spent.
    """
    known, question = state.knowledge, request.question
    batch = isinstance(question, tuple)
    losses: tuple[Any, ...] = question if isinstance(question, tuple) else (question,)
    for loss in losses:
        checked_loss(loss).on(state.domain)
    if request.error is None:
        models = [free_model(known, loss, request.confidence) for loss in losses]
        return Free(request, known, models if batch else models[0])
    fitting = ModelFitting(state, request, losses, batch=batch)
    if not fitting.unknown:
        return Free(request, known, fitting.joined({}))
    fitting.refuse_vacuous()
    return Certify(request, known, fitting.run, fitting.most)


def charged(state: State, key: str) -> int:
    """Nano-units that a keyed request has paid so far, before a crash or after: its own audit, and what it bought."""
    return state.ledger.charged(ASK + key) + _charged_audit(state, key)


def _charged_audit(state: State, key: str) -> int:
    begun = state.journal.guesses(key)
    return 0 if begun is None or begun.get("audit") is None else state.ledger.charged(begun["audit"])


@dataclass(frozen=True, eq=False)
class RiskAudit:
    """One noisy largest excess risk, ready to be paid, or paid for already; `cost` is what it would still charge."""

    key: str
    statistic: ExcessRisk
    noise: Noise
    cost: int
    settled: bool


class ModelFitting:
    """Models of some losses within an excess risk, decided on one value of knowledge; whoever runs it holds the lock.

    Several losses under one key (`batch`) are one request, each of whose purchases has a key of its own.
    """

    def __init__(self, state: State, request: Request, losses: Sequence[ConvexLoss], *, batch: bool) -> None:
        assert request.error is not None, "only a wanted error has a price"
        self.state = state
        self.knowledge = state.knowledge
        self.request = request
        self.error = excess_error(request.error)
        self.losses = losses
        self.batch = batch
        self.known: dict[ConvexLoss, Model] = self._known()
        self.unknown = [loss for loss in dict.fromkeys(losses) if loss not in self.known]
        """What is not free within the error, each once."""

    def refuse_vacuous(self) -> None:
        """What parameters of zero meet on any table is worth no price; what was paid for already is returned."""
        for loss in self.unknown:
            most = loss.on(self.state.domain).zero_excess
            if self.error >= most and not self._paid(loss):
                raise QueryError(
                    f"error={self.error:g} says nothing of {loss!r}: parameters of zero have an excess risk of at most"
                    f" {most:.4g} on any table; ask for less than that"
                )

    def joined(self, models: dict[ConvexLoss, Model]) -> Model | list[Model]:
        """In the order asked."""
        found = [(self.known | models)[loss] for loss in self.losses]
        return found if self.batch else found[0]

    def most(self) -> int:
        """The most that `run` would charge now, in nano-units: an audit, and what is bought should it fail.

        What cannot be paid is not bought: then models stay uncertified, or a strict request is refused. Where neither
        the audit nor any private minimiser can be paid, this is the least that would be needed.
        """
        if all(map(self._paid, self.unknown)):
            return 0
        audit, request = self.audit, self.request
        if audit is not None and audit.settled and self._read(audit).high(request.confidence) <= self.error:
            return 0
        prices = [] if audit is None or audit.settled else [audit.cost]
        for loss in self.unknown:
            minimizer = None if self._paid(loss) else self._affordable(loss, inf)
            if minimizer is not None:
                prices.append(self.state.budget.cost(minimizer.price()))
        if not prices:
            raise QueryError(f"nothing certifies an excess risk of {self.error:g} on this table: ask for more error")
        left, total = self.state.ledger.remaining_for(request.analyst), 0
        for price in prices:
            total += price if total + price <= left else 0
        return total or min(prices)

    def run(self) -> Model | list[Model]:
        """Audit what is worth auditing, then buy singly what that does not certify."""
        audit = self.audit
        self._write_down(None if audit is None else audit.key)
        reading, fresh = None, audit is not None and not audit.settled
        if audit is not None and (audit.settled or not all(map(self._paid, self.unknown))):
            reading = self._audited(audit)
        if self.request.key is not None:
            cost = _charged_audit(self.state, self.request.key)
        else:
            cost = reading.cost if reading is not None and fresh else 0
        shares = dict(zip(self.unknown, divide(cost, [1.0] * len(self.unknown)), strict=True))
        if reading is not None and (high := reading.high(self.request.confidence)) <= self.error:
            found = {loss: self._certified(loss, high, reading, shares[loss]) for loss in self.unknown}
        else:
            low = reading.low(self.request.confidence) if reading is not None and len(self.guesses) == 1 else 0.0
            found = {loss: self._buy(loss, low, self._unreached(loss, reading, shares[loss])) for loss in self.unknown}
        return self.joined(found)

    # -- what is known, and what a request begins with -------------------------------------------------------

    def _known(self) -> dict[ConvexLoss, Model]:
        """What is free within the error; what a key began to buy, it goes on buying."""
        found: dict[ConvexLoss, Model] = {}
        begun = self._written()
        for loss in self.losses:
            if loss.digest in begun or (self.request.key is not None and self._paid(loss)):
                continue
            model = free_model(self.knowledge, loss, self.request.confidence)
            if model.certified and model.error is not None and model.error <= self.error:
                found[loss] = model
        return found

    @cached_property
    def guesses(self) -> dict[ConvexLoss, Model]:
        """The hypothesis' own minimisers, or those that this request began with.

        Without a key a request is known by all its losses: those bought before a crash are known after it, and the
        audit that was paid for is still one of them all.
        """
        losses, begun = self.unknown, self._written()
        if not begun and self.request.key is None:
            begun = self._begun(self._name)
            losses = [loss for loss in dict.fromkeys(self.losses) if loss.digest in begun] if begun else losses
        if not begun:
            return {loss: guessed_model(self.knowledge, loss) for loss in losses}
        if set(begun) != {loss.digest for loss in losses}:
            raise KeyReusedError(f"key {self.request.key} belongs to other losses: use a new key")
        plain: dict[str, Any] = {"error": None, "confidence": None, "origin": "hypothesis", "certified": False}
        return {loss: Model(loss, self.state.domain, **plain, **begun[loss.digest]) for loss in losses}

    @property
    def _name(self) -> str:
        """Of a request without a key: its losses and what is wanted of them."""
        digests = [loss.digest for loss in self.losses]
        told = (digests, self.error, self.request.confidence, self.request.analyst or "")
        return "losses:" + hashlib.sha256(repr(told).encode()).hexdigest()

    def _written(self) -> dict[str, dict[str, Any]]:
        """Parameters, solver's gap and snapshot of each guess under this key, by the loss' digest."""
        key = self.request.key
        begun = None if key is None else self.state.journal.guesses(key)
        if begun is None:
            return {}
        if begun["wanted"] != [self.error, self.request.confidence]:
            raise KeyReusedError(f"key {key} was asked for another error or confidence: use a new key")
        return _models(begun)

    def _begun(self, name: str) -> dict[str, dict[str, Any]]:
        """What the request was about to have audited, if that was paid for."""
        begun = self.state.journal.guesses(name)
        if begun is None or not self.state.charged(begun["audited"]):
            return {}
        models = _models(begun)
        return models if all(loss.digest in models for loss in self.unknown) else {}

    def _write_down(self, audit: str | None) -> None:
        """Before anything is paid: a retry knows more, but audits the same models (under the key `audit`).

        On another processor the same snapshot may have a minimiser of other bits, and the audit tells nothing about it.
        """
        if self.request.key is None:
            name = self._name
            written_already = audit is None or bool(self._begun(name))
        else:
            name, written_already = self.request.key, self.state.journal.guesses(self.request.key) is not None
        if not written_already:
            entries = [
                {"loss": loss.digest, "theta": model.theta.tolist(), "gap": model.gap, "snapshot": model.snapshot}
                for loss, model in self.guesses.items()
            ]
            own = audit if audit is not None and not self.state.charged(audit) else None
            wanted = [self.error, self.request.confidence]
            self.state.journal.save_guesses(name, wanted, entries, own, audit)

    # -- one audit of them all -------------------------------------------------------------------------------

    @cached_property
    def audit(self) -> RiskAudit | None:
        """The joint audit of the guesses (spec online.md 1); None when it is not worth its price, or a loss has a kink.

        The minimum of a loss with a kink is not computed to a public gap in a feasible number of steps.
        """
        state, knowledge, losses = self.state, self.knowledge, tuple(self.guesses)
        if not all(isfinite(loss.on(state.domain).smoothness) for loss in losses):
            return None
        models = [(model.snapshot, loss) for loss, model in self.guesses.items()]
        key = self._audit_key(models)
        index = state.journal.audit_index(key)
        failure = noise_failure(self.request.confidence, knowledge.records_error) / 2**index
        if index > LAST_INDEX or not failure > 0 or knowledge.records_error >= 1:
            return None
        scale = max(loss.on(state.domain).scale for loss in losses)
        one: Noise = Laplace(1) if state.budget.pure else Gaussian(1)
        width = NOISE_SHARE * self.error * knowledge.records / scale / reach(one, failure)
        noise: Noise = Laplace(width) if state.budget.pure else Gaussian(width)
        thetas, scales = tuple(model.theta for model in self.guesses.values()), (scale,) * len(losses)
        statistic = ExcessRisk(losses, thetas, scales, state.domain, knowledge.records, audited_state(models))
        price = state.budget.cost(state.curator.price([statistic], noise))
        if not state.charged(key) and not self._worthwhile(price, statistic):
            return None
        return RiskAudit(key, statistic, noise, 0 if state.charged(key) else price, state.settled(key))

    def _worthwhile(self, price: int, statistic: ExcessRisk) -> bool:
        if price > LARGEST_SHARE * self.state.ledger.remaining or statistic.work > MOST_WORK:
            return False
        found = [self._affordable(loss, inf) for loss in self.unknown]
        singly = [self.state.budget.cost(minimizer.price()) for minimizer in found if minimizer is not None]
        # Where not all of them can be bought at any price, the audit is the only way.
        return len(singly) < len(found) or price <= WORTH * sum(singly)

    def _audit_key(self, models: Sequence[tuple[str | None, ConvexLoss]]) -> str:
        """Names the joint audit of models, each given by its snapshot and its loss."""
        asked = f"{self.error:.17g}:{self.request.confidence:.17g}:{self.request.analyst or ''}"
        return self.state.journal.usable(f"{AUDIT}losses:{audited_state(models)[:NAMED]}:{asked}")

    def _audited(self, audit: RiskAudit) -> ExcessReading | None:
        """What the audit shows, known from now on; None when nobody can pay for it."""
        self.state.journal.save_snapshot(self.knowledge)
        try:
            reading = self._read(audit)
        except BudgetError:
            return None
        for loss, model in self.guesses.items():
            paid = PaidModel(model.theta, reading, reading.ledger_id, model.snapshot, model.gap)
            self.state.learn(self.state.knowledge.with_model(loss, paid))
        return reading

    def _read(self, audit: RiskAudit) -> ExcessReading:
        """Pays for the audit, or reads again what was paid for."""
        settled = self.state.curator.measure(
            [audit.statistic], audit.noise, key=audit.key, analyst=self.request.analyst
        )
        return excess_reading(self.state.journal, self.knowledge, audit.statistic, audit.noise, settled, audit.key)

    def _certified(self, loss: ConvexLoss, high: float, reading: ExcessReading, share: int) -> Model:
        return replace(
            self.guesses[loss], error=high, confidence=self.request.confidence, certified=True, origin="batch",
            price=self.state.budget.amount(share), ledger_id=reading.ledger_id,
        )  # fmt: skip

    # -- private minimisers ----------------------------------------------------------------------------------

    def _unreached(self, loss: ConvexLoss, reading: ExcessReading | None, share: int) -> tuple[Model, int]:
        """The best known model, marked with the error it misses, and what the loss bears of an audit that did not pass.

        An audit that misses the wanted error still bounds the guess. A key that paid for one always states that bound.
        """
        confidence, model = self.request.confidence, self.guesses[loss]
        if reading is not None:
            model = self._certified(loss, reading.high(confidence), reading, share)
        if reading is None or self.request.key is None:
            known = free_model(self.state.knowledge, loss, confidence)
            if known.certified and (not model.certified or (known.error or inf) < (model.error or inf)):
                model = known
        return replace(model, price=self.state.budget.amount(share), wanted=self.error), share

    def _buy(self, loss: ConvexLoss, low: float, otherwise: tuple[Model, int]) -> Model:
        """A private minimiser that errs at most `error`, or what `_unreached` found when the budget cannot pay.

        What the loss bears of an audit that did not pass is part of its price, whatever comes of it.
        """
        state, request, (model, share) = self.state, self.request, otherwise
        remaining, guess = state.ledger.remaining / NANO, self.guesses[loss]
        key = self._ledger_key(loss)
        fresh = not state.settled(key)
        minimizer = self._affordable(loss, inf if state.charged(key) else remaining)
        if minimizer is None:
            if request.strict:
                raise QueryError(
                    f"no private minimiser within {remaining:.3g} of rho guarantees {self.error:g}; ask for more error"
                )
            return model
        try:
            settled = state.curator.minimize(minimizer, key=key, analyst=request.analyst)
        except BudgetError:
            if request.strict:
                raise
            return model
        spread = self.knowledge.records_error
        theta, bound = settled.values[0], minimizer.bound(noise_failure(request.confidence, spread), spread)
        state.learn(state.knowledge.with_model(loss, PaidModel(theta, minimizer, settled.ledger_id)))
        if fresh:
            self._teach(loss, theta, guess.theta, low - bound - guess.gap)
        return replace(
            guess, theta=theta, error=bound, confidence=request.confidence, certified=True, origin="measured",
            price=state.budget.amount(share + settled.cost), snapshot=None, ledger_id=settled.ledger_id, gap=0.0,
        )  # fmt: skip

    def _ledger_key(self, loss: ConvexLoss) -> str:
        """One key per question, so that a repeat and a crash find what was paid for."""
        key, request = self.request.key, self.request
        if key is not None:
            return f"{ASK}{key}:{loss.digest[:16]}" if self.batch else f"{ASK}{key}"
        named = f"{loss.digest[:24]}:{self.error:.17g}:{request.confidence:.17g}:{request.analyst or ''}"
        return self.state.journal.usable(f"{ASK}minimize:{named}")

    def _paid(self, loss: ConvexLoss) -> bool:
        """Charged already, answered or not: a crash before the answer does not make it dearer than what remains."""
        return self.state.charged(self._ledger_key(loss))

    def _affordable(self, loss: ConvexLoss, most: float) -> Minimizer | None:
        state = self.state
        bought = state.ledger.requested(self._ledger_key(loss))
        if bought is not None:
            return recorded_minimizer(bought, loss, state.domain, state.curator.neighbours)
        spread = self.knowledge.records_error
        failure = noise_failure(self.request.confidence, spread)
        if state.budget.pure or most <= 0 or not failure > 0 or spread >= 1:
            return None
        return cheapest_within(
            loss,
            state.domain,
            neighbours=state.curator.neighbours,
            records=self.knowledge.records,
            error=self.error,
            failure=failure,
            most=most,
            spread=spread,
        )

    def _teach(self, loss: ConvexLoss, there: np.ndarray, here: np.ndarray, margin: float) -> None:
        """Move the working hypothesis by the loss difference, as far as the audit and the minimiser vouch for (8.3)."""
        if margin <= 0:
            return
        problem, known = loss.on(self.state.domain), self.state.knowledge
        found = learned(
            known.current.thaw(), lambda held: project(held, loss_difference(held, problem, there, here), margin) > 0
        )
        known = known.with_note(found.note)
        self.state.learn(replace(known, current=Snapshot(found.hypothesis)) if found.moved else known)
        if found.moved:
            self.state.journal.save_snapshot(self.state.knowledge)


def _models(begun: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["loss"]: {name: part for name, part in entry.items() if name != "loss"} for entry in begun["models"]}
