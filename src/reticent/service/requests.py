"""Requests from bytes: bodies become checked questions with limited work; no step reads a row.

The work of a question is estimated from the question and the public domain alone, never from the clock or from rows.
"""

from __future__ import annotations

import hashlib
import json
import json.scanner
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from reticent.domain import Domain
from reticent.errors import DomainError, QueryError
from reticent.kernel.statistics import MARGINAL_CELLS
from reticent.knowledge.request import Request, WantedError, checked_error
from reticent.knowledge.risks import SAMPLED_ROWS
from reticent.knowledge.tails import check_confidence
from reticent.losses.losses import ConvexLoss, loss_from_dict
from reticent.losses.risk import moment_sets
from reticent.queries.base import Linear, Query
from reticent.queries.from_dict import query_from_dict
from reticent.queries.groups import Groups
from reticent.queries.linear import Count, Marginal, Ratio
from reticent.queries.statistics import StatisticQuery, is_statistic
from reticent.service.count_text import CountReader
from reticent.service.http.problems import HttpProblem
from reticent.service.settings import KEY, MOST_LOSSES, SQL_LENGTH, Settings
from reticent.sql import Statement, compile_sql
from reticent.sql.asking import compile_statistic
from reticent.sql.statement import Kept

LONGEST_MEMBER = 40
"""Of a member's name that a message shows whole."""
TERMS = ("error", "confidence", "max_price")
QUESTION_FIELDS = tuple(sorted({"sql", "query", *TERMS}))
LOSS_FIELDS = tuple(sorted({"loss", "losses", *TERMS}))
PROMISE = "promise"
"""Of questions only: what the error bounds."""
KEPT = 2048
KEPT_BYTES = 2**25
"""Of all parsed bodies of one kind about one table."""
LONGEST_KEPT = 4096
"""Bodies longer than this are parsed anew each time."""
PLAIN_BYTES = 40
"""That a parsed body holds for each of its bytes."""
LIGHT_BYTES = 2048
"""A body up to this size that holds no SQL may be parsed on the event loop."""
LOSS_STEPS = 3_000
"""Of one model, however small: about its microseconds."""
CELLS_A_STEP = 5
"""Cells times parameters that a solver passes in a step, all its rounds together."""


