"""The private minimisers, one per family of losses (spec 8.4)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.accounting import Price
from reticent.kernel.mechanisms.noise import Gaussian, Sensitivity
from reticent.kernel.minimizers.base import Minimizer
from reticent.kernel.minimizers.phased import PhasedERM
from reticent.kernel.minimizers.solvers import (
    GRID,
    LOCATED,
    ROUNDED,
    SQUARINGS,
    Shape,
    Tethered,
    chi_square_reach,
    clipped_sum,
    counted_risk,
    descends_compiled,
    float_slack,
    into_ball,
    located_minimum,
    located_sensitivity,
    longest_sum,
    noisy,
    records_moved,
    refuse_slow,
    refuse_wide,
    smallest_eigenvalue,
    step_work,
    sum_sensitivity,
    weight_class,
)
from reticent.kernel.table import CountSource
from reticent.losses.public import Problem
from reticent.losses.risk import Risk, TensorRisk, moment_sets, moments
from reticent.losses.solver import quadratic_minimum

MOST_ROUNDS = 4000
"""Noisy gradient steps: more would cost time and, under one budget, gain next to nothing."""
LONG_ROUNDS = 200_000
"""Where a round takes microseconds."""
LARGEST_NOISE = 2**24
"""Noisy numbers that all rounds together may draw."""
DRAWN = 64
"""What the noise of one compiled round costs, in cells."""
USUAL_REACH = 3.0
"""Of one Gaussian margin, in standard deviations: what a ridge is balanced against."""


class NoisyGradientDescent(Minimizer):
    """Projected descent on noisy sums of clipped gradients, averaged.

    A record's gradient is clipped to the Lipschitz bound, so one person changes each sum by at most 2 (replace-one) in
    units of that bound, even if the loss' bounds were wrong. Guarantee: zCDP, `rounds` times the price of one noisy
    sum.
    """

    proof: ClassVar[str] = "docs/proofs/noisy-gradient-descent.md"

    def _check(self, problem: Problem) -> None:
        """Accept any loss."""

    @property
    def rounding(self) -> float:
        """A quarter of the error due to noise, or the error of the largest number of rounds, if that is larger."""
        if not self.kinked:
            return 0.0
        problem = self.problem
        sharpness = problem.scale * problem.rounded(problem.scale).smoothness  # smoothness times height
        slow = problem.radius * math.sqrt(sharpness / (2 * self.most_rounds))
        return min(
            problem.scale, max(problem.radius * super().gradient_spread * math.sqrt(problem.dimension) / 4, slow)
        )

    def refuse_infeasible(self) -> None:
        refuse_wide(self.problem, tensor=True)
        super().refuse_infeasible()

    def slack(self) -> Fraction:
        return float_slack(longest_sum(self.problem, tensor=True), float(self.records))

    @property
    def sensitivity(self) -> Sensitivity:
        return sum_sensitivity(Fraction(records_moved(self.neighbours)), self.problem.dimension, self.slack())

    @cached_property
    def rounds(self) -> int:
        """The number of rounds that balances the descent's own error against the noise (docs/proofs)."""
        problem, spread = self.smooth, self.gradient_spread
        if problem.strong_convexity > 0:
            wanted = problem.lipschitz**2 / (problem.dimension * spread**2)
        else:
            wanted = problem.radius * problem.smoothness / (spread * math.sqrt(2 * problem.dimension))
        return max(1, min(self.most_rounds, round(wanted)))

    @property
    def most_rounds(self) -> int:
        return MOST_ROUNDS

    @property
    def gradient_spread(self) -> float:
        """Noise per coordinate of the mean gradient if a single round took the whole price."""
        per_sum = math.sqrt(float(self.sensitivity.l2_squared / (2 * self.rho)))
        return per_sum * self.problem.lipschitz / float(self.records)

    @cached_property
    def noise(self) -> Gaussian:
        return Gaussian.costing(sensitivity=self.sensitivity, rho=self.rho / self.rounds).on_grid(GRID)

    def price(self) -> Price:
        return self.noise.price(self.sensitivity) * self.rounds

    @property
    def work(self) -> int:
        return self.rounds * step_work(self.problem, tensor=True)

    def fetch(self, source: CountSource, person_grid: int) -> np.ndarray:
        return source.marginal(self.problem.attributes) / person_grid

    def release(self, exact: np.ndarray) -> np.ndarray:
        problem, risk = self.smooth, TensorRisk(self.smooth, exact)
        theta, total = np.zeros(problem.dimension), np.zeros(problem.dimension)
        weight = 0.0
        for t in range(1, self.rounds + 1):
            pull = noisy(clipped_sum(risk, theta, problem.lipschitz), self.noise)
            gradient = pull * problem.lipschitz / float(self.records) + problem.strong_convexity * theta
            here = theta
            theta = into_ball(theta - self._step(t) * gradient, problem.radius)
            if problem.strong_convexity > 0:
                total, weight = total + t * here, weight + t
            else:
                total, weight = total + theta, weight + 1
        return into_ball(total / weight, problem.radius)

    def _step(self, t: int) -> float:
        convexity = self.problem.strong_convexity
        return 2 / (convexity * (t + 1)) if convexity > 0 else 1 / self.smooth.smoothness

    def _excess(self, failure: float, weight: float) -> float:
        problem, rounds = self.smooth, self.rounds
        noise, slope = self.gradient_spread**2 * rounds, weight * problem.lipschitz
        if problem.strong_convexity > 0:
            return self._strongly_convex(failure, noise, slope + problem.strong_convexity * problem.radius)
        drift = problem.smoothness * problem.radius**2 / (2 * rounds)
        stray = noise * chi_square_reach(problem.dimension * rounds, failure / 2) / (rounds * problem.smoothness)
        walk = 2 * problem.radius * math.sqrt(noise * 2 * math.log(2 / failure) / rounds)
        # Heavier rows than planned add (weight - 1) smoothness/2 |step|^2 per round.
        steps = min(slope**2 / problem.smoothness + stray, 2 * problem.smoothness * problem.radius**2)
        return drift + stray + walk + (weight - 1) * steps

    def _strongly_convex(self, failure: float, noise: float, slope: float) -> float:
        """4 / (c (T + 1)) times the mean squared noisy gradient, plus the martingale term (docs/proofs).

        A third of `failure` each for the noise's length, its part along the gradient, and its part along the path.
        """
        tail = math.log(3 / failure)
        length = noise * chi_square_reach(self.smooth.dimension * self.rounds, failure / 3) / self.rounds
        along = 2 * slope * math.sqrt(noise * 2 * tail / self.rounds)
        squares = slope**2 + along + length + 2 * noise * tail
        return 4 * squares / (self.smooth.strong_convexity * (self.rounds + 1))

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"rounds": self.rounds, "sigma": str(self.noise.sigma)}


