"""Routes of analysts: the public domain, questions, prices, history, downloads."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from fastapi import Path, Query, Response
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse

from reticent.report.words import certificate_sentence, promise
from reticent.service import schemas as models
from reticent.service.auth import Principal
from reticent.service.http.middleware import BODY, NOTE
from reticent.service.http.problems import HttpProblem
from reticent.service.published import FILES
from reticent.service.requests import ParsedRequest, checked_key, content_of
from reticent.service.routes.access import Person, Served, TableName, analyst_router, context_of, named
from reticent.service.settings import KEY, LARGEST_NUMBER, LONGEST_PAGE, RELEASE_NAME
from reticent.service.table_service import TableService

router = analyst_router("/v1", "analyst")
JSON = "application/json"


def _body(*shapes: type[models.Strict]) -> dict[str, Any]:
    """The schema of a body that the service parses itself, for the OpenAPI document."""
    schemas = [shape.model_json_schema() for shape in shapes]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def _key() -> dict[str, Any]:
    parameter = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Makes a paid answer repeatable: the same key returns the same bytes and is charged once.",
        "schema": {"type": "string", "pattern": f"^{KEY}$"},
    }
    return {"parameters": [parameter]}


@router.get("/me", response_model=models.Me)
async def me(http: HttpRequest, person: Person) -> Any:
    """The owner of this token."""
    named(http, "me")
    tables = [name for name in context_of(http).tables if person.may_see(name)]
    return {"name": person.name, "role": person.role, "expires": person.expires, "tables": tables}


@router.get("/tables", response_model=models.TableList)
async def tables(http: HttpRequest, person: Person) -> Any:
    """The tables about which this token may ask."""
    named(http, "tables")
    return {"tables": [_summary(served) for name, served in context_of(http).tables.items() if person.may_see(name)]}


@router.get("/tables/{table}", response_model=models.TableFacts)
async def table(http: HttpRequest, served: Served) -> Any:
    """The public description of a table: attributes, bins, and the guarantee for the people in it."""
    named(http, "table")
    facts = served.identity
    return _summary(served) | {
        "domain": [
            {
                "name": name,
                "type": attribute.type,
                "ordered": attribute.ordered,
                "labels": list(attribute.labels),
                "declaration": attribute.to_dict(),
            }
            for name, attribute in served.domain.items()
        ],
        "neighbours": facts["neighbours"],
        "confidence": served.session.confidence,
        "promise": promise(served.budget, facts["unit"], facts["neighbours"]),
        "fingerprint": served.domain.fingerprint,
        "impossible": [rule.text for rule in served.domain.impossible],
    }


def _summary(served: TableService) -> dict[str, Any]:
    return {
        "name": served.table.name,
        "title": served.table.title or served.table.name,
        "attributes": len(served.domain),
        "records": served.records,
        "unit": served.identity["unit"],
    }


@router.post("/tables/{table}/ask", response_model=models.Reply, openapi_extra=_body(models.Question) | _key())
async def ask(http: HttpRequest, served: Served, person: Person) -> Response:
    """Answer a question; with an error bound it may be paid for. SQL must name the table after FROM as this server
    does.
    """
    named(http, "ask")
    return await _answered(http, served, await served.parse(served.questions, _json_body(http), person), person)


@router.post("/tables/{table}/minimise", include_in_schema=False)  # its name in version 0.1
@router.post("/tables/{table}/minimize", response_model=models.Reply, openapi_extra=_body(models.Fitting) | _key())
async def minimize(http: HttpRequest, served: Served, person: Person) -> Response:
    """Fit models by minimising convex losses: free, or audited and bought within a requested error.

    Models that neither an audit nor the budget can certify are returned uncertified.
    """
    named(http, "minimize")
    return await _answered(http, served, await served.parse(served.losses, _json_body(http), person), person)


async def _answered(http: HttpRequest, served: TableService, parsed: ParsedRequest, person: Principal) -> Response:
    key = checked_key(http.headers.get("idempotency-key"))
    body, origin, paid = await served.answer(parsed, person, key)
    http.scope[NOTE].update(origin=origin, paid=paid)
    return Response(body, media_type=JSON)


@router.post("/tables/{table}/cost", response_model=models.Cost, openapi_extra=_body(models.Question, models.Fitting))
async def cost(http: HttpRequest, served: Served, person: Person) -> Any:
    """An upper bound on the charge of `ask` or `minimize` with the same body; this request is free."""
    named(http, "cost")
    body = _json_body(http)
    parser = served.losses if {"loss", "losses"} & set(content_of(body)) else served.questions
    parsed = await served.parse(parser, body, person)
    if parsed.request.error is None:
        raise HttpProblem("request", "give an error: without one every answer is free")
    price = await served.work(person, served.price, parsed, person.name)
    remaining = served.budget.amount(served.ledger.remaining_for(person.name))
    return {
        "price": price,
        "unit": served.budget.unit,
        "free": price == 0,
        "affordable": price <= remaining,
        "remaining": remaining,
    }


@router.get("/tables/{table}/certificates", response_model=models.CertificateList)
async def certificates(http: HttpRequest, served: Served) -> Any:
    """The certificates: bounds for all questions of a class at once."""
    named(http, "certificates")
    unit = served.identity["unit"]
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
            for c in served.session.certificates
        ]
    }


@router.get("/tables/{table}/history", response_model=models.HistoryPage)
async def history(
    http: HttpRequest,
    served: Served,
    person: Person,
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 50,
    before: Annotated[int | None, Query(ge=1, le=LARGEST_NUMBER)] = None,
) -> Any:
    """Paid answers, newest first: an analyst's own, or everybody's for a custodian."""
    named(http, "history")
    entries, rest = served.answers.page(_own(person), before, limit)
    return {"entries": [kept.describe() for kept in entries], "next": rest}


@router.get("/tables/{table}/history/{sequence}", response_model=models.Reply)
async def answer(
    http: HttpRequest, served: Served, person: Person, sequence: Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]
) -> Response:
    """An earlier paid answer, byte for byte; free."""
    named(http, "answer")
    body = served.answers.bytes_of(sequence, _own(person))
    return Response(body, media_type=JSON)


@router.get("/tables/{table}/budget", response_model=models.Budgeted)
async def budget(http: HttpRequest, served: Served, person: Person) -> Any:
    """The amounts spent and left, in total and for this token's owner."""
    named(http, "budget")
    amount, ledger, name = served.budget.amount, served.ledger, person.name
    cap = ledger.caps.get(name)
    return {
        "unit": served.budget.unit,
        "limit": amount(served.budget.limit),
        "spent": amount(ledger.spent),
        "remaining": amount(ledger.remaining),
        "own_spent": amount(ledger.spent_by(name)),
        "own_remaining": amount(ledger.remaining_for(name)),
        "own_cap": None if cap is None else amount(cap),
        "guarantee": served.budget.describe(ledger.spent),
    }


