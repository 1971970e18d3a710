"""Lower bounds on a privacy loss from counts of one event on two neighbouring tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betaincinv

Unit = Literal["epsilon", "rho"]

THRESHOLDS = 200
"""Number of candidate thresholds of a score; more would only fit the noise of the first part."""
LARGEST_ORDER = 60.0
HINT = 1e-6
"""Weight of the plain difference of two frequencies, which decides while no event proves anything."""


def at_least(hits: np.ndarray | int, trials: float, failure: float) -> np.ndarray:
    """Clopper-Pearson lower bound of a probability, wrong with probability `failure`."""
    k = np.asarray(hits, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, failure), 0.0)


def at_most(hits: np.ndarray | int, trials: float, failure: float) -> np.ndarray:
    """Clopper-Pearson upper bound."""
    return 1.0 - at_least(trials - np.asarray(hits), trials, failure)


def pure_loss(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """ln(p/q) if the event is more likely on the first table, otherwise 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > q, np.log(p) - np.log(q), 0.0)


def concentrated_loss(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The smallest rho for which zCDP allows these two probabilities: max over a of D_a(Ber(p) || Ber(q)) / a.

    An event is post-processing, so its divergence never exceeds that of the release. For p > q the divergence grows
    with p and falls with q, so bounds on both give a bound on rho.
    """
    p, q = (np.clip(np.asarray(x, dtype=float), 1e-300, 1.0) for x in (p, q))
    order = np.concatenate([[1 + 1e-6], 1 + np.geomspace(1e-3, LARGEST_ORDER, 60)]).reshape(-1, *[1] * p.ndim)
    with np.errstate(divide="ignore"):
        hit = order * np.log(p) + (1 - order) * np.log(q)
        miss = order * np.log1p(-p) + (1 - order) * np.log1p(-np.minimum(q, 1 - 1e-16))
    divergence = np.logaddexp(hit, miss) / (order - 1)
    return np.where(p > q, (divergence / order).max(axis=0), 0.0)


LOSSES = {"epsilon": pure_loss, "rho": concentrated_loss}


def loss_bound(
    unit: Unit, hits: np.ndarray, others: np.ndarray, trials: tuple[float, float], failure: float
) -> np.ndarray:
    """A lower bound on the loss, wrong with probability `failure`; each of the two probabilities gets half of it."""
    p = at_least(hits, trials[0], failure / 2)
    q = at_most(others, trials[1], failure / 2)
    return LOSSES[unit](p, q)


@dataclass(frozen=True)
class ScoreEvent:
    """`score >= threshold` (or `<`), and the table on which it is more likely."""

    threshold: float
    above: bool
    table: int

    def count(self, scores: np.ndarray) -> int:
        """The number of runs in the event; a run without a score (it was stopped) is in no event."""
        return int(np.count_nonzero(scores >= self.threshold if self.above else scores < self.threshold))

    def bound(self, scores: tuple[np.ndarray, np.ndarray], unit: Unit, failure: float) -> float:
        first, second = scores[self.table], scores[1 - self.table]
        sizes = (len(first), len(second))
        return float(loss_bound(unit, np.array(self.count(first)), np.array(self.count(second)), sizes, failure))


def best_event(scores: tuple[np.ndarray, np.ndarray], unit: Unit, failure: float, ahead: float = 2.0) -> ScoreEvent:
    """The event that is expected to prove most on `ahead` times as many other runs, on which it must then be
    counted.
    """
    levels = np.unique(np.concatenate(scores))
    if len(levels) > THRESHOLDS:
        levels = np.unique(np.quantile(levels, np.linspace(0, 1, THRESHOLDS), method="nearest"))
    above = [np.array([np.count_nonzero(side >= level) for level in levels]) for side in scores]
    best, chosen = -math.inf, ScoreEvent(math.inf, True, 0)
    for table in (0, 1):
        sizes = len(scores[table]), len(scores[1 - table])
        for over in (True, False):
            hits, others = (above[t] if over else len(scores[t]) - above[t] for t in (table, 1 - table))
            more = ahead * sizes[0], ahead * sizes[1]
            gap = hits / sizes[0] - others / sizes[1]
            losses = loss_bound(unit, ahead * hits, ahead * others, more, failure) + HINT * gap
            place = int(np.argmax(losses))
            if losses[place] > best:
                best, chosen = float(losses[place]), ScoreEvent(float(levels[place]), over, table)
    return chosen
