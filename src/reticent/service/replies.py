"""Replies: from a result to the bytes of a response, and a cache of free replies."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from reticent.domain.values import confidence_text
from reticent.knowledge.answer import ORIGINS, Answer
from reticent.releases.models import Model
from reticent.service.requests import ParsedRequest
from reticent.sql import ResultTable
from reticent.sql.statement import Kept

KEPT = 4096
KEPT_STATEMENTS = 8192
KEPT_BYTES = 2**25
"""Of all remembered answers about one table, and of all statements about its counts."""
LONGEST_ANSWER = 16_384
"""Answers longer than this are computed anew each time."""
_ENCODER = json.JSONEncoder(allow_nan=False)
_PLAIN = frozenset({float, int, type(None)})
_text = json.encoder.encode_basestring_ascii
"""A text as `_ENCODER` writes it."""


class Sendable(Protocol):
    """A result that can be sent: an answer, a table, or models."""

    @property
    def origin(self) -> str: ...

    @property
    def guarantee(self) -> str: ...

    @property
    def price(self) -> float: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class FittedModels:
    """One model per loss, and their total charge."""

    models: tuple[Model, ...]
    price: float = 0.0

    @property
    def origin(self) -> str:
        return " + ".join(sorted({model.origin for model in self.models}))

    @property
    def guarantee(self) -> str:
        """The largest excess risk of all models, or the number of uncertified ones."""
        count, loose = len(self.models), sum(not model.certified for model in self.models)
        if loose:
            return "uncertified" if loose == count else f"{loose} of {count} uncertified"
        worst = max(model.error or 0.0 for model in self.models)
        confidence = min(model.confidence or 0.0 for model in self.models)
        return f"excess risk at most {worst:.3g} at {confidence_text(confidence)}"

    def to_dict(self) -> dict[str, Any]:
        return {"models": [model.to_dict() for model in self.models], "price": self.price}


def reply_of(result: Answer | ResultTable | Model | list[Model], price: float | None = None) -> Sendable:
    """The result in the form in which it is sent; `price` is the total charge of models."""
    if isinstance(result, (Model, list)):
        return FittedModels(tuple(result) if isinstance(result, list) else (result,), price or 0.0)
    return result


def encode(reply: Sendable) -> bytes:
    """The document that a client gets; the same answer always has the same bytes."""
    if type(reply) is Answer:
        statement = number_statement(reply)
        if statement is not None:
            return number_document(reply.query, statement)
    return _document(reply)


def number_document(text: str, statement: bytes) -> bytes:
    """The result of `_document` for one number, in a third of its time, because most answers are single numbers."""
    return b'{"kind": "answer", "result": {"query": %b, %b' % (_text(text).encode(), statement)


def number_statement(reply: Answer) -> bytes | None:
    """The part of the document after the text of the question; None if the answer is not one plain number."""
    if type(reply.value) is not float or reply.labels or reply.keys:
        return None
    low, high = reply.interval or (None, None)
    numbers = (
        *(reply.value, reply.count, reply.error, reply.confidence, reply.price, reply.ledger_id, reply.wanted),
        *(low, high, reply.fitted, reply.typical),
    )
    if not _PLAIN.issuperset(map(type, numbers)) or not isfinite(sum(filter(None, numbers))):
        return None
    texts = ["null" if number is None else repr(number) for number in numbers]
    value, count, error, confidence, price, ledger_id, wanted, low, high, fitted, typical = texts
    interval = "null" if reply.interval is None else f"[{low}, {high}]"
    certified = "true" if reply.certified else "false"
    snapshot = "null" if reply.snapshot is None else _text(reply.snapshot)
    return (
        f'"value": {value}, "count": {count}, '
        f'"error": {error}, "confidence": {confidence}, "origin": {_text(reply.origin)}, "certified": {certified}, '
        f'"price": {price}, "snapshot": {snapshot}, "ledger_id": {ledger_id}, "labels": [], "wanted": {wanted}, '
        f'"note": {_text(reply.note)}, "basis": {_text(reply.basis)}, "interval": {interval}, "fitted": {fitted}, '
        f'"typical": {typical}}}, "guarantee": {_text(reply.guarantee)}, "meaning": {_text(_meaning(reply))}}}'
    ).encode()


def _meaning(reply: Sendable) -> str:
    known = ORIGINS.get(reply.origin)
    return known or "; ".join(ORIGINS.get(origin, origin) for origin in reply.origin.split(" + "))


def _document(reply: Sendable) -> bytes:
    document = {
        "kind": "answer" if isinstance(reply, Answer) else "table" if isinstance(reply, ResultTable) else "models",
        "result": reply.to_dict(),
        "guarantee": reply.guarantee,
        "meaning": _meaning(reply),
    }
    return _ENCODER.encode(document).encode()


def encoded_reply(reply: Sendable) -> tuple[bytes, str]:
    """An answer's bytes and its origin."""
    return encode(reply), reply.origin


class AnswerCache:
    """A cache of free replies: each is a function of its request and of the knowledge.

    The key is the bytes of the body or, without a body, the parsed request. Statements about counts are also cached by
    compiled condition: equivalent questions share everything but the text.
    """

    def __init__(self) -> None:
        self._answers: Kept[Hashable, tuple[bytes, str]] = Kept(KEPT, KEPT_BYTES)
        self._statements: Kept[Hashable, tuple[bytes, str]] = Kept(KEPT_STATEMENTS, KEPT_BYTES)
        self._known: object = None

    def recall(self, request: bytes | ParsedRequest, knowledge: object) -> tuple[bytes, str] | None:
        """Bytes and origin of an earlier reply, if nothing was learned since."""
        return self._answers.get(request) if knowledge is self._known else None

    def statement(self, condition: Hashable, knowledge: object) -> tuple[bytes, str] | None:
        """`number_statement` and origin of the count with this compiled condition, if nothing was learned since."""
        return self._statements.get(condition) if knowledge is self._known else None

    def remember_statement(self, condition: tuple, knowledge: object, stated: tuple[bytes, str]) -> None:
        """Cache a statement for equivalent counts."""
        self._renew(knowledge)
        self._statements.put(condition, stated, len(stated[0]) + sum(map(len, condition)))

    def remember(self, request: bytes | ParsedRequest, knowledge: object, answer: tuple[bytes, str]) -> None:
        """Cache a reply; the cache is emptied as soon as knowledge grows."""
        self._renew(knowledge)
        held = len(request) if isinstance(request, bytes) else request.footprint
        if len(answer[0]) <= LONGEST_ANSWER:
            self._answers.put(request, answer, len(answer[0]) + held)

    def _renew(self, knowledge: object) -> None:
        if knowledge is not self._known:
            self._answers.clear()
            self._statements.clear()
            self._known = knowledge