class LongDescent(NoisyGradientDescent):
    """The same with many more rounds, compiled, for losses whose cells can be listed.

    All noise is drawn before the first round, which is equivalent, because the noise does not depend on rows.
    Guarantee: as noisy gradient descent.
    """

    def _check(self, problem: Problem) -> None:
        if not descends_compiled(problem):
            raise QueryError("this many rounds need a list of all cells; use noisy gradient descent")

    @property
    def most_rounds(self) -> int:
        return min(LONG_ROUNDS, LARGEST_NOISE // self.problem.dimension)

    @property
    def work(self) -> int:
        # Compiled: the cost of a round is its cells with their features, and the noise of one vector.
        return self.rounds * (self.domain.cells(self.problem.attributes) * (8 + self.problem.dimension) + DRAWN)

    def release(self, exact: np.ndarray) -> np.ndarray:
        # Imported late, because it imports Numba.
        from reticent.kernel.minimizers import descent

        problem, shape = self.smooth, (self.rounds, self.problem.dimension)
        slopes = descent.compiled(problem.loss, problem.design.label_choices)
        if slopes is None or not descends_compiled(problem):
            return super().release(exact)
        features, weights, labels = TensorRisk(problem, exact).listed()
        noise = self.noise.release(np.zeros(shape, dtype=np.int64), GRID)
        norms = np.sqrt(np.square(features).sum(axis=1))
        found = descent.descend_noisily(
            features, weights, labels, slopes, norms, noise, GRID, problem.lipschitz, float(self.records),
            problem.strong_convexity, problem.smoothness, problem.radius,
        )  # fmt: skip
        return into_ball(found, problem.radius)


class OutputPerturbation(Minimizer):
    """The minimiser of a strongly convex loss over its ball, with added Gaussian noise.

    One record moves the exact minimiser by at most `moved * L / (convexity * records)`; the solver stops within a known
    distance of it, counted twice. Guarantee: zCDP of one Gaussian release of that sensitivity.
    """

    proof: ClassVar[str] = "docs/proofs/output-perturbation.md"

    def _check(self, problem: Problem) -> None:
        if not self.convexity > 0:
            raise QueryError("output perturbation needs a strongly convex loss; give it a ridge above 0")

    def refuse_infeasible(self) -> None:
        refuse_slow(self.shape.to_distance(float(LOCATED) * self.unit).steps)
        super().refuse_infeasible()

    @property
    def convexity(self) -> float:
        return self.problem.strong_convexity

    @property
    def rounding(self) -> float:
        """A small part of the error due to noise."""
        if not self.kinked:
            return 0.0
        problem = self.problem
        noise = problem.lipschitz * self.gradient_spread * math.sqrt(problem.dimension) / self.convexity
        return float(ROUNDED) * min(problem.scale, noise)

    @property
    def shape(self) -> Shape:
        problem = self.smooth
        return Shape(problem.radius, problem.lipschitz, problem.smoothness, self.convexity)

    @property
    def unit(self) -> float:
        """The distance by which one added record moves the exact minimiser."""
        return self._steepness / (self.convexity * float(self.records))

    @property
    def _steepness(self) -> float:
        """A bound on the gradient of one record's loss."""
        return self.problem.lipschitz

    @property
    def sensitivity(self) -> Sensitivity:
        return located_sensitivity(self.shape, self.neighbours, self.problem.dimension, self.slack(), self.records)

    @cached_property
    def noise(self) -> Gaussian:
        return Gaussian.costing(sensitivity=self.sensitivity, rho=self.rho).on_grid(GRID)

    def price(self) -> Price:
        return self.noise.price(self.sensitivity)

    @property
    def work(self) -> int:
        lightest = weight_class(self.neighbours, 0, 1, self.records)
        descent = self.shape.heavier(lightest).to_distance(float(LOCATED) * self.unit)
        return descent.steps * step_work(self.problem)

    def fetch(self, source: CountSource, person_grid: int) -> tuple[Risk, int]:
        ratio = weight_class(self.neighbours, source.total(), person_grid, self.records)
        return counted_risk(self.smooth, source, person_grid, float(self.records)), ratio

    def release(self, exact: tuple[Risk, int]) -> np.ndarray:
        risk, ratio = exact
        theta = located_minimum(self._tilted(risk), self.shape.heavier(ratio), float(LOCATED) * self.unit)
        return self._placed(noisy(theta / self.unit, self.noise) * self.unit)

    def _placed(self, theta: np.ndarray) -> np.ndarray:
        return into_ball(theta, self.problem.radius)

    def _tilted(self, risk: Risk) -> Risk:
        return risk

    def _excess(self, failure: float, weight: float) -> float:
        problem = self.problem
        steep = (weight * problem.lipschitz + problem.strong_convexity * problem.radius) * self._stray(failure)
        return min(steep, self._curved(failure, weight))

    def _curved(self, failure: float, weight: float) -> float:
        """The excess of the minimised loss from its slope at the minimiser and its curvature (docs/proofs).

        The slope there points inwards, so the noise matters in one direction only: with half of `failure` it reaches
        sqrt(2 ln(2/failure)) in that direction, for every dimension. The curvature term contains the squared norm of
        the whole noise.
        """
        shape, pull = self.shape, self._pull(weight)
        bend = weight * shape.smoothness
        far, apart = self._stray(failure), self._stray(failure / 2)
        inwards = (math.sqrt(2 * math.log(2 / failure)) * float(self.noise.sigma) + float(LOCATED)) * self.unit
        first = pull * far + bend / 2 * far**2
        return min(first, pull * inwards + (bend + pull / shape.radius) / 2 * apart**2)

    def _stray(self, failure: float) -> float:
        """A bound on the distance of the answer from the exact minimiser."""
        reach = math.sqrt(chi_square_reach(self.problem.dimension, failure))
        return (reach * float(self.noise.sigma) + float(LOCATED)) * self.unit

    def _pull(self, weight: float) -> float:
        """A bound on the slope at the minimiser over the ball; 0 if public facts keep the minimiser inside.

        On the boundary the slope is t inwards, and F(0) >= F(best) + t R + convexity/2 R^2.
        """
        radius = self.shape.radius
        return max(0.0, self.smooth.zero_loss(weight) / radius - self.convexity * radius / 2)


class RidgeGLM(OutputPerturbation):
    """Output perturbation of a generalised linear loss with an added ridge.

    The minimiser is sought in the loss' own ball: one sought in a larger ball and projected could be far worse than the
    best within. If it lies inside, only the noise of the margin matters. Guarantee: as output perturbation.
    """

    proof: ClassVar[str] = "docs/proofs/ridge-glm.md"

    def _check(self, problem: Problem) -> None:
        if not (math.isfinite(problem.loss.steepest) and problem.loss.kind != "mean"):
            raise QueryError(f"{problem.loss.kind} loss has no bounded slope; use logistic, hinge or Huber loss")
        super()._check(problem)

    @property
    def rounding(self) -> float:
        """A small part of the error due to the ridge and the noise of one margin."""
        if not self.kinked:
            return 0.0
        noise = self._steepness * self.gradient_spread / self.convexity
        return float(ROUNDED) * min(self.problem.scale, self._bias + noise)

    @property
    def _bias(self) -> float:
        """An upper bound on the error due to the added ridge."""
        return (self.convexity - self.problem.strong_convexity) / 2 * self.problem.radius**2

    @property
    def convexity(self) -> float:
        """lam/2 R^2 (bias) against slope * noise of the margin ~ 1/lam: lam ~ (n e)^(-1/2)."""
        problem = self.problem
        spread = records_moved(self.neighbours) / math.sqrt(2 * float(self.rho)) / float(self.records)
        own = math.sqrt(2 * problem.loss.steepest * problem.feature_norm * self._steepness * spread) / problem.radius
        return max(problem.strong_convexity, own)

    @property
    def _steepness(self) -> float:
        """A bound on the gradient on the whole space, not only on the ball."""
        return self.problem.loss.steepest * self.problem.feature_norm

    @property
    def shape(self) -> Shape:
        problem = self.smooth
        smoothness = problem.smoothness - problem.strong_convexity + self.convexity
        return Shape(problem.radius, self._steepness, smoothness, self.convexity)

    def _tilted(self, risk: Risk) -> Risk:
        return Tethered(risk, self.convexity - self.problem.strong_convexity)

    def _excess(self, failure: float, weight: float) -> float:
        problem = self.problem
        steep = (weight * self._steepness + problem.strong_convexity * problem.radius) * self._stray(failure)
        return self._bias + min(steep, self._curved(failure, weight))

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"ridge": self.convexity}


