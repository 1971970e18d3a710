"""The compiled loop behind `Conjunctions.tally`; imported only when it is needed."""

from __future__ import annotations

import numpy as np
from numba import njit, prange


@njit(cache=True, nogil=True, parallel=True)
def tally_conjunctions(attributes: np.ndarray, codes: np.ndarray, records: np.ndarray, totals: np.ndarray) -> None:
    """How many of `records` (attributes by records) satisfy each conjunction; literals are ordered, padding last."""
    queries, width = attributes.shape
    for query in prange(queries):
        total = 0
        for record in range(records.shape[1]):
            met = True
            for place in range(width):
                attribute = attributes[query, place]
                if attribute < 0:
                    break
                if records[attribute, record] != codes[query, place]:
                    met = False
                    break
            total += met
        totals[query] = total
