"""Multiplicative weights beyond linear queries: a public hypothesis answers convex losses (spec 8; 001).

A loss is answered by the hypothesis' own minimiser while a noisy test finds its excess risk small; else a private
minimiser answers, and what it shows about the hypothesis becomes a linear query that moves it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from reticent.algorithms.minimizer_choice import cheapest_within, choose_minimizer
from reticent.algorithms.risks import public_minimum
from reticent.algorithms.tails import noise_failure
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.kernel.accounting import NANO
from reticent.kernel.curator import Curator, Epoch
from reticent.kernel.excess_risk import FLOATS, GAP, ExcessRisk, ExcessRisks
from reticent.kernel.mechanisms import AboveThreshold, Exponential
from reticent.kernel.minimizers import Minimizer
from reticent.queries.convex import ConvexLoss, checked_loss
from reticent.queries.forms import Dense
from reticent.queries.problem import Problem
from reticent.queries.risk import certificate_tensor, loss_tensor

Rule = Literal["projection", "textbook"]

LARGEST_RECORDS_ERROR = 0.1
"""Beyond, half of a test's reading would be the doubt about the number of records."""


@dataclass(frozen=True, eq=False)
class Direction:
    """A public function u of the record whose mean differs on data and hypothesis, as a query in [0, 1]."""

    form: Dense
    low: float
    high: float

    @classmethod
    def of(cls, problem: Problem, values: np.ndarray) -> Direction | None:
        """None where u is constant: nothing can be learned from it."""
        low, high = float(values.min()), float(values.max())
        if not high - low > 1e-12 * problem.scale:
            return None
        return cls(Dense(problem.attributes, np.clip((values - low) / (high - low), 0.0, 1.0)), low, high)

    def mean(self, hypothesis: Hypothesis) -> float:
        return self.low + (self.high - self.low) * hypothesis.expect(self.form)


def loss_difference(problem: Problem, there: np.ndarray, here: np.ndarray) -> Direction | None:
    """u = loss(there) - loss(here): needs neither gradients nor convexity (spec 8.3)."""
    return Direction.of(problem, loss_tensor(problem, there) - loss_tensor(problem, here))


def dual_certificate(problem: Problem, there: np.ndarray, here: np.ndarray) -> Direction | None:
    """u = <there - here, gradient at here>: the paper's."""
    return Direction.of(problem, certificate_tensor(problem, there, here))


def project(hypothesis: Hypothesis, direction: Direction, margin: float) -> bool:
    """Move to mean u = -margin, where the data lie at or below (spec 4.3, 8.3); False if already there."""
    if direction.mean(hypothesis) + margin <= 0:
        return False
    hypothesis.project(direction.form, (-margin - direction.low) / (direction.high - direction.low))
    return True


def step(hypothesis: Hypothesis, direction: Direction, eta: float) -> None:
    """p' ~ p exp(-eta u): weight moves away from large u (spec 9 on the printed sign)."""
    hypothesis.reweight(direction.form, -eta * (direction.high - direction.low))


