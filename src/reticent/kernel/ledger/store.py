"""The store of the ledger's events and blobs; appended data survives a crash of the machine."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from reticent.errors import LedgerError
from reticent.kernel.ledger.events import Event

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
    """Context manager: failures of disk and file become one line for the user."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise LedgerError(f"{what} is not a ledger, or its first bytes are damaged: check the path") from error
        # SQLite quotes a damaged name in its message unchanged, so the message may not be valid text.
        damaged = isinstance(error, UnicodeDecodeError)
        reason = "the file is damaged" if damaged else getattr(error, "strerror", None) or error
        raise LedgerError(f"{what} cannot be read or written ({reason}): check path, disk and permissions") from error


def open_locked(path: Path, *, create: bool) -> int:
    """A descriptor with the operating system's lock on `path`, which is released when the process dies."""
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    try:
        _lock(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise LedgerError(f"{path} is in use by another session or process: close that one first") from error
    return descriptor


Row = tuple[int, str, str]
"""Number, text and digest of an event, as they are stored."""
LAST = 2**62
"""Above every sequence."""
CHUNK = 1000
"""Events read at once; it bounds how long other threads wait for the store."""
BUSY_SECONDS = 10
"""How long one connection waits for what another one holds."""


class LedgerStore(Protocol):
    """Append-only events and content-addressed blobs; the outcome of a failed append may be unknown, but never torn."""

    def rows(self, after: int, upto: int = LAST, limit: int = CHUNK) -> list[Row]: ...

    def newest(self, kind: str, upto: int) -> Event | None: ...

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None: ...

    def discard(self, digest: str) -> None: ...

    def blob(self, digest: str) -> bytes | None: ...

    def close(self) -> None: ...


def stored_events(store: LedgerStore, after: int = 0, upto: int = LAST) -> Iterator[Event]:
    """Events after one sequence up to another, in order, each checked against its own hash; read in chunks."""
    while rows := store.rows(after, upto):
        for row in rows:
            event = _parsed(row)
            after = event.sequence
            yield event


def _parsed(row: Row) -> Event:
    """The event, which must state its own number; otherwise lookups by number would miss it."""
    event = Event.parse(*row[1:])
    if row[0] != event.sequence:
        raise LedgerError(
            f"the ledger was edited or damaged: event {event.sequence} has another number; restore the file"
        )
    return event


def stored_event(store: LedgerStore, sequence: int) -> Event:
    """One event; its place in the chain is not checked here."""
    for row in store.rows(sequence - 1, sequence):
        return _parsed(row)
    raise LedgerError(f"the ledger was edited: event {sequence} is missing; restore the file")


class MemoryStore:
    """The same contract for the lifetime of one object."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._blobs: dict[str, bytes] = {}

    def rows(self, after: int, upto: int = LAST, limit: int = CHUNK) -> list[Row]:
        return self._rows[after : min(upto, after + limit)]

    def newest(self, kind: str, upto: int) -> Event | None:
        found = (Event.parse(*row[1:]) for row in reversed(self._rows[:upto]))
        return next((event for event in found if event.kind == kind), None)

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        self._blobs.update(blobs)
        self._rows += [] if event is None else [(event.sequence, event.body, event.digest)]

    def discard(self, digest: str) -> None:
        self._blobs.pop(digest, None)

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


class NoEventsError(LedgerError):
    """The file holds no events: nothing was written to it, or its log is missing."""


NO_EVENTS = (
    "holds no events: it was copied without its -wal file, or its creation was interrupted; copy a ledger with"
    " `reticent ledger backup`, or delete this file to begin anew"
)


def create(path: Path, first: Event) -> None:
    """Create a ledger's file with its first event, completely or not at all: written to a temporary file, flushed,
    renamed.
    """
    draft = path.with_name(f"{path.name}.new")
    for stale in (draft, *companions(draft)):
        stale.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        for migrate in MIGRATIONS:
            migrate(connection)
        connection.execute("INSERT INTO events VALUES (?, ?, ?)", (first.sequence, first.body, first.digest))
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    for stale in companions(path):  # of a stub without events; they would be read into the new file
        stale.unlink(missing_ok=True)
    os.replace(draft, path)
    flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Make a rename or a new name durable."""
    if os.name == "posix":  # elsewhere a directory cannot be opened
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def flush_leftovers(path: Path) -> None:
    """Make durable what a killed process wrote without flushing: its log, and the names of its files.

    The operating system shows both to the next process, which answers from them and marks them in the anchor. A loss of
    power could then undo records of returned results.
    """
    log, _ = companions(path)
    if log.exists():  # no lock is ever taken on a log, so closing a second descriptor frees none
        descriptor = os.open(log, os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)
    flush_directory(path.parent)


def stored_anything(path: Path) -> bool:
    """Whether there is a file with at least one event; an interrupted creation or a copy without its log has none."""
    if not path.exists():
        return False
    try:
        with reading(path) as store:
            return bool(store.rows(0, limit=1))
    except NoEventsError:
        return False


def companions(path: Path) -> tuple[Path, Path]:
    """Files that SQLite keeps next to a file that is open, or was open when its process died."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


@contextmanager
def reading(path: Path) -> Iterator[SqliteStore]:
    """The file as it is, without a lock, without write permission, and without creating other files.

    A file that no process has open is complete: it is read as immutable, which needs neither log nor shared memory. If
    there is a log whose shared memory is missing or inaccessible, a copy of both is read.
    """
    log, shared = companions(path)
    with ExitStack() as undo, io_errors(path):
        if not log.exists() or log.stat().st_size == 0:
            # A process that begins to write appends to a log; the file changes only when the log is moved into it.
            before = _stamp(path)
            changed = LedgerError(f"{path} changed while it was read: run the same command again")
            try:
                yield undo.enter_context(closing(SqliteStore(path, mode="immutable")))
            except (sqlite3.Error, LedgerError):
                if _stamp(path) != before:  # pages of two moments look like damage
                    raise changed from None
                raise
            if _stamp(path) != before:
                raise changed
            return
        store = None
        if shared.exists():
            try:
                store = SqliteStore(path, mode="ro")
            except NoEventsError:
                raise
            except LedgerError:
                store = None
        if store is None:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="reticent-")))
            store = SqliteStore(_copied(path, folder), mode="ro")
        yield undo.enter_context(closing(store))


def _stamp(path: Path) -> tuple[int, int, int]:
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _copied(path: Path, folder: Path) -> Path:
    """File and log as they were at one moment."""
    log, copy = companions(path)[0], folder / path.name
    while True:
        before = _stamp(path), _stamp(log)
        shutil.copyfile(path, copy)
        shutil.copyfile(log, companions(copy)[0])
        if (_stamp(path), _stamp(log)) == before:
            return copy


class SqliteStore:
    """One SQLite file, WAL and synchronous=FULL: one device flush per append; one writer at a time.

    `mode` is "rw", "ro" for a file that another process may be writing, or "immutable" for one that no process writes.
    """

    def __init__(self, path: Path, *, mode: str = "rw", lock: int | None = None) -> None:
        """`lock` is the writer's lock, already held; it is released with the store."""
        self._writes = mode == "rw"
        with ExitStack() as undo, io_errors(path):
            if self._writes:
                undo.callback(os.close, open_locked(lock_of(path), create=True) if lock is None else lock)
                flush_leftovers(path)
            asked = "mode=ro&immutable=1" if mode == "immutable" else f"mode={mode}"
            url = f"{path.absolute().as_uri()}?{asked}"
            # One connection, shared by threads under the ledger's lock.
            connection = sqlite3.connect(
                url, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
            )
            undo.enter_context(closing(connection))
            self._connection = connection
            self._prepare(path)
            self._resources = undo.pop_all()

    def _prepare(self, path: Path) -> None:
        execute = self._connection.execute
        version = execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "events" not in tables and (tables or version):
            raise LedgerError(f"{path} is the SQLite database of another program: give the ledger a path of its own")
        if version == 0:
            raise NoEventsError(f"{path} {NO_EVENTS}")
        if version > VERSION:
            raise LedgerError(f"{path} has schema version {version}, not 1 to {VERSION}: upgrade reticent")
        if not self._writes:
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

    def rows(self, after: int, upto: int = LAST, limit: int = CHUNK) -> list[Row]:
        """Read at once, so that no open cursor prevents the log from being moved into the file."""
        found = self._connection.execute(
            "SELECT sequence, body, digest FROM events WHERE sequence > ? AND sequence <= ? ORDER BY sequence LIMIT ?",
            (after, upto, limit),
        )
        return found.fetchall()

    def newest(self, kind: str, upto: int) -> Event | None:
        """Found by its text, which may also occur in a payload: every candidate is parsed."""
        while True:
            row = self._connection.execute(
                "SELECT sequence, body, digest FROM events WHERE sequence <= ? AND instr(body, ?)"
                " ORDER BY sequence DESC LIMIT 1",
                (upto, f'"kind":"{kind}"'),
            ).fetchone()
            if row is None:
                return None
            event = Event.parse(*row[1:])
            if event.kind == kind:
                return event
            upto = row[0] - 1

    def append(self, event: Event | None, blobs: Mapping[str, bytes]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for digest, data in blobs.items():
            execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))
        if event is not None:
            execute("INSERT INTO events VALUES (?, ?, ?)", (event.sequence, event.body, event.digest))
        execute("COMMIT")

    def discard(self, digest: str) -> None:
        """Delete a blob that a newer one replaces."""
        self._connection.execute("DELETE FROM blobs WHERE digest = ?", (digest,))

    def blob(self, digest: str) -> bytes | None:
        row = self._connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else row[0]

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Every blob with its hash, one at a time."""
        if self._connection.execute("PRAGMA user_version").fetchone()[0] < VERSION:
            return  # version 1 had none
        last = ""
        while row := self._connection.execute(
            "SELECT digest, data FROM blobs WHERE digest > ? ORDER BY digest LIMIT 1", (last,)
        ).fetchone():
            if not isinstance(row[0], str) or row[0] <= last:
                raise LedgerError("the ledger is damaged: its blobs are out of order; restore the file")
            last = row[0]
            yield row

    def version(self) -> int:
        """Changes whenever another connection has committed."""
        return self._connection.execute("PRAGMA data_version").fetchone()[0]

    def copy_to(self, path: Path) -> None:
        """A complete copy at one moment, also while the ledger is in use."""
        with closing(sqlite3.connect(path)) as target:
            self._connection.backup(target)

    def close(self) -> None:
        """Close the store; after a writer's clean stop the log is moved into the file, even while others read."""
        with self._resources:
            if self._writes:
                with suppress(sqlite3.Error):  # a full disk: nothing is lost, the log stays beside the file
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def lock_of(path: Path) -> Path:
    """The empty file that carries the writer's lock."""
    return path.with_name(path.name + ".lock")
