"""A convex loss is a public function of parameters and a record; its bounds are verified on the whole universe.

Every loss here has the form `f(<theta, features>, label) + ridge/2 |theta|^2` over a ball, so one set of bounds on the
scalar function f serves them all (spec 8.1). "loss" always means one of these; privacy has a price.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.queries.base import canonical
from reticent.queries.features import Design, Feature, build_blocks, label_numbers
from reticent.queries.problem import Problem

LARGEST_RADIUS = 1e4


@dataclass(frozen=True, eq=False)
class ConvexLoss(ABC):
    """A declaration; `on(domain)` verifies it and computes its bounds. Equal when their texts are."""

    features: tuple[Feature, ...]
    label: str | None
    radius: float
    ridge: float
    intercept: bool
    categories: tuple[str, ...]
    bounds: tuple[tuple[str, float, float], ...]
    positive: Any

    kind: ClassVar[str]
    signs: ClassVar[bool] = False
    """Whether the label is +1 or -1 (classification) instead of a number of width one."""
    quadratic: ClassVar[bool] = False

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str | None,
        radius: float,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        positive: Any = None,
    ) -> None:
        if isinstance(features, str) or not isinstance(features, Iterable):
            raise QueryError(f"features {shown(features)} must be a list of attribute names")
        listed = tuple(feature if isinstance(feature, str) else tuple(feature) for feature in features)
        if len(set(listed)) < len(listed):
            raise QueryError("a feature is listed twice; it would be collinear with itself")
        if not (isinstance(radius, Real) and 0 < radius <= LARGEST_RADIUS):
            raise QueryError(
                f"radius {radius!r} must be above 0 and at most {LARGEST_RADIUS:g}: parameters live in a ball"
            )
        if not (isinstance(ridge, Real) and math.isfinite(ridge) and ridge >= 0):
            raise QueryError(f"ridge {ridge!r} must be a finite number, at least 0")
        limits = tuple(sorted((name, float(low), float(high)) for name, (low, high) in (bounds or {}).items()))
        fields = {
            "features": listed,
            "label": label,
            "radius": float(radius),
            "ridge": float(ridge),
            "intercept": bool(intercept),
            "categories": tuple(sorted(categories)),
            "bounds": limits,
            "positive": positive,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        """f; smooth and convex in the margin."""

    @abstractmethod
    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        """f'."""

    @abstractmethod
    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        """f''."""

    @property
    @abstractmethod
    def steepest(self) -> float:
        """A bound on abs(f') for every margin; infinite where the ball is needed to bound it."""

    @property
    @abstractmethod
    def sharpest(self) -> float:
        """A bound on f''."""

    def _parameters(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ledger and HTTP; `loss_from_dict` is the inverse."""
        plain: dict[str, Any] = {
            "loss": self.kind,
            "features": [f if isinstance(f, str) else list(f) for f in self.features],
            "radius": self.radius,
            "ridge": self.ridge,
            "intercept": self.intercept,
            **self._parameters(),
        }
        if self.label is not None:
            plain["label"] = self.label
        if self.categories:
            plain["categories"] = list(self.categories)
        if self.bounds:
            plain["bounds"] = {name: [low, high] for name, low, high in self.bounds}
        if self.positive is not None:
            plain["positive"] = self.positive
        return plain

    @cached_property
    def text(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConvexLoss) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        names = [f if isinstance(f, str) else ":".join(f) for f in self.features]
        aim = "" if self.label is None else f", label={self.label!r}"
        return f"{type(self).__name__}(features={names}{aim}, radius={self.radius:g})"

    def on(self, domain: Domain) -> Problem:
        """This loss with its verified bounds on a domain; the last domain's is kept."""
        kept = self.__dict__.get("_problem")
        if kept is not None and kept[0] is domain:
            return kept[1]
        problem = Problem(self, self._design(domain))
        object.__setattr__(self, "_problem", (domain, problem))
        return problem

    def _design(self, domain: Domain) -> Design:
        limits = {name: (low, high) for name, low, high in self.bounds}
        values, labelled, units = np.ones(1), np.ones(1, dtype=bool), (0.0, 1.0)
        names = {name for f in self.features for name in ((f,) if isinstance(f, str) else f)}
        if self.label is not None:
            values, labelled, units = label_numbers(
                domain, self.label, self.features, signs=self.signs, positive=self.positive
            )
            names = names | {self.label}
        blocks = build_blocks(
            domain, self.features, intercept=self.intercept, categories=self.categories, bounds=limits
        )
        values.setflags(write=False)
        return Design(domain, canonical(domain, names), blocks, self.label, values, labelled, units)


class Squared(ConvexLoss):
    """`(margin - label)^2`; a numeric label is scaled to width one by its declared bounds."""

    kind = "squared"
    quadratic = True

    def __init__(self, *, features: Iterable[Feature], label: str, radius: float = 2.0, **options: Any) -> None:
        super().__init__(features=features, label=label, radius=radius, **options)

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.square(margin - label)

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return 2.0 * (margin - label)

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.full(np.broadcast_shapes(np.shape(margin), np.shape(label)), 2.0)

    @property
    def steepest(self) -> float:
        return math.inf

    @property
    def sharpest(self) -> float:
        return 2.0


class Ridge(Squared):
    """Squared loss plus `ridge/2 |theta|^2`: strongly convex."""

    kind = "ridge"

    def __init__(self, *, features: Iterable[Feature], label: str, ridge: float = 0.01, **options: Any) -> None:
        super().__init__(features=features, label=label, ridge=ridge, **options)
        if not self.ridge > 0:
            raise QueryError("Ridge needs ridge above 0; use Squared for none")


class Logistic(ConvexLoss):
    """`log(1 + exp(-label * margin))`."""

    kind = "logistic"
    signs = True

    def __init__(self, *, features: Iterable[Feature], label: str, radius: float = 8.0, **options: Any) -> None:
        super().__init__(features=features, label=label, radius=radius, **options)

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

    @property
    def sharpest(self) -> float:
        return 0.25


class Smoothed(ConvexLoss):
    """A loss with a kink, rounded off by a parabola of the given width."""

    width: float

    def __init__(self, *, features: Iterable[Feature], label: str, width: float, **options: Any) -> None:
        object.__setattr__(self, "width", _width(width))
        super().__init__(features=features, label=label, **options)

    def _parameters(self) -> dict[str, Any]:
        return {"width": self.width}


class Hinge(Smoothed):
    """The support vector machine's hinge, smoothed by a parabola of the given width below the kink."""

    kind = "hinge"
    signs = True

    def __init__(
        self, *, features: Iterable[Feature], label: str, radius: float = 4.0, width: float = 0.5, **options: Any
    ) -> None:
        super().__init__(features=features, label=label, radius=radius, width=width, **options)

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        lack = np.maximum(0.0, 1.0 - label * margin)
        return np.where(lack < self.width, np.square(lack) / (2 * self.width), lack - self.width / 2)

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return -label * np.clip((1.0 - label * margin) / self.width, 0.0, 1.0)

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        lack = 1.0 - label * margin
        return np.where((lack > 0) & (lack < self.width), 1.0 / self.width, 0.0)

    @property
    def steepest(self) -> float:
        return 1.0

    @property
    def sharpest(self) -> float:
        return 1.0 / self.width


class Huber(Smoothed):
    """Half the squared residual up to `width`, linear beyond: a regression that outliers cannot pull far."""

    kind = "huber"

    def __init__(
        self, *, features: Iterable[Feature], label: str, radius: float = 2.0, width: float = 0.25, **options: Any
    ) -> None:
        super().__init__(features=features, label=label, radius=radius, width=width, **options)

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        miss = np.abs(margin - label)
        return np.where(miss <= self.width, np.square(miss) / 2, self.width * (miss - self.width / 2))

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.clip(margin - label, -self.width, self.width)

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return (np.abs(margin - label) <= self.width).astype(np.float64)

    @property
    def steepest(self) -> float:
        return self.width

    @property
    def sharpest(self) -> float:
        return 1.0


class MeanVector(ConvexLoss):
    """Half the squared distance to the feature vector, whose minimiser is the mean of a bounded vector.

    Written as `-<theta, v> + |theta|^2 / 2`: the record's own constant moves neither minimiser nor excess risk.
    """

    kind = "mean"
    quadratic = True

    def __init__(self, *, features: Iterable[Feature], radius: float | None = None, **options: Any) -> None:
        if {"ridge", "label", "positive", "intercept"} & set(options):
            raise QueryError("a mean has neither label, intercept nor ridge; give features only")
        listed = list(features)
        # |v| <= sqrt(number of features): a numeric column lies in [-1, 1], a one-hot row has norm one
        reach = math.sqrt(max(1, len(listed))) if radius is None else radius
        super().__init__(features=listed, label=None, radius=reach, ridge=1.0, intercept=False, **options)

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return -margin * label

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.broadcast_to(-label, np.broadcast_shapes(np.shape(margin), np.shape(label)))

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return np.zeros(np.broadcast_shapes(np.shape(margin), np.shape(label)))

    @property
    def steepest(self) -> float:
        return 1.0

    @property
    def sharpest(self) -> float:
        return 0.0


LOSSES: Mapping[str, type[ConvexLoss]] = {
    kind.kind: kind for kind in (Squared, Ridge, Logistic, Hinge, Huber, MeanVector)
}
"""All losses there are: the kernel accepts these exact types and no other."""


def loss_from_dict(description: Any) -> ConvexLoss:
    """The inverse of `ConvexLoss.to_dict`; a closed vocabulary (spec 1.4)."""
    if not isinstance(description, Mapping) or not isinstance(description.get("loss"), str):
        raise QueryError('a loss is an object such as {"loss": "squared", "features": ["age"], "label": "income"}')
    kind = LOSSES.get(description["loss"])
    if kind is None:
        raise QueryError(f"unknown loss {shown(description['loss'])}; use {', '.join(LOSSES)}")
    options = {name: value for name, value in description.items() if name != "loss"}
    if kind is MeanVector:
        options = {name: value for name, value in options.items() if name not in ("ridge", "intercept")}
    try:
        return kind(**options)
    except TypeError:
        raise QueryError(f"loss {kind.kind} does not take exactly {', '.join(sorted(options))}") from None


def checked_loss(loss: Any) -> ConvexLoss:
    """Only the closed list: a subclass could claim any bound."""
    if type(loss) not in LOSSES.values():
        raise QueryError(
            f"{type(loss).__name__} is not a known loss; use rt.{', rt.'.join(k.__name__ for k in LOSSES.values())}"
        )
    return loss


def _width(width: float) -> float:
    if not (isinstance(width, Real) and 1e-3 <= width <= 100):
        raise QueryError(f"width {width!r} must lie between 0.001 and 100: a sharper kink has no guaranteed solver")
    return float(width)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)
