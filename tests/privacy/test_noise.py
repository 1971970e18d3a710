"""Laplace and Gaussian: exact losses on the grid stay within the price; what is drawn has the scale that is priced."""

from __future__ import annotations

import numpy as np
import pytest
from tests.privacy.exact_checks import (
    SAMPLES,
    SHORT,
    check_frequencies,
    check_noise_price,
    check_released_scale,
    draw_noise,
    log_pmf,
)

from reticent.kernel.mechanisms.base import Gaussian, Laplace, Noise, Sensitivity

MARGINAL = Sensitivity(2, 2)
SOME = [Laplace(0.4), Laplace(6), Laplace(37.5), Gaussian(0.6), Gaussian(5.25), Gaussian(30)]
SMALL, LARGE = (SHORT,), (50, 200)


@pytest.mark.parametrize("grid", [1, 8])
@pytest.mark.parametrize("mechanism", SOME)
def test_price_covers_exact_loss(mechanism: Noise, grid: int) -> None:
    check_noise_price(mechanism, Sensitivity.scalar(1), [grid], grid)
    check_noise_price(mechanism, MARGINAL, [grid, -grid], grid)


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["short", "long"])
@pytest.mark.parametrize("grid", [1, 2**20])
@pytest.mark.parametrize("mechanism", [Laplace(0.8), Laplace(40), Gaussian(1.3), Gaussian(25)])
def test_release_has_the_priced_scale(mechanism: Noise, grid: int, shape: tuple[int, ...]) -> None:
    check_released_scale(mechanism, grid, shape)


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["short", "long"])
@pytest.mark.parametrize("mechanism", SOME)
def test_release_follows_the_exact_distribution(mechanism: Noise, shape: tuple[int, ...]) -> None:
    noise = draw_noise(mechanism, np.zeros(shape, dtype=np.int64))
    reach = int(max(40, 14 * mechanism.sd))
    support = np.arange(-reach, reach + 1)
    observed = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=2 * reach + 1)
    check_frequencies(observed, np.exp(log_pmf(mechanism, 1, support)))


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["short", "long"])
@pytest.mark.parametrize("mechanism", [Laplace(2), Gaussian(2)])
def test_no_low_bit_event_separates_neighbours(mechanism: Noise, shape: tuple[int, ...]) -> None:
    """Float noise leaks through low bits; on the grid every residue has its exact probability for both neighbours."""
    grid, bits = 64, 16
    support = np.arange(-80 * 2 * grid, 80 * 2 * grid + 1)
    weights = np.exp(log_pmf(mechanism, grid, support))
    for start in (0, grid):
        outputs = draw_noise(mechanism, np.full(shape, start, dtype=np.int64), grid)
        residues = np.bincount(outputs % bits, minlength=bits)
        exact = np.bincount((support + start) % bits, weights=weights, minlength=bits)
        check_frequencies(residues, exact)


def test_every_value_is_reachable_from_both_neighbours() -> None:
    mechanism = Laplace(1)
    first, second = (set(mechanism.release(np.full(SAMPLES, x, np.int64)).tolist()) for x in (0, 1))
    assert set(range(-5, 7)) <= first & second


def test_entries_are_independent() -> None:
    """Shared noise would be invisible in every single entry."""
    for shape in (SMALL, LARGE):
        repeats = 700 if shape == SMALL else 40
        noise = np.array([Gaussian(1000).release(np.zeros(shape, np.int64)).ravel() for _ in range(repeats)])
        correlation = np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]
        assert abs(correlation) < 6 / np.sqrt(noise.size)
        again = np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]
        assert abs(again) < 6 / np.sqrt(noise.size)
