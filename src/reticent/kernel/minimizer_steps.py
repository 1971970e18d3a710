"""What private minimisers share: exact sums on the grid, their sensitivity, and minima with a guaranteed gap.

Trusted. A minimum is first sought by Newton steps, whose result is accepted only when a bound computed here says that
it is good enough; else a method runs whose error after a fixed number of steps is known in advance (spec 8.2). Either
way the guarantee is a public number; only the running time depends on rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.noise import Gaussian, Sensitivity, root_above
from reticent.kernel.table import QUERY_GRID, CountSource, most_records
from reticent.queries.minimum import linear_gap, minimum
from reticent.queries.problem import Problem
from reticent.queries.risk import LARGEST_TENSOR, QuadraticRisk, Risk, TensorRisk

GRID = QUERY_GRID
"""Steps per record of every released sum."""
MOST_STEPS = 200_000
"""Steps of the guaranteed method; a loss that needs more is refused by its public bounds."""


def moved(neighbours: str) -> int:
    """How many records' contributions one person changes (spec 1.1)."""
    return 2 if neighbours == "replace-one" else 1


def refuse_wide(problem: Problem) -> None:
    """A loss whose own marginal would be too large, by its public number of cells."""
    cells = problem.design.domain.cells(problem.attributes)
    if cells > LARGEST_TENSOR:
        names = ", ".join(problem.attributes)
        raise QueryError(f"a loss over {names} spans {cells} cells; at most {LARGEST_TENSOR}: use fewer features")


def longest_sum(problem: Problem, *, tensor: bool = False) -> int:
    """Float additions that a record goes through on its way into any entry of a sum (docs/proofs/float-sums.md)."""
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
    """Bounds the error of a float64 sum over records of vectors of norm at most one, twice, in records.

    For the largest table that can be loaded, whatever number was declared or released (docs/proofs/float-sums.md).
    """
    return Fraction(math.ceil(8 * (roundings + 64) * most_records(records)), 2**52)


def sum_sensitivity(units: Fraction, dimension: int, slack: Fraction) -> Sensitivity:
    """Of a vector moved by `units` in L2, rounded to the grid entry by entry: two roundings differ by one step each."""
    side = root_above(Fraction(dimension))
    l2 = units + side / GRID + slack
    return Sensitivity(l1=side * l2, l2_squared=l2**2)


def on_grid(values: np.ndarray) -> np.ndarray:
    """Float sums as exact grid integers; finite by construction, clipped so that no row can raise."""
    return np.rint(np.clip(values * GRID, -(2.0**62), 2.0**62)).astype(np.int64)


def noisy(values: np.ndarray, noise: Gaussian) -> np.ndarray:
    """A vector in records plus exact noise on its grid."""
    return noise.release(on_grid(values), GRID) / GRID


def counted_risk(problem: Problem, source: CountSource, person_grid: int, divisor: float) -> Risk:
    """The sum over records of the loss' own part, divided by a public number; the ridge is added whole."""
    if problem.loss.quadratic:
        return QuadraticRisk.of_marginals(problem, source.marginals, person_grid * divisor)
    return TensorRisk(problem, source.marginal(problem.attributes) / (person_grid * divisor))


def clipped_sum(risk: TensorRisk, theta: np.ndarray, limit: float) -> np.ndarray:
    """The sum over records of their gradients, each clipped to norm `limit`, in units of `limit`."""
    slopes = risk.slopes(theta)
    sizes = np.abs(slopes) * np.sqrt(risk.feature_squares())
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shrink = np.where(sizes > limit, limit / sizes, 1.0)
    return risk.gather(slopes * shrink / limit)


class Ridged:
    """A risk plus `extra/2 |theta|^2`."""

    def __init__(self, risk: Risk, extra: float) -> None:
        self.problem, self._risk, self._extra = risk.problem, risk, extra

    def value(self, theta: np.ndarray) -> float:
        return self._risk.value(theta) + self._extra / 2 * float(theta @ theta)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return self._risk.gradient(theta) + self._extra * theta

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        return self._risk.hessian(theta) + self._extra * np.eye(len(theta))


