"""Multinomial logistic loss: one margin for each class of the label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.losses.base import ConvexLoss, Extremes, Labels, Task
from reticent.losses.features import Design, Feature, check_label


class Multinomial(ConvexLoss):
    """Multinomial logistic regression: `log(sum over classes of exp(margin)) - margin of the label`.

    Every declared value of the label is a class with its own parameters; `theta` holds those of the first class,
    then those of the second, and so on. With two classes it is `rt.Logistic` with twice the parameters.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict; each of its declared values is a class.
        radius: all parameters together lie in a ball of this radius.
        ridge: adds `ridge/2 |theta|^2`.
        intercept: whether a constant column is added.
        categories: numeric features that get one column for each value.
        bounds: `{feature: (low, high)}`, where other than the declared ones.

    Returns:
        A loss for `Session.minimize` and `Release.minimize`.

    Raises:
        QueryError: an argument is out of range, or, when the loss meets a domain, a name does not fit it.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Integer(100), job=rt.Categorical(["cook", "clerk", "smith"]))
        >>> rt.Multinomial(features=["age"], label="job").on(domain).names
        ('cook: (intercept)', 'cook: age', 'clerk: (intercept)', 'clerk: age', 'smith: (intercept)', 'smith: age')
    """

    kind = "multinomial"

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str,
        radius: float = 8.0,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds,
        )  # fmt: skip

    def numbers(self, domain: Domain) -> Labels:
        attribute = domain[check_label(domain, self.label or "", self.features)]
        if attribute.known < 2:
            raise QueryError(f"label {self.label} has one value only; there is nothing to predict")
        labelled = attribute.where("is_known")
        return np.where(labelled, np.arange(attribute.size, dtype=np.float64), 0.0), labelled, (0.0, 1.0)

    @property
    def task(self) -> Task:
        return "class"

    def outputs(self, design: Design) -> int:
        return len(design.label_choices)

    def values(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        top = margins.max(axis=0)
        total = top + np.log(np.exp(margins - top).sum(axis=0))
        own = sum((np.where(labels == k, margin, 0.0) for k, margin in enumerate(margins)), start=np.zeros(1))
        return total - own

    def slopes(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        chances = softmax(margins)
        return np.stack(np.broadcast_arrays(*(chance - (labels == k) for k, chance in enumerate(chances))))

    def curvatures(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        chances = softmax(margins)
        found = -chances[:, None] * chances[None]
        for k, chance in enumerate(chances):
            found[k, k] += chance
        return found

    def pull(self, margins: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        # One weight for each class, in order: no array over both classes and labels is needed.
        return softmax(margins[:, 0]) * weights.sum(axis=0) - weights

    def bend(self, margins: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self.curvatures(margins[:, 0], labels) * weights.sum(axis=0)

    def extremes(self, labels: np.ndarray, reach: float, interval: tuple[float, float] | None = None) -> Extremes:
        """f = log(1 + sum over other classes of exp(margin - own margin)).

        A difference of two margins is at most sqrt(2) times their norm; f is least where all other margins are equal,
        and then own and others differ by at most sqrt(k / (k - 1)) times the norm.
        """
        others = len(labels) - 1
        far = math.sqrt(2) * reach
        highest = far + math.log(others + math.exp(-far))
        lowest = math.log1p(others * math.exp(-reach * math.sqrt((others + 1) / others)))
        return Extremes(np.full(len(labels), lowest), np.full(len(labels), highest), self.steepest)

    @property
    def steepest(self) -> float:
        """`|p - e|` <= sqrt(2) for a distribution p and a unit vector e."""
        return math.sqrt(2)

    def sharpest(self, reach: float) -> float:
        """The covariance of a unit vector drawn from p has norm at most 1/2."""
        return 0.5


def softmax(margins: np.ndarray) -> np.ndarray:
    """Probabilities of the classes, along the first axis."""
    # Cut before subnormal numbers, as for two classes.
    grown = np.exp(np.maximum(margins - margins.max(axis=0), -600.0))
    return grown / grown.sum(axis=0)
