"""A journal rebuilds a session's knowledge from its ledger: public events only, no row is ever read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reticent.algorithms.certificates import Certificate
from reticent.algorithms.knowledge import Knowledge
from reticent.errors import KeyReusedError
from reticent.hypotheses import load
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.curator import Noise
from reticent.kernel.events import Reservation, sha256
from reticent.kernel.ledger import Event, Ledger
from reticent.kernel.mechanisms import restore
from reticent.publications import Publication, behind, elsewhere
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal
from reticent.queries.parsing import linear_from_dict, query_from_dict
from reticent.releases import PUBLISHED, Release

ASK = "ask:"
"""Keys of what analysts paid for."""
AUDIT = "session:audit:"
"""Keys of audits, of classes and of batches: all of them share one failure probability."""
OWN_KINDS = ("session", "snapshot", "certificate", "batch", "start", "targets", "guesses", "tests")
KINDS = frozenset({*OWN_KINDS, "release", PUBLISHED})
"""The free events that a session writes, and those of releases that it reads when it is opened."""


@dataclass(frozen=True, eq=False)
class Bought:
    """A settled purchase of an earlier run of this session."""

    key: str
    analyst: str | None
    queries: tuple[Linear | Marginal | Groups, ...]
    noises: tuple[Noise, ...]
    sequence: int


@dataclass(frozen=True, eq=False)
class Stored:
    """A snapshot with the place of its event: of the purchases before it, the last `unfitted` wait for a refit."""

    snapshot: Snapshot
    records: float
    records_error: float
    unfitted: int
    sequence: int


class Journal:
    """Reads and writes a session's free public events."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def settings(self) -> dict[str, Any] | None:
        """What the session was opened with; None for a new one. A warm start that failed twice wrote it again."""
        events = list(self._events("session"))
        return events[-1].payload if events else None

    def save_settings(self, settings: dict[str, Any]) -> None:
        self._append("session", settings)

    def forfeited(self, prefix: str) -> bool:
        """Whether a charge under such a key was lost for good: two crashes before its result was written."""
        return any(map(self._lost, self._ledger.keys(prefix)))

    def usable(self, key: str) -> str:
        """This key, or the first of its successors that is not forfeited."""
        attempt, named = 0, key
        while self._lost(named):
            attempt += 1
            named = f"{key}:{attempt}"
        return named

    def _lost(self, key: str) -> bool:
        found = self._ledger.lookup(key)
        return isinstance(found, Reservation) and found.status == "forfeited"

    def save_snapshot(self, knowledge: Knowledge) -> None:
        """Stored once: a refit need not be bit-identical on another processor, and certificates bind exact bytes."""
        snapshot = knowledge.current
        stored = [event.payload["digest"] for event in self._events("snapshot")]
        if stored[-1:] != [snapshot.digest]:
            payload = {
                "digest": snapshot.digest,
                "records": knowledge.records,
                "records_error": knowledge.records_error,
                "unfitted": knowledge.unfitted,
            }
            self._append("snapshot", payload, blobs=[snapshot.to_bytes()])

    def latest(self) -> Stored | None:
        """The newest stored snapshot; None for a new ledger."""
        events = list(self._events("snapshot"))
        if not events:
            return None
        event = events[-1]
        return Stored(
            self.snapshot(event.payload["digest"]),
            event.payload["records"],
            event.payload["records_error"],
            event.payload.get("unfitted", 0),
            event.sequence,
        )

    def snapshot(self, digest: str) -> Snapshot:
        return Snapshot(load(self._ledger.get_blob(digest)))

    def save_certificate(self, certificate: Certificate) -> None:
        if certificate not in self.certificates():
            self._append("certificate", certificate.to_dict())

    def certificates(self) -> list[Certificate]:
        return [Certificate.from_dict(event.payload) for event in self._events("certificate")]

    def save_batch(self, certificate: Certificate, digests: list[str]) -> None:
        self._append("batch", {"certificate": certificate.to_dict(), "forms": digests})

    def batches(self) -> Iterator[tuple[Certificate, tuple[str, ...]]]:
        """Batches that passed their audit: the certificate, and the digests of their compiled forms."""
        for event in self._events("batch"):
            yield Certificate.from_dict(event.payload["certificate"]), tuple(event.payload["forms"])

    def audit_index(self, key: str) -> int:
        """Which audit of this ledger the key names, passed or not: the j-th may fail 2^-j as often."""
        keys = self._ledger.keys(AUDIT)
        before = keys.index(key) if key in keys else len(keys)
        return 1 + before + max((event.payload["audits"] for event in self._events("start")), default=0)

    def save_start(self, release: Release) -> None:
        """A release that a session starts from, whole: it can be read again without its file."""
        data = release.to_bytes()
        audits = max((certificate.index for certificate in release.certificates), default=0)
        self._append("start", {"release": sha256(data), "audits": audits}, blobs=[data])

    def start(self) -> Release | None:
        event = next(self._events("start"), None)
        if event is None:
            return None
        return self._release(event)

    def newest_release(self) -> Release | None:
        """The last one published on this ledger."""
        events = list(self._events(PUBLISHED))
        return self._release(events[-1]) if events else None

    def _release(self, event: Event) -> Release:
        return Release.from_bytes(self._ledger.get_blob(event.payload["release"]))

    @cached_property
    def elsewhere(self) -> tuple[Publication, ...]:
        """What the start rests on that this ledger has not paid for."""
        start = self.start()
        return () if start is None else elsewhere(behind(start.facts), self._ledger.name)

    def save_targets(self, key: str, asked: str, errors: list[float]) -> None:
        """What is wanted of the parts of a keyed question; `asked` is its digest."""
        self._append("targets", {"key": key, "asked": asked, "errors": errors})

    def targets(self, key: str, asked: str) -> list[float] | None:
        """A key belongs to one question: another one must not be answered within its errors."""
        found = self._keyed.get(("targets", key))
        if found is not None and found["asked"] != asked:
            raise KeyReusedError("this key belongs to another question: use a new key")
        return None if found is None else found["errors"]

    def save_guesses(self, key: str, wanted: list[float], models: list[dict[str, Any]], audit: str | None) -> None:
        """The models that a keyed request begins with, and the audit it is about to pay for."""
        self._append("guesses", {"key": key, "wanted": wanted, "models": models, "audit": audit})

    def guesses(self, key: str) -> dict[str, Any] | None:
        return self._keyed.get(("guesses", key))

    def save_tests(self, count: int) -> None:
        """Threshold tests that may have been made by the time this process ends."""
        self._append("tests", {"count": count})

    def epochs(self) -> int:
        """Threshold runs opened so far; each was charged whole, and none survives its process."""
        return sum(e.kind == "reserve" and e.payload["kind"] == "watch" for e in self._ledger.events())

    def tests(self) -> int:
        return max((event.payload["count"] for event in self._events("tests")), default=0)

    def published(self) -> list[Bought]:
        """Marginals that releases on this ledger measured on the whole table, in the order they were paid.

        None where the session started from a release, perhaps this one: nothing is learned twice.
        """
        if any(self._events("start")):
            return []
        runs = [event.payload["run"] for event in self._events("release") if event.payload.get("sample", 0) is None]
        found = [bought for run in runs for bought in self.bought(f"{run}:")]
        return [bought for bought in found if all(isinstance(query, Marginal) for query in bought.queries)]

    def bought(self, prefix: str) -> Iterator[Bought]:
        """Settled measurements under keys that start with `prefix`, in the order they were paid."""
        requests = {}
        for event in self._ledger.events():
            key = event.key or ""
            if key.startswith(prefix) and event.kind == "reserve":
                requests[key] = event
            elif key in requests and event.kind == "settle" and requests[key].payload["kind"] == "measure":
                request = requests[key].payload["request"]
                queries = tuple(_question(described) for described in request["statistics"])
                if all(query is not None for query in queries):
                    noises = tuple(restore(described) for described in request["mechanisms"])
                    yield Bought(key, event.analyst, queries, noises, event.sequence)  # pyright: ignore[reportArgumentType]

    def _events(self, kind: str) -> Iterator[Event]:
        return iter(self._log.get(kind, ()))

    def _append(self, kind: str, payload: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        log, keyed = self._log, self._keyed
        event = self._ledger.append(kind, payload, blobs=blobs)
        log.setdefault(kind, []).append(event)
        keyed |= _by_key([event])

    @cached_property
    def _log(self) -> dict[str, list[Event]]:
        """The free events of each kind, read once: a long ledger takes a while, and only this session writes these."""
        found: dict[str, list[Event]] = {}
        for event in self._ledger.events():
            if event.kind in KINDS:
                found.setdefault(event.kind, []).append(event)
        return found

    @cached_property
    def _keyed(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What was written down about keyed questions."""
        return _by_key(event for events in self._log.values() for event in events)


def _by_key(events: Iterable[Event]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(event.kind, event.payload["key"]): event.payload for event in events if "key" in event.payload}


def _question(described: dict) -> Linear | Marginal | Groups | None:
    """The query behind a measured statistic; None for audits, which are no question."""
    if "marginal" in described:
        return Marginal(described["marginal"])
    if "groups" in described:
        query = query_from_dict(described["groups"])
        return query if isinstance(query, Groups) else None
    return linear_from_dict(described["query"]) if "query" in described else None
