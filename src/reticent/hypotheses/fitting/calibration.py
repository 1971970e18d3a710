"""Moves heavy cells to what was measured of them, where a fit leaves them further off than noise explains.

A prior of logarithms keeps cells without records from becoming quite empty. Where thousands of them share a table with
a few hundred heavy ones, each keeps a tenth of a record, and every heavy cell lacks several, all in the same direction:
each is within its noise, their sum is fifty standard deviations off. What each of them lacks differs as well, because
the sums that tie them to each other are as far off.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log, pi, sqrt
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from reticent.hypotheses.fitting.consistent import Consistent, freedom, maximal_sets
from reticent.hypotheses.fitting.proportional import Rescaling

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import FitProblem

__all__ = ["cells_calibrated", "followed", "sums_calibrated"]

Set = tuple[str, ...]

HEAVY = 3.0
"""Standard deviations of noise at which a cell counts half as heavy."""
EXPLAINED = 3.0
"""Standard deviations by which noise may leave the sum of the heavy cells of a set off, or the sum of their squares."""
ROUNDS = 3
"""Over the sets, which move each other."""
LARGEST = 30.0
"""Of the logarithm by which heavy and light cells are moved apart."""
FAR_BELOW = -1e3
"""Standard deviations below zero from which the mean above zero is `sd / distance`, with a relative error below 1e-5;
the difference of nearly equal numbers would tell less."""
MOST_LOST = 0.5
"""Of a cell that is moved by itself: no cell is emptied by a step."""


class _Cells(NamedTuple):
    """What an engine holds of a set's cells, and how they were measured."""

    fitted: np.ndarray
    aim: np.ndarray
    sd: float
    weights: np.ndarray
    """How heavy each is: `m / (m + 3 sd)` of the fitted cell m. It follows the noise, because m does."""
    follows: np.ndarray
    """By how much a fitted cell moves with its measurement: `(m s)^2 / ((m s)^2 + sd^2)` with a prior of scale s."""

    @classmethod
    def of(cls, problem: FitProblem, names: Set, flat: np.ndarray, values: np.ndarray, sd: float) -> Self:
        place = problem.place(names)
        fitted = problem.held_marginals(flat)[place]
        assert isinstance(problem.engine, Rescaling)
        aim = problem.engine.held(place, values)
        follows = _follows(fitted, problem.measured_sets[names].scale, sd)
        return cls(fitted, aim, sd, fitted / (fitted + HEAVY * sd), follows)


class Moved(NamedTuple):
    """Parameters, and the freedom that they gained: how many measured numbers they follow beyond those that the fit
    follows at the same cells.
    """

    point: np.ndarray
    freedom: float


def sums_calibrated(problem: FitProblem, consistent: Consistent, point: np.ndarray, perturbed: float = 1.0) -> Moved:
    """The sum of the heavy cells of every set as it was measured, as far as noise tells; the same array if none is off.
    Noise is `perturbed` times as large for a replicate.
    """
    return _calibrated(problem, consistent, point, perturbed, _of_sum)


def cells_calibrated(problem: FitProblem, consistent: Consistent, point: np.ndarray, perturbed: float = 1.0) -> Moved:
    """Likewise the heavy cells one by one, their sum as it is."""
    return _calibrated(problem, consistent, point, perturbed, _of_each)


def _calibrated(
    problem: FitProblem,
    consistent: Consistent,
    point: np.ndarray,
    perturbed: float,
    multiples: Callable[[_Cells], tuple[np.ndarray, float] | None],
) -> Moved:
    flat, freedom = point, 0.0
    for _ in range(ROUNDS):
        before = flat
        for names in maximal_sets(list(problem.measured_sets)):
            values, sd = consistent.marginal(names)
            found = multiples(_Cells.of(problem, names, flat, values, sd * perturbed))
            if found is not None:
                ratio, gained = found
                flat, freedom = flat.copy(), freedom + gained
                problem.rescale(names, flat, lambda m, ratio=ratio: ratio * (m.sum() / (ratio * m).sum()))
        if flat is before:
            break
    return Moved(flat, freedom)


