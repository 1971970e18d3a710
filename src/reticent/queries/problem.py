"""A problem is a loss compiled on a domain, with its bounds on the whole universe and all of the ball (spec 8.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from reticent.errors import QueryError
from reticent.queries.features import Design

if TYPE_CHECKING:
    from reticent.queries.convex import ConvexLoss

UP = 1 + 1e-9
"""Bounds are rounded up by more than their own floating-point error."""
FLAT = 1e-5
"""A loss varies by at least this share of its values: `scale` is their difference, and cancellation eats its digits."""


class Problem:
    """Bounds hold for every record of the universe and every theta of the ball."""

    def __init__(self, loss: ConvexLoss, design: Design) -> None:
        self.loss = loss
        self.design = design
        self.radius = loss.radius
        self.dimension = design.dimension
        self.feature_norm = design.norm
        reach = self.feature_norm * self.radius
        labels = design.label_choices
        ends = np.array([-reach, reach])[:, None]
        # f is convex, so its slope is extreme at the ends of the margin's interval
        self.slope_bound = float(np.abs(loss.slope(ends, labels)).max()) * UP
        self.lipschitz = self.slope_bound * self.feature_norm * UP
        """Of f alone: the ridge is the same for every record, so it moves no sensitivity."""
        self.smoothness = (loss.sharpest * self.feature_norm**2 + loss.ridge) * UP
        self.strong_convexity = loss.ridge
        highest = loss.value(ends, labels).max(axis=0)
        lowest = _lowest(loss, labels, reach)
        self.scale = float((highest - lowest).max() + loss.ridge * self.radius**2 / 2) * UP
        """`S` of spec 8.1: how far one record's loss can vary over the ball."""
        self.height = float(np.abs(loss.value(ends, labels)).max()) + loss.ridge * self.radius**2 / 2
        """A bound on the loss itself: what float sums of it round against."""
        if self.scale < FLAT * self.height:
            raise QueryError(
                f"the loss hardly varies on its ball: by {self.scale:.3g} of {self.height:.3g}; use a larger radius"
                " or narrower bounds of the features"
            )

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.design.attributes

    @property
    def family(self) -> str:
        """The row of spec 8.4 this loss belongs to."""
        if self.loss.quadratic and self.loss.kind != "mean":
            return "squared"
        if self.strong_convexity > 0:
            return "strongly convex"
        return "generalised linear" if math.isfinite(self.loss.steepest) else "Lipschitz"


def _lowest(loss: ConvexLoss, labels: np.ndarray, reach: float) -> np.ndarray:
    """For each label a lower bound on min f over margins in [-reach, reach]: bisect the sign of the slope."""
    low, high = np.full(labels.shape, -reach), np.full(labels.shape, reach)
    for _ in range(60):
        middle = (low + high) / 2
        falling = loss.slope(middle, labels) < 0
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    steepest = np.maximum(np.abs(loss.slope(low, labels)), np.abs(loss.slope(high, labels)))
    return np.minimum(loss.value(low, labels), loss.value(high, labels)) - steepest * (high - low)
