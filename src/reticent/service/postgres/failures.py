"""Refusals in PostgreSQL's form: severity, SQLSTATE, one line; the text is that of a problem document and public."""

from __future__ import annotations

from reticent.errors import ReticentError
from reticent.service.http.middleware import FAILED
from reticent.service.http.problems import HttpProblem, problem_of, storage_problem

FEATURE = "0A000"
PROTOCOL = "08P01"
BAD_VALUE = "22023"
ENCODING = "22021"
BAD_TEXT = "22P02"
READ_ONLY = "25006"
FAILED_TRANSACTION = "25P02"
NO_STATEMENT = "26000"
NO_ACCESS = "28000"
WRONG_PASSWORD = "28P01"
NO_CURSOR = "34000"
DUPLICATE_CURSOR = "42P03"
DUPLICATE_STATEMENT = "42P05"
SYNTAX = "42601"
NO_VARIABLE = "42704"
NO_TABLE = "42P01"
NO_PARAMETER = "42P02"
TOO_MANY_CONNECTIONS = "53300"
TOO_LARGE = "54000"
CANCELED = "57014"
SHUTDOWN = "57P01"
IDLE = "57P05"
INTERNAL = "XX000"

STATES: dict[str, str] = {
    "unauthorized": NO_ACCESS,
    "budget": "53400",
    "forbidden": "42501",
    "not-found": NO_TABLE,
    "unavailable": FEATURE,
    "method": FEATURE,
    "slow": "57P05",
    "busy": "55006",
    "conflict": "55000",
    "price": "53400",
    "forfeited": "55000",
    "too-large": TOO_LARGE,
    "media-type": FEATURE,
    "question": FEATURE,
    "too-complex": "54001",
    "key-reused": "55000",
    "request": BAD_VALUE,
    "rate": "53000",
    "internal": INTERNAL,
    "restarting": "57P03",
    "ledger": "58000",
    "storage": "53100",
    "source": "58030",
}
"""SQLSTATE of each problem type of the HTTP interface."""


class Refusal(Exception):
    """A failure as the client sees it: SQLSTATE and one line; `fatal` ends the connection."""

    def __init__(self, state: str, message: str, *, hint: str = "", fatal: bool = False) -> None:
        super().__init__(message)
        self.state = state
        self.message = message
        self.hint = hint
        self.fatal = fatal

    @property
    def severity(self) -> str:
        return "FATAL" if self.fatal else "ERROR"


class ProtocolViolation(Refusal):
    """Bytes that are no message of the protocol: where the next one begins is unknown, so the connection ends."""

    def __init__(self, message: str, state: str = PROTOCOL) -> None:
        super().__init__(state, message, fatal=True)


def refusal_of(error: Exception) -> Refusal:
    """The refusal for any error; an unexpected one says only that the server failed."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ReticentError):
        problem = problem_of(error)
    elif isinstance(error, HttpProblem):
        problem = error
    else:
        problem = (isinstance(error, OSError) and storage_problem(error)) or FAILED
    return Refusal(STATES[problem.kind], problem.detail)
