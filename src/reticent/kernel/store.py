"""A store keeps the ledger's events and blobs; what `append` returned from survives a crash of the machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from reticent.errors import LedgerError
from reticent.kernel.events import Event

try:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

except ImportError:  # Windows
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]


def open_locked(path: Path, *, create: bool) -> int:
    """A descriptor that holds the operating system's lock on `path`; the system frees it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    try:
        _try_lock(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise LedgerError(f"{path} is in use by another process or session: close that one first") from error
    return descriptor


class LedgerStore(Protocol):
    """Append-only events and content-addressed blobs. Errors may leave the last append in doubt, never torn."""

    def events(self) -> Iterator[Event]: ...

    def event(self, sequence: int) -> Event: ...

    def append(self, event: Event, blobs: Mapping[str, bytes]) -> None:
        """Event and blobs in one atomic, durable step."""
        ...

    def put_blob(self, digest: str, data: bytes) -> None: ...

    def blob(self, digest: str) -> bytes | None: ...

    def close(self) -> None: ...


class MemoryStore:
    """The same contract for the lifetime of one object."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._blobs: dict[str, bytes] = {}

    def events(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    def event(self, sequence: int) -> Event:
        return Event.parse(self._events[sequence - 1].body, self._events[sequence - 1].digest)

    def append(self, event: Event, blobs: Mapping[str, bytes]) -> None:
        self._blobs |= blobs
        self._events.append(event)

    def put_blob(self, digest: str, data: bytes) -> None:
        self._blobs[digest] = data

    def blob(self, digest: str) -> bytes | None:
        return self._blobs.get(digest)

    def close(self) -> None:
        self._blobs.clear()


def _create_events(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE events (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)"
    )


def _add_blobs_and_guards(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID")
    for verb in ("UPDATE", "DELETE"):  # against accidents; the hash chain stands against intent
        connection.execute(
            f"CREATE TRIGGER events_{verb.lower()} BEFORE {verb} ON events"
            " BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
        )


# Migration i takes a file from version i to i + 1; a new file passes through all. The chain itself is never rewritten.
MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_create_events, _add_blobs_and_guards)
VERSION = len(MIGRATIONS)


class SqliteStore:
    """One SQLite file in WAL mode with synchronous=FULL: one device flush per append."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._lock: int | None = None
        if not read_only:
            self._lock = open_locked(path.with_name(path.name + ".lock"), create=True)
        try:
            # One connection only: it is shared by threads under the ledger's lock.
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
                uri=True, isolation_level=None, check_same_thread=False,
            )  # fmt: skip
            try:
                self._prepare(read_only)
            except BaseException:
                self._connection.close()
                raise
        except BaseException as error:
            self._unlock()
            if isinstance(error, sqlite3.Error):
                raise LedgerError(
                    f"{path} cannot be opened as a ledger ({error}): check file and disk"
                ) from error
            raise

    def _prepare(self, read_only: bool) -> None:
        if not read_only:
            if self._connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                raise LedgerError(
                    f"{self._path} is on a file system without WAL: keep the ledger on a local disk"
                )
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute("PRAGMA fullfsync=ON")  # macOS: flush the device too
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise LedgerError(
                f"{self._path} has schema version {version}, newer than {VERSION}: upgrade reticent"
            )
        if read_only and version == 0:
            raise LedgerError(f"{self._path} holds no ledger: check the path")
        if version < VERSION and not read_only:
            self._connection.execute("BEGIN IMMEDIATE")
            for migrate in MIGRATIONS[version:]:
                migrate(self._connection)
            self._connection.execute(f"PRAGMA user_version={VERSION}")
            self._connection.execute("COMMIT")

    def events(self) -> Iterator[Event]:
        for body, digest in self._connection.execute("SELECT body, digest FROM events ORDER BY sequence"):
            yield Event.parse(body, digest)

    def event(self, sequence: int) -> Event:
        row = self._connection.execute(
            "SELECT body, digest FROM events WHERE sequence = ?", (sequence,)
        ).fetchone()
        if row is None:
            raise LedgerError(f"the ledger was edited: event {sequence} is missing; restore the file")
        return Event.parse(*row)

    def append(self, event: Event, blobs: Mapping[str, bytes]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._insert_blobs(blobs)
        self._connection.execute(
            "INSERT INTO events VALUES (?, ?, ?)", (event.sequence, event.body, event.digest)
        )
        self._connection.execute("COMMIT")

    def put_blob(self, digest: str, data: bytes) -> None:
        self._insert_blobs({digest: data})

    def _insert_blobs(self, blobs: Mapping[str, bytes]) -> None:
        for digest, data in blobs.items():
            self._connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))

    def blob(self, digest: str) -> bytes | None:
        row = self._connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        self._connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
