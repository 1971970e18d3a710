"""Compiled step of composing privacy losses; public numbers only."""

from __future__ import annotations

import numpy as np
from numba import njit

NEGLIGIBLE = 1e-20


@njit(cache=True, nogil=True)
def worst_case(after: np.ndarray, cells: np.ndarray, parts: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """At every loss so far the largest mean of `after` over the choices of the adversary.

    Choice c moves the loss to the chord between grid steps `cells[c, k]` and the next, at `parts[c, k]` of it, with
    probability `chances[c, k]`. Beyond the upper end a loss counts as certain harm, below the lower end as that end,
    and outcomes below `NEGLIGIBLE` as certain harm: the safe sides.
    """
    size = after.size
    best, mean = np.zeros(size), np.empty(size)
    for choice in range(cells.shape[0]):
        mean[:] = 0.0
        for k in range(cells.shape[1]):
            chance, part, shift = chances[choice, k], parts[choice, k], cells[choice, k]
            if chance < NEGLIGIBLE:
                mean += chance
                continue
            first = min(max(0, -shift), size)
            last = max(first, min(size, size - 1 - shift))
            mean[:first] += chance * after[0]
            left, right = chance * (1.0 - part), chance * part
            for place in range(first, last):
                mean[place] += left * after[place + shift] + right * after[place + shift + 1]
            mean[last:] += chance
        for place in range(size):
            best[place] = max(best[place], mean[place])
    return best
