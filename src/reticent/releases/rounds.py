"""Measures a workload in rounds: first everything in the workload, then the sets for which the first round shows a
gain.

Precision adds up over rounds, so the first round is not lost (spec planning.md 4). With Gaussian noise residuals are
measured; marginals otherwise, and if they are expected to have a smaller error.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import inf

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.fitting.prior import SCALE_GRID
from reticent.hypotheses.one_thread import on_one_thread
from reticent.knowledge.guarantees import Progress, Report
from reticent.releases.allocation import (
    LAPLACE_POWER,
    MOST_ERROR,
    NORMAL_POWER,
    Allocation,
    plain_shares,
    prior_variances,
)
from reticent.releases.budgeting import TOTAL_SHARE, Collection, divide
from reticent.releases.pure_plan import LOOK, dispensable, families, pure_shares, widest_variances
from reticent.releases.residual_plan import ResidualPlan, measurable

__all__ = ["ONLY_ROUND", "STEPS", "TOTAL", "first_shares", "measure_in_rounds", "records_share", "residuals_planned"]

Set = tuple[str, ...]

STEPS = 5
"""Steps that a run reports: three rounds, the fit, the audits."""
ROUNDS = (0.1, 0.3, 1.0)
"""The share of the budget that is spent after each round."""
PURE_ROUNDS = (LOOK, 1.0)
ORDER_GROWTH = 2.0
"""In the first round each order has this many times the budget of the order below."""
SIZE_POWER = 0.4
"""Within an order a marginal's share grows with this power of its cells; a smaller power reduces the largest error."""
LEAST_UNITS = 100
"""Ledger units that each marginal, or all residuals together, must have in the first round; otherwise there is one
round.
"""
LEAST_SHARE = 0.01
"""The smallest share, relative to an equal one; sets that would get less in a later round are not measured again."""
UNASKED_SHARE = Fraction(1, 25)
"""The largest share of every round for attributes that the workload does not name. Synthetic rows have these columns
too; the workload keeps 24 of 25 parts however many other columns there are.
"""
SMALL = 2**10
"""Sets of up to this many cells are measured in the first round for any number of records; for larger sets see
`_visible`.
"""
MOST_RECORDS, RECORDS_STEPS = 0.5, 2000
"""The largest share of a budget for a private number of records, and the steps to it that are tried."""
TOTAL = "total"
"""The step that buys the number of records separately."""
ONLY_ROUND = "only round"
"""The step of a pure budget that is spent at once."""
ROUNDED = 1e-9
"""What rounding may take off a share."""
SMALLEST = 1e-100
"""A share of nothing, whose square is still a number."""
FORMER_STEPS = ("all", "first", "second")
"""Steps of version 0.1: what it began is read back, and the rest is planned again."""


def first_shares(domain: Domain, sets: Sequence[Set], units: int) -> dict[Set, int]:
    """Units of every set before anything is known: more for higher orders, and for larger sets within an order."""
    orders = sorted({len(s) for s in sets})
    pots = divide(units, [ORDER_GROWTH**order for order in orders])
    shares: dict[Set, int] = {}
    for order, pot in zip(orders, pots, strict=True):
        members = [s for s in sets if len(s) == order]
        shares |= dict(zip(members, divide(pot, [domain.cells(s) ** SIZE_POWER for s in members]), strict=True))
    return shares


def column_shares(domain: Domain, targets: Mapping[Set, float], units: int, *, pure: bool) -> dict[Set, int]:
    """Units of single columns that are all a workload asks for, by their codes and weights.

    The total variation of d codes grows with d times their noise. Under normal noise the sum of `w d / s^(1/2)` is
    least for shares s that grow with the power two thirds of w d; none is so small that its column has more than
    `MOST_ERROR` times plain noise. Under Laplace noise, no column may have more than plain noise, whose shares add up
    to all.
    """
    weights = np.array(list(targets.values()))
    shares = plain_shares(weights, LAPLACE_POWER if pure else NORMAL_POWER)
    if not pure:
        least = shares / MOST_ERROR**2
        best = plain_shares(weights * [domain.cells(s) for s in targets], NORMAL_POWER)
        shares, held = best, np.zeros(len(least), dtype=bool)
        while (shares < least * (1 - ROUNDED)).any():
            held |= shares < least
            shares = np.where(held, least, best * (1 - least[held].sum()) / max(best[~held].sum(), SMALLEST))
    return dict(zip(targets, divide(units, shares.tolist()), strict=True))


