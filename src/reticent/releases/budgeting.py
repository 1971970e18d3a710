"""Divides an allowance among marginals in whole ledger units: all of it, and never a unit more.

The steps of an offline run share its allowance; a step that two crashes lost is repeated under another key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.levels import FitLevel, cell_sd, estimate_cells, residual_precisions
from reticent.hypotheses.fitting.prior import collapse
from reticent.kernel.accounting import NANO, Budget, Real, exact, is_zero
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace, Sensitivity, restore
from reticent.kernel.statistics import BlockCounts, PartitionCounts, of_one_marginal
from reticent.knowledge.own_noise import QueryReading
from reticent.knowledge.tails import counted
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal, Residual
from reticent.releases.levels import LevelPlan
from reticent.releases.readings import MeasuredQueries, asked_queries
from reticent.releases.residual_plan import noises_costing

__all__ = ["Collection", "Noisy", "divide", "noise_costing"]

Set = tuple[str, ...]
LARGEST_SHARE = Fraction(1, 2)
"""The largest share of a budget for the closing audit."""


def checked_share(share: Real | None) -> Fraction | None:
    """A share of the budget as a fraction; None stays None."""
    if share is None:
        return None
    if is_zero(share):
        return Fraction(0)
    found = exact(share, "audit_share")
    if found > LARGEST_SHARE:
        raise QueryError(f"audit_share={share} is a share of the budget: from 0 to 0.5")
    return found


class Asked(NamedTuple):
    """A marginal, its blocks of codes if it has widths, or its residual."""

    attributes: Set
    widths: tuple[int, ...] = ()
    residual: bool = False


def divide(units: int, weights: Sequence[float]) -> list[int]:
    """Whole shares in proportion to the weights, with the given sum; an empty list for no weights."""
    if not weights:
        return []
    ends = [0.0, *accumulate(weights)]
    marks = [round(units * end / ends[-1]) for end in ends]
    return [high - low for low, high in pairwise(marks)]


def _affordable(shares: Mapping[Asked, int], units: int) -> dict[Asked, int]:
    """At least one unit for as many as these units pay for: cells before blocks, then the largest shares."""
    ordered = sorted(shares, key=lambda asked: (bool(asked.widths), -shares[asked]))[:units]
    added = divide(units - len(ordered), [1.0 + shares[asked] for asked in ordered])
    paid = {asked: 1 + more for asked, more in zip(ordered, added, strict=True)}
    return {asked: paid[asked] for asked in shares if asked in paid}


TOTAL_SHARE = Fraction(1, 50)
"""The share of the allowance for the number of records, which is private under add-remove (spec 1.1)."""


def noise_costing(budget: Budget, sensitivity: Sensitivity, units: int) -> Noise:
    """The smallest noise that `units` of this budget can pay for."""
    amount = Fraction(units, NANO)
    if budget.pure:
        return Laplace.costing(sensitivity=sensitivity, epsilon=amount)
    return Gaussian.costing(sensitivity=sensitivity, rho=amount, exactly=budget.gaussian)


FEWER = "ask for fewer"
"""What helps if a budget is too small for a number of measurements."""


def too_little(units: int, budget: Budget, what: str, *, needed: int, remedy: str = FEWER) -> BudgetError:
    """The error for a budget that is spent or was too small; `needed` is the smallest sufficient amount, and `remedy`
    is what helps beside a larger budget.
    """
    whole = "" if units == budget.limit else f" of {budget.amount(budget.limit):.3g}"
    text = f"{budget.unit} {budget.amount(units):.3g}{whole} cannot pay for {what}; {remedy}, or give a larger budget"
    if units == 0:
        text = f"nothing is left of this ledger's {budget.unit} to pay for {what}; what it published stays free to ask"
    return BudgetError(text, requested=budget.amount(needed), remaining=budget.amount(units))


class Noisy(NamedTuple):
    """Released numbers in records, and the noise of each cell."""

    asked: Asked
    values: np.ndarray
    noise: Noise

    @property
    def attributes(self) -> Set:
        return self.asked.attributes

    @property
    def whole(self) -> bool:
        """Whether its cells are counts of single codes."""
        return not self.asked.widths and not self.asked.residual


def _recorded(request: Mapping[str, Any]) -> tuple[list[Asked], list[Noise]]:
    """The marginals and the noise of a recorded request, which another processor's floats might choose differently."""
    asked = []
    for described in request["statistics"]:
        named = described.get("blocks") or described.get("residual") or described
        asked.append(Asked(tuple(named["marginal"]), tuple(named.get("widths", ())), "residual" in described))
    return asked, [restore(described) for described in request["mechanisms"]]  # pyright: ignore[reportReturnType]


