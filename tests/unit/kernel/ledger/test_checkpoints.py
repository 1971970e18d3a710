"""A long ledger opens from its newest checkpoint, and nobody gains by forging, damaging or outrunning one."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger import chain as chain_module
from reticent.kernel.ledger.anchor import Anchor, Mark
from reticent.kernel.ledger.events import CHECKPOINT, SEGMENT, Event, History, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.store import reading
from reticent.kernel.ledger.verify import verify

IDENTITY = {"domain": "long", "records": 100}
BUDGET = Budget(rho=1)
COST = 10


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "LEAST", 41)


def opened(path: Path) -> Ledger:
    return Ledger.open(path, identity=IDENTITY, budget=BUDGET)


def spend(ledger: Ledger, start: int, count: int) -> None:
    for number in range(start, start + count):
        reservation = ledger.reserve(f"k{number}", "measure", COST, {"q": number}, analyst="ann")
        ledger.settle(reservation, {"value": number})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Twenty answers, a checkpoint, two answers, one pending reservation."""
    path = tmp_path / "a.ledger"
    with opened(path) as ledger:
        spend(ledger, 0, 20)
    with opened(path) as ledger:
        assert ledger.noted(CHECKPOINT) == [42]
        spend(ledger, 20, 2)
        ledger.append("targets", {"key": "k", "n": 1})
        ledger.reserve("pending", "measure", COST, {"q": "pending"})
    return path


def sql(path: Path, *statements: tuple[str, tuple]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS events_update")
        for statement, values in statements:
            connection.execute(statement, values)
        connection.commit()


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    parse = Event.parse

    def counted(body: str, digest: str) -> Event:
        event = parse(body, digest)
        found.append(event.sequence)
        return event

    monkeypatch.setattr(Event, "parse", counted)
    return found


def test_opening_reads_only_what_came_after_the_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = verify(path).history
    seen = reads(monkeypatch)
    with opened(path) as ledger:
        assert min(seen) >= 42, "events before the checkpoint were parsed"
        assert ledger._history == whole
        assert ledger.spent == 23 * COST == ledger.spent_by("ann") + COST
        event = ledger.settled("k3", "measure", {"q": 3})
        assert event is not None
        assert event.payload == {"value": 3}
        with pytest.raises(LedgerError, match="another request"):
            ledger.settled("k3", "measure", {"q": 4})
        ledger.verify()


def test_a_damaged_or_missing_checkpoint_costs_time_only(path: Path) -> None:
    whole = verify(path).history
    digest = verify(path).events[41].payload["state"]
    for change in ("UPDATE blobs SET data = x'00' WHERE digest = ?", "DELETE FROM blobs WHERE digest = ?"):
        sql(path, (change, (digest,)))
        with opened(path) as ledger:
            assert ledger._history.spent == whole.spent
            ledger.verify()


def forged(path: Path, previous: Event, **changes: int) -> tuple[Event, bytes]:
    """A checkpoint that claims less than was spent."""
    events = [event for event in verify(path).events if event.sequence <= previous.sequence]
    history = History.replay(events)
    history.spent = changes["spent"]
    data = history.to_bytes()
    event = Event.build(
        kind=CHECKPOINT,
        payload={"state": sha256(data)},
        sequence=previous.sequence + 1,
        previous=previous.digest,
        at=0,
        key=None,
        analyst=None,
        cost=0,
    )
    return event, data


def test_a_forged_checkpoint_ahead_of_the_anchor_is_not_believed(path: Path) -> None:
    """The file may be one event ahead of its anchor: that event must not say what was spent."""
    last = verify(path).events[-1]
    event, data = forged(path, last, spent=0)
    row = (event.sequence, event.body, event.digest)
    blob = (event.payload["state"], data)
    sql(path, ("INSERT INTO events VALUES (?, ?, ?)", row), ("INSERT INTO blobs VALUES (?, ?)", blob))
    with pytest.raises(LedgerError, match=r"checkpoint .* is false"):
        verify(path)
    with opened(path) as ledger:
        assert ledger.spent == 23 * COST


def test_a_forged_checkpoint_below_the_anchor_changes_the_chain(path: Path) -> None:
    event, data = forged(path, verify(path).events[40], spent=0)
    sql(
        path,
        ("UPDATE events SET body = ?, digest = ? WHERE sequence = ?", (event.body, event.digest, 42)),
        ("INSERT INTO blobs VALUES (?, ?)", (event.payload["state"], data)),
    )
    with pytest.raises(LedgerError, match="breaks its rules"):
        opened(path)


@pytest.mark.parametrize("sequence", [3, 2, 41])
def test_an_edited_old_event_is_never_returned(path: Path, sequence: int) -> None:
    """Its text and its hash agree; the chain says that it is another one."""
    old = verify(path).events[sequence - 1]
    names = ("kind", "at", "key", "analyst", "cost", "sequence", "previous")
    changed = Event.build(payload={"value": 99}, **{name: getattr(old, name) for name in names})
    sql(path, ("UPDATE events SET body = ?, digest = ? WHERE sequence = ?", (changed.body, changed.digest, sequence)))
    with opened(path) as ledger:
        with pytest.raises(LedgerError, match="not part of its chain"):
            ledger.event(sequence)
        with pytest.raises(LedgerError, match="breaks its rules"):
            ledger.verify()


def test_a_segment_is_checked_up_to_its_milestone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "LEAST", 2 * SEGMENT)
    path = tmp_path / "a.ledger"
    with opened(path) as ledger:
        for number in range(2 * SEGMENT + 10):
            event = ledger._writer.append("targets", {"key": f"{number}"})
            if event.sequence == 700:
                middle = event
    with opened(path) as ledger:
        assert ledger.noted(CHECKPOINT)
        assert len(ledger._history.milestones) == 2
        assert ledger.event(700) == middle
        assert ledger.event(SEGMENT).sequence == SEGMENT
    sql(path, ("UPDATE events SET body = replace(body, '699', '698') WHERE sequence = ?", (701,)))
    with opened(path) as ledger, pytest.raises(LedgerError, match="event 701 is not part"):
        ledger.event(700)


