"""Features: public functions of single attributes, or products of them, stored as small tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.domain import Categorical, Domain
from reticent.domain.attribute import Attribute, shown
from reticent.errors import QueryError
from reticent.queries.base import domain_order

Feature = str | tuple[str, ...]

LARGEST_BLOCK = 2**16
"""Numbers in one block's table; an interaction of two wide categorical attributes is refused."""
LARGEST_DIMENSION = 200
COLLINEAR = 1e-9
"""Smallest relative eigenvalue of the features' second moments on the uniform universe."""
INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Factor:
    """One attribute's part of a column: `offset + slope * number`, or the indicator of one code."""

    attribute: str
    offset: float = 0.0
    slope: float = 0.0
    code: int | None = None
    label: str = ""

    @property
    def name(self) -> str:
        return self.attribute if self.code is None else f"{self.attribute}={self.label}"


Column = tuple[Factor, ...]
"""A product of factors; the empty product is the intercept."""


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Columns that depend on the same attributes: `table[codes..., column]`."""

    attributes: tuple[str, ...]
    table: np.ndarray
    columns: tuple[Column, ...]

    @property
    def width(self) -> int:
        return len(self.columns)


@dataclass(frozen=True, eq=False)
class Design:
    """All blocks of one loss on one domain, and the number of each label code."""

    domain: Domain
    attributes: tuple[str, ...]
    """Every attribute the loss touches, in domain order (spec 8.5)."""
    blocks: tuple[FeatureBlock, ...]
    label: str | None
    label_values: np.ndarray
    labelled: np.ndarray
    """Mask of usable label codes; records with another code (null, for example) count as zero loss, as in AVG."""
    label_units: tuple[float, float]
    """(offset, scale): the label as declared is offset + scale * value."""

    @property
    def label_choices(self) -> np.ndarray:
        """The distinct labels that a record may have."""
        return np.unique(self.label_values[self.labelled])

    @property
    def dimension(self) -> int:
        return sum(block.width for block in self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column_name(column) for block in self.blocks for column in block.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.domain.shape_of(self.attributes)

    @property
    def norm(self) -> float:
        """The largest Euclidean norm of a feature vector; exact if blocks share no attribute, otherwise a bound."""
        squares = [float(np.square(block.table).sum(axis=-1).max()) for block in self.blocks]
        return math.sqrt(math.fsum(squares)) * (1 + 1e-12)

    def split(self, theta: np.ndarray) -> list[np.ndarray]:
        return np.split(np.asarray(theta, dtype=np.float64), np.cumsum([b.width for b in self.blocks])[:-1])


def column_name(column: Column) -> str:
    return ":".join(factor.name for factor in column) if column else INTERCEPT


def build_blocks(
    domain: Domain,
    features: Sequence[Feature],
    *,
    intercept: bool,
    categories: Iterable[str],
    bounds: Mapping[str, tuple[float, float]],
) -> tuple[FeatureBlock, ...]:
    """One block per feature; refuses unbounded, constant and collinear features."""
    ones = FeatureBlock((), np.ones(1), ((),))
    blocks = [ones] if intercept else []
    listed = {name for feature in features for name in _names(feature)}
    for name in {*categories, *bounds} - listed:
        raise QueryError(f"{name} is described but is not a feature; list it among the features")
    full = not intercept
    for feature in features:
        parts = []
        for name in domain_order(domain, _names(feature)):
            one_hot = name in categories or isinstance(domain[name], Categorical)
            keep_all = full and one_hot and len(_names(feature)) == 1
            full = full and not keep_all
            parts.append(_single(name, domain[name], one_hot, keep_all, bounds.get(name)))
        blocks.append(_interaction(parts))
    if not blocks:
        raise QueryError("a loss needs at least one feature or an intercept; list some features")
    dimension = sum(block.width for block in blocks)
    if dimension > LARGEST_DIMENSION:
        raise QueryError(f"{dimension} columns; at most {LARGEST_DIMENSION}: use fewer or coarser features")
    _refuse_collinear(blocks, domain)
    return tuple(blocks)


def _names(feature: Feature) -> tuple[str, ...]:
    names = (feature,) if isinstance(feature, str) else tuple(feature)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise QueryError(f"feature {shown(feature)} must be an attribute's name or a tuple of different names")
    return names


def _single(
    name: str, attribute: Attribute, one_hot: bool, keep_all: bool, bounds: tuple[float, float] | None
) -> FeatureBlock:
    if attribute.size == 1 or (attribute.known == 1 and not one_hot):
        raise QueryError(f"feature {name} has one value only and explains nothing; drop it")
    if one_hot:
        if bounds is not None:
            raise QueryError(f"feature {name} is one-hot, bounds do not apply; drop them")
        codes = range(0 if keep_all else 1, attribute.size)
        table = np.zeros((attribute.size, len(codes)))
        table[list(codes), range(len(codes))] = 1.0
        columns = tuple((Factor(name, code=code, label=attribute.labels[code]),) for code in codes)
        return FeatureBlock((name,), table, columns)
    values, offset, slope = scaled(name, attribute, bounds, 2.0)
    return FeatureBlock((name,), values[:, None], ((Factor(name, offset, slope),),))


def scaled(
    name: str, attribute: Attribute, bounds: tuple[float, float] | None, width: float
) -> tuple[np.ndarray, float, float]:
    """Each code's number scaled to [-width/2, width/2] by the declared bounds; missing codes get the middle.

    Also returns the affine map `offset + slope * number`.
    """
    numbers = attribute.representatives
    if numbers is None:
        raise QueryError(f"{name} holds text, not numbers; list it in categories= to use one column per value")
    low, high = (float(end) for end in (bounds or attribute.bounds or (math.nan, math.nan)))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise QueryError(f"{name} is unbounded: its bounds are {low:g} to {high:g}; declare finite bounds")
    if not low < high:
        raise QueryError(f"{name}: bounds {low:g} to {high:g} are empty; the lower one must be smaller")
    slope = width / (high - low)
    offset = -width / 2 - slope * low
    values = np.clip(offset + slope * numbers, -width / 2, width / 2)
    return np.where(np.isnan(values), 0.0, values), offset, slope


def _interaction(parts: Sequence[FeatureBlock]) -> FeatureBlock:
    """All products of one column of each part."""
    if len(parts) == 1:
        return parts[0]
    size = math.prod(part.table.size for part in parts)
    attributes = tuple(part.attributes[0] for part in parts)
    if size > LARGEST_BLOCK:
        raise QueryError(f"the interaction of {', '.join(attributes)} needs {size} numbers; at most {LARGEST_BLOCK}")
    table = parts[0].table
    for part in parts[1:]:
        # codes of all parts first, then all pairs of columns
        table = table[..., None, :, None] * part.table[:, None, :]
        table = table.reshape(*table.shape[:-2], -1)
    columns = tuple(tuple(itertools.chain(*chosen)) for chosen in itertools.product(*(p.columns for p in parts)))
    return FeatureBlock(attributes, table, columns)


def uniform_moments(blocks: Sequence[FeatureBlock], domain: Domain) -> np.ndarray:
    """Second moments of the features under the uniform distribution on the universe."""
    rows = []
    for one in blocks:
        row = []
        for other in blocks:
            union = domain_order(domain, {*one.attributes, *other.attributes})
            weights = np.full(domain.shape_of(union), 1.0 / domain.cells(union))
            row.append(block_product(one, other, union, weights))
        rows.append(row)
    return np.block(rows)


def block_product(one: FeatureBlock, other: FeatureBlock, union: tuple[str, ...], weights: np.ndarray) -> np.ndarray:
    """The sum over the union's cells of weight * column of one * column of the other."""
    left, right = (b.table.reshape(-1, b.width) for b in (one, other))
    if one.attributes == other.attributes:
        return left.T @ (np.ravel(weights)[:, None] * right)
    if set(one.attributes).isdisjoint(other.attributes):
        order = [union.index(name) for name in (*one.attributes, *other.attributes)]
        return left.T @ np.transpose(weights, order).reshape(len(left), len(right)) @ right
    spread = [
        np.broadcast_to(spread_over(b.table, b.attributes, union), (*weights.shape, b.width)).reshape(-1, b.width)
        for b in (one, other)
    ]
    return spread[0].T @ (np.ravel(weights)[:, None] * spread[1])


