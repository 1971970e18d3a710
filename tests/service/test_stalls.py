"""One analyst stops nobody: whatever is sent, others are answered at once, and the server's memory has a bound."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.service.serving import bearer, in_thread, survey_settings

import reticent as rt
from reticent.service.admission import Workers
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.http.problems import HttpProblem
from reticent.service.metrics import Log
from reticent.service.replies import KEPT_BYTES, AnswerCache
from reticent.service.requests import QuestionParser
from reticent.service.server import open_tables
from reticent.service.settings import Settings
from reticent.sql.statement import Kept

LONGEST = 1.0
"""Seconds of this process's processor time that pass while another analyst waits: server, attack and client share it,
and what else the machine does has no part in it."""
CODES = 8
WORDS = ["a" * 60, "a" * 59 + "b", "b" * 60]
DOMAIN = rt.Domain(
    {f"c{number}": rt.Categorical([f"v{code}" for code in range(CODES)], other=False) for number in range(4)}
    | {"n": rt.Numeric(lower=0, upper=8, bins=8, other=False), "word": rt.Categorical(WORDS, other=False)}
)
TEXT = 15_800
"""Characters that took 28 seconds on the event loop."""


@dataclass
class Wide:
    url: str
    served: Any
    alice: dict[str, str]
    bob: dict[str, str]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wide]:
    folder = tmp_path_factory.mktemp("wide")
    generator = np.random.default_rng(3)
    codes = {f"c{n}": [f"v{code}" for code in generator.integers(0, CODES, 2000)] for n in range(4)}
    rest = {"n": generator.random(2000) * 8, "word": generator.choice(WORDS, 2000)}
    pyarrow.parquet.write_table(pa.table({**codes, **rest}), folder / "survey.parquet")
    DOMAIN.write(folder / "survey.toml")
    settings = survey_settings(folder)
    tokens = Tokens(Path(settings.tokens))
    alice, bob = (bearer(tokens.create(name, "analyst")[1]) for name in ("alice", "bob"))
    tables = open_tables(settings)
    with in_thread(create_app(settings, tables, tokens, log=Log("error")), settings) as url:
        yield Wide(url, tables["survey"], alice, bob)


def many(head: str, piece: str, tail: str) -> str:
    count = (TEXT - len(head) - len(tail)) // (len(piece) + 4)
    return head + ", ".join(piece.replace("#", f"v{number % CODES}") for number in range(count)) + tail


def logistic(number: int) -> dict[str, Any]:
    return rt.Logistic(
        features=["c0", "c1", "c2", "n"], label="word", positive=WORDS[0], radius=1 + number / 700
    ).to_dict()


def squared(number: int) -> dict[str, Any]:
    return rt.Squared(features=["c0"], label="n", radius=1 + number / 512).to_dict()


WIDE_OR = " OR ".join(f"c{number} = '#'" for number in range(4))
LIKES = " OR ".join([f"word LIKE '{'%a' * 8}%c'"] * 400)
RATIOS = many("SELECT c0, c1, ", "AVG(n) / (1 + COUNT(*))", " FROM survey GROUP BY 1, 2")
LISTED = {"op": "in", "column": "c0", "values": ["v1", "v2"] * 4000}
DOUBLED = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(60))
EVERY = {"op": "or", "of": [{"op": "==", "column": f"c{n}", "value": "v1"} for n in range(4)]}
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "tensors": ("ask", {"sql": many("SELECT ", f"COUNT(*) FILTER (WHERE {WIDE_OR})", " FROM survey")}),
    "groups": ("ask", {"sql": many("SELECT c3, ", f"SUM(n) FILTER (WHERE {WIDE_OR})", " FROM survey GROUP BY c3")}),
    "counts": ("ask", {"sql": many("SELECT ", "COUNT(*)", " FROM survey")}),
    "numbers": ("ask", {"sql": many("SELECT c0, c1, c2, ", "COUNT(*)", " FROM survey GROUP BY 1, 2, 3")}),
    "aliases": ("ask", {"sql": f"SELECT COUNT(*) AS a0, {DOUBLED} FROM survey"}),
    "patterns": ("ask", {"sql": f"SELECT COUNT(*) FROM survey WHERE {LIKES}"}),
    "price": ("cost", {"sql": RATIOS, "error": 1.0}),
    "losses": ("minimize", {"losses": [logistic(number) for number in range(20)]}),
    "small losses": ("minimize", {"losses": [squared(number) for number in range(100)]}),
    "query": ("ask", {"query": {"query": "groups", "names": ["c0", "c1", "c2"], "where": EVERY}}),
    "cells": ("ask", {"query": {"query": "marginal", "attributes": ["c0", "c1", "c2", "n"]}}),
    "list": ("ask", {"query": {"query": "count", "where": LISTED}}),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_answered_at_once(wide: Wide, attack: str) -> None:
    path, body = ATTACKS[attack]
    replies: list[int] = []

    def strike() -> None:
        with httpx.Client(base_url=wide.url, timeout=120) as client:
            replies.append(client.post(f"/v1/tables/survey/{path}", json=body, headers=wide.alice).status_code)

    threads = [threading.Thread(target=strike) for _ in range(2)]
    waits: list[float] = []
    asked = {"query": {"query": "count", "where": {"op": "==", "column": "c0", "value": "v3"}}}
    with httpx.Client(base_url=wide.url, timeout=120, headers=wide.bob) as client:
        client.get("/v1/me")
        for thread in threads:
            thread.start()
        while not waits or any(thread.is_alive() for thread in threads):
            started = time.process_time()
            assert client.get("/v1/me").status_code == 200
            assert client.post("/v1/tables/survey/ask", json=asked).status_code == 200
            waits.append((time.process_time() - started) / 2)
            time.sleep(0.005)
    for thread in threads:
        thread.join()
    print(f"{attack}: replies {replies}, longest wait {max(waits) * 1000:.0f} ms over {len(waits)} looks")
    assert set(replies) <= {200, 422, 429}
    assert max(waits) < LONGEST


def test_what_is_kept_of_questions_and_answers_is_bounded_in_bytes(wide: Wide) -> None:
    requests = QuestionParser(DOMAIN, Settings(tables=wide.served.settings.tables, tokens="x"), 0.95, "survey")
    order = None
    for number in range(60):
        filters = ", ".join(f"COUNT(*) FILTER (WHERE c0 = 'v{n}' OR c1 = 'v{number % CODES}')" for n in range(CODES))
        order = requests.parse(f'{{"sql": "SELECT {filters}, {number} FROM survey"}}'.encode())
    assert 0 < requests._kept.held <= KEPT_BYTES
    assert order is not None
    assert order.footprint > 10_000
    memory = AnswerCache()
    first, second = object(), object()
    memory.remember(order, first, (b"answer", "cache"))
    assert memory.recall(order, first) == (b"answer", "cache")
    assert memory.recall(order, second) is None
    memory.remember(order, second, (b"other", "cache"))
    assert memory.recall(order, first) is None, "what was known before is let go"
    assert len(memory._answers) == 1


def test_every_asker_has_one_place_in_the_line() -> None:
    """With one thread and twenty jobs of one asker, another one's job is the second or third that runs."""

    async def main() -> list[str]:
        workers, ran = Workers(1, "test", waiting=20), []

        def job(who: str) -> None:
            time.sleep(0.005)
            ran.append(who)

        greedy = [asyncio.create_task(workers.run("a", job, "a")) for _ in range(20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await workers.run("b", job, "b")
        await asyncio.gather(*greedy)
        workers.close()
        assert not workers._lanes
        return ran

    assert asyncio.run(main()).index("b") <= 2


def test_nobody_may_have_endless_work_waiting() -> None:
    async def main() -> None:
        workers, go = Workers(1, "test", waiting=3), threading.Event()
        held = [asyncio.create_task(workers.run("a", go.wait, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(HttpProblem) as caught:
            await workers.run("a", go.wait, 10)
        assert caught.value.status == 429
        held[0].cancel()  # a client that hangs up frees no place
        await asyncio.sleep(0.01)
        with pytest.raises(HttpProblem):
            await workers.run("a", go.wait, 10)
        go.set()
        await workers.run("b", go.wait, 10)
        await asyncio.gather(*held, return_exceptions=True)
        workers.close()

    asyncio.run(main())


def test_kept_values_can_be_shared_by_threads() -> None:
    kept: Kept[int, int] = Kept(entries=50, size=1000)

    def fill(seed: int) -> None:
        for number in range(2000):
            kept.put((number * seed) % 97, number, 1 + number % 40)
            kept.get(number % 97)

    threads = [threading.Thread(target=fill, args=(seed,)) for seed in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) <= 50
    assert 0 < kept.held <= 1000
    assert kept.held == sum(size for _, size in kept._held.values())
