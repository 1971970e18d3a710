"""A follower reads the ledger's file read-only; readers answer from it and have no access to rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import LedgerError
from reticent.kernel.ledger.chain import Chain
from reticent.kernel.ledger.columns import Reservation
from reticent.kernel.ledger.events import Event, sha256
from reticent.kernel.ledger.store import SqliteStore
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.knowledge import CertifiedBatch, Knowledge
from reticent.knowledge.learning import learn
from reticent.sessions.journal import ASK, SUM, Journal
from reticent.sessions.resume import OFFSETS, resumed, understood, with_index, with_means, with_offsets
from reticent.sessions.state import part_key

ANEW = ("session", "start", "release", "published", "rollback")
"""After these the knowledge is built anew: they change what a session starts from."""


class PublicLedger:
    """The settled events of a ledger that another process writes: the part that a journal reads."""

    def __init__(self, path: Path) -> None:
        self._store = SqliteStore(path, mode="ro")
        self._chain = Chain(self._store)

    @property
    def identity(self) -> dict[str, Any]:
        return self._chain.history.opening["identity"]

    def version(self) -> int:
        """A number that changes whenever the writer has committed."""
        return self._store.version()

    def follow(self) -> list[Event]:
        """Read the events that the writer has appended since."""
        return list(self._chain.follow())

    def event(self, sequence: int) -> Event:
        return self._chain.event(sequence)

    def noted(self, kind: str, after: int = 0) -> list[int]:
        return self._chain.history.noted(kind, after)

    def newest(self, kind: str) -> int | None:
        return self._chain.history.newest(kind)

    def named(self, kind: str, key: str) -> int | None:
        return self._chain.history.named.get(f"{kind}:{key}")

    def keys(self, prefix: str, kind: str | None = None) -> list[str]:
        return [old.key for old in self._chain.history.reservations.starting(prefix) if kind in (None, old.kind)]

    def reservation(self, key: str) -> Reservation | None:
        return self._chain.history.reservations.get(key)

    def settlements(self, kind: str, prefix: str, after: int = 0) -> list[Reservation]:
        return self._chain.history.reservations.settled(kind, prefix, after)

    def settlement_places(self, kind: str, prefix: str, after: int = 0) -> np.ndarray:
        return self._chain.history.reservations.settlements(kind, prefix, after)

    def successor(self, key: str) -> tuple[str, int]:
        return self._chain.history.reservations.successor(key)

    def get_blob(self, digest: str) -> bytes:
        data = self._store.blob(digest)
        if data is None or sha256(data) != digest:
            raise LedgerError("a stored snapshot is missing or damaged: restore the ledger's file")
        return data

    def settled(self, key: str, kind: str, request: dict[str, Any]) -> Event | None:
        reservation = self.reservation(key)
        return self.event(reservation.settled) if reservation is not None and reservation.settled else None

    def requested(self, key: str) -> dict[str, Any] | None:
        reservation = self.reservation(key)
        return None if reservation is None else self.event(reservation.sequence).payload["request"]

    def close(self) -> None:
        self._store.close()


class Follower:
    """The knowledge of a session, updated event by event as its ledger grows."""

    def __init__(self, path: Path) -> None:
        self._ledger = PublicLedger(path)
        readable: Any = self._ledger
        self._journal = Journal(readable)
        self._version = self._ledger.version()
        for _ in self._ledger.follow():
            pass  # committed while the file was read; from here on `version` tells
        self.knowledge = resumed(self._journal)
        """An immutable value; `refresh` puts another one in its place."""

    @property
    def domain(self) -> Domain:
        return self.knowledge.domain

    def recall(self, name: str) -> list[float] | None:
        """The errors with which the parts of a question were bought before."""
        return self._journal.targets(part_key(name, None), name)

    def told(self, name: str) -> dict[str, Any] | None:
        """The answer that was recorded for a question of several parts when it was bought."""
        return self._journal.told_of(part_key(name, None))

    def refresh(self) -> bool:
        """Read new events; returns whether there were any. It takes a few microseconds if not."""
        version = self._ledger.version()
        if version == self._version:
            return False
        self._version = version
        events, knowledge = self._ledger.follow(), self.knowledge
        if any(event.kind in ANEW for event in events):
            knowledge = resumed(self._journal)
        else:
            for event in events:
                knowledge = self._taught(knowledge, event)
        grown = knowledge is not self.knowledge
        self.knowledge = knowledge
        return grown

    def _taught(self, knowledge: Knowledge, event: Event) -> Knowledge:
        """Learn as the writer did: purchases move the working hypothesis, a stored snapshot replaces it."""
        if event.kind == "settle" and str(event.key).startswith(ASK):
            reservation = self._ledger.reservation(str(event.key))
            bought = None
            if reservation is not None and reservation.kind == "measure":
                bought = self._journal.purchase(reservation)
            return knowledge if bought is None else learn(knowledge, understood(self._journal, knowledge, bought))
        if event.kind == "settle" and str(event.key).startswith(SUM):
            return with_means(self._journal, knowledge)
        if event.kind == "settle" and str(event.key).startswith(OFFSETS):
            return with_offsets(self._journal, knowledge)
        if event.kind == "snapshot" and event.payload["digest"] != knowledge.current.digest:
            return knowledge.with_current(self._journal.snapshot(event.payload["digest"]))
        if event.kind == "certificate":
            certificate = Certificate.from_dict(event.payload)
            return knowledge.with_certificate(self._journal.snapshot(certificate.snapshot), certificate)
        if event.kind == "knowledge" and event.sequence == self._ledger.newest("knowledge"):
            learned = self._journal.learned()  # what it covers need not stay in memory
            return knowledge if learned is None else with_index(self._journal, knowledge, learned)
        if event.kind == "batch":
            certificate = Certificate.from_dict(event.payload["certificate"])
            batch = CertifiedBatch(self._journal.snapshot(certificate.snapshot), certificate)
            return knowledge.with_batch(tuple(event.payload["forms"]), batch)
        return knowledge

    def close(self) -> None:
        self._ledger.close()