@on_one_thread
def measure_in_rounds(
    collection: Collection,
    domain: Domain,
    targets: Mapping[Set, float],
    sets: Sequence[Set],
    units: int,
    report: Report,
    *,
    at_once: bool,
    residuals: bool,
) -> None:
    """Spend `units` on the sets, which must include all single attributes; `residuals` permits residuals instead of
    marginals.

    Attributes that no target contains share a small part of every round.
    """
    # Of single attributes nothing is known beforehand, whatever a look shows.
    alone = max(map(len, sets)) == 1
    columns = alone and residuals and not at_once
    at_once = at_once or alone
    # What the run keeps for audits; queries that were measured before are spent.
    reserved = (collection.left if collection.steps.whole else collection.allowance) - units
    former = [collection.resume(name) for name in FORMER_STEPS]
    unasked = UnaskedAttributes.among(sets, targets)
    sets = [s for s in sets if s not in unasked.sets]
    asked = _targets(sets, targets)
    plan = _residual_plan(collection, domain, sets, asked, at_once) if residuals else None
    # Residuals are paid together: no set's own share is rounded to whole units.
    rounds = _rounds(collection.pure, len(sets) if plan is None else 1, units, at_once)
    columns = columns and not any(former)
    levels = LevelledSets.among(asked, collection.plans) if not (collection.pure or columns) else LevelledSets({})
    sets = [s for s in sets if s not in levels.shares]
    allocation = Allocation(domain, sets, {s: weight for s, weight in asked.items() if s not in levels.shares})
    # Levels of ranges tell their sum.
    counted = _count_columns(collection, domain, asked, units) if columns and not collection.plans else 0
    look = list(sets)
    if len(rounds) > 1 and not any(former):
        if collection.pure:
            units -= _count_before(collection, domain, asked, units)
            if _looks_in_vain(collection, domain, asked, units):
                _measure_pure(collection, domain, allocation, asked, unasked, units + collection.spare(), report)
                return
        elif plan is not None:
            counted = _count_before(collection, domain, sets, int(units * rounds[0]))
        look = _visible(collection, domain, sets, units)
    for place in range(len(rounds)):
        # Without a loss this is what the earlier rounds planned, to the unit: a round that was begun goes on.
        spend = _of_round(units, rounds, place, counted) + (0 if place + 1 < len(rounds) else collection.spare())
        if any(former):
            spend = min(spend, collection.left - reserved)
        if spend <= 0 or (any(former) and place == 0 and len(rounds) > 1):
            continue
        name = f"round {place + 1}"
        if place and _was_spent(collection, name, reserved, spend):
            break
        report(Progress(place, STEPS, f"measuring {len(sets)} marginals", collection.spent_share))
        first = place == 0 and not any(former)
        precisions = None
        others = unasked.units(spend)
        if plan is not None and not collection.begun(name):
            kept = spend - others
            precisions = _residual_precisions(collection, domain, plan, allocation, kept, look if first else None)
        if precisions is not None:
            precisions |= unasked.precisions(domain, collection.sd(spend) ** -2.0, replacing=collection.replacing)
            collection.measure_residuals(name, precisions, spend)
            continue
        ranges = levels.units(spend - others)
        kept, seen = spend - others - sum(ranges.values()), look if first else None
        shares = ranges | _marginal_shares(
            collection, domain, allocation, asked, kept, seen, at_once=at_once, columns=columns
        )
        collection.measure(name, shares | first_shares(domain, unasked.sets, others))
        if first and plan is not None and not (plan.exact or any(collection.residual_precisions())):
            plan = None  # the choice holds for all rounds: fits of marginals and residuals together are worse


