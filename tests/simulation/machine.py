"""A machine whose disks lose what was not flushed.

Files live in a folder of a memory file system, which plays the system's page cache: what a process wrote is seen by
whoever reads after it, also when that process was killed. Beside it each volume keeps what a disk is sure to hold: the
bytes of every file at its last flush, the names of its directory at theirs, and all changes since, in order. A loss of
power keeps the sure part and any part of the rest: writes whole, torn or missing, a prefix of the directory's changes.
"""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512
Write = tuple[int, bytes | None]
"""Offset and bytes; or a size and None, which is a truncation."""


class Fault(OSError):
    """A call failed, or its process is no more."""


@dataclass(eq=False)
class Inode:
    """One file: what is sure to be on the disk, and what was written since."""

    sure: bytearray = field(default_factory=bytearray)
    since: list[Write] = field(default_factory=list)

    def flush(self) -> None:
        for write in self.since:
            apply(self.sure, write)
        self.since.clear()

    def after_power_loss(self, rng: random.Random) -> bytearray:
        """The sure part and what a disk may hold of the rest."""
        how = rng.choice(("none", "all", "prefix", "some", "some"))
        if how == "none":
            kept = []
        elif how == "prefix":
            kept = self.since[: rng.randint(0, len(self.since))]
        else:
            kept = [write for write in self.since if how == "all" or rng.random() < 0.5]
        content = bytearray(self.sure)
        for write in kept:
            for piece in torn(write, rng) if how != "all" and rng.random() < 0.4 else (write,):
                apply(content, piece)
        return content


def apply(content: bytearray, write: Write) -> None:
    place, data = write
    if data is None:
        del content[place:]
        content.extend(bytes(place - len(content)))
        return
    if len(content) < place:
        content.extend(bytes(place - len(content)))
    content[place : place + len(data)] = data


def torn(write: Write, rng: random.Random) -> list[Write]:
    """Parts of a write: its beginning, its end, some of its sectors, or its length without its bytes."""
    place, data = write
    if not data:
        return [write]
    cut = cut_of(data, rng)
    match rng.randrange(4):
        case 0:
            return [(place, data[:cut])]
        case 1:
            return [(place + cut, data[cut:])]
        case 2:
            sectors = range(0, len(data), SECTOR)
            return [(place + at, data[at : at + SECTOR]) for at in sectors if rng.random() < 0.5]
        case _:
            return [(place + len(data), b"")]


def cut_of(data: bytes, rng: random.Random) -> int:
    """Where a write is torn: anywhere, but every second time within what is not padding."""
    return rng.randint(0, len(data) if rng.random() < 0.5 else len(data.rstrip(b"\0")))


class Volume:
    """One folder on one disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.prefix = f"{folder}/"
        self.names: dict[str, Inode] = {}
        self.sure: dict[str, Inode] = {}
        self.since: list[dict[str, Inode | None]] = []
        """Changes of the directory that were not flushed, each of them atomic."""
        self.lies = False
        """Says that it has flushed, and has not."""
        self.forgets = False
        """Drops what a failed flush should have written; the system shows it until the power goes."""

    def change(self, changed: dict[str, Inode | None]) -> None:
        self.since.append(changed)
        rename(self.names, changed)

    def inode(self, name: str) -> Inode:
        if name not in self.names:
            self.change({name: Inode()})
        return self.names[name]

    def notice_removals(self) -> None:
        """Files that were unlinked past the recorder."""
        for name in [name for name in self.names if not os.path.exists(self.prefix + name)]:
            self.change({name: None})

    def flush(self, name: str) -> None:
        if not self.lies:
            self.inode(name).flush()

    def flush_directory(self) -> None:
        if not self.lies:
            for changed in self.since:
                rename(self.sure, changed)
            self.since.clear()

    def lose_power(self, rng: random.Random) -> None:
        self.notice_removals()
        for changed in self.since[: rng.randint(0, len(self.since))]:
            rename(self.sure, changed)
        self.since.clear()
        for name in os.listdir(self.folder):
            os.unlink(self.prefix + name)
        self.names = dict(self.sure)
        for name, inode in self.names.items():
            inode.sure = inode.after_power_loss(rng)
            inode.since.clear()
            with open(self.prefix + name, "wb", buffering=0) as file:
                file.write(inode.sure)

    def put(self, name: str, content: bytes | None) -> None:
        """Somebody with all rights puts a file here, or removes it, and flushes."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        if content is None:
            self.change({name: None})
        else:
            path.write_bytes(content)
            self.change({name: Inode(bytearray(content))})
        lies, self.lies = self.lies, False
        self.flush_directory()
        self.lies = lies


