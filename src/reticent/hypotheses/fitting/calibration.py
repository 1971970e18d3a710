"""Moves the sums of heavy cells to what was measured of them, where a fit leaves them further off than noise explains.

A prior of logarithms keeps cells without records from becoming quite empty. Where thousands of them share a table with
a few hundred heavy ones, each keeps a tenth of a record, and every heavy cell lacks several, all in the same direction:
each is within its noise, their sum is fifty standard deviations off.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.fitting.consistent import Consistent, maximal_sets
from reticent.hypotheses.fitting.proportional import Rescaling

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import FitProblem

__all__ = ["calibrated"]

HEAVY = 3.0
"""Standard deviations of noise at which a cell counts half as heavy."""
EXPLAINED = 3.0
"""Standard deviations by which noise may leave the sum of the heavy cells of a set off."""
ROUNDS = 3
"""Over the sets, which move each other."""
LARGEST = 30.0
"""Of the logarithm by which heavy and light cells are moved apart."""


def calibrated(problem: FitProblem, consistent: Consistent, point: np.ndarray, perturbed: float = 1.0) -> np.ndarray:
    """The parameters with the sum of the heavy cells of every set at what was measured, as far as noise tells; the same
    array if none is off.

    Weights `w = m / (m + 3 sd)` of the fitted cells m follow the noise, because m follows the measurements y. By
    Stein's lemma the expectation of `sum w (m - y) + sd^2 sum w'(m) dm/dy` is that of the weighted error, and with a
    prior of scale s a cell follows `dm/dy = (m s)^2 / ((m s)^2 + sd^2)` of its measurement. Noise is `perturbed` times
    as large for a replicate.
    """
    measured, flat = problem.measured_sets, point
    sets = maximal_sets(list(measured))
    for _ in range(ROUNDS):
        before = flat
        for names in sets:
            values, sd = consistent.marginal(names)
            tilt = _tilt(problem, names, flat, values, sd * perturbed)
            if tilt is not None:
                flat = flat.copy()
                problem.rescale(names, flat, lambda cells, tilt=tilt: tilt * (cells.sum() / (tilt * cells).sum()))
        if flat is before:
            break
    return flat


def _tilt(
    problem: FitProblem, names: tuple[str, ...], flat: np.ndarray, values: np.ndarray, sd: float
) -> np.ndarray | None:
    """What cells are multiplied by, up to a factor of all, to leave the sum of the heavy ones one deviation off; None
    if noise explains their distance, or if no multiple reaches the sum.
    """
    from scipy.optimize import brentq

    place = problem.place(names)
    cells = problem.held_marginals(flat)[place]
    assert isinstance(problem.engine, Rescaling)
    aim = problem.engine.held(place, values)
    weights = cells / (cells + HEAVY * sd)
    signal = np.square(cells * problem.measured_sets[names].scale)
    followed = HEAVY * sd / np.square(cells + HEAVY * sd) * signal / (signal + sd * sd)
    excess = float((weights * (cells - aim)).sum()) + sd * sd * float(followed.sum())
    noise = sd * sqrt(float(np.square(weights).sum()))
    if abs(excess) <= EXPLAINED * noise:
        return None
    wanted = float((weights * cells).sum()) - np.sign(excess) * (abs(excess) - noise)

    def missed(reach: float) -> float:
        moved = cells * np.exp(reach * (weights - 1))
        return float((weights * moved).sum() / moved.sum()) - wanted

    low, high = (-LARGEST, 0.0) if excess > 0 else (0.0, LARGEST)
    if missed(low) * missed(high) > 0:
        return None
    return np.exp(float(brentq(missed, low, high)) * (weights - 1))  # pyright: ignore[reportArgumentType]
