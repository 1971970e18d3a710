"""All groups of a GROUP BY with a condition as one statistic: a record counts in at most one of them."""

from __future__ import annotations

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.statistics import MARGINAL_CELLS, checked_form, fine, of_one_marginal
from reticent.kernel.table import CountSource
from reticent.queries.groups import Groups


class GroupCounts:
    """For every cell of the grouped attributes, the sum over its records of a public value in [0, 1].

    A record adds at most one to one cell and nothing elsewhere, as in a marginal (proofs/groups.md).
    """

    def __init__(self, groups: Groups, domain: Domain) -> None:
        self.groups = groups
        self._names = domain.canonical(groups.names)
        self.form = checked_form(groups.text, groups.form(domain), domain)
        self.span = domain.canonical({*groups.names, *self.form.attributes})
        if (cells := domain.cells(self.span)) > MARGINAL_CELLS:
            raise QueryError(f"{groups.text} needs {cells} cells; at most {MARGINAL_CELLS}: ask its groups one by one")

    def resolution(self, person_grid: int) -> int:
        return 1 if self.form.binary else fine(person_grid)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return of_one_marginal(neighbours)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts, looked_at = source.marginal(self.span), self.form.attributes
        extents = [size if name in looked_at else 1 for name, size in zip(self.span, counts.shape, strict=True)]
        values = np.rint(self.form.tensor() * self.resolution(person_grid)).astype(np.int64).reshape(extents)
        dropped = tuple(axis for axis, name in enumerate(self.span) if name not in self._names)
        return (counts * values).sum(axis=dropped)

    def describe(self) -> dict[str, object]:
        """Names in the domain's order, as the released counts: the order of asking is none of the ledger's business."""
        return {"groups": self.groups.ordered(self._names).to_dict()}