def followed(problem: FitProblem, point: np.ndarray) -> float:
    """How many of the measured numbers the fit follows at a point, by the cells that it has there."""
    marginals, total = problem.held_marginals(point), 0.0
    for names, term in problem.measured_sets.items():
        cells = marginals[problem.place(names)]
        total += float(_follows(cells, term.scale, term.sd).sum()) * freedom(term.values) / term.values.size
    return total


def _follows(cells: np.ndarray, scale: float, sd: float) -> np.ndarray:
    signal = np.square(cells * scale)
    return signal / (signal + sd * sd)


def _of_sum(cells: _Cells) -> tuple[np.ndarray, float] | None:
    """What cells are multiplied by, up to a factor of all, to leave the sum of the heavy ones where it is expected, and
    the one number that this follows; None if noise explains its distance, or if no multiple brings it nearer.

    By Stein's lemma the expectation of `sum w (m - y) + sd^2 sum w'(m) dm/dy`, of weights w, fitted cells m and
    measurements y, is that of the weighted error. What heavy and light cells hold together is known. The sum has
    therefore a limit, where all others are empty, and what was measured may lie beyond it. What is left to the limit is
    not negative: it is expected to be the mean of a normal law around the measured one, cut off at zero.
    """
    from scipy.optimize import brentq

    fitted, aim, sd, weights, follows = cells
    slopes = HEAVY * sd / np.square(fitted + HEAVY * sd) * follows
    excess = float((weights * (fitted - aim)).sum()) + sd * sd * float(slopes.sum())
    noise = sd * sqrt(float(np.square(weights).sum()))
    if abs(excess) <= EXPLAINED * noise:
        return None
    toward = -float(np.sign(excess))

    def held(reach: float) -> float:
        moved = fitted * np.exp(reach * toward * (weights - 1))
        return float((weights * moved).sum() / moved.sum())

    limit = held(LARGEST)
    left = _mean_above_zero(toward * (limit - held(0.0)) - abs(excess), noise)
    wanted = limit - toward * left
    if toward * (wanted - held(0.0)) <= 0:
        return None
    # Rounding leaves no room between a far limit and what is wanted.
    reach = LARGEST if toward * (limit - wanted) <= 0 else brentq(lambda reach: held(reach) - wanted, 0.0, LARGEST)
    return np.exp(float(reach) * toward * (weights - 1)), 1.0  # pyright: ignore[reportArgumentType]


def _mean_above_zero(mean: float, sd: float) -> float:
    """Of a normal law that is cut off at zero; far below zero what is left is nearly exponential."""
    from scipy.special import log_ndtr

    away = mean / sd
    if away < FAR_BELOW:
        return sd / -away
    return mean + sd * exp(-away * away / 2 - log(2 * pi) / 2 - float(log_ndtr(away)))


def _of_each(cells: _Cells) -> tuple[np.ndarray, float] | None:
    """What cells are multiplied by to bring the heavy ones to where they were measured, their sum as it is, and the
    numbers that this follows; None if noise explains their distances.

    A fitted cell that follows a share f of its measurement is expected to lie `sd (1 - f)^(1/2)` from it. Of c cells
    of weight one the sum of squared distances then varies by the root of 2 c. A cell m that is moved to `m + a (y - m)`
    follows `a (1 - f)` more of y.
    """
    fitted, aim, sd, weights, follows = cells
    squares = np.square(weights)
    excess = float((squares * (np.square((aim - fitted) / sd) - (1 - follows))).sum())
    if excess <= EXPLAINED * sqrt(2 * float(np.square(squares).sum())):
        return None
    pull = weights * follows
    step = pull * (aim - fitted)
    step -= pull * (step.sum() / pull.sum())
    lost = np.divide(step, fitted, out=np.zeros_like(fitted), where=fitted > 0)
    return 1 + np.maximum(lost, -MOST_LOST), float((pull * (1 - follows)).sum())