class UnconstrainedGLM(RidgeGLM):
    """Ridge and output perturbation with an answer that may leave the ball: its error does not depend on the dimension.

    A record's loss depends on the noise only through its margins, and their noise does not depend on the number of
    parameters (Jain and Thakurta 2014). Projecting the answer into the ball would destroy this property. The excess is
    relative to the best parameters of the ball. Guarantee: as output perturbation.
    """

    proof: ClassVar[str] = "docs/proofs/unconstrained-glm.md"

    def _check(self, problem: Problem) -> None:
        if problem.strong_convexity > 0:
            raise QueryError("a ridge depends on all parameters, not only on margins; use output perturbation")
        super()._check(problem)

    @property
    def convexity(self) -> float:
        """lam/2 R^2 (bias) against slope * noise of the margin: the same balance at a margin's usual reach."""
        return super().convexity * math.sqrt(USUAL_REACH)

    def _placed(self, theta: np.ndarray) -> np.ndarray:
        return theta

    def _excess(self, failure: float, weight: float) -> float:
        """Bias, and slope times the root mean square of the margins' noise: a quadratic form of trace B^2."""
        reach = math.sqrt(chi_square_reach(self.problem.outputs, failure)) * float(self.noise.sigma) + float(LOCATED)
        return self._bias + weight * self._steepness * reach * self.unit


