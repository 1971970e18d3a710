"""How much of a block's sum each of its halves holds, given noisy halves of all blocks of one depth.

The share of a half has a symmetric beta prior (around its part of the codes, where halves differ in size), whose scale
is drawn from a law on a grid: from nearly even divisions over uniform shares to all or nothing. One law for each depth
holds tables with a few strong blocks among many even ones. What a block itself shows does not count when it is
divided, or it would be believed twice; where a depth has few blocks the law of the next finer one decides. Everything
is read off released numbers (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

__all__ = ["ANY_LAW", "DividedBlocks", "Law", "hints_of_nothing", "log_tails"]

SCALES = np.geomspace(1e-3, 1.0, 13)
"""Standard deviations of a half's share of its block, over that of a coin that decides for all of it."""
NEARLY_NOTHING, NEARLY_EVEN, RATIO = 1e-4, 3e-4, 1.4
"""Priors are uniform between edges; their distances from nothing, all and an even share grow by this ratio. A share
below the first is no more than any noise, and half the smallest scale is above the second."""
NEIGHBOURS = (-1, 0, 1, 2)
"""Steps on the grid of scales from one depth to the next coarser one, all as likely. A step is a factor of 1.8: codes
that have nothing to do with each other divide by 1.4 less evenly at the finer depth, slopes by 2 more evenly."""
OTHERWISE = 0.03
"""The probability that the law of a depth has nothing to do with that of the next finer one."""
UNSEEN_BLOCKS = 0.5
"""Blocks that have the scales of the next finer depth, beside those of a depth."""
LAW_STEPS, LAW_SETTLED = 200, 1e-4
LEARNT_BLOCKS = 2**14
"""Of more blocks every second or third is learnt from."""
AT_ONCE = 2**12
"""Blocks whose likelihoods are held at a time, a kilobyte each."""
FARTHEST = 8.0
"""Standard deviations beyond nothing or all at which a measured half is as good as there."""
LEAST_WHOLE = 0.1
"""Of the noise: how a smaller block is divided cannot be seen, and it is divided evenly."""
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Law:
    """Probabilities of the scales of a depth, what they were before its blocks were seen, and how many these are."""

    weights: np.ndarray
    prior: np.ndarray
    blocks: int

    def for_coarser(self) -> Law:
        """The law of the next coarser depth before its own blocks are seen."""
        blurred = np.zeros(self.weights.size)
        for step in NEIGHBOURS:
            np.add.at(blurred, np.clip(np.arange(blurred.size) + step, 0, blurred.size - 1), self.weights)
        prior = (1 - OTHERWISE) * blurred / len(NEIGHBOURS) + OTHERWISE / blurred.size
        return Law(prior, prior, 0)

    def without(self, likely: np.ndarray) -> np.ndarray:
        """Row by row what all other blocks say, given each block's likelihoods."""
        own = likely * self.weights
        own /= np.maximum(own.sum(axis=1, keepdims=True), TINY)
        others = (self.blocks + UNSEEN_BLOCKS) * self.weights - own
        kept = np.maximum(others, UNSEEN_BLOCKS * self.prior)
        return kept / kept.sum(axis=1, keepdims=True)


ANY_LAW = Law(np.full(SCALES.size, 1 / SCALES.size), np.full(SCALES.size, 1 / SCALES.size), 0)
"""Of the finest depth before anything is seen."""


def _distances(first: float) -> np.ndarray:
    found = first * RATIO ** np.arange(64)
    return found[found < 0.25]


@lru_cache(maxsize=1)
def _edges() -> np.ndarray:
    near, even = _distances(NEARLY_NOTHING), _distances(NEARLY_EVEN)
    half = np.concatenate([[0.0], near, [0.25], (0.5 - even)[::-1], [0.5]])
    return np.concatenate([half, 1 - half[-2::-1]])


