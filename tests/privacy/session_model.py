"""Exact probabilities of whole threshold sessions: the real engine over scripted outcomes, weighed under any table.

The engine chooses guesses, thresholds, noises and updates; this model plays the curator, takes the scales from the
objects the engine hands over, and sums (truncated) geometric noise exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import BudgetError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Settled
from reticent.kernel.mechanisms.base import AboveThreshold, Laplace, Sensitivity
from reticent.knowledge.knowledge import Knowledge
from reticent.planning.thresholds import EpochPlan
from reticent.queries.base import Linear
from reticent.sessions.epochs import Epochs

GRID = 4
"""Steps per record of the model; the kernel's are finer, its proofs do not depend on it."""
REACH = 60
"""Noise is summed up to so many scales: what is cut off weighs less than e^-60."""
BEYOND = 0
"""How far outside the possible counts measured values are clamped: post-processing, it keeps the tree small."""


class MoreNeeded(Exception):
    """The script is over; `options` are the outcomes that may come next."""

    def __init__(self, options: list[Any]) -> None:
        super().__init__("script")
        self.options = options


@dataclass
class Run:
    """One epoch: its noises, its threshold in grid steps, and the tests made in it."""

    mechanism: AboveThreshold
    threshold: int
    tests: list[tuple[Linear, int, bool]] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return not (self.tests and self.tests[-1][2])


class Scripted:
    """Stands for the curator: outcomes come from a script, and everything asked is written down."""

    neighbours = "replace-one"

    def __init__(self, domain: Domain, records: int, script: list[Any]) -> None:
        self.domain, self.records = domain, records
        self.budget = Budget(epsilon=100)
        self.remaining = self.budget.limit
        self._script = iter(script)
        self.runs: list[Run] = []
        self.measured: list[tuple[Linear, Laplace, int]] = []

    def _next(self, options: list[Any]) -> Any:
        outcome = next(self._script, None)
        if outcome is None:
            raise MoreNeeded(options)
        return outcome

    def price(self, queries: Any, noise: Laplace) -> Any:
        return noise.price(Sensitivity.scalar())

    def affordable(self, cost: int, *, key: str, analyst: Any = None) -> None:
        assert cost <= self.remaining

    def watch(self, threshold: float, mechanism: AboveThreshold, *, key: str, analyst: Any = None) -> Run:
        self.runs.append(Run(mechanism, round(threshold * GRID)))
        return self.runs[-1]

    def exceeds(self, error: Any, epoch: Run) -> bool:
        assert epoch.open
        outcome = self._next([False, True])
        epoch.tests.append((error.queries[0], round(float(np.atleast_1d(error.guesses)[0]) * GRID), outcome))
        return outcome

    def measure(self, queries: Any, noise: Laplace, *, key: str, analyst: Any = None) -> Settled:
        value = self._next(list(range(-BEYOND, self.records + BEYOND + 1)))
        self.measured.append((queries[0], noise, value))
        return Settled((np.asarray(float(value)),), 1, len(self.measured))

    def epsilon(self) -> float:
        """What this transcript was charged."""
        epochs = sum(float(run.mechanism.threshold_epsilon + run.mechanism.query_epsilon) for run in self.runs)
        return epochs + sum(1 / float(noise.scale) for _, noise, _ in self.measured)

    def probability(self, counts: np.ndarray) -> float:
        """Of this transcript when the table has these counts."""
        chance = 1.0
        for run in self.runs:
            chance *= run_probability(run, lambda query: exact(query, self.domain, counts))
        for query, noise, value in self.measured:
            chance *= clamped_laplace(
                value - exact(query, self.domain, counts), value, float(noise.scale), self.records
            )
        return chance


def exact(query: Linear, domain: Domain, counts: np.ndarray) -> int:
    return round(float(np.sum(query.compile(domain).tensor() * counts)))


