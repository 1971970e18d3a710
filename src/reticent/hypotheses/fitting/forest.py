"""A start for fits that begins with the strongest pairs (Chow and Liu 1968; spec planning.md 5).

The gradient of squared distances has the factor p: a cell to which the model without interactions gives next to nothing
hardly moves, however many records were measured in it. A forest of pairs has its maximum-likelihood parameters in
closed form, so that such cells are where they were measured before the first step.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

__all__ = ["forest_parameters"]

Set = tuple[str, ...]

RAISED = 3.0
"""Standard deviations of noise from which a cell is taken as measured; below, noise alone may have raised it."""
APART = 2.0
"""Standard deviations from what is expected of cells that count for a pair's weight."""
SWEEPS = 5
"""Of proportional fitting of a pair to its single attributes: what truncation adds to these is a few noises."""
TINY = np.finfo(np.float64).tiny


def forest_parameters(
    pairs: Mapping[Set, tuple[np.ndarray, np.ndarray, float]], singles: Mapping[str, np.ndarray]
) -> dict[Set, np.ndarray]:
    """Log-linear parameters of the pairs of a forest, those that differ most from what is expected.

    Args:
        pairs: Of each measured pair its cells, what a model without interactions expects of them, and their noise.
        singles: What that model has of every attribute.
    """
    weights = {names: _information(*pair) for names, pair in pairs.items()}
    trees = {name: {name} for names in pairs for name in names}
    found = {}
    for names in sorted((names for names in pairs if weights[names] > 0), key=lambda names: -weights[names]):
        first, second = (trees[name] for name in names)
        if first is second:
            continue
        first |= second
        trees |= dict.fromkeys(second, first)
        values, expected, sd = pairs[names]
        possible = expected > 0
        target = np.where(values > RAISED * sd, values, np.minimum(expected, np.maximum(values, sd / 2)))
        target = _raked(np.where(possible, target, 0.0), *(singles[name] for name in names))
        found[names] = np.log(np.maximum(target, TINY), where=possible, out=np.zeros(target.shape))
        found[names] -= np.log(expected, where=possible, out=np.zeros(target.shape))
    return found


def _information(values: np.ndarray, expected: np.ndarray, sd: float) -> float:
    """What the cells that are clearly apart from the expected ones tell beyond them, in nats of one record."""
    clear = (np.abs(values - expected) > APART * sd) & (expected > 0)
    cells, likely = np.maximum(values[clear], TINY), expected[clear]
    return float((cells * np.log(cells / likely) - (cells - likely)).sum())


def _raked(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The table with these sums of rows and columns, by proportional fitting."""
    for _ in range(SWEEPS):
        table = table * (rows / np.maximum(table.sum(axis=1), TINY))[:, None]
        table = table * (columns / np.maximum(table.sum(axis=0), TINY))[None, :]
    return table
