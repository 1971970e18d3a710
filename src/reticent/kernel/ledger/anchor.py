"""The anchor: a second file that records the position and the spending of the ledger.

It belongs on another volume: a file restored from a copy is then behind its anchor. Two slots, each with its own hash,
are overwritten in turn: a torn write loses only the new mark. A mark costs one flush of one block; a rename would cost
two flushes and one of the directory (measured 0.18 against 0.8 ms).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from reticent.errors import LedgerError
from reticent.kernel.ledger.events import History, canonical, sha256
from reticent.kernel.ledger.store import (
    LedgerStore,
    companions,
    flush_directory,
    io_errors,
    lock_of,
    open_locked,
    stored_event,
)

SLOT = 4096
NANO = 1_000_000_000
_SLOT = re.compile(rb"[0-9a-f\0]{64}[ \0][{\0]")
"""How a slot begins, also one that was torn before anything was written over its zeros."""

_BEGINNING = 66
"""Bytes that `_SLOT` looks at."""
_TOLD = 8
"""Bytes that must be left of a slot that was cut short: fewer may be anybody's."""

_flush = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True)
class Mark:
    """The chain at one moment: the ledger's name, its last event with its digest, and the amount spent."""

    ledger: str
    sequence: int
    head: str
    spent: int


class Anchor:
    """The marks of one ledger, held under the operating system's lock while it is open."""

    def __init__(self, path: Path, *, create: bool) -> None:
        if not create and not path.exists():
            raise LedgerError(
                f"anchor {path} is missing, so a rollback cannot be excluded: give its place with anchor=,"
                " or if it is lost accept that (`reticent ledger accept-rollback`), which charges all that remains"
            )
        with io_errors(path):
            self._descriptor = open_locked(path, create=create)
            try:
                if create:
                    _refuse_other_file(path)
                    # Also for an existing file: its creator may have been killed before the name was flushed.
                    os.ftruncate(self._descriptor, 2 * SLOT)
                # The writer of the newest mark may have been killed before flushing it. The next mark overwrites the
                # other slot: if that write is torn by a power failure, both marks would be lost.
                os.fsync(self._descriptor)
                if create:
                    flush_directory(path.parent)
                self._generation, self.mark = newest(path)
            except BaseException:
                self.close()
                raise

    def write(self, mark: Mark) -> None:
        """Write a mark; it is on disk when this returns, and the preceding mark stays intact meanwhile."""
        generation = self._generation + 1
        body = canonical({"generation": generation, "mark": asdict(mark)})
        record = f"{sha256(body.encode())} {body}".encode().ljust(SLOT, b"\0")
        os.lseek(self._descriptor, generation % 2 * SLOT, os.SEEK_SET)
        if os.write(self._descriptor, record) != SLOT:
            raise OSError("the anchor's disk is full")
        _flush(self._descriptor)
        self._generation, self.mark = generation, mark

    def close(self) -> None:
        os.close(self._descriptor)


def _refuse_other_file(path: Path) -> None:
    """Refuse a file that is not an anchor: an anchor is empty, or two slots of which a torn write may damage one.

    A disk that loses confirmed writes may leave a shorter file, even shorter than the beginning of a slot; the owner of
    a few bytes cannot be determined.
    """
    content = path.read_bytes()
    slots = [slot.ljust(_BEGINNING, b"\0") for slot in (content[:SLOT], content[SLOT:]) if len(slot) >= _TOLD]
    ours = not content.strip(b"\0") or any(_SLOT.match(slot) for slot in slots)
    if len(content) > 2 * SLOT or not ours:
        raise LedgerError(f"{path} is not an anchor and will not be overwritten: choose another path, or remove it")


def newest(path: Path) -> tuple[int, Mark | None]:
    """The generation and mark of the newest intact slot; (0, None) if there is none."""
    content = path.read_bytes() if path.exists() else b""
    found: tuple[int, Mark | None] = (0, None)
    for slot in (content[:SLOT], content[SLOT : 2 * SLOT]):
        digest, _, body = slot.rstrip(b"\0").partition(b" ")
        if sha256(body).encode() == digest:
            record = json.loads(body)
            if record["generation"] > found[0]:
                found = record["generation"], Mark(**record["mark"])
    return found


def places(path: str | os.PathLike[str], anchor: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """The paths of a ledger and its anchor."""
    file = _place(path, "the ledger")
    marks = file.with_name(file.name + ".anchor") if anchor is None else _place(anchor, "the anchor")
    if marks in (file, lock_of(file), *companions(file)):
        raise LedgerError(f"the anchor: {marks} is the ledger's own file; choose another path")
    return file, marks


def _place(path: object, what: str) -> Path:
    """One path; refused in one line if no file can be there, or if something else is there.

    A new ledger is written to a temporary file and renamed: given `/dev/null`, it would replace the device.
    """
    if not isinstance(path, str | os.PathLike):
        raise LedgerError(f"{what} is of type {type(path).__name__}; give the name of its file")
    try:
        place = Path(path).resolve()
        folder = place.is_dir()
        special = place.exists() and not place.is_file() and not folder
    except (OSError, ValueError, TypeError) as problem:
        reason = getattr(problem, "strerror", None) or "no file can have this name"
        raise LedgerError(f"{what}: its file cannot be reached ({reason}); choose another place") from None
    if special:
        raise LedgerError(
            f"{what}: {place} is a device, a pipe or a socket, not an ordinary file; choose another place"
        )
    if folder or not place.name:
        raise LedgerError(f"{what}: {place} is a folder; name a file in it")
    return place


def breach(history: History, store: LedgerStore, mark: Mark | None, *, moving: bool = False) -> str | None:
    """The contradiction between file and anchor, with the remedy; None if they agree.

    The file may be one event ahead: the crash happened between commit and mark.
    """
    count, accept = history.sequence, "or accept it (`reticent ledger accept-rollback`), which charges"
    if mark is None:
        return f"the anchor is empty or ruined: restore it, {accept} all that remains" if count else None
    if count and history.opening["ledger"] != mark.ledger:
        raise LedgerError("the anchor belongs to another ledger: give the right one with anchor=")
    if count < mark.sequence:
        return (
            f"the ledger was rolled back or cut: it has {count} events, its anchor saw {mark.sequence} and"
            f" {mark.spent / NANO:.9g} spent: restore the newest file, {accept} that amount"
        )
    last = stored_event(store, count) if count else None
    if last is not None and last.kind == "rollback" and last.payload["head"] == mark.head:
        # A recovery that crashed before its mark. It never charges less than the anchor records, so an attacker who
        # can write only the ledger's file cannot use this event to bypass the anchor (hashes need no key).
        if history.spent >= mark.spent:
            return None
        return f"the ledger claims a recovery that forgets charges: restore it, {accept} all that remains"
    if mark.sequence and stored_event(store, mark.sequence).digest != mark.head:
        return f"the ledger was edited or forked at event {mark.sequence}: restore it, {accept} all that remains"
    if count > mark.sequence + 1 and not moving:
        return f"the anchor is {count - mark.sequence} events behind: restore it, {accept} all that remains"
    return None
