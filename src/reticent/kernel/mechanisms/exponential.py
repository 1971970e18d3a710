"""The exponential mechanism, drawn exactly (spec 2.2, 2.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.accounting import LARGEST_BUDGET, Described, Price, Real, exact
from reticent.kernel.mechanisms.sampler_check import verify_samplers
from reticent.kernel.mechanisms.sampling import (
    CHUNK,
    SLACK,
    Bounds,
    accept,
    exp_bounds,
    exp_minus,
    uniform_below,
    uniform_integer,
)

WEIGHT_BITS = 40


@dataclass(frozen=True, init=False)
class Exponential(Described):
    """Index i with probability ~ exp(epsilon u_i / (2 s)), s the sensitivity of every score u_i.

    Guarantee of one draw: pure epsilon, zCDP epsilon^2 / 8 (bounded range), and GDP with half of mu squared at most
    pi/2 of that.
    """

    proof: ClassVar[str] = "docs/proofs/exponential.md"
    epsilon: Fraction

    def __init__(self, epsilon: Real) -> None:
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon", LARGEST_BUDGET))

    @classmethod
    def costing(cls, *, rho: Real) -> Exponential:
        """The sharpest selection whose zCDP price per draw is at most rho."""
        square = 8 * exact(rho, "rho")
        numerator, denominator = math.isqrt(square.numerator << 128), math.isqrt(square.denominator << 128)
        whole = numerator**2 == square.numerator << 128 and denominator**2 == square.denominator << 128
        return cls(Fraction(numerator, denominator + (not whole)))

    def price(self, draws: int = 1) -> Price:
        return Price.bounded(self.epsilon, self.epsilon**2 / 8) * draws

    def draw(
        self, scores: np.ndarray, sensitivity: Real, grid: int = 1, draws: int = 1, *, copies: np.ndarray | None = None
    ) -> np.ndarray:
        """Independent indices; `scores` are int64 in units of 1/grid records, `sensitivity` is in records.

        With `copies`, index i represents that many candidates, all with its score.
        """
        values = np.asarray(scores)
        if values.dtype != np.int64 or values.ndim != 1 or grid < 1:
            raise TypeError("scores must be a vector of int64 numbers on a positive integer grid")
        if values.size == 0 or draws < 1:
            raise QueryError(f"cannot draw {draws} of {values.size} candidates; both must be at least 1")
        if copies is not None and (copies.shape != values.shape or copies.min() < 1):
            raise QueryError("every candidate needs a number of copies, at least 1")
        verify_samplers()
        slope = self.epsilon / (2 * exact(sensitivity, "sensitivity") * index(grid))
        return _Candidates(values, slope, copies).draw(draws)


class _Candidates:
    """Integers W_i >= 2^bits exp(-slope (u_max - u_i)), and the acceptance that undoes their rounding."""

    def __init__(self, scores: np.ndarray, slope: Fraction, copies: np.ndarray | None = None) -> None:
        self._scores, self._best, self._slope = scores, scores.max(), slope
        self._bits = min(WEIGHT_BITS, 62 - len(scores).bit_length())
        # unsigned differences wrap to the true gap even where a signed one would overflow
        gaps = self._best.astype(np.uint64) - scores.astype(np.uint64)
        self._shares = np.empty(len(scores))
        for start in range(0, len(scores), CHUNK):
            piece = gaps[start : start + CHUNK].astype(np.float64) * float(slope)
            self._shares[start : start + CHUNK] = np.ldexp(exp_minus(piece), self._bits)
        self._weights = (self._shares + 2.0**self._bits * SLACK / 2).astype(np.int64) + 1
        # Copies only change how often a candidate is proposed; their sums may need Python's integers.
        self._cumulative = np.cumsum(self._weights if copies is None else self._weights * copies.astype(object))

    def draw(self, draws: int) -> np.ndarray:
        out = np.empty(draws, dtype=np.int64)
        filled = 0
        while filled < draws:
            ticket = self._tickets(draws - filled)
            proposed = np.searchsorted(self._cumulative, ticket, side="right")
            kept = self._keep(proposed)
            out[filled : filled + len(kept)] = kept
            filled += len(kept)
        return out

    def _tickets(self, count: int) -> np.ndarray:
        total = self._cumulative[-1]
        if self._cumulative.dtype != object:
            return uniform_below(int(total), count)
        return np.array([uniform_integer(total) for _ in range(count)], dtype=object)

    def _keep(self, proposed: np.ndarray) -> np.ndarray:
        chance = self._shares[proposed] / self._weights[proposed]
        return proposed[accept(chance, lambda i: self._bounds(int(proposed[i])))]

    def _bounds(self, candidate: int) -> Bounds:
        gap = int(self._best) - int(self._scores[candidate])
        return exp_bounds(gap * self._slope, Fraction(1 << self._bits, int(self._weights[candidate])))
