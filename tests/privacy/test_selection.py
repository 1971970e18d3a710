"""The exponential mechanism: exact probabilities within e^2/8, and draws that follow them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.privacy.exact_checks import SAMPLES, TIGHT, check_exponential_draws, check_exponential_price, renyi, softmax

from reticent.kernel.mechanisms.base import Exponential


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("seed", range(5))
def test_price_covers_exact_loss(epsilon: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(-5, 6, 12).astype(float)
    check_exponential_price(Exponential(epsilon), scores, scores + random.uniform(-1, 1, 12))
    check_exponential_price(Exponential(epsilon), scores, scores + random.choice([-1.0, 1.0], 12))


def test_price_is_tight_for_two_even_groups() -> None:
    mechanism, order = Exponential(0.2), 2.0
    log_p, log_q = (np.log(softmax(0.1 * np.array(u))) for u in ([0.5, -0.5], [-0.5, 0.5]))
    assert renyi(log_p, log_q, order) >= TIGHT * order * float(mechanism.price().rho)


@pytest.mark.parametrize("epsilon", [0.3, 2])
@pytest.mark.parametrize("scores", [[0, 1], [3, 3, 3], [-4, 0, 2, 2, 5, 1], [0, -1000, 1]])
def test_draws_follow_exact_probabilities(epsilon: float, scores: list[int]) -> None:
    check_exponential_draws(Exponential(epsilon), np.array(scores, dtype=np.int64))


def test_draws_on_a_fine_grid_with_many_candidates() -> None:
    scores = np.random.default_rng(1).integers(0, 8 * 2**20, 3000)
    check_exponential_draws(Exponential(1.5), scores, grid=2**20)


def test_single_draws_follow_the_same_law() -> None:
    mechanism, scores = Exponential(1), np.array([0, 2, 3], dtype=np.int64)
    drawn = np.array([mechanism.draw(scores, 1)[0] for _ in range(3000)])
    share = np.bincount(drawn, minlength=3) / 3000
    assert np.abs(share - softmax(scores / 2)).max() < 6 / np.sqrt(3000)
    assert len(drawn) < SAMPLES