def run_probability(run: Run, count: Callable[[Linear], int]) -> float:
    """Summed over the noisy threshold; one-sided or two-sided noise as the mechanism says."""
    one_sided = run.mechanism.one_sided
    first, second = (float(run.mechanism.threshold_scale(GRID)), float(run.mechanism.query_scale(GRID)))
    reach = int(REACH * first)
    xi = np.arange(0 if one_sided else -reach, reach + 1)
    weights = np.exp(-np.abs(xi) / first)
    chance = weights / weights.sum()
    for query, guess, above in run.tests:
        error = abs(count(query) * GRID - guess)
        survival = at_least(run.threshold + xi - error, second, one_sided)
        chance = chance * (survival if above else 1 - survival)
    return float(chance.sum())


def at_least(level: np.ndarray, scale: float, one_sided: bool) -> np.ndarray:
    """P(noise >= level)."""
    if one_sided:
        return np.exp(-np.maximum(level, 0) / scale)
    a = math.exp(-1 / scale)
    tail = np.exp(-np.abs(level) / scale) / (1 + a)
    return np.where(level > 0, tail, 1 - tail * a)


def clamped_laplace(noise: int, value: int, scale: float, records: int) -> float:
    a = math.exp(-1 / scale)
    if value == -BEYOND:
        return a ** abs(noise) / (1 + a) if noise < 0 else 1 - a ** (noise + 1) / (1 + a)
    if value == records + BEYOND:
        return a ** abs(noise) / (1 + a) if noise > 0 else 1 - a ** (1 - noise) / (1 + a)
    return (1 - a) / (1 + a) * a ** abs(noise)


Analyst = Callable[[list[float]], Linear]


def transcripts(
    domain: Domain, records: int, plan: EpochPlan, analyst: Analyst, questions: int, curator: type[Scripted] = Scripted
) -> Iterator[Scripted]:
    """Every possible transcript of an adaptive analyst's session, by depth-first search."""
    stack: list[list[Any]] = [[]]
    while stack:
        script = stack.pop()
        played = curator(domain, records, script)
        try:
            play(played, plan, analyst, questions)
        except MoreNeeded as more:
            stack += [[*script, option] for option in more.options]
        else:
            yield played


def play(curator: Scripted, plan: EpochPlan, analyst: Analyst, questions: int) -> None:
    knowledge = Knowledge(Snapshot(DenseHypothesis(curator.domain)), float(curator.records), 0.0)
    engine = Epochs(curator, plan, knowledge)  # pyright: ignore[reportArgumentType]
    answers: list[float] = []
    for place in range(questions):
        query = analyst(answers)
        try:
            verdict = engine.ask(query, key=str(place))
        except BudgetError:
            verdict = engine.guess(query)
        answers.append(round(float(verdict.values), 6))


def tables(cells: int, records: int) -> list[np.ndarray]:
    if cells == 1:
        return [np.array([records])]
    return [np.array([k, *rest]) for k in range(records + 1) for rest in tables(cells - 1, records - k)]


def neighbours(all_tables: list[np.ndarray]) -> list[tuple[int, int]]:
    """Replace-one: one record moved."""
    pairs = ((i, j) for i in range(len(all_tables)) for j in range(len(all_tables)))
    return [(i, j) for i, j in pairs if np.abs(all_tables[i] - all_tables[j]).sum() == 2]


def small_plan(
    *,
    tuned: bool,
    threshold_epsilon: float = 0.8,
    query_epsilon: float = 1.2,
    scale: float = 1.5,
    threshold: float = 0.3,
    epochs: int = 2,
) -> EpochPlan:
    """Constants chosen for what they show, not for accuracy: the planner would refuse so few records."""
    watch = AboveThreshold(threshold_epsilon=threshold_epsilon, query_epsilon=query_epsilon, one_sided=tuned)
    return EpochPlan(
        engine="tuned" if tuned else "textbook",
        queries=20,
        epochs=epochs,
        failure=0.05,
        threshold=threshold,
        error=0.9,
        measured=0.1,
        rest=0.2,
        step=0.0 if tuned else 0.25,
        watch=watch.describe(),
        noise=Laplace(scale).describe(),
    )


__all__ = ["Run", "Scripted", "neighbours", "small_plan", "tables", "transcripts"]