def _recorded_queries(
    request: Mapping[str, Any], domain: Domain
) -> tuple[list[tuple[Linear, ...]], list[Linear | PartitionCounts], list[Noise]]:
    """Single queries, how they are counted, and their noise, as they were recorded."""
    asked = [asked_queries(described) for described in request["statistics"]]
    counted = [
        PartitionCounts(queries, domain) if "partition" in described else queries[0]
        for queries, described in zip(asked, request["statistics"], strict=True)
    ]
    noises = [restore(described) for described in request["mechanisms"]]
    return asked, counted, noises  # pyright: ignore[reportReturnType]


class Collection:
    """The measurements of a run, and what is left to spend; every batch is one ledger event under its own key."""

    def __init__(self, curator: Curator, allowance: int, key: str, analyst: str | None = None) -> None:
        self._curator = curator
        self._analyst = analyst
        self.steps = Steps(curator, allowance, key)
        self.allowance = allowance
        self.key = key
        self.noisy: list[Noisy] = []
        self.singles: list[MeasuredQueries] = []
        """Single queries that were measured themselves."""
        self.plans: Mapping[Set, LevelPlan] = {}
        """Sets that are measured in levels of blocks; the units of such a set are divided among its levels."""
        self.spare: Callable[[], int] = lambda: 0
        """Units that are kept for audits and that the last measurements may spend, by what is known by then."""

    @property
    def left(self) -> int:
        return self.steps.left

    @property
    def _paid(self) -> bool:
        """Whether the run has measured anything: it then publishes what it can, and is not refused any more."""
        return bool(self.noisy or self.singles)

    @property
    def spent_share(self) -> float:
        return 1 - self.left / self.allowance

    @property
    def domain(self) -> Domain:
        """The domain of the table."""
        return self._curator.domain

    @property
    def pure(self) -> bool:
        """Whether the noise is Laplace noise; otherwise it is Gaussian."""
        return self._curator.budget.pure

    @property
    def _one_marginal(self) -> Sensitivity:
        return self._curator.moved(of_one_marginal(self._curator.neighbours))

    @property
    def replacing(self) -> bool:
        """Whether neighbouring tables differ by one replaced record, rather than by one added record."""
        return self._curator.neighbours == "replace-one"

    @property
    def public_records(self) -> bool:
        """Whether the number of records is public, as under replace-one."""
        return self._curator.records is not None

    def sd(self, units: int) -> float:
        """The standard deviation of a marginal that `units` pay for, in records."""
        return noise_costing(self._curator.budget, self._one_marginal, units).sd

    @property
    def cells_over_queries(self) -> float:
        """The variance of a marginal's cell over that of a single query at the same price."""
        moved, units = self._curator.moved(Sensitivity.scalar()), max(self.allowance, 1)
        return (self.sd(units) / noise_costing(self._curator.budget, moved, units).sd) ** 2

    def measure(self, name: str, units: Mapping[Set, int]) -> None:
        """Measure marginals, each with the noise that its units pay for; a step that was begun is continued as it
        began.
        """
        if not units:
            return
        key = self.steps.begin(name)
        begun = self._curator.begun(key)
        asked, noises = self._planned(units) if begun is None else _recorded(begun)
        if asked:
            self._pay(key, asked, noises, sum(units.values()))

    def measure_residuals(self, name: str, precisions: Mapping[Set, float], units: int) -> None:
        """Measure residuals with precisions in these proportions, at the joint price of `units`."""
        key = self.steps.begin(name)
        begun = self._curator.begun(key)
        if begun is None:
            share = self.steps.share(units)
            if share < 1 or share > self.left:
                if self._paid:
                    return
                raise too_little(max(0, self.left), self._curator.budget, f"{len(precisions)} residuals", needed=1)
            asked: list[Asked] = [Asked(names, residual=True) for names in precisions]
            noises: list[Noise] = [*noises_costing(self._curator, list(precisions), list(precisions.values()), share)]
        else:
            asked, noises = _recorded(begun)
        self._pay(key, asked, noises, units)

    def measure_records(self, name: str, units: int) -> None:
        """Measure the number of records alone."""
        if self.pure:
            self.measure(name, {(): units})
        else:
            self.measure_residuals(name, {(): 1.0}, units)

    def measure_queries(self, name: str, units: Mapping[tuple[Linear, ...], int]) -> None:
        """Measure the queries of each statistic with the noise that its units pay for.

        A query alone is counted with its rest if the number of records is private, because the two add up to it.
        """
        key = self.steps.begin(name)
        begun = self._curator.begun(key)
        if begun is None:
            shares = [self.steps.share(share) for share in units.values()]
            if min(shares) < 1 or sum(shares) > self.left:
                raise too_little(max(0, self.left), self._curator.budget, f"{len(units)} queries", needed=len(units))
            asked = list(units)
            counted = [
                queries[0] if len(queries) == 1 and self.public_records else PartitionCounts(queries, self.domain)
                for queries in asked
            ]
            scalar = self._curator.moved(Sensitivity.scalar())
            noises: list[Noise] = [
                noise_costing(self._curator.budget, scalar if isinstance(one, Linear) else self._one_marginal, share)
                for one, share in zip(counted, shares, strict=True)
            ]
        else:
            asked, counted, noises = _recorded_queries(begun, self.domain)
        settled = self._curator.measure(counted, noises, key=key, analyst=self._analyst)
        self.steps.paid(settled.cost, sum(units.values()))
        for queries, values, noise in zip(asked, settled.values, noises, strict=True):
            self.singles.append(MeasuredQueries(queries, np.asarray(values, dtype=np.float64), noise))

    def bounds_queries(self, name: str) -> bool:
        """Whether the step that measures queries bounds their errors, too.

        An earlier version bought an audit for them, and counted queries without their rest.
        """
        if self.begun(f"{name}:audit"):
            return False
        begun = self._curator.begun(self._curator.successor(f"{self.key}:{name}")[0])
        statistics: Any = () if begun is None else begun["statistics"]
        return self.public_records or all("partition" in described for described in statistics)

    def begun(self, name: str) -> bool:
        """Whether a step was begun before; it is then continued as it began."""
        return self._curator.begun(self._curator.successor(f"{self.key}:{name}")[0]) is not None

    def price_of_residuals(self, precisions: Mapping[Set, float]) -> float:
        """The joint price of residuals with these precisions, in budget units."""
        noises = [Gaussian(Fraction(precision**-0.5)) for precision in precisions.values()]
        return float(self._curator.price([Residual(names) for names in precisions], noises).rho) * NANO

    def resume(self, name: str) -> bool:
        """Continue a step that an earlier version began, in the way it began; False if there is none."""
        key = self.steps.begin(name)
        begun = self._curator.begun(key)
        if begun is not None:
            self._pay(key, *_recorded(begun), None)
        return begun is not None

    def _pay(self, key: str, asked: Sequence[Asked], noises: Sequence[Noise], planned: int | None) -> None:
        counted = [self._counted(one) for one in asked]
        settled = self._curator.measure(counted, noises, key=key, analyst=self._analyst)
        self.steps.paid(settled.cost, planned)
        for one, values, noise in zip(asked, settled.values, noises, strict=True):
            self.noisy.append(Noisy(one, np.asarray(values, dtype=np.float64), noise))

    def _counted(self, asked: Asked) -> Marginal | BlockCounts | Residual:
        if asked.residual:
            return Residual(asked.attributes)
        names, widths = asked.attributes, asked.widths
        return BlockCounts(names, widths, self._curator.domain) if widths else Marginal(names)

    def _planned(self, units: Mapping[Set, int]) -> tuple[list[Asked], list[Noise]]:
        shares: dict[Asked, int] = {}
        for names, share in units.items():
            shares |= self._by_level(names, self.steps.share(share))
        if min(shares.values()) < 1 or sum(shares.values()) > self.left:
            kept = min(sum(shares.values()), max(0, self.left))
            if kept < len(shares) and not self._paid:
                raise too_little(max(0, self.left), self._curator.budget, f"{len(units)} marginals", needed=len(shares))
            shares = _affordable(shares, kept)
        moved = self._one_marginal
        return list(shares), [noise_costing(self._curator.budget, moved, share) for share in shares.values()]

    def _by_level(self, names: Set, units: int) -> dict[Asked, int]:
        """The units of a set, divided among its levels if it has any; levels that would get none are left out."""
        plan = self.plans.get(names)
        if plan is None:
            return {Asked(names): units}
        parts = zip(plan.widths, divide(units, plan.shares), strict=True)
        return {
            Asked(names, widths if max(widths) > 1 else ()): share
            for widths, share in parts
            if share or max(widths) == 1
        }

    def precisions(self) -> dict[Set, float]:
        """Inverse variances of measured marginals, in records, summed over repeated measurements."""
        return self._precisions(residual=False)

    def residual_precisions(self) -> dict[Set, float]:
        """Inverse variances of directly measured residuals; residuals that follow from marginals are not included."""
        return self._precisions(residual=True)

    def _precisions(self, *, residual: bool) -> dict[Set, float]:
        found: dict[Set, float] = {}
        for noisy in self.noisy:
            if noisy.asked.residual == residual and not noisy.asked.widths:
                found[noisy.attributes] = found.get(noisy.attributes, 0.0) + noisy.noise.sd**-2.0
        return found

    @property
    def records(self) -> tuple[float, float]:
        """The number of records and a bound on its relative error: public, or the mean of all measured totals."""
        if self._curator.records is not None:
            return float(self._curator.records), 0.0
        # Every table's cells add up to it, those of residuals to nothing; but the residual of no attribute is it.
        told = [n for n in self.noisy if not n.asked.residual or not n.attributes]
        parts = (single.total for single in self.singles if single.partitioned)
        total = collapse([*((n.attributes, n.values, n.noise.sd) for n in told), *parts], ())
        assert total is not None  # a run measures before it asks
        return counted(float(total[0]), total[1], pure=self._curator.budget.pure)

    @property
    def knows_records(self) -> bool:
        """Whether the number of records is public, or was measured, by itself or as a sum."""
        return self.public_records or bool(self.noisy) or any(single.partitioned for single in self.singles)

    def measurements(self) -> list[Measurement]:
        """Marginals and residuals as fractions of the table."""
        count, _ = self.records
        return [
            Measurement(query(n.attributes), n.values / count, n.noise.sd / count, n.noise.describe())
            for n in self.noisy
            for query in ([Residual] if n.asked.residual else [Marginal])
            if not n.asked.widths
        ]

    def tables(self) -> dict[Set, Measurement]:
        """For every set with a plan of levels, its table: joined from the levels and from what measurements of other
        sets tell of it.
        """
        count, _ = self.records
        found = {}
        for names in dict.fromkeys(n.attributes for n in self.noisy if n.attributes in self.plans):
            shape = self._curator.domain.shape_of(names)
            levels = [
                FitLevel(n.asked.widths or (1,) * len(names), n.values, n.noise.sd, self.pure)
                for n in self.noisy
                if n.attributes == names
            ]
            levels += self._levels_of_others(names, shape)
            cells = estimate_cells(levels, shape, count) / count
            sd = cell_sd(residual_precisions(levels, shape), shape) / count
            found[names] = Measurement(Marginal(names), cells, sd)
        return found

    def _levels_of_others(self, names: Set, shape: tuple[int, ...]) -> list[FitLevel]:
        """What other sets tell of this one: counts of some of its attributes are sums of blocks that hold all codes of
        the rest.
        """
        wide: dict[tuple[Set, tuple[int, ...]], list[tuple[Set, np.ndarray, float]]] = {}
        for n in self.noisy:
            widths = dict(zip(n.attributes, n.asked.widths or (1,) * len(n.attributes), strict=True))
            kept = tuple(name for name in names if name in widths)
            if n.attributes == names or n.asked.residual or not kept:
                continue
            blocks = tuple(widths.get(name, size) for name, size in zip(names, shape, strict=True))
            wide.setdefault((kept, blocks), []).append((n.attributes, n.values, n.noise.sd))
        found = []
        for (kept, blocks), told in wide.items():
            summed = collapse(told, kept)
            assert summed is not None  # all of them hold these attributes
            counted = tuple(-(-size // width) for size, width in zip(shape, blocks, strict=True))
            found.append(FitLevel(blocks, summed[0].reshape(counted), summed[1], self.pure))
        return found

    def queries(self) -> list[Measurement]:
        """Single queries as fractions of the table, and the number of records where only they tell it."""
        count, _ = self.records
        found = [one for single in self.singles for one in single.measurements(self.domain, count)]
        total = collapse((single.total for single in self.singles if single.partitioned), ())
        if total is not None:
            found.append(Measurement(Residual(()), total[0] / count, total[1] / count))
        return found

    def readings(self) -> dict[Linear, QueryReading]:
        """What the measurements of single queries say about them."""
        records = self._curator.records
        found: dict[Linear, QueryReading] = {}
        for single in self.singles:
            if self.public_records or single.partitioned:
                found |= single.readings(self.domain, records)
        return found

    def fitted(self) -> list[Measurement]:
        """The measurements that a fit reads: one table in place of all levels of a set, and single queries."""
        tables = self.tables()
        kept = [m for m in self.measurements() if tuple(m.query.names) not in tables]  # pyright: ignore[reportAttributeAccessIssue]
        return [*kept, *tables.values(), *self.queries()]


class Steps:
    """What a run may still spend, step by step, each under its own key.

    What a lost step cost stays charged. Later steps then receive proportionally less than planned, so that the run
    never spends more than its allowance. Without a loss every step costs exactly what was planned.
    """

    def __init__(self, curator: Curator, allowance: int, key: str) -> None:
        self._curator = curator
        self._key = key
        self._planned = allowance
        self.left = allowance

    @property
    def whole(self) -> bool:
        """Whether nothing has been lost so far."""
        return self.left == self._planned

    def begin(self, name: str) -> str:
        """The key of the next step: the first of its keys that is not forfeited."""
        key, lost = self._curator.successor(f"{self._key}:{name}")
        self.left -= lost
        return key

    def share(self, units: int) -> int:
        """The part of planned units that is still available."""
        return units if self.whole else units * max(0, self.left) // max(1, self._planned)

    def pays(self, cost: int) -> bool:
        """Whether enough of the allowance is left, after losses, for a step with a fixed price."""
        return self.whole or 0 < cost <= self.left

    def paid(self, cost: int, planned: int | None = None) -> None:
        """Record that a step was settled at this cost; `planned` is its cost without any loss."""
        whole = self.whole
        self.left -= cost
        self._planned = self.left if whole else self._planned - (cost if planned is None else planned)
