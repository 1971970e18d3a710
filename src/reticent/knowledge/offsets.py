"""Average positions of a column's numbers within their bins, measured once (spec answers 5.2).

Offsets move values only. The binning error stays in every bound: the offset of a whole bin gives no certain statement
about the records that a condition selects from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain import Numeric
from reticent.domain.numeric import spans
from reticent.queries.base import Linear, Query
from reticent.queries.expectation import Expectation, Weights
from reticent.queries.groups import Groups
from reticent.queries.linear import OfColumn, Ratio, Total

if TYPE_CHECKING:
    from reticent.knowledge.knowledge import Knowledge

SPREAD = 1 / 12
"""Variance of a bin's mean offset, in widths, where nothing is known of it but that it lies in the bin."""


@dataclass(frozen=True, eq=False)
class BinMeans:
    """Released sums of (value - middle) / width over the records of each bin, and their noise, in records."""

    sums: np.ndarray
    sd: float

    def offsets(self, attribute: Numeric, counts: np.ndarray) -> np.ndarray:
        """The distance of the mean of each bin from its middle, in the column's unit; kept inside the bin.

        The mean of a bin with few records is shrunk toward its middle according to its noise.
        """
        _, width = spans(attribute)
        counts = np.maximum(counts[: attribute.known], 1.0)
        trust = SPREAD / (SPREAD + (self.sd / counts) ** 2)
        found = np.clip(trust * self.sums / counts, -0.5, 0.5) * width
        return np.where(attribute.radii[: attribute.known] > 0, found, 0.0)


def mean_offset(knowledge: Knowledge, query: Query) -> float:
    """The correction of a mean of representatives by measured offsets; 0 without offsets."""
    column = query.numerator if isinstance(query, Ratio) else query
    if not isinstance(column, OfColumn) or isinstance(query, Total) or column.column not in knowledge.bin_means:
        return 0.0
    total = Total(column.column, column.where)
    present = knowledge.guess(total.present, named=False).compute()
    moved = float(_moved(knowledge, column.column, total))
    return moved / float(present) if present > 0 else 0.0


def share_offset(knowledge: Knowledge, query: Query) -> np.ndarray | float:
    """The correction of the share of a total in each group, in units of the column's range."""
    column = query.column if isinstance(query, (Total, Groups)) else None
    if column is None or column not in knowledge.bin_means:
        return 0.0
    lower, upper = knowledge.domain[column].bounds or (0.0, 0.0)
    return _moved(knowledge, column, query) / (upper - lower) if upper > lower else 0.0


def _moved(knowledge: Knowledge, column: str, query: Query) -> np.ndarray | float:
    """The mean over all records of the offset of their bin, where the question counts them."""
    offsets = knowledge.bin_offsets[column]
    largest = float(np.abs(offsets).max(initial=0.0))
    if largest == 0:
        return 0.0
    assert isinstance(query, (Total, Groups)), "a total, or one of each group"
    ends = []
    for sign in (1, -1):
        weights = Weights.of(**{column: np.clip(sign * offsets / largest, 0.0, 1.0)})
        asked: Linear | Groups = Expectation(weights, query.where)
        if isinstance(query, Groups):
            asked = Groups(query.names, query.where, weights=weights)
        ends.append(knowledge.guess(asked, named=False).compute())
    return largest * (ends[0] - ends[1])
