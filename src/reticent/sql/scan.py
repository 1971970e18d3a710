"""A scan is one GROUP BY over the protected table: its groups, and the measures that are asked of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reticent.domain import Domain
from reticent.queries import Predicate, Weights
from reticent.sql.expressions import Computed, Expr, Sum
from reticent.sql.grouping import ClassKey, ColumnKey, GroupedBy, Grouping, distinct_keys
from reticent.sql.intervals import Interval
from reticent.sql.measures import Measures
from reticent.sql.meter import Meter
from reticent.sql.scope import Scope
from reticent.sql.selection import Selection
from reticent.sql.vectors import INTEGER, TRUTH, Truth, Vector, to_interval

HALF = 0.5
"""An estimated number of records below it is none."""


@dataclass(frozen=True, eq=False)
class Scan:
    """Groups of the records that a scope selects."""

    scope: Scope
    grouping: Grouping
    measures: Measures

    @classmethod
    def of(cls, scope: Scope, listed: Sequence[GroupedBy], measures: Measures) -> Scan:
        possible = scope.where.widest
        grouping = Grouping(scope.domain, distinct_keys(listed), possible)
        scope.meter.charge(grouping.steps)
        return cls(scope, grouping, measures)

    @property
    def domain(self) -> Domain:
        return self.scope.domain

    @property
    def meter(self) -> Meter:
        return self.scope.meter

    @property
    def where(self) -> Selection:
        return self.scope.where

    @cached_property
    def rows(self) -> int:
        return len(self.grouping.rows)

    def place(self, where: Predicate, weight: str | Weights | None = None, *, aside: bool = False) -> int:
        return self.measures.place(self.grouping, where, weight, aside=aside)

    def count(self, where: Predicate, *, aside: bool = False) -> Sum:
        """The number of records in each group."""
        return Sum(((1.0, self.place(where, aside=aside)),), self.rows, INTEGER)

    @cached_property
    def exists(self) -> Expr | None:
        """Whether each group has a record; without keys the single group is always there."""
        if not self.grouping.keys:
            return None
        return Computed(_occurs, (self.count(self.where.widest),), self.rows, TRUTH)

    def finer(self, name: str) -> tuple[Scan, np.ndarray, np.ndarray]:
        """The same groups divided by one more column: the scan, and for each of its groups this one's and the code."""
        keys = self.grouping.keys
        if name in self.grouping.columns:
            codes = self.grouping.codes(ColumnKey(name), self.grouping.rows)
            return self, np.arange(self.rows), codes
        grouping = Grouping(self.domain, (*keys, ColumnKey(name)), self.grouping.where)
        self.meter.charge(grouping.steps + grouping.size // 50)
        size = self.domain[name].size
        fine = Scan(self.scope, grouping, self.measures)
        # The added column is the last of the columns, and varies fastest.
        owners = np.searchsorted(self.grouping.rows, grouping.rows // size)
        return fine, owners, grouping.rows % size

    def coarser(self, kept: Sequence[ColumnKey | ClassKey]) -> tuple[Scan, np.ndarray]:
        """The same records grouped by some of the keys only: the scan, and for each group of this one that of it."""
        grouping = Grouping(self.domain, tuple(kept), self.grouping.where)
        self.meter.charge(grouping.steps)
        coarse = Scan(self.scope, grouping, self.measures)
        if not kept:
            return coarse, np.zeros(self.rows, dtype=np.int64)
        codes = [self.grouping.codes(key, self.grouping.rows) for key in kept]
        own = [grouping.codes(key, grouping.rows) for key in kept]
        sizes = [int(max(a.max(initial=0), b.max(initial=0))) + 1 for a, b in zip(codes, own, strict=True)]
        wanted, listed = np.ravel_multi_index(codes, sizes), np.ravel_multi_index(own, sizes)
        order = np.argsort(listed)
        return coarse, order[np.searchsorted(listed[order], wanted)]


def _occurs(counted: Vector) -> Truth:
    """Whether a number of records is not zero."""
    numbers: Interval = to_interval(counted)
    never = np.zeros(len(numbers.value), dtype=bool)
    return Truth((numbers.value >= HALF).astype(float), numbers.high > 0, ~(numbers.low > 0), never)
