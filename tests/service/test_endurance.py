"""Fifty analysts at once: the budget is never exceeded, and memory stays flat over ten minutes."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.serving import Server, bearer

import reticent as rt
from reticent.kernel.ledger.verify import verify

ANALYSTS = 50
MINUTES = 10
GROWTH = 1.10
EDGES = [25, 35, 45, 55, 65]
COLUMNS = {"sex": ["Female", "Male"], "smoker": ["no", "yes"], "region": ["north", "south", "west"]}


def question(generator: random.Random) -> tuple[str, dict[str, Any]]:
    """Path and body: free and paid counts over some twenty thousand boxes, SQL, and now and then a model."""
    kind = generator.random()
    edge = generator.choice(EDGES)
    if kind < 0.02:
        return "minimize", {"loss": rt.Squared(features=["sex"], label="age", radius=1 + generator.random()).to_dict()}
    if kind < 0.2:
        column = generator.choice(list(COLUMNS))
        return "ask", {"sql": f"SELECT {column}, COUNT(*) FROM survey WHERE age >= {edge} GROUP BY {column}"}
    parts = [{"op": generator.choice(["<", ">="]), "column": "age", "value": edge}]
    for column in generator.sample(list(COLUMNS), generator.randint(1, 2)):
        values = generator.sample(COLUMNS[column], generator.randint(1, len(COLUMNS[column])))
        parts.append({"op": "in", "column": column, "values": values})
    body: dict[str, Any] = {"query": {"query": "count", "where": {"op": "and", "of": parts}}}
    if kind > 0.9:
        body["error"] = generator.choice([0.03, 0.02, 0.012])
    return "ask", body


def ask_around(server: Server, tokens: list[str], seconds: float, outcomes: list[int]) -> None:
    """Every analyst asks free and paid questions until the time is over, and at least two on a slow machine."""
    end = time.monotonic() + seconds

    def analyst(token: str) -> None:
        generator = random.Random()
        # A client each, as people have: threads that share one can close each other's connections.
        with httpx.Client(base_url=server.url, timeout=600, headers=bearer(token)) as client:
            asked = 0
            while time.monotonic() < end or asked < 2:
                asked += 1
                path, body = question(generator)
                outcomes.append(client.post(f"/v1/tables/survey/{path}", json=body).status_code)

    threads = [threading.Thread(target=analyst, args=(token,)) for token in tokens]
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


def within_budget(server: Server) -> None:
    statement = verify(server.folder / "survey.ledger")
    assert statement.history.spent <= statement.history.limit
    assert sum(statement.history.spent_by.values()) <= statement.history.spent


def test_fifty_analysts_never_exceed_the_budget(serve: Callable[..., Server]) -> None:
    server = serve("--tick", "0", "--log-level", "warning")
    outcomes: list[int] = []
    ask_around(server, people(server), 3.0, outcomes)
    assert set(outcomes) <= {200, 402, 429}
    assert outcomes.count(200) > ANALYSTS
    within_budget(server)


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 1200)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory from /proc")
def test_memory_stays_flat(serve: Callable[..., Server]) -> None:
    """Writer and readers together, from the second minute on: by then every cache has met its bound."""
    server = serve("--tick", "0", "--readers", "2", "--log-level", "warning")
    assert server.process is not None
    tokens, outcomes, sizes = people(server), [], []
    for _ in range(MINUTES):
        ask_around(server, tokens, 60.0, outcomes)
        sizes.append(resident(server.process.pid) >> 20)
        within_budget(server)
    told = {"mebibytes after each minute": sizes, "answers": outcomes.count(200), "refused": outcomes.count(402)}
    print(told)
    assert max(sizes[2:]) <= sizes[1] * GROWTH, told
    assert set(outcomes) <= {200, 402, 429}


def resident(process: int) -> int:
    """Bytes of a process and its children."""
    tasks = Path(f"/proc/{process}/task")
    children = {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
    return sum(4096 * int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in (process, *children))
