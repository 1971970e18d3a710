"""Additive noise: a release on the integer grid and its price, in one object (spec 2)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import index
from typing import ClassVar, Self

import numpy as np

from reticent.errors import QueryError, whole_number
from reticent.kernel.accounting import SMALLEST_GAUSSIAN, Described, Price, Real, exact
from reticent.kernel.mechanisms.sampler_check import refuse_old_opendp, verify_samplers
from reticent.kernel.mechanisms.sampling import LARGEST_SCALE, discrete_gaussian, discrete_laplace

refuse_old_opendp()

SMALLEST_SCALE = Fraction(1, 10**9)
INT64 = np.iinfo(np.int64)
FINE = 32
"""Grid steps in sigma of refined noise: the exact price then exceeds that of continuous noise by 1 in 2,000 at most."""
FINEST = 2**31
"""The most grid steps in one record, reached below 1.5e-8 records: the smallest scale still has an exact price, and an
int64 holds 2^32 records."""


@dataclass(frozen=True, init=False)
class Sensitivity:
    """The largest change of a vector by one person, in records: L1, and the exact square of L2 (spec 1.1)."""

    l1: Fraction
    l2_squared: Fraction

    def __init__(self, l1: Real, l2_squared: Real) -> None:
        object.__setattr__(self, "l1", exact(l1, "L1 sensitivity"))
        object.__setattr__(self, "l2_squared", exact(l2_squared, "squared L2 sensitivity"))
        if not self.l2_squared <= self.l1**2:
            raise QueryError(f"L2 sensitivity cannot exceed L1: {self.l2_squared} > {self.l1} squared")

    @classmethod
    def scalar(cls, size: Real = 1) -> Sensitivity:
        """The sensitivity of one number that one person changes by at most `size`."""
        bound = exact(size, "sensitivity")
        return cls(bound, bound**2)

    def times(self, rows: int) -> Sensitivity:
        """The sensitivity for a person with a number of rows (docs/proofs/bounded-rows.md)."""
        return Sensitivity(self.l1 * rows, self.l2_squared * rows**2)


class Noise(Described, ABC):
    """Independent symmetric noise of one scale, in records, on every entry of a vector."""

    @property
    @abstractmethod
    def _width(self) -> Fraction: ...

    @abstractmethod
    def price(self, sensitivity: Sensitivity) -> Price: ...

    @property
    @abstractmethod
    def sd(self) -> float:
        """An upper bound on the standard deviation, in records."""

    def grid_scale(self, grid: int) -> Fraction:
        """The scale in grid units, rounded up to a double, so that the price stays an upper bound."""
        scale = _double_above(self._width * index(grid))
        if scale > LARGEST_SCALE:
            raise QueryError(f"noise of {float(scale):.3g} grid units exceeds 2^62; ask for less noise")
        return scale

    def refined(self) -> Self:
        """The noise as ledgers that compose exactly draw it."""
        return self

    def refinement(self, grid: int) -> int:
        """The parts into which `release` divides a unit of this grid."""
        return 1

    def continues(self, former: object) -> bool:
        """Whether a key that was charged for the former noise may be redeemed for this one, with the former."""
        return self == former

    def release(self, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        """Exact int64 counts, in units of 1/grid records, plus noise, saturated to int64.

        The result is in units of `1 / (grid * refinement(grid))` records.
        """
        values = np.asarray(counts)
        if values.dtype != np.int64 or grid < 1:
            raise TypeError("values must be int64 numbers on a positive integer grid")
        verify_samplers()
        parts = self.refinement(grid)
        if parts > 1:  # clipping moves neighbours no further apart, so that no row can make the product overflow
            values = np.clip(values, -(INT64.max // parts), INT64.max // parts) * parts
        noisy = saturating_sum(values.ravel(), self._draw(self.grid_scale(grid * parts), values.size))
        return noisy.reshape(values.shape)

    @staticmethod
    @abstractmethod
    def _draw(scale: Fraction, count: int) -> np.ndarray: ...


@dataclass(frozen=True, init=False)
class Laplace(Noise):
    """Discrete Laplace noise, P(j) ~ exp(-|j|/scale).

    Guarantee: pure l1/scale, zCDP l2^2 / (2 scale^2), and GDP with half of mu squared at most pi/2 of that.
    """

    proof: ClassVar[str] = "docs/proofs/laplace.md"
    scale: Fraction

    def __init__(self, scale: Real) -> None:
        object.__setattr__(self, "scale", _valid_scale(scale, "Laplace scale"))

    @classmethod
    def costing(cls, *, sensitivity: Sensitivity, epsilon: Real) -> Laplace:
        """The smallest noise whose price is at most the given pure epsilon."""
        return cls(sensitivity.l1 / exact(epsilon, "epsilon"))

    @property
    def _width(self) -> Fraction:
        return self.scale

    @property
    def sd(self) -> float:
        return math.sqrt(2) * float(self.scale)

    def price(self, sensitivity: Sensitivity) -> Price:
        return Price.bounded(sensitivity.l1 / self.scale, sensitivity.l2_squared / (2 * self.scale**2))

    @staticmethod
    def _draw(scale: Fraction, count: int) -> np.ndarray:
        return discrete_laplace(scale, count)


@dataclass(frozen=True, init=False)
class Gaussian(Noise):
    """Discrete Gaussian noise, P(j) ~ exp(-j^2 / (2 sigma^2)), on a grid of at least `steps` steps in a record.

    Guarantee: zCDP l2^2 / (2 sigma^2), and GDP with mu = l2 / sigma (1 + 1 / (4 s^2)) if s = sigma steps is at least
    1.1 (docs/proofs/gaussian-dp.md); no pure guarantee.
    """

    proof: ClassVar[str] = "docs/proofs/gaussian.md"
    sigma: Fraction
    steps: int = 1

    def __init__(self, sigma: Real, steps: int = 1) -> None:
        object.__setattr__(self, "sigma", _valid_scale(sigma, "Gaussian sigma"))
        object.__setattr__(self, "steps", whole_number(steps, "steps", 1, FINEST))

    @classmethod
    def costing(cls, *, sensitivity: Sensitivity, rho: Real, exactly: bool = False) -> Gaussian:
        """The smallest noise whose price is at most rho; `exactly` for budgets that compose Gaussian noise exactly,
        where it is refined.
        """
        sigma = root_above(sensitivity.l2_squared / (2 * exact(rho, "rho")))
        if not exactly:
            return cls(sigma)
        noise = cls(sigma).refined()
        # The factor decreases with the scale, so the factor of a smaller one suffices.
        return replace(noise, sigma=_double_above(sigma * _excess(sigma * noise.steps)))

    def refined(self) -> Gaussian:
        """The same noise with at least `FINE` steps in sigma, or `FINEST` in a record."""
        steps = self.steps
        while self.sigma * steps < FINE and steps < FINEST:
            steps *= 2
        return self if steps == self.steps else replace(self, steps=steps)

    def continues(self, former: object) -> bool:
        """Also an earlier version's, which drew all noise on the table's own grid: of this scale, or of this price."""
        if not isinstance(former, Gaussian) or former.steps >= self.steps:
            return self == former
        least = max(self.sigma / _excess(self.sigma * self.steps), SMALLEST_GAUSSIAN)
        return any(abs(former.sigma / sigma - 1) < 1e-6 for sigma in (self.sigma, least * _excess(least)))

    def on_grid(self, steps: int) -> Gaussian:
        """The same noise for numbers that all lie on a grid of so many steps in a record."""
        return replace(self, steps=steps)

    def refinement(self, grid: int) -> int:
        return -(-self.steps // grid)

    @property
    def _width(self) -> Fraction:
        return self.sigma

    @property
    def sd(self) -> float:
        return float(self.sigma)

    def price(self, sensitivity: Sensitivity) -> Price:
        rho, scale = sensitivity.l2_squared / (2 * self.sigma**2), self.sigma * self.steps
        return Price(None, rho, gaussian=None if scale < SMALLEST_GAUSSIAN else rho * _excess(scale) ** 2)

    def describe(self) -> dict[str, str]:
        """As other mechanisms, without `steps` where there is one: ledgers bind requests to this text."""
        written = super().describe()
        return written if self.steps > 1 else {name: text for name, text in written.items() if name != "steps"}

    @staticmethod
    def _draw(scale: Fraction, count: int) -> np.ndarray:
        return discrete_gaussian(scale, count)


def _excess(scale: Fraction) -> Fraction:
    """How much larger mu is than that of continuous noise, at most, if sigma has so many grid steps."""
    return 1 + 1 / (4 * scale**2)


def saturating_sum(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """values + noise as if in unbounded integers, then clamped to int64."""
    if noise.dtype == object:
        return np.clip(values.astype(object) + noise, INT64.min, INT64.max).astype(np.int64)
    total = values + noise
    overflow = ((values ^ total) & (noise ^ total)) < 0
    if overflow.any():
        total[overflow] = np.where(noise[overflow] > 0, INT64.max, INT64.min)
    return total


def root_above(square: Fraction, bits: int = 64) -> Fraction:
    """The square root, exact if rational, else rounded up at about `bits` significant bits."""
    numerator, denominator = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if numerator**2 == square.numerator and denominator**2 == square.denominator:
        return Fraction(numerator, denominator)
    shift = max(0, bits - (square.numerator // square.denominator).bit_length() // 2)
    return Fraction(math.isqrt(math.ceil(square * 4**shift)) + 1, 2**shift)


def _double_above(value: Fraction) -> Fraction:
    nearest = float(value)
    return Fraction(nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf))


def _valid_scale(value: Real, name: str) -> Fraction:
    scale = exact(value, name)
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise QueryError(f"{name} is {float(scale):.3g} records; it must lie between 1e-9 and 2^62")
    return scale
