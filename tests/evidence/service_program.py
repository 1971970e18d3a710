"""A server over one table, asked through its own interface: for record and replay of what leaves over HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from reticent.auditing.neighbours import EVERY, some_loss
from reticent.auditing.programs import RHO, Program, some_sql
from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.table import Table
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.metrics import Log
from reticent.service.server import open_tables
from reticent.service.settings import Settings, TableSettings
from reticent.sources import Table as SourceTable

QUESTIONS = 5


async def request(app: Any, token: str, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, bytes]:
    """One request over ASGI: status and body of the response."""
    sent = b"" if body is None else json.dumps(body).encode()
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    headers += [(b"content-length", str(len(sent)).encode())] if sent else []
    headers += [(b"idempotency-key", key.encode())] if key else []
    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": headers, "client": ("test", 1), "scheme": "http", "root_path": ""}
    status, pieces = 0, []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        pieces.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(pieces)


def serving(table: Table, budget: Budget, rng: random.Random) -> Iterator[object]:
    """SQL, counts, marginals, models, prices, the budget and the history of one analyst; refusals as they are."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry = TableSettings(
            "t", "nowhere", "nowhere", str(folder / "t.ledger"), rho=float(budget.rho or 1), warm_start=0.1
        )
        settings = Settings(tables=(entry,), tokens=str(folder / "tokens"), tick=0.0, rate=0.0, wrong_tokens=0.0)
        tokens = Tokens(folder / "tokens")
        token = tokens.create("ann", "analyst")[1]
        rows = patch.object(SourceTable, "read", lambda *_, **__: table)
        with rows, patch.object(Domain, "read", lambda _: table.domain):
            tables = open_tables(settings)
        app = create_app(settings, tables, tokens, log=Log("error", io.StringIO()))
        try:
            for number in range(QUESTIONS):
                path, body = _question(rng, table.domain)
                yield asyncio.run(request(app, token, "POST", f"/v1/tables/t/{path}", body, f"key-{number}"))
            yield asyncio.run(request(app, token, "GET", "/v1/tables/t/budget"))
        finally:
            for served in tables.values():
                served.close()
            tokens.close()


def _question(rng: random.Random, domain: Domain) -> tuple[str, dict[str, Any]]:
    name = rng.choice(domain.names)
    match rng.randrange(5):
        case 0:
            return "ask", {"sql": some_sql(rng, domain), "error": rng.choice(["5%", "20%", 3.0])}
        case 1:
            return "ask", {"query": {"query": "marginal", "attributes": [name]}, "error": 0.2}
        case 2:
            return "minimize", {"loss": some_loss(rng, domain, *EVERY).to_dict(), "error": 1.0}
        case 3:
            return "cost", {"query": {"query": "count"}, "error": 0.01}
        case _:
            where = {"op": ">=", "column": name, "value": 1}
            return "ask", {"query": {"query": "count", "where": where}, "error": rng.choice([0.02, 0.2])}


SERVICE = Program(serving, budgets=(RHO,), weight=0.3)