def spread_over(table: np.ndarray, attributes: Sequence[str], union: Sequence[str]) -> np.ndarray:
    """A table over some attributes (its last axis kept) with axes of length one for the missing ones."""
    shape = [table.shape[list(attributes).index(name)] if name in attributes else 1 for name in union]
    return table.reshape(*shape, table.shape[-1])


def _refuse_collinear(blocks: Sequence[FeatureBlock], domain: Domain) -> None:
    """Refuse collinear features, using the uniform distribution, which contains every combination of codes."""
    moments = uniform_moments(blocks, domain)
    scale = np.sqrt(np.diagonal(moments))
    names = [column_name(column) for block in blocks for column in block.columns]
    for name, size in zip(names, scale, strict=True):
        if size == 0:
            raise QueryError(f"feature {name} is zero everywhere and explains nothing; drop it")
    values, vectors = np.linalg.eigh(moments / np.outer(scale, scale))
    if values[0] < COLLINEAR:
        involved = [name for name, part in zip(names, vectors[:, 0], strict=True) if abs(part) > 1e-4]
        raise QueryError(
            f"features {', '.join(involved[:6])} are collinear on the universe: "
            "one is a combination of the others; drop one"
        )


def check_label(domain: Domain, label: str, features: Sequence[Feature]) -> str:
    """The label's name; it must be an attribute with several values and not a feature."""
    (label,) = domain_order(domain, (label,))
    if any(label in _names(feature) for feature in features):
        raise QueryError(f"label {label} is also a feature; a loss predicts it from the others")
    if domain[label].size == 1:
        raise QueryError(f"label {label} has one value only; there is nothing to predict")
    return label


