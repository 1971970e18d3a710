"""Bounds on single queries from the noise of their own measurements: no further audit is needed (proofs/partitions.md).

A measured number holds the truth within a quantile of its noise. Of queries that were listed before they were measured,
no choice depends on the noise, so each needs one quantile, and a union bound makes all of them hold together.
"""

from __future__ import annotations

from dataclasses import dataclass

from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import restore
from reticent.kernel.statistics import VALUE_ROUNDING
from reticent.knowledge.tails import sum_of_noises

__all__ = ["QueryReading"]


@dataclass(frozen=True)
class QueryReading:
    """Noisy numbers of the records that a query counts and of those that it leaves, each a sum of independent cells."""

    held: float
    cells: int
    rest: float | None
    """None if it was not measured, because the number of records is public."""
    others: int
    noise: dict[str, str]
    records: int | None
    """The public number of records; None if it is private."""
    exact: bool
    """Whether the values of the query are not rounded."""

    def interval(self, failure: float) -> tuple[float, float]:
        """The share of the table, except with this probability.

        Of a private number of records nothing else is used: the share of h of h + r records grows with h and falls
        with r.
        """
        noise: Noise = restore(self.noise)  # pyright: ignore[reportAssignmentType]
        slack = 0.0 if self.exact else VALUE_ROUNDING
        if self.records is not None:
            if self.rest is None or self.cells <= self.others:
                centre, cells = self.held, self.cells
            else:
                centre, cells = self.records - self.rest, self.others
            away = sum_of_noises(noise, cells, failure)
            low, high = (centre - away) / self.records, (centre + away) / self.records
        else:
            assert self.rest is not None, "the number of records is told by what a query counts and leaves"
            here, there = (sum_of_noises(noise, cells, failure / 2) for cells in (self.cells, self.others))
            low = _share(self.held - here, self.rest + there, 0.0)
            high = _share(self.held + here, self.rest - there, 1.0)
        return max(0.0, low - slack), min(1.0, high + slack)

    def error(self, share: float, failure: float) -> float:
        """The largest distance of the truth from a published share, except with this probability.

        A sum of published probabilities may exceed 1 by rounding; no error of a share does.
        """
        low, high = self.interval(failure)
        return min(max(share - low, high - share, 0.0), 1.0)


def _share(held: float, rest: float, unknown: float) -> float:
    """The share of some of all records; `unknown` if there might be none."""
    held, rest = max(held, 0.0), max(rest, 0.0)
    return held / (held + rest) if held + rest > 0 else unknown
