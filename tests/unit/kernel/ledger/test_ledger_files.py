"""What a ledger leaves on the disk: made whole or not at all, whole after a clean stop, read without a trace."""

from __future__ import annotations

import os
import random
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reticent.cli.copies import back_up, restore_backup
from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.ledger import store as store_module
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.ledger.store import SqliteStore
from reticent.kernel.ledger.verify import opening, verify

IDENTITY = {"domain": "files", "records": 100}
BUDGET = Budget(rho=1)
COST = 10


def opened(path: Path, **options: object) -> Ledger:
    return Ledger.open(path, identity=IDENTITY, budget=BUDGET, **options)  # pyright: ignore[reportArgumentType]


def spend(ledger: Ledger, *keys: str) -> None:
    for key in keys:
        ledger.settle(ledger.reserve(key, "measure", COST, {"q": key}), {"value": key})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_after_a_clean_stop_the_ledger_is_one_whole_file_even_with_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = opened(path)
    reader = SqliteStore(path, mode="ro")
    spend(ledger, "a", "b")
    assert reader.rows(0)
    ledger.close()
    shutil.copy(path, tmp_path / "copy")
    assert verify(tmp_path / "copy").history.spent == 2 * COST
    assert (tmp_path / "a.ledger-wal").stat().st_size == 0
    reader.close()
    opened(path).close()
    assert names(tmp_path) == {"a.ledger", "a.ledger.lock", "a.ledger.anchor", "copy"}


