"""Empirical risk minimisation in phases: each starts from the preceding noisy answer with a smaller search radius."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from reticent.kernel.accounting import Price
from reticent.kernel.mechanisms.noise import Gaussian
from reticent.kernel.minimizers.base import Minimizer
from reticent.kernel.minimizers.solvers import (
    GRID,
    LOCATED,
    ROUNDED,
    Shape,
    Tethered,
    chi_square_reach,
    counted_risk,
    into_ball,
    located_minimum,
    located_sensitivity,
    noisy,
    refuse_slow,
    step_work,
    weight_class,
)
from reticent.kernel.table import CountSource
from reticent.losses.public import Problem
from reticent.losses.risk import Risk

GROWTH = 4
"""Of the convexity from phase to phase; with half the price for each next phase it minimises the sum of all terms."""
MOST_PHASES = 40
FINEST = 2.0**-40
"""Of the radius: the least that a record may move a phase's minimiser. 64-bit floats and integers lose less."""
LAST = 1 / 4
"""Phases are added until the last one's own noise costs at most this share of all others."""


class PhasedERM(Minimizer):
    """Minimisers of `risk + tether/2 |theta - last answer|^2` over the ball, each with added Gaussian noise.

    Each phase starts from the preceding noisy answer and is more strongly convex, so it needs less noise. The loss
    caused by the noise of a phase is the value of the tether at the perturbed point (Feldman, Koren and Talwar 2020).
    The loss need not be smooth, and its minimiser need not lie inside the ball. Guarantee: zCDP, the sum of one
    Gaussian price for each phase.
    """

    proof: ClassVar[str] = "docs/proofs/phased-erm.md"

    def _check(self, problem: Problem) -> None:
        """Accept any loss."""

    def refuse_infeasible(self) -> None:
        for phase in range(self.phases):
            refuse_slow(self.shape(phase).to_distance(float(LOCATED) * self._unit(phase)).steps)
        super().refuse_infeasible()

    @cached_property
    def _noise_energy(self) -> float:
        """The usual noise of a first phase of convexity c and price rho is sqrt(energy / rho) / c."""
        return self.gradient_spread**2 * float(self.rho) * chi_square_reach(self.problem.dimension, 0.01)

    @cached_property
    def first(self) -> float:
        """The first phase's convexity: its tether against the noise of all phases, 8 energy / (c rho)."""
        balanced = GROWTH * math.sqrt(self._noise_energy / float(self.rho)) / self.problem.radius
        return max(self.problem.strong_convexity, balanced)

    @cached_property
    def phases(self) -> int:
        """The number of phases at which the last phase's noise times the loss' slope is a small part of the bound."""
        energy, first = self._noise_energy / float(self.rho), self.first
        tether = (first - self.problem.strong_convexity) / 2 * self.problem.radius**2
        rest = tether + 2 * GROWTH * energy / first
        steep = self.problem.lipschitz + self.problem.strong_convexity * self.problem.radius
        last = steep * math.sqrt(energy) / first
        # One more phase has four times the convexity and half the price.
        needed = math.log(max(1.0, last / (LAST * rest))) / math.log(GROWTH / math.sqrt(2))
        first_unit = self.problem.lipschitz / (first * float(self.records))
        room = math.log(max(1.0, first_unit / (FINEST * self.problem.radius))) / math.log(GROWTH)
        return max(1, min(MOST_PHASES, 1 + math.ceil(needed), 1 + math.floor(room)))

    @property
    def rounding(self) -> float:
        if not self.kinked:
            return 0.0
        energy = self._noise_energy / float(self.rho)
        tether = (self.first - self.problem.strong_convexity) / 2 * self.problem.radius**2
        return float(ROUNDED) * min(self.problem.scale, tether + 2 * GROWTH * energy / self.first)

    def _convexity(self, phase: int) -> float:
        return self.first * GROWTH**phase

    def _tether(self, phase: int) -> float:
        return self._convexity(phase) - self.problem.strong_convexity

    def shape(self, phase: int) -> Shape:
        smooth = self.smooth
        return Shape(smooth.radius, smooth.lipschitz, smooth.smoothness + self._tether(phase), self._convexity(phase))

    def _unit(self, phase: int) -> float:
        """The distance by which one added record moves this phase's exact minimiser."""
        return self.problem.lipschitz / (self._convexity(phase) * float(self.records))

    def _share(self, phase: int) -> Fraction:
        """The share of the price: half for the first phase, a quarter for the second, the rest for the last."""
        return Fraction(1, 2 ** min(phase + 1, self.phases - 1))

    @cached_property
    def noises(self) -> tuple[Gaussian, ...]:
        return tuple(
            Gaussian.costing(sensitivity=self.sensitivity(phase), rho=self.rho * self._share(phase)).on_grid(GRID)
            for phase in range(self.phases)
        )

    def sensitivity(self, phase: int) -> Any:
        return located_sensitivity(
            self.shape(phase), self.neighbours, self.problem.dimension, self.slack(), self.records
        )

    def price(self) -> Price:
        total = Price.free()
        for phase, noise in enumerate(self.noises):
            total = total + noise.price(self.sensitivity(phase))
        return total

    @property
    def work(self) -> int:
        ratio = weight_class(self.neighbours, 0, 1, self.records)
        shapes = [(self.shape(phase).heavier(ratio), self._unit(phase)) for phase in range(self.phases)]
        return sum(shape.to_distance(float(LOCATED) * unit).steps for shape, unit in shapes) * step_work(self.problem)

    def fetch(self, source: CountSource, person_grid: int) -> tuple[Risk, int]:
        ratio = weight_class(self.neighbours, source.total(), person_grid, self.records)
        return counted_risk(self.smooth, source, person_grid, float(self.records)), ratio

    def release(self, exact: tuple[Risk, int]) -> np.ndarray:
        theta = np.zeros(self.problem.dimension)
        for phase, noise in enumerate(self.noises):
            theta = noisy(self.located(exact, phase, theta), noise) * self._unit(phase)
            theta = into_ball(theta, self.problem.radius)
        return theta

    def located(self, exact: tuple[Risk, int], phase: int, centre: np.ndarray) -> np.ndarray:
        """The minimiser of one phase that starts from a public point, in units of the effect of one added record."""
        risk, ratio = exact
        unit, shape = self._unit(phase), self.shape(phase).heavier(ratio)
        return located_minimum(Tethered(risk, self._tether(phase), centre), shape, float(LOCATED) * unit) / unit

    def _excess(self, failure: float, weight: float) -> float:
        """The bound: the first tether over the whole ball, each later tether at the preceding noise, and the last noise
        times the slope.
        """
        problem = self.problem
        total = self._tether(0) / 2 * problem.radius**2
        for phase in range(1, self.phases):
            total += self._tether(phase) / 2 * self._stray(phase - 1, failure) ** 2
        steep = weight * problem.lipschitz + problem.strong_convexity * problem.radius
        return total + steep * self._stray(self.phases - 1, failure)

    def _stray(self, phase: int, failure: float) -> float:
        """A bound on the distance of a phase's answer from its exact minimiser; each phase has half of the preceding
        failure probability.
        """
        share = failure / 2 ** min(phase + 1, self.phases - 1)
        reach = math.sqrt(chi_square_reach(self.problem.dimension, share))
        return (reach * float(self.noises[phase].sigma) + float(LOCATED)) * self._unit(phase)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"phases": self.phases, "ridge": self.first}
