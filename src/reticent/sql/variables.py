"""Numbers of one record that are summed, averaged and compared, known for each cell of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sqlglot import exp

from reticent.domain import Domain
from reticent.domain.numeric import has_positions
from reticent.queries import Predicate, Weights, all_of, col
from reticent.queries.forms import allowed_codes, bin_reach, scaled_numbers
from reticent.sql.cells import MAX_CELLS, OnCells, on_cells
from reticent.sql.expressions import Binning, MeanExpr, Sum
from reticent.sql.grouping import reachable
from reticent.sql.intervals import Interval
from reticent.sql.refusals import refused, wording
from reticent.sql.scan import Scan
from reticent.sql.scope import CutError, Scope
from reticent.sql.vectors import INTEGER, NULL, NUMBER, NUMERIC, bounds_of, kind_of, to_interval

CLOSE = 1e-12
"""Relative to the largest value: what rounding leaves of a product."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A number of each record: its representative in every cell of some columns, and how far it may lie from it."""

    names: tuple[str, ...]
    numbers: Interval
    """One row per cell; NaN where the record has no number."""
    present: Predicate
    kind: str
    domain: Domain
    column: str | None = None
    """The column whose own numbers these are."""

    @classmethod
    def of_column(cls, name: str, domain: Domain) -> Variable:
        """A column's own numbers."""
        attribute = domain[name]
        present = all_of(()) if attribute.size == attribute.known else col(name).is_known()
        return cls((name,), bounds_of(attribute), present, kind_of(attribute), domain, name)

    @classmethod
    def of(cls, tree: exp.Expr, scope: Scope, where: Predicate) -> Variable:
        """A numeric expression over one record of a selection."""
        tree, scope = scope.inlined(tree)
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.Column):
            name = scope.attribute(tree)
            kind = kind_of(scope.domain[name])
            if kind not in NUMERIC or scope.domain[name].representatives is None:
                raise refused(f"{wording(tree)} has no numbers", "count its values instead")
            return cls.of_column(name, scope.domain)
        return cls.of_cells(on_cells(tree, scope), tree, where)

    @classmethod
    def of_cells(cls, cells: OnCells, tree: exp.Expr, where: Predicate) -> Variable:
        known = cells.known
        if known is None:
            raise refused(
                f"{wording(tree)} combines values of records with a noisy value",
                "ask for it first, and write the value",
            )
        if known.kind not in (*NUMERIC, NULL):
            raise refused(f"{wording(tree)} is not a number", "use COUNT, or a column of numbers")
        numbers, domain = present_numbers(cells, tree, where), cells.scope.domain
        if _unbounded(numbers).any():
            raise refused(f"{wording(tree)} has no bound in some bin", "use WHERE to leave it out")
        return cls(cells.names, numbers, cells.predicate(numbers.number), known.kind, domain)

    @cached_property
    def mask(self) -> np.ndarray:
        """Cells whose records have a number."""
        return self.numbers.number

    @cached_property
    def middles(self) -> np.ndarray:
        """Representatives, zero where there is none."""
        return np.where(self.mask, self.numbers.value, 0.0)

    @cached_property
    def radii(self) -> np.ndarray:
        """How far a record's number may lie from the representative of its cell."""
        reach = np.maximum(self.numbers.high - self.numbers.value, self.numbers.value - self.numbers.low)
        return np.where(self.mask, np.maximum(reach, 0.0), 0.0)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.domain.shape_of(self.names)

    @property
    def label(self) -> str:
        return ", ".join(self.names)

    def within(self, where: Predicate) -> np.ndarray:
        """Cells that a selection allows."""
        if not self.mask.any() or len(self.names) != 1:
            return self.mask
        return self.mask & allowed_codes(where.compile(self.domain), self.names[0], self.domain)

    def weights(self, values: np.ndarray) -> Weights:
        """A function of the cells, one array, or one vector for each column where it is a product."""
        tensor = np.clip(values, 0.0, 1.0).reshape(self.shape)
        vectors = factors_of(tensor)
        if vectors is None:
            return Weights(((self.names, tensor),))
        return Weights(tuple(((name,), vector) for name, vector in zip(self.names, vectors, strict=True)))


