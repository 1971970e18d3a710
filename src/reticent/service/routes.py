"""What analysts may do: see the public domain, ask, learn the price before paying, look back, download."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse

from reticent.report.words import certificate_sentence, promise
from reticent.service import models
from reticent.service.context import context_of, desk_of, named, who
from reticent.service.desk import Desk
from reticent.service.front import BODY, NOTE
from reticent.service.orders import KEY, Order, checked_key, content_of
from reticent.service.problems import Problem
from reticent.service.settings import TABLE_NAME
from reticent.service.shelf import FILES

router = APIRouter(prefix="/v1", tags=["analyst"])
TableName = Annotated[str, Path(pattern=TABLE_NAME)]
JSON = "application/json"


def _body(*shapes: type[models.Strict]) -> dict[str, Any]:
    """Bodies that we parse ourselves, for speed, still stand in the document."""
    schemas = [shape.model_json_schema() for shape in shapes]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def _key() -> dict[str, Any]:
    parameter = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Makes a paid answer repeatable: the same key returns the same bytes and is charged once.",
        "schema": {"type": "string", "pattern": KEY},
    }
    return {"parameters": [parameter]}


@router.get("/me", response_model=models.Me)
async def me(http: HttpRequest) -> Any:
    """Who this token belongs to."""
    named(http, "me")
    person = who(http)
    tables = [name for name in context_of(http).desks if person.may_see(name)]
    return {"name": person.name, "role": person.role, "expires": person.expires, "tables": tables}


@router.get("/tables", response_model=models.TableList)
async def tables(http: HttpRequest) -> Any:
    """The tables this token may ask about."""
    named(http, "tables")
    person = who(http)
    return {"tables": [_summary(desk) for name, desk in context_of(http).desks.items() if person.may_see(name)]}


@router.get("/tables/{table}", response_model=models.TableFacts)
async def table(http: HttpRequest, table: TableName) -> Any:
    """The public description: attributes, bins, and the promise to the people in the table."""
    named(http, "table")
    desk = desk_of(http, table)
    facts = desk.identity
    return _summary(desk) | {
        "domain": [
            {
                "name": name,
                "type": attribute.type,
                "ordered": attribute.ordered,
                "labels": list(attribute.labels),
                "declaration": attribute.to_dict(),
            }
            for name, attribute in desk.domain.items()
        ],
        "neighbours": facts["neighbours"],
        "confidence": desk.session.confidence,
        "promise": promise(desk.budget, facts["unit"], facts["neighbours"]),
        "fingerprint": desk.domain.fingerprint,
    }


def _summary(desk: Desk) -> dict[str, Any]:
    return {
        "name": desk.table.name,
        "title": desk.table.title or desk.table.name,
        "attributes": len(desk.domain),
        "records": desk.session._knowledge.records,
        "unit": desk.identity["unit"],
    }


@router.post("/tables/{table}/ask", response_model=models.Reply, openapi_extra=_body(models.Question) | _key())
async def ask(http: HttpRequest, table: TableName) -> Response:
    """Answer a question, paying if an error bound demands it."""
    named(http, "ask")
    desk = desk_of(http, table)
    return await _answered(http, desk, desk.requests.parse(_json_body(http)))


@router.post("/tables/{table}/minimise", response_model=models.Reply, openapi_extra=_body(models.Fitting) | _key())
async def minimise(http: HttpRequest, table: TableName) -> Response:
    """Fit models by minimising convex losses: free from what is known, or audited and bought within an error.

    Models that neither an audit nor the budget can certify come back uncertified and say so.
    """
    named(http, "minimise")
    desk = desk_of(http, table)
    return await _answered(http, desk, await desk.work(desk.fits.parse, _json_body(http)))


async def _answered(http: HttpRequest, desk: Desk, order: Order) -> Response:
    key = checked_key(http.headers.get("idempotency-key"))
    body, origin, paid = await desk.answer(order, who(http), key)
    http.scope[NOTE].update(origin=origin, paid=paid)
    return Response(body, media_type=JSON)


@router.post("/tables/{table}/cost", response_model=models.Cost, openapi_extra=_body(models.Question, models.Fitting))
async def cost(http: HttpRequest, table: TableName) -> Any:
    """The most that `ask` or `minimise` with the same body would charge now; asking for it costs nothing."""
    named(http, "cost")
    desk, body, person = desk_of(http, table), _json_body(http), who(http)
    parser = desk.fits if {"loss", "losses"} & set(content_of(body)) else desk.requests
    order: Order = await desk.work(parser.parse, body)
    if order.terms.error is None:
        raise Problem("request", "state the wanted error: without one every answer is free")
    price = await desk.work(order.price, desk.session, person.name)
    remaining = desk.budget.amount(desk.ledger.remaining_for(person.name))
    return {
        "price": price,
        "unit": desk.budget.unit,
        "free": price == 0,
        "affordable": price <= remaining,
        "remaining": remaining,
    }


@router.get("/tables/{table}/certificates", response_model=models.CertificateList)
async def certificates(http: HttpRequest, table: TableName) -> Any:
    """What is certified about all questions of a kind at once."""
    named(http, "certificates")
    desk = desk_of(http, table)
    unit = desk.identity["unit"]
    return {
        "certificates": [
            {
                "kind": c.kind,
                "sets": [list(names) for names in c.sets],
                "bound": c.bound if isfinite(c.bound) else None,
                "confidence": c.confidence,
                "snapshot": c.snapshot,
                "sentence": certificate_sentence(c, unit),
            }
            for c in desk.session.certificates
        ]
    }


@router.get("/tables/{table}/history", response_model=models.HistoryPage)
async def history(
    http: HttpRequest,
    table: TableName,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> Any:
    """Paid answers, newest first: an analyst's own, everybody's for the custodian."""
    named(http, "history")
    desk = desk_of(http, table)
    entries, rest = desk.answers.page(_own(http), before, limit)
    return {"entries": [kept.describe() for kept in entries], "next": rest}


@router.get("/tables/{table}/history/{sequence}", response_model=models.Reply)
async def answer(http: HttpRequest, table: TableName, sequence: Annotated[int, Path(ge=1, le=2**53)]) -> Response:
    """A paid answer of the past, byte for byte; free."""
    named(http, "answer")
    body = desk_of(http, table).answers.bytes_of(sequence, _own(http))
    return Response(body, media_type=JSON)


@router.get("/tables/{table}/budget", response_model=models.Budgeted)
async def budget(http: HttpRequest, table: TableName) -> Any:
    """What is spent and what is left, for all and for this token's owner."""
    named(http, "budget")
    desk, name = desk_of(http, table), who(http).name
    amount, ledger = desk.budget.amount, desk.ledger
    cap = ledger.caps.get(name)
    return {
        "unit": desk.budget.unit,
        "limit": amount(desk.budget.limit),
        "spent": amount(ledger.spent),
        "remaining": amount(ledger.remaining),
        "own_spent": amount(ledger.spent_by(name)),
        "own_remaining": amount(ledger.remaining_for(name)),
        "own_cap": None if cap is None else amount(cap),
        "guarantee": desk.budget.describe(ledger.spent),
    }


@router.get("/tables/{table}/releases", response_model=models.ReleaseList)
async def releases(http: HttpRequest, table: TableName) -> Any:
    """What the custodian has published, newest first."""
    named(http, "releases")
    return {"releases": await (desk := desk_of(http, table)).work(desk.shelf.all)}


@router.get("/tables/{table}/releases/{release}/{form}", responses={200: {"content": {"application/octet-stream": {}}}})
async def download(
    http: HttpRequest,
    table: TableName,
    release: Annotated[str, Path(pattern="^r[0-9]{4,8}$")],
    form: Annotated[str, Path(pattern=f"^({'|'.join(FILES)})$")],
) -> FileResponse:
    """One form of a release: parquet, csv, report (HTML) or release (for `rt.Release.load`)."""
    named(http, "download")
    path, media = desk_of(http, table).shelf.file(release, form)
    return FileResponse(path, media_type=media, filename=f"{table}-{release}-{path.name}")


def _own(http: HttpRequest) -> str | None:
    """Whose history: None means everybody's."""
    person = who(http)
    return None if person.role == "custodian" else person.name


def _json_body(http: HttpRequest) -> bytes:
    kind = http.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if kind != JSON:
        raise Problem("media-type", f"send {JSON}")
    return http.scope[BODY]
