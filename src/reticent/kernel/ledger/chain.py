"""`Chain` is a store with the state after its events; `ChainWriter` appends to it, durably and for one process.

A chain is opened from its newest checkpoint and followed event by event. A checkpoint is never trusted more than the
events: an event of the chain names it, so changing it changes the head of the chain, which the anchor holds. Events
before it are checked when they are read, up to the next milestone of the history, whose digest the checkpoint holds.
`verify` folds everything again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from reticent.errors import LedgerError
from reticent.kernel.ledger.anchor import Anchor, Mark
from reticent.kernel.ledger.events import CHECKPOINT, GENESIS, SEGMENT, Event, History, sha256
from reticent.kernel.ledger.store import LAST, LedgerStore, io_errors, stored_event, stored_events

LEAST = 8192
"""Fewer events are read again in a fraction of a second."""
GROWTH = 16
"""A checkpoint is due when the chain has grown by a sixteenth: all of them together cost a constant per event."""
STAMP_SECONDS = 60
"""Events are stamped with the minute: no finer than any tick of the service, so that stamps show no running times."""
NOBODY: dict[str, Any] = {"key": None, "analyst": None, "cost": 0}


class Chain:
    """Events, and the state of keys, charges and free events after the last of them."""

    def __init__(self, store: LedgerStore, *, trusted: int = LAST) -> None:
        """`trusted` is the last event known to be genuine: no later checkpoint is used."""
        self.store = store
        self.history, self._checkpoint = _resumed(store, trusted)
        self._base = (self.history.sequence, self.history.head)
        self._checked: set[int] = set()
        for _ in self.follow():
            pass

    def follow(self) -> Iterator[Event]:
        """Fold the stored events beyond the history, one by one."""
        for event in stored_events(self.store, self.history.sequence):
            self.apply(event)
            yield event

    def apply(self, event: Event) -> None:
        """Fold one event that is already stored."""
        self.history.apply(event)
        if event.kind == CHECKPOINT:
            self._checkpoint = event

    def event(self, sequence: int) -> Event:
        """One past event, checked to be part of this chain."""
        if sequence <= self._base[0]:
            self._check((sequence - 1) // SEGMENT)
        event = stored_event(self.store, sequence)
        if event.sequence != sequence:
            raise LedgerError(f"the ledger was edited: event {sequence} is another one; restore the file")
        return event

    def events(self, after: int = 0, upto: int = LAST) -> Iterator[Event]:
        """All events in order, each checked against its own hash."""
        return stored_events(self.store, after, upto)

    def _check(self, segment: int) -> None:
        """Check that the stored events of a segment before the checkpoint link one known digest to the next."""
        if segment in self._checked:
            return
        milestones, (last, head) = self.history.milestones, self._base
        digest = milestones[segment - 1] if segment else GENESIS
        first, end = segment * SEGMENT, min((segment + 1) * SEGMENT, last)
        for sequence, body, stored in self.store.rows(first, end, SEGMENT):
            link = f'"previous":"{digest}","sequence":{sequence}}}'
            if not isinstance(body, str) or not body.endswith(link) or sha256(body.encode()) != stored:
                break
            digest, first = stored, sequence
        if first != end or digest != (head if end == last else milestones[segment]):
            raise LedgerError(f"the ledger was edited: event {first + 1} is not part of its chain; restore the file")
        self._checked.add(segment)

    @property
    def due(self) -> bool:
        """Whether a checkpoint would save more at the next opening than it costs."""
        done = 0 if self._checkpoint is None else self._checkpoint.sequence
        return self.history.sequence - done >= max(LEAST, self.history.sequence // GROWTH)

    @property
    def superseded(self) -> list[str]:
        """Blobs that the next checkpoint replaces."""
        return [] if self._checkpoint is None else [self._checkpoint.payload["state"]]


class ChainWriter:
    """Appends to a chain: commits an event, then marks it in the anchor.

    When `append` returns, the event survives a crash and the anchor would detect a rollback. After a failed write its
    outcome is unknown, so nothing is read or written until the ledger is opened again. Threads may share a writer,
    processes may not.
    """

    def __init__(self, store: LedgerStore, *, trusted: int) -> None:
        self.mutex = threading.RLock()
        """Held by whoever reads the history in several steps; `using` holds it too."""
        self.store = store
        self.unusable: str | None = None
        """Why the writer refuses to be used, and the remedy; None while it works."""
        self.closed = False
        self._anchor: Anchor | None = None
        self._process = os.getpid()
        self._chain = Chain(store, trusted=trusted)

    @property
    def history(self) -> History:
        """The state after the last event."""
        return self._chain.history

    def begin(self, first: Event) -> None:
        """Store the first event of an empty chain."""
        self.store.append(first, {})
        self._chain.apply(first)

    def attach(self, anchor: Anchor | None) -> None:
        """Mark the last event in this anchor, and every later one; None for a chain without an anchor."""
        self._anchor = anchor
        self._write_mark()

    @contextmanager
    def using(self) -> Generator[None]:
        """Hold the mutex; LedgerError if the writer is closed, failed before, or belongs to another process."""
        with self.mutex, io_errors("the ledger"):
            if self.unusable is not None:
                raise LedgerError(f"{self.unusable}; what is charged stays charged")
            if os.getpid() != self._process:
                raise LedgerError("the ledger was opened by a parent process: use it in one process only")
            yield

    def append(self, kind: str, payload: dict[str, Any], blobs: Iterable[bytes] = (), **fields: Any) -> Event:
        """Commit, then mark."""
        link = {"sequence": self.history.sequence + 1, "previous": self.history.head, "at": stamp()}
        event = Event.build(kind=kind, payload=payload, **link, **(NOBODY | fields))
        with self._writing():
            self.store.append(event, {sha256(data): data for data in blobs})
            self._chain.apply(event)
            self._write_mark()
        return event

    def put_blob(self, data: bytes) -> str:
        """Store bytes under their hash, which is returned."""
        with self.using(), self._writing():
            self.store.append(None, {sha256(data): data})
            return sha256(data)

    def discard(self, superseded: Iterable[str]) -> None:
        """Remove blobs that the last event replaced."""
        with self._writing():
            for digest in superseded:
                self.store.discard(digest)

    def event(self, sequence: int) -> Event:
        """One past event, checked to be part of this chain."""
        return self._chain.event(sequence)

    def read(self, after: int, upto: int) -> Iterator[Event]:
        """Events in order, read in pieces; the mutex is free between two pieces."""
        while after < upto:
            with self.using():
                rows = self.store.rows(after, upto)
            if not rows:
                raise LedgerError(f"the ledger was edited: event {after + 1} is missing; restore the file")
            yield from (Event.parse(body, digest) for _, body, digest in rows)
            after = rows[-1][0]

    def checkpoint(self) -> None:
        """Store the state after all events if there is an anchor and a checkpoint is due."""
        with self.using():
            if self._anchor is not None and self._chain.due:
                state, superseded = self.history.to_bytes(), self._chain.superseded
                self.append(CHECKPOINT, {"state": sha256(state)}, [state])
                self.discard(superseded)

    def close(self, told: str) -> None:
        """Write a due checkpoint, then close the store and the anchor; later uses are refused with `told`."""
        with self.mutex:
            if os.getpid() != self._process:
                return  # a forked child shares the parent's descriptors: they are not its own to close
            if self.unusable is None:
                with suppress(LedgerError):  # optional: what it would hold is in the events
                    self.checkpoint()
            if not self.closed:
                self.closed, self.unusable = True, told
                with ExitStack() as resources:
                    resources.callback(self.store.close)
                    if self._anchor is not None:
                        resources.callback(self._anchor.close)

    def _write_mark(self) -> None:
        if self._anchor is not None:
            history = self.history
            self._anchor.write(Mark(history.opening["ledger"], history.sequence, history.head, history.spent))

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Any interruption of a write, even a signal, leaves its outcome unknown until the ledger is reopened."""
        try:
            yield
        except BaseException:
            self.unusable = "the ledger failed to write: open it again"
            raise


def first_event(facts: dict[str, Any]) -> Event:
    """The event with which every chain begins."""
    return Event.build(kind="open", payload=facts, sequence=1, previous=GENESIS, at=stamp(), **NOBODY)


def stamp() -> int:
    """The current minute, in seconds since 1970."""
    return int(time.time()) // STAMP_SECONDS * STAMP_SECONDS


def checkpoint_of(store: LedgerStore, event: Event) -> History | None:
    """The state before this checkpoint; None if its blob is missing or damaged."""
    try:
        data = store.blob(event.payload["state"])
        if data is None or sha256(data) != event.payload["state"]:
            return None
        history = History.from_bytes(data)
    except (KeyError, TypeError, ValueError):
        return None
    return history if (history.sequence, history.head) == (event.sequence - 1, event.previous) else None


def _resumed(store: LedgerStore, trusted: int) -> tuple[History, Event | None]:
    """The history of the newest readable checkpoint, otherwise the empty history."""
    event = store.newest(CHECKPOINT, trusted) if trusted else None
    history = None if event is None else checkpoint_of(store, event)
    return (History(), None) if history is None else (history, event)
