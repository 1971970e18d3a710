"""Bounds on released noise that hold with a stated probability, rounded in the safe direction.

The module also divides the failure probability, so that every answer holds with its confidence (answers 1). Statements
that a session makes for all questions at once (certificates of classes, typical errors, sums of measured cells) have a
twentieth of it together; a question's own purchase has the rest. All of them may therefore be intersected.
docs/budget.md adds up the shares. A session that was opened with the error of its questions and without a warm start
sells each of them separately: there statements for all questions have a five-hundredth, and prices rise by less than a
thousandth instead of a fiftieth. In ledgers of version 0.1 each kind of statement has the whole failure probability,
and no two are combined.

`Bounds` intersects certified statements about a question and moves the fitted value into the intersection (spec answers
1). Numbers are fractions of the table, single ones or one per cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, inf, lgamma, log, sqrt
from numbers import Real
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from reticent.errors import QueryError, require
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.queries.base import RECORDS_FAILURE

_NORMAL = NormalDist()
_MARGIN = 1 + 1e-9
"""Covers the rounding of these few floating-point steps."""
_TILTS = np.linspace(0.01, 0.99, 99)
"""Exponents tried in Chernoff's bound for sums of Laplace noises; every one of them gives a valid bound."""


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
    """The failure probability left for noise at this confidence, after the share of a noisy number of records."""
    return max(0.0, 1 - confidence - (RECORDS_FAILURE if records_error > 0 else 0.0))


def audit_reading(value: float, records: float) -> float:
    """What an audit read, as a share of `records`.

    Errors are at least 0, so a negative value is known to be noise. Counted as it came out, it could make a bound
    smaller than the noise of its own audit, or even below 0, which is known to be false.
    """
    return max(0.0, value) / records


def largest_error(
    reading: float, noise: Noise, failure: float, *, slack: float, records: float, records_error: float
) -> float:
    """(M + z s) / n from the noisy reading M / n; under add-remove (M + z s + e_N N) / (N (1 - e_N)) (spec 1.1).

    Infinite if no failure probability is left for the noise, or the number of records is too uncertain.
    """
    if not failure > 0 or not records_error < 1:
        return inf
    error = max(0.0, reading + reach(noise, failure) / records) + slack
    return (error + records_error) / (1 - records_error)


def counted(total: float, sd: float, *, pure: bool) -> tuple[float, float]:
    """A released number of records, and a bound on its relative error that fails with `RECORDS_FAILURE`.

    Five standard deviations of Gaussian noise, 10.2 of Laplace noise. A bound of one or more means that the number is
    too uncertain: no quotient with it can be certified.
    """
    count = max(1.0, total)
    return count, (10.2 if pure else 5.0) * sd / count


def noise_within(error: float, failure: float, *, pure: bool) -> Noise:
    """The widest noise that stays within `error` records on both sides except with probability `failure`."""
    if error <= 0:
        raise QueryError(f"an error of {error:.3g} records cannot be met; ask for a larger one")
    if pure:
        return Laplace(error / (log(1 / failure) * _MARGIN))
    return Gaussian(error / z_score(failure / 2))


