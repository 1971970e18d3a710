"""Who may do what stands in the structure of the routes; a token for some tables reaches no further than them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from tests.service.serving import COUNT, bearer, in_thread, survey_settings, write_survey

import reticent as rt
from reticent.service.app import create_app
from reticent.service.auth import Tokens
from reticent.service.routes import access
from reticent.service.server import first_token, open_tables
from reticent.service.settings import Settings

UNPROTECTED = {"/openapi.json"}
"""Routes that FastAPI makes itself; they say what is public anyway."""


@dataclass
class Two:
    """A server with the tables trips and passengers."""

    client: httpx.Client
    tokens: Tokens
    settings: Settings
    app: FastAPI
    owner: dict[str, str]
    analyst: dict[str, str]
    limited: dict[str, str]
    """A custodian of trips alone."""

    def call(self, method: str, path: str, who: dict[str, str], body: Any = None) -> httpx.Response:
        return self.client.request(method, path, json=body, headers=who)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("two")
    write_survey(folder)
    plain = survey_settings(folder)
    (table,) = plain.tables
    named = {"trips": 2.0, "passengers": 4.0}
    tables = tuple(
        replace(table, name=name, ledger=str(folder / f"{name}.ledger"), epsilon=epsilon)
        for name, epsilon in named.items()
    )
    settings = replace(plain, tables=tables)
    tokens = Tokens(Path(settings.tokens))
    owner = bearer(tokens.create("owner", "custodian")[1])
    analyst = bearer(tokens.create("ada", "analyst")[1])
    limited = bearer(tokens.create("tess", "custodian", tables=["trips"])[1])
    app = create_app(settings, open_tables(settings), tokens)
    with in_thread(app, settings) as url, httpx.Client(base_url=url, timeout=60) as client:
        routed = app._app._app  # behind the middleware and the short way to free answers
        yield Two(client, tokens, settings, routed, owner, analyst, limited)  # type: ignore[arg-type]


def routes(app: FastAPI) -> list[Any]:
    return [found for found in iter_route_contexts(app.routes) if isinstance(found.original_route, APIRoute)]


def undeclared(app: FastAPI) -> list[str]:
    """Routes that no role guards, or that name a table without asking whether it may be seen."""
    found = []
    for route in iter_route_contexts(app.routes):
        path = getattr(route, "path", "?")
        if not isinstance(route.original_route, APIRoute):
            found += [] if path in UNPROTECTED else [path]
            continue
        calls = set(access.calls_of(route.dependant))
        if not calls & set(access.ROLES) or ("{table}" in path and access.served_table not in calls):
            found.append(path)
    return found


def test_every_route_declares_a_role_and_every_table_is_asked_for(two: Two) -> None:
    assert len(routes(two.app)) >= 24
    assert undeclared(two.app) == []


def test_a_route_without_a_role_would_be_found() -> None:
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/v1/forgotten")
    async def forgotten() -> None: ...

    @app.get("/v1/tables/{table}/peek", dependencies=[Depends(access.signed_in)])
    async def peek(table: str) -> None: ...

    @app.get("/v1/fine", dependencies=[Depends(access.custodian)])
    async def fine() -> None: ...

    assert undeclared(app) == ["/v1/forgotten", "/v1/tables/{table}/peek"]


def test_only_what_is_declared_public_answers_without_a_token(two: Two) -> None:
    for route in routes(two.app):
        path = route.path.format(table="trips", token="0" * 12, analyst="ada", release="r0001", form="csv", sequence=1, name="x")  # fmt: skip # noqa: E501
        calls = set(access.calls_of(route.dependant))
        for method in route.methods:
            status = two.client.request(method, path, json={}).status_code
            assert (status == 401) is (access.signed_in in calls), (method, path, status)
            if access.custodian in calls:
                body = {"name": "x", "title": "x", "amount": 1.0} if method in ("POST", "PUT") else None
                asked = two.call(method, path, two.analyst, body)
                assert asked.status_code in (403, 422), (method, path, asked.text)


# -- the table's name --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["ask", "cost"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM passengers",
        "SELECT COUNT(*) FROM (SELECT * FROM passengers)",
        "WITH v AS (SELECT * FROM passengers) SELECT COUNT(*) FROM v",
        "WITH trips AS (SELECT * FROM passengers) SELECT COUNT(*) FROM trips",
        "SELECT COUNT(*) FROM Trip",
    ],
)
def test_a_question_about_another_table_is_refused(two: Two, path: str, sql: str) -> None:
    """`FROM passengers` was answered from trips, and certified."""
    reply = two.call("POST", f"/v1/tables/trips/{path}", two.analyst, {"sql": sql, "error": 0.1})
    assert reply.status_code == 422, reply.text
    assert reply.json()["type"] == "urn:reticent:problem:question"
    assert "the table is called trips" in reply.json()["detail"]


@pytest.mark.parametrize(
    "sql", ["SELECT COUNT(*) FROM trips", "select count(*) from TRIPS t", 'SELECT COUNT(*) FROM "trips"']
)
def test_the_own_name_is_taken_in_any_case(two: Two, sql: str) -> None:
    assert two.call("POST", "/v1/tables/trips/ask", two.analyst, {"sql": sql}).status_code == 200


def test_names_that_differ_only_in_case_are_refused_at_the_start(two: Two) -> None:
    first, second = two.settings.tables
    with pytest.raises(rt.QueryError, match="differ only in case"):
        replace(two.settings, tables=(first, replace(second, name="Trips")))


def test_the_name_after_from_chooses_the_table(two: Two) -> None:
    token = two.analyst["Authorization"].removeprefix("Bearer ")
    with rt.connect(str(two.client.base_url), token) as session:
        for name in ("trips", "passengers"):
            price = session.ask(f"SELECT COUNT(*) FROM {name} WHERE sex = 'Male' AND age >= 25", error="0.4%").price
            assert price > 0
            assert price == pytest.approx(two.call("GET", f"/v1/tables/{name}/budget", two.analyst).json()["own_spent"])
        with pytest.raises(rt.QueryError, match=r"2 tables \(trips, passengers\)"):
            session.ask(rt.count(rt.col("age") >= 45))
        with pytest.raises(rt.QueryError, match="2 tables"):
            session.ask("SELECT COUNT(*) FROM nowhere")
    with rt.connect(str(two.client.base_url), token, table="trips") as session:
        assert session.cost("SELECT COUNT(*) FROM passengers WHERE sex = 'Male' AND age >= 25", error="0.4%") == 0
        with pytest.raises(rt.QueryError, match="the table is called trips"):
            session.ask("SELECT COUNT(*) FROM nowhere")


# -- a custodian's token for one table ---------------------------------------------------------------------


def ids(two: Two) -> dict[str, str]:
    return {person.name: person.id for person in two.tokens.all()}


def test_a_limited_custodian_sees_only_tokens_for_its_tables(two: Two) -> None:
    two.tokens.create("only-trips", "analyst", tables=["trips"])
    two.tokens.create("only-passengers", "analyst", tables=["passengers"])
    two.tokens.create("both", "analyst", tables=["trips", "passengers"])
    seen = {entry["name"] for entry in two.call("GET", "/v1/tokens", two.limited).json()["tokens"]}
    assert "only-trips" in seen
    assert not seen & {"owner", "ada", "only-passengers", "both"}
    everybody = {entry["name"] for entry in two.call("GET", "/v1/tokens", two.owner).json()["tokens"]}
    assert everybody >= {"owner", "ada", "tess", "only-trips", "only-passengers", "both"}


@pytest.mark.parametrize("role", ["analyst", "custodian"])
@pytest.mark.parametrize("tables", [["passengers"], ["trips", "passengers"], ["nowhere"]])
def test_a_limited_custodian_makes_no_token_for_other_tables(two: Two, role: str, tables: list[str]) -> None:
    made = two.call("POST", "/v1/tokens", two.limited, {"name": "mole", "role": role, "tables": tables})
    assert made.status_code == 422
    assert "passengers" not in made.json()["detail"], "tables that a token is not for do not exist for it"
    assert "mole" not in ids(two)


def test_a_limited_custodian_makes_tokens_as_limited_as_its_own(two: Two) -> None:
    made = two.call("POST", "/v1/tokens", two.limited, {"name": "deputy", "role": "custodian"})
    assert made.json()["tables"] == ["trips"]
    deputy = bearer(made.json()["token"])
    assert two.call("GET", "/v1/tables/passengers/spending", deputy).status_code == 404
    assert two.call("GET", "/v1/tables/trips/spending", deputy).status_code == 200
    again = two.call("POST", f"/v1/tokens/{made.json()['id']}/rotate", two.limited, {})
    assert again.status_code == 200
    assert two.call("DELETE", f"/v1/tokens/{made.json()['id']}", two.limited).json()["revoked"]


@pytest.mark.parametrize("name", ["owner", "ada", "beyond"])
def test_a_limited_custodian_neither_rotates_nor_revokes_others(two: Two, name: str) -> None:
    """It rotated the first custodian's token, and had the server."""
    if name not in ids(two):
        two.tokens.create(name, "analyst", tables=["passengers"])
    token = ids(two)[name]
    assert two.call("POST", f"/v1/tokens/{token}/rotate", two.limited, {}).status_code == 404
    assert two.call("DELETE", f"/v1/tokens/{token}", two.limited).status_code == 404
    assert two.tokens.get(token).revoked is None
    assert two.call("GET", "/v1/me", two.owner).status_code == 200


