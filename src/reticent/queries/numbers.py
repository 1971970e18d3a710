"""Numeric columns as query values: representatives scaled into [0, 1] by their declared bounds."""

from __future__ import annotations

import numpy as np

from reticent.domain import Attribute, Domain, Numeric
from reticent.domain.attribute import closest, shown
from reticent.errors import QueryError
from reticent.queries.forms import Dense, Form, Product, refuse_large


def scaled_numbers(domain: Domain, column: str) -> tuple[np.ndarray, float, float]:
    """Representatives scaled into [0, 1] by the declared bounds (0 for codes without one), and those bounds."""
    attribute = domain.attributes.get(column)
    if attribute is None:
        raise QueryError(f"unknown column {shown(column)}{closest(column, domain.names)}")
    numbers, bounds = attribute.representatives, attribute.bounds
    if numbers is None or bounds is None or (isinstance(attribute, Numeric) and attribute.kind != "number"):
        raise QueryError(f"the mean or sum of {shown(column)} needs numbers; count its values instead")
    lower, upper = bounds
    width = upper - lower
    scaled = (numbers - lower) / width if width > 0 else np.zeros(len(numbers))
    return np.clip(np.nan_to_num(scaled), 0.0, 1.0), lower, upper


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
