"""Two ways to one answer: the quick path sends what the long way sends, and declines all that is not plain."""

from __future__ import annotations

import io
import json
import math
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.serving import COUNT, in_thread, survey_settings, write_survey

from reticent.knowledge.answer import Answer
from reticent.service import replies
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.http.problems import HttpProblem
from reticent.service.metrics import Log, Metrics
from reticent.service.server import open_tables

OWN = re.compile(rb"^(date|x-request-id): .*\r\n", re.MULTILINE)


@dataclass
class Ways:
    """One table behind two servers: the first has the quick path, the second has not."""

    ports: dict[str, int]
    tokens: Tokens
    analyst: str
    answered: list[bool] = field(default_factory=list)
    """Whether each request that the quick path saw was answered by it."""
    logs: dict[str, io.StringIO] = field(default_factory=dict)
    metrics: dict[str, Metrics] = field(default_factory=dict)

    @contextmanager
    def wire(self, way: str) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.ports[way]), timeout=20) as wire:
            yield wire

    def response(self, way: str, request: bytes) -> bytes:
        with self.wire(way) as wire:
            wire.sendall(request)
            return read_response(wire)


def read_response(wire: socket.socket) -> bytes:
    """One response; all there is where the server hangs up."""
    said = b""
    while part := wire.recv(65536):
        said += part
        head = said.find(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", said)
        if head >= 0 and length is not None and len(said) >= head + 4 + int(length[1]):
            break
    return said


@contextmanager
def served(folder: Path, **changes: Any) -> Iterator[Ways]:
    write_survey(folder)
    settings = survey_settings(folder, **changes)
    tokens = Tokens(Path(settings.tokens))
    token = tokens.create("alice", "analyst")[1]
    ways = Ways({}, tokens, token)
    tables = open_tables(settings)
    apps = {}
    for way in ("quick", "long"):
        ways.logs[way], ways.metrics[way] = io.StringIO(), Metrics()
        apps[way] = create_app(settings, tables, tokens, metrics=ways.metrics[way], log=Log("info", ways.logs[way]))
    respond = apps["quick"].quick

    def noted(data: bytes, headers: list[tuple[bytes, bytes]]) -> bytes | None:
        found = respond(data, headers)
        ways.answered.append(found is not None)
        return found

    apps["quick"].quick, apps["long"].quick = noted, None
    with in_thread(apps["quick"], settings) as first, in_thread(apps["long"], settings) as second:
        ways.ports = {"quick": int(first.rpartition(":")[2]), "long": int(second.rpartition(":")[2])}
        yield ways


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    with served(tmp_path_factory.mktemp("ways")) as found:
        yield found


def posted(
    token: str, body: bytes, *more: str, path: str = "/v1/tables/survey/ask", length: int | None = None
) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *more]
    lines += [f"Content-Length: {len(body) if length is None else length}", "", ""]
    return "\r\n".join(lines).encode() + body


def question(where: Any = None, **terms: Any) -> bytes:
    query = {"query": "count"} if where is None else {"query": "count", "where": where}
    return json.dumps({"query": query, **terms}).encode()


AGE = {"op": ">=", "column": "age", "value": 45}
SEX = {"op": "in", "column": "sex", "values": ["Female", "Male"]}
PLAIN = [
    question(),
    question(AGE),
    question({"op": "and", "of": [AGE, {"op": "not", "of": SEX}]}),
    question({"op": "or", "of": [AGE, {"op": "==", "column": "region", "value": "west"}]}),
    question({"op": "is_null", "column": "smoker"}),
    question({"op": "in", "column": "age", "values": [*range(17, 24), 24.0]}),
    question({"op": "!=", "column": "smoker", "value": "no"}),
    question(AGE, confidence=0.9),
    question(AGE, confidence=0.5, promise="typical"),
    b' {"query": {"query": "mean", "column": "age"}} ',
    b'{"query": {"query": "marginal", "attributes": ["sex", "smoker"]}}',
    b'{"query": {"query": "groups", "attributes": ["region"], "where": {"op": "<", "column": "age", "value": 35}}}',
    b'{"query": {"query": "ratio", "numerator": {"query": "count"}, "denominator": {"query": "count"}}}',
    b'{"query": {"query": "total", "column": "age"}}',
]
REFUSED = [
    question({"op": "in", "column": "age", "values": [17, 18.0, 19]}),
    question({"op": "!=", "column": "smoker", "value": 'n\u00f6 \u2028 "x"'}),
    b"",
    b"[]",
    b"nonsense",
    b'{"query": ',
    b'{"query": {"query": "count"}} trailing',
    b'{"query": NaN}',
    b'{"query": {"query": "count"}, "sql": "SELECT 1"}',
    b'{"query": {"query": "count"}, "else": 1}',
    b'{"query": {"query": "counts"}}',
    b'{"query": {"query": "statistic"}}',
    b'{"query": 5}',
    b"\xff\xfe",
    question({"op": ">=", "column": "aeg", "value": 45}),
    question({"op": ">=", "column": "age", "value": [45]}),
    question({"op": ">=", "column": "age", "value": None}),
    question({"op": ">=", "column": "age"}),
    question({"op": ">=", "column": 5, "value": 45}),
    question({"op": ["x"], "column": "age", "value": 45}),
    question({"op": "in", "column": "age", "values": 45}),
    question({"op": "in", "column": "age", "values": [[45]]}),
    question({"op": "==", "column": "age", "value": "old"}),
    question({"op": "==", "column": "sex", "value": True}),
    question(AGE, confidence=2),
    question(AGE, error=-1),
    question(AGE, error=10**400),
    question(AGE, promise="never"),
    question({"op": "and", "of": [AGE]}),
]


