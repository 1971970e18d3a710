"""Parts that private minimisers share: exact sums on the grid, sensitivities, and minima with a guaranteed gap.

Trusted code. A minimum is computed by a method whose error after a number of steps is known in advance (spec 8.2), and
all of these steps are taken on every table: gap, number of steps and the work of each step are public. No loop stops
early, because the duration of a paid call is visible to the analyst (docs/threat-model.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.mechanisms.noise import Gaussian, Sensitivity, root_above
from reticent.kernel.table import QUERY_GRID, CountSource, most_records
from reticent.losses.public import Problem
from reticent.losses.risk import LARGEST_TENSOR, QuadraticRisk, Risk, TensorRisk

GRID = QUERY_GRID
"""Steps per record of every released sum."""
LOCATED = Fraction(1, 64)
"""How far the solver may stop from the exact minimiser, as a share of what one record moves it."""
ROUNDED = Fraction(1, 8)
"""How high a kink is rounded off, as a share of the error that noise or a ridge brings anyway."""
MOST_STEPS = 1_000_000
"""Steps of the guaranteed method; a loss that needs more is refused by its public bounds."""
MOST_WORK = 2**32
"""Cells that one paid call may visit in all of its steps, about a minute; what needs more is refused unpaid."""
SQUARINGS = 64
"""Of a matrix with two eigenvalues a 2^-64 part apart no float64 routine could tell them apart either."""
LISTED = 2**20
"""Numbers of all cells' features up to which they are listed for compiled descent."""
GROWING = -1.0
"""Stands for a momentum of k / (k + 3) in step k."""
STEP_CELLS = 2**11
"""What a step costs for each block of features beside its cells, in cells: interpreted code and small arrays."""


def records_moved(neighbours: str) -> int:
    """The number of records' contributions that one person changes (spec 1.1)."""
    return 2 if neighbours == "replace-one" else 1


def refuse_wide(problem: Problem, *, tensor: bool = False) -> None:
    """Refuse a loss whose marginal has too many cells, a public number; a quadratic loss needs only pairs."""
    cells = _cells(problem) * problem.outputs
    if cells > LARGEST_TENSOR and (tensor or not problem.loss.quadratic):
        names = ", ".join(problem.attributes)
        raise QueryError(f"a loss over {names} spans {cells} cells; at most {LARGEST_TENSOR}: use fewer features")


def longest_sum(problem: Problem, *, tensor: bool = False) -> int:
    """The number of float additions through which a record enters any entry of a sum (docs/proofs/float-sums.md)."""
    design = problem.design
    cells, blocks = design.domain.cells, [block.attributes for block in design.blocks]
    if tensor or not problem.loss.quadratic:
        # `TensorRisk.gather` sums one attribute after the other, then over the codes of a block.
        return sum(design.shape) + max(map(cells, blocks)) + design.dimension
    sets = [*blocks, () if design.label is None else (design.label,)]
    # `block_product` sums over one block's codes, then the other's; where they share an attribute, over all at once.
    pairs = combinations_with_replacement(sets, 2)
    return max(cells(a) + cells(b) if {*a}.isdisjoint(b) else cells({*a, *b}) for a, b in pairs) + design.dimension


def float_slack(roundings: int, records: float) -> Fraction:
    """Twice a bound on the error of a float64 sum over records of vectors of norm at most one, in records.

    For the largest table that can be loaded, independent of the declared or released number
    (docs/proofs/float-sums.md).
    """
    return Fraction(math.ceil(8 * (roundings + 64) * most_records(records)), 2**52)


def sum_sensitivity(units: Fraction, dimension: int, slack: Fraction) -> Sensitivity:
    """The sensitivity of a vector moved by `units` in L2 and rounded to the grid entry by entry: two roundings differ
    by one step each.
    """
    side = root_above(Fraction(dimension))
    l2 = units + side / GRID + slack
    return Sensitivity(l1=side * l2, l2_squared=l2**2)


def sums_on_grid(values: np.ndarray) -> np.ndarray:
    """Float sums as exact grid integers; finite by construction, clipped so that no row can raise an error."""
    return np.rint(np.clip(values * GRID, -(2.0**62), 2.0**62)).astype(np.int64)


def noisy(values: np.ndarray, noise: Gaussian) -> np.ndarray:
    """A vector in records plus exact noise on its grid."""
    return noise.release(sums_on_grid(values), GRID) / GRID


def counted_risk(problem: Problem, source: CountSource, person_grid: int, divisor: float) -> Risk:
    """The sum over records of the loss without its ridge, divided by a public number; the ridge is added undivided."""
    if problem.loss.quadratic:
        return QuadraticRisk.of_marginals(problem, source.marginals, person_grid * divisor)
    return TensorRisk(problem, source.marginal(problem.attributes) / (person_grid * divisor))


