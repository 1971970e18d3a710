"""Table 1 of the convex paper (001) for given losses: records, error or budget, each from the other two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

import numpy as np

from reticent.domain import Domain
from reticent.domain.values import confidence_text
from reticent.errors import QueryError, has_items, real_number, require, whole_number
from reticent.kernel.accounting import Budget, epsilon_of, gaussian_epsilon_of
from reticent.kernel.minimizers.excess_risk import FLOATS, GAP, least_scale
from reticent.kernel.minimizers.families import (
    LongDescent,
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    PhasedERM,
    RidgeGLM,
    SufficientStatistics,
    UnconstrainedGLM,
)
from reticent.kernel.minimizers.solvers import records_moved
from reticent.knowledge.minimizers import crossing, least_rho
from reticent.knowledge.publications import composing
from reticent.knowledge.tails import check_confidence, z_score
from reticent.losses.base import ConvexLoss
from reticent.losses.losses import checked_loss
from reticent.planning.convex import ENGINES, price
from reticent.planning.convex import least_error as least_online_error
from reticent.releases.convex_plan import Task, least_offline_error, offline_plan

MOST = 1e15
"""Records beyond which a mechanism counts as hopeless."""
RHO = (1e-18, 1e6)
DELTA = 1e-9
"""Where a budget is the answer, its epsilon is stated at this delta."""
LIPSCHITZ: tuple[type[Minimizer], ...] = (NoisyGradientDescent, LongDescent, PhasedERM, RidgeGLM, SufficientStatistics)
GENERALISED: tuple[type[Minimizer], ...] = (UnconstrainedGLM,)
STRONGLY: tuple[type[Minimizer], ...] = (OutputPerturbation, *LIPSCHITZ)
Unknown = Literal["records", "error", "budget"]


@dataclass(frozen=True)
class LossRow:
    """One row of the plan: family of losses, mechanism, and the computed number."""

    family: str
    mechanism: str
    losses: int
    value: float
    """Records, error or rho, whichever the plan was asked for; infinite where none does."""
    note: str
    certified: bool = True
    """Whether formulas promise it; else it is expected, and an audit certifies afterwards."""
    only_gaussian: bool = True
    """Whether a new ledger for it composes Gaussian noise exactly (`publications.composing`)."""

    @property
    def vacuous(self) -> bool:
        return not math.isfinite(self.value)


@dataclass(frozen=True, eq=False)
class LossPlan:
    """The needs of one loss, and of `count` adaptive losses like it, from formulas, before anything is spent."""

    unknown: Unknown
    rows: tuple[LossRow, ...]
    count: int
    confidence: float
    records: float | None
    error: float | None
    budget: Budget | None
    worth: float
    """The excess risk that parameters of zero have on any table: an error from here on says nothing."""

    @property
    def choice(self) -> LossRow:
        """The row with the smallest guaranteed value for all `count` losses."""
        return min((row for row in self.rows if row.losses == self.count and row.certified), key=lambda row: row.value)

    def to_dict(self) -> dict[str, Any]:
        return {
            "asked for": self.unknown,
            "losses": self.count,
            "confidence": self.confidence,
            "records": self.records,
            "error": self.error,
            "budget": None if self.budget is None else self.budget.to_dict(),
            "rows": [
                {
                    "family": row.family,
                    "mechanism": row.mechanism,
                    "losses": row.losses,
                    self.unknown: None if row.vacuous else row.value,
                    "note": row.note,
                    "certified": row.certified,
                }
                for row in self.rows
            ],
            "choice": self.choice.mechanism,
        }

    def __str__(self) -> str:
        lines = [self._facts(), "", f"{'family':<20}{'mechanism':<30}{'losses':>8}{self.unknown:>14}   needs"]
        for row in self.rows:
            lines.append(
                f"{row.family:<20}{row.mechanism:<30}{row.losses:>8,}{self._shown(row):>14}   {row.note}".rstrip()
            )
        return "\n".join([*lines, "", self.advice])

    def _facts(self) -> str:
        known = [] if self.records is None else [f"{self.records:,.0f} records"]
        known += [] if self.error is None else [f"excess risk {self.error:g}"]
        known += [] if self.budget is None else [composing(self.budget).describe()]
        return f"{self._losses}, confidence {confidence_text(self.confidence, 6)}; {'; '.join(known)}"

    @property
    def _losses(self) -> str:
        return "1 loss" if self.count == 1 else f"{self.count:,} adaptive losses"

    def _shown(self, row: LossRow) -> str:
        if row.vacuous or (self.unknown == "error" and row.value >= self.worth):
            return "vacuous"
        if self.unknown == "records":
            return f"{row.value:.3g}"
        return f"{row.value:.3g}" if self.unknown == "error" else f"rho {row.value:.2g}"

    @property
    def advice(self) -> str:
        """One sentence: the cheapest mechanism for all losses, or that there is none."""
        row = self.choice
        if self._shown(row) == "vacuous":
            return (
                f"No mechanism certifies {self._losses} here; the default engine answers from its hypothesis and"
                " certifies as many as audits can be paid for."
            )
        if self.unknown == "budget":
            epsilon = gaussian_epsilon_of(row.value, DELTA) if row.only_gaussian else epsilon_of(row.value, DELTA)
            return f"Least budget: {row.mechanism}, rho {row.value:.3g} (epsilon {epsilon:.3g} at delta {DELTA:g})."
        if self.unknown == "records":
            return f"Fewest records: {row.mechanism}, {row.value:,.0f}."
        return f"Least error: {row.mechanism}, excess risk {row.value:.3g}."

    def _repr_html_(self) -> str:
        cells = (
            f"<tr><td>{escape(row.family)}</td><td>{escape(row.mechanism)}</td><td>{row.losses:,}</td>"
            f"<td style='text-align:right'>{self._shown(row)}</td><td>{escape(row.note)}</td></tr>"
            for row in self.rows
        )
        head = f"<tr><th>family</th><th>mechanism</th><th>losses</th><th>{self.unknown}</th><th>needs</th></tr>"
        table = f"<table>{head}{''.join(cells)}</table>"
        return f"<div><b>{escape(self._facts())}</b>{table}<p>{escape(self.advice)}</p></div>"


def plan_losses(
    losses: ConvexLoss | Sequence[ConvexLoss],
    *,
    domain: Domain,
    records: int | None = None,
    error: float | None = None,
    budget: Budget | None = None,
    count: int = 100,
    confidence: float = 0.95,
    neighbours: str = "replace-one",
) -> LossPlan:
    """Compute whichever of records, error and budget is not given from the other two; see `rt.plan`."""
    if not has_items(losses := (losses,) if isinstance(losses, ConvexLoss) else losses):
        raise QueryError(f"losses is of type {type(losses).__name__}; give a loss, or a list of losses")
    listed = tuple(losses)
    if not listed:
        raise QueryError("losses= is empty: name losses like those that will be asked")
    require(domain, Domain, "domain", "rt.Domain(...) or table.domain")
    problems = [checked_loss(loss).on(domain) for loss in listed]
    given = {"records": records, "error": error, "budget": budget}
    left = [name for name, value in given.items() if value is None]
    if len(left) != 1:
        raise QueryError(f"give exactly two of records=, error= and budget=; {3 - len(left)} were given")
    if budget is not None:
        require(budget, Budget, "budget", "rt.Budget(epsilon=1, delta=1e-9)")
    if budget is not None and budget.pure:
        raise QueryError("losses are minimised with Gaussian noise: give the budget a delta, or state it in rho")
    wanted = None if error is None else real_number(error, "error", "an excess risk, in the unit of the loss")
    if wanted is not None and not 0 < wanted < max(problem.scale for problem in problems):
        raise QueryError(f"error={wanted!r} must lie above 0 and below the losses' range")
    size = None if records is None else float(whole_number(records, "records", 1, int(MOST)))
    names = {name for problem in problems for name in problem.attributes}
    task = Task(
        listed, domain, neighbours, size or 1.0, whole_number(count, "count", 1, 10**15),
        1 - check_confidence(confidence), max(math.log(domain.size), 1e-9),
    )  # fmt: skip
    offline = Task(
        listed, domain, neighbours, size or 1.0, task.count, task.failure,
        max(math.log(domain.cells(domain.canonical(names))), 1e-9),
    )  # fmt: skip
    exactly = None if budget is None else composing(budget)
    amount = None if exactly is None else exactly.amount(exactly.limit)
    selecting = None if budget is None else float(budget.amount_of_other_noise(budget.limit))
    solver = _Solver(left[0], size, wanted, amount, selecting)  # pyright: ignore[reportArgumentType]
    rows = []
    for family, kinds, note in _families(listed, domain):
        rows.append(LossRow(family, "one private minimiser", 1, solver.single(task, kinds, 1), note))
        if task.count > 1:
            rows.append(LossRow(family, "a minimiser each", task.count, solver.single(task, kinds, task.count), note))
        for engine in ENGINES:
            rows.append(
                LossRow(family, f"{engine} (online)", task.count, solver.online(engine, task, kinds), note, True, False)
            )
        rows.append(
            LossRow(family, "ConvexPMW (offline)", task.count, solver.offline(offline, kinds), note, True, False)
        )
    note = "expected, not promised: if the hypothesis' own models are good, audits say so"
    rows.append(LossRow("any", "an audit each (default)", task.count, solver.audited(task), note, certified=False))
    worth = min(problem.zero_excess for problem in problems)
    return LossPlan(left[0], tuple(rows), task.count, 1 - task.failure, size, wanted, budget, worth)  # pyright: ignore[reportArgumentType]


def _families(losses: Sequence[ConvexLoss], domain: Domain) -> list[tuple[str, tuple[type[Minimizer], ...], str]]:
    """The rows of Table 1 that these losses belong to."""
    problems = [loss.on(domain) for loss in losses]
    if all(problem.strong_convexity > 0 for problem in problems):
        least = min(problem.strong_convexity for problem in problems)
        return [("strongly convex", STRONGLY, f"a ridge of {least:g}")]
    found = [("Lipschitz, bounded", LIPSCHITZ, "a ball and a bounded slope on it")]
    if all(math.isfinite(p.loss.steepest) and p.strong_convexity == 0 and p.loss.kind != "mean" for p in problems):
        found.append(("generalised linear", GENERALISED, "a slope bounded everywhere; free of the dimension"))
    return found


@dataclass(frozen=True)
class _Solver:
    """One formula, solved for whichever of the three is not given."""

    unknown: Unknown
    records: float | None
    error: float | None
    amount: float | None
    """Of Gaussian noise."""
    selecting: float | None
    """For mechanisms that need other noise."""

    def single(self, task: Task, kinds: tuple[type[Minimizer], ...], count: int) -> float:
        """A given number of losses minimised one by one, each within the error at the confidence."""

        def needed(records: float, error: float) -> float:
            facts: dict[str, Any] = {"neighbours": task.neighbours, "records": records, "failure": task.failure}
            return count * max(least_rho(kinds, loss, task.domain, error=error, **facts) for loss in task.losses)

        return self._solved(needed, task.scale)

    def audited(self, task: Task) -> float:
        """Each free model audited separately: the bound that an audit gives nine times in ten for a model without
        excess risk.
        """
        problems = [loss.on(task.domain) for loss in task.losses]
        unit = max(least_scale(problem, np.zeros(problem.dimension), task.neighbours) for problem in problems)
        spread = (z_score(task.failure) + z_score(0.1)) * float(records_moved(task.neighbours) + GAP + FLOATS) * unit
        return self._solved(lambda records, error: task.count * (spread / (records * error)) ** 2 / 2, task.scale)

    def online(self, engine: str, task: Task, kinds: tuple[type[Minimizer], ...]) -> float:
        if self.unknown == "error":
            return least_online_error(engine, task.with_kinds(kinds), self.selecting or 0.0)
        own, others = task.with_kinds(kinds), replace(self, amount=self.selecting)
        return others._solved(lambda records, error: price(engine, own.with_records(records), error), task.scale)

    def offline(self, task: Task, kinds: tuple[type[Minimizer], ...]) -> float:
        own = task.with_kinds(kinds)
        if self.unknown == "error":
            return least_offline_error(own, self.selecting or 0.0)

        def needed(records: float, error: float) -> float:
            plan = offline_plan(own.with_records(records), error)
            return math.inf if plan is None else plan.price

        return replace(self, amount=self.selecting)._solved(needed, task.scale)

    def _solved(self, needed: Any, scale: float) -> float:
        """Solve `needed(records, error) = rho` for the number that is not given."""
        if self.unknown == "budget":
            return needed(self.records, self.error)
        if self.unknown == "records":
            return crossing(lambda records: needed(records, self.error), self.amount or 0.0, 2.0, MOST, within=5e-3)
        return crossing(lambda error: needed(self.records, error), self.amount or 0.0, 1e-12 * scale, scale)
