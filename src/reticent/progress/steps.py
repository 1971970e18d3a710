"""What a listener is told while a release, a session's opening or a discovery runs: public quantities only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
    """The listener that shows nothing."""