def _of_round(units: int, rounds: Sequence[float], place: int, counted: int) -> int:
    """The units of a round; the first has paid for the number of records already."""
    return int(units * rounds[place]) - (int(units * rounds[place - 1]) if place else counted)


def _measure_pure(
    collection: Collection,
    domain: Domain,
    allocation: Allocation,
    targets: Mapping[Set, float],
    unasked: UnaskedAttributes,
    units: int,
    report: Report,
) -> None:
    """Spend a pure budget at once."""
    report(Progress(0, STEPS, f"measuring {len(targets)} marginals", collection.spent_share))
    others = unasked.units(units)
    shares = _pure_shares(collection, domain, allocation, targets, units - others, None)
    collection.measure(ONLY_ROUND, shares | first_shares(domain, unasked.sets, others))


@dataclass(frozen=True)
class UnaskedAttributes:
    """Single attributes that no target contains, and their joint share of every round."""

    sets: tuple[Set, ...]
    share: Fraction

    @classmethod
    def among(cls, sets: Sequence[Set], targets: Iterable[Set]) -> UnaskedAttributes:
        """Each counts as one more table, and all together as at most `UNASKED_SHARE` of the whole."""
        asked = list(targets)
        named = {name for s in asked for name in s}
        found = tuple(s for s in sets if len(s) == 1 and s[0] not in named)
        return cls(found, min(UNASKED_SHARE, Fraction(len(found), len(found) + len(asked))))

    def units(self, spend: int) -> int:
        """Their part of the units of a round."""
        return max(int(spend * self.share), len(self.sets)) if self.sets else 0

    def precisions(self, domain: Domain, budget: float, *, replacing: bool) -> dict[Set, float]:
        """Precisions of their residuals for their share of the budget."""
        if not self.sets:
            return {}
        plan = ResidualPlan(domain, self.sets, dict.fromkeys(self.sets, 1.0), total=False, replacing=replacing)
        unknown = [None] * len(plan.sets)
        added = plan.fill(float(self.share) * budget, np.zeros(len(plan.sets)), unknown)
        return dict(zip(plan.sets, added.tolist(), strict=True))


@dataclass(frozen=True)
class LevelledSets:
    """Sets whose ranges are asked for, and their shares of every round: what plain noise gives them.

    A table's error is its total variation, which adds up over thousands of cells; that of ranges is the error of one. A
    plan for tables would take it for the former and starve small tables beside a fine column.
    """

    shares: Mapping[Set, float]

    @classmethod
    def among(cls, targets: Mapping[Set, float], plans: Container[Set]) -> LevelledSets:
        """None if the workload asks for ranges alone, which a plan for tables then divides among them."""
        shares = dict(zip(targets, plain_shares(np.array(list(targets.values())), NORMAL_POWER).tolist(), strict=True))
        found = {s: share for s, share in shares.items() if s in plans}
        return cls(found if len(found) < len(targets) else {})

    def units(self, spend: int) -> dict[Set, int]:
        """Their part of the units of a round."""
        return {s: int(spend * share) for s, share in self.shares.items()}


def _was_spent(collection: Collection, name: str, reserved: int, spend: int) -> bool:
    """Whether an earlier version spent in its first round what this version keeps for later rounds."""
    kept = collection.left - reserved
    return collection.steps.whole and not collection.begun(name) and kept < spend / 2


