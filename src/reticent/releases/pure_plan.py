"""The sets that a pure budget measures: one family without nested sets, because a nested set costs more than it
reveals.

Precision grows with the square of the price, so two measurements at half the price reveal half as much as one. The
first round is therefore short, and the rest goes to the family with the smallest expected error: the targets themselves
(as plain noise would), all their subsets of some order, all sets inside them, or the whole universe at once.
`Allocation.fill_pure` finds the shares.

The expected error rests on what a short first round tells of interactions. Where it tells nothing, one attribute may
still determine another. A family is therefore taken only if the cells of every target have no more noise than plain
noise, and if what it leaves unmeasured is too small to matter in any table (`widest_variances`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import sqrt

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.consistent import kept_by_centring, maximal_sets
from reticent.hypotheses.fitting.descent import largest_noise
from reticent.hypotheses.fitting.prior import collapse
from reticent.queries.linear import Marginal
from reticent.releases.allocation import LAPLACE_POWER, Allocation, PureShares, plain_shares, prior_variances
from reticent.releases.candidates import with_several_codes

__all__ = ["LOOK", "dispensable", "families", "histogram_serves", "pure_shares", "widest_variances"]

Set = tuple[str, ...]
Variances = Sequence[np.ndarray | None]

LOOK = 0.05
"""The share of a pure budget for the first round. The remaining budget has 1.05 times the noise of the whole budget; a
share of a tenth would give 1.1 times. A twentieth shows everything that lies twenty times above the final noise.
"""
TOLERATED = 1.05
"""The factor by which a family may exceed its bounds: iterations approach them without reaching them exactly."""
PLAUSIBLE = 3.0
"""Standard deviations of noise by which a released number may plausibly be too small: Laplace noise is above that one
time in 140.
"""
TINY = np.finfo(np.float64).tiny


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
    widest: np.ndarray | None = None,
) -> np.ndarray:
    """Shares of the family with the smallest expected error in which no target is much worse than with plain noise."""
    return _best(allocation, families(allocation.sets, list(targets)), budget, known, variances, widest).shares


def _best(
    allocation: Allocation,
    tried: Sequence[Sequence[Set]],
    budget: float,
    known: tuple[np.ndarray, np.ndarray],
    variances: Variances,
    widest: np.ndarray | None,
) -> PureShares:
    """The best of some families, the targets first, that exceed no bound; plain noise itself exceeds none."""
    filled = [allocation.fill_pure(budget, family, *known, variances, widest) for family in tried]
    plain = allocation.fill_pure(budget, tried[0], *known, variances, widest, iterations=0)
    sound = [found for found in filled if found.over_plain <= TOLERATED]
    return min([*sound, plain], key=lambda found: found.error)


def widest_variances(
    measurements: Sequence[Measurement], domain: Domain, allocation: Allocation, records: float
) -> np.ndarray:
    """Prior variances of residuals that stand for the largest departures of their cells that are possible at all.

    A cell holds no more records than any code that it has, and the table no more than `records`. An estimate without a
    measurement of a set is therefore off by at most some D in a cell. Of plain noise the largest error of c cells is
    expected to be `largest_noise(c)` standard deviations, so that the departure counts as noise of D over that number.
    """
    known = [(m.query.names, m.values, m.sd) for m in measurements if isinstance(m.query, Marginal)]
    shares = {name: _largest_share(collapse(known, (name,))) for name in domain.names}
    widest = []
    for names in allocation.sets:
        noise = records * min(shares[name] for name in names) / largest_noise(domain.cells(names), laplace=True)
        widest.append(noise**2 / max(kept_by_centring(domain.shape_of(names)), TINY))
    return np.array(widest)


def dispensable(domain: Domain, targets: Mapping[Set, float], budget: float, records: float) -> bool:
    """Whether some target might not have to be measured if records are spread evenly over codes.

    One code of an attribute has at least the inverse of their number as its share. If plain noise is expected to have a
    smaller largest error than even that many records, no measurement can show that a target may be left out.
    """
    shares = plain_shares(np.array(list(targets.values())), LAPLACE_POWER)
    return any(
        records / max(domain.shape_of(s)) <= largest_noise(domain.cells(s), laplace=True) / (share * sqrt(budget))
        for s, share in zip(targets, shares.tolist(), strict=True)
    )


def _largest_share(single: tuple[np.ndarray, float] | None) -> float:
    """An upper bound on the shares of an attribute's codes, given their noisy values and the noise."""
    if single is None:
        return 1.0
    values, sd = single
    return min(1.0, float(values.max()) + PLAUSIBLE * sd)


def histogram_serves(
    domain: Domain, sets: Sequence[Set], targets: Mapping[Set, float], budget: float, records: float | None
) -> bool:
    """Whether one noisy count of every cell is expected to answer the workload best, before anything is measured.

    Interactions are assumed to be as strong as the priors say without measurements, and records to be spread evenly.
    Without a number of records no prior is assumed. `budget` is the precision of one marginal that receives all of it.
    """
    whole = with_several_codes(domain, domain.names) or domain.names[:1]
    if whole in targets:
        return True
    inside = [s for s in sets if s != whole]
    allocation = Allocation(domain, [*inside, whole], targets)
    variances: list[np.ndarray | None] = [None] * len(allocation.sets)
    widest = None
    if records is not None:
        variances, _ = prior_variances([], domain, allocation.sets, records)
        widest = widest_variances([], domain, allocation, records)
    nothing = np.zeros(len(allocation.sets)), np.zeros(len(allocation.sets))
    cells = allocation.fill_pure(budget, [whole], *nothing, variances, widest)
    if cells.over_plain > TOLERATED:
        return False
    return cells.error < _best(allocation, families(inside, list(targets)), budget, nothing, variances, widest).error
