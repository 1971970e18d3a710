"""Residuals of marginals: what each measurement tells of them, joined by inverse variances (spec planning.md 1).

The residual of a set A is the table of A with the mean along every axis taken off. A marginal S with noise of variance
v in each cell tells it with variance `v |S| / |A|` before centring. Residuals of different sets are orthogonal, so that
inverse-variance means of residuals are weighted least squares on all measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod, sqrt
from typing import TYPE_CHECKING, Self

import numpy as np

from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.prior import LEAST_KEPT, POOLED_GRID, SCALE_GRID, likeliest_scale, scale_losses
from reticent.queries.linear import Marginal, Residual

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.fitting.prior import Base

__all__ = [
    "WIDEST",
    "Consistent",
    "Departure",
    "MeasuredForm",
    "as_marginals",
    "as_residuals",
    "centred",
    "centred_squares",
    "consistent_of",
    "freedom",
    "has_residuals",
    "held_squares",
    "is_laplace",
    "kept_by_centring",
    "maximal_sets",
    "others",
    "subsets_of",
    "told_residuals",
]

Set = tuple[str, ...]

WIDEST = 8
"""Attributes of a set whose subsets are all looked at: 256 tables."""
MOST_QUERIES = 1024
"""Single queries that least squares take: their system is solved in a tenth of a second."""


@dataclass(frozen=True, eq=False)
class MeasuredForm:
    """A linear query as values on the cells of a set, what was measured of it, and the noise."""

    names: Set
    form: np.ndarray
    value: float
    sd: float


@dataclass(frozen=True, eq=False)
class Consistent:
    """Marginals made consistent by weighted least squares; values are fractions: the residual of no attribute is 1."""

    residuals: Mapping[Set, np.ndarray]
    precisions: Mapping[Set, float]
    """Of each residual's cells before they are centred."""

    @classmethod
    def of(
        cls,
        measured: Iterable[tuple[Set, np.ndarray, float]],
        residuals: Iterable[tuple[Set, np.ndarray, float]] = (),
        among: Collection[Set] | None = None,
    ) -> Self:
        """From the values and the noise of measured marginals, and of measured residuals; only of sets `among` some."""
        sums: dict[Set, np.ndarray] = {}
        weights: dict[Set, float] = {}

        def add(names: Set, table: np.ndarray, weight: float) -> None:
            sums[names] = sums.get(names, 0.0) + weight * centred(table)
            weights[names] = weights.get(names, 0.0) + weight

        for names, values, sd in measured:
            for kept, inner in subsets_of(names) if among is None else _places_of(names, among):
                table = values.sum(axis=others(names, kept))
                add(inner, table, table.size / (values.size * sd * sd))
        for names, values, sd in residuals:
            add(names, values, sd**-2.0)
        return cls({inner: total / weights[inner] for inner, total in sums.items()} | {(): np.ones(())}, weights)

    @property
    def rank(self) -> int:
        """How many independent numbers were measured."""
        return sum(freedom(residual) for names, residual in self.residuals.items() if names)

    def marginal(self, names: Set) -> tuple[np.ndarray, float]:
        """A marginal whose residuals are all known, and the noise of its cells."""
        shape = [self.residuals[name,].size for name in names]
        table, variance = np.zeros(shape), 0.0
        for kept, inner in subsets_of(names):
            residual = self.residuals[inner]
            share = residual.size / table.size
            table += share * np.expand_dims(residual, others(names, kept))
            if inner in self.precisions:  # the total of fractions is 1 without any noise
                variance += share * share / self.precisions[inner] * kept_by_centring(residual.shape)
        return table, sqrt(variance)

    def knows(self, names: Set) -> bool:
        """Whether all residuals of a marginal were measured."""
        if names and names not in self.precisions:
            return False
        return all(inner in self.precisions for _, inner in subsets_of(names) if inner)

    def given(self, queries: Sequence[MeasuredForm]) -> Self:
        """The same where single linear queries of known marginals were measured too: least squares on all of it.

        A query f of a set S is a sum over residuals r of its subsets, `f(p) = sum <c_A, r_A>`. Residuals of precision t
        have the covariance `P / t`, P taking off means, so that they move by `(c_A / t) w` for weights w that solve
        `(sum <c_A, c_A> / t + sd^2) w = measured - f`. Precisions stay: those of what no query tells.
        Of more than `MOST_QUERIES` the most precise ones are taken.
        """
        told = sorted((query for query in queries if self.knows(query.names)), key=lambda query: query.sd)[
            :MOST_QUERIES
        ]
        if not told:
            return self
        parts = [self._parts(query) for query in told]
        gram, columns = np.diag([query.sd**2 for query in told]), {}
        for inner in dict.fromkeys(inner for part in parts for inner in part if inner):
            column = np.stack([part[inner].ravel() if inner in part else self._nothing(inner) for part in parts])
            gram = gram + column @ column.T / self.precisions[inner]
            columns[inner] = column
        misses = [query.value - self.expected(query) for query in told]
        weights = np.linalg.solve(gram, misses)
        moves = {inner: weights @ column / self.precisions[inner] for inner, column in columns.items()}
        moved = {
            inner: self.residuals[inner] + move.reshape(self.residuals[inner].shape) for inner, move in moves.items()
        }
        return type(self)({**self.residuals, **moved}, self.precisions)

    def expected(self, query: MeasuredForm) -> float:
        """What a query of a known marginal is by these residuals."""
        return sum(float(np.vdot(part, self.residuals[inner])) for inner, part in self._parts(query).items())

    def _parts(self, query: MeasuredForm) -> dict[Set, np.ndarray]:
        """Its coefficients on each residual."""
        parts = {}
        for kept, inner in subsets_of(query.names):
            summed = query.form.sum(axis=others(query.names, kept))
            parts[inner] = centred(summed * (summed.size / query.form.size))
        return parts

    def _nothing(self, inner: Set) -> np.ndarray:
        return np.zeros(self.residuals[inner].size)

    def decided(self, base: Base, scales: Mapping[Set, float], smooth: Mapping[Set, np.ndarray] | None = None) -> float:
        """How many of these numbers the measurements decide under a prior, and not the prior.

        A parameter of scale s moves a cell q by q s: with precision t the share `v t / (1 + v t)`, `v = (q s)^2`, of a
        cell's distance from the base is followed. Of sets without a scale, as single attributes, all of it. Sets in
        `smooth` have these v instead, of their coefficients.
        """
        total = 0.0
        for names, residual in self.residuals.items():
            share = 1.0
            if len(names) > 1 and names in scales:
                known = None if smooth is None else smooth.get(names)
                variances = (scales[names] * base.table(names)) ** 2 if known is None else known
                signal = self.precisions[names] * variances
                share = float(np.mean(signal / (1 + signal)))
            total += share * freedom(residual) if names else 0.0
        return total


