"""`Problem`: a loss compiled on a domain, with bounds on the whole universe and the whole ball (spec 8.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reticent.errors import QueryError
from reticent.losses.features import LARGEST_DIMENSION, Design

if TYPE_CHECKING:
    from reticent.losses.base import ConvexLoss, Extremes

UP = 1 + 1e-9
"""Bounds are rounded up by more than their own floating-point error."""
FLAT = 1e-5
"""A loss varies by at least this share of its values: `scale` is their difference, and cancellation eats its digits."""

STRAIGHT = 1e-3
"""Least smoothness, as a share of the slope over the radius: bending no more than this hardly shows on the ball."""


class Swing(NamedTuple):
    """Bounds on the difference between one record's losses at given parameters and at any others of the ball."""

    above: float
    below: float


class Problem:
    """A loss on a domain; its bounds hold for every record of the universe and every theta of the ball."""

    def __init__(self, loss: ConvexLoss, design: Design) -> None:
        self.loss = loss
        self.design = design
        self._rounded: tuple[float, Problem] | None = None
        self.radius = loss.radius
        self.outputs = loss.outputs(design)
        self.dimension = design.dimension * self.outputs
        if self.dimension > LARGEST_DIMENSION:
            raise QueryError(
                f"{self.dimension} parameters; at most {LARGEST_DIMENSION}: use fewer or coarser features or classes"
            )
        self.feature_norm = design.norm
        reach = self.feature_norm * self.radius
        labels = design.label_choices
        self._extremes = found = loss.extremes(labels, reach)
        self.slope_bound = found.slope * UP
        self.lipschitz = self.slope_bound * self.feature_norm * UP
        """Of f alone: the ridge is the same for every record, so it moves no sensitivity."""
        bend = loss.sharpest(reach) * self.feature_norm**2 + loss.ridge
        # A linear loss is smooth with any constant; descent divides by it.
        self.smoothness = max(bend, STRAIGHT * self.lipschitz / self.radius) * UP
        """Infinite where f has a kink: see `rounded`."""
        self.strong_convexity = loss.ridge
        self.scale = float((found.highest - found.lowest).max() + loss.ridge * self.radius**2 / 2) * UP
        """`S` of spec 8.1: how far one record's loss can vary over the ball."""
        tall = max(float(np.abs(found.highest).max()), float(np.abs(found.lowest).max()))
        self.height = tall + loss.ridge * self.radius**2 / 2
        """A bound on the loss itself: what float sums of it round against."""
        start = float((self._at_zero(labels) - found.lowest).max())
        # A mean's risk lies lowest at the mean itself, |v|^2 / 2 below that of zero.
        start = self.feature_norm**2 / 2 if loss.kind == "mean" else start
        self.zero_excess = min(self.scale, start * UP)
        """Parameters of zero exceed the minimum by at most this on any table: a bound of as much certifies nothing."""
        if not (math.isfinite(self.scale) and math.isfinite(self.lipschitz)):
            raise QueryError("the loss leaves the range of numbers on its ball; use a smaller radius")
        if self.scale < FLAT * self.height:
            raise QueryError(
                f"the loss hardly varies on its ball: by {self.scale:.3g} of {self.height:.3g}; use a larger radius"
                " or narrower bounds of the features"
            )

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.design.attributes

    @property
    def names(self) -> tuple[str, ...]:
        """One name per entry of theta."""
        if self.outputs == 1:
            return self.design.names
        classes = [self.design.domain[self.design.label or ""].labels[int(k)] for k in self.design.label_choices]
        return tuple(f"{label}: {name}" for label in classes for name in self.design.names)

    @property
    def family(self) -> str:
        """The family of this loss, a row of spec 8.4."""
        if self.loss.quadratic and self.loss.kind != "mean":
            return "squared"
        if self.strong_convexity > 0:
            return "strongly convex"
        return "generalised linear" if math.isfinite(self.loss.steepest) else "Lipschitz"

    def rounded(self, height: float) -> Problem:
        """The same with smoothed kinks: a smooth loss that exceeds this one by at most `height`."""
        if math.isfinite(self.smoothness):
            return self
        if self._rounded is None or self._rounded[0] != height:
            self._rounded = height, Problem(self.loss.rounded(height, self.design.label_choices), self.design)
        return self._rounded[1]

    def zero_loss(self, weight: float) -> float:
        """A bound on the excess risk of theta = 0 if rows have a total weight of up to `weight`."""
        if self.loss.kind == "mean":  # the minimiser is weight * mean, which lies weight^2 |mean|^2 / 2 below 0
            return weight**2 * self.feature_norm**2 / 2
        labels = self.design.label_choices
        return weight * max(0.0, float((self._at_zero(labels) - np.minimum(self._extremes.lowest, 0.0)).max()))

    def swing(self, theta: np.ndarray) -> Swing:
        """For every record x of the universe and every theta' of the ball, without the ridge:

        `-below <= f(theta; x) - f(theta'; x) <= above`. Both are at most the loss' range, and less if theta's own
        margins are small.
        """
        ball, own = self._extremes, self._extremes_at(theta)
        above, below = (own.highest - ball.lowest).max(), (ball.highest - own.lowest).max()
        return Swing(max(0.0, float(above)) * UP, max(0.0, float(below)) * UP)

    def _extremes_at(self, theta: np.ndarray) -> Extremes:
        """Bounds on f for each label, over the margins of theta on the universe."""
        labels, reach = self.design.label_choices, float(np.linalg.norm(theta)) * self.feature_norm * UP
        if self.outputs > 1:
            return self.loss.extremes(labels, reach)
        parts = [block.table @ part for block, part in zip(self.design.blocks, self.design.split(theta), strict=True)]
        slack = 1e-12 * (1 + reach)
        low, high = (math.fsum(float(end(part)) for part in parts) for end in (np.min, np.max))
        return self.loss.extremes(labels, reach, (low - slack, high + slack))

    def _at_zero(self, labels: np.ndarray) -> np.ndarray:
        return self.loss.values(np.zeros((self.outputs, 1)), labels)
