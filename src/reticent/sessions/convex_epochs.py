"""Online multiplicative weights for convex losses: a public hypothesis answers until a noisy test rejects it (001).

The hypothesis' own minimiser answers a loss while a noisy test finds its excess risk small. Otherwise a private
minimiser answers, and its result becomes a linear query that updates the hypothesis (spec 8.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import learned
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.curator import Curator, Epoch
from reticent.kernel.minimizers.excess_risk import ExcessRisk, excess_moved
from reticent.kernel.minimizers.families import MINIMIZERS, Minimizer, UnconstrainedGLM
from reticent.kernel.minimizers.solvers import refuse_long
from reticent.kernel.statistics import Statistic
from reticent.knowledge.minimizers import cheapest_within
from reticent.knowledge.risks import dual_certificate, loss_difference, project, public_minimum, step
from reticent.losses.base import ConvexLoss
from reticent.losses.losses import checked_loss
from reticent.losses.public import Problem
from reticent.planning.convex import SOLVED, ConvexPlan

WITHIN = tuple(kind for kind in MINIMIZERS if kind is not UnconstrainedGLM)
"""Minimisers whose answers lie in the ball, so that an update can compare them with the hypothesis' own minimiser."""
KEPT = 1 << 14
"""Losses whose replies are kept."""
BLOCKS = 64
"""The planned tests are recorded in this many blocks, ahead of use: a restart loses at most one block."""


class EpochReply(NamedTuple):
    """Parameters, a bound on their excess risk (infinite if uncertified), their origin, and the charge."""

    theta: np.ndarray
    error: float
    origin: str
    gap: float = 0.0
    snapshot: str | None = None
    ledger_id: int | None = None
    cost: int = 0


class Position(NamedTuple):
    """The hypothesis, and a bound on the relative entropy of the data to it."""

    snapshot: Snapshot
    entropy: float


