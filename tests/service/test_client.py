"""`rt.connect` behaves as a Session; lost connections are tried again with the same key."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.service.serving import DOMAIN, ROWS, Service

import reticent as rt
from reticent import client as client_module
from reticent.client import Connection
from reticent.errors import SourceError


def connection(service: Service, **options) -> Connection:
    token = service.alice["Authorization"].removeprefix("Bearer ")
    return rt.connect(str(service.client.base_url), token, **options)


def test_a_connection_has_the_interface_of_a_session(service: Service) -> None:
    with connection(service) as session:
        assert session.domain == DOMAIN
        free = session.ask(rt.count(rt.col("age") >= 45))
        assert free.certified
        assert free.count == pytest.approx(free.value * ROWS)
        rows = session.ask("SELECT sex, COUNT(*) FROM survey GROUP BY sex")
        assert [row[0] for row in rows] == ["Female", "Male"]
        query = rt.count((rt.col("age") < 35) & (rt.col("sex") == "Male"))
        price = session.cost(query, error=0.006)
        before = session.spent
        paid = session.ask(query, error=0.006)
        assert paid.price == pytest.approx(price)
        assert session.spent - before == pytest.approx(price, abs=1e-9)
        assert session.remaining > 0
        assert session.describe()["table"] == "survey"
        assert next(session.history())["price"] == pytest.approx(price)
        marginal = session.ask(rt.marginal("age", "sex"))
        assert marginal.value.shape == DOMAIN.shape_of(["age", "sex"])
        assert "survey" in repr(session)


def test_statistics_explanations_and_synthetic_rows_go_over_the_wire(service: Service) -> None:
    with connection(service) as session:
        median = session.ask(rt.median("age", rt.col("sex") == "Male"))
        same = session.ask("SELECT MEDIAN(age) FILTER (WHERE sex = 'Male') FROM survey")
        assert (median.value, median.error) == (same.rows[0][0], same.errors[0][0])
        asked = "SELECT COUNT(*) FROM survey WHERE age >= 25 AND sex = 'Female'"
        explained = session.ask(f"EXPLAIN {asked}", error=20)
        assert explained.rows[0][-1] == pytest.approx(session.cost(asked, error=20))
        assert explained.price == 0
        rows = session.ask("SELECT * FROM survey_synthetic LIMIT 3")
        assert (len(rows), rows.origin, rows.columns) == (3, "synthetic", DOMAIN.names)
        with pytest.raises(rt.QueryError, match="survey_synthetic"):
            session.ask("SELECT * FROM survey LIMIT 3")
        assert session.ask("DESCRIBE survey").rows[0][0] == "age"


def test_errors_come_back_as_our_own(service: Service) -> None:
    with connection(service) as session:
        with pytest.raises(rt.QueryError, match=r"46"):
            session.ask(rt.count(rt.col("age") >= 46))
        with pytest.raises(rt.BudgetError) as caught:
            session.ask(rt.count(rt.col("age") >= 25), error=0.00025)
        assert caught.value.requested > caught.value.remaining
    with pytest.raises(rt.ReticentError, match="unknown, expired or revoked"):
        rt.connect(str(service.client.base_url), "rt_000000000000_" + "A" * 43)
    with pytest.raises(rt.QueryError):
        rt.connect(str(service.client.base_url), "smuggled\r\nX-Evil: 1")


def test_a_closed_connection_says_so(service: Service) -> None:
    closed = connection(service)
    closed.close()
    with pytest.raises(SourceError, match=r"^this connection is closed: open it again with rt\.connect$"):
        closed.ask("SELECT COUNT(*) FROM survey")


def test_the_newest_release_comes_back_whole(service: Service) -> None:
    made = {"title": "For the client", "rows": 50}
    assert service.client.post("/v1/tables/survey/releases", json=made, headers=service.custodian).status_code == 201
    with connection(service) as session:
        release = session.release()
        assert release.domain == DOMAIN
        assert 0 < release.answer(rt.count(rt.col("sex") == "Male")).value < 1


def test_a_lost_reply_is_fetched_again_with_the_same_key(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.001)
    keys = []

    class Lossy(httpx.BaseTransport):
        """Delivers every request and loses the first two replies."""

        def __init__(self) -> None:
            self.inner = httpx.HTTPTransport()

        def close(self) -> None:
            self.inner.close()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = self.inner.handle_request(request)
            response.read()
            if "idempotency-key" in request.headers:
                keys.append(request.headers["idempotency-key"])
                if len(keys) <= 2:
                    raise httpx.ReadError("lost")
            return response

    token = service.alice["Authorization"].removeprefix("Bearer ")
    http = httpx.Client(base_url=service.client.base_url, transport=Lossy())
    with Connection("", token, client=http) as session:
        before = session.spent
        answer = session.ask(rt.count(rt.col("smoker") == "no"), error=0.005)
        assert len(keys) == 3
        assert len(set(keys)) == 1
        assert session.spent - before == pytest.approx(answer.price, abs=1e-9)
        assert answer.price > 0


def test_a_server_that_is_gone_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.001)
    with pytest.raises(SourceError, match=r"cannot be reached .* check the address, and that `reticent serve` runs"):
        rt.connect("http://127.0.0.1:9", "rt_x")


def test_the_command_line_asks_and_prices(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from reticent.cli import cli

    url = str(service.client.base_url)
    run = CliRunner().invoke
    missing = run(cli, ["ask", url, "SELECT COUNT(*) FROM survey"], env={"RETICENT_TOKEN": ""})
    assert isinstance(missing.exception, rt.QueryError)
    token = {"RETICENT_TOKEN": service.alice["Authorization"].removeprefix("Bearer ")}
    asked = run(cli, ["ask", url, "SELECT sex, COUNT(*) FROM survey GROUP BY sex", "--json"], env=token)
    assert asked.exit_code == 0, asked.output
    assert '"columns"' in asked.output
    sql = "SELECT COUNT(*) FROM survey WHERE age >= 65 AND region = 'west'"
    priced = run(cli, ["ask", url, sql, "--error", "0.3%", "--cost"], env=token)
    unit, price, *rest = priced.output.split()
    assert unit == "rho"
    assert float(price) > 0
    assert " ".join(rest).endswith(" is left")
    free = run(cli, ["ask", url, "SELECT COUNT(*) FROM survey", "--error", "50%", "--cost"], env=token)
    assert free.output == "free\n"


@pytest.mark.parametrize("url", ["foo", "localhost:8000", "ftp://user:secret@host", "http://", "", 3])
def test_what_is_no_address_is_refused_at_once(url: Any) -> None:
    with pytest.raises(rt.QueryError, match=r"https://data\.example\.org") as refused:
        rt.connect(url, "rt_x")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("table", ["a\nb", "", "..", "a/b", "a?x=1", "é", "x" * 65, 3])
def test_what_is_no_tables_name_never_leaves(table: Any) -> None:
    """Found by the fuzz: a line break in it was an internal error of the library that sends it."""
    with pytest.raises(rt.QueryError, match=r"table's name") as refused:
        rt.connect("http://127.0.0.1:9", "rt_x", table=table)
    assert "\n" not in str(refused.value)


def test_what_is_no_question_never_leaves(service: Service) -> None:
    condition: Any = rt.col("smoker") == "no"
    with connection(service) as session:
        for call, told in (
            (lambda: session.ask(None), "the question is of type NoneType"),  # type: ignore[arg-type]
            (lambda: session.ask(condition), "rt.count"),
            (lambda: session.cost(condition, error=0.1), "rt.count"),
            (lambda: session.minimize(None), "not a known loss"),
        ):
            with pytest.raises(rt.QueryError, match=told):
                call()


@pytest.mark.parametrize(
    "said",
    [b"<html>welcome</html>", b"[]", b"7", b"{}", b'{"tables": 3}', b"[" * 100_000, b"\xff", b'{"tables": [{}]}'],
)
def test_another_program_at_the_address_is_named_as_such(said: bytes) -> None:
    """Whatever it says with status 200: a proxy's page was a JSONDecodeError, an empty object a KeyError."""
    http = httpx.Client(
        base_url="http://other.example",
        transport=httpx.MockTransport(lambda request: httpx.Response(200, content=said)),
    )
    with pytest.raises(SourceError, match=r"http://other\.example did not reply as a Reticent server"):
        Connection("http://other.example", "token", client=http).ask("SELECT COUNT(*) FROM t")


