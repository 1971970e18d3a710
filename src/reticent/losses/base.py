"""`ConvexLoss`: a public function of parameters and a record, with bounds verified on the whole universe.

Every loss has the form `f(margins, label) + ridge/2 |theta|^2` over a ball, where each margin is an inner product of
parameters and features: one margin for most losses, one for each class of a multinomial loss. Bounds on the function f
therefore suffice for all of them (spec 8.1). "Loss" always means a convex loss; a privacy loss is called a price.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from reticent.domain import Categorical, Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, has_items, real_number
from reticent.losses.features import Design, Feature, build_blocks, label_numbers, refuse_unnamed_class
from reticent.losses.public import Problem
from reticent.queries.base import domain_order

LARGEST_RADIUS = 1e4
SMALLEST_RIDGE, LARGEST_RIDGE = 1e-100, 1e100
"""Within them no product of bounds leaves the range of floating-point numbers."""
HALVINGS = 60
"""Of an interval of margins, after which its ends are neighbouring floats."""

Task = Literal["number", "sign", "class", "margin", "mean"]
"""The kind of prediction: a number, one of two values, one of several, a margin only, or nothing."""
Labels = tuple[np.ndarray, np.ndarray, tuple[float, float]]
"""The number of each label code, a mask of usable codes, and (offset, scale) of the label as declared."""


@dataclass(frozen=True, eq=False)
class Extremes:
    """Bounds on f for each label, over all margins of norm at most some reach."""

    lowest: np.ndarray
    highest: np.ndarray
    slope: float
    """Bounds the norm of f's gradient in the margins."""


