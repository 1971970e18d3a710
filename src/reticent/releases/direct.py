"""Single queries of a workload that are measured themselves, because a noisy table would tell them worse.

A count over a column of 5,000 codes needs one number; from a noisy table of the column it is a sum of thousands of
noisy cells, and a fit that shrinks these is far off. What is asked is then what is measured (spec planning.md). The
choice follows from public facts alone: the domain, the workload, and what noise costs.

Plain noise measures every query and table by itself and divides a budget by their weights. The *need* of a way to
measure some queries is the share of the budget with which none of them has more variance than plain noise leaves it,
whatever the rows are. Ways that need no more than plain noise are allowed; of these every set of attributes is measured
in the one with the smallest variance on average, and the budget is divided in proportion to the needs. So no query
loses to plain noise, and all gain from what is saved. There are three ways: each query alone, with its rest if the
number of records is private, so that the two add up to it; the parts of the universe on which all queries of the set
are constant; and the table of the attributes, which is left to the rest of the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.queries.base import Linear
from reticent.queries.forms import MAX_CELLS
from reticent.queries.partitions import MAX_PARTITIONED, partition_of, values_on
from reticent.queries.workload import Workload
from reticent.releases.budgeting import divide
from reticent.releases.candidates import with_several_codes

__all__ = ["QUERIES", "DirectQueries", "NoiseCosts"]

Set = tuple[str, ...]
Measured = tuple[Linear, ...]
"""Queries that one statistic measures."""

QUERIES = "queries"
"""The step that measures single queries."""
MOST_READ = 2**28
"""Queries of one set times its cells that are read for a comparison; of more queries the table is measured."""
MOST_FITTED = 2**25
"""Cells of all that is measured directly: a step of the fit passes over them, in half a second. Of more, the sets whose
tables would tell least."""
SINGLES_SHARE = Fraction(1, 25)
"""The largest share of the budget for single attributes where the workload asks for no table: synthetic rows have these
columns too, and the queries keep 24 of 25 parts."""


ROUNDING = 1e-9
"""A tie is measured directly: a table of one column is measured in one round, too, by shares that know no queries."""


class NoiseCosts(NamedTuple):
    """What noise costs."""

    ratio: float
    """The variance of a table's cell over that of a single query, if both cost the same."""
    pure: bool
    """Whether noise is Laplace noise."""
    public: bool
    """Whether the number of records is public."""

    def plain(self, weights: Iterable[float]) -> np.ndarray:
        """The shares of plain noise, up to a factor: the weighted sum of errors is least. Errors fall with the share
        under Laplace noise, with its root under Gaussian noise.
        """
        return np.array(list(weights)) ** (1 / 2 if self.pure else 2 / 3)

    def histogram(self, queries: Iterable[np.ndarray], plain: np.ndarray) -> Need:
        """The need of a histogram, given the values of each query on its cells.

        If the number of records is public, the noise of all cells together is known, and a query has the variance of
        its values about their mean. Otherwise it has that of its values about its answer, and most if all records are
        in one cell.
        """
        total: np.ndarray | float = 0.0
        largest = 0.0
        for values, share in zip(queries, plain, strict=True):
            about = values.mean() if self.public else values
            squares = float(np.vdot(values, values)) + values.size * (about * about - 2 * about * values.mean())
            variances = self.ratio * squares * (share * share if self.pure else share)
            total = total + variances
            largest = max(largest, float(np.max(variances)))
        mean = float(np.max(total)) / len(plain)
        return Need(sqrt(mean), sqrt(largest)) if self.pure else Need(mean, largest)

    def alone(self, plain: np.ndarray) -> np.ndarray:
        """The need of each query if all are measured alone (docs/proofs/partitions.md, claim 5).

        With its rest, a query has half of the variance of a cell, and, for a share of zero or one, a quarter of that of
        the number of records, which every query tells together with its rest.
        """
        variance = 1.0 if self.public else self.ratio * (1 / 2 + 1 / (2 * len(plain)))
        return (sqrt(variance) if self.pure else variance) * plain


class Need(NamedTuple):
    """Shares of a budget with which queries are as near as with plain noise."""

    usual: float
    """The mean of their variances is."""
    least: float
    """Each of them is, whatever the rows are."""


