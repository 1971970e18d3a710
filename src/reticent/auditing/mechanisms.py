"""Cases for each mechanism on its worst neighbours, drawn by the kernel's own objects.

Private minimisers of convex losses run on neighbours whose one changed label changes the fit most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from reticent.auditing.cases import DOMAIN, Case, Runs, four_cell_table, neighbours_far_apart
from reticent.auditing.witness import evidence_of_noise
from reticent.kernel.accounting import NANO, Budget
from reticent.kernel.curator import Curator, Noise
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace, Sensitivity
from reticent.kernel.minimizers.families import (
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    RidgeGLM,
    SufficientStatistics,
)
from reticent.kernel.statistics import MaxError, Statistic
from reticent.kernel.table import exact_counts
from reticent.losses.losses import ConvexLoss, Logistic, MeanVector, Squared
from reticent.queries.linear import Count, Marginal
from reticent.queries.predicate import col

GROUP = "mechanisms"
GRID = 8
BATCH = 20_000
SMALL_BATCHES = 40
SHORT = 16
WATCHES = 100
REPEATS = 100
"""Measurements in one event of the curator; each is one run and pays its own share."""
PLENTY = 10**6
MANY = 20
"""Candidates of a selection whose loss comes close to the pure price."""
SENSITIVITY = 8
LOW, LAST = 0, 6
"""Values of the early tests and of the last one; between the tables they move by the sensitivity, in opposite
directions.
"""
FAR = -SENSITIVITY
"""A value at which many early tests all stay below the threshold."""


def mechanism_cases() -> list[Case]:
    one = Sensitivity.scalar()
    halves, ones = (Fraction(1, 2), Fraction(2)), (Fraction(1), Fraction(1))
    return [
        Case("Laplace, many values at once", GROUP, "epsilon", _counts(Laplace(1), one, BATCH, 1)),
        Case("Laplace, single values", GROUP, "epsilon", _counts(Laplace(1), one, SHORT, SMALL_BATCHES)),
        Case("Gaussian, many values at once", GROUP, "rho", _counts(Gaussian(Fraction(1, 2)), one, BATCH, 1)),
        Case(
            "Gaussian, single values",
            GROUP,
            "rho",
            _counts(Gaussian(Fraction(1, 2)), one, SHORT, SMALL_BATCHES),
        ),
        Case("exponential mechanism, one against many", GROUP, "epsilon", _selections(Exponential(2), MANY)),
        Case("exponential mechanism, one against one", GROUP, "rho", _selections(Exponential(2), 1)),
        Case("threshold test, two-sided noise", GROUP, "epsilon", _watches(*halves, one_sided=False, early=4)),
        Case("threshold test, one-sided noise", GROUP, "epsilon", _watches(*halves, one_sided=True, early=1)),
        Case("threshold test, equal shares", GROUP, "epsilon", _watches(*ones, one_sided=True, early=1)),
        Case("threshold test, many below", GROUP, "epsilon", _watches(*halves, one_sided=False, early=8, low=FAR)),
        Case("marginal table, Laplace", GROUP, "epsilon", _marginals(Laplace(1), Budget(epsilon=PLENTY))),
        Case("marginal table, Gaussian", GROUP, "rho", _marginals(Gaussian(Fraction(3, 4)), Budget(rho=PLENTY))),
        Case("audit: largest error of cells", GROUP, "epsilon", _largest_error("cells")),
        Case("audit: largest error of boxes", GROUP, "epsilon", _largest_error("boxes")),
        Case("audit: total variation", GROUP, "epsilon", _largest_error("predicates")),
        Case("two questions, two noises", GROUP, "epsilon", _difference()),
    ]


def _counts(noise: Noise, sensitivity: Sensitivity, size: int, batches: int) -> Callable[[int], Runs]:
    """A count of 0 or 1 records, on a grid."""
    price = noise.price(sensitivity)
    charged = float(price.rho if price.pure is None else price.pure)

    def draw(table: int) -> Runs:
        counts = np.full(size, table * GRID, dtype=np.int64)
        return Runs(np.concatenate([noise.release(counts, GRID) for _ in range(batches)]).astype(float), charged)

    return draw


def _selections(mechanism: Exponential, others: int) -> Callable[[int], Runs]:
    """The first candidate's score moves in one direction, all others' in the other."""
    scores = (np.array([0] + [GRID] * others, dtype=np.int64), np.array([GRID] + [0] * others, dtype=np.int64))
    price = mechanism.price()
    charged = float(mechanism.price().rho) if others == 1 else float(price.pure or 0)

    def draw(table: int) -> Runs:
        drawn = mechanism.draw(scores[table], 1, GRID, BATCH)
        return Runs((drawn == 0).astype(float), charged)

    return draw


def _watches(
    threshold: Fraction, query: Fraction, *, one_sided: bool, early: int, low: int = LOW
) -> Callable[[int], Runs]:
    """`early` tests that move up between the tables, then one that moves down; the score says how the epoch went."""
    mechanism = AboveThreshold(threshold_epsilon=threshold, query_epsilon=query, one_sided=one_sided)
    price = mechanism.price().pure
    assert price is not None
    stock = _Stock()

    def once(table: int) -> float:
        move = SENSITIVITY if table else 0
        watch = mechanism.open(0, SENSITIVITY)
        watch.sampler = stock.of(watch.sampler)
        if any(watch.exceeds(low + move) for _ in range(early)):
            return 0.0
        return 2.0 if watch.exceeds(LAST - move) else 1.0

    return lambda table: Runs(np.array([once(table) for _ in range(WATCHES)]), float(price))


class _Stock:
    """Noise of a sampler drawn in advance; single draws cost a hundred times more."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[object, Fraction], list[int]] = {}

    def of(self, sampler: Callable[[Fraction, int], np.ndarray]) -> Callable[[Fraction, int], np.ndarray]:
        def draw(scale: Fraction, count: int) -> np.ndarray:
            drawn = self._drawn.setdefault((sampler, scale), [])
            if len(drawn) < count:
                drawn.extend(sampler(scale, BATCH).tolist())
            return np.array([drawn.pop() for _ in range(count)], dtype=np.int64)

        return draw