@dataclass(frozen=True, eq=False)
class ConvexLoss(ABC):
    """A declared loss; `on(domain)` verifies it and computes its bounds. Two losses are equal if their texts are."""

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
        radius: float = 2.0,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        positive: Any = None,
    ) -> None:
        if isinstance(features, str) or not has_items(features):
            raise QueryError(f"features {shown(features)} must be a list of attribute names")
        listed = tuple(_feature(feature) for feature in features)
        if len(set(listed)) < len(listed):
            raise QueryError("a feature is listed twice; it would be collinear with itself")
        if not (isinstance(radius, Real) and 0 < radius <= LARGEST_RADIUS):
            raise QueryError(
                f"radius {shown(radius)} must be above 0 and at most {LARGEST_RADIUS:g}: parameters live in a ball"
            )
        if not (isinstance(ridge, Real) and (ridge == 0 or SMALLEST_RIDGE <= ridge <= LARGEST_RIDGE)):
            told = f"0, or from {SMALLEST_RIDGE:g} to {LARGEST_RIDGE:g}"
            raise QueryError(f"ridge {shown(ridge)} must be a number, {told}")
        if not isinstance(intercept, bool | np.bool_):
            raise QueryError(f"intercept {shown(intercept)} must be True or False")
        if isinstance(categories, str | bytes) or not has_items(categories):
            raise QueryError(f"categories {shown(categories)} must be a list of attribute names")
        named = tuple(categories)
        if not all(isinstance(name, str) for name in named):
            raise QueryError("categories must be a list of attribute names")
        fields = {
            "features": listed,
            "label": label,
            "radius": float(radius),
            "ridge": float(ridge),
            "intercept": bool(intercept),
            "categories": tuple(sorted(named)),
            "bounds": _checked_bounds({} if bounds is None else bounds),
            "positive": positive,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def values(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """f; the first axis of `margins` holds the margins of one record, the others broadcast with `labels`."""

    @abstractmethod
    def slopes(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The gradient of f in the margins, along a first axis; any subgradient at a kink."""

    @abstractmethod
    def pull(self, margins: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Slopes times weights, summed over the labels: axis 0 of `labels` and `weights`, axis 1 of `margins`."""

    @abstractmethod
    def bend(self, margins: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Second derivatives `[margin, margin, ...]` times weights, summed over the labels in the same way."""

    @abstractmethod
    def curvatures(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Second derivatives `[margin, margin, ...]` of f."""

    @abstractmethod
    def extremes(self, labels: np.ndarray, reach: float, interval: tuple[float, float] | None = None) -> Extremes:
        """Bounds for each label over margins of norm at most `reach`; a single margin also lies in `interval`."""

    @property
    @abstractmethod
    def steepest(self) -> float:
        """A bound on the norm of f's gradient for every margin; infinite if it is bounded only on a ball."""

    @abstractmethod
    def sharpest(self, reach: float) -> float:
        """A bound on f'' for margins of norm at most `reach`; infinite if f has a kink."""

    @property
    def task(self) -> Task:
        """The kind of prediction: a class, a number, or none."""
        return "sign" if self.signs else "number"

    def outputs(self, design: Design) -> int:
        """The number of margins of a record."""
        return 1

    def rounded(self, height: float, labels: np.ndarray) -> ConvexLoss:
        """A smooth loss that exceeds this one by at most `height`; the loss itself if it has no kink."""
        return self

    def predicted(self, margins: np.ndarray) -> np.ndarray:
        """The mean of the scaled label at these margins, for losses of a number."""
        return margins

    def numbers(self, domain: Domain) -> Labels:
        """The target number of each label code."""
        assert self.label is not None
        return label_numbers(domain, self.label, self.features, signs=self.signs, positive=self.positive)

    def refuse_unnamed_class(self, domain: Domain) -> None:
        """Raise QueryError if `positive` is missing and the default, the second value, is probably not the intended
        class.
        """
        two = self.task == "sign" or (self.task == "number" and isinstance(domain[self.label or ""], Categorical))
        if two:
            refuse_unnamed_class(domain, self.label, self.positive)

    def parameters(self) -> dict[str, Any]:
        """Fields of `to_dict` beyond those that all losses share."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ledger and HTTP; `loss_from_dict` is the inverse.

        Returns:
            The kind of the loss and its settings.

        Example:
            >>> import reticent as rt
            >>> rt.Logistic(features=["a"], label="y").to_dict()["loss"]
            'logistic'
        """
        plain: dict[str, Any] = {
            "loss": self.kind,
            "features": [f if isinstance(f, str) else list(f) for f in self.features],
            "radius": self.radius,
            "ridge": self.ridge,
            "intercept": self.intercept,
            **self.parameters(),
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
        """This loss with its verified bounds on a domain; the result for the last domain is cached."""
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
            values, labelled, units = self.numbers(domain)
            names = names | {self.label}
        blocks = build_blocks(
            domain, self.features, intercept=self.intercept, categories=self.categories, bounds=limits
        )
        values.setflags(write=False)
        return Design(domain, domain_order(domain, names), blocks, self.label, values, labelled, units)


class ScalarLoss(ConvexLoss):
    """A loss of one margin: subclasses give f and its derivatives as functions of two broadcasting arrays."""

    @abstractmethod
    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        """f; convex in the margin."""

    @abstractmethod
    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        """f'."""

    @abstractmethod
    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        """f''."""

    def values(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.value(margins[0], labels)

    def slopes(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.slope(margins[0], labels)[None]

    def curvatures(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.curvature(margins[0], labels)[None, None]

    def pull(self, margins: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return (weights * self.slope(margins[0], labels)).sum(axis=0)[None]

    def bend(self, margins: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return (weights * self.curvature(margins[0], labels)).sum(axis=0)[None, None]

    def extremes(self, labels: np.ndarray, reach: float, interval: tuple[float, float] | None = None) -> Extremes:
        low, high = interval or (-reach, reach)
        # f is convex, so it is highest and its slope is extreme at the ends of the margin's interval
        ends = np.array([low, high])[:, None]
        slope = float(np.abs(self.slope(ends, labels)).max())
        return Extremes(self._lowest(labels, low, high), self.value(ends, labels).max(axis=0), slope)

    def _lowest(self, labels: np.ndarray, low: float, high: float) -> np.ndarray:
        """For each label a lower bound on min f over margins from `low` to `high`: bisect the sign of the slope."""
        left, right = np.full(labels.shape, low), np.full(labels.shape, high)
        for _ in range(HALVINGS):
            middle = (left + right) / 2
            falling = self.slope(middle, labels) < 0
            left, right = np.where(falling, middle, left), np.where(falling, right, middle)
        steepest = np.maximum(np.abs(self.slope(left, labels)), np.abs(self.slope(right, labels)))
        return np.minimum(self.value(left, labels), self.value(right, labels)) - steepest * (right - left)


def _checked_bounds(bounds: Any) -> tuple[tuple[str, float, float], ...]:
    if not isinstance(bounds, Mapping):
        raise QueryError(f"bounds {shown(bounds)} must be a table such as {{'age': (0, 100)}}")
    found = []
    for name, ends in bounds.items():
        pair = tuple(ends) if isinstance(name, str) and not isinstance(ends, str) and has_items(ends) else ()
        if len(pair) != 2:
            raise QueryError(f"bounds of {shown(name)} must be two numbers, such as {{'age': (0, 100)}}")
        low, high = (real_number(end, f"the bound of {shown(name)}", "a number") for end in pair)
        found.append((name, low, high))
    return tuple(sorted(found))


def _feature(feature: Any) -> Feature:
    """A name, or a tuple of names for an interaction."""
    if isinstance(feature, str):
        return feature
    if isinstance(feature, (tuple, list)) and feature and all(isinstance(name, str) for name in feature):
        return tuple(feature)
    raise QueryError(f"a feature is of type {type(feature).__name__}; give an attribute's name, or a tuple of names")
