"""The posterior mean against integrals, in both limits of noise, and against a table with few records."""

import numpy as np
import pytest

from reticent.hypotheses.fitting.posterior import SCALES, posterior_mean

STEPS = 3000


def mean(values, sd, laplace=True, seed=0, steps=STEPS):
    return posterior_mean(values, sd, laplace=laplace, generator=np.random.default_rng(seed), steps=steps)


def relative_entropy(truth, guess):
    held = truth > 0
    return float((truth[held] * np.log(truth[held] / guess[held])).sum())


@pytest.mark.parametrize("laplace", [True, False])
def test_two_codes_agree_with_the_integral(laplace, monkeypatch):
    """One attribute with two codes: its log-odds are normal, so the mean is an integral over one line."""
    monkeypatch.setattr("reticent.hypotheses.fitting.posterior.LOOSENESS", 0.0)
    values, sd = np.array([0.9, 0.2]), 0.25
    odds = np.linspace(-12, 12, 20_001)
    p = 1 / (1 + np.exp(-odds))
    residuals = np.stack([values[0] - p, values[1] - (1 - p)])
    losses = np.abs(residuals).sum(axis=0) * np.sqrt(2) / sd if laplace else (residuals**2).sum(axis=0) / (2 * sd * sd)
    weights = np.exp(-losses - odds**2 / (4 * SCALES[0] ** 2))
    assert mean(values, sd, laplace, steps=30_000)[0] == pytest.approx(float(weights @ p / weights.sum()), abs=0.01)


def test_noise_alone_stays_near_uniform():
    shape = (2,) * 6
    for seed in range(3):
        noise = np.random.default_rng(seed).laplace(0, 0.5, shape)
        assert relative_entropy(np.full(shape, 1 / 64), mean(noise, 0.5 * 2**0.5)) < 0.15


def test_a_precise_histogram_is_matched():
    truth = np.random.default_rng(1).dirichlet(np.full(24, 2.0)).reshape(2, 3, 4)
    found = mean(truth, 1e-3, laplace=False)
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - truth).max() < 5e-3


def test_it_beats_uniform_and_the_noisy_histogram_on_a_few_records():
    """Two attributes tied together, four without effect; noise as large as an average cell."""
    pair = np.array([[0.45, 0.05], [0.05, 0.45]])
    truth = np.multiply.outer(pair, np.full((2,) * 4, 1 / 16))
    ours, clipped = [], []
    for seed in range(5):
        noisy = truth + np.random.default_rng(seed).laplace(0, 1 / 64, truth.shape)
        positive = np.maximum(noisy, 1e-3)
        ours.append(relative_entropy(truth, mean(noisy, 2**0.5 / 64)))
        clipped.append(relative_entropy(truth, positive / positive.sum()))
    assert np.median(ours) < 0.8 * relative_entropy(truth, np.full(truth.shape, 1 / 64))
    assert all(own < rival for own, rival in zip(ours, clipped, strict=True))


def test_the_same_generator_gives_the_same_bits():
    values = np.random.default_rng(3).normal(1 / 12, 0.05, (3, 4))
    assert mean(values, 0.05, steps=300).tobytes() == mean(values, 0.05, steps=300).tobytes()
