"""Compiled likelihoods of normal numbers whose covariance is tridiagonal; public numbers only."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["tridiagonal_losses"]

_PIVOTS = 4
"""Pivots that are multiplied before their logarithm is taken; each is at most about 1e40 times the noise."""


@njit(cache=True, nogil=True, error_model="numpy")
def tridiagonal_losses(
    diagonal: np.ndarray, beside: np.ndarray, away: np.ndarray, scales: np.ndarray, noise: float, losses: np.ndarray
) -> None:
    """Adds minus twice the log-likelihoods of the columns of `away`, of covariance `scale T + noise`, without constant.

    `scales` has a row for each column and a column for each of the losses. T is positive semidefinite, so no pivot is
    below the noise.
    """
    count = losses.size
    pivot, number, product = np.empty(count), np.empty(count), np.empty(count)
    for column in range(away.shape[1]):
        for k in range(count):
            pivot[k], number[k], product[k] = 1.0, 0.0, 1.0
        for i in range(diagonal.size):
            value, link = away[i, column], beside[i - 1] if i else 0.0
            for k in range(count):
                scale = scales[column, k]
                share = scale * link / pivot[k]
                pivot[k] = max(scale * diagonal[i] + noise - share * scale * link, noise)
                number[k] = value - share * number[k]
                losses[k] += number[k] * number[k] / pivot[k]
                product[k] *= pivot[k] / noise
            if i % _PIVOTS == _PIVOTS - 1:
                for k in range(count):
                    losses[k] += np.log(product[k])
                    product[k] = 1.0
        for k in range(count):
            losses[k] += np.log(product[k]) + diagonal.size * np.log(noise)