def _measured(
    statistic: Marginal | Statistic, noise: Noise, budget: Budget
) -> Callable[[int], tuple[list[np.ndarray], float]]:
    """One statistic, measured many times through the curator; the charge is the ledger's."""

    def measure(table: int) -> tuple[list[np.ndarray], float]:
        private = neighbours_far_apart()[table]
        ledger = Ledger.memory(identity=private.identity, budget=budget)
        settled = Curator(private, ledger).measure([statistic] * REPEATS, noise)
        return list(settled.values), ledger.spent / NANO / REPEATS

    return measure


def _marginals(noise: Noise, budget: Budget) -> Callable[[int], Runs]:
    """All cells of two attributes when one record moves from the first cell to the last."""
    first, second = (exact_counts(table).marginal(("a", "b")) for table in neighbours_far_apart())
    measure = _measured(Marginal(("a", "b")), noise, budget)

    def draw(table: int) -> Runs:
        values, charged = measure(table)
        return Runs(np.array([evidence_of_noise(noise, v, first, second) for v in values]), charged)

    return draw


def _largest_error(kind: str) -> Callable[[int], Runs]:
    """The largest error of a guess that is exact on the first table."""
    guess = exact_counts(neighbours_far_apart()[0]).marginal(("a", "b")).astype(float)
    error = MaxError(kind, (("a", "b"),), (guess,))  # pyright: ignore[reportArgumentType]
    measure = _measured(error, Laplace(1), Budget(epsilon=PLENTY))

    def draw(table: int) -> Runs:
        values, charged = measure(table)
        return Runs(np.array([float(v) for v in values]), charged)

    return draw


def _difference() -> Callable[[int], Runs]:
    """The difference of two noisy counts whose true difference changes; shared noise would reveal it exactly."""
    questions = [Count(col("a") == 0), Count(col("b") == 1)]

    def draw(table: int) -> Runs:
        private = neighbours_far_apart()[table]
        ledger = Ledger.memory(identity=private.identity, budget=Budget(epsilon=PLENTY))
        settled = Curator(private, ledger).measure(questions * REPEATS, Laplace(1))
        values = np.array([float(v) for v in settled.values]).reshape(REPEATS, 2)
        return Runs(values[:, 0] - values[:, 1], ledger.spent / NANO / REPEATS)

    return draw


MINIMIZER_GROUP = "minimisers"
RHO = 2
MINIMIZER_BATCH = 10
LABEL_CHANGED = ((2, 2, 2, 2), (2, 2, 3, 1))
"""The label `b` of one record with `a` = 1 changes: intercept and slope move in the same direction."""
OPPOSITE = ((2, 0, 0, 0), (1, 0, 0, 1))
"""One of two records moves to the other end; no mean changes more."""


def minimizer_cases() -> list[Case]:
    mean, line = MeanVector(features=["a", "b"]), {"features": ["a"], "label": "b"}
    return [
        _case("noisy gradient descent", NoisyGradientDescent, mean, OPPOSITE),
        _case("output perturbation", OutputPerturbation, mean, OPPOSITE),
        _case("sufficient statistics", SufficientStatistics, Squared(**line), LABEL_CHANGED),
        _case("ridge for a generalised linear model", RidgeGLM, Logistic(**line), LABEL_CHANGED),
    ]


def _case(name: str, kind: type[Minimizer], loss: ConvexLoss, counts: tuple[Sequence[int], Sequence[int]]) -> Case:
    minimizer = kind(loss, DOMAIN, neighbours="replace-one", records=sum(counts[0]), rho=RHO)
    tables, charged = [four_cell_table(each) for each in counts], float(minimizer.price().rho)

    def draw(table: int) -> Runs:
        exact = minimizer.fetch(exact_counts(tables[table]), 1)
        return Runs(np.array([float(minimizer.release(exact).sum()) for _ in range(MINIMIZER_BATCH)]), charged)

    return Case(name, MINIMIZER_GROUP, "rho", draw)