def test_replies_without_their_fields_are_no_answers() -> None:
    me, reply = {"tables": ["t"]}, {"kind": "answer", "result": {"value": "x"}}

    def said(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=me if request.url.path == "/v1/me" else {"records": 1})
        return httpx.Response(200, json=reply)

    http = httpx.Client(base_url="http://other.example", transport=httpx.MockTransport(said))
    session = Connection("http://other.example", "token", client=http)
    for asked in (lambda: session.ask("SELECT COUNT(*) FROM t"), lambda: session.cost("SELECT 1 FROM t", error=1)):
        with pytest.raises(SourceError, match="did not reply"):
            asked()
    for fact in ("domain", "confidence", "spent"):
        with pytest.raises(SourceError, match="did not reply"):
            getattr(session, fact)
    with pytest.raises(SourceError, match="did not reply"):
        session.minimize(rt.Squared(features=["a"], label="b"))


def test_a_date_to_try_again_at_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", waits.append)
    problem = {"type": "urn:reticent:problem:rate", "detail": "slower"}
    later = {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}
    transport = httpx.MockTransport(lambda request: httpx.Response(429, json=problem, headers=later))
    with pytest.raises(rt.ReticentError, match="slower"):
        Connection("http://x", "token", client=httpx.Client(base_url="http://x", transport=transport))
    assert waits[0] == client_module.FIRST_WAIT
    assert len(waits) == client_module.ATTEMPTS - 1
