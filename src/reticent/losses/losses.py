"""Squared, logistic, Poisson and mean losses, and all others by name; kinked losses are in `ramps`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from reticent.domain import Categorical, Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, has_items, is_mapping
from reticent.losses.base import ConvexLoss, Labels, ScalarLoss, Task
from reticent.losses.features import Feature, check_label
from reticent.losses.multinomial import Multinomial
from reticent.losses.ramps import Hinge, Huber, Margin, Quantile


class Squared(ScalarLoss):
    """`(margin - label)^2`; a numeric label is scaled to width one by its declared bounds.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict.
        radius: parameters lie in a ball of this radius.
        ridge: adds `ridge/2 |theta|^2`.
        intercept: whether a constant column is added.
        categories: numeric features that get one column for each value.
        bounds: `{feature: (low, high)}`, where other than the declared ones.
        positive: of a label that is no number, the value that counts as 1/2; all others as -1/2.

    Returns:
        A loss for `Session.minimize` and `Release.minimize`.

    Raises:
        QueryError: an argument is out of range, or, when the loss meets a domain, a name does not fit it.

    Example:
        >>> import reticent as rt
        >>> rt.Squared(features=["age", "sex", ("age", "sex")], label="income")
        Squared(features=['age', 'sex', 'age:sex'], label='income', radius=2)
    """

    kind = "squared"
    quadratic = True

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.square(margin - label)

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return 2.0 * (margin - label)

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.full(np.broadcast_shapes(np.shape(margin), np.shape(label)), 2.0)

    @property
    def steepest(self) -> float:
        return math.inf

    def sharpest(self, reach: float) -> float:
        return 2.0


class Ridge(Squared):
    """Squared loss plus `ridge/2 |theta|^2`: strongly convex.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict.
        radius: parameters lie in a ball of this radius.
        ridge: the weight of the penalty, above 0.
        intercept: whether a constant column is added.
        categories: numeric features that get one column for each value.
        bounds: `{feature: (low, high)}`, where other than the declared ones.
        positive: of a label that is no number, the value that counts as 1/2; all others as -1/2.

    Returns:
        A loss for `Session.minimize` and `Release.minimize`.

    Raises:
        QueryError: an argument is out of range, or, when the loss meets a domain, a name does not fit it.

    Example:
        >>> import reticent as rt
        >>> rt.Ridge(features=["age"], label="income", ridge=0.1).ridge
        0.1
    """

    kind = "ridge"

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str,
        radius: float = 2.0,
        ridge: float = 0.01,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        positive: Any = None,
    ) -> None:
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds, positive=positive,
        )  # fmt: skip
        if not self.ridge > 0:
            raise QueryError("Ridge needs ridge above 0; use Squared for none")


class Logistic(ScalarLoss):
    """`log(1 + exp(-label * margin))`: logistic regression of a label with two values.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict, with two values, or see `positive`.
        radius: parameters lie in a ball of this radius.
        ridge: adds `ridge/2 |theta|^2`.
        intercept: whether a constant column is added.
        categories: numeric features that get one column for each value.
        bounds: `{feature: (low, high)}`, where other than the declared ones.
        positive: the value to predict where the label has more than two.

    Returns:
        A loss for `Session.minimize` and `Release.minimize`.

    Raises:
        QueryError: an argument is out of range, or, when the loss meets a domain, a name does not fit it.

    Example:
        >>> import reticent as rt
        >>> rt.Logistic(features=["age", "job"], label="smoker", radius=2)
        Logistic(features=['age', 'job'], label='smoker', radius=2)
    """

    kind = "logistic"
    signs = True

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
        positive: Any = None,
    ) -> None:
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds, positive=positive,
        )  # fmt: skip

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        # log(1 + exp(-t)) = log1p(exp(-|t|)) + max(0, -t), the exponential once for both labels
        return np.log1p(np.exp(-np.abs(margin))) + np.maximum(0.0, -label * margin)

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return _sigmoid(margin) - (label > 0)

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        chance = _sigmoid(margin)
        return np.broadcast_to(chance * (1.0 - chance), np.broadcast_shapes(np.shape(margin), np.shape(label)))

    @property
    def steepest(self) -> float:
        return 1.0

    def sharpest(self, reach: float) -> float:
        return 0.25


class Poisson(ScalarLoss):
    """Poisson regression: `exp(margin) - label * margin`, for counts and other numbers that are not negative.

    The label is divided by its largest declared value, so `exp(margin)` is the mean as a share of that value. Means
    above `cap` times the largest value are implausible; the loss is linear there, so that its slope is bounded for
    every radius. If no fitted mean lies above the cap, the fit equals that of plain Poisson regression.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict: a number, at least 0.
        cap: the largest plausible mean, as a multiple of the label's largest value; None for no cap.
        radius: parameters lie in a ball of this radius.
        ridge: adds `ridge/2 |theta|^2`.
        intercept: whether a constant column is added.
        categories: numeric features that get one column for each value.
        bounds: `{feature: (low, high)}`, where other than the declared ones.

    Returns:
        A loss for `Session.minimize` and `Release.minimize`.

    Raises:
        QueryError: an argument is out of range, or, when the loss meets a domain, the label may be negative.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Integer(100), visits=rt.Integer(21))
        >>> rt.Poisson(features=["age"], label="visits").on(domain).lipschitz < 1.5
        True
    """

    kind = "poisson"
    cap: float | None

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str,
        cap: float | None = 1.0,
        radius: float = 4.0,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        if cap is not None and not (isinstance(cap, Real) and 0.01 <= cap <= 100):
            raise QueryError(f"cap {shown(cap)} must lie from 0.01 to 100, in units of the label's largest value")
        object.__setattr__(self, "cap", None if cap is None else float(cap))
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds,
        )  # fmt: skip

    def numbers(self, domain: Domain) -> Labels:
        name = check_label(domain, self.label or "", self.features)
        attribute = domain[name]
        numbers, ends = attribute.representatives, attribute.bounds
        if isinstance(attribute, Categorical) or numbers is None or ends is None:
            raise QueryError(f"label {name} holds no numbers; a Poisson loss counts something")
        if not (ends[0] >= 0 and 0 < ends[1] < math.inf):
            raise QueryError(f"label {name} lies from {ends[0]:g} to {ends[1]:g}; a Poisson loss needs at least 0")
        labelled = attribute.where("is_known")
        values = np.where(labelled, np.clip(np.nan_to_num(numbers), 0.0, ends[1]) / ends[1], 0.0)
        return values, labelled, (0.0, ends[1])

    @property
    def top(self) -> float:
        """The margin at which the mean reaches its cap."""
        return math.inf if self.cap is None else math.log(self.cap)

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        # exp(m) up to the cap, then its tangent there
        inside = np.minimum(margin, self.top)
        mean = np.exp(inside)
        return mean + (0.0 if self.cap is None else self.cap) * (margin - inside) - label * margin

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(margin, self.top)) - label

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(np.shape(margin), np.shape(label))
        return np.broadcast_to(np.where(margin < self.top, np.exp(np.minimum(margin, self.top)), 0.0), shape)

    def predicted(self, margins: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(margins, self.top))

    @property
    def steepest(self) -> float:
        return math.inf if self.cap is None else max(1.0, self.cap)

    def sharpest(self, reach: float) -> float:
        return math.exp(min(reach, self.top, 600.0))

    def parameters(self) -> dict[str, Any]:
        return {"cap": self.cap}


class MeanVector(ScalarLoss):
    """Half the squared distance to the feature vector, whose minimiser is the mean of a bounded vector.

    Computed as `-<theta, v> + |theta|^2 / 2`: the omitted constant changes neither minimiser nor excess risk.

    Args:
        features: attribute names; a tuple of names is an interaction. Numbers are scaled to [-1, 1].
        radius: parameters lie in a ball of this radius; by default one that contains every feature vector.
        categories: numeric features that get one column for each value.
        bounds: `{feature: (low, high)}`, where other than the declared ones.

    Returns:
        A loss for `Session.minimize` and `Release.minimize`.

    Raises:
        QueryError: an argument is out of range, or, when the loss meets a domain, a name does not fit it.

    Example:
        >>> import reticent as rt
        >>> rt.MeanVector(features=["age", "income"])
        MeanVector(features=['age', 'income'], radius=1.41421)
    """

    kind = "mean"
    quadratic = True

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        radius: float | None = None,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        if isinstance(features, str) or not has_items(features):
            raise QueryError(f"features {shown(features)} must be a list of attribute names")
        listed = list(features)
        # |v| <= sqrt(number of features): a numeric column lies in [-1, 1], a one-hot row has norm one
        reach = math.sqrt(max(1, len(listed))) if radius is None else radius
        super().__init__(
            features=listed, label=None, radius=reach, ridge=1.0, intercept=False, categories=categories, bounds=bounds
        )

    @property
    def task(self) -> Task:
        return "mean"

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return -margin * label

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.broadcast_to(-label, np.broadcast_shapes(np.shape(margin), np.shape(label)))

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.zeros(np.broadcast_shapes(np.shape(margin), np.shape(label)))

    @property
    def steepest(self) -> float:
        return 1.0

    def sharpest(self, reach: float) -> float:
        return 0.0


LOSSES: Mapping[str, type[ConvexLoss]] = {
    kind.kind: kind
    for kind in (Squared, Ridge, Logistic, Hinge, Huber, MeanVector, Quantile, Poisson, Multinomial, Margin)
}
"""The closed list of losses: the kernel accepts exactly these types."""


def loss_from_dict(description: Any) -> ConvexLoss:
    """The inverse of `ConvexLoss.to_dict`, for a closed list of losses (spec 1.4)."""
    if not is_mapping(description) or not isinstance(description.get("loss"), str):
        raise QueryError('a loss is an object such as {"loss": "squared", "features": ["age"], "label": "income"}')
    kind = LOSSES.get(description["loss"])
    if kind is None:
        raise QueryError(f"unknown loss {shown(description['loss'])}; use {', '.join(LOSSES)}")
    left_out = ("loss", "ridge", "intercept") if kind is MeanVector else ("loss",)
    options = {name: value for name, value in description.items() if name not in left_out}
    try:
        return kind(**options)
    except TypeError:
        raise QueryError(f"loss {kind.kind} does not take exactly {', '.join(sorted(options))}") from None


def checked_loss(loss: Any) -> ConvexLoss:
    """Check that a loss is one of the closed list, because a subclass could claim any bound."""
    if type(loss) not in LOSSES.values():
        raise QueryError(
            f"{type(loss).__name__} is not a known loss; use rt.{', rt.'.join(k.__name__ for k in LOSSES.values())}"
        )
    return loss


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # Cut before subnormal numbers, which take longer; what is cut off is below any rounding.
    small = np.exp(-np.minimum(np.abs(x), 600.0))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)