def label_numbers(
    domain: Domain, label: str, features: Sequence[Feature], *, signs: bool, positive: Any
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """The label of each code (+-1 to classify, [-1/2, 1/2] for regression), a mask of usable codes, and the units."""
    label = check_label(domain, label, features)
    attribute = domain[label]
    numeric = attribute.representatives is not None and not isinstance(attribute, Categorical)
    if numeric and positive is None and not signs:
        values, offset, slope = scaled(label, attribute, None, 1.0)
        return values, attribute.where("is_known"), (-offset / slope, 1 / slope)
    yes, no = _classes(label, attribute, positive)
    size, units = (1.0, (0.5, 0.5)) if signs else (0.5, (0.5, 1.0))
    return (yes * size) - (no * size), yes | no, units


def _classes(label: str, attribute: Attribute, positive: Any) -> tuple[np.ndarray, np.ndarray]:
    """The codes of both classes; a code for which the comparison is unknown, or that is neither value, has no class."""
    if positive is None:
        if attribute.known != 2:
            raise QueryError(
                f"label {label} has {attribute.known} values; name the one to predict with positive=, or fit all"
                " with the multinomial loss"
            )
        return tuple(np.arange(attribute.size) == code for code in (1, 0))
    truth = attribute.truth("==", positive, label)
    if not (truth.true.any() and truth.false.any()):
        raise QueryError(f"label {label} == {shown(positive)} never changes on the domain; choose another value")
    return truth.true, truth.false


AFFIRMATIVE = frozenset({"true", "t", "yes", "y", "1", "1.0", "on", "present", "positive"})
"""Texts of a class that readers expect to be the predicted one."""


def refuse_unnamed_class(domain: Domain, label: str | None, positive: Any) -> None:
    """By default the second of two values is predicted; refuse this default if the first value reads as "yes".

    With `values = [true, false]` a model of "true" would otherwise be inverted. The check applies to new questions
    only: purchased models keep their meaning.
    """
    if label is None or positive is not None or domain[label].known != 2:
        return
    first, second = domain[label].value(0), domain[label].value(1)
    if _affirmative(first) and not _affirmative(second):
        raise QueryError(
            f"label {label} has the values {shown(first)} and {shown(second)}, in this order: name the one to predict,"
            f" for example positive={first!r}"
        )


def _affirmative(value: Any) -> bool:
    return str(value).strip().casefold() in AFFIRMATIVE
