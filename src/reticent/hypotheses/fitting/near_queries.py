"""A start of a fit that agrees with single queries which were measured precisely.

The objective of a fit squares what each query misses, so it is not convex: from far off, descent moves the queries that
are nearest, presses cells to nothing that others need, and stalls (ten nested ranges of a column ended a hundred
standard deviations off). The maximum-entropy problem `log Z(theta) - <theta, y> + sum sd^2 theta^2 / 2` of the same
queries is convex: at its least every query is within `sd^2 theta` of its measurement. Its parameters are those of the
queries, so its solution is a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import FitProblem

__all__ = ["CLOSE", "FAR", "near_queries"]

FAR, CLOSE = 3.0, 0.5
"""Standard deviations: a fit that starts with every query nearer than the first needs no other start, and one that ends
with every query nearer than the second is left as it is. A fit stops by what all its cells can gain together, beside
which a single query of theirs is little."""
STEPS, KEPT_STEPS = 300, 30
"""Evaluations at most, and the steps from which the curvature is learnt."""


def near_queries(problem: FitProblem, point: np.ndarray, beyond: float) -> np.ndarray:
    """Move the point to agree with the measured queries, if one of them is off by more than `beyond` standard
    deviations of its noise, and if that lowers the objective.
    """
    queries = problem.measured_queries
    if not queries:
        return point
    places = np.array([place.start for _, place in queries])
    values = np.array([measured.value for measured, _ in queries])
    sds = np.array([measured.sd for measured, _ in queries])
    if (np.abs(problem.statistics(point)[places] - values) <= beyond * sds).all():
        return point

    def dual(theta: np.ndarray) -> tuple[float, np.ndarray]:
        moved = point.copy()
        moved[places] = theta
        log_partition, marginals = problem.engine.evaluate(problem.potentials(moved))
        softness = sds**2 * theta
        slope = problem.gather(marginals)[places] - values + softness
        return log_partition - float(theta @ values) + 0.5 * float(theta @ softness), slope

    from scipy.optimize import minimize

    options = {"maxfun": STEPS, "maxiter": STEPS, "maxcor": KEPT_STEPS, "ftol": 0.0, "gtol": float(sds.min()) / 10}
    found = minimize(dual, point[places], jac=True, method="L-BFGS-B", options=options)
    moved = point.copy()
    moved[places] = found.x
    return moved if problem.value(moved) < problem.value(point) else point
