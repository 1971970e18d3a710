"""Excess risk: how much worse public parameters do on the rows than the best ones (spec 8.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.minimizer_steps import (
    counted_risk,
    guaranteed_minimum,
    into_ball,
    longest_sum,
    moved,
    refuse_slow,
    refuse_wide,
    steps_for_gap,
)
from reticent.kernel.noise import Sensitivity
from reticent.kernel.statistics import digest, fine
from reticent.kernel.table import MOST_UNDECLARED, CountSource
from reticent.queries.convex import ConvexLoss, checked_loss

GAP = Fraction(1, 20)
"""The private minimum is found to within this many records: n * gap / scale."""
FLOATS = Fraction(1, 100)
"""Covers rounding to the grid and float64 sums of losses: what these would exceed is refused."""
MOST_RECORDS = 2**36


@dataclass(frozen=True, eq=False)
class ExcessRisks:
    """One score per loss: `n * (risk(theta) - min risk) / scale` in records, with `scale >= S` of that loss.

    Each is a maximum over theta' of sums whose terms lie in [-1, 1]: one record moves it by 2 (replace-one) or 1, and
    the computed value lies within `GAP` below it (docs/proofs/excess-risk.md).
    """

    losses: tuple[ConvexLoss, ...]
    thetas: tuple[np.ndarray, ...]
    scales: tuple[float, ...]
    domain: Domain
    records: float
    """The public number of records, or a released total. It bounds the work and, under replace-one, float errors: there
    the curator refuses any but the table's own. Under add-remove those are bounded for the largest possible table."""

    def __post_init__(self) -> None:
        if not self.losses or not len(self.losses) == len(self.thetas) == len(self.scales):
            raise QueryError("every loss needs one theta and one scale; give at least one loss")
        for loss, theta, scale in zip(self.losses, self.thetas, self.scales, strict=True):
            problem = checked_loss(loss).on(self.domain)
            theta = np.asarray(theta)
            if theta.shape != (problem.dimension,) or not np.linalg.norm(theta) <= problem.radius * (1 + 1e-9):
                raise QueryError(
                    f"theta must have {problem.dimension} entries and lie in the ball of {problem.radius:g}"
                )
            if not (math.isfinite(scale) and scale >= problem.scale):
                raise QueryError(f"scale {scale:g} is below the loss' own range {problem.scale:g}; use at least that")
            refuse_slow(steps_for_gap(problem.smoothness, problem.radius, self._gap(scale, 2 * self.records)))
            if not problem.loss.quadratic:
                refuse_wide(problem)
        # A declared number may be wrong: twice as many records are allowed for.
        self._refuse_inexact(2 * self.records)
        if not 0 < self.records <= MOST_RECORDS:
            raise QueryError(f"records={self.records!r}: excess risk is exact enough up to {MOST_RECORDS} records")

    def _refuse_inexact(self, records: float) -> None:
        """Float errors of a table of this many records must stay within their share of `FLOATS`."""
        for loss, scale in zip(self.losses, self.scales, strict=True):
            problem = loss.on(self.domain)
            # Two risks on either of two neighbours; the other half of FLOATS covers the grid.
            error = 4 * (longest_sum(problem) + 64) * 2.0**-53 * records * problem.height / scale
            if error > FLOATS / 2:
                raise QueryError(
                    f"the loss varies too little for up to {records:g} records: by {problem.scale:.3g} of"
                    f" {problem.height:.3g}; use a larger radius"
                )

    @staticmethod
    def _gap(scale: float, records: float) -> float:
        return float(GAP) * scale / max(1.0, records)

    def resolution(self, person_grid: int) -> int:
        return fine(person_grid)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        if neighbours == "add-remove":
            self._refuse_inexact(MOST_UNDECLARED)
        return Sensitivity.scalar(moved(neighbours) + GAP + FLOATS)

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        weight = source.total()
        grid = self.resolution(person_grid) * person_grid
        scores = []
        for loss, theta, scale in zip(self.losses, self.thetas, self.scales, strict=True):
            problem, records = loss.on(self.domain), weight / person_grid
            excess = 0.0
            if weight > 0:
                risk = counted_risk(problem, source, person_grid, records)
                best = guaranteed_minimum(risk, problem.radius, problem.smoothness, self._gap(scale, records))
                excess = max(0.0, risk.value(into_ball(np.asarray(theta), problem.radius)) - risk.value(best))
            scores.append(math.floor(excess * records / scale * grid))
        return np.array(scores, dtype=np.int64)

    def describe(self) -> dict[str, object]:
        return {
            "excess risks of": [loss.to_dict() for loss in self.losses],
            "thetas": digest(*(np.asarray(theta, dtype=np.float64) for theta in self.thetas)),
            "scales": list(self.scales),
        }


class ExcessRisk(ExcessRisks):
    """The largest of them: one number, for audits and AboveThreshold."""

    def evaluate(self, source: CountSource, person_grid: int) -> np.ndarray:
        return np.asarray(super().evaluate(source, person_grid).max(), dtype=np.int64)

    def describe(self) -> dict[str, object]:
        return {"largest": True, **super().describe()}
