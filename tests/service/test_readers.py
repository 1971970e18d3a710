"""Readers answer what is free as the writer would, pass on what must be paid, and learn what was bought."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest
import uvicorn
from tests.service.serving import COUNT, Server, bearer, secret_of

from reticent.kernel.ledger.verify import verify
from reticent.service.metrics import Metrics
from reticent.service.readers.shared_listener import REST_SECONDS, SharedListenerServer

FREE = [
    {"query": COUNT},
    {"sql": "SELECT sex, COUNT(*) FROM survey WHERE age >= 45 GROUP BY sex"},
    {"query": {"query": "mean", "column": "age"}},
    {"query": {"query": "marginal", "attributes": ["age", "region"]}},
]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve("--tick", "0", "--readers", "1")


def post(server: Server, path: str, body: dict, **headers: str) -> httpx.Response:
    whole = bearer(server.custodian) | headers
    return httpx.post(f"{server.url}/v1/tables/survey{path}", json=body, headers=whole, timeout=30)


def counted(server: Server, route: str) -> int:
    text = httpx.get(f"{server.url}/metrics", headers=bearer(server.custodian), timeout=30).text
    return sum(int(line.rpartition(" ")[2]) for line in text.splitlines() if f'route="{route}"' in line)


def test_a_reader_and_the_writer_give_the_same_free_bytes(server: Server) -> None:
    for body in FREE:
        reader = post(server, "/ask", body)
        writer = post(server, "/ask", body, **{"Idempotency-Key": "to-the-writer"})
        assert reader.status_code == 200, reader.text
        assert reader.content == writer.content


def test_what_must_be_paid_goes_to_the_writer_and_is_then_known_to_the_reader(server: Server) -> None:
    body = {"query": {"query": "count", "where": {"op": "==", "column": "region", "value": "west"}}, "error": 0.012}
    paid = post(server, "/ask", body)
    assert paid.json()["result"]["price"] > 0
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        free = post(server, "/ask", {"query": body["query"]}).json()["result"]
        if free["value"] == paid.json()["result"]["value"]:
            break
        time.sleep(0.05)
    assert free["value"] == paid.json()["result"]["value"]
    assert (free["origin"], free["price"]) in (("cache", 0), ("derived", 0))


def test_readers_forward_everything_else_and_count_into_the_same_metrics(server: Server) -> None:
    before = counted(server, "ask")
    post(server, "/ask", FREE[0])
    assert counted(server, "ask") == before + 1
    assert httpx.get(f"{server.url}/", timeout=30).text.startswith("<!doctype html>")
    paid = {"query": {"query": "count", "where": {"op": "==", "column": "smoker", "value": "yes"}}, "error": 0.012}
    assert post(server, "/ask", paid).json()["result"]["price"] > 0
    page = httpx.get(f"{server.url}/v1/tables/survey/history?limit=1", headers=bearer(server.custodian), timeout=30)
    assert len(page.json()["entries"]) == 1
    assert post(server, "/ask", {"sql": "SELECT * FROM survey"}).status_code == 422
    assert httpx.post(f"{server.url}/v1/tables/survey/ask", json=FREE[0], timeout=30).status_code == 401
    assert post(server, "/nowhere", {}).status_code == 404


def test_what_a_reader_passes_on_is_counted_once_under_its_own_name(server: Server) -> None:
    """It was counted as refused, too."""
    before = {route: counted(server, route) for route in ("budget", "refused", "forwarded")}
    for _ in range(3):
        assert httpx.get(f"{server.url}/v1/tables/survey/budget", headers=bearer(server.custodian)).status_code == 200
    after = {route: counted(server, route) for route in before}
    assert after == before | {"budget": before["budget"] + 3}


def test_the_log_on_stderr_is_json_and_nothing_else(server: Server) -> None:
    lines = [
        line
        for line in server.log().splitlines()
        if line and not line.startswith(("Serving ", "The custodian", "The anchor"))
    ]
    assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_revoked_token_ends_at_the_readers_too(server: Server) -> None:
    made = httpx.post(
        f"{server.url}/v1/tokens", json={"name": "eve"}, headers=bearer(server.custodian), timeout=30
    ).json()
    ask = f"{server.url}/v1/tables/survey/ask"
    assert httpx.post(ask, json=FREE[0], headers=bearer(made["token"]), timeout=30).status_code == 200
    httpx.delete(f"{server.url}/v1/tokens/{made['id']}", headers=bearer(server.custodian), timeout=30)
    assert httpx.post(ask, json=FREE[0], headers=bearer(made["token"]), timeout=30).status_code == 401


def test_no_process_logs_a_token_a_question_or_an_answer(serve: Callable[..., Server]) -> None:
    server = serve("--tick", "0", "--readers", "1")
    free = post(server, "/ask", {"sql": "SELECT COUNT(*) FROM survey WHERE sex = 'Male'"}).json()
    paid = {"query": {"query": "count", "where": {"op": "==", "column": "region", "value": "south"}}, "error": 0.012}
    value = post(server, "/ask", paid, **{"Idempotency-Key": "quiet-please"}).json()["result"]["value"]
    server.stop()
    log = server.log()
    assert '"who": "custodian"' in log
    assert '"origin"' in log
    for secret in (server.custodian, secret_of(server.custodian), "quiet-please", "SELECT", "south"):
        assert secret not in log
    assert str(value) not in log
    assert str(free["result"]["rows"][0][0]) not in log


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads connections from /proc")
def test_readers_share_connections_evenly(serve: Callable[..., Server]) -> None:
    server = serve("--tick", "0", "--readers", "3")
    url = httpx.URL(server.url)
    time.sleep(2)  # all of them are up
    wires = []
    try:
        for _ in range(30):
            wire = socket.create_connection((url.host, url.port or 80), timeout=10)
            wire.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert wire.recv(4096).startswith(b"HTTP/1.1 200")
            wires.append(wire)
        assert server.process is not None
        tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
        readers = {pid for task in tasks for pid in (task / "children").read_text().split()}
        held = sorted(_accepted(pid, url.port) for pid in readers)
        assert sum(held) == 30
        assert held[0] >= 8, held
    finally:
        for wire in wires:
            wire.close()


def _accepted(process: str, port: int | None) -> int:
    """Established connections to this port that the process holds."""
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ours = {f[9] for f in (line.split() for line in table) if f[1].endswith(f":{port:04X}") and f[3] == "01"}
    links = [os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir() if link.is_symlink()]
    return sum(link.removeprefix("socket:[").rstrip("]") in ours for link in links)


def test_a_stopped_server_with_readers_leaves_one_whole_ledger(serve: Callable[..., Server]) -> None:
    server = serve("--tick", "0", "--readers", "1")
    body = {"query": {"query": "count", "where": {"op": "==", "column": "region", "value": "west"}}, "error": 0.012}
    assert post(server, "/ask", body).json()["result"]["price"] > 0
    server.stop()
    ledger = next(server.folder.glob("*.ledger"))
    assert all(log.stat().st_size == 0 for log in server.folder.glob("*-wal"))
    copy = server.folder / "copy.ledger"
    shutil.copy(ledger, copy)
    assert verify(copy).history.spent > 0


@pytest.mark.parametrize("held", [0, 3], ids=["its turn", "ahead of the others"])
def test_a_reader_without_descriptors_rests(held: int) -> None:
    """The connection that nobody could accept woke it again at once: a full core for as long as it waited."""
    listener, loop, metrics = Mock(), Mock(), Metrics(rows=2)
    listener.accept.side_effect = OSError(errno.EMFILE, "too many open files")
    server = SharedListenerServer(uvicorn.Config(Mock(), log_config=None), listener, metrics)
    server._loop = loop
    server.server_state.connections.update(Mock() for _ in range(held))
    server._watch()
    server._ready()
    if held:
        loop.call_later.call_args.args[1]()
    assert loop.method_calls[-2][0] == "remove_reader"
    assert loop.call_later.call_args.args == (REST_SECONDS, server._watch)
