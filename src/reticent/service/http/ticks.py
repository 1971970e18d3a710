"""Paid answers leave at fixed ticks, and fits not before a time that their public work determines."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from reticent.domain import Domain
from reticent.kernel.minimizers.solvers import MOST_WORK, step_work
from reticent.losses.losses import Logistic
from reticent.losses.risk import TensorRisk

HEADROOM = 2.0
"""A fit is given this many times what its steps took when the server started."""
TRIALS = 20


@dataclass(frozen=True)
class Ticks:
    """One tick every `period` seconds of the machine's own clock; 0 lets answers leave at once."""

    period: float

    async def wait(self) -> None:
        """Until the next tick."""
        if self.period:
            await asyncio.sleep(self.period - time.monotonic() % self.period)

    def hold(self, begun: float, work: int) -> None:
        """In the paying thread: until the time for which this much work, begun then, is planned on this machine.

        The next order starts when this returns: neither it nor its stamps in the ledger show how long this one took.
        """
        if self.period and work:
            time.sleep(max(0.0, begun + work * seconds_per_cell() - time.monotonic()))


def longest() -> float:
    """Seconds that the most work of one paid call is given on this machine."""
    return MOST_WORK * seconds_per_cell()


@cache
def seconds_per_cell() -> float:
    """What visiting one cell of a loss takes here, measured once on made-up tables of two sizes: the slower one's."""
    paces = []
    for size in (8, 64):
        domain = Domain({"a": size, "b": size, "c": 8, "y": 2})
        problem = Logistic(features=["a", "b", "c"], label="y", radius=8).on(domain)
        risk = TensorRisk(problem, np.full(problem.design.shape, 1 / domain.cells(problem.attributes)))
        seconds = []
        for place in range(TRIALS):
            began = time.perf_counter()
            risk.gradient(np.full(problem.dimension, place / TRIALS))
            seconds.append(time.perf_counter() - began)
        paces.append(statistics.median(seconds) / step_work(problem))
    return HEADROOM * max(paces)
