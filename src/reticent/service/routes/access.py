"""Roles of routes: each router declares the role of its routes and resolves their table.

A role is a dependency that FastAPI resolves before the route runs. `roles_of` reads the roles, so that a test finds a
route without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from fastapi.dependencies.models import Dependant
from starlette.requests import Request as HttpRequest

from reticent.service.auth import Principal, Tokens
from reticent.service.http.middleware import NOTE, PRINCIPAL
from reticent.service.http.problems import HttpProblem
from reticent.service.metrics import Metrics
from reticent.service.settings import TABLE_NAME, Settings
from reticent.service.table_service import TableService

TableName = Annotated[str, Path(pattern=f"^{TABLE_NAME}$")]


async def anyone() -> None:
    """Needs no token and gives no information about tables."""


async def signed_in(http: HttpRequest) -> Principal:
    """The user that the middleware has admitted."""
    principal = http.scope.get(PRINCIPAL)
    if principal is None:
        raise HttpProblem("unauthorized", "send the header 'Authorization: Bearer <token>'")
    return principal


async def custodian(principal: Annotated[Principal, Depends(signed_in)]) -> Principal:
    if principal.role != "custodian":
        raise HttpProblem("forbidden", "only a custodian may do this")
    return principal


async def served_table(
    http: HttpRequest, table: TableName, person: Annotated[Principal, Depends(signed_in)]
) -> TableService:
    """A table to which this user has access; others do not exist for the user."""
    found = context_of(http).tables.get(table)
    if found is None or not person.may_see(table):
        raise HttpProblem("not-found", "no such table, or not for this token")
    return found


Person = Annotated[Principal, Depends(signed_in)]
Served = Annotated[TableService, Depends(served_table)]

ROLES = (anyone, signed_in, custodian)
"""From the least to the most."""


def public_router() -> APIRouter:
    return APIRouter(dependencies=[Depends(anyone)])


def analyst_router(prefix: str, tag: str) -> APIRouter:
    """A router for everybody with a token, including custodians."""
    return APIRouter(prefix=prefix, tags=[tag], dependencies=[Depends(signed_in)])


def custodian_router(prefix: str, tag: str) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], dependencies=[Depends(custodian)])


def calls_of(dependant: Dependant) -> Iterator[Any]:
    """All functions that run before a route."""
    for inner in dependant.dependencies:
        yield inner.call
        yield from calls_of(inner)


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
    """Set the name of this request in metrics and log."""
    http.scope[NOTE]["route"] = route
