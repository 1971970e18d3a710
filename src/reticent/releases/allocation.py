"""Allocates a budget to marginals by water-filling, according to what each marginal reveals about a workload.

A marginal S is the sum of the residuals of its subsets A; a residual is a table with the mean along every axis removed,
spread evenly over the other attributes (spec planning.md 1). Measured with precision tau, S reveals the residual of A
with precision tau |A| / |S|; these precisions add up over all measured marginals that contain A. If the cells of a
residual have prior variance v, a variance of p v / (1 + v t) remains at precision t, and the squared error of a
marginal is a weighted sum of these. The allocation minimises the sum of the square roots of these errors over the
workload.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.consistent import (
    Departure,
    as_residuals,
    centred_squares,
    consistent_of,
    has_residuals,
    held_squares,
    kept_by_centring,
)
from reticent.hypotheses.fitting.descent import largest_noise
from reticent.hypotheses.fitting.pooling import VARIANCE, learn_scales
from reticent.hypotheses.fitting.prior import Base, collapse, product_base, without_impossible
from reticent.hypotheses.fitting.smoothness import smooth_part
from reticent.queries.linear import Residual

__all__ = [
    "LAPLACE_POWER",
    "MOST_ERROR",
    "NORMAL_POWER",
    "RAISED",
    "Allocation",
    "NoiseBounds",
    "PureShares",
    "allowed_noise",
    "as_noisy",
    "binned",
    "departures_of",
    "left_variances",
    "prior_variances",
    "unbounded_variances",
]

Set = tuple[str, ...]

ITERATIONS = 200
"""Iterations of the multiplicative update; on drawn domains noise was then at most a fiftieth above its bounds, after
60 up to 28%.
"""
POWER = 2 / 3
"""Power of the gain in an update. With one residual per marginal the optimum is then reached in one step, because the
derivative of the root of a variance falls with the 3/2 power of the precision.
"""
MOST_ERROR = 1.2
"""Largest error of a target relative to plain noise. The largest error of any cell is then at most a quarter above that
of plain noise. With unknown variances, at 1 the expected total variation is up to 1.6 times the minimum, at 1.2 up to
1.15 times; without a bound the noise of a small target's cells is up to 4.7 times that of plain noise
(docs/validation.md, constants of the plan).
"""
RAISED = 0.25
"""In each iteration the weight of a target is raised by this power of the ratio of its error to the largest allowed."""
FIRST_MULTIPLIER, LEAST_MULTIPLIER = 1e-3, 1e-9
"""Multipliers of the bounds on noise, as a share of a target's mean error: before the first iteration, and the least.
They grow only while a bound is not met, so that these values do not change a plan that has converged.
"""
TINY = np.finfo(np.float64).tiny
UNKNOWN = 1e-12
"""Precision assumed for a residual that was not measured, relative to the largest precision."""
BINS = 26
"""Number of classes of a residual's prior variances, at equal steps of their logarithm."""
LAPLACE_POWER, NORMAL_POWER = 1 / 2, 2 / 3
"""Powers of a table's weight with which plain noise divides a budget (`plain_shares`)."""
TILTS = np.geomspace(1e-4, 0.999, 400)
"""Arguments at which a moment generating function is tried, at steps of a fortieth."""
FEW = 10
"""Largest set whose subsets are looked up one by one; for a larger set all known sets are tried."""


class PureShares(NamedTuple):
    """The division of a pure budget among the sets of an allocation."""

    shares: np.ndarray
    error: float
    """Expected error of the workload: the sum of the roots of squared errors, weighted by roots of cells."""
    over_plain: float
    """Largest ratio of a target's error, or of the noise of its cells, to what plain noise allows it."""