def freedom(residual: np.ndarray) -> int:
    """How many of its cells are free."""
    return prod(size - 1 for size in residual.shape)


def kept_by_centring(shape: Sequence[int]) -> float:
    """The share of a cell's noise that is left when the mean along every axis is taken off."""
    return prod(1 - 1 / size for size in shape)


def subsets_of(names: Set) -> list[tuple[tuple[int, ...], Set]]:
    """All subsets of some attributes: their places, and their names."""
    places = [kept for order in range(len(names) + 1) for kept in combinations(range(len(names)), order)]
    return [(kept, tuple(names[i] for i in kept)) for kept in places]


def _places_of(names: Set, sets: Iterable[Set]) -> list[tuple[tuple[int, ...], Set]]:
    """Those of some sets that lie inside one, with their places in it."""
    places = {name: i for i, name in enumerate(names)}
    return [(tuple(places[name] for name in s), s) for s in sets if all(name in places for name in s)]


def others(names: Set, kept: tuple[int, ...]) -> tuple[int, ...]:
    """The places of all other attributes."""
    return tuple(i for i in range(len(names)) if i not in kept)


def centred(table: np.ndarray) -> np.ndarray:
    """The mean along every axis taken off."""
    for axis, size in enumerate(np.shape(table)):
        # The very bits of `mean`, whose own checks take longer than the sums: a fit centres a hundred tables a step.
        table = table - np.add.reduce(table, axis=axis, keepdims=True) / size
    return table


