"""Who may not come in, what may not come in, and what never goes out."""

from __future__ import annotations

import itertools
import json
import socket
import time
from pathlib import Path

import httpx
import pytest
from tests.service.serving import COUNT, Service, bearer, running_app, secret_of

ASK = "/v1/tables/survey/ask"
CUSTODIAN_ONLY = [
    ("GET", "/v1/tokens", None),
    ("POST", "/v1/tokens", {"name": "mallory"}),
    ("POST", "/v1/tokens/000000000000/rotate", {}),
    ("DELETE", "/v1/tokens/000000000000", None),
    ("GET", "/v1/tables/survey/caps", None),
    ("PUT", "/v1/tables/survey/caps/alice", {"amount": 1}),
    ("GET", "/v1/tables/survey/spending", None),
    ("POST", "/v1/tables/survey/verification", None),
    ("POST", "/v1/tables/survey/releases", {"title": "mine"}),
]


def refused(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()["detail"]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic YWxpY2U6c2VjcmV0"},
        {"Authorization": "Bearer rt_000000000000_" + "A" * 43},
        {"Authorization": "Bearer " + "x" * 5000},
        {"Authorization": "Bearer ' OR 1=1 --"},
    ],
)
def test_a_missing_or_wrong_token_opens_nothing(service: Service, header: dict[str, str]) -> None:
    response = service.client.get("/v1/me", headers=header)
    refused(response, 401)
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_a_right_id_with_a_wrong_secret_sounds_like_an_unknown_token(service: Service) -> None:
    token = service.alice["Authorization"].removeprefix("Bearer ")
    forged = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    details = {
        refused(service.client.get("/v1/me", headers=bearer(text)), 401)
        for text in (forged, "rt_000000000000_" + "A" * 43)
    }
    assert len(details) == 1


def test_expired_rotated_and_revoked_tokens_end_at_once(service: Service) -> None:
    now = int(time.time())
    _, old = service.tokens.create("expired", "analyst", expires=now - 1)
    refused(service.client.get("/v1/me", headers=bearer(old)), 401)
    made = service.client.post("/v1/tokens", json={"name": "dora", "days": 1}, headers=service.custodian).json()
    assert service.client.get("/v1/me", headers=bearer(made["token"])).json()["expires"] > now
    fresh = service.client.post(f"/v1/tokens/{made['id']}/rotate", json={}, headers=service.custodian).json()
    refused(service.client.get("/v1/me", headers=bearer(made["token"])), 401)
    assert service.client.get("/v1/me", headers=bearer(fresh["token"])).status_code == 200
    assert service.client.delete(f"/v1/tokens/{made['id']}", headers=service.custodian).json()["revoked"]
    refused(service.client.get("/v1/me", headers=bearer(fresh["token"])), 401)
    refused(service.client.post(f"/v1/tokens/{made['id']}/rotate", json={}, headers=service.custodian), 409)


def test_the_last_custodian_cannot_lock_the_door_behind_everybody(service: Service) -> None:
    people = service.client.get("/v1/tokens", headers=service.custodian).json()["tokens"]
    carol = next(person for person in people if person["name"] == "carol")
    refused(service.client.delete(f"/v1/tokens/{carol['id']}", headers=service.custodian), 409)


@pytest.mark.parametrize(("method", "path", "body"), CUSTODIAN_ONLY)
def test_an_analyst_may_not_do_what_a_custodian_does(service: Service, method: str, path: str, body: object) -> None:
    refused(service.client.request(method, path, json=body, headers=service.alice), 403)
    refused(service.client.request(method, path, json=body), 401)


def test_no_custodians_route_is_left_out_above(service: Service) -> None:
    document = service.client.get("/openapi.json").json()
    tagged = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if "custodian" in operation.get("tags", ())
    }
    shown = {"000000000000": "{token}", "survey": "{table}", "alice": "{analyst}"}
    tried = {
        (method, "/".join(shown.get(part, part) for part in path.split("/"))) for method, path, _ in CUSTODIAN_ONLY
    }
    assert tried == tagged


