"""An order is what a client wants to know and what it may cost; no step from its bytes to its price looks at a row."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from reticent.algorithms.tails import check_confidence
from reticent.answer import ORIGINS, Answer
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.journal import ASK
from reticent.service.complexity import Work
from reticent.service.problems import Problem
from reticent.service.settings import Settings
from reticent.session import Session
from reticent.sql import ResultTable

TERMS = ("error", "confidence", "max_price")
KEY = r"^[A-Za-z0-9._~-]{1,64}$"
KEPT = 2048
KEPT_BYTES = 4096
"""Orders longer than this are parsed anew each time."""
REMEMBERED_BYTES = 16_384
"""Answers longer than this are computed anew each time."""
_ENCODER = json.JSONEncoder(allow_nan=False)


def _refuse(constant: str) -> float:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
Kind = TypeVar("Kind", bound="Order")


@dataclass(frozen=True)
class Terms:
    """What the asker wants of the answer, checked."""

    error: float | None
    confidence: float | None
    max_price: float | None

    @classmethod
    def of(cls, content: dict[str, Any]) -> Terms:
        error, confidence, price = (_number(content, name) for name in TERMS)
        if error is not None and not error > 0:
            raise Problem("question", f"an error of {error:g} cannot be met; ask for one above 0")
        return cls(error, None if confidence is None else graded(check_confidence(confidence)), price)


@dataclass(frozen=True, eq=False)
class Order(ABC):
    """Checked, and the same object for the same bytes while it is remembered."""

    terms: Terms
    work: Work
    content: dict[str, Any]
    fields: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def text(self) -> str:
        """As the history shows it."""

    @abstractmethod
    def answer(self, session: Session) -> Any:
        """From what is known; MustPay where that is not good enough."""

    @abstractmethod
    def price(self, session: Session, analyst: str, key: str | None = None) -> float:
        """The most that `buy` would charge now; what this key has paid already is not charged again."""

    @abstractmethod
    def buy(self, session: Session, key: str, analyst: str) -> Any:
        """Pay; the same key finds what it paid for."""

    def charged(self, session: Session, key: str) -> int:
        """Nano-units that this key has paid so far."""
        return session._ledger.charged(ASK + key)

    @cached_property
    def digest(self) -> str:
        """What an idempotency key is bound to; only paid answers need it."""
        plain = json.dumps([self.content.get(name) for name in self.fields], sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()


class Parser(ABC, Generic[Kind]):
    """Parses bodies for one table and remembers the last ones: a repeated order is parsed once."""

    def __init__(self, domain: Domain, settings: Settings) -> None:
        self.domain = domain
        self.settings = settings
        self._kept: OrderedDict[bytes, Kind] = OrderedDict()

    def parse(self, body: bytes) -> Kind:
        order = self._kept.get(body)
        if order is None:
            order = self.parsed(content_of(body))
            if len(body) <= KEPT_BYTES:
                self._kept[body] = order
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return order

    @abstractmethod
    def parsed(self, content: dict[str, Any]) -> Kind:
        """A checked order from plain values."""


class Memory:
    """The last free answers as they left: each is a function of its order and of what was known."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Order, tuple[Any, bytes, str]] = OrderedDict()

    def recall(self, order: Order, knowledge: Any) -> tuple[bytes, str] | None:
        """Bytes and origin of the answer given before, if nothing was learned since."""
        found = self._answers.get(order)
        return found[1:] if found is not None and found[0] is knowledge else None

    def remember(self, order: Order, knowledge: Any, result: Any) -> tuple[bytes, str]:
        """The answer's bytes and origin, kept for the next who asks the same."""
        body, origin = encode(result), result.origin
        if len(body) <= REMEMBERED_BYTES:
            self._answers[order] = (knowledge, body, origin)
            if len(self._answers) > KEPT:
                self._answers.popitem(last=False)
        return body, origin


def graded(confidence: float) -> float:
    """At least this confidence, on a scale of finitely many: what is remembered per confidence stays bounded."""
    failure = 1 - confidence
    step = 10.0 ** (math.floor(math.log10(failure)) - 2)
    return max(confidence, 1 - math.floor(failure / step + 1e-6) * step)


def checked_key(header: str | None) -> str | None:
    """The client's idempotency key."""
    if header is not None and not re.fullmatch(KEY, header):
        raise Problem("request", "Idempotency-Key has 1 to 64 letters, digits, '.', '_', '~' or '-'")
    return header


def encode(result: Any) -> bytes:
    """The document a client gets; the same answer always has the same bytes."""
    document = {
        "kind": "answer" if isinstance(result, Answer) else "table" if isinstance(result, ResultTable) else "models",
        "result": result.to_dict(),
        "guarantee": result.guarantee,
        "meaning": "; ".join(ORIGINS.get(origin, origin) for origin in result.origin.split(" + ")),
    }
    return _ENCODER.encode(document).encode()


def content_of(body: bytes) -> dict[str, Any]:
    """A JSON object of plain values; NaN and infinities are not JSON."""
    try:
        content = _DECODER.decode(body.decode())
    except (ValueError, RecursionError):
        raise Problem("request", "the body is not JSON") from None
    if not isinstance(content, dict):
        raise Problem("request", "the body must be a JSON object")
    return content


def _number(content: dict[str, Any], name: str) -> float | None:
    value = content.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise QueryError(f"{name} must be a finite number")
