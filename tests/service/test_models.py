"""Losses over HTTP: free from what is known, or paid within a wanted excess risk under caps and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.serving import COUNT, Service, running_app

import reticent as rt
from reticent.client import Connection
from reticent.service.paid_answers import Ticks
from reticent.sessions import models as fitting

TABLE = "/v1/tables/survey"
AGE = rt.Squared(features=["sex", "smoker"], label="age")
SEX = rt.Logistic(features=["age"], label="sex")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A budget of its own for every test: how much a test spends depends on its noise."""
    with running_app(tmp_path) as running:
        yield running


def budget(service: Service, who: dict[str, str] | None = None) -> dict[str, float]:
    return service.client.get(f"{TABLE}/budget", headers=who or service.alice).json()


def post(
    service: Service, path: str, body: dict[str, Any], who: dict[str, str] | None = None, key: str | None = None
) -> httpx.Response:
    headers = dict(who or service.alice) | ({} if key is None else {"Idempotency-Key": key})
    return service.client.post(f"{TABLE}/{path}", json=body, headers=headers)


def session_of(service: Service, who: dict[str, str]) -> Connection:
    return rt.connect(str(service.client.base_url), who["Authorization"].removeprefix("Bearer "))


def test_without_an_error_a_model_is_free(service: Service) -> None:
    before = budget(service)["spent"]
    reply = post(service, "minimize", {"loss": AGE.to_dict()})
    assert reply.status_code == 200, reply.text
    (model,) = reply.json()["result"]["models"]
    assert reply.json()["kind"] == "models"
    assert set(model["coefficients"]) >= {"(intercept)"}
    assert (reply.json()["guarantee"] == "uncertified") != model["certified"]
    assert budget(service)["spent"] == before


def test_the_path_of_version_0_1_still_answers(service: Service) -> None:
    body = {"loss": AGE.to_dict()}
    assert post(service, "minimise", body).content == post(service, "minimize", body).content


def test_the_cost_is_known_before_and_bounds_what_is_charged(service: Service) -> None:
    body = {"loss": AGE.to_dict(), "error": 0.2}
    cost = post(service, "cost", body).json()
    before = budget(service)
    assert 0 < cost["price"] <= before["own_remaining"]
    assert cost["affordable"]
    assert not cost["free"]
    reply = post(service, "minimize", body, key="priced").json()
    after = budget(service)
    (model,) = reply["result"]["models"]
    assert model["certified"]
    assert model["error"] <= 0.2
    assert 0 < reply["result"]["price"] <= cost["price"] + 1e-9
    assert after["own_spent"] - before["own_spent"] == pytest.approx(reply["result"]["price"], abs=1e-9)
    assert f"excess risk at most {model['error']:.3g}" in reply["guarantee"]


def test_the_same_key_returns_the_same_bytes_and_is_charged_once(service: Service) -> None:
    body = {"loss": SEX.to_dict(), "error": 0.3}
    first = post(service, "minimize", body, key="model")
    spent = budget(service)["spent"]
    assert first.status_code == 200, first.text
    assert first.json()["result"]["price"] > 0
    assert post(service, "minimize", body, key="model").content == first.content
    assert budget(service)["spent"] == spent
    other = post(service, "minimize", body | {"error": 0.29}, key="model")
    assert other.json()["type"] == "urn:reticent:problem:key-reused"
    question = {"query": {"query": "count"}, "error": 0.1}
    assert service.ask(question, key="model").json()["type"] == "urn:reticent:problem:key-reused"
    entry = service.client.get(f"{TABLE}/history?limit=1", headers=service.alice).json()["entries"][0]
    assert entry["question"] == f"minimize {SEX!r}"
    assert service.client.get(f"{TABLE}/history/{entry['sequence']}", headers=service.alice).content == first.content


def test_a_model_is_bought_where_no_audit_is_worth_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "LARGEST_SHARE", 0.0)
    body = {"loss": rt.Logistic(features=["smoker"], label="sex").to_dict(), "error": 0.5}
    cost, before = post(service, "cost", body).json(), budget(service)["own_spent"]
    reply = post(service, "minimize", body, key="bought").json()
    (model,) = reply["result"]["models"]
    assert model["origin"] == "measured"
    assert reply["result"]["price"] == pytest.approx(cost["price"], abs=1e-9)
    assert budget(service)["own_spent"] - before == pytest.approx(cost["price"], abs=1e-9)