def test_a_copy_without_its_log_is_named_as_what_it_is(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.ledger", tmp_path / "b.ledger"
    ledger = opened(path)
    with closing(sqlite3.connect(copy)) as stub:  # what a copy of a file looked like whose log was never moved
        stub.execute("PRAGMA journal_mode=WAL")
    spend(ledger, "a")
    ledger.close()
    shutil.copy(tmp_path / "a.ledger.anchor", tmp_path / "b.ledger.anchor")
    with pytest.raises(LedgerError, match="copied without its -wal"):
        verify(copy)
    with pytest.raises(LedgerError, match=r"0 events, its anchor saw 3: a file copied without its -wal"):
        opened(copy)
    assert opening(copy) is None


@pytest.mark.parametrize("stub", ["empty", "schema", "log"])
def test_a_stub_of_an_interrupted_creation_is_created_anew(tmp_path: Path, stub: str) -> None:
    path = tmp_path / "a.ledger"
    if stub == "empty":
        path.touch()
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            if stub == "log":
                connection.execute("PRAGMA journal_mode=WAL")
            for migrate in store_module.MIGRATIONS:
                migrate(connection)
            connection.execute("PRAGMA user_version=2")
            if stub == "log":  # as a killed process leaves it
                for end in ("", "-wal", "-shm"):
                    shutil.copy(f"{path}{end}", tmp_path / f"killed{end}")
        if stub == "log":
            for end in ("", "-wal", "-shm"):
                shutil.move(tmp_path / f"killed{end}", f"{path}{end}")
    with pytest.raises(LedgerError, match="holds no events"):
        verify(path)
    with opened(path) as ledger:
        spend(ledger, "a")
    assert verify(path).history.spent == COST


def test_a_newer_schema_is_told_apart_from_a_stub(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=9")
    for reader in (lambda: opened(path), lambda: verify(path)):
        with pytest.raises(LedgerError, match="upgrade reticent"):
            reader()


def test_creation_is_whole_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at the last step before the rename: no ledger is there, and the next opening makes one."""
    path, replace = tmp_path / "a.ledger", os.replace

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        opened(path)
    assert not path.exists()
    monkeypatch.setattr(os, "replace", replace)
    with opened(path) as ledger:
        spend(ledger, "a")
    assert names(tmp_path) == {"a.ledger", "a.ledger.lock", "a.ledger.anchor"}


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_the_owner_may_read_what_a_ledger_keeps(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with opened(tmp_path / "a.ledger") as ledger:
            spend(ledger, "a")
            back_up(tmp_path / "a.ledger", tmp_path / "copy")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"a.ledger", "a.ledger-wal", "a.ledger-shm", "a.ledger.lock", "a.ledger.anchor", "copy"} == set(modes)
    assert set(modes.values()) == {0o600}


def test_verifying_leaves_nothing_behind_and_needs_no_log(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with opened(path) as ledger:
        spend(ledger, "a")
    before = names(tmp_path)
    stamps = {name: (tmp_path / name).stat().st_mtime_ns for name in before}
    verify(path)
    assert names(tmp_path) == before
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in before} == stamps


def test_a_killed_writers_log_is_read_without_shared_memory(tmp_path: Path) -> None:
    """As on a read-only mount of a copy: file and log are there, nothing may be created beside them."""
    path, away = tmp_path / "a.ledger", tmp_path / "away"
    away.mkdir()
    ledger = opened(path)
    spend(ledger, "a", "b")
    for end in ("", "-wal", ".anchor"):
        shutil.copy(f"{path}{end}", away / f"a.ledger{end}")
    ledger.close()
    before = names(away)
    assert verify(away / "a.ledger").history.spent == 2 * COST
    assert names(away) == before


@pytest.mark.parametrize("accepting", [False, True])
def test_an_anchor_left_beside_the_ledger_is_found_before_all_is_charged(tmp_path: Path, accepting: bool) -> None:
    """Opened without anchor= first and with it later: the message told to accept a rollback, which charges all."""
    path, away = tmp_path / "a.ledger", tmp_path / "away"
    with opened(path) as ledger:
        spend(ledger, "a")
    with pytest.raises(LedgerError, match=r"there is one at .*a\.ledger\.anchor: move that file there"):
        opened(path, anchor=away, accept_rollback=accepting)
    (tmp_path / "a.ledger.anchor").rename(away)
    with opened(path, anchor=away) as ledger:
        assert ledger.spent == COST


@pytest.mark.parametrize("version", [0, 1, 2, 7])
def test_the_database_of_another_program_is_left_alone(tmp_path: Path, version: int) -> None:
    """A ledger opened there took it for a stub and replaced it, or added tables and a log."""
    path = tmp_path / "census.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE people (age INTEGER)")
        database.execute("INSERT INTO people VALUES (7)")
        database.execute(f"PRAGMA user_version={version}")
        database.commit()
    before = path.read_bytes()
    for attempt in (opened, lambda path: opened(path, accept_rollback=True), verify):
        with pytest.raises(LedgerError, match=r"of another program: give the ledger a path of its own"):
            attempt(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [1, 100, 8191, 8192, 8193, 50_000])
@pytest.mark.parametrize("accepting", [False, True])
def test_a_file_that_is_no_anchor_is_not_overwritten(tmp_path: Path, size: int, accepting: bool) -> None:
    """It was cut to two slots, and marks were written over it."""
    rows = tmp_path / "people.csv"
    rows.write_bytes((b"age,sex\n41,f\n" * size)[:size])
    before = rows.read_bytes()
    with pytest.raises(LedgerError, match="not an anchor and will not be overwritten"):
        opened(tmp_path / "a.ledger", anchor=rows, accept_rollback=accepting)
    opened(tmp_path / "a.ledger").close()
    with pytest.raises(LedgerError, match="restore it" if not accepting else "not an anchor"):
        opened(tmp_path / "a.ledger", anchor=rows, accept_rollback=accepting)
    assert rows.read_bytes() == before


@pytest.mark.parametrize("kept", [0, 8, 42, 66, 1000, 4096, 5000])
@pytest.mark.parametrize("zeros", [0, 30, 4096])
def test_a_ruined_anchor_is_replaced_where_the_loss_is_accepted(tmp_path: Path, kept: int, zeros: int) -> None:
    """A disk that loses what it was told to flush leaves an anchor shorter, or with zeros in it."""
    path = tmp_path / "a.ledger"
    opened(path).close()
    marks = path.with_name("a.ledger.anchor")
    content = bytearray(marks.read_bytes()[:kept])
    content[:zeros] = bytes(min(zeros, kept))
    marks.write_bytes(content)
    opened(path, accept_rollback=True).close()
    opened(path).close()


@pytest.mark.parametrize("which", ["ledger", "anchor", "backup", "restored"])
def test_what_is_no_ordinary_file_is_never_replaced(tmp_path: Path, which: str) -> None:
    """A ledger given `/dev/null` as its place was renamed over the device."""
    path, special = tmp_path / "a.ledger", tmp_path / "special"
    opened(path).close()
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        folder = os.open(tmp_path, os.O_RDONLY)  # the name of a socket must be short
        listener.bind(f"/proc/self/fd/{folder}/special")
        os.close(folder)
        calls = {
            "ledger": lambda: opened(special),
            "anchor": lambda: opened(tmp_path / "b.ledger", anchor=special),
            "backup": lambda: back_up(path, special),
            "restored": lambda: restore_backup(path, special),
        }
        before = names(tmp_path)
        with pytest.raises(LedgerError, match="not an ordinary file"):
            calls[which]()
        assert special.is_socket()
        assert names(tmp_path) == before


@pytest.mark.parametrize("place", ["", ".", "folder", "folder/"])
def test_a_folder_is_no_place_for_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """`ledger restore copy ""`, an unset variable, set the whole working folder aside and put the copy in its place."""
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    opened(work / "a.ledger").close()
    monkeypatch.chdir(work)
    before = names(work)
    calls: list[Callable[[], object]] = [
        lambda: restore_backup("a.ledger", place),
        lambda: restore_backup(place, "b.ledger"),
        lambda: back_up("a.ledger", place),
        lambda: opened(place),  # pyright: ignore[reportArgumentType]
        lambda: opened(work / "b.ledger", anchor=place),
        lambda: verify(place),
    ]
    for call in calls:
        with pytest.raises(LedgerError, match="is a folder"):
            call()
    assert names(work) == before
    assert names(tmp_path) == {"work"}


@pytest.mark.parametrize("number", [2, 3, 5])
def test_verifying_sees_an_event_under_another_number(tmp_path: Path, number: int) -> None:
    """One bit of a row's number: a scan found the event, an opening that looks it up did not."""
    path = tmp_path / "a.ledger"
    with opened(path) as ledger:
        spend(ledger, "a", "b", "c")
    body = verify(path).events[number - 1].body.encode()
    raw = bytearray(path.read_bytes())
    place = raw.find(body) - 7  # before it: the number, and six bytes of the record's header
    assert raw[place] == number
    raw[place] ^= 32
    path.write_bytes(raw)
    with pytest.raises(LedgerError, match=f"event {number} has another number"):
        verify(path)
    with pytest.raises(LedgerError):
        opened(path)


def test_damage_anywhere_is_one_refusal(tmp_path: Path) -> None:
    """One file in a hundred ended in a TypeError, or in SQLite quoting a damaged name that is no text."""
    path = tmp_path / "a.ledger"
    with opened(path) as ledger:
        spend(ledger, "a", "b")
        ledger.append("snapshot", {"digest": ledger.put_blob(b"one")})
    whole, source = path.read_bytes(), random.Random(5)
    found = set()
    for _ in range(400):
        raw = bytearray(whole)
        for _ in range(source.randint(1, 8)):
            place = source.randrange(len(raw))
            if source.random() < 0.6:
                raw[place] = source.randrange(256)
            else:
                del raw[place : place + source.randint(1, 60)]
        (tmp_path / "b.ledger").write_bytes(raw)
        try:
            verify(tmp_path / "b.ledger")
            found.add("whole")
        except LedgerError:
            found.add("refused")
    assert found == {"whole", "refused"}


def test_verifying_looks_at_every_blob(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with opened(path) as ledger:
        one, other = ledger.put_blob(b"one"), ledger.put_blob(b"other")
        ledger.append("snapshot", {"digest": one})
        ledger.append("answer", {"key": "k", "analyst": "ann", "blob": other})
        ledger.append("start", {"release": "f" * 64, "audits": 0})
    assert verify(path).damaged == ("start of event 4 (missing)",)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE blobs SET data = x'00'")
        connection.commit()
    assert set(verify(path).damaged) == {
        "snapshot of event 2",
        "answer of event 3",
        "start of event 4 (missing)",
    }


def test_a_backup_taken_in_use_restores_and_the_anchor_remembers_more(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.ledger", tmp_path / "copy"
    with opened(path) as ledger:
        spend(ledger, "a")
        assert back_up(path, copy).history.spent == COST
        spend(ledger, "b")
        with pytest.raises(LedgerError, match="in use"):
            restore_backup(copy, path)
    with pytest.raises(LedgerError, match="nothing to restore"):
        restore_backup(copy, path)
    with pytest.raises(LedgerError, match="exists already"):
        back_up(path, copy)
    path.write_bytes(b"ruined")
    statement, problem, aside = restore_backup(copy, path)
    assert statement.history.spent == COST
    assert problem is not None
    assert "rolled back" in problem
    assert aside is not None
    assert aside.read_bytes() == b"ruined"
    with pytest.raises(LedgerError, match="rolled back"):
        opened(path)
    with opened(path, accept_rollback=True) as ledger:
        assert ledger.spent == 2 * COST


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_cannot_close_its_parents_ledger(tmp_path: Path) -> None:
    with opened(tmp_path / "a.ledger") as ledger:
        child = os.fork()
        if child == 0:
            ledger.close()
            os._exit(0)
        os.waitpid(child, 0)
        spend(ledger, "a")
        ledger.verify()
