"""Counts in a run for convex losses: the same hypothesis, epochs, tests and budget (spec 8.6).

A test compares numbers of records. One record changes a count's error by no more than an excess risk divided by the
losses' range, so counts are answered within the plan's error divided by that range (docs/proofs/online-convex.md, claim
9).
"""

from __future__ import annotations

import math

import numpy as np

from reticent.errors import QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Curator, Epoch, Noise
from reticent.knowledge.tails import noise_within
from reticent.planning.convex import ConvexPlan
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal
from reticent.sessions.convex_epochs import ConvexEpochs
from reticent.sessions.count_tests import (
    KEPT,
    MeasuredCounts,
    Verdict,
    error_of,
    farthest_value,
    guessed,
    noise_for,
)


class ConvexCounts:
    """The part of a run that answers counts; callers serialise, as for its losses."""

    def __init__(self, curator: Curator, epochs: ConvexEpochs) -> None:
        self._curator, self._epochs = curator, epochs
        self._seen: dict[str, Verdict] = {}
        self._measured = MeasuredCounts(curator.domain)

    @property
    def plan(self) -> ConvexPlan:
        return self._epochs.plan

    @property
    def error(self) -> float:
        """The error of a count that passed its test, as a share."""
        doubt = self.plan.records_error
        return self.plan.error / self.plan.scale + doubt / (1 - doubt)

    @property
    def measured(self) -> float:
        """A bound on the error of every purchased count."""
        return self.plan.measured / self.plan.scale + self.plan.records_error

    @property
    def opened(self) -> int:
        return self._epochs.opened

    @property
    def tests(self) -> int:
        return self._epochs.tests

    @property
    def running(self) -> Epoch | None:
        return self._epochs.running

    @property
    def epoch_cost(self) -> int:
        return self._epochs.epoch_cost

    @property
    def snapshot(self) -> Snapshot:
        return self._epochs.snapshot

    def ask(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict:
        """Answer a count. BudgetError if the plan, the budget or the analyst's cap cannot pay a possible purchase; see
        `guess`.
        """
        verdict = self._seen.get(query.digest)
        if verdict is None:
            verdict = self._tested(query, key, analyst)
            if len(self._seen) < KEPT:
                self._seen[query.digest] = verdict._replace(cost=0)
        return verdict

    def guess(self, query: Linear | Marginal) -> Verdict:
        """The hypothesis' own answer, certified if the entropy bound gives an error no larger than that of a test.

        Pinsker's inequality bounds the difference of every share, including the cells of a marginal.
        """
        values, digest = guessed(self.snapshot, query), self.snapshot.digest
        bound = math.sqrt(max(0.0, self._epochs.entropy) / 2)
        if bound > self.error or not self._planned(query):
            return Verdict(values, math.inf, "hypothesis", digest)
        return Verdict(values, bound, "tested", digest)

    def cost(self, query: Linear | Marginal) -> int:
        """An upper bound on the charge: a measurement, and an epoch if none is open; independent of the rows."""
        if query.digest in self._seen or self.guess(query).error <= self.error:
            return 0
        return self._measurement_cost(query) + (0 if self.running else self.epoch_cost)

    def measure(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict:
        """Buy the answer and learn from it; an answered key is read from the ledger."""
        settled = self._curator.measure([query], self.noise(query), key=key, analyst=analyst)
        values = np.asarray(settled.values[0]) / self.plan.records
        self.absorb(query, values, settled.ledger_id)
        return Verdict(values, self.measured, "measured", None, settled.ledger_id, settled.cost)

    def recall(self, query: Linear | Marginal) -> Verdict | None:
        """An earlier measurement of this question, within the joint bound of the run."""
        found = self._measured.find(query)
        return found and Verdict(found[0], self.measured, "cache", None, found[1])

    def absorb(self, query: Linear | Marginal, values: np.ndarray, ledger_id: int) -> None:
        """One update from a measurement, applied once; the entropy falls by the amount that "above" guarantees."""
        self._measured.add(query, values, ledger_id)
        self._epochs.update(lambda held: self._move(held, query, values), ledger_id)

    def noise(self, query: Linear | Marginal) -> Noise:
        """The noise of a measurement: it stays within `_reach` in all planned updates together."""
        failure = self.plan.minimizer_failure
        # The kernel's values lie on a grid: one record covers discrete draws and rounding together.
        within = noise_within(self._reach(query) * self.plan.records - 1, failure, pure=False)
        return noise_for(query, within, failure, self._curator.domain)

    def _reach(self, query: Linear | Marginal) -> float:
        """A bound on the noise of a measured share.

        The cell of a marginal with the largest error is not known: the cell with the largest apparent error has at
        least half the margin.
        """
        plan = self.plan
        bought = plan.measured if isinstance(query, Linear) else min(plan.measured, plan.margin / 4)
        return bought / plan.scale

    def _measurement_cost(self, query: Linear | Marginal) -> int:
        return self._curator.budget.cost(self._curator.price([query], self.noise(query)))

    def _tested(self, query: Linear | Marginal, key: str, analyst: str | None) -> Verdict:
        self._refuse_unplanned(query)
        guess = self.guess(query)
        if guess.error <= self.error:
            return guess
        statistic = error_of(query, guess.values, self.plan.records, self._curator.domain)
        above, _ = self._epochs.test(statistic, self._measurement_cost(query), key=key, analyst=analyst)
        if not above:
            return guess._replace(error=self.error, origin="tested")
        return self.measure(query, key=key, analyst=analyst)

    def _move(self, held: Hypothesis, query: Linear | Marginal, values: np.ndarray) -> float:
        """A lower bound on the decrease of the relative entropy of the data to the hypothesis, if noises are as
        planned.

        "Above" means that the error of the guess is at least `margin + measured` over the losses' range; the
        measurement gives its direction.
        """
        plan = self.plan
        form, value = farthest_value(held, query, values)
        guess, strayed = held.expect(form), self._reach(query) + plan.records_error
        errs = (plan.margin + plan.measured) / plan.scale - plan.records_error
        if not isinstance(query, Linear):
            errs -= 2 * strayed
        if plan.step:
            length = plan.measured / plan.scale
            held.reweight(form, math.copysign(length, value - guess))
            return max(0.0, length * errs - length**2 / 8)
        errs = max(errs, abs(value - guess) - strayed)
        held.project(form, guess + math.copysign(errs, value - guess))
        return 2 * errs**2

    def _planned(self, query: Linear | Marginal) -> bool:
        return not self._unplanned(query)

    def _unplanned(self, query: Linear | Marginal) -> list[str]:
        domain = self._curator.domain
        names = query.compile(domain).attributes if isinstance(query, Linear) else query.canonical(domain)
        return [name for name in names if name not in self.plan.attributes]

    def _refuse_unplanned(self, query: Linear | Marginal) -> None:
        """Refuse, before anything is spent, a question for which the number of updates was not planned."""
        if unplanned := self._unplanned(query):
            raise QueryError(
                f"the question looks at {', '.join(unplanned)}, which no planned loss does: open a session whose losses"
                " do"
            )
        plan = self.plan
        most = min(plan.margin / 4, plan.measured / 3) / plan.scale
        if plan.records_error > most:
            raise QueryError(
                f"the number of records is known to within {plan.records_error:.3g}, counts here need {most:.3g}:"
                " use engine='default'"
            )
