"""Compiled steps of the elliptical slice sampler in `posterior.py`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["walk_draws"]

_NARROWEST = 1e-12


@njit(cache=True, nogil=True, error_model="numpy")
def _misfit(fields, fresh, turn, strengths, measured, unit, laplace, table, possible):
    """The negative log-likelihood of the distribution at `turn` = (cosine, sine), which is left in `table`."""
    cosine, sine = turn
    peak = -math.inf
    for cell in range(table.size):
        logit = 0.0
        for group in range(strengths.size):
            logit += strengths[group] * (cosine * fields[group, cell] + sine * fresh[group, cell])
        table[cell] = logit
        if possible[cell]:
            peak = max(peak, logit)
    total = 0.0
    for cell in range(table.size):
        table[cell] = math.exp(table[cell] - peak) if possible[cell] else 0.0
        total += table[cell]
    loss = 0.0
    for cell in range(table.size):
        table[cell] /= total
        residual = (measured[cell] - table[cell]) / unit
        loss += abs(residual) if laplace else 0.5 * residual * residual
    return loss


@njit(cache=True, nogil=True, error_model="numpy")
def walk_draws(
    fields, spreads, fresh, fresh_spreads, scales, looseness, measured, unit, laplace, generator, sums, possible
):
    """One step for every fresh draw of the prior, in place; the distributions visited are added to `sums`."""
    table = np.empty(measured.size)
    strengths = scales * np.exp(looseness * spreads)
    misfit = _misfit(fields, fresh[0], (1.0, 0.0), strengths, measured, unit, laplace, table, possible)
    for step in range(fresh.shape[0]):
        allowed = misfit + generator.standard_exponential()
        angle = generator.random() * 2 * math.pi
        low, high = angle - 2 * math.pi, angle
        while True:
            cosine, sine = math.cos(angle), math.sin(angle)
            strengths = scales * np.exp(looseness * (cosine * spreads + sine * fresh_spreads[step]))
            misfit = _misfit(fields, fresh[step], (cosine, sine), strengths, measured, unit, laplace, table, possible)
            # The bracket always holds angle 0, where the walk stands; rounding alone could keep it out.
            if misfit <= allowed or high - low < _NARROWEST:
                break
            if angle < 0:
                low = angle
            else:
                high = angle
            angle = low + generator.random() * (high - low)
        fields[:] = cosine * fields + sine * fresh[step]
        spreads[:] = cosine * spreads + sine * fresh_spreads[step]
        sums += table
