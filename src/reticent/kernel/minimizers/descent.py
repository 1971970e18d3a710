"""Compiled accelerated descent on cells or second moments, with the same number of operations on every table.

Sums are compensated (Kahan), so that their error does not grow with the number of cells (docs/proofs/float-sums.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from reticent.losses.base import ConvexLoss
from reticent.losses.losses import Logistic, MeanVector, Poisson, Ridge, Squared
from reticent.losses.multinomial import Multinomial
from reticent.losses.ramps import RampLoss

LOGISTIC, POISSON, RAMPS, CLASSES, SQUARED, MEAN = 0, 1, 2, 3, 4, 5
Ball = tuple[float, float]
"""Smoothness of the risk on it, and its radius."""
SUBNORMAL = 600.0
"""Exponents are cut there, as in `losses`: what is cut off is below any rounding."""


class Slopes(NamedTuple):
    """A loss as compiled code sees it: its kind, the margin at which a Poisson loss becomes linear, and ramps.

    Slopes are those of `losses`, repeated here; a test compares them.
    """

    kind: int
    top: float
    starts: np.ndarray
    """`[label]`."""
    ramps: np.ndarray
    """`[label, ramp, (centre, width, rise)]`."""


def compiled(loss: ConvexLoss, labels: np.ndarray) -> Slopes | None:
    """The compiled form of a loss; None for losses that only NumPy implements."""
    none = np.zeros(len(labels)), np.zeros((len(labels), 0, 3))
    if isinstance(loss, Logistic):
        return Slopes(LOGISTIC, 0.0, *none)
    if isinstance(loss, Poisson):
        return Slopes(POISSON, min(loss.top, SUBNORMAL), *none)
    if isinstance(loss, Multinomial):
        return Slopes(CLASSES, 0.0, *none)
    if isinstance(loss, (Squared, Ridge)):
        return Slopes(SQUARED, 0.0, *none)
    if isinstance(loss, MeanVector):
        return Slopes(MEAN, 0.0, *none)
    if isinstance(loss, RampLoss):
        found = loss.ramps(labels)
        table = np.stack([found.centres, found.widths, found.rises], axis=-1)
        return Slopes(RAMPS, 0.0, np.ascontiguousarray(found.start), np.ascontiguousarray(table.swapaxes(0, 1)))
    return None


@njit(cache=True, nogil=True, inline="always")
def _slope(slopes: Slopes, margin: float, small: float, label: float, place: int) -> float:
    """f' at this margin for the label at this place; `small` is exp(-abs(margin))."""
    if slopes.kind == LOGISTIC:
        return (1.0 if margin >= 0 else small) / (1.0 + small) - (1.0 if label > 0 else 0.0)
    if slopes.kind == POISSON:
        return math.exp(min(margin, slopes.top)) - label
    if slopes.kind == SQUARED:
        return 2.0 * (margin - label)
    if slopes.kind == MEAN:
        return -label
    total = slopes.starts[place]
    for ramp in range(slopes.ramps.shape[1]):
        away, width = margin - slopes.ramps[place, ramp, 0], slopes.ramps[place, ramp, 1]
        share = min(max(away / width + 0.5, 0.0), 1.0) if width > 0 else (1.0 if away > 0 else 0.0)
        total += slopes.ramps[place, ramp, 2] * share
    return total


@njit(cache=True, nogil=True, inline="always")
def _step(path: np.ndarray, gradient: np.ndarray, ball: Ball, push: float) -> None:
    """A step against the gradient, projected into the ball, plus `push` times the last step. `path` holds theta, the
    point ahead, and scratch space.
    """
    square = 0.0
    for column in range(len(gradient)):
        path[2, column] = path[1, column] - gradient[column] / ball[0]
        square += path[2, column] * path[2, column]
    shrink = ball[1] / max(math.sqrt(square), ball[1])
    for column in range(len(gradient)):
        there = path[2, column] * shrink
        path[1, column] = there + push * (there - path[0, column])
        path[0, column] = there


@njit(cache=True, nogil=True, inline="always")
def _add(total: np.ndarray, lost: np.ndarray, place: int, number: float) -> None:
    """Kahan's sum."""
    term = number - lost[place]
    grown = total[place] + term
    lost[place] = (grown - total[place]) - term
    total[place] = grown


@njit(cache=True, nogil=True, inline="always")
def _tethered(total: np.ndarray, path: np.ndarray, ridge: float, drift: np.ndarray) -> None:
    for column in range(len(total)):
        total[column] += ridge * path[1, column] + drift[column]


