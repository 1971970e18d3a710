"""One noisy histogram: the estimate is as close as the better of the bare histogram and the bare fit."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.histogram import LEAST_KEPT, estimate, moved
from reticent.queries.linear import Marginal

DOMAIN = Domain({"a": 6, "b": 8, "c": 5, "d": 4})
PAIRS = [*((name,) for name in DOMAIN.names), *combinations(DOMAIN.names, 2)]


def truth(own: float) -> np.ndarray:
    """Log-linear effects of single attributes and pairs, and as much of each cell's own."""
    generator = np.random.default_rng(3)
    logits = own * generator.standard_normal(DOMAIN.shape)
    for axis, size in enumerate(DOMAIN.shape):
        logits = logits + generator.standard_normal([size if i == axis else 1 for i in range(4)])
    logits = logits + generator.standard_normal((6, 8, 1, 1))
    weights = np.exp(logits)
    return weights / weights.sum()


def measured(cells: np.ndarray, sd: float, seed: int) -> Measurement:
    noise = np.random.default_rng(seed).laplace(0, sd / np.sqrt(2), cells.shape)
    return Measurement(Marginal(DOMAIN.names), cells + noise, sd)


def variation(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.abs(left - right).sum()) / 2


@pytest.mark.parametrize("own", [0.0, 0.5])
@pytest.mark.parametrize("sd", [3e-6, 3e-5, 3e-4, 1e-3])
def test_neither_the_bare_fit_nor_the_bare_histogram_is_much_closer(own: float, sd: float) -> None:
    cells, generator = truth(own), np.random.default_rng(0)
    found, fits, bare = [], [], []
    for seed in range(3):
        seen = measured(cells, sd, seed)
        likely, _ = estimate(DOMAIN, seen, PAIRS, laplace=True, generator=generator)
        hypothesis = DenseHypothesis(DOMAIN)
        hypothesis.fit([seen])
        positive = np.maximum(seen.values, 0)
        assert likely.min() > 0
        assert likely.sum() == pytest.approx(1)
        found.append(variation(cells, likely))
        fits.append(variation(cells, hypothesis.marginal(DOMAIN.names)))
        bare.append(variation(cells, positive / positive.sum()))
    assert np.median(found) < 1.1 * min(np.median(fits), np.median(bare))


def test_cells_move_all_the_way_without_noise_and_not_at_all_under_noise_alone() -> None:
    cells, flat = truth(0.5), np.full(DOMAIN.shape, 1 / 960)
    assert moved(flat, cells, 1e-9) == pytest.approx(np.maximum(cells, LEAST_KEPT * flat), rel=0.05)
    noise = np.random.default_rng(1).normal(0, 1.0, DOMAIN.shape)
    assert moved(flat, flat + noise, 1.0) == pytest.approx(flat, rel=0.1)


def test_a_tiny_table_under_much_noise_is_averaged_and_a_larger_one_is_fitted() -> None:
    tiny = Domain({"a": 2, "b": 3})
    drowned = Measurement(Marginal(tiny.names), np.full((2, 3), 1 / 6), 0.5)
    generator = np.random.default_rng(0)
    assert estimate(tiny, drowned, [tiny.names], laplace=True, generator=generator)[1] == "posterior mean"
    clear = Measurement(Marginal(tiny.names), np.full((2, 3), 1 / 6), 0.01)
    assert estimate(tiny, clear, [tiny.names], laplace=True, generator=generator)[1] != "posterior mean"
    larger = Measurement(Marginal(DOMAIN.names), np.full(DOMAIN.shape, 1 / 960), 0.5)
    assert estimate(DOMAIN, larger, PAIRS, laplace=True, generator=generator)[1] != "posterior mean"


@pytest.mark.parametrize("saturated", [0, 2**12], ids=["sets that are asked", "all sets"])
@pytest.mark.parametrize("sd", [3e-6, 1e-4, 1e-3])
def test_marginals_that_are_asked_are_no_further_off_than_sums_of_noisy_cells(
    sd: float, saturated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit shrinks each residual as far as its own noise warrants, not every cell as far as a cell's."""
    monkeypatch.setattr("reticent.hypotheses.fitting.histogram.SATURATED", saturated)
    cells = truth(0.5)
    ours, sums = [], []
    for seed in range(4):
        seen = measured(cells, sd, seed)
        likely, _ = estimate(DOMAIN, seen, PAIRS, laplace=True, generator=np.random.default_rng(0))
        for pair in combinations(range(4), 2):
            others = tuple(axis for axis in range(4) if axis not in pair)
            ours.append(variation(cells.sum(axis=others), likely.sum(axis=others)))
            sums.append(variation(cells.sum(axis=others), seen.values.sum(axis=others)))
    assert np.mean(ours) < 1.03 * np.mean(sums)
