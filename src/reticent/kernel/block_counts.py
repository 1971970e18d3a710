"""Counts of blocks of consecutive codes: a marginal whose attributes are read more coarsely."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.statistics import MARGINAL_CELLS, of_one_marginal
from reticent.kernel.table import CountSource


class BlockCounts:
    """Records in every block of codes, where block i of an attribute of width w holds the codes from i w below (i+1) w.

    The last block of an attribute may be shorter. A record lies in one block only, as in a marginal (proofs/blocks.md).
    """

    def __init__(self, names: Iterable[str], widths: Iterable[int], domain: Domain) -> None:
        self.names = tuple(names)
        self.widths = tuple(widths)
        self.domain = domain
        if not self.names or self.names != domain.canonical(self.names) or len(self.names) != len(self.widths):
            raise QueryError(f"blocks of {self.names} need one width each, and names in the domain's order")
        for name, width in zip(self.names, self.widths, strict=True):
            if type(width) is not int or not 1 <= width <= domain[name].size:
                raise QueryError(f"a block of {width!r} codes of {name}: from 1 to its {domain[name].size} codes")
        if (cells := domain.cells(self.names)) > MARGINAL_CELLS:
            raise QueryError(f"blocks of {', '.join(self.names)} need {cells} cells; at most {MARGINAL_CELLS}")

    def resolution(self, person_grid: int) -> int:
        return 1

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return of_one_marginal(neighbours)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts = source.marginal(self.names)
        for axis, width in enumerate(self.widths):
            counts = np.add.reduceat(counts, np.arange(0, counts.shape[axis], width), axis=axis)
        return counts

    def describe(self) -> dict[str, object]:
        return {"blocks": {"marginal": list(self.names), "widths": list(self.widths)}}