def _refuse(constant: str) -> float:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_scan = json.scanner.make_scanner(_DECODER)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, eq=False)
class ParsedRequest:
    """A checked question with its work; the same object for the same bytes while it is cached."""

    request: Request
    work: Work
    content: dict[str, Any]
    fields: tuple[str, ...]

    @property
    def text(self) -> str:
        """The question as the history shows it."""
        question = self.request.question
        if isinstance(question, (Query, Statement)):
            return question.text
        losses = question if isinstance(question, tuple) else (question,)
        first = f"minimize {losses[0]!r}"
        return first if len(losses) == 1 else f"{first} and {len(losses) - 1} more"

    @property
    def error(self) -> float | str | None:
        """The requested error as it was sent: a percentage is text."""
        return self.request.error if isinstance(self.request.error, float) else self.content.get("error")

    @property
    def footprint(self) -> int:
        """The number of bytes that it may hold in addition to its body."""
        return self.request.question.footprint if isinstance(self.request.question, Statement) else 0

    @property
    def parts(self) -> list[Request]:
        """Requests whose free answers make up this one's; other users' requests may run between two of them."""
        question = self.request.question
        if isinstance(question, tuple) and self.request.error is None:
            return [self.request.but(question=one) for one in question]
        return [self.request]

    @property
    def _bound(self) -> tuple[str, ...]:
        """Fields that are part of the digest; digests in old ledgers were computed before `promise` existed."""
        return (*self.fields, PROMISE) if PROMISE in self.content else self.fields

    @cached_property
    def digest(self) -> str:
        """The digest to which an idempotency key is bound; only paid answers need it."""
        plain = json.dumps([self.content.get(name) for name in self._bound], sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()


class Parser(ABC):
    """Parses bodies for one table and caches the last ones: a repeated body is parsed once."""

    fields: ClassVar[tuple[str, ...]]

    def __init__(self, domain: Domain, settings: Settings, confidence: float) -> None:
        self.domain = domain
        self.settings = settings
        self.confidence = confidence
        """Of those who state none."""
        self._kept: Kept[bytes, ParsedRequest] = Kept(KEPT, KEPT_BYTES)

    def find(self, body: bytes) -> ParsedRequest | None:
        """A cached request; None if the body must be parsed away from the event loop."""
        return self._kept.get(body)

    def parse(self, body: bytes) -> ParsedRequest:
        """Parse and check a body, or refuse it."""
        return self.find(body) or self.keep(body, self.parsed(content_of(body)))

    def keep(self, body: bytes, parsed: ParsedRequest) -> ParsedRequest:
        if len(body) <= LONGEST_KEPT:
            self._kept.put(body, parsed, PLAIN_BYTES * len(body) + parsed.footprint)
        return parsed

    @abstractmethod
    def parsed(self, content: dict[str, Any]) -> ParsedRequest:
        """A checked request from plain values."""

    def _weighed(self, question: Any, content: dict[str, Any], work: Work, *, strict: bool) -> ParsedRequest:
        if len(content) == 1:
            check_work(work, self.settings, paid=False)
            return ParsedRequest(Request(question, None, self.confidence), work, content, self.fields)
        confidence, price = (_number(content, name) for name in TERMS[1:])
        error = _error(content)
        check_work(work, self.settings, paid=error is not None)
        request = Request(
            question,
            error,
            self.confidence if confidence is None else graded(check_confidence(confidence)),
            # Without a wanted error an uncertified answer is better than none.
            strict=strict and error is not None,
            max_price=price,
            promise=content.get(PROMISE, "certified"),
        )
        return ParsedRequest(request, work, content, self.fields)


class QuestionParser(Parser):
    """Parses questions about one table, which SQL must name as this server does."""

    fields: ClassVar[tuple[str, ...]] = QUESTION_FIELDS

    def __init__(
        self, domain: Domain, settings: Settings, confidence: float, table: str, *, synthetic_rows: bool = False
    ) -> None:
        super().__init__(domain, settings, confidence)
        self.table = table
        self.synthetic_rows = synthetic_rows
        self._counts = CountReader()

    def find(self, body: bytes) -> ParsedRequest | None:
        """Small JSON questions are parsed immediately; SQL and possibly large bodies are not."""
        found = super().find(body)
        if found is not None:
            return found
        parsed = self.light(body)
        return None if parsed is None else self.keep(body, parsed)

    def light(self, body: bytes) -> ParsedRequest | None:
        """A JSON question that takes little work to parse; the structure of a count is cached."""
        if len(body) > LIGHT_BYTES:
            return None
        content = self._checked(content_of(body))
        if "sql" in content or is_statistic(content["query"]):
            return None
        query = query_from_dict(content["query"])
        if not light(query, self.domain):
            return None
        parsed = self._question(content, query)
        if type(query) is Count and len(content) == 1:
            self._counts.learn(body)
        return parsed

    def light_request(self, body: bytes) -> Request | None:
        """The result of `light`, if the question also takes little work to answer."""
        query = self._counts.read(body) if len(body) <= LIGHT_BYTES else None
        if query is not None and light(query, self.domain):
            work = work_of(query, self.domain)
            check_work(work, self.settings, paid=False)
            return Request(query, None, self.confidence) if work.quick else None
        parsed = self.light(body)
        return parsed.request if parsed is not None and parsed.work.quick else None

    def parsed(self, content: dict[str, Any]) -> ParsedRequest:
        content = self._checked(content)
        if "query" in content and is_statistic(content["query"]):
            return self._question(content, compile_statistic(StatisticQuery.from_dict(content["query"]), self.domain))
        if "query" in content:
            return self._question(content, query_from_dict(content["query"]))
        sql = content["sql"]
        if not isinstance(sql, str) or len(sql) > SQL_LENGTH:
            raise HttpProblem("question", f"sql must be a text of at most {SQL_LENGTH} characters")
        return self._question(content, compile_sql(sql, self.domain, table=self.table, star=self.synthetic_rows))

    def _question(self, content: dict[str, Any], question: Query | Statement) -> ParsedRequest:
        work = weigh(question) if isinstance(question, Statement) else work_of(question, self.domain)
        return self._weighed(question, content, work, strict=True)

    def _checked(self, content: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(content) - {*self.fields, PROMISE})
        if unknown or ("sql" in content) == ("query" in content):
            sent = 'send {"sql": "..."} or {"query": {...}}, with error, confidence, promise or max_price'
            keyed = "; a key goes in the header Idempotency-Key" if "key" in unknown else ""
            raise HttpProblem("request", f"{_unknown(unknown)}{sent}{keyed}")
        return content


class LossParser(Parser):
    """Parses losses about one table. Models that cannot be certified are returned uncertified, because an audit may
    have been paid.
    """

    fields: ClassVar[tuple[str, ...]] = LOSS_FIELDS

    def parsed(self, content: dict[str, Any]) -> ParsedRequest:
        unknown = sorted(set(content) - set(self.fields))
        if unknown or ("loss" in content) == ("losses" in content):
            sent = 'send {"loss": {...}} as its to_dict() writes it, or a list of them in "losses", with error'
            raise HttpProblem("request", _unknown(unknown) + sent)
        described = content["losses"] if "losses" in content else [content["loss"]]
        if not isinstance(described, list) or not 1 <= len(described) <= MOST_LOSSES:
            raise HttpProblem("request", f'"losses" must be a list of 1 to {MOST_LOSSES} losses')
        losses = tuple(loss_from_dict(entry) for entry in described)
        if isinstance(content.get("error"), str):
            raise HttpProblem(
                "question", "the error of a model is an excess risk: give a number in the unit of its loss"
            )
        work = sum(map(self._work, losses), Work(0, 0, 0))
        return self._weighed(losses[0] if len(losses) == 1 else losses, content, work, strict=False)

    def _work(self, loss: ConvexLoss) -> Work:
        """A squared loss reads its moments, other losses all their cells at once, or as many sampled records."""
        problem = loss.on(self.domain)
        if loss.quadratic:
            cells = sum(map(self.domain.cells, moment_sets(problem)))
        else:
            cells = min(self.domain.cells(problem.attributes), SAMPLED_ROWS)
        passes = 1 if loss.quadratic else problem.dimension
        solved = problem.dimension**3 // 1000
        return Work(cells, problem.dimension, 1, LOSS_STEPS + solved + cells * passes // CELLS_A_STEP)


def _unknown(names: list[str]) -> str:
    """The beginning of a refusal that names a member of a body which nobody reads."""
    if not names:
        return ""
    name = names[0] if len(names[0]) <= LONGEST_MEMBER else names[0][:LONGEST_MEMBER] + "..."
    return f"unknown member {json.dumps(name, ensure_ascii=False)}; "


def graded(confidence: float) -> float:
    """The confidence rounded up to one of finitely many values, so that caches by confidence stay bounded."""
    failure = 1 - confidence
    step = 10.0 ** (math.floor(math.log10(failure)) - 2)
    return max(confidence, 1 - math.floor(failure / step + 1e-6) * step)


def checked_key(header: str | None) -> str | None:
    """The client's idempotency key."""
    if header is not None and not re.fullmatch(KEY, header):
        raise HttpProblem("request", "Idempotency-Key has 1 to 64 letters, digits, '.', '_', '~' or '-'")
    return header


def content_of(body: bytes) -> dict[str, Any]:
    """A JSON object of plain values; NaN and infinities are not JSON."""
    try:
        text = body.decode()
        try:
            content, end = _scan(text, 0)
        except StopIteration:
            content, end = None, -1
        if end != len(text):
            content = _DECODER.decode(text)  # which passes over white space, and knows what else is wrong
    except (ValueError, RecursionError):
        raise HttpProblem("request", "the body is not JSON") from None
    if not isinstance(content, dict):
        raise HttpProblem("request", "the body must be a JSON object")
    return content


def _error(content: dict[str, Any]) -> WantedError | None:
    error = content.get("error")
    if isinstance(error, str):
        return checked_error(error)
    number = _number(content, "error")
    if number is not None and not number > 0:
        raise HttpProblem("question", f"an error of {number:g} cannot be met; ask for one above 0")
    return number


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


QUICK = 2**15
"""Cells a free answer may touch on the event loop itself; more go to a thread."""
QUICK_NUMBERS = 500
"""Numbers that are written on the event loop."""
QUICK_STEPS = 2_000
"""Of a statement's result (`reticent.sql.refusals`): about two milliseconds."""


@dataclass(frozen=True)
class Work:
    """Cells read, numbers returned, the largest number of purchases; and further steps of about a microsecond."""

    cells: int
    numbers: int
    purchases: int
    steps: int = 0
    """Of computing from what was read: a statement's result, a model."""
    paid_steps: int = 0
    """Of what a wanted error needs beside."""

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, name.name) + getattr(other, name.name) for name in fields(self)))

    @property
    def quick(self) -> bool:
        return self.cells <= QUICK and self.numbers <= QUICK_NUMBERS and self.steps <= QUICK_STEPS


