"""What a route needs: the desks, the tokens, and who asks."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request as HttpRequest

from reticent.service.desk import Desk
from reticent.service.front import NOTE, PRINCIPAL
from reticent.service.metrics import Metrics
from reticent.service.problems import Problem
from reticent.service.settings import Settings
from reticent.service.tokens import Principal, Tokens


@dataclass(frozen=True)
class Context:
    """One server's state; `app.state.context`."""

    settings: Settings
    desks: dict[str, Desk]
    tokens: Tokens
    metrics: Metrics


def context_of(http: HttpRequest) -> Context:
    return http.app.state.context


def named(http: HttpRequest, route: str) -> None:
    """How metrics and log call this request."""
    http.scope[NOTE]["route"] = route


def who(http: HttpRequest) -> Principal:
    """Whoever the front let in."""
    principal = http.scope.get(PRINCIPAL)
    if principal is None:
        raise Problem("unauthorized", "send the header 'Authorization: Bearer <token>'")
    return principal


def custodian(http: HttpRequest) -> Principal:
    principal = who(http)
    if principal.role != "custodian":
        raise Problem("forbidden", "only a custodian may do this")
    return principal


def desk_of(http: HttpRequest, table: str) -> Desk:
    """A table this person may see; others do not exist for them."""
    desk = context_of(http).desks.get(table)
    if desk is None or not who(http).may_see(table):
        raise Problem("not-found", "no such table, or not for this token")
    return desk
