"""The samplers' exactness: proven bounds hold, and open comparisons go on with the same uniform."""

from __future__ import annotations

import itertools
import os
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reticent.kernel.mechanisms import sampling as randomness
from reticent.kernel.mechanisms.sampling import (
    GEOMETRIC_BITS,
    INT64_SCALE,
    SLACK,
    LazyUniform,
    accept,
    discrete_gaussian,
    discrete_laplace,
    exp_bounds,
    exp_minus,
    geometric,
    uniform_below,
)

PROVEN = 2.0**-43
P_VALUE = 1e-9


def decimal_exp(exponent: Fraction, digits: int = 90) -> Fraction:
    with localcontext() as context:
        context.prec = digits
        return Fraction((Decimal(-exponent.numerator) / Decimal(exponent.denominator)).exp())


def feed(monkeypatch: pytest.MonkeyPatch, *pieces: bytes) -> None:
    """Entropy for one test only: the given bytes, then an error."""
    queue = list(pieces)

    def urandom(size: int) -> bytes:
        piece = queue.pop(0)
        assert len(piece) == size
        return piece

    monkeypatch.setattr(os, "urandom", urandom)


@given(st.fractions(min_value=0, max_value=200, max_denominator=10**12), st.integers(1, 160))
def test_integer_bounds_enclose_the_exponential(exponent: Fraction, bits: int) -> None:
    low, high = exp_bounds(exponent)(bits)
    truth = decimal_exp(exponent, 160) * 2**bits
    assert low <= truth + Fraction(1, 10**60)
    assert high >= truth - Fraction(1, 10**60)
    assert high - low <= 4


@given(st.fractions(min_value=0, max_value=50, max_denominator=10**6), st.fractions(0, 1, max_denominator=10**6))
def test_factors_keep_the_bounds(exponent: Fraction, factor: Fraction) -> None:
    low, high = exp_bounds(exponent, factor)(64)
    truth = decimal_exp(exponent) * factor * 2**64
    assert low - Fraction(1, 10**30) <= truth <= high + Fraction(1, 10**30)


def test_float_exponential_keeps_its_proven_error() -> None:
    edges = np.arange(0, 64, 1 / 64)
    points = np.concatenate([edges, np.nextafter(edges[1:], 0), np.random.default_rng(0).uniform(0, 63.9, 3000)])
    for point, value in zip(points, exp_minus(points), strict=True):
        truth = decimal_exp(Fraction(point), 40)
        assert abs(Fraction(value) - truth) <= PROVEN * truth
    assert (exp_minus(np.array([64.0, 1e9, np.inf])) < 2.0**-91).all()


