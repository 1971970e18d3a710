"""Population.md, claim 4b: the bias of a shrunk estimate, told half by its prior and half by what the fit left."""

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


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7, 0.9])
def test_half_and_half_covers_on_average(weight: float) -> None:
    assert 0.948 < over_the_prior(weight, 0.5, 0.5) < 0.96


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7, 0.9])
def test_the_whole_of_what_was_left_alone_does_not(weight: float) -> None:
    assert over_the_prior(weight, 0.0, 1.0) < 0.9495


@pytest.mark.parametrize(("weight", "least"), [(0.3, 0.72), (0.5, 0.79), (0.7, 0.85), (0.9, 0.89)])
def test_no_parameter_is_lost(weight: float, least: float) -> None:
    """The prior alone covers nothing of what is far from it."""
    assert min(coverage(weight, parameter, 0.5, 0.5) for parameter in PARAMETERS) > least
    assert coverage(weight, PARAMETERS[-1], 0.5, 0.5) > 0.87
    if weight < 0.6:
        assert coverage(weight, 8.0, 1.0, 0.0) < 0.001
