"""Seeded histories of a whole server: the real application over the simulated machine, on a clock of the seed's.

Requests come over the server's own ASGI interface, in the seed's order; work that a server does in threads is done at
moments of the simulated clock. What a client has received, it holds the server to, in this life and in all later ones.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import selectors
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.session_tables import DOMAIN, table
from tests.simulation.ledger_world import MEMORY, Violation, need
from tests.simulation.machine import Machine, Plan, Volume
from tests.simulation.wiring import Clock, wired

from reticent.domain import Domain
from reticent.errors import ReticentError
from reticent.kernel.accounting import NANO
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.verify import verify
from reticent.kernel.mechanisms import sampling
from reticent.kernel.mechanisms.sampler_check import verify_samplers
from reticent.service import paid_answers
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.metrics import Log
from reticent.service.server import open_tables
from reticent.service.settings import Settings, TableSettings
from reticent.sources import Table

NAMES = ("alice", "bob")
COLUMNS = ("a", "b", "c", "e")
TABLE = table(40, weight=50)
LIVES = 3
RHO, SCARCE = 0.02, 0.001
"""Ample, and so little that some histories exhaust it."""
TOLERANCE = 1e-9


class Instant(selectors.BaseSelector):
    """Waits for nothing: a loop that has nothing to do moves its clock instead."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[Any]:
        # A little more than asked for: beside the seconds of an era a float cannot tell the moment itself.
        self._machine.clock += (timeout or 0.0) + 1e-6
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return self._keys[fileobj]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Any:
        return self._keys


class Loop(asyncio.SelectorEventLoop):
    """An event loop in simulated time; what threads would do happens when the seed says."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(Instant(machine))

    def time(self) -> float:
        return self._machine.clock

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:
                done.set_exception(error)

        self.call_later(self._machine.rng.random(), work)
        return done


@cache
def people(process: int) -> tuple[Tokens, dict[str, str]]:
    """Tokens are no part of the simulation: made once for a process of the tests."""
    tokens = Tokens(Path(tempfile.mkdtemp(prefix="reticent-")) / "tokens")
    roles = {"alice": "analyst", "bob": "analyst", "carol": "custodian"}
    return tokens, {name: tokens.create(name, role)[1] for name, role in roles.items()}


@cache
def application(process: int) -> tuple[Any, dict[str, Any]]:
    """The application over tables that every life puts in anew."""
    verify_samplers()  # once, of the system's entropy
    tables: dict[str, Any] = {}
    silent = Log("error", io.StringIO())
    return create_app(settings("x.ledger", "x.anchor"), tables, people(process)[0], log=silent), tables


def settings(ledger: str, anchor: str, rho: float = RHO) -> Settings:
    entry = TableSettings("t", "nowhere", "nowhere", ledger, rho=rho, anchor=anchor, warm_start=0.0)
    return Settings(tables=(entry,), tokens="nowhere", tick=0.25, rate=0.0, wrong_tokens=0.0)


class Entropy:
    """Stands for `os` in the samplers: noise of the seed's."""

    def __init__(self, rng: random.Random) -> None:
        self.urandom = rng.randbytes


