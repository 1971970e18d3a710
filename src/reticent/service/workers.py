"""Work that takes its time leaves the event loop; each asker has one place in the line, so nobody stops the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reticent.service.http.problems import HttpProblem

T = TypeVar("T")


@dataclass
class _Lane:
    """What one asker has under way: one thing at a time, the rest waits."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class Workers:
    """A few threads. Each asker has at most one job in their queue and `waiting` behind it: first come, first served
    between askers, whoever sends the most.
    """

    def __init__(self, threads: int, name: str, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting = waiting
        self._lanes: dict[str, _Lane] = {}

    async def run(self, who: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result of `function`; Problem `rate` where this asker has too much waiting already."""
        lane = self._lanes.setdefault(who, _Lane())
        if lane.waiting >= self._waiting:
            raise HttpProblem("rate", f"{lane.waiting} of your questions are waiting: ask again", retry_after=2)
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
        """What has begun is finished first."""
        self._threads.shutdown(wait=True)
