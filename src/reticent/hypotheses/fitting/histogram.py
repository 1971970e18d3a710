"""A distribution from one noisy histogram of a whole small universe.

Where noise drowns the table, the mean of all likely tables; else the best log-linear fit, and each cell moved from it
toward what was measured as far as the excess of their distances over the noise warrants (empirical Bayes).
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.impossible import impossible_cells
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.loglinear import Redraw
from reticent.hypotheses.fitting.posterior import posterior_draw, posterior_mean
from reticent.hypotheses.fitting.prior import likeliest_scale

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Measurement

__all__ = ["LEAST_KEPT", "drowns", "estimate", "is_drowned", "moved"]

DROWNED = 1.0
"""Noise of a cell over its average weight from which the best table is a matter of luck."""
AVERAGED_CELLS = 2**9
"""On more the walk over likely tables does not get far enough: on 1,400 a fit was two to four times as close."""
LEAST_KEPT = 0.02
"""Of the fit, in a cell that was measured empty or below: noise alone rules nothing out."""
SCALES = np.geomspace(0.03, 300.0, 41)


def estimate(
    domain: Domain,
    measured: Measurement,
    *,
    laplace: bool,
    generator: np.random.Generator,
    redraw: Redraw | None = None,
) -> tuple[np.ndarray, str]:
    """The distribution, and the name of how it was found; `redraw` makes it that of a replicate."""
    values = np.asarray(measured.values)
    impossible = impossible_cells(domain, domain.names)
    if impossible is not None:
        values = np.where(impossible, 0.0, values)
    if is_drowned(measured):
        average = posterior_mean if redraw is None else posterior_draw
        cells = average(values, measured.sd, laplace=laplace, generator=generator, impossible=impossible)
        return cells, "posterior mean"
    hypothesis = DenseHypothesis(domain)
    hypothesis.fit([measured], redraw=redraw)
    cells = moved(hypothesis.marginal(domain.names), values, measured.sd, redraw)
    return cells, "fit and cells of their own"


def is_drowned(measured: Measurement) -> bool:
    """Whether the mean of all likely tables is taken, and not the best one: a function of public sizes."""
    return drowns(measured.values.size, measured.sd)


def drowns(cells: int, sd: float) -> bool:
    """Whether noise of this standard deviation, as a fraction of the table, drowns a histogram of so many cells."""
    return cells * sd > DROWNED and cells <= AVERAGED_CELLS


def moved(fitted: np.ndarray, values: np.ndarray, sd: float, redraw: Redraw | None = None) -> np.ndarray:
    """Each cell's mean if it is N(q, s^2 q / cells) around the fit q, and its value N(cell, sd^2); s is estimated.

    The values of a replicate carry the noise twice, and each cell has a centre of its own, drawn from that prior.
    """
    unit = fitted / fitted.size
    noise = sd if redraw is None else sqrt(2) * sd
    spread = unit * likeliest_scale((values - fitted) ** 2, unit, noise, SCALES) ** 2
    centre = fitted if redraw is None else fitted + redraw.generator.normal(0.0, np.sqrt(spread))
    cells = np.maximum(centre + spread / (spread + sd * sd) * (values - centre), LEAST_KEPT * fitted)
    return cells / cells.sum()