def present_numbers(cells: OnCells, tree: exp.Expr, where: Predicate) -> Interval:
    """The number of each cell, NaN where it is NULL; refused if a selection leaves a cell that may be either."""
    assert cells.known is not None, "noisy values were refused"
    numbers, domain = to_interval(cells.known.vector), cells.scope.domain
    if cells.names and (_perhaps_null(numbers) | _unbounded(numbers)).any():
        # Only then: what was bought before under the whole expression keeps its text.
        allowed = reachable(where.compile(domain, cells.scope.meter), cells.names, domain).ravel()
        numbers = numbers.where(allowed, Interval.exact(np.full(len(allowed), np.nan)))
    if (open_ := _perhaps_null(numbers)).any():
        place = cells.bins_of(int(open_.argmax()))
        raise CutError(f"{wording(tree)} may be NULL within {place}; leave it out with WHERE, at the edges of bins")
    return numbers


def _perhaps_null(numbers: Interval) -> np.ndarray:
    """Cells some of whose records may have a number and others none."""
    return np.zeros(len(numbers.value), dtype=bool) if numbers.null is None else numbers.null & numbers.number


def _unbounded(numbers: Interval) -> np.ndarray:
    return numbers.number & ~(np.isfinite(numbers.low) & np.isfinite(numbers.high))


def factors_of(tensor: np.ndarray) -> list[np.ndarray] | None:
    """Vectors whose product the array is, if there are any: bounds of products are much better than of tables."""
    if tensor.ndim < 2 or not tensor.any():
        return None
    top = np.unravel_index(int(tensor.argmax()), tensor.shape)
    most = float(tensor[top])
    vectors = []
    for axis in range(tensor.ndim):
        index = tuple(slice(None) if other == axis else top[other] for other in range(tensor.ndim))
        vectors.append(np.clip(tensor[index] / most, 0.0, 1.0))
    vectors[0] = vectors[0] * most
    product = vectors[0]
    for vector in vectors[1:]:
        product = np.multiply.outer(product, vector)
    return vectors if np.abs(product - tensor).max() <= CLOSE * most else None


def sum_of(scan: Scan, variable: Variable, where: Predicate) -> Sum:
    """SUM of any bounded number: smallest * present + scale * weight, and what bins hide."""
    kind = INTEGER if variable.kind != NUMBER else NUMBER
    kept = all_of((where, variable.present))
    cells = variable.within(where)
    if not cells.any():
        return Sum((), scan.rows, kind)
    middles = variable.middles
    least, most = float(middles[cells].min()), float(middles[cells].max())
    radius = float(variable.radii[cells].max())
    least = 0.0 if least >= 0.0 and len(variable.names) > 1 else least
    scale = max(most - least, radius)
    present = scan.place(kept, aside=least == 0.0)
    found = Sum(((least, present),) if least else (), scan.rows, kind)
    if scale == 0.0:
        return found
    weights = variable.weights(np.where(variable.mask, (middles - least) / scale, 0.0))
    place = scan.place(kept, weights)
    scan.measures.present[place] = present
    if radius > 0 and place not in scan.measures.binned:
        reach = scan.place(kept, variable.weights(variable.radii / radius), aside=True)
        scan.measures.binned[place] = Binning(variable.names, radius / scale, np.inf, present, reach)
    return found.plus(Sum(((scale, place),), scan.rows, kind))


def blur_total(scan: Scan, place: int, column: str, selected: Predicate) -> None:
    """Remember what the bins of a column hide from its total among the records of a selection."""
    domain, measures = scan.domain, scan.measures
    _, lower, upper = scaled_numbers(domain, column)
    radius, ratio = bin_reach(selected.compile(domain), column, domain)
    counted = measures.present[place] = scan.place(selected, aside=True)
    if radius > 0 and place not in measures.binned:
        radii = Weights.of(**{column: np.minimum(domain[column].radii / radius, 1.0)})
        reach = scan.place(selected, radii, aside=True)
        measures.binned[place] = Binning((column,), radius / (upper - lower), ratio, counted, reach)


