"""Requests chosen from all that was released: the best of all strategies stays within the budget's curve
(docs/proofs/gaussian-dp.md, claim 3).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import pytest
from scipy.special import ndtr

from reticent.kernel import accounting
from reticent.kernel.accounting import NANO, Budget, Price
from reticent.kernel.mechanisms.base import Exponential, Gaussian, Laplace, Sensitivity

STEP = Fraction(1, 4)
"""All privacy losses are multiples of it: a state is a loss so far, and what is left."""
ROOT = Fraction(14142135623731, 10**13)
"""Above the root of two: losses of this noise are odd multiples of the step, but for rounding."""

Losses = dict[int, float]
"""The privacy losses of one release, in steps, with their probabilities."""


def two_point(high: int, low: int) -> Losses:
    """A release with two results, of these losses."""
    above, below = math.exp(high * STEP), math.exp(low * STEP)
    chance = (1 - below) / (above - below)
    return {high: chance * above, low: (1 - chance) * below}


def of_noise(logs: Iterable[tuple[float, float]]) -> Losses:
    """From the logarithms of the probabilities of each result on both tables, up to a constant."""
    pairs, found = list(logs), defaultdict(float)
    total = math.fsum(math.exp(here) for here, _ in pairs)
    for here, there in pairs:
        found[round((here - there) / float(STEP))] += math.exp(here) / total
    return dict(found)


def mechanisms() -> list[tuple[Price, Losses]]:
    """Randomised response, selections of every position of their range, Laplace noise and Gaussian noise."""
    places = range(-60, 61)
    found = [(Price.of_pure(n * STEP), two_point(n, -n)) for n in (1, 2, 3)]
    found += [(Exponential(e * STEP).price(), two_point(t, t - e)) for e in (2, 4, 6) for t in range(1, e)]
    found += [
        (Laplace(2).price(Sensitivity.scalar(d)), of_noise((-abs(j) / 2, -abs(j - d) / 2) for j in places))
        for d in (1, 3)
    ]
    normal = of_noise((-(j**2) / 4, -((j - 1) ** 2) / 4) for j in places)
    return [*found, (Gaussian(ROOT).price(Sensitivity.scalar(1)), {k: p for k, p in normal.items() if p > 1e-12})]


def most_told(budget: Budget, epsilon: int) -> float:
    """The largest delta at this epsilon, in steps, over all strategies that the budget does not refuse."""
    offered = [(budget.cost(price), losses) for price, losses in mechanisms()]

    @lru_cache(None)
    def reached(loss: int, left: int) -> float:
        found = max(0.0, -math.expm1(float((epsilon - loss) * STEP)))
        for cost, losses in offered:
            if cost <= left:
                found = max(found, math.fsum(p * reached(loss + k, left - cost) for k, p in losses.items()))
        return found

    return reached(0, budget.limit)


def check(rho: Fraction, epsilon: int) -> float:
    """The share of the claimed delta that a strategy reaches."""
    mu, point = math.sqrt(2 * rho), float(epsilon * STEP)
    claimed = ndtr(-point / mu + mu / 2) - math.exp(point) * ndtr(-point / mu - mu / 2)
    told = most_told(Budget(rho=rho, noise="gaussian"), epsilon)
    assert told <= claimed * (1 + 1e-9), f"{told} > {claimed}"
    return told / claimed


@pytest.mark.parametrize("rho", [Fraction(1, 20), Fraction(3, 20), Fraction(2, 5)])
def test_no_strategy_learns_more_than_the_budget_allows(rho: Fraction) -> None:
    assert max(check(rho, epsilon) for epsilon in (0, 1, 2, 4, 8)) > 0.7


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(3, 2)])
def test_too_low_prices_of_other_noise_are_noticed(factor: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "BESIDE_GAUSSIAN", factor)
    least = Fraction(math.ceil(Price.of_pure(STEP).gaussian * NANO), NANO)
    with pytest.raises(AssertionError):
        check(least, 0)
