"""Forms: queries compiled on a domain, as one vector per attribute or one tensor over a few attributes.

The numbers of a numeric column are its representatives, scaled into [0, 1] by the declared bounds.

An outline is all that error bounds know of a form: its attributes, how many cells it takes, in how many boxes. Forms of
one outline share their bounds, so a bound is computed once and then looked up.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Literal, NamedTuple

import numpy as np

from reticent.domain import Attribute, Domain, Numeric
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError

MAX_CELLS = 2**22
"""Cells of a compiled tensor; a predicate that needs more is refused."""
KEPT_CODES = 512
"""Vectors up to this length are remembered by their bytes."""
KEPT_VECTORS = 2**16
"""Analysts choose the vectors, so what is remembered about them is limited (about 50 MB at most)."""


class Outline(NamedTuple):
    """Without attributes that the query does not constrain."""

    attributes: tuple[str, ...]
    cells: float
    """Total weight of cells whose sum is the query."""
    boxes: float
    """Least known total weight of boxes whose sum is the query or its complement."""
    spread: float
    """Largest minus smallest value on the universe."""
    kind: Literal["box", "sum", "weighted"]
    """A box of consecutive codes, another sum of cells, or values between 0 and 1."""


class _Facts(NamedTuple):
    """About one vector: sum, upward variation of it and of its complement, smallest and largest value."""

    weight: float
    ascent: float
    complement: float
    low: float
    high: float


_known: dict[bytes, _Facts] = {}


@dataclass(frozen=True, eq=False)
class Product:
    """q(x) = product over attributes of vector[x_a]; no attributes means the constant 1."""

    attributes: tuple[str, ...]
    vectors: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        vectors = tuple(checked_values(vector, 1) for vector in self.vectors)
        if len(vectors) != len(self.attributes):
            raise QueryError(f"{len(self.attributes)} attributes need as many vectors, not {len(vectors)}")
        object.__setattr__(self, "vectors", vectors)

    @cached_property
    def binary(self) -> bool:
        """Whether q takes only the values 0 and 1."""
        return all(is_binary(vector) for vector in self.vectors)

    @cached_property
    def range(self) -> tuple[float, float]:
        """Smallest and largest value of q on the universe."""
        # Factors are non-negative and independent coordinates, so extremes multiply.
        return (
            math.prod(float(vector.min()) for vector in self.vectors),
            math.prod(float(vector.max()) for vector in self.vectors),
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the compiled function: equivalent questions (`age > 44`, `age >= 45`) have the same digest."""
        return form_digest("product", self.attributes, self.vectors)

    @cached_property
    def outline(self) -> Outline:
        """What error bounds know of it."""
        return _of_product(self)

    def tensor(self) -> np.ndarray:
        """q as an array over its attributes."""
        cells = math.prod(len(vector) for vector in self.vectors)
        refuse_large(self.attributes, cells)
        return reduce(np.multiply.outer, self.vectors, np.ones(()))