def clipped_sum(risk: TensorRisk, theta: np.ndarray, limit: float) -> np.ndarray:
    """The sum over records of their gradients, each clipped to norm `limit`, in units of `limit`."""
    slopes = risk.slopes(theta)
    sizes = np.sqrt(np.square(slopes).sum(axis=0)) * np.sqrt(risk.feature_squares())
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shrink = np.where(sizes > limit, limit / sizes, 1.0)
    return risk.gather(slopes * shrink / limit)


class Tethered:
    """A risk plus `extra/2 |theta - centre|^2`."""

    def __init__(self, risk: Risk, extra: float, centre: np.ndarray | None = None) -> None:
        self.problem, self.risk, self.extra = risk.problem, risk, extra
        self.centre = np.zeros(risk.problem.dimension) if centre is None else centre

    def value(self, theta: np.ndarray) -> float:
        away = theta - self.centre
        return self.risk.value(theta) + self.extra / 2 * float(away @ away)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return self.risk.gradient(theta) + self.extra * (theta - self.centre)

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        return self.risk.hessian(theta) + self.extra * np.eye(len(theta))


def into_ball(theta: np.ndarray, radius: float) -> np.ndarray:
    """The nearest point of the ball; multiplied by exactly one if it lies within."""
    return theta * (radius / max(float(np.linalg.norm(theta)), radius))


@dataclass(frozen=True)
class Descent:
    """A public number of steps of accelerated projected descent from the centre of a ball."""

    radius: float
    smoothness: float
    steps: int
    momentum: float


def guaranteed_minimum(risk: Risk, descent: Descent) -> np.ndarray:
    """theta in the ball, as close to the minimum as `descent` guarantees. All of its steps are taken.

    It is compiled if the list of all cells is short, by public facts.
    """
    problem, own = risk.problem, risk.risk if isinstance(risk, Tethered) else risk
    size = problem.dimension if isinstance(own, QuadraticRisk) else _cells(problem)
    ball, taken = (descent.smoothness, descent.radius), (descent.steps, descent.momentum)
    if size * problem.dimension <= LISTED:
        # Imported late, because it imports Numba.
        from reticent.kernel.minimizers import descent as kernels

        if isinstance(own, QuadraticRisk):
            still = np.zeros(problem.dimension)
            return kernels.descend_quadratic(risk.hessian(still), risk.gradient(still), ball, *taken)
        slopes = kernels.compiled(problem.loss, problem.design.label_choices)
        if isinstance(own, TensorRisk) and slopes is not None:
            ridge, drift = problem.strong_convexity, np.zeros(problem.dimension)
            if isinstance(risk, Tethered):
                ridge, drift = ridge + risk.extra, -risk.extra * risk.centre
            features, weights, labels = own.listed()
            if slopes.kind == kernels.CLASSES:
                return kernels.descend_classes(features, weights, ridge, drift, ball, *taken)
            return kernels.descend_cells(features, weights, labels, slopes, ridge, drift, ball, *taken)
    theta = ahead = np.zeros(problem.dimension)
    for k in range(descent.steps):
        there = into_ball(ahead - risk.gradient(ahead) / descent.smoothness, descent.radius)
        ahead = there + (k / (k + 3) if descent.momentum == GROWING else descent.momentum) * (there - theta)
        theta = there
    return theta


def descends_compiled(problem: Problem) -> bool:
    """Whether compiled descent on a list of all cells is used for this loss, by public facts."""
    return _cells(problem) * problem.dimension <= LISTED and problem.outputs == 1


def _cells(problem: Problem) -> int:
    return problem.design.domain.cells(problem.attributes)


@dataclass(frozen=True)
class Shape:
    """Bounds of a smooth convex risk on the ball over which it is minimised; `convexity` may be 0."""

    radius: float
    lipschitz: float
    smoothness: float
    convexity: float

    def heavier(self, ratio: float) -> Shape:
        """The same with the records' part multiplied, because the true number of records may exceed the divisor."""
        smoothness = (self.smoothness - self.convexity) * max(1.0, ratio) + self.convexity
        return replace(self, lipschitz=self.lipschitz * max(1.0, ratio), smoothness=smoothness)

    def to_distance(self, distance: float) -> Descent:
        """A descent that ends within `distance` of the unique minimiser over the ball, with constant momentum.

        convexity/2 |theta - best|^2 <= (1 - sqrt(convexity/smoothness))^k (excess at 0 + convexity/2 R^2) (Nesterov
        2018, Thm 2.2.3, projected).
        """
        return self._linear(self.convexity * distance**2 / 2)

    def to_gap(self, gap: float) -> Descent:
        """A descent that ends at most `gap` above the minimum over the ball, by the known rate with fewer steps.

        Growing momentum: excess <= 2 smoothness R^2 / (k + 1)^2 (Beck and Teboulle 2009).
        """
        steps = max(1, math.ceil(math.sqrt(2 * self.smoothness * self.radius**2 / gap)))
        plain = Descent(self.radius, self.smoothness, steps, GROWING)
        if self.convexity == 0:
            return plain
        linear = self._linear(gap)
        return linear if linear.steps < plain.steps else plain

    def _linear(self, gap: float) -> Descent:
        rate = math.sqrt(self.convexity / self.smoothness)
        start = self.lipschitz * self.radius + self.convexity * self.radius**2
        steps = math.ceil(max(1.0, math.log(start / gap) / rate))
        return Descent(self.radius, self.smoothness, steps, (1 - rate) / (1 + rate))


