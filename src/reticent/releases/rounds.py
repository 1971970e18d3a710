"""Measuring a workload in rounds: first a look at all that is asked, then where the look says that it pays.

Precision adds up over rounds, so what a look cost is not lost (spec planning.md 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from reticent.domain import Domain
from reticent.knowledge.outcome import Progress, Report
from reticent.releases.allocation import Allocation, prior_variances
from reticent.releases.budgeting import TOTAL_SHARE, Collection, divide

__all__ = ["STEPS", "first_shares", "measure_in_rounds"]

Set = tuple[str, ...]

STEPS = 5
"""Reported of a run: three rounds, the fit, the audits."""
ROUNDS = (0.1, 0.3, 1.0)
"""Up to which share of the budget each round measures."""
PURE_ROUNDS = (0.4, 1.0)
"""Precision grows with the square of a pure budget: what is measured twice is worth less than its price."""
ORDER_GROWTH = 2.0
"""In the first round an order has this many times the budget of the one below."""
SIZE_POWER = 0.4
"""Within an order a marginal's share grows with this power of its cells; flatter favours the largest error."""
LEAST_UNITS = 100
"""Ledger units that each set must have in the first round; with less there is only one."""
LEAST_SHARE = 0.01
"""Of an equal share: sets that would get less in a later round are left as they are."""
FORMER_STEPS = ("all", "first", "second")
"""Of version 0.1: what it began is read back, and what it left is planned anew."""


def first_shares(domain: Domain, sets: Sequence[Set], units: int) -> dict[Set, int]:
    """Units of every set before anything is known: more for higher orders, and for larger sets within an order."""
    orders = sorted({len(s) for s in sets})
    pots = divide(units, [ORDER_GROWTH**order for order in orders])
    shares: dict[Set, int] = {}
    for order, pot in zip(orders, pots, strict=True):
        members = [s for s in sets if len(s) == order]
        shares |= dict(zip(members, divide(pot, [domain.cells(s) ** SIZE_POWER for s in members]), strict=True))
    return shares


def measure_in_rounds(
    collection: Collection,
    domain: Domain,
    targets: Mapping[Set, float],
    sets: Sequence[Set],
    units: int,
    report: Report,
    *,
    at_once: bool,
) -> None:
    """Spend `units` on the sets, which must hold all single attributes."""
    # Of single attributes nothing is known beforehand, whatever a look shows.
    at_once = at_once or max(map(len, sets)) == 1
    rounds = _rounds(collection.pure, len(sets), units, at_once)
    former = [collection.resume(name) for name in FORMER_STEPS]
    allocation = Allocation(domain, sets, _targets(sets, targets))
    for place, share in enumerate(rounds):
        # Without a loss this is what the earlier rounds planned, to the unit: a round that was begun goes on.
        spend = int(units * share) - (int(units * rounds[place - 1]) if place else 0)
        if any(former):
            spend = min(spend, collection.left - (collection.allowance - units))
        if spend <= 0 or (any(former) and place == 0 and len(rounds) > 1):
            continue
        report(Progress(place, STEPS, f"measuring {len(sets)} marginals", collection.spent_share))
        first = place == 0 and not any(former)
        shares = first_shares(domain, sets, spend) if first else _planned(collection, domain, allocation, spend)
        collection.measure(f"round {place + 1}", shares)


def _rounds(pure: bool, sets: int, units: int, at_once: bool) -> tuple[float, ...]:
    rounds = PURE_ROUNDS if pure else ROUNDS
    return (1.0,) if at_once or units * rounds[0] < LEAST_UNITS * sets else rounds


def _targets(sets: Sequence[Set], targets: Mapping[Set, float]) -> dict[Set, float]:
    """Sets that were too wide to measure are asked through what lies inside them; other attributes by themselves."""
    asked = {s: weight for s, weight in targets.items() if s in set(sets)}
    weight = min(targets.values())
    covered = {name for s in asked for name in s}
    left = [s for s in sets if len(s) == 1 and s[0] not in covered]
    wide = [s for s in targets if s not in asked]
    inside = [s for s in sets if any(set(s) <= set(w) for w in wide)] if wide else []
    return asked | {s: asked.get(s, 0.0) + weight for s in dict.fromkeys([*left, *inside])}


def _planned(collection: Collection, domain: Domain, allocation: Allocation, units: int) -> dict[Set, int]:
    """Units by water-filling, given what was measured so far."""
    count, _ = collection.records
    known = collection.precisions()
    measured = np.array([known.get(s, 0.0) for s in allocation.sets])
    variances = prior_variances(collection.measurements(), domain, allocation.sets, max(count, 1.0))
    added = allocation.fill(collection.sd(units) ** -2.0, measured, variances)
    weights = np.sqrt(added) if collection.pure else added
    if not collection.public_records:
        # Fractions hardly depend on the number of records, so that the plan leaves it to chance.
        shortest = min(range(len(weights)), key=lambda i: (len(allocation.sets[i]), domain.cells(allocation.sets[i])))
        weights[shortest] = max(weights[shortest], float(TOTAL_SHARE) * weights.sum())
    kept = np.flatnonzero(weights >= LEAST_SHARE * weights.mean())
    shares = divide(units, weights[kept].tolist())
    return {allocation.sets[i]: share for i, share in zip(kept, shares, strict=True) if share > 0}
