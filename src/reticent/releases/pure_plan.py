"""The sets that a pure budget measures: one family without nested sets, because a nested set costs more than it
reveals.

Precision grows with the square of the price, so two measurements at half the price reveal half as much as one. The
first round is therefore short, and the rest goes to the family with the smallest expected error: the targets themselves
(as plain noise would), all their subsets of some order, all sets inside them, or the whole universe at once.
`Allocation.fill_pure` finds the shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.fitting.consistent import maximal_sets
from reticent.releases.allocation import MOST_ERROR, Allocation, PureShares, prior_variances
from reticent.releases.candidates import with_several_codes

__all__ = ["LOOK", "families", "histogram_serves", "pure_shares"]

Set = tuple[str, ...]
Variances = Sequence[np.ndarray | None]

LOOK = 0.05
"""The share of a pure budget for the first round. The remaining budget has 1.05 times the noise of the whole budget; a
share of a tenth would give 1.1 times. A twentieth shows everything that lies twenty times above the final noise.
"""
TOLERATED = 1.05
"""The factor by which a family may exceed `MOST_ERROR`, because iterations approach it without reaching it exactly."""


def families(sets: Sequence[Set], targets: Iterable[Set]) -> list[list[Set]]:
    """Families of sets to measure together: the targets; their subsets of each order, without nested sets; all sets."""
    known = set(sets)
    asked = [s for s in targets if s in known]
    found = [asked] if asked else []
    for order in range(max(map(len, asked), default=0), 0, -1):
        inside = dict.fromkeys(a for s in asked for a in combinations(s, min(order, len(s))) if a in known)
        family = maximal_sets(list(inside))
        if family and family not in found:
            found.append(family)
    return [*found, list(sets)]


def pure_shares(
    allocation: Allocation,
    targets: Mapping[Set, float],
    budget: float,
    known: tuple[np.ndarray, np.ndarray],
    variances: Variances,
) -> np.ndarray:
    """Shares of the family with the smallest expected error in which no target is much worse than with plain noise."""
    asked, *others = families(allocation.sets, list(targets))
    tried = [allocation.fill_pure(budget, family, *known, variances) for family in (asked, *others)]
    sound = [found for found in tried if found.over_plain <= TOLERATED * MOST_ERROR]
    plain = allocation.fill_pure(budget, asked, *known, variances, iterations=0)
    return min([*sound, plain], key=lambda found: found.error).shares


def histogram_serves(
    domain: Domain, sets: Sequence[Set], targets: Mapping[Set, float], budget: float, records: float | None
) -> bool:
    """Whether one noisy count of every cell is expected to answer the workload best, before anything is measured.

    Interactions are assumed to be as strong as the priors say without measurements, and records to be spread evenly.
    Without a number of records no prior is assumed. `budget` is the precision of one marginal that receives all of it.
    """
    whole = with_several_codes(domain, domain.names) or domain.names[:1]
    inside = [s for s in sets if s != whole]
    allocation = Allocation(domain, [*inside, whole], targets)
    variances: list[np.ndarray | None] = [None] * len(allocation.sets)
    if records is not None:
        variances, _ = prior_variances([], domain, allocation.sets, records)
    nothing = np.zeros(len(allocation.sets))

    def filled(family: Sequence[Set]) -> PureShares:
        return allocation.fill_pure(budget, family, nothing, nothing, variances)

    cells = filled([whole])
    if whole in targets:
        return True
    if cells.over_plain > TOLERATED * MOST_ERROR:
        return False
    return cells.error < min(filled(family).error for family in families(inside, list(targets)))