class SufficientStatistics(Minimizer):
    """Noisy second moments of squared loss; the rest is post-processing with an adaptive ridge.

    Replace-one: sum of vv' moves by sqrt2 B^2 (Frobenius), sum of vy by 2BY, the smallest eigenvalue by B^2.
    Guarantee: zCDP, the sum of three Gaussian prices (45%, 45% and 10% of rho).
    """

    proof: ClassVar[str] = "docs/proofs/sufficient-statistics.md"
    shares: ClassVar[tuple[Fraction, ...]] = (Fraction(9, 20), Fraction(9, 20), Fraction(1, 10))

    def _check(self, problem: Problem) -> None:
        if problem.family != "squared":
            raise QueryError(f"{problem.loss.kind} loss has no sufficient statistics; use squared or ridge loss")

    @property
    def rounding(self) -> float:
        return 0.0

    @property
    def _label_bound(self) -> float:
        return max(float(np.abs(self.problem.design.label_choices).max()), 1e-9)

    @property
    def _units(self) -> tuple[float, float]:
        """B^2 and B Y: the sums are released in these."""
        norm = self.problem.feature_norm
        return norm**2, norm * self._label_bound

    @property
    def sensitivities(self) -> tuple[Sensitivity, Sensitivity, Sensitivity]:
        d, slack, replaced = self.problem.dimension, self.slack(), self.neighbours == "replace-one"
        gram = Fraction(141421357, 10**8) if replaced else Fraction(1)
        return (
            sum_sensitivity(gram, d * (d + 1) // 2, slack),
            sum_sensitivity(Fraction(records_moved(self.neighbours)), d, slack),
            # The eigenvalue is computed in floats: the error of eigh is far below the entries' slack times d.
            sum_sensitivity(Fraction(1), 1, slack * d),
        )

    @cached_property
    def noises(self) -> tuple[Gaussian, ...]:
        parts = zip(self.sensitivities, self.shares, strict=True)
        return tuple(Gaussian.costing(sensitivity=s, rho=self.rho * share).on_grid(GRID) for s, share in parts)

    def price(self) -> Price:
        total = Price.free()
        for noise, sensitivity in zip(self.noises, self.sensitivities, strict=True):
            total = total + noise.price(sensitivity)
        return total

    @property
    def work(self) -> int:
        return SQUARINGS * self.problem.dimension**3 + sum(map(self.domain.cells, moment_sets(self.problem)))

    def fetch(self, source: CountSource, person_grid: int) -> tuple[np.ndarray, np.ndarray]:
        gram, cross, _ = moments(self.problem, source.marginals)
        square, product = self._units
        return gram / (person_grid * square), cross / (person_grid * product)

    def release(self, exact: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        gram, cross = exact
        square, product = self._units
        rows, columns = np.triu_indices(len(gram))
        # Off-diagonal entries count twice in the Frobenius norm: released times sqrt2, so that L2 distances agree.
        doubled = np.where(rows == columns, 1.0, math.sqrt(2))
        upper = noisy(gram[rows, columns] * doubled, self.noises[0]) / doubled
        matrix = np.zeros_like(gram)
        matrix[rows, columns] = matrix[columns, rows] = upper
        pull = noisy(cross, self.noises[1])
        smallest = float(noisy(np.array([smallest_eigenvalue(gram)]), self.noises[2])[0])
        lift = max(0.0, self._gram_reach(0.05) - max(0.0, smallest))
        hessian = 2 * (matrix + lift * np.eye(len(gram))) * square / float(self.records)
        hessian += self.problem.strong_convexity * np.eye(len(gram))
        return quadratic_minimum(hessian, -2 * pull * product / float(self.records), self.problem.radius)

    def _gram_reach(self, failure: float) -> float:
        """Operator norm of the symmetric noise: sigma (sqrt(2d) + sqrt(2 ln(1/failure))), diagonal included."""
        d = self.problem.dimension
        return float(self.noises[0].sigma) * (math.sqrt(2 * d) + math.sqrt(2 * math.log(1 / failure)))

    def _excess(self, failure: float, weight: float) -> float:
        problem, (square, product) = self.problem, self._units
        # The operator norm may err in both directions: a quarter of the failure probability for each.
        gram = self._gram_reach(failure / 4) * square
        cross = float(self.noises[1].sigma) * math.sqrt(chi_square_reach(problem.dimension, failure / 2)) * product
        lift = self._gram_reach(0.05) * square
        radius = problem.radius
        total = 2 * (radius**2 * gram + 2 * radius * cross) + radius**2 * lift
        return total / float(self.records)


MINIMIZERS = (
    NoisyGradientDescent, OutputPerturbation, RidgeGLM, SufficientStatistics, PhasedERM, UnconstrainedGLM, LongDescent
)  # fmt: skip
"""All that may minimise on rows; the curator accepts these exact types."""
