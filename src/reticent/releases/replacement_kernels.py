"""The compiled transform of prices under replace-one; public numbers only."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["summed_over_subsets"]


@njit(cache=True, nogil=True)
def summed_over_subsets(sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """From weights of sets, the first attribute's bit highest: of every D, the sum of weights times K(D)."""
    values, half = sums, sums.size // 2
    spare = np.empty_like(sums)
    for size in sizes:
        kept = 1 - 1 / size
        for i in range(half):
            without, within = values[i], values[i + half]  # of the first axis, which becomes the last
            spare[2 * i] = without + kept * within
            spare[2 * i + 1] = without - within / size
        values, spare = spare, values
    return values
