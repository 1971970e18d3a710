"""Events: public facts in the ledger's hash chain; a history is the state after all events so far.

The same fold (`History.apply`) serves the live ledger and the replay of a file, so the two cannot disagree,
and a file that breaks a rule (a settlement without reservation, a charge beyond the limit) is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from sys import intern
from typing import Any

from reticent.errors import LedgerError
from reticent.kernel.ledger.columns import NamedPlaces, Reservation, Reservations

FORMAT = 3
"""2: fractional answers are kept in steps of 2^-19 record (`statistics.FINE`); in format 1 they were half as long.
3: requests are described in one order; a key of format 2 would not know its own request again."""
GENESIS = "0" * 64
_FRACTION = re.compile(r"\d{1,1200}(/[1-9]\d{0,1200})?", re.ASCII)
TRANSITIONS = {"redeem": "redeemed", "settle": "settled", "forfeit": "forfeited"}
CHECKPOINT = "checkpoint"
"""A free event that names, by its hash, the blob of all that the events before it add up to."""
TRUSTED_KINDS = frozenset({"open", "reserve", "cap", "rollback", CHECKPOINT, *TRANSITIONS})
SEGMENT = 1024
"""After so many events each the history keeps the head of the chain, so that one old event can be checked alone."""
KNOWLEDGE = "knowledge"
"""A free event that names blobs of what a session knows; the next one may replace some of them."""
BLOB_FIELDS = {
    CHECKPOINT: ("state",),
    "snapshot": ("digest",),
    "start": ("release",),
    "published": ("release",),
    "answer": ("blob",),
    KNOWLEDGE: ("index", "segments", "state"),
}
"""Kinds of free events whose payload names blobs, and the fields that do."""


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

    `cost` repeats that of the event's reservation; only `reserve` and `rollback` are charged.
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
        """A new link, parsed from its own text, so that live and replayed events are equal."""
        body = canonical(fields)
        return cls.parse(body, sha256(body.encode()))

    @classmethod
    def parse(cls, body: str, digest: str) -> Event:
        """A stored link; refused if its text does not match its digest."""
        try:
            if sha256(body.encode()) == digest:
                event = cls(**json.loads(body), body=body, digest=digest)
                if all(type(getattr(event, name)) in kinds for name, kinds in _KINDS.items()):
                    return event
        except (AttributeError, TypeError, ValueError, RecursionError):
            pass  # not an event: the hash was computed for a foreign text
        raise LedgerError("the ledger was edited: an event does not match its hash; restore the file")

    @property
    def blobs(self) -> list[str]:
        """Hashes of the blobs that the event names."""
        found = [self.payload.get(field) for field in BLOB_FIELDS.get(self.kind, ())]
        named = [part for one in found for part in (one if isinstance(one, list) else [one])]
        return [part for part in named if isinstance(part, str)]


@dataclass
class History:
    """The state after all events: charges, caps, the state of every key, and the positions of the free events."""

    sequence: int = 0
    head: str = GENESIS
    spent: int = 0
    delta: str = "0"
    """The exact sum of what mechanisms may fail with; at most the part of the budget's delta set aside for them."""
    opening: dict[str, Any] = field(default_factory=dict)
    caps: dict[str, int] = field(default_factory=dict)
    spent_by: dict[str, int] = field(default_factory=dict)
    reservations: Reservations = field(default_factory=Reservations)
    free: dict[str, array[int]] = field(default_factory=dict)
    """Sequences of the free events of each kind."""
    named: NamedPlaces = field(default_factory=NamedPlaces)
    """Sequence of the newest free event of a kind about a key, under `kind:key` or `kind:analyst/key`."""
    milestones: list[str] = field(default_factory=list)
    """Head of the chain after each whole segment."""

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

    @property
    def delta_left(self) -> Fraction:
        """The remaining failure probability of mechanisms."""
        budget = self.opening.get("budget", {})
        return written_delta(budget.get("approximate", "0")) - Fraction(self.delta)

    def remaining(self, analyst: str | None = None) -> int:
        """The amount that may still be charged: the rest of the limit, or of the analyst's cap if that is smaller."""
        rest = self.limit - self.spent
        if analyst is not None and analyst in self.caps:
            rest = min(rest, self.caps[analyst] - self.spent_by.get(analyst, 0))
        return max(rest, 0)

    def noted(self, kind: str, after: int = 0) -> list[int]:
        """Sequence numbers of the free events of a kind after an event."""
        found = self.free.get(kind)
        return [] if found is None else found[bisect_right(found, after) :].tolist()

    def newest(self, kind: str) -> int | None:
        """Sequence number of the last free event of a kind."""
        found = self.free.get(kind)
        return found[-1] if found else None

    def copy(self) -> History:
        """An independent copy of the state."""
        kept: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        kept |= {name: getattr(self, name).copy() for name in ("caps", "spent_by", "milestones")}
        free = {kind: sequences[:] for kind, sequences in self.free.items()}
        return History(**kept, reservations=self.reservations.copy(), free=free, named=self.named.copy())

    def to_bytes(self) -> bytes:
        """The whole state, for a checkpoint."""
        told = {name: getattr(self, name) for name in _PLAIN}
        told |= {"reservations": self.reservations.to_dict(), "named": self.named.to_dict()}
        told["free"] = {kind: sequences.tolist() for kind, sequences in self.free.items()}
        return zlib.compress(canonical(told).encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> History:
        """The inverse of `to_bytes`; ValueError, KeyError or TypeError for anything else."""
        try:
            told = json.loads(zlib.decompress(data))
        except zlib.error as error:
            raise ValueError("not a checkpoint") from error
        told.setdefault("delta", "0")  # no mechanism of version 0.1 had one
        history = cls(**{name: told[name] for name in _PLAIN})
        history.free = {kind: array("q", sequences) for kind, sequences in told["free"].items()}
        if isinstance(told["reservations"], dict):
            history.reservations = Reservations.from_dict(told["reservations"])
            history.named = NamedPlaces.from_dict(told["named"])
            return history
        for row in zip(*told["reservations"], strict=True):  # versions before the columns
            history.reservations.put(Reservation._make(row))
        for name, sequence in told["named"].items():
            history.named[name] = sequence
        return history

    def pending(self) -> list[Reservation]:
        """Reservations without settlement, oldest first."""
        return self.reservations.pending()

    def apply(self, event: Event) -> None:
        """Add one event; LedgerError if the chain or a rule of the ledger is broken."""
        linked = event.sequence == self.sequence + 1 and event.previous == self.head
        try:
            allowed = linked and (event.kind == "open") == (event.sequence == 1) and self._fold(event)
        except (AttributeError, KeyError, TypeError):
            allowed = False
        if not allowed:
            raise LedgerError(f"the ledger was edited: event {event.sequence} breaks its rules; restore the file")
        self.sequence, self.head = event.sequence, event.digest
        if event.sequence % SEGMENT == 0:
            self.milestones.append(event.digest)

    def _fold(self, event: Event) -> bool:
        """Fold an event if it is allowed; returns whether it was."""
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
            # The lost part may contain settlements: no pending key may draw a second sample for one charge.
            # The anchor does not record their deltas, so the whole remaining delta counts as used.
            self.spent += event.cost
            self.delta = self.opening["budget"].get("approximate", "0")
            for old in self.pending():
                self.reservations.put(old._replace(status="forfeited"))
            return event.cost >= 0 and self.spent <= self.limit
        else:
            self.free.setdefault(event.kind, array("q")).append(event.sequence)
            if isinstance(key := event.payload.get("key"), str):
                owner = event.payload.get("analyst")
                name = key if owner is None else f"{owner}/{key}"
                self.named[f"{event.kind}:{name}"] = event.sequence
        return True

    def _reserve(self, event: Event) -> bool:
        key, analyst, payload = event.key, event.analyst, event.payload
        if key is None or key in self.reservations or not 0 <= event.cost <= self.remaining(analyst):
            return False
        if "delta" in payload:
            taken = written_delta(payload["delta"])
            if not 0 < taken <= self.delta_left:
                return False
            self.delta = str(Fraction(self.delta) + taken)
        facts = (intern(payload["kind"]), event.cost, payload["digest"], analyst, payload["redeemable"])
        self.reservations.put(Reservation(key, *facts, event.sequence))
        self.spent += event.cost
        if analyst is not None:
            self.spent_by[analyst] = self.spent_by.get(analyst, 0) + event.cost
        return True

    def _advance(self, event: Event) -> bool:
        old = self.reservations.get(str(event.key))
        if old is None or not old.pending:
            return False
        if event.kind == "settle":
            self.reservations.put(old._replace(status="settled", settled=event.sequence, digest=""))
        else:
            self.reservations.put(old._replace(status=TRANSITIONS[event.kind]))
        return event.kind != "redeem" or (old.redeemable and old.status == "reserved")


_KINDS = {
    "sequence": (int,),
    "kind": (str,),
    "at": (int,),
    "key": (str, type(None)),
    "analyst": (str, type(None)),
    "cost": (int,),
    "payload": (dict,),
    "previous": (str,),
}
"""Types of an event's fields: a file may hold anything."""


def written_delta(text: Any) -> Fraction:
    """An exact probability as an event holds it; TypeError for anything else."""
    if not isinstance(text, str) or _FRACTION.fullmatch(text) is None:
        raise TypeError("a delta is written as two integers with a slash")
    return Fraction(text)


_PLAIN = ("sequence", "head", "spent", "delta", "opening", "caps", "spent_by", "milestones")
"""Fields that a checkpoint holds as they are."""
