"""A statement is what a ledger's file says, checked from first event to last, without opening it to write."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass

from reticent.errors import LedgerError
from reticent.kernel.anchor import breach, newest, places
from reticent.kernel.events import Event, History
from reticent.kernel.store import SqliteStore, io_errors


@dataclass(frozen=True)
class Statement:
    """What a ledger file says; `anchored` is False where there was no anchor to hold it against."""

    events: tuple[Event, ...]
    history: History
    anchored: bool


def verify(path: str | os.PathLike[str], *, anchor: str | os.PathLike[str] | None = None) -> Statement:
    """Check a ledger file without writing, even while in use; LedgerError where it was edited or cut."""
    file, marks = places(path, anchor)
    if not file.exists():
        raise LedgerError(f"{file} does not exist: check the path")
    with io_errors(file), closing(SqliteStore(file, read_only=True)) as store:
        mark = newest(marks)[1]
        events = tuple(store.events())
        history = History.replay(events)
        # A running writer moves the mark while we read; then the older mark need only be part of the chain.
        problem = breach(history, store, mark, moving=newest(marks)[1] != mark)
    if problem is not None and marks.exists():
        raise LedgerError(problem)
    return Statement(events, history, marks.exists())
