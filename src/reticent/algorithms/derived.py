"""Measured cells answer every sum of themselves for free, with a bound that holds for the whole class of sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, lgamma, log, prod, sqrt

import numpy as np

from reticent.algorithms.outlines import outline
from reticent.algorithms.tails import box_reach, noise_failure, reach, sum_reach
from reticent.hypotheses.base import average
from reticent.kernel.curator import Noise
from reticent.kernel.mechanisms import Gaussian
from reticent.queries.forms import Form

_TILTS = np.linspace(0.01, 0.99, 99)
"""Exponents tried in Chernoff's bound for sums of Laplace noises; every one of them gives a valid bound."""

KEPT_BOUNDS = 2**14
"""Analysts choose queries and confidences, so what is remembered about them is limited."""

CLASSES = 3
"""Kinds of sums with bounds of their own; the smallest is used, so all must hold together."""


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """Noisy cells of one attribute set, as fractions, kept for sums asked later.

    `rank` counts the measured marginals of a session: an analyst may choose among them after seeing all noise, so the
    sums of the i-th may fail 1/(i (i + 1)) as often, together no more than they should. The cells of a marginal that
    was `declared` (bought for a question about them) need no such share.
    """

    attributes: tuple[str, ...]
    values: np.ndarray
    noise: Noise
    records: float
    records_error: float
    ledger_id: int | None
    rank: int = 1
    declared: bool = True

    @cached_property
    def sd(self) -> float:
        return self.noise.sd / self.records

    def ranked(self, rank: int) -> MeasuredMarginal:
        return replace(self, rank=rank)

    def balanced(self) -> MeasuredMarginal:
        """Cells that sum to one where the number of records is public and the noise Gaussian.

        Taking the mean of the noise away leaves every sum of cells with less variance and still sub-Gaussian, so all
        bounds stand, and parts add up to the known total.
        """
        if self.records_error or not isinstance(self.noise, Gaussian):
            return self
        return replace(self, values=self.values + (1 - self.values.sum()) / self.values.size)

    def value_of(self, form: Form) -> float:
        """The sum of the measured cells, weighted by the query."""
        return average(form, self.over(form.attributes))

    def over(self, attributes: tuple[str, ...]) -> np.ndarray:
        """The measured cells summed over all other attributes; computed once per attribute set."""
        found = self._sums.get(attributes)
        if found is None:
            dropped = tuple(i for i, name in enumerate(self.attributes) if name not in attributes)
            found = self._sums[attributes] = self.values.sum(axis=dropped)
        return found

    def error_of(self, form: Form, confidence: float) -> float:
        """A bound for this query that holds for all queries of its class at once (spec online.md 2.3)."""
        asked = outline(form)
        if not set(asked.attributes) <= set(self.attributes) or not self._failure(confidence) > 0:
            return inf
        merged = self._merged(asked.attributes)
        if asked.kind == "weighted":
            return self._bound(self._layers(form, self._merged(form.attributes), self._chosen(confidence)))
        kind = "cell" if merged == asked.cells == 1 and asked.kind == "box" else asked.kind
        key = (kind, int(asked.cells) * merged, confidence)
        known = self._errors.get(key)
        if known is None:
            if len(self._errors) >= KEPT_BOUNDS:
                self._errors.clear()
            known = self._errors[key] = self._bound(self._plain(*key))
        return known

    def _plain(self, kind: str, chosen: int, confidence: float) -> float:
        """The least of the bounds that hold for a plain sum of so many cells."""
        failure = self._chosen(confidence)
        bounds = [self._any_sum(chosen, failure)]
        if kind == "cell":
            own = self._failure(confidence) if self.declared else failure
            bounds.append(reach(self.noise, own / (2 * self.values.size)) / self.records)
        elif kind == "box":
            bounds.append(self._box_sum(chosen, failure))
        return min(bounds)

    def _chosen(self, confidence: float) -> float:
        """The share of the failure for sums that are chosen after the noise was seen: cells, boxes and any sums."""
        return self._failure(confidence) / (CLASSES * self.rank * (self.rank + 1))

    def _failure(self, confidence: float) -> float:
        return noise_failure(confidence, self.records_error)

    def _bound(self, noise: float) -> float:
        return noise + self.records_error + 1 / self.records

    def _merged(self, attributes: tuple[str, ...]) -> int:
        """Cells of this marginal for each cell of some of its attributes."""
        return self.values.size // self.over(attributes).size

    @cached_property
    def _sums(self) -> dict[tuple[str, ...], np.ndarray]:
        return {}

    @cached_property
    def _errors(self) -> dict[tuple[str, int, float], float]:
        return {}

    def _layers(self, form: Form, merged: int, failure: float) -> float:
        """A weighted sum is an average of plain sums over the sets where the weight exceeds a level (layer cake)."""
        weights = np.sort(form.tensor(), axis=None)
        levels, first = np.unique(weights, return_index=True)
        steps = np.diff(levels, prepend=0.0)
        sizes = (weights.size - first) * merged
        return float(sum(s * self._any_sum(int(j), failure) for s, j in zip(steps, sizes, strict=True) if s > 0))

    def _any_sum(self, chosen: int, failure: float) -> float:
        """All sums of `chosen` cells at once, for all sizes at once: a union over the choices and the sizes."""
        cells = self.values.size
        if isinstance(self.noise, Gaussian):
            return sum_reach(self.sd, chosen, cells, failure)
        return self._laplace_sum(chosen, _log_choices(cells, chosen) + log(2 * cells / failure))

    def _box_sum(self, chosen: int, failure: float) -> float:
        """All boxes at once."""
        shape = self.values.shape
        if isinstance(self.noise, Gaussian):
            return box_reach(self.sd, chosen, shape, failure)
        return self._laplace_sum(chosen, log(2 * prod(size * (size + 1) // 2 for size in shape) / failure))

    def _laplace_sum(self, chosen: int, exponent: float) -> float:
        """t with P(sum of `chosen` noises > t) <= exp(-exponent), by Chernoff.

        The moment generating function of Laplace noise of scale B at x/B is 1/(1 - x^2), that of a discrete one less.
        """
        scale = self.sd / sqrt(2)
        return float(scale * np.min((exponent - chosen * np.log1p(-(_TILTS**2))) / _TILTS))


def _log_choices(cells: int, chosen: int) -> float:
    return lgamma(cells + 1) - lgamma(chosen + 1) - lgamma(cells - chosen + 1) + 1e-9
