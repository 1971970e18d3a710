"""Additive noise: a release on the integer grid and its price, in one object (spec 2)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.accounting import SMALLEST_GAUSSIAN, Described, Price, Real, exact
from reticent.kernel.mechanisms.sampler_check import refuse_old_opendp, verify_samplers
from reticent.kernel.mechanisms.sampling import LARGEST_SCALE, discrete_gaussian, discrete_laplace

refuse_old_opendp()

SMALLEST_SCALE = Fraction(1, 10**9)
INT64 = np.iinfo(np.int64)


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

    def release(self, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        """Exact int64 counts, in units of 1/grid records, plus noise on the same grid, saturated to int64."""
        values = np.asarray(counts)
        if values.dtype != np.int64 or grid < 1:
            raise TypeError("values must be int64 numbers on a positive integer grid")
        verify_samplers()
        noisy = saturating_sum(values.ravel(), self._draw(self.grid_scale(grid), values.size))
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
    """Discrete Gaussian noise, P(j) ~ exp(-j^2 / (2 sigma^2)).

    Guarantee: zCDP l2^2 / (2 sigma^2), and GDP with mu = l2 / sigma (1 + 1 / (4 sigma^2)) from sigma 1.1 on
    (docs/proofs/gaussian-dp.md); no pure guarantee.
    """

    proof: ClassVar[str] = "docs/proofs/gaussian.md"
    sigma: Fraction

    def __init__(self, sigma: Real) -> None:
        object.__setattr__(self, "sigma", _valid_scale(sigma, "Gaussian sigma"))

    @classmethod
    def costing(cls, *, sensitivity: Sensitivity, rho: Real, exactly: bool = False) -> Gaussian:
        """The smallest noise whose price is at most rho; `exactly` for budgets that compose Gaussian noise exactly."""
        price = exact(rho, "rho")
        sigma = root_above(sensitivity.l2_squared / (2 * price))
        if not exactly:
            return cls(sigma)
        # The factor decreases with sigma, so the factor of a smaller sigma suffices.
        sigma = max(sigma, SMALLEST_GAUSSIAN)
        return cls(_double_above(sigma * _excess(sigma)))

    @property
    def _width(self) -> Fraction:
        return self.sigma

    @property
    def sd(self) -> float:
        return float(self.sigma)

    def price(self, sensitivity: Sensitivity) -> Price:
        rho = sensitivity.l2_squared / (2 * self.sigma**2)
        return Price(None, rho, gaussian=None if self.sigma < SMALLEST_GAUSSIAN else rho * _excess(self.sigma) ** 2)

    @staticmethod
    def _draw(scale: Fraction, count: int) -> np.ndarray:
        return discrete_gaussian(scale, count)


def _excess(sigma: Fraction) -> Fraction:
    """How much larger mu is than that of continuous noise; a finer grid than one record only lowers it."""
    return 1 + 1 / (4 * sigma**2)


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