def located_minimum(risk: Risk, shape: Shape, distance: float) -> np.ndarray:
    """theta within `distance` of the unique minimiser over the ball of a strongly convex risk."""
    return guaranteed_minimum(risk, shape.to_distance(distance))


def located_sensitivity(
    shape: Shape, neighbours: str, dimension: int, slack: Fraction, records: Fraction
) -> Sensitivity:
    """The sensitivity of a located minimiser, in units of the effect of one added record, on the grid.

    It is the true movement, twice the solver's distance, and float errors of the gradient times 1/convexity. Theta
    itself is a float: rounding it shifts the gradient by smoothness * radius * 2^-53.
    """
    bent = max(1.0, shape.smoothness * shape.radius / shape.lipschitz)
    placed = Fraction(math.ceil(8 * bent * most_records(float(records))), 2**52)
    units = records_moved(neighbours) + 2 * LOCATED + slack + placed
    return sum_sensitivity(units, dimension, Fraction(1, GRID))


def weight_class(neighbours: str, weight: int, person_grid: int, records: Fraction) -> int:
    """A power of two that is at least the true number of records divided by the divisor.

    Under replace-one, neighbours hold equally many records, at most the declared number: 1. Under add-remove the
    divisor is a released number, which the true number exceeds about every second time: 2. It is larger only if too few
    records were declared, or if the released number is less than half of the true one.
    """
    least = 1 if neighbours == "replace-one" else 2
    whole = math.ceil(Fraction(weight, person_grid) / records)
    return max(least, 1 << max(0, whole - 1).bit_length())


def smallest_eigenvalue(matrix: np.ndarray) -> float:
    """The smallest eigenvalue of a symmetric matrix, by a fixed number of squarings; a library routine would iterate
    until convergence.

    The power 2^64 of `top - matrix` is the projection on the corresponding eigenvectors; the error of the quotient of
    its longest column is the square of the remaining part of other eigenvectors (docs/proofs/sufficient-statistics.md).
    """
    # Twice the largest row sum, so that all eigenvalues of `turned` lie between top/2 and 3 top/2.
    top = 2 * float(np.abs(matrix).sum(axis=1).max()) + 1.0
    turned = top * np.eye(len(matrix)) - matrix
    power = turned / top
    for _ in range(SQUARINGS):
        power = power @ power
        power = (power + power.T) / (2 * float(np.abs(power).max()))
    column = power[:, int(np.argmax(np.square(power).sum(axis=0)))]
    return top - float(column @ turned @ column) / float(column @ column)


def refuse_slow(steps: int) -> None:
    """Refuse a guarantee that would need more steps than `MOST_STEPS`."""
    if steps > MOST_STEPS:
        raise QueryError(
            f"a guaranteed minimum would take {steps} steps; at most {MOST_STEPS}: use a smaller radius, a ridge or a"
            " wider kink"
        )


def step_work(problem: Problem, *, tensor: bool = False) -> int:
    """Cells that one gradient visits: those of the loss' own marginal, or entries of its matrix of second moments."""
    design = problem.design
    cells = problem.dimension**2 if problem.loss.quadratic and not tensor else _cells(problem) * problem.outputs
    return cells + STEP_CELLS * len(design.blocks) * problem.outputs


def refuse_long(work: int) -> None:
    """Refuse what would visit more than `MOST_WORK` cells, on any table."""
    if work > MOST_WORK:
        raise QueryError(
            f"this would visit {work} cells in all of its steps; at most {MOST_WORK}: use fewer or coarser features, a"
            " smaller radius, or ask for more error"
        )


def chi_square_reach(dimension: float, failure: float) -> float:
    """P(sum of `dimension` squared standard normals > reach) <= failure (Laurent and Massart 2000)."""
    t = math.log(1 / failure)
    return dimension + 2 * math.sqrt(dimension * t) + 2 * t
