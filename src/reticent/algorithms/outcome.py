"""An outcome is what an offline algorithm leaves behind: a hypothesis, what was measured, and what is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reticent.algorithms.certificates import Certificate
from reticent.hypotheses.base import Hypothesis, Measurement


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


@dataclass(frozen=True)
class Progress:
    """One line of a progress bar; public quantities only."""

    step: int
    steps: int
    message: str
    spent: float
    """Share of this run's allowance that is spent."""


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """The default listener."""
