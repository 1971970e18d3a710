"""Which files of the library a question crosses: `python -m scripts.flows` prints two paths and counts them.

A paid SQL question over HTTP, and a free one in process. Every call of a Python function is observed, in all threads,
while the second question of each kind is answered; the first one has warmed the caches.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet

import reticent as rt
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.metrics import Log
from reticent.service.server import open_tables
from reticent.service.settings import Settings, TableSettings

PACKAGE = Path(rt.__file__).parent
DOMAIN = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), smoker=rt.Categorical(["no", "yes"]))


class Observer:
    """Files of the package in which a function was called while `watching`, in the order of their first call."""

    def __init__(self) -> None:
        self.seen: dict[str, None] = {}
        self.on = False
        # Threads inherit it when they start, so it is there before any worker is.
        threading.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if self.on and event == "call" and frame.f_code.co_name != "<module>":
            self.seen.setdefault(frame.f_code.co_filename)

    @contextmanager
    def watching(self) -> Iterator[None]:
        sys.setprofile(self._called)
        self.on = True
        try:
            yield
        finally:
            self.on = False
            sys.setprofile(None)

    @property
    def files(self) -> list[str]:
        return [str(Path(name).relative_to(PACKAGE)) for name in self.seen if Path(name).is_relative_to(PACKAGE)]


def people() -> pa.Table:
    return pa.table({"age": [23, 41, 67, 58] * 1000, "smoker": ["yes", "no", "no", "yes"] * 1000})


def free_in_process() -> list[str]:
    """A count that the warm start certified, asked a second time with another condition."""
    observer = Observer()
    with rt.Session.open(None, rt.Table.of(people(), DOMAIN), rt.Budget(epsilon=1, delta=1e-9)) as session:
        session.ask(rt.count(rt.col("age") >= 40))
        with observer.watching():
            session.ask(rt.count(rt.col("smoker") == "yes"))
    return observer.files


def paid_over_http(folder: Path) -> list[str]:
    """SQL with a wanted error that must be bought, by an analyst's token."""
    observer = Observer()
    pyarrow.parquet.write_table(people(), folder / "people.parquet")
    DOMAIN.write(folder / "people.toml")
    names = (str(folder / name) for name in ("people.parquet", "people.toml", "people.ledger"))
    entry = TableSettings("people", *names, rho=1.0, warm_start=0.0)
    settings = Settings(tables=(entry,), tokens=str(folder / "tokens"), tick=0.0, rate=0.0, wrong_tokens=0.0)
    tokens = Tokens(folder / "tokens")
    token = tokens.create("ann", "analyst")[1]
    tables = open_tables(settings)
    app = create_app(settings, tables, tokens, log=Log("error", io.StringIO()))
    try:
        post(app, token, "SELECT COUNT(*) FROM people WHERE age >= 40")
        with observer.watching():
            answered = post(app, token, "SELECT COUNT(*) FROM people WHERE age >= 60")
    finally:
        for served in tables.values():
            served.close()
        tokens.close()
    if answered != 200:
        raise RuntimeError(f"the paid question was answered with status {answered}")
    return observer.files


def post(app: Callable[..., Any], token: str, sql: str) -> int:
    """One request over ASGI; the status of the response."""
    body = json.dumps({"sql": sql, "error": 100.0}).encode()
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    headers += [(b"content-length", str(len(body)).encode()), (b"idempotency-key", sql[-2:].encode())]
    path = "/v1/tables/people/ask"
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": headers, "client": ("flows", 1), "scheme": "http", "root_path": ""}
    status = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    asyncio.run(app(scope, receive, send))
    return status


def flows() -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "a free count in process": free_in_process(),
            "a paid SQL question over HTTP": paid_over_http(Path(folder)),
        }


def main() -> None:
    for name, files in flows().items():
        print(f"{name}: {len(files)} files")
        for file in files:
            print(f"  {file}")


if __name__ == "__main__":
    main()
