"""How a fit descends: over levels of noise, with missed cells revived, and beside plain least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.base import FitReport, Measurement
from reticent.hypotheses.fitting.calibration import cells_calibrated, followed, sums_calibrated
from reticent.hypotheses.fitting.consistent import Consistent, is_laplace
from reticent.hypotheses.fitting.proportional import NEAR, NEARER, proportional_start, within_noise
from reticent.hypotheses.fitting.quasi_newton import DescentResult, Objective, Pairs, descend

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import FitProblem

__all__ = ["FURTHEST", "PROGRESS", "Compared", "Reached", "furthest_noise", "largest_noise"]

PROGRESS = 0.1
"""Of the standard deviation of what noise alone adds to the objective: a fit that gains less has stopped."""
FINER = 0.1
"""Of that, for a fit that leaves a cell further off than noise does: that cell is worth some nats among thousands."""
LEGS = (40, 160, 400, 1400)
"""Steps between refreshes of the preconditioner."""
LEAST_LEG = 30
"""A leg that stopped on small progress after fewer steps had a good preconditioner: another leg is not tried."""

REVIVALS = 3
"""Descents, at most, from a point with missed cells revived; each must lead lower than the last."""
LEAP, SHORTEST = 1.0, 0.05
"""What a Gauss-Newton step adds to a parameter at most: cells are near linear over a factor of e. Where that leads
nowhere lower, less, down to where cells are linear but for a thousandth."""
PATIENCE = 4
"""Gauss-Newton steps in a row that may lead to no lower point than before."""
LEAST_STEPS, MOST_STEPS, WORK = 10, 80, 2**31
"""Gauss-Newton steps, and numbers that all of them may touch: some seconds. A problem too large for the least number of
steps is not solved so."""
FURTHEST = 6.0
"""Standard deviations beyond which a cell was missed by the fit: normal noise is further off in 2e-9 of all cells."""
MISJUDGED = 0.05
"""Laplace noise is that far off in 2e-4 of all cells. There the distance grows with the number of cells, so that the
true table itself would be said to miss a cell of its measurements in this share of all releases at most."""


def furthest_noise(measurements: Sequence[Measurement]) -> float:
    """Standard deviations of its noise beyond which a measured cell was missed by a fit.

    Of N cells with Laplace noise one lies beyond x standard deviations with probability `N exp(-sqrt(2) x)` at most.
    """
    if not any(map(is_laplace, measurements)):
        return FURTHEST
    cells = sum(np.size(measurement.values) for measurement in measurements)
    return max(FURTHEST, log(max(cells, 1) / MISJUDGED) / sqrt(2))


def largest_noise(cells: int, *, laplace: bool) -> float:
    """What the largest of so many independent noises is near, in standard deviations."""
    return log(max(cells, 2)) / sqrt(2) if laplace else sqrt(2 * log(max(cells, 2)))


TOLERATED = 1.2
"""Of the largest error that plain noise is expected to have: as much more as plans allow (`releases/allocation.py`). Of
N independent normal cells noise leaves one further off with a probability of at most `N^-0.44`; of Laplace's, `N^-0.2`.
"""


@dataclass(frozen=True, eq=False)
class Compared:
    """A fit held against plain least squares on the same measurements."""

    problem: FitProblem
    consistent: Consistent
    freedom: float
    """How many of the measured numbers the prior leaves to the measurements."""
    variances: float
    """Of the recorded noise in the measured values: one, or two for a replicate."""
    laplace: bool
    """Whether noise is Laplace's; else it is normal."""

    def descend(self, reached: Reached, point: np.ndarray, *, warm: bool) -> np.ndarray:
        """The fit, with no cell so far from what was measured that plain noise would be expected to be nearer.

        Of N cells noise has an error of about `largest_noise(N)` standard deviations. A cell of a fit that is further
        from its measurement than that, less one for the measurement's own noise, may have a larger one. Where nothing
        but noise is seen, the furthest cells are about so far off. So only cells beyond `TOLERATED` times that largest
        error are moved.
        """
        reached.note_contradiction(self._contradiction)
        found = self._descend(reached, point, warm=warm)
        moved = self._calibrated(reached, reached.move(self.problem, found, self._within(found)))
        return reached.finish(self.problem, moved)

    def _within(self, point: np.ndarray) -> np.ndarray:
        largest = largest_noise(self.problem.cells, laplace=self.laplace)
        reach, perturbed = max(largest - 1, 1.0), sqrt(self.variances)
        tolerated = TOLERATED * max(largest / reach, 1.0)
        return within_noise(self.problem, self.consistent, point, reach, perturbed, tolerated=tolerated)

    def _calibrated(self, reached: Reached, point: np.ndarray) -> np.ndarray:
        """The point with heavy cells as measured, first their sums, then each by itself, as long as Stein's estimate of
        the error falls by more than noise moves it: the difference of the squared distances of two points from what was
        measured varies by twice their own distance.
        """
        for calibrated in (sums_calibrated, cells_calibrated):
            moved, freedom = calibrated(self.problem, self.consistent, point, sqrt(self.variances))
            if moved is point:
                continue
            away = self.problem.statistics(moved) - self.problem.statistics(point)
            noise = 2 * sqrt(self.variances * float((self.problem.measured_precision * away) @ away))
            followed_more = followed(self.problem, moved) - followed(self.problem, point) + freedom
            gained = self.problem.distance(point) - self.problem.distance(moved) - 2 * self.variances * followed_more
            if gained > noise:
                found = reached.move(self.problem, point, self._within(moved))
                # Bounds of single cells that contradict the sums may have taken a cell further off.
                point = reached.move(self.problem, point, moved) if found is point else found
        return point

    def _descend(self, reached: Reached, point: np.ndarray, *, warm: bool) -> np.ndarray:
        """The fit, or the start near the measurements where the fit is expected to be worse: its prior was wrong.

        A warm start that is as near to the measurements as that start stays, where they decide more than the prior.
        """
        rank, freedom = self._rank, self.freedom + self._separate
        if self.freedom <= NEARER * self.consistent.rank:
            found = reached.descend(self.problem, point)
            if self._risk(found, freedom) <= rank:
                return found
        near = proportional_start(self.problem, self.consistent, point)
        stays = warm and not reached.is_stalled(self.problem, point)
        if stays and self._risk(point, rank) <= (1 + NEAR) * self._risk(near, rank):
            return reached.rest(self.problem, point)
        near = self._nearer(point, near)
        found = reached.descend(self.problem, near)
        if self._risk(found, freedom) > rank:
            # Worse than least squares: it stalled, as where columns follow from others, whose pairs tie each other.
            found = reached.solve(self.problem, found)
        return found if self._risk(found, freedom) <= self._risk(near, rank) else reached.rest(self.problem, near)

    def _nearer(self, point: np.ndarray, near: np.ndarray) -> np.ndarray:
        """The start by proportional fitting, unless the objective is no less there: some records may be missing."""
        self.problem.at_level(0)
        return near if self.problem.value(near) < self.problem.value(point) else point

    def _risk(self, point: np.ndarray, freedom: float) -> float:
        """Stein's unbiased estimate of the squared error, in variances of the noise; that of least squares is the rank.

        For an estimate of `rank` independent normal numbers that lies `distance` from them and follows `freedom` of
        them: `distance - rank + 2 freedom`.
        """
        found = self.problem.statistics(point)
        distance = 0.0
        for names, term in self.problem.measured_sets.items():
            aim = term.values if term.residual else self.consistent.marginal(names)[0]
            away = self.problem.part(names, found) - self.problem.of_cells(names, aim)
            distance += float(away @ away) / (term.sd * term.sd)
            distance += self._left_out(names, aim) / (term.sd * term.sd)
        for place, aim, sd in self._queries:
            distance += float((found[place][0] - aim) / sd) ** 2
        return distance / self.variances - self._rank + 2 * freedom

    def _left_out(self, names: tuple[str, ...], aim: np.ndarray) -> float:
        """The squared distance of cells that no record has."""
        held = self.problem.of_cells(names, aim)
        return float(np.vdot(aim, aim) - held @ held) if held.size < aim.size else 0.0

    @property
    def _contradiction(self) -> float:
        """The largest distance of a measured number from least squares, in standard deviations of its noise."""
        distances = [0.0]
        for names, term in self.problem.measured_sets.items():
            if not term.residual:
                away = term.values - self.consistent.marginal(names)[0]
                distances.append(float(np.abs(away).max()) / term.sd)
        measured = self.problem.measured_queries
        distances += [abs(q.value - aim) / sd for (q, _), (_, aim, sd) in zip(measured, self._queries, strict=True)]
        return max(distances)

    @cached_property
    def _queries(self) -> list[tuple[slice, float, float]]:
        """Of each measured query the place of its parameter, what least squares make of it, and its noise."""
        known = self.consistent
        return [
            (place, known.expected(query) if known.knows(query.names) else query.value, query.sd)
            for query, place in self.problem.measured_queries
        ]

    @cached_property
    def _separate(self) -> int:
        """Measured queries of sets that no marginal was measured of: each is a number of its own."""
        return sum(not self.consistent.knows(query.names) for query, _ in self.problem.measured_queries)

    @property
    def _rank(self) -> int:
        return self.consistent.rank + self._separate


