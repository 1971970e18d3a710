"""The quick path: from the bytes of a whole request to those of its free answer, in one step.

It answers plain free questions that need little work and declines everything else before anything is counted or logged.
The regular path (middleware, free path, routes) then reads the same bytes again. The quick path therefore has no errors
or refusals of its own, and its responses are those that the regular path would send.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import httptools

from reticent.knowledge.free import Recall, Told, free_answer
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.request import Request
from reticent.queries.forms import Product
from reticent.queries.linear import Count
from reticent.service.admission import Admission
from reticent.service.http.middleware import SECURITY
from reticent.service.metrics import Log, Metrics
from reticent.service.replies import AnswerCache, encoded_reply, number_document, number_statement, reply_of
from reticent.service.requests import QuestionParser
from reticent.service.settings import TABLE_NAME
from reticent.sessions.engine import free_result
from reticent.sql.statement import Kept

_ASK = re.compile(f"/v1/tables/({TABLE_NAME})/ask")
_LENGTH = re.compile(rb"\r\ncontent-length: ?([0-9]{1,7})\r\n", re.IGNORECASE)
_JSON = b"application/json"
_READ = frozenset({b"authorization", b"content-length", b"content-type"})
_CONNECTION = (b"connection", b"proxy-connection")
_DECLINED = frozenset({b"idempotency-key", b"transfer-encoding", b"expect", b"upgrade", *_CONNECTION})
"""Headers that may affect a request; the regular path ignores all others too."""
HEADS = 4096
"""Heads that are remembered."""
LONGEST_HEAD = 2048
HEAD_BYTES = HEADS * LONGEST_HEAD
_SECURE = "".join(f"{name}: {value}\r\n" for name, value in SECURITY.items()).encode()
_REST = (
    b"content-type: application/json\r\ncontent-length: %d\r\n" + _SECURE.replace(b"%", b"%%") + b"x-request-id: %b"
    b"\r\n\r\n%b"
)


class QuickTable(Protocol):
    """A table that can give free answers with little work."""

    def quick_answer(self, body: bytes) -> tuple[bytes, str] | None:
        """Bytes and origin of the answer; None if it is not free or takes more work; errors for an invalid body."""
        ...


def light_answer(
    body: bytes,
    parser: QuestionParser,
    cache: AnswerCache,
    knowledge: Knowledge,
    recall: Recall | None = None,
    told: Told | None = None,
) -> tuple[bytes, str] | None:
    """A cached free answer, or one to a question that may be parsed and answered on the event loop."""
    answered = cache.recall(body, knowledge)
    if answered is not None:
        return answered
    request = parser.light_request(body)
    if request is None:
        return None
    question = request.question
    if type(question) is Count and request.error is None and request.confidence == parser.confidence:
        answered = _counted(question, request, cache, knowledge)
    else:
        found = free_result(knowledge, request, recall, told)
        answered = None if found is None else encoded_reply(reply_of(found))
    if answered is not None:
        cache.remember(body, knowledge, answered)
    return answered


def _counted(query: Count, request: Request, cache: AnswerCache, knowledge: Knowledge) -> tuple[bytes, str]:
    """A free count at the default confidence: everything but its text is a function of its compiled condition."""
    form = query.compile(knowledge.domain)
    condition = (*form.attributes, *[vector.tobytes() for vector in form.vectors]) if type(form) is Product else None
    stated = None if condition is None else cache.statement(condition, knowledge)
    if stated is None:
        found = free_answer(knowledge, request)
        assert found is not None, "without an error there always is an answer"
        statement = number_statement(found)
        if statement is None:
            return encoded_reply(found)
        stated = statement, found.origin
        if condition is not None:
            cache.remember_statement(condition, knowledge, stated)
    return number_document(query.text, stated[0]), stated[1]


class Head(NamedTuple):
    """The table and the token in the head of a request, without the length of its body."""

    table: str
    token: str


class QuickPath:
    """Answers whole requests for one process; `tables` are the tables it serves."""

    def __init__(self, tables: Mapping[str, QuickTable], admission: Admission, metrics: Metrics, log: Log) -> None:
        self._tables = tables
        self._admission = admission
        self._metrics = metrics
        self._log = log
        self._heads: Kept[bytes, Head] = Kept(HEADS, HEAD_BYTES)
        self._headers: list[tuple[bytes, bytes]] | None = None
        self._beginning = b""

    def response(self, data: bytes, headers: list[tuple[bytes, bytes]]) -> bytes | None:
        """The response to exactly one request, with the server's own headers first; None declines."""
        end = data.find(b"\r\n\r\n") + 4
        if not 4 <= end <= LONGEST_HEAD:
            return None
        # A client sends one head again and again, but for the length of the body: it is remembered without.
        length = _LENGTH.search(data, 0, end)
        if length is None or len(data) != end + int(length[1]):
            return None
        given = data[: length.start(1)] + data[length.end(1) : end]
        head = self._heads.get(given) or self._read(given, data[:end])
        if head is None:
            return None
        table, person = self._tables.get(head.table), self._admission.known(head.token)
        if table is None or person is None or not person.may_see(head.table) or self._admission.wait(person) > 0:
            return None
        started = time.perf_counter()
        try:
            answered = table.quick_answer(data[end:])
        except Exception:
            answered = None  # what is wrong with it is found, told and counted on the long way
        if answered is None:
            self._admission.give_back(person)
            return None
        body, origin = answered
        identity = secrets.token_hex(8)
        self._metrics.request("ask", 200)
        self._metrics.answered(origin, False, time.perf_counter() - started)
        if self._log.requests:
            self._log.info(
                "request",
                method="POST",
                status=200,
                who=person.name,
                request=identity,
                route="ask",
                origin=origin,
                paid=False,
            )
        return self._begun(headers) + _REST % (len(body), identity.encode(), body)

    def _begun(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The response up to the server's own headers, which are the same for a second."""
        if headers is not self._headers:
            own = b"".join(b"%b: %b\r\n" % pair for pair in headers)
            self._headers, self._beginning = headers, b"HTTP/1.1 200 OK\r\n" + own
        return self._beginning

    def _read(self, given: bytes, whole: bytes) -> Head | None:
        """Parse a head with the parser of the regular path, so that both paths read it in the same way; only plain
        heads are accepted.
        """
        if not whole.startswith(b"POST /v1/tables/"):
            return None
        read = _PlainHead()
        parser = httptools.HttpRequestParser(read)
        try:
            parser.feed_data(whole)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return None
        found = _ASK.fullmatch(read.url.decode("latin-1"))
        headers = read.headers
        plain = not read.declined and parser.get_http_version() == "1.1"
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        kind = headers.get(b"content-type", _JSON).partition(b";")[0].strip().lower()
        if found is None or not plain or scheme.lower() != "bearer" or kind != _JSON:
            return None
        head = Head(found.group(1), token.strip())
        self._heads.put(given, head, LONGEST_HEAD)
        return head


class _PlainHead:
    """Collects the relevant headers; `declined` if one is repeated or requests something else."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.declined = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _READ:
            self.declined = self.declined or name in self.headers
            self.headers[name] = value
        elif name in _DECLINED and not (name in _CONNECTION and value.lower() == b"keep-alive"):
            self.declined = True
