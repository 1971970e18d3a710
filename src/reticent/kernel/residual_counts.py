"""Residuals of marginals as whole numbers, and the price of several measured together (docs/proofs/residuals.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, prod

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import Price
from reticent.kernel.mechanisms.base import Gaussian, Sensitivity
from reticent.kernel.statistics import FINE_PERSONS
from reticent.kernel.table import CountSource
from reticent.queries.linear import Residual

__all__ = ["RESIDUAL_CELLS", "ResidualCounts", "groups", "joint_price"]

RESIDUAL_CELLS = FINE_PERSONS
"""The most cells of a residual. It multiplies counts by no more than this: no whole number leaves int64."""
TOGETHER = 16
"""Attributes of residuals whose exact joint price is sought among all ways in which two records may differ."""
PRICE_BITS = 60
"""Binary digits of a sum of prices; roundings upward are below its last one for each cell."""


class ResidualCounts:
    """A marginal's table minus the mean along every axis, times its number of cells: whole numbers.

    One unit of its integers is a record divided by `cells`, so that values in records are the residual itself.
    """

    def __init__(self, residual: Residual, domain: Domain) -> None:
        self.attributes = domain.canonical(residual.names)
        self.shape = domain.shape_of(self.attributes)
        self.cells = prod(self.shape)
        self.domain = domain
        if self.attributes and min(self.shape) < 2:
            raise QueryError(f"the residual of {', '.join(self.attributes)} is zero: an attribute has one code only")
        if self.cells > RESIDUAL_CELLS:
            raise QueryError(
                f"the residual of {', '.join(self.attributes)} has {self.cells} cells; at most {RESIDUAL_CELLS}: "
                "measure the marginal"
            )

    def resolution(self, person_grid: int) -> int:
        return self.cells

    def sensitivity(self, neighbours: str) -> Sensitivity:
        """The sensitivity of this residual alone. A record contributes the product over attributes of 1 - 1/d on its
        code, -1/d on others.
        """
        kept = Fraction(self.freedom, self.cells)
        whole = kept * 2 ** len(self.shape)
        if neighbours == "add-remove":
            return Sensitivity(l1=whole, l2_squared=kept)
        if not self.shape:
            return Sensitivity.scalar()
        least = min(self.shape)
        return Sensitivity(l1=2 * whole, l2_squared=2 * kept * Fraction(least, least - 1))

    @property
    def freedom(self) -> int:
        """The number of free cells: the squared length of one record's contribution, times the cells."""
        return prod(size - 1 for size in self.shape)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        if not self.attributes:
            return np.asarray(source.total(), dtype=np.int64)
        values = source.marginal(self.attributes)
        for axis, size in enumerate(self.shape):
            values = size * values - values.sum(axis=axis, keepdims=True)
        return values

    def describe(self) -> dict[str, object]:
        return {"residual": {"marginal": list(self.attributes), "shape": list(self.shape)}}


def joint_price(measured: Sequence[tuple[ResidualCounts, Gaussian]], neighbours: str) -> Price:
    """The price of residuals with Gaussian noise, released together: exact, or rounded up.

    Two records that differ in many attributes move some residuals far and others little, so the sum of the residuals'
    separate worst cases is too large. Residuals are taken in the given order; each joins the first group that then has
    at most TOGETHER attributes, and the worst pair of records is found for every group.
    """
    # The price of noise on one number of sensitivity one, including the excess over continuous noise if it is known.
    one = Sensitivity.scalar()
    prices = [noise.price(one) for _, noise in measured]
    rho = _worst(measured, [2 * price.rho for price in prices], neighbours)
    exact = [2 * price.gaussian for price in prices if price.gaussian is not None]
    known = len(exact) == len(prices)
    return Price(None, rho, gaussian=_worst(measured, exact, neighbours) if known else None)


def _worst(
    measured: Sequence[tuple[ResidualCounts, Gaussian]], precisions: Sequence[Fraction], neighbours: str
) -> Fraction:
    """Half of the largest squared movement of all residuals by two neighbours, weighted by precisions.

    In units of `2^-shift`, which keep all sums in int64; weights are rounded up, and no residual's part of a sum is
    negative, so the result is rounded up too. A number of records is measured only if it is private, and is charged
    separately.
    """
    counted = [(statistic, t / statistic.cells) for (statistic, _), t in zip(measured, precisions, strict=True)]
    total = sum(ceil(2**PRICE_BITS * weight * statistic.freedom) for statistic, weight in counted)
    unit = Fraction(2) ** (2 * PRICE_BITS - total.bit_length())
    weights = [(statistic, ceil(unit * weight)) for statistic, weight in counted]
    if neighbours == "add-remove":
        return sum(weight * statistic.freedom for statistic, weight in weights) / (2 * unit)
    alone = sum(weight for statistic, weight in weights if not statistic.attributes)
    together = _groups([entry for entry in weights if entry[0].attributes])
    return (Fraction(alone, 2) + sum(map(_largest_move, together))) / unit


Weighted = tuple[ResidualCounts, int]


def _groups(weights: Sequence[Weighted]) -> list[list[Weighted]]:
    return [[weights[i] for i in group] for group in groups([statistic.attributes for statistic, _ in weights])]


def groups(sets: Sequence[tuple[str, ...]]) -> list[list[int]]:
    """Places of the sets of each group: every set joins the first group that then has at most TOGETHER attributes."""
    places = {name: i for i, name in enumerate(dict.fromkeys(name for names in sets for name in names))}
    held = np.zeros((len(places), len(sets)), dtype=bool)  # of every group, its attributes
    sizes = np.zeros(len(sets), dtype=np.int64)
    found: list[list[int]] = []
    for i, names in enumerate(sets):
        own = [places[name] for name in names]
        begun = len(found) + 1
        grown = sizes[:begun] + len(own) - held[own, :begun].sum(axis=0)
        home = int(np.argmax(grown <= max(TOGETHER, len(own))))
        if home == len(found):
            found.append([])
        found[home].append(i)
        held[own, home] = True
        sizes[home] = grown[home]
    return found


def _largest_move(group: Sequence[Weighted]) -> int:
    """The maximum of `sum w (k - k(D))` over all sets D of attributes in which two records differ.

    `k` is the product of d - 1 over a residual's attributes; `k(D)` has -1 in the place of those in D. One transform
    over {0, 1} for each attribute gives `sum w k(D)` for all D at once.
    """
    sizes: dict[str, int] = {}
    for statistic, _ in group:
        sizes |= dict(zip(statistic.attributes, statistic.shape, strict=True))
    axis = {name: i for i, name in enumerate(sizes)}
    sums = np.zeros((2,) * len(sizes), dtype=np.int64)
    for statistic, weight in group:
        place = [0] * len(sizes)
        for name in statistic.attributes:
            place[axis[name]] = 1
        sums[tuple(place)] += weight
    sums = sums.ravel()
    for size in sizes.values():
        without, within = np.split(sums, 2)  # of the first axis, which becomes the last
        sums = np.stack([without + (size - 1) * within, without - within], axis=1).ravel()
    return int(sums[0]) - int(sums.min())