def sum_reach(sd: float, chosen: float, cells: int, failure: float) -> float:
    """A bound on every sum of `chosen` of `cells` independent noises at once (spec online.md 2.3).

    An adaptive analyst may choose the cells after seeing the noise: a union bound over all choices of every size.
    """
    j = min(cells, max(1, -int(-chosen // 1)))
    choices = log(comb(cells, j)) if cells <= 1000 else lgamma(cells + 1) - lgamma(j + 1) - lgamma(cells - j + 1)
    return sd * sqrt(2 * j * (choices + log(2 * cells / failure))) * _MARGIN


def sum_of_noises(noise: Noise, cells: int, failure: float) -> float:
    """A bound on the sum of independent noises of some cells, in records, except with probability `failure`.

    One noise has its own quantile and a step of its grid, which is at most a record. For several, moment generating
    functions are those of continuous noise at most, which bounds Gaussian noise of their joint variance, and Laplace
    noise by Chernoff's inequality.
    """
    if cells == 1:
        return reach(noise, failure / 2) + 1
    if isinstance(noise, Gaussian):
        return noise.sd * sqrt(2 * cells * log(2 / failure)) * _MARGIN
    return laplace_sum(noise.sd / sqrt(2), cells, log(2 / failure))


def laplace_sum(scale: float, cells: int, exponent: float) -> float:
    """t with P(sum of the noises of `cells` cells > t) <= exp(-exponent), by Chernoff.

    The moment generating function of Laplace noise of scale B at x/B is 1/(1 - x^2), that of discrete noise is
    smaller.
    """
    return float(scale * np.min((exponent - cells * np.log1p(-(_TILTS**2))) / _TILTS))


def box_reach(sd: float, chosen: float, shape: tuple[int, ...], failure: float) -> float:
    """A bound on every box sum at once: a union bound over the number of boxes."""
    boxes = 1
    for size in shape:
        boxes *= size * (size + 1) // 2
    return sd * sqrt(chosen) * sqrt(2 * log(2 * boxes / failure)) * _MARGIN


SESSION_WIDE = Fraction(1, 20)
"""Of an answer's failure probability: for all statements about whole classes of questions, jointly."""
PLAIN_WIDE = {1: Fraction(1, 500), 2: Fraction(1, 10_000)}
"""The same for a `plain` session, opened with the error of its questions and without a warm start. Ledgers store which
rule it began under; `PLAIN_RULE` is that of new sessions.
"""
PLAIN_RULE = 2

Kind = Literal["certificates", "typical", "derived"]
KINDS: dict[Kind, Fraction] = {"certificates": Fraction(1, 3), "typical": Fraction(1, 3), "derived": Fraction(1, 3)}
"""Of the session-wide part."""


@dataclass(frozen=True)
class Shares:
    """The division of the failure probability: `joint` statements hold together, otherwise each by itself, as in
    version 0.1.
    """

    joint: bool
    plain: int = 0
    """The rule of a plain session; 0 for all others."""
    possible: bool = True
    """Whether readings are moved to the nearest share of a table; version 0.1 stated them as they came out."""
    in_records: bool = False
    """Whether counts are bounded in records, without the error of a private number of records; sessions of earlier
    versions counted it in their prices."""

    @property
    def wide(self) -> Fraction:
        """The joint share of all statements about whole classes of questions."""
        return PLAIN_WIDE[self.plain] if self.plain else SESSION_WIDE

    def certificate(self, index: int) -> float:
        """The share of the audit with this index, counted from 1."""
        return float(session_share("certificates", index, self.wide)) if self.joint else 2.0**-index

    def derived(self, index: int) -> float:
        """The share of all sums of cells of the measured marginal with this index, counted from 1."""
        return float(session_share("derived", index, self.wide)) if self.joint else 1 / (index * (index + 1))

    @cached_property
    def own(self) -> float:
        """The share of a question's own purchase."""
        return float(1 - self.wide) if self.joint else 1.0


FIRST_AUDIT = Fraction(3, 4)
"""Of what the audits of one loss's models may fail, the first one's part (docs/budget.md)."""


def audit_share(attempt: int) -> float:
    """The share of a loss' failure probability for the audit of its models with this number, counted from 1.

    An audit that a question requests for itself is its own purchase. If it fails, each further audit has half of the
    rest, so that all purchases for one loss hold jointly.
    """
    part = FIRST_AUDIT if attempt == 1 else (1 - FIRST_AUDIT) / 2 ** (attempt - 1)
    return float((1 - SESSION_WIDE) * part)


JOINT = Shares(joint=True)
SINGLE = Shares(joint=False)


def session_share(kind: Kind, index: int, wide: Fraction = SESSION_WIDE) -> Fraction:
    """The share of the statement with this index (from 1) of its kind: 1/(j (j + 1)) of the kind's part.

    These shares sum to the kind's part over all j, so that any number of statements hold jointly.
    """
    return wide * KINDS[kind] / (index * (index + 1))


Number = float | np.ndarray
WIDER = 3.0
"""Statements so much wider than the narrowest hardly ever cut it: they are not read."""
MOST_READ = 5
"""Statements that are read for one answer, the narrowest first."""


class Bounds(NamedTuple):
    """The interval of the true value, with the answer's confidence, and the fitted value."""

    low: Number
    high: Number
    fitted: Number

    @property
    def empty(self) -> bool:
        """Whether statements contradict each other, so that one of them failed."""
        if isinstance(self.low, float) and isinstance(self.high, float):
            return self.low > self.high
        return bool(np.any(np.asarray(self.low) > np.asarray(self.high)))

    @property
    def width(self) -> float:
        if isinstance(self.low, float) and isinstance(self.high, float):
            return max(self.high - self.low, 0.0)
        return float(np.max(np.asarray(self.high) - np.asarray(self.low), initial=0.0))

    def value(self, wanted: float | None = None) -> Number:
        """The point of the interval nearest to the fitted value; with a requested error, the nearest that has it."""
        low, high, fitted = self.low, self.high, self.fitted
        if isinstance(low, float) and isinstance(high, float) and isinstance(fitted, float):
            if wanted is not None:
                low, high = max(low, high - wanted), min(high, low + wanted)
            return min(max(fitted, low), high)
        if wanted is not None:
            low, high = np.maximum(low, high - wanted), np.minimum(high, low + wanted)
        return _plain(np.clip(self.fitted, low, high))

    def error(self, value: Number) -> float:
        """The largest distance of the true value from a value, in the worst cell."""
        if isinstance(value, float) and isinstance(self.low, float) and isinstance(self.high, float):
            return max(value - self.low, self.high - value, 0.0)
        return float(np.max(np.maximum(value - self.low, self.high - value), initial=0.0))


def joined(
    statements: Iterable[tuple[Number, float]], fitted: Number, logical: tuple[float, float] = (0.0, 1.0)
) -> Bounds:
    """The intersection of `value ± error` for all statements with [0, 1]."""
    low: Number = logical[0]
    high: Number = logical[1]
    for value, error in statements:
        if type(value) is float and type(low) is float and type(high) is float:
            least, most = value - error, value + error
            low, high = float(least) if least > low else low, float(most) if most < high else high
            continue
        low, high = np.maximum(low, value - error), np.minimum(high, value + error)
    if type(low) is float and type(high) is float:
        return Bounds(low, high, fitted)
    return Bounds(_plain(low), _plain(high), fitted)


def hull(
    statements: Iterable[tuple[Number, float]], fitted: Number, logical: tuple[float, float] = (0.0, 1.0)
) -> Bounds:
    """The convex hull of all statements within the possible values, stated if they contradict each other."""
    lows, highs = zip(*((value - error, value + error) for value, error in statements), strict=True)
    low = np.clip(np.minimum.reduce(lows), *logical)
    return Bounds(_plain(low), _plain(np.clip(np.maximum.reduce(highs), *logical)), fitted)


def placed(
    value: np.ndarray | float, low: np.ndarray | float, high: np.ndarray | float, least: float, most: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates and intervals, restricted to possible values.

    If a whole interval lies outside the possible values, the estimate is moved to the nearest possible value and keeps
    its error: the true value is possible, so the moved value is at least as close to it.
    """
    error = np.maximum(value - low, high - value)
    below, above = np.less(high, least), np.greater(low, most)
    low = np.clip(np.where(above, most - error, low), least, most)
    high = np.clip(np.where(below, least + error, high), least, most)
    return np.clip(value, low, high), low, high


def _plain(number: Number) -> Number:
    return number if isinstance(number, np.ndarray) and number.ndim else float(number)
