"""Single queries of a workload that are measured themselves, because a noisy table would tell them worse.

A count over a column of 5,000 codes needs one number; from a noisy table of the column it is a sum of thousands of
noisy cells, and a fit that shrinks these is far off. What is asked is then what is measured (spec planning.md). The
choice follows from public facts alone: the domain, the workload, and what noise costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.support import LARGEST_MARGINAL
from reticent.queries.base import Linear
from reticent.queries.workload import Workload
from reticent.releases.budgeting import divide
from reticent.releases.candidates import with_several_codes

__all__ = ["QUERIES", "DirectQueries"]

Set = tuple[str, ...]

QUERIES = "queries"
"""The step that measures single queries."""
MOST_READ = 2**28
"""Queries of one set times its cells that are read for a comparison; of more queries the table is measured."""
MOST_FITTED = 2**25
"""Cells of all chosen queries together: a step of the fit passes over them, in half a second. Of more, the sets whose
tables would tell least."""
SINGLES_SHARE = Fraction(1, 25)
"""The largest share of the budget for single attributes where the workload asks for no table: synthetic rows have these
columns too, and the queries keep 24 of 25 parts."""


@dataclass(frozen=True)
class DirectQueries:
    """The queries of a workload that are measured themselves, and the tables of all others, with their weights."""

    queries: Mapping[Linear, float]
    tables: Mapping[Set, float]

    @classmethod
    def of(
        cls, workload: Workload, domain: Domain, targets: Mapping[Set, float], ratio: float, *, pure: bool
    ) -> DirectQueries:
        """Choose for each attribute set of which only single queries are asked.

        Args:
            workload: Bound to the domain.
            domain: The domain.
            targets: All attribute sets of the workload, with their weights.
            ratio: The variance of a table's cell over that of a single query, if both cost the same.
            pure: Whether noise is Laplace noise.
        """
        tables = {domain.canonical(names) for names in (*workload.marginals, *(r.attributes for r in workload.ranges))}
        asked: dict[Set, dict[Linear, float]] = {}
        known = {query for query in workload.queries if _constant(query, domain)}
        for query, weight in zip(workload.queries, workload.query_weights, strict=True):
            names = domain.canonical(query.attributes)
            if query not in known and not any(set(names).issubset(table) for table in tables):
                asked.setdefault(names, {})[query] = weight
        gains = {names: _gain(domain, names, list(queries), ratio, pure=pure) for names, queries in asked.items()}
        chosen: dict[Linear, float] = {}
        fitted = 0
        for names in sorted((names for names, gain in gains.items() if gain > 1), key=lambda s: (-gains[s], s)):
            fitted += domain.cells(names) * len(asked[names])
            if fitted > MOST_FITTED:
                break
            chosen |= asked[names]
        told = known.union(chosen)
        left = {domain.canonical(query.attributes) for query in workload.queries if query not in told}
        return cls(chosen, {names: weight for names, weight in targets.items() if names in tables | left})

    def share(self, domain: Domain, *, pure: bool) -> Fraction:
        """The part of the budget for the queries: plain noise divides a budget among queries and tables alike."""
        if not self.tables:
            singles = len(with_several_codes(domain, domain.names))
            return 1 - min(SINGLES_SHARE, Fraction(singles, singles + len(self.queries)))
        power = _power(pure)
        queries, tables = (sum(w**power for w in part.values()) for part in (self.queries, self.tables))
        return Fraction(queries / (queries + tables))

    def records_share(self, *, pure: bool) -> Fraction:
        """The part of the queries' budget for a private number of records, by which every share is divided.

        A share of one half has variance `a^2 + b^2 / 4`, for noise a of its count and b of the number of records: with
        K queries, K / (1 - s) + 1 / (4 s) under Gaussian noise, and K^2 / (1 - s)^2 + 1 / (4 s^2) under Laplace noise.
        """
        count = len(self.queries)
        return Fraction(1 / (1 + ((4 * count**2) ** (1 / 3) if pure else 2 * count**0.5)))

    def units(self, units: int, *, pure: bool) -> dict[Linear, int]:
        """Units of each query; a larger weight counts with the power that makes the weighted sum of errors least."""
        return dict(zip(self.queries, divide(units, [w ** _power(pure) for w in self.queries.values()]), strict=True))


def _constant(query: Linear, domain: Domain) -> bool:
    """Whether every record has the same value, so that there is nothing to measure."""
    low, high = query.compile(domain).range
    return low == high


def _power(pure: bool) -> float:
    """Errors fall with the share under Laplace noise, with its root under Gaussian noise."""
    return 1 / 2 if pure else 2 / 3


def _gain(domain: Domain, names: Set, queries: list[Linear], ratio: float, *, pure: bool) -> float:
    """The variance of K queries read off a table over theirs if each gets its part of the same budget; 0 if it is not
    compared.

    Theirs is K or, under Laplace noise, K^2 times that of a single one; the table's is the sum of its cells' over all
    coefficients of the query about their mean, because the number of records is known.
    """
    count, cells = len(queries), domain.cells(names)
    own = count**3 if pure else count**2
    if cells > LARGEST_MARGINAL or 4 * own >= ratio * count * cells or count * cells > MOST_READ:
        return 0.0  # values within [0, 1] have squares about their mean of a quarter at most
    return ratio * sum(_squares(domain, queries)) / own


def _squares(domain: Domain, queries: list[Linear]) -> Iterator[float]:
    """Of each query's values about their mean, summed over the cells of its attributes."""
    for query in queries:
        values = query.compile(domain).tensor()
        yield float(np.square(values - values.mean()).sum())
