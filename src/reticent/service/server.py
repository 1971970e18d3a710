"""Runs a server: one writer that holds the tables, and readers that share its public socket."""

from __future__ import annotations

import atexit
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from reticent.domain import Domain
from reticent.errors import LedgerError, QueryError, ReticentError
from reticent.knowledge.guarantees import Report, silent
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.http.head_limits import timed_head_protocol
from reticent.service.http.middleware import Middleware
from reticent.service.http.problems import HttpProblem
from reticent.service.metrics import Log, Metrics, take_over
from reticent.service.settings import IDLE_SECONDS, WRITER_IDLE_SECONDS, Settings, TableSettings
from reticent.service.table_service import TableService
from reticent.sessions.open import Opening
from reticent.sessions.session import Session
from reticent.sources import Table

GRACE_SECONDS = 20
FIRST = "custodian"
COLLECT_AFTER = 20_000
"""Objects that must pile up before the garbage collector looks at them."""


def check_openings(settings: Settings) -> None:
    """Refuse tables whose settings contradict each other, before anything is opened."""
    for entry in settings.tables:
        try:
            Opening(**entry.opening, confidence=entry.confidence)
        except ReticentError as refusal:
            raise QueryError(f"table {entry.name}: {refusal}") from None


def open_tables(settings: Settings, progress: Report = silent) -> dict[str, TableService]:
    """Open every table with its session; the first opening of a ledger buys the warm start here.

    All tables are read before the first ledger is opened, so that one that cannot be read costs the others nothing.
    """
    check_openings(settings)
    read = [Table.read(entry.table, Domain.read(entry.domain), **entry.reading) for entry in settings.tables]
    tables: dict[str, TableService] = {}
    try:
        for entry, table in zip(settings.tables, read, strict=True):
            tables[entry.name] = TableService(_open_session(entry, table, progress), entry, settings)
    except BaseException:
        for served in tables.values():
            served.close()
        raise
    return tables


def _open_session(entry: TableSettings, table: Table, progress: Report) -> Session:
    try:
        return Session.open(
            entry.ledger,
            table,
            entry.budget,
            **entry.opening,
            confidence=entry.confidence,
            strict=True,
            anchor=entry.anchor,
            progress=progress,
        )
    except LedgerError as refusal:
        raise LedgerError(f"table {entry.name}, {entry.ledger}: {refusal}") from None


def first_token(tokens: Tokens, settings: Settings, *, renew: bool = False) -> Path | None:
    """The file with the first custodian's token, which only the operator can read; None if it was deleted or is stale.

    The token is created where there is no custodian, and replaced with `renew`.
    """
    path = Path(f"{settings.tokens}.custodian")
    custodians = tokens.custodians()
    if custodians and not renew:
        return path if _holds_token(path, tokens) else None
    if custodians:
        text = tokens.rotate(custodians[0].id)[1]
    else:
        text = tokens.create(FIRST, "custodian")[1]
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    return path


def _holds_token(path: Path, tokens: Tokens) -> bool:
    """Whether the file holds a token that is still valid."""
    try:
        tokens.find(path.read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError, HttpProblem):
        return False
    return True


def configuration(app: Any, settings: Settings, *, public: bool, uds: str | None = None) -> uvicorn.Config:
    """The configuration of uvicorn; TLS on the public side only."""
    return uvicorn.Config(
        app,
        uds=uds,
        http=timed_head_protocol(settings.head_seconds, app.quick if isinstance(app, Middleware) else None),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS if public else WRITER_IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=settings.tls_certificate if public else None,
        ssl_keyfile=settings.tls_key if public else None,
    )


def settle_memory() -> None:
    """Exclude loaded objects from garbage collection and collect rarely, because answering creates no cycles.

    Collections over all loaded objects would cause pauses of 20 to 100 ms under load.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 100)
    # At the end of the process all of it is collected again: what DuckDB then found alive it would call a leak.
    atexit.register(gc.unfreeze)


def bind_listener(settings: Settings) -> socket.socket:
    """The public socket, bound before any slow step, so that a port in use is reported at once."""
    return _bound(settings.host, settings.port)


def listening_postgres(settings: Settings) -> socket.socket | None:
    """The same for the PostgreSQL port; None if there is none."""
    return None if settings.postgres is None else _bound(settings.host, settings.postgres)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "no such address"
        raise QueryError(f"{host}:{port} cannot be used ({reason}); choose another") from None
    listener.listen(2048)
    return listener


def serve(
    settings: Settings,
    listener: socket.socket,
    tables: dict[str, TableService],
    tokens: Tokens,
    postgres: socket.socket | None = None,
) -> None:
    """Serve until a signal ends it; requests in progress are finished first. The writer itself serves `postgres`."""
    log = Log(settings.log_level)
    settle_memory()
    if settings.readers == 0:
        app = create_app(settings, tables, tokens, log=log, postgres=postgres)
        server = uvicorn.Server(configuration(app, settings, public=True))
        take_over(log)
        server.run(sockets=[listener])
        return
    with (
        tempfile.TemporaryDirectory(prefix="reticent-") as name,
        _readers(settings, Path(name), listener, log) as metrics,
    ):
        app = create_app(settings, tables, tokens, metrics=metrics, log=log, postgres=postgres)
        server = uvicorn.Server(configuration(app, settings, public=False, uds=str(Path(name) / "writer.sock")))
        take_over(log)
        server.run()


@contextmanager
def _readers(settings: Settings, folder: Path, listener: socket.socket, log: Log) -> Iterator[Metrics]:
    """Reader processes, replaced when one dies, ended when the writer ends."""
    (folder / "settings.json").write_text(json.dumps(settings.to_dict()))
    metrics = Metrics(folder / "metrics", settings.readers, settings.readers + 1)
    stay, hold = os.pipe()
    ending = threading.Event()

    def keep(row: int) -> None:
        command = [
            sys.executable,
            "-m",
            "reticent.service.readers.reader",
            str(folder),
            str(listener.fileno()),
            str(stay),
            str(row),
        ]
        while not ending.is_set():
            process = subprocess.Popen(command, pass_fds=(listener.fileno(), stay), stdin=subprocess.DEVNULL)
            code = process.wait()
            if not ending.wait(0.5):
                log.warning("reader ended", code=code)

    threads = [threading.Thread(target=keep, args=(row,)) for row in range(settings.readers)]
    for thread in threads:
        thread.start()
    try:
        yield metrics
    finally:
        ending.set()
        os.close(hold)
        for thread in threads:
            thread.join(GRACE_SECONDS)
        os.close(stay)
