"""Seeded histories of one ledger: analysts who ask in any order, processes that die, disks that fail, files put back.

`run(seed)` raises Violation where one of the invariants does not hold:

- No result without its charge: what was charged is never less than the cost of all results that left.
- One result per charge: a key's value never changes, unless the custodian accepted a loss, after which it is paid anew.
- What is spent never falls, and no acknowledged event disappears silently.
- Every ledger opens: after crashes and failures that lose nothing flushed, as it is; after a loss or a restored copy it
  is refused, and opens when the custodian accepts that.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from unittest.mock import patch

from tests.evidence.second_reader import READER
from tests.simulation.machine import Machine, Plan, Volume
from tests.simulation.wiring import wired

from reticent.cli.copies import back_up, restore_backup
from reticent.errors import BudgetError, EntryError, KeyBusyError, KeyForfeitedError, KeyReusedError, LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger import chain
from reticent.kernel.ledger.events import sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.verify import verify

MEMORY = Path("/dev/shm")
IDENTITY = {"domain": "simulated", "records": 100}
BUDGET = Budget(rho=1)
COSTS = (0, 1, 10**7, 10**8, 3 * 10**8)
"""Of a limit of 10^9: some histories exhaust it."""
ANALYSTS = (None, "ann", "bob")
REFUSALS = (BudgetError, EntryError, KeyBusyError, KeyForfeitedError, KeyReusedError)
VERB = "simulated"
LIVES, RESTLESS = 4, 8
LEDGER, ANCHOR = "a.ledger", "a.anchor"


class Violation(AssertionError):
    """A promise of the ledger was broken."""


def need(condition: bool, promise: str) -> None:
    if not condition:
        raise Violation(promise)


class World:
    """One ledger, its machine, and all that ever left it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.disk, self.other, vault = (Volume(folder / name) for name in ("disk", "other", "vault"))
        self.machine = Machine(self.rng, self.disk, self.other, vault)
        self.path, self.anchor = self.disk.folder / LEDGER, self.other.folder / ANCHOR
        self.backup = vault.folder / "backup"
        self.ledger: Ledger | None = None
        self.left: dict[tuple[str, str], int] = {}
        """Results that left, with their costs."""
        self.values: dict[str, str] = {}
        """The value of each key, since the last accepted loss."""
        self.keys: list[tuple[str, int, str | None, bool]] = []
        """Asked so far: key, cost, analyst, and whether it may be redeemed."""
        self.samples: Counter[str] = Counter()
        self.spent = self.events = self.fresh = 0
        self.weak = self.rng.choice([self.disk, self.other])
        """The one volume that may lie or forget: what ledger and anchor lose together, nobody can notice."""
        self.weak.forgets = self.rng.random() < 0.5
        self.touched = False
        """Somebody put files back since the ledger last agreed with its anchor."""
        self.scarred = False
        """The ledger's own disk has lost what it had flushed: blobs may be gone where the chain is intact."""
        self.restless = self.rng.random() < 0.3
        """Many short lives: what one leaves behind, the next one meets."""
        # Short histories reach what long ones do: checkpoints of the ledger, and of SQLite's log.
        self.checkpoint = self.rng.choice([chain.LEAST, 3])
        self.machine.log_pages = self.rng.choice([1000, 3])

    # ---- what analysts see

    def ask(self, ledger: Ledger) -> Generator[None]:
        """One paid answer as the curator gives it; others may act at every `yield`."""
        rng = self.rng
        unanswered = [asked for asked in self.keys if self.samples[asked[0]] and asked[0] not in self.values]
        if self.keys and rng.random() < 0.5:
            key, cost, analyst, redeemable = rng.choice(unanswered or self.keys)
        else:
            key, cost = f"key {len(self.keys)}", rng.choice(COSTS)
            analyst, redeemable = rng.choice(ANALYSTS), rng.random() < 0.8
            self.keys.append((key, cost, analyst, redeemable))
        request = {"question": key}
        # What cannot be redeemed, such as an epoch, is never read again.
        event = ledger.settled(key, VERB, request) if redeemable else None
        if event is None:
            yield
            ledger.affordable(cost, key=key, analyst=analyst)
            yield
            if ledger.lookup(key) is not None and (not redeemable or ledger.settled(key, VERB, request)):
                return  # somebody else was answered meanwhile
            reservation = ledger.reserve(key, VERB, cost, request, analyst=analyst, redeemable=redeemable)
            yield
            self.fresh += 1
            value = f"sample {self.fresh}"
            self.samples[key] += 1
            need(self.samples[key] <= 2, f"{key}: three samples were drawn for one charge")
            if rng.random() < 0.05:
                ledger.abandon(reservation)
                return
            yield
            event = ledger.settle(reservation, {"value": value}, blobs=[value.encode()])
        value = event.payload["value"]
        yield
        self.leave(key, value, cost)
        if not self.scarred:
            need(ledger.get_blob(sha256(value.encode())) == value.encode(), "a blob is not what was settled with it")

    def leave(self, key: str, value: str, cost: int) -> None:
        if self.machine.process.dead:
            return
        need(self.values.setdefault(key, value) == value, f"{key} was answered in two ways for one charge")
        self.left[key, value] = cost
        self.observe()

    def cap(self, ledger: Ledger) -> Generator[None]:
        yield
        ledger.set_cap(self.rng.choice(["ann", "bob"]), self.rng.randint(0, BUDGET.limit))

    def note(self, ledger: Ledger) -> Generator[None]:
        yield
        data = self.rng.randbytes(self.rng.choice([10, 6000]))
        ledger.append("note", {"blob": sha256(data)}, blobs=[data])

    def copy(self, _: Ledger) -> Generator[None]:
        yield
        self.backup.unlink(missing_ok=True)
        back_up(self.path, self.backup)

    def check(self, ledger: Ledger) -> Generator[None]:
        yield
        ledger.verify()

    # ---- what must hold whenever the ledger is open

    def observe(self) -> None:
        """Of a running process only: what a dead one thinks, nobody hears."""
        ledger = self.ledger
        if self.machine.process.dead or ledger is None:
            return
        need(ledger.spent >= self.spent, f"spent fell from {self.spent} to {ledger.spent}")
        need(ledger.spent <= BUDGET.limit, "more was spent than the limit")
        need(sum(self.left.values()) <= ledger.spent, "results left that were not charged")
        self.spent = ledger.spent

    # ---- lives

    def run(self) -> None:
        for _ in range(RESTLESS if self.restless else self.rng.randint(1, LIVES)):
            self.live(self.plan())
            self.between()
        self.weak.lies = False
        self.live(Plan(), questions=2)
        self.finish()

    def plan(self) -> Plan:
        rng = self.rng
        longest = 30 if self.restless else rng.choice([15, 50, 140])
        plan = Plan(dies=rng.randint(1, longest)) if rng.random() < 0.75 else Plan()
        if rng.random() < 0.15:
            start = rng.randint(1, 90)
            plan.full = range(start, start + rng.choice([1, 5, 40]))
        if rng.random() < 0.15:
            plan.broken = frozenset(rng.choices(range(1, 90), k=rng.choice([1, 2])))
        if rng.random() < 0.05:
            self.weak.lies = True
        return plan

    def live(self, plan: Plan, questions: int | None = None) -> None:
        process = self.machine.start(plan)
        try:
            self.ledger = self.opened()
            if self.ledger is not None:
                self.observe()
                self.work(self.ledger, self.questions() if questions is None else questions)
                self.observe()
                if self.rng.random() < 0.6 or questions is not None:
                    self.ledger.close()
        except LedgerError:
            need(process.dead or process.failed or self.scarred, "a write was refused that nothing hindered")
        finally:
            self.ledger = None
            process.end()

    def questions(self) -> int:
        return self.rng.randint(0, 2) if self.restless else self.rng.randint(1, 7)

    def opened(self) -> Ledger | None:
        """As a custodian opens it: as it is, and where it was refused rightly, by accepting the loss."""
        process = self.machine.process
        self.scarred |= self.machine.lossy and self.weak is self.disk
        innocent = not (self.touched or self.machine.lossy or self.scarred)
        try:
            ledger = self.open()
        except LedgerError as refusal:
            if process.dead or process.failed:
                return None
            need(not innocent, f"a ledger that lost nothing does not open: {refusal}")
            ledger = self.accepted()
        if ledger is None or process.dead:
            return None
        self.touched = self.machine.lossy = False
        events = max((event.sequence for event in ledger.events()), default=0)
        need(events >= self.events, f"{self.events - events} acknowledged events disappeared without a word")
        self.events = events
        return ledger

    def open(self, *, accept: bool = False) -> Ledger:
        return Ledger.open(self.path, identity=IDENTITY, budget=BUDGET, anchor=self.anchor, accept_rollback=accept)

    def accepted(self) -> Ledger | None:
        """What the file has lost, no analyst may have for the old charge; what was spent stays spent."""
        process = self.machine.process
        for attempt in ("accept", "restore", "begin anew"):
            with suppress(LedgerError):
                if attempt == "restore" and self.backup.exists():
                    restore_backup(self.backup, self.path, anchor=self.anchor)
                if attempt == "begin anew":
                    for name in [name for name in self.disk.names if name.startswith(LEDGER)]:
                        self.disk.put(name, None)
                # From here on the loss is accepted, even if the process dies before it says so.
                self.events = 0
                self.values.clear()
                self.samples.clear()
                return self.open(accept=True)
            if process.dead or process.failed:
                return None
        raise Violation("a ledger does not open even where its loss is accepted")

    def work(self, ledger: Ledger, questions: int) -> None:
        """Analysts act in turns, in the seed's order, until all are done or the process is."""
        kinds = [self.ask] * 6 + [self.cap, self.note, self.copy, self.check]
        acting = [self.rng.choice(kinds)(ledger) for _ in range(questions)]
        while acting and not self.machine.process.dead:
            actor = self.rng.choice(acting)
            try:
                next(actor)
            except StopIteration:
                acting.remove(actor)
            except REFUSALS:
                acting.remove(actor)
            self.observe()
            if not self.machine.process.dead:
                self.events = max(self.events, ledger_events(ledger))

    def between(self) -> None:
        """What happens to the machine and its files while nothing runs."""
        rng = self.rng
        if rng.random() < 0.5:
            self.machine.lose_power()
        if self.touched or self.machine.lossy or self.weak.lies:
            return  # what ledger and anchor lose together, nobody can notice
        what = rng.random()
        if what < 0.08 and self.backup.exists():  # a restored copy, as `cp` restores it
            content = self.backup.read_bytes()
            for name in (f"{LEDGER}-wal", f"{LEDGER}-shm"):
                self.disk.put(name, None)
            self.disk.put(LEDGER, content)
            self.touched = True
        elif what < 0.1:
            for name in [name for name in self.disk.names if name.startswith(LEDGER)]:
                self.disk.put(name, None)
            self.touched = True
        elif what < 0.12 and self.anchor.exists():
            self.other.put(ANCHOR, rng.choice([None, b"", self.anchor.read_bytes()[:4096]]))
            self.touched = True

    def finish(self) -> None:
        """The last life was undisturbed: file, anchor and what was told agree."""
        self.machine.start(Plan())
        try:
            statement = verify(self.path, anchor=self.anchor)
        except LedgerError as problem:
            need(self.scarred, f"a ledger that lost nothing is refused: {problem}")
            return
        need(statement.anchored, "the anchor is gone")
        need(statement.history.spent == self.spent, "the file says another amount than the running ledger did")
        need(self.scarred or not statement.damaged, f"damaged: {statement.damaged}")
        settled = {event.key: event for event in statement.events if event.kind == "settle"}
        for key, value in self.values.items():
            need(key in settled and settled[key].payload["value"] == value, f"{key} is not settled as it was answered")


def ledger_events(ledger: Ledger) -> int:
    """How many events are acknowledged."""
    return ledger._history.sequence


def run(seed: int, planted: Callable[[], AbstractContextManager[None]] = nullcontext) -> World:
    """One history, with a bug planted in the ledger or none."""
    folder = Path(tempfile.mkdtemp(prefix="reticent-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        world = World(seed, folder)
        with wired(world.machine), patch.object(chain, "LEAST", world.checkpoint), planted():
            world.run()
        if not world.scarred:
            read_again(world)
        return world
    finally:
        shutil.rmtree(folder)


def read_again(world: World) -> None:
    """The second reader sees the same file the same way."""
    try:
        account, _ = READER.read(world.path, world.anchor)
    except READER.Disagreement as problem:
        raise Violation(f"the second reader refuses it: {problem}") from None
    need(account.spent == world.spent, "the second reader adds up to another amount")
