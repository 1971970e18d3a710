"""A form is a query compiled on a domain: one vector per attribute, or one tensor over a few.

Numeric columns as query values: representatives scaled into [0, 1] by their declared bounds.

A box is the set of records a conjunction keeps: masks per attribute, tensors where an `or` spans several.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np

from reticent.domain import Attribute, Domain, Numeric
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError

MAX_CELLS = 2**22
"""Cells of a compiled tensor; a predicate that needs more is refused."""


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
        """SHA-256 of the compiled function: questions worded differently (`age > 44`, `age >= 45`) share it."""
        return form_digest("product", self.attributes, self.vectors)

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

    def tensor(self) -> np.ndarray:
        """q as an array over its attributes."""
        return self.values


Form = Product | Dense


def first_code(size: int) -> np.ndarray:
    """The vector that asks for code 0: one cell stands for all where only their cost or error matters."""
    vector = np.zeros(size)
    vector[0] = 1.0
    return vector


def mask_product(attributes: tuple[str, ...], vectors: tuple[np.ndarray, ...]) -> Product:
    """A product of 0/1 vectors the compiler made itself, without checking them again."""
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


def refuse_large(attributes: Iterable[str], cells: int) -> None:
    """Stop before a tensor that would not fit."""
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
    """Which codes of a column a record may have where the form is not zero."""
    if isinstance(form, Product):
        vectors = dict(zip(form.attributes, form.vectors, strict=True))
        if not all(vector.any() for vector in form.vectors):
            return np.zeros(domain[column].size, dtype=bool)
        return vectors[column] > 0 if column in vectors else np.ones(domain[column].size, dtype=bool)
    others = tuple(axis for axis, name in enumerate(form.attributes) if name != column)
    reached = np.asarray(form.values.any(axis=others))
    return reached if column in form.attributes else np.full(domain[column].size, bool(reached))


def bin_ends(attribute: Attribute, code: int) -> tuple[float, float]:
    """The smallest and largest number that a code stands for."""
    if isinstance(attribute, Numeric):
        return attribute.bin(code)
    assert attribute.representatives is not None, "a column of numbers"
    number = float(attribute.representatives[code])
    return number, number


def bin_reach(form: Form, column: str, domain: Domain) -> tuple[float, float]:
    """How far a record's own number may lie from its bin's representative, among the records of a form.

    In the column's unit, and as a multiple of what the representative lies above the smallest declared number; that is
    infinite where a bin's representative is the smallest number, and others are in the bin.
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


MAX_EFFORT = 2**28
"""Tensor cells touched while compiling one predicate: analysts send predicates, and a server must stay up."""


