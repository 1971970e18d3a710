"""The PostgreSQL port of a server: its listener, its connections, and the targets of cancel requests."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reticent.service.admission import Admission
from reticent.service.metrics import Log, Metrics
from reticent.service.postgres.answering import Answering
from reticent.service.postgres.connection import WireConnection
from reticent.service.settings import Settings
from reticent.service.table_service import TableService

GRACE_SECONDS = 5.0
STRANGERS = 64
"""Connections that have not signed in may be so many more than those that have."""


class Door:
    """All connections; a cancel request ends the statement of the connection whose process id and secret it states."""

    def __init__(self, answering: Answering, settings: Settings, log: Log) -> None:
        self.answering = answering
        self.settings = settings
        self.log = log
        self.tls = _tls(settings)
        self.most = settings.postgres_connections
        self._open: set[WireConnection] = set()
        self._signed: dict[tuple[int, int], WireConnection] = {}

    @property
    def full(self) -> bool:
        return len(self._signed) >= self.most

    def opened(self, connection: WireConnection) -> None:
        self._open.add(connection)
        if len(self._open) > self.most + STRANGERS:
            connection.end()

    def closed(self, connection: WireConnection) -> None:
        self._open.discard(connection)
        self._signed.pop((connection.process, connection.secret), None)

    def register(self, connection: WireConnection) -> tuple[int, int]:
        """The process id and secret of a connection that has signed in."""
        while True:
            key = (secrets.randbelow(2**31 - 1) + 1, secrets.randbits(32) - 2**31)
            if key not in self._signed:
                self._signed[key] = connection
                return key

    def cancel(self, process: int, secret: int) -> None:
        """Cancel a statement; the requester gets no reply, whether the secret matches or not."""
        connection = self._signed.get((process, secret))
        if connection is not None:
            connection.cancel()

    async def end(self) -> None:
        """Tell all clients, then wait a moment for them to disconnect."""
        tasks = [connection.task for connection in self._open if connection.task is not None]
        for connection in list(self._open):
            connection.end()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        self.answering.close()


@asynccontextmanager
async def opened_door(
    listener: socket.socket | None,
    settings: Settings,
    tables: dict[str, TableService],
    admission: Admission,
    metrics: Metrics,
    log: Log,
) -> AsyncIterator[None]:
    """Serve on this listener while the context lasts; None means no PostgreSQL port."""
    if listener is None:
        yield
        return
    door = Door(Answering(settings, tables, admission, metrics, log), settings, log)
    server = await asyncio.get_running_loop().create_server(lambda: WireConnection(door), sock=listener)
    try:
        yield
    finally:
        server.close()
        await door.end()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    return context
