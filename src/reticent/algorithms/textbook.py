"""Offline private multiplicative weights with the papers' constants: a guarantee before a unit is spent (spec 5.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from reticent.algorithms.cells import CellClass
from reticent.algorithms.outcome import Outcome, Progress, Report, silent
from reticent.errors import QueryError
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.choose import choose
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator
from reticent.kernel.mechanisms import Exponential, Laplace
from reticent.queries.workload import Workload

__all__ = ["TextbookPMW", "TextbookPlan", "textbook_plan"]


@dataclass(frozen=True)
class TextbookPlan:
    """At most `rounds` rounds of `epsilon` for a selection and a Laplace answer each; then every query errs <= 4a."""

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
    """Spec 5.1; `queries` before closing under complement."""
    rounds = math.ceil(4 * log_universe / error**2)
    if rounds == 0:  # a universe of one cell: the start is right
        return TextbookPlan(error, failure, 0, Fraction(0), 0.0)
    # The ledger rounds each of a round's two prices up, by less than a unit.
    amount = Fraction(max(0, units - 2 * rounds), NANO)
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
    """`error` is the papers' a: a finished run errs at most 4a on every cell, with probability 1 - `failure`."""

    error: float
    failure: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.error < 1:
            raise QueryError(f"error={self.error} must lie strictly between 0 and 1")
        if not 0 < self.failure < 1:
            raise QueryError(f"failure={self.failure} must lie strictly between 0 and 1")

    def describe(self) -> dict[str, Any]:
        return {"algorithm": "TextbookPMW", "error": self.error, "failure": self.failure}

    def plan(self, records: int, queries: int, log_universe: float, budget: Budget, units: int) -> TextbookPlan:
        """The guarantee, or a refusal with advice where it would say nothing."""
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
        self, curator: Curator, workload: Workload, *, allowance: int, key: str, report: Report = silent
    ) -> Outcome:
        """Stops as soon as the selected query is answered well; what is then left stays unspent."""
        domain = curator.domain
        cells = CellClass(workload, domain, "TextbookPMW")
        if curator.records is None:
            raise QueryError("TextbookPMW needs a public number of records: use neighbours='replace-one'")
        records = curator.records
        choice = choose(domain, workload)
        if choice.representation == "support":
            raise QueryError(f"TextbookPMW needs the whole universe: {choice.reason}; use Adaptive()")
        plan = self.plan(records, cells.size, math.log(domain.size), curator.budget, allowance)
        report(Progress(0, plan.rounds, plan.guarantee, 0.0))
        hypothesis = choice.build()
        measurements: list[Measurement] = []
        for turn in range(plan.rounds):
            scores = cells.scores(hypothesis, records)
            chosen = curator.select(scores, Exponential(plan.epsilon), key=f"{key}:select {turn}")
            query, complement = cells.query(int(chosen.values[0][0]))
            noise = Laplace(1 / plan.epsilon)
            settled = curator.measure([query], noise, key=f"{key}:measure {turn}")
            value = float(settled.values[0]) / records
            measurements.append(Measurement(query, settled.values[0] / records, noise.sd / records, noise.describe()))
            # A cell is selected for being above its guess, hence its complement q' = 1 - q for q'(p) > q'(D).
            gap = hypothesis.expect(query) - value if complement else value - hypothesis.expect(query)
            report(Progress(turn + 1, plan.rounds, f"error of {query.text} {gap:.3g}", (turn + 1) / plan.rounds))
            if gap <= 2 * self.error:
                break
            hypothesis.reweight(query, -self.error if complement else self.error)
        notes = {"guarantee": plan.guarantee, "rounds": len(measurements), "planned": plan.rounds}
        return Outcome(hypothesis, tuple(measurements), (), float(records), notes)


def _smallest_error(
    records: int, failure: float, queries: int, log_universe: float, budget: Budget, units: int
) -> float | None:
    """The smallest a with a promise for this table, rounded up to two digits; None where even 4a < 1 has none."""

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
