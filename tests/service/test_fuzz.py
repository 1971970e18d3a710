"""Every route under thousands of broken requests: no failure of the server, no traceback, no long echo."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.service.serving import COUNT, bearer, survey_settings, write_survey

import reticent as rt
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.metrics import Log
from reticent.service.server import open_tables
from reticent.service.settings import LONGEST_DETAIL

FEW, MANY = 40, int(os.environ.get("RETICENT_FUZZ", "10000"))
"""Requests for each route; `RETICENT_FUZZ` reduces the many of `make slow`."""
TABLE = "/v1/tables/survey"
LOSS = rt.Squared(features=["sex"], label="age").to_dict()
LOGISTIC = rt.Logistic(features=["age", "sex"], label="smoker", positive="yes").to_dict()
STATEMENTS = [
    "SELECT sex, COUNT(*) AS n FROM survey WHERE age >= 45 GROUP BY sex HAVING n > 10 ORDER BY n DESC LIMIT 3",
    "SELECT AVG(age), SUM(CASE WHEN sex = 'Male' THEN 1 ELSE 0 END) FROM survey WHERE smoker IN ('yes', 'no')",
    "WITH v AS (SELECT age AS a FROM survey WHERE region LIKE '%o%') SELECT ROUND(AVG(a), 2) FROM v",
]
SEEDS: dict[str, list[Any]] = {
    "ask": [{"query": COUNT}, {"query": COUNT, "error": 0.3, "confidence": 0.9, "max_price": 0.1}]
    + [{"query": {"query": "marginal", "attributes": ["age", "sex"]}}, {"query": {"query": "mean", "column": "age"}}]
    + [{"sql": text} for text in STATEMENTS],
    "cost": [{"query": COUNT, "error": 0.3}, {"sql": STATEMENTS[0], "error": 0.5}, {"loss": LOSS, "error": 0.9}],
    "minimize": [{"loss": LOSS}, {"losses": [LOSS, LOGISTIC]}, {"loss": LOGISTIC, "error": 5.0, "max_price": 1e-6}],
    "releases": [{"title": "x", "rows": 3}],
    "tokens": [{"name": "eve", "role": "analyst", "days": 3, "tables": ["survey"]}],
    "rotate": [{"days": 1}],
    "caps": [{"amount": 0.5}, {"amount": None}],
    "verification": [{}],
}
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -0.0, 0.5, 1e308, 1e-320, -1e9, "", " ", "a", "\x00", "\ud800",
    "é" * 30, "x" * 5000, "'; DROP TABLE survey; --", "../../etc/passwd", "survey", "age", "sex", "%", "NaN", [], [[]],
    {}, {"": None}, [None] * 100, {"op": "not", "of": {"op": "everything"}}, "count", "in", "and", "1e5", "2024-12-31",
]  # fmt: skip
WORDS = [
    "SELECT", "FROM", "WHERE", "survey", "COUNT(*)", "GROUP BY", "CASE", "WHEN", "END", "(", ")", ",", "'", '"', "--",
    "/*", "%", ";", "age", "sex", "=", "NOT", "IN", "LIKE", "NULL", "1e999", "[", "]", "{", "::", "OVER", "AS", "x",
]  # fmt: skip
ROUTES: list[tuple[str, str, str]] = [
    ("GET", "/health", ""), ("GET", "/metrics", ""), ("GET", "/", ""), ("GET", "/static/{part}", ""),
    ("GET", "/openapi.json", ""), ("GET", "/v1/me", ""), ("GET", "/v1/tables", ""), ("GET", "/v1/tables/{part}", ""),
    ("POST", f"{TABLE}/ask", "ask"), ("POST", f"{TABLE}/cost", "cost"), ("POST", f"{TABLE}/minimize", "minimize"),
    ("GET", f"{TABLE}/certificates", ""), ("GET", f"{TABLE}/history", ""), ("GET", f"{TABLE}/history/{{part}}", ""),
    ("GET", f"{TABLE}/budget", ""), ("GET", f"{TABLE}/releases", ""),
    ("GET", f"{TABLE}/releases/{{part}}/{{part}}", ""),
    ("POST", f"{TABLE}/releases", "releases"), ("GET", f"{TABLE}/caps", ""), ("PUT", f"{TABLE}/caps/{{part}}", "caps"),
    ("GET", f"{TABLE}/spending", ""), ("POST", f"{TABLE}/verification", "verification"), ("GET", "/v1/tokens", ""),
    ("POST", "/v1/tokens", "tokens"), ("POST", "/v1/tokens/{part}/rotate", "rotate"),
    ("DELETE", "/v1/tokens/{part}", ""),
    ("GET", "/{part}/{part}", ""), ("POST", "/v1/tables/{part}/ask", "ask"),
]  # fmt: skip


class Fuzzer:
    """Requests straight into the application, as the web server would pass them on."""

    def __init__(self, folder: Path) -> None:
        write_survey(folder)
        self.settings = survey_settings(folder)
        self.tokens = Tokens(Path(self.settings.tokens))
        self.owner = bearer(self.tokens.create("owner", "custodian")[1])
        self.alice = bearer(self.tokens.create("alice", "analyst")[1])
        self.others = [self.tokens.create(f"p{number}", "analyst")[0].id for number in range(5)]
        self.tables = open_tables(self.settings)
        self.log = io.StringIO()
        self.app = create_app(self.settings, self.tables, self.tokens, log=Log("warning", self.log))

    async def call(
        self, method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        raw = path.encode("utf-8", "surrogatepass")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "query_string": query,
            "path": urllib.parse.unquote(path), "raw_path": raw, "root_path": "", "headers": headers,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "asgi": {"version": "3.0"}, "state": {},
        }  # fmt: skip
        sent: list[dict[str, Any]] = []
        told = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return told.pop() if told else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start = next(message for message in sent if message["type"] == "http.response.start")
        content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        return start["status"], dict(start["headers"]), content

    def close(self) -> None:
        for served in self.tables.values():
            served.close()
        self.tokens.close()


def mutated(value: Any, chance: random.Random) -> Any:
    """A valid request with one or several things wrong somewhere inside."""
    kind = chance.random()
    if kind < 0.15:
        return chance.choice(VALUES)
    if isinstance(value, dict) and value:
        changed = dict(value)
        name = chance.choice(list(changed))
        if kind < 0.25:
            del changed[name]
        elif kind < 0.35:
            changed[str(chance.choice(VALUES))[:20]] = chance.choice(VALUES)
        else:
            changed[name] = mutated(changed[name], chance)
        return changed
    if isinstance(value, list) and value:
        changed = list(value)
        place = chance.randrange(len(changed))
        changed[place] = mutated(changed[place], chance)
        return changed * chance.choice((1, 1, 1, 40)) if len(changed) < 50 else changed
    if isinstance(value, str) and kind < 0.8:
        return scrambled(value, chance)
    return chance.choice(VALUES)


def scrambled(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(words) + 1)
        words[place:place] = chance.choices(WORDS, k=chance.randint(1, 3)) * chance.choice((1, 1, 1, 200))
        if chance.random() < 0.5:
            del words[chance.randrange(len(words))]
    return " ".join(words)


def body_of(kind: str, chance: random.Random) -> bytes:
    if not kind:
        return b"" if chance.random() < 0.9 else chance.randbytes(chance.randint(0, 50))
    seed = chance.choice(SEEDS[kind])
    changed = seed if chance.random() < 0.1 else mutated(seed, chance)
    text = json.dumps(changed).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1:
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice((b"\xff", b"\x00", b"NaN", b"{", b'"', b"1e9999", b"")) + text[place + 1 :]
    return b"[" * 5000 + text if chance.random() < 0.01 else text


def part_of(chance: random.Random, others: list[str]) -> str:
    plain = ["survey", "r0001", "csv", "release", "alice", "p1", "1", "index.html", "app.js", "0" * 12, *others]
    hostile = ["..", "%2e%2e", "%00", "%ff", "a" * 3000, "'", "%0d%0a", "-1", "1e9", "9" * 400, "r99999999", "☃"]
    return chance.choice(plain if chance.random() < 0.5 else hostile)


def headers_of(chance: random.Random, token: dict[str, str]) -> list[tuple[bytes, bytes]]:
    found = [(b"authorization", token["Authorization"].encode())]
    if chance.random() < 0.05:
        found = [(b"authorization", chance.choice((b"", b"Bearer", b"Bearer \xff", b"Basic x")))]
    if chance.random() < 0.2:
        found.append((b"idempotency-key", chance.choice((b"k1", b"k2", b"", b"\xff", b"a b", b"x" * 500))))
    if chance.random() < 0.3:
        found.append((b"content-type", chance.choice((b"application/json", b"text/plain", b"", b";;", b"\xff"))))
    return found


def query_of(chance: random.Random) -> bytes:
    if chance.random() < 0.6:
        return b""
    name = chance.choice((b"limit", b"before", b"token", b"%00", b"\xff"))
    return name + b"=" + chance.choice((b"1", b"-1", b"0", b"9" * 400, b"a", b"", b"1.5", b"%ff", b"\xff", b"null"))


async def storm(fuzzer: Fuzzer, route: tuple[str, str, str], count: int, seen: Callable[[int], None]) -> None:
    method, path, kind = route
    chance = random.Random(f"{method} {path}")
    for _ in range(count):
        target = path
        while "{part}" in target:
            target = target.replace("{part}", part_of(chance, fuzzer.others), 1)
        verb = method if chance.random() < 0.97 else chance.choice(("GET", "PATCH", "OPTIONS", "TRACE", "HEAD", "é"))
        who = fuzzer.owner if chance.random() < 0.8 else fuzzer.alice
        sent = body_of(kind, chance)
        query = query_of(chance)
        status, headers, content = await fuzzer.call(verb, target, query, headers_of(chance, who), sent)
        seen(status)
        asked = (verb, target[:200], query, sent[:300])
        assert status < 500, (status, asked, content[:300])
        assert b"Traceback" not in content, asked
        if status >= 400 and verb != "HEAD":
            assert headers[b"content-type"] == b"application/problem+json", asked
            problem = json.loads(content)
            assert problem["status"] == status
            assert len(problem["detail"]) <= LONGEST_DETAIL
            assert "\n" not in problem["detail"]


def attack(folder: Path, count: int) -> dict[str, dict[int, int]]:
    fuzzer = Fuzzer(folder)
    found: dict[str, dict[int, int]] = {}

    async def main() -> None:
        for route in ROUTES:
            statuses = found.setdefault(f"{route[0]} {route[1]}", {})

            def seen(status: int, statuses: dict[int, int] = statuses) -> None:
                statuses[status] = statuses.get(status, 0) + 1

            await storm(fuzzer, route, count, seen)

    try:
        asyncio.run(main())
        assert fuzzer.tables["survey"].verified()["verified"]
        assert '"level": "error"' not in fuzzer.log.getvalue()
    finally:
        fuzzer.close()
    return found


def test_every_route_is_attacked(tmp_path: Path) -> None:
    fuzzer = Fuzzer(tmp_path)
    try:
        told = asyncio.run(fuzzer.call("GET", "/openapi.json", b"", [], b""))
        described = json.loads(told[2])["paths"]
    finally:
        fuzzer.close()

    def shape(path: str) -> str:
        return re.sub(r"\{\w+\}", "*", path.replace(TABLE, "/v1/tables/*"))

    attacked = {(method, shape(path)) for method, path, _ in ROUTES}
    served = {(method.upper(), shape(path)) for path, methods in described.items() for method in methods}
    assert served <= attacked


def test_broken_requests_are_refused_by_every_route(tmp_path: Path) -> None:
    found = attack(tmp_path, FEW)
    assert all(sum(statuses.values()) == FEW for statuses in found.values())
    assert found[f"POST {TABLE}/ask"].get(200), "nothing valid was among them: this shows little"
    assert found[f"POST {TABLE}/ask"].get(422)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_broken_requests_for_each_route(tmp_path: Path) -> None:
    for route, statuses in attack(tmp_path, MANY).items():
        print(route, dict(sorted(statuses.items())))