@pytest.mark.parametrize("body", PLAIN, ids=range(len(PLAIN)))
def test_plain_questions_get_the_same_bytes(ways: Ways, body: bytes) -> None:
    request = posted(ways.analyst, body, "Content-Type: application/json; charset=utf-8")
    quick = ways.response("quick", request)
    assert ways.answered[-1], "the quick path declined"
    assert quick.startswith(b"HTTP/1.1 200 OK\r\n")
    assert OWN.sub(b"", quick) == OWN.sub(b"", ways.response("long", request))
    assert len(OWN.findall(quick)) == 2


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_refusals_come_from_the_long_way(ways: Ways, body: bytes) -> None:
    request = posted(ways.analyst, body)
    quick = ways.response("quick", request)
    assert not any(ways.answered[-1:])
    assert quick.startswith(b"HTTP/1.1 4")
    assert OWN.sub(b"", quick) == OWN.sub(b"", ways.response("long", request))


def test_heads_that_are_not_plain_are_declined(ways: Ways) -> None:
    """Each is answered or refused as if there were no quick path."""
    token, body = ways.analyst, question(AGE)
    requests = {
        "wrong token": posted(token[:-2] + "zz", body),
        "no bearer": posted(token, body).replace(b"Bearer", b"Basic"),
        "two tokens": posted(token, body, f"Authorization: Bearer {token}"),
        "two lengths": posted(token, body, f"Content-Length: {len(body)}"),
        "two types": posted(token, body, "Content-Type: application/json", "Content-Type: text/plain"),
        "key": posted(token, body, "Idempotency-Key: a"),
        "media type": posted(token, body, "Content-Type: text/plain"),
        "close": posted(token, body, "Connection: close"),
        "close by proxy": posted(token, body, "Proxy-Connection: close"),
        "upgrade": posted(token, body, "Connection: upgrade", "Upgrade: websocket"),
        "old": posted(token, body).replace(b"HTTP/1.1", b"HTTP/1.0"),
        "no table": posted(token, body, path="/v1/tables/else/ask"),
        "query string": posted(token, body, path="/v1/tables/survey/ask?x=1"),
        "escaped": posted(token, body, path="/v1/tables/surv%65y/ask"),
        "another route": posted(token, question(AGE, error=0.1), path="/v1/tables/survey/cost"),
    }
    for name, request in requests.items():
        before = len(ways.answered)
        quick = ways.response("quick", request)
        assert not any(ways.answered[before:]), name
        assert OWN.sub(b"", quick) == OWN.sub(b"", ways.response("long", request)), name


def test_both_ways_count_and_log_alike(ways: Ways) -> None:
    request = posted(ways.analyst, question(AGE))
    told = {}
    for way in ("quick", "long"):
        before = ways.metrics[way].text((), private=False).splitlines()
        ways.response(way, request)
        grown = set(ways.metrics[way].text((), private=False).splitlines()) - set(before)
        line = json.loads(ways.logs[way].getvalue().splitlines()[-1])
        assert re.fullmatch("[0-9a-f]{16}", line["request"])
        told[way] = {name.split("}")[0] for name in grown}, {**line, "at": 0, "request": ""}
    assert told["quick"] == told["long"]


def test_a_revoked_token_is_refused_on_an_open_connection(ways: Ways) -> None:
    principal, token = ways.tokens.create("eve", "analyst")
    request = posted(token, question(AGE))
    with ways.wire("quick") as wire:
        wire.sendall(request)
        assert read_response(wire).startswith(b"HTTP/1.1 200")
        ways.tokens.revoke(principal.id)
        wire.sendall(request)
        assert read_response(wire).startswith(b"HTTP/1.1 401")


def test_a_token_for_other_tables_sees_none(ways: Ways) -> None:
    token = ways.tokens.create("mallory", "analyst", tables=["else"])[1]
    assert ways.response("quick", posted(token, question(AGE))).startswith(b"HTTP/1.1 404")


def test_a_body_that_looks_like_a_request_is_none(ways: Ways) -> None:
    """The head of the outer request is refused before its body comes: the body must not be taken for the next one."""
    inner = posted(ways.analyst, question(AGE))
    outer = posted("rt_wrong", b"", length=len(inner))
    with ways.wire("quick") as wire:
        wire.sendall(outer)
        assert read_response(wire).startswith(b"HTTP/1.1 401")
        before = len(ways.answered)
        wire.sendall(inner)
        wire.settimeout(0.5)
        with suppress(TimeoutError, ConnectionResetError):
            assert wire.recv(4096) == b""
        assert len(ways.answered) == before, "it did not even see it"


