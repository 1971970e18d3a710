"""Marginals that measured residuals make, with noise that bounds their sums (docs/proofs/residuals.md, claim 8)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.consistent import Consistent, consistent_of, subsets_of
from reticent.kernel.mechanisms.base import Gaussian
from reticent.knowledge.measured import MeasuredMarginal
from reticent.knowledge.shares import Shares

__all__ = ["combined_marginals"]

MARGIN = 1 + 1e-9
"""Covers the rounding of these few floating-point steps."""


def combined_marginals(
    residuals: Sequence[Measurement], domain: Domain, records: float, records_error: float, shares: Shares
) -> list[MeasuredMarginal]:
    """Of every set whose residuals were all measured, single attributes first.

    A sum of cells is a sum of orthogonal parts; none has more noise than the same number of independent cells with the
    noise of the least known part. The number of records is divided by, and its error counted apart.
    """
    known = consistent_of(residuals, domain)
    found = []
    for names in sorted(known.precisions, key=lambda names: (len(names), [domain.index(name) for name in names])):
        if names and known.knows(names):
            noise = Gaussian(Fraction(_isotropic(known, names) * records * MARGIN))
            cells = known.marginal(names)[0]
            found.append(
                MeasuredMarginal(
                    names, cells, noise, records, records_error, None, declared=False, shares=shares, combined=True
                )
            )
    return found


def _isotropic(known: Consistent, names: tuple[str, ...]) -> float:
    """The noise of cells, were they independent, that no sum of them exceeds."""
    cells = np.prod([known.residuals[name,].size for name in names])
    parts = [(known.residuals[inner].size, known.precisions[inner]) for _, inner in subsets_of(names) if inner]
    return sqrt(max(size / cells / precision for size, precision in parts))
