"""What single queries of a workload were measured as: a query alone, a query and its rest, or parts of the universe.

A fit reads shares of the table: a query's own, or those of parts. A certificate reads how many records a query counts
and how many it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.kernel.curator import Noise
from reticent.kernel.statistics import PartitionCounts
from reticent.knowledge.own_noise import QueryReading
from reticent.queries.base import Linear
from reticent.queries.from_dict import linear_from_dict
from reticent.queries.linear import Marginal, Range
from reticent.queries.tabulated import Tabulated

__all__ = ["MeasuredQueries", "asked_queries"]


class MeasuredQueries(NamedTuple):
    """Queries that one statistic measured, what it released in records, and the noise of each number."""

    queries: tuple[Linear, ...]
    values: np.ndarray
    noise: Noise

    @property
    def partitioned(self) -> bool:
        """Whether the numbers add up to the number of records."""
        return self.values.ndim > 0

    @property
    def total(self) -> tuple[tuple[str, ...], np.ndarray, float]:
        """Its numbers as one axis, with their noise."""
        return ("parts",), self.values, self.noise.sd

    def measurements(self, domain: Domain, count: float) -> list[Measurement]:
        """Shares of the table: of the query, or of every part if there are several queries; cells are a marginal."""
        sd, described = self.noise.sd / count, self.noise.describe()
        if not self.partitioned:
            return [Measurement(self.queries[0], self.values / count, sd, described)]
        if len(self.queries) == 1:
            # Query and rest have the same noise, so half of their difference is independent of their sum.
            rest, held = self.values
            share = 0.5 + (held - rest) / (2 * count)
            return [Measurement(self.queries[0], np.asarray(share), sd / sqrt(2), described)]
        counted = PartitionCounts(self.queries, domain)
        parts = counted.parts
        if len(self.values) == parts.size:
            return [Measurement(Marginal(counted.attributes), self.values[parts] / count, sd, described)]
        return [
            Measurement(_part(counted.attributes, parts == place), value / count, sd, described)
            for place, value in enumerate(self.values)
        ]

    def readings(self, domain: Domain, records: int | None) -> dict[Linear, QueryReading]:
        """How many records each query counts and leaves, with their noise; `records` is their number if public."""
        described = self.noise.describe()
        if not self.partitioned:
            (query,) = self.queries
            exact = query.compile(domain).binary
            return {query: QueryReading(float(self.values), 1, None, 1, described, records, exact)}
        counted = PartitionCounts(self.queries, domain)
        found = {}
        for query, inside in zip(self.queries, counted.answers.T, strict=True):
            held, rest = float(self.values[inside].sum()), float(self.values[~inside].sum())
            cells = int(inside.sum())
            exact = query.compile(domain).binary
            found[query] = QueryReading(held, cells, rest, len(inside) - cells, described, records, exact)
        return found


def asked_queries(described: Mapping[str, Any]) -> tuple[Linear, ...]:
    """The queries of a recorded statistic."""
    listed = described.get("partition") or [described["query"]]
    return tuple(map(linear_from_dict, listed))


def _part(names: tuple[str, ...], cells: np.ndarray) -> Linear:
    """The records of some cells: a range where they are one."""
    spans = {}
    for axis, name in enumerate(names):
        codes = np.flatnonzero(cells.any(axis=tuple(other for other in range(cells.ndim) if other != axis)))
        spans[name] = (int(codes[0]), int(codes[-1]))
    box = tuple(slice(low, high + 1) for low, high in spans.values())
    return Range(spans) if cells[box].all() else Tabulated(names, cells.astype(float))
