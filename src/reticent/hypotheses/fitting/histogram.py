"""A distribution from one noisy histogram of a whole small universe.

Where noise drowns the table, the mean of all likely tables; else the best log-linear fit to the residuals of the sets
that matter. Where that is not all sets, each cell is moved toward what was measured as far as the excess of their
distances over the noise warrants (empirical Bayes), while the marginals that matter stay as fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.impossible import impossible_cells
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.consistent import maximal_sets, subsets_of, told_residuals
from reticent.hypotheses.fitting.loglinear import Redraw
from reticent.hypotheses.fitting.posterior import posterior_draw, posterior_mean
from reticent.hypotheses.fitting.prior import likeliest_scale
from reticent.hypotheses.fitting.proportional import move_onto

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Measurement

__all__ = ["LEAST_KEPT", "drowns", "estimate", "is_drowned", "moved"]

Set = tuple[str, ...]

DROWNED = 1.0
"""Noise of a cell over its average weight from which the best table is a matter of luck."""
AVERAGED_CELLS = 2**9
"""On more the walk over likely tables does not get far enough: on 1,400 a fit was two to four times as close."""
LEAST_KEPT = 0.02
"""Of the fit, in a cell that was measured empty or below: noise alone rules nothing out."""
SATURATED = 2**12
"""Parameters of a model of all sets that is still fitted within a second; 7 binary attributes have half of them."""
TINY = np.finfo(np.float64).tiny
OWN_CELLS = "fit and cells of their own"
SCALES = np.geomspace(0.03, 300.0, 41)


def estimate(
    domain: Domain,
    measured: Measurement,
    sets: Sequence[Set],
    *,
    laplace: bool,
    generator: np.random.Generator,
    redraw: Redraw | None = None,
) -> tuple[np.ndarray, str]:
    """The distribution, and the name of how it was found; `redraw` makes it that of a replicate.

    `sets` are those whose marginals should be good: the fit is to what the cells tell of their residuals, each as far
    as its noise warrants. In a small universe all sets are.
    """
    values = np.asarray(measured.values)
    impossible = impossible_cells(domain, domain.names)
    if impossible is not None:
        values = np.where(impossible, 0.0, values)
    if is_drowned(measured):
        average = posterior_mean if redraw is None else posterior_draw
        cells = average(values, measured.sd, laplace=laplace, generator=generator, impossible=impossible)
        return cells, "posterior mean"
    hypothesis = DenseHypothesis(domain)
    if impossible is not None:
        # Rules say something of cells, which residuals do not see.
        hypothesis.fit([measured], redraw=redraw)
        return moved(hypothesis.marginal(domain.names), values, measured.sd, redraw), OWN_CELLS
    every = prod(size + 1 for size in domain.shape) <= SATURATED
    among = [s for _, s in subsets_of(domain.names) if s] if every else sets
    if redraw is not None:
        redraw = replace(redraw, choices=told_residuals(redraw.choices, domain, among))
    hypothesis.fit(told_residuals([measured], domain, among), redraw=redraw)
    fitted = hypothesis.marginal(domain.names)
    if every:
        return np.maximum(fitted, TINY), "fit of all sets"  # no possible cell is impossible afterwards
    own = DenseHypothesis(domain, moved(fitted, values, measured.sd, redraw))
    asked = maximal_sets(among)
    move_onto(own, dict(zip(asked, hypothesis.marginals(asked), strict=True)))
    return own.probabilities(), OWN_CELLS


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
