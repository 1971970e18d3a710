"""Compiled inner loop of marginals over a support; public numbers only."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_up(places: np.ndarray, weights: np.ndarray, starts: np.ndarray, sums: np.ndarray) -> None:
    """Adds each record's weight to its cell of each set, in the order of the records: the same bits as `bincount`."""
    for row in range(places.shape[0]):
        start = starts[row]
        for record in range(places.shape[1]):
            sums[start + places[row, record]] += weights[record]
