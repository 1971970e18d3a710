"""The vectorised exponential: as exact as NumPy's, and quiet at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.hypotheses.dense.dense import softmax_in_place
from reticent.hypotheses.dense.kernels import exponentiate

TWO_ULPS = 2.0**-51


def test_every_magnitude_is_right_to_two_units_in_the_last_place() -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([-random.random(50_000) * 700, -(10.0 ** random.uniform(-18, 2.8, 50_000)), [0.0]])
    result = x.copy()
    total = exponentiate(result, 0.0)
    np.testing.assert_allclose(result, np.exp(x), rtol=TWO_ULPS)
    assert total == pytest.approx(math.fsum(np.exp(x)), rel=1e-14)
    assert result[-1] == 1.0


def test_what_underflows_is_zero() -> None:
    x = np.array([-math.inf, -1e300, -745.0, -708.5, -707.9, 0.0])
    exponentiate(x, 0.0)
    np.testing.assert_array_equal(x[:4], 0.0)
    np.testing.assert_allclose(x[4:], np.exp([-707.9, 0.0]), rtol=1e-12)


@pytest.mark.parametrize("shape", [(3, 5), (64, 32, 40)])
def test_softmax_sums_to_one_and_returns_the_log_partition(shape: tuple[int, ...]) -> None:
    logits = np.random.default_rng(1).normal(300.0, 20.0, shape)
    probabilities = logits.copy()
    log_partition = softmax_in_place(probabilities)
    assert log_partition == pytest.approx(logits.max() + math.log(np.exp(logits - logits.max()).sum()), rel=1e-14)
    np.testing.assert_allclose(probabilities, np.exp(logits - log_partition), rtol=1e-12)