def _count_before(collection: Collection, domain: Domain, sets: Iterable[Set], units: int) -> int:
    """Buy the number of records if it is private and decides what is measured; returns the units that this may cost.

    A pure budget buys it if this tells it better than the sums of N noisy cells of the sets, all measured equally: if
    the root of N exceeds the inverse of its share.
    """
    share = int(units * TOTAL_SHARE)
    if collection.knows_records or share < 1:
        return 0
    begun_without = any(map(collection.begun, ("round 1", ONLY_ROUND))) and not collection.begun(TOTAL)
    cells = list(map(domain.cells, sets))
    few = sum(cells) * TOTAL_SHARE**2 <= 1 if collection.pure else max(cells) <= SMALL
    if begun_without or (few and not collection.begun(TOTAL)):
        return 0
    collection.measure_records(TOTAL, share)
    return share


def _count_columns(collection: Collection, domain: Domain, targets: Mapping[Set, float], units: int) -> int:
    """Buy the number of records if it is private and single columns, all that is measured, would tell it worse;
    returns the units that this may cost.
    """
    power = 2 if collection.pure else 1
    shares = column_shares(domain, targets, max(units, 1), pure=collection.pure)
    columns = [(domain.cells(s), share / max(units, 1), targets[s]) for s, share in shares.items()]
    counted = int(units * records_share(columns, power))
    begun_without = collection.begun("round 1") and not collection.begun(TOTAL)
    bought = collection.begun(TOTAL) or counted >= 1
    if collection.knows_records or begun_without or not bought:
        return 0
    # What an earlier version bought had this share.
    counted = max(counted, int(units * TOTAL_SHARE))
    collection.measure_records(TOTAL, counted)
    return counted


def records_share(columns: Iterable[tuple[int, float, float]], power: int) -> float:
    """The share of a budget for the number of records that is nearest to the best one in every table; 0 if the sums of
    the columns' cells tell the number well enough.

    The fraction of a cell inherits the error of the number of records. If a column of K codes has the share a of the
    rest and the number of records the share s, precisions are `((1 - s) a)^p` of a cell and, of the number,
    `s^p + sum ((1 - s) a)^p / K`, with p = 1 under Gaussian and 2 under Laplace noise. Fractions x / N move by the
    residual, whose squares sum to K - 1 variances of a cell, and by `1 / K - x / N` times the error of N, whose squares
    sum to 1 - 1 / K at most: if one code has all records. If records are spread evenly they sum to nothing, and any
    share is lost. Nobody knows beforehand which of the two a table is. Of both, the sum of squared errors over the
    columns, by their weights, is compared with the least that another share would leave; the larger ratio is least.

    Args:
        columns: The codes of each column, its share of the budget for all columns, and its weight in the workload.
        power: How precisions grow with shares.
    """
    codes, shares, weights = np.array(list(columns), dtype=np.float64).T
    precisions = np.maximum(shares, SMALLEST) ** power
    own = float(weights @ ((codes - 1) / precisions))
    inherited = float(weights @ (1 - 1 / codes))
    tried = np.linspace(0.0, MOST_RECORDS, RECORDS_STEPS + 1)
    told = tried**power + (1 - tried) ** power * float((precisions / codes).sum())
    even = own / (1 - tried) ** power
    alone = even + inherited / told
    return float(tried[np.argmin(np.maximum(even / max(even.min(), SMALLEST), alone / max(alone.min(), SMALLEST)))])


def _looks_in_vain(collection: Collection, domain: Domain, targets: Mapping[Set, float], units: int) -> bool:
    """Whether a first round of a pure budget cannot show that a target may be left out, and would be wasted."""
    if collection.begun(ONLY_ROUND) or collection.begun("round 1"):
        return collection.begun(ONLY_ROUND)
    return not dispensable(domain, targets, collection.sd(units) ** -2.0, _most_records(collection))


def _most_records(collection: Collection) -> float:
    """An upper bound on the number of records; infinite if it is private and nothing was measured."""
    if not collection.knows_records:
        return inf
    count, error = collection.records
    return count * (1 + error)


