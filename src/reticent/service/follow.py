"""A follower knows what the ledger's file says, read-only: readers answer from it and never see a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reticent.algorithms.outcome import silent
from reticent.errors import LedgerError
from reticent.journal import Journal
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.events import Event, sha256
from reticent.kernel.store import SqliteStore
from reticent.opening import Terms, know
from reticent.service.free import NoCredit, free_session, public_table
from reticent.session import Session

WORTH_KNOWING = ("settle", "snapshot", "certificate", "batch")


class PublicLedger(NoCredit):
    """The settled past of a ledger that another process writes."""

    def __init__(self, path: Path) -> None:
        self._store = SqliteStore(path, read_only=True)
        opening = next(self._store.events()).payload
        terms = {name: text for name, text in opening["budget"].items() if name not in ("limit", "unit")}
        super().__init__(Budget.from_dict(terms), opening["identity"])
        self._settled: dict[str, Event] = {}

    def version(self) -> int:
        """Changes whenever the writer has committed."""
        return self._store._connection.execute("PRAGMA data_version").fetchone()[0]

    def events(self) -> Iterator[Event]:
        events = tuple(self._store.events())
        self._settled = {event.key: event for event in events if event.kind == "settle" and event.key}
        return iter(events)

    def get_blob(self, digest: str) -> bytes:
        data = self._store.blob(digest)
        if data is None or sha256(data) != digest:
            raise LedgerError("a stored snapshot is missing or damaged: restore the ledger's file")
        return data

    def settled(self, key: str, kind: str, request: dict[str, Any]) -> Event | None:
        return self._settled.get(key)

    def close(self) -> None:
        self._store.close()


class Follower:
    """A free session that is rebuilt when the ledger has grown by something worth knowing."""

    def __init__(self, path: Path, *, confidence: float, name: str) -> None:
        self._ledger = PublicLedger(path)
        self._confidence = confidence
        self._name = name
        self._version = self._ledger.version()
        self._seen = 0
        self.session = self._rebuilt()

    def refresh(self) -> bool:
        """Whether anything new was taken in; costs a few microseconds when not."""
        version = self._ledger.version()
        if version == self._version:
            return False
        self._version = version
        if not any(e.sequence > self._seen and e.kind in WORTH_KNOWING for e in self._ledger.events()):
            return False
        self.session = self._rebuilt()
        return True

    def _rebuilt(self) -> Session:
        """As a session resumes, from the same events by the same code."""
        events = list(self._ledger.events())
        self._seen = events[-1].sequence
        credit: Any = self._ledger
        journal = Journal(credit)
        stored = journal.latest()
        if stored is None:
            raise LedgerError("the ledger holds no snapshot yet: start the writer first")
        curator = Curator(public_table(stored.snapshot.domain, credit.identity, self._name), credit)
        knowledge, _ = know(curator, journal, Terms(), silent)
        return free_session(knowledge, self._ledger, confidence=self._confidence, name=self._name)

    def close(self) -> None:
        self._ledger.close()
