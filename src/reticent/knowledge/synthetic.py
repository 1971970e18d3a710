"""The synthetic table of a snapshot: a function of its digest, so it is public and stays the same."""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from reticent.hypotheses.snapshot import Snapshot
from reticent.knowledge.knowledge import Knowledge

ROWS = 10_000
"""Enough to look at, quick to draw; a release's `synthesize` draws as many as wanted."""

_DRAWN: WeakKeyDictionary[Snapshot, np.ndarray] = WeakKeyDictionary()
_LOCK = Lock()


def drawn_rows(knowledge: Knowledge, rows: int) -> np.ndarray:
    """The codes of the first rows: independent draws from the newest certified snapshot, seeded by its digest."""
    snapshot = knowledge.newest.snapshot
    with _LOCK:
        codes = _DRAWN.get(snapshot)
    if codes is None:
        codes = snapshot.sample(ROWS, np.random.default_rng(int(snapshot.digest, 16)))
        with _LOCK:
            _DRAWN[snapshot] = codes
    return codes[:rows]
