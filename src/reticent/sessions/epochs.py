"""The textbook online mechanism: a public hypothesis answers until a noisy threshold test says that it errs (spec 6).

Plans are never mixed (spec 6.2): `textbook` (004) and `hardt-rothblum` (003) take the papers' constants with plain
steps, `tuned` has one-sided noise and projects to a conservative target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from reticent.errors import BudgetError
from reticent.hypotheses.base import Hypothesis, average, conservative_target
from reticent.hypotheses.choose import learned, read_snapshot
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.curator import Curator, Epoch, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.kernel.statistics import AnswerErrors, MaxError
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.outlines import essential, is_cell
from reticent.knowledge.tails import reach
from reticent.planning.thresholds import EpochPlan
from reticent.queries.base import Linear
from reticent.queries.forms import Form, Product
from reticent.queries.linear import Marginal

BLOCKS = 64
"""The planned tests are logged in so many blocks, ahead of use: a restart forgets at most one block."""
KEPT = 1 << 17
"""Questions whose verdicts are kept, so that a repeat costs no test."""


class Verdict(NamedTuple):
    """What one question got: fractions, their error (infinite if uncertified), where from, and the charge for them.

    `Epochs` states that of the measurement alone; an epoch that was opened for a key is charged under `epoch_key`.
    """

    values: np.ndarray
    error: float
    origin: str
    snapshot: str | None = None
    ledger_id: int | None = None
    cost: int = 0


class Epochs:
    """The running mechanism; callers serialise.

    A test bounds the error of a "below" answer whatever the hypothesis is, on a sampled support as well; only the
    number of updates rests on the whole universe (docs/proofs/online-textbook.md).
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
        # Rules are declared, not known: where a record violates one, no number of updates need suffice.
        self._whole = not isinstance(self._hypothesis, SupportHypothesis) and not self._hypothesis.domain.impossible
        self._measured: dict[str, tuple[np.ndarray, int]] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The hypothesis as it stands."""
        if self._snapshot is None:
            self._snapshot = Snapshot(self._hypothesis)
        return self._snapshot

    @property
    def finished(self) -> bool:
        """Whether so many updates are done that every further query errs less than the margin (spec 6.2).

        That rests on the whole universe: never on a support, given or moved to.
        """
        return self._whole and self.updates >= self.plan.epochs

    @property
    def whole(self) -> bool:
        """Whether the hypothesis is one of the whole universe: then the planned epochs suffice whatever is asked."""
        return self._whole

    def ask(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict:
        """BudgetError where the budget or the analyst's cap cannot pay what may follow; `guess` is what is left then.

        `key` names the measurement that "above" would buy, and `epoch_key` of it the epoch that is opened for it.
        """
        digest = query.digest
        verdict = self._seen.get(digest)
        if verdict is None:
            verdict = self._tested(query, key, analyst)
            if len(self._seen) < KEPT:
                self._seen[digest] = verdict._replace(cost=0)
        return verdict

    def cost(self, query: Linear | Marginal) -> int:
        """The most that asking can charge: a measurement, and an epoch if none is open; no fact about the rows."""
        if self.finished or query.digest in self._seen:
            return 0
        measurement = self._curator.budget.cost(self._curator.price([query], self.noise(query)))
        return measurement if self.running else measurement + self.epoch_cost

    @property
    def epoch_cost(self) -> int:
        """What opening an epoch charges."""
        return self._curator.budget.cost(self.plan.mechanism.price())

    def guess(self, query: Linear | Marginal) -> Verdict:
        """The hypothesis' own answer: certified only when all updates are done."""
        error = self.plan.rest if self.finished else math.inf
        return Verdict(
            self._guessed(query), error, "tested" if error < math.inf else "hypothesis", self.snapshot.digest
        )

    def measure(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict:
        """Buy the answer and learn from it; a key that was answered before is read from the ledger."""
        settled = self._curator.measure([query], self.noise(query), key=key, analyst=analyst)
        values = np.asarray(settled.values[0]) / self._records
        verdict = Verdict(values, self.plan.measured, "measured", None, settled.ledger_id, settled.cost)
        self.absorb(query, values, settled.ledger_id)
        return verdict

    def recall(self, query: Linear | Marginal) -> Verdict | None:
        """What was measured before about this question, in whatever words, or about all cells it is one of.

        Within the plan's bound, which holds for all measurements of the run together with its tests; a bound for this
        one noise alone would be smaller, and one of many such bounds would fail far more often than planned.
        """
        found = self._measured.get(self._name(query))
        if found is None and isinstance(query, Linear):
            form = essential(query.compile(self._hypothesis.domain))
            if is_cell(form):
                found = self._measured.get(self._name(Marginal(form.attributes)))
                found = found and (np.asarray(average(form, found[0])), found[1])
        return found and Verdict(found[0], self.plan.measured, "cache", None, found[1])

    def _name(self, query: Linear | Marginal) -> str:
        domain = self._hypothesis.domain
        if isinstance(query, Linear):
            return essential(query.compile(domain)).digest
        return Marginal(query.canonical(domain)).digest

    def absorb(self, query: Linear | Marginal, values: np.ndarray, ledger_id: int) -> None:
        """One update from a measurement, once; a replay of the same measurements gives the same hypothesis."""
        if ledger_id in self._absorbed:
            return
        self._absorbed.add(ledger_id)
        self._measured.setdefault(self._name(query), (values, ledger_id))
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
        form, value = _worst(hypothesis, query, values)
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
        if not self._curator.exceeds(self._error(query, guess), epoch):
            return Verdict(guess, self.plan.error, "tested", self.snapshot.digest)
        return self.measure(query, key=key, analyst=analyst)

    def _require_means(self, query: Linear | Marginal, key: str, analyst: str | None) -> None:
        """Epoch and measurement are paid together (spec 6.1), by whoever asks, or the test is not made.

        An "above" ends the epoch: who cannot pay what it buys would end what others paid for, again and again.
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
        """The epoch that the next test belongs to; None where one must be opened for it."""
        return self._epoch if self._epoch is not None and self._epoch.open else None

    def _begin(self, key: str, analyst: str | None) -> Epoch:
        # Numbered by all epochs of the ledger: a key that comes back after a crash opens, and pays, another one.
        named = f"{epoch_key(key)}:{self.opened}"
        threshold = self.plan.threshold * self._records
        self._epoch = self._curator.watch(threshold, self.plan.mechanism, key=named, analyst=analyst)
        self.opened += 1
        return self._epoch

    def _count_test(self) -> None:
        """Tests share one union bound; they are counted durably, a block ahead."""
        self.tests += 1
        if self.tests > self._logged:
            self._logged = min(self.plan.queries, self.tests + self.plan.queries // BLOCKS)
            self._log_tests(self._logged)

    def noise(self, query: Linear | Marginal) -> Noise:
        """One query gets the plan's noise; all cells of a marginal stay within the same bound, at a higher price."""
        noise = self.plan.measurement
        if isinstance(query, Linear):
            return noise
        cells = self._hypothesis.domain.cells(query.canonical(self._hypothesis.domain))
        return narrowed(noise, cells, self.plan.each_failure)

    def _guessed(self, query: Linear | Marginal) -> np.ndarray:
        if isinstance(query, Linear):
            return np.asarray(read_snapshot(self.snapshot, lambda held: held.expect(query)))
        names = query.canonical(self._hypothesis.domain)
        return read_snapshot(self.snapshot, lambda held: held.marginal(names))

    def _error(self, query: Linear | Marginal, guess: np.ndarray) -> AnswerErrors | MaxError:
        """A GROUP BY is one question: its largest cell error has the sensitivity of one (spec 6.3)."""
        if isinstance(query, Linear):
            return AnswerErrors((query,), guess * self._records, self._hypothesis.domain)
        return MaxError("cells", (query.canonical(self._hypothesis.domain),), (guess * self._records,))


def _worst(hypothesis: Hypothesis, query: Linear | Marginal, values: np.ndarray) -> tuple[Form, float]:
    """The query itself, or the cell whose noisy value is farthest from the hypothesis."""
    domain = hypothesis.domain
    if isinstance(query, Linear):
        return query.compile(domain), float(values)
    names = query.canonical(domain)
    place = np.unravel_index(int(np.argmax(np.abs(values - hypothesis.marginal(names)))), values.shape)
    vectors = [np.zeros(size) for size in values.shape]
    for vector, code in zip(vectors, place, strict=True):
        vector[code] = 1.0
    return Product(names, tuple(vectors)), float(values[place])


def epoch_key(key: str) -> str:
    """Where the ledger keeps what was charged for epochs that were opened for a question's key."""
    return f"{key}:epoch"


def narrowed(noise: Noise, cells: int, failure: float) -> Noise:
    """Noise whose largest of `cells` draws stays where one draw of `noise` stays, each but with `failure`."""
    ratio = reach(noise, failure / 2) / reach(noise, failure / (2 * cells))
    if isinstance(noise, Gaussian):
        return Gaussian(float(noise.sigma) * ratio)
    assert isinstance(noise, Laplace)
    return Laplace(float(noise.scale) * ratio)
