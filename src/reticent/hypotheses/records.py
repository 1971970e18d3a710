"""The mixture that DualQuery publishes: its records, equally weighted until somebody moves them (spec 7.1)."""

from __future__ import annotations

from reticent.hypotheses.support import SupportHypothesis

__all__ = ["RecordsHypothesis"]


class RecordsHypothesis(SupportHypothesis):
    """One record per round, in order, repetitions included; `codes` is the published table itself."""

    kind = "records"