def centred_squares(squares: np.ndarray) -> np.ndarray:
    """The diagonal of P diag(x) P over prod(1 - 1/d), where P takes off the mean along every axis."""
    for axis, size in enumerate(squares.shape):
        squares = (1 - 2 / size) * squares + squares.sum(axis=axis, keepdims=True) / size**2
        squares = squares / (1 - 1 / size) if size > 1 else squares
    return squares


def held_squares(cells: np.ndarray) -> np.ndarray:
    """What the squares of a set's cells change by under parameters of scale one, while sets inside it stay as they are.

    Of independent attributes, parameters move cells by the product over attributes of `diag(q) - q q'`, whose squares
    have the diagonal `q_i^2 (1 - 2 q_i + sum of q_j^2)`. Of dependent ones this is an approximation, with shares of the
    line through a cell along each attribute: a cell that holds nearly all of its line cannot move, for the line's sum
    stays. The one heavy cell among light ones that are far from independent of it moves more than this.
    """
    squares = cells * cells
    for axis in range(cells.ndim):
        sums = cells.sum(axis=axis, keepdims=True)
        shares = np.divide(cells, sums, out=np.zeros(cells.shape), where=sums > 0)
        squares = squares * (1 - 2 * shares + np.square(shares).sum(axis=axis, keepdims=True))
    return np.maximum(squares, 0.0)


def maximal_sets(sets: Sequence[Set]) -> list[Set]:
    """Those that lie inside no other."""
    members = [frozenset(s) for s in sets]
    holders: dict[str, list[frozenset[str]]] = {}
    for mine in members:
        for name in mine:
            holders.setdefault(name, []).append(mine)

    def around(mine: frozenset[str]) -> list[frozenset[str]]:
        return min((holders[name] for name in mine), key=len, default=members)

    return [s for s, mine in zip(sets, members, strict=True) if not any(mine < other for other in around(mine))]


def as_marginals(measurements: Sequence[Measurement], domain: Domain) -> list[Measurement]:
    """The same with marginals in the place of residuals; as they are where there are no residuals.

    Noise of cells of such a marginal is not independent: each has the stated variance by itself.
    """
    if not has_residuals(measurements):
        return [m for m in measurements if not isinstance(m.query, Residual)]
    known = consistent_of(measurements, domain)
    sets = maximal_sets([names for names in known.precisions if names and known.knows(names)])
    rest = [m for m in measurements if not isinstance(m.query, (Residual, Marginal))]
    return [*(Measurement(Marginal(names), *known.marginal(names)) for names in sets), *rest]


def has_residuals(measurements: Sequence[Measurement]) -> bool:
    """Whether residuals were measured by themselves; the number of records is none."""
    return any(isinstance(m.query, Residual) and m.query.names for m in measurements)


def is_laplace(measurement: Measurement) -> bool:
    """Whether its noise is known to be Laplace's."""
    return (measurement.noise or {}).get("mechanism") == "Laplace"


