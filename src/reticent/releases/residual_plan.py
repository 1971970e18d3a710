"""The precision of each residual, by water-filling without the coupling that whole marginals impose.

A marginal measured with precision tau reveals all its residuals, the lower ones more precisely than a workload may
need. Measured separately, the residual of A with precision t costs `p_A t` (docs/proofs/residuals.md) and leaves `p_A v
/ (1 + v t)` of each cell's prior variance v. The squared error of a marginal is a weighted sum of these, and the plan
minimises the sum of its roots over the workload (spec planning.md 3).

For unknown variances this is ResidualPlanner (Xiao, He, Zhang, Kifer 2023), with one addition. Small tables have little
weight in total variation and would have the largest errors of single cells. Therefore no target may have much more
error, nor its cells much more noise, than plain noise would leave with the budget divided equally among the targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import frexp, ldexp, prod, sqrt

import numpy as np

from reticent.domain import Domain
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.mechanisms.base import Gaussian
from reticent.kernel.residual_counts import RESIDUAL_CELLS, TOGETHER
from reticent.queries.linear import Residual
from reticent.releases.allocation import (
    MOST_ERROR,
    NORMAL_POWER,
    RAISED,
    NoiseBounds,
    allowed_noise,
    as_noisy,
    binned,
    left_variances,
    plain_shares,
    unbounded_variances,
)
from reticent.releases.replacement import ReplacementPrices

__all__ = ["ResidualPlan", "measurable", "noises_costing"]

Set = tuple[str, ...]

ITERATIONS = 200
"""Iterations of the multiplicative update; on generated tables the objective changed by less than a ten-thousandth
after 100.
"""
LOWER_NOISE = 2.0
"""How much more noise sets inside the targets may have. With unknown variances, on Adult, binary and uneven columns, at
1 the expected total variation of the targets is up to 1.11 times that without a bound, at 2 up to 1.01 times; without a
bound the noise of a column of 5 codes beside one of 2,000 is 45 times that of the pair's cells.
"""
REPRICED = 8
"""Iterations after which prices under replace-one are learned again."""
TINY = np.finfo(np.float64).tiny
LISTED = 1000
"""The largest number of targets that are reordered so that groups of them stay together; more keep their order."""
SIGMA_BITS = 24
"""Binary digits of a noise scale, rounded up: prices are exact fractions, and short ones are faster."""


def measurable(domain: Domain, sets: Sequence[Set]) -> bool:
    """Whether the residuals of all subsets of these sets are among them and small enough to be measured."""
    known = set(sets)
    small = all(domain.cells(s) <= RESIDUAL_CELLS for s in sets)
    return small and all(inner in known for s in sets for inner in combinations(s, len(s) - 1) if inner)


class ResidualPlan:
    """Residuals that may be measured for some targets, under add-remove or, with `replacing`, under replace-one.

    With `total`, the number of records is among them.
    """

    def __init__(
        self,
        domain: Domain,
        sets: Sequence[Set],
        targets: Mapping[Set, float],
        *,
        total: bool,
        replacing: bool = False,
    ) -> None:
        self.targets = asked = [s for s in targets if targets[s] > 0]
        found = [s for s in sets if min(domain.shape_of(s)) > 1]
        self.sets: list[Set] = _in_groups(domain, [*([()] if total else []), *found], asked)
        index = {s: i for i, s in enumerate(self.sets)}
        self._cells = np.array([domain.cells(s) for s in self.sets], dtype=np.float64)
        self.price = np.array([prod(1 - 1 / size for size in domain.shape_of(s)) for s in self.sets])
        """Prices of precision one: the squared change of a residual when one record is added."""
        self._domain, self._replacing = domain, replacing
        self._outer, self._inner, self._share = self._pairs(asked, index)
        self._target_cells = np.array([domain.cells(s) for s in asked], dtype=np.float64)
        self._weights = np.array([targets[s] for s in asked])
        self._closure = list(dict.fromkeys([*asked, *(self.sets[i] for i in self._inner if self.sets[i])]))
        """The targets, and the sets inside them, which are read and certified as well."""
        self._lower = self._pairs(self._closure[len(asked) :], index)

    def _pairs(self, sets: Sequence[Set], index: Mapping[Set, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each set's place and those of the residuals inside it, with the ratio of their cells."""
        found = [
            (place, index[inner])
            for place, s in enumerate(sets)
            for order in range(len(s) + 1)
            for inner in combinations(s, order)
            if inner in index
        ]
        outer, inside = np.array(found, dtype=np.intp).reshape(-1, 2).T
        cells = np.array([self._domain.cells(s) for s in sets], dtype=np.float64)
        return outer, inside, self._cells[inside] / cells[outer]

    def _lower_bounds(self, budget: float, widest: np.ndarray, most_error: float) -> NoiseBounds | None:
        """Bounds on the noise of the sets inside the targets; None if there are none.

        The objective does not know them: beside a column of thousands of codes, a small one would be measured with the
        precision that the sum of so many noisy cells has. `LOWER_NOISE` multiplies the larger of what plain noise
        leaves them if all sets are measured equally, and of what it leaves a cell of a target if the targets are.
        """
        if not self._lower[0].size:
            return None
        outer, inner, ratio = self._lower
        cells = np.array([self._domain.cells(s) for s in self._closure], dtype=np.float64)
        _, inside, share = self._pairs(self._closure, {s: i for i, s in enumerate(self.sets)})
        plain = np.bincount(inside, budget / cells.size * share, len(self.sets))
        lower = cells[self._target_cells.size :]
        equal = np.bincount(outer, (self.price / np.maximum(plain, TINY))[inner] * ratio**2, lower.size)
        allowed = allowed_noise(lower, cells.size, float(cells.sum()), LOWER_NOISE * most_error)
        allowed *= np.maximum(self._target_cells.size / budget / np.maximum(equal, TINY), 1.0)
        return NoiseBounds(self._lower, self.price, lower, plain, widest, allowed)

    def told_by(self, marginals: Mapping[Set, float]) -> np.ndarray:
        """Precisions of residuals that follow from measured marginals."""
        index, known = {s: i for i, s in enumerate(self.sets)}, np.zeros(len(self.sets))
        for names, precision in marginals.items():
            for order in range(len(names) + 1):
                for inner in combinations(names, order):
                    if inner in index:
                        size = prod(self._cells[index[name,]] for name in set(names) - set(inner) if (name,) in index)
                        known[index[inner]] += precision / size
        return known

    def fill(
        self,
        budget: float,
        known: np.ndarray,
        variances: Sequence[np.ndarray | None],
        widest: np.ndarray | None = None,
        *,
        most_error: float = MOST_ERROR,
    ) -> np.ndarray:
        """Precisions to add to those already `known`, at the price of `budget`; `variances` of residuals are None if
        unknown, `widest` are the largest that any prior allows.
        """
        spread, counts = binned(variances, self._cells)
        added = np.full(len(self.sets), budget / len(self.sets)) / self.price
        spent = budget + float(self.price @ known)
        plain = self._plain(spent)
        most = most_error**2 * self._errors(counts, _left(spread, plain))
        inside = self._outer, self._inner, self._share
        widest = unbounded_variances(variances) if widest is None else widest
        cells = self._target_cells
        allowed = allowed_noise(cells, cells.size, as_noisy(cells, self._weights), most_error)
        bounds = NoiseBounds(inside, self.price, cells, plain, widest, allowed)
        lower = self._lower_bounds(spent, widest, most_error)
        weights, prices, over = self._weights.copy(), self.price, 1.0
        replaced = ReplacementPrices(self._domain, self.sets) if self._replacing else None
        for step in range(ITERATIONS):
            if replaced is not None and step % REPRICED == 0:
                cost, prices = replaced.learn(added)
                over = cost / float(self.price @ added)
                added *= budget / cost
            left = _left(spread, known + added)
            errors = np.maximum(self._errors(counts, left), TINY)
            weights = np.maximum(weights * (errors / np.maximum(most, TINY)) ** RAISED, self._weights)
            asked = weights * np.sqrt(self._target_cells / errors)
            worth = np.bincount(self._inner, asked[self._outer] * self._share, len(self.sets))
            gains = worth * (counts * left * left).sum(axis=1)
            objective = float(self._weights @ np.sqrt(self._target_cells * errors))
            gains = gains + bounds.gains(known + added, objective)
            gains = gains if lower is None else gains + lower.gains(known + added, objective)
            if not gains.any():
                break
            # With unknown variances the optimum for given weights and prices is reached in one step.
            added *= np.sqrt(gains / gains.max() * (self.price / prices))
            added *= budget / (over * float(self.price @ added))
        return added if replaced is None else added * (budget / replaced.cost(added))

    @property
    def exact(self) -> bool:
        """Whether the plan uses the exact price of its measurements rather than a bound; whole marginals are then no
        better.
        """
        return not self._replacing or ReplacementPrices(self._domain, self.sets).exact

    def noise_over_plain(self, budget: float, precisions: np.ndarray) -> np.ndarray:
        """For each target, the noise of its cells relative to that of plain noise at the price of `budget`."""
        unknown = np.full((len(self.sets), 1), np.inf)
        counts = self._cells[:, None]
        ours, plain = (self._errors(counts, _left(unknown, t)) for t in (precisions, self._plain(budget)))
        return np.sqrt(ours / plain)

    def _plain(self, budget: float) -> np.ndarray:
        """Precisions of residuals if every target were measured as a marginal, the budget divided by the weights."""
        shares = plain_shares(self._weights, NORMAL_POWER)
        return np.bincount(self._inner, budget * shares[self._outer] * self._share, len(self.sets))

    def objective(self, precisions: np.ndarray, variances: Sequence[np.ndarray | None]) -> float:
        """The expected error of the workload: the sum of roots of squared errors, weighted by roots of cells."""
        spread, counts = binned(variances, self._cells)
        errors = self._errors(counts, _left(spread, precisions))
        return float(self._weights @ np.sqrt(self._target_cells * errors))

    def _errors(self, counts: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Squared error of every target."""
        own = self.price * (counts * left).sum(axis=1)
        return np.bincount(self._outer, own[self._inner] * self._share, self._target_cells.size)


def _left(spread: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The part of each prior variance that is left, by classes of cells."""
    return left_variances(spread, np.maximum(known, TINY)[:, None])


def _in_groups(domain: Domain, sets: Sequence[Set], targets: Sequence[Set]) -> list[Set]:
    """The sets in an order in which sets of targets with common attributes are adjacent.

    Under replace-one, residuals are priced together in groups that are formed in the order of the request.
    """
    attributes = {name for s in sets for name in s}
    if len(attributes) <= TOGETHER or len(targets) > LISTED:
        return list(sets)
    left, listed = dict.fromkeys(targets), dict.fromkeys(s for s in sets if not s)
    among, group = set(sets), set()
    while left:
        fitting = [s for s in left if len(group.union(s)) <= TOGETHER]
        if not fitting:
            group = set()
            fitting = list(left)
        chosen = min(fitting, key=lambda s: len(set(s) - group))
        group |= set(chosen)
        del left[chosen]
        inside = [inner for order in range(len(chosen), 0, -1) for inner in combinations(chosen, order)]
        listed |= dict.fromkeys(inner for inner in inside if inner in among)
    return list(dict.fromkeys([*listed, *sets]))


def noises_costing(curator: Curator, sets: Sequence[Set], precisions: Sequence[float], units: int) -> list[Noise]:
    """Noise with precisions in these proportions whose joint price is at most, and nearly, `units`."""
    asked, factor = [Residual(s) for s in sets], 1.0

    def scaled() -> list[Noise]:
        return [curator.as_drawn(Gaussian(_sigma(factor * precision))) for precision in precisions]

    def cost(noises: Sequence[Noise]) -> int:
        return curator.budget.cost(curator.price(asked, noises))

    noises = scaled()
    for _ in range(ATTEMPTS):
        found = cost(noises)
        if units * NEARLY <= found <= units:
            return noises
        factor *= units / max(found, 1) * (1 - ROOM)
        noises = scaled()
    while cost(noises) > units:
        factor *= NEARLY
        noises = scaled()
    return noises


ATTEMPTS = 4
"""Iterations to meet a price, which is proportional to precisions except for rounded scales and the excess of discrete
noise.
"""
NEARLY, ROOM = 0.999, 1e-6


def _sigma(precision: float) -> Fraction:
    """The scale of this precision, rounded up."""
    mantissa, exponent = frexp(1 / sqrt(precision))
    whole = int(ldexp(mantissa, SIGMA_BITS)) + 1
    return Fraction(whole) * Fraction(2) ** (exponent - SIGMA_BITS)
