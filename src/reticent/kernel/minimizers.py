"""The private minimisers, one per family of losses (spec 8.4)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.accounting import Price
from reticent.kernel.minimizer import Minimizer
from reticent.kernel.minimizer_steps import (
    GRID,
    Ridged,
    Shape,
    chi_square_reach,
    clipped_sum,
    counted_risk,
    float_slack,
    into_ball,
    located_minimum,
    longest_sum,
    moved,
    noisy,
    refuse_slow,
    refuse_wide,
    sum_sensitivity,
)
from reticent.kernel.noise import Gaussian, Sensitivity
from reticent.kernel.table import CountSource
from reticent.queries.minimum import quadratic_minimum
from reticent.queries.problem import Problem
from reticent.queries.risk import Risk, TensorRisk, moments

MOST_ROUNDS = 4000
"""Noisy gradient steps: more would cost time and, under one budget, gain next to nothing."""
LOCATED = Fraction(1, 64)
"""How far the solver may stop from the exact minimiser, as a share of what one record moves it."""


class NoisyGradientDescent(Minimizer):
    """Projected descent on noisy sums of clipped gradients, averaged.

    A record's gradient is clipped to the Lipschitz bound, so one person moves each sum by at most 2 (replace-one) in
    units of that bound, whatever the loss claims. Guarantee: zCDP, `rounds` times the price of one noisy sum.
    """

    proof: ClassVar[str] = "docs/proofs/noisy-gradient-descent.md"

    def _check(self, problem: Problem) -> None:
        refuse_wide(problem)

    def _slack(self) -> Fraction:
        return float_slack(longest_sum(self.problem, tensor=True), float(self.records))

    @property
    def _sensitivity(self) -> Sensitivity:
        return sum_sensitivity(Fraction(moved(self.neighbours)), self.problem.dimension, self._slack())

    @cached_property
    def rounds(self) -> int:
        """Balances the descent's own error against the noise that more rounds bring (docs/proofs)."""
        problem, spread = self.problem, self._spread
        if problem.strong_convexity > 0:
            wanted = problem.lipschitz**2 / (problem.dimension * spread**2)
        else:
            wanted = problem.radius * problem.smoothness / (spread * math.sqrt(2 * problem.dimension))
        return max(1, min(MOST_ROUNDS, round(wanted)))

    @property
    def _spread(self) -> float:
        """Noise per coordinate of the mean gradient if a single round took the whole price."""
        per_sum = math.sqrt(float(self._sensitivity.l2_squared / (2 * self.rho)))
        return per_sum * self.problem.lipschitz / float(self.records)

    @cached_property
    def noise(self) -> Gaussian:
        return Gaussian.costing(sensitivity=self._sensitivity, rho=self.rho / self.rounds)

    def price(self) -> Price:
        return self.noise.price(self._sensitivity) * self.rounds

    def fetch(self, source: CountSource, person_grid: int) -> np.ndarray:
        return source.marginal(self.problem.attributes) / person_grid

    def release(self, exact: np.ndarray) -> np.ndarray:
        problem, risk = self.problem, TensorRisk(self.problem, exact)
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
        return 2 / (convexity * (t + 1)) if convexity > 0 else 1 / self.problem.smoothness

    def _excess(self, failure: float, weight: float) -> float:
        problem, rounds = self.problem, self.rounds
        noise, slope = self._spread**2 * rounds, weight * problem.lipschitz
        if problem.strong_convexity > 0:
            slopes = (slope + problem.strong_convexity * problem.radius) ** 2 + problem.dimension * noise
            return 2 * slopes / (problem.strong_convexity * (rounds + 1)) / failure
        drift = problem.smoothness * problem.radius**2 / (2 * rounds)
        stray = noise * chi_square_reach(problem.dimension * rounds, failure / 2) / (rounds * problem.smoothness)
        walk = 2 * problem.radius * math.sqrt(noise * 2 * math.log(2 / failure) / rounds)
        # Rows heavier than planned curve more than the step allows for: by (weight - 1) smoothness/2 |step|^2 a round.
        steps = min(slope**2 / problem.smoothness + stray, 2 * problem.smoothness * problem.radius**2)
        return drift + stray + walk + (weight - 1) * steps

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"rounds": self.rounds, "sigma": str(self.noise.sigma)}


