"""The textbook online mechanism: a public hypothesis answers until a noisy threshold test rejects it (spec 6).

Plans are never mixed (spec 6.2): `textbook` (004) and `hardt-rothblum` (003) use the papers' constants with plain
steps, `tuned` has one-sided noise and projects to a conservative target.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from reticent.errors import BudgetError
from reticent.hypotheses.base import Hypothesis, conservative_target
from reticent.hypotheses.choose import learned
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.curator import Curator, Epoch, Noise
from reticent.knowledge.knowledge import Knowledge
from reticent.planning.thresholds import EpochPlan
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal
from reticent.sessions.count_tests import (
    KEPT,
    MeasuredCounts,
    Verdict,
    epoch_key,
    error_of,
    farthest_value,
    guessed,
    noise_for,
)

BLOCKS = 64
"""The planned tests are recorded in this many blocks, ahead of use: a restart loses at most one block."""


class Epochs:
    """The running mechanism; callers serialise.

    A test bounds the error of a "below" answer for every hypothesis, also on a sampled support; only the number of
    updates depends on the whole universe (docs/proofs/online-textbook.md).
    """

    def __init__(
        self,
        curator: Curator,
        plan: EpochPlan,
        knowledge: Knowledge,
        *,
        confidence: float = 0.95,
        opened: int = 0,
        tests: int = 0,
        log_tests: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.plan = plan
        self.confidence = confidence
        self.updates = 0
        self.opened = opened
        self.tests = tests
        self._curator = curator
        self._records = knowledge.records
        self._hypothesis: Hypothesis = knowledge.current.thaw()
        self._snapshot: Snapshot | None = knowledge.current
        self._epoch: Epoch | None = None
        self._logged = tests
        self._log_tests = log_tests
        self._seen: dict[str, Verdict] = {}
        self._absorbed: set[int] = set()
        self.notes: list[str] = []
        # Rules are declared, not certified: if a record violates one, no number of updates need suffice.
        self._whole = not isinstance(self._hypothesis, SupportHypothesis) and not self._hypothesis.domain.impossible
        self._measured = MeasuredCounts(knowledge.domain)

    @property
    def error(self) -> float:
        """The error of an answer that passed its test."""
        return self.plan.error

    @property
    def snapshot(self) -> Snapshot:
        """The current hypothesis."""
        if self._snapshot is None:
            self._snapshot = Snapshot(self._hypothesis)
        return self._snapshot

    @property
    def finished(self) -> bool:
        """Whether so many updates were made that the error of every further query is below the margin (spec 6.2).

        This requires the whole universe; it never holds on a support.
        """
        return self._whole and self.updates >= self.plan.epochs

    @property
    def whole(self) -> bool:
        """Whether the hypothesis covers the whole universe; the planned epochs then suffice for all questions."""
        return self._whole

    def ask(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict:
        """Answer a question. BudgetError if the budget or the analyst's cap cannot pay a possible purchase; `guess`
        remains available.

        `key` names the measurement that "above" would buy; its `epoch_key` names the epoch opened for it.
        """
        digest = query.digest
        verdict = self._seen.get(digest)
        if verdict is None:
            verdict = self._tested(query, key, analyst)
            if len(self._seen) < KEPT:
                self._seen[digest] = verdict._replace(cost=0)
        return verdict

    def cost(self, query: Linear | Marginal) -> int:
        """An upper bound on the charge: a measurement, and an epoch if none is open; independent of the rows."""
        if self.finished or query.digest in self._seen:
            return 0
        measurement = self._curator.budget.cost(self._curator.price([query], self.noise(query)))
        return measurement if self.running else measurement + self.epoch_cost

    @property
    def epoch_cost(self) -> int:
        """The charge for opening an epoch."""
        return self._curator.budget.cost(self.plan.mechanism.price())

    def guess(self, query: Linear | Marginal) -> Verdict:
        """The hypothesis' own answer, certified only if all updates are done."""
        error = self.plan.rest if self.finished else math.inf
        return Verdict(
            self._guessed(query), error, "tested" if error < math.inf else "hypothesis", self.snapshot.digest
        )

    def measure(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict:
        """Buy the answer and learn from it; an answered key is read from the ledger."""
        settled = self._curator.measure([query], self.noise(query), key=key, analyst=analyst)
        values = np.asarray(settled.values[0]) / self._records
        verdict = Verdict(values, self.plan.measured, "measured", None, settled.ledger_id, settled.cost)
        self.absorb(query, values, settled.ledger_id)
        return verdict

    def recall(self, query: Linear | Marginal) -> Verdict | None:
        """An earlier measurement of an equivalent question, or of a marginal that contains it.

        The stated bound is the plan's, which holds jointly for all measurements and tests of the run. A bound for a
        single noise would be smaller, but one of many such bounds would fail far more often than planned.
        """
        found = self._measured.find(query)
        return found and Verdict(found[0], self.plan.measured, "cache", None, found[1])

    def absorb(self, query: Linear | Marginal, values: np.ndarray, ledger_id: int) -> None:
        """One update from a measurement, applied once; a replay of the same measurements gives the same hypothesis."""
        if ledger_id in self._absorbed:
            return
        self._absorbed.add(ledger_id)
        self._measured.add(query, values, ledger_id)
        before = self._hypothesis
        self._hypothesis, moved, note = learned(before, lambda held: self._update(held, query, values))
        self._whole = self._whole and self._hypothesis.kind == before.kind
        if note and note not in self.notes:
            self.notes.append(note)
        if moved:
            self.updates += 1
        if moved or note:
            self._snapshot = None

    def _update(self, hypothesis: Hypothesis, query: Linear | Marginal, values: np.ndarray) -> bool:
        """Whether the measurement is far enough from the hypothesis to move it."""
        form, value = farthest_value(hypothesis, query, values)
        guess = hypothesis.expect(form)
        if self.plan.step:
            hypothesis.reweight(form, math.copysign(self.plan.step, value - guess))
            return True
        target = conservative_target(measured=value, bound=self.plan.shift, guess=guess)
        if target is None:
            return False
        hypothesis.project(form, target)
        return True

    def _tested(self, query: Linear | Marginal, key: str, analyst: str | None) -> Verdict:
        if self.finished:
            return self.guess(query)
        if self.tests >= self.plan.queries:
            raise BudgetError(
                f"the plan's {self.plan.queries} questions are used up: open the session with more queries",
                requested=self._curator.budget.amount(self.cost(query)),
                remaining=0.0,
            )
        guess = self._guessed(query)  # what has no guess is refused before an epoch is opened for it
        self._require_means(query, key, analyst)
        epoch = self.running or self._begin(key, analyst)
        self._count_test()
        if not self._curator.exceeds(error_of(query, guess, self._records, self._hypothesis.domain), epoch):
            return Verdict(guess, self.plan.error, "tested", self.snapshot.digest)
        return self.measure(query, key=key, analyst=analyst)

    def _require_means(self, query: Linear | Marginal, key: str, analyst: str | None) -> None:
        """Refuse the test unless the asking analyst can pay epoch and measurement together (spec 6.1).

        An "above" ends the epoch: an analyst who cannot pay for the measurement would repeatedly end epochs that others
        paid for.
        """
        if self.running is None and self.opened >= self.plan.epochs:
            raise BudgetError(
                f"the plan's {self.plan.epochs} epochs are used up: strict=False answers from the hypothesis",
                requested=self._curator.budget.amount(self.cost(query)),
                remaining=0.0,
            )
        self._curator.affordable(self.cost(query), key=key, analyst=analyst)

    @property
    def running(self) -> Epoch | None:
        """The epoch of the next test; None if a new one must be opened."""
        return self._epoch if self._epoch is not None and self._epoch.open else None

    def _begin(self, key: str, analyst: str | None) -> Epoch:
        # Numbered by all epochs of the ledger: a key that is used again after a crash opens and pays another epoch.
        named = f"{epoch_key(key)}:{self.opened}"
        threshold = self.plan.threshold * self._records
        self._epoch = self._curator.watch(threshold, self.plan.mechanism, key=named, analyst=analyst)
        self.opened += 1
        return self._epoch

    def _count_test(self) -> None:
        """Count a test on disk, a block ahead; all tests share one union bound."""
        self.tests += 1
        if self.tests > self._logged:
            self._logged = min(self.plan.queries, self.tests + self.plan.queries // BLOCKS)
            self._log_tests(self._logged)

    def noise(self, query: Linear | Marginal) -> Noise:
        """The noise of a measurement; the cells of a marginal share its failure probability."""
        return noise_for(query, self.plan.measurement, self.plan.each_failure, self._hypothesis.domain)

    def _guessed(self, query: Linear | Marginal) -> np.ndarray:
        return guessed(self.snapshot, query)
