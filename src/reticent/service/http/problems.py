"""Problem documents: the refusals that a client sees, one line with a stable type and no value from the table."""

from __future__ import annotations

import errno
import json
from http import HTTPStatus
from typing import Any

from reticent.errors import (
    BudgetError,
    EntryError,
    KeyBusyError,
    KeyForfeitedError,
    KeyReusedError,
    LedgerError,
    ReticentError,
    SourceError,
)
from reticent.service.settings import LONGEST_DETAIL

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:reticent:problem:"

TITLES: dict[str, tuple[int, str]] = {
    "unauthorized": (401, "A valid token is needed"),
    "budget": (402, "The budget cannot pay"),
    "forbidden": (403, "This token does not permit that"),
    "not-found": (404, "The requested resource does not exist"),
    "unavailable": (404, "This server does not offer the requested function"),
    "method": (405, "This method is not allowed here"),
    "slow": (408, "The request took too long to arrive"),
    "busy": (409, "A request with the same key is in progress"),
    "conflict": (409, "The request conflicts with the current state"),
    "price": (409, "The price is above the stated maximum"),
    "forfeited": (410, "The key was charged and can no longer be answered"),
    "too-large": (413, "The request is too large"),
    "media-type": (415, "Send JSON"),
    "question": (422, "The question cannot be answered in this form"),
    "too-complex": (422, "The question needs too much work"),
    "key-reused": (422, "The key belongs to another question"),
    "request": (422, "The request is malformed"),
    "rate": (429, "Too many requests"),
    "internal": (500, "Internal error"),
    "restarting": (503, "The server is starting or shutting down"),
    "ledger": (503, "The ledger cannot be used"),
    "storage": (503, "The server cannot write to its disk"),
    "source": (503, "The table cannot be read"),
}
"""Type to status and title; clients may rely on the types."""


class HttpProblem(Exception):
    """An error that becomes a problem document; `facts` are further members of the document, all of them public."""

    def __init__(self, kind: str, detail: str, *, retry_after: int | None = None, **facts: Any) -> None:
        detail = " ".join(detail.split())
        self.kind = kind
        self.detail = detail if len(detail) <= LONGEST_DETAIL else detail[: LONGEST_DETAIL - 3] + "..."
        super().__init__(self.detail)
        self.retry_after = retry_after
        self.facts = facts

    @property
    def status(self) -> int:
        return TITLES[self.kind][0]

    @property
    def phrase(self) -> str:
        return HTTPStatus(self.status).phrase

    def headers(self) -> dict[str, str]:
        headers = {"content-type": MEDIA_TYPE}
        if self.status == 401:
            headers["www-authenticate"] = 'Bearer realm="reticent"'
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        return headers

    def document(self) -> dict[str, Any]:
        status, title = TITLES[self.kind]
        return {"type": PREFIX + self.kind, "title": title, "status": status, "detail": self.detail, **self.facts}

    def body(self) -> bytes:
        return json.dumps(self.document()).encode()


def storage_problem(error: OSError) -> HttpProblem | None:
    """A full or broken disk is a problem `storage`; other failures are internal errors."""
    if error.errno not in _DISK:
        return None
    return HttpProblem(
        "storage", "the server cannot write to its disk: tell its administrator; try again with the same key"
    )


_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.EFBIG}


_KINDS: tuple[tuple[type[ReticentError], str], ...] = (
    (KeyBusyError, "busy"),
    (KeyReusedError, "key-reused"),
    (KeyForfeitedError, "forfeited"),
    (EntryError, "request"),
    (LedgerError, "ledger"),
    (SourceError, "source"),
)
"""The first type that fits; everything else is the question's fault."""


def problem_of(error: ReticentError) -> HttpProblem:
    """The problem document of one of the library's errors, whose messages are public."""
    detail = str(error)
    if isinstance(error, BudgetError):
        return HttpProblem("budget", detail, requested=error.requested, remaining=error.remaining)
    kind = next((kind for family, kind in _KINDS if isinstance(error, family)), "question")
    return HttpProblem(kind, detail, retry_after=1 if kind == "busy" else None)
