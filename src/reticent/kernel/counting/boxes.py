"""The largest absolute sum over all boxes of consecutive codes, from sums up to each code, never a list of boxes.

The work is the same whatever the numbers are (docs/proofs/audit.md, Claim 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numba import njit


@njit(cache=True)
def _largest(prefix: np.ndarray) -> int:
    """`prefix` is (a+1, b+1, c+1): sums up to each index along every axis.

    Between two indices of the first and two of the second axis, sums up to an index of the third differ by the sums of
    boxes: the largest absolute one is the largest of these sums less the smallest.
    """
    best = 0
    rows, columns, length = prefix.shape
    for low_a in range(rows - 1):
        for high_a in range(low_a + 1, rows):
            sides = prefix[high_a] - prefix[low_a]
            for low_b in range(columns - 1):
                low = sides[low_b]
                for high_b in range(low_b + 1, columns):
                    high = sides[high_b]
                    highest = lowest = 0
                    for i in range(length):
                        value = high[i] - low[i]
                        highest = max(highest, value)
                        lowest = min(lowest, value)
                    best = max(best, highest - lowest)
    return best


def box_steps(shape: Sequence[int]) -> float:
    """The number of steps of `largest_box`: a public cost, known before any row is read."""
    longest = max(shape, default=1)
    return longest * prod(size * (size + 1) / 2 for size in shape) / (longest * (longest + 1) / 2)


def largest_box(difference: np.ndarray) -> int:
    """The largest box sum, exact for integers; for sets of more than three attributes every leading axis is divided
    into its ranges.
    """
    shape = difference.shape
    if not shape:
        return abs(int(difference))
    ordered = np.transpose(difference, sorted(range(len(shape)), key=lambda axis: shape[axis]))
    if ordered.ndim > 3:
        return max(
            largest_box(ordered[low:high].sum(axis=0))
            for low in range(ordered.shape[0])
            for high in range(low + 1, ordered.shape[0] + 1)
        )
    padded = ordered.reshape((1,) * (3 - ordered.ndim) + ordered.shape)
    prefix = np.zeros([size + 1 for size in padded.shape], dtype=np.int64)
    prefix[1:, 1:, 1:] = padded.cumsum(axis=0).cumsum(axis=1).cumsum(axis=2)
    return int(_largest(prefix))
