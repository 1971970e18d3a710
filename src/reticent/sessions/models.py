"""Models of convex losses in a session: the hypothesis' own minimiser is free; certified models are audited or bought.

Unmeasured attributes are measured first; then the minimisers are audited, repeatedly if a reading is good but noisy;
models that audits do not certify are bought singly. If a number of losses was announced, none costs more than its share
of the remaining budget. A request with a key continues with the models with which it began: a retry audits and buys the
same. A key that has paid and received an answer, within its error or not, pays nothing more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from reticent.errors import BudgetError, KeyReusedError, QueryError
from reticent.hypotheses.choose import learned
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import NANO
from reticent.kernel.minimizers.families import Minimizer
from reticent.knowledge.certificates import WORTH
from reticent.knowledge.minimizers import cheapest_within, recorded_minimizer
from reticent.knowledge.paid_models import ExcessReading, PaidModel
from reticent.knowledge.request import Request, excess_error
from reticent.knowledge.risks import loss_difference, project
from reticent.knowledge.tails import noise_failure
from reticent.losses.losses import ConvexLoss, checked_loss
from reticent.releases.budgeting import divide
from reticent.releases.models import Model, free_model, guessed_model
from reticent.sessions.engine import Certify, Free
from reticent.sessions.investments import Investments
from reticent.sessions.journal import ASK, reused
from reticent.sessions.loss_audits import ATTEMPTS, LATE, RiskAudit, RiskAudits, bought_for, late_units, start_late
from reticent.sessions.state import State

LARGEST_SHARE = 0.5
"""An audit is tried if it costs at most this share of the remaining purchases."""


def quote_models(
    state: State, request: Request, rule: Investments | None = None, promised: int | None = None
) -> Free | Certify:
    """The quote of models: free if knowledge suffices, else one audit of the largest excess, else single purchases
    (online.md 2).

    Invalid losses are refused before anything is spent. `rule` states what may be invested in learning; `promised` is
    the announced number of losses.
    """
    known, question = state.knowledge, request.question
    batch = isinstance(question, tuple)
    losses: tuple[Any, ...] = question if isinstance(question, tuple) else (question,)
    for loss in losses:
        checked_loss(loss).on(state.domain)
    if request.error is None:
        models = [free_model(known, loss, request.confidence) for loss in losses]
        return Free(request, known, models if batch else models[0])
    fitting = ModelFitting(state, request, losses, batch=batch, rule=rule, promised=promised)
    if not fitting.unknown:
        return Free(request, known, fitting.joined({}))
    fitting.refuse_vacuous()
    return Certify(request, known, fitting.run, fitting.most)


def charged(state: State, key: str) -> int:
    """Nano-units that a keyed request has paid so far, before or after a crash, for learning, audits and purchases."""
    return state.ledger.charged(ASK + key) + _charged_beside(state, key)


def _charged_beside(state: State, key: str) -> int:
    """Nano-units that it paid for audits and for a late start before them."""
    learned = dict.fromkeys(name for one in _begun_under(state, key) for name in one.get("learned", ()))
    return sum(map(state.ledger.charged, learned)) + _charged_audits(state, key)


def _charged_audits(state: State, key: str) -> int:
    audits = dict.fromkeys(one["audit"] for one in _begun_under(state, key) if one.get("audit") is not None)
    return sum(map(state.ledger.charged, audits))


def _begun_under(state: State, key: str) -> list[dict[str, Any]]:
    """The audits that a key was about to pay for, attempt by attempt."""
    return [state.journal.guesses(_named(key, place)) or {} for place in range(1, ATTEMPTS + 1)]


def _named(name: str, place: int) -> str:
    """The key under which a request's models are recorded, once for each audit."""
    return name if place == 1 else f"{name}#{place}"