@dataclass(frozen=True)
class ConvexPlan:
    """The constants of one run: `error` for every answer, `losses` in all, `scale` = the largest S among them.

    Noise of threshold and test stays below error/8 each, a private minimiser errs at most error/4, and a test is
    "above" around 3/4 error: an update then moves by error/4, so `updates` of them suffice for ever (spec 8.3).

    Under add-remove `records` is a released number N and `records_error` bounds abs(n - N) / N, but with probability
    `RECORDS_FAILURE`, which counts towards `failure`. Tests compare n times an excess with N times a threshold, so they
    run for the smaller error (1 - records_error) `error`, and "above" vouches for that much less.
    """

    error: float
    losses: int
    scale: float
    records: float
    log_size: float
    failure: float
    rule: Rule = "projection"
    records_error: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.error < self.scale:
            raise QueryError(f"error {self.error!r} must lie above 0 and below the losses' range {self.scale:g}")
        if self.losses < 1 or not 0 < self.failure < 1 or not self.noise_failure > 0:
            raise QueryError("plan for at least one loss and a failure probability between 0 and 1")
        if not 0 <= self.records_error < LARGEST_RECORDS_ERROR:
            raise QueryError(
                f"records_error={self.records_error:g} leaves an update nothing to go by; count the records to within"
                f" {LARGEST_RECORDS_ERROR:g} of their number"
            )
        if self.margin <= 0:
            raise QueryError(
                f"error {self.error:g} is below what the private minimum hides; ask for {8 * self.hidden:g}"
            )

    @property
    def noise_failure(self) -> float:
        """What is left for noise after the number of records took its share."""
        return noise_failure(1 - self.failure, self.records_error)

    @property
    def tested(self) -> float:
        """The error for which tests run: in units of N, at most `error` in units of n."""
        return (1 - self.records_error) * self.error

    @property
    def hidden(self) -> float:
        """What the gap of the private minimum may hide from a test."""
        return float(GAP + FLOATS) * self.scale / self.records

    @property
    def margin(self) -> float:
        """tau - c1 - c2 - a0: how far below zero the data's mean loss difference surely lies."""
        return (self.tested / 2 - self.hidden) / (1 + self.records_error) - self.error / 4

    @property
    def updates(self) -> int:
        """ln|U| (2S)^2 / (2 margin^2) by projection; 64 S^2 ln|U| / error^2 in the paper."""
        room = (2 * self.scale) ** 2 / (2 * self.margin**2) if self.rule == "projection" else self._paper
        return max(1, math.ceil(room * self.log_size))

    @property
    def _paper(self) -> float:
        return 64 * self.scale**2 / self.error**2

    @property
    def step(self) -> float:
        """eta = sqrt(ln|U| / T) / S: the paper's, divided by S (spec 9)."""
        return math.sqrt(self.log_size / self.updates) / self.scale

    @property
    def threshold(self) -> float:
        """In records, as the test compares: "below" then means an excess of at most `error`."""
        return (0.75 * self.tested - self.hidden) * self.records / self.scale

    def watch(self, neighbours: str) -> AboveThreshold:
        """Noise below error/8 for each of `updates` thresholds and `losses` tests, with probability 1 - failure/2."""
        moves = (2 if neighbours == "replace-one" else 1) + GAP + FLOATS
        room = self.tested / 8 * self.records / self.scale
        threshold = float(moves) * math.log(4 * self.updates / self.noise_failure) / room
        query = 2 * float(moves) * math.log(4 * self.losses / self.noise_failure) / room
        return AboveThreshold(threshold_epsilon=Fraction(threshold), query_epsilon=Fraction(query))


class Reply(NamedTuple):
    """theta, its excess risk bound (None if uncertified), where it comes from, and what it cost."""

    theta: np.ndarray
    error: float | None
    origin: str
    cost: int


