"""Fifty analysts at once: the budget is never exceeded, and memory stays flat over ten minutes."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from serving import Server, bearer

from reticent.kernel.statement import verify

ANALYSTS = 50
MINUTES = 10
GROWTH = 1.15


def ask_around(server: Server, tokens: list[str], seconds: float, outcomes: list[int]) -> None:
    """Every analyst asks free and paid questions until the time is over."""
    client = httpx.Client(base_url=server.url, timeout=60, limits=httpx.Limits(max_connections=ANALYSTS))
    end = time.monotonic() + seconds

    def analyst(token: str, seed: int) -> None:
        generator = random.Random(seed)
        while time.monotonic() < end:
            edge = generator.choice([25, 35, 45, 55, 65])
            where = {"op": generator.choice(["<", ">="]), "column": "age", "value": edge}
            body: dict = {"query": {"query": "count", "where": where}}
            if generator.random() < 0.3:
                body["error"] = generator.choice([0.03, 0.02, 0.012])
            outcomes.append(client.post("/v1/tables/survey/ask", json=body, headers=bearer(token)).status_code)

    threads = [threading.Thread(target=analyst, args=(token, seed)) for seed, token in enumerate(tokens)]
    with client:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def people(server: Server) -> list[str]:
    made = []
    with httpx.Client(base_url=server.url, headers=bearer(server.custodian), timeout=60) as client:
        for number in range(ANALYSTS):
            made.append(client.post("/v1/tokens", json={"name": f"a{number}"}).json()["token"])
    return made


def test_fifty_analysts_never_exceed_the_budget(serve: Callable[..., Server]) -> None:
    server = serve("--tick", "0", "--log-level", "warning")
    outcomes: list[int] = []
    ask_around(server, people(server), 3.0, outcomes)
    assert set(outcomes) <= {200, 402, 429}
    assert outcomes.count(200) > ANALYSTS
    statement = verify(server.folder / "survey.ledger")
    assert statement.history.spent <= statement.history.limit
    assert sum(statement.history.spent_by.values()) <= statement.history.spent


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 300)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory from /proc")
def test_memory_stays_flat(serve: Callable[..., Server]) -> None:
    server = serve("--tick", "0", "--log-level", "warning")
    assert server.process is not None
    tokens, outcomes = people(server), []
    ask_around(server, tokens, 60.0, outcomes)
    early = resident(server.process.pid)
    ask_around(server, tokens, (MINUTES - 1) * 60.0, outcomes)
    assert resident(server.process.pid) <= early * GROWTH
    assert set(outcomes) <= {200, 402, 429}


def resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1])
