"""The application: desks for the tables, routes, the page, and the front before them all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, PlainTextResponse, Response

from reticent import __version__
from reticent.errors import ReticentError
from reticent.service import administration, models, routes
from reticent.service.context import Context, context_of, named, who
from reticent.service.desk import Desk
from reticent.service.front import FAILED, Front
from reticent.service.logs import Log
from reticent.service.metrics import Metrics
from reticent.service.problems import MEDIA_TYPE, TITLES, Problem, problem_of
from reticent.service.settings import Settings
from reticent.service.tokens import Tokens

STATIC = Path(__file__).with_name("static")
PAGES = {path.name: path for path in STATIC.iterdir() if path.is_file()}
MEDIA = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
STATUSES = sorted({status for status, _ in TITLES.values() if status < 500})


def create_app(
    settings: Settings,
    desks: dict[str, Desk],
    tokens: Tokens,
    *,
    metrics: Metrics | None = None,
    log: Log | None = None,
) -> Front:
    """The whole service over open desks; closing it closes them."""
    metrics, log = metrics or Metrics(), log or Log(settings.log_level)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        for desk in desks.values():
            desk.close()
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
    app.state.context = Context(settings, desks, tokens, metrics)
    app.include_router(routes.router)
    app.include_router(administration.router)
    _add_public(app)
    _add_errors(app)
    _secure(app)
    return Front(app, settings, tokens, metrics, log)


def _add_public(app: FastAPI) -> None:
    @app.get("/health", response_model=models.Health, tags=["operation"])
    async def health(http: HttpRequest) -> Any:
        """Whether the server answers and can still write its ledgers; says nothing about tables."""
        named(http, "health")
        for desk in context_of(http).desks.values():
            desk.ledger.lookup("health")
        return {"status": "ok", "version": __version__}

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def metrics(http: HttpRequest) -> PlainTextResponse:
        """Prometheus text; times and memory for a custodian's token only."""
        named(http, "metrics")
        person, context = who(http), context_of(http)
        seen = {name: desk for name, desk in context.desks.items() if person.may_see(name)}
        gauges = {
            "budget_spent": {name: desk.session.spent for name, desk in seen.items()},
            "budget_limit": {name: desk.budget.amount(desk.budget.limit) for name, desk in seen.items()},
        }
        text = context.metrics.text(gauges, private=person.role == "custodian")
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    async def index(http: HttpRequest) -> Response:
        named(http, "page")
        return _page("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(http: HttpRequest, name: str) -> Response:
        named(http, "page")
        return _page(name)


def _page(name: str) -> Response:
    """A file of the package, found by its exact name: no path is ever built from a request."""
    path = PAGES.get(name)
    if path is None:
        raise Problem("not-found", "no such page")
    return FileResponse(
        path, media_type=MEDIA.get(path.suffix, "application/octet-stream"), headers={"cache-control": "no-cache"}
    )


def _add_errors(app: FastAPI) -> None:
    async def refused(_: HttpRequest, error: Exception) -> Response:
        problem = error if isinstance(error, Problem) else problem_of(error)  # pyright: ignore[reportArgumentType]
        return Response(problem.body(), problem.status, problem.headers())

    async def invalid(http: HttpRequest, error: Exception) -> Response:
        places = error.errors() if isinstance(error, RequestValidationError) else []
        told = "; ".join(f"{'.'.join(map(str, place['loc'][1:]))}: {place['msg']}" for place in places[:3])
        return await refused(http, Problem("request", told[:300] or "the request is not understood"))

    async def other(http: HttpRequest, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        kind = {404: "not-found", 405: "method"}.get(status, "request")
        response = await refused(http, Problem(kind, "there is nothing at this address, or not by this method"))
        if status == 405:
            response.headers.update(getattr(error, "headers", None) or {})
        return response

    async def failed(http: HttpRequest, _: Exception) -> Response:
        return await refused(http, FAILED)

    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(Problem, refused)
    app.add_exception_handler(ReticentError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)


def _secure(app: FastAPI) -> None:
    """The document says where a token is needed."""
    plain = app.openapi

    def document() -> dict[str, Any]:
        described = plain()
        described.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in described["paths"].items():
            for operation in operations.values():
                if path != "/health":
                    operation["security"] = [{"token": []}]
        return described

    app.openapi = document
