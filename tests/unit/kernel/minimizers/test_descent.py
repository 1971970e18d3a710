"""Compiled descent takes the same steps as the plain loop over a risk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.kernel.mechanisms.noise import Gaussian
from reticent.kernel.minimizers import solvers as minimizer_steps
from reticent.kernel.minimizers.families import LongDescent, NoisyGradientDescent
from reticent.kernel.minimizers.solvers import (
    GRID,
    GROWING,
    Descent,
    Shape,
    Tethered,
    guaranteed_minimum,
    located_minimum,
)
from reticent.losses.base import ConvexLoss
from reticent.losses.losses import Hinge, Huber, Logistic, Margin, MeanVector, Multinomial, Poisson, Quantile, Squared
from reticent.losses.risk import QuadraticRisk, TensorRisk

DOMAIN = Domain({"a": 4, "b": 3, "c": 2, "y": 2})
LOSSES: list[ConvexLoss] = [
    Logistic(features=["a", "b"], label="y", radius=3),
    Logistic(features=["b", ("a", "c")], label="y", radius=40, ridge=0.1, categories=["b"]),
    Hinge(features=["c", "a"], label="y", radius=2, width=0.2),
    Huber(features=["a", "c"], label="b", radius=1, width=0.1, intercept=False),
    Quantile(features=["a", "c"], label="b", level=0.3, width=0.2),
    Poisson(features=["a", "c"], label="b", cap=0.5),
    Poisson(features=["a", "c"], label="b", cap=None, radius=1),
    Multinomial(features=["a", "c"], label="b"),
    Margin(features=["a"], label="b", slopes={0: [(-1, 0), (2, 1)], 1: [(0, -1), (1, 2)], 2: [(0.5, -2), (1, -1)]}),
    Squared(features=["a", "b"], label="y"),
    MeanVector(features=["a", "b"], categories=["b"]),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("extra", [0.0, 0.3])
def test_compiled_and_plain_descent_agree(loss: ConvexLoss, extra: float, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = loss.on(DOMAIN)
    weights = np.random.default_rng(3).dirichlet(np.full(DOMAIN.size, 0.3)).reshape(DOMAIN.shape)

    def marginals(sets: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
        return [weights.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in s)) for s in sets]

    tensor = TensorRisk(problem, marginals([problem.attributes])[0])
    own = QuadraticRisk.of_marginals(problem, marginals, 1.0) if loss.quadratic else tensor
    risk = Tethered(own, extra, np.linspace(-0.3, 0.2, problem.dimension))
    convexity = problem.strong_convexity + extra
    shape = Shape(problem.radius, problem.lipschitz, problem.smoothness + extra, max(convexity, 0.1))

    def found() -> list[np.ndarray]:
        near = located_minimum(risk, shape, 1e-2)
        return [guaranteed_minimum(risk, Descent(problem.radius, problem.smoothness + extra, 37, GROWING)), near]

    compiled = found()
    monkeypatch.setattr(minimizer_steps, "LISTED", 0)
    for quick, plain in zip(compiled, found(), strict=True):
        np.testing.assert_allclose(quick, plain, atol=1e-12)
        assert np.linalg.norm(quick) > 0


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.kind != "multinomial"], ids=repr)
def test_compiled_rounds_of_noisy_descent_are_the_plain_ones(loss: ConvexLoss) -> None:
    """To the bit, with the same noise; a slope above its bound is clipped in both."""
    weights = np.random.default_rng(3).multinomial(5000, np.full(DOMAIN.size, 1 / DOMAIN.size)).reshape(DOMAIN.shape)
    minimizer = LongDescent(loss, DOMAIN, neighbours="replace-one", records=5000, rho=0.1)
    object.__setattr__(minimizer, "rounds", 40)
    names = minimizer.problem.attributes
    exact = weights.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)).astype(float)
    shape = (40, minimizer.problem.dimension)
    drawn = np.random.default_rng(4).normal(size=shape) * float(minimizer.noise.sigma) * GRID
    noise = np.rint(drawn).astype(np.int64)
    for steep in (1.0, 0.3):
        minimizer.smooth.lipschitz *= steep
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gaussian, "release", lambda self, counts, grid: np.asarray(counts) + noise)
            compiled = minimizer.release(exact)
            rows = iter(noise)
            patch.setattr(Gaussian, "release", lambda self, counts, grid, rows=rows: np.asarray(counts) + next(rows))
            plain = NoisyGradientDescent.release(minimizer, exact)
        np.testing.assert_allclose(compiled, plain, rtol=0, atol=1e-12)
        assert np.linalg.norm(compiled) > 0