@dataclass(frozen=True, eq=False)
class Dense:
    """q(x) = values[x on the attributes]; no attributes means a constant."""

    attributes: tuple[str, ...]
    values: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", checked_values(self.values, len(self.attributes)))

    @cached_property
    def binary(self) -> bool:
        """Whether q takes only the values 0 and 1."""
        return is_binary(self.values)

    @cached_property
    def range(self) -> tuple[float, float]:
        """Smallest and largest value of q on the universe."""
        return float(self.values.min()), float(self.values.max())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the compiled function."""
        return form_digest("dense", self.attributes, (self.values,))

    @cached_property
    def outline(self) -> Outline:
        """What error bounds know of it."""
        return _of_dense(self)

    def tensor(self) -> np.ndarray:
        """q as an array over its attributes."""
        return self.values


Form = Product | Dense


def first_code(size: int) -> np.ndarray:
    """The indicator of code 0: one cell represents all cells if only their cost or error matters."""
    vector = np.zeros(size)
    vector[0] = 1.0
    return vector


def mask_product(attributes: tuple[str, ...], vectors: tuple[np.ndarray, ...]) -> Product:
    """A product of 0/1 vectors from the compiler itself, which need no further check."""
    form = object.__new__(Product)
    fields = form.__dict__
    fields["attributes"] = attributes
    fields["vectors"] = vectors
    fields["binary"] = True
    return form


def form_digest(kind: str, attributes: tuple[str, ...], arrays: tuple[np.ndarray, ...]) -> str:
    """Names and shapes as JSON, then the values as little-endian doubles, so it is the same on every machine."""
    digest = hashlib.sha256(_digest_head(kind, attributes, tuple([array.shape for array in arrays])))
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f8").data)
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _digest_head(kind: str, attributes: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> bytes:
    return json.dumps([kind, attributes, shapes], separators=(",", ":")).encode()


def is_binary(values: np.ndarray) -> bool:
    """Whether all values are 0 or 1."""
    return bool(((values == 0) | (values == 1)).all())


def checked_values(values: object, dimensions: int) -> np.ndarray:
    """Read-only floats in [0, 1] (spec 1.3)."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryError("query values must be numbers in [0, 1]") from None
    if array.ndim != dimensions or array.size == 0:
        raise QueryError(f"query values of shape {array.shape} do not match {dimensions} attributes")
    low, high = float(array.min()), float(array.max())
    if not (low >= 0.0 and high <= 1.0):
        raise QueryError(f"query values from {low} to {high} leave [0, 1]; scale them into it")
    array.flags.writeable = False
    return array


def factorised(tensor: np.ndarray) -> list[np.ndarray] | None:
    """Vectors whose product is this boolean tensor, if there are any: it must fill the box of its projections."""
    axes = range(tensor.ndim)
    projections = [tensor.any(axis=tuple(axis for axis in axes if axis != kept)) for kept in axes]
    if math.prod(int(projection.sum()) for projection in projections) != int(tensor.sum()):
        return None
    return [np.asarray(projection, dtype=np.float64) for projection in projections]


def refuse_large(attributes: Iterable[str], cells: int) -> None:
    """Refuse a tensor that would not fit in memory."""
    if cells > MAX_CELLS:
        names = ", ".join(attributes)
        raise QueryError(
            f"the query needs a tensor of {cells} cells over {names}; at most {MAX_CELLS}: "
            "join fewer attributes with 'or', or ask its parts one by one"
        )


def scaled_numbers(domain: Domain, column: str) -> tuple[np.ndarray, float, float]:
    """Representatives scaled into [0, 1] by the declared bounds (0 for codes without one), and those bounds."""
    attribute = domain.attributes.get(column)
    if attribute is None:
        raise QueryError(f"unknown column {shown(column)}{closest(column, domain.names)}")
    found = attribute.scaled
    if found is None or (isinstance(attribute, Numeric) and attribute.kind != "number"):
        raise QueryError(f"the mean or sum of {shown(column)} needs numbers; count its values instead")
    return found


def allowed_codes(form: Form, column: str, domain: Domain) -> np.ndarray:
    """Mask of the codes that a column may have where the form is not zero."""
    if isinstance(form, Product):
        vectors = dict(zip(form.attributes, form.vectors, strict=True))
        if not all(vector.any() for vector in form.vectors):
            return np.zeros(domain[column].size, dtype=bool)
        return vectors[column] > 0 if column in vectors else np.ones(domain[column].size, dtype=bool)
    others = tuple(axis for axis, name in enumerate(form.attributes) if name != column)
    reached = np.asarray(form.values.any(axis=others))
    return reached if column in form.attributes else np.full(domain[column].size, bool(reached))


def bin_ends(attribute: Attribute, code: int) -> tuple[float, float]:
    """The smallest and largest number of each code."""
    if isinstance(attribute, Numeric):
        return attribute.bin(code)
    assert attribute.representatives is not None, "a column of numbers"
    number = float(attribute.representatives[code])
    return number, number


def bin_reach(form: Form, column: str, domain: Domain) -> tuple[float, float]:
    """The largest distance of a record's own number from the representative of its bin, among the records of a form.

    In the unit of the column; and as a multiple of the distance of the representative from the smallest declared
    number, which is infinite if the representative is that number and the bin holds others.
    """
    allowed = allowed_codes(form, column, domain)
    radii, (values, lower, upper) = domain[column].radii[allowed], scaled_numbers(domain, column)
    if not radii.any():
        return 0.0, 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(radii > 0, radii / (values[allowed] * (upper - lower)), 0.0)
    return float(radii.max()), float(ratios.max())


