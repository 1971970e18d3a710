"""Whatever a client sends, the server never fails: schemathesis writes requests from the OpenAPI document."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.service.serving import Service, running_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis

EXAMPLES = 20


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory):
    """A server of its own: fuzzing revokes tokens and publishes releases."""
    with running_app(tmp_path_factory.mktemp("fuzz")) as service:
        yield service


def operations(document: dict[str, Any]) -> list[Any]:
    return [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]


@pytest.mark.filterwarnings("ignore")
def test_no_request_makes_the_server_fail(fuzzed: Service) -> None:
    found = operations(fuzzed.client.get("/openapi.json").json())
    assert len(found) >= 20
    for operation in found:
        check(operation, fuzzed)
    assert fuzzed.tables["survey"].verified()["verified"]


def check(operation: Any, service: Service) -> None:
    who = service.custodian if "custodian" in operation.tags else service.alice

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def survives(case: Any) -> None:
        if "table" in (case.path_parameters or {}):
            case.path_parameters["table"] = "survey"
        response = case.call(base_url=str(service.client.base_url), headers=who)
        assert response.status_code < 500, f"{operation.label}: {response.text}"
        if response.status_code >= 400:
            kinds = response.headers["content-type"]
            # What is not HTTP at all is refused by the web server itself, in plain text.
            assert "application/problem+json" in kinds or "text/plain" in kinds, f"{operation.label}: {response.text}"

    survives()
