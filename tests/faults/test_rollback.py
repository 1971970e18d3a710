"""Somebody touches the files: restored copies, cut or edited chains, lost, old and foreign anchors."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.anchor import SLOT
from reticent.kernel.ledger.events import GENESIS, Event
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.verify import verify

IDENTITY = {"domain": "rollback", "records": 100}
BUDGET = Budget(rho=1)
COST = 100


class Files:
    """A ledger on one volume and its anchor on another."""

    def __init__(self, folder: Path) -> None:
        (folder / "elsewhere").mkdir()
        self.path, self.anchor = folder / "a.ledger", folder / "elsewhere" / "a.anchor"

    def open(self, *, accept_rollback: bool = False) -> Ledger:
        return Ledger.open(
            self.path, identity=IDENTITY, budget=BUDGET, anchor=self.anchor, accept_rollback=accept_rollback
        )

    def spend(self, *keys: str) -> int:
        with self.open() as ledger:
            for key in keys:
                ledger.settle(ledger.reserve(key, "measure", COST, {"q": key}), {"value": key})
            return ledger.spent

    def sql(self, *statements: str) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute("DROP TRIGGER events_update")
            connection.execute("DROP TRIGGER events_delete")
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def rewrite(self, change: Callable[[list[dict]], list[dict]]) -> None:
        """What an attacker with the source code does: edit events and compute the whole chain anew."""
        with sqlite3.connect(self.path) as connection:
            connection.execute("DROP TRIGGER events_update")
            connection.execute("DROP TRIGGER events_delete")
            names = ("kind", "at", "key", "analyst", "cost", "payload")
            events = [Event.parse(*row) for row in connection.execute("SELECT body, digest FROM events")]
            connection.execute("DELETE FROM events")
            previous = GENESIS
            for number, fields in enumerate(change([{n: getattr(e, n) for n in names} for e in events]), 1):
                event = Event.build(sequence=number, previous=previous, **fields)
                connection.execute("INSERT INTO events VALUES (?, ?, ?)", (number, event.body, event.digest))
                previous = event.digest
        connection.close()

    def refused(self, words: str) -> None:
        for reader in (self.open, lambda: verify(self.path, anchor=self.anchor)):
            with pytest.raises(LedgerError, match=words) as caught:
                reader()
            assert "\n" not in str(caught.value)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def rolled_back(files: Files, tmp_path: Path) -> Files:
    """One answer bought, one reserved; a copy is taken; the rest of 500 is spent; the copy is put back."""
    files.spend("a")
    with files.open() as ledger:
        ledger.reserve("pending", "measure", COST, {"q": "pending"})
    shutil.copy(files.path, tmp_path / "copy")
    files.spend("b", "pending", "c", "d")
    shutil.copy(tmp_path / "copy", files.path)
    return files


def test_a_restored_copy_is_detected_and_the_error_names_what_is_anchored(rolled_back: Files) -> None:
    rolled_back.refused("rolled back or cut: it has 4 events, its anchor saw 12 and 5e-07 spent")


def test_accepting_a_rollback_charges_what_the_anchor_saw_and_records_it(rolled_back: Files) -> None:
    with rolled_back.open(accept_rollback=True) as ledger:
        assert ledger.spent == 5 * COST
        assert ledger.remaining == BUDGET.limit - 5 * COST
        last = list(ledger.events())[-1]
        assert (last.kind, last.cost) == ("rollback", 3 * COST)
        with pytest.raises(LedgerError, match="forfeited"):  # it settled in the part that was lost
            ledger.reserve("pending", "measure", COST, {"q": "pending"})
        event = ledger.settled("a", "measure", {"q": "a"})
        assert event is not None
        assert event.payload == {"value": "a"}
    assert rolled_back.spend("e") == 6 * COST
    verify(rolled_back.path, anchor=rolled_back.anchor)


def test_a_rollback_cannot_be_repeated_for_profit(rolled_back: Files, tmp_path: Path) -> None:
    rolled_back.open(accept_rollback=True).close()
    for _ in range(3):
        shutil.copy(tmp_path / "copy", rolled_back.path)
        rolled_back.refused("rolled back")
        with rolled_back.open(accept_rollback=True) as ledger:
            assert ledger.spent == 5 * COST


def test_an_accepted_rollback_changes_nothing_when_nothing_is_wrong(files: Files) -> None:
    files.spend("a")
    with files.open(accept_rollback=True) as ledger:
        assert ledger.spent == COST
        assert {event.kind for event in ledger.events()} == {"open", "reserve", "settle"}


def test_a_cut_tail_is_a_rollback(files: Files) -> None:
    files.spend("a", "b")
    files.sql("DELETE FROM events WHERE sequence > 3")
    files.refused("rolled back or cut")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE sequence = 2",
        "DELETE FROM events WHERE sequence = 1",
        "UPDATE events SET body = replace(body, '\"cost\":100', '\"cost\":001') WHERE sequence = 2",
        "UPDATE events SET body = replace(body, '\"limit\":1000000000', '\"limit\":9000000000')",
        "UPDATE events SET digest = '00' WHERE sequence = 3",
        "UPDATE events SET body = x'00ff' WHERE sequence = 3",
        "UPDATE events SET sequence = 9 WHERE sequence = 5",
        "INSERT INTO events VALUES (6, '{}', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a')",
    ],
)
def test_an_edited_file_is_detected(files: Files, statement: str) -> None:
    files.spend("a", "b")
    files.sql(statement)
    files.refused("edited")


def test_a_chain_computed_anew_differs_from_its_anchor(files: Files) -> None:
    files.spend("a", "b")
    files.rewrite(lambda events: [event | {"cost": min(event["cost"], 1)} for event in events])
    files.refused("edited or forked")
    with files.open(accept_rollback=True) as ledger:
        assert ledger.remaining == 0, "nothing bounds what a fork spent"


def rule_breakers() -> dict[str, Callable[[list[dict]], list[dict]]]:
    free = {"at": 0, "analyst": None, "cost": 0, "payload": {}}
    return {
        "two settlements": lambda events: [*events, events[2]],
        "two charges for a key": lambda events: [*events, events[1]],
        "settled, not reserved": lambda events: [*events, free | {"kind": "settle", "key": "x"}],
        "redeemed after settling": lambda events: [*events, free | {"kind": "redeem", "key": "a"}],
        "forfeited, not reserved": lambda events: [*events, free | {"kind": "forfeit", "key": "x"}],
        "negative charge": lambda events: [*events, events[1] | {"key": "x", "cost": -100}],
        "negative rollback": lambda events: [*events, free | {"kind": "rollback", "key": None, "cost": -100}],
        "charge beyond the limit": lambda events: [*events, events[1] | {"key": "x", "cost": 10**9}],
        "opened twice": lambda events: [*events, events[0]],
        "not opened": lambda events: events[1:],
        "payload of another kind": lambda events: [*events, events[1] | {"key": "x", "payload": {}}],
    }


@pytest.mark.parametrize("name", rule_breakers())
def test_a_well_hashed_chain_that_breaks_a_rule_is_refused_even_without_anchor(files: Files, name: str) -> None:
    files.spend("a")
    files.rewrite(rule_breakers()[name])
    with pytest.raises(LedgerError, match="breaks its rules"):
        verify(files.path, anchor=files.anchor.with_name("none"))


def test_a_missing_anchor_is_never_innocent(files: Files) -> None:
    files.spend("a")
    files.anchor.unlink()
    with pytest.raises(LedgerError, match="missing, so a rollback cannot be excluded"):
        files.open()
    assert not files.anchor.exists()
    assert verify(files.path, anchor=files.anchor).anchored is False
    with files.open(accept_rollback=True) as ledger:
        assert ledger.remaining == 0
        assert ledger.lookup("a") is not None
    files.open().close()


def test_even_the_first_event_alone_needs_its_anchor(files: Files) -> None:
    files.open().close()
    files.anchor.unlink()
    with pytest.raises(LedgerError, match="missing"):
        files.open()


def test_a_ruined_anchor_is_refused_and_a_torn_mark_is_not(files: Files) -> None:
    files.spend("a")
    content = bytearray(files.anchor.read_bytes())
    newest = 0 if b'"generation":4' in content[:SLOT] else 1
    content[newest * SLOT + 100] ^= 1  # the crash tore the last mark: the file is one event ahead
    files.anchor.write_bytes(content)
    with files.open() as ledger:
        assert ledger.spent == COST
    assert verify(files.path, anchor=files.anchor).anchored
    files.anchor.write_bytes(b"\0" * 2 * SLOT)
    files.refused("empty or ruined")
    files.anchor.write_bytes(b"short")
    files.refused("empty or ruined")


def test_an_old_anchor_is_refused(files: Files, tmp_path: Path) -> None:
    files.spend("a")
    shutil.copy(files.anchor, tmp_path / "old")
    files.spend("b")
    shutil.copy(tmp_path / "old", files.anchor)
    files.refused("the anchor is 2 events behind")
    with files.open(accept_rollback=True) as ledger:
        assert ledger.remaining == 0


def test_one_event_ahead_of_the_anchor_is_an_ordinary_crash(files: Files, tmp_path: Path) -> None:
    files.spend("a")
    shutil.copy(files.anchor, tmp_path / "old")
    with files.open() as ledger:
        ledger.reserve("b", "measure", COST, {})
    shutil.copy(tmp_path / "old", files.anchor)
    with files.open() as ledger:
        assert ledger.spent == 2 * COST
    shutil.copy(files.path, tmp_path / "copy")
    files.spend("c")
    shutil.copy(tmp_path / "copy", files.path)
    files.refused("rolled back")


def test_a_deleted_ledger_is_a_rollback_to_nothing(files: Files) -> None:
    files.spend("a", "b")
    files.path.unlink()
    with pytest.raises(LedgerError, match="is missing but its anchor"):
        files.open()
    assert not files.path.exists()
    files.path.touch()
    with pytest.raises(LedgerError, match="it has 0 events, its anchor saw 5"):
        files.open()
    with files.open(accept_rollback=True) as ledger:
        assert ledger.spent == 2 * COST
    files.open().close()


def test_an_unspent_ledger_that_is_lost_costs_nothing(files: Files) -> None:
    files.open().close()
    files.path.unlink()
    with files.open(accept_rollback=True) as ledger:
        assert ledger.spent == 0


def test_another_ledgers_anchor_is_refused_and_left_alone(files: Files, tmp_path: Path) -> None:
    files.spend("a")
    other = Ledger.open(tmp_path / "b.ledger", identity=IDENTITY, budget=BUDGET)
    other.close()
    marks = files.anchor.read_bytes()
    for accept in (False, True):
        with pytest.raises(LedgerError, match="belongs to another ledger"):
            Ledger.open(
                tmp_path / "b.ledger",
                identity=IDENTITY,
                budget=BUDGET,
                anchor=files.anchor,
                accept_rollback=accept,
            )
    assert files.anchor.read_bytes() == marks


def test_a_damaged_or_foreign_file_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    path.write_bytes(b"not a database" * 500)
    for reader in (lambda: Ledger.open(path, identity=IDENTITY, budget=BUDGET), lambda: verify(path)):
        with pytest.raises(LedgerError, match="is not a ledger, or its first bytes are damaged") as caught:
            reader()
        assert "\n" not in str(caught.value)


def test_a_damaged_blob_is_never_returned(files: Files) -> None:
    with files.open() as ledger:
        digest = ledger.put_blob(b"snapshot")
        ledger.append("snapshot", {"blob": digest})
        assert ledger.get_blob(digest) == b"snapshot"
    files.sql("UPDATE blobs SET data = x'00'")
    with files.open() as ledger, pytest.raises(LedgerError, match="missing or damaged"):
        ledger.get_blob(digest)
