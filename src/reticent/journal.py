"""A journal rebuilds a session's knowledge from its ledger: public events only, no row is ever read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reticent.algorithms.certificates import Certificate
from reticent.algorithms.knowledge import Knowledge
from reticent.hypotheses import load
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.ledger import Ledger
from reticent.kernel.mechanisms import Noise, restore
from reticent.queries.base import Linear
from reticent.queries.linear import Marginal
from reticent.queries.parsing import linear_from_dict

ASK = "ask:"
"""Keys of what analysts paid for."""


@dataclass(frozen=True, eq=False)
class Bought:
    """A settled purchase of an earlier run of this session."""

    key: str
    analyst: str | None
    queries: tuple[Linear | Marginal, ...]
    noises: tuple[Noise, ...]


class Journal:
    """Reads and writes a session's free public events."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def save_snapshot(self, knowledge: Knowledge) -> None:
        """Stored once: a refit need not be bit-identical on another processor, and certificates bind exact bytes."""
        snapshot = knowledge.current
        if not any(event.payload["digest"] == snapshot.digest for event in self._events("snapshot")):
            payload = {
                "digest": snapshot.digest,
                "records": knowledge.records,
                "records_error": knowledge.records_error,
            }
            self._ledger.append("snapshot", payload, blobs=[snapshot.to_bytes()])

    def first(self) -> Knowledge | None:
        """What the session started from, before any question; None for a new ledger."""
        event = next(self._events("snapshot"), None)
        if event is None:
            return None
        snapshot = Snapshot(load(self._ledger.get_blob(event.payload["digest"])))
        return Knowledge(snapshot, event.payload["records"], event.payload["records_error"])

    def snapshots(self) -> dict[str, Snapshot]:
        """Every stored snapshot, oldest first."""
        digests = [event.payload["digest"] for event in self._events("snapshot")]
        return {digest: Snapshot(load(self._ledger.get_blob(digest))) for digest in digests}

    def save_certificate(self, certificate: Certificate) -> None:
        if certificate not in self.certificates():
            self._ledger.append("certificate", certificate.to_dict())

    def certificates(self) -> list[Certificate]:
        return [Certificate.from_dict(event.payload) for event in self._events("certificate")]

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
                    yield Bought(key, event.analyst, queries, noises)  # pyright: ignore[reportArgumentType]

    def _events(self, kind: str) -> Iterator:
        return (event for event in self._ledger.events() if event.kind == kind)


def _question(described: dict) -> Linear | Marginal | None:
    """The query behind a measured statistic; None for audits, which are no question."""
    if "marginal" in described:
        return Marginal(described["marginal"])
    return linear_from_dict(described["query"]) if "query" in described else None