class OnlineConvex:
    """The online mechanism (001, Fig. 3, with spec 8.3's update): ask losses one by one, adaptively.

    The hypothesis moves in place and must start uniform: the planned number of updates rests on it. Privacy rests on
    the curator alone; if the budget ends before, later answers come from the hypothesis and are uncertified.
    """

    def __init__(self, curator: Curator, hypothesis: Hypothesis, plan: ConvexPlan) -> None:
        if curator.records is None and plan.records_error == 0:
            raise QueryError(
                f"records={plan.records:g} is private under add-remove: measure it, and give the plan records_error="
            )
        if curator.records is not None and (plan.records, plan.records_error) != (curator.records, 0):
            raise QueryError(f"the plan is for {plan.records:g} records; the table has {curator.records}, exactly")
        self.plan = plan
        self.updates = 0
        self.asked = 0
        self.hypothesis = hypothesis
        self._curator = curator
        self._epoch: Epoch | None = None

    def ask(self, loss: ConvexLoss) -> Reply:
        problem = checked_loss(loss).on(self._curator.domain)
        if problem.scale > self.plan.scale:
            raise QueryError(
                f"the loss' range {problem.scale:g} exceeds the planned {self.plan.scale:g}; shrink its ball"
            )
        theta, gap = public_minimum(self.hypothesis, problem)
        self.asked += 1
        minimizer = self._minimizer(loss)
        if minimizer is None or self.asked > self.plan.losses:
            return Reply(theta, None, "hypothesis", 0)
        cost = 0
        if self._epoch is None or not self._epoch.open:
            if self.updates >= self.plan.updates:
                return Reply(theta, self.plan.error + gap, "hypothesis", 0)
            try:
                self._epoch = self._curator.watch(self.plan.threshold, self.plan.watch(self._curator.neighbours))
            except BudgetError:
                return Reply(theta, None, "hypothesis", 0)
            cost = self._epoch.cost
        test = ExcessRisk((loss,), (theta,), (self.plan.scale,), self._curator.domain, self.plan.records)
        if not self._curator.exceeds(test, self._epoch):
            return Reply(theta, self.plan.error, "hypothesis", cost)
        try:
            settled = self._curator.minimize(minimizer)
        except BudgetError:
            return Reply(theta, None, "hypothesis", cost)
        self._learn(problem, settled.values[0], theta)
        return Reply(settled.values[0], self.plan.error / 4, "measured", cost + settled.cost)

    def _minimizer(self, loss: ConvexLoss) -> Minimizer | None:
        """One that errs at most error/4 in all planned updates together."""
        failure = self.plan.noise_failure / (2 * self.plan.updates)
        return cheapest_within(
            loss,
            self._curator.domain,
            neighbours=self._curator.neighbours,
            records=self.plan.records,
            error=self.plan.error / 4,
            failure=failure,
            spread=self.plan.records_error,
            most=max(self._curator.remaining / NANO, 1e-6),
        )

    def _learn(self, problem: Problem, there: np.ndarray, here: np.ndarray) -> None:
        self.updates += 1
        learn(self.hypothesis, problem, there, here, self.plan)


def learn(hypothesis: Hypothesis, problem: Problem, there: np.ndarray, here: np.ndarray, plan: ConvexPlan) -> bool:
    """One update of the hypothesis from a private minimiser `there`; False where it shows nothing."""
    if plan.rule == "projection":
        direction = loss_difference(problem, there, here)
        return direction is not None and project(hypothesis, direction, plan.margin)
    direction = dual_certificate(problem, there, here)
    if direction is None:
        return False
    step(hypothesis, direction, plan.step)
    return True


@dataclass(frozen=True, eq=False)
class OfflineRound:
    """Which loss was worst, what its private minimiser was, and whether the hypothesis learned from it."""

    index: int
    theta: np.ndarray
    learned: bool
    cost: int


def offline(
    curator: Curator,
    hypothesis: Hypothesis,
    losses: Sequence[ConvexLoss],
    *,
    records: float,
    rounds: int,
    rho: float,
    margin: float,
    key: str,
) -> list[OfflineRound]:
    """Losses known in advance: each round selects the worst by the exponential mechanism and learns from it (001, 1.2).

    A third of `rho` selects, the rest minimises. `margin` is how far below zero the loss difference is projected: at
    most the excess risk one still wants to repair, less the minimiser's own error.
    """
    if not losses or rounds < 1:
        raise QueryError("give at least one loss and one round")
    problems = [checked_loss(loss).on(curator.domain) for loss in losses]
    scale = max(problem.scale for problem in problems)
    # Whole nano-units, because the ledger rounds every price up.
    third = Fraction(int(Fraction(rho) * NANO / (3 * rounds)), NANO)
    chooser = Exponential.costing(rho=third)
    done = []
    for turn in range(rounds):
        thetas = tuple(public_minimum(hypothesis, problem)[0] for problem in problems)
        scores = ExcessRisks(tuple(losses), thetas, (scale,) * len(losses), curator.domain, records)
        chosen = curator.select(scores, chooser, key=f"{key}:select:{turn}")
        index = int(chosen.values[0][0])
        minimizer = choose_minimizer(
            losses[index], curator.domain, neighbours=curator.neighbours, records=records, rho=2 * third
        ).minimizer
        settled = curator.minimize(minimizer, key=f"{key}:minimize:{turn}")
        direction = loss_difference(problems[index], settled.values[0], thetas[index])
        learned = direction is not None and project(hypothesis, direction, margin)
        done.append(OfflineRound(index, settled.values[0], learned, chosen.cost + settled.cost))
    return done