class OutputPerturbation(Minimizer):
    """The minimiser of a strongly convex loss over its ball, plus Gaussian noise.

    One record moves the exact minimiser by at most `moved * L / (convexity * records)`; the solver stops within a known
    distance of it, counted twice. Guarantee: zCDP of one Gaussian release of that sensitivity.
    """

    proof: ClassVar[str] = "docs/proofs/output-perturbation.md"

    def _check(self, problem: Problem) -> None:
        if not self.convexity > 0:
            raise QueryError("output perturbation needs a strongly convex loss; give it a ridge above 0")
        refuse_slow(self._shape.steps(float(LOCATED) * self.unit))
        if not problem.loss.quadratic:
            refuse_wide(problem)

    @property
    def convexity(self) -> float:
        return self.problem.strong_convexity

    @property
    def _shape(self) -> Shape:
        problem = self.problem
        return Shape(problem.radius, problem.lipschitz, problem.smoothness, self.convexity)

    @property
    def unit(self) -> float:
        """How far one added record moves the exact minimiser."""
        return self._shape.lipschitz / (self.convexity * float(self.records))

    @property
    def _sensitivity(self) -> Sensitivity:
        # In units: the true move, the solver twice, and float error of the gradient seen through 1/convexity. Theta
        # itself is a float: rounding it shifts the gradient by smoothness * radius * 2^-53.
        shape = self._shape
        slack = self._slack() * math.ceil(max(1.0, shape.smoothness * shape.radius / shape.lipschitz))
        units = moved(self.neighbours) + 2 * LOCATED + slack
        return sum_sensitivity(units, self.problem.dimension, Fraction(1, GRID))

    @cached_property
    def noise(self) -> Gaussian:
        return Gaussian.costing(sensitivity=self._sensitivity, rho=self.rho)

    def price(self) -> Price:
        return self.noise.price(self._sensitivity)

    def fetch(self, source: CountSource, person_grid: int) -> tuple[Risk, float]:
        ratio = source.total() / (person_grid * float(self.records))
        return counted_risk(self.problem, source, person_grid, float(self.records)), ratio

    def release(self, exact: tuple[Risk, float]) -> np.ndarray:
        risk, ratio = exact
        theta = located_minimum(self._tilted(risk), self._shape.heavier(ratio), float(LOCATED) * self.unit)
        return into_ball(noisy(theta / self.unit, self.noise) * self.unit, self.problem.radius)

    def _tilted(self, risk: Risk) -> Risk:
        return risk

    def _excess(self, failure: float, weight: float) -> float:
        problem, stray = self.problem, self._stray(failure)
        slopes = (weight * problem.lipschitz + problem.strong_convexity * problem.radius) * stray
        if self._interior(weight):
            slopes = min(slopes, weight * self._shape.smoothness / 2 * stray**2)
        return slopes

    def _stray(self, failure: float) -> float:
        """How far the answer lies from the exact minimiser."""
        reach = math.sqrt(chi_square_reach(self.problem.dimension, failure))
        return (reach * float(self.noise.sigma) + float(LOCATED)) * self.unit

    def _interior(self, weight: float) -> bool:
        """convexity/2 |best|^2 <= risk at 0 minus its minimum: whether that keeps the minimiser inside the ball."""
        return math.sqrt(2 * _height(self.problem, weight) / self.convexity) < self.problem.radius


def _height(problem: Problem, weight: float) -> float:
    """How far the risk at 0 can lie above its minimum, over all labels, where it is divided by too few records."""
    loss, labels = problem.loss, problem.design.label_choices
    if loss.kind == "mean":  # the minimiser is weight * mean, which lies weight^2 |mean|^2 / 2 below 0
        return weight**2 * problem.feature_norm**2 / 2
    return weight * float(loss.value(np.zeros_like(labels), labels).max())


