"""What a route needs: the tables and the tokens."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request as HttpRequest

from reticent.service.auth import Tokens
from reticent.service.http.middleware import NOTE
from reticent.service.metrics import Metrics
from reticent.service.settings import Settings
from reticent.service.table_service import TableService


@dataclass(frozen=True)
class Context:
    """One server's state; `app.state.context`."""

    settings: Settings
    tables: dict[str, TableService]
    tokens: Tokens
    metrics: Metrics


def context_of(http: HttpRequest) -> Context:
    return http.app.state.context


def named(http: HttpRequest, route: str) -> None:
    """How metrics and log call this request."""
    http.scope[NOTE]["route"] = route
