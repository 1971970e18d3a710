"""An event is one public fact in the ledger's hash chain; a history is what all events so far add up to.

The same fold (`History.apply`) serves the live ledger and the replay of a file, so the two cannot disagree,
and a file that breaks a rule (a settlement without reservation, a charge beyond the limit) is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from reticent.errors import LedgerError

FORMAT = 3
"""2: fractional answers are kept in steps of 2^-19 record (`statistics.FINE`); in format 1 they were half as long.
3: requests are described in one order; a key of format 2 would not know its own request again."""
GENESIS = "0" * 64
TRANSITIONS = {"redeem": "redeemed", "settle": "settled", "forfeit": "forfeited"}
TRUSTED_KINDS = frozenset({"open", "reserve", "cap", "rollback", *TRANSITIONS})


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise LedgerError("a ledger entry must be plain finite JSON: convert arrays and numbers first") from error


def sha256(data: bytes) -> str:
    """Hex digest that names blobs and links events."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Event:
    """One link of the chain; `body` is the exact text that `digest` hashes, and it names its predecessor.

    `cost` repeats that of the reservation the event belongs to; only `reserve` and `rollback` charge theirs.
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
        try:
            if sha256(body.encode()) == digest:
                return cls(**json.loads(body), body=body, digest=digest)
        except (AttributeError, TypeError, ValueError):
            pass  # not an event at all: somebody computed a hash for a text of their own
        raise LedgerError("the ledger was edited: an event does not match its hash; restore the file")


@dataclass(frozen=True)
class Reservation:
    """A durable charge and its standing: reserved, redeemed (reserved a last time), settled or forfeited."""

    key: str
    kind: str
    cost: int
    digest: str
    analyst: str | None
    redeemable: bool
    sequence: int
    status: str = "reserved"
    settled: int = 0

    @property
    def pending(self) -> bool:
        return self.status in ("reserved", "redeemed")


@dataclass
class History:
    """What the events add up to: charges, caps and the standing of every key."""

    sequence: int = 0
    head: str = GENESIS
    spent: int = 0
    opening: dict[str, Any] = field(default_factory=dict)
    caps: dict[str, int] = field(default_factory=dict)
    spent_by: dict[str, int] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)

    @classmethod
    def replay(cls, events: Iterable[Event]) -> History:
        """The history of a whole chain."""
        history = cls()
        for event in events:
            history.apply(event)
        return history

    @property
    def limit(self) -> int:
        return self.opening["budget"]["limit"] if self.opening else 0

    def remaining(self, analyst: str | None = None) -> int:
        """What may still be charged: the rest of the limit, or of the analyst's cap where that is smaller."""
        rest = self.limit - self.spent
        if analyst is not None and analyst in self.caps:
            rest = min(rest, self.caps[analyst] - self.spent_by.get(analyst, 0))
        return max(rest, 0)

    def pending(self) -> list[Reservation]:
        """Charged and not settled, oldest first."""
        return [reservation for reservation in self.reservations.values() if reservation.pending]

    def apply(self, event: Event) -> None:
        """Add one event; LedgerError where the chain or a rule of the ledger is broken."""
        linked = event.sequence == self.sequence + 1 and event.previous == self.head
        try:
            allowed = linked and (event.kind == "open") == (event.sequence == 1) and self._fold(event)
        except (KeyError, TypeError):
            allowed = False
        if not allowed:
            raise LedgerError(f"the ledger was edited: event {event.sequence} breaks its rules; restore the file")
        self.sequence, self.head = event.sequence, event.digest

    def _fold(self, event: Event) -> bool:
        """Whether the event was allowed; then it is counted."""
        if event.kind == "open":
            if event.payload["format"] > FORMAT:
                raise LedgerError(f"ledger format {event.payload['format']} > {FORMAT}: upgrade reticent")
            self.opening = event.payload
        elif event.kind == "reserve":
            return self._reserve(event)
        elif event.kind in TRANSITIONS:
            return self._advance(event)
        elif event.kind == "cap":
            self.caps[str(event.analyst)] = event.payload["cap"]
        elif event.kind == "rollback":
            # What was lost may have settled: no pending key may buy a second sample for one charge.
            self.spent += event.cost
            for old in self.pending():
                self.reservations[old.key] = replace(old, status="forfeited")
            return event.cost >= 0 and self.spent <= self.limit
        return True

    def _reserve(self, event: Event) -> bool:
        key, analyst, payload = event.key, event.analyst, event.payload
        if key is None or key in self.reservations or not 0 <= event.cost <= self.remaining(analyst):
            return False
        self.reservations[key] = Reservation(
            key,
            payload["kind"],
            event.cost,
            payload["digest"],
            analyst,
            payload["redeemable"],
            event.sequence,
        )
        self.spent += event.cost
        if analyst is not None:
            self.spent_by[analyst] = self.spent_by.get(analyst, 0) + event.cost
        return True

    def _advance(self, event: Event) -> bool:
        old = self.reservations.get(str(event.key))
        if old is None or not old.pending:
            return False
        settled = event.sequence if event.kind == "settle" else 0
        self.reservations[old.key] = replace(old, status=TRANSITIONS[event.kind], settled=settled)
        return event.kind != "redeem" or (old.redeemable and old.status == "reserved")