def test_a_checkpoint_replaces_the_one_before(path: Path) -> None:
    with opened(path) as ledger:
        spend(ledger, 30, 20)
    statement = verify(path)
    kinds = [event for event in statement.events if event.kind == CHECKPOINT]
    assert len(kinds) == 2
    assert not statement.damaged
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM blobs").fetchone() == (1,)


def test_a_ledger_without_checkpoint_opens_as_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "LEAST", 10**9)
    last = verify(path).events[40]
    sql(path, ("DROP TRIGGER events_delete", ()), ("DELETE FROM events WHERE sequence > ?", (41,)))
    name = verify(path, anchor=path.with_name("none")).history.opening["ledger"]
    anchor = Anchor(path.with_name("a.ledger.anchor"), create=False)
    anchor.write(Mark(name, 41, last.digest, 20 * COST))
    anchor.close()
    with opened(path) as ledger:
        assert ledger.spent == 20 * COST
        assert not ledger.noted(CHECKPOINT)


def test_charges_of_a_key_and_its_parts_are_found_without_a_walk_over_all(path: Path) -> None:
    with opened(path) as ledger:
        for key in ("q", "q:1", "q:2", "q;", "qq:1", "q:"):
            ledger.reserve(key, "measure", COST, {"q": key})
        assert ledger.charged("q") == 4 * COST
        ledger.reserve("q:3", "measure", COST, {"q": 3})
        assert ledger.charged("q") == 5 * COST
        assert ledger.keys("q:") == ["q:1", "q:2", "q:", "q:3"]


def test_whoever_pays_waits_for_no_verification(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain is folded outside the lock: another thread pays in the middle of it."""
    with opened(path) as ledger:
        apply, inside, paid = History.apply, threading.Event(), threading.Event()
        verifier = threading.Thread(target=ledger.verify)

        def slow(history: History, event: Event) -> None:
            if threading.current_thread() is verifier and event.sequence == 10:
                inside.set()
                assert paid.wait(20), "the payer waited for the verification"
            apply(history, event)

        monkeypatch.setattr(History, "apply", slow)
        verifier.start()
        assert inside.wait(20)
        spend(ledger, 50, 1)
        paid.set()
        verifier.join(20)
        assert not verifier.is_alive()


def test_a_file_that_changes_while_it_is_read_is_not_called_damaged(path: Path) -> None:
    """A session that was opened and closed meanwhile moved its log into the file: SQLite saw pages of two moments."""

    def read() -> None:
        with reading(path):
            path.write_bytes(path.read_bytes() + bytes(4096))
            raise sqlite3.DatabaseError("database disk image is malformed")

    with pytest.raises(LedgerError, match="changed while it was read"):
        read()
