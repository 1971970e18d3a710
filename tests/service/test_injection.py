"""SQL cannot be injected: no text of a question ever comes near a data engine or a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.service.serving import COUNT, Service

import reticent as rt
from reticent.kernel.table import exact_counts

INJECTIONS = [
    "SELECT COUNT(*) FROM survey; DROP TABLE survey",
    "SELECT COUNT(*) FROM read_parquet('survey.parquet')",
    "SELECT COUNT(*) FROM survey WHERE age IN (SELECT age FROM survey)",
    "COPY survey TO '/tmp/stolen.csv'",
    "SELECT * FROM survey",
    "SELECT age FROM survey LIMIT 1",
    "SELECT COUNT(*), getenv('HOME') FROM survey",
    "ATTACH 'other.db'",
    "SELECT COUNT(*) FROM survey WHERE sex = 'Male' OR pragma_version() IS NULL",
    "SELECT COUNT(*) FROM survey UNION SELECT age FROM survey",
    "SELECT ARRAY_AGG(age) FROM survey",
]


class Watched:
    """Stands before the rows and writes down whatever reaches them: the only door that a question could go through."""

    def __init__(self, source: Any, reached: list[Any]) -> None:
        self._source, self._reached = source, reached

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self._reached.append((name, arguments))
            return getattr(self._source, name)(*arguments)

        return call


@pytest.fixture
def reached(service: Service) -> Iterator[list[Any]]:
    """All calls that reach the rows while a test runs."""
    table = service.tables["survey"].session.state.curator._table
    source, calls = exact_counts(table), []
    object.__setattr__(table, "_source", Watched(source, calls))
    yield calls
    object.__setattr__(table, "_source", source)


@pytest.mark.parametrize("wanted", [{}, {"error": 0.01}], ids=["free", "paid"])
@pytest.mark.parametrize("sql", INJECTIONS)
def test_sql_never_reaches_a_data_engine(
    service: Service, reached: list[Any], sql: str, wanted: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    def engine(*_: object, **__: object) -> None:
        raise AssertionError("a question reached the data engine")

    for name in ("sql", "query", "execute", "connect"):
        monkeypatch.setattr(duckdb, name, engine)
    reply = service.ask({"sql": sql, **wanted}, key="hostile" if wanted else None)
    assert reply.status_code == 422, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert reached == []


def test_what_reaches_the_rows_is_names_of_the_domain_and_numbers(service: Service, reached: list[Any]) -> None:
    """A hostile text in a question that is paid for: it became a mask over codes before any row was near."""
    hostile = "x'' OR ''1''=''1"
    sql = f"SELECT COUNT(*) FROM survey WHERE region = 'west' OR sex = '{hostile}'"
    reply = service.ask({"sql": sql, "error": "0.3%"}, key="quoted")
    if reply.status_code == 422:  # a value that the domain does not have may be refused
        reply = service.ask({"sql": "SELECT COUNT(*) FROM survey WHERE region = 'west'", "error": "0.3%"}, key="plain")
    assert reply.json()["result"]["price"] > 0
    assert reached, "the paid question never came to the rows: this test shows nothing"
    texts = set(_texts(reached))
    assert texts <= {*service.tables["survey"].domain, "marginal", "marginals", "weigh", "total", "filtered"}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _texts(list(pair))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, np.ndarray):
        assert value.dtype.kind in "biuf"
    else:
        assert value is None or isinstance(value, (int, float))


def test_a_quoted_value_is_a_value_and_nothing_else(service: Service) -> None:
    reply = service.ask({"sql": "SELECT COUNT(*) FROM survey WHERE sex = 'x'' OR ''1''=''1'"})
    assert reply.status_code in (200, 422)
    if reply.status_code == 200:
        assert reply.json()["result"]["rows"][0][0] == pytest.approx(0, abs=1e-6)


def test_free_answers_never_touch_the_rows(service: Service, reached: list[Any]) -> None:
    for body in ({"query": COUNT}, {"sql": "SELECT sex, AVG(age) FROM survey GROUP BY sex"}):
        assert service.ask(body).status_code == 200
    loss = rt.Squared(features=["sex"], label="age").to_dict()
    for path, body in (
        ("cost", {"query": COUNT, "error": 1e-3}),
        ("cost", {"loss": loss, "error": 0.2}),
        ("minimize", {"loss": loss}),
    ):
        reply = service.client.post(f"/v1/tables/survey/{path}", json=body, headers=service.alice)
        assert reply.status_code == 200, reply.text
    assert reached == []