RULES_BROKEN = "; rows probably break an impossible rule of the domain: `reticent check` counts them"
"""Added to the note of a fit that cannot come near its measurements, if the domain has such rules."""


class Reached:
    """The progress of a fit over its levels of noise."""

    def __init__(
        self,
        tolerance: float,
        progress: float,
        iterations: int,
        furthest: float | None,
        variances: float = 1.0,
        *,
        laplace: bool = False,
        ruled: bool = False,
    ) -> None:
        self._tolerance, self._progress, self._left = tolerance, progress, iterations
        self._variances = variances
        self._ruled = ruled
        self._laplace = laplace
        self._furthest = None if furthest is None else sqrt(variances) * furthest
        self._last: DescentResult | None = None
        self._iterations = self._evaluations = 0
        self._misfit = self._contradiction = self._joined = 0.0
        self._nested = False

    def descend(self, problem: FitProblem, point: np.ndarray) -> np.ndarray:
        if not problem.size:
            return point
        levels = problem.levels(point)
        # In noise the prior keeps parameters apart; precise measurements tie them to each other.
        self._nested = problem.degrees is not None and levels > 0
        for level in range(levels, -1, -1):
            point = self._descend_at(problem.at_level(level), point)
        if problem.degrees is not None:
            point = self._revive(problem, point)
            if self.is_stalled(problem, point):
                return self.solve(problem, point)
        self._misfit = problem.misfit(point)
        return point

    def solve(self, problem: FitProblem, point: np.ndarray) -> np.ndarray:
        """Gauss-Newton steps from a point, and from the base while that leaves it stalled."""
        point = self._solve(problem, point, point)
        # A descent may have emptied cells that it cannot fill again.
        if self.is_stalled(problem, point):
            point = self._solve(problem, point, np.zeros(problem.size))
        self._misfit = problem.misfit(point)
        return point

    def finish(self, problem: FitProblem, point: np.ndarray) -> np.ndarray:
        """Finer steps where a measured cell is further off than noise leaves one, unless they leave it further off."""
        if self._furthest is None or self._misfit <= self._furthest or self._left <= 0:
            return point
        last = self._last
        finer = self._descend_at(problem.at_level(0), point, FINER)
        misfit = problem.misfit(finer)
        if misfit > self._misfit:
            self._last = last
            return point
        self._misfit = misfit
        return finer

    def note_contradiction(self, distance: float) -> None:
        """How far least squares leave a measured number, in standard deviations: no fit is much nearer to all."""
        self._contradiction = distance

    def note_joined(self, distance: float) -> None:
        """How far a measured number is from what the measurements of it were joined to before the fit."""
        self._joined = distance

    def is_stalled(self, problem: FitProblem, point: np.ndarray) -> bool:
        """Whether noise does not explain how far a point is from what was measured, if that is of uneven precision."""
        if problem.misfit(point) > self._usual(problem):
            return True
        return problem.uneven and problem.distance(point) > self._variances * problem.numbers

    def _usual(self, problem: FitProblem) -> float:
        """Standard deviations of noise that a measured number may be off: what the largest noise is expected to be.

        Of even precision any number: the descent finds it without further steps, as far as there are records.
        """
        if self._furthest is None or not problem.uneven:
            return inf
        return sqrt(self._variances) * largest_noise(problem.numbers, laplace=self._laplace)

    def _solve(self, problem: FitProblem, point: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The lowest point of Gauss-Newton steps from a start on, each solved exactly; the given one if none is lower.

        Precisions of many orders of magnitude on parameters that overlap are slow for a descent that knows a diagonal
        only. Steps need not lead lower one by one: what curvature adds to a precise number is large before the next
        step, which takes it off.
        """
        best, least = start, problem.at_level(0).value(start)
        at, fruitless, longest = start, 0, LEAP
        steps = WORK // problem.work
        for _ in range(min(steps, MOST_STEPS) if steps >= LEAST_STEPS else 0):
            at = at + problem.newton_step(at, longest)
            value = problem.value(at)
            self._iterations += 1
            self._evaluations += problem.size
            fruitless = 0 if value < least - self._progress else fruitless + 1
            if value < least:
                best, least = at, value
                if self._gap(problem) <= self._tolerance * problem.unit:
                    break
            if fruitless >= PATIENCE:
                at, fruitless, longest = best, 0, longest / PATIENCE
            if longest < SHORTEST:
                break
        if least >= problem.value(point):
            return point
        problem.value(best)
        gap = self._gap(problem)
        self._last = DescentResult(best, least, gap, 0, 1, gap <= self._tolerance * problem.unit)
        return best

    @staticmethod
    def _gap(problem: FitProblem) -> float:
        """At the point last valued."""
        return problem.gap_bound(problem.gradient()[problem.moving])

    def _revive(self, problem: FitProblem, point: np.ndarray) -> np.ndarray:
        """Descend again from where missed cells are as measured, while that leads lower."""
        beyond = sqrt(self._variances) * largest_noise(problem.cells, laplace=self._laplace)
        for _ in range(REVIVALS):
            revived = problem.revived(point, beyond)
            if revived is None:
                break
            before, last = problem.value(point), self._last
            tried = self._descend_at(problem, revived)
            if problem.value(tried) >= before:
                self._last = last
                break
            point = tried
        return point

    def rest(self, problem: FitProblem, point: np.ndarray) -> np.ndarray:
        """End at a point that descent would lead away from."""
        self._last = DescentResult(point, problem.at_level(0).value(point), inf, 0, 1, False)
        self._misfit = problem.misfit(point)
        return point

    def move(self, problem: FitProblem, point: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """End at a point near the one that descent led to, unless what else was measured is further off there."""
        if moved is point:
            return point
        misfit = problem.misfit(moved)
        usual = self._usual(problem) if self._furthest is None else min(self._usual(problem), self._furthest)
        if misfit > max(self._misfit, usual):
            return point
        self._misfit = misfit
        return moved

    def _descend_at(self, problem: FitProblem, point: np.ndarray, finer: float = 1.0) -> np.ndarray:
        """The curvature drifts as p moves: short first legs, each with the preconditioner of where the last one led."""

        def placed(moved: np.ndarray) -> np.ndarray:
            flat = point.copy()
            flat[problem.moving] = moved
            return flat

        def curvature(direction: np.ndarray) -> float:
            whole = np.zeros(problem.size)
            whole[problem.moving] = direction
            return problem.curvature(whole)

        objective = Objective(
            lambda moved: problem.value(placed(moved)), lambda: problem.gradient()[problem.moving], curvature
        )
        pairs = Pairs(point[problem.moving].size)
        for leg in LEGS:
            steps = max(1, min(leg, self._left))
            self._last = descend(
                objective,
                point[problem.moving],
                preconditioner=problem.preconditioner(point, nested=self._nested),
                gap_bound=problem.gap_bound,
                tolerance=self._tolerance * problem.unit,
                progress=finer * self._progress * sqrt(problem.cells),
                iterations=steps,
                pairs=pairs,
            )
            point = placed(self._last.point)
            self._left -= self._last.iterations
            self._iterations += self._last.iterations
            self._evaluations += self._last.evaluations + 1
            if self._last.certified or self._left <= 0 or self._last.iterations < min(steps, LEAST_LEG):
                break
        return point

    def _shortfall(self, certified: bool) -> str:
        """Why a fit has not converged; "" if it has, by its gap bound or as far as noise can tell."""
        if self._furthest is not None and max(self._misfit, self._joined) > self._furthest:
            cause = RULES_BROKEN if self._ruled else ""
            contradiction = max(self._contradiction, self._joined)
            if contradiction > self._furthest:
                return (
                    "the measurements contradict each other: least squares leave one "
                    f"{contradiction:.1f} standard deviations of its noise off{cause}"
                )
            return f"not converged: a measured cell is {self._misfit:.1f} standard deviations of its noise off{cause}"
        if certified:
            return ""
        if self._left <= 0:
            return f"stopped after {self._iterations} steps: the gap bound was not reached"
        return "" if self._furthest is not None else "stopped on small progress: the gap bound was not reached"

    def report(self, method: str) -> FitReport:
        last = self._last
        if last is None:
            message = self._shortfall(certified=True)
            return FitReport(0.0, 0.0, 0, 0, not message, method, message or "nothing was measured")
        message = self._shortfall(last.certified)
        return FitReport(
            last.objective,
            last.gap,
            self._iterations,
            self._evaluations,
            not message,
            method,
            message,
            self._misfit,
        )