def rename(names: dict[str, Inode], changed: dict[str, Inode | None]) -> None:
    for name, inode in changed.items():
        names.pop(name, None)
        if inode is not None:
            names[name] = inode


@dataclass
class Plan:
    """What befalls one process: it dies at a step, and calls fail at others."""

    dies: int = 0
    full: range = range(0)
    """The disk is full for writes at these steps."""
    broken: frozenset[int] = frozenset()
    """An I/O error at these steps."""


class Process:
    """One life: every call that changes a disk is a step of it."""

    def __init__(self, machine: Machine, plan: Plan) -> None:
        self.machine, self.plan = machine, plan
        self.steps = 0
        self.dead = False
        self.failed = False
        """A call failed although the process lived on."""
        self.descriptors: set[int] = set()
        self.connections: list[object] = []

    def step(self, what: str) -> str:
        """How this call goes: "well", or what befalls it while it is made: "dies", "full" or "broken"."""
        if self.dead:
            raise Fault(errno.EIO, "this process is dead")
        self.steps += 1
        self.machine.clock += self.machine.rng.random()
        if self.steps == self.plan.dies:
            self.dead = True
            return "dies"
        if what == "write" and self.steps in self.plan.full:
            self.failed = True
            return "full"
        if self.steps in self.plan.broken:
            self.failed = True
            return "broken"
        return "well"

    def end(self) -> None:
        """Killed, if it is not dead already; the system closes what it had open."""
        self.dead = True
        for connection in self.connections:
            connection.abandon()  # type: ignore[attr-defined]
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()
        self.connections.clear()
        for volume in self.machine.volumes:
            volume.notice_removals()


class Machine:
    """Volumes, a clock, and at most one running process."""

    def __init__(self, rng: random.Random, *volumes: Volume) -> None:
        self.rng, self.volumes = rng, volumes
        self._places: dict[str, tuple[Volume, str] | None] = {}
        self.clock = 1.8e9 + rng.random() * 1e6
        self.process = Process(self, Plan())
        self.log_pages = 1000
        """Pages of SQLite's log after which it is moved into its file."""
        self.lossy = False
        """Something was lost that a flush had confirmed, or that the system still shows."""

    def start(self, plan: Plan) -> Process:
        self.process = Process(self, plan)
        return self.process

    def lose_power(self) -> None:
        self.process.end()
        self.lossy |= any(volume.lies for volume in self.volumes)
        for volume in self.volumes:
            volume.lose_power(self.rng)

    def place(self, path: str | os.PathLike[str]) -> tuple[Volume, str] | None:
        """The volume and name of a path; None for what is no file of a volume, or only shared memory or a lock."""
        text = os.fspath(path)
        if text not in self._places:
            folder, name = os.path.split(os.path.abspath(text))
            found = next((volume for volume in self.volumes if str(volume.folder) == folder), None)
            self._places[text] = None if found is None or name.endswith(("-shm", ".lock")) else (found, name)
        return self._places[text]

    # ---- what every way to the disk has in common

    def wrote(self, place: tuple[Volume, str], write: Write) -> tuple[str, Write | None]:
        """How a write goes, and the part of it that takes effect, which is recorded."""
        how, part = self.process.step("write"), write
        if how != "well":
            offset, data = write
            if self.rng.random() < 0.5:
                return how, None
            part = write if data is None else (offset, data[: cut_of(data, self.rng)])
        place[0].inode(place[1]).since.append(part)
        return how, part

    def flushed(self, place: tuple[Volume, str]) -> bool:
        """Whether a flush succeeded; where it fails, the system may forget what it should have written."""
        how, (volume, name) = self.process.step("flush"), place
        if how == "well" or (how == "dies" and self.rng.random() < 0.5):
            volume.flush(name)
        elif how == "broken" and volume.forgets and volume.inode(name).since:
            # As Linux, which marks pages clean after a failed flush.
            volume.inode(name).since.clear()
            self.lossy = True
        return how == "well"
