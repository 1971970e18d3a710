"""Admission by token, by rate, and by failures from one address: one decision for HTTP and PostgreSQL.

Limits protect the server: requests per second by token bucket, bytes by counting. No limit stops an answer by the
clock.

Long work runs outside the event loop; each user has one place in the queue, so that nobody blocks the others.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reticent.service.auth import Principal, Tokens, Verifier
from reticent.service.http.problems import HttpProblem
from reticent.service.settings import Settings


class Admission:
    """The tokens of a server and the limits of their holders, shared by HTTP and PostgreSQL.

    `share` processes accept requests in parallel, so each allows its part.
    """

    def __init__(self, settings: Settings, tokens: Tokens, share: int = 1) -> None:
        self._tokens = tokens
        self._buckets = Buckets(settings.rate / share, settings.burst / share)
        self._failures = Buckets(settings.wrong_tokens, 4 * settings.wrong_tokens)

    def by_token(self, token: str, client: str) -> Principal:
        """The holder of a token; a refused token counts against its address."""
        try:
            if not token:
                raise HttpProblem("unauthorized", "send the header 'Authorization: Bearer <token>'")
            return self._tokens.find(token)
        except HttpProblem:
            self.failed(client)
            raise

    def known(self, token: str) -> Principal | None:
        """The holder of a token, or None; it counts nothing, so that `by_token` can refuse the token."""
        try:
            return self._tokens.find(token)
        except HttpProblem:
            return None

    def verifier(self, name: str) -> tuple[Principal | None, Verifier]:
        """The verifier of the token of this name, for protocols that do not send the token."""
        return self._tokens.verifier(name)

    def failed(self, client: str) -> None:
        """Raise the problem `rate` if this address has sent too many wrong tokens."""
        self._failures.take(client)

    def still(self, principal: Principal) -> Principal:
        """Check on an open connection that the token is still valid."""
        return self._tokens.still(principal)

    def count(self, principal: Principal) -> None:
        """Raise the problem `rate` if this user asks too often."""
        self._buckets.take(principal.id)

    def wait(self, principal: Principal) -> float:
        """The seconds to wait before the next statement; 0 admits and counts it."""
        return self._buckets.wait(principal.id)

    def give_back(self, principal: Principal) -> None:
        """Undo the last count, if the same request is counted again elsewhere in this process."""
        self._buckets.give_back(principal.id)


REMEMBERED = 10_000
"""Buckets kept; the least recently used goes first, and a forgotten one starts full."""


class Buckets:
    """One token bucket per name: `rate` requests per second, `burst` at once; rate 0 means no limit."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = max(burst, 1.0)
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Take one; raise the problem `rate` if the bucket is empty."""
        seconds = self.wait(name)
        if seconds > 0:
            wait = max(1, math.ceil(seconds))
            raise HttpProblem("rate", f"more than {self.rate:g} requests a second; wait {wait} s", retry_after=wait)

    def wait(self, name: str) -> float:
        """0 if one was taken; otherwise the seconds until the bucket holds one."""
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
        """Return one that was taken and not used."""
        if name in self._levels:
            level, since = self._levels[name]
            self._levels[name] = (min(self.burst, level + 1.0), since)


async def read_body(receive: Any, declared: bytes | None, limit: int, seconds: float) -> bytes:
    """The whole body, refused as soon as it is known to be too large or too slow."""
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


T = TypeVar("T")


@dataclass
class _Lane:
    """The jobs of one user: one at a time, the others wait."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class Workers:
    """A few threads. Each user has at most one job in their queue and `waiting` behind it; between users, first come,
    first served.
    """

    def __init__(self, threads: int, name: str, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting = waiting
        self._lanes: dict[str, _Lane] = {}

    async def run(self, who: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result of `function`; raises the problem `rate` if this user has too many waiting jobs."""
        lane = self._lanes.setdefault(who, _Lane())
        if lane.waiting >= self._waiting:
            raise HttpProblem("rate", f"{lane.waiting} of your questions are waiting: try again later", retry_after=2)
        lane.waiting += 1
        # A task of its own: a client that hangs up leaves no charge without its answer, and no free place in the line.
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(who, lane, function, *arguments)))

    async def _in_turn(self, who: str, lane: _Lane, function: Callable[..., T], *arguments: Any) -> T:
        try:
            async with lane.turn:
                return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        finally:
            lane.waiting -= 1
            if not lane.waiting:
                self._lanes.pop(who, None)

    def close(self) -> None:
        """Finish running jobs, then close."""
        self._threads.shutdown(wait=True)
