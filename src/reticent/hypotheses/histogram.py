"""A distribution from one noisy histogram of a whole small universe.

Where noise drowns the table, the mean of all likely tables; else the best log-linear fit, and each cell moved from it
toward what was measured as far as the excess of their distances over the noise warrants (empirical Bayes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.dense import DenseHypothesis
from reticent.hypotheses.posterior import posterior_mean
from reticent.hypotheses.prior import likeliest_scale

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Measurement

__all__ = ["LEAST_KEPT", "estimate", "moved"]

DROWNED = 1.0
"""Noise of a cell over its average weight from which the best table is a matter of luck."""
AVERAGED_CELLS = 2**9
"""On more the walk over likely tables does not get far enough: on 1,400 a fit was two to four times as close."""
LEAST_KEPT = 0.02
"""Of the fit, in a cell that was measured empty or below: noise alone rules nothing out."""
SCALES = np.geomspace(0.03, 300.0, 41)


def estimate(
    domain: Domain, measured: Measurement, *, laplace: bool, generator: np.random.Generator
) -> tuple[np.ndarray, str]:
    """The distribution, and the name of how it was found."""
    values = np.asarray(measured.values)
    if values.size * measured.sd > DROWNED and values.size <= AVERAGED_CELLS:
        return posterior_mean(values, measured.sd, laplace=laplace, generator=generator), "posterior mean"
    hypothesis = DenseHypothesis(domain)
    hypothesis.fit([measured])
    return moved(hypothesis.marginal(domain.names), values, measured.sd), "fit and cells of their own"


def moved(fitted: np.ndarray, values: np.ndarray, sd: float) -> np.ndarray:
    """Each cell's mean if it is N(q, s^2 q / cells) around the fit q, and its value N(cell, sd^2); s is estimated."""
    unit = fitted / fitted.size
    spread = unit * likeliest_scale((values - fitted) ** 2, unit, sd, SCALES) ** 2
    cells = np.maximum(fitted + spread / (spread + sd * sd) * (values - fitted), LEAST_KEPT * fitted)
    return cells / cells.sum()
