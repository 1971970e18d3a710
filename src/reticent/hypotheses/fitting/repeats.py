"""How far measurements contradict each other that a fit joins into one number before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.fitting.consistent import consistent_of, has_residuals
from reticent.queries.linear import Marginal, Residual

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Measurement

__all__ = ["joined_distance"]


def joined_distance(given: Sequence[Measurement], read: Sequence[Measurement], domain: Domain) -> float:
    """The largest distance of a measured number from what the measurements of it are joined to, in standard deviations.

    `read` are the given measurements as the fit reads them: where it reads residuals, it joins all marginals that share
    attributes.
    """
    distance = _repeated_distance(given, domain)
    marginals = [measurement for measurement in given if isinstance(measurement.query, Marginal)]
    if len(marginals) > 1 and has_residuals(read):
        distance = max(distance, _squares_distance(marginals, given, domain))
    return distance


def _repeated_distance(measurements: Sequence[Measurement], domain: Domain) -> float:
    """The largest distance of a measured number from the mean of all measurements of it, in standard deviations.

    Means are weighted by precision, so that this distance varies less than the noise itself. What is the same on every
    table, such as the total of all shares, is known without a measurement.
    """
    groups: dict[tuple[str, ...], list[tuple[np.ndarray, float]]] = {}
    largest = 0.0
    for measurement in measurements:
        query, values = measurement.query, measurement.values
        if isinstance(query, Marginal | Residual):
            attributes = domain.canonical(query.names)
            key = (type(query).__name__, *attributes)
        else:
            attributes, key = query.compile(domain).attributes, (query.text,)
        if attributes:
            groups.setdefault(key, []).append((values, measurement.sd))
        elif not isinstance(query, Residual):  # that of no attribute is the number of records
            constant = 1.0 if isinstance(query, Marginal) else float(query.compile(domain).tensor())
            largest = max(largest, abs(float(values) - constant) / measurement.sd)
    for repeats in groups.values():
        if len(repeats) > 1:
            weights = np.array([sd**-2.0 for _, sd in repeats])
            mean = np.tensordot(weights / weights.sum(), np.stack([values for values, _ in repeats]), axes=1)
            largest = max(largest, *(float(np.abs(values - mean).max()) / sd for values, sd in repeats))
    return largest


def _squares_distance(marginals: Sequence[Measurement], given: Sequence[Measurement], domain: Domain) -> float:
    """The largest distance of marginals from least squares on all that is given."""
    known = consistent_of(given, domain)
    largest = 0.0
    for measurement in marginals:
        names = domain.canonical(measurement.query.attributes)
        if names:
            away = measurement.values - known.marginal(names)[0]
            largest = max(largest, float(np.abs(away).max()) / measurement.sd)
    return largest
