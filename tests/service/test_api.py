"""The contract of the HTTP interface: what analysts and custodians get, and in which shape."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from tests.service.serving import COUNT, DOMAIN, ROWS, Service

import reticent as rt
from reticent.service.http.problems import TITLES
from reticent.service.settings import SQL_LENGTH
from reticent.sql.parse import MAX_TEXT

TABLE = "/v1/tables/survey"


def get(service: Service, path: str, who: dict[str, str] | None = None) -> dict:
    response = service.client.get(path, headers=who or service.alice)
    assert response.status_code == 200, response.text
    return response.json()


def test_health_needs_no_token_and_says_nothing_about_tables(service: Service) -> None:
    response = service.client.get("/health")
    assert response.json() == {"status": "ok", "version": rt.__version__}


def test_the_domain_is_public_to_whoever_may_ask(service: Service) -> None:
    facts = get(service, TABLE)
    restored = rt.Domain.from_dict({entry["name"]: entry["declaration"] for entry in facts["domain"]})
    assert restored == DOMAIN
    assert facts["fingerprint"] == DOMAIN.fingerprint
    assert facts["records"] == ROWS
    assert "at most 54.6 times as likely" in facts["promise"]


def test_a_free_answer_costs_nothing_and_says_how_sure_it_is(service: Service) -> None:
    before = get(service, f"{TABLE}/budget")["spent"]
    reply = service.ask({"query": COUNT}).json()
    assert reply["kind"] == "answer"
    assert reply["result"]["certified"]
    assert reply["result"]["price"] == 0
    assert 0 < reply["result"]["error"] < 0.5
    assert get(service, f"{TABLE}/budget")["spent"] == before


def test_sql_and_the_json_query_give_the_same_number(service: Service) -> None:
    table = service.ask({"sql": "SELECT COUNT(*) FROM survey WHERE age >= 45"}).json()
    answer = service.ask({"query": COUNT}).json()
    assert table["kind"] == "table"
    assert table["result"]["rows"][0][0] == pytest.approx(answer["result"]["count"])


def test_what_no_certificate_covers_is_answered_and_called_uncertified(service: Service) -> None:
    reply = service.ask({"query": {"query": "marginal", "attributes": ["age", "sex", "smoker", "region"]}}).json()
    assert not reply["result"]["certified"]
    assert reply["result"]["error"] is None


def test_the_price_is_what_is_then_charged(service: Service) -> None:
    body = {"query": {"query": "count", "where": {"op": "==", "column": "region", "value": "west"}}, "error": 0.006}
    cost = service.client.post(f"{TABLE}/cost", json=body, headers=service.alice).json()
    assert not cost["free"]
    assert cost["affordable"]
    before = get(service, f"{TABLE}/budget")
    paid = service.ask(body, key="price").json()
    after = get(service, f"{TABLE}/budget")
    assert paid["result"]["price"] == pytest.approx(cost["price"])
    assert after["spent"] - before["spent"] == pytest.approx(cost["price"], abs=1e-9)
    assert after["own_spent"] - before["own_spent"] == pytest.approx(cost["price"], abs=1e-9)
    assert paid["result"]["error"] <= 0.006
    again = service.client.post(f"{TABLE}/cost", json=body, headers=service.alice).json()
    assert again["free"]


def test_a_price_above_the_allowed_one_is_refused_unpaid(service: Service) -> None:
    body = {"query": {"query": "count", "where": {"op": "==", "column": "smoker", "value": "yes"}}, "error": 0.006}
    before = get(service, f"{TABLE}/budget")["spent"]
    refused = service.ask(body | {"max_price": 1e-7})
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:reticent:problem:price"
    assert get(service, f"{TABLE}/budget")["spent"] == before


def test_what_a_crash_left_paid_counts_towards_the_allowed_price(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = "COUNT(*) FILTER (WHERE age >= 35), COUNT(*)"
    body = {"sql": f"SELECT {counts} FROM survey WHERE region = 'north' AND smoker = 'no'", "error": "0.4%"}
    price = service.client.post(f"{TABLE}/cost", json=body, headers=service.alice).json()["price"]
    ledger = service.tables["survey"].ledger

    def fails(*_: object, **__: object) -> None:
        raise OSError("cut short")

    monkeypatch.setattr("reticent.kernel.curator.pack_array", fails)
    assert service.ask(body | {"max_price": price}, key="half").status_code == 500
    monkeypatch.undo()
    paid = ledger.charged("ask:alice/half")
    assert paid > 0
    refused = service.ask(body | {"max_price": price * 0.9}, key="half")
    assert refused.status_code == 409
    assert refused.json()["price"] == pytest.approx(price)
    assert service.ask(body | {"max_price": price * 1.0001}, key="half").status_code == 200
    assert service.tables["survey"].budget.amount(ledger.charged("ask:alice/half")) <= price * 1.0001


@pytest.mark.parametrize(
    "body",
    [
        {"query": {"query": "count", "where": {"op": "==", "column": "sex", "value": "Male"}}, "error": 0.02},
        {
            "query": {"query": "mean", "column": "age", "where": {"op": "==", "column": "sex", "value": "Male"}},
            "error": 14,
        },
        {"sql": "SELECT smoker, COUNT(*) FROM survey WHERE region <> 'west' GROUP BY smoker", "error": "2%"},
        {"query": {"query": "marginal", "attributes": ["sex", "smoker"]}, "error": 0.02},
    ],
    ids=["count", "mean", "groups", "marginal"],
)
def test_the_same_key_returns_the_same_bytes_and_is_charged_once(service: Service, body: dict) -> None:
    first = service.ask(body, key=f"again-{abs(hash(json.dumps(body)))}")
    spent = get(service, f"{TABLE}/budget")["spent"]
    second = service.ask(body, key=f"again-{abs(hash(json.dumps(body)))}")
    assert first.status_code == 200, first.text
    assert second.content == first.content
    assert get(service, f"{TABLE}/budget")["spent"] == spent


def test_a_key_belongs_to_one_question(service: Service) -> None:
    body = {"query": {"query": "count", "where": {"op": "==", "column": "region", "value": "south"}}, "error": 0.004}
    assert service.ask(body, key="one").json()["result"]["price"] > 0
    other = service.ask(body | {"error": 0.003}, key="one")
    assert other.status_code == 422
    assert other.json()["type"] == "urn:reticent:problem:key-reused"


def test_two_analysts_may_use_the_same_key(service: Service) -> None:
    bodies = [
        {"query": {"query": "count", "where": {"op": "<", "column": "age", "value": edge}}, "error": 0.02}
        for edge in (25, 65)
    ]
    answers = [service.ask(bodies[0], service.alice, "shared"), service.ask(bodies[1], service.bob, "shared")]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["result"]["query"] != answers[1].json()["result"]["query"]


def test_the_history_is_paged_newest_first_and_keeps_the_bytes(service: Service) -> None:
    body = {"sql": "SELECT COUNT(*) FROM survey WHERE smoker = 'no' AND sex = 'Male'", "error": "0.4%"}
    service.ask({"sql": "SELECT COUNT(*) FROM survey WHERE smoker = 'yes' AND age < 35", "error": "0.4%"}, key="older")
    reply = service.ask(body, key="kept")
    seen, path = [], f"{TABLE}/history?limit=1"
    page = get(service, path)
    while True:
        seen += page["entries"]
        if page["next"] is None:
            break
        page = get(service, f"{path}&before={page['next']}")
    numbers = [entry["sequence"] for entry in seen]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers) > 1
    assert seen[0]["question"] == body["sql"]
    stored = service.client.get(f"{TABLE}/history/{numbers[0]}", headers=service.alice)
    assert stored.content == reply.content


def test_an_analyst_sees_own_history_only_and_the_custodian_all(service: Service) -> None:
    mine = service.ask(
        {"query": {"query": "count", "where": {"op": "<", "column": "age", "value": 35}}, "error": 0.0031}, key="m"
    )
    assert mine.json()["result"]["price"] > 0
    alices = {entry["sequence"] for entry in get(service, f"{TABLE}/history")["entries"]}
    bobs = {entry["sequence"] for entry in get(service, f"{TABLE}/history", service.bob)["entries"]}
    everything = {
        entry["sequence"] for entry in get(service, f"{TABLE}/history?limit=200", service.custodian)["entries"]
    }
    assert alices
    assert not alices & bobs
    assert alices | bobs <= everything
    assert service.client.get(f"{TABLE}/history/{max(alices)}", headers=service.bob).status_code == 404


def test_a_cap_stops_one_analyst_while_others_go_on(service: Service) -> None:
    spent = get(service, f"{TABLE}/budget", service.bob)["own_spent"]
    capped = service.client.put(f"{TABLE}/caps/bob", json={"amount": spent + 1e-9}, headers=service.custodian)
    assert capped.status_code == 200
    body = {
        "query": {"query": "count", "where": {"op": "in", "column": "region", "values": ["north", "south"]}},
        "error": 0.0035,
    }
    refused = service.ask(body, service.bob)
    assert refused.status_code == 402
    assert refused.json()["remaining"] <= 2e-9
    assert service.ask(body, service.alice).status_code == 200
    lifted = service.client.put(f"{TABLE}/caps/bob", json={"amount": None}, headers=service.custodian).json()
    assert lifted["cap"] == pytest.approx(get(service, f"{TABLE}/budget")["limit"])


@pytest.mark.parametrize(
    ("method", "path", "body", "complaint"),
    [
        ("PUT", f"{TABLE}/caps/bob", {"cap": 1}, "there is no member 'cap'; known: amount"),
        ("PUT", f"{TABLE}/caps/bob", {}, "amount: Field required"),
        ("POST", "/v1/tokens", {"name": "x", "table": "survey"}, "no member 'table'; known: name, role, days, tables"),
        ("POST", "/v1/tokens", {"name": "x", "tables": []}, "tables: List should have at least 1 item"),
        ("POST", f"{TABLE}/releases", {"name": "x"}, "there is no member 'name'; known: title, rows"),
    ],
)
def test_a_wrong_member_is_answered_with_the_right_ones(
    service: Service, method: str, path: str, body: dict[str, Any], complaint: str
) -> None:
    before = service.client.get(f"{TABLE}/caps", headers=service.custodian).json()
    reply = service.client.request(method, path, json=body, headers=service.custodian)
    assert reply.status_code == 422
    assert complaint in reply.json()["detail"]
    assert service.client.get(f"{TABLE}/caps", headers=service.custodian).json() == before


def test_certificates_speak_in_sentences(service: Service) -> None:
    found = get(service, f"{TABLE}/certificates")["certificates"]
    assert found[0]["bound"] > 0
    assert "for every choice of questions" in found[0]["sentence"]


def test_an_infinite_bound_is_null_and_a_word(service: Service) -> None:
    session = service.tables["survey"].session
    known = session.state.knowledge
    newest = known.certified[-1]
    empty = replace(newest.certificates[-1], records_error=1.0)
    session.state.learn(known.with_certificate(newest.snapshot, empty))
    try:
        assert empty.bound == math.inf
        told = get(service, f"{TABLE}/certificates")["certificates"][-1]
        assert told["bound"] is None
        assert "nothing is certified" in told["sentence"]
        assert json.loads(json.dumps(session.describe(), allow_nan=False))["certificates"][-1]["bound"] is None
    finally:
        session.state.learn(known)


def test_publishing_makes_every_form_downloadable(service: Service, tmp_path) -> None:
    made = service.client.post(f"{TABLE}/releases", json={"title": "First", "rows": 500}, headers=service.custodian)
    assert made.status_code == 201, made.text
    identity = made.json()["id"]
    listed = get(service, f"{TABLE}/releases")["releases"]
    assert listed[0]["id"] == identity
    files = {
        form: service.client.get(f"{TABLE}/releases/{identity}/{form}", headers=service.alice).content
        for form in listed[0]["formats"]
    }
    (tmp_path / "rows.parquet").write_bytes(files["parquet"])
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").num_rows == 500
    assert files["csv"].count(b"\n") == 501
    assert b"<!doctype html>" in files["report"][:200].lower()
    (tmp_path / "saved").write_bytes(files["release"])
    assert rt.Release.load(tmp_path / "saved").domain == DOMAIN


def test_spending_adds_up_and_the_ledger_verifies(service: Service) -> None:
    spending = get(service, f"{TABLE}/spending", service.custodian)
    assert sum(charge["cost"] for charge in spending["charges"]) == pytest.approx(
        get(service, f"{TABLE}/budget")["spent"]
    )
    found = service.client.post(f"{TABLE}/verification", headers=service.custodian).json()
    assert found["verified"]
    assert found["anchored"]


def test_metrics_hold_no_data_and_times_are_for_the_custodian(service: Service) -> None:
    service.ask({"query": COUNT})
    plain = service.client.get("/metrics", headers=service.alice).text
    whole = service.client.get("/metrics", headers=service.custodian).text
    assert 'reticent_requests_total{route="ask",status="2xx"}' in plain
    assert 'reticent_budget_spent{table="survey",unit="rho"}' in plain
    for private in ("seconds", "memory"):
        assert private not in plain
        assert private in whole


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, "request"),
        ({"sql": "SELECT 1", "query": COUNT}, "request"),
        ({"sql": "SELECT COUNT(*) FROM survey", "typo": 1}, "request"),
        ({"sql": "DROP TABLE survey"}, "question"),
        ({"query": {"query": "count", "where": {"op": ">=", "column": "age", "value": 46}}}, "question"),
        ({"query": {"query": "count", "where": {"op": "==", "column": "nobody", "value": 1}}}, "question"),
        ({"query": COUNT, "error": 0}, "question"),
        ({"query": COUNT, "error": True}, "question"),
        ({"query": COUNT, "confidence": 1.5}, "question"),
    ],
)
def test_refusals_are_problem_documents_with_stable_types(service: Service, body: dict, kind: str) -> None:
    response = service.ask(body)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == f"urn:reticent:problem:{kind}"
    assert "\n" not in response.json()["detail"]


def test_running_out_of_budget_is_told_with_both_amounts_and_leaves_free_answers(service: Service) -> None:
    spent = get(service, f"{TABLE}/budget")["spent"]
    body = {"query": {"query": "count", "where": {"op": "==", "column": "sex", "value": "Female"}}, "error": 0.00025}
    refused = service.ask(body, key="broke")
    assert refused.status_code == 402
    assert refused.json()["requested"] > refused.json()["remaining"]
    assert get(service, f"{TABLE}/budget")["spent"] == spent
    assert service.ask({"query": body["query"]}).status_code == 200


def test_the_openapi_document_names_every_route_and_its_security(service: Service) -> None:
    document = service.client.get("/openapi.json").json()
    assert f"{TABLE.replace('survey', '{table}')}/ask" in document["paths"]
    unsecured = [path for path, methods in document["paths"].items() for m in methods.values() if "security" not in m]
    assert unsecured == ["/health"]


DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_lists_every_problem_type_with_its_status() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| (\d{3}) \|", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert listed == [(kind, str(status)) for kind, (status, _) in TITLES.items()]


def test_the_pages_state_the_longest_statement_and_the_routes_of_custodians(service: Service) -> None:
    assert f"Limits: {MAX_TEXT:,} characters ({SQL_LENGTH:,} for a server)" in (DOCS / "sql.md").read_text()
    page = (DOCS / "operations.md").read_text()
    for line, path in re.findall(
        r"--json '([^']+)' http://localhost:8000(/v1/tokens|/v1/tables/census/caps/\w+)", page
    ):
        method, path = ("POST", path) if path.endswith("tokens") else ("PUT", path.replace("census", "survey"))
        body = json.loads(line.replace("census", "survey"))
        assert service.client.request(method, path, json=body, headers=service.custodian).status_code < 300
    assert "v1/tokens" in page
