"""The convex engines: losses as they come, each within one excess risk, by private multiplicative weights (spec 8.3).

`convex-textbook` and `convex-tuned` are two plans of one mechanism (`sessions/convex_epochs.py`; 001, Fig. 3). All
answers of a session hold together. A loss is free while a noisy test finds the hypothesis' own minimiser good enough;
whether a test may be made is decided by the plan, the budget and public state, never by the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from reticent.errors import BudgetError, KeyReusedError, QueryError
from reticent.kernel.curator import unpack_array
from reticent.kernel.ledger.columns import Reservation
from reticent.knowledge.free import answered, known_mean
from reticent.knowledge.knowledge import Reading, Single, best
from reticent.knowledge.minimizers import recorded_minimizer
from reticent.knowledge.paid_models import PaidModel
from reticent.knowledge.request import Request, excess_error
from reticent.losses.losses import ConvexLoss, loss_from_dict
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal
from reticent.releases.models import Model
from reticent.sessions.convex_epochs import ConvexEpochs, EpochReply
from reticent.sessions.engine import Free, Measure, SessionEngine, Split
from reticent.sessions.journal import ASK, Journal
from reticent.sessions.state import State

NAMED = 24
"""Digits of a loss' digest in the ledger's keys."""


class ConvexEngine(SessionEngine):
    """Payers are serialised: every test belongs to the one running epoch. Without budget the hypothesis answers."""

    def __init__(self, state: State, epochs: ConvexEpochs, confidence: float) -> None:
        # The constants were chosen for the confidence of the first opening.
        super().__init__(state, confidence)
        self.epochs = epochs

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.epochs.plan.engine

    # -- losses ----------------------------------------------------------------------------------------------

    def quote_losses(self, request: Request) -> Free | Measure | Split:
        question = request.question
        if isinstance(question, ConvexLoss):
            return self._quote_loss(request, question)
        assert isinstance(question, tuple), "one loss, or several"
        parts = []
        for loss in question:
            assert isinstance(loss, ConvexLoss), "a batch of losses"
            key = None if request.key is None else f"{request.key}:{loss.digest[:16]}"
            parts.append(self._quote_loss(request.but(question=loss, key=key), loss))
        return Split(request, self.state.knowledge, parts, list)

    def _quote_loss(self, request: Request, loss: ConvexLoss) -> Free | Measure:
        known, plan = self.state.knowledge, self.epochs.plan
        found = self.epochs.free(loss)  # refuses what the plan does not cover, whatever was paid
        if request.key is not None:
            if (told := self._told(request.key, loss)) is not None:
                return Free(request, known, self._model(loss, told))
            if self.state.charged(ASK + request.key):
                return Measure(request, known, 0)
        wanted = plan.error if request.error is None else excess_error(request.error)
        if found is not None and found.error <= wanted:
            return Free(request, known, self._model(loss, found))
        if wanted < plan.error:
            raise QueryError(
                f"this session certifies an excess risk of {plan.error:.3g}, not {wanted:.3g}: use engine='default'"
            )
        unfinished = request.key is None and self._unfinished(loss) is not None
        return Measure(request, known, 0 if unfinished else self.epochs.cost(loss))

    def buy(self, quote: Measure) -> Model:
        request, state = quote.request, self.state
        loss, key = request.question, request.key
        assert isinstance(loss, ConvexLoss), "questions about counts are free here, or refused"
        if key is not None and (told := self._told(key, loss)) is not None:
            return self._model(loss, told)  # another thread came first with the same key
        named = self._ledger_key(loss, key)
        if state.charged(named):
            reply = self._read_again(named, loss, request.analyst)
        else:
            try:
                reply = self.epochs.ask(loss, key=named, analyst=request.analyst)
            except BudgetError:
                if request.strict:
                    raise
                reply = self.epochs.guess(loss)
        # As the ledger has it, epochs included that a crash ended: the same whenever the key comes back.
        reply = reply._replace(cost=state.ledger.charged(named))
        if reply.origin == "measured":
            self._learn(loss, reply)
        elif key is not None and isfinite(reply.error):
            self._write_told(key, loss, reply)
        return self._model(loss, reply)

    def _read_again(self, named: str, loss: ConvexLoss, analyst: str | None) -> EpochReply:
        """What this key of the ledger has paid for, and the update that a crash kept it from making."""
        request = self.state.ledger.requested(named)
        assert request is not None, "charged before"
        minimizer = recorded_minimizer(request, loss, self.state.domain, self.state.curator.neighbours)
        return self.epochs.measure(minimizer, failed_guess(self.state.journal, named), key=named, analyst=analyst)

    def _ledger_key(self, loss: ConvexLoss, key: str | None) -> str:
        if key is not None:
            return ASK + key
        fresh = f"{ASK}loss:{loss.digest[:NAMED]}:{self.epochs.opened}:{self.epochs.tests}"
        return self._unfinished(loss) or fresh

    def _unfinished(self, loss: ConvexLoss) -> str | None:
        """The key of a minimiser of this loss that was charged without a key and never came to its answer."""
        for key in self.state.ledger.keys(f"{ASK}loss:{loss.digest[:NAMED]}:", "minimize"):
            found = self.state.ledger.lookup(key)
            if isinstance(found, Reservation) and found.status != "forfeited":
                return key
        return None

    def _learn(self, loss: ConvexLoss, reply: EpochReply) -> None:
        """What was bought is known from now on, as after a restart."""
        state = self.state
        assert reply.ledger_id is not None, "bought"
        request = state.ledger.requested(str(state.ledger.event(reply.ledger_id).key))
        assert request is not None, "settled"
        minimizer = recorded_minimizer(request, loss, state.domain, state.curator.neighbours)
        known = state.knowledge.with_model(loss, PaidModel(reply.theta, minimizer, reply.ledger_id))
        state.learn(known.with_current(self.epochs.snapshot))

    def _told(self, key: str, loss: ConvexLoss) -> EpochReply | None:
        """What a test told this key: the same key repeats it, also after a crash. A key belongs to one loss."""
        kept = self.state.journal.passed(key)
        if kept is None:
            return None
        if kept["asked"] != loss.digest:
            raise KeyReusedError("this key belongs to another question: use a new key")
        return EpochReply(
            np.asarray(kept["theta"]), kept["error"], kept["origin"], kept["gap"], kept["snapshot"], None, kept["cost"]
        )

    def _write_told(self, key: str, loss: ConvexLoss, reply: EpochReply) -> None:
        """Durable before the answer leaves: the epoch itself cannot come back, what it said can."""
        told = {name: part for name, part in reply._asdict().items() if name != "ledger_id"}
        told |= {"key": key, "asked": loss.digest, "theta": reply.theta.tolist()}
        self.state.journal.save_passed(told)

    def _model(self, loss: ConvexLoss, reply: EpochReply) -> Model:
        certified = isfinite(reply.error)
        return Model(
            loss, self.state.domain, reply.theta, reply.error if certified else None,
            self.confidence if certified else None, reply.origin, certified, self.state.budget.amount(reply.cost),
            reply.snapshot, reply.ledger_id, reply.gap,
        )  # fmt: skip

    # -- counts ----------------------------------------------------------------------------------------------

    def reading(self, query: Single, confidence: float, wanted: float | None) -> Reading | None:
        """What audits certify; the budget is kept for losses."""
        audited = [way for way in self.state.knowledge.readings(query, confidence) if way.origin == "certificate"]
        return best(audited, inf if wanted is None else wanted)

    def quote_single(self, request: Request, query: Single) -> Free:
        known = self.state.knowledge
        if isinstance(query, (Linear, Marginal)) and (constant := known_mean(query, self.state.domain)) is not None:
            return Free(request, known, constant)
        assert request.error is None or isinstance(request.error, float), "resolved before"
        reading = self.reading(query, request.confidence, request.error)
        if reading is not None:
            return Free(request, known, answered(known, query, reading, request.confidence))
        if request.error is not None:
            raise QueryError(
                f"engine {self.name!r} keeps its budget for losses and buys no counts: ask without an error, or open a"
                " session with engine='default'"
            )
        return Free(request, known, self.guessed(request, query))

    # -- the session -----------------------------------------------------------------------------------------

    def refit(self) -> bool:
        """Every private minimiser moved the hypothesis when it was bought."""
        return False

    def facts(self) -> Mapping[str, Any]:
        epochs, plan = self.epochs, self.epochs.plan
        planned = {
            "error": plan.error,
            "planned": plan.epochs,
            "opened": epochs.opened,
            "updates": epochs.updates,
            "losses": plan.losses,
            "tested": epochs.tests,
            "entropy": epochs.entropy if isfinite(epochs.entropy) else None,  # JSON knows no infinity
        }
        return {"epochs": planned}

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, *self.epochs.notes)


class Update(NamedTuple):
    """A private minimiser of an earlier run, and the parameters it was bought to replace."""

    loss: ConvexLoss
    there: np.ndarray
    here: np.ndarray | None
    ledger_id: int


def save_failed_guess(journal: Journal, key: str, loss: ConvexLoss, guess: EpochReply) -> None:
    """The parameters whose test came out "above", before `key` buys better ones."""
    told = {"loss": loss.digest, "theta": guess.theta.tolist(), "gap": guess.gap, "snapshot": guess.snapshot}
    journal.save_guesses(key, [], [told], None, None)


def failed_guess(journal: Journal, key: str) -> np.ndarray | None:
    """The last ones written under this key: it is never tested again once it is charged."""
    told = journal.guesses(key)
    return None if told is None else np.asarray(told["models"][0]["theta"])


def updates_of(journal: Journal) -> Iterator[Update]:
    """All that was bought, in the order of the updates."""
    for reservation in journal.ledger.settlements("minimize", ASK):
        request, event = journal.ledger.requested(reservation.key), journal.ledger.event(reservation.settled)
        assert request is not None, "settled"
        loss = loss_from_dict(request["minimizer"]["loss"])
        there = unpack_array(event.payload["values"][0])
        yield Update(loss, there, failed_guess(journal, reservation.key), event.sequence)
