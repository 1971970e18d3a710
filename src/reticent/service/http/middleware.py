"""The middleware of every request: checks headers, size, token and rate, then counts and logs the outcome.

A free question without a key is answered before routing: finding a route and resolving its dependencies took three
quarters of the time of a free answer. Questions that may have a price, and all other requests, go through the routes.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from reticent.errors import ReticentError
from reticent.service.admission import Admission, read_body
from reticent.service.auth import Principal
from reticent.service.http.head_limits import QuickAnswering
from reticent.service.http.problems import HttpProblem, problem_of, storage_problem
from reticent.service.metrics import Log, Metrics
from reticent.service.settings import TABLE_NAME, Settings

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

PRINCIPAL = "reticent.principal"
BODY = "reticent.body"
NOTE = "reticent.note"

SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
}
FAILED = HttpProblem("internal", "Internal error. Quote the request id when you report it.")
_ASK = re.compile(f"/v1/tables/({TABLE_NAME})/ask")
_JSON = b"application/json"
_HEADERS = [(b"content-type", _JSON)]
_SECURITY = [(name.encode(), value.encode()) for name, value in SECURITY.items()]


class Middleware:
    """Wraps an application that finds the user in `scope[PRINCIPAL]` and the whole body in `scope[BODY]`."""

    def __init__(
        self,
        app: App,
        settings: Settings,
        admission: Admission,
        metrics: Metrics,
        log: Log,
        quick: QuickAnswering | None = None,
    ) -> None:
        self.quick = quick
        """What the server may try before it calls this application."""
        self._app = app
        self._settings = settings
        self._admission = admission
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        exchange = _Exchange(send)
        scope[NOTE] = note = {"route": "openapi" if scope["path"] == "/openapi.json" else "refused"}
        try:
            headers = _single_headers(scope)
            scope[PRINCIPAL] = self._principal(scope, headers)
            body = await read_body(
                receive, headers.get(b"content-length"), self._settings.body_limit, self._settings.body_seconds
            )
            scope[BODY] = body
            await self._app(scope, _replayed(body, receive), exchange.send)
        except HttpProblem as problem:
            await exchange.problem(problem)
        except ReticentError as error:
            await exchange.problem(problem_of(error))
        except ConnectionResetError:
            return
        except Exception as error:
            self._log.failure("request", error, request=exchange.identity)
            if not exchange.status:
                await exchange.problem((isinstance(error, OSError) and storage_problem(error)) or FAILED)
            elif not exchange.complete:
                raise  # half a reply is out: only hanging up tells the client
        self._finish(scope, note, exchange, time.perf_counter() - started)

    def _finish(self, scope: Scope, note: dict[str, Any], exchange: _Exchange, seconds: float) -> None:
        if note.pop("counted", True):
            # What a reader passes on is counted once, by the writer, under its own name.
            self._metrics.request(note["route"], exchange.status or 500)
        if "origin" in note:
            self._metrics.answered(note["origin"], note["paid"], seconds)
        principal = scope.get(PRINCIPAL)
        self._log.info(
            "request",
            method=scope["method"] if scope["method"].isalpha() else "?",
            status=exchange.status,
            who=principal.name if principal else None,
            request=exchange.identity,
            **note,
        )

    def _principal(self, scope: Scope, headers: dict[bytes, bytes]) -> Principal | None:
        if not scope["path"].startswith(("/v1/", "/metrics")):
            return None
        client = (scope.get("client") or ("local", 0))[0]
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else ""
        principal = self._admission.by_token(given, client)
        self._admission.count(principal)
        return principal


class _Exchange:
    """Adds the service's headers to a response and records its status."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.status = 0
        self.complete = False
        self.identity = secrets.token_hex(8)

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name for name, _ in message["headers"]}
            added = [pair for pair in _SECURITY if pair[0] not in own]
            message["headers"] = [*message["headers"], *added, (b"x-request-id", self.identity.encode())]
        elif message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        await self._send(message)

    async def problem(self, problem: HttpProblem) -> None:
        body = problem.body()
        headers = [(name.encode(), value.encode()) for name, value in problem.headers().items()]
        headers.append((b"content-length", str(len(body)).encode()))
        if problem.kind in ("too-large", "slow"):
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self.send_body(body)

    async def send_body(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body})


def _single_headers(scope: Scope) -> dict[bytes, bytes]:
    """Refuse repeated headers that affect processing, because two readers might use different ones."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in found and name in (b"authorization", b"idempotency-key", b"content-length"):
            raise HttpProblem("request", f"the header {name.decode()} is sent twice")
        found[name] = value
    return found


def _replayed(body: bytes, receive: Any) -> Any:
    """The body once more, then the further messages of the connection."""
    told = False

    async def again() -> dict[str, Any]:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class FreeTable(Protocol):
    """A table that can be asked for what is free."""

    async def free_answer(self, body: bytes, who: Principal) -> tuple[bytes, str] | None:
        """Bytes and origin of the answer; None where what is known is not good enough."""
        ...


class FreePath:
    """An ASGI application before another one, which gets whatever is not free."""

    def __init__(self, app: App, tables: Mapping[str, FreeTable]) -> None:
        self._app = app
        self._tables = tables

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        table = self._table(scope) if scope["type"] == "http" else None
        if table is not None:
            scope[NOTE]["route"] = "ask"
            answered = await table.free_answer(scope[BODY], scope[PRINCIPAL])
            if answered is not None:
                body, origin = answered
                scope[NOTE].update(origin=origin, paid=False)
                await send_whole(send, 200, _HEADERS, body)
                return
        await self._app(scope, receive, send)

    def _table(self, scope: Scope) -> FreeTable | None:
        """The table, if this person may see it; a key may stand for a paid answer, so then the route looks."""
        found = _ASK.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        person = scope.get(PRINCIPAL)
        if found is None or person is None or not person.may_see(found.group(1)):
            return None
        kind = _JSON
        for name, value in scope["headers"]:
            if name == b"idempotency-key":
                return None
            if name == b"content-type":
                kind = value.partition(b";")[0].strip().lower()
        return self._tables.get(found.group(1)) if kind == _JSON else None


async def send_whole(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """A response in one piece."""
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