@njit(cache=True, nogil=True)
def descend_cells(
    features: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    slopes: Slopes,
    ridge: float,
    drift: np.ndarray,
    ball: Ball,
    steps: int,
    momentum: float,
) -> np.ndarray:
    """`features[cell, column]`, `weights[label, cell]`; `momentum` below 0 grows as k / (k + 3).

    The risk has the additional term `ridge/2 |theta|^2 + <drift, theta>`.
    """
    cells, dimension = features.shape
    path, total, lost = np.zeros((3, dimension)), np.zeros(dimension), np.zeros(dimension)
    for k in range(steps):
        total[:], lost[:] = 0.0, 0.0
        for cell in range(cells):
            margin = 0.0
            for column in range(dimension):
                margin += features[cell, column] * path[1, column]
            small = math.exp(-min(abs(margin), SUBNORMAL))
            pull = 0.0
            for place in range(len(labels)):
                pull += weights[place, cell] * _slope(slopes, margin, small, labels[place], place)
            for column in range(dimension):
                _add(total, lost, column, pull * features[cell, column])
        _tethered(total, path, ridge, drift)
        _step(path, total, ball, momentum if momentum >= 0 else k / (k + 3))
    return path[0]


@njit(cache=True, nogil=True)
def descend_classes(
    features: np.ndarray, weights: np.ndarray, ridge: float, drift: np.ndarray, ball: Ball, steps: int, momentum: float
) -> np.ndarray:
    """The same for multinomial loss: a margin for each row of `weights`."""
    cells, columns = features.shape
    classes = len(weights)
    size = classes * columns
    path, total, lost, chances = np.zeros((3, size)), np.zeros(size), np.zeros(size), np.zeros(classes)
    for k in range(steps):
        total[:], lost[:] = 0.0, 0.0
        for cell in range(cells):
            top, mass = -math.inf, 0.0
            for place in range(classes):
                margin = 0.0
                for column in range(columns):
                    margin += features[cell, column] * path[1, place * columns + column]
                chances[place] = margin
                top = max(top, margin)
            grown = 0.0
            for place in range(classes):
                chances[place] = math.exp(max(chances[place] - top, -SUBNORMAL))
                grown += chances[place]
                mass += weights[place, cell]
            for place in range(classes):
                pull = mass * chances[place] / grown - weights[place, cell]
                for column in range(columns):
                    _add(total, lost, place * columns + column, pull * features[cell, column])
        _tethered(total, path, ridge, drift)
        _step(path, total, ball, momentum if momentum >= 0 else k / (k + 3))
    return path[0]


@njit(cache=True, nogil=True)
def descend_quadratic(hessian: np.ndarray, start: np.ndarray, ball: Ball, steps: int, momentum: float) -> np.ndarray:
    """The same on a quadratic, by its Hessian and its gradient at 0."""
    path, total = np.zeros((3, len(start))), np.zeros(len(start))
    for k in range(steps):
        for row in range(len(start)):
            total[row] = start[row]
            for column in range(len(start)):
                total[row] += hessian[row, column] * path[1, column]
        _step(path, total, ball, momentum if momentum >= 0 else k / (k + 3))
    return path[0]


LARGEST, SMALLEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@njit(cache=True, nogil=True, inline="always")
def _saturated(value: int, noise: int) -> int:
    """value + noise as if in unbounded integers, then clamped."""
    total = value + noise
    if ((value ^ total) & (noise ^ total)) < 0:
        total = LARGEST if noise > 0 else SMALLEST
    return total


@njit(cache=True, nogil=True)
def descend_noisily(
    features: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    slopes: Slopes,
    norms: np.ndarray,
    noise: np.ndarray,
    grid: int,
    limit: float,
    records: float,
    ridge: float,
    smoothness: float,
    radius: float,
) -> np.ndarray:
    """`NoisyGradientDescent.release`, one round for each row of `noise`: integers on the grid, drawn beforehand.

    `norms` are those of the cells' features. All rounds visit all cells.
    """
    cells, dimension = features.shape
    path, mean = np.zeros(dimension), np.zeros(dimension)
    total, lost, there = np.zeros(dimension), np.zeros(dimension), np.zeros(dimension)
    weight = 0.0
    for t in range(1, len(noise) + 1):
        total[:], lost[:] = 0.0, 0.0
        for cell in range(cells):
            margin = 0.0
            for column in range(dimension):
                margin += features[cell, column] * path[column]
            small = math.exp(-min(abs(margin), SUBNORMAL))
            pull = 0.0
            for place in range(len(labels)):
                slope = _slope(slopes, margin, small, labels[place], place) / limit
                # |slope| * norm <= 1: clipped to the limit, even if the loss' bounds were wrong
                slope /= max(abs(slope) * norms[cell], 1.0)
                pull += weights[place, cell] * slope
            for column in range(dimension):
                _add(total, lost, column, pull * features[cell, column])
        step = 2.0 / (ridge * (t + 1)) if ridge > 0 else 1.0 / smoothness
        square = 0.0
        for column in range(dimension):
            exact = min(max(total[column] * grid, -(2.0**62)), 2.0**62)
            released = _saturated(int(np.rint(exact)), noise[t - 1, column]) / grid
            there[column] = path[column] - step * (released * limit / records + ridge * path[column])
            square += there[column] * there[column]
        shrink = radius / max(math.sqrt(square), radius)
        share = float(t) if ridge > 0 else 1.0
        weight += share
        for column in range(dimension):
            moved = there[column] * shrink
            mean[column] += share * (path[column] if ridge > 0 else moved)
            path[column] = moved
    return mean / weight
