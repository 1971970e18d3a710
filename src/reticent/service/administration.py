"""What a custodian may do besides: tokens, caps, spending over time, ledger verification, publishing."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request as HttpRequest

from reticent.service import models
from reticent.service.context import context_of, custodian, desk_of, named
from reticent.service.problems import Problem
from reticent.service.routes import TableName
from reticent.service.tokens import NAME

router = APIRouter(prefix="/v1", tags=["custodian"])
DAY = 86_400
TokenId = Annotated[str, Path(pattern="^[0-9a-f]{12}$")]


@router.get("/tokens", response_model=models.TokenList)
async def tokens(http: HttpRequest) -> Any:
    """Everybody who ever had a token; hashes are not shown."""
    named(http, "tokens")
    custodian(http)
    return {"tokens": [principal.describe() for principal in context_of(http).tokens.all()]}


@router.post("/tokens", response_model=models.FreshToken, status_code=201)
async def create(http: HttpRequest, wanted: models.NewToken) -> Any:
    """A token for a new analyst or custodian, in clear this once."""
    named(http, "token")
    custodian(http)
    context = context_of(http)
    if wanted.tables is not None and not set(wanted.tables) <= set(context.desks):
        raise Problem("request", f"unknown table; this server has {', '.join(context.desks)}")
    principal, token = context.tokens.create(wanted.name, wanted.role, expires=_end(wanted.days), tables=wanted.tables)
    return principal.describe() | {"token": token}


@router.post("/tokens/{token}/rotate", response_model=models.FreshToken)
async def rotate(http: HttpRequest, token: TokenId, wanted: models.Rotation) -> Any:
    """A new secret; the old one ends at once."""
    named(http, "token")
    custodian(http)
    principal, fresh = context_of(http).tokens.rotate(token, expires=_end(wanted.days))
    return principal.describe() | {"token": fresh}


@router.delete("/tokens/{token}", response_model=models.TokenFacts)
async def revoke(http: HttpRequest, token: TokenId) -> Any:
    """From now on this token opens nothing."""
    named(http, "token")
    custodian(http)
    return context_of(http).tokens.revoke(token).describe()


@router.get("/tables/{table}/caps", response_model=models.CapList)
async def caps(http: HttpRequest, table: TableName) -> Any:
    """What each analyst has spent and may spend."""
    named(http, "caps")
    custodian(http)
    desk = desk_of(http, table)
    amount, bounds = desk.budget.amount, desk.ledger.caps
    names = sorted({*bounds, *(p.name for p in context_of(http).tokens.all() if p.role == "analyst")})
    return {
        "caps": [
            {
                "analyst": name,
                "cap": amount(bounds[name]) if name in bounds else None,
                "spent": amount(desk.ledger.spent_by(name)),
            }
            for name in names
        ]
    }


@router.put("/tables/{table}/caps/{analyst}", response_model=models.CapFacts)
async def set_cap(
    http: HttpRequest, table: TableName, analyst: Annotated[str, Path(pattern=NAME)], wanted: models.Cap
) -> Any:
    """Bound what one analyst may spend in all; what is spent stays spent."""
    named(http, "caps")
    custodian(http)
    desk = desk_of(http, table)
    limit = desk.budget.amount(desk.budget.limit)
    # The ledger has no event that removes a cap; one at the limit bounds nothing.
    await desk.paying(desk.session.set_cap, analyst, limit if wanted.amount is None else wanted.amount)
    cap = desk.budget.amount(desk.ledger.caps[analyst])
    return {"analyst": analyst, "cap": cap, "spent": desk.budget.amount(desk.ledger.spent_by(analyst))}


@router.get("/tables/{table}/spending", response_model=models.Spending)
async def spending(http: HttpRequest, table: TableName) -> Any:
    """Every charge and the running total."""
    named(http, "spending")
    custodian(http)
    desk = desk_of(http, table)
    amount = desk.budget.amount

    def charges() -> list[dict[str, Any]]:
        found, total = [], 0
        for event in desk.ledger.events():
            if event.kind in ("reserve", "rollback"):
                total += event.cost
                found.append(
                    {"at": event.at, "analyst": event.analyst, "cost": amount(event.cost), "total": amount(total)}
                )
        return found

    return {
        "unit": desk.budget.unit,
        "limit": amount(desk.budget.limit),
        "charges": await desk.work(charges),
    }


@router.post("/tables/{table}/verification", response_model=models.Verification)
async def verification(http: HttpRequest, table: TableName) -> Any:
    """Check the ledger's chain, its anchor and the running state, now."""
    named(http, "verify")
    custodian(http)
    desk = desk_of(http, table)
    return await desk.work(desk.verified)


@router.post("/tables/{table}/releases", response_model=models.ReleaseFacts, status_code=201)
async def publish(http: HttpRequest, table: TableName, wanted: models.Publication) -> Any:
    """Publish what is known so far: synthetic rows and a report. Free: it was paid for already."""
    named(http, "publish")
    person = custodian(http)
    desk = desk_of(http, table)
    records = max(1, min(int(desk.session._knowledge.records), 1_000_000))

    def write() -> dict[str, Any]:
        return desk.shelf.publish(desk.session.release(), wanted.title, wanted.rows or records, person.name)

    return await desk.paying(write)


def _end(days: float | None) -> int | None:
    return None if days is None else int(time.time() + days * DAY)
