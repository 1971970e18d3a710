"""Measured cells answer every sum of themselves for free, with a bound that holds for the whole class of sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from reticent.algorithms.certificates import essential
from reticent.algorithms.tails import box_reach, reach, sum_reach
from reticent.domain import Domain
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

    def value_of(self, form: Form, domain: Domain) -> float:
        return float(np.sum(self.values * self._weights(form, domain)))

    def error_of(self, form: Form, domain: Domain, confidence: float) -> float:
        """A bound for this query that holds for all queries of its class at once (spec online.md 2.3)."""
        form = essential(form)
        if not self.covers(form):
            return inf
        weights = self._weights(form, domain)
        cells, failure = self.values.size, 1 - confidence
        chosen = float(weights.sum())
        step = self.records_error + 1 / self.records
        candidates = [sum_reach(self.sd, chosen, cells, failure)]
        if is_cell(form, self.attributes):
            candidates.append(reach(self.noise, failure / (2 * cells)) / self.records)
        elif is_box(form):
            candidates.append(box_reach(self.sd, chosen, self.values.shape, failure))
        return min(candidates) + step

    def _weights(self, form: Form, domain: Domain) -> np.ndarray:
        """The query on the cells of this marginal."""
        tensor = form.tensor()
        index = tuple(slice(None) if name in form.attributes else None for name in self.attributes)
        return np.broadcast_to(tensor[index], self.values.shape)


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
    return all(np.abs(np.diff(vector, prepend=0.0, append=0.0)).sum() == 2 for vector in form.vectors)
