"""The textbook online mechanism: a public hypothesis answers until a noisy threshold test says that it errs (spec 6).

Two plans exist and are never mixed (spec 6.2): `textbook` takes the papers' constants with plain steps, `tuned` has
one-sided noise and projects to a conservative target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from reticent.algorithms.knowledge import Knowledge
from reticent.algorithms.tails import reach
from reticent.errors import BudgetError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.projection import conservative_target
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Epoch, Noise
from reticent.kernel.mechanisms import AboveThreshold, Gaussian, Laplace, restore
from reticent.kernel.statistics import AnswerErrors, MaxError
from reticent.queries.base import Linear
from reticent.queries.forms import Form, Product
from reticent.queries.linear import Marginal

BLOCKS = 64
"""The planned tests are logged in so many blocks, ahead of use: a restart forgets at most one block."""
KEPT = 1 << 17
"""Questions whose verdicts are kept, so that a repeat costs no test."""


@dataclass(frozen=True)
class EpochPlan:
    """All constants of one run, as fractions of the table; `failure` covers every noise of the run together."""

    engine: str
    queries: int
    epochs: int
    failure: float
    threshold: float
    error: float
    """Of an answer that passed its test."""
    measured: float
    """Bounds the noise of every measurement."""
    rest: float
    """Of every answer once `epochs` updates are done."""
    step: float
    """Of a plain update; 0 projects to the measurement, moved by `measured` toward the hypothesis."""
    watch: dict[str, str]
    noise: dict[str, str]

    @property
    def mechanism(self) -> AboveThreshold:
        return restore(self.watch)  # pyright: ignore[reportReturnType]

    @property
    def measurement(self) -> Noise:
        return restore(self.noise)  # pyright: ignore[reportReturnType]

    def widened(self, records_error: float) -> EpochPlan:
        """For a noisy number of records (spec 1.1)."""
        return replace(
            self,
            threshold=self.threshold + records_error,
            error=self.error + 2 * records_error,
            measured=self.measured + records_error,
            rest=self.rest + records_error,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> EpochPlan:
        return cls(**fields)


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
    """The running mechanism; callers serialise. `certified` is false on a sampled support (spec 6.4)."""

    def __init__(
        self,
        curator: Curator,
        plan: EpochPlan,
        knowledge: Knowledge,
        *,
        confidence: float = 0.95,
        certified: bool = True,
        opened: int = 0,
        tests: int = 0,
        log_tests: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.plan = plan
        self.confidence = confidence
        self.certified = certified
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

    @property
    def snapshot(self) -> Snapshot:
        """The hypothesis as it stands."""
        if self._snapshot is None:
            self._snapshot = Snapshot(self._hypothesis)
        return self._snapshot

    @property
    def finished(self) -> bool:
        """Whether so many updates are done that every further query errs less than the margin (spec 6.2)."""
        return self.updates >= self.plan.epochs

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
        budget = self._curator.budget
        measurement = budget.cost(self._curator.price([query], self.noise(query)))
        return measurement if self._running() else measurement + budget.cost(self.plan.mechanism.price())

    def guess(self, query: Linear | Marginal) -> Verdict:
        """The hypothesis' own answer: certified only when all updates are done."""
        error = self.plan.rest if self.finished and self.certified else math.inf
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

    def absorb(self, query: Linear | Marginal, values: np.ndarray, ledger_id: int) -> None:
        """One update from a measurement, once; a replay of the same measurements gives the same hypothesis."""
        if ledger_id in self._absorbed:
            return
        self._absorbed.add(ledger_id)
        form, value = self._worst(query, values)
        guess = self._hypothesis.expect(form)
        if self.plan.step:
            self._hypothesis.reweight(form, math.copysign(self.plan.step, value - guess))
        else:
            target = conservative_target(measured=value, bound=self.plan.measured, guess=guess)
            if target is None:
                return
            self._hypothesis.project(form, target)
        self.updates += 1
        self._snapshot = None

    def _tested(self, query: Linear | Marginal, key: str, analyst: str | None) -> Verdict:
        if self.finished:
            return self.guess(query)
        if self.tests >= self.plan.queries:
            raise BudgetError(
                f"the plan's {self.plan.queries} questions are used up: open the session with more queries",
                requested=float(self.tests + 1),
                remaining=0.0,
            )
        self._require_means(query, key, analyst)
        epoch = self._running() or self._begin(key, analyst)
        guess = self._guessed(query)
        self._count_test()
        if not self._curator.exceeds(self._error(query, guess), epoch):
            error = self.plan.error if self.certified else math.inf
            return Verdict(guess, error, "tested" if self.certified else "hypothesis", self.snapshot.digest)
        return self.measure(query, key=key, analyst=analyst)

    def _require_means(self, query: Linear | Marginal, key: str, analyst: str | None) -> None:
        """Epoch and measurement are paid together (spec 6.1), by whoever asks, or the test is not made.

        An "above" ends the epoch: who cannot pay what it buys would end what others paid for, again and again.
        """
        if self._running() is None and self.opened >= self.plan.epochs:
            raise BudgetError(
                f"the plan's {self.plan.epochs} epochs are used up: strict=False answers from the hypothesis",
                requested=float(self.opened + 1),
                remaining=0.0,
            )
        self._curator.affordable(self.cost(query), key=key, analyst=analyst)

    def _running(self) -> Epoch | None:
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
        return narrowed(noise, cells, self.plan.failure / (3 * self.plan.epochs))

    def _guessed(self, query: Linear | Marginal) -> np.ndarray:
        if isinstance(query, Linear):
            return np.asarray(self.snapshot.expect(query))
        return self.snapshot.marginal(query.canonical(self._hypothesis.domain))

    def _error(self, query: Linear | Marginal, guess: np.ndarray) -> AnswerErrors | MaxError:
        """A GROUP BY is one question: its largest cell error has the sensitivity of one (spec 6.3)."""
        if isinstance(query, Linear):
            return AnswerErrors((query,), guess * self._records, self._hypothesis.domain)
        return MaxError("cells", (query.canonical(self._hypothesis.domain),), (guess * self._records,))

    def _worst(self, query: Linear | Marginal, values: np.ndarray) -> tuple[Form, float]:
        """The query itself, or the cell whose noisy value is farthest from the hypothesis."""
        domain = self._hypothesis.domain
        if isinstance(query, Linear):
            return query.compile(domain), float(values)
        names = query.canonical(domain)
        place = np.unravel_index(int(np.argmax(np.abs(values - self._hypothesis.marginal(names)))), values.shape)
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
