"""`Witness`: a curator that also knows the neighbouring table and computes how far a release distinguishes the two."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.kernel.curator import Curator, Epoch, Settled
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import AboveThreshold, Laplace, Noise
from reticent.kernel.statistics import Statistic
from reticent.kernel.table import Table, exact_counts


class Witness(Curator):
    """Serves one table to an algorithm and sums ln P(release | second) / P(release | first) by the stated noise.

    The sum is a score, not a proof: the verdict counts runs, so it detects a release that does not follow its stated
    noise.
    """

    def __init__(self, table: Table, ledger: Ledger, first: Table, second: Table) -> None:
        super().__init__(table, ledger)
        self._pair = (first, second)
        self.evidence = 0.0

    def measure(self, queries: Any, mechanism: Any, *, key: str | None = None, analyst: str | None = None) -> Settled:
        settled = super().measure(queries, mechanism, key=key, analyst=analyst)
        statistics, noises, _ = self.priced(queries, mechanism)
        for statistic, noise, values in zip(statistics, noises, settled.values, strict=True):
            first, second = self._exact(statistic)
            self.evidence += evidence_of_noise(noise, values, first, second)
        return settled

    def select(self, scores: Any, mechanism: Any, **options: Any) -> Settled:
        settled = super().select(scores, mechanism, **options)
        slope = float(mechanism.epsilon) / (2 * float(scores.sensitivity(self.neighbours).l1))
        first, second = (_log_softmax(slope * exact) for exact in self._exact(scores))
        drawn = np.asarray(settled.values[0])
        self.evidence += float((second[drawn] - first[drawn]).sum())
        return settled

    def exceeds(self, error: Statistic, epoch: Epoch) -> bool:
        above = super().exceeds(error, epoch)
        step = float(error.sensitivity(self.neighbours).l1)
        first, second = (float(exact) - epoch.threshold for exact in self._exact(error))
        chances = [chance_above(epoch.mechanism, value / step) for value in (first, second)]
        ratio = np.log(chances) if above else np.log1p(-np.array(chances))
        self.evidence += float(ratio[1] - ratio[0])
        return above

    def _exact(self, statistic: Statistic) -> tuple[np.ndarray, np.ndarray]:
        """Both tables' values, in records."""
        grid = statistic.resolution(1)
        first, second = (np.asarray(statistic.evaluate(exact_counts(table), 1)) / grid for table in self._pair)
        return first, second


def evidence_of_noise(noise: Noise, values: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """The log likelihood ratio of noisy values."""
    if isinstance(noise, Laplace):
        return float((np.abs(values - first) - np.abs(values - second)).sum() / float(noise.scale))
    return float(((values - first) ** 2 - (values - second) ** 2).sum() / (2 * noise.sd**2))


def chance_above(mechanism: AboveThreshold, value: float) -> float:
    """P(value + query noise >= threshold noise), value in units of the sensitivity; each test is considered
    separately.
    """
    wide, narrow = float(mechanism.query_scale(1)), float(mechanism.threshold_scale(1))
    distance = abs(value)
    if mechanism.one_sided:
        if value < 0:
            return max(1e-12, wide / (wide + narrow) * np.exp(-distance / wide))
        return 1 - max(1e-12, narrow / (wide + narrow) * np.exp(-distance / narrow))
    if np.isclose(wide, narrow):
        tail = (0.5 + distance / (4 * wide)) * np.exp(-distance / wide)
    else:
        squares = wide**2 - narrow**2
        tail = (wide**2 * np.exp(-distance / wide) - narrow**2 * np.exp(-distance / narrow)) / (2 * squares)
    tail = min(0.5, max(1e-12, float(tail)))
    return tail if value < 0 else 1 - tail


def _log_softmax(values: np.ndarray) -> np.ndarray:
    shifted = values - values.max()
    return shifted - np.log(np.exp(shifted).sum())
