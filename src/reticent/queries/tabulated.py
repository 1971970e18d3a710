"""Linear queries given by a table of values: any function of some attributes into [0, 1]."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.domain.attribute import shown
from reticent.errors import QueryError, is_list, is_mapping
from reticent.queries.base import Linear, domain_order
from reticent.queries.forms import (
    Dense,
    Form,
    Product,
    checked_values,
    factorised,
    form_digest,
    is_binary,
    mask_product,
)
from reticent.queries.linear import Marginal
from reticent.queries.literals import name_text

MOST_VALUES = 2**20
"""Values of one table. A payment writes the whole table to the ledger: 8 bytes a value before compression."""
LISTED_VALUES = 2**12
"""Up to here the plain form lists the values; beyond, it packs them."""
WRITTEN_VALUES = 16
"""Up to here the canonical text lists the values; beyond, it names their digest."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Tabulated(Linear):
    """The mean of `values[record on names]` over the table; `rt.linear` builds it."""

    names: tuple[str, ...]
    values: np.ndarray

    def __init__(self, attributes: Iterable[str], values: Any) -> None:
        names = Marginal(attributes).names
        if not names:
            raise QueryError("a linear query needs at least one attribute: rt.linear('age', values=[...])")
        table = _numbers(values, len(names))
        # By name, so that the order of writing does not make another question.
        order = sorted(range(len(names)), key=names.__getitem__)
        object.__setattr__(self, "names", tuple(names[axis] for axis in order))
        object.__setattr__(self, "values", checked_values(np.transpose(table, order) + 0.0, len(names)))

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.names)

    def to_dict(self) -> dict[str, Any]:
        listed = self.values.size <= LISTED_VALUES
        return {
            "query": "linear",
            "attributes": list(self.names),
            "values": self.values.tolist() if listed else _packed(self.values),
        }

    def _compile(self, domain: Domain) -> Form:
        names = domain_order(domain, self.names)
        for name, size in zip(self.names, self.values.shape, strict=True):
            if size != domain[name].size:
                raise QueryError(f"{shown(name)} has {domain[name].size} codes, not {size} values; give one for each")
        values = np.transpose(self.values, [self.names.index(name) for name in names])
        # An axis along which nothing changes asks nothing: certificates of fewer attributes then cover the query.
        asked = [axis for axis in range(values.ndim) if np.ptp(values, axis=axis).any()]
        kept = tuple(names[axis] for axis in asked)
        values = values[tuple(slice(None) if axis in asked else 0 for axis in range(values.ndim))]
        if len(kept) == 1:
            return Product(kept, (values,))
        factors = factorised(values.astype(bool)) if kept and is_binary(values) else None
        return Dense(kept, values) if factors is None else mask_product(kept, tuple(factors))

    def _write(self) -> str:
        names = ", ".join(map(name_text, self.names))
        if self.values.size <= WRITTEN_VALUES:
            return f"linear({names}, {json.dumps(self.values.tolist())})"
        shape = "x".join(map(str, self.values.shape))
        return f"linear({names}, {shape} values {form_digest('linear', self.names, (self.values,))})"


def linear(*attributes: str, values: Any, domain: Domain | None = None) -> Tabulated:
    """Any linear query: the mean over the table of a function of some attributes with values in [0, 1].

    The function is declared as data, one value for each combination of codes, and checked; no user code runs on rows.
    The query can be asked, bought, certified and put into workloads like `rt.count` and `rt.mean`.

    Args:
        attributes: The columns on which the function depends.
        values: An array with one axis for each attribute, in the order named and over its codes; or a function that is
            called with one value of each attribute (a category, the representative of a bin, None for null,
            "(other)") and returns a number. At most 1,048,576 values in all.
        domain: Needed with a function, which is evaluated on the domain's values.

    Returns:
        A query for `ask`, `answer`, `cost` and `rt.Workload`.

    Raises:
        QueryError: The values leave [0, 1], do not match the attributes, or are too many.

    Example:
        >>> import reticent as rt
        >>> domain = rt.Domain(age=rt.Integer(4), smoker=rt.Categorical(["no", "yes"], other=False))
        >>> risk = rt.linear("age", "smoker", values=[[0, 0.1], [0, 0.3], [0.1, 0.6], [0.2, 1]])
        >>> risk.compile(domain).range
        (0.0, 1.0)
        >>> rt.linear("age", values=lambda age: age / 4, domain=domain)
        linear(age, [0.0, 0.25, 0.5, 0.75])
    """
    if callable(values):
        if domain is None:
            raise QueryError("a function is evaluated on the domain's values: give domain=, or an array of values")
        values = _evaluated(Marginal(attributes).names, values, domain)
    query = Tabulated(attributes, values)
    if domain is not None:
        query.compile(domain)
    return query


def tabulated_from_dict(description: Mapping[str, Any]) -> Tabulated:
    """The inverse of `Tabulated.to_dict`, for unchecked input."""
    names, values = description["attributes"], description["values"]
    if not is_list(names):
        raise QueryError('"attributes" must be a list of names')
    return Tabulated(names, _unpacked(values) if is_mapping(values) else values)


def _evaluated(names: tuple[str, ...], function: Callable[..., Any], domain: Domain) -> np.ndarray:
    domain_order(domain, names)
    shape = domain.shape_of(names)
    _refuse_many(math.prod(shape))
    choices = [[domain[name].value(code) for code in range(domain[name].size)] for name in names]
    found: list[float] = []
    for cell in itertools.product(*choices):
        try:
            found.append(float(function(*cell)))
        except Exception as failure:
            at = ", ".join(f"{name}={shown(value)}" for name, value in zip(names, cell, strict=True))
            why = f"{type(failure).__name__}: {failure}"
            raise QueryError(f"the function of rt.linear failed at {at} ({why})") from None
    return np.array(found).reshape(shape)


def _numbers(values: Any, dimensions: int) -> np.ndarray:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RecursionError):
        raise QueryError("the values of rt.linear must be numbers in [0, 1], one for each combination") from None
    if table.ndim != dimensions:
        raise QueryError(f"{dimensions} attributes need values with as many axes, not {table.ndim}")
    _refuse_many(table.size)
    return table


def _refuse_many(count: int) -> None:
    if count > MOST_VALUES:
        raise QueryError(f"rt.linear got {count} values; at most {MOST_VALUES}: use fewer or coarser attributes")


def _packed(values: np.ndarray) -> dict[str, Any]:
    data = zlib.compress(np.ascontiguousarray(values, dtype="<f8").tobytes(), 6)
    return {"shape": list(values.shape), "float64": base64.b64encode(data).decode()}


def _unpacked(packed: Mapping[str, Any]) -> np.ndarray:
    shape, text = packed.get("shape"), packed.get("float64")
    whole = is_list(shape) and all(type(size) is int and 0 < size <= MOST_VALUES for size in shape)
    if set(packed) != {"shape", "float64"} or not whole or not isinstance(text, str):
        raise QueryError('packed values are {"shape": [...], "float64": "base64 of compressed little-endian doubles"}')
    count = math.prod(packed["shape"])
    _refuse_many(count)
    try:
        inflater = zlib.decompressobj()
        # A few bytes may claim to be gigabytes: no more is inflated than the shape holds.
        data = inflater.decompress(base64.b64decode(text, validate=True), 8 * count + 1)
    except (binascii.Error, zlib.error, ValueError):
        raise QueryError("packed values are damaged: send them again") from None
    if len(data) != 8 * count:
        raise QueryError(f"packed values hold {len(data)} bytes, their shape needs {8 * count}")
    return np.frombuffer(data, dtype="<f8").reshape(packed["shape"])
