"""A certificate bounds the error of one public snapshot for a whole class of queries at once (spec online.md 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np

from reticent.algorithms.tails import noise_failure, reach
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms import restore
from reticent.kernel.statistics import Kind
from reticent.queries.forms import Dense, Product

Form = Product | Dense


@dataclass(frozen=True)
class Certificate:
    """Every query of `kind` on `sets` errs at most `bound` (a fraction of the table) on the snapshot it names.

    The released reading bounds the largest error at any confidence, so the bound is a function of it. The j-th audit
    of a session may fail with probability `(1 - confidence) / 2^j`: all of them hold together with `confidence`.
    """

    kind: Kind
    sets: tuple[tuple[str, ...], ...]
    snapshot: str
    reading: float
    noise: dict[str, str]
    slack: float
    records: float
    records_error: float
    index: int
    confidence: float
    ledger_id: int | None = None

    @cached_property
    def bound(self) -> float:
        return self.bound_at(self.confidence)

    def bound_at(self, confidence: float) -> float:
        """(M + z s) / n; under add-remove (M + z s + e_N N) / (N (1 - e_N)) (spec 1.1)."""
        if confidence not in self._bounds:
            failure = noise_failure(confidence, self.records_error) / 2**self.index
            stray = reach(self._noise, failure) / self.records if failure > 0 else inf
            error = max(0.0, self.reading + stray) + self.slack
            known = self.records_error < 1
            self._bounds[confidence] = (error + self.records_error) / (1 - self.records_error) if known else inf
        return self._bounds[confidence]

    def error_of(self, form: Form, confidence: float | None = None) -> float:
        """The certified error of one query; infinite where this certificate says nothing about it.

        A query that is a weighted sum of class members (a list of values, a mean of ordered bins) errs at most the
        sum of the weights times the bound.
        """
        bound = self.bound if confidence is None else self.bound_at(confidence)
        form = essential(form)
        if not form.attributes:
            return 0.0
        if not self._reached(form.attributes):
            return inf
        if self.kind == "predicates":
            low, high = form.range
            return (high - low) * bound
        pieces = cells_needed(form) if self.kind == "cells" else boxes_needed(form)
        return pieces * bound

    def _reached(self, attributes: tuple[str, ...]) -> bool:
        """Whether some audited set covers these attributes; looked up once per attribute set."""
        known = self._reach.get(attributes)
        if known is None:
            wanted = set(attributes)
            known = any(wanted == set(s) if self.kind == "cells" else wanted <= set(s) for s in self.sets)
            self._reach[attributes] = known
        return known

    @cached_property
    def _reach(self) -> dict[tuple[str, ...], bool]:
        return {}

    @cached_property
    def _noise(self) -> Noise:
        return restore(self.noise)  # pyright: ignore[reportReturnType]

    @cached_property
    def _bounds(self) -> dict[float, float]:
        return {}

    def to_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Certificate:
        sets: Any = tuple(tuple(s) for s in fields["sets"])
        return cls(**{**fields, "sets": sets})


def tightest(
    certificates: Iterable[Certificate], form: Form, confidence: float | None = None
) -> tuple[float, Certificate | None]:
    """The smallest certified error of a query and the certificate it comes from."""
    best: tuple[float, Certificate | None] = (inf, None)
    for certificate in certificates:
        error = certificate.error_of(form, confidence)
        if error < best[0]:
            best = (error, certificate)
    return best


def essential(form: Form) -> Form:
    """The form without attributes that it does not constrain; found once per form."""
    found = form.__dict__.get("_essential")
    if found is None:
        found = _essential(form)
        form.__dict__["_essential"] = found.__dict__["_essential"] = found
    return found


def _essential(form: Form) -> Form:
    if isinstance(form, Dense):
        return form
    kept = [(a, v) for a, v in zip(form.attributes, form.vectors, strict=True) if min(v.tolist()) < 1.0]
    if len(kept) == len(form.attributes):
        return form
    return Product(tuple(a for a, _ in kept), tuple(v for _, v in kept))


def boxes_needed(form: Form) -> float:
    """Total weight of boxes whose sum is the query, or its complement: one for a box, a mean of ordered bins too.

    Any q >= 0 is the integral over t of 1[q > t] (layer cake); along an axis the superlevel sets have as many runs as
    the vector has upward variation.
    """
    if isinstance(form, Product):
        weight = prod(ascent(vector) for vector in form.vectors)
        if weight > 1 and len(form.vectors) == 1:
            weight = min(weight, ascent(1.0 - form.vectors[0]))
        return weight
    return min(_lines(form.values), _lines(1.0 - form.values))


def cells_needed(form: Form) -> float:
    """Total weight of cells whose sum is the query."""
    if isinstance(form, Product):
        return prod(float(vector.sum()) for vector in form.vectors)
    return float(form.values.sum())


def ascent(vector: np.ndarray) -> float:
    """Upward variation of one vector, starting from zero; plain Python, for vectors are short."""
    height = total = 0.0
    for value in vector.tolist():
        if value > height:
            total += value - height
        height = value
    return total


def _climb(values: np.ndarray) -> np.ndarray:
    """Upward variation along the last axis, starting from zero."""
    steps = np.diff(values, axis=-1, prepend=0.0)
    return np.maximum(steps, 0.0).sum(axis=-1, keepdims=True)


def _lines(values: np.ndarray) -> float:
    """Weight of boxes when each line along the best axis is cut into its own runs."""
    return min(float(_climb(np.moveaxis(values, axis, -1)).sum()) for axis in range(values.ndim))