def test_pieces_and_pipelines_are_answered_in_order(ways: Ways) -> None:
    first, second = posted(ways.analyst, question(AGE)), posted(ways.analyst, question(SEX))
    alone = [OWN.sub(b"", ways.response("long", request)) for request in (first, second)]
    with ways.wire("quick") as wire:
        wire.sendall(first + second)
        said = read_response(wire)
        while said.count(b"HTTP/1.1 200") < 2 or not said.endswith(b"}"):
            said += wire.recv(65536)
        assert OWN.sub(b"", said) == b"".join(alone)
        for cut in (3, 40, len(first) - 5):
            wire.sendall(first[:cut])
            wire.sendall(first[cut:])
            assert OWN.sub(b"", read_response(wire)) == alone[0]


def test_the_rate_counts_each_request_once(tmp_path: Path) -> None:
    """Five are allowed at once: quick ones, refused ones and those of the long way take one each."""
    with served(tmp_path, rate=0.001, burst=5) as ways:
        plain = posted(ways.analyst, question(AGE))
        assert ways.response("quick", plain).startswith(b"HTTP/1.1 200")
        assert ways.response("quick", posted(ways.analyst, b"nonsense")).startswith(b"HTTP/1.1 422")
        assert ways.response("quick", plain + b"").startswith(b"HTTP/1.1 200")
        assert ways.response("quick", posted(ways.analyst, b'{"query": 5}')).startswith(b"HTTP/1.1 422")
        assert ways.response("quick", plain).startswith(b"HTTP/1.1 200")
        assert ways.response("quick", plain).startswith(b"HTTP/1.1 429")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"error": None, "confidence": None, "certified": False, "interval": None, "origin": "hypothesis"},
        {"count": None, "note": "±", "basis": 'a "b"\n', "wanted": 1e-300, "snapshot": None, "ledger_id": 3},
        {"value": np.float64(0.25)},
        {"interval": (np.float64(0.1), 0.2)},
        {"origin": "certificate + derived", "query": "\u2028\U0001f600\\"},
        {"value": np.array([0.5, 0.25]), "labels": (("sex", ("f", "m")),), "keys": (("f", "m"),)},
        {"value": 1e16, "count": 5, "fitted": None, "typical": 0.0},
    ],
)
def test_numbers_are_written_like_everything_else(changes: dict[str, Any]) -> None:
    """The short way to write one number gives what the encoder of all documents gives."""
    plain: dict[str, Any] = {"query": "count(everything)", "value": 0.1, "count": 500.0, "error": 0.01}
    plain |= {"confidence": 0.95, "origin": "certificate", "certified": True, "interval": (0.09, 0.11)}
    answer = Answer(**(plain | {"fitted": 0.1, "typical": 0.003, "snapshot": "ab"} | changes))
    document = {"kind": "answer", "result": answer.to_dict(), "guarantee": answer.guarantee}
    meaning = "; ".join(replies.ORIGINS.get(origin, origin) for origin in answer.origin.split(" + "))
    assert replies.encode(answer) == json.dumps({**document, "meaning": meaning}).encode()


def test_no_number_beyond_json_is_written() -> None:
    answer = Answer("count(everything)", math.nan, None, None, None, "hypothesis", False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        replies.encode(answer)


def test_the_survey_question_is_plain(ways: Ways) -> None:
    """What tests ask over and over goes the quick way: else they would test one way only."""
    ways.response("quick", posted(ways.analyst, json.dumps({"query": COUNT}).encode()))
    assert ways.answered[-1]


def test_a_change_by_another_process_is_seen_with_the_next_request(tmp_path: Path) -> None:
    """What was proved before counts for nothing once the file has changed, whoever changed it."""
    first, second = Tokens(tmp_path / "tokens"), Tokens(tmp_path / "tokens")
    principal, token = first.create("alice", "analyst")
    assert second.find(token).name == first.find(token).name == "alice"
    second.revoke(principal.id)
    for tokens in (first, second):
        with pytest.raises(HttpProblem, match="revoked"):
            tokens.find(token)
        tokens.close()


def test_a_proved_token_expires(tmp_path: Path) -> None:
    now = [1000.0]
    tokens = Tokens(tmp_path / "tokens", clock=lambda: now[0])
    token = tokens.create("alice", "analyst", expires=2000)[1]
    assert tokens.find(token).name == "alice"
    assert tokens.find(token).name == "alice"
    now[0] = 2000.0
    with pytest.raises(HttpProblem, match="expired"):
        tokens.find(token)
    tokens.close()


def test_sql_that_was_answered_is_answered_from_its_bytes_next_time(ways: Ways) -> None:
    body = json.dumps({"sql": "SELECT region, COUNT(*) FROM survey WHERE age >= 25 GROUP BY region"}).encode()
    request = posted(ways.analyst, body)
    replies = [OWN.sub(b"", ways.response("quick", request)) for _ in range(2)]
    assert ways.answered[-2:] == [False, True]
    assert replies[0] == replies[1]
