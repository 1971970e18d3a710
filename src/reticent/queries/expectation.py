"""Means of bounded functions of a few columns, from which variances, products and other moments are computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError
from reticent.queries.base import Linear, checked_predicate, domain_order
from reticent.queries.forms import Dense, Form, Product, checked_values, form_digest, refuse_large
from reticent.queries.literals import name_text
from reticent.queries.predicate import Everything, Predicate, col

MAX_WEIGHTS = 2**16
"""Values of one factor: they are written into the ledger when the question is paid for."""


@dataclass(frozen=True, eq=False)
class Weights:
    """A function of some columns' codes with values in [0, 1]: a product of arrays over different columns."""

    factors: tuple[tuple[tuple[str, ...], np.ndarray], ...]

    def __post_init__(self) -> None:
        listed = []
        for names, values in self.factors:
            for name in names:
                col(name)
            array = checked_values(values, len(names))
            if array.size > MAX_WEIGHTS:
                raise QueryError(f"a weight with {array.size} values; at most {MAX_WEIGHTS}: use coarser columns")
            listed.append((tuple(names), array))
        listed.sort(key=lambda factor: factor[0])
        names = [name for factor, _ in listed for name in factor]
        if not names or len(set(names)) < len(names):
            raise QueryError("weights need at least one column, each of them once")
        object.__setattr__(self, "factors", tuple(listed))

    @classmethod
    def of(cls, **vectors: Any) -> Weights:
        """One vector for each column."""
        return cls(tuple(((name,), np.asarray(vector)) for name, vector in vectors.items()))

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(name for names, _ in self.factors for name in names)

    @cached_property
    def separate(self) -> bool:
        """Whether the function is a product of one vector for each column."""
        return all(len(names) == 1 for names, _ in self.factors)

    @cached_property
    def text(self) -> str:
        """The columns, and a digest of the values."""
        digest = form_digest("weights", self.attributes, tuple(values for _, values in self.factors))
        return f"{' * '.join(_named(names) for names, _ in self.factors)} weighted {digest}"

    def applied(self, form: Form, domain: Domain) -> Form:
        """A form times these weights."""
        for names, values in self.factors:
            if values.shape != domain.shape_of(names):
                raise QueryError(
                    f"weights of {_named(names)} have shape {values.shape}, not that of the columns' codes"
                )
        names = domain_order(domain, {*form.attributes, *self.attributes})
        if isinstance(form, Product) and self.separate:
            vectors = dict(zip(form.attributes, form.vectors, strict=True))
            for (name,), vector in self.factors:
                vectors[name] = vectors[name] * vector if name in vectors else vector
            return Product(names, tuple(vectors[name] for name in names))
        refuse_large(names, domain.cells(names))
        tensor = _spread(form.tensor(), form.attributes, names, domain)
        for own, values in self.factors:
            tensor = tensor * _spread(values, own, names, domain)
        return Dense(names, np.broadcast_to(tensor, domain.shape_of(names)))

    def to_list(self) -> list[dict[str, Any]]:
        return [{"attributes": list(names), "values": values.tolist()} for names, values in self.factors]

    @classmethod
    def from_list(cls, described: Any) -> Weights:
        """The inverse of `to_list`."""
        if not isinstance(described, list) or not described:
            raise QueryError('"weights" must be a list of objects with attributes and values')
        factors = []
        for entry in described:
            if not isinstance(entry, Mapping) or set(entry) != {"attributes", "values"}:
                raise QueryError('"weights" must be a list of objects with attributes and values')
            names = entry["attributes"]
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise QueryError(f"attributes {shown(names)} must be a list of names")
            factors.append((tuple(names), entry["values"]))
        return cls(tuple(factors))


def _named(names: Iterable[str]) -> str:
    return ", ".join(map(name_text, names))


def _spread(values: np.ndarray, own: tuple[str, ...], names: tuple[str, ...], domain: Domain) -> np.ndarray:
    """An array over some columns, with axes of one for the others."""
    order = sorted(range(len(own)), key=lambda axis: names.index(own[axis]))
    sizes = [domain[name].size if name in own else 1 for name in names]
    assert math.prod(sizes) == values.size, "shapes were checked"
    return np.transpose(values, order).reshape(sizes)


@dataclass(frozen=True, eq=False, repr=False)
class Expectation(Linear):
    """Mean over *all* records of a weight where the predicate holds, and 0 elsewhere."""

    weights: Weights
    where: Predicate = field(default_factory=Everything)

    def __post_init__(self) -> None:
        checked_predicate(self.where)

    @property
    def attributes(self) -> frozenset[str]:
        return self.where.attributes.union(self.weights.attributes)

    def to_dict(self) -> dict[str, Any]:
        return {"query": "expectation", "weights": self.weights.to_list(), "where": self.where.to_dict()}

    def _compile(self, domain: Domain) -> Form:
        return self.weights.applied(self.where.compile(domain), domain)

    def _write(self) -> str:
        return f"expectation({self.weights.text}, {self.where.text})"
