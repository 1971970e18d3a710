"""Excess risk: the risk of public parameters on the rows minus the smallest possible risk (spec 8.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.mechanisms.noise import Sensitivity
from reticent.kernel.minimizers.solvers import (
    Descent,
    Shape,
    Tethered,
    counted_risk,
    guaranteed_minimum,
    into_ball,
    longest_sum,
    records_moved,
    refuse_slow,
    refuse_wide,
    step_work,
)
from reticent.kernel.statistics import bound_to, fine
from reticent.kernel.table import MOST_UNDECLARED, CountSource
from reticent.losses.losses import ConvexLoss, checked_loss
from reticent.losses.public import Problem
from reticent.losses.risk import rounded_risk

GAP = Fraction(1, 20)
"""The private minimum is found to within this many records: n * gap / scale."""
FLOATS = Fraction(1, 100)
"""Covers rounding to the grid and float64 sums of losses: what these would exceed is refused."""
MOST_RECORDS = 2**36
LARGEST_HIDDEN = 0.25
"""Beyond, an audit would say less than the loss' range."""


def least_scale(problem: Problem, theta: np.ndarray, neighbours: str) -> float:
    """The smallest unit in which one record moves the excess risk of theta by at most `moved` (docs/proofs).

    The range of the loss is always sufficient; a smaller unit suffices if theta's own margins are small.
    """
    above, below = problem.swing(theta)
    ridge, square = problem.strong_convexity / 2, float(theta @ theta)
    most = above + ridge * square  # no score then exceeds the number of records
    if neighbours == "replace-one":  # the ridge is the same for both records
        return min(problem.scale, max(most, (above + below) / 2))
    return min(problem.scale, max(most, below + ridge * max(0.0, problem.radius**2 - square)))


def excess_moved(neighbours: str, hidden: float) -> Fraction:
    """The largest change of a score by one person, in records (docs/proofs/excess-risk.md)."""
    return records_moved(neighbours) + Fraction(hidden) + GAP + FLOATS


def _refuse_small(scale: float, least: float) -> None:
    if not (math.isfinite(scale) and scale >= least):
        raise QueryError(f"scale {scale:g} is below {least:g}, the most that one record changes; use at least that")


