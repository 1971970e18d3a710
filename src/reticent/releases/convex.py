"""Multiplicative weights for a declared list of convex losses: repairs the worst loss until all are good (001, 1.2)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from reticent.errors import QueryError, has_items, real_number, whole_number
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.choose import choose, learned
from reticent.hypotheses.memory import refuse_beyond
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import NANO
from reticent.kernel.curator import NAMED, Curator
from reticent.kernel.mechanisms.base import Exponential, Gaussian
from reticent.kernel.minimizers.excess_risk import LARGEST_HIDDEN, ExcessRisk, ExcessRisks, least_scale
from reticent.kernel.minimizers.families import MINIMIZERS, Minimizer, UnconstrainedGLM
from reticent.knowledge.guarantees import Outcome, Progress, Report, silent
from reticent.knowledge.minimizers import cheapest_within, smallest_bound
from reticent.knowledge.paid_models import ExcessReading, LossCertificate
from reticent.knowledge.risks import loss_difference, project, public_minimum
from reticent.knowledge.tails import noise_failure, reach, z_score
from reticent.losses.base import ConvexLoss
from reticent.losses.losses import checked_loss
from reticent.queries.base import RECORDS_FAILURE, domain_order
from reticent.queries.workload import Workload
from reticent.releases.adaptive import Adaptive
from reticent.releases.budgeting import Steps, divide, noise_costing, too_little
from reticent.releases.convex_plan import HIDDEN, ROUND_ROUNDING, OfflinePlan, Task, least_offline_error, offline_plan
from reticent.releases.mwem import count_records

__all__ = ["ConvexPMW"]

WITHIN = tuple(kind for kind in MINIMIZERS if kind is not UnconstrainedGLM)
"""Minimisers whose answers lie in the ball; an update compares them with the hypothesis' own minimiser there."""
CLOSING = 0.1
"""The share of the allowance for the closing audit, in a run without a planned error."""
LOOKED, MEASURED = 0.25, 0.25
"""The shares of a round's price for selecting the worst loss and for measuring its excess; the rest minimises it."""
MOST_LOSSES = 10_000
LEAST_FAILURE = 2.0**-53
"""The smallest failure probability: below it, one minus the probability rounds to one."""
TREE_COPIES = 3
"""The number of copies of a hypothesis that are held at once during learning."""


