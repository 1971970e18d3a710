"""`rt.evaluate`: true errors of a publication, for the custodian only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError, require
from reticent.kernel.statistics import LinearCount
from reticent.kernel.table import Table, exact_counts
from reticent.queries.base import Linear
from reticent.queries.ranges import AllRanges
from reticent.queries.workload import Workload
from reticent.sources import Table as ReadTable

MOST_RANGES = 2**26
"""Of one entry, all held at once: half a gigabyte."""


class Published(Protocol):
    """Anything that answers marginals and queries: a release, a session's snapshot, a hypothesis."""

    def marginals(self, sets: list[tuple[str, ...]]) -> list[np.ndarray]: ...

    def expect(self, query: Linear) -> float: ...


@dataclass(frozen=True)
class Evaluation:
    """True errors over a workload, as fractions of the table.

    Means are weighted as the workload is: a marginal and a single query count with their weight, an entry of ranges
    with its weight times its number of ranges.
    """

    max_error: float
    mean_error: float
    mean_total_variation: float | None
    """Half the L1 distance of each marginal, averaged; None without marginals."""
    total_variation: dict[str, float]
    """The same for each attribute set."""

    def __str__(self) -> str:
        lines = [
            "NOT PRIVATE: true errors, for the custodian only",
            f"largest error            {self.max_error:.5f}",
            f"mean error               {self.mean_error:.6f}",
        ]
        if self.mean_total_variation is not None:
            lines.append(f"mean total variation     {self.mean_total_variation:.5f}")
        return "\n".join(lines)


def evaluate(published: Any, table: Table, workload: Workload) -> Evaluation:
    """Compute the largest and mean true error of a release over a workload.

    The result is exact and not private: it is for the custodian only.

    Args:
        published: A release, or synthetic rows.
        table: The private table.
        workload: The queries to compare.

    Returns:
        The errors, for each entry and in total.

    Raises:
        QueryError: An argument has the wrong type or another domain.

    Example:
        >>> import pyarrow, reticent as rt
        >>> rows = pyarrow.table({"age": [23, 41, 67] * 1000, "smoker": ["yes", "no", "no"] * 1000})
        >>> domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))
        >>> table = rt.Table.of(rows, domain)
        >>> made = rt.release(table, rt.marginals(domain, 2), rt.Budget(epsilon=1, delta=1e-9))
        >>> rt.evaluate(made, table, rt.marginals(domain, 2)).max_error < 0.1
        True
    """
    require(table, Table, "table", "the private rt.Table, second after what was published")
    require(workload, Workload, "workload", "rt.marginals(domain, 2) or rt.Workload([...])")
    workload = workload.on(table.domain)
    if not workload:
        raise QueryError("the workload is empty; give at least one marginal or query")
    source = published_marginals(published, table.domain)
    total = exact_rows(table, "the table")
    errors: list[float] = []
    sizes: list[float] = []
    distances: list[float] = []
    names: list[str] = []
    truths = exact_counts(table).marginals(workload.marginals)
    guesses = source.marginals(list(workload.marginals))
    for attributes, truth, guess in zip(workload.marginals, truths, guesses, strict=True):
        difference = np.abs(truth / total - guess)
        errors.append(float(difference.max()))
        sizes.append(float(difference.mean()))
        distances.append(float(difference.sum()) / 2)
        names.append(" x ".join(attributes))
    counted: list[float] = []
    for entry, weight in zip(workload.ranges, workload.range_weights, strict=True):
        difference = np.abs(_every_range(entry, table, total, source))
        errors.append(float(difference.max()))
        sizes.append(float(difference.mean()))
        counted.append(weight * difference.size)
    for query in workload.queries:
        statistic = LinearCount(query, table.domain)
        grid = statistic.resolution(table.grid)
        exact = float(statistic.evaluate(exact_counts(table), table.grid)) / (grid * total)
        error = abs(exact - source.expect(query))
        errors.append(error)
        sizes.append(error)
    weights = [*workload.marginal_weights, *counted, *workload.query_weights]
    mean = float(np.average(distances, weights=workload.marginal_weights)) if distances else None
    return Evaluation(
        max(errors), float(np.average(sizes, weights=weights)), mean, dict(zip(names, distances, strict=True))
    )


def _every_range(entry: AllRanges, table: Table, total: int, source: Any) -> np.ndarray:
    """Errors of all ranges of an entry."""
    domain = table.domain
    if (count := entry.count(domain)) > MOST_RANGES:
        raise QueryError(f"{entry.wording} are {count} ranges; at most {MOST_RANGES} are evaluated: name fewer columns")
    names = domain.canonical(entry.attributes)
    truth = entry.answers(domain, exact_counts(table).marginal(names))
    return truth / total - entry.answers(domain, source.marginals([names])[0])


def exact_rows(table: Table, what: str) -> int:
    """The weight of all rows; QueryError if there are none."""
    total = exact_counts(table).total()
    if total == 0:
        raise QueryError(f"{what} has no rows, so no share of it is defined; compare tables with at least one")
    return total


def published_marginals(published: Any, domain: Domain) -> Published:
    """The object that answers marginals of a release, a snapshot or synthetic rows."""
    if hasattr(published, "hypothesis"):
        return published.hypothesis
    if hasattr(published, "marginals") and hasattr(published, "expect"):
        return published
    return _Rows(ReadTable.of(published, domain, neighbours="add-remove"))


class _Rows:
    """Synthetic rows, scored as they are."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._total = exact_rows(table, "what was published")

    def marginals(self, sets: list[tuple[str, ...]]) -> list[np.ndarray]:
        return [counts / self._total for counts in exact_counts(self._table).marginals(sets)]

    def expect(self, query: Linear) -> float:
        statistic = LinearCount(query, self._table.domain)
        return float(statistic.evaluate(exact_counts(self._table), 1)) / (statistic.resolution(1) * self._total)
