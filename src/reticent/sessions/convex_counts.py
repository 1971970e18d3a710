"""Counts in a run for convex losses: the same hypothesis, epochs, tests and budget (spec 8.6).

A test compares numbers of records, and one record moves a count's error by no more than an excess risk over the losses'
range: so counts are answered within the plan's error divided by that range (docs/proofs/online-convex.md, claim 9).
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
        """Of a count that passed its test, as a share."""
        doubt = self.plan.records_error
        return self.plan.error / self.plan.scale + doubt / (1 - doubt)

    @property
    def measured(self) -> float:
        """Bounds the error of every count that was bought."""
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
        """BudgetError where the plan, the budget or the analyst's cap cannot pay what may follow; see `guess`."""
        verdict = self._seen.get(query.digest)
        if verdict is None:
            verdict = self._tested(query, key, analyst)
            if len(self._seen) < KEPT:
                self._seen[query.digest] = verdict._replace(cost=0)
        return verdict

    def guess(self, query: Linear | Marginal) -> Verdict:
        """The hypothesis' own answer, certified by what is left of the entropy where that is no more than a test says.

        Pinsker's inequality bounds the difference of every share, also of the cells of a marginal.
        """
        values, digest = guessed(self.snapshot, query), self.snapshot.digest
        bound = math.sqrt(max(0.0, self._epochs.entropy) / 2)
        if bound > self.error or not self._planned(query):
            return Verdict(values, math.inf, "hypothesis", digest)
        return Verdict(values, bound, "tested", digest)

    def cost(self, query: Linear | Marginal) -> int:
        """The most that asking can charge: a measurement, and an epoch if none is open; no fact about the rows."""
        if query.digest in self._seen or self.guess(query).error <= self.error:
            return 0
        return self._measurement_cost(query) + (0 if self.running else self.epoch_cost)

    def measure(self, query: Linear | Marginal, *, key: str, analyst: str | None = None) -> Verdict:
        """Buy the answer and learn from it; a key that was answered before is read from the ledger."""
        settled = self._curator.measure([query], self.noise(query), key=key, analyst=analyst)
        values = np.asarray(settled.values[0]) / self.plan.records
        self.absorb(query, values, settled.ledger_id)
        return Verdict(values, self.measured, "measured", None, settled.ledger_id, settled.cost)

    def recall(self, query: Linear | Marginal) -> Verdict | None:
        """What was measured before about this question, within the bound that holds for all of the run together."""
        found = self._measured.find(query)
        return found and Verdict(found[0], self.measured, "cache", None, found[1])

    def absorb(self, query: Linear | Marginal, values: np.ndarray, ledger_id: int) -> None:
        """One update from a measurement, once; the entropy falls by what "above" vouches for."""
        self._measured.add(query, values, ledger_id)
        self._epochs.update(lambda held: self._move(held, query, values), ledger_id)

    def noise(self, query: Linear | Marginal) -> Noise:
        """Of a measurement: it stays within `_reach` in all planned updates together."""
        failure = self.plan.minimizer_failure
        # The kernel's values lie on a grid: at most one record, for draws and rounding together.
        within = noise_within(self._reach(query) * self.plan.records - 1, failure, pure=False)
        return noise_for(query, within, failure, self._curator.domain)

    def _reach(self, query: Linear | Marginal) -> float:
        """How far noise may move a measured share.

        Of a marginal the cell that errs most is not known: the one that seems to must err by half the margin at least.
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
        """By how much the relative entropy of the data to the hypothesis has fallen at least, if noises are as planned.

        "Above" means that the guess errs by `margin + measured` over the losses' range; the measurement says where to.
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
        """Before anything is spent: what the number of updates was not planned for."""
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
