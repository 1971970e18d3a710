"""Measured cells answer every sum of themselves for free, with a bound that holds for the whole class of sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, prod

import numpy as np

from reticent.algorithms.certificates import ascent
from reticent.algorithms.tails import box_reach, reach, sum_reach
from reticent.kernel.mechanisms import Noise
from reticent.queries.forms import Dense, Form, Product


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """Noisy cells of one attribute set, as fractions, kept for sums asked later."""

    attributes: tuple[str, ...]
    values: np.ndarray
    noise: Noise
    records: float
    records_error: float
    ledger_id: int

    @cached_property
    def sd(self) -> float:
        return self.noise.sd / self.records

    def covers(self, form: Form) -> bool:
        return set(form.attributes) <= set(self.attributes)

    def value_of(self, form: Form) -> float:
        """The sum of the measured cells, weighted by the query."""
        kept = tuple(i for i, name in enumerate(self.attributes) if name not in form.attributes)
        return float(np.sum(self.values.sum(axis=kept) * form.tensor()))

    def error_of(self, form: Form, confidence: float) -> float:
        """A bound for this query that holds for all queries of its class at once (spec online.md 2.3)."""
        if not self.covers(form):
            return inf
        shape, failure = self.values.shape, 1 - confidence
        chosen = _weight(form) * prod(
            n for n, name in zip(shape, self.attributes, strict=True) if name not in form.attributes
        )
        candidates = [sum_reach(self.sd, chosen, self.values.size, failure)]
        if is_cell(form, self.attributes):
            candidates.append(reach(self.noise, failure / (2 * self.values.size)) / self.records)
        elif is_box(form):
            candidates.append(box_reach(self.sd, chosen, shape, failure))
        return min(candidates) + self.records_error + 1 / self.records


def _weight(form: Form) -> float:
    """How many cells of its own attributes a query takes."""
    return prod(v.sum() for v in form.vectors) if isinstance(form, Product) else float(form.values.sum())


def is_cell(form: Form, attributes: tuple[str, ...]) -> bool:
    return (
        isinstance(form, Product)
        and form.attributes == attributes
        and all(vector.sum() == 1 and vector.max() == 1 for vector in form.vectors)
    )


def is_box(form: Form) -> bool:
    """A conjunction of ranges of consecutive codes."""
    if isinstance(form, Dense) or not form.binary:
        return False
    return all(ascent(vector) == 1 for vector in form.vectors)
