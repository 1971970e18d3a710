"""An estimate says how far a released marginal probably is from the truth; it is no bound, the audit is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.prior import Prior
from reticent.queries.linear import Marginal

HALF_MEAN_ABSOLUTE = 0.5 * np.sqrt(2 / np.pi)
"""Half the mean absolute value of a standard normal: total variation per standard deviation of a cell."""


def expected_variation(
    hypothesis: Hypothesis, measurements: Sequence[Measurement], prior: Prior | None = None
) -> dict[tuple[str, ...], float]:
    """Estimated total variation of each measured marginal, from released numbers alone.

    A cell p measured with noise sd under a prior of scale s keeps the noise share a / (a + 1/s^2), a = (p/sd)^2, of a
    fit to this measurement; a marginal errs at least as much as those inside it.
    """
    prior = prior or Prior()
    noise: dict[tuple[str, ...], float] = {}
    for measurement in measurements:
        if not isinstance(measurement.query, Marginal):
            continue
        names = measurement.query.canonical(hypothesis.domain)
        cells = hypothesis.marginal(names)
        weight = (cells / measurement.sd) ** 2
        kept = weight / (weight + prior.scale(len(names)) ** -2)
        estimate = float(HALF_MEAN_ABSOLUTE * measurement.sd * np.sqrt(kept).sum())
        noise[names] = min(noise.get(names, 1.0), estimate)
    return {names: min(1.0, max(v for s, v in noise.items() if set(s) <= set(names))) for names in noise}
