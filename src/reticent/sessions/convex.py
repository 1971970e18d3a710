"""The convex engines: each loss within one excess risk, by private multiplicative weights (spec 8.3).

`convex-textbook` and `convex-tuned` are two plans of one mechanism (`sessions/convex_epochs.py`; 001, Fig. 3). All
answers of a session hold jointly. A loss is free while a noisy test accepts the hypothesis' own minimiser. Whether a
test is allowed depends on the plan, the budget and public state, never on the rows. Counts are tested and bought in the
same run (`sessions/convex_counts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

import numpy as np

from reticent.errors import BudgetError, QueryError
from reticent.kernel.curator import unpack_array
from reticent.kernel.ledger.columns import Reservation
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import answered, known_mean
from reticent.knowledge.knowledge import Reading, Single
from reticent.knowledge.minimizers import recorded_minimizer
from reticent.knowledge.paid_models import PaidModel
from reticent.knowledge.request import Request, excess_error
from reticent.losses.losses import ConvexLoss, loss_from_dict
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal
from reticent.releases.models import Model
from reticent.sessions.convex_counts import ConvexCounts
from reticent.sessions.convex_epochs import ConvexEpochs, EpochReply
from reticent.sessions.engine import Free, Measure, Split
from reticent.sessions.journal import ASK, Journal, reused
from reticent.sessions.state import State
from reticent.sessions.threshold import TestedCounts

NAMED = 24
"""Digits of a loss' digest in the ledger's keys."""


class ConvexEngine(TestedCounts):
    """Tests every loss that is asked, and every count with a requested error; other counts are free."""

    def __init__(self, state: State, epochs: ConvexEpochs, counts: ConvexCounts, confidence: float) -> None:
        super().__init__(state, confidence, counts)
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

    def buy(self, quote: Measure) -> Model | Answer:
        request = quote.request
        if isinstance(request.question, ConvexLoss):
            return self._buy_model(request, request.question)
        assert isinstance(request.question, (Linear, Marginal)), "groups are asked one by one"
        return self.buy_count(request, request.question)

    def _buy_model(self, request: Request, loss: ConvexLoss) -> Model:
        state, key = self.state, request.key
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
        # The price in the ledger, including epochs that a crash ended: the same for every repetition of the key.
        reply = reply._replace(cost=state.ledger.charged(named))
        if reply.origin == "measured":
            self._learn(loss, reply)
        elif key is not None and isfinite(reply.error):
            self._write_told(key, loss, reply)
        return self._model(loss, reply)

    def _read_again(self, named: str, loss: ConvexLoss, analyst: str | None) -> EpochReply:
        """The result that this ledger key has paid for, and the update that a crash prevented."""
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
        """The key of a minimiser for this loss that was charged without a user's key and has no result yet."""
        for key in self.state.ledger.keys(f"{ASK}loss:{loss.digest[:NAMED]}:", "minimize"):
            found = self.state.ledger.lookup(key)
            if isinstance(found, Reservation) and found.status != "forfeited":
                return key
        return None

    def _learn(self, loss: ConvexLoss, reply: EpochReply) -> None:
        """Add a purchased model to the knowledge, as a restart would."""
        state = self.state
        assert reply.ledger_id is not None, "bought"
        request = state.ledger.requested(str(state.ledger.event(reply.ledger_id).key))
        assert request is not None, "settled"
        minimizer = recorded_minimizer(request, loss, state.domain, state.curator.neighbours)
        known = state.knowledge.with_model(loss, PaidModel(reply.theta, minimizer, reply.ledger_id))
        state.learn(known.with_current(self.epochs.snapshot))

    def _told(self, key: str, loss: ConvexLoss) -> EpochReply | None:
        """The test result of this key: the same key repeats it, also after a crash. A key belongs to one loss."""
        kept = self.state.journal.passed(key)
        if kept is None:
            return None
        if kept["asked"] != loss.digest:
            raise reused(key)
        return EpochReply(
            np.asarray(kept["theta"]), kept["error"], kept["origin"], kept["gap"], kept["snapshot"], None, kept["cost"]
        )

    def _write_told(self, key: str, loss: ConvexLoss, reply: EpochReply) -> None:
        """Record a test result on disk before it is returned: the epoch cannot be restored, its result can."""
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

    def reading(self, request: Request, query: Single, wanted: float | None) -> Reading | None:
        """Without a requested error, the best available reading, including certificates weaker than a test."""
        return super().reading(request, query, inf if wanted is None else wanted)

    def quote_single(self, request: Request, query: Single) -> Free | Measure:
        if request.error is not None or self._begun(request.key):
            return super().quote_single(request, query)
        known = self.state.knowledge
        if isinstance(query, (Linear, Marginal)) and (constant := known_mean(query, self.state.domain)) is not None:
            return Free(request, known, constant)
        if (reading := self.reading(request, query, None)) is not None:
            stated = self.confidence if reading.origin == "cache" else request.confidence
            return Free(request, known, answered(known, query, reading, stated))
        return Free(request, known, self.guessed(request, query))

    def _begun(self, key: str | None) -> bool:
        """Whether a test or purchase was made under this key, which then repeats it."""
        return key is not None and (self.state.charged(ASK + key) or self.state.journal.passed(key) is not None)

    # -- the session -----------------------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        epochs, plan = self.epochs, self.epochs.plan
        planned = {
            "error": plan.error,
            "counts within": self.counts.error,
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


def save_failed_guess(journal: Journal, key: str, loss: ConvexLoss, guess: EpochReply) -> None:
    """Record the parameters that failed their test, before `key` buys better ones."""
    told = {"loss": loss.digest, "theta": guess.theta.tolist(), "gap": guess.gap, "snapshot": guess.snapshot}
    journal.save_guesses(key, [], [told], None, None)


def failed_guess(journal: Journal, key: str) -> np.ndarray | None:
    """The last parameters recorded under this key; a charged key is never tested again."""
    told = journal.guesses(key)
    return None if told is None else np.asarray(told["models"][0]["theta"])


def learn_again(journal: Journal, epochs: ConvexEpochs, counts: ConvexCounts) -> None:
    """Repeat every update of earlier runs, of losses and of counts, in their original order."""
    steps = [(event.settled, event.key, None) for event in journal.ledger.settlements("minimize", ASK)]
    steps += [(bought.sequence, bought.key, bought) for bought in journal.bought(ASK)]
    for place, key, bought in sorted(steps, key=lambda one: one[0]):
        if bought is not None:
            released, query = journal.released(bought, epochs.snapshot.domain), bought.queries[0]
            assert isinstance(query, (Linear, Marginal)), "groups are measured one by one"
            counts.absorb(query, np.asarray(released.values[0]) / epochs.plan.records, released.ledger_id)
            continue
        request, event = journal.ledger.requested(key), journal.ledger.event(place)
        assert request is not None, "settled"
        loss = loss_from_dict(request["minimizer"]["loss"])
        epochs.absorb(loss, unpack_array(event.payload["values"][0]), failed_guess(journal, key), event.sequence)
