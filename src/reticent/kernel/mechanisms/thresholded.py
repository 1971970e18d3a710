"""Counts of undeclared values with noise; only values above a threshold are released (docs/proofs/values.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from reticent.errors import QueryError, whole_number
from reticent.kernel.accounting import Described, Price, Real, exact
from reticent.kernel.mechanisms.noise import Gaussian, Sensitivity
from reticent.kernel.mechanisms.sampling import exp_between

LARGEST_THRESHOLD = 2**40
_TERMS = 4096
"""Of a Gaussian tail that are added one by one; the rest is bounded by a geometric series."""
_BITS = 256
_KEPT_BITS = 64
"""Leading bits of a delta: rounded up to so many, sums of deltas stay short."""
_ROOT_TWO_PI = Fraction(250662827463, 10**11)
"""Below the root of two pi."""


@dataclass(frozen=True, init=False)
class Thresholded(Described):
    """Discrete Gaussian noise on every count of units that share a value; values whose noisy count is at least the
    threshold are shown with it. `most` is the number of values that one unit may have.

    Guarantee: delta-approximate zCDP with rho = k / (2 sigma^2) and delta = 1 - (1 - p)^k, k = `most` and p the chance
    that a value of a single unit is shown (add-remove); both twice that for replace-one.
    """

    proof: ClassVar[str] = "docs/proofs/values.md"
    sigma: Fraction
    threshold: int
    most: int

    def __init__(self, sigma: Real, threshold: int, most: int = 1) -> None:
        object.__setattr__(self, "sigma", Gaussian(sigma).sigma)
        object.__setattr__(self, "threshold", whole_number(threshold, "threshold", 2, LARGEST_THRESHOLD))
        object.__setattr__(self, "most", whole_number(most, "most", 1, 2**20))

    @classmethod
    def costing(cls, *, rho: Real, delta: Real, neighbours: str, most: int = 1) -> Thresholded:
        """The smallest noise and the lowest threshold whose price is at most rho and delta."""
        noise = Gaussian.costing(sensitivity=sensitivity_of_values(most, neighbours), rho=rho)
        wanted = exact(delta, "delta")
        low, high = 1, 2
        while high <= LARGEST_THRESHOLD and cls(noise.sigma, high, most).price(neighbours).delta > wanted:
            low, high = high, 2 * high
        if high > LARGEST_THRESHOLD:
            raise QueryError(f"noise of {float(noise.sigma):.3g} records hides every value; give more budget")
        while high - low > 1:
            middle = (low + high) // 2
            passing = cls(noise.sigma, middle, most).price(neighbours).delta > wanted
            low, high = (middle, high) if passing else (low, middle)
        return cls(noise.sigma, high, most)

    @property
    def noise(self) -> Gaussian:
        return Gaussian(self.sigma)

    def price(self, neighbours: str) -> Price:
        own = self.noise.price(sensitivity_of_values(self.most, neighbours))
        passes = tail_above(self.noise.grid_scale(1), self.threshold - 1)
        shown = 1 - (1 - passes) ** self.most
        return Price(None, own.rho, _rounded_up(shown * (2 if neighbours == "replace-one" else 1)))

    def release(self, texts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Released texts, in their own order, and their noisy counts."""
        order = np.argsort(texts, kind="stable")
        noisy = self.noise.release(counts[order])
        shown = noisy >= self.threshold
        return texts[order][shown], noisy[shown]


def sensitivity_of_values(most: int, neighbours: str) -> Sensitivity:
    """A unit adds one to at most `most` counts; a replaced unit also subtracts one from as many."""
    moved = most * (2 if neighbours == "replace-one" else 1)
    return Sensitivity(moved, moved)


def tail_above(sigma: Fraction, least: int) -> Fraction:
    """An upper bound on P(Z >= least) of the discrete Gaussian, least >= 1, to many digits.

    sum_{j >= t} exp(-j^2 / 2 s^2) over sum_j exp(-j^2 / 2 s^2); the latter is at least max(1, s sqrt(2 pi)) (Poisson).
    """
    square = 2 * sigma**2
    bits = _BITS + math.ceil(2 * least * least / square)  # a term has as many zeros before its first digit
    # Term j + 1 is term j times ratio j, which decreases by a constant factor: integers over 2^bits, all rounded up.
    term, ratio, factor = (exp_between(e / square, bits)[1] for e in (least * least, 2 * least + 1, 2))
    total = 0
    for _ in range(min(_TERMS, 12 * math.ceil(sigma))):
        total += term
        term, ratio = (term * ratio >> bits) + 1, (ratio * factor >> bits) + 1
    one = 1 << bits
    if ratio >= one:
        return Fraction(1)
    rest = Fraction(term * one, one - ratio)  # a geometric series bounds the remainder
    return min(Fraction(1), (total + rest) / one / max(Fraction(1), sigma * _ROOT_TWO_PI))


def _rounded_up(value: Fraction) -> Fraction:
    shift = max(0, _KEPT_BITS + value.denominator.bit_length() - value.numerator.bit_length())
    return Fraction(math.ceil(value * 2**shift), 2**shift)
