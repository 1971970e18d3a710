"""Population.md, claim 4b: the bias of a shrunk estimate, told by its prior and by what the fit left."""

from __future__ import annotations

import numpy as np
import pytest

QUANTILE = 1.96
NOISE = np.linspace(-6, 6, 4001)
CHANCES = np.exp(-(NOISE**2) / 2) / np.exp(-(NOISE**2) / 2).sum()
PARAMETERS = np.linspace(0, 12, 241)


def coverage(weight: float, parameter: float, prior: float, left: float) -> float:
    """Of `weight * y`, y = parameter + noise, with these shares of the squared bias; exact but for the grid."""
    scale, away = weight / (1 - weight), parameter + NOISE
    error = weight * NOISE - (1 - weight) * parameter
    variance = weight**2 + (1 - weight) ** 2 * (prior * scale + left * away**2)
    return float(CHANCES @ (np.abs(error) <= QUANTILE * np.sqrt(variance)))


def over_the_prior(weight: float, prior: float, left: float) -> float:
    chances = np.exp(-(PARAMETERS**2) * (1 - weight) / (2 * weight))
    found = [coverage(weight, parameter, prior, left) for parameter in PARAMETERS]
    return float(chances @ found / chances.sum())


WEIGHTS = [0.3, 0.5, 0.7, 0.9]


@pytest.mark.parametrize(("weight", "covered"), [*zip(WEIGHTS, [0.986, 0.979, 0.971, 0.959], strict=True)])
def test_where_the_prior_knows_the_statistic_coverage_is_above(weight: float, covered: float) -> None:
    assert over_the_prior(weight, 1.0, 1.0) == pytest.approx(covered, abs=1e-3)


@pytest.mark.parametrize(("weight", "covered"), [*zip(WEIGHTS, [0.923, 0.932, 0.942, 0.949], strict=True)])
def test_where_it_does_not_coverage_is_little_below(weight: float, covered: float) -> None:
    """Cells that lean to one side: independent ones would make next to nothing of their sum."""
    assert over_the_prior(weight, 0.0, 1.0) == pytest.approx(covered, abs=1e-3)
    assert over_the_prior(weight, 0.0, 0.0) < covered - 0.01, "without what the fit left"


@pytest.mark.parametrize(("weight", "least"), [*zip(WEIGHTS, [0.73, 0.79, 0.88, 0.93], strict=True)])
def test_no_parameter_is_lost(weight: float, least: float) -> None:
    """The prior alone covers nothing of what is far from it."""
    assert min(coverage(weight, parameter, 0.0, 1.0) for parameter in PARAMETERS) > least
    assert coverage(weight, PARAMETERS[-1], 0.0, 1.0) > 0.95
    if weight < 0.6:
        assert coverage(weight, 8.0, 1.0, 0.0) < 0.001