def into_ball(theta: np.ndarray, radius: float) -> np.ndarray:
    size = float(np.linalg.norm(theta))
    return theta if size <= radius else theta * (radius / size)


def steps_for_gap(smoothness: float, radius: float, gap: float) -> int:
    """Accelerated descent from the centre: excess <= 2 smoothness radius^2 / (k + 1)^2 (Beck and Teboulle 2009)."""
    return math.ceil(math.sqrt(2 * smoothness * radius**2 / gap))


def guaranteed_minimum(risk: Risk, radius: float, smoothness: float, gap: float) -> np.ndarray:
    """theta in the ball whose risk exceeds the minimum by at most `gap`."""
    theta, _ = minimum(risk, radius=radius)
    if linear_gap(risk.gradient(theta), theta, radius) <= gap and np.linalg.norm(theta) <= radius * (1 + 1e-12):
        return theta
    theta = ahead = np.zeros(risk.problem.dimension)
    for k in range(steps_for_gap(smoothness, radius, gap)):
        there = into_ball(ahead - risk.gradient(ahead) / smoothness, radius)
        ahead = there + (k / (k + 3)) * (there - theta)
        theta = there
    return theta


@dataclass(frozen=True)
class Shape:
    """Bounds of a strongly convex risk on the ball it is minimised over."""

    radius: float
    lipschitz: float
    smoothness: float
    convexity: float

    def heavier(self, ratio: float) -> Shape:
        """The same with the records' part multiplied: the true number need not be the one divided by."""
        smoothness = (self.smoothness - self.convexity) * max(1.0, ratio) + self.convexity
        return replace(self, lipschitz=self.lipschitz * max(1.0, ratio), smoothness=smoothness)

    def steps(self, distance: float) -> int:
        """Accelerated descent with constant momentum from the centre (Nesterov 2018, Thm 2.2.3, projected):

        convexity/2 |theta - best|^2 <= (1 - sqrt(convexity/smoothness))^k (excess at 0 + convexity/2 R^2).
        """
        start = self.lipschitz * self.radius + self.convexity * self.radius**2
        return math.ceil(max(1.0, math.log(2 * start / (self.convexity * distance**2)) / self._rate))

    @property
    def _rate(self) -> float:
        return math.sqrt(self.convexity / self.smoothness)

    @property
    def momentum(self) -> float:
        return (1 - self._rate) / (1 + self._rate)


def located_minimum(risk: Risk, shape: Shape, distance: float) -> np.ndarray:
    """theta within `distance` of the one minimiser over the ball of a strongly convex risk."""
    theta, _ = minimum(risk, radius=shape.radius)
    # One projected step x -> y with residual r = b (x - y): |y - best| <= 2 |r| / convexity (docs/proofs).
    there = into_ball(theta - risk.gradient(theta) / shape.smoothness, shape.radius)
    if 2 * shape.smoothness * float(np.linalg.norm(theta - there)) <= shape.convexity * distance:
        return there
    theta = ahead = np.zeros(risk.problem.dimension)
    for _ in range(shape.steps(distance)):
        there = into_ball(ahead - risk.gradient(ahead) / shape.smoothness, shape.radius)
        ahead = there + shape.momentum * (there - theta)
        theta = there
    return theta


def refuse_slow(steps: int) -> None:
    """A guarantee that would need more steps than `MOST_STEPS` is no guarantee."""
    if steps > MOST_STEPS:
        raise QueryError(
            f"a guaranteed minimum would take {steps} steps; at most {MOST_STEPS}: use a smaller radius or a wider kink"
        )


def chi_square_reach(dimension: float, failure: float) -> float:
    """P(sum of `dimension` squared standard normals > reach) <= failure (Laurent and Massart 2000)."""
    t = math.log(1 / failure)
    return dimension + 2 * math.sqrt(dimension * t) + 2 * t
