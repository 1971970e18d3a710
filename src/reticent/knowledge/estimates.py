"""An estimate says how far a released marginal probably is from the truth; it is no bound, the audit is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.hypotheses.fitting.consistent import as_marginals
from reticent.hypotheses.fitting.prior import Prior
from reticent.queries.linear import Marginal

HALF_MEAN_ABSOLUTE = 0.5 * np.sqrt(2 / np.pi)
"""Half the mean absolute value of a standard normal: total variation per standard deviation of a cell."""

NARROW = 3
"""Subsets of wider measured sets are estimated up to this many attributes."""


def expected_variation(
    hypothesis: Hypothesis, measurements: Sequence[Measurement], prior: Prior | None = None
) -> dict[tuple[str, ...], float]:
    """Estimated total variation of what was measured and of small sets inside it, from released numbers alone.

    A cell p measured with noise sd under a prior of scale s keeps the noise share a / (a + 1/s^2), a = (p/sd)^2, of a
    fit to this measurement; a marginal errs at least as much as those inside it.
    """
    prior = prior or Prior()
    noise: dict[tuple[str, ...], float] = {}
    for measurement in told(hypothesis.domain, measurements):
        names = hypothesis.domain.canonical(measurement.query.attributes)
        weight = (hypothesis.marginal(names) / measurement.sd) ** 2
        kept = weight / (weight + prior.scale(len(names)) ** -2)
        estimate = float(HALF_MEAN_ABSOLUTE * measurement.sd * np.sqrt(kept).sum())
        noise[names] = min(noise.get(names, 1.0), estimate)
    return {names: min(1.0, max(v for s, v in noise.items() if set(s) <= set(names))) for names in noise}


def told(domain: Domain, measurements: Sequence[Measurement]) -> list[Measurement]:
    """Measured marginals, then small sets that only sums of their noisy cells tell about."""
    found = [m for m in as_marginals(measurements, domain) if isinstance(m.query, Marginal)]
    direct = {domain.canonical(m.query.attributes) for m in found}
    for measurement in list(found):
        names = domain.canonical(measurement.query.attributes)
        for order in range(1, min(NARROW, len(names) - 1) + 1):
            for subset in combinations(names, order):
                if subset not in direct:
                    dropped = tuple(i for i, name in enumerate(names) if name not in subset)
                    sd = measurement.sd * sqrt(domain.cells(names) / domain.cells(subset))
                    found.append(Measurement(Marginal(subset), measurement.values.sum(axis=dropped), sd))
    return found
