"""A request to ask, from its bytes to a question and from an answer to its bytes; no step looks at a row."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reticent.algorithms.tails import check_confidence
from reticent.answer import ORIGINS, Answer
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.base import Query
from reticent.queries.parsing import query_from_dict
from reticent.service.complexity import Work, check, weigh, work_of
from reticent.service.problems import Problem
from reticent.service.settings import Settings
from reticent.sql import ResultTable, compile_sql

FIELDS = {"sql", "query", "error", "confidence", "max_price"}
KEY = r"^[A-Za-z0-9._~-]{1,64}$"
SQL_LENGTH = 20_000
KEPT = 2048
KEPT_BYTES = 4096
"""Requests longer than this are parsed anew each time."""
_ENCODER = json.JSONEncoder(allow_nan=False)
REMEMBERED_BYTES = 16_384
"""Answers longer than this are computed anew each time."""


@dataclass(frozen=True, eq=False)
class Request:
    """A checked question with what its asker wants of the answer."""

    question: Query | str
    error: float | None
    confidence: float | None
    max_price: float | None
    work: Work
    content: dict[str, Any]

    @property
    def text(self) -> str:
        return self.question if isinstance(self.question, str) else self.question.text

    @cached_property
    def digest(self) -> str:
        """What an idempotency key is bound to; only paid answers need it."""
        plain = json.dumps([self.content.get(name) for name in sorted(FIELDS)], sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()


class Requests:
    """Parses bodies for one table and remembers the last ones: a repeated question is parsed once."""

    def __init__(self, domain: Domain, settings: Settings) -> None:
        self.domain = domain
        self._settings = settings
        self._kept: OrderedDict[bytes, Request] = OrderedDict()
        self._answers: OrderedDict[Request, tuple[Any, bytes, str]] = OrderedDict()

    def recall(self, request: Request, knowledge: Any) -> tuple[bytes, str] | None:
        """The free answer given before, if nothing was learned since: it is a function of both."""
        found = self._answers.get(request)
        return found[1:] if found is not None and found[0] is knowledge else None

    def remember(self, request: Request, knowledge: Any, result: Any) -> tuple[bytes, str]:
        """The answer's bytes and origin, kept for the next who asks the same."""
        body, origin = encode(result), result.origin
        if len(body) <= REMEMBERED_BYTES:
            self._answers[request] = (knowledge, body, origin)
            if len(self._answers) > KEPT:
                self._answers.popitem(last=False)
        return body, origin

    def parse(self, body: bytes) -> Request:
        request = self._kept.get(body)
        if request is None:
            request = self._parse(body)
            if len(body) <= KEPT_BYTES:
                self._kept[body] = request
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return request

    def _parse(self, body: bytes) -> Request:
        content = _object(body)
        if not set(content) <= FIELDS or ("sql" in content) == ("query" in content):
            raise Problem("request", 'send {"sql": "..."} or {"query": {...}}, with error, confidence or max_price')
        error, confidence, price = (_number(content, name) for name in ("error", "confidence", "max_price"))
        if error is not None and not error > 0:
            raise Problem("question", f"an error of {error:g} cannot be met; ask for one above 0")
        if confidence is not None:
            confidence = graded(check_confidence(confidence))
        question, work = self._question(content)
        check(work, self._settings, paid=error is not None)
        return Request(question, error, confidence, price, work, content)

    def _question(self, content: dict[str, Any]) -> tuple[Query | str, Work]:
        if "query" in content:
            query = query_from_dict(content["query"])
            return query, work_of(query, self.domain)
        sql = content["sql"]
        if not isinstance(sql, str) or len(sql) > SQL_LENGTH:
            raise Problem("question", f"sql must be a text of at most {SQL_LENGTH} characters")
        return sql, weigh(compile_sql(sql, self.domain).queries, self.domain)


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


def encode(result: Answer | ResultTable) -> bytes:
    """The document a client gets; the same answer always has the same bytes."""
    kind = "table" if isinstance(result, ResultTable) else "answer"
    document = {
        "kind": kind,
        "result": result.to_dict(),
        "guarantee": result.guarantee,
        "meaning": "; ".join(ORIGINS.get(origin, origin) for origin in result.origin.split(" + ")),
    }
    return _ENCODER.encode(document).encode()


def parsed_json(body: bytes) -> Any:
    """Plain JSON values; NaN and infinities are not JSON."""
    try:
        return json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Problem("request", "the body is not JSON") from None


def _object(body: bytes) -> dict[str, Any]:
    content = parsed_json(body)
    if not isinstance(content, dict):
        raise Problem("request", "the body must be a JSON object")
    return content


def _refuse(constant: str) -> float:
    raise ValueError(constant)


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
