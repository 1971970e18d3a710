"""Losses whose slope is piecewise linear in the margin: hinge, Huber, quantile, and losses that a user declares by
knots.

Such a slope has a start value and rises along ramps. A ramp without width is a jump of the slope, that is, a kink of
the loss; `rounded` turns it into a narrow ramp. Lipschitz constant, smoothness and range follow from a few numbers.
"""

from __future__ import annotations

import copy
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, has_type, is_mapping, is_sequence, real_number
from reticent.losses.base import Labels, ScalarLoss, Task
from reticent.losses.features import Feature, check_label

NARROWEST, WIDEST = 1e-3, 100.0
"""Widths of ramps: a narrower one would need more steps of descent than a kink that is rounded off."""
LARGEST_KNOT = 1e6
MOST_KNOTS = 64
Knots = Sequence[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Ramps:
    """f' = start + sum_i rise_i * clip((margin - centre_i) / width_i + 1/2, 0, 1), and f(0) = constant.

    `start` and `constant` have the shape of the labels; the others a first axis more, one entry for each ramp.
    """

    start: np.ndarray
    constant: np.ndarray
    centres: np.ndarray
    widths: np.ndarray
    rises: np.ndarray

    def value(self, margin: np.ndarray) -> np.ndarray:
        total = self.start * margin + self.constant
        for centre, width, rise in zip(self.centres, self.widths, self.rises, strict=True):
            total = total + rise * _climbed(margin - centre, width)
        return total

    def slope(self, margin: np.ndarray) -> np.ndarray:
        total: np.ndarray = np.broadcast_to(self.start, np.broadcast_shapes(np.shape(margin), self.start.shape))
        for centre, width, rise in zip(self.centres, self.widths, self.rises, strict=True):
            away = margin - centre
            share: np.ndarray = np.clip(away / np.where(width > 0, width, 1.0) + 0.5, 0.0, 1.0)
            if not np.all(width > 0):
                share = np.where(width > 0, share, np.heaviside(away, 0.5))
            total = total + rise * share
        return total

    def curvature(self, margin: np.ndarray) -> np.ndarray:
        total = np.zeros(np.broadcast_shapes(np.shape(margin), self.start.shape))
        for centre, width, rise in zip(self.centres, self.widths, self.rises, strict=True):
            total = total + np.where(np.abs(margin - centre) < width / 2, rise / np.where(width > 0, width, 1.0), 0.0)
        return total

    @property
    def steepest(self) -> float:
        """The largest absolute slope; the slope never falls, so it is attained at an end."""
        return float(np.maximum(np.abs(self.start), np.abs(self.start + self.rises.sum(axis=0))).max())

    @property
    def sharpest(self) -> float:
        """The largest second derivative: it can only grow where a ramp begins."""
        rising = self.rises > 0
        if np.any(rising & (self.widths == 0)):
            return math.inf
        begins, ends = self.centres - self.widths / 2, self.centres + self.widths / 2
        bends = np.where(rising, self.rises / self.widths, 0.0)
        largest = 0.0
        for begin in begins:
            largest = max(largest, float((bends * ((begins <= begin) & (begin < ends))).sum(axis=0).max(initial=0.0)))
        return largest

    @property
    def jumps(self) -> float:
        """The largest sum of one label's jumps."""
        return float(np.where(self.widths == 0, self.rises, 0.0).sum(axis=0).max(initial=0.0))

    def widened(self, width: float) -> Ramps:
        """Jumps replaced by ramps of this width: f grows by at most `width / 8` times the jumps and never decreases."""
        return Ramps(
            self.start, self.constant, self.centres, np.where(self.widths == 0, width, self.widths), self.rises
        )


def _climbed(away: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The integral of one ramp of height one, at this distance from its centre."""
    inside = np.clip(away + width / 2, 0.0, width)
    return np.square(inside) / np.where(width > 0, 2 * width, 1.0) + np.maximum(away - width / 2, 0.0)


class RampLoss(ScalarLoss):
    """A scalar loss given by its ramps for each label."""

    rounding: float = 0.0
    """Width of the ramps that stand for jumps; never part of the declaration."""

    @abstractmethod
    def declared(self, labels: np.ndarray) -> Ramps:
        """The ramps for each of these labels, with kinks as jumps."""

    def ramps(self, labels: np.ndarray) -> Ramps:
        """The ramps for each of these labels, with smoothed kinks if this loss is a rounded one."""
        kept = self.__dict__.get("_kept")
        if kept is not None and kept[0] is labels:  # a risk asks in every step, with the same array
            return kept[1]
        found = self.declared(np.asarray(labels, dtype=np.float64))
        found = found.widened(self.rounding) if self.rounding > 0 else found
        object.__setattr__(self, "_kept", (labels, found))
        return found

    def rounded(self, height: float, labels: np.ndarray) -> RampLoss:
        jumps = self.ramps(labels).jumps
        if jumps == 0:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "rounding", 8 * height / jumps)
        for name in ("_problem", "_kept"):
            vars(other).pop(name, None)
        return other

    def value(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return self.ramps(label).value(margin)

    def slope(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return self.ramps(label).slope(margin)

    def curvature(self, margin: np.ndarray, label: np.ndarray) -> np.ndarray:
        return self.ramps(label).curvature(margin)

    @property
    def typical(self) -> np.ndarray:
        """Labels at which slopes and their rises attain their extremes."""
        return np.array([-1.0, 1.0])

    @property
    def steepest(self) -> float:
        return self.ramps(self.typical).steepest

    def sharpest(self, reach: float) -> float:
        return self.ramps(self.typical).sharpest


def _one(start: Any, centre: np.ndarray, width: float, rise: float, constant: np.ndarray) -> Ramps:
    """A single ramp for every label."""
    shape = np.shape(centre)
    full = [np.full((1, *shape), number) for number in (width, rise)]
    return Ramps(np.broadcast_to(np.asarray(start, dtype=np.float64), shape), constant, centre[None], *full)


class Hinge(RampLoss):
    """The support vector machine's hinge, `max(0, 1 - label * margin)`.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict, with two values, or see `positive`.
        radius: parameters lie in a ball of this radius.
        width: width of the parabola that replaces the kink, below it; 0 is the hinge itself.
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
        >>> rt.Hinge(features=["age", "job"], label="smoker", width=0.0)
        Hinge(features=['age', 'job'], label='smoker', radius=4)
    """

    kind = "hinge"
    signs = True
    width: float

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str,
        radius: float = 4.0,
        width: float = 0.5,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        positive: Any = None,
    ) -> None:
        object.__setattr__(self, "width", _width(width))
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds, positive=positive,
        )  # fmt: skip

    def declared(self, labels: np.ndarray) -> Ramps:
        start = np.where(labels > 0, -1.0, 0.0)
        centre = labels * (1.0 - self.width / 2)
        return _one(start, centre, self.width, 1.0, -start * centre)

    def parameters(self) -> dict[str, Any]:
        return {"width": self.width}


class Huber(RampLoss):
    """Half the squared residual up to `width`, linear beyond: a regression that limits the influence of outliers.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict; a number is scaled to width one by its declared bounds.
        radius: parameters lie in a ball of this radius.
        width: the residual beyond which the loss is linear, in units of the label's range.
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
        >>> rt.Huber(features=["age", "sex"], label="income", width=0.1)
        Huber(features=['age', 'sex'], label='income', radius=2)
    """

    kind = "huber"
    width: float

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str,
        radius: float = 2.0,
        width: float = 0.25,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        positive: Any = None,
    ) -> None:
        if width == 0:
            raise QueryError(
                "width 0 of a Huber loss counts nothing; use rt.Quantile(level=0.5) for absolute residuals"
            )
        object.__setattr__(self, "width", _width(width))
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds, positive=positive,
        )  # fmt: skip

    def declared(self, labels: np.ndarray) -> Ramps:
        width = self.width
        return _one(-width, labels, 2 * width, 2 * width, width * labels - width**2 / 2)

    def parameters(self) -> dict[str, Any]:
        return {"width": self.width}


class Quantile(RampLoss):
    """The pinball loss, whose minimiser predicts a quantile of the label: the median for `level=0.5`.

    `level * (label - margin)` where the label lies above, `(1 - level) * (margin - label)` where it lies below.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict; a number is scaled to width one by its declared bounds.
        level: the quantile's level, above 0 and below 1.
        radius: parameters lie in a ball of this radius.
        width: width of a parabola that replaces the kink, in units of the label's range; 0 is the pinball loss itself.
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
        >>> domain = rt.Domain(age=rt.Integer(100), income=rt.Integer(50))
        >>> round(rt.Quantile(features=["age"], label="income", level=0.9).on(domain).slope_bound, 6)
        0.9
    """

    kind = "quantile"
    level: float
    width: float

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str,
        level: float = 0.5,
        radius: float = 2.0,
        width: float = 0.0,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        if not (isinstance(level, Real) and 1e-6 <= level <= 1 - 1e-6):
            raise QueryError(f"level {shown(level)} must lie above 0 and below 1, for example 0.5 for the median")
        object.__setattr__(self, "level", float(level))
        object.__setattr__(self, "width", _width(width))
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds,
        )  # fmt: skip

    def declared(self, labels: np.ndarray) -> Ramps:
        return _one(-self.level, labels, self.width, 1.0, self.level * labels)

    def parameters(self) -> dict[str, Any]:
        return {"level": self.level, "width": self.width}


class Margin(RampLoss):
    """A user-defined convex loss: any convex, piecewise linear or quadratic function of the margin.

    It is declared by knots of its slope, which must not decrease. The slope is interpolated between two knots and
    constant beyond the outer knots; two knots at the same margin make it jump (a kink of the loss). Lipschitz constant,
    smoothness and range are computed from the knots. The loss is data, not code.

    Args:
        features: attribute names; a tuple of names is an interaction.
        label: the attribute to predict.
        slopes: `{label value: [(margin, slope), ...]}` for a label of a few values, which must all be named; or one
            list `[(residual, slope), ...]` of the residual `margin - label`, for a number scaled to width one.
        values: instead of `slopes`, points `(margin, value)` of a piecewise linear function, continued beyond the
            outer ones; a mapping or one list, as for `slopes`.
        radius: parameters lie in a ball of this radius.
        ridge: adds `ridge/2 |theta|^2`.
        intercept: whether a constant column is added.
        categories: numeric features that get one column for each value.
        bounds: `{feature: (low, high)}`, where other than the declared ones.

    Returns:
        A loss for `Session.minimize` and `Release.minimize`.

    Raises:
        QueryError: the function is not convex, knots are out of range, or a label value is missing or unknown.

    Example:
        A hinge loss that costs three times as much if a sick person is classified as healthy:

        >>> import reticent as rt
        >>> cost = {"sick": [(1, -3), (1, 0)], "well": [(-1, 0), (-1, 1)]}
        >>> loss = rt.Margin(features=["age"], label="state", slopes=cost, radius=2)
        >>> domain = rt.Domain(age=rt.Integer(90), state=rt.Categorical(["sick", "well"]))
        >>> loss.steepest, round(loss.on(domain).scale, 6)
        (3.0, 11.485281)
    """

    kind = "margin"
    knots: tuple[tuple[Any, tuple[tuple[float, float], ...]], ...]
    """(label value, knots) in the order given; the label value is None for a function of the residual."""

    def __init__(
        self,
        *,
        features: Iterable[Feature],
        label: str,
        slopes: Mapping[Any, Knots] | Sequence[Any] | None = None,
        values: Mapping[Any, Knots] | Sequence[Any] | None = None,
        radius: float = 2.0,
        ridge: float = 0.0,
        intercept: bool = True,
        categories: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        if (slopes is None) == (values is None):
            raise QueryError("a Margin loss needs either slopes= or values=, not both")
        named = _by_label(slopes if values is None else values)
        found = [(who, _knots(knots, who) if values is None else _slopes_of(knots, who)) for who, knots in named]
        object.__setattr__(self, "knots", tuple(found))
        super().__init__(
            features=features, label=label, radius=radius, ridge=ridge, intercept=intercept, categories=categories,
            bounds=bounds,
        )  # fmt: skip
        object.__setattr__(self, "_table", _table([knots for _, knots in self.knots]))

    @property
    def task(self) -> Task:
        return "number" if self.residual else "margin"

    @property
    def residual(self) -> bool:
        """Whether it is a function of `margin - label` instead of one function for each label."""
        return self.knots[0][0] is None

    @property
    def typical(self) -> np.ndarray:
        return np.zeros(1) if self.residual else np.arange(len(self.knots), dtype=np.float64)

    def declared(self, labels: np.ndarray) -> Ramps:
        table: Ramps = self.__dict__["_table"]
        rows = np.zeros(labels.shape, dtype=np.int64) if self.residual else labels.astype(np.int64)
        found = [part[..., rows] for part in (table.start, table.constant, table.centres, table.widths, table.rises)]
        if not self.residual:
            return Ramps(*found)
        start, constant, centres, *others = found
        return Ramps(start, constant - start * labels, centres + labels, *others)

    def numbers(self, domain: Domain) -> Labels:
        if self.residual:
            return super().numbers(domain)
        attribute = domain[check_label(domain, self.label or "", self.features)]
        values, labelled = np.zeros(attribute.size), np.zeros(attribute.size, dtype=bool)
        for place, (who, _) in enumerate(self.knots):
            codes = attribute.where("==", who, name=self.label or "")
            if not codes.any() or (codes & labelled).any():
                raise QueryError(f"slopes: {self.label} == {shown(who)} holds nowhere, or where another one does")
            values[codes], labelled[codes] = place, True
        left = np.flatnonzero(~labelled[: attribute.known])
        if len(left):
            raise QueryError(
                f"slopes: nothing is said of {self.label} = {attribute.labels[left[0]]}; name every value of the label"
            )
        return values, labelled, (0.0, 1.0)

    def parameters(self) -> dict[str, Any]:
        plain = [[list(knot) for knot in knots] for _, knots in self.knots]
        if self.residual:
            return {"slopes": plain[0]}
        return {"slopes": [{"label": who, "knots": k} for (who, _), k in zip(self.knots, plain, strict=True)]}


def _by_label(given: Any) -> list[tuple[Any, Any]]:
    """(label value, knots) pairs from any accepted form: a mapping, `to_dict`'s list of objects, or one plain list."""
    if is_mapping(given):
        named: list[tuple[Any, Any]] = list(given.items())
    elif is_sequence(given) and given and all(map(is_mapping, given)):
        if any(set(part) != {"label", "knots"} for part in given):
            raise QueryError('slopes: each entry is an object such as {"label": "yes", "knots": [[0, -1], [1, 0]]}')
        named = [(part["label"], part["knots"]) for part in given]
    else:
        return [(None, given)]
    if not named or len(named) > MOST_KNOTS or any(who is None for who, _ in named):
        raise QueryError(f"slopes: name from one to {MOST_KNOTS} values of the label")
    return named


def _points(points: Any, who: Any) -> list[tuple[float, float]]:
    """Pairs of finite numbers whose first entries never decrease."""
    where = "" if who is None else f" of {shown(who)}"
    if not is_sequence(points) or not 1 <= len(points) <= MOST_KNOTS:
        raise QueryError(f"the knots{where} must be a list of from one to {MOST_KNOTS} pairs of numbers")
    found: list[tuple[float, float]] = []
    for pair in points:
        numbers: list[Any] = list(pair) if has_type(pair, (tuple, list)) else []
        plain = len(numbers) == 2 and all(isinstance(n, Real) and not has_type(n, bool) for n in numbers)
        if not plain or not all(abs(float(n)) <= LARGEST_KNOT for n in numbers):
            raise QueryError(f"a knot{where} must be a pair of numbers, each at most {LARGEST_KNOT:g} in size")
        found.append((float(numbers[0]), float(numbers[1])))
    for one, other in itertools.pairwise(found):
        if one[0] > other[0]:
            raise QueryError(f"the knots{where} go back from {one[0]:g} to {other[0]:g}; sort them by margin")
    return found


def _knots(points: Any, who: Any) -> tuple[tuple[float, float], ...]:
    """Checked knots of a slope."""
    found = _points(points, who)
    for (at, slope), (then, later) in itertools.pairwise(found):
        if slope > later:
            raise QueryError(f"the slope falls from {slope:g} to {later:g} at margin {then:g}: not convex")
        if slope < later and 0 < then - at < NARROWEST:
            raise QueryError(
                f"knots at {at:g} and {then:g} are closer than {NARROWEST:g}; give both slopes at one margin, a kink"
            )
    return tuple(found)


def _slopes_of(points: Any, who: Any) -> tuple[tuple[float, float], ...]:
    """Knots of the slope of a piecewise linear function through these points."""
    found = _points(points, who)
    if len(found) < 2 or any(one[0] == other[0] for one, other in itertools.pairwise(found)):
        raise QueryError("a function through points needs at least two, each at another margin")
    rises = [(later - value) / (then - at) for (at, value), (then, later) in itertools.pairwise(found)]
    inner = [((at, left), (at, right)) for (at, _), left, right in zip(found[1:-1], rises, rises[1:], strict=False)]
    return _knots([knot for pair in inner for knot in pair] or [(found[0][0], rises[0])], who)


def _table(functions: Sequence[Sequence[tuple[float, float]]]) -> Ramps:
    """All functions as one array `[ramp, function]`; missing ramps have a rise of zero."""
    ramps = [
        [((at + then) / 2, then - at, later - slope) for (at, slope), (then, later) in itertools.pairwise(knots)]
        for knots in functions
    ]
    count = max(1, *(len(row) for row in ramps))
    padded = np.array([[*row, *[(0.0, 1.0, 0.0)] * (count - len(row))] for row in ramps])
    padded[..., 1] = np.where(padded[..., 2] > 0, padded[..., 1], 1.0)
    centres, widths, rises = np.moveaxis(padded, -1, 0).swapaxes(1, 2)
    start = np.array([knots[0][1] for knots in functions])
    table = Ramps(start, np.zeros(len(functions)), centres, widths, rises)
    # The least value at a knot becomes 0: a constant moves neither minimiser nor excess.
    least = [min(float(table.value(np.full(len(functions), at))[i]) for at, _ in k) for i, k in enumerate(functions)]
    return Ramps(start, -np.array(least), centres, widths, rises)


def _width(width: Any) -> float:
    wanted = f"0, for the kink itself, or from {NARROWEST:g} to {WIDEST:g}"
    number = real_number(width, "width", wanted)
    if not (number == 0 or NARROWEST <= number <= WIDEST):
        raise QueryError(f"width {shown(width)} must be {wanted}")
    return number
