"""A box is the set of records a conjunction keeps: masks per attribute, tensors where an `or` spans several."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from reticent.domain import Attribute, Domain
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError
from reticent.queries.forms import Dense, Form, factorised, mask_product, refuse_large

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
