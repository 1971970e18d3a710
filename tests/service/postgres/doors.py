"""A survey behind an open PostgreSQL door, and a client that sends whatever bytes a test likes."""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from tests.service.serving import in_thread, survey_settings, write_survey

from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.metrics import Log
from reticent.service.server import listening_postgres, open_tables
from reticent.service.settings import Settings


@dataclass
class OpenDoor:
    """A server under test with two analysts and a custodian."""

    port: int
    url: str
    settings: Settings
    tokens: Tokens
    secrets: dict[str, str]
    tables: dict[str, Any]
    log: io.StringIO

    def connect(self, user: str = "alice", **options: Any) -> psycopg.Connection:
        given = {"host": "127.0.0.1", "port": self.port, "dbname": "reticent", "connect_timeout": 10}
        secret = self.secrets.get(user, "rt_000000000000_" + "x" * 43)
        return psycopg.connect(**(given | {"user": user, "password": secret, "autocommit": True} | options))

    @property
    def sqlalchemy(self) -> str:
        return f"postgresql+psycopg://alice:{self.secrets['alice']}@127.0.0.1:{self.port}/reticent"

    @property
    def spent(self) -> float:
        return self.tables["survey"].session.spent

    def raw(self) -> Raw:
        return Raw(socket.create_connection(("127.0.0.1", self.port), timeout=10))


@dataclass
class Raw:
    """A socket that speaks only when told to."""

    socket: socket.socket

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def start(self, user: str = "alice", version: int = 196608, **parameters: str) -> None:
        pairs = {"user": user} | parameters
        body = b"".join(f"{k}\0{v}\0".encode() for k, v in pairs.items()) + b"\0"
        self.send(struct.pack("!ii", len(body) + 8, version) + body)

    def rest(self) -> bytes:
        """All that the server says until it hangs up."""
        parts = []
        try:
            while part := self.socket.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def message(self) -> tuple[bytes, bytes]:
        head = self._exactly(5)
        return head[:1], self._exactly(struct.unpack("!i", head[1:])[0] - 4)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return data


def state_of(reply: bytes) -> str:
    """The SQLSTATE in the last error of a reply."""
    return reply.rpartition(b"\0C")[2][:5].decode()


@contextmanager
def open_door(folder: Path, **changes: Any) -> Iterator[OpenDoor]:
    write_survey(folder)
    settings = survey_settings(folder, postgres=0, **changes)
    tokens = Tokens(Path(settings.tokens))
    people = (("carol", "custodian"), ("alice", "analyst"), ("bob", "analyst"))
    secrets = {name: tokens.create(name, role)[1] for name, role in people}
    listener, log, tables = listening_postgres(settings), io.StringIO(), open_tables(settings)
    assert listener is not None
    app = create_app(settings, tables, tokens, log=Log("info", log), postgres=listener)
    port = listener.getsockname()[1]
    with in_thread(app, settings) as url:
        yield OpenDoor(port, url, settings, tokens, secrets, tables, log)