def as_residuals(measurements: Sequence[Measurement], domain: Domain) -> list[Measurement]:
    """The same with residuals in the place of marginals, if no residual was measured by itself.

    Noise of a marginal's residuals is uncorrelated, whatever its law, and independent of that of the sets inside it, so
    that all sets of an order together tell how strongly they interact. Marginals by themselves also have no terms for
    what lies inside them. Rules say something of cells, which residuals do not see; and a very wide set has too many
    residuals.
    """
    marginals = [m for m in measurements if isinstance(m.query, Marginal)]
    read = all(len(m.query.attributes) <= WIDEST for m in marginals)
    if not marginals or not read or domain.impossible or has_residuals(measurements):
        return list(measurements)
    return told_residuals(measurements, domain)


def told_residuals(
    measurements: Sequence[Measurement], domain: Domain, among: Collection[Set] | None = None
) -> list[Measurement]:
    """What marginals tell of residuals, of all sets inside them or of those `among` some; other queries as they are."""
    known = consistent_of(measurements, domain, among)
    noise = next((m.noise for m in measurements if isinstance(m.query, Marginal)), None)
    rest = [m for m in measurements if not isinstance(m.query, (Residual, Marginal))]
    sets = sorted((s for s in known.precisions if s), key=lambda s: (len(s), [domain.index(name) for name in s]))
    told = [Measurement(Residual(s), known.residuals[s], known.precisions[s] ** -0.5, noise) for s in sets]
    return [*told, *rest]


def consistent_of(
    measurements: Sequence[Measurement], domain: Domain, among: Collection[Set] | None = None
) -> Consistent:
    """Of all marginals and residuals among some measurements; only of sets `among` some."""

    def listed(kind: type) -> list[tuple[Set, np.ndarray, float]]:
        chosen = [m for m in measurements if isinstance(m.query, kind)]
        return [(domain.canonical(m.query.attributes), m.values, m.sd) for m in chosen]

    return Consistent.of(listed(Marginal), listed(Residual), among)


@dataclass(frozen=True, eq=False)
class Departure:
    """How far a measured marginal or residual lies from what a model without its interaction expects.

    To first order a parameter of scale s moves a cell q by q s, so that squared distances have variance
    `spread s^2 + sd^2`; those of a residual, which moves while the sets inside it stay (`held_squares`), when divided
    by what centring leaves.
    """

    expected: np.ndarray
    away: np.ndarray
    squares: np.ndarray
    spread: np.ndarray
    sd: float
    free: float = 1.0
    """The share of the cells that are independent of each other."""

    @classmethod
    def from_expected(cls, values: np.ndarray, sd: float, expected: np.ndarray, *, residual: bool) -> Self:
        if not residual:
            away = values - expected
            return cls(expected, away, away**2, expected**2, sd)
        away, kept = values - centred(expected), kept_by_centring(values.shape)
        return cls(expected, away, away**2 / kept, held_squares(expected) / kept, sd, kept)

    def losses(self) -> np.ndarray:
        """Minus twice the log-likelihood of every scale of POOLED_GRID, without its constant."""
        return self.free * scale_losses(self.squares, self.spread, self.sd, POOLED_GRID)

    @property
    def scale(self) -> float:
        """The prior scale under which it is likeliest."""
        return likeliest_scale(self.squares, self.spread, self.sd, SCALE_GRID)

    def likely_scale(self, usual: float) -> float:
        """The likeliest scale if its logarithm is normal around the usual one's with deviation one, a factor of e."""
        losses = scale_losses(self.squares, self.spread, self.sd, SCALE_GRID)
        return float(SCALE_GRID[int(np.argmin(losses + np.log(SCALE_GRID / usual) ** 2))])

    def believed(self, scale: float | None = None) -> np.ndarray:
        """The part of the distance that the noise warrants in each cell, by a given scale or the likeliest one."""
        signal = self.spread * (self.scale if scale is None else scale) ** 2
        return signal / (signal + self.sd**2) * self.away

    def shrunk(self, scale: float | None = None) -> np.ndarray:
        """A distribution between what was expected and what was measured, as far as the noise warrants."""
        cells = np.maximum(self.expected + self.believed(scale), LEAST_KEPT * self.expected)
        return cells / cells.sum()
