"""Paid answers leave at fixed ticks, so that how long one took to compute shows only as a number of ticks."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from reticent.errors import QueryError


@dataclass(frozen=True)
class Ticks:
    """One tick every `period` seconds of the machine's own clock; 0 lets answers leave at once."""

    period: float

    def __post_init__(self) -> None:
        if not 0 <= self.period <= 60:
            raise QueryError(f"tick {self.period!r} must lie between 0 and 60 seconds")

    async def wait(self) -> None:
        """Until the next tick."""
        if self.period:
            await asyncio.sleep(self.period - time.monotonic() % self.period)
