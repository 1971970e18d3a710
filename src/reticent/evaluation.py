"""An evaluation compares what was published with the truth: for the custodian's eyes, never for publication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError, require
from reticent.kernel.statistics import LinearCount
from reticent.kernel.table import Table
from reticent.queries.base import Linear
from reticent.queries.workload import Workload
from reticent.sources import Table as ReadTable


class Published(Protocol):
    """A release, a session's snapshot, a hypothesis: anything that answers marginals and queries."""

    def marginals(self, sets: list[tuple[str, ...]]) -> list[np.ndarray]: ...

    def expect(self, query: Linear) -> float: ...


@dataclass(frozen=True)
class Evaluation:
    """True errors over a workload, as fractions of the table; means are weighted as the workload is."""

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
    """Largest and mean error of a release (or of synthetic rows) over a workload, from the true rows."""
    require(table, Table, "table", "the private rt.Table, second after what was published")
    require(workload, Workload, "workload", "rt.marginals(domain, 2) or rt.Workload([...])")
    workload = workload.on(table.domain)
    if not workload:
        raise QueryError("the workload is empty; give at least one marginal or query")
    source = _published(published, table.domain)
    total = _rows_of(table, "the table")
    errors, sizes, distances, names = [], [], [], []
    truths = table._source.marginals(workload.marginals)
    guesses = source.marginals(list(workload.marginals))
    for attributes, truth, guess in zip(workload.marginals, truths, guesses, strict=True):
        difference = np.abs(truth / total - guess)
        errors.append(float(difference.max()))
        sizes.append(float(difference.mean()))
        distances.append(float(difference.sum()) / 2)
        names.append(" x ".join(attributes))
    singles = [query for entry in (workload.queries, *(_each(workload, table.domain))) for query in entry]
    for query in singles:
        statistic = LinearCount(query, table.domain)
        grid = statistic.resolution(table.grid)
        exact = float(statistic.evaluate(table._source, table.grid)) / (grid * total)
        error = abs(exact - source.expect(query))
        errors.append(error)
        sizes.append(error)
    weights = [*workload.marginal_weights, *([1.0] * len(singles))]
    mean = float(np.average(distances, weights=workload.marginal_weights)) if distances else None
    return Evaluation(
        max(errors), float(np.average(sizes, weights=weights)), mean, dict(zip(names, distances, strict=True))
    )


def _each(workload: Workload, domain: Domain) -> list[list[Linear]]:
    """The ranges of a workload one by one."""
    return [list(Workload([entry], domain=domain).scalars(domain)) for entry in workload.ranges]


def _rows_of(table: Table, what: str) -> int:
    total = table._source.total()
    if total == 0:
        raise QueryError(f"{what} has no rows, so no share of it is defined; compare tables with at least one")
    return total


def _published(published: Any, domain: Domain) -> Published:
    if hasattr(published, "hypothesis"):
        return published.hypothesis
    if hasattr(published, "marginals") and hasattr(published, "expect"):
        return published
    return _Rows(ReadTable.of(published, domain, neighbours="add-remove"))


class _Rows:
    """Synthetic rows, scored as they are."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._total = _rows_of(table, "what was published")

    def marginals(self, sets: list[tuple[str, ...]]) -> list[np.ndarray]:
        return [counts / self._total for counts in self._table._source.marginals(sets)]

    def expect(self, query: Linear) -> float:
        statistic = LinearCount(query, self._table.domain)
        return float(statistic.evaluate(self._table._source, 1)) / (statistic.resolution(1) * self._total)
