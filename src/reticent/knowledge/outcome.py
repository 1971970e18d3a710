"""An outcome is what an offline algorithm leaves behind: a hypothesis, what was measured, and what is certified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reticent.hypotheses.base import Hypothesis, Measurement
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.guarantees import Guarantee
from reticent.knowledge.loss_certificates import LossCertificate
from reticent.knowledge.typical import TypicalError
from reticent.progress.steps import Progress, Report, silent

__all__ = ["Outcome", "Progress", "Report", "silent"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Public: every field is a function of released numbers."""

    hypothesis: Hypothesis
    measurements: tuple[Measurement, ...]
    certificates: tuple[Certificate, ...]
    records: float
    """The public number of records, or its released noisy total under add-remove."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the algorithm chose and why: shown in reports."""
    guarantees: tuple[Guarantee, ...] = ()
    """What its theorem says of the hypothesis."""
    losses: tuple[LossCertificate, ...] = ()
    """What is certified of models of declared losses."""
    typical: tuple[TypicalError, ...] = ()
