"""Exact integer noise from operating-system entropy; floats are used only where their rounding is provably harmless.

Every comparison `U < t` with a real threshold draws 32 bits of the uniform U and decides by proven float bounds; in the
rare undecided case it continues with more bits and integer arithmetic (docs/proofs/sampler.md).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

LARGEST_SCALE = 2**62
INT64_SCALE = 2**40
"""Up to here no draw can leave int64; above, draws are Python integers in an object array."""

WORD_BITS = 32
SLACK = 2.0**-40
"""Proven bound on the absolute error of every float threshold below (docs/proofs/sampler.md, Claim 2)."""

CHUNK = 1 << 14
GEOMETRIC_BITS = 31
POWER_GUARD = 64
"""Bits behind those of a geometric draw with which powers of an exponential are bounded."""
LONGEST_GEOMETRIC = 2**20
STEP = 64
RANGE = 64

Bounds = Callable[[int], tuple[int, int]]
"""bits -> integers (low, high) with low <= 2^bits t <= high for one real threshold t."""


def words(count: int) -> np.ndarray:
    """Fresh 32-bit words from the operating system."""
    return np.frombuffer(os.urandom(4 * count), dtype=np.uint32)


def uniform_below(bound: int, count: int) -> np.ndarray:
    """Exactly uniform integers in [0, bound), bound < 2^63; words past the last full multiple are redrawn."""
    if bound == 1:
        return np.zeros(count, dtype=np.int64)
    kind, size = (np.uint32, 32) if bound <= 1 << 24 else (np.uint64, 64)
    excess = (1 << size) % bound
    out = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        drawn = np.frombuffer(os.urandom((count - filled) * size // 8), dtype=kind)
        if excess:
            drawn = drawn[drawn < kind((1 << size) - excess)]
        quotient = drawn // kind(bound)
        out[filled : filled + len(drawn)] = drawn - quotient * kind(bound)
        filled += len(drawn)
    return out


def uniform_integer(bound: int) -> int:
    """An exactly uniform integer in [0, bound), of any size."""
    size = (bound.bit_length() + 7) // 8 + 1
    whole = 256**size // bound * bound
    while (drawn := int.from_bytes(os.urandom(size), "little")) >= whole:
        pass
    return drawn % bound


class LazyUniform:
    """A uniform real in [0, 1] of which only the first bits are drawn; comparisons draw more if they need them."""

    def __init__(self, revealed: int, bits: int) -> None:
        self._revealed, self._bits = revealed, bits

    def below(self, bounds: Bounds) -> bool:
        while True:
            low, high = bounds(self._bits)
            if self._revealed + 1 <= low:
                return True
            if self._revealed >= high:
                return False
            self._revealed = (self._revealed << 64) | int.from_bytes(os.urandom(8), "little")
            self._bits += 64


def exp_bounds(exponent: Fraction, factor: Fraction = Fraction(1)) -> Bounds:
    """Integer bounds of factor * exp(-exponent), exponent >= 0, at any precision."""

    def bounds(bits: int) -> tuple[int, int]:
        low, high = exp_between(exponent, bits + 32)
        return (
            math.floor(low * factor) >> 32,
            -((-math.ceil(high * factor)) >> 32),
        )

    return bounds


def exp_between(exponent: Fraction, bits: int) -> tuple[int, int]:
    """(low, high) around 2^bits exp(-exponent): Taylor series at exponent / 2^k, squared k times."""
    halvings = math.floor(exponent).bit_length() + 1
    work = bits + halvings + 16
    x = (exponent.numerator << work) // (exponent.denominator << halvings)
    total = term = 1 << work
    count = 0
    while term:
        count += 1
        term = (term * x) // (count << work)
        total += term if count % 2 == 0 else -term
    # each term is short by less than 2, the tail and the floor of x add less than 4
    slack = 2 * count + 4
    low, high = max(0, total - slack), total + slack
    for _ in range(halvings):
        low, high = low * low >> work, (high * high >> work) + 1
    return low >> (work - bits), (high >> (work - bits)) + 1


@lru_cache(maxsize=1)
def _exp_table() -> np.ndarray:
    """exp(-i/64) for i < 4096, each the double nearest to a 320-bit value."""
    bits = 320
    ratio, _ = exp_between(Fraction(1, STEP), bits)
    value, table = 1 << bits, []
    for _ in range(STEP * RANGE):
        table.append(value / (1 << bits))
        value = value * ratio >> bits
    return np.array(table)


def exp_minus(exponent: np.ndarray) -> np.ndarray:
    """exp(-exponent) to a relative 2^-43, exponents >= 0 known within 2^-43.5; IEEE +, -, * only, no libm."""
    # exp(-i/64) * (1 - r + r^2/2 - r^3/6 + r^4/24 - r^5/120), r = exponent - i/64 < 1/64
    capped = np.minimum(exponent, RANGE - 2.0**-20)
    index = (capped * STEP).astype(np.int64)
    r = capped - index * (1.0 / STEP)
    series = r * (-1.0 / 120)
    for coefficient in (1.0 / 24, -1.0 / 6, 0.5, -1.0):
        series += coefficient
        series *= r
    series += 1.0
    series *= _exp_table()[index]
    return series


def accept(threshold: np.ndarray, bounds_of: Callable[[int], Bounds]) -> np.ndarray:
    """Independent events of probability exactly t_i, from floats within SLACK of t_i and exact bounds."""
    drawn = words(len(threshold))
    uniform = drawn * 2.0**-WORD_BITS
    verdict = uniform + 2.0**-WORD_BITS <= threshold - SLACK
    undecided = np.flatnonzero((uniform < threshold + SLACK) & ~verdict)
    for index in undecided:
        verdict[index] = LazyUniform(int(drawn[index]), WORD_BITS).below(bounds_of(int(index)))
    return verdict


def geometric(scale: Fraction, count: int) -> np.ndarray:
    """One-sided noise, P(j) ~ exp(-j/scale), j >= 0."""
    return _collect(count, scale, lambda size: _magnitudes(scale, size)[0])


def discrete_laplace(scale: Fraction, count: int) -> np.ndarray:
    """P(j) ~ exp(-|j|/scale): a signed geometric, minus zero redrawn (Canonne et al. 2020, Alg. 2)."""

    def draw(size: int) -> np.ndarray:
        magnitude, sign = _magnitudes(scale, size)
        magnitude[sign] *= -1
        return magnitude[~(sign & (magnitude == 0))]

    return _collect(count, scale, draw)


def discrete_gaussian(sigma: Fraction, count: int) -> np.ndarray:
    """P(j) ~ exp(-j^2 / (2 sigma^2)), by rejection from discrete Laplace (Canonne et al. 2020, Alg. 3)."""
    width = Fraction(math.floor(sigma) + 1)
    centre = sigma**2 / width
    near_centre, inverse_sigma = float(centre), float(1 / sigma)

    def draw(size: int) -> np.ndarray:
        proposed = discrete_laplace(width, size)
        magnitude = np.abs(proposed)
        distance = (magnitude.astype(np.float64) - near_centre) * inverse_sigma
        exponent = 0.5 * distance * distance
        kept = accept(
            exp_minus(exponent),
            lambda i: exp_bounds((int(magnitude[i]) - centre) ** 2 / (2 * sigma**2)),
        )
        return proposed[kept]

    return _collect(count, sigma, draw)


def _collect(count: int, scale: Fraction, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """The first `count` of independent accepted draws, made in pieces that stay in cache."""
    out = np.empty(count, dtype=_integer_kind(scale))
    filled = 0
    while filled < count:
        missing = count - filled
        values = draw(min(CHUNK, missing + missing // 4 + 4))[:missing]
        out[filled : filled + len(values)] = values
        filled += len(values)
    return out


def _magnitudes(scale: Fraction, size: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `size` draws with P(j) ~ exp(-j/scale), each with an independent fair bit.

    j = low + block * high: low is uniform in the block, kept with probability exp(-low/scale).
    """
    block = _block(scale)
    low = uniform_below(block, size)
    if block > 1:
        kept = accept(exp_minus(low * float(1 / scale)), lambda i: exp_bounds(int(low[i]) / scale))
        low = low[kept]
    drawn = words(len(low))
    high = _powers(block / scale, drawn >> 1).astype(_integer_kind(scale))
    return low + block * high, (drawn & 1).astype(bool)


