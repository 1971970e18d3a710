"""How far released noise strays: bounds that hold with a stated probability, rounded to the safe side."""

from __future__ import annotations

from math import comb, inf, lgamma, log, sqrt
from numbers import Real
from statistics import NormalDist

from reticent.errors import QueryError, require
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.queries.base import RECORDS_FAILURE

_NORMAL = NormalDist()
_MARGIN = 1 + 1e-9
"""Covers the rounding of these few floating-point steps."""


def check_confidence(confidence: float) -> float:
    """A probability strictly between 0 and 1."""
    require(confidence, Real, "confidence", "a number strictly between 0 and 1, for example 0.95")
    if not 0 < confidence < 1:
        raise QueryError(f"confidence is {confidence}; it must lie strictly between 0 and 1, for example 0.95")
    return float(confidence)


def z_score(failure: float) -> float:
    """P(N(0,1) > z) = failure, one-sided; never below zero."""
    return max(0.0, -_NORMAL.inv_cdf(min(failure, 0.5))) * _MARGIN


def reach(noise: Noise, failure: float) -> float:
    """r with P(noise > r) <= failure on one side, in records, for noise on a grid of steps of at most one record.

    A discrete Gaussian exceeds an integer m no more often than the continuous one exceeds m - 1 (Canonne, Kamath,
    Steinke 2020, Prop. 25); callers add one grid step to their rounding slack for it.
    """
    if isinstance(noise, Gaussian):
        return z_score(failure) * float(noise.sigma)
    if isinstance(noise, Laplace):
        return max(0.0, log(1 / (2 * failure))) * float(noise.scale) * _MARGIN
    raise QueryError(f"{type(noise).__name__} noise has no tail bound here")


def noise_failure(confidence: float, records_error: float) -> float:
    """How often noise may stray at this confidence; a noisy number of records takes its share first, perhaps all."""
    return max(0.0, 1 - confidence - (RECORDS_FAILURE if records_error > 0 else 0.0))


def largest_error(
    reading: float, noise: Noise, failure: float, *, slack: float, records: float, records_error: float
) -> float:
    """(M + z s) / n from the noisy reading M / n; under add-remove (M + z s + e_N N) / (N (1 - e_N)) (spec 1.1).

    Infinite where no chance of failure is left for the noise, or the number of records is hardly known.
    """
    if not failure > 0 or not records_error < 1:
        return inf
    error = max(0.0, reading + reach(noise, failure) / records) + slack
    return (error + records_error) / (1 - records_error)


def counted(total: float, sd: float, *, pure: bool) -> tuple[float, float]:
    """A released number of records, and a bound on its relative error that fails with `RECORDS_FAILURE`.

    Five standard deviations of Gaussian noise, 10.2 of Laplace noise. A bound of one or more says that the number is
    hardly known: nothing that is divided by it can be certified.
    """
    count = max(1.0, total)
    return count, (10.2 if pure else 5.0) * sd / count


def noise_within(error: float, failure: float, *, pure: bool) -> Noise:
    """The widest noise that stays within `error` records on both sides but with probability `failure`."""
    if error <= 0:
        raise QueryError(f"an error of {error:.3g} records cannot be met; ask for a larger one")
    if pure:
        return Laplace(error / (log(1 / failure) * _MARGIN))
    return Gaussian(error / z_score(failure / 2))


def sum_reach(sd: float, chosen: float, cells: int, failure: float) -> float:
    """A bound on every sum of `chosen` of `cells` independent noises at once (spec online.md 2.3).

    An adaptive analyst may pick the cells after seeing the noise: union over all choices of every size.
    """
    j = min(cells, max(1, -int(-chosen // 1)))
    choices = log(comb(cells, j)) if cells <= 1000 else lgamma(cells + 1) - lgamma(j + 1) - lgamma(cells - j + 1)
    return sd * sqrt(2 * j * (choices + log(2 * cells / failure))) * _MARGIN


def box_reach(sd: float, chosen: float, shape: tuple[int, ...], failure: float) -> float:
    """A bound on every box sum at once: union over the number of boxes."""
    boxes = 1
    for size in shape:
        boxes *= size * (size + 1) // 2
    return sd * sqrt(chosen) * sqrt(2 * log(2 * boxes / failure)) * _MARGIN
