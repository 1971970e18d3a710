"""A reader gives free answers from the ledger's public events and forwards all other requests to the writer.

It runs in a separate process that never opens a table: `python -m reticent.service.readers.reader SETTINGS FD PIPE
ROW`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from reticent.service.admission import Admission, Workers
from reticent.service.auth import Principal, Tokens
from reticent.service.http.middleware import BODY, NOTE, FreePath, Middleware, Scope, send_whole
from reticent.service.http.problems import HttpProblem
from reticent.service.metrics import Log, Metrics, take_over
from reticent.service.quick_path import QuickPath, light_answer
from reticent.service.readers.follower import Follower
from reticent.service.readers.shared_listener import SharedListenerServer
from reticent.service.replies import AnswerCache, encoded_reply, reply_of
from reticent.service.requests import ParsedRequest, QuestionParser
from reticent.service.settings import WRITER_IDLE_SECONDS, Settings, TableSettings
from reticent.sessions.engine import free_result

FOLLOW_SECONDS = 0.1
READING_THREADS = 1
_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "te", "trailer"}


class ReaderTable:
    """One table in a reader."""

    def __init__(self, table: TableSettings, settings: Settings, working: Workers) -> None:
        self.follower = Follower(Path(table.ledger))
        self.questions = QuestionParser(
            self.follower.domain, settings, table.confidence, table.name, synthetic_rows=table.synthetic_rows
        )
        self._cache = AnswerCache()
        self._working = working

    def quick_answer(self, body: bytes) -> tuple[bytes, str] | None:
        """The answer if it is free and takes little work; otherwise None."""
        follower = self.follower
        return light_answer(body, self.questions, self._cache, follower.knowledge, follower.recall, follower.told)

    async def free_answer(self, body: bytes, who: Principal) -> tuple[bytes, str] | None:
        """The free answer; None if knowledge is not accurate enough and only the writer can answer."""
        recalled = self._cache.recall(body, self.follower.knowledge)
        if recalled is not None:
            return recalled
        parsed = self.questions.find(body) or await self._working.run(who.name, self.questions.parse, body)
        if parsed.work.quick:
            return self._answer(body, parsed)
        return await self._working.run(who.name, self._answer, body, parsed)

    def _answer(self, body: bytes, parsed: ParsedRequest) -> tuple[bytes, str] | None:
        knowledge = self.follower.knowledge
        found = free_result(knowledge, parsed.request, self.follower.recall, self.follower.told)
        if found is None:
            return None
        answered = encoded_reply(reply_of(found))
        self._cache.remember(body, knowledge, answered)
        return answered


class Reader:
    """The ASGI application of a reader: free answers from here, all others from the writer."""

    def __init__(self, tables: dict[str, ReaderTable], writer: httpx.AsyncClient, log: Log) -> None:
        self._tables = tables
        self._writer = writer
        self._log = log
        self._free = FreePath(self._forward, tables)
        self._learning = ThreadPoolExecutor(1, thread_name_prefix="follow")
        self._following: asyncio.Task | None = None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        await self._free(scope, receive, send)

    async def _forward(self, scope: Scope, _: Any, send: Any) -> None:
        scope[NOTE].update(route="forwarded", counted=False)
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        url = httpx.URL("http://writer").copy_with(raw_path=target)
        headers = [(name, value) for name, value in scope["headers"] if name.decode() not in _HOP]
        try:
            answer = await self._writer.request(scope["method"], url, headers=headers, content=scope[BODY])
        except httpx.TransportError:
            # Whether the writer charged is not known here; with the same key the client will find out.
            scope[NOTE]["counted"] = True
            raise HttpProblem("restarting", "ask again in a moment, with the same key", retry_after=1) from None
        kept = [(k.encode(), v.encode()) for k, v in answer.headers.items() if k not in _HOP and k != "x-request-id"]
        await send_whole(send, answer.status_code, kept, answer.content)

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
        """Follow the ledger, so that new purchases and certificates are known within a moment."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            for name, served in self._tables.items():
                try:
                    await loop.run_in_executor(self._learning, served.follower.refresh)
                except Exception as error:
                    self._log.failure("follow", error, table=name)


def _end_with_parent(pipe: int) -> None:
    """End the process when the writer, which holds the other end of the pipe, has ended."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def to_writer(socket_path: Path) -> httpx.AsyncHTTPTransport:
    """Connections to the writer: closed well before the writer would close them, and as many as there are requests.

    A connection that the writer closes just as it is reused would look like a dead writer; and a hundred waiting paid
    questions must not prevent the next request from being forwarded.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=WRITER_IDLE_SECONDS / 4)
    return httpx.AsyncHTTPTransport(uds=str(socket_path), limits=limits)


def run_reader(arguments: list[str]) -> None:
    folder, descriptor, pipe, row = Path(arguments[0]), *map(int, arguments[1:4])
    settings = Settings.from_dict(json.loads((folder / "settings.json").read_text()))
    log = Log(settings.log_level)
    threading.Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()
    working = Workers(READING_THREADS, "free", settings.waiting_each)
    tables = {table.name: ReaderTable(table, settings, working) for table in settings.tables}
    writer = httpx.AsyncClient(transport=to_writer(folder / "writer.sock"), timeout=None)
    metrics = Metrics(folder / "metrics", row, settings.readers + 1)
    admission = Admission(settings, Tokens(Path(settings.tokens)), share=settings.readers)
    quick = QuickPath(tables, admission, metrics, log)
    app = Middleware(Reader(tables, writer, log), settings, admission, metrics, log, quick.response)
    from reticent.service.server import configuration, settle_memory

    settle_memory()
    listener = socket.socket(fileno=descriptor)
    server = SharedListenerServer(configuration(app, settings, public=True), listener, metrics)
    take_over(log)
    server.run()


if __name__ == "__main__":
    run_reader(sys.argv[1:])