@lru_cache(maxsize=64)
def _priors(even: float) -> tuple[np.ndarray, np.ndarray]:
    """Edges around an even share, and for every scale but the last the probability between neighbouring edges."""
    from scipy.special import betainc

    edges = _edges()
    edges = np.where(edges <= 0.5, 2 * even * edges, 1 - 2 * (1 - even) * (1 - edges))
    weights = SCALES[:-1, None] ** -2 - 1
    return edges, np.diff(betainc(weights * even, weights * (1 - even), edges), axis=1)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Some blocks of one even share: likelihoods and mean shares between edges, and of nothing and all."""

    blocks: np.ndarray
    even: float
    between: np.ndarray
    means: np.ndarray
    ends: np.ndarray

    def likely(self) -> np.ndarray:
        """Likelihoods of all scales; of the last both ends are left."""
        _, priors = _priors(self.even)
        coin = (1 - self.even) * self.ends[:, 0] + self.even * self.ends[:, 1]
        return np.column_stack([self.between @ priors.T, coin])

    def shares(self, law: Law) -> np.ndarray:
        """Posterior means of the first halves' shares."""
        _, priors = _priors(self.even)
        weights = law.without(self.likely())
        between = self.between * (weights[:, :-1] @ priors)
        everything = weights[:, -1] * self.even * self.ends[:, 1]
        nothing = weights[:, -1] * (1 - self.even) * self.ends[:, 0]
        total = between.sum(axis=1) + everything + nothing
        found = ((between * self.means).sum(axis=1) + everything) / np.maximum(total, TINY)
        return np.clip(found, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class DividedBlocks:
    """The blocks of one depth and their noisy halves; all arrays have one entry for each block.

    Args:
        even: The first half's part of a block's codes.
        departure: The first half less its even part of the block, as measured.
        sd: The noise of departures.
        nothing: For both halves the logarithm of how much likelier than by their sums they are to hold nothing.
    """

    even: np.ndarray
    departure: np.ndarray
    sd: float
    nothing: tuple[np.ndarray, np.ndarray]

    def learn(self, whole: np.ndarray, prior: Law) -> Law:
        """The likeliest law of scales of blocks with these sums."""
        seen = self._visible(whole)
        seen = seen[:: max(1, -(-seen.size // LEARNT_BLOCKS))]
        if not seen.size:
            return prior
        likely = np.concatenate([part.likely() for part in self._parts(whole, seen)])
        likely = likely / np.maximum(likely.max(axis=1, keepdims=True), TINY)
        law = prior.weights
        for _ in range(LAW_STEPS):
            shares = law * ((1 / np.maximum(likely @ law, TINY)) @ likely)
            before, law = law, (shares + UNSEEN_BLOCKS * prior.weights) / (shares.sum() + UNSEEN_BLOCKS)
            if np.abs(law - before).max() < LAW_SETTLED:
                break
        return Law(law, prior.weights, seen.size)

    def first(self, whole: np.ndarray, law: Law) -> np.ndarray:
        """What the first halves hold of blocks with these sums: the mean over all shares."""
        shares = self.even.copy()
        for part in self._parts(whole, self._visible(whole)):
            shares[part.blocks] = part.shares(law)
        return shares * whole

    def _visible(self, whole: np.ndarray) -> np.ndarray:
        return np.flatnonzero((self.even > 0) & (self.even < 1) & (whole > LEAST_WHOLE * self.sd))

    def _parts(self, whole: np.ndarray, blocks: np.ndarray) -> Iterator[_Seen]:
        for even in np.unique(self.even[blocks]):
            alike = blocks[self.even[blocks] == even]
            for start in range(0, alike.size, AT_ONCE):
                yield self._seen(whole, alike[start : start + AT_ONCE], float(even))

    def _seen(self, whole: np.ndarray, blocks: np.ndarray, even: float) -> _Seen:
        """Likelihoods are averages over the shares between two edges, so that none is too narrow to be seen."""
        from scipy.special import ndtr

        edges, _ = _priors(even)
        sums = whole[blocks] / self.sd
        half = np.clip(self.departure[blocks] / self.sd + even * sums, -FARTHEST, sums + FARTHEST)[:, None]
        away = sums[:, None] * edges - half
        low, high = away[:, :-1], away[:, 1:]
        mirrored = low + high > 0  # differences of small probabilities are exact
        caught = ndtr(np.where(mirrored, -low, high)) - ndtr(np.where(mirrored, -high, low))
        density = np.exp(-0.5 * away * away) / np.sqrt(2 * np.pi)
        inside = np.divide(density[:, :-1] - density[:, 1:], caught, out=(low + high) / 2, where=caught > TINY)
        means = (half + np.clip(inside, low, high)) / sums[:, None]
        ends = density[:, [0, -1]] * np.exp(np.column_stack([hints[blocks] for hints in self.nothing]))
        return _Seen(blocks, even, caught / (high - low), means, ends)


def log_tails(sums: np.ndarray, sd: float, laplaces: float) -> np.ndarray:
    """Logarithms of the probabilities that noise alone exceeds sums (of a half, below 0).

    Args:
        sums: What was measured.
        sd: Standard deviation of the noise.
        laplaces: It is a sum of so many equal Laplace noises; infinite for normal noise. By the saddlepoint
            approximation of Lugannani and Rice, within a tenth for one and closer for more.
    """
    from scipy.special import log_ndtr

    if not np.isfinite(laplaces):
        return log_ndtr(-np.maximum(sums, 0.0) / sd)
    away = np.maximum(sums / sd, 1e-3) * np.sqrt(2 * laplaces)
    tilt = away / (laplaces + np.hypot(laplaces, away))
    root = np.sqrt(2 * (tilt * away + laplaces * np.log1p(-tilt * tilt)))
    steep = tilt * np.sqrt(2 * laplaces * (1 + tilt * tilt)) / (1 - tilt * tilt)
    normal = log_ndtr(-root)
    density = np.exp(-0.5 * root * root - normal) / np.sqrt(2 * np.pi)
    return np.minimum(normal + np.log1p(density * (1 / steep - 1 / root)), np.log(0.5))


def hints_of_nothing(log_p: np.ndarray) -> np.ndarray:
    """Logarithms of the least odds of noise alone that go with a p-value: -e p ln p (Sellke, Bayarri and Berger)."""
    return np.where(log_p < -1, 1 + log_p + np.log(np.maximum(-log_p, 1.0)), 0.0)
