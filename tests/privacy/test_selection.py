"""The exponential mechanism: exact probabilities within e^2/8, and draws that follow them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.privacy.exact_checks import SAMPLES, TIGHT, check_exponential_draws, check_exponential_price, renyi, softmax

from reticent.kernel.mechanisms import exponential
from reticent.kernel.mechanisms.base import Exponential
from reticent.kernel.mechanisms.sampling import exp_between


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


def test_proposals_cover_what_they_propose() -> None:
    """A weight below the exact one would be accepted too seldom: rejection cannot make a candidate likelier."""
    gaps = np.array([0, 1, 2, 3, 5, 8, 13, 40, 200, 1000, 4000])
    for slope in (Fraction(1, 3), Fraction(1, 97), Fraction(7, 5)):
        candidates = exponential._Candidates(-gaps, slope)
        for gap, weight in zip(gaps.tolist(), candidates._weights.tolist(), strict=True):
            _, most = exp_between(gap * slope, candidates._bits + 64)
            assert weight << 64 >= most


def test_scores_at_the_ends_of_int64_keep_their_order() -> None:
    """The difference of two scores may need 64 bits; as a signed number it would turn round."""
    ends = np.array([-(2**63), 2**63 - 1, 0], dtype=np.int64)
    for grid in (1, 2**19):
        assert set(Exponential(1).draw(ends, 1, grid, draws=50).tolist()) == {1}