def test_a_limited_custodian_learns_nothing_about_other_tables(two: Two) -> None:
    assert two.call("GET", "/v1/me", two.limited).json()["tables"] == ["trips"]
    for method, path, body in (
        ("GET", "caps", None),
        ("PUT", "caps/ada", {"amount": 0}),
        ("GET", "spending", None),
        ("POST", "verification", None),
        ("POST", "releases", {"title": "mine"}),
        ("GET", "history", None),
        ("POST", "ask", {"query": COUNT}),
    ):
        assert two.call(method, f"/v1/tables/passengers/{path}", two.limited, body).status_code == 404, path
    two.tokens.create("elsewhere", "analyst", tables=["passengers"])
    capped = {entry["analyst"] for entry in two.call("GET", "/v1/tables/trips/caps", two.limited).json()["caps"]}
    assert "elsewhere" not in capped
    text = two.call("GET", "/metrics", two.limited).text
    assert 'table="trips"' in text
    assert "passengers" not in text
    assert "answer_seconds" not in text, "times of the whole server"
    assert "answer_seconds" in two.call("GET", "/metrics", two.owner).text


def test_the_last_custodian_of_all_tables_stays_whatever_limited_ones_there_are(two: Two) -> None:
    refused = two.call("DELETE", f"/v1/tokens/{ids(two)['owner']}", two.owner)
    assert refused.status_code == 409


def test_a_lost_token_is_renewed_for_all_tables(tmp_path: Path) -> None:
    """A limited custodian's was renewed instead, or an expired one that stayed expired."""
    settings = survey_settings(tmp_path)
    now = [1000.0]
    tokens = Tokens(Path(settings.tokens), clock=lambda: now[0])
    tokens.create("limited", "custodian", tables=["survey"])
    tokens.create("brief", "custodian", expires=1100)
    now[0] = 1200.0
    path = first_token(tokens, settings)
    assert path is not None
    found = tokens.find(path.read_text().strip())
    assert (found.role, found.tables) == ("custodian", None)
    with pytest.raises(Exception, match="expired"):
        tokens.rotate(next(person.id for person in tokens.all() if person.name == "brief"))
    tokens.close()
