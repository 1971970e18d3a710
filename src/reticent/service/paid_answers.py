"""Paid answers, stored in the ledger as they were sent: the same key always returns the same bytes.

Paid answers are sent at fixed ticks, and models not before a time that their public work determines.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.kernel.ledger.events import Event, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.minimizers.solvers import MOST_WORK, step_work
from reticent.losses.losses import Logistic
from reticent.losses.risk import TensorRisk
from reticent.service.http.problems import HttpProblem
from reticent.service.requests import ParsedRequest

KIND = "answer"


@dataclass(frozen=True)
class PaidAnswer:
    """One paid answer: analyst, question, time, and the place of its bytes."""

    sequence: int
    at: int
    analyst: str
    key: str
    digest: str
    text: str
    price: float
    error: float | str | None
    blob: str

    @classmethod
    def of(cls, event: Event) -> PaidAnswer:
        return cls(sequence=event.sequence, at=event.at, **event.payload)

    def describe(self) -> dict[str, Any]:
        return {
            "sequence": self.sequence,
            "at": self.at,
            "analyst": self.analyst,
            "question": self.text,
            "price": self.price,
            "error": self.error,
        }


class PaidAnswers:
    """All paid answers of one table; each is read from the ledger on demand."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def replay(self, analyst: str, key: str, parsed: ParsedRequest) -> bytes | None:
        """The paid answer of this key, if there is one; a key belongs to one question."""
        sequence = self._ledger.named(KIND, f"{analyst}/{key}")
        if sequence is None:
            return None
        kept = self._at(sequence)
        if kept.digest != parsed.digest:
            raise HttpProblem("key-reused", "this Idempotency-Key was used for another question: use a new one")
        return self._ledger.get_blob(kept.blob)

    def keep(self, analyst: str, key: str, parsed: ParsedRequest, price: float, body: bytes) -> None:
        """Store the answer on disk before it is sent."""
        payload = {
            "analyst": analyst,
            "key": key,
            "digest": parsed.digest,
            "text": parsed.text,
            "price": price,
            "error": parsed.error,
            "blob": sha256(body),
        }
        self._ledger.append(KIND, payload, blobs=[body])

    def page(self, analyst: str | None, before: int | None, limit: int) -> tuple[list[PaidAnswer], int | None]:
        """A page of answers, newest first; the second value is the start of the next page."""
        found: list[PaidAnswer] = []
        for sequence in reversed(self._ledger.noted(KIND)):
            if before is None or sequence < before:
                kept = self._at(sequence)
                if analyst is None or kept.analyst == analyst:
                    found.append(kept)
            if len(found) > limit:
                return found[:limit], found[limit - 1].sequence
        return found, None

    def bytes_of(self, sequence: int, analyst: str | None) -> bytes:
        """An earlier answer; an analyst sees only his or her own."""
        if sequence in self._ledger.noted(KIND):
            kept = self._at(sequence)
            if analyst is None or kept.analyst == analyst:
                return self._ledger.get_blob(kept.blob)
        raise HttpProblem("not-found", "no answer has this number")

    def _at(self, sequence: int) -> PaidAnswer:
        return PaidAnswer.of(self._ledger.event(sequence))


HEADROOM = 2.0
"""A fit is given this many times what its steps took when the server started."""
TRIALS = 20


@dataclass(frozen=True)
class Ticks:
    """One tick every `period` seconds of the machine's clock; with 0, answers are sent at once."""

    period: float

    async def wait(self) -> None:
        """Wait until the next tick."""
        if self.period:
            await asyncio.sleep(self.period - time.monotonic() % self.period)

    def hold(self, begun: float, work: int) -> None:
        """In the paying thread, wait until the planned end of this much work on this machine.

        The next purchase starts when this returns, so neither it nor its timestamps show how long this one took.
        """
        if self.period and work:
            time.sleep(max(0.0, begun + work * seconds_per_cell() - time.monotonic()))


def longest() -> float:
    """The seconds planned for the largest work of one paid call on this machine."""
    return MOST_WORK * seconds_per_cell()


@cache
def seconds_per_cell() -> float:
    """The time to visit one cell of a loss, measured once on generated tables of two sizes; the larger value."""
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
