"""A tiny survey behind a real server, in a thread of this process and in a process of its own."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import uvicorn

import reticent as rt
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.metrics import Log
from reticent.service.server import bind_listener, configuration, open_tables
from reticent.service.settings import Settings, TableSettings

ROWS = 5000
DOMAIN = rt.Domain(
    age=rt.Numeric(edges=[17, 25, 35, 45, 55, 65, 90], whole=True, other=False),
    sex=rt.Categorical(["Female", "Male"], other=False),
    smoker=rt.Categorical(["no", "yes"], nullable=True),
    region=rt.Categorical(["north", "south", "west"], other=False),
)
COUNT = {"query": "count", "where": {"op": ">=", "column": "age", "value": 45}}


def write_survey(folder: Path) -> None:
    generator = np.random.default_rng(7)
    age = generator.integers(17, 91, ROWS)
    smoker = np.where(generator.random(ROWS) < 0.1, None, np.where(generator.random(ROWS) < age / 150, "yes", "no"))
    columns = {
        "age": age,
        "sex": generator.choice(["Female", "Male"], ROWS),
        "smoker": smoker.tolist(),
        "region": generator.choice(["north", "south", "west"], ROWS, p=[0.5, 0.3, 0.2]),
    }
    pyarrow.parquet.write_table(pa.table(columns), folder / "survey.parquet")
    DOMAIN.write(folder / "survey.toml")


def survey_settings(folder: Path, **changes: Any) -> Settings:
    table = TableSettings(
        name="survey",
        table=str(folder / "survey.parquet"),
        domain=str(folder / "survey.toml"),
        ledger=str(folder / "survey.ledger"),
        epsilon=4.0,
        delta=1e-9,
        title="Survey",
        warm_start=0.02,  # little is known for free, so that tests can buy
    )
    plain = Settings(tables=(table,), tokens=str(folder / "tokens"), tick=0.0, rate=0.0, wrong_tokens=0.0)
    return replace(plain, **changes)


@dataclass
class Service:
    """An application under test with two analysts and a custodian."""

    client: httpx.Client
    settings: Settings
    tokens: Tokens
    log: io.StringIO
    custodian: dict[str, str]
    alice: dict[str, str]
    bob: dict[str, str]
    tables: dict[str, Any]

    def ask(self, body: dict[str, Any], who: dict[str, str] | None = None, key: str | None = None) -> httpx.Response:
        headers = dict(who or self.alice)
        if key is not None:
            headers["Idempotency-Key"] = key
        return self.client.post("/v1/tables/survey/ask", json=body, headers=headers)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def secret_of(token: str) -> str:
    """What only its holder may know; it may hold underscores of its own."""
    return token.split("_", 2)[2]


@contextmanager
def running_app(folder: Path, **changes: Any) -> Iterator[Service]:
    write_survey(folder)
    settings = survey_settings(folder, **changes)
    tokens = Tokens(Path(settings.tokens))
    people = {
        name: bearer(tokens.create(name, role)[1])
        for name, role in (("carol", "custodian"), ("alice", "analyst"), ("bob", "analyst"))
    }
    log = io.StringIO()
    tables = open_tables(settings)
    app = create_app(settings, tables, tokens, log=Log("info", log))
    with in_thread(app, settings) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield Service(client, settings, tokens, log, people["carol"], people["alice"], people["bob"], tables)


@contextmanager
def in_thread(app: Any, settings: Settings) -> Iterator[str]:
    """Served over a real socket."""
    listener = bind_listener(replace(settings, port=0))
    server = uvicorn.Server(configuration(app, settings, public=True))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@dataclass
class Server:
    """`reticent serve` as a process of its own."""

    folder: Path
    arguments: list[str]
    process: subprocess.Popen | None = None
    url: str = ""
    patience: float = 60.0

    def start(self) -> Server:
        command = [sys.executable, "-c", "from reticent.cli import main; main()", "serve", "survey.parquet"]
        fixed = ["--domain", "survey.toml", "--ledger", "survey.ledger", "--port", "0", *self.arguments]
        with (self.folder / "log").open("ab") as log:
            start = log.tell()
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen(
                [*command, *fixed], cwd=self.folder, stdout=log, stderr=log, env=environment
            )
        self.url = self._announced(start)
        return self

    def _announced(self, start: int) -> str:
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            text = (self.folder / "log").read_bytes()[start:].decode()
            if " on http" in text:
                url = text.partition(" on http")[2].split()[0]
                if self._answers("http" + url):
                    return "http" + url
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def _answers(self, url: str) -> bool:
        try:
            return httpx.get(f"{url}/health", timeout=5, verify=False).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def custodian(self) -> str:
        return (self.folder / "survey.ledger.tokens.custodian").read_text().strip()

    def kill(self, sign: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(sign)
        return self.process.wait(30)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill(signal.SIGTERM)

    def log(self) -> str:
        return (self.folder / "log").read_text()