class CompileEffort:
    """Counts tensor cells over a whole compilation."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_EFFORT

    def spend(self, cells: int) -> None:
        """Refuse when the predicate needs more work than one question may."""
        self.left -= cells
        if self.left < 0:
            raise QueryError(f"the predicate needs over {MAX_EFFORT} cell operations; ask its parts one by one")


class Box:
    """Starts as the whole universe and is narrowed by a predicate's `restrict`."""

    __slots__ = ("domain", "effort", "empty", "tensors", "vectors")

    def __init__(self, domain: Domain, effort: CompileEffort | None = None) -> None:
        self.domain = domain
        self.effort = effort
        self.vectors: dict[str, np.ndarray] = {}
        self.tensors: dict[tuple[str, ...], np.ndarray] = {}
        self.empty = False

    def attribute(self, name: str) -> Attribute:
        """Of the column that a comparison names."""
        attribute = self.domain.attributes.get(name)
        if attribute is None:
            raise QueryError(f"unknown column {shown(name)}{closest(name, self.domain.names)}")
        return attribute

    def keep(self, name: str, vector: np.ndarray) -> None:
        """Narrow one attribute by a 0/1 vector."""
        known = self.vectors.get(name)
        self.vectors[name] = vector if known is None else known * vector

    def either(self, alternatives: Iterable[Callable[[Box], None]]) -> None:
        """Keep the union of what the alternatives keep."""
        if self.effort is None:
            self.effort = CompileEffort()
        boxes: list[Box] = []
        single: dict[str, np.ndarray] = {}
        for restrict in alternatives:
            box = Box(self.domain, self.effort)
            restrict(box)
            if box.whole:
                return
            if len(box.vectors) == 1 and not box.tensors and not box.empty:
                ((name, vector),) = box.vectors.items()
                single[name] = np.maximum(single[name], vector) if name in single else vector
            elif not box.void:
                boxes.append(box)
        for name, vector in single.items():
            if vector.all():
                return
            if vector.any():
                box = Box(self.domain, self.effort)
                box.keep(name, vector)
                boxes.append(box)
        self._absorb_union(boxes)

    @property
    def whole(self) -> bool:
        """Whether nothing has been excluded."""
        return not (self.vectors or self.tensors or self.empty)

    @property
    def void(self) -> bool:
        """Whether certainly nothing is left."""
        return self.empty or any(not vector.any() for vector in self.vectors.values())

    def form(self) -> Form:
        """The indicator of the box, on the attributes that matter, in the domain's order."""
        if self.empty:
            return Dense((), np.zeros(()))
        if not self.tensors:
            vectors = self.vectors
            if len(vectors) == 1:
                return mask_product(tuple(vectors), tuple(vectors.values()))
            names = sorted(vectors, key=self.domain.positions.__getitem__)
            return mask_product(tuple(names), tuple([vectors[name] for name in names]))
        names = self.domain.canonical({*self.vectors, *(name for names in self.tensors for name in names)})
        tensor = self._indicator(names)
        factors = factorised(tensor)
        if factors is None:
            return Dense(names, tensor)
        kept = [(name, factor) for name, factor in zip(names, factors, strict=True) if not factor.all()]
        return mask_product(tuple(name for name, _ in kept), tuple(factor for _, factor in kept))

    def _absorb_union(self, boxes: list[Box]) -> None:
        if len(boxes) < 2:
            for box in boxes:
                self._absorb(box)
            self.empty = self.empty or not boxes
            return
        names = self.domain.canonical({name for box in boxes for name in box._names()})
        union = np.zeros(self._guarded_shape(names), dtype=bool)
        for box in boxes:
            union |= box._indicator(names)
        factors = factorised(union)
        if factors is None:
            known = self.tensors.get(names)
            self.tensors[names] = union if known is None else known & union
            return
        for name, factor in zip(names, factors, strict=True):
            if not factor.all():
                self.keep(name, factor)

    def _absorb(self, box: Box) -> None:
        for name, vector in box.vectors.items():
            self.keep(name, vector)
        for names, tensor in box.tensors.items():
            known = self.tensors.get(names)
            self.tensors[names] = tensor if known is None else known & tensor
        self.empty = self.empty or box.empty

    def _names(self) -> set[str]:
        return {*self.vectors, *(name for names in self.tensors for name in names)}

    def _guarded_shape(self, names: tuple[str, ...]) -> tuple[int, ...]:
        shape = self.domain.shape_of(names)
        refuse_large(names, math.prod(shape))
        return shape

    def _indicator(self, names: tuple[str, ...]) -> np.ndarray:
        """The box as a boolean tensor over a superset of its attributes."""
        tensor = np.ones(self._guarded_shape(names), dtype=bool)
        effort = self.effort or CompileEffort()
        effort.spend(tensor.size * (1 + len(self.vectors) + len(self.tensors)))
        for name, vector in self.vectors.items():
            tensor &= _spread(vector.astype(bool), (name,), names)
        for inner, mask in self.tensors.items():
            tensor &= _spread(mask, inner, names)
        return tensor


def _spread(mask: np.ndarray, inner: tuple[str, ...], names: tuple[str, ...]) -> np.ndarray:
    """Insert axes so that a mask over `inner` broadcasts over `names`; both are in the domain's order."""
    sizes = dict(zip(inner, mask.shape, strict=True))
    return mask.reshape([sizes.get(name, 1) for name in names])


def factorised(tensor: np.ndarray) -> list[np.ndarray] | None:
    """Vectors whose product is this boolean tensor, if there are any: it must fill the box of its projections."""
    axes = range(tensor.ndim)
    projections = [tensor.any(axis=tuple(axis for axis in axes if axis != kept)) for kept in axes]
    if math.prod(int(projection.sum()) for projection in projections) != int(tensor.sum()):
        return None
    return [np.asarray(projection, dtype=np.float64) for projection in projections]
