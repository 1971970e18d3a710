"""A journal rebuilds a session's knowledge from its ledger: public events only, no row is ever read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reticent.algorithms.certificates import Certificate
from reticent.algorithms.online import Purchase
from reticent.hypotheses import load
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.ledger import Ledger
from reticent.kernel.mechanisms import restore
from reticent.queries.linear import Marginal
from reticent.queries.parsing import linear_from_dict

ASK = "ask:"
"""Keys of what analysts paid for."""


@dataclass(frozen=True, eq=False)
class Bought:
    """A settled purchase of an earlier run of this session."""

    key: str
    analyst: str | None
    purchase: Purchase


class Journal:
    """Reads and writes a session's free public events."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Stored once: a refit need not be bit-identical on another processor, and certificates bind exact bytes."""
        if not any(event.payload["digest"] == snapshot.digest for event in self._events("snapshot")):
            self._ledger.append("snapshot", {"digest": snapshot.digest}, blobs=[snapshot.to_bytes()])

    def snapshots(self) -> dict[str, Snapshot]:
        """Every stored snapshot, oldest first."""
        digests = [event.payload["digest"] for event in self._events("snapshot")]
        return {digest: Snapshot(load(self._ledger.get_blob(digest))) for digest in digests}

    def save_certificate(self, certificate: Certificate) -> None:
        if certificate not in self.certificates():
            self._ledger.append("certificate", certificate.to_dict())

    def certificates(self) -> list[Certificate]:
        return [Certificate.from_dict(event.payload) for event in self._events("certificate")]

    def bought(self) -> Iterator[Bought]:
        """Settled questions in the order they were paid."""
        requests = {}
        for event in self._ledger.events():
            key = event.key or ""
            if not key.startswith(ASK):
                continue
            if event.kind == "reserve":
                requests[key] = event
            elif event.kind == "settle" and requests[key].payload["kind"] == "measure":
                request = requests[key].payload["request"]
                asked, noise = request["statistics"][0], restore(request["mechanisms"][0])
                query = Marginal(asked["marginal"]) if "marginal" in asked else linear_from_dict(asked["query"])
                yield Bought(key, event.analyst, Purchase(query, noise, event.cost))  # pyright: ignore[reportArgumentType]

    def _events(self, kind: str) -> Iterator:
        return (event for event in self._ledger.events() if event.kind == kind)
