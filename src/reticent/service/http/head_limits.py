"""Limits on the head of a request, in bytes and time; a connection that exceeds them is closed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reticent.service.http.problems import HttpProblem
from reticent.service.settings import HEAD_LIMIT

QuickAnswering = Callable[[bytes, list[tuple[bytes, bytes]]], bytes | None]
"""The response to the bytes of one whole request, with the server's own headers; None leaves it to the application."""


class TimedHeadProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a time limit for headers: without it, a few slow clients could block the server."""

    head_seconds = 10.0
    quick: QuickAnswering | None = None
    _between = True
    """Whether the next byte begins a request."""
    _timer: asyncio.TimerHandle | None = None
    _began = False
    _arrived = 0
    _answered_at = -math.inf
    """When the last quick answer left, by the loop's clock."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.head_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.quick is not None and self._between and self._answered(self.quick, data):
            return
        super().data_received(data)
        if not self._waiting:
            if self._timer is not None:
                self._in_time()
            return
        self._arrived += len(data)
        if self._arrived > HEAD_LIMIT:
            self._refuse(HttpProblem("too-large", f"a request's head may have {HEAD_LIMIT} bytes"))
        elif self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._late)

    def _answered(self, quick: QuickAnswering, data: bytes) -> bool:
        """Whether this was one whole request that has been answered."""
        if (self.cycle is not None and not self.cycle.response_complete) or self.pipeline:
            return False
        if self.flow.write_paused or self.transport.is_closing():
            return False
        response = quick(data, self.server_state.default_headers)
        if response is None:
            return False
        if self._timer is not None:
            self._in_time()
        self.transport.write(response)
        self.server_state.total_requests += 1
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_handler()
        return True

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; a quick answer postpones this without a separate timer."""
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def on_message_begin(self) -> None:
        self._began = True
        self._between = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._between = True
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        self._began = False
        super().on_headers_complete()

    @property
    def _waiting(self) -> bool:
        """Whether no request is being answered, or the head of the next one has begun."""
        return self._began or self.cycle is None or self.cycle.response_complete

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._arrived = None, 0

    def _late(self) -> None:
        if self._arrived:
            self._refuse(HttpProblem("slow", f"the head of the request did not arrive within {self.head_seconds:g} s"))
        else:
            self.transport.close()

    def _refuse(self, problem: HttpProblem) -> None:
        """Refuse a request that the middleware has not seen."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self._began:
            # The body of a request that was refused by its head: a second response would be taken for the next one's.
            self.transport.close()
            return
        body = problem.body()
        lines = [f"HTTP/1.1 {problem.status} {problem.phrase}", f"content-length: {len(body)}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in problem.headers().items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


def timed_head_protocol(head_seconds: float, quick: QuickAnswering | None = None) -> type[TimedHeadProtocol]:
    """The protocol with these limits; `quick` sees whole requests first."""
    # A function of the class would be given the connection, too.
    known = None if quick is None else staticmethod(quick)
    return type("TimedHeadProtocol", (TimedHeadProtocol,), {"head_seconds": head_seconds, "quick": known})