class Allocation:
    """Marginals that may be measured for some targets, and the residuals of the same sets."""

    def __init__(self, domain: Domain, sets: Sequence[Set], targets: Mapping[Set, float]) -> None:
        self.sets = list(sets)
        self._cells = np.array([domain.cells(s) for s in sets], dtype=np.float64)
        self._kept = np.array([prod(1 - 1 / size for size in domain.shape_of(s)) for s in sets])
        index = {s: i for i, s in enumerate(self.sets)}
        inside = [(i, index[a]) for i, s in enumerate(self.sets) for a in _subsets(s, index)]
        self._outer, self._inner = np.array(inside, dtype=np.intp).reshape(-1, 2).T
        self._share = self._cells[self._inner] / self._cells[self._outer]
        self._weights = np.array([targets.get(s, 0.0) for s in self.sets])

    def precisions(self, measured: np.ndarray) -> np.ndarray:
        """The precision of every residual, given the precisions of the marginals."""
        return np.bincount(self._inner, measured[self._outer] * self._share, len(self.sets))

    def fill(
        self,
        budget: float,
        measured: np.ndarray,
        residuals: np.ndarray,
        variances: Sequence[np.ndarray | None],
        widest: np.ndarray | None = None,
    ) -> np.ndarray:
        """Precisions to add to those already `measured`; they sum to `budget`.

        `residuals` are precisions of residuals that were measured directly, `variances` the prior variances of
        residuals' cells; None if they are unknown. `widest` are the largest variances that any prior allows.
        """
        spread, counts = binned(variances, self._cells)
        before = self.precisions(measured) + residuals
        added = np.full(len(self.sets), budget / len(self.sets))
        spent = float(measured.sum() + self._kept @ residuals)
        plain = self.precisions((budget + spent) * plain_shares(self._weights, NORMAL_POWER))
        bounds = self._noise_bounds(plain, unbounded_variances(variances) if widest is None else widest)
        for _ in range(ITERATIONS):
            known = before + self.precisions(added)
            errors, gains = self._gains(known, spread, counts, self._weights)
            gains = gains + self._marginal_gains(self._kept * bounds.gains(known, self._objective(errors)))
            if not gains.any():
                break  # attributes of one code have no residuals: nothing is to be learnt
            added *= (gains / gains.max()) ** POWER
            added *= budget / added.sum()
        return added

    def fill_pure(
        self,
        budget: float,
        family: Collection[Set],
        measured: np.ndarray,
        residuals: np.ndarray,
        variances: Sequence[np.ndarray | None],
        widest: np.ndarray | None = None,
        *,
        iterations: int = ITERATIONS,
    ) -> PureShares:
        """Shares of a pure budget for the sets of a family; without iterations those of plain noise.

        `budget` is the precision of one marginal that receives the whole budget. Precision grows with the square of a
        share, so a set inside another is seldom worth its price, and there are many local optima, one near each family.
        No target should have more than `MOST_ERROR` times the error of plain noise (`plain_shares`); nor should its
        cells have more noise.
        """
        spread, counts = binned(variances, self._cells)
        before = self.precisions(measured) + residuals

        def known(shares: np.ndarray) -> np.ndarray:
            return before + self.precisions(budget * shares**2)

        asked, plainly = self._weights > 0, plain_shares(self._weights, LAPLACE_POWER)
        plain = self.precisions(budget * plainly**2)
        most = np.maximum(MOST_ERROR**2 * self._gains(plain, spread, counts, self._weights)[0], TINY)
        widest = unbounded_variances(variances) if widest is None else widest
        bounds = self._noise_bounds(plain, widest, self._allowed_noise(family))
        weights, inside = self._weights, np.array([float(s in family) for s in self.sets])
        shares = inside / inside.sum() if iterations else plainly
        for _ in range(iterations):
            errors, gains = self._gains(known(shares), spread, counts, weights)
            bounded = self._marginal_gains(self._kept * bounds.gains(known(shares), self._objective(errors)))
            if not (gains := shares * (gains + bounded)).any():
                break
            raised = weights * (errors / most) ** RAISED
            weights = np.clip(raised, self._weights, self._weights / LEAST_MULTIPLIER)
            # Were each set all that tells some table, errors would fall with shares: one step finds the optimum.
            shares = shares * np.sqrt(gains / gains.max())
            shares /= shares.sum()
        errors = self._gains(known(shares), spread, counts, weights)[0]
        over = float(np.sqrt(np.max(errors / most, where=asked, initial=0.0)))
        over = max(over, float(bounds.over_most(known(shares)).max(initial=0.0)))
        return PureShares(shares, self._objective(errors), over)

    def _objective(self, errors: np.ndarray) -> float:
        return float(self._weights @ np.sqrt(self._cells * errors))

    def _noise_bounds(self, plain: np.ndarray, widest: np.ndarray, allowed: np.ndarray | None = None) -> NoiseBounds:
        """Bounds on the noise of the targets' cells, given the precisions of residuals under plain noise."""
        asked = self._weights > 0
        numbers = np.cumsum(asked) - 1
        kept = asked[self._outer]
        inside = numbers[self._outer[kept]], self._inner[kept], self._share[kept]
        cells = self._cells[asked]
        if allowed is None:
            allowed = allowed_noise(cells, cells.size, as_noisy(cells, self._weights[asked]), MOST_ERROR)
        return NoiseBounds(inside, self._kept, cells, plain, widest, allowed)

    def _allowed_noise(self, family: Collection[Set]) -> np.ndarray:
        """Variances of Laplace noise that the cells of each target may have if a family is measured, relative to plain
        noise.

        A target of the family has Laplace noise, and may have as much as plain noise. The noise of one that is summed
        from cells of a larger set has shorter tails: its largest may be as large as the largest of plain noise.
        """
        asked, measured = self._weights > 0, np.array([s in family for s in self.sets])
        told = measured[self._outer]
        smallest = np.full(len(self.sets), np.inf)
        np.minimum.at(smallest, self._inner[told], self._cells[self._outer[told]])
        cells = self._cells[asked]
        largest = largest_noise(int(cells.sum()), laplace=True)
        summed = np.where(np.isfinite(smallest), smallest, self._cells)[asked] / cells
        over = [largest / largest_sum(c * cells.size, m) if m > 1 else 1.0 for c, m in zip(cells, summed, strict=True)]
        return np.square(np.maximum(over, 1.0))

    def _gains(
        self, known: np.ndarray, spread: np.ndarray, counts: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Squared errors of all sets at these precisions of residuals, and how much a higher precision of each marginal
        would reduce them.
        """
        # Of what nobody measures nothing is known: a finite error stands for that, far beyond all others.
        precisions = np.maximum(known, UNKNOWN * known.max(initial=TINY))[:, None]
        left = left_variances(spread, precisions)
        own = (self._kept * (counts * left).sum(axis=1))[self._inner] * self._share
        errors = np.bincount(self._outer, own, len(self.sets))
        asked = weights * np.sqrt(self._cells / np.maximum(errors, TINY))
        worth = np.bincount(self._inner, asked[self._outer] * self._share, len(self.sets))
        slopes = worth * self._kept * (counts * left * left).sum(axis=1)
        return errors, self._marginal_gains(slopes)

    def _marginal_gains(self, slopes: np.ndarray) -> np.ndarray:
        """What a higher precision of each marginal is worth, given what higher precisions of residuals are worth."""
        return np.bincount(self._outer, slopes[self._inner] * self._share, len(self.sets))


class NoiseBounds:
    """Bounds on the errors of single cells of each target, and the worth of the precision that they require.

    An estimated prior says how far cells lie from their prediction on average. The largest errors are those of cells
    that it does not expect, and only noise limits them, or the sums of records that contain a cell. The largest of N
    normal errors is about the root of `2 log N` standard deviations. A target of c cells among K targets may therefore
    have more noise than plain noise leaves it, by the root of `log N / log(K c)` if that is above one: the bound on the
    largest error of all N cells, a sum over targets, is then at most doubled (`allowed_noise`). If weights divide plain
    noise unevenly, N counts the cells that are at least as noisy. A target whose cells have no noise, of attributes
    with one code each, has no bound.
    """

    def __init__(
        self,
        inside: tuple[np.ndarray, np.ndarray, np.ndarray],
        price: np.ndarray,
        cells: np.ndarray,
        plain: np.ndarray,
        widest: np.ndarray,
        allowed: np.ndarray,
    ) -> None:
        """For pairs `inside` of a target and a residual in it with the ratio of their cells, the `price` of every
        residual, the `cells` of every target, the precisions of residuals under `plain` noise, their `widest` prior
        variances, and the variances that each target's cells are `allowed`, relative to those of plain noise.
        """
        self._outer, self._inner, self._ratio = inside
        self._price, self._widest, self._targets = price, widest, cells.size
        noise = self._errors(price / np.maximum(plain, TINY))
        self._most = np.where(noise > 0, allowed * noise, np.inf)
        self._multipliers = np.full(cells.size, FIRST_MULTIPLIER)

    def gains(self, known: np.ndarray, objective: float) -> np.ndarray:
        """The worth of a higher precision of each residual, relative to its price, after the multipliers of all
        targets were raised or lowered; `objective` sets their unit.
        """
        left = self._left(known)
        raised = self._multipliers * (self._errors(self._price * left) / self._most) ** RAISED
        self._multipliers = np.clip(raised, LEAST_MULTIPLIER, 1 / LEAST_MULTIPLIER)
        worth = (objective / max(1, self._targets) * self._multipliers / self._most)[self._outer]
        return np.bincount(self._inner, worth * self._ratio**2, self._price.size) * left**2

    def over_most(self, known: np.ndarray) -> np.ndarray:
        """The largest standard error of a cell of each target, relative to its bound."""
        return np.sqrt(self._errors(self._price * self._left(known)) / self._most)

    def _left(self, known: np.ndarray) -> np.ndarray:
        return left_variances(self._widest, np.maximum(known, UNKNOWN * known.max(initial=TINY)))

    def _errors(self, residuals: np.ndarray) -> np.ndarray:
        """Squared error of a cell of each target, given those of the residuals' cells."""
        return np.bincount(self._outer, residuals[self._inner] * self._ratio**2, self._targets)


def allowed_noise(cells: np.ndarray, tables: int, total: float | np.ndarray, most_error: float) -> np.ndarray:
    """Variances of normal noise that cells of tables of so many `cells` may have, relative to plain noise, among all
    `tables` with `total` cells (`NoiseBounds`).
    """
    ratios = np.log(np.maximum(total, 2.0)) / np.log(np.maximum(cells * tables, 2.0))
    return most_error**2 * np.maximum(ratios, 1.0)


def as_noisy(cells: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """For each table, the cells of all tables that plain noise, divided by the weights, leaves at least as noisy: only
    they can have the largest error in its place.
    """
    ordered = np.argsort(weights, kind="stable")
    summed = np.cumsum(cells[ordered])
    return summed[np.searchsorted(weights[ordered], weights, side="right") - 1]


def unbounded_variances(variances: Sequence[np.ndarray | None]) -> np.ndarray:
    """The widest variances if nothing bounds them: infinite, but zero for residuals whose prior variances are zero."""
    return np.array([np.inf if variance is None or variance.any() else 0.0 for variance in variances])


def plain_shares(weights: np.ndarray, power: float) -> np.ndarray:
    """Shares of a budget that plain noise gives to the tables: equal ones, unless their weights differ.

    Under Laplace noise the error of a table falls with its share s, under normal noise with the root of it. The sum of
    `w / s` over the tables is least if shares grow with the root of their weights w, that of `w / s^(1/2)` if they grow
    with their power of two thirds.
    """
    raised = weights**power
    return raised / max(float(raised.sum()), TINY)


def largest_sum(cells: float, summed: float) -> float:
    """What the largest of so many sums of Laplace noise is expected to stay below, in standard deviations.

    A sum of m noises of scale one has the moment generating function `(1 - u^2)^-m`, so that the largest of c sums is
    expected to be at most `(log c - m log(1 - u^2)) / u` for every u below one. For large m this is the bound of normal
    noise, the root of `2 log c` standard deviations.
    """
    bounds = (np.log(max(cells, 2.0)) - summed * np.log1p(-(TILTS**2))) / TILTS
    return float(bounds.min() / np.sqrt(2 * summed))


def left_variances(prior: np.ndarray, precisions: np.ndarray) -> np.ndarray:
    """The part of each prior variance that is left at these precisions."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(prior), 1 / precisions, prior / (1 + prior * precisions))


def _subsets(names: Set, among: Collection[Set]) -> list[Set]:
    """The sets of `among` that lie inside `names`."""
    if len(names) <= FEW:
        return [a for k in range(1, len(names) + 1) for a in combinations(names, k) if a in among]
    return [a for a in among if set(a) <= set(names)]


def binned(variances: Sequence[np.ndarray | None], cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variances of each residual as a few values, with the number of cells of each."""
    values, counts = np.ones((len(variances), BINS)), np.zeros((len(variances), BINS))
    for row, variance in enumerate(variances):
        if variance is None:
            values[row, 0], counts[row, 0] = np.inf, cells[row]
            continue
        logs = np.log(np.maximum(variance.ravel(), max(variance.max() * 1e-12, TINY)))
        low, high = logs.min(), logs.max()
        places = ((logs - low) * ((BINS - 1) / max(high - low, 1e-9))).astype(np.intp)
        counts[row] = np.bincount(places, minlength=BINS)
        sums = np.bincount(places, np.exp(logs), BINS)
        np.divide(sums, counts[row], out=values[row], where=counts[row] > 0)
    return values, counts


def prior_variances(
    measurements: Sequence[Measurement], domain: Domain, sets: Sequence[Set], records: float
) -> tuple[list[np.ndarray | None], np.ndarray]:
    """Prior variances of every residual's cells, in records squared: how far it may lie from the prediction of lower
    orders; and the largest for any prior, given the lower orders.

    This is free, because it reads released numbers only. The scale of a set is estimated from its own departures, or
    from those of the other sets of its order if noise hides its own. For a pair that is smooth along an ordered
    attribute these are variances of cosines instead of cells: low frequencies may be worth measuring even if noise
    hides every cell. For single attributes no prior variance is known.
    """
    measurements = as_residuals(measurements, domain)
    base, departures = departures_of(measurements, domain, sets)
    learnt = learn_scales(sets, base, departures, VARIANCE)
    spread = _held_spread if has_residuals(measurements) else _free_spread
    found: dict[Set, np.ndarray] = {}
    widest: dict[Set, float] = {}
    for names, scale in learnt.scales.items():
        expected, departure = learnt.expected[names], learnt.departures.get(names)
        most = _most_in_cells(expected)
        widest[names] = (records * most.max()) ** 2 / kept_by_centring(expected.shape)
        part = None
        if departure is not None and len(names) == 2:
            part = smooth_part(domain, names, expected + departure.away, departure.sd, expected)
        if part is not None:
            found[names] = records**2 * part.variances(expected)
        else:
            found[names] = records**2 * spread(np.minimum(scale * expected, most))  # a departure that a cell can have
    return [found.get(s) for s in sets], np.array([widest.get(s, np.inf) for s in sets])


def _most_in_cells(expected: np.ndarray) -> np.ndarray:
    """The largest shares that cells can have: no cell exceeds the sums of its table that contain it."""
    bound = np.full(expected.shape, np.inf)
    for axis in range(expected.ndim):
        bound = np.minimum(bound, expected.sum(axis=axis, keepdims=True))
    return bound


def _held_spread(expected: np.ndarray) -> np.ndarray:
    """Variance of a residual's cells for a scale of one, as in `Departure`, before centring."""
    return held_squares(expected) / kept_by_centring(expected.shape)


def _free_spread(expected: np.ndarray) -> np.ndarray:
    """The same for scales that were estimated from marginals, whose cells vary independently."""
    return centred_squares(expected**2)


def departures_of(
    measurements: Sequence[Measurement], domain: Domain, sets: Sequence[Set], *, own: bool = False
) -> tuple[Base, Callable[[Set, np.ndarray], Departure | None]]:
    """The model without interactions, and how far the measurements of a set lie from what it predicts.

    If residuals were measured, this is the departure of the set's residual; otherwise that of its cells, from the set's
    `own` marginals only or also from larger ones.
    """
    if has_residuals(measurements):
        joined = consistent_of(measurements, domain)
        base = product_base(
            domain, [((name,), *joined.marginal((name,))) for name in domain.names if joined.knows((name,))]
        )

        def of_residual(names: Set, expected: np.ndarray) -> Departure | None:
            if names not in joined.precisions:
                return None
            values, sd = joined.residuals[names], joined.precisions[names] ** -0.5
            return Departure.from_expected(values, sd, expected, residual=True)

        return base, of_residual
    told = [m for m in measurements if not isinstance(m.query, Residual)]
    known = without_impossible(domain, [(domain.canonical(m.query.attributes), m.values, m.sd) for m in told])
    covering: dict[Set, list[tuple[Set, np.ndarray, float]]] = {s: [] for s in sets}
    for entry in known:
        for inner in [entry[0]] if own else _subsets(entry[0], covering):
            if inner in covering:
                covering[inner].append(entry)

    def of_cells(names: Set, expected: np.ndarray) -> Departure | None:
        merged = collapse(covering[names], names)
        return None if merged is None else Departure.from_expected(*merged, expected, residual=False)

    return product_base(domain, known), of_cells
