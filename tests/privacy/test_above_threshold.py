"""AboveThreshold by exact summation over the threshold noise, with the scales an epoch really draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.privacy.exact_checks import check_above_threshold, has_scale, log_run_probability, scales_drawn

from reticent.kernel.mechanisms import above_threshold as threshold_module
from reticent.kernel.mechanisms.base import AboveThreshold

SHARES = [(1, 1, 1), (0.3, 0.7, 4), (2, 0.5, 1), (0.1, 0.2, 1), (0.5, 3, 16)]
RUNS = 3000


@pytest.mark.parametrize("one_sided", [False, True], ids=["two-sided", "one-sided"])
@pytest.mark.parametrize(("threshold_epsilon", "query_epsilon", "sensitivity"), SHARES)
def test_worst_neighbours_stay_within_the_price(
    one_sided: bool, threshold_epsilon: float, query_epsilon: float, sensitivity: int
) -> None:
    mechanism = AboveThreshold(threshold_epsilon=threshold_epsilon, query_epsilon=query_epsilon, one_sided=one_sided)
    check_above_threshold(mechanism, sensitivity)


@pytest.mark.parametrize("one_sided", [False, True], ids=["two-sided", "one-sided"])
def test_runs_follow_the_summed_probability(one_sided: bool) -> None:
    """The sum describes the real object: three queries below, then one above."""
    mechanism = AboveThreshold(threshold_epsilon=1, query_epsilon=1, one_sided=one_sided)
    exact = math.exp(log_run_probability(scales_drawn(mechanism, 1), one_sided, (3, -1), 1))

    def run() -> bool:
        watch = mechanism.open(0, 1)
        return not any(watch.exceeds(-1) for _ in range(3)) and watch.exceeds(1)

    share = sum(run() for _ in range(RUNS)) / RUNS
    assert abs(share - exact) < 6 * math.sqrt(exact * (1 - exact) / RUNS)


@pytest.mark.parametrize("one_sided", [False, True], ids=["two-sided", "one-sided"])
def test_both_noises_are_added(one_sided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one-sided noise subtracted from the threshold the loss would be infinite (spec online 5)."""
    planted = iter([7, 0, 0, 3, 2])

    def fixed(scale: object, count: int) -> np.ndarray:
        return np.array([next(planted)])

    monkeypatch.setattr(threshold_module, "geometric", fixed)
    monkeypatch.setattr(threshold_module, "discrete_laplace", fixed)
    watch = AboveThreshold(threshold_epsilon=1, query_epsilon=1, one_sided=one_sided).open(100, 1)
    assert [watch.exceeds(x) for x in (100, 106, 103)] == [False, False, False]
    assert watch.exceeds(105)


@pytest.mark.parametrize("one_sided", [False, True], ids=["two-sided", "one-sided"])
def test_samplers_have_the_scales_that_are_asked(one_sided: bool) -> None:
    mechanism = AboveThreshold(threshold_epsilon=0.125, query_epsilon=0.5, one_sided=one_sided)
    kind = "geometric" if one_sided else "laplace"
    sampler = getattr(threshold_module, "geometric" if one_sided else "discrete_laplace")
    for scale in (mechanism.threshold_scale(3), mechanism.query_scale(3)):
        noise = sampler(scale, 60_000)
        assert has_scale(noise, kind, float(scale))
        assert not has_scale(noise, kind, 0.9 * float(scale))
        assert not has_scale(noise, kind, 1.1 * float(scale))