def work_of(query: Query, domain: Domain) -> Work:
    """The cost model of one question."""
    query = query.resolve(domain)
    if isinstance(query, Linear):
        return _of_number(min(domain.cells(query.compile(domain).attributes), 2**62))
    if isinstance(query, Ratio):
        return work_of(query.numerator, domain) + work_of(query.denominator, domain)
    if isinstance(query, Marginal):
        cells = domain.cells(query.canonical(domain))
        return Work(cells, cells, 1)
    if isinstance(query, Groups):
        groups, cells = domain.cells(query.names), domain.cells(query.span(domain))
        # All at once up to so many cells; beyond, and by threshold engines, one by one.
        return Work(max(groups, cells), groups, 1 if cells <= MARGINAL_CELLS else groups)
    raise HttpProblem("question", f"{query.wording} is a workload entry, not one question; ask count, mean or marginal")


@lru_cache
def _of_number(cells: int) -> Work:
    return Work(cells, 1, 1)


def weigh(statement: Statement) -> Work:
    """The work of a whole statement: its queries and its result."""
    total = Work(0, 0, 0)
    for query in (statement.explained or statement).queries:
        total = total + work_of(query, statement.domain)
    numbers = max(total.numbers, statement.numbers)
    return replace(total, numbers=numbers, steps=statement.steps, paid_steps=statement.search_steps)


def light(query: Query, domain: Domain) -> bool:
    """Whether a question may be checked and compiled on the event loop, by the columns that it names."""
    try:
        return domain.cells(query.attributes) <= QUICK
    except DomainError as error:
        raise QueryError(str(error)) from None


def check_work(work: Work, settings: Settings, *, paid: bool) -> None:
    """Raise the problem `too-complex`, with the figure, the limit and the remedy."""
    if work.numbers > settings.answer_cells:
        raise HttpProblem(
            "too-complex",
            f"the answer has {work.numbers} numbers, at most {settings.answer_cells}: group by fewer columns",
        )
    if work.numbers > 1 and work.cells > settings.work_cells:
        raise HttpProblem(
            "too-complex", f"{work.cells} cells must be read, at most {settings.work_cells}: use fewer columns"
        )
    steps = work.steps + (work.paid_steps if paid else 0)
    if steps > settings.work_steps:
        raise HttpProblem("too-complex", f"about {steps} steps of work, at most {settings.work_steps}: ask its parts")
    if paid and work.purchases > settings.purchases:
        raise HttpProblem(
            "too-complex",
            f"up to {work.purchases} purchases in one question, at most {settings.purchases}: ask without an error"
            " bound for free, or ask its parts",
        )
