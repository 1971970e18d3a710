"""Readers share one public socket and accept in turn: the reader with the most connections waits for the others.

Without this, the busiest reader wakes first and accepts most: of fifty connections one had 37 and the other 14.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import uvicorn

from reticent.service.metrics import Metrics

YIELD_SECONDS = 0.001
"""For each connection that a reader is ahead of the least busy one."""
LONGEST = 0.02
"""After this time it accepts in any case, because the others may be busy or have ended."""
TELL_SECONDS = 0.1
HANDSHAKE_SECONDS = 10.0
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
REST_SECONDS = 1.0
"""Where the system gives no more connections: the one that waits would wake us over and over."""


class SharedListenerServer(uvicorn.Server):
    """uvicorn on a listener from which other processes accept too."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, metrics: Metrics) -> None:
        super().__init__(config)
        self._listener = listener
        self._metrics = metrics
        self._opening: set[asyncio.Task] = set()
        self._telling: asyncio.TimerHandle | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._listener.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._watch()
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._loop.remove_reader(self._listener)
        self._listener.close()
        await super().shutdown(sockets=[])

    @property
    def _held(self) -> int:
        return len(self.server_state.connections) + len(self._opening)

    def _tell(self) -> None:
        """Report the number of connections, which also changes when connections end."""
        self._metrics.holds(self._held)
        self._telling = self._loop.call_later(TELL_SECONDS, self._tell)

    def _watch(self) -> None:
        if not self.should_exit:
            self._loop.add_reader(self._listener, self._ready)

    def _ready(self) -> None:
        ahead = self._held - self._metrics.fewest_held()
        if ahead <= 0:
            self._accept()
            return
        self._loop.remove_reader(self._listener)
        self._loop.call_later(min(LONGEST, ahead * YIELD_SECONDS), self._after_all)

    def _after_all(self) -> None:
        if not self.should_exit:
            self._watch()
            self._accept()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError as problem:
            if problem.errno in EXHAUSTED:
                self._loop.remove_reader(self._listener)
                self._loop.call_later(REST_SECONDS, self._watch)
            return  # else another reader was faster, or the client has gone
        client.setblocking(False)
        task = self._loop.create_task(self._open(client))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        self._metrics.holds(self._held)

    async def _open(self, client: socket.socket) -> None:
        try:
            patience = None if self.config.ssl is None else HANDSHAKE_SECONDS
            await self._loop.connect_accepted_socket(
                self._protocol, client, ssl=self.config.ssl, ssl_handshake_timeout=patience
            )
        except OSError:
            client.close()  # a failed handshake affects only this client

    def _protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        return kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
