"""The mean of all distributions that could have yielded a noisy histogram, each as likely as it is.

A fit looks for the best single distribution; where noise is as large as the table, the best one is far out and a
matter of luck, while the mean stays near the uniform distribution. It is also what minimises the expected relative
entropy. Prior: logits are sums of normal effects of one, two and three attributes and of a cell's own; how strong each
order is, is drawn too. Elliptical slice sampling (Murray, Adams and MacKay 2010) needs no tuning and no gradient.
"""

from __future__ import annotations

from itertools import combinations
from math import prod, sqrt

import numpy as np

from reticent.hypotheses.fitting.prior import soft_floor

__all__ = ["posterior_draw", "posterior_mean"]

SCALES = (0.5, 0.25, 0.1)
"""Prior standard deviation of the effects of one, two and three attributes on a logit.

Twice as much lets noise in where there is nothing else (a sixth above uniform on 70 records) and gains little.
"""
OWN_SCALE = 0.1
"""The same of what only a cell itself has, in tables of more attributes."""
LOOSENESS = 0.7
"""Standard deviation of the logarithm of each of these scales."""
STEPS, FORGOTTEN = 6000, 1500
BATCH = 60

Axes = tuple[int, ...]


def posterior_mean(
    values: np.ndarray,
    sd: float,
    *,
    laplace: bool,
    generator: np.random.Generator,
    impossible: np.ndarray | None = None,
    steps: int = STEPS,
) -> np.ndarray:
    """The posterior mean of a distribution, given its histogram with normal or Laplace noise of the given `sd`.

    It is 0 in `impossible` cells.
    """
    walk = _Walk(values, sd, laplace, generator, impossible)
    for done in range(0, steps, BATCH):
        if done == FORGOTTEN:
            walk.sums[:] = 0.0
        walk.go()
    return walk.mean()


def posterior_draw(
    values: np.ndarray,
    sd: float,
    *,
    laplace: bool,
    generator: np.random.Generator,
    impossible: np.ndarray | None = None,
) -> np.ndarray:
    """One distribution drawn from the posterior: where the walk stands when it has forgotten its start."""
    walk = _Walk(values, sd, laplace, generator, impossible)
    for _ in range(0, FORGOTTEN, BATCH):
        walk.go()
    walk.sums[:] = 0.0
    walk.go(steps=1)
    return walk.mean()


class _Walk:
    """Elliptical slice sampling over likely tables; `sums` adds up those it visits."""

    def __init__(
        self,
        values: np.ndarray,
        sd: float,
        laplace: bool,
        generator: np.random.Generator,
        impossible: np.ndarray | None = None,
    ) -> None:
        ruled = np.zeros(values.shape, dtype=bool) if impossible is None else impossible
        self._possible = ~ruled.ravel()
        self._shape = shape = values.shape
        orders = [*range(1, min(len(SCALES), len(shape)) + 1), *([len(shape)] if len(shape) > len(SCALES) else [])]
        self._groups = [list(combinations(range(len(shape)), order)) for order in orders]
        self._scales = np.array([*SCALES, OWN_SCALE][: len(self._groups)])
        self._fields = _start(values, sd, self._groups) / self._scales[:, None]
        self._spreads = np.zeros(len(self._groups))
        self._measured, self._unit, self._laplace = values.ravel(), sd / sqrt(2) if laplace else sd, laplace
        self._generator = generator
        self.sums = np.zeros(values.size)

    def go(self, steps: int = BATCH) -> None:
        from reticent.hypotheses.fitting.posterior_kernels import walk_draws

        generator = self._generator
        fresh = np.stack([_effects(self._shape, group, generator) for group in self._groups], axis=1)
        fresh_spreads = generator.standard_normal((BATCH, len(self._groups)))
        walk_draws(
            self._fields, self._spreads, fresh[:steps], fresh_spreads[:steps], self._scales, LOOSENESS,
            self._measured, self._unit, self._laplace, generator, self.sums, self._possible,
        )  # fmt: skip

    def mean(self) -> np.ndarray:
        return (self.sums / self.sums.sum()).reshape(self._shape)


def _effects(shape: tuple[int, ...], group: list[Axes], generator: np.random.Generator) -> np.ndarray:
    """A batch of draws: one standard normal effect for every cell of every set of axes, added up on the table."""
    total = np.zeros((BATCH, *shape))
    for axes in group:
        total += generator.standard_normal((BATCH, *(size if i in axes else 1 for i, size in enumerate(shape))))
    return total.reshape(BATCH, prod(shape))


def _start(values: np.ndarray, sd: float, groups: list[list[Axes]]) -> np.ndarray:
    """Logits of the measured histogram, split by order; nearly none where noise drowns a cell of average size."""
    logits = np.log(soft_floor(values, sd))
    left = (logits - logits.mean()) / (1 + (values.size * sd) ** 2)
    parts = []
    for group in groups:
        part = np.zeros(values.shape)
        for axes in group:
            part += left.mean(axis=tuple(i for i in range(values.ndim) if i not in axes), keepdims=True)
        left = left - part
        parts.append(part.ravel())
    return np.stack(parts)