def test_a_lost_purchase_is_found_again_by_its_key(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel settled, then the service died before it kept its reply: the same parameters, no second charge."""
    monkeypatch.setattr(fitting, "LARGEST_SHARE", 0.0)
    served = service.tables["survey"]
    body = {"loss": rt.Logistic(features=["age"], label="smoker").to_dict(), "error": 0.45}
    with monkeypatch.context() as broken:
        broken.setattr(served.answers, "keep", _fails)
        assert post(service, "minimize", body, key="lost").status_code == 500
    spent = budget(service)["spent"]
    again = post(service, "minimize", body, key="lost").json()
    assert budget(service)["spent"] == spent
    assert (
        again["result"]["models"][0]["theta"]
        == post(service, "minimize", body, key="lost").json()["result"]["models"][0]["theta"]
    )


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_a_retry_audits_what_it_began_with(service: Service, monkeypatch: pytest.MonkeyPatch, batch: bool) -> None:
    """Between a crash and the retry others may have bought: the hypothesis moves, the audit must not be paid twice."""
    served = service.tables["survey"]
    losses = [rt.Squared(features=["smoker", name], label="age") for name in (["region", "sex"] if batch else ["sex"])]
    described = [loss.to_dict() for loss in losses]
    body = {"losses": described} if batch else {"loss": described[0]}
    body |= {"error": 0.2}  # parameters of zero are within .21
    key = f"moved-{batch}"
    with monkeypatch.context() as broken:
        broken.setattr(served.answers, "keep", _fails)
        assert post(service, "minimize", body, key=key).status_code == 500
    digest = served.session.state.knowledge.current.digest
    question = {"query": {"query": "marginal", "attributes": ["age", "region" if batch else "sex"]}, "error": 0.01}
    assert service.ask(question, service.bob, key=key).json()["result"]["price"] > 0
    served.session.refit()
    assert served.session.state.knowledge.current.digest != digest, "the hypothesis stayed: this test shows nothing"
    spent = budget(service)["own_spent"]
    again = post(service, "minimize", body, key=key)
    assert again.status_code == 200, again.text
    assert budget(service)["own_spent"] == spent
    assert all(model["certified"] for model in again.json()["result"]["models"])


def _fails(*_: object) -> None:
    raise OSError("the disk is gone")


def test_one_audit_may_certify_a_declared_batch(service: Service) -> None:
    losses = [rt.Squared(features=[name], label="age") for name in ("sex", "smoker", "region")]
    body = {"losses": [loss.to_dict() for loss in losses], "error": 0.2}
    reply = post(service, "minimize", body, key="batch").json()
    models = reply["result"]["models"]
    assert [model["loss"]["features"] for model in models] == [["sex"], ["smoker"], ["region"]]
    assert all(model["certified"] and model["origin"] == "batch" for model in models)
    assert len({model["ledger_id"] for model in models}) == 1
    assert sum(model["price"] for model in models) == pytest.approx(reply["result"]["price"], abs=1e-9)
    assert post(service, "minimize", body, key="batch").json() == reply


def test_caps_and_prices_refuse_before_anything_is_paid(service: Service) -> None:
    body = {"loss": rt.Squared(features=["region"], label="age", radius=3.0).to_dict(), "error": 0.2}
    before = budget(service, service.bob)
    refused = post(service, "minimize", body | {"max_price": 1e-7}, service.bob, "dear")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:reticent:problem:price")
    cap = {"amount": before["own_spent"] + 1e-6}
    assert service.client.put(f"{TABLE}/caps/bob", json=cap, headers=service.custodian).status_code == 200
    refused = post(service, "minimize", body, service.bob, "capped")
    assert refused.status_code == 402
    assert refused.json()["requested"] > refused.json()["remaining"]
    assert budget(service, service.bob)["spent"] == before["spent"]
    service.client.put(f"{TABLE}/caps/bob", json={"amount": None}, headers=service.custodian)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, "request"),
        ({"loss": AGE.to_dict(), "losses": [AGE.to_dict()]}, "request"),
        ({"losses": []}, "request"),
        ({"loss": AGE.to_dict(), "sql": "SELECT 1"}, "request"),
        ({"loss": {"loss": "cubic", "features": ["sex"]}}, "question"),
        ({"loss": {"loss": "squared", "features": ["nobody"], "label": "age"}}, "question"),
        ({"loss": {"loss": "squared", "features": ["age"], "label": "age"}}, "question"),
        ({"loss": AGE.to_dict(), "error": 0}, "question"),
        ({"loss": AGE.to_dict(), "error": 1e-9}, "question"),
        ({"losses": [AGE.to_dict()] * 65, "error": 0.1}, "too-complex"),
    ],
)
def test_bad_losses_are_refused_unpaid(service: Service, body: dict[str, Any], kind: str) -> None:
    before = budget(service)["spent"]
    refused = post(service, "minimize", body)
    assert (refused.status_code, refused.json()["type"]) == (422, f"urn:reticent:problem:{kind}")
    assert budget(service)["spent"] == before


def test_a_connection_fits_as_its_session_does(service: Service) -> None:
    inside, fresh = service.tables["survey"].session, rt.Squared(features=["sex"], label="age", radius=3.0)
    with session_of(service, service.alice) as session:
        assert session.minimize(AGE).coefficients == inside.minimize(AGE).coefficients
        assert [m.loss for m in session.minimize([AGE, SEX])] == [AGE, SEX]
        assert session.cost(fresh, error=0.2) == pytest.approx(inside.cost(fresh, error=0.2))
        before = session.spent
        model = session.minimize(fresh, error=0.2)
        assert session.spent - before == pytest.approx(model.price)
        assert model.price > 0
        if model.certified:  # by chance an audit fails, and what is left buys no minimiser
            assert model.error is not None
            assert model.error <= 0.2
            assert session.cost(fresh, error=0.2) == 0.0
        if model.error is None or model.error > 0.02:  # by chance the audit finds it as good as that
            with pytest.raises(rt.BudgetError):  # some minimiser would do, for more than the whole budget
                session.minimize(fresh, error=0.02)
        with pytest.raises(rt.QueryError, match="nothing certifies"):  # and none at any price
            session.minimize(fresh, error=0.0005)
        rows = [{"sex": "Male"}]
        assert 17 <= model.predict(rows)[0] <= 90


def test_a_custodians_connection_sets_caps_and_sees_spending(service: Service) -> None:
    inside = service.tables["survey"].session
    with session_of(service, service.custodian) as session:
        session.set_cap("bob", 0.01)
        assert inside.state.ledger.caps["bob"] == 10_000_000
        assert session.spent_by("alice") == pytest.approx(inside.spent_by("alice"))
    service.client.put(f"{TABLE}/caps/bob", json={"amount": None}, headers=service.custodian)


def test_a_list_of_questions_is_asked_one_by_one(service: Service) -> None:
    questions = [rt.count(rt.col("region") == name) for name in ("north", "south")]
    with session_of(service, service.alice) as session:
        first = session.ask_all(questions, error=0.02, key="list")
        before = session.spent
        again = session.ask_all(questions, error=0.02, key="list")
        assert session.spent == before
    assert [a.value for a in first] == [a.value for a in again]
    assert all(answer.error is not None and answer.error <= 0.02 for answer in first)


def test_a_fit_takes_as_long_as_its_work_says_whatever_it_really_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held in the paying thread, so that the next order starts no earlier either; the work is that of its purchases."""
    held: list[tuple[float, int]] = []
    monkeypatch.setattr(Ticks, "hold", lambda self, begun, work: held.append((begun, work)))
    with running_app(tmp_path, tick=0.01) as ticking:
        for place in range(2):
            post(ticking, "minimize", {"loss": AGE.to_dict(), "error": 0.2}, key=f"held-{place}")
        post(ticking, "ask", {"query": COUNT, "error": 0.2}, key="count")
    works = [work for _, work in held]
    assert works[0] > 0
    assert not any(works[1:])


def test_paid_models_leave_at_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[tuple[float, float]] = []

    async def wait(ticks: Ticks) -> None:
        left.append((ticks.period, spent()))

    monkeypatch.setattr(Ticks, "wait", wait)
    with running_app(tmp_path, tick=0.4) as ticking:
        session = ticking.tables["survey"].session

        def spent() -> float:
            return session.spent

        reply = post(ticking, "minimize", {"loss": AGE.to_dict(), "error": 0.2}, key="tick")
        assert reply.json()["result"]["price"] > 0
        assert left == [(0.4, spent())], "one tick, after the charge"
