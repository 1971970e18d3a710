"""SIGKILL under load: after a restart the same keys give the same bytes, nothing is refunded or charged twice."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import httpx
import pytest
from tests.service.serving import Server, bearer

import reticent as rt
from reticent.kernel.ledger.verify import verify

CLIENTS = 4
QUESTIONS = [
    {"query": {"query": "count", "where": {"op": op, "column": "age", "value": edge}}, "error": 0.02}
    for op in ("<", ">=")
    for edge in (25, 35, 45, 55, 65)
] + [
    {
        "query": {"query": "mean", "column": "age", "where": {"op": "==", "column": "region", "value": region}},
        "error": 25.0,
    }
    for region in ("north", "south")
]
LOSSES = [
    {"loss": rt.Squared(features=["sex"], label="age").to_dict(), "error": 0.2},
    {"losses": [rt.Squared(features=[name], label="age").to_dict() for name in ("smoker", "region")], "error": 0.2},
]
ORDERS = [("ask", body) for body in QUESTIONS] + [("minimize", body) for body in LOSSES]


class Analyst(threading.Thread):
    """Asks its share of the questions with fixed keys and remembers every reply."""

    def __init__(self, server: Server, number: int, token: str, replies: dict[str, list[bytes]]) -> None:
        super().__init__()
        self.server, self.number, self.token, self.replies = server, number, token, replies

    def run(self) -> None:
        for place, (path, body) in enumerate(ORDERS):
            if place % CLIENTS != self.number:
                continue
            headers = bearer(self.token) | {"Idempotency-Key": f"q{place}"}
            try:
                reply = httpx.post(f"{self.server.url}/v1/tables/survey/{path}", json=body, headers=headers, timeout=30)
            except httpx.TransportError:
                return
            if reply.status_code == 503:
                return  # a reader outlived its writer for a moment
            assert reply.status_code == 200, reply.text
            self.replies.setdefault(f"q{place}", []).append(reply.content)


def ask_everything(server: Server, token: str, replies: dict[str, list[bytes]], kill_after: float | None) -> None:
    analysts = [Analyst(server, number, token, replies) for number in range(CLIENTS)]
    for analyst in analysts:
        analyst.start()
    if kill_after is not None:
        time.sleep(kill_after)
        server.kill()
    for analyst in analysts:
        analyst.join()


@pytest.mark.parametrize("readers", ["0", "1"])
def test_killed_under_load_nothing_is_lost_refunded_or_charged_twice(
    serve: Callable[..., Server], readers: str
) -> None:
    server = serve("--tick", "0", "--readers", readers)
    token, ledger = server.custodian, server.folder / "survey.ledger"
    replies: dict[str, list[bytes]] = {}
    spent = [verify(ledger).history.spent]
    for kill_after in (0.25, None, None):
        ask_everything(server, token, replies, kill_after)
        statement = verify(ledger)
        spent.append(statement.history.spent)
        if kill_after is not None:
            server.start()
    assert spent == sorted(spent)
    assert spent[-1] == spent[-2]  # a lucky certificate may answer all for free, so nothing need be spent
    assert len(replies) == len(ORDERS)
    for key, bodies in replies.items():
        paid = [body for body in bodies if b'"price": 0.0,' not in body]
        assert len(set(paid)) <= 1, f"{key} was paid for and answered in two ways"
    keys = [event.key for event in statement.events if event.kind == "reserve"]
    assert len(keys) == len(set(keys))
    settled = [event.key for event in statement.events if event.kind == "settle"]
    assert len(settled) == len(set(settled))
    checked = httpx.post(f"{server.url}/v1/tables/survey/verification", headers=bearer(token), timeout=30).json()
    assert checked["verified"]
    assert checked["anchored"]
    server.stop()
    assert token not in server.log()


def test_a_polite_signal_lets_the_payment_finish(serve: Callable[..., Server]) -> None:
    server = serve("--tick", "0.5")
    body = {"query": {"query": "count", "where": {"op": ">=", "column": "age", "value": 55}}, "error": 0.015}
    found: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: found.append(
            httpx.post(f"{server.url}/v1/tables/survey/ask", json=body, headers=bearer(server.custodian), timeout=30)
        )
    )
    asking.start()
    time.sleep(0.15)
    server.stop()
    asking.join()
    assert found[0].status_code == 200
    assert found[0].json()["result"]["price"] > 0
    assert server.process is not None
    assert server.process.returncode in (0, -signal.SIGTERM)  # uvicorn passes the signal on when it is done
