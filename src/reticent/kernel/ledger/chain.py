"""`Chain`: a store with the state after its events, opened from the newest checkpoint and followed event by event.

A checkpoint is never trusted more than the events: an event of the chain names it, so changing it changes the head of
the chain, which the anchor holds. Events before it are checked when they are read, up to the next milestone of the
history, whose digest the checkpoint holds. `verify` folds everything again.
"""

from __future__ import annotations

from collections.abc import Iterator

from reticent.errors import LedgerError
from reticent.kernel.ledger.events import CHECKPOINT, GENESIS, SEGMENT, Event, History, sha256
from reticent.kernel.ledger.store import LAST, LedgerStore, stored_event, stored_events

LEAST = 8192
"""Fewer events are read again in a fraction of a second."""
GROWTH = 16
"""A checkpoint is due when the chain has grown by a sixteenth: all of them together cost a constant per event."""


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
