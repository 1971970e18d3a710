"""A journal rebuilds a session's knowledge from its ledger: public events only, no row is ever read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
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
from reticent.queries.base import Linear
from reticent.queries.groups import Groups
from reticent.queries.linear import Marginal
from reticent.queries.parsing import linear_from_dict, query_from_dict
from reticent.releases import Release

ASK = "ask:"
"""Keys of what analysts paid for."""
AUDIT = "session:audit:"
"""Keys of audits, of classes and of batches: all of them share one failure probability."""


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
    """A snapshot with the place of its event: purchases before it went into its fit."""

    snapshot: Snapshot
    records: float
    records_error: float
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
        self._ledger.append("session", settings)

    def forfeited(self, prefix: str) -> bool:
        """Whether a charge under such a key was lost for good: two crashes before its result was written."""
        keys = {event.key or "" for event in self._ledger.events() if event.kind == "reserve"}
        return any(self._lost(key) for key in keys if key.startswith(prefix))

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
            }
            self._ledger.append("snapshot", payload, blobs=[snapshot.to_bytes()])

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
            event.sequence,
        )

    def snapshot(self, digest: str) -> Snapshot:
        return Snapshot(load(self._ledger.get_blob(digest)))

    def save_certificate(self, certificate: Certificate) -> None:
        if certificate not in self.certificates():
            self._ledger.append("certificate", certificate.to_dict())

    def certificates(self) -> list[Certificate]:
        return [Certificate.from_dict(event.payload) for event in self._events("certificate")]

    def save_batch(self, certificate: Certificate, digests: list[str]) -> None:
        self._ledger.append("batch", {"certificate": certificate.to_dict(), "forms": digests})

    def batches(self) -> Iterator[tuple[Certificate, tuple[str, ...]]]:
        """Batches that passed their audit: the certificate, and the digests of their compiled forms."""
        for event in self._events("batch"):
            yield Certificate.from_dict(event.payload["certificate"]), tuple(event.payload["forms"])

    def audit_index(self, key: str) -> int:
        """Which audit of this ledger the key names, passed or not: the j-th may fail 2^-j as often."""
        keys = [
            event.key
            for event in self._ledger.events()
            if event.kind == "reserve" and (event.key or "").startswith(AUDIT)
        ]
        before = keys.index(key) if key in keys else len(keys)
        return 1 + before + max((event.payload["audits"] for event in self._events("start")), default=0)

    def save_start(self, release: Release) -> None:
        """A release that a session starts from, whole: it can be read again without its file."""
        with TemporaryDirectory() as folder:
            data = release.save(Path(folder) / "start").read_bytes()
        audits = max((certificate.index for certificate in release.certificates), default=0)
        self._ledger.append("start", {"release": sha256(data), "audits": audits}, blobs=[data])

    def start(self) -> Release | None:
        event = next(self._events("start"), None)
        if event is None:
            return None
        return Release.load(BytesIO(self._ledger.get_blob(event.payload["release"])))  # pyright: ignore[reportArgumentType]

    def save_targets(self, key: str, asked: str, errors: list[float]) -> None:
        """What is wanted of the parts of a keyed question; `asked` is its digest."""
        known = self._targets
        self._ledger.append("targets", {"key": key, "asked": asked, "errors": errors})
        known[key] = (asked, errors)

    def targets(self, key: str, asked: str) -> list[float] | None:
        """A key belongs to one question: another one must not be answered within its errors."""
        found = self._targets.get(key)
        if found is not None and found[0] != asked:
            raise KeyReusedError("this key belongs to another question: use a new key")
        return None if found is None else found[1]

    @cached_property
    def _targets(self) -> dict[str, tuple[str, list[float]]]:
        """Read once: a long ledger takes a while, and only this session writes to it."""
        written = (event.payload for event in self._events("targets"))
        return {payload["key"]: (payload["asked"], payload["errors"]) for payload in written}

    def save_tests(self, count: int) -> None:
        """Threshold tests that may have been made by the time this process ends."""
        self._ledger.append("tests", {"count": count})

    def epochs(self) -> int:
        """Threshold runs opened so far; each was charged whole, and none survives its process."""
        return sum(e.kind == "reserve" and e.payload["kind"] == "watch" for e in self._ledger.events())

    def tests(self) -> int:
        return max((event.payload["count"] for event in self._events("tests")), default=0)

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
        return (event for event in self._ledger.events() if event.kind == kind)


def _question(described: dict) -> Linear | Marginal | Groups | None:
    """The query behind a measured statistic; None for audits, which are no question."""
    if "marginal" in described:
        return Marginal(described["marginal"])
    if "groups" in described:
        query = query_from_dict(described["groups"])
        return query if isinstance(query, Groups) else None
    return linear_from_dict(described["query"]) if "query" in described else None
