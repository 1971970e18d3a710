"""From a result to bytes: the document a client gets, and the last free answers as they left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from reticent.knowledge.answer import ORIGINS, Answer
from reticent.releases.models import Model
from reticent.service.requests import ParsedRequest
from reticent.sql import ResultTable
from reticent.sql.kept import Kept

KEPT = 2048
KEPT_BYTES = 2**25
"""Of all remembered answers about one table."""
LONGEST_ANSWER = 16_384
"""Answers longer than this are computed anew each time."""
_ENCODER = json.JSONEncoder(allow_nan=False)


class Sendable(Protocol):
    """What can be sent: an answer, a table, or models."""

    @property
    def origin(self) -> str: ...

    @property
    def guarantee(self) -> str: ...

    @property
    def price(self) -> float: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class FittedModels:
    """One model per loss, and what they were charged together."""

    models: tuple[Model, ...]
    price: float = 0.0

    @property
    def origin(self) -> str:
        return " + ".join(sorted({model.origin for model in self.models}))

    @property
    def guarantee(self) -> str:
        """The largest excess risk of all, or how many have none certified."""
        count, loose = len(self.models), sum(not model.certified for model in self.models)
        if loose:
            return "uncertified" if loose == count else f"{loose} of {count} uncertified"
        worst = max(model.error or 0.0 for model in self.models)
        confidence = min(model.confidence or 0.0 for model in self.models)
        return f"excess risk at most {worst:.3g} at {confidence:.4g}"

    def to_dict(self) -> dict[str, Any]:
        return {"models": [model.to_dict() for model in self.models], "price": self.price}


def reply_of(result: Answer | ResultTable | Model | list[Model], price: float | None = None) -> Sendable:
    """The result as it is sent; `price` is what models were charged together."""
    if isinstance(result, (Model, list)):
        return FittedModels(tuple(result) if isinstance(result, list) else (result,), price or 0.0)
    return result


def encode(reply: Sendable) -> bytes:
    """The document a client gets; the same answer always has the same bytes."""
    document = {
        "kind": "answer" if isinstance(reply, Answer) else "table" if isinstance(reply, ResultTable) else "models",
        "result": reply.to_dict(),
        "guarantee": reply.guarantee,
        "meaning": "; ".join(ORIGINS.get(origin, origin) for origin in reply.origin.split(" + ")),
    }
    return _ENCODER.encode(document).encode()


def encoded_reply(reply: Sendable) -> tuple[bytes, str]:
    """An answer's bytes and its origin."""
    return encode(reply), reply.origin


class AnswerCache:
    """The last free answers as they left: each is a function of its request and of what was known."""

    def __init__(self) -> None:
        self._answers: Kept[ParsedRequest, tuple[bytes, str]] = Kept(KEPT, KEPT_BYTES)
        self._known: object = None

    def recall(self, request: ParsedRequest, knowledge: object) -> tuple[bytes, str] | None:
        """Bytes and origin of the answer given before, if nothing was learned since."""
        return self._answers.get(request) if knowledge is self._known else None

    def remember(self, request: ParsedRequest, knowledge: object, answer: tuple[bytes, str]) -> None:
        """For the next who asks the same; what was known before is forgotten as soon as more is known."""
        if knowledge is not self._known:
            self._answers.clear()
            self._known = knowledge
        if len(answer[0]) <= LONGEST_ANSWER:
            self._answers.put(request, answer, len(answer[0]) + request.footprint)
