"""Sums of the rows' own numbers: offsets from the middles of bins, and sums of values clipped to the declared range.

Sources give exact integer sums of positions (`reticent.domain.numeric`); sensitivities are proven in
docs/proofs/numeric-sums.md.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reticent.domain import Domain, Numeric
from reticent.domain.numeric import HALF, STEPS, has_positions, spans
from reticent.errors import QueryError
from reticent.kernel.mechanisms.base import Sensitivity
from reticent.kernel.statistics import MARGINAL_CELLS, checked_form, fine
from reticent.kernel.table import CountSource
from reticent.queries.forms import Product, scaled_numbers
from reticent.queries.groups import Groups

RANGE = 2**40
"""Integer units of a column's declared range; a multiple of every resolution."""


def of_offsets(neighbours: str) -> Sensitivity:
    """The sensitivity of vectors of which a record changes one entry by at most one half, up or down
    (docs/proofs/numeric-sums.md).

    A replacement within one entry changes it by one; a replacement across two entries changes both by one half.
    """
    moved = Fraction(1) if neighbours == "replace-one" else Fraction(1, 2)
    return Sensitivity(l1=moved, l2_squared=moved**2)


class BinOffsets:
    """For each bin of a numeric attribute the sum over its records of (value - middle of the bin) / width of the bin.

    A released sum times the width, divided by the bin's count, is the distance of the bin's mean from its middle.
    """

    def __init__(self, name: str, domain: Domain) -> None:
        attribute = domain[name]
        if not isinstance(attribute, Numeric) or not has_positions(attribute):
            raise QueryError(f"{name} has no bins that hold different numbers: there are no offsets to measure")
        self.name = name
        self.domain = domain
        self.bins = attribute.known

    def resolution(self, person_grid: int) -> int:
        return STEPS

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return of_offsets(neighbours)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts, sums = source.marginal((self.name,)), source.positions(self.name, (self.name,))
        return (sums - HALF * counts)[: self.bins]

    def describe(self) -> dict[str, object]:
        return {"bin offsets": self.name}


class ClippedSums:
    """For each group the sum of (value - c) / (upper - lower) over its records with a number.

    Values are the rows' own, clipped to the declared range [lower, upper] of the column; c is its middle. Without
    group names it is one sum.
    """

    def __init__(self, groups: Groups, domain: Domain) -> None:
        if groups.column is None:
            raise QueryError(f"{groups.text} names no column to sum; name one")
        scaled_numbers(domain, groups.column)
        self.groups = groups
        self.domain = domain
        self.column = groups.column
        self._names = domain.canonical(groups.names)
        form = checked_form(groups.text, groups.where.compile(domain), domain)
        if not form.binary:
            raise QueryError(f"{groups.text}: the condition must be true or false for every record")
        self.form = form
        self.span = domain.canonical({*groups.names, *form.attributes, self.column})
        self._wide = domain.cells(self.span) > MARGINAL_CELLS
        if self._wide and (groups.names or not isinstance(form, Product)):
            cells = domain.cells(self.span)
            raise QueryError(f"{groups.text} needs {cells} cells; at most {MARGINAL_CELLS}: ask its groups one by one")

    def resolution(self, person_grid: int) -> int:
        return fine(person_grid)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        return of_offsets(neighbours)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        counts, sums = self._chosen(source)
        start, width = self._units()
        # Whole numbers of any length; the column's axis is the last.
        cells = counts.astype(object) * (start * STEPS) + sums.astype(object) * width
        if self.column in self._names:
            total = np.moveaxis(cells, -1, self._names.index(self.column))
        else:
            total = np.asarray(cells.sum(axis=-1))
        # The divisor divides one record's change of a total, so rounding adds nothing (numeric-sums.md, Claim 3).
        return np.asarray(total // (RANGE * STEPS // self.resolution(person_grid)), dtype=np.int64)

    def _chosen(self, source: CountSource) -> tuple[np.ndarray, np.ndarray]:
        """Weight, and weight times position, in each code of the column (last axis) of each group."""
        form = self.form
        if self._wide:
            assert isinstance(form, Product), "checked when it was declared"
            vectors = zip(form.attributes, form.vectors, strict=True)
            return source.weigh_bins(self.column, {name: vector.astype(np.int64) for name, vector in vectors})
        counts, sums = source.marginal(self.span), source.positions(self.column, self.span)
        extents = [size if name in form.attributes else 1 for name, size in zip(self.span, counts.shape, strict=True)]
        chosen = np.rint(form.tensor()).astype(np.int64).reshape(extents)
        kept = [name for name in self.span if name in (*self._names, self.column)]
        dropped = tuple(axis for axis, name in enumerate(self.span) if name not in kept)
        counts, sums = ((cells * chosen).sum(axis=dropped) for cells in (counts, sums))
        place = kept.index(self.column)
        return np.moveaxis(counts, place, -1), np.moveaxis(sums, place, -1)

    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """Each code's smallest value, and the distance of its largest from it, as whole numbers of 1 / RANGE of the
        declared range, counted from its middle; zero for codes without a number.
        """
        attribute = self.domain[self.column]
        numbers, (lower, upper) = attribute.representatives, attribute.bounds or (0.0, 0.0)
        assert numbers is not None, "checked when it was declared"
        first = last = np.nan_to_num(numbers, nan=lower / 2 + upper / 2)
        if isinstance(attribute, Numeric) and has_positions(attribute):
            low, width = spans(attribute)
            hides, known = attribute.radii[: attribute.known] > 0, slice(attribute.known)
            first, last = first.copy(), last.copy()
            first[known], last[known] = np.where(hides, low, first[known]), np.where(hides, low + width, last[known])
        if upper == lower:
            return np.zeros(len(numbers), dtype=object), np.zeros(len(numbers), dtype=object)
        ends = [(end - (lower / 2 + upper / 2)) / (upper - lower) * RANGE for end in (first, last)]
        start, end = (np.clip(np.rint(e), -RANGE // 2, RANGE // 2).astype(np.int64).astype(object) for e in ends)
        return start, end - start

    def describe(self) -> dict[str, object]:
        groups = self.groups
        return {"clipped sums": Groups(self._names, groups.where, groups.column).to_dict()}