class RidgeGLM(OutputPerturbation):
    """Output perturbation of a generalised linear loss with a ridge added for the occasion.

    The minimiser is sought in the loss' own ball: one sought beyond it and drawn back could be far worse than the best
    within. Where it lies inside, only the margin's noise counts. Guarantee: as output perturbation.
    """

    proof: ClassVar[str] = "docs/proofs/ridge-glm.md"

    def _check(self, problem: Problem) -> None:
        if not (math.isfinite(problem.loss.steepest) and problem.loss.kind != "mean"):
            raise QueryError(f"{problem.loss.kind} loss has no bounded slope; use logistic, hinge or Huber loss")
        super()._check(problem)

    @property
    def convexity(self) -> float:
        """lam/2 R^2 (bias) against slope * noise of the margin ~ 1/lam: lam ~ (n e)^(-1/2)."""
        problem = self.problem
        spread = moved(self.neighbours) / math.sqrt(2 * float(self.rho)) / float(self.records)
        own = math.sqrt(2 * problem.loss.steepest * problem.feature_norm * self._steepness * spread) / problem.radius
        return max(problem.strong_convexity, own)

    @property
    def _steepness(self) -> float:
        """The gradient's bound on all of space, not only on the ball."""
        return self.problem.loss.steepest * self.problem.feature_norm

    @property
    def _shape(self) -> Shape:
        problem = self.problem
        smoothness = problem.smoothness - problem.strong_convexity + self.convexity
        return Shape(problem.radius, self._steepness, smoothness, self.convexity)

    def _tilted(self, risk: Risk) -> Risk:
        return Ridged(risk, self.convexity - self.problem.strong_convexity)

    def _excess(self, failure: float, weight: float) -> float:
        problem = self.problem
        bias = (self.convexity - problem.strong_convexity) / 2 * problem.radius**2
        return bias + (weight * self._steepness + problem.strong_convexity * problem.radius) * self._stray(failure)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"ridge": self.convexity}


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
    def _label_bound(self) -> float:
        return max(float(np.abs(self.problem.design.label_choices).max()), 1e-9)

    @property
    def _units(self) -> tuple[float, float]:
        """B^2 and B Y: the sums are released in these."""
        norm = self.problem.feature_norm
        return norm**2, norm * self._label_bound

    @property
    def _sensitivities(self) -> tuple[Sensitivity, Sensitivity, Sensitivity]:
        d, slack, replaced = self.problem.dimension, self._slack(), self.neighbours == "replace-one"
        gram = Fraction(141421357, 10**8) if replaced else Fraction(1)
        return (
            sum_sensitivity(gram, d * (d + 1) // 2, slack),
            sum_sensitivity(Fraction(moved(self.neighbours)), d, slack),
            # An eigenvalue is a float of its own: eigh errs by far less than the entries' slack times d.
            sum_sensitivity(Fraction(1), 1, slack * d),
        )

    @cached_property
    def noises(self) -> tuple[Gaussian, ...]:
        parts = zip(self._sensitivities, self.shares, strict=True)
        return tuple(Gaussian.costing(sensitivity=s, rho=self.rho * share) for s, share in parts)

    def price(self) -> Price:
        total = Price.free()
        for noise, sensitivity in zip(self.noises, self._sensitivities, strict=True):
            total = total + noise.price(sensitivity)
        return total

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
        smallest = float(noisy(np.linalg.eigvalsh(gram)[:1], self.noises[2])[0])
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
        # The operator norm errs on both sides: a quarter of the failure for each.
        gram = self._gram_reach(failure / 4) * square
        cross = float(self.noises[1].sigma) * math.sqrt(chi_square_reach(problem.dimension, failure / 2)) * product
        lift = self._gram_reach(0.05) * square
        radius = problem.radius
        total = 2 * (radius**2 * gram + 2 * radius * cross) + radius**2 * lift
        return total / float(self.records)


MINIMIZERS = (NoisyGradientDescent, OutputPerturbation, RidgeGLM, SufficientStatistics)
"""All that may minimise on rows; the curator accepts these exact types."""
