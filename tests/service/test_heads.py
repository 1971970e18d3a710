"""One response to one request: a body that nobody reads is not taken for the next head."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from reticent.service.http.head_limits import timed_head_protocol


async def refusing(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers by the head alone, as the front does when a token is wrong."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        http = timed_head_protocol(0.5)
        server = uvicorn.Server(uvicorn.Config(refusing, http=http, log_config=None, lifespan="off"))
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        serving.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        serving.join(10)


@pytest.mark.parametrize("sent", [100, 60_000], ids=["slow", "large"])
def test_a_body_nobody_reads_is_no_head(port: int, sent: int) -> None:
    """A second response followed the refusal; a proxy would have handed it to the next person who asks."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        wire.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        said = wire.recv(4096)
        wire.sendall(b"a" * sent)
        try:
            while part := wire.recv(4096):
                said += part
        except ConnectionResetError:
            pass  # it hung up before it had read everything
    assert said.count(b"HTTP/1.1") == 1
    assert b"401" in said
