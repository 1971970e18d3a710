"""From logits to probabilities in place, at the speed of a vector unit once the tensor is large."""

from __future__ import annotations

import math

import numpy as np

from reticent.hypotheses.dense.marginal_tree import COMPILED_CELLS

__all__ = ["softmax_in_place"]


def softmax_in_place(logits: np.ndarray) -> float:
    """exp(logits) / sum, overwriting the logits; returns the logarithm of the sum."""
    peak = float(logits.max())
    if logits.size >= COMPILED_CELLS:
        from reticent.hypotheses.dense.exponential_kernels import exponentiate

        total = exponentiate(logits.reshape(-1), peak)
    else:
        logits -= peak
        np.exp(logits, out=logits)
        total = float(logits.sum())
    logits /= total
    return peak + math.log(total)
