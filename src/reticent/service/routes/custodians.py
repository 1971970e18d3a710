"""Routes of custodians: tokens, caps, spending over time, ledger verification, publishing."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request as HttpRequest

from reticent.service import schemas as models
from reticent.service.auth import Principal
from reticent.service.http.problems import HttpProblem
from reticent.service.routes.access import Person, Served, context_of, custodian_router, named
from reticent.service.settings import PERSON_NAME, PUBLISHED_ROWS

router = custodian_router("/v1", "custodian")
DAY = 86_400
TokenId = Annotated[str, Path(pattern="^[0-9a-f]{12}$")]


@router.get("/tokens", response_model=models.TokenList)
async def tokens(http: HttpRequest, person: Person) -> Any:
    """All tokens, including past ones, that this token may manage; hashes are not shown."""
    named(http, "tokens")
    return {"tokens": [other.describe() for other in context_of(http).tokens.all() if person.may_manage(other)]}


@router.post("/tokens", response_model=models.FreshToken, status_code=201)
async def create(http: HttpRequest, person: Person, wanted: models.NewToken) -> Any:
    """Create a token for a new analyst or custodian; its clear text is shown only here. Without `tables` it is for all
    tables of the creator's token.
    """
    named(http, "token")
    context = context_of(http)
    tables = wanted.tables if wanted.tables is not None or person.tables is None else list(person.tables)
    seen = [name for name in context.tables if person.may_see(name)]
    if wanted.tables is not None and not set(wanted.tables) <= set(seen):
        raise HttpProblem("request", f"unknown table, or not for this token; it is for {', '.join(seen)}")
    principal, token = context.tokens.create(wanted.name, wanted.role, expires=_end(wanted.days), tables=tables)
    return principal.describe() | {"token": token}


@router.post("/tokens/{token}/rotate", response_model=models.FreshToken)
async def rotate(http: HttpRequest, person: Person, token: TokenId, wanted: models.Rotation) -> Any:
    """Create a new secret; the old one becomes invalid at once."""
    named(http, "token")
    principal, fresh = context_of(http).tokens.rotate(_managed(http, person, token), expires=_end(wanted.days))
    return principal.describe() | {"token": fresh}


@router.delete("/tokens/{token}", response_model=models.TokenFacts)
async def revoke(http: HttpRequest, person: Person, token: TokenId) -> Any:
    """Revoke a token permanently."""
    named(http, "token")
    return context_of(http).tokens.revoke(_managed(http, person, token)).describe()


def _managed(http: HttpRequest, person: Principal, token: str) -> str:
    """The id of a token that this custodian may manage; others do not exist for the custodian."""
    if not person.may_manage(context_of(http).tokens.get(token)):
        raise HttpProblem("not-found", "no token has this id")
    return token


@router.get("/tables/{table}/caps", response_model=models.CapList)
async def caps(http: HttpRequest, served: Served, person: Person) -> Any:
    """The spending and the cap of each analyst."""
    named(http, "caps")
    amount, bounds = served.budget.amount, served.ledger.caps
    known = [p for p in context_of(http).tokens.all() if p.role == "analyst" and p.may_see(served.table.name)]
    names = sorted({*bounds, *(p.name for p in known if person.tables is None or person.may_manage(p))})
    return {
        "caps": [
            {
                "analyst": name,
                "cap": amount(bounds[name]) if name in bounds else None,
                "spent": amount(served.ledger.spent_by(name)),
            }
            for name in names
        ]
    }


@router.put("/tables/{table}/caps/{analyst}", response_model=models.CapFacts)
async def set_cap(
    http: HttpRequest,
    served: Served,
    person: Person,
    analyst: Annotated[str, Path(pattern=f"^{PERSON_NAME}$")],
    wanted: models.Cap,
) -> Any:
    """Limit the total that one analyst may spend; past spending is not affected."""
    named(http, "caps")
    limit = served.budget.amount(served.budget.limit)
    # The ledger has no event that removes a cap; one at the limit bounds nothing.
    await served.paying(person, served.session.set_cap, analyst, limit if wanted.amount is None else wanted.amount)
    cap = served.budget.amount(served.ledger.caps[analyst])
    return {"analyst": analyst, "cap": cap, "spent": served.budget.amount(served.ledger.spent_by(analyst))}


@router.get("/tables/{table}/spending", response_model=models.Spending)
async def spending(http: HttpRequest, served: Served, person: Person) -> Any:
    """Every charge and the running total."""
    named(http, "spending")
    amount = served.budget.amount

    def charges() -> list[dict[str, Any]]:
        found, total = [], 0
        for event in served.ledger.events():
            if event.kind in ("reserve", "rollback"):
                total += event.cost
                found.append(
                    {"at": event.at, "analyst": event.analyst, "cost": amount(event.cost), "total": amount(total)}
                )
        return found

    return {
        "unit": served.budget.unit,
        "limit": amount(served.budget.limit),
        "charges": await served.work(person, charges),
    }


@router.post("/tables/{table}/verification", response_model=models.Verification)
async def verification(http: HttpRequest, served: Served, person: Person) -> Any:
    """Check the ledger's chain, its anchor and the running state now."""
    named(http, "verify")
    return await served.work(person, served.verified)


@router.post("/tables/{table}/releases", response_model=models.ReleaseFacts, status_code=201)
async def publish(http: HttpRequest, served: Served, person: Person, wanted: models.Publication) -> Any:
    """Publish the current state: synthetic rows and a report. It is free, because it was already paid for."""
    named(http, "publish")
    records = max(1, min(int(served.records), PUBLISHED_ROWS))

    def write() -> dict[str, Any]:
        return served.releases.publish(served.session.release(), wanted.title, wanted.rows or records, person.name)

    return await served.paying(person, write)


def _end(days: float | None) -> int | None:
    return None if days is None else int(time.time() + days * DAY)