def weighted_by(form: Form, column: str, domain: Domain) -> Form:
    """The form times the scaled numbers of a column."""
    values = scaled_numbers(domain, column)[0]
    names = domain.canonical({*form.attributes, column})
    if isinstance(form, Product):
        vectors = dict(zip(form.attributes, form.vectors, strict=True))
        vectors[column] = vectors[column] * values if column in vectors else values
        return Product(names, tuple(vectors[name] for name in names))
    refuse_large(names, domain.cells(names))
    sizes = dict(zip(form.attributes, form.values.shape, strict=True))
    spread = form.values.reshape([sizes.get(name, 1) for name in names])
    return Dense(names, spread * values.reshape([-1 if name == column else 1 for name in names]))


def essential(form: Form) -> Form:
    """The form without attributes that it does not constrain."""
    names = form.outline.attributes
    if isinstance(form, Dense) or len(names) == len(form.attributes):
        return form
    return Product(names, tuple(v for a, v in zip(form.attributes, form.vectors, strict=True) if a in names))


def is_cell(form: Form) -> bool:
    """Whether it takes exactly one cell of its own attributes."""
    known = form.outline
    return known.kind == "box" and known.cells == 1 and bool(known.attributes)


def _of_product(form: Product) -> Outline:
    """Any q >= 0 is the integral over t of 1[q > t] (layer cake); along an axis the superlevel sets have as many runs
    as the vector has upward variation.
    """
    attributes, skipped = form.attributes, 0
    cells = boxes = low = high = 1.0
    turned, straight = 0.0, True
    for vector in form.vectors:
        weight, ascent, complement, least, most = _facts(vector)
        if least == 1.0:
            skipped += 1
            continue
        cells *= weight
        boxes *= ascent
        low *= least
        high *= most
        if ascent != 1.0:
            straight = False
        turned = complement
    if boxes > 1 and len(form.vectors) - skipped == 1:
        boxes = min(boxes, turned)
    if skipped:
        pairs = zip(attributes, form.vectors, strict=True)
        attributes = tuple([name for name, vector in pairs if _facts(vector).low != 1.0])
    kind = "weighted" if not form.binary else "box" if straight else "sum"
    return Outline(attributes, cells, boxes, high - low if attributes else 0.0, kind)


def _of_dense(form: Dense) -> Outline:
    """Boxes: each line along the best axis is cut into its own runs; the complement may need fewer."""
    values, (low, high) = form.values, form.range
    lines = [_climbs(np.moveaxis(values, axis, 0), form.binary) for axis in range(values.ndim)]
    boxes = min((min(pair) for pair in lines), default=high)
    return Outline(form.attributes, float(values.sum()), boxes, high - low, "sum" if form.binary else "weighted")


def _climbs(values: np.ndarray, binary: bool) -> tuple[float, float]:
    """Upward variation along the first axis, starting from zero, over all lines: of the values and of 1 - values."""
    if binary:
        inside = values.astype(bool)
        before, after = inside[:-1], inside[1:]
        up = np.count_nonzero(inside[0]) + np.count_nonzero(after & ~before)
        return float(up), float(np.count_nonzero(~inside[0]) + np.count_nonzero(before & ~after))
    steps = np.diff(values, axis=0)
    up = float(values[0].sum() + np.maximum(steps, 0.0).sum())
    return up, float((1.0 - values[0]).sum() - np.minimum(steps, 0.0).sum())


def _facts(vector: np.ndarray) -> _Facts:
    if vector.size > KEPT_CODES:
        return _computed(vector)
    key = vector.tobytes()
    found = _known.get(key)
    if found is None:
        if len(_known) >= KEPT_VECTORS:
            _known.clear()
        found = _known[key] = _computed(vector)
    return found


def _computed(vector: np.ndarray) -> _Facts:
    low, high = float(vector.min()), float(vector.max())
    return _Facts(float(vector.sum()), *_climbs(vector, False), low, high)
