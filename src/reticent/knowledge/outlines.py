"""An outline is all that error bounds know of a query: its attributes, how many cells it takes, in how many boxes.

Queries of one outline share their bounds, so a bound is computed once and then looked up.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from reticent.queries.forms import Dense, Form, Product

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


def outline(form: Form) -> Outline:
    """Found once per form."""
    found = form.__dict__.get("_outline")
    if found is None:
        found = form.__dict__["_outline"] = _of_product(form) if isinstance(form, Product) else _of_dense(form)
    return found


def essential(form: Form) -> Form:
    """The form without attributes that it does not constrain."""
    names = outline(form).attributes
    if isinstance(form, Dense) or len(names) == len(form.attributes):
        return form
    return Product(names, tuple(v for a, v in zip(form.attributes, form.vectors, strict=True) if a in names))


def is_cell(form: Form) -> bool:
    """Whether it takes exactly one cell of its own attributes."""
    known = outline(form)
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
