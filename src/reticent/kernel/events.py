"""An event is one public fact in the ledger's hash chain; a history is what all events so far add up to.

The same fold (`History.apply`) serves the live ledger and the replay of a file, so the two cannot disagree, and a
file that breaks a rule of the ledger (a settlement without reservation, a charge beyond the limit) is refused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from reticent.errors import LedgerError

FORMAT = 1
GENESIS = "0" * 64
TRUSTED_KINDS = frozenset({"open", "reserve", "redeem", "settle", "forfeit", "cap", "rollback"})


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise LedgerError(
            "a ledger entry must be plain finite JSON: convert arrays and numbers first"
        ) from error


def sha256(data: bytes) -> str:
    """Hex digest that names blobs and links events."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Event:
    """One link of the chain; `body` is the exact text that `digest` hashes, and it names its predecessor.

    `cost` is that of the reservation the event belongs to; only `reserve` and `rollback` add theirs to what is spent.
    """

    sequence: int
    kind: str
    at: int
    key: str | None
    analyst: str | None
    cost: int
    payload: dict[str, Any]
    previous: str
    body: str = field(repr=False)
    digest: str

    @classmethod
    def build(cls, **fields: Any) -> Event:
        """A new link; read back from its own text, so that live and replayed events are equal."""
        body = canonical(fields)
        return cls.parse(body, sha256(body.encode()))

    @classmethod
    def parse(cls, body: str, digest: str) -> Event:
        """A stored link; refused when its text does not hash to its digest."""
        if sha256(body.encode()) != digest:
            raise LedgerError("the ledger was edited: an event does not match its hash; restore the file")
        return cls(**json.loads(body), body=body, digest=digest)


@dataclass(frozen=True)
class Reservation:
    """A durable charge that awaits its one result."""

    key: str
    kind: str
    cost: int
    digest: str
    analyst: str | None
    redeemable: bool
    sequence: int


@dataclass
class Entry:
    """Where a key stands. `redeemed`: given out a second and last time, and not settled yet."""

    reservation: Reservation
    status: Literal["reserved", "redeemed", "settled", "forfeited"] = "reserved"
    settled: int = 0

    @property
    def pending(self) -> bool:
        return self.status in ("reserved", "redeemed")

    @property
    def redeemable(self) -> bool:
        return self.status == "reserved" and self.reservation.redeemable


@dataclass
class History:
    """What the events add up to: charges, caps and the standing of every key."""

    sequence: int = 0
    head: str = GENESIS
    spent: int = 0
    limit: int = 0
    opening: dict[str, Any] = field(default_factory=dict)
    caps: dict[str, int] = field(default_factory=dict)
    spent_by: dict[str, int] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Add one event; LedgerError where the chain or a rule of the ledger is broken."""
        self._require(event.sequence == self.sequence + 1 and event.previous == self.head, event)
        self._require((event.kind == "open") == (event.sequence == 1), event)
        if event.kind in TRUSTED_KINDS:
            getattr(self, f"_{event.kind}")(event)
        self.sequence, self.head = event.sequence, event.digest

    def remaining(self, analyst: str | None = None) -> int:
        """What may still be charged: the rest of the limit, or of the analyst's cap where that is smaller."""
        rest = self.limit - self.spent
        if analyst is not None and analyst in self.caps:
            rest = min(rest, self.caps[analyst] - self.spent_by.get(analyst, 0))
        return max(rest, 0)

    def pending(self) -> list[Entry]:
        """Reservations charged and not settled, oldest first."""
        return [entry for entry in self.entries.values() if entry.pending]

    @staticmethod
    def _require(condition: bool, event: Event) -> None:
        if not condition:
            raise LedgerError(
                f"the ledger was edited: event {event.sequence} breaks its rules; restore the file"
            )

    def _open(self, event: Event) -> None:
        if event.payload["format"] > FORMAT:
            raise LedgerError(
                f"ledger format {event.payload['format']} is newer than {FORMAT}: upgrade reticent"
            )
        self.opening, self.limit = event.payload, event.payload["budget"]["limit"]

    def _reserve(self, event: Event) -> None:
        self._require(event.key is not None and event.key not in self.entries, event)
        self._require(0 <= event.cost <= self.remaining(event.analyst), event)
        reservation = Reservation(
            key=str(event.key),
            kind=event.payload["kind"],
            cost=event.cost,
            digest=event.payload["digest"],
            analyst=event.analyst,
            redeemable=event.payload["redeemable"],
            sequence=event.sequence,
        )
        self.entries[reservation.key] = Entry(reservation)
        self.spent += event.cost
        if event.analyst is not None:
            self.spent_by[event.analyst] = self.spent_by.get(event.analyst, 0) + event.cost

    def _pending_entry(self, event: Event) -> Entry:
        entry = self.entries.get(event.key or "")
        self._require(entry is not None and entry.pending, event)
        return self.entries[event.key or ""]

    def _redeem(self, event: Event) -> None:
        entry = self._pending_entry(event)
        self._require(entry.redeemable, event)
        entry.status = "redeemed"

    def _settle(self, event: Event) -> None:
        entry = self._pending_entry(event)
        entry.status, entry.settled = "settled", event.sequence

    def _forfeit(self, event: Event) -> None:
        self._pending_entry(event).status = "forfeited"

    def _cap(self, event: Event) -> None:
        cap, analyst = event.payload["cap"], event.analyst
        self._require(analyst is not None and (cap is None or 0 <= cap <= self.limit), event)
        if cap is None:
            self.caps.pop(str(analyst), None)
        else:
            self.caps[str(analyst)] = cap

    def _rollback(self, event: Event) -> None:
        # What was lost may have settled: a pending key must not buy a second sample for one charge.
        self._require(0 <= event.cost <= self.limit - self.spent, event)
        self.spent += event.cost
        for entry in self.pending():
            entry.status = "forfeited"
