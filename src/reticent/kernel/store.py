"""A store keeps the ledger's events and blobs; what was appended survives a crash of the machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Protocol

from reticent.errors import LedgerError
from reticent.kernel.events import Event

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    def _lock(descriptor: int) -> None:
        flock(descriptor, LOCK_EX | LOCK_NB)

except ImportError:  # Windows
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def io_errors(what: object) -> Iterator[None]:
    """Failures of disk and file become one line for the user."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LedgerError(f"{what} cannot be read or written ({reason}): check path, disk and permissions") from error


def open_locked(path: Path, *, create: bool) -> int:
    """A descriptor holding the operating system's lock on `path`, which frees it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    try:
        _lock(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise LedgerError(f"{path} is in use by another session or process: close that one first") from error
    return descriptor


class LedgerStore(Protocol):
    """Append-only events and content-addressed blobs; a failed append may be in doubt, never torn."""

    def events(self) -> Iterator[Event]: ...

    def event(self, sequence: int) -> Event: ...

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None: ...

    def blob(self, digest: str) -> bytes | None: ...

    def close(self) -> None: ...


class MemoryStore:
    """The same contract for the lifetime of one object."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._blobs: dict[str, bytes] = {}

    def events(self) -> Iterator[Event]:
        return (Event.parse(event.body, event.digest) for event in self._events)

    def event(self, sequence: int) -> Event:
        return Event.parse(self._events[sequence - 1].body, self._events[sequence - 1].digest)

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        self._blobs.update(blobs)
        self._events += [] if event is None else [event]

    def blob(self, digest: str) -> bytes | None:
        return self._blobs.get(digest)

    def close(self) -> None:
        self._blobs.clear()


def _create_events(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE events (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)")


def _add_blobs_and_guards(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID")
    for verb in ("UPDATE", "DELETE"):  # against accidents; the hash chain stands against intent
        connection.execute(
            f"CREATE TRIGGER events_{verb.lower()} BEFORE {verb} ON events"
            " BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
        )


# Migration i takes a file from version i to i + 1 (0 is an empty file). The chain itself is never rewritten.
MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_create_events, _add_blobs_and_guards)
VERSION = len(MIGRATIONS)


class SqliteStore:
    """One SQLite file, WAL and synchronous=FULL: one device flush per append; one writer at a time."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        with ExitStack() as undo, io_errors(path):
            if not read_only:
                undo.callback(os.close, open_locked(path.with_name(path.name + ".lock"), create=True))
            url = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
            # One connection, shared by threads under the ledger's lock.
            connection = sqlite3.connect(url, uri=True, isolation_level=None, check_same_thread=False)
            undo.enter_context(closing(connection))
            self._connection = connection
            self._prepare(path, read_only)
            self._resources = undo.pop_all()

    def _prepare(self, path: Path, read_only: bool) -> None:
        execute = self._connection.execute
        version = execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION or (read_only and version == 0):
            raise LedgerError(f"{path} has schema version {version}, not 1 to {VERSION}: upgrade reticent")
        if read_only:
            return
        if execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise LedgerError(f"{path} is on a file system without shared memory: keep it on a local disk")
        execute("PRAGMA synchronous=FULL")
        execute("PRAGMA fullfsync=ON")  # macOS: through the device's cache
        if version < VERSION:
            execute("BEGIN IMMEDIATE")
            for migrate in MIGRATIONS[version:]:
                migrate(self._connection)
            execute(f"PRAGMA user_version={VERSION}")
            execute("COMMIT")

    def events(self) -> Iterator[Event]:
        for body, digest in self._connection.execute("SELECT body, digest FROM events ORDER BY sequence"):
            yield Event.parse(body, digest)

    def event(self, sequence: int) -> Event:
        row = self._connection.execute("SELECT body, digest FROM events WHERE sequence = ?", (sequence,)).fetchone()
        if row is None:
            raise LedgerError(f"the ledger was edited: event {sequence} is missing; restore the file")
        return Event.parse(*row)

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for digest, data in blobs.items():
            execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))
        if event is not None:
            execute("INSERT INTO events VALUES (?, ?, ?)", (event.sequence, event.body, event.digest))
        execute("COMMIT")

    def blob(self, digest: str) -> bytes | None:
        row = self._connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        self._resources.close()