@dataclass(frozen=True)
class Way:
    """The best way to measure the queries of one attribute set directly, beside their table and plain noise."""

    measured: Mapping[Measured, float]
    """The queries of each statistic, and its need."""
    usual: float
    """The share with which their mean variance is that of plain noise."""
    table: Need
    plain: float
    """The share of plain noise."""
    fitted: int
    """Cells that a step of the fit passes over."""

    @classmethod
    def of(cls, domain: Domain, names: Set, weights: Mapping[Linear, float], terms: NoiseCosts) -> Way | None:
        """Compare the ways to measure the queries of a set; None if there is too much to read."""
        queries, cells = list(weights), domain.cells(names)
        if cells > MAX_CELLS or cells * len(queries) > MOST_READ:
            return None
        plain = terms.plain(weights.values())
        table = terms.histogram((values_on(query, names, domain) for query in queries), plain)
        needs = terms.alone(plain)
        alone = {(query,): float(need) for query, need in zip(queries, needs, strict=True)}
        best = cls(alone, float(needs.sum()), table, float(plain.sum()), cells * len(queries))
        binary = np.array([query.compile(domain).binary for query in queries])
        if binary.sum() < 2 or cells > MAX_PARTITIONED:
            return best
        together = tuple(query for query, whole in zip(queries, binary, strict=True) if whole)
        _, _, answers = partition_of(together, domain)
        if len(answers) == cells and len(names) > 1:
            return best  # rounds of tables share what they learn of fewer attributes
        parts = terms.histogram(answers.T.astype(float), plain[binary])
        if parts.least > plain[binary].sum():
            return best
        others = terms.alone(plain[~binary]) if not binary.all() else np.zeros(0)
        usual = parts.usual + float(others.sum())
        if usual >= best.usual:
            return best
        left = (query for query, whole in zip(queries, binary, strict=True) if not whole)
        measured = {together: parts.least} | {(query,): float(n) for query, n in zip(left, others, strict=True)}
        return cls(measured, usual, table, best.plain, cells * (len(answers) + len(others)))

    @property
    def gain(self) -> float:
        """The variance of reading the queries off their table over that of measuring them; infinite if some might be
        farther off than with plain noise.
        """
        return self.table.usual / self.usual * (1 + ROUNDING) if self.table.least <= self.plain else inf

    def gain_over(self, wider: float, share: float, *, pure: bool) -> float:
        """The same for a table of so many times as many cells with this share. It is paid for, so it need only tell
        the queries as plain noise would.
        """
        return self.table.least * (sqrt(wider) if pure else wider) / share


@dataclass(frozen=True)
class DirectQueries:
    """The queries of a workload that are measured themselves, and the tables of all others."""

    measured: Mapping[Measured, float]
    """The queries of each statistic, and its need."""
    tables: Mapping[Set, float]
    """The other attribute sets of the workload, and their weights."""
    rest: float
    """The need of these sets."""
    complete: bool
    """Whether nothing else is asked."""
    all_queries: bool
    """Whether all single queries are among them, but those that have one value for every record."""

    @classmethod
    def of(cls, workload: Workload, domain: Domain, targets: Mapping[Set, float], terms: NoiseCosts) -> DirectQueries:
        """Choose the way to measure each attribute set of which single queries are asked.

        Args:
            workload: Bound to the domain.
            domain: The domain.
            targets: All attribute sets of the workload, with their weights.
            terms: What noise costs.
        """
        asked: dict[Set, dict[Linear, float]] = {}
        for query, weight in zip(workload.queries, workload.query_weights, strict=True):
            if not _constant(query, domain):
                asked.setdefault(domain.canonical(query.attributes), {})[query] = weight
        # Of no columns there is only the number of records, which is no table of its own.
        named = filter(None, map(domain.canonical, workload.marginals))
        tables = {names: _share(terms, targets[names]) for names in named}
        levels = {domain.canonical(entry.attributes) for entry in workload.ranges}
        gains: dict[Set, float] = {}
        ways: dict[Set, Way] = {}
        for names, weights in asked.items():
            way = Way.of(domain, names, weights, terms)
            if way is not None:
                wider = [(domain.cells(t) / domain.cells(names), s) for t, s in tables.items() if {*names} <= {*t}]
                over = [way.gain_over(cells, share, pure=terms.pure) for cells, share in wider]
                ways[names], gains[names] = way, min(over, default=way.gain)
        chosen: dict[Set, Way] = {}
        for names in sorted((names for names, gain in gains.items() if gain > 1), key=lambda s: (-gains[s], s)):
            inside_levels = any(set(names).issubset(wider) for wider in levels)
            fits = sum(way.fitted for way in chosen.values()) + ways[names].fitted <= MOST_FITTED
            if fits and not inside_levels:
                chosen[names] = ways[names]
        weights, rest = {}, 0.0
        for names, weight in targets.items():
            if names in tables or names in levels:
                weights[names] = weight - (sum(asked[names].values()) if names in chosen else 0.0)
                rest += _share(terms, weights[names])
            elif names in asked and names not in chosen:
                weights[names] = weight
                plain = float(terms.plain(asked[names].values()).sum())
                rest += min(plain, ways[names].table.least) if names in ways else plain
        measured = {queries: need for way in chosen.values() for queries, need in way.measured.items()}
        every = set(chosen) == set(asked)
        return cls(measured, weights, rest, bool(measured) and not weights, bool(measured) and every)

    def share(self, domain: Domain) -> Fraction:
        """The part of the budget for the queries."""
        if not self.measured:
            return Fraction(0)
        if self.complete:
            singles = len(with_several_codes(domain, domain.names))
            return 1 - min(SINGLES_SHARE, Fraction(singles, singles + sum(map(len, self.measured))))
        need = sum(self.measured.values())
        return Fraction(need / (need + self.rest))

    def units(self, units: int) -> dict[Measured, int]:
        """Units of each statistic, in proportion to its need."""
        return dict(zip(self.measured, divide(units, list(self.measured.values())), strict=True))


def _constant(query: Linear, domain: Domain) -> bool:
    """Whether every record has the same value, so that there is nothing to measure."""
    low, high = query.compile(domain).range
    return low == high


def _share(terms: NoiseCosts, weight: float) -> float:
    """The share of plain noise for one table."""
    return float(terms.plain([weight])[0])
