"""Compiled loops of steps that leave single attributes alone; public numbers only.

A link has the first cell of a pair and the first code of one of its attributes, the pair's sizes, the attribute's axis,
and where the pair's conditional shares given the attribute are listed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["gain", "take_back"]


@njit(cache=True, nogil=True)
def take_back(step: np.ndarray, links: np.ndarray, conditionals: np.ndarray) -> None:
    """Takes off each code the mean step of its cells of a pair, by their conditional shares."""
    for link in range(links.shape[0]):
        pair, single, rows, columns, axis, listed = links[link]
        for row in range(rows):
            for column in range(columns):
                place = row * columns + column
                step[single + (column if axis else row)] -= conditionals[listed + place] * step[pair + place]


@njit(cache=True, nogil=True)
def gain(slopes: np.ndarray, links: np.ndarray, conditionals: np.ndarray) -> None:
    """The adjoint: takes off each cell of a pair its share of the code's slope."""
    for link in range(links.shape[0]):
        pair, single, rows, columns, axis, listed = links[link]
        for row in range(rows):
            for column in range(columns):
                place = row * columns + column
                slopes[pair + place] -= conditionals[listed + place] * slopes[single + (column if axis else row)]
