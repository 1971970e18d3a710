"""A connection asks a server the way a Session asks a table: same calls, same values, same errors."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reticent.answer import Answer
from reticent.domain import Domain
from reticent.errors import (
    BudgetError,
    KeyBusyError,
    KeyForfeitedError,
    KeyReusedError,
    LedgerError,
    QueryError,
    ReticentError,
    SourceError,
    require,
)
from reticent.queries.base import Query, checked_query
from reticent.queries.predicate import Predicate

if TYPE_CHECKING:
    import httpx

    from reticent.releases import Release

ATTEMPTS = 6
FIRST_WAIT = 0.2
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
    """A session on a server's table; `table` may be left out where the token sees only one."""
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
            raise QueryError("the token holds characters that no token has: copy it again")
        headers = {"Authorization": f"Bearer {token.strip()}"}
        self._http: httpx.Client = client or httpx.Client(base_url=url, timeout=timeout)
        self._http.headers.update(headers)
        try:
            self.name = table or self._only_table()
            self._facts = self._get("")
        except BaseException:
            self._http.close()
            raise
        self.domain = Domain.from_dict({entry["name"]: entry["declaration"] for entry in self._facts["domain"]})
        self.confidence: float = self._facts["confidence"]

    def _only_table(self) -> str:
        tables = self._call("GET", "/v1/me").json()["tables"]
        if len(tables) != 1:
            raise QueryError(f"this token sees {len(tables)} tables ({', '.join(tables)}): name one with table=")
        return tables[0]

    def ask(
        self,
        question: Query | str,
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
    ) -> Any:
        """As `Session.ask`; a lost connection is tried again with the same key, so nothing is paid twice."""
        if not isinstance(question, str):
            checked_query(question)
        reply = self._order("/ask", question, error, confidence, key, max_price)
        if reply["kind"] == "answer":
            return Answer.from_dict(reply["result"])
        from reticent.sql import ResultTable

        return ResultTable.from_dict(reply["result"])

    def ask_all(
        self, questions: Sequence[Query], *, error: float, confidence: float | None = None, key: str | None = None
    ) -> list[Answer]:
        """Each within `error`, one after the other, as a server knows no joint audit of questions.

        The first refusal ends it. With the same `key`, what was answered before it is not paid again.
        """
        require(questions, Sequence, "questions", "a list of queries")
        key = key or secrets.token_hex(8)
        return [
            self.ask(question, error=error, confidence=confidence, key=f"{key}.{place}")
            for place, question in enumerate(questions)
        ]

    def cost(self, question: Any, *, error: float, confidence: float | None = None) -> float:
        """The most that `ask` or `minimize` with the same arguments would charge now; asking for it costs nothing."""
        return self._call("POST", self._path("/cost"), _body(question, error, confidence)).json()["price"]

    def minimize(
        self,
        loss: Any,
        *,
        error: float | None = None,
        confidence: float | None = None,
        key: str | None = None,
        max_price: float | None = None,
    ) -> Any:
        """As `Session.minimize`: one model, or one per loss of a list. What cannot be certified says so."""
        from reticent.models import Model

        reply = self._order("/minimise", loss, error, confidence, key, max_price)
        models = [Model.from_dict(fields) for fields in reply["result"]["models"]]
        return models if isinstance(loss, Sequence) else models[0]

    @property
    def spent(self) -> float:
        return self._get("/budget")["spent"]

    @property
    def remaining(self) -> float:
        """What this token's owner can still spend, under cap and budget."""
        return self._get("/budget")["own_remaining"]

    @property
    def certificates(self) -> list[dict[str, Any]]:
        return self._get("/certificates")["certificates"]

    def set_cap(self, analyst: str, amount: float) -> None:
        """The most this analyst may spend in all; for a custodian's token."""
        self._call("PUT", self._path(f"/caps/{analyst}"), {"amount": amount})

    def spent_by(self, analyst: str) -> float:
        """What one analyst has spent; for a custodian's token."""
        return sum(entry["spent"] for entry in self._get("/caps")["caps"] if entry["analyst"] == analyst)

    def describe(self) -> dict[str, Any]:
        """Public facts: what is guaranteed, what is spent, what is certified."""
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
        from reticent.releases import Release

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
        return f"<Connection to {self.name!r} at {self._http.base_url}>"

    def _order(
        self,
        path: str,
        asked: Any,
        error: float | None,
        confidence: float | None,
        key: str | None,
        max_price: float | None,
    ) -> dict[str, Any]:
        """Whatever may cost has a key, so that a lost connection can be tried again and is charged once."""
        body = _body(asked, error, confidence)
        if max_price is not None:
            body["max_price"] = max_price
        key = (key or secrets.token_hex(16)) if error is not None else None
        return self._call("POST", self._path(path), body, key=key).json()

    def _path(self, rest: str) -> str:
        return f"/v1/tables/{self.name}{rest}"

    def _get(self, rest: str) -> dict[str, Any]:
        return self._call("GET", self._path(rest)).json()

    def _call(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        import httpx

        headers = {} if key is None else {"Idempotency-Key": key}
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                response = self._http.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                if last:
                    raise SourceError(f"{self._http.base_url} cannot be reached ({type(error).__name__})") from None
                time.sleep(FIRST_WAIT * 2**attempt)
                continue
            if response.is_success:
                return response
            problem = _problem(response)
            if last or problem["type"].rpartition(":")[2] not in _PASSING:
                raise _error(problem)
            time.sleep(float(response.headers.get("retry-after", FIRST_WAIT * 2**attempt)))
        raise AssertionError("unreachable")


def _body(asked: Any, error: float | None, confidence: float | None) -> dict[str, Any]:
    """SQL, a query, a loss or a list of losses, as the server takes them."""
    wanted = {"error": error, "confidence": confidence}
    terms = {name: value for name, value in wanted.items() if value is not None}
    if isinstance(asked, str):
        return {"sql": asked, **terms}
    if isinstance(asked, (Query, Predicate)):
        return {"query": checked_query(asked).to_dict(), **terms}
    from reticent.queries.convex import checked_loss

    if isinstance(asked, Sequence):
        return {"losses": [checked_loss(loss).to_dict() for loss in asked], **terms}
    return {"loss": checked_loss(asked).to_dict(), **terms}


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        problem = response.json()
        return {"type": str(problem["type"]), "detail": str(problem["detail"])} | problem
    except (ValueError, KeyError, TypeError):
        return {"type": "", "detail": f"the server answered with status {response.status_code}"}


def _error(problem: dict[str, Any]) -> ReticentError:
    kind = problem["type"].rpartition(":")[2]
    if kind == "budget":
        return BudgetError(problem["detail"], requested=problem["requested"], remaining=problem["remaining"])
    return _ERRORS.get(kind, ReticentError)(problem["detail"])
