"""`rt.connect`: a connection to a server with the methods, values and errors of a Session."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast, overload

from reticent.domain import Domain
from reticent.domain.domain import IMPOSSIBLE
from reticent.errors import (
    BudgetError,
    KeyBusyError,
    KeyForfeitedError,
    KeyReusedError,
    LedgerError,
    QueryError,
    ReticentError,
    SourceError,
    given,
    require,
)
from reticent.knowledge.answer import Answer
from reticent.knowledge.request import USUAL_CONFIDENCE, Promise, Records, Request
from reticent.queries.base import Query, checked_query
from reticent.queries.predicate import Predicate
from reticent.queries.statistics import StatisticQuery

if TYPE_CHECKING:
    import httpx

    from reticent.losses.losses import ConvexLoss
    from reticent.releases.models import Model
    from reticent.releases.release import Release
    from reticent.sql.result import ResultTable

ATTEMPTS = 6
FIRST_WAIT = 0.2
_TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PASSING = {"busy", "rate", "restarting", "ledger", "source"}
"""Problems that may be gone in a moment; a paid question is repeated with the same key, so it is charged once."""
_ERRORS: dict[str, type[ReticentError]] = {
    "question": QueryError,
    "too-complex": QueryError,
    "request": QueryError,
    "too-large": QueryError,
    "key-reused": KeyReusedError,
    "forfeited": KeyForfeitedError,
    "busy": KeyBusyError,
    "ledger": LedgerError,
    "restarting": SourceError,
    "source": SourceError,
}


def connect(url: str, token: str, *, table: str | None = None, timeout: float = 60.0) -> Connection:
    """A session on a server's table, with the methods of `rt.Session` that analysts need.

    If the token gives access to several tables, the name after FROM in SQL selects one.

    Args:
        url: The server, such as `https://stats.example:8080`.
        token: The token that the custodian gave to this analyst.
        table: The table's name; optional if the token gives access to only one table, or for SQL alone.
        timeout: Seconds to wait for an answer.

    Returns:
        A connection with `ask`, `sql`, `cost`, `minimize` and the public facts of the table.

    Raises:
        QueryError: The address or the token is malformed.
        SourceError: The server cannot be reached.

    Example:
        >>> import reticent as rt
        >>> session = rt.connect("https://stats.example", "rt_token", table="people")  # doctest: +SKIP
        >>> session.ask("SELECT COUNT(*) FROM people")  # doctest: +SKIP
    """
    require(url, str, "url", "the server's address, for example https://data.example.org")
    require(token, str, "token", "the text of a token")
    if not re.match(r"https?://[^/?#]", url, re.IGNORECASE):
        # Only the scheme is repeated: what follows may hold a password.
        scheme = url.partition("://")[0] + "://" if "://" in url else "no scheme"
        raise QueryError(f"url starts with {scheme}; give http:// or https:// and a host: https://data.example.org")
    return Connection(url, token, table=table, timeout=timeout)


class Connection:
    """Use it as a context manager, as a Session."""

    def __init__(
        self, url: str, token: str, *, table: str | None = None, timeout: float = 60.0, client: Any | None = None
    ) -> None:
        import httpx

        if not token.isascii() or not token.isprintable():
            raise QueryError("the token contains characters that tokens never have: copy it again")
        headers = {"Authorization": f"Bearer {token.strip()}"}
        self._http: httpx.Client = client or httpx.Client(base_url=url, timeout=timeout)
        self._http.headers.update(headers)
        self.name: str | None = table
        try:
            if table is None:
                self.name = self._tables[0] if len(self._tables) == 1 else None
                if not self._tables:
                    raise QueryError("this token gives access to no table: ask the custodian for another token")
            if self.name is not None:
                self._facts  # noqa: B018  a wrong name shows now
        except BaseException:
            self._http.close()
            raise

    @cached_property
    def _tables(self) -> list[str]:
        """All tables to which this token gives access."""
        tables: Any = self._sent("GET", "/v1/me")["tables"]
        named = cast("list[object]", tables) if isinstance(tables, list) else [None]
        if not all(isinstance(name, str) for name in named):
            raise self._not_ours()
        return cast("list[str]", named)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return self._get("")

    @cached_property
    def domain(self) -> Domain:
        """The public description of the columns."""
        with self._reading():
            listed = {entry["name"]: entry["declaration"] for entry in self._facts["domain"]}
        rules = self._facts.get("impossible")  # servers of version 0.1 have none
        return Domain.from_dict(listed | ({IMPOSSIBLE: rules} if rules else {}))

    @property
    def confidence(self) -> float:
        """The probability with which a stated error holds, unless a question states another."""
        return self._facts["confidence"]

    @overload
    def ask(
        self,
        question: Query | StatisticQuery,
        *,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
        promise: Promise = "certified",
    ) -> Answer: ...

    @overload
    def ask(
        self,
        question: str,
        *,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
        promise: Promise = "certified",
    ) -> ResultTable: ...

    def ask(
        self,
        question: Query | StatisticQuery | str,
        *,
        error: float | Records | str | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
        promise: Promise = "certified",
    ) -> Answer | ResultTable:
        """As `Session.ask`; after a lost connection it retries with the same key, so nothing is paid twice."""
        asked: Any = question if isinstance(question, (str, StatisticQuery)) else checked_query(question)
        reply = self._send("/ask", asked, error, confidence, key, max_price, promise)
        if reply["kind"] == "answer":
            with self._reading():
                return Answer.from_dict(reply["result"])
        from reticent.sql import ResultTable
        from reticent.sql.asking import answer_of, wanted_of

        with self._reading():
            table = ResultTable.from_dict(reply["result"])
        if not isinstance(question, StatisticQuery):
            return table
        return answer_of(question, table, None if error is None else wanted_of(question, self.domain, error))

    def ask_all(
        self,
        questions: Sequence[Query],
        *,
        error: float | Records | str,
        confidence: float | None = None,
        key: str | None = None,
    ) -> list[Answer]:
        """Ask each question within `error`, one after another, because a server has no joint audit of questions.

        The first refusal ends the call. With the same `key`, questions answered before are not paid again.
        """
        require(questions, Sequence, "questions", "a list of queries")
        key = key or secrets.token_hex(8)
        return [
            self.ask(question, error=error, confidence=confidence, key=f"{key}.{place}")
            for place, question in enumerate(questions)
        ]

    def cost(
        self,
        question: Query | StatisticQuery | str | ConvexLoss | Sequence[Query] | Sequence[ConvexLoss],
        *,
        error: float | Records | str,
        confidence: float | None = None,
    ) -> float:
        """An upper bound on the charge of `ask`, `ask_all` or `minimize` with the same arguments now; `cost` is free.

        The price of a list of queries is the sum of their prices: a server asks them one after another.
        """
        if isinstance(question, Sequence) and not isinstance(question, str):
            listed = cast("Sequence[Any]", question)
            if listed and all(isinstance(one, (Query, StatisticQuery)) for one in listed):
                return sum(self.cost(one, error=error, confidence=confidence) for one in listed)
        body = self._body(_request(question, error, confidence), error, confidence)
        return self._sent("POST", self._path("/cost", self._table_of(question)), body)["price"]

    @overload
    def minimize(
        self,
        loss: ConvexLoss,
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
    ) -> Model: ...

    @overload
    def minimize(
        self,
        loss: Sequence[ConvexLoss],
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
    ) -> list[Model]: ...

    def minimize(
        self,
        loss: ConvexLoss | Sequence[ConvexLoss],
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
    ) -> Model | list[Model]:
        """As `Session.minimize`: one model, or one per loss of a list. Models without a certificate say so."""
        from reticent.releases.models import Model

        reply = self._send("/minimize", loss, error, confidence, key, max_price)
        with self._reading():
            models = [Model.from_dict(fields) for fields in reply["result"]["models"]]
        return models if isinstance(loss, Sequence) else models[0]

    @property
    def spent(self) -> float:
        return self._get("/budget")["spent"]

    @property
    def remaining(self) -> float:
        """The amount that this token's owner can still spend, under cap and budget."""
        return self._get("/budget")["own_remaining"]

    @property
    def certificates(self) -> list[dict[str, Any]]:
        return self._get("/certificates")["certificates"]

    def set_cap(self, analyst: str, amount: float) -> None:
        """Limit the total that an analyst may spend; needs a custodian's token."""
        self._call("PUT", self._path(f"/caps/{analyst}"), {"amount": amount})

    def spent_by(self, analyst: str) -> float:
        """The amount that one analyst has spent; needs a custodian's token."""
        return sum(entry["spent"] for entry in self._get("/caps")["caps"] if entry["analyst"] == analyst)

    def describe(self) -> dict[str, Any]:
        """Public facts: the guarantee, the amount spent, the certificates."""
        budget = self._get("/budget")
        return {
            "table": self.name,
            "neighbours": self._facts["neighbours"],
            "budget": f"{budget['unit']} {budget['limit']:.6g}",
            "spent": budget["spent"],
            "remaining": budget["remaining"],
            "guarantee": budget["guarantee"],
            "certificates": [
                {"kind": c["kind"], "sets": len(c["sets"]), "bound": c["bound"], "confidence": c["confidence"]}
                for c in self.certificates
            ],
        }

    def history(self) -> Iterator[dict[str, Any]]:
        """Paid answers, newest first."""
        before: int | None = None
        while True:
            page = self._get("/history" + ("" if before is None else f"?before={before}"))
            yield from page["entries"]
            before = page["next"]
            if before is None:
                return

    def release(self) -> Release:
        """The newest published release."""
        from reticent.releases.release import Release

        published = self._get("/releases")["releases"]
        if not published:
            raise QueryError("nothing has been published yet: ask the custodian")
        data = self._call("GET", self._path(f"/releases/{published[0]['id']}/release")).content
        return Release.from_bytes(data)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Connection to {self.name or 'several tables'!r} at {self._http.base_url}>"

    def _send(
        self,
        path: str,
        question: Any,
        error: float | Records | str | None,
        confidence: float | None,
        key: str | None,
        max_price: float | None,
        promise: Promise = "certified",
    ) -> dict[str, Any]:
        """Send a request; one that may cost has a key, so that it can be retried after a lost connection and is charged
        once.
        """
        request = _request(question, error, confidence, key)
        body = self._body(request, error, confidence)
        if max_price is not None:
            body["max_price"] = max_price
        if promise != "certified":
            body["promise"] = promise
        key = None if error is None else request.key or secrets.token_hex(16)
        return self._sent("POST", self._path(path, self._table_of(question)), body, key=key)

    def _body(self, request: Request, error: float | Records | str | None, confidence: float | None) -> dict[str, Any]:
        """The request body with the caller's own texts, because a key is bound to them.

        The error is in records for SQL and a share of the table for a query; an unstated confidence is left to the
        server.
        """
        question: Any = request.question
        wanted: Any = error if isinstance(error, str) else request.error
        if isinstance(wanted, Records):
            wanted = wanted.number if isinstance(question, str) else wanted.number / self._facts["records"]
        terms = {"error": wanted, "confidence": confidence}
        body = {name: value for name, value in terms.items() if value is not None}
        if isinstance(question, str):
            return {"sql": question, **body}
        if isinstance(question, (Query, StatisticQuery)):
            return {"query": question.to_dict(), **body}
        if isinstance(question, tuple):
            losses = cast("tuple[ConvexLoss, ...]", question)
            return {"losses": [loss.to_dict() for loss in losses], **body}
        return {"loss": question.to_dict(), **body}

    def _table_of(self, question: Any) -> str | None:
        """The table after FROM, if this token gives access to it; otherwise the connection's own, and the server
        refuses.
        """
        from reticent.sql.parse import table_of

        named = table_of(question) if isinstance(question, str) else None
        if named is None or (self.name is not None and named.lower() == self.name.lower()):
            return self.name
        return next((table for table in self._tables if table.lower() == named.lower()), self.name)

    def _path(self, rest: str, table: str | None = None) -> str:
        name = table or self.name
        if name is None:
            seen = ", ".join(self._tables)
            raise QueryError(
                f"this token gives access to {len(self._tables)} tables ({seen}): name one of them, in SQL after FROM"
            )
        require(name, str, "table", "a table's name, which is text")
        if _TABLE_NAME.fullmatch(name) is None:
            raise QueryError(f"table {given(name)} is no table's name: letters, digits, - and _, at most 64 characters")
        return f"/v1/tables/{name}{rest}"

    def _get(self, rest: str) -> dict[str, Any]:
        return self._sent("GET", self._path(rest))

    def _sent(self, method: str, path: str, body: Any = None, key: str | None = None) -> dict[str, Any]:
        """The fields of the reply; a reply of another program, or a missing field, raises an error that says so."""
        response = self._call(method, path, body, key)
        with self._reading():
            return _Fields(self._not_ours(), json.loads(response.content) | {})

    @contextmanager
    def _reading(self) -> Generator[None, None, None]:
        """Raise SourceError for a reply that is not of this interface."""
        try:
            yield
        except SourceError:
            raise
        except (QueryError, KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
            raise self._not_ours() from None

    def _not_ours(self) -> SourceError:
        return SourceError(
            f"{self._http.base_url} did not reply as a Reticent server of this version does: check the address, then"
            " compare `reticent --version` here and there"
        )

    def _call(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        import httpx

        if self._http.is_closed:
            raise SourceError("this connection is closed: open it again with rt.connect")
        headers = {} if key is None else {"Idempotency-Key": key}
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                response = self._http.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                if last:
                    raise SourceError(
                        f"{self._http.base_url} cannot be reached ({type(error).__name__}): check the address, and that"
                        " `reticent serve` runs there"
                    ) from None
                time.sleep(FIRST_WAIT * 2**attempt)
                continue
            if response.is_success:
                return response
            problem = _problem(response)
            if last or problem["type"].rpartition(":")[2] not in _PASSING:
                raise _error(problem)
            time.sleep(_wait(response.headers.get("retry-after", ""), FIRST_WAIT * 2**attempt))
        raise AssertionError("unreachable")


def _request(question: Any, error: Any, confidence: float | None, key: str | None = None) -> Request:
    """The request, checked as a session checks it; SQL stays text, because the server knows the table."""
    asked: Any = question
    if isinstance(question, (Query, Predicate)):
        asked = checked_query(question)
    elif not isinstance(question, (str, StatisticQuery)):
        from reticent.losses.losses import checked_loss

        batch = cast("Sequence[Any]", question) if isinstance(question, Sequence) else None
        asked = checked_loss(question) if batch is None else tuple(map(checked_loss, batch))
    return Request(asked, error, USUAL_CONFIDENCE if confidence is None else confidence, key)


class _Fields(dict[str, Any]):
    """A reply's fields; a missing one indicates another program or version."""

    def __init__(self, problem: SourceError, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self._problem = problem

    def __missing__(self, name: str) -> Any:
        raise self._problem


def _wait(stated: str, otherwise: float) -> float:
    """Seconds as the server states them; a date, which proxies may send, is ignored."""
    return float(stated) if stated.isascii() and stated.isdecimal() else otherwise


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        problem = response.json()
        return {"type": str(problem["type"]), "detail": str(problem["detail"])} | problem
    except (ValueError, KeyError, TypeError):
        return {"type": "", "detail": f"the server answered with status {response.status_code}"}


def _error(problem: dict[str, Any]) -> ReticentError:
    kind = problem["type"].rpartition(":")[2]
    if kind == "budget" and {"requested", "remaining"} <= problem.keys():
        return BudgetError(problem["detail"], requested=problem["requested"], remaining=problem["remaining"])
    return _ERRORS.get(kind, ReticentError)(problem["detail"])
