"""Marginals that serve a workload, interactions of measured pairs, and the pairs that one junction tree can hold."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, log2

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.junction_tree.elimination import GrowingGraph
from reticent.queries.linear import Marginal, Residual
from reticent.queries.workload import Workload
from reticent.releases.allocation import departures_of

__all__ = [
    "Interaction",
    "closure",
    "interactions",
    "measured_sets",
    "pairs_of_a_tree",
    "target_sets",
    "with_several_codes",
    "without_single_codes",
]

Set = tuple[str, ...]

LOW_ORDERS = 3
MOST_SETS = 2**13
"""Sets of more than `LOW_ORDERS` attributes inside a larger one are measured too, as long as there are at most this
many sets in all.
"""


def target_sets(workload: Workload, domain: Domain) -> dict[Set, float]:
    """The attribute sets that a workload asks about, with their weights."""
    targets: dict[Set, float] = {}
    asked = [
        *zip(workload.marginals, workload.marginal_weights, strict=True),
        *((entry.attributes, w) for entry, w in zip(workload.ranges, workload.range_weights, strict=True)),
        *((query.attributes, w) for query, w in zip(workload.queries, workload.query_weights, strict=True)),
    ]
    for attributes, weight in asked:
        if attributes:
            names = domain.canonical(attributes)
            targets[names] = targets.get(names, 0.0) + weight
    return targets


def with_several_codes(domain: Domain, names: Iterable[str]) -> Set:
    """The attributes that can differ between records."""
    return tuple(name for name in names if domain[name].size > 1)


def without_single_codes(domain: Domain, targets: Mapping[Set, float], kept: Container[Set] = ()) -> dict[Set, float]:
    """The targets without attributes of a single code, with summed weights; `kept` ones are unchanged.

    The cells are the same without such an attribute, and its own residuals and interactions have no degree of freedom.
    If no target can be learned, single attributes take their place.
    """
    found: dict[Set, float] = {}
    for names, weight in targets.items():
        if shorter := names if names in kept else with_several_codes(domain, names):
            found[shorter] = found.get(shorter, 0.0) + weight
    return found or dict.fromkeys(_single_attributes(domain), 1.0)


def _single_attributes(domain: Domain) -> list[Set]:
    """Those with several codes; the first attribute if every one has a single code."""
    return [(name,) for name in with_several_codes(domain, domain.names) or domain.names[:1]]


def closure(targets: Iterable[Set], order: int) -> list[Set]:
    """All subsets with `order` attributes, in a fixed order."""
    return list(dict.fromkeys(s for names in targets for s in combinations(names, order)))


def measured_sets(domain: Domain, targets: Iterable[Set], largest: int) -> list[Set]:
    """The sets that a run measures: single attributes with several codes, the targets and the sets inside them, of up
    to `largest` cells.
    """
    asked = [s for s in targets if domain.cells(s) <= largest]
    sets = dict.fromkeys(_single_attributes(domain))
    for order in range(2, max((len(s) for s in targets), default=0) + 1):
        inside = [s for s in closure(targets, order) if domain.cells(s) <= largest] if order <= LOW_ORDERS else []
        if order > LOW_ORDERS and sum(comb(len(s), order) for s in asked) + len(sets) <= MOST_SETS:
            inside = closure(asked, order)
        sets |= dict.fromkeys([*inside, *(s for s in asked if len(s) == order)])
    return list(sets)


@dataclass(frozen=True)
class Interaction:
    """An estimate from released numbers: the prior scale that fits best, and the total variation that it causes."""

    scale: float
    variation: float


def interactions(measurements: Sequence[Measurement], domain: Domain) -> dict[Set, Interaction]:
    """How far each measured pair is from independence, corrected for noise."""
    told = [m for m in measurements if isinstance(m.query, (Marginal, Residual))]
    pairs = dict.fromkeys(domain.canonical(m.query.attributes) for m in told if len(m.query.attributes) == 2)
    base, departures = departures_of(told, domain, list(pairs), own=True)
    found = {}
    for pair in pairs:
        departure = departures(pair, base.table(pair))
        if departure is not None:
            # the posterior mean of each cell's departure, were the others known
            found[pair] = Interaction(departure.scale, float(np.abs(departure.believed()).sum()) / 2)
    return found


def pairs_of_a_tree(domain: Domain, gains: Mapping[Set, float], limit: int) -> list[Set]:
    """Pairs whose junction tree stays within `limit` cells, chosen greedily by gain per doubling of the tree's size.

    The tree holds the domain's rules from the start. As the tree grows, a pair may become more expensive or free, so
    gains are re-evaluated lazily: a pair is taken if it is still the best at its current cost, and dropped for good
    once it exceeds the limit.
    """
    rules = dict.fromkeys(tuple(map(domain.index, rule.attributes)) for rule in domain.impossible)
    chosen = GrowingGraph.of(domain.shape, rules)
    cells = chosen.cells
    position = {pair: tuple(domain.index(name) for name in pair) for pair in gains}
    queue = [(-gain, pair) for pair, gain in gains.items()]
    heapq.heapify(queue)
    kept: list[Set] = []
    while queue:
        _, pair = heapq.heappop(queue)
        grown = chosen.with_set(position[pair])
        size = grown.cells
        if size > limit:
            continue
        worth = gains[pair] / log2(2 + max(size - cells, 0) / 1000)
        if queue and worth < -queue[0][0]:
            heapq.heappush(queue, (-worth, pair))
            if queue[0][1] != pair:
                continue
            heapq.heappop(queue)
        kept.append(pair)
        chosen, cells = grown, size
    return kept
