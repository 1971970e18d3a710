"""What a fit believes beforehand: a product base, and shrinkage by order (spec release.md 3-4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from reticent.errors import QueryError

if TYPE_CHECKING:
    from reticent.domain import Domain

__all__ = ["Prior", "collapse", "empirical_scale", "likeliest_scale", "product_base", "soft_floor"]

MarginalValues = tuple[tuple[str, ...], np.ndarray, float]
"""An attribute set in domain order, its noisy marginal in fractions, the sd of each cell."""


@dataclass(frozen=True)
class Prior:
    """Standard deviations of log-linear parameters: of 1-, 2-, 3-way sets (then by halves); of queries."""

    scales: tuple[float, ...] = (3.0, 0.5, 0.15)
    query_scale: float = 1.0

    def __post_init__(self) -> None:
        for scale in (*self.scales, self.query_scale):
            if not 0 < scale < float("inf"):
                raise QueryError(f"a prior scale of {scale!r} must be positive and finite")
        if not self.scales:
            raise QueryError("a prior needs the scale of at least one order, for example (3.0, 0.5, 0.15)")

    def scale(self, order: int) -> float:
        order = max(order, 1)
        beyond = max(order - len(self.scales), 0)
        return self.scales[min(order, len(self.scales)) - 1] * 0.5**beyond

    def times(self, factor: float) -> Prior:
        """The same prior with every interaction (order two and more) wider or narrower."""
        return Prior((self.scales[0], *(s * factor for s in self.scales[1:])), self.query_scale)


_GRID = np.geomspace(0.03, 3.0, 21)


def empirical_scale(values: np.ndarray, sd: float, expected: np.ndarray) -> float:
    """The prior scale under which the measured cells are likeliest, `expected` being the model without this term.

    To first order a parameter of scale s moves a cell q by q s, so `value - q ~ N(0, q^2 s^2 + sd^2)`: the excess
    variance of the measurement itself tells how strong its interaction is. Free: it reads released numbers only.
    """
    return likeliest_scale((values - expected) ** 2, expected**2, sd, _GRID)


def likeliest_scale(squares: np.ndarray, spread: np.ndarray, sd: float, grid: np.ndarray) -> float:
    """The s of the grid under which squared distances of variance `spread s^2 + sd^2` are likeliest."""
    losses = []
    for scale in grid:
        variance = spread * (scale * scale) + sd * sd
        losses.append(float(np.log(variance).sum() + (squares / variance).sum()))
    return float(grid[int(np.argmin(losses))])


def soft_floor(values: np.ndarray, sd: float) -> np.ndarray:
    """Positive values near max(value, 0) that never fall below half an sd: noise cannot rule a code out."""
    positive = np.maximum(values, 0.0)
    return (positive + np.hypot(positive, sd)) / 2


def collapse(marginals: Iterable[MarginalValues], attributes: tuple[str, ...]) -> tuple[np.ndarray, float] | None:
    """The inverse-variance mean of all marginals that cover the attributes, summed down to them, and its sd."""
    total: np.ndarray | None = None
    weight = 0.0
    for members, values, sd in marginals:
        if not set(attributes) <= set(members):
            continue
        dropped = tuple(i for i, name in enumerate(members) if name not in attributes)
        share = 1.0 / (sd * sd * prod(values.shape[i] for i in dropped))
        summed = share * values.sum(axis=dropped)
        total = summed if total is None else total + summed
        weight += share
    return None if total is None else (total / weight, weight**-0.5)


def product_base(domain: Domain, marginals: Iterable[MarginalValues]) -> dict[str, np.ndarray]:
    """One distribution per attribute; uniform where nothing was measured."""
    known = list(marginals)
    base = {}
    for name, size in zip(domain.names, domain.shape, strict=True):
        measured = collapse(known, (name,))
        vector = np.full(size, 1.0 / size) if measured is None else soft_floor(*measured)
        base[name] = vector / vector.sum()
    return base