class ModelFitting:
    """Models of some losses within an excess risk, decided on one value of knowledge; the caller of `run` holds the
    lock.

    Several losses under one key (`batch`) are one request; each of its purchases has its own key.
    """

    def __init__(
        self,
        state: State,
        request: Request,
        losses: Sequence[ConvexLoss],
        *,
        batch: bool,
        rule: Investments | None = None,
        promised: int | None = None,
        taught: tuple[str, ...] = (),
        limit: int | None = None,
    ) -> None:
        assert request.error is not None, "only a wanted error has a price"
        self.rule, self.promised = rule, promised
        if not taught:
            taught, limit = bought_for(state, request.key)
        self.taught = taught
        """Keys of the start that this request has bought."""
        self.limit = limit
        """What is left of the price that was quoted before that start, in nano-units."""
        self._paid_here = 0
        if request.key is not None:
            # A repeated key has the same limit and has already paid part of it.
            self._paid_here = state.ledger.charged(ASK + request.key) + _charged_audits(state, request.key)
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
        """Refuse an error that zero parameters meet on every table; purchases made before are returned."""
        for loss in self.unknown:
            most = loss.on(self.state.domain).zero_excess
            if self.error >= most and not self._paid(loss):
                raise QueryError(
                    f"error={self.error:g} says nothing of {loss!r}: parameters of zero have an excess risk of at most"
                    f" {most:.4g} on any table; ask for less than that"
                )

    def joined(self, models: dict[ConvexLoss, Model]) -> Model | list[Model]:
        """The models in the order asked."""
        found = [(self.known | models)[loss] for loss in self.losses]
        return found if self.batch else found[0]

    def most(self) -> int:
        """An upper bound on what `run` would charge now, in nano-units: a late start, audits, and purchases should they
        fail.

        Audits may end after any of them, and the fewer there are, the more is left for purchases. A model that cannot
        be paid for is not bought: it stays uncertified, or a strict request is refused. If neither the audit nor any
        private minimiser can be paid, this is the smallest amount that would be needed.
        """
        if self.ended or all(map(self._paid, self.unknown)):
            return 0
        left = self.state.ledger.remaining_for(self.request.analyst) - self.start
        prices = [price for loss, price in self._singly.items() if not self._paid(loss) and self._within(price)]
        audit, place, paid, totals = self.audit, 1, 0, list[int]()
        while audit is not None:
            reading = self.audits.read(audit) if audit.settled else None
            if reading is not None and self._passes(reading):
                return 0
            if reading is not None and self._misses(reading):
                break
            prices += [audit.cost] if audit.cost else []
            if paid + audit.cost > left:
                break
            paid += audit.cost
            totals.append(self._with_purchases(paid, left))
            audit = self._further(audit, place := place + 1, paid)
        if not prices and not self._has_paid:
            raise QueryError(f"nothing certifies an excess risk of {self.error:g} on this table: ask for more error")
        totals.append(self._with_purchases(paid, left))
        return self.start + max(totals) or min(prices, default=0)

    def _with_purchases(self, paid: int, left: int) -> int:
        """The cost of the audits made by then, and of every later purchase that the remaining budget allows."""
        for loss, price in self._singly.items():
            fits = paid + price <= left and self._within(price, paid)
            paid += price if fits and not self._paid(loss) else 0
        return paid

    def _passes(self, reading: ExcessReading) -> bool:
        return reading.high(self.request.confidence) <= self.error

    def _misses(self, reading: ExcessReading) -> bool:
        """Whether another audit of the same models is expected to fail too."""
        return reading.estimate > self.error

    def run(self) -> Model | list[Model]:
        """Buy a late start if nothing is known, run worthwhile audits, then buy the models that they do not certify."""
        if self.start and self.rule is not None:
            # Models after the start differ from those that were priced: their audit may cost more, the total may not.
            limit = self.most() - self.start
            asker = {"key": self.request.key, "analyst": self.request.analyst}
            start_late(self.state, self.rule, self.start, **asker, limit=limit)
            facts: dict[str, Any] = {"batch": self.batch, "rule": self.rule, "promised": self.promised}
            return ModelFitting(self.state, self.request, self.losses, taught=(LATE,), limit=limit, **facts).run()
        before, readings = self.state.ledger.charged, []
        audit, place, cost = self.audit, 1, sum(map(before, self.taught))
        while audit is not None:
            self._write_down(audit.key, place)
            if not audit.settled and all(map(self._paid, self.unknown)):
                break
            reading = self._audited(audit)
            if reading is None:
                break
            cost += 0 if audit.settled else reading.cost
            self._paid_here += audit.cost
            readings.append(reading)
            if self._passes(reading) or self._misses(reading):
                break
            audit = self._further(audit, place := place + 1)
        if not readings:
            self._write_down(None, 1)
        if self.request.key is not None:
            cost = _charged_beside(self.state, self.request.key)
        shares = dict(zip(self.unknown, divide(cost, [1.0] * len(self.unknown)), strict=True))
        last = readings[-1] if readings else None
        if last is not None and self._passes(last):
            high = last.high(self.request.confidence)
            self._count_savings(cost)
            found = {loss: self._certified(loss, high, last, shares[loss]) for loss in self.unknown}
        else:
            lows = [reading.low(self.request.confidence) for reading in readings if len(self.guesses) == 1]
            best = min(readings, key=lambda reading: reading.high(self.request.confidence), default=None)
            found = {
                loss: self._buy(loss, max(lows, default=0.0), self._unreached(loss, best, shares[loss]))
                for loss in self.unknown
            }
            self._write_end(found.values())
        return self.joined(found)

    @property
    def _price_of_all(self) -> int | None:
        """The price of minimisers for all losses; None if not all are available."""
        prices = self._singly
        every = len(prices) == len(self.unknown) and all(map(self._within, prices.values()))
        return sum(prices.values()) if every else None

    def _count_savings(self, cost: int) -> None:
        """Count the savings against private minimisers as investable."""
        prices = self._singly
        if self.rule is not None and len(prices) == len(self.unknown):
            for loss, price in prices.items():
                self.rule.count_saved(loss.digest, max(0, price - cost // len(prices)))

    @cached_property
    def _singly(self) -> dict[ConvexLoss, int]:
        """The price of private minimisers where they are available, in nano-units."""
        found = {loss: self._affordable(loss, inf) for loss in self.unknown}
        cost = self.state.budget.cost
        return {loss: cost(minimizer.price()) for loss, minimizer in found.items() if minimizer is not None}

    @cached_property
    def part(self) -> int | None:
        """The largest cost of this request, in nano-units; None for no limit but the budget.

        It is the quoted price and, if a number of losses was announced, this request's share of the remaining budget.
        """
        limits = [] if self.limit is None else [self.limit]
        due = 0 if self.promised is None else self.promised - len(self.knowledge.models)
        if due > 0:
            # A batch has the sum of its losses' shares.
            limits.append(self.state.ledger.remaining * min(due, len(self.unknown)) // due)
        return min(limits, default=None)

    def _within(self, price: int, paid: int = 0) -> bool:
        """Whether a cost is allowed, given that `paid` was charged in addition to what the request has already paid."""
        return self.part is None or self._paid_here + paid + price <= self.part

    @cached_property
    def start(self) -> int:
        """The price of a late start to be bought first, in nano-units; 0 for none, and for a request that has begun."""
        begun = self.taught or self.audit is None or self.audit.cost == 0
        if begun or (self.request.key is not None and self._written()):
            return 0
        return late_units(self.state, self.rule, self.unknown, self._price_of_all, self.request.analyst)

    # -- knowledge, and the models with which a request begins -----------------------------------------------

    def _known(self) -> dict[ConvexLoss, Model]:
        """Models that are free within the error; a purchase that a key has begun continues."""
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
        """The hypothesis' own minimisers, or those with which this request began.

        A request without a key is identified by all its losses: models bought before a crash are known after it, and
        the paid audit still covers all of them.
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
        """The identifier of a request without a key: its losses and their requested errors."""
        digests = [loss.digest for loss in self.losses]
        told = (digests, self.error, self.request.confidence, self.request.analyst or "")
        return "losses:" + hashlib.sha256(repr(told).encode()).hexdigest()

    @property
    def _request_name(self) -> str:
        return self._name if self.request.key is None else self.request.key

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
        """The audit that the request had begun, if it was paid for."""
        begun = self.state.journal.guesses(name)
        if begun is None or not self.state.charged(begun["audited"]):
            return {}
        models = _models(begun)
        return models if all(loss.digest in models for loss in self.unknown) else {}

    def _write_down(self, audit: str | None, place: int) -> None:
        """Record the models before anything is paid, so that a retry audits the same models (under the key `audit`).

        On another processor the minimiser of the same snapshot may differ in its bits, and the audit would not cover
        it.
        """
        keyed, name = self.request.key is not None, _named(self._request_name, place)
        written = self.state.journal.guesses(name)
        if written is not None and (keyed or audit is None or written["audited"] == audit):
            return
        if audit is None and not keyed:
            return
        entries = [
            {"loss": loss.digest, "theta": model.theta.tolist(), "gap": model.gap, "snapshot": model.snapshot}
            for loss, model in self.guesses.items()
        ]
        own = audit if audit is not None and not self.state.charged(audit) else None
        wanted = [self.error, self.request.confidence]
        self.state.journal.save_guesses(name, wanted, entries, own, audit, self.taught)

    @property
    def _has_paid(self) -> bool:
        return self.request.key is not None and charged(self.state, self.request.key) > 0

    @cached_property
    def ended(self) -> bool:
        """Whether this key has paid and its answer missed the error: it repeats that answer and buys nothing more."""
        told = None if self.request.key is None else self.state.journal.passed(self.request.key)
        if told is not None and told["asked"] != self._all_losses:
            raise reused(str(self.request.key))
        return told is not None

    @property
    def _all_losses(self) -> str:
        digests = sorted({loss.digest for loss in self.losses})
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def _write_end(self, models: Iterable[Model]) -> None:
        """Record the end of a key before its answer is returned. Models that met their error need no record."""
        short = any(model.error is None or model.error > self.error for model in models)
        if short and self._has_paid and not self.ended:
            self.state.journal.save_passed({"key": self.request.key, "asked": self._all_losses})

    # -- joint audits ----------------------------------------------------------------------------------------

    @cached_property
    def audits(self) -> RiskAudits:
        return RiskAudits(self.state, self.knowledge, self.request, self.error, self.guesses)

    @cached_property
    def audit(self) -> RiskAudit | None:
        """The first joint audit of the guesses, or the one this request began with; None if it is not worthwhile."""
        begun = self.state.journal.guesses(self._request_name)
        key = None if begun is None else begun.get("audited") or begun.get("audit")
        if key is None or not self.state.charged(key) or not self._of_these(begun):
            if self.ended:
                return None
            key = self.audits.key(self.audits.attempt)
        return self._worthwhile(self.state.journal.usable(key))  # two crashes may have lost it

    def _of_these(self, begun: dict[str, Any] | None) -> bool:
        """Whether an audit covered exactly the models that are guessed now."""
        models = {} if begun is None else _models(begun)
        return all(
            loss.digest in models and models[loss.digest]["theta"] == model.theta.tolist()
            for loss, model in self.guesses.items()
        )

    def _further(self, audit: RiskAudit, place: int, paid: int = 0) -> RiskAudit | None:
        """The audit after a failed one; `paid` is the cost of audits that are only being priced."""
        attempt = self.state.journal.attempt(audit.key)
        if not attempt or place > ATTEMPTS:
            return None
        if self.ended and self.state.journal.guesses(_named(self._request_name, place)) is None:
            return None  # others may have paid for it since
        return self._worthwhile(self.audits.key(attempt + 1), paid)

    def _worthwhile(self, key: str, paid: int = 0) -> RiskAudit | None:
        audit = self.audits.made(key, self.part)
        if audit is None or self.state.charged(key):
            return audit
        if self._audits_are_over or not self._within(audit.cost, paid):
            return None
        if audit.cost > LARGEST_SHARE * self.state.ledger.remaining:
            return None
        # If some model cannot be bought at any price, the audit is the only way to certify it.
        prices = self._singly
        saves = len(prices) < len(self.unknown) or audit.cost <= WORTH * sum(prices.values())
        return audit if saves else None

    @property
    def _audits_are_over(self) -> bool:
        """Whether this key has begun purchases, which come after its audits."""
        return self.request.key is not None and (self.ended or any(map(self._paid, self.unknown)))

    def _audited(self, audit: RiskAudit) -> ExcessReading | None:
        """The result of the audit, added to knowledge; None if the budget cannot pay for it."""
        self.state.journal.save_snapshot(self.knowledge)
        try:
            reading = self.audits.read(audit)
        except BudgetError:
            return None
        for loss, model in self.guesses.items():
            paid = PaidModel(model.theta, reading, reading.ledger_id, model.snapshot, model.gap)
            self.state.learn(self.state.knowledge.with_model(loss, paid))
        return reading

    def _certified(self, loss: ConvexLoss, high: float, reading: ExcessReading, share: int) -> Model:
        return replace(
            self.guesses[loss], error=high, confidence=self.request.confidence, certified=True, origin="batch",
            price=self.state.budget.amount(share), ledger_id=reading.ledger_id,
        )  # fmt: skip

    # -- private minimisers ----------------------------------------------------------------------------------

    def _unreached(self, loss: ConvexLoss, reading: ExcessReading | None, share: int) -> tuple[Model, int]:
        """The best known model with the error it misses, and the loss' share of an audit that did not pass.

        An audit that misses the requested error still bounds the guess. A key that paid for an audit always states that
        bound.
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
        """A private minimiser with an error of at most `error`, or the result of `_unreached` if the budget cannot pay.

        The loss' share of an audit that did not pass is part of its price in either case.
        """
        state, request, (model, share) = self.state, self.request, otherwise
        remaining, guess = state.ledger.remaining / NANO, self.guesses[loss]
        key = self._ledger_key(loss)
        fresh = not state.settled(key)
        most = remaining if self.part is None else min(remaining, (self.part - self._paid_here) / NANO)
        if self.ended and not state.charged(key):
            if request.strict:
                raise QueryError(f"key {request.key} was answered short of {self.error:g}: use a new key to buy more")
            return model
        minimizer = self._affordable(loss, inf if state.charged(key) else most)
        if minimizer is None:
            if request.strict:
                raise QueryError(
                    f"no private minimiser within {most:.3g} of rho guarantees {self.error:g}; ask for more error"
                )
            return model
        try:
            settled = state.curator.minimize(minimizer, key=key, analyst=request.analyst)
        except BudgetError:
            if request.strict:
                raise
            return model
        spread = self.knowledge.records_error
        self._paid_here += settled.cost if fresh else 0
        theta, bound = settled.values[0], minimizer.bound(noise_failure(request.confidence, spread), spread)
        state.learn(state.knowledge.with_model(loss, PaidModel(theta, minimizer, settled.ledger_id)))
        if fresh:
            self._teach(loss, theta, guess.theta, low - bound - guess.gap)
        return replace(
            guess, theta=theta, error=bound, confidence=request.confidence, certified=True, origin="measured",
            price=state.budget.amount(share + settled.cost), snapshot=None, ledger_id=settled.ledger_id, gap=0.0,
        )  # fmt: skip

    def _ledger_key(self, loss: ConvexLoss) -> str:
        """One key per question, so that a repetition and a restart find the purchase."""
        key, request = self.request.key, self.request
        if key is not None:
            return f"{ASK}{key}:{loss.digest[:16]}" if self.batch else f"{ASK}{key}"
        named = f"{loss.digest[:24]}:{self.error:.17g}:{request.confidence:.17g}:{request.analyst or ''}"
        return self.state.journal.usable(f"{ASK}minimize:{named}")

    def _paid(self, loss: ConvexLoss) -> bool:
        """Already charged, settled or not: a crash before the answer does not raise the price of the rest."""
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
        """Move the working hypothesis by the loss difference, as far as the audit and the minimiser guarantee (8.3)."""
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
