"""Each planted bug must turn its exact check red; each check must be green without it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from tests.privacy.exact_checks import (
    SHORT,
    check_above_threshold,
    check_cost_rounds_up,
    check_exponential_draws,
    check_noise_price,
    check_released_scale,
    check_sensitivity,
    check_shared_epoch,
)

from reticent.kernel import accounting, statistics
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.curator import Epoch
from reticent.kernel.mechanisms import noise
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace, Sensitivity


@dataclass(frozen=True)
class Mutation:
    """A bug, how to plant it, and the check that must notice."""

    name: str
    plant: Callable[[pytest.MonkeyPatch], None]
    check: Callable[[], None]


def halve(sampler: Callable) -> Callable:
    return lambda scale, count: sampler(scale / 2, count)


def halve_short(sampler: Callable) -> Callable:
    return lambda scale, count: sampler(scale / 2 if count <= SHORT else scale, count)


def permute_and_flip(self: Exponential, scores: np.ndarray, sensitivity, grid: int = 1, draws: int = 1):
    random = np.random.default_rng(0)
    chance = np.exp(float(self.epsilon) / (2 * sensitivity * grid) * (scores - scores.max()))

    def once() -> int:
        return next(i for i in itertools.cycle(random.permutation(len(scores))) if random.random() < chance[i])

    return np.array([once() for _ in range(draws)])


def marginal_sensitivity() -> None:
    """One record of a four-valued attribute replaced by any other, in every table of two records."""
    tables = [np.array(rows) for rows in itertools.product(range(4), repeat=2)]
    pairs = [(a, b) for a in tables for b in tables if (a != b).sum() == 1]
    check_sensitivity(statistics.of_one_marginal("replace-one"), lambda t: np.bincount(t, minlength=4), pairs)


THRESHOLD = {
    one_sided: AboveThreshold(threshold_epsilon=1, query_epsilon=1, one_sided=one_sided) for one_sided in (False, True)
}
ODD_PRICES = [Price(Fraction(1, 3), Fraction(1, 7)), Price(Fraction(10, 9), Fraction(2, 7))]

MUTATIONS = [
    Mutation(
        "Laplace sampler draws half the scale",
        lambda patch: patch.setattr(noise, "discrete_laplace", halve(noise.discrete_laplace)),
        lambda: check_released_scale(Laplace(20), 4, (1000,)),
    ),
    Mutation(
        "Gaussian sampler draws half the scale",
        lambda patch: patch.setattr(noise, "discrete_gaussian", halve(noise.discrete_gaussian)),
        lambda: check_released_scale(Gaussian(20), 4, (1000,)),
    ),
    Mutation(
        "single values are drawn at half the scale",
        lambda patch: patch.setattr(noise, "discrete_laplace", halve_short(noise.discrete_laplace)),
        lambda: check_released_scale(Laplace(20), 4, (SHORT,)),
    ),
    Mutation(
        "the grid is forgotten: noise in units of the grid instead of records",
        lambda patch: patch.setattr(Laplace, "grid_scale", lambda self, grid: self.scale),
        lambda: check_released_scale(Laplace(20), 4, (1000,)),
    ),
    Mutation(
        "scale halved before both noise and price are compared",
        lambda patch: patch.setattr(Gaussian, "grid_scale", lambda self, grid: self.sigma * grid / 2),
        lambda: check_noise_price(Gaussian(4), Sensitivity.scalar(1), [2], 2),
    ),
    Mutation(
        "query noise without the factor 2",
        lambda patch: patch.setattr(AboveThreshold, "query_scale", lambda self, s: s / self.query_epsilon),
        lambda: check_above_threshold(THRESHOLD[False], 3),
    ),
    Mutation(
        "one-sided query noise without the factor 2",
        lambda patch: patch.setattr(AboveThreshold, "query_scale", lambda self, s: s / self.query_epsilon),
        lambda: check_above_threshold(THRESHOLD[True], 3),
    ),
    Mutation(
        "threshold noise halved",
        lambda patch: patch.setattr(
            AboveThreshold, "threshold_scale", lambda self, s: s / self.threshold_epsilon * Fraction(1, 2)
        ),
        lambda: check_above_threshold(THRESHOLD[True], 3),
    ),
    Mutation(
        "threshold noise left unpaid",
        lambda patch: patch.setattr(AboveThreshold, "price", lambda self: Price.of_pure(self.query_epsilon)),
        lambda: check_above_threshold(THRESHOLD[False], 3),
    ),
    Mutation(
        "a shared epoch has noise for what it tests first",
        lambda patch: patch.setattr(
            Epoch, "moved", property(lambda self: None, lambda self, value: None), raising=False
        ),
        lambda: check_shared_epoch(Fraction(21, 10)),
    ),
    Mutation(
        "permute-and-flip at the price e^2/8",
        lambda patch: patch.setattr(Exponential, "draw", permute_and_flip),
        lambda: check_exponential_draws(Exponential(2), np.array([0, 1, 1], dtype=np.int64)),
    ),
    Mutation(
        "price rounded down",
        lambda patch: patch.setattr(accounting.math, "ceil", math.floor),
        lambda: check_cost_rounds_up(Budget(rho=1), ODD_PRICES),
    ),
    Mutation(
        "pure price rounded down",
        lambda patch: patch.setattr(accounting.math, "ceil", math.floor),
        lambda: check_cost_rounds_up(Budget(epsilon=1), ODD_PRICES),
    ),
    Mutation(
        "sensitivity 1 where a marginal has 2",
        lambda patch: patch.setattr(statistics, "of_one_marginal", lambda neighbours: Sensitivity(1, 1)),
        marginal_sensitivity,
    ),
    Mutation(
        "Laplace priced with L2 in place of L1",
        lambda patch: patch.setattr(
            Laplace,
            "price",
            lambda self, s: Price(s.l2_squared / s.l1 / self.scale, s.l2_squared / (2 * self.scale**2)),
        ),
        lambda: check_noise_price(Laplace(3), Sensitivity(2, 2), [1, -1], 1),
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_planted_bug_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.check()
    with monkeypatch.context() as patch:
        mutation.plant(patch)
        with pytest.raises(AssertionError):
            mutation.check()