@router.get("/tables/{table}/releases", response_model=models.ReleaseList)
async def releases(http: HttpRequest, served: Served, person: Person) -> Any:
    """The releases that the custodian has published, newest first."""
    named(http, "releases")
    return {"releases": await served.work(person, served.releases.all)}


@router.get("/tables/{table}/releases/{release}/{form}", responses={200: {"content": {"application/octet-stream": {}}}})
async def download(
    http: HttpRequest,
    table: TableName,
    served: Served,
    person: Person,
    release: Annotated[str, Path(pattern=f"^{RELEASE_NAME}$")],
    form: Annotated[str, Path(pattern=f"^({'|'.join(FILES)})$")],
) -> FileResponse:
    """One form of a release: parquet, csv, report (HTML) or release (for `rt.Release.load`)."""
    named(http, "download")
    path, media = await served.work(person, served.releases.file, release, form)
    return FileResponse(path, media_type=media, filename=f"{table}-{release}-{path.name}")


def _own(person: Principal) -> str | None:
    """The analyst whose history is shown; None means everybody."""
    return None if person.role == "custodian" else person.name


def _json_body(http: HttpRequest) -> bytes:
    kind = http.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if kind != JSON:
        raise HttpProblem("media-type", f"send {JSON}")
    return http.scope[BODY]