@dataclass(frozen=True)
class ConvexPMW:
    """Offline private multiplicative weights for convex losses (Ullman 2015, section 1.2).

    Each round selects the loss whose model, fitted to the hypothesis, is worst on the rows, measures its excess risk,
    minimises it privately, and moves the hypothesis as far as the measurement and the minimiser justify. The run stops
    when the measured excess risk is small, or when no further step is justified. A closing audit then certifies the
    models of all declared losses together (`Release.minimize`).

    Args:
        losses: The losses to serve, all declared before the run.
        error: an excess risk that every one of them is to meet; the run is planned by the theorem for it, or refused
            with the error that can be promised. By default no error is promised, only certified afterwards.
        rounds: without `error`, how many rounds at most; by default twice the number of losses, from 4 to 40.
        start: without `error`, the share of the budget that `Adaptive` spends on the workload first.
        failure: with `error`, how often the promise may fail.
        tree_cells: the largest junction tree of a universe too large to hold; by default one that is read fast.

    Returns:
        An algorithm for `rt.release(table, workload, budget, algorithm=...)`.

    Raises:
        QueryError: an argument is out of range; when it runs, an `error` that cannot be promised, or a pure budget.

    Example:
        >>> import pyarrow as pa
        >>> import reticent as rt
        >>> domain = rt.Domain(a=3, b=2, y=2)
        >>> rows = {name: [row % domain[name].size for row in range(60_000)] for name in domain.names}
        >>> table = rt.Table.read(pa.table(rows), domain)
        >>> losses = [rt.Logistic(features=[name], label="y", radius=2) for name in ("a", "b")]
        >>> algorithm = rt.ConvexPMW(losses, rounds=2)
        >>> release = rt.release(table, rt.marginals(domain, 1), rt.Budget(rho=0.5), algorithm=algorithm)
        >>> release.minimize(losses[0]).certified
        True
    """

    losses: tuple[ConvexLoss, ...]
    error: float | None
    rounds: int | None
    start: float
    failure: float
    tree_cells: int | None

    def __init__(
        self,
        losses: Iterable[ConvexLoss],
        *,
        error: float | None = None,
        rounds: int | None = None,
        start: float = 0.0,
        failure: float = 0.05,
        tree_cells: int | None = None,
    ) -> None:
        if not isinstance(losses, ConvexLoss) and (isinstance(losses, str) or not has_items(losses)):
            raise QueryError(f"losses is of type {type(losses).__name__}; give a list such as [rt.Squared(...)]")
        listed = (losses,) if isinstance(losses, ConvexLoss) else tuple(losses)
        if not 1 <= len(listed) <= MOST_LOSSES:
            raise QueryError(f"{len(listed)} losses: declare from 1 to {MOST_LOSSES}")
        if error is not None and (rounds is not None or start != 0):
            raise QueryError("error= plans its own rounds from a uniform start: leave out rounds= and start=")
        fields: dict[str, Any] = {
            "losses": tuple(dict.fromkeys(map(checked_loss, listed))),
            "error": None if error is None else _above(error, "error", math.inf),
            "rounds": None if rounds is None else whole_number(rounds, "rounds", 1),
            "start": real_number(start, "start", "a share of the budget, at least 0 and below 1"),
            "failure": _above(failure, "failure", 1.0),
            "tree_cells": None if tree_cells is None else whole_number(tree_cells, "tree_cells", 1),
        }
        if not 0 <= fields["start"] < 1 - CLOSING:
            raise QueryError(f"start={start!r} is a share of the budget: at least 0 and below {1 - CLOSING:g}")
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def describe(self) -> dict[str, Any]:
        """Plain values that identify this run in its ledger. The same description under the same key continues an
        interrupted run.

        Returns:
            The algorithm, its losses and its settings, as plain values.

        Example:
            >>> import reticent as rt
            >>> rt.ConvexPMW([rt.Logistic(features=["a"], label="y")]).describe()["algorithm"]
            'ConvexPMW'
        """
        chosen = {} if self.tree_cells is None else {"tree_cells": self.tree_cells}
        return {
            "algorithm": "ConvexPMW",
            "losses": [loss.to_dict() for loss in self.losses],
            "error": self.error,
            "rounds": self.rounds,
            "start": self.start,
            "failure": self.failure,
        } | chosen

    def task(self, curator: Curator, records: float) -> Task:
        """The public facts from which a plan is computed. The universe has only the attributes of the losses (spec
        8.5).

        Args:
            curator: The table's curator; only its public facts are read.
            records: Number of records, public or noisy.

        Returns:
            The facts.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2], "y": [0, 1, 1]}), rt.Domain(a=3, y=2))
            >>> curator = Curator(table, rt.Ledger.memory(rt.Budget(rho=1), table.identity))
            >>> len(rt.ConvexPMW([rt.Logistic(features=["a"], label="y")]).task(curator, 3000).losses)
            1
        """
        domain = curator.domain
        names = domain_order(domain, {name for loss in self.losses for name in loss.on(domain).attributes})
        log_size = max(math.log(domain.cells(names)), 1e-9)
        return Task(
            self.losses, domain, curator.neighbours, records, len(self.losses), self.failure, log_size, 0.0,
            WITHIN, ROUND_ROUNDING,
        )  # fmt: skip

    def plan(self, task: Task, amount: float) -> OfflinePlan:
        """The plan of a run that promises the requested error.

        Args:
            task: Public facts, as `task` makes them.
            amount: What the run may spend, in the budget's unit.

        Returns:
            Rounds, noise and price.

        Raises:
            QueryError: That error cannot be promised; the message names one that can, or advises to leave it out.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2], "y": [0, 1, 1]}), rt.Domain(a=3, y=2))
            >>> curator = Curator(table, rt.Ledger.memory(rt.Budget(rho=1), table.identity))
            >>> algorithm = rt.ConvexPMW([rt.Logistic(features=["a"], label="y")], error=0.2)
            >>> algorithm.plan(algorithm.task(curator, 10**9), 1.0).price <= 1
            True
        """
        assert self.error is not None, "only a wanted error is planned for"
        found = offline_plan(task, self.error)
        if found is None or found.price > amount:
            least = least_offline_error(task, amount)
            worth = min(loss.on(task.domain).zero_excess for loss in task.losses)
            advice = f"use error={least * 1.01:.2g}, or none" if least < worth else "leave error= out"
            raise QueryError(
                f"an excess risk of {self.error:g} is not promised for {len(task.losses)} losses on"
                f" {task.records:g} records: {advice}, and the closing audit certifies what was reached"
            )
        return found

    def run(
        self, curator: Curator, workload: Workload, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome:
        """Repair the worst loss until all are good, then certify. After a crash, the same key returns every step
        already paid.

        Args:
            curator: The only way to the rows; it charges the ledger.
            workload: What the start measures, if there is one.
            allowance: Nano-units to spend at most.
            key: Names the run in the ledger.
            report: Called with public progress.

        Returns:
            The hypothesis and certificates of all losses.

        Raises:
            QueryError: The budget is pure, or the wanted error cannot be promised.
            BudgetError: The allowance is too small.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2], "y": [0, 1, 1]}), rt.Domain(a=3, y=2))
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=1), table.identity)
            >>> algorithm = rt.ConvexPMW([rt.Logistic(features=["a"], label="y")], rounds=1)
            >>> run = algorithm.run(Curator(table, ledger), rt.marginals(table.domain, 1), allowance=10**9, key="run")
            >>> len(run.losses)
            1
        """
        if curator.budget.pure:
            raise QueryError("ConvexPMW adds Gaussian noise: give the budget a delta, or state it in rho")
        if self.error is not None and curator.records is None:
            raise QueryError("error= needs a public number of records: use neighbours='replace-one'")
        self._refuse_sure(counted=curator.records is None)
        for loss in self.losses:
            loss.on(curator.domain)
            loss.refuse_unnamed_class(curator.domain)
        steps = Steps(curator, allowance, key)
        records, doubt = count_records(curator, steps)
        if self.error is not None:
            plan = self.plan(self.task(curator, records), float(curator.budget.amount_of_other_noise(steps.left)))
            report(Progress(0, plan.rounds, plan.guarantee, 0.0))
            return _Run(self, curator, steps, records, 0.0, self._uniform(curator, workload)).planned(plan, report)
        begun, measurements = self._uniform(curator, workload), ()
        if self.start > 0:
            named = steps.begin("start")
            units = steps.share(divide(steps.left, [self.start, 1 - self.start])[0])
            outcome = Adaptive().run(curator, workload, allowance=units, key=named, report=report)
            steps.paid(units)
            begun, measurements = outcome.hypothesis, outcome.measurements
        done = _Run(self, curator, steps, records, doubt, begun).bounded(report)
        return replace(done, measurements=measurements)

    def _refuse_sure(self, *, counted: bool) -> None:
        """Refuse, before anything is paid, a failure probability that leaves none for the noise."""
        if noise_failure(1 - self.failure, float(counted)) <= 0:
            least, remedy = (RECORDS_FAILURE, ", or neighbours='replace-one'") if counted else (LEAST_FAILURE, "")
            raise QueryError(
                f"failure={self.failure:.3g} leaves nothing for noise to stray: use more than {least:.2g}{remedy}"
            )

    def _uniform(self, curator: Curator, workload: Workload) -> Hypothesis:
        chosen: dict[str, Any] = {} if self.tree_cells is None else {"tree_cells": self.tree_cells}
        choice = choose(curator.domain, workload, **chosen)
        refuse_beyond(TREE_COPIES * choice.bytes, "ConvexPMW", "use fewer or coarser attributes")
        return choice.build(np.random.default_rng(0))


class _Run:
    """One run: the hypothesis as it moves, and what has been released so far."""

    def __init__(
        self,
        algorithm: ConvexPMW,
        curator: Curator,
        steps: Steps,
        records: float,
        doubt: float,
        hypothesis: Hypothesis,
    ) -> None:
        self.losses = algorithm.losses
        self.problems = [loss.on(curator.domain) for loss in self.losses]
        self.failure = algorithm.failure
        self.most = algorithm.rounds or min(40, max(4, 2 * len(self.losses)))
        self.curator, self.steps = curator, steps
        self.records, self.doubt = records, doubt
        self.hypothesis = hypothesis
        self.released: list[tuple[int, float, list[float]]] = []
        self.notes: dict[str, Any] = {"losses": len(self.losses)}
        self.thetas, self.gaps, self.scale = self._models()

    def _models(self) -> tuple[tuple[np.ndarray, ...], tuple[float, ...], float]:
        """The hypothesis' own minimisers, and the unit in which one record changes an excess by at most what is paid
        for.
        """
        found = [public_minimum(self.hypothesis, problem) for problem in self.problems]
        thetas = tuple(theta for theta, _ in found)
        neighbours = self.curator.neighbours
        pairs = zip(self.problems, thetas, strict=True)
        scale = max(least_scale(problem, theta, neighbours) for problem, theta in pairs)
        return thetas, tuple(gap for _, gap in found), scale

    @property
    def state(self) -> str:
        """The releases that determine the models."""
        return hashlib.sha256(repr(self.released).encode()).hexdigest()

    def planned(self, plan: OfflinePlan, report: Report) -> Outcome:
        """A run planned by the theorem: stop below `plan.stop`, otherwise move by at least `plan.margin`."""
        hidden = HIDDEN * plan.error
        third = self.failure / 3
        stopped = False
        for turn in range(plan.rounds):
            tail = math.log(len(self.losses) * plan.rounds / third)
            moves = self._moves(hidden)
            unit = moves * self.scale / self.records
            chosen = self._selected(turn, Exponential(Fraction(2 * unit * tail / plan.selected)), hidden)
            z = z_score(third / (2 * plan.rounds))
            noise = Gaussian(Fraction(plan.strayed * self.records / self.scale / z).limit_denominator(10**9))
            excess = None if chosen is None else self._measured(turn, chosen, noise, hidden)
            if chosen is None or excess is None:
                break
            report(Progress(turn + 1, plan.rounds, f"worst excess risk about {excess:.3g}", (turn + 1) / plan.rounds))
            if excess < plan.stop:
                stopped = True
                break
            loss = self.losses[chosen]
            minimizer = cheapest_within(
                loss, self.curator.domain, neighbours=self.curator.neighbours, records=self.records,
                error=plan.measured, failure=third / plan.rounds, most=math.inf, kinds=WITHIN,
            )  # fmt: skip
            if not self._learned(turn, chosen, excess, minimizer, excess - plan.strayed - plan.measured):
                break
        self.notes |= {
            "planned": plan.rounds,
            "guarantee": plan.guarantee if stopped else "none: the run ended before its stopping rule did",
        }
        return self._closed(max(plan.audit, min(CLOSING * self.steps.left / NANO, self._clear(plan.error))), hidden)

    def bounded(self, report: Report) -> Outcome:
        """A run of at most this many rounds with equal prices; stops when no further step is justified."""
        budget = self.curator.budget
        closing, rest = divide(self.steps.left, [CLOSING, 1 - CLOSING])
        each = rest // self.most
        if each < 4:
            raise too_little(max(0, self.steps.left), budget, f"{self.most} rounds", needed=5 * self.most)
        hidden = min(problem.zero_excess for problem in self.problems) / 200
        failure = noise_failure(1 - self.failure, self.doubt) / (2 * self.most)
        parts = [int(each * LOOKED), int(each * MEASURED)]
        stopped = "all rounds were taken"
        for turn in range(self.most):
            looked, measured = (self.steps.share(units) for units in parts)
            minimized = budget.amount_of_other_noise(self.steps.share(each - sum(parts)))
            chosen = self._selected(turn, Exponential.costing(rho=budget.amount_of_other_noise(looked)), hidden)
            if chosen is None:
                break
            noise = noise_costing(budget, self._statistic(chosen, hidden).sensitivity(
                self.curator.neighbours), measured)  # fmt: skip
            excess = self._measured(turn, chosen, noise, hidden)
            if excess is None:
                break
            report(Progress(turn + 1, self.most, f"worst excess risk about {excess:.3g}", (turn + 1) / self.most))
            minimizer = smallest_bound(
                self.losses[chosen], self.curator.domain, neighbours=self.curator.neighbours, records=self.records,
                rho=minimized, failure=failure, spread=self.doubt, kinds=WITHIN,
            )  # fmt: skip
            surely = excess * self.records / self.scale - reach(noise, failure)
            margin = surely * self.scale / self.records / (1 + self.doubt)
            margin -= math.inf if minimizer is None else minimizer.bound(failure, self.doubt)
            if margin <= self.gaps[chosen]:
                stopped = f"after round {turn + 1} no update could be vouched for"
                break
            if not self._learned(turn, chosen, excess, minimizer, margin):
                break
        self.notes |= {"planned": self.most, "stopped": stopped}
        # Where rounds were left out, the audit gets what they would have cost, up to where noise no longer matters.
        return self._closed(max(closing / NANO, min(self.steps.left / NANO, self._clear(200 * hidden))), hidden)

    def _clear(self, error: float) -> float:
        """The price at which an audit's noise is half a percent of this error; a higher price would show
        nothing more.
        """
        statistic = self._statistic(0, 0.01 * error)
        moves = float(statistic.sensitivity(self.curator.neighbours).l1)
        return (moves * self.scale / (0.005 * error * self.records)) ** 2 / 2

    # -- the steps of a round --------------------------------------------------------------------------------

    def _moves(self, hidden: float) -> float:
        statistic = self._statistic(0, hidden)
        return float(statistic.sensitivity(self.curator.neighbours).l1)

    def _share(self, hidden: float) -> float:
        return min(LARGEST_HIDDEN, hidden / self.scale)

    def _statistic(self, index: int, hidden: float) -> ExcessRisk:
        return ExcessRisk(
            (self.losses[index],), (self.thetas[index],), (self.scale,), self.curator.domain, self.records, self.state,
            self._share(hidden),
        )  # fmt: skip

    def _selected(self, turn: int, mechanism: Exponential, hidden: float) -> int | None:
        """The loss whose model is worst, up to noise; None if forfeited steps left too little to pay for the
        selection.
        """
        count = len(self.losses)
        scores = ExcessRisks(
            self.losses, self.thetas, (self.scale,) * count, self.curator.domain, self.records, self.state,
            self._share(hidden),
        )  # fmt: skip
        named = self.steps.begin(f"select {turn}")
        if not self.steps.pays(self.curator.budget.cost(mechanism.price())):
            return None
        chosen = self.curator.select(scores, mechanism, key=named)
        self.steps.paid(chosen.cost)
        return int(chosen.values[0][0])

    def _measured(self, turn: int, index: int, noise: Any, hidden: float) -> float | None:
        """The noisy excess risk of one model, in the unit of the loss."""
        statistic = self._statistic(index, hidden)
        named = self.steps.begin(f"measure {turn} {self.state[:NAMED]}")
        if not self.steps.pays(self.curator.budget.cost(self.curator.price([statistic], noise))):
            return None
        settled = self.curator.measure([statistic], noise, key=named)
        self.steps.paid(settled.cost)
        return float(settled.values[0]) * self.scale / self.records

    def _learned(self, turn: int, index: int, excess: float, minimizer: Minimizer | None, margin: float) -> bool:
        """Minimise privately and move; False if this cannot be paid for."""
        named = self.steps.begin(f"minimize {turn}")
        if minimizer is None or not self.steps.pays(self.curator.budget.cost(minimizer.price())):
            return False
        settled = self.curator.minimize(minimizer, key=named)
        self.steps.paid(settled.cost)
        problem, here, there = self.problems[index], self.thetas[index], settled.values[0]
        self.released.append((index, excess, there.tolist()))
        found = learned(
            self.hypothesis, lambda held: project(held, loss_difference(held, problem, there, here), margin) > 0
        )
        self.hypothesis = found.hypothesis
        if found.note:
            self.notes["hypothesis"] = found.note
        self.thetas, self.gaps, self.scale = self._models()
        return True

    def _closed(self, rho: float, hidden: float) -> Outcome:
        """Certify all declared losses together by one noisy largest excess risk."""
        self.notes |= {"rounds": len(self.released), "records_error": self.doubt}
        count, share = len(self.losses), self._share(hidden)
        statistic = ExcessRisk(
            self.losses, self.thetas, (self.scale,) * count, self.curator.domain, self.records, self.state, share
        )
        sensitivity = statistic.sensitivity(self.curator.neighbours)
        named = self.steps.begin(f"audit {self.state[:NAMED]}")
        units = min(self.steps.left, math.ceil(rho * NANO))
        certificates: tuple[LossCertificate, ...] = ()
        if units > 0:
            noise = noise_costing(self.curator.budget, sensitivity, units)
            settled = self.curator.measure([statistic], noise, key=named)
            reading = ExcessReading(
                value=float(settled.values[0]),
                noise=settled.noises[0],
                index=1,
                scale=self.scale,
                records=self.records,
                records_error=self.doubt,
                cost=settled.cost,
                ledger_id=settled.ledger_id,
                vacuous=min(problem.zero_excess for problem in self.problems),
                hidden=share,
            )
            snapshot = Snapshot(self.hypothesis).digest
            certificates = (LossCertificate(self.losses, self.thetas, self.gaps, snapshot, reading),)
        measurements: tuple[Measurement, ...] = ()
        return Outcome(self.hypothesis, measurements, (), self.records, self.notes, losses=certificates)


def _above(value: Any, name: str, most: float) -> float:
    number = real_number(value, name, "a number above 0")
    if not 0 < number < most:
        raise QueryError(f"{name}={number!r} must lie above 0" + ("" if most == math.inf else f" and below {most:g}"))
    return number
