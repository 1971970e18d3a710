"""Limits protect the server: requests per second by token bucket, bytes by counting, never an answer by the clock."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from reticent.service.http.problems import HttpProblem

REMEMBERED = 10_000
"""Buckets kept; the least recently used goes first, and a forgotten one starts full."""


class Buckets:
    """One token bucket per name: `rate` requests a second, `burst` at once; rate 0 means no limit."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = max(burst, 1.0)
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Problem `rate` when the bucket is empty."""
        seconds = self.wait(name)
        if seconds > 0:
            wait = max(1, math.ceil(seconds))
            raise HttpProblem("rate", f"more than {self.rate:g} requests a second; wait {wait} s", retry_after=wait)

    def wait(self, name: str) -> float:
        """0 where one was taken; else seconds until the bucket holds one."""
        if self.rate <= 0:
            return 0.0
        now = self._clock()
        level, since = self._levels.pop(name, (self.burst, now))
        level = min(self.burst, level + (now - since) * self.rate)
        allowed = level >= 1.0
        self._levels[name] = (level - 1.0 if allowed else level, now)
        if len(self._levels) > REMEMBERED:
            self._levels.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self.rate

    def give_back(self, name: str) -> None:
        """One that was taken and not used."""
        if name in self._levels:
            level, since = self._levels[name]
            self._levels[name] = (min(self.burst, level + 1.0), since)


async def read_body(receive: Any, declared: bytes | None, limit: int, seconds: float) -> bytes:
    """The whole body, refused as soon as it is known to be too large; a client that dawdles is let go."""
    if declared is not None and (not declared.isdigit() or int(declared[:20]) > limit):
        raise HttpProblem("too-large", f"a body may have {limit} bytes")
    try:
        async with asyncio.timeout(seconds):
            return await _collect(receive, limit)
    except TimeoutError:
        raise HttpProblem("slow", f"the body did not arrive within {seconds:g} s") from None


async def _collect(receive: Any, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise HttpProblem("too-large", f"a body may have {limit} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
