"""Any sequence of asking, crashing, capping and reopening, against a ledger that fits in a dictionary."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reticent.errors import BudgetError, LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.events import History
from reticent.kernel.ledger.ledger import Event, Ledger
from reticent.kernel.ledger.store import MemoryStore
from reticent.kernel.ledger.verify import verify

LIMIT = 100
BUDGET = Budget(rho=LIMIT * 1e-9)
KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
ANALYSTS = st.sampled_from([None, "ann", "bob"])


@dataclass
class Row:
    """What the model knows of a key."""

    question: int
    cost: int
    analyst: str | None
    redeemable: bool
    chances: int
    value: int | None = None


class LedgerModel(RuleBasedStateMachine):
    """Rules act on both; after each, all that can be seen must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, Row] = {}
        self.caps: dict[str, int] = {}
        self.noise = 0
        self.store = MemoryStore()

    def connect(self) -> Ledger:
        return Ledger(self.store, None, identity={"records": 1}, budget=BUDGET)

    @initialize()
    def start(self) -> None:
        self.ledger = self.connect()

    def spent(self, analyst: str | None = None) -> int:
        return sum(row.cost for row in self.rows.values() if analyst is None or row.analyst == analyst)

    def remaining(self, analyst: str | None) -> int:
        rest = LIMIT - self.spent()
        if analyst in self.caps:
            rest = min(rest, self.caps[analyst] - self.spent(analyst))
        return max(rest, 0)

    @rule(
        key=KEYS,
        question=st.integers(0, 1),
        cost=st.integers(0, 40),
        analyst=ANALYSTS,
        redeemable=st.sampled_from([True, True, True, False]),
        ends=st.sampled_from(["settle", "abandon", "crash"]),
    )
    def ask(self, key: str, question: int, cost: int, analyst: str | None, redeemable: bool, ends: str) -> None:
        row = self.rows.get(key)
        if row is not None and row.question == question:
            cost, analyst = row.cost, row.analyst  # a true retry
        try:
            event = self.ledger.settled(key, "measure", {"q": question})
            if event is None:
                held = self.ledger.reserve(
                    key, "measure", cost, {"q": question}, analyst=analyst, redeemable=redeemable
                )
                self.noise += 1
                if ends == "settle":
                    event = self.ledger.settle(held, {"value": self.noise})
                else:
                    self.ledger.abandon(held)
        except BudgetError as refusal:
            self.check_refusal(row, refusal, cost, analyst)
            return
        except LedgerError:
            assert row is not None
            assert row.question != question or (row.value is None and row.chances == 0)
            return
        self.learn(key, Row(question, cost, analyst, redeemable, chances=int(redeemable)), event)
        if ends == "crash":
            self.reopen()

    def check_refusal(self, row: Row | None, refusal: BudgetError, cost: int, analyst: str | None) -> None:
        assert row is None
        assert cost > self.remaining(analyst)
        assert (refusal.requested, refusal.remaining) == (cost / 1e9, self.remaining(analyst) / 1e9)

    def learn(self, key: str, fresh: Row, event: Event | None) -> None:
        row = self.rows.get(key)
        if row is None:
            assert fresh.cost <= self.remaining(fresh.analyst)
            row = self.rows[key] = fresh
        elif row.value is None:
            assert row.chances > 0
            row.chances -= 1
        assert row.question == fresh.question
        if event is not None:
            if row.value is None:
                row.value = self.noise
            assert event.payload == {"value": row.value}

    @rule(analyst=st.sampled_from(["ann", "bob"]), cap=st.integers(0, LIMIT))
    def cap(self, analyst: str, cap: int) -> None:
        self.ledger.set_cap(analyst, cap)
        self.caps[analyst] = cap

    @rule()
    def note(self) -> None:
        self.ledger.append("note", {"free": True})

    @rule()
    def reopen(self) -> None:
        self.ledger = self.connect()

    @invariant()
    def agrees(self) -> None:
        assert self.ledger.spent == self.spent() <= LIMIT
        assert self.ledger.remaining == LIMIT - self.spent()
        for analyst in ("ann", "bob"):
            assert self.ledger.remaining_for(analyst) == self.remaining(analyst)
            assert self.ledger.spent_by(analyst) == self.spent(analyst)
        for key, row in self.rows.items():
            found = self.ledger.lookup(key)
            assert isinstance(found, Event) == (row.value is not None)
        self.ledger.verify()


class DurableLedgerModel(LedgerModel):
    """The same on a file, closed and opened again for every crash, and verified from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "a.ledger"

    def connect(self) -> Ledger:
        if hasattr(self, "ledger"):
            self.ledger.close()
        return Ledger.open(self.path, identity={"records": 1}, budget=BUDGET)

    @invariant()
    def file_agrees(self) -> None:
        statement = verify(self.path)
        assert statement.history.spent == self.spent()
        assert statement.history == History.replay(statement.events)

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()


LedgerModel.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
DurableLedgerModel.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_in_memory = LedgerModel.TestCase
test_on_disk = DurableLedgerModel.TestCase
