"""Compiled likelihoods of prior scales; public numbers only."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["add_scale_losses"]

_FACTORS = 8
"""Variances that are multiplied before their logarithm is taken: of fractions, with noise above 1e-19."""


@njit(cache=True, nogil=True, error_model="numpy")
def add_scale_losses(
    squares: np.ndarray, spread: np.ndarray, noise: float, scales: np.ndarray, losses: np.ndarray
) -> None:
    """Adds minus twice the log-likelihood of every scale s, of numbers with these squares and variances
    `spread s^2 + noise`, without its constant."""
    count = scales.size
    known, product = scales * scales, np.ones(count)
    for i in range(squares.size):
        square, own = squares[i], spread[i]
        for k in range(count):
            variance = own * known[k] + noise
            losses[k] += square / variance
            product[k] *= variance
        if i % _FACTORS == _FACTORS - 1:
            for k in range(count):
                losses[k] += np.log(product[k])
                product[k] = 1.0
    for k in range(count):
        losses[k] += np.log(product[k])
