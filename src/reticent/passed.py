"""Tested answers that opened an epoch under a key were paid for: the same key repeats them, also after a crash."""

from __future__ import annotations

import threading
from functools import cached_property
from math import inf, isfinite
from typing import Any

from reticent.algorithms.epochs import Verdict
from reticent.errors import KeyReusedError
from reticent.kernel.curator import pack, unpack
from reticent.kernel.ledger import Ledger
from reticent.queries.base import Query

KIND = "passed"


class Passed:
    """At most one event per epoch; read once, since only this session writes to its ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # Whoever asks for a price does not wait for who pays: what is kept meanwhile must not be missed.
        self._lock = threading.Lock()

    def find(self, key: str, query: Query) -> Verdict | None:
        """What this key was told; a key belongs to one question."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None:
            return None
        if kept["asked"] != query.digest:
            raise KeyReusedError("this key belongs to another question: use a new key")
        error = inf if kept["error"] is None else kept["error"]
        return Verdict(unpack(kept["values"]), error, kept["origin"], kept["snapshot"], None, kept["cost"])

    def keep(self, key: str, query: Query, verdict: Verdict) -> None:
        """Durable before the answer leaves; the epoch itself cannot come back, what it said can."""
        payload = {
            "key": key,
            "asked": query.digest,
            "values": pack(verdict.values),
            "error": verdict.error if isfinite(verdict.error) else None,
            "origin": verdict.origin,
            "snapshot": verdict.snapshot,
            "cost": verdict.cost,
        }
        with self._lock:
            known = self._kept
            self._ledger.append(KIND, payload)
            known[key] = payload

    @cached_property
    def _kept(self) -> dict[str, dict[str, Any]]:
        return {event.payload["key"]: event.payload for event in self._ledger.events() if event.kind == KIND}
