"""Shares of halves: priors between edges, laws without the block itself, tails of noise, and hints of nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, norm

from reticent.hypotheses.fitting.halves import ANY_LAW, SCALES, DividedBlocks, Law, hints_of_nothing, log_tails

CERTAIN = 1e-9


def blocks_of(departure: np.ndarray, sd: float, even: float = 0.5, nothing: float = 0.0) -> DividedBlocks:
    hints = np.full(departure.size, nothing)
    return DividedBlocks(np.full(departure.size, even), departure, sd, (hints, hints))


def one_scale(place: int) -> Law:
    weights = np.zeros(SCALES.size)
    weights[place] = 1.0
    return Law(weights, weights, 10**9)


@pytest.mark.parametrize("even", [0.5, 0.7])
@pytest.mark.parametrize("place", [6, 8, 10, 11])
@pytest.mark.parametrize("measured", [0.35, 0.5, 0.9])
def test_the_share_is_the_posterior_mean_of_its_beta_prior(even: float, place: int, measured: float) -> None:
    """As by quadrature. Priors are uniform between edges, whose distances grow by 1.4: means move by a fifth of the
    noise at most.
    """
    sd, weight = 0.1, float(SCALES[place]) ** -2 - 1
    prior = beta(weight * even, weight * (1 - even))

    def likely(share: float) -> float:
        return float(norm.pdf((measured - share) / sd))

    # By probability instead of shares: densities may be infinite at the ends.
    total = quad(lambda p: likely(float(prior.ppf(p))), 0, 1, limit=200)[0]
    mean = quad(lambda p: likely(float(prior.ppf(p))) * float(prior.ppf(p)), 0, 1, limit=200)[0] / total
    found = blocks_of(np.array([measured - even]), sd, even).first(np.ones(1), one_scale(place))
    assert found[0] == pytest.approx(mean, abs=0.2 * sd)


def test_without_noise_halves_hold_what_was_measured() -> None:
    departure = np.linspace(-0.499, 0.499, 41)
    blocks = blocks_of(departure, CERTAIN)
    whole = np.ones(departure.size)
    found = blocks.first(whole, blocks.learn(whole, ANY_LAW))
    np.testing.assert_allclose(found, 0.5 + departure, atol=10 * CERTAIN)


def test_a_block_is_not_believed_twice() -> None:
    """If a depth has one block, its law is what the next finer depth says."""
    likely = np.zeros((1, SCALES.size))
    likely[0, 3] = 1.0
    weights = (np.eye(SCALES.size)[3] + 0.5 * ANY_LAW.weights) / 1.5
    np.testing.assert_allclose(Law(weights, ANY_LAW.weights, 1).without(likely)[0], ANY_LAW.weights)


def test_a_coarser_depth_starts_at_the_law_of_the_finer_one() -> None:
    prior = one_scale(5).for_coarser()
    assert prior.blocks == 0
    assert prior.weights.sum() == pytest.approx(1)
    assert prior.weights[4:8].sum() > 0.97


def test_a_half_in_which_something_was_seen_is_not_emptied() -> None:
    """The same sum, two standard deviations above nothing, is noise unless its codes tell otherwise."""
    seen, sd = np.array([2.0 - 500.0]), 1.0
    law = Law(np.eye(SCALES.size)[-1] * 0.9 + 0.1 / SCALES.size, ANY_LAW.weights, 10**9)
    emptied = blocks_of(seen, sd).first(np.array([1000.0]), law)[0]
    kept = blocks_of(seen, sd, nothing=-30.0).first(np.array([1000.0]), law)[0]
    assert emptied < 0.2
    assert kept > 1.0


@pytest.mark.parametrize("laplaces", [1, 2, 16])
def test_tails_are_those_of_sums_of_laplace_noise(laplaces: int) -> None:
    rng = np.random.default_rng(7)
    drawn = rng.laplace(size=(200_000, laplaces)).sum(axis=1)
    sd = (2 * laplaces) ** 0.5
    for away in (0.5, 1.0, 2.0, 3.0):
        found = np.exp(log_tails(np.array([away * sd]), sd, laplaces))[0]
        share = float((drawn > away * sd).mean())
        slack = 5 * (share / drawn.size) ** 0.5  # of a binomial share
        assert found == pytest.approx(share, rel=0.12 if laplaces == 1 else 0.05, abs=slack)


def test_tails_of_normal_noise_and_of_single_laplace_noise_are_right_far_out() -> None:
    far = np.array([20.0])
    np.testing.assert_allclose(log_tails(far, 2.0, np.inf), norm.logsf(10.0))
    np.testing.assert_allclose(log_tails(far * 2**0.5, 2**0.5, 1), np.log(0.5) - 20 * 2**0.5, atol=0.12)


def test_hints_never_favour_nothing() -> None:
    hints = hints_of_nothing(np.log(np.array([1.0, 0.5, 0.2, 0.01, 1e-9])))
    assert (np.diff(hints) <= 0).all()
    assert hints[0] == 0
    np.testing.assert_allclose(hints[3], np.log(-np.e * 0.01 * np.log(0.01)))
