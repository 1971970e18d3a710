"""Paid answers are kept in the ledger as they left: the same key returns the same bytes, whatever happened since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent.kernel.ledger.events import Event, sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.service.http.problems import HttpProblem
from reticent.service.requests import ParsedRequest

KIND = "answer"


@dataclass(frozen=True)
class PaidAnswer:
    """One paid answer: who asked what, when, and where its bytes are."""

    sequence: int
    at: int
    analyst: str
    key: str
    digest: str
    text: str
    price: float
    error: float | str | None
    blob: str

    @classmethod
    def of(cls, event: Event) -> PaidAnswer:
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


class PaidAnswers:
    """All paid answers of one table; each is read from the ledger when it is wanted."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def replay(self, analyst: str, key: str, parsed: ParsedRequest) -> bytes | None:
        """What this key has already paid for; a key belongs to one question."""
        sequence = self._ledger.named(KIND, f"{analyst}/{key}")
        if sequence is None:
            return None
        kept = self._at(sequence)
        if kept.digest != parsed.digest:
            raise HttpProblem("key-reused", "this Idempotency-Key was used for another question: use a new one")
        return self._ledger.get_blob(kept.blob)

    def keep(self, analyst: str, key: str, parsed: ParsedRequest, price: float, body: bytes) -> None:
        """Durable before the answer leaves."""
        payload = {
            "analyst": analyst,
            "key": key,
            "digest": parsed.digest,
            "text": parsed.text,
            "price": price,
            "error": parsed.error,
            "blob": sha256(body),
        }
        self._ledger.append(KIND, payload, blobs=[body])

    def page(self, analyst: str | None, before: int | None, limit: int) -> tuple[list[PaidAnswer], int | None]:
        """Newest first; the second value is where the next page begins."""
        found: list[PaidAnswer] = []
        for sequence in reversed(self._ledger.noted(KIND)):
            if before is None or sequence < before:
                kept = self._at(sequence)
                if analyst is None or kept.analyst == analyst:
                    found.append(kept)
            if len(found) > limit:
                return found[:limit], found[limit - 1].sequence
        return found, None

    def bytes_of(self, sequence: int, analyst: str | None) -> bytes:
        """An answer of the past; other people's do not exist for an analyst."""
        if sequence in self._ledger.noted(KIND):
            kept = self._at(sequence)
            if analyst is None or kept.analyst == analyst:
                return self._ledger.get_blob(kept.blob)
        raise HttpProblem("not-found", "no answer has this number")

    def _at(self, sequence: int) -> PaidAnswer:
        return PaidAnswer.of(self._ledger.event(sequence))
