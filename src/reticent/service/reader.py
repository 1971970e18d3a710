"""A reader answers what is free from the ledger's public past and passes everything else to the writer.

It runs in a process of its own that never opens a table: `python -m reticent.service.reader SETTINGS FD PIPE ROW`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from reticent.service.asking import Request, Requests
from reticent.service.follow import Follower
from reticent.service.free import MustPay
from reticent.service.front import BODY, NOTE, PRINCIPAL, Front, Scope
from reticent.service.logs import Log, take_over
from reticent.service.metrics import Metrics
from reticent.service.orders import Memory
from reticent.service.problems import Problem
from reticent.service.settings import Settings, TableSettings
from reticent.service.tokens import Tokens
from reticent.service.turns import TurnServer

FOLLOW_SECONDS = 0.1
_ASK = re.compile(r"/v1/tables/([A-Za-z0-9][A-Za-z0-9_-]{0,63})/ask")
_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "te", "trailer"}


class ReadingDesk:
    """The readers' side of one table."""

    def __init__(self, table: TableSettings, settings: Settings) -> None:
        self.follower = Follower(Path(table.ledger), confidence=table.confidence, name=table.name)
        self.requests = Requests(self.follower.session.domain, settings)
        self._memory = Memory()

    def recall(self, request: Request) -> tuple[bytes, str] | None:
        """The answer of before, if nothing was learned since."""
        return self._memory.recall(request, self.follower.session)

    def answer(self, request: Request) -> tuple[bytes, str]:
        """MustPay where the writer must decide."""
        session = self.follower.session
        return self._memory.remember(request, session, request.answer(session))


class Reader:
    """The ASGI application behind a reader's front."""

    def __init__(self, settings: Settings, desks: dict[str, ReadingDesk], writer: httpx.AsyncClient, log: Log) -> None:
        self._desks = desks
        self._writer = writer
        self._log = log
        self._working = ThreadPoolExecutor(1, thread_name_prefix="free")
        self._following: asyncio.Task | None = None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        desk = self._desk(scope)
        if desk is not None:
            try:
                body, origin = await self._answer(desk, scope[BODY])
            except MustPay:
                pass
            else:
                scope[NOTE].update(route="ask", origin=origin, paid=False)
                await _send(send, 200, [(b"content-type", b"application/json")], body)
                return
        await self._forward(scope, send)

    def _desk(self, scope: Scope) -> ReadingDesk | None:
        """The desk that may answer here; a key with an error bound may stand for a paid answer, so the writer looks."""
        found = _ASK.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if found is None or not scope[PRINCIPAL].may_see(found.group(1)):
            return None
        headers = dict(scope["headers"])
        kind = headers.get(b"content-type", b"application/json")
        if b"idempotency-key" in headers or not kind.startswith(b"application/json"):
            return None
        return self._desks.get(found.group(1))

    async def _answer(self, desk: ReadingDesk, body: bytes) -> tuple[bytes, str]:
        request = desk.requests.parse(body)
        recalled = desk.recall(request)
        if recalled is not None:
            return recalled
        if request.work.quick:
            return desk.answer(request)
        return await asyncio.get_running_loop().run_in_executor(self._working, desk.answer, request)

    async def _forward(self, scope: Scope, send: Any) -> None:
        scope[NOTE]["route"] = "forwarded"
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        url = httpx.URL("http://writer").copy_with(raw_path=target)
        headers = [(name, value) for name, value in scope["headers"] if name.decode() not in _HOP]
        try:
            answer = await self._writer.request(scope["method"], url, headers=headers, content=scope[BODY])
        except httpx.TransportError:
            # Whether the writer charged is not known here; with the same key the client will find out.
            raise Problem("restarting", "ask again in a moment, with the same key", retry_after=1) from None
        kept = [(k.encode(), v.encode()) for k, v in answer.headers.items() if k not in _HOP and k != "x-request-id"]
        await _send(send, answer.status_code, kept, answer.content)

    async def _live(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._following = asyncio.create_task(self._follow())
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._following is not None:
                    self._following.cancel()
                await self._writer.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _follow(self) -> None:
        """New purchases and certificates become known within a moment."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            for name, desk in self._desks.items():
                try:
                    await loop.run_in_executor(self._working, desk.follower.refresh)
                except Exception as error:
                    self._log.failure("follow", error, table=name)


async def _send(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _end_with_parent(pipe: int) -> None:
    """The writer holds the other end: when it is gone, however it went, nobody may go on answering."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: list[str]) -> None:
    folder, descriptor, pipe, row = Path(arguments[0]), *map(int, arguments[1:4])
    settings = Settings.from_dict(json.loads((folder / "settings.json").read_text()))
    log = Log(settings.log_level)
    threading.Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()
    desks = {table.name: ReadingDesk(table, settings) for table in settings.tables}
    writer = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(folder / "writer.sock")), timeout=None)
    metrics = Metrics(folder / "metrics", row, settings.readers + 1)
    app = Front(Reader(settings, desks, writer, log), settings, Tokens(Path(settings.tokens)), metrics, log)
    from reticent.service.running import configuration, settle_memory

    settle_memory()
    listener = socket.socket(fileno=descriptor)
    server = TurnServer(configuration(app, settings, public=True), listener, metrics)
    take_over(log)
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
