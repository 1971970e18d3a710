"""Both directions lower the divergence of the data to the hypothesis as much as is said; the printed one does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reticent as rt
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.knowledge.risks import Direction, dual_certificate, loss_difference, project, step
from reticent.losses.base import ConvexLoss
from reticent.losses.risk import TensorRisk
from reticent.losses.solver import minimum

DOMAIN = rt.Domain({"a": 4, "b": 3, "y": 2})
LOSSES: list[ConvexLoss] = [
    rt.Squared(features=["a", "b"], label="y", radius=1),
    rt.Ridge(features=["a", "b"], label="y", ridge=0.1, radius=1, categories=["b"]),
    rt.Logistic(features=["a", "b"], label="y", radius=2),
    rt.Hinge(features=["a"], label="y", radius=2),
    rt.Huber(features=["a", "b"], label="y", radius=1),
    rt.MeanVector(features=["a", "b"]),
    rt.Multinomial(features=["b", "y"], label="a", radius=2),
    rt.Poisson(features=["b", "y"], label="a", radius=2),
]


def distribution(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(DOMAIN.size, 0.7)).reshape(DOMAIN.shape) + 1e-9


def divergence(data: np.ndarray, hypothesis: DenseHypothesis) -> float:
    guess = hypothesis.marginal(DOMAIN.names)
    return float(np.sum(data * np.log(data / guess)))


def situation(loss: ConvexLoss, seed: int) -> tuple[np.ndarray, DenseHypothesis, np.ndarray, np.ndarray, float]:
    """Data, a hypothesis, both minimisers and the hypothesis' excess risk on the data."""
    data = distribution(seed)
    data /= data.sum()
    hypothesis = DenseHypothesis(DOMAIN, distribution(seed + 1))
    problem = loss.on(DOMAIN)
    axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in problem.attributes)
    on_data = TensorRisk(problem, data.sum(axis=axes))
    here = minimum(TensorRisk(problem, hypothesis.marginal(problem.attributes)))[0]
    there = minimum(on_data)[0]
    return data, hypothesis, here, there, on_data.value(here) - on_data.value(there)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_projecting_by_the_loss_difference_lowers_the_divergence(loss: ConvexLoss, seed: int) -> None:
    data, hypothesis, here, there, excess = situation(loss, seed)
    assume(excess > 1e-4)
    direction = loss_difference(hypothesis, loss.on(DOMAIN), there, here)
    assert isinstance(direction, Direction)
    margin = excess / 2
    before = divergence(data, hypothesis)
    dropped = project(hypothesis, direction, margin)
    assert dropped > 0
    assert direction.mean(hypothesis) == pytest.approx(-margin, abs=1e-9)
    assert before - divergence(data, hypothesis) >= dropped - 1e-9
    assert project(hypothesis, direction, margin / 2) == 0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_step_along_the_dual_certificate_lowers_it_and_the_printed_sign_raises_it(
    loss: ConvexLoss, seed: int
) -> None:
    data, hypothesis, here, there, excess = situation(loss, seed)
    assume(excess > 1e-4)
    direction = dual_certificate(hypothesis, loss.on(DOMAIN), there, here)
    assert isinstance(direction, Direction)
    eta = 4 * excess / (direction.high - direction.low) ** 2
    before = divergence(data, hypothesis)
    printed = hypothesis.copy()
    dropped = step(hypothesis, direction, eta, excess)
    direction.tilt(printed, -eta)
    assert before - divergence(data, hypothesis) >= dropped - 1e-9
    assert divergence(data, hypothesis) < before < divergence(data, printed)


def test_equal_parameters_show_nothing() -> None:
    problem, hypothesis = LOSSES[0].on(DOMAIN), DenseHypothesis(DOMAIN)
    nothing = loss_difference(hypothesis, problem, np.zeros(problem.dimension), np.zeros(problem.dimension))
    assert nothing is None
    assert project(hypothesis, nothing, 0.1) == 0