@pytest.mark.parametrize("exponent", [Fraction(3, 10), Fraction(7), Fraction(1, 10**9)])
def test_open_comparison_goes_on_with_the_same_uniform(exponent: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word at floor(2^32 t) is open; the next 64 bits decide, all zeros for below and all ones for above."""
    word = exp_bounds(exponent)(64)[0] >> 32
    tau = exp_minus(np.array([float(exponent)]))

    def verdict(first: int, *more: bytes) -> bool:
        feed(monkeypatch, first.to_bytes(4, "little"), *more)
        return bool(accept(tau, lambda _: exp_bounds(exponent))[0])

    assert verdict(word, bytes(8))
    assert not verdict(word, b"\xff" * 8)
    width = 1 + int(SLACK * 2**32)
    assert verdict(max(word - 1 - width, 0), *([bytes(8)] if word <= width else []))
    if word + 1 + width < 2**32:
        assert not verdict(word + 1 + width)


def test_lazy_uniform_compares_like_its_full_expansion() -> None:
    """Every 8-bit start, exact thresholds: the verdict equals the comparison of the revealed number."""
    threshold = Fraction(1, 3)
    for start in range(256):
        uniform = LazyUniform(start, 8)
        below = uniform.below(lambda bits: (int(threshold * 2**bits), int(threshold * 2**bits) + 1))
        revealed = Fraction(uniform._revealed, 2**uniform._bits)
        assert below == (revealed < threshold)


@pytest.mark.parametrize("exponent", [Fraction(1, 8), Fraction(1, 3), Fraction(2), Fraction(50)])
def test_power_counts_match_exact_comparisons(exponent: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words on, just below and just above every table entry; where open, the continuation is all zeros."""
    monkeypatch.setattr(os, "urandom", bytes)
    floors = randomness._power_floors(exponent)
    near = {int(f) + d for f in floors for d in (-1, 0, 1)} | {2**GEOMETRIC_BITS - 1}
    drawn = np.array(sorted(w for w in near if 1 <= w < 2**GEOMETRIC_BITS), dtype=np.uint32)
    thresholds = [decimal_exp(k * exponent) for k in range(1, len(floors) + 2)]
    for word, count in zip(drawn, randomness._powers(exponent, drawn), strict=True):
        uniform = Fraction(int(word), 2**GEOMETRIC_BITS)
        assert count == sum([uniform < threshold for threshold in thresholds])


@pytest.mark.parametrize("guard", [0, 3, 64])
def test_power_floors_are_exact_also_where_their_bounds_leave_them_open(
    guard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against each floor by itself; a guard of few bits leaves most of them open."""
    monkeypatch.setattr(randomness, "POWER_GUARD", guard)
    generator = random.Random(7)
    exponents = [Fraction(generator.randrange(1, 10**k), 10**k) + Fraction(1, 8) for k in (1, 3, 30) for _ in range(4)]
    for exponent in [Fraction(1, 8), Fraction(40), Fraction(10**9), *exponents]:
        floors = randomness._power_floors.__wrapped__(exponent)[::-1]
        expected = [randomness._floor_exp((k + 1) * exponent, GEOMETRIC_BITS) for k in range(len(floors))]
        assert floors.tolist() == expected
        assert floors[-1] == 0


def test_broken_entropy_is_reported_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    monkeypatch.setattr(randomness, "LONGEST_GEOMETRIC", 200)
    with pytest.raises(ArithmeticError, match="entropy"):
        geometric(Fraction(5), 3)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000, 2**24 + 1, 2**40 - 87, 2**62 - 1])
def test_uniform_integers(bound: int) -> None:
    drawn = uniform_below(bound, 20_000)
    assert drawn.min() >= 0
    assert drawn.max() < bound
    cells = min(bound, 10)
    counts = np.bincount((drawn.astype(object) * cells // bound).astype(np.int64), minlength=cells)
    edges = [-(-i * bound // cells) for i in range(cells + 1)]
    expected = np.array([(b - a) / bound for a, b in itertools.pairwise(edges)]) * len(drawn)
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), max(cells - 1, 1)) > P_VALUE


def test_uniform_redraws_words_past_the_last_multiple(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, (2**32 - 1).to_bytes(4, "little"), (7).to_bytes(4, "little"))
    assert uniform_below(5, 1).tolist() == [2]


@pytest.mark.parametrize("scale", [Fraction(3, 10), Fraction(9, 2), Fraction(1000, 7)])
def test_geometric_frequencies(scale: Fraction) -> None:
    drawn = geometric(scale, 60_000)
    ratio = float(np.exp(-1 / float(scale)))
    cells = int(6 * scale) + 3
    probabilities = (1 - ratio) * ratio ** np.arange(cells)
    observed = np.bincount(np.minimum(drawn, cells), minlength=cells + 1)
    expected = np.append(probabilities, ratio**cells) * len(drawn)
    large = expected > 30
    chi = ((observed[large] - expected[large]) ** 2 / expected[large]).sum()
    assert stats.chi2.sf(chi, large.sum()) > P_VALUE


def test_exact_path_agrees_with_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a slack of 1/16 an eighth of all comparisons is settled by integers; the law must not move."""
    monkeypatch.setattr(randomness, "SLACK", 1 / 16)
    drawn = discrete_gaussian(Fraction(30), 8000)
    cells = np.arange(-100, 101)
    weights = np.exp(-(cells**2) / 1800)
    centred = np.abs(drawn) <= 100
    assert (
        stats.kstest(drawn + np.random.default_rng(0).uniform(-0.5, 0.5, 8000), stats.norm(0, 30).cdf).pvalue > P_VALUE
    )
    observed = np.bincount(drawn[centred] + 100, minlength=201).reshape(3, 67).sum(axis=1)
    expected = (weights / weights.sum()).reshape(3, 67).sum(axis=1) * centred.sum()
    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), 2) > P_VALUE


@pytest.mark.parametrize("scale", [Fraction(2**30 + 1, 3), Fraction(INT64_SCALE), Fraction(2**45), Fraction(2**61)])
def test_large_scales_keep_their_shape(scale: Fraction) -> None:
    """Beyond 2^40 draws are Python integers, so that no tail is cut; at these scales the continuous law fits."""
    unit = float(scale)
    laplace = discrete_laplace(scale, 4000)
    gaussian = discrete_gaussian(scale, 4000)
    assert (laplace.dtype == object) == (scale > INT64_SCALE)
    assert stats.kstest(laplace.astype(float) / unit, stats.laplace.cdf).pvalue > P_VALUE
    assert stats.kstest(gaussian.astype(float) / unit, stats.norm.cdf).pvalue > P_VALUE


def test_counts_are_exact_and_low_bits_even() -> None:
    for count in (1, 2, 16_385, 40_000):
        assert len(discrete_gaussian(Fraction(1000), count)) == count
    bits = discrete_laplace(Fraction(2**20), 40_000) & 1
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(40_000)
