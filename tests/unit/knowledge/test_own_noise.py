"""Intervals of queries from the noise of their own measurements."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.knowledge.own_noise import QueryReading
from reticent.knowledge.tails import sum_of_noises, z_score

NORMAL, LAPLACE = Gaussian(10).describe(), Laplace(10).describe()


def test_one_number_has_the_quantile_of_its_noise() -> None:
    reading = QueryReading(300.0, 1, None, 1, NORMAL, 1000, exact=True)
    away = z_score(0.025) * 10 + 1
    assert reading.interval(0.05) == pytest.approx(((300 - away) / 1000, (300 + away) / 1000))
    assert reading.error(0.31, 0.05) == pytest.approx(0.01 + away / 1000)
    own = QueryReading(300.0, 1, None, 1, LAPLACE, 1000, exact=True)
    assert own.interval(0.05)[1] == pytest.approx((300 + 10 * log(20) + 1) / 1000)


def test_of_a_public_number_of_records_the_smaller_sum_is_read() -> None:
    few = QueryReading(100.0, 2, 905.0, 9, NORMAL, 1000, exact=True)
    many = QueryReading(100.0, 9, 905.0, 2, NORMAL, 1000, exact=True)
    away = sum_of_noises(Gaussian(10), 2, 0.05) / 1000
    assert few.interval(0.05) == pytest.approx((0.1 - away, 0.1 + away))
    assert many.interval(0.05) == pytest.approx((0.095 - away, 0.095 + away))


def test_a_private_number_of_records_needs_no_bound_of_its_own() -> None:
    reading = QueryReading(300.0, 1, 700.0, 1, NORMAL, None, exact=True)
    away = z_score(0.0125) * 10 + 1
    low, high = reading.interval(0.05)
    assert low == pytest.approx((300 - away) / 1000)
    assert high == pytest.approx((300 + away) / 1000)
    # Of hardly any records nothing is known.
    assert QueryReading(-5.0, 1, 2.0, 1, NORMAL, None, exact=True).interval(0.05) == (0.0, 1.0)


def test_no_error_of_a_share_exceeds_one() -> None:
    """Sums of probabilities round; a release with a larger error could not be read again."""
    nothing = QueryReading(-5.0, 1, 2.0, 1, NORMAL, None, exact=True)
    assert nothing.error(1 + 2**-52, 0.05) == nothing.error(-(2**-52), 0.05) == 1.0


@pytest.mark.parametrize("noise", [Gaussian(10), Laplace(10)])
@pytest.mark.parametrize("cells", [1, 2, 7])
def test_sums_stay_within_their_bound(noise: Gaussian | Laplace, cells: int) -> None:
    """Of 4,000 sums a bound with failure 0.05 is exceeded by 200 at most, up to five standard deviations."""
    generator = np.random.default_rng(3)
    shape = (4000, cells)
    drawn = generator.normal(0, 10, shape) if isinstance(noise, Gaussian) else generator.laplace(0, 10, shape)
    beyond = np.abs(np.rint(drawn).sum(axis=1)) > sum_of_noises(noise, cells, 0.05)
    assert beyond.sum() <= 200 + 5 * (200 * 0.95) ** 0.5
    assert sum_of_noises(noise, cells, 0.05) < 4 * noise.sd * cells**0.5