def _visible(collection: Collection, domain: Domain, sets: Sequence[Set], units: int) -> list[Set]:
    """The sets about which a first round can reveal something.

    A parameter of scale s changes a cell of probability q by n q s records. A set is left out if, with records spread
    evenly over its cells, noise would hide the strongest plausible interaction even with all units spent on this set.
    The other sets show how evenly records are spread, so later rounds measure such a set if heavy cells make it worth
    its price.
    """
    if not collection.knows_records:
        return list(sets)
    count, error = collection.records
    most = max(SMALL, count * (1 + error) * float(SCALE_GRID[-1]) / collection.sd(units))
    return [s for s in sets if len(s) == 1 or s in collection.plans or domain.cells(s) <= most]


def residuals_planned(collection: Collection, domain: Domain, sets: Sequence[Set], *, at_once: bool) -> bool:
    """Whether residuals are used: for Gaussian noise, tables without levels, and runs that need no marginals."""
    if at_once or collection.pure or collection.plans:
        return False
    return measurable(domain, sets)


def _residual_plan(
    collection: Collection, domain: Domain, sets: Sequence[Set], targets: Mapping[Set, float], at_once: bool
) -> ResidualPlan | None:
    if not residuals_planned(collection, domain, sets, at_once=at_once):
        return None
    total, replacing = not collection.public_records, collection.replacing
    return ResidualPlan(domain, sets, targets, total=total, replacing=replacing)


def _residual_precisions(
    collection: Collection,
    domain: Domain,
    plan: ResidualPlan,
    allocation: Allocation,
    units: int,
    look: Sequence[Set] | None,
) -> dict[Set, float] | None:
    """Precisions to add by water-filling; None if marginals are expected to have a smaller error.

    In the first round `look` lists the sets about which something can be seen. This round decides between residuals and
    marginals for the whole run, in wide tables under replace-one only: there only a bound on the joint price of
    residuals is known, and a sum of prices of marginals may be lower. The expected errors of both plans follow from
    public facts.
    """
    variances: list[np.ndarray | None]
    known, direct = plan.told_by(collection.precisions()), collection.residual_precisions()
    known += [direct.get(s, 0.0) for s in plan.sets]
    if look is not None:
        seen = {(), *look}
        variances, widest = [None if s in seen else np.zeros(1) for s in plan.sets], None
    else:
        count, _ = collection.records
        variances, widest = prior_variances(collection.measurements(), domain, plan.sets, max(count, 1.0))
    budget = collection.sd(units) ** -2.0
    added = plan.fill(budget, known, variances, widest)
    if not collection.public_records:
        # Certificates divide by the number of records, which fractions hardly depend on.
        added[plan.sets.index(())] = max(added[plan.sets.index(())], float(TOTAL_SHARE) * budget)
    least = LEAST_SHARE * budget / len(added)
    kept = {s for s, t in zip(plan.sets, added * plan.price, strict=True) if t >= least}
    # A residual tells little of a marginal without those inside it, and no weight is too small for a first look.
    unknown = {s for s, t in zip(plan.sets, known, strict=True) if s and not t}
    kept |= unknown.intersection(look or (), plan.targets)
    kept |= {inner for s in kept for k in range(1, len(s)) for inner in combinations(s, k) if inner in unknown}
    added = np.maximum(added, least / plan.price)
    chosen = {s: float(t) for s, t in zip(plan.sets, added, strict=True) if s in kept}
    if look is not None and not plan.exact:
        spread = dict(zip(plan.sets, variances, strict=True))
        marginals = allocation.fill(budget, *_known(collection, allocation), [spread.get(s) for s in allocation.sets])
        told = plan.told_by(dict(zip(allocation.sets, marginals, strict=True)))
        ours = np.array([chosen.get(s, 0.0) for s in plan.sets]) * (units / collection.price_of_residuals(chosen))
        if plan.objective(known + told, variances) < plan.objective(known + ours, variances):
            return None
    return chosen


def _rounds(pure: bool, sets: int, units: int, at_once: bool) -> tuple[float, ...]:
    rounds = PURE_ROUNDS if pure else ROUNDS
    return (1.0,) if at_once or units * rounds[0] < LEAST_UNITS * sets else rounds


