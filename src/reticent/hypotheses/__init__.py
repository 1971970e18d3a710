"""Hypotheses: public distributions over the universe, and the ways to move, query and sample them."""

from __future__ import annotations

from reticent.errors import ReticentError
from reticent.hypotheses.base import FitReport, Hypothesis, Measurement, saved_kind
from reticent.hypotheses.choose import HypothesisChoice, choose
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.hypotheses.support import RecordsHypothesis, SupportHypothesis

__all__ = [
    "DenseHypothesis",
    "FitReport",
    "Hypothesis",
    "HypothesisChoice",
    "Measurement",
    "RecordsHypothesis",
    "Snapshot",
    "SupportHypothesis",
    "choose",
    "load",
]


def load(data: bytes) -> Hypothesis:
    """The saved hypothesis, whatever its kind."""
    kinds: dict[str, type[Hypothesis]] = {
        known.kind: known for known in (DenseHypothesis, SupportHypothesis, RecordsHypothesis)
    }
    kind = saved_kind(data)
    if kind == "factored":
        from reticent.hypotheses.junction_tree.factored import FactoredHypothesis

        return FactoredHypothesis.from_bytes(data)
    if kind not in kinds:
        raise ReticentError(f"a saved hypothesis of kind {kind!r} is not known to this version")
    return kinds[kind].from_bytes(data)
