"""Offline private multiplicative weights with the constants of the papers: a guarantee before anything is spent (spec
5.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from reticent.errors import QueryError, real_number, whole_number
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.choose import CLIQUE_CELLS
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms.base import Exponential, Laplace
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.knowledge.guarantees import Guarantee, Outcome, Progress, Report, silent
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.workload import Workload
from reticent.releases.budgeting import Steps
from reticent.releases.query_class import Learner, QueryClass

__all__ = ["TextbookPMW", "TextbookPlan", "textbook_plan"]


@dataclass(frozen=True)
class TextbookPlan:
    """At most `rounds` rounds, each with `epsilon` for a selection and a Laplace answer; then every query has an error
    <= 4a.
    """

    error: float
    failure: float
    rounds: int
    epsilon: Fraction
    records_needed: float

    @property
    def guarantee(self) -> str:
        return (
            f"every query errs at most {4 * self.error:.3g} with probability {1 - self.failure:.4g} "
            f"from {self.records_needed:,.0f} records on; up to {self.rounds} rounds"
        )


def textbook_plan(
    error: float, failure: float, queries: int, log_universe: float, budget: Budget, units: int
) -> TextbookPlan:
    """The plan of spec 5.1; `queries` is counted before closing under complement."""
    rounds = math.ceil(4 * log_universe / error**2)
    if rounds == 0:  # a universe of one cell: the start is right
        return TextbookPlan(error, failure, 0, Fraction(0), 0.0)
    # The ledger rounds each of a round's two prices up, by less than a unit.
    amount = budget.amount_of_other_noise(max(0, units - 2 * rounds))
    if budget.pure:
        epsilon = amount / (2 * rounds)
    else:
        # a round costs e0^2/8 + e0^2/2 of rho; the root is rounded down
        square = 8 * amount / (5 * rounds)
        epsilon = Fraction(math.isqrt(square.numerator * 10**40 // square.denominator), 10**20)
    needed = 2 * math.log(2 * (2 * queries) * rounds / failure) / (float(epsilon) * error) if epsilon else math.inf
    return TextbookPlan(error, failure, rounds, epsilon, needed)


@dataclass(frozen=True)
class TextbookPMW:
    """Offline private multiplicative weights with the constants of its theorem (lecture notes 000; spec 5.1).

    It takes workloads of any linear queries. A run ends when the selected query passes a noisy test. Then every query
    of the workload has an error of at most 4 `error` with probability 1 - `failure`, and each answer states this bound.
    A universe that is too large to hold is learned on a junction tree, then on records drawn from it; such a run may
    use all its rounds without passing the test, and then certifies nothing.

    Args:
        error: The papers' a.
        failure: How often the bound may fail.
        tree_cells: The largest junction tree; by default one that is read as fast as a support.

    Raises:
        QueryError: A number is out of range. `run` also refuses where the theorem promises nothing for the table.

    Example:
        >>> import pyarrow as pa
        >>> import reticent as rt
        >>> domain = rt.Domain({"a": 3, "b": 4})
        >>> table = rt.Table.of(pa.table({"a": [0, 1, 2, 1] * 25_000, "b": [3, 3, 0, 1] * 25_000}), domain)
        >>> workload = rt.marginals(domain, 2) + rt.ranges("b")
        >>> budget = rt.Budget(epsilon=1, delta=1e-9)
        >>> release = rt.release(table, workload, budget, algorithm=rt.TextbookPMW(error=0.09))
        >>> release.answer(rt.count(rt.col("b") <= 1)).error <= 4 * 0.0901
        True
    """

    error: float
    failure: float = 0.05
    tree_cells: int | None = None

    def __post_init__(self) -> None:
        for name in ("error", "failure"):
            number = real_number(getattr(self, name), name, "a number strictly between 0 and 1")
            if not 0 < number < 1:
                raise QueryError(f"{name}={number!r} must lie strictly between 0 and 1")
        if self.tree_cells is not None:
            object.__setattr__(self, "tree_cells", whole_number(self.tree_cells, "tree_cells", 1))

    def describe(self) -> dict[str, Any]:
        """Plain values that identify this run in its ledger. Options that older versions lacked appear only if they are
        set.

        Returns:
            The algorithm and its settings, as plain values.

        Example:
            >>> import reticent as rt
            >>> rt.TextbookPMW(error=0.1).describe()["error"]
            0.1
        """
        chosen = {} if self.tree_cells is None else {"tree_cells": self.tree_cells}
        return {"algorithm": "TextbookPMW", "error": self.error, "failure": self.failure} | chosen

    def terms(self) -> dict[str, Any]:
        """Settings that a run keeps once it has begun, even if later versions have other defaults.

        Returns:
            Plain values, as `resumed` reads them.

        Example:
            >>> import reticent as rt
            >>> sorted(rt.TextbookPMW(error=0.1).terms())
            ['tree_cells']
        """
        return {"tree_cells": self.tree_cells}

    def resumed(self, begun: Mapping[str, Any]) -> TextbookPMW:
        """This algorithm with the settings of a run that has begun.

        Args:
            begun: What `terms` wrote; runs older than a setting lack it, and had the largest tree.

        Returns:
            The algorithm.

        Example:
            >>> import reticent as rt
            >>> rt.TextbookPMW(error=0.1).resumed({"tree_cells": 64}).tree_cells
            64
        """
        return replace(self, tree_cells=begun.get("tree_cells", CLIQUE_CELLS))

    def plan(self, records: int, queries: int, log_universe: float, budget: Budget, units: int) -> TextbookPlan:
        """The guarantee of a run, from public facts alone.

        Args:
            records: Public number of records.
            queries: Number of queries, each with its complement.
            log_universe: Natural logarithm of the number of possible records.
            budget: The ledger's budget.
            units: Nano-units that the run may spend.

        Returns:
            Rounds, noise and the guarantee.

        Raises:
            QueryError: The guarantee would be vacuous, or needs more records; the message names an error that works.

        Example:
            >>> import reticent as rt
            >>> plan = rt.TextbookPMW(error=0.1).plan(10**7, 20, 3.0, rt.Budget(rho=1), 10**9)
            >>> plan.records_needed <= 10**7
            True
        """
        plan = textbook_plan(self.error, self.failure, queries, log_universe, budget, units)
        smallest = _smallest_error(records, self.failure, queries, log_universe, budget, units)
        advice = "use Adaptive()" if smallest is None else f"use error={smallest:.2g} or Adaptive()"
        if 4 * self.error >= 1:
            raise QueryError(f"error={self.error} promises errors of at most {4 * self.error:.3g}: vacuous; {advice}")
        if records < plan.records_needed:
            needed = f"{plan.records_needed:,.0f} records, the table has {records:,}"
            raise QueryError(f"error={self.error} is promised only from {needed}; {advice}")
        return plan

    def run(
        self, curator: Curator, workload: Workload | Conjunctions, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome:
        """Run until the selected query is answered well; the rest of the allowance stays unspent.

        Args:
            curator: The only way to the rows; it charges the ledger.
            workload: The queries to answer.
            allowance: Nano-units to spend at most.
            key: Names the run in the ledger; the same key after a crash reads back every round already paid.
            report: Called with public progress.

        Returns:
            The hypothesis, what was measured, and the guarantee.

        Raises:
            QueryError: The number of records is not public, or nothing can be guaranteed.

        Example:
            >>> import pyarrow, reticent as rt
            >>> from reticent.kernel.curator import Curator
            >>> table = rt.Table.of(pyarrow.table({"a": [0, 1, 2] * 100000}), rt.Domain(a=3))
            >>> ledger = rt.Ledger.memory(rt.Budget(rho=10), table.identity)
            >>> textbook = rt.TextbookPMW(error=0.1)
            >>> workload = rt.marginals(table.domain, 1)
            >>> run = textbook.run(Curator(table, ledger), workload, allowance=ledger.remaining, key="run")
            >>> len(run.guarantees)
            1
        """
        domain = curator.domain
        queries = QueryClass(workload, domain)
        if curator.records is None:
            raise QueryError("TextbookPMW needs a public number of records: use neighbours='replace-one'")
        records = curator.records
        plan = self.plan(records, queries.size, math.log(domain.size), curator.budget, allowance)
        report(Progress(0, plan.rounds, plan.guarantee, 0.0))
        learner = Learner.uniform(queries, self.tree_cells, "TextbookPMW")
        steps = Steps(curator, allowance, key)
        measurements: list[Measurement] = []
        passed = 0.0 if plan.rounds == 0 else None
        for turn in range(plan.rounds):
            scores, selection = learner.scores(records, measurements), Exponential(plan.epsilon)
            named = steps.begin(f"select {turn}")
            if not steps.pays(curator.budget.cost(selection.price())):
                break
            chosen = curator.select(scores, selection, key=named)
            steps.paid(chosen.cost)
            query, complement = queries.query(int(chosen.values[0][0]))
            noise, named = Laplace(1 / plan.epsilon), steps.begin(f"measure {turn}")
            if not steps.pays(curator.budget.cost(curator.price([query], noise))):
                break
            settled = curator.measure([query], noise, key=named)
            steps.paid(settled.cost)
            value = float(settled.values[0]) / records
            measurements.append(Measurement(query, settled.values[0] / records, noise.sd / records, noise.describe()))
            # A cell is selected for being above its guess, hence its complement q' = 1 - q for q'(p) > q'(D).
            guess = learner.guess(query)
            gap = guess - value if complement else value - guess
            report(Progress(turn + 1, plan.rounds, f"error of {query.wording} {gap:.3g}", (turn + 1) / plan.rounds))
            if gap <= 2 * self.error:
                passed = max(0.0, gap)
                break
            learner.reweight(query, -self.error if complement else self.error)
        notes: dict[str, Any] = {"rounds": len(measurements), "planned": plan.rounds} | learner.described
        if passed is None:
            # In the event of the theorem a test passes within the planned rounds, where the whole universe is held.
            lost = "crashes lost a part of the budget, and the rest could not pay for all rounds"
            used = f"{plan.rounds} rounds did not end in a passed test"
            notes["guarantee"] = f"none: {used if len(measurements) == plan.rounds else lost}"
            return Outcome(learner.hypothesis, tuple(measurements), (), float(records), notes)
        held = Guarantee(
            theorem="offline private multiplicative weights (000): the selected query passed its test",
            error=min(1.0, _certified(passed, self.error, records)),
            confidence=1 - self.failure,
            snapshot=Snapshot(learner.hypothesis).digest,
            workload=workload,
            domain=domain,
        )
        notes["guarantee"] = plan.guarantee
        return Outcome(learner.hypothesis, tuple(measurements), (), float(records), notes, guarantees=(held,))


def _certified(passed: float, error: float, records: int) -> float:
    """The error of the worst query exceeds that of the selected one by at most `a`, which exceeds its noisy gap by at
    most `a`.

    This gives at most 4a, and less if the gap was below 2a. Rounding of values and of discrete noise is added.
    """
    return passed + 2 * error + 2 * VALUE_ROUNDING + 1 / records


def _smallest_error(
    records: int, failure: float, queries: int, log_universe: float, budget: Budget, units: int
) -> float | None:
    """The smallest `a` with a guarantee for this table, rounded up to two digits; None if even 4a < 1 has none."""

    def promised(error: float) -> bool:
        return textbook_plan(error, failure, queries, log_universe, budget, units).records_needed <= records

    low, high = 1e-4, 0.2499
    if not promised(high):
        return None
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if promised(middle) else (middle, high)
    digits = 1 - math.floor(math.log10(high))
    return min(0.2499, math.ceil(high * 10**digits) / 10**digits)