def test_a_token_in_the_address_opens_nothing(service: Service) -> None:
    token = service.alice["Authorization"].removeprefix("Bearer ")
    for path in (f"/v1/me?token={token}", f"/v1/me?access_token={token}"):
        refused(service.client.get(path), 401)
    refused(service.client.get("/v1/me", headers={"Cookie": f"token={token}"}), 401)


def test_a_token_for_other_tables_does_not_see_this_one(service: Service) -> None:
    _, token = service.tokens.create("stranger", "analyst", tables=["elsewhere"])
    assert service.client.get("/v1/me", headers=bearer(token)).json()["tables"] == []
    for path in ("", "/budget", "/history", "/releases", "/certificates"):
        refused(service.client.get(f"/v1/tables/survey{path}", headers=bearer(token)), 404)
    refused(service.client.post(ASK, json={"query": COUNT}, headers=bearer(token)), 404)


def test_another_analysts_token_does_not_replay_my_key(service: Service) -> None:
    body = {"query": {"query": "count", "where": {"op": "<", "column": "age", "value": 55}}, "error": 0.004}
    mine = service.ask(body, service.alice, "secret-key")
    spent = service.client.get("/v1/tables/survey/budget", headers=service.bob).json()["own_spent"]
    theirs = service.ask(body, service.bob, "secret-key")
    # Bob gets what everybody may know by now, for free: not Alice's paid reply.
    assert mine.json()["result"]["price"] > 0
    assert theirs.json()["result"]["price"] == 0
    assert service.client.get("/v1/tables/survey/budget", headers=service.bob).json()["own_spent"] == spent


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2fetc%2fpasswd",
        "/static//etc/passwd",
        "/v1/tables/survey/releases/..%2f..%2f/csv",
        "/v1/tables/survey/releases/r0001/..%2ffacts.json",
        "/v1/tables/..%2f..%2fetc/budget",
    ],
)
def test_no_path_leads_out_of_the_page_or_the_shelf(service: Service, path: str) -> None:
    raw = service.client.build_request("GET", "/x", headers=service.alice)
    raw.url = raw.url.copy_with(raw_path=path.encode())
    response = service.client.send(raw)
    assert response.status_code in (404, 422)
    assert "root:" not in response.text
    assert "import" not in response.text


def test_oversized_bodies_are_refused_before_they_are_read(service: Service) -> None:
    limit = service.settings.body_limit
    refused(service.client.post(ASK, content=b" " * (limit + 1), headers=service.alice), 413)

    def endless():
        while True:
            yield b"x" * 8192

    try:
        response = service.client.post(ASK, content=endless(), headers=service.alice)
        refused(response, 413)
    except httpx.TransportError:
        pass  # the server hung up while we were still sending


def test_slow_bodies_are_let_go(tmp_path: Path) -> None:
    with running_app(tmp_path, body_seconds=0.3) as service:
        url = service.client.base_url
        with socket.create_connection((url.host, url.port), timeout=60) as wire:
            token = service.alice["Authorization"]
            wire.sendall(
                f"POST {ASK} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Length: 50\r\n\r\n{{".encode()
            )
            assert b" 408 " in wire.recv(4096).split(b"\r\n")[0] + b" "


TRICKLE = 400
"""Pieces, one every twentieth of a second: twenty seconds, forty times what a head may take here."""


def dribbled(url: httpx.URL, pieces: list[bytes], pause: float) -> tuple[bytes, int]:
    """Everything the server says while the pieces trickle in, and how many it took; it must hang up in the end."""
    said, sent = b"", 0
    with socket.create_connection((url.host, url.port or 80), timeout=60) as wire:
        try:
            for piece in pieces:
                wire.sendall(piece)
                sent += 1
                time.sleep(pause)
        except ConnectionError:
            pass  # the server has hung up; what it said is still there to read
        try:
            while part := wire.recv(4096):
                said += part
        except ConnectionError:
            pass
    return said, sent