class ConvexEpochs:
    """The running mechanism; callers serialise. The hypothesis must start uniform.

    `entropy` bounds the relative entropy of the data to the hypothesis: its first value minus the guaranteed decreases
    of all updates. Privacy depends on the curator alone.
    """

    def __init__(
        self,
        curator: Curator,
        plan: ConvexPlan,
        snapshot: Snapshot,
        *,
        entropy: float | None = None,
        opened: int = 0,
        tests: int = 0,
        log_tests: Callable[[int], None] = lambda count: None,
        log_guess: Callable[[str, ConvexLoss, EpochReply], None] = lambda key, loss, guess: None,
    ) -> None:
        if curator.records is None and plan.records_error == 0:
            raise QueryError(
                f"records={plan.records:g} is private under add-remove: measure it, and give the plan records_error="
            )
        if curator.records is not None and (plan.records, plan.records_error) != (curator.records, 0):
            raise QueryError(f"the plan is for {plan.records:g} records, but the table has exactly {curator.records}")
        self.plan = plan
        self.updates, self.opened, self.tests = 0, opened, tests
        if entropy is None:
            # If a record violates a declared rule, the entropy to the hypothesis is infinite too.
            bounded = snapshot.kind != SupportHypothesis.kind and not snapshot.domain.impossible
            entropy = plan.log_size if bounded else math.inf
        self._position = Position(snapshot, entropy)
        self.notes: list[str] = []
        self._curator = curator
        self._epoch: Epoch | None = None
        self._logged = tests
        self._log_tests, self._log_guess = log_tests, log_guess
        self._known: dict[str, EpochReply] = {}
        self._guesses: dict[tuple[str, str], EpochReply] = {}
        self._absorbed: set[int] = set()

    @property
    def snapshot(self) -> Snapshot:
        return self._position.snapshot

    @property
    def entropy(self) -> float:
        """Infinite on a support, because the data need not be close to any distribution on it."""
        return self._position.entropy

    def ask(self, loss: ConvexLoss, *, key: str | None = None, analyst: str | None = None) -> EpochReply:
        """Answer a loss. BudgetError if the plan, the budget or the analyst's cap cannot pay a possible purchase; see
        `guess`.

        `key` names the private minimiser that "above" would buy; with `:epoch` appended, the epoch opened for it.
        """
        if (known := self.free(loss)) is not None:
            return known
        guess, minimizer = self.guess(loss), self._minimizer(loss)
        test = ExcessRisk(
            (loss,), (guess.theta,), (self.plan.scale,), self._curator.domain, self.plan.records,
            hidden=self.plan.hidden,
        )  # fmt: skip
        refuse_long(test.work)
        minimizer.refuse_infeasible()
        above, opening = self.test(test, self._curator.budget.cost(minimizer.price()), key=key, analyst=analyst)
        if not above:
            return self._keep(loss, guess._replace(error=self.plan.error, origin="tested", cost=opening))
        if key is not None:
            # Recorded before the minimiser is paid, so that a resumed run makes the same update, bit for bit.
            self._log_guess(key, loss, guess)
        bought = self.measure(minimizer, guess.theta, key=key, analyst=analyst)
        return bought._replace(cost=opening + bought.cost)

    def test(self, statistic: Statistic, after: int, *, key: str | None, analyst: str | None) -> tuple[bool, int]:
        """Whether a noisy error exceeds the noisy threshold, and the price of an epoch opened for the test.

        `after` is the purchase that "above" would cause. It and the epoch must be affordable together for the asking
        analyst, or no test is made (spec 6.1).
        """
        self._require_means(after, key, analyst)
        epoch, opening = self.running, 0
        if epoch is None:
            epoch = self._begin(key, analyst)
            opening = epoch.cost
        self._count_test()
        return self._curator.exceeds(statistic, epoch), opening

    def measure(
        self, minimizer: Minimizer, here: np.ndarray | None, *, key: str | None, analyst: str | None = None
    ) -> EpochReply:
        """Buy private parameters and learn from them; a charged key gets what it paid for.

        `here` are the parameters that failed the test; without them nothing is learned.
        """
        settled = self._curator.minimize(minimizer, key=key, analyst=analyst)
        return self.absorb(minimizer.loss, settled.values[0], here, settled.ledger_id)._replace(cost=settled.cost)

    def free(self, loss: ConvexLoss) -> EpochReply | None:
        """An earlier test or purchase for this loss, or parameters that the entropy certifies."""
        self._checked(loss)
        if (known := self._known.get(loss.digest)) is not None:
            return known
        guess = self.guess(loss)
        return guess if guess.error <= self.plan.error else None

    def guess(self, loss: ConvexLoss) -> EpochReply:
        """The hypothesis' own minimiser, certified if the entropy bound is not vacuous."""
        snapshot, entropy = self._position  # at once: a payer may put another in its place
        name = (snapshot.digest, loss.digest)
        if (found := self._guesses.get(name)) is not None:
            return found
        problem = self._checked(loss)
        worked = problem.rounded(self.plan.hidden * self.plan.scale) if self.plan.step else problem
        theta, gap = public_minimum(snapshot, worked)
        if worked is not problem:
            gap += self.plan.hidden * self.plan.scale
        solved = gap <= max(SOLVED, self.plan.hidden) * self.plan.scale
        error = self.plan.rest(entropy) + gap if solved else math.inf
        certified = error < problem.zero_excess
        found = EpochReply(
            theta, error if certified else math.inf, "certificate" if certified else "hypothesis", gap,
            snapshot.digest,
        )  # fmt: skip
        if len(self._guesses) < KEPT:
            self._guesses[name] = found
        return found

    def cost(self, loss: ConvexLoss) -> int:
        """An upper bound on the charge: a private minimiser, and an epoch if none is open."""
        if self.free(loss) is not None:
            return 0
        opening = 0 if self.running else self.epoch_cost
        return opening + self._curator.budget.cost(self._minimizer(loss).price())

    @property
    def epoch_cost(self) -> int:
        """The charge for opening an epoch."""
        return self._curator.budget.cost(self.plan.mechanism.price())

    @property
    def running(self) -> Epoch | None:
        """The epoch of the next test; None if a new one must be opened."""
        return self._epoch if self._epoch is not None and self._epoch.open else None

    def absorb(self, loss: ConvexLoss, there: np.ndarray, here: np.ndarray | None, ledger_id: int) -> EpochReply:
        """One update from a private minimiser; the entropy falls by the amount that its margin guarantees."""
        reply = self._keep(loss, EpochReply(there, self.plan.measured, "measured", 0.0, None, ledger_id))
        problem = self._checked(loss)

        def move(held: Hypothesis) -> float:
            if here is None:
                return 0.0
            if self.plan.step:
                worked = problem.rounded(self.plan.hidden * self.plan.scale)
                direction = dual_certificate(held, worked, there, here)
                return step(held, direction, self.plan.step, self.plan.margin)
            direction = loss_difference(held, problem, there, here)
            return project(held, direction, self.plan.margin)

        self.update(move, ledger_id)
        return reply

    def update(self, move: Callable[[Hypothesis], float], ledger_id: int) -> None:
        """Count one purchase, once, and apply `move`, which returns a lower bound on the decrease in entropy."""
        if ledger_id in self._absorbed:
            return
        self._absorbed.add(ledger_id)
        self.updates += 1
        snapshot, entropy = self._position
        before, dropped = snapshot.thaw(), 0.0

        def moved(held: Hypothesis) -> bool:
            nonlocal dropped
            dropped = move(held)
            return dropped != 0.0

        found = learned(before, moved)
        if found.note and found.note not in self.notes:
            self.notes.append(found.note)
        if found.moved:
            whole = found.hypothesis.kind == before.kind
            self._position = Position(Snapshot(found.hypothesis), max(0.0, entropy - dropped) if whole else math.inf)
            self._guesses.clear()

    def _keep(self, loss: ConvexLoss, reply: EpochReply) -> EpochReply:
        """Keep the result, so that asking again is free: the bounds of a run hold jointly."""
        best = self._known.get(loss.digest)
        if (best is None or reply.error <= best.error) and len(self._known) < KEPT:
            self._known[loss.digest] = reply._replace(cost=0)
        return reply

    def _checked(self, loss: ConvexLoss) -> Problem:
        problem = checked_loss(loss).on(self._curator.domain)
        loss.refuse_unnamed_class(self._curator.domain)
        if problem.scale > self.plan.scale * (1 + 1e-9):
            raise QueryError(
                f"the loss' range {problem.scale:.4g} exceeds {self.plan.scale:.4g}, that of the losses planned for;"
                " shrink its ball, or open a session for wider losses"
            )
        unplanned = [name for name in problem.attributes if name not in self.plan.attributes]
        if unplanned:
            raise QueryError(
                f"the loss looks at {', '.join(unplanned)}, which no planned loss does: open a session whose losses do"
            )
        return problem

    def _minimizer(self, loss: ConvexLoss) -> Minimizer:
        """A minimiser whose error is at most `measured` in all planned updates together."""
        found = cheapest_within(
            loss,
            self._curator.domain,
            neighbours=self._curator.neighbours,
            records=self.plan.records,
            error=self.plan.measured,
            failure=self.plan.minimizer_failure,
            spread=self.plan.records_error,
            most=math.inf,
            kinds=WITHIN,
        )
        if found is None:
            raise QueryError(
                f"no private minimiser answers this loss within {self.plan.measured:.3g}; use fewer or coarser features"
            )
        return found

    def _require_means(self, cost: int, key: str | None, analyst: str | None) -> None:
        plan, budget = self.plan, self._curator.budget
        spent = f"the plan's {plan.losses} losses are tested" if self.tests >= plan.losses else ""
        if self.running is None:
            cost += self.epoch_cost
            spent = spent or (f"the plan's {plan.epochs} epochs are used up" if self.opened >= plan.epochs else "")
        if spent:
            raise BudgetError(f"{spent}: open a session with more", requested=budget.amount(cost), remaining=0.0)
        self._curator.affordable(cost, key=key, analyst=analyst)

    def _begin(self, key: str | None, analyst: str | None) -> Epoch:
        # Numbered by all epochs of the ledger: a key that is used again after a crash opens and pays another epoch.
        named = None if key is None else f"{key}:epoch:{self.opened}"
        # Excess risks have the largest sensitivity of all tested values; counts share the epoch with them.
        moved = excess_moved(self._curator.neighbours, self.plan.hidden)
        self._epoch = self._curator.watch(
            self.plan.compared, self.plan.mechanism, moved=moved, key=named, analyst=analyst
        )
        self.opened += 1
        return self._epoch

    def _count_test(self) -> None:
        """Count a test on disk, a block ahead; all tests share one union bound."""
        self.tests += 1
        if self.tests > self._logged:
            self._logged = min(self.plan.losses, self.tests + self.plan.losses // BLOCKS)
            self._log_tests(self._logged)
