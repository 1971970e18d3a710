"""A form is a query compiled on a domain: one vector per attribute, or one tensor over a few."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

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
    shapes = [array.shape for array in arrays]
    digest = hashlib.sha256(json.dumps([kind, attributes, shapes], separators=(",", ":")).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f8").data)
    return digest.hexdigest()


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