@pytest.mark.parametrize(
    "pieces",
    [
        [b"GET /health HTTP/1.1\r\nHost: x\r\n", *[b"X-Slow: 1\r\n"] * TRICKLE],
        [b"GET /health HTTP/1.1\r\nX: ", *[b"a"] * TRICKLE],
        [b"\r\n"] * TRICKLE,
        [b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", *[b"G"] + [b"E"] * TRICKLE],
    ],
    ids=["lines", "bytes", "nothing but line ends", "the second request"],
)
def test_dribbled_headers_are_cut_off(tmp_path: Path, pieces: list[bytes]) -> None:
    with running_app(tmp_path, head_seconds=0.5) as service:
        said, sent = dribbled(service.client.base_url, pieces, 0.05)
        assert b"HTTP/1.1 408 Request Timeout" in said or b"HTTP/1.1 400" in said
        assert sent < len(pieces), "the head's time ends, however often a piece of it comes"
        assert service.client.get("/health").status_code == 200


def test_a_silent_connection_is_closed_and_an_idle_one_may_ask_again(tmp_path: Path) -> None:
    with running_app(tmp_path, head_seconds=0.3) as service:
        assert dribbled(service.client.base_url, [], 0) == (b"", 0)
        assert service.client.get("/health").status_code == 200
        time.sleep(0.6)  # longer than a head may take: between two requests nothing is late
        first, last = (
            b"GET /health HTTP/1.1\r\nHost: x\r\n" + rest for rest in (b"\r\n", b"Connection: close\r\n\r\n")
        )
        said, _ = dribbled(service.client.base_url, [first, b"", last], 0.4)
        assert said.count(b"HTTP/1.1 200 OK") == 2


def test_endless_headers_are_cut_off(service: Service) -> None:
    lines = [b"GET /health HTTP/1.1\r\nHost: x\r\n", *[b"X-Long: " + b"a" * 4000 + b"\r\n"] * 40]
    said, sent = dribbled(service.client.base_url, lines, 0.005)
    assert b" 413 " in said.split(b"\r\n")[0] + b" " or said == b""  # a reset may swallow the words
    assert sent < len(lines)


def test_headers_cannot_be_injected_or_doubled(service: Service) -> None:
    url = service.client.base_url

    def send(lines: list[str]) -> bytes:
        with socket.create_connection((url.host, url.port), timeout=10) as wire:
            wire.sendall(("\r\n".join([*lines, "Connection: close", "", ""])).encode("latin-1"))
            parts = []
            while part := wire.recv(4096):
                parts.append(part)
            return b"".join(parts)

    token = f"Authorization: {service.alice['Authorization']}"
    twice = send(["GET /v1/me HTTP/1.1", "Host: x", token, "Authorization: Bearer other"])
    assert b" 422 " in twice.split(b"\r\n")[0] + b" "
    path = send(["GET /v1/%0d%0aX-Injected:%20yes HTTP/1.1", "Host: x", token])
    assert b"\r\nx-injected" not in path.lower()
    key = service.client.post(
        ASK, json={"query": COUNT, "error": 0.1}, headers={**service.alice, "Idempotency-Key": "a b;c"}
    )
    refused(key, 422)
    host = send(["GET /health HTTP/1.1", "Host: evil.example"])
    assert b"evil.example" not in host


def test_questions_that_are_too_much_work_are_refused_by_their_size(service: Service) -> None:
    marginal = {"query": "marginal", "attributes": ["age", "sex", "smoker", "region"]}
    assert service.ask({"query": marginal}).status_code == 200
    conditions = itertools.product((25, 35, 45, 55, 65), "<>", ("Female", "Male"), ("no", "yes"), ("north", "west"))
    counts = ", ".join(
        f"COUNT(*) FILTER (WHERE age {'<' if op == '<' else '>='} {age} AND sex = '{sex}' AND smoker = '{smoker}'"
        f" AND region = '{region}')"
        for age, op, sex, smoker, region in conditions
    )
    detail = refused(service.ask({"sql": f"SELECT {counts} FROM survey", "error": 0.01}), 422)
    assert "80 purchases" in detail
    refused(service.client.post(ASK, content=b'{"query":' * 9000 + b"1" + b"}" * 9000, headers=service.alice), 413)
    deep = b'{"op":"not","of":' * 2000 + b'{"op":"everything"}' + b"}" * 2000
    refused(
        service.client.post(ASK, content=b'{"query":{"query":"count","where":' + deep + b"}}", headers=service.alice),
        422,
    )


def test_too_many_requests_must_wait(tmp_path: Path) -> None:
    with running_app(tmp_path, rate=2.0, burst=5.0) as service:
        codes = [service.client.get("/v1/me", headers=service.alice).status_code for _ in range(12)]
        assert codes[:5] == [200] * 5
        assert 429 in codes
        other = service.client.get("/v1/me", headers=service.bob)
        assert other.status_code == 200


def test_guessing_tokens_is_slowed_down(tmp_path: Path) -> None:
    with running_app(tmp_path, wrong_tokens=5.0) as service:
        codes = [service.client.get("/v1/me", headers=bearer(f"rt_{i}")).status_code for i in range(40)]
        assert set(codes) == {401, 429}
        assert service.client.get("/v1/me", headers=service.alice).status_code == 200


def test_the_page_may_run_only_its_own_scripts(service: Service) -> None:
    page = service.client.get("/")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert "<script>" not in page.text
    assert "style=" not in page.text


def test_neither_token_nor_question_nor_answer_is_logged(service: Service) -> None:
    secret = "zebra-crossing-17"
    service.ask({"sql": f"SELECT COUNT(*) FROM survey WHERE sex = '{secret}'"})
    service.ask({"query": COUNT, "error": 0.0035}, key="log-check")
    service.client.get(f"/v1/{secret}?token={secret}", headers=service.alice)
    service.client.get("/v1/me", headers=bearer(f"rt_{secret}"))
    lines = [json.loads(line) for line in service.log.getvalue().splitlines()]
    text = service.log.getvalue()
    allowed = {"at", "level", "event", "method", "status", "who", "request", "route", "origin", "paid", "message"}
    assert {key for line in lines for key in line} <= allowed
    assert any(line.get("who") == "alice" for line in lines)
    for header in (service.alice, service.bob, service.custodian):
        assert header["Authorization"].removeprefix("Bearer ") not in text
        assert secret_of(header["Authorization"]) not in text
    assert secret not in text
    assert "SELECT" not in text
    assert "count(" not in text


def test_a_failure_is_logged_without_its_words(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of foreign libraries may quote a row: neither the log nor the reply repeats them."""
    row = "Ada Lovelace, 36, smoker"

    def fails(*_: object) -> None:
        raise RuntimeError(row)

    for way in ("find", "light"):
        monkeypatch.setattr(service.tables["survey"].questions, way, fails)
    unheard = {"query": "count", "where": {"op": "in", "column": "region", "values": ["north", "north", "south"]}}
    reply = service.ask({"query": unheard})
    refused(reply, 500)
    assert row not in reply.text
    assert row not in service.log.getvalue()
    last = [json.loads(line) for line in service.log.getvalue().splitlines() if "RuntimeError" in line][-1]
    assert last["place"].rpartition(":")[0].endswith("test_security")


def test_tokens_are_hashed_at_rest_and_the_file_is_private(service: Service) -> None:
    path = Path(service.settings.tokens)
    assert path.stat().st_mode & 0o777 == 0o600
    stored = path.read_bytes()
    for header in (service.alice, service.bob, service.custodian):
        assert secret_of(header["Authorization"]).encode() not in stored
