"""Prices of residuals under replace-one: the worst pair of records decides, so a plan learns its prices.

Two records that differ in the attributes D change the residual of A by `p_A - K_A(D)` (docs/proofs/residuals.md, claim
3), and the joint price of precisions t is the largest value over D of `sum t_A (p_A - K_A(D))`. A plan with the
smallest error under this limit is a saddle point: precisions that are optimal for the prices `p_A - sum_D m_D K_A(D)`,
and weights m of an adversary who chooses the worst D. The weights grow multiplicatively with the cost of each D. The
adversary starts from a uniformly drawn second record, for which `K_A = 0` for every set, as under add-remove. Whole
marginals are among these plans at their own price, because all residuals of a marginal together cost as much as the
marginal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from reticent.domain import Domain
from reticent.kernel.residual_counts import groups

__all__ = ["ReplacementPrices"]

Set = tuple[str, ...]

STEP = 16.0
"""Exponent of a weight in each update, times the cost of its D relative to the worst one."""


class ReplacementPrices:
    """Costs of precisions under replace-one, and the prices of residuals that a plan should use."""

    def __init__(self, domain: Domain, sets: Sequence[Set]) -> None:
        self.least = np.array([np.prod([1 - 1 / size for size in domain.shape_of(s)]) for s in sets])
        """Prices under add-remove: the mean over all second records."""
        self._alone = np.array([not s for s in sets])
        filled = [place for place, s in enumerate(sets) if s]
        together = groups([sets[place] for place in filled])
        self._groups = [_Group(domain, [filled[i] for i in group], sets) for group in together]
        self.exact = len(self._groups) < 2
        """Whether costs are those of the worst pair of records; in wide tables they are a sum over groups of sets."""

    def cost(self, precisions: np.ndarray) -> float:
        """The joint cost of all residuals, in units in which a marginal of precision one costs one."""
        worst = sum(group.costs(precisions, self.least).max() for group in self._groups)
        return float(worst + precisions[self._alone].sum() / 2)

    def learn(self, precisions: np.ndarray) -> tuple[float, np.ndarray]:
        """The cost of these precisions, and the prices of precision one after the adversary has reacted to them.

        A sum over groups is not a saddle point of the true cost; in that case the prices stay those of add-remove.
        """
        if not self.exact:
            return self.cost(precisions), self.least
        cost, prices = float(precisions[self._alone].sum() / 2), np.where(self._alone, 0.5, self.least)
        for group in self._groups:
            costs = group.costs(precisions, self.least)
            cost += float(costs.max())
            group.learn(costs)
            prices[group.places] -= group.expected()
        return cost, np.maximum(prices, LEAST_PRICE * self.least)


LEAST_PRICE = 1e-3
"""The smallest price relative to add-remove: no residual becomes free while the adversary chooses other attributes."""


class _Group:
    """Residuals on a few attributes, and the adversary's weights of all subsets D of these attributes."""

    def __init__(self, domain: Domain, places: Sequence[int], sets: Sequence[Set]) -> None:
        names = list(dict.fromkeys(name for place in places for name in sets[place]))
        self.places = np.array(places, dtype=np.intp)
        self._sizes = [domain[name].size for name in names]
        bit = {name: 1 << (len(names) - 1 - i) for i, name in enumerate(names)}
        self._cells = np.array([sum(bit[name] for name in sets[place]) for place in places], dtype=np.intp)

    @cached_property
    def _logs(self) -> np.ndarray:
        """The adversary's weights, of whom a plan with one group alone learns."""
        weights = np.ones(1)
        for size in self._sizes:
            weights = np.multiply.outer(weights, [1 / size, 1 - 1 / size]).ravel()
        return np.log(weights)

    def costs(self, precisions: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """The cost of every D."""
        from reticent.releases.replacement_kernels import summed_over_subsets

        own = precisions[self.places]
        sums = np.zeros(2 ** len(self._sizes))
        sums[self._cells] = own
        return float(own @ prices[self.places]) - summed_over_subsets(sums, np.array(self._sizes))

    def learn(self, costs: np.ndarray) -> None:
        self._logs += STEP * costs / max(costs.max(), np.finfo(float).tiny)

    def expected(self) -> np.ndarray:
        """The mean of `K_A(D)` over the adversary's weights, for every residual."""
        means = np.exp(self._logs - self._logs.max())
        means /= means.sum()
        for i, size in enumerate(self._sizes):
            equal, different = self._halves(means, i)
            means = np.stack([equal + different, (1 - 1 / size) * equal - different / size], axis=1).ravel()
        return means[self._cells]

    def _halves(self, values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        split = values.reshape(2**axis, 2, -1)
        return split[:, 0], split[:, 1]