@dataclass(frozen=True, eq=False)
class ExcessRisks:
    """One score per loss: `n * (risk(theta) - min risk) / scale` in records, with `scale >= least_scale`.

    Each is a maximum over theta' of sums whose terms lie within `scale`: one record moves it by 2 (replace-one) or 1,
    and the computed value lies within `GAP` below it (docs/proofs/excess-risk.md).
    """

    losses: tuple[ConvexLoss, ...]
    thetas: tuple[np.ndarray, ...]
    scales: tuple[float, ...]
    domain: Domain
    records: float
    """The public number of records, or a released total. It bounds the work and, under replace-one, float errors: there
    the curator refuses any but the table's own. Under add-remove those are bounded for the largest possible table."""
    state: str | None = None
    hidden: float = 0.0
    """A share of `scale` by which scores may fall short, times n: what is compared with is then rounded off at kinks
    and drawn toward 0, which needs far fewer steps. Without it a loss with a kink is refused."""

    def __post_init__(self) -> None:
        if not self.losses or not len(self.losses) == len(self.thetas) == len(self.scales):
            raise QueryError("every loss needs one theta and one scale; give at least one loss")
        if not 0 <= self.hidden <= LARGEST_HIDDEN:
            raise QueryError(f"hidden={self.hidden!r} must lie from 0 to {LARGEST_HIDDEN}")
        for loss, theta, scale in zip(self.losses, self.thetas, self.scales, strict=True):
            problem = checked_loss(loss).on(self.domain)
            theta = np.asarray(theta)
            if theta.shape != (problem.dimension,) or not np.linalg.norm(theta) <= problem.radius * (1 + 1e-9):
                raise QueryError(
                    f"theta must have {problem.dimension} entries and lie in the ball of {problem.radius:g}"
                )
            if self.hidden == 0 and not math.isfinite(problem.smoothness):
                raise QueryError(f"{problem.loss.kind} loss has a kink: its minimum needs hidden= above 0")
            _refuse_small(scale, least_scale(problem, theta, "replace-one"))
            refuse_slow(self._descent(problem, scale).steps)
            refuse_wide(problem)
        # A declared number may be wrong, so twice as many records are allowed.
        self._refuse_inexact(2 * self.records)
        if not 0 < self.records <= MOST_RECORDS:
            raise QueryError(f"records={self.records!r}: excess risk is exact up to {MOST_RECORDS} records; use fewer")

    def _refuse_inexact(self, records: float) -> None:
        """Refuse a loss if float errors on a table of this many records exceed their share of `FLOATS`."""
        for loss, scale in zip(self.losses, self.scales, strict=True):
            problem = loss.on(self.domain)
            # Two risks on either of two neighbours; the other half of FLOATS covers the grid.
            error = 4 * (longest_sum(problem) + 64) * 2.0**-53 * records * problem.height / scale
            if error > FLOATS / 2:
                raise QueryError(
                    f"the loss varies too little for up to {records:g} records: by {problem.scale:.3g} of"
                    f" {problem.height:.3g}; use a larger radius"
                )

    def _eased(self, problem: Problem, scale: float) -> tuple[float, float]:
        """(height, extra): the smoothing of kinks and the added ridge, together `hidden` of `scale`."""
        hidden = self.hidden * scale
        height = 0.0 if math.isfinite(problem.smoothness) else hidden / 2
        return height, 2 * (hidden - height) / problem.radius**2

    def _descent(self, problem: Problem, scale: float) -> Descent:
        """Enough steps for `GAP` on any table of up to twice `records`: a public number, taken on every table."""
        height, extra = self._eased(problem, scale)
        smooth = problem.rounded(height)
        shape = Shape(smooth.radius, smooth.lipschitz, smooth.smoothness + extra, smooth.strong_convexity + extra)
        return shape.to_gap(float(GAP) * scale / max(1.0, 2 * self.records))

    @property
    def work(self) -> int:
        """Cells visited in all steps: the same on every table."""
        problems = [loss.on(self.domain) for loss in self.losses]
        pairs = zip(problems, self.scales, strict=True)
        return sum(self._descent(problem, scale).steps * step_work(problem) for problem, scale in pairs)

    def resolution(self, person_grid: int) -> int:
        return fine(person_grid)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        if neighbours == "add-remove":
            self._refuse_inexact(MOST_UNDECLARED)
        for loss, theta, scale in zip(self.losses, self.thetas, self.scales, strict=True):
            _refuse_small(scale, least_scale(loss.on(self.domain), np.asarray(theta), neighbours))
        return Sensitivity.scalar(excess_moved(neighbours, self.hidden))

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        weight, steps = source.total(), self.resolution(person_grid)
        # No score exceeds the table's weight, so this cuts nothing off a table of up to `records`; one of more than
        # twice as many, where the steps would not suffice, scores 0. It moves by one record like the scores themselves.
        most = max(0, math.floor(2 * Fraction(self.records) * person_grid) - weight) * steps
        divisor = max(weight, 1) / person_grid
        scores = []
        for loss, theta, scale in zip(self.losses, self.thetas, self.scales, strict=True):
            problem = loss.on(self.domain)
            risk = counted_risk(problem, source, person_grid, divisor)
            height, extra = self._eased(problem, scale)
            eased = Tethered(rounded_risk(risk, height), extra)
            best = guaranteed_minimum(eased, self._descent(problem, scale))
            excess = max(0.0, risk.value(into_ball(np.asarray(theta), problem.radius)) - eased.value(best))
            scores.append(min(most, math.floor(excess / scale * weight * steps)))
        return np.array(scores, dtype=np.int64)

    def describe(self) -> dict[str, object]:
        return {
            "excess risks of": [loss.to_dict() for loss in self.losses],
            **bound_to(self.state, "thetas", *(np.asarray(theta, dtype=np.float64) for theta in self.thetas)),
            "scales": list(self.scales),
            **({"hidden": self.hidden} if self.hidden else {}),
        }


class ExcessRisk(ExcessRisks):
    """The largest of them: one number, for audits and AboveThreshold."""

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        return np.asarray(super().evaluate(source, person_grid).max(), dtype=np.int64)

    def describe(self) -> dict[str, object]:
        return {"largest": True, **super().describe()}
