"""`verify`: checks a ledger's file from the first event to the last, without opening it for writing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.errors import LedgerError
from reticent.kernel.ledger.anchor import breach, newest, places
from reticent.kernel.ledger.chain import checkpoint_of
from reticent.kernel.ledger.events import CHECKPOINT, KNOWLEDGE, Event, History, sha256
from reticent.kernel.ledger.store import NO_EVENTS, NoEventsError, SqliteStore, reading, stored_event, stored_events


@dataclass(frozen=True)
class LedgerStatement:
    """The content of a ledger file; `anchored` is False if there was no anchor to compare with.

    `damaged` names unreadable data in an intact chain: snapshots, releases, stored answers.
    """

    events: tuple[Event, ...]
    history: History
    anchored: bool
    damaged: tuple[str, ...] = ()


def verify(
    path: str | os.PathLike[str], *, anchor: str | os.PathLike[str] | None = None, keep: bool = True
) -> LedgerStatement:
    """Check a ledger file without writing, even while in use; LedgerError if it was edited or truncated.

    Every event is folded again, independent of checkpoints. `keep=False` omits the events from the result.
    """
    file, marks = places(path, anchor)
    _require(file)
    # Before the file: a writer marks what it has committed, so the file has every event that the mark knows.
    mark = newest(marks)[1]
    with reading(file) as store:
        history, kept, damaged = History(), [], _Blobs(store)
        for event in stored_events(store):
            damaged.see(event, history)
            history.apply(event)
            if keep:
                kept.append(event)
        if not history.sequence:
            raise NoEventsError(f"{file} {NO_EVENTS}")
        # A running writer may move the mark meanwhile; the older mark must then only be part of the chain.
        problem = breach(history, store, mark, moving=newest(marks)[1] != mark)
        found = tuple(damaged.found())
    if problem is not None and marks.exists():
        raise LedgerError(problem)
    return LedgerStatement(tuple(kept), history, marks.exists(), found)


def events_upto(path: str | os.PathLike[str], last: int) -> Iterator[Event]:
    """The events of a file up to one that `verify` has seen, one by one, so that memory stays small."""
    with reading(places(path, None)[0]) as store:
        yield from stored_events(store, 0, last)


def opening(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The facts of a ledger's opening; None if there is no ledger yet, or only an empty file."""
    file = places(path, None)[0]
    if not file.exists():
        return None
    try:
        with reading(file) as store:
            return stored_event(store, 1).payload if store.rows(0, limit=1) else None
    except NoEventsError:
        return None


def _require(file: Path) -> None:
    if not file.exists():
        raise LedgerError(f"{file} does not exist: check the path")


class _Blobs:
    """The blobs that the events name, and those of them that are missing or damaged."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._wanted: dict[str, str] = {}
        self._replaceable: dict[str, str] = {}

    def see(self, event: Event, history: History) -> None:
        """Check a blob; a replaced checkpoint or index may be missing, but a stored one must be correct."""
        known = self._replaceable if event.kind in (CHECKPOINT, KNOWLEDGE) else self._wanted
        known |= dict.fromkeys(event.blobs, f"{event.kind} of event {event.sequence}")
        if event.kind == CHECKPOINT:
            stored = checkpoint_of(self._store, event)
            if stored is not None and stored != history:
                raise LedgerError(f"the ledger was edited: checkpoint {event.sequence} is false; restore the file")

    def found(self) -> Iterator[str]:
        present = set()
        for digest, data in self._store.blobs():
            present.add(digest)
            # Looked up as at an opening: a damaged index may miss events that a scan finds.
            if not isinstance(data, bytes) or sha256(data) != digest or self._store.blob(digest) != data:
                yield (self._replaceable | self._wanted).get(digest, f"blob {digest[:12]}")
        for digest, what in self._wanted.items():
            if digest not in present:
                yield f"{what} (missing)"
