"""The application: the served tables, the routes, the web page, and the middleware."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, PlainTextResponse, Response

from reticent import __version__
from reticent.errors import ReticentError
from reticent.service import schemas as models
from reticent.service.admission import Admission
from reticent.service.auth import Tokens
from reticent.service.http.middleware import FAILED, FreePath, Middleware
from reticent.service.http.problems import MEDIA_TYPE, TITLES, HttpProblem, problem_of, storage_problem
from reticent.service.metrics import Gauge, Log, Metrics
from reticent.service.postgres.door import opened_door
from reticent.service.quick_path import QuickPath
from reticent.service.routes import analysts as routes
from reticent.service.routes import custodians as administration
from reticent.service.routes.access import Context, Person, analyst_router, context_of, named, public_router
from reticent.service.settings import PERSON_NAME, Settings
from reticent.service.table_service import TableService

STATIC = Path(__file__).with_name("static")
PAGES = {path.name: path for path in STATIC.iterdir() if path.is_file()}
MEDIA = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
STATUSES = sorted({status for status, _ in TITLES.values() if status < 500})


def create_app(
    settings: Settings,
    tables: dict[str, TableService],
    tokens: Tokens,
    *,
    metrics: Metrics | None = None,
    log: Log | None = None,
    postgres: socket.socket | None = None,
) -> Middleware:
    """The whole service over open tables, also over PostgreSQL (`postgres`); closing it closes the tables."""
    counted, told = metrics or Metrics(), log or Log(settings.log_level)
    admission = Admission(settings, tokens)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        async with opened_door(postgres, settings, tables, admission, counted, told):
            yield
        for served in tables.values():
            served.close()
        tokens.close()

    app = FastAPI(
        title="Reticent",
        version=__version__,
        summary="Questions about a sensitive table under one differential privacy budget.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        responses={
            status: {"content": {MEDIA_TYPE: {}}, "model": models.ProblemDocument, "description": "Problem"}
            for status in STATUSES
        },
    )
    app.state.context = Context(settings, tables, tokens, counted)
    app.include_router(routes.router)
    app.include_router(administration.router)
    app.include_router(operation)
    app.include_router(public)
    _add_errors(app)
    _secure(app)
    quick = QuickPath(tables, admission, counted, told)
    return Middleware(FreePath(app, tables), settings, admission, counted, told, quick.response)


public = public_router()
operation = analyst_router("", "operation")


@public.get("/health", response_model=models.Health, tags=["operation"])
async def health(http: HttpRequest) -> Any:
    """Whether the server answers and can still write its ledgers; says nothing about tables."""
    named(http, "health")
    for served in context_of(http).tables.values():
        served.ledger.lookup("health")
    return {"status": "ok", "version": __version__}


@operation.get("/metrics", response_class=PlainTextResponse)
async def metrics(http: HttpRequest, person: Person) -> PlainTextResponse:
    """Metrics in Prometheus' text format; times and memory only for a custodian of all tables."""
    named(http, "metrics")
    context = context_of(http)
    seen = {name: served for name, served in context.tables.items() if person.may_see(name)}
    budgets = [
        Gauge(name, served.budget.unit, served.session.spent, served.budget.amount(served.budget.limit))
        for name, served in seen.items()
    ]
    text = context.metrics.text(budgets, private=person.role == "custodian" and person.tables is None)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@public.get("/", include_in_schema=False)
async def index(http: HttpRequest) -> Response:
    named(http, "page")
    return _page("index.html")


@public.get("/static/{name}", include_in_schema=False)
async def static(http: HttpRequest, name: str) -> Response:
    named(http, "page")
    return _page(name)


def _page(name: str) -> Response:
    """A file of the package, found by its exact name: no path is built from a request."""
    path = PAGES.get(name)
    if path is None:
        raise HttpProblem("not-found", "no such page")
    return FileResponse(
        path, media_type=MEDIA.get(path.suffix, "application/octet-stream"), headers={"cache-control": "no-cache"}
    )


def _add_errors(app: FastAPI) -> None:
    async def refused(_: HttpRequest, error: Exception) -> Response:
        problem = error if isinstance(error, HttpProblem) else problem_of(error)  # pyright: ignore[reportArgumentType]
        return Response(problem.body(), problem.status, problem.headers())

    async def invalid(http: HttpRequest, error: Exception) -> Response:
        places = error.errors() if isinstance(error, RequestValidationError) else []
        told = "; ".join(": ".join(filter(None, (_place(each["loc"]), _words(each)))) for each in places[:3])
        return await refused(http, HttpProblem("request", told or "the request is not understood"))

    async def other(http: HttpRequest, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        kind = {404: "not-found", 405: "method"}.get(status, "request")
        response = await refused(http, HttpProblem(kind, "there is nothing at this address, or not by this method"))
        if status == 405:
            response.headers.update(getattr(error, "headers", None) or {})
        return response

    async def failed(http: HttpRequest, error: Exception) -> Response:
        return await refused(http, (isinstance(error, OSError) and storage_problem(error)) or FAILED)

    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(HttpProblem, refused)
    app.add_exception_handler(ReticentError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)


def _place(found: Sequence[str | int]) -> str:
    """Where in the body, path or query a value is wrong; empty for all of it."""
    return ".".join(map(str, found[1:]))


def _words(found: Mapping[str, Any]) -> str:
    """What is wrong with a value; that of a person's name in words instead of a pattern."""
    named = found.get("ctx", {}).get("pattern") == f"^{PERSON_NAME}$"
    return "1 to 40 lower-case letters, digits, '.', '_' or '-'" if named else found["msg"]


def _secure(app: FastAPI) -> None:
    """State in the OpenAPI document where a token is needed."""
    plain = app.openapi
    open_paths = {route.path for route in public.routes if isinstance(route, APIRoute)}

    def document() -> dict[str, Any]:
        described = plain()
        described.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in described["paths"].items():
            for operation in operations.values():
                if path not in open_paths:
                    operation["security"] = [{"token": []}]
        return described

    app.openapi = document
