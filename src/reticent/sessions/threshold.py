"""The threshold engines: a noisy test first, and a measurement if the hypothesis fails it (spec 6).

`TestedCounts` is common to them and to the convex engines, whose runs answer counts as well.

`textbook` (004), `hardt-rothblum` (003) and `tuned` are plans of one mechanism (`sessions/epochs.py`). Every answer is
within the plan's error, and all of them hold jointly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any, Protocol

from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Epoch, Noise, Settled, pack_array, unpack_array
from reticent.knowledge.answer import Answer
from reticent.knowledge.free import answered, known_mean, share_of, uncertified
from reticent.knowledge.knowledge import Reading, Single, best
from reticent.knowledge.learning import learn, understand
from reticent.knowledge.request import Request
from reticent.queries.base import Linear, Query
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal
from reticent.sessions.count_tests import Verdict, epoch_key
from reticent.sessions.engine import Free, Measure, Quote, SessionEngine
from reticent.sessions.epochs import Epochs
from reticent.sessions.journal import ASK, Journal, reused
from reticent.sessions.state import State


class CountMechanism(Protocol):
    """A run that answers counts: each is tested, and measured if its test fails."""

    @property
    def error(self) -> float: ...
    @property
    def opened(self) -> int: ...
    @property
    def tests(self) -> int: ...
    @property
    def running(self) -> Epoch | None: ...
    @property
    def epoch_cost(self) -> int: ...
    @property
    def snapshot(self) -> Snapshot: ...
    def ask(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict: ...
    def guess(self, query: Linear | Marginal) -> Verdict: ...
    def cost(self, query: Linear | Marginal) -> int: ...
    def measure(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict: ...
    def recall(self, query: Linear | Marginal) -> Verdict | None: ...
    def noise(self, query: Linear | Marginal) -> Noise: ...


class TestedCounts(SessionEngine):
    """An engine that tests counts. Payments are serialised: every test belongs to the one running epoch."""

    __test__ = False
    """Tells pytest that this class is not a test."""

    def __init__(self, state: State, confidence: float, counts: CountMechanism) -> None:
        # The constants were chosen for the confidence of the first opening.
        super().__init__(state, confidence)
        self.counts = counts

    def splits(self, query: Groups) -> bool:
        """Always true: a test compares one question."""
        return True

    def reading(self, request: Request, query: Single, wanted: float | None) -> Reading | None:
        """Free readings that do not affect the run's joint guarantee: repeated measurements of the run, and
        certificates.

        Sums of measured cells are excluded: their bounds have a separate confidence.
        """
        wanted = self.counts.error if wanted is None else wanted
        repeated = None if isinstance(query, Groups) else self.counts.recall(query)
        if repeated is not None and repeated.error <= wanted:
            return Reading(repeated.error, "cache", lambda: repeated.values, None, repeated.ledger_id)
        audited = [
            way for way in self.state.knowledge.readings(query, request.confidence) if way.origin == "certificate"
        ]
        return best(audited, wanted)

    def quote_single(self, request: Request, query: Single) -> Free | Measure:
        known, domain = self.state.knowledge, self.state.domain
        assert isinstance(query, (Linear, Marginal)), "groups are asked one by one"
        assert request.error is None or isinstance(request.error, float), "resolved before"
        if (constant := known_mean(query, domain)) is not None:
            return Free(request, known, constant)
        wanted = None if request.error is None else share_of(query, request.error, domain)
        if request.key is not None:
            told = tested(self.state.journal, request.key, query)
            if told is not None:
                return Free(request, known, self._judged(query, told))
            if self.state.charged(ASK + request.key):
                return Measure(request, known, 0)
        reading = self.reading(request, query, wanted)
        if reading is not None:
            stated = self.confidence if reading.origin == "cache" else request.confidence
            return Free(request, known, answered(known, query, reading, stated))
        if wanted is not None and wanted < self.counts.error:
            raise QueryError(
                f"this session certifies errors of {self.counts.error:.3g}, not {wanted:.3g}: use engine='default'"
            )
        return Measure(request, known, self.counts.cost(query))

    def buy_count(self, request: Request, query: Linear | Marginal) -> Answer:
        """Test, measure if the test fails, and answer; the caller holds the lock."""
        key, counts = request.key, self.counts
        if key is not None and (told := tested(self.state.journal, key, query)) is not None:
            return self._judged(query, told)  # another thread came first with the same key
        if key is not None and self.state.charged(ASK + key):
            measured = counts.measure(query, key=ASK + key, analyst=request.analyst)
            return self._judged(query, self._with_epochs(key, measured))
        named = key or f"epoch:{counts.opened}:{query.digest[:24]}:{counts.tests}"
        opened = counts.opened
        try:
            verdict = counts.ask(query, key=ASK + named, analyst=request.analyst)
            if key is not None or counts.opened > opened:  # free tests need no look into a long ledger
                verdict = self._with_epochs(named, verdict)
        except BudgetError:
            if request.strict:
                raise
            verdict = counts.guess(query)
        if key is not None and verdict.cost and verdict.origin != "measured":
            write_tested(self.state.journal, key, query, verdict)
        return self._judged(query, verdict)

    def between(self, parts: Sequence[Quote]) -> int:
        """The price of another epoch: a part that fails its test ends the running epoch, and the next part opens
        another.
        """
        if self.counts.running is None:
            return 0
        return self.counts.epoch_cost * max(0, sum(part.price > 0 for part in parts) - 1)

    def unpaid(self, request: Request, query: Single) -> Answer:
        assert isinstance(query, (Linear, Marginal)), "groups are asked one by one"
        guess = self.counts.guess(query)
        if request.strict and not isfinite(guess.error):
            raise uncertified(query)
        return self._judged(query, guess)

    def refit(self) -> bool:
        """Nothing to do: every purchase has already moved the hypothesis."""
        return False

    def _with_epochs(self, key: str, verdict: Verdict) -> Verdict:
        """The whole price of a key's answer according to the ledger, so that it is the same for every repetition.

        It includes epochs that a crash ended before the answer was returned, because they were charged for this key
        too.
        """
        return verdict._replace(cost=verdict.cost + self.state.ledger.charged(epoch_key(ASK + key)))

    def _judged(self, query: Linear | Marginal, verdict: Verdict) -> Answer:
        """Add the measurement to the knowledge, as a restart would."""
        if verdict.cost and verdict.ledger_id is not None and verdict.origin == "measured":
            self._learn_count(query, verdict, verdict.ledger_id)
        reading = Reading(verdict.error, verdict.origin, lambda: verdict.values, verdict.snapshot, verdict.ledger_id)
        return answered(self.state.knowledge, query, reading, self.confidence, verdict.cost)

    def _learn_count(self, query: Linear | Marginal, verdict: Verdict, ledger_id: int) -> None:
        knowledge = self.state.knowledge
        known = {m.ledger_id for repeats in knowledge.queries.values() for m in repeats}
        if ledger_id not in known | {m.ledger_id for m in knowledge.marginals}:
            settled = Settled((verdict.values * knowledge.records,), verdict.cost, ledger_id)
            measured = understand(knowledge, [query], [self.counts.noise(query)], settled)
            self.state.learn(learn(knowledge, measured, fitted=True).with_current(self.counts.snapshot))


class ThresholdEngine(TestedCounts):
    """A threshold engine; without budget the hypothesis answers."""

    def __init__(self, state: State, epochs: Epochs) -> None:
        super().__init__(state, epochs.confidence, epochs)
        self.epochs = epochs

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.epochs.plan.engine

    @property
    def own_error(self) -> float:
        return self.epochs.plan.error

    def buy(self, quote: Measure) -> Answer:
        query = quote.request.question
        assert isinstance(query, (Linear, Marginal)), "groups are asked one by one"
        return self.buy_count(quote.request, query)

    def facts(self) -> Mapping[str, Any]:
        epochs, plan = self.epochs, self.epochs.plan
        planned = {
            "error": plan.error,
            "planned": plan.epochs,
            "opened": epochs.opened,
            "updates": epochs.updates,
            "questions": plan.queries,
            "tested": epochs.tests,
            "suffice": epochs.whole,
            "gamma": plan.gamma,
        }
        return {"epochs": planned}

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, *self.epochs.notes)


def tested(journal: Journal, key: str, query: Query) -> Verdict | None:
    """The result of a test for which this key opened an epoch: the same key repeats it, also after a crash.

    A key belongs to one question.
    """
    kept = journal.passed(key)
    if kept is None:
        return None
    if kept["asked"] != query.digest:
        raise reused(key)
    error = inf if kept["error"] is None else kept["error"]
    return Verdict(unpack_array(kept["values"]), error, kept["origin"], kept["snapshot"], None, kept["cost"])


def write_tested(journal: Journal, key: str, query: Query, verdict: Verdict) -> None:
    """Record a test result on disk before it is returned, at most once per epoch; the epoch cannot be restored, its
    result can.
    """
    journal.save_passed(
        {
            "key": key,
            "asked": query.digest,
            "values": pack_array(verdict.values),
            "error": verdict.error if isfinite(verdict.error) else None,
            "origin": verdict.origin,
            "snapshot": verdict.snapshot,
            "cost": verdict.cost,
        }
    )
