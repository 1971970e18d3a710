"""Numeric columns as query values: representatives scaled into [0, 1] by their declared bounds."""

from __future__ import annotations

import numpy as np

from reticent.domain import Domain, Numeric
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