class ServerWorld:
    """One table behind a server that dies and starts again."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(f"server {seed}")
        self.disk, self.other = Volume(folder / "disk"), Volume(folder / "other")
        self.machine = Machine(self.rng, self.disk, self.other)
        rho = self.rng.choice([RHO, RHO, SCARCE])
        self.settings = settings(str(self.disk.folder / "t.ledger"), str(self.other.folder / "t.anchor"), rho)
        self.app, self.tables = application(os.getpid())
        self.tokens = people(os.getpid())[1]
        self.bodies: dict[tuple[str, str], bytes] = {}
        """What a person's key has paid for."""
        self.asked: dict[tuple[str, str], dict[str, Any]] = {}
        self.paid: dict[bytes, float] = {}
        """Every paid answer that left, with its price."""
        self.spent = 0.0
        self.copy: bytes | None = None
        self.touched = False

    # ---- clients

    def question(self) -> dict[str, Any]:
        rng = self.rng
        first, second = rng.sample(COLUMNS, 2)
        where = {"op": "==", "column": first, "value": rng.randrange(DOMAIN[first].size)}
        error = rng.choice(["3%", "5%", "10%"])
        match rng.randrange(8):
            case 0:
                return {"sql": f"SELECT {second}, COUNT(*) FROM t WHERE {first} = 0 GROUP BY {second}", "error": error}
            case 1 | 2:
                return {"query": {"query": "marginal", "attributes": [second]}, "error": error}
            case _:
                return {"query": {"query": "count", "where": where}, "error": error}

    async def request(self, who: str, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, bytes]:
        sent = b"" if body is None else json.dumps(body).encode()
        headers = [(b"authorization", f"Bearer {self.tokens[who]}".encode()), (b"content-type", b"application/json")]
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

        await self.app(scope, receive, send)
        return status, b"".join(pieces)

    async def client(self, who: str) -> None:
        """Asks now and then, with keys new and old; may hang up; believes only what reached it."""
        rng = self.rng
        for _ in range(rng.randint(1, 4)):
            await asyncio.sleep(rng.random() * 3)
            old = [place for place in self.asked if place[0] == who]
            if old and rng.random() < 0.5:
                place = rng.choice(old)
            else:
                place = who, f"k{len(self.asked)}"
                self.asked[place] = self.question()
            asking = asyncio.ensure_future(self.request(who, "POST", "/v1/tables/t/ask", self.asked[place], place[1]))
            if rng.random() < 0.1:
                await asyncio.sleep(rng.random())
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking
                continue
            status, body = await asking
            self.received(place, status, body)

    def received(self, place: tuple[str, str], status: int, body: bytes) -> None:
        process = self.machine.process
        if process.dead:
            return
        if status != 200:
            kind = json.loads(body)["type"].rpartition(":")[2]
            usual = ("budget", "busy", "rate", "forfeited")
            need(kind in usual or process.failed or self.touched, f"{place}: refused as {kind}: {body[:300]!r}")
            return
        price = json.loads(body)["result"]["price"]
        if price > 0:
            need(self.bodies.setdefault(place, body) == body, f"{place} was paid for and answered in two ways")
            self.paid[body] = price

    async def custodian(self) -> None:
        """Looks at the budget and verifies; backs up while the server runs."""
        rng = self.rng
        for _ in range(rng.randint(0, 2)):
            await asyncio.sleep(rng.random() * 8)
            status, body = await self.request("carol", "GET", "/v1/tables/t/budget")
            if self.machine.process.dead or status != 200:
                return
            self.observe(json.loads(body)["spent"])
            status, body = await self.request("carol", "POST", "/v1/tables/t/verification")
            if not self.machine.process.dead and not self.machine.process.failed:
                need(json.loads(body)["verified"], f"the running ledger does not verify: {body!r}")

    def observe(self, spent: float) -> None:
        need(spent >= self.spent - TOLERANCE, f"spent fell from {self.spent} to {spent}")
        need(sum(self.paid.values()) <= spent + TOLERANCE, "answers left that were not charged")
        self.spent = spent

    # ---- lives

    def run(self) -> None:
        for _ in range(self.rng.randint(1, LIVES)):
            self.live(self.plan())
            self.between()
        self.live(Plan())
        self.machine.start(Plan())
        statement = verify(self.settings.tables[0].ledger, anchor=self.settings.tables[0].anchor)
        self.observe(statement.history.spent / NANO)
        need(not statement.damaged, f"damaged: {statement.damaged}")

    def plan(self) -> Plan:
        rng = self.rng
        plan = Plan(dies=rng.randint(1, rng.choice([40, 150]))) if rng.random() < 0.75 else Plan()
        if rng.random() < 0.2:
            start = rng.randint(30, 120)
            plan.full = range(start, start + rng.choice([1, 5, 40]))
        return plan

    def live(self, plan: Plan) -> None:
        process = self.machine.start(plan)
        loop = Loop(self.machine)
        loop.set_exception_handler(lambda *_: None)  # what a dead server's tasks ended with
        try:
            with patch.object(Table, "read", lambda *_, **__: TABLE), patch.object(Domain, "read", lambda _: DOMAIN):
                opened = self.opened()
            if opened is None:
                return
            self.tables.update(opened)
            loop.run_until_complete(self.serve())
            if not process.dead and not process.failed and self.rng.random() < 0.5:
                for served in self.tables.values():
                    served.close()
        except ReticentError:
            need(process.dead or process.failed, "the server stopped although nothing hindered it")
        finally:
            process.end()
            self.tables.clear()
            loop.close()

    def opened(self) -> dict[str, Any] | None:
        process = self.machine.process
        try:
            opened = open_tables(self.settings)
        except ReticentError as refusal:
            if process.dead or process.failed:
                return None
            need(self.touched, f"a ledger that lost nothing does not open: {refusal}")
            self.accept()
            opened = open_tables(self.settings)
        if process.dead:
            return None
        self.touched = False
        return opened

    def accept(self) -> None:
        """`reticent ledger accept-rollback`."""
        entry = self.settings.tables[0]
        self.bodies.clear()
        Ledger.open(
            entry.ledger, identity=TABLE.identity, budget=entry.budget, anchor=entry.anchor, accept_rollback=True
        ).close()

    async def serve(self) -> None:
        tasks = [asyncio.ensure_future(self.client(name)) for name in NAMES]
        tasks.append(asyncio.ensure_future(self.custodian()))
        while not all(task.done() for task in tasks) and not self.machine.process.dead:
            await asyncio.sleep(0.1)
        running = sorted(asyncio.all_tasks() - {asyncio.current_task()}, key=lambda task: int(task.get_name()[5:]))
        for task in running:
            task.cancel()
        found = await asyncio.gather(*dict.fromkeys([*tasks, *running]), return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, Violation) or (
                isinstance(outcome, Exception) and not self.machine.process.dead and not self.machine.process.failed
            ):
                raise outcome

    def between(self) -> None:
        rng, name = self.rng, "t.ledger"
        if rng.random() < 0.5:
            self.machine.lose_power()
        if self.touched or name not in self.disk.names:
            return
        if self.copy is not None and rng.random() < 0.2:
            for part in (f"{name}-wal", f"{name}-shm"):
                self.disk.put(part, None)
            self.disk.put(name, self.copy)
            self.touched = True
        elif not (self.disk.folder / f"{name}-wal").exists():
            self.copy = (self.disk.folder / name).read_bytes()


@contextmanager
def entropy_of(seed: int) -> Iterator[None]:
    with patch.object(sampling, "os", Entropy(random.Random(f"noise {seed}"))):
        yield


def run(seed: int, planted: Callable[[], AbstractContextManager[None]] = nullcontext) -> ServerWorld:
    """One history, with a bug planted in the ledger or none."""
    folder = Path(tempfile.mkdtemp(prefix="reticent-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        world = ServerWorld(seed, folder)
        with (
            wired(world.machine),
            patch.object(paid_answers, "time", Clock(world.machine)),
            entropy_of(seed),
            planted(),
        ):
            world.run()
        return world
    finally:
        shutil.rmtree(folder)