def _integer_kind(scale: Fraction) -> type:
    return np.int64 if scale <= INT64_SCALE else object


def _block(scale: Fraction) -> int:
    """An eighth of the scale: 94% of the proposals are accepted, and the table of `_powers` stays short."""
    return math.ceil(scale / 8)


def _powers(exponent: Fraction, drawn: np.ndarray) -> np.ndarray:
    """The number of k >= 1 with U < exp(-k exponent), for uniforms U whose first 31 bits are given."""
    floors = _power_floors(exponent)
    position = np.searchsorted(floors, drawn, side="left")
    # floors ascend; U < exp(-k exponent) is certain where drawn < floor, and open only where they are equal
    undecided = np.flatnonzero(floors[np.minimum(position, len(floors) - 1)] == drawn)
    powers = len(floors) - position
    for index in undecided:
        uniform = LazyUniform(int(drawn[index]), GEOMETRIC_BITS)
        count = 0
        while uniform.below(exp_bounds((count + 1) * exponent)):
            count += 1
            if count == LONGEST_GEOMETRIC:
                raise ArithmeticError("the entropy source returned millions of zero bits in a row; it is broken")
        powers[index] = count
    return powers


@lru_cache(maxsize=256)
def _power_floors(exponent: Fraction) -> np.ndarray:
    """floor(2^31 exp(-k exponent)) for k = 1, 2, ... down to the first zero, ascending.

    Read from powers of bounds of exp(-exponent), rounded outward; where these leave it open, computed by itself.
    """
    bits = GEOMETRIC_BITS + POWER_GUARD
    least, most = low, high = exp_between(exponent, bits)
    floors: list[int] = []
    while not floors or floors[-1]:
        floor = low >> POWER_GUARD
        if floor != high >> POWER_GUARD:
            floor = _floor_exp((len(floors) + 1) * exponent, GEOMETRIC_BITS)
        floors.append(floor)
        low, high = low * least >> bits, (high * most >> bits) + 1
    return np.array(floors[::-1], dtype=np.uint32)


def _floor_exp(exponent: Fraction, bits: int) -> int:
    """floor(2^bits exp(-exponent)); ends because the value is irrational for every rational exponent > 0."""
    guard = 32
    while True:
        low, high = exp_between(exponent, bits + guard)
        if low >> guard == high >> guard:
            return low >> guard
        guard *= 2