def mean_of(scan: Scan, variable: Variable, where: Predicate, power: int = 1, centre: float = 0.0) -> MeanExpr:
    """The mean of (x - centre)^power of the representatives, without what bins hide."""
    kept = all_of((where, variable.present))
    cells = variable.within(where)
    values = (variable.middles - centre) ** power
    chosen = values[cells] if cells.any() else np.zeros(1)
    low, high = float(chosen.min()) if power % 2 else 0.0, float(chosen.max())
    bottom = scan.place(kept)
    if power == 1 and variable.column is not None and high > low:
        # The question that AVG asks.
        place = scan.place(where, variable.column, middles=has_positions(scan.domain[variable.column]))
        scan.measures.present[place] = bottom
        return MeanExpr(_column_sum(scan, variable.column, place, bottom), bottom, low, high)
    width = high - low
    if width == 0.0:
        return MeanExpr(Sum(((low, bottom),) if low else (), scan.rows), bottom, low, high)
    place = scan.place(kept, variable.weights(np.where(variable.mask, (values - low) / width, 0.0)))
    scan.measures.present[place] = bottom
    return MeanExpr(Sum(((low, bottom), (width, place)) if low else ((width, place),), scan.rows), bottom, low, high)


def own_mean(scan: Scan, variable: Variable, where: Predicate) -> MeanExpr | None:
    """AVG of a column whose bins hide its numbers, where it was bought of the rows' own; nothing is paid for it."""
    column, cells = variable.column, variable.within(where)
    if column is None or not has_positions(scan.domain[column]) or len(set(variable.middles[cells])) < 2:
        return None
    kept = all_of((where, variable.present))
    bottom, place = scan.place(kept), scan.place(where, column, aside=True)
    blur_total(scan, place, column, kept)
    low, high = float(variable.numbers.low[cells].min()), float(variable.numbers.high[cells].max())
    radius = float(variable.radii[cells].max())
    return MeanExpr(_column_sum(scan, column, place, bottom), bottom, low, high, radius)


def _column_sum(scan: Scan, column: str, place: int, counted: int) -> Sum:
    """The sum of a column from the places of its scaled total and of the number of its records."""
    _, lower, upper = scaled_numbers(scan.domain, column)
    return Sum(((upper - lower, place), (lower, counted)) if lower else ((upper - lower, place),), scan.rows)


def product_mean(
    scan: Scan, factors: Sequence[Variable], where: Predicate
) -> tuple[MeanExpr, list[tuple[float, float]]]:
    """The mean of the product of two numbers, each scaled into [0, 1]; and each one's smallest value and width."""
    kept = all_of((where, *(variable.present for variable in factors)))
    scales, arrays = [], []
    for variable in factors:
        cells = variable.within(kept)
        chosen = variable.middles[cells] if cells.any() else np.zeros(1)
        low, width = float(chosen.min()), float(chosen.max() - chosen.min())
        scales.append((low, width))
        scaled = (variable.middles - low) / width if width else np.zeros(len(variable.middles))
        arrays.append(np.clip(np.where(variable.mask, scaled, 0.0), 0.0, 1.0).reshape(variable.shape))
    bottom, place = scan.place(kept), scan.place(kept, _joint(factors, arrays, scan))
    scan.measures.present[place] = bottom
    return MeanExpr(Sum(((1.0, place),), scan.rows), bottom, 0.0, 1.0), scales


def _joint(factors: Sequence[Variable], arrays: Sequence[np.ndarray], scan: Scan) -> Weights:
    """The product of functions of columns, some of which both may look at."""
    one, other = factors
    if not set(one.names) & set(other.names):
        listed = [(variable.names, array) for variable, array in zip(factors, arrays, strict=True) if variable.names]
        if not listed:
            raise refused("a statistic of two constants is the same for every table", "name a column")
        # A constant does not vary: scaled, it is zero.
        return Weights(tuple((names, array if len(listed) == 2 else array * 0.0) for names, array in listed))
    names = scan.domain.canonical({*one.names, *other.names})
    if scan.domain.cells(names) > MAX_CELLS:
        raise refused(f"{one.label} and {other.label} combine too many codes", "use fewer or coarser columns")
    product = np.ones(scan.domain.shape_of(names))
    for variable, array in zip(factors, arrays, strict=True):
        product = product * array.reshape([scan.domain[name].size if name in variable.names else 1 for name in names])
    return Weights(((names, product),))
