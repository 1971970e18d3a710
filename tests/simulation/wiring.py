"""The ledger's own code and the real SQLite on a simulated machine: nothing of either is replaced but the system calls.

SQLite runs on a VFS whose calls go through the machine (apsw brings its own copy of SQLite, a later one than Python's).
The modules of the ledger get an `os`, a clock and random names of the machine's.
"""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
from tests.simulation.machine import Fault, Inode, Machine, Process

from reticent.cli import copies
from reticent.kernel.ledger import anchor, chain, ledger, store

NAME = "reticent-simulation"
JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
NEW = apsw.SQLITE_OPEN_CREATE
BASE = "unix"


def fault(how: str) -> Exception:
    """As the VFS reports it."""
    return apsw.FullError("disk full") if how == "full" else apsw.IOError("input/output error")


def stepped(process: Process, what: str) -> None:
    how = "broken" if process.dead else process.step(what)
    if how != "well":
        raise fault(how)


class Vfs(apsw.VFS):
    """Opens and removes files through the machine that is wired now."""

    machine: Machine | None = None

    def __init__(self) -> None:
        super().__init__(NAME, BASE)

    def excepthook(self, *_: object) -> None:
        """Errors of dead processes are nobody's to report."""

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        assert self.machine is not None
        return File(self.machine, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        assert self.machine is not None
        place = self.machine.place(name)
        if place is not None:
            stepped(self.machine.process, "delete")
            place[0].change({place[1]: None})
            if sync:
                place[0].flush_directory()
        super().xDelete(name, sync)


class File(apsw.VFSFile):
    """One open file of the process that opened it."""

    def __init__(self, machine: Machine, name: Any, flags: list[int]) -> None:
        self._process = machine.process
        self._machine = machine
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._place = None if path is None else machine.place(path)
        if self._place is not None and flags[0] & NEW and not os.path.exists(path):
            stepped(self._process, "create")
            self._place[0].change({self._place[1]: Inode()})
        # As SQLite's own VFS does: the first flush of a journal that may be new flushes its directory too.
        self._new = bool(flags[0] & NEW and flags[0] & JOURNALS)
        super().__init__(BASE, name, flags)

    def excepthook(self, *_: object) -> None:
        """Errors of dead processes are nobody's to report."""

    def _alive(self) -> None:
        if self._process.dead:
            raise fault("broken")

    def xRead(self, amount: int, offset: int) -> bytes:
        self._alive()
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._alive()
        if self._place is None:
            return super().xWrite(data, offset)
        how, part = self._machine.wrote(self._place, (offset, bytes(data)))
        if part is not None and part[1]:
            super().xWrite(part[1], offset)
        if how != "well":
            raise fault(how)
        return None

    def xTruncate(self, size: int) -> None:
        self._alive()
        how, part = ("well", (size, None)) if self._place is None else self._machine.wrote(self._place, (size, None))
        if part is not None:
            super().xTruncate(size)
        if how != "well":
            raise fault(how)

    def xSync(self, flags: int) -> None:
        self._alive()
        if self._place is None:
            return
        if not self._machine.flushed(self._place):
            raise fault("broken")
        if self._new:
            self._new = False
            self._place[0].flush_directory()


VFS = Vfs()


class Rows:
    """What a statement returned."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class Connection:
    """The part of `sqlite3.Connection` that the ledger uses, on the simulated files."""

    def __init__(self, place: str | Path, *, uri: bool = False) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        assert Vfs.machine is not None
        try:
            self._real = apsw.Connection(str(place) if uri else Path(place).absolute().as_uri(), flags=flags, vfs=NAME)
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from None
        self._real.wal_autocheckpoint(Vfs.machine.log_pages)
        Vfs.machine.process.connections.append(self)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        # Without a context manager: half of the simulation's calls are this one.
        try:
            return Rows(self._real.execute(statement, values).fetchall())
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from None

    def backup(self, target: Connection) -> None:
        try:
            copying = target._real.backup("main", self._real, "main")
            try:
                while not copying.done:
                    copying.step(100)
            finally:
                copying.finish()
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from None

    def close(self) -> None:
        """As Python's: what the last checkpoint meets is no error of closing."""
        assert Vfs.machine is not None
        self.abandon()
        if self in Vfs.machine.process.connections:
            Vfs.machine.process.connections.remove(self)

    def abandon(self) -> None:
        """Closed by the system, whatever that meets."""
        with suppress(apsw.Error):
            self._real.close(True)


class Sqlite:
    """Stands for the module `sqlite3`."""

    Error = sqlite3.Error
    SQLITE_NOTADB = sqlite3.SQLITE_NOTADB
    Connection = Connection

    @staticmethod
    def connect(place: str | Path, *, uri: bool = False, **_: Any) -> Connection:
        return Connection(place, uri=uri)


class System:
    """Stands for the module `os`: what changes a disk is a step of the process, all else is the real one's."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._places: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @property
    def _process(self) -> Process:
        return self._machine.process

    def _stepped(self, what: str) -> None:
        how = self._process.step(what)
        if how != "well":
            raise Fault(errno.ENOSPC if how == "full" else errno.EIO, how)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        place = self._machine.place(path)
        if place is not None and flags & os.O_CREAT and not os.path.exists(path):
            self._stepped("create")
            place[0].change({place[1]: Inode()})
        descriptor = os.open(path, flags, mode)
        self._places[descriptor] = place
        self._process.descriptors.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        if descriptor in self._process.descriptors:
            self._process.descriptors.discard(descriptor)
            os.close(descriptor)

    def _place_of(self, descriptor: int) -> Any:
        if descriptor not in self._process.descriptors:  # opened by other means
            return self._machine.place(os.readlink(f"/proc/self/fd/{descriptor}"))
        return self._places[descriptor]

    def write(self, descriptor: int, data: bytes) -> int:
        how, part = self._machine.wrote(self._place_of(descriptor), (os.lseek(descriptor, 0, os.SEEK_CUR), data))
        written = 0 if part is None else os.write(descriptor, part[1] or b"")
        if how in ("dies", "broken") or (how == "full" and self._machine.rng.random() < 0.5):
            raise Fault(errno.ENOSPC if how == "full" else errno.EIO, how)
        return written  # a full disk may also say how far it came

    def ftruncate(self, descriptor: int, size: int) -> None:
        how, part = self._machine.wrote(self._place_of(descriptor), (size, None))
        if part is not None:
            os.ftruncate(descriptor, size)
        if how != "well":
            raise Fault(errno.ENOSPC if how == "full" else errno.EIO, how)

    def fsync(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self._stepped("flush")
            folder = os.readlink(f"/proc/self/fd/{descriptor}")
            for volume in self._machine.volumes:
                if str(volume.folder) == folder:
                    volume.flush_directory()
        elif (place := self._place_of(descriptor)) is not None and not self._machine.flushed(place):
            raise Fault(errno.EIO, "broken")

    fdatasync = fsync

    def replace(self, old: Any, new: Any) -> None:
        source, target = self._machine.place(old), self._machine.place(new)
        self._stepped("rename")
        if source is not None and target is not None:
            volume = source[0]
            volume.change({source[1]: None, target[1]: volume.names[source[1]]})
        os.replace(old, new)

    @staticmethod
    def getpid() -> int:
        return 1


class Clock:
    """Stands for the module `time`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def time(self) -> float:
        return self._machine.clock

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self._machine.clock += seconds


class Names:
    """Stands for the module `secrets`: random names of the seed's."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def token_hex(self, size: int) -> str:
        return self._rng.randbytes(size).hex()


@contextmanager
def wired(machine: Machine) -> Iterator[None]:
    """The ledger's modules on this machine."""
    system = System(machine)
    Vfs.machine = machine
    with (
        patch.object(store, "sqlite3", Sqlite),
        patch.object(store, "os", system),
        patch.object(anchor, "os", system),
        patch.object(anchor, "_flush", system.fdatasync),
        patch.object(ledger, "os", system),
        patch.object(chain, "os", system),
        patch.object(chain, "time", Clock(machine)),
        patch.object(ledger, "secrets", Names(random.Random(machine.rng.random()))),
        patch.object(copies, "os", system),
    ):
        try:
            yield
        finally:
            machine.process.end()
            Vfs.machine = None