def _targets(sets: Sequence[Set], targets: Mapping[Set, float]) -> dict[Set, float]:
    """Targets; one that is too wide to measure is replaced by the sets inside it."""
    measured = set(sets)
    asked = {s: weight for s, weight in targets.items() if s in measured}
    weight = min(targets.values())
    wide = [set(s) for s in targets if s not in asked]
    inside = [s for s in sets if any(w.issuperset(s) for w in wide)]
    return asked | {s: asked.get(s, 0.0) + weight for s in inside}


def _marginal_shares(
    collection: Collection,
    domain: Domain,
    allocation: Allocation,
    targets: Mapping[Set, float],
    units: int,
    look: Sequence[Set] | None,
    *,
    at_once: bool,
    columns: bool,
) -> dict[Set, int]:
    """Units of the marginals of a round; of a first one for the sets about which something can be seen; of the only one
    if single columns are all.
    """
    if columns:
        return column_shares(domain, targets, units, pure=collection.pure)
    if collection.pure and not at_once:
        return _pure_shares(collection, domain, allocation, targets, units, look)
    return first_shares(domain, look, units) if look is not None else _planned(collection, domain, allocation, units)


def _planned(collection: Collection, domain: Domain, allocation: Allocation, units: int) -> dict[Set, int]:
    """Units by water-filling, given what was measured so far."""
    count, _ = collection.records
    prior = prior_variances(collection.measurements(), domain, allocation.sets, max(count, 1.0))
    added = allocation.fill(collection.sd(units) ** -2.0, *_known(collection, allocation), *prior)
    weights = np.sqrt(added) if collection.pure else added
    if not collection.public_records:
        # Fractions hardly depend on the number of records, so that the plan leaves it to chance.
        shortest = min(range(len(weights)), key=lambda i: (len(allocation.sets[i]), domain.cells(allocation.sets[i])))
        weights[shortest] = max(weights[shortest], float(TOTAL_SHARE) * weights.sum())
    kept = np.flatnonzero(weights >= LEAST_SHARE * weights.mean())
    shares = divide(units, weights[kept].tolist())
    return {allocation.sets[i]: share for i, share in zip(kept, shares, strict=True) if share > 0}


def _pure_shares(
    collection: Collection,
    domain: Domain,
    allocation: Allocation,
    targets: Mapping[Set, float],
    units: int,
    look: Sequence[Set] | None,
) -> dict[Set, int]:
    """Units of a pure budget: of a first round for the targets, or those about which something can be seen; then, or
    without a first round, by the best plan.
    """
    if look is not None:
        seen = families(look, [s for s in targets if s in look] or look)[0]
        shares, sets = first_shares(domain, seen, units), list(seen)
        return {s: shares[s] for s in sets}
    budget = collection.sd(units) ** -2.0
    variances: list[np.ndarray | None] = [None] * len(allocation.sets)
    widest = None
    if collection.precisions().keys() - {()}:
        measurements = collection.measurements()
        variances, _ = prior_variances(measurements, domain, allocation.sets, max(collection.records[0], 1.0))
        widest = widest_variances(measurements, domain, allocation, _most_records(collection))
    weights = pure_shares(allocation, targets, budget, _known(collection, allocation), variances, widest)
    asked = np.array([s in targets for s in allocation.sets])
    least = LEAST_SHARE * weights.mean()
    weights = np.where(asked & (weights > 0), np.maximum(weights, least), weights)
    kept = np.flatnonzero(weights >= least)
    shares = divide(units, weights[kept].tolist())
    return {allocation.sets[i]: share for i, share in zip(kept, shares, strict=True) if share > 0}


def _known(collection: Collection, allocation: Allocation) -> tuple[np.ndarray, np.ndarray]:
    """Precisions of marginals and of residuals that were measured."""
    measured, residuals = collection.precisions(), collection.residual_precisions()
    return tuple(np.array([found.get(s, 0.0) for s in allocation.sets]) for found in (measured, residuals))  # pyright: ignore[reportReturnType]
