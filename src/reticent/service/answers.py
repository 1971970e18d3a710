"""Paid answers are kept in the ledger as they left: the same key returns the same bytes, whatever happened since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent.kernel.events import Event, sha256
from reticent.kernel.ledger import Ledger
from reticent.service.orders import Order
from reticent.service.problems import Problem

KIND = "answer"


@dataclass(frozen=True)
class Kept:
    """One paid answer: who asked what, when, and where its bytes are."""

    sequence: int
    at: int
    analyst: str
    key: str
    digest: str
    text: str
    price: float
    error: float | None
    blob: str

    @classmethod
    def of(cls, event: Event) -> Kept:
        return cls(sequence=event.sequence, at=event.at, **event.payload)

    def describe(self) -> dict[str, Any]:
        return {
            "sequence": self.sequence,
            "at": self.at,
            "analyst": self.analyst,
            "question": self.text,
            "price": self.price,
            "error": self.error,
        }


class Answers:
    """All paid answers of one table; read once from the ledger, then kept in step with it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept = [Kept.of(event) for event in ledger.events() if event.kind == KIND]
        self._by_key = {(kept.analyst, kept.key): kept for kept in self._kept}

    def replay(self, analyst: str, key: str, order: Order) -> bytes | None:
        """What this key has already paid for; a key belongs to one question."""
        kept = self._by_key.get((analyst, key))
        if kept is None:
            return None
        if kept.digest != order.digest:
            raise Problem("key-reused", "this Idempotency-Key was used for another question: use a new one")
        return self._ledger.get_blob(kept.blob)

    def keep(self, analyst: str, key: str, order: Order, price: float, body: bytes) -> None:
        """Durable before the answer leaves."""
        payload = {
            "analyst": analyst,
            "key": key,
            "digest": order.digest,
            "text": order.text,
            "price": price,
            "error": order.terms.error,
            "blob": sha256(body),
        }
        kept = Kept.of(self._ledger.append(KIND, payload, blobs=[body]))
        self._kept.append(kept)
        self._by_key[analyst, key] = kept

    def page(self, analyst: str | None, before: int | None, limit: int) -> tuple[list[Kept], int | None]:
        """Newest first; the second value is where the next page begins."""
        wanted = [
            kept
            for kept in reversed(self._kept)
            if (analyst is None or kept.analyst == analyst) and (before is None or kept.sequence < before)
        ]
        rest = wanted[limit - 1].sequence if len(wanted) > limit else None
        return wanted[:limit], rest

    def bytes_of(self, sequence: int, analyst: str | None) -> bytes:
        """An answer of the past; other people's do not exist for an analyst."""
        for kept in self._kept:
            if kept.sequence == sequence and (analyst is None or kept.analyst == analyst):
                return self._ledger.get_blob(kept.blob)
        raise Problem("not-found", "no answer has this number")
