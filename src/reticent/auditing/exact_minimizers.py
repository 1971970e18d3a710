"""Private minimisers without sampling: what is released moves no further than its price assumes, on every neighbour."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from reticent.auditing.tables import DOMAIN, RECORDS, Counts, every_pair, four_cell_table
from reticent.kernel.mechanisms.noise import Sensitivity
from reticent.kernel.minimizers import families as kernel
from reticent.kernel.table import Neighbours, exact_counts
from reticent.losses.losses import ConvexLoss, Logistic, MeanVector, Squared
from reticent.losses.risk import TensorRisk

BOTH: tuple[Neighbours, ...] = ("replace-one", "add-remove")
THETAS = (np.zeros(2), np.array([3.0, 0.0]), np.array([-1.0, 2.0]))
UNDERSTATED = (1.0, 1 / 3)
"""Shares of a loss' true Lipschitz bound: the gradients of a loss that understates its own must be clipped."""
PRECISE = 1e-6
"""Of one record's move: how near the exact minimum is sought here."""


def gradient_sums() -> str:
    """One record moves a sum of clipped gradients by no more than descent pays for, at any parameters."""
    for neighbours in BOTH:
        loss = Logistic(features=["a"], label="b", radius=3)
        minimizer = kernel.NoisyGradientDescent(loss, DOMAIN, **_public(neighbours))
        for share in UNDERSTATED:
            sums = partial(_gradients, minimizer, share * minimizer.problem.lipschitz)
            if far := _further(neighbours, sums, [minimizer.sensitivity] * len(THETAS)):
                return f"a sum of gradients {far}"
    return ""


def _gradients(minimizer: kernel.NoisyGradientDescent, limit: float, counts: Counts) -> list[np.ndarray]:
    risk = TensorRisk(minimizer.problem, minimizer.fetch(exact_counts(four_cell_table(counts)), 1))
    return [kernel.clipped_sum(risk, theta, limit) for theta in THETAS]


def located_minima() -> str:
    """One record moves the minimiser, and a solver that stops early twice more, by no more than is paid for."""
    early = 2 * (float(kernel.LOCATED) - PRECISE)
    for neighbours in BOTH:
        minimizer = kernel.OutputPerturbation(MeanVector(features=["b"]), DOMAIN, **_public(neighbours))
        if far := _further(neighbours, partial(_minimum, minimizer), [minimizer.sensitivity], early):
            return f"a minimum {far}"
    return ""


def _minimum(minimizer: kernel.OutputPerturbation, counts: Counts) -> list[np.ndarray]:
    risk, ratio = minimizer.fetch(exact_counts(four_cell_table(counts)), 1)
    found = kernel.located_minimum(risk, minimizer.shape.heavier(ratio), PRECISE * minimizer.unit)
    return [found / minimizer.unit]


def phased_minima() -> str:
    """One record moves the minima of all phases, from whatever public points, by no more than is paid for."""
    loss = MeanVector(features=["b"], radius=50)
    for neighbours in BOTH:
        minimizer = kernel.PhasedERM(loss, DOMAIN, **_public(neighbours))
        at = cache(partial(_phases, minimizer))
        paid = float(minimizer.price().rho)
        for first, second in every_pair(neighbours):
            moves = [float(np.linalg.norm(a - b)) for a, b in zip(at(first), at(second), strict=True)]
            spent = math.fsum(m**2 / (2 * float(n.sigma) ** 2) for m, n in zip(moves, minimizer.noises, strict=True))
            if spent > paid:
                return f"phases spend {spent:.4f} of rho, priced for {paid:.4f}"
    return ""


def _phases(minimizer: kernel.PhasedERM, counts: Counts) -> list[np.ndarray]:
    exact = minimizer.fetch(exact_counts(four_cell_table(counts)), 1)
    centres = [np.full(minimizer.problem.dimension, 0.1 * phase) for phase in range(minimizer.phases)]
    return [minimizer.located(exact, phase, centre) for phase, centre in enumerate(centres)]


def second_moments() -> str:
    """One record moves each released moment by no more than its own share pays for."""
    loss: ConvexLoss = Squared(features=["a"], label="b", intercept=False)
    for neighbours in BOTH:
        minimizer = kernel.SufficientStatistics(loss, DOMAIN, **_public(neighbours))
        if far := _further(neighbours, partial(_moments, minimizer), minimizer.sensitivities):
            return f"a moment {far}"
    return ""


def _moments(minimizer: kernel.SufficientStatistics, counts: Counts) -> list[np.ndarray]:
    gram, cross = minimizer.fetch(exact_counts(four_cell_table(counts)), 1)
    return [gram, cross, np.linalg.eigvalsh(gram)[:1]]


def _public(neighbours: Neighbours) -> dict[str, Any]:
    return {"neighbours": neighbours, "records": RECORDS, "rho": 1}


def _further(
    neighbours: Neighbours, sums: Callable[[Counts], list[np.ndarray]], paid: Sequence[Sensitivity], more: float = 0.0
) -> str:
    """How a released vector moves further between two neighbours than was paid for, if it does."""
    at = cache(sums)
    for first, second in every_pair(neighbours):
        for left, right, sensitivity in zip(at(first), at(second), paid, strict=True):
            moved, limit = float(np.linalg.norm(left - right)) + more, math.sqrt(float(sensitivity.l2_squared))
            if moved > limit:
                return f"moves by {moved:.4f}, priced for {limit:.4f}"
    return ""
