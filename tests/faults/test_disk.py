"""A failing disk: a clean error, nothing released, an unusable ledger, and after reopening the charge stands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.anchor import Anchor, Mark
from reticent.kernel.ledger.events import Event
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.store import SqliteStore
from reticent.kernel.ledger.verify import verify

IDENTITY = {"domain": "disk", "records": 100}
BUDGET = Budget(rho=1)
COST = 10


class Disk:
    """Fails once, at the chosen write, before or after it took effect."""

    def __init__(self, fatal: int, *, late: bool) -> None:
        self.fatal, self.late, self.count = fatal, late, 0

    def early(self) -> None:
        self.count += 1
        if self.count == self.fatal and not self.late:
            raise OSError(28, "No space left on device")

    def after(self) -> None:
        if self.count == self.fatal and self.late:
            raise OSError(5, "Input/output error")


class FailingStore(SqliteStore):
    disk: Disk

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        self.disk.early()
        super().append(event, blobs)
        self.disk.after()


class FailingAnchor(Anchor):
    disk: Disk

    def write(self, mark: Mark) -> None:
        self.disk.early()
        super().write(mark)
        self.disk.after()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


def reopened(path: Path) -> Ledger:
    return Ledger.open(path, identity=IDENTITY, budget=BUDGET)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("fatal", [1, 2, 3, 4])  # commit and mark of the reservation, commit and mark of the result
def test_a_write_that_fails_releases_nothing_and_refunds_nothing(path: Path, fatal: int, late: bool) -> None:
    reopened(path).close()
    disk = Disk(0, late=late)
    FailingStore.disk = FailingAnchor.disk = disk
    store = FailingStore(path)
    ledger = Ledger(
        store, FailingAnchor(path.with_name("a.ledger.anchor"), create=False), identity=IDENTITY, budget=BUDGET
    )
    disk.count, disk.fatal = 0, fatal
    returned: list[Event] = []
    with pytest.raises(LedgerError, match="cannot be read or written"):
        returned.append(ledger.settle(ledger.reserve("k", "measure", COST, {"q": 1}), {"value": 1}))
    assert not returned
    for use in (lambda: ledger.lookup("k"), lambda: ledger.append("note", {}), lambda: ledger.set_cap("ann", 5)):
        with pytest.raises(LedgerError, match="failed to write: open it again"):
            use()
    ledger.close()

    with reopened(path) as again:
        reached = fatal > 1 or late
        assert again.spent == (COST if reached else 0)
        settled = again.settled("k", "measure", {"q": 1})
        assert (settled is not None) == ((fatal, late) in {(3, True), (4, False), (4, True)})
        if settled is None:
            settled = again.settle(again.reserve("k", "measure", COST, {"q": 1}), {"value": 2})
            assert settled.payload == {"value": 2}
        else:
            assert settled.payload == {"value": 1}
        assert again.spent == COST
        again.verify()


def test_a_full_database_is_a_clean_error(path: Path) -> None:
    ledger = reopened(path)
    pages = ledger._writer.store._connection.execute("PRAGMA page_count").fetchone()[0]  # pyright: ignore
    ledger._writer.store._connection.execute(f"PRAGMA max_page_count={pages + 2}")  # pyright: ignore
    settled: list[int] = []

    def fill() -> None:
        for number in range(1000):
            ledger.settle(ledger.reserve(f"k{number}", "measure", COST, {"q": "x" * 500}), {"value": number})
            settled.append(number)

    with pytest.raises(LedgerError, match="full"):
        fill()
    spent = ledger.spent
    with pytest.raises(LedgerError, match="open it again"):
        ledger.reserve("another", "measure", COST, {})
    ledger.close()
    with reopened(path) as again:
        assert again.spent >= spent
        assert [e.payload["value"] for e in again.events() if e.kind == "settle"] == settled


FILE_SIZE_LIMITED = """
import resource, sys
from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger.ledger import Ledger
ledger = Ledger.open(sys.argv[1], identity={"domain": "disk", "records": 100}, budget=Budget(rho=1))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
for number in range(1000):
    try:
        event = ledger.settle(ledger.reserve(f"k{number}", "measure", 10, {"q": "x" * 500}), {"value": number})
    except LedgerError as error:
        print("error", error)
        break
    print("answer", event.payload["value"])
try:
    ledger.settle(ledger.reserve("later", "measure", 10, {}), {"value": -1})
except LedgerError as error:
    print("error", error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a file size limit")
@pytest.mark.parametrize("room", [100_000, 101_500, 103_000])
def test_a_full_disk_is_a_clean_error_and_every_printed_answer_was_charged(path: Path, room: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FILE_SIZE_LIMITED, str(path), str(room)], capture_output=True, text=True, check=True
    )
    *answers, first, second = run.stdout.splitlines()
    assert first.startswith("error the ledger cannot be read or written")
    assert second.startswith("error the ledger failed to write")
    assert len(answers) > 3
    statement = verify(path)
    charged = {event.key for event in statement.events if event.kind == "reserve"}
    assert {f"k{line.split()[1]}" for line in answers} <= charged
    with reopened(path) as again:
        assert again.spent == COST * len(charged)
        for line in answers:
            number = int(line.split()[1])
            event = again.settled(f"k{number}", "measure", {"q": "x" * 500})
            assert event is not None
            assert event.payload == {"value": number}


def test_an_interrupt_inside_a_write_makes_the_ledger_unusable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = reopened(path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger._writer.store, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.reserve("k", "measure", COST, {})
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="open it again"):
        ledger.reserve("k", "measure", COST, {})
    ledger.close()
    reopened(path).close()


def test_the_mark_is_flushed_after_every_commit_and_before_the_result(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    commit, flush = SqliteStore.append, Anchor.write.__globals__["_flush"]

    def committed(self: SqliteStore, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        commit(self, event, blobs)
        order.append(f"commit {event.kind}" if event else "blob")

    def flushed(descriptor: int) -> None:
        flush(descriptor)
        order.append("flush")

    with reopened(path) as ledger:
        monkeypatch.setattr(SqliteStore, "append", committed)
        monkeypatch.setattr("reticent.kernel.ledger.anchor._flush", flushed)
        reservation = ledger.reserve("k", "measure", COST, {})
        order.append("sample")
        ledger.settle(reservation, {"value": 1})
        order.append("leave")
        connection = ledger._writer.store._connection  # pyright: ignore
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert order == ["commit reserve", "flush", "sample", "commit settle", "flush", "leave"]
