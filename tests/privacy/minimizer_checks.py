"""Plain checks of the private minimisers: they pass on main and must raise AssertionError under each planted bug."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import beta

from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.noise import Gaussian
from reticent.kernel.minimizers import families as module
from reticent.kernel.minimizers import phased
from reticent.kernel.minimizers.excess_risk import ExcessRisk, least_scale
from reticent.kernel.minimizers.families import (
    LongDescent,
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    PhasedERM,
    RidgeGLM,
    SufficientStatistics,
    UnconstrainedGLM,
)
from reticent.kernel.statistics import FINE
from reticent.kernel.table import Table
from reticent.losses.losses import (
    ConvexLoss,
    Hinge,
    Huber,
    Logistic,
    Margin,
    MeanVector,
    Multinomial,
    Poisson,
    Quantile,
    Ridge,
    Squared,
)
from reticent.losses.risk import TensorRisk

DOMAIN = Domain({"a": 3, "b": 2, "y": 2})
SIZE = 3
TIGHT = 0.9
"""A worst case below this share of the price means that the check looks at the wrong neighbours."""
CONFIDENCE = 1e-6
SAMPLES = 500

Row = tuple[int, int, int]


def source(rows: tuple[Row, ...]) -> Records:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 3)
    columns = dict(zip(DOMAIN.names, codes.T, strict=True))
    return Records.of_codes(DOMAIN, columns, np.ones(len(rows), dtype=np.int64))


def neighbouring(
    kind: str, names: tuple[str, ...] = ("a", "b", "y")
) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    """Every pair of tiny neighbouring tables over some attributes (the others stay 0), up to the order of rows."""
    sizes = [DOMAIN[name].size if name in names else 1 for name in DOMAIN.names]
    values: list[Row] = list(itertools.product(*map(range, sizes)))  # pyright: ignore[reportAssignmentType]
    for kept in itertools.combinations_with_replacement(values, SIZE - 1):
        for first in values:
            if kind == "add-remove":
                yield (*kept, first), kept
            else:
                yield from (((*kept, first), (*kept, other)) for other in values if other > first)


def declared(kind: type[Minimizer], loss: ConvexLoss, neighbours: str = "replace-one", rho: float = 0.5) -> Minimizer:
    return kind(loss, DOMAIN, neighbours=neighbours, records=SIZE, rho=rho)


@contextmanager
def transcript(seen: list[tuple[np.ndarray, Gaussian]]) -> Iterator[None]:
    """Every vector that would receive noise is noted with its noise; what is released instead is public.

    The same numbers on every table: a later release then starts from the same parameters, as composition asks for.
    """

    def record(values: np.ndarray, noise: Gaussian) -> np.ndarray:
        seen.append((np.array(values), noise))
        return np.random.default_rng(len(seen)).normal(size=np.shape(values))

    with pytest.MonkeyPatch.context() as patch:
        for place in (module, phased):
            patch.setattr(place, "noisy", record)
        # compiled rounds are the plain ones, to the bit (tests/unit/kernel/minimizers/test_descent.py)
        patch.setattr(LongDescent, "release", NoisyGradientDescent.release)
        yield


def before_noise(minimizer: Minimizer, rows: tuple[Row, ...]) -> list[tuple[np.ndarray, Gaussian]]:
    """Every vector that would receive noise, and its noise."""
    seen: list[tuple[np.ndarray, Gaussian]] = []
    with transcript(seen):
        minimizer.release(minimizer.fetch(source(rows), 1))
    return seen


def worst_loss(minimizer: Minimizer, neighbours: str, names: tuple[str, ...]) -> float:
    """The largest zCDP loss of one run over all neighbours: sum of |difference|^2 / (2 sigma^2)."""
    known: dict[tuple[Row, ...], list[tuple[np.ndarray, Gaussian]]] = {}
    worst = 0.0
    for pair in neighbouring(neighbours, names):
        for rows in pair:
            if rows not in known:
                known[rows] = before_noise(minimizer, rows)
        left, right = (known[rows] for rows in pair)
        spent = [
            float(np.square(x - y).sum()) / (2 * float(noise.sigma) ** 2)
            for (x, noise), (y, _) in zip(left, right, strict=True)
        ]
        worst = max(worst, math.fsum(spent))
    return worst


def check_output_perturbation() -> None:
    """A mean of a coordinate in {-1, 1}: replacing one record moves it by 2 / n exactly, so the price is attained."""
    loss = MeanVector(features=["b"])
    for neighbours in ("replace-one", "add-remove"):
        minimizer = declared(OutputPerturbation, loss, neighbours)
        worst = worst_loss(minimizer, neighbours, ("b",))
        assert TIGHT * float(minimizer.rho) <= worst <= float(minimizer.price().rho)


def check_phases() -> None:
    """In a large ball every phase of a mean moves by its whole price, whatever the phases before released."""
    loss = MeanVector(features=["b"], radius=50)
    for neighbours in ("replace-one", "add-remove"):
        minimizer = declared(PhasedERM, loss, neighbours)
        assert isinstance(minimizer, PhasedERM)
        assert minimizer.phases > 2
        worst = worst_loss(minimizer, neighbours, ("b",))
        assert TIGHT * float(minimizer.rho) <= worst <= float(minimizer.price().rho)


def check_imperfect_solver() -> None:
    """A solver that stops as far from the minimum as it may, against us, must still be paid for."""

    def sloppy(risk: module.Risk, shape: module.Shape, distance: float) -> np.ndarray:
        theta = honest(risk, shape, distance / 1000)
        return theta + distance * 0.999 * np.sign(theta + 1e-300)

    honest = module.located_minimum
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "located_minimum", sloppy)
        minimizer = declared(OutputPerturbation, MeanVector(features=["b"]))
        assert worst_loss(minimizer, "replace-one", ("b",)) <= float(minimizer.price().rho)


def check_other_losses() -> None:
    """Every family on every neighbour of a small universe: never above the price."""
    cases: list[tuple[type[Minimizer], ConvexLoss, tuple[str, ...]]] = [
        (OutputPerturbation, Ridge(features=["a"], label="y", ridge=0.5, radius=1), ("a", "y")),
        (OutputPerturbation, Logistic(features=["b"], label="y", ridge=0.5, radius=1), ("b", "y")),
        (RidgeGLM, Logistic(features=["b"], label="y", radius=1), ("b", "y")),
        (RidgeGLM, Huber(features=["b"], label="y", radius=1), ("b", "y")),
        (RidgeGLM, Hinge(features=["b"], label="y", radius=1), ("b", "y")),
        (SufficientStatistics, Squared(features=["a"], label="y"), ("a", "y")),
        (UnconstrainedGLM, Logistic(features=["b"], label="y", radius=1), ("b", "y")),
        (UnconstrainedGLM, Quantile(features=["b"], label="y", radius=1), ("b", "y")),
        (RidgeGLM, Multinomial(features=["b"], label="a", radius=1), ("a", "b")),
        (PhasedERM, Hinge(features=["b"], label="y", radius=1, width=0), ("b", "y")),
        (PhasedERM, Poisson(features=["b"], label="a", radius=1, cap=None), ("a", "b")),
        (PhasedERM, Multinomial(features=["b"], label="a", radius=1, ridge=0.5), ("a", "b")),
        (PhasedERM, Margin(features=["b"], label="a", radius=1, slopes=[(0, -0.2), (0, 0.8)]), ("a", "b")),
    ]
    for kind, loss, names in cases:
        for neighbours in ("replace-one", "add-remove"):
            minimizer = declared(kind, loss, neighbours)
            assert worst_loss(minimizer, neighbours, names) <= float(minimizer.price().rho), (kind, loss)


def check_sufficient_statistics() -> None:
    """Each of the three sums stays within its own share, and the first two attain it."""
    loss = Squared(features=["b"], label="y", intercept=False)
    minimizer = declared(SufficientStatistics, loss)
    assert isinstance(minimizer, SufficientStatistics)
    largest = np.zeros(3)
    for left, right in neighbouring("replace-one", ("b", "y")):
        pairs = zip(before_noise(minimizer, left), before_noise(minimizer, right), strict=True)
        largest = np.maximum(largest, [float(np.linalg.norm(x - y)) for (x, _), (y, _) in pairs])
    limits = [math.sqrt(float(s.l2_squared)) for s in minimizer.sensitivities]
    assert np.all(largest <= limits)
    assert largest[1] >= TIGHT * limits[1]


def check_gradient_sums() -> None:
    """At any parameters one record moves the clipped sum by at most 2 (1), even if the loss understates its slope."""
    generator = np.random.default_rng(4)
    two = Logistic(features=["a"], label="y", radius=3), Multinomial(features=["b"], label="a", radius=3)
    for loss, neighbours in itertools.product(two, ("replace-one", "add-remove")):
        minimizer = declared(NoisyGradientDescent, loss, neighbours)
        assert isinstance(minimizer, NoisyGradientDescent)
        names, size = minimizer.problem.attributes, minimizer.problem.dimension
        limit = math.sqrt(float(minimizer.noise.price(minimizer.sensitivity).rho * 2)) * float(minimizer.noise.sigma)
        thetas = [np.zeros(size), *(generator.normal(size=size) * 3 for _ in range(3))]
        worst = 0.0
        for bound in (minimizer.problem.lipschitz, minimizer.problem.lipschitz / 3):
            known: dict[tuple[Row, ...], list[np.ndarray]] = {}
            for pair in neighbouring(neighbours, names):
                for rows in pair:
                    if rows not in known:
                        risk = TensorRisk(minimizer.problem, source(rows).marginal(names))
                        known[rows] = [module.clipped_sum(risk, theta, bound) for theta in thetas]
                moves = [float(np.linalg.norm(x - y)) for x, y in zip(known[pair[0]], known[pair[1]], strict=True)]
                worst = max(worst, *moves)
        assert TIGHT * limit <= worst <= limit


def check_descent_by_quadrature() -> None:
    """Two adaptive rounds in one dimension: the Renyi divergence of the whole transcript, by numerical integration."""
    loss = Logistic(features=["b"], label="y", radius=2, intercept=False)
    minimizer = declared(NoisyGradientDescent, loss, rho=0.5)
    assert isinstance(minimizer, NoisyGradientDescent)
    object.__setattr__(minimizer, "rounds", 2)
    sigma, problem = float(minimizer.noise.sigma), minimizer.problem
    grid = np.linspace(-SIZE - 9 * sigma, SIZE + 9 * sigma, 241)
    width = grid[1] - grid[0]
    after = [np.clip(-minimizer._step(1) * y * problem.lipschitz / SIZE, -problem.radius, problem.radius) for y in grid]

    def density(rows: tuple[Row, ...]) -> np.ndarray:
        risk = TensorRisk(problem, source(rows).marginal(("b", "y")))
        first = module.clipped_sum(risk, np.zeros(1), problem.lipschitz)[0]
        second = np.array([module.clipped_sum(risk, np.array([t]), problem.lipschitz)[0] for t in after])
        # log densities, then shared normalisation
        return -((grid - first) ** 2)[:, None] / (2 * sigma**2) - (grid[None, :] - second[:, None]) ** 2 / (
            2 * sigma**2
        )

    extremes = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    for kept in [(e, e) for e in extremes]:
        for one, other in itertools.combinations(extremes, 2):
            left, right = density((*kept, one)), density((*kept, other))
            for order in (1.5, 4.0):
                total = np.exp(order * left + (1 - order) * right).sum() * width**2 / (2 * math.pi * sigma**2)
                assert math.log(total) / (order - 1) <= order * float(minimizer.price().rho) * (1 + 1e-6)


def check_excess_risk() -> None:
    """The integer that noise is added to moves by at most its stated sensitivity; the whole of it is nearly reached.

    In the loss' own range, and in the smallest unit that its parameters allow.
    """
    grid = FINE
    losses: list[tuple[ConvexLoss, float]] = [
        (Squared(features=["b"], label="y", radius=1), 0.0),
        (Logistic(features=["b"], label="y", radius=2), 0.0),
        (MeanVector(features=["b"]), 0.0),
        (Logistic(features=["b"], label="y", radius=2), 0.1),
        (Hinge(features=["b"], label="y", radius=1, width=0, intercept=False), 0.2),
        # linear: one record moves the minimiser across the ball, and the excess by twice the range
        (Margin(features=["b"], label="y", radius=1, intercept=False, slopes={0: [(0, 1)], 1: [(0, -1)]}), 0.0),
    ]
    worst = {"replace-one": 0.0, "add-remove": 0.0}
    for (loss, hidden), share, neighbours in itertools.product(losses, (1.0, 0.3), worst):
        problem = loss.on(DOMAIN)
        unit = np.zeros(problem.dimension)
        unit[-1] = problem.radius * share
        for theta, smallest in itertools.product((unit, -unit), (False, True)):
            scale = least_scale(problem, theta, neighbours) if smallest else problem.scale
            statistic = ExcessRisk((loss,), (theta,), (scale,), DOMAIN, 2 * SIZE, hidden=hidden)
            limit = math.ceil(statistic.sensitivity(neighbours).l1 * grid)
            known: dict[tuple[Row, ...], int] = {}
            for pair in neighbouring(neighbours, problem.attributes):
                for rows in pair:
                    if rows not in known:
                        known[rows] = int(statistic.evaluate(source(rows), 1))
                moved = abs(known[pair[0]] - known[pair[1]])
                assert moved <= limit
                worst[neighbours] = max(worst[neighbours], moved / limit)
    assert min(worst.values()) >= TIGHT


def sampled(minimizer: Minimizer, rows: tuple[Row, ...], samples: int) -> np.ndarray:
    """First coordinates of fresh releases, through the curator as in production."""
    table = Table(source(rows), DOMAIN, records=len(rows))
    curator = Curator(table, Ledger.memory(Budget(rho=10**5), table.identity))
    return np.array([float(curator.minimize(minimizer).values[0][0]) for _ in range(samples)])


def check_sampled_audit() -> None:
    """Outputs on two worst-case neighbours cannot be told apart better than two Gaussians sqrt(2 rho) apart."""
    loss = MeanVector(features=["b"], radius=50)
    minimizer = declared(OutputPerturbation, loss, rho=0.25)
    high, low = ((0, 1, 0),) * SIZE, ((0, 1, 0),) * (SIZE - 1) + ((0, 0, 0),)
    cut = 1 - 1 / SIZE
    count = SAMPLES
    hits = [int((sampled(minimizer, rows, count) > cut).sum()) for rows in (high, low)]
    # one-sided Clopper-Pearson bounds, then the separation they prove
    sure = beta.ppf(CONFIDENCE, hits[0], count - hits[0] + 1) if hits[0] else 0.0
    most = beta.ppf(1 - CONFIDENCE, hits[1] + 1, count - hits[1]) if hits[1] < count else 1.0
    normal = NormalDist()
    proven = normal.inv_cdf(max(sure, 1e-12)) - normal.inv_cdf(min(most, 1 - 1e-12))
    assert proven <= math.sqrt(2 * float(minimizer.price().rho))


CHECKS: list[Callable[[], None]] = [
    check_output_perturbation,
    check_phases,
    check_imperfect_solver,
    check_other_losses,
    check_sufficient_statistics,
    check_gradient_sums,
    check_descent_by_quadrature,
    check_excess_risk,
    check_sampled_audit,
]
