"""A threshold engine behind HTTP: its own error, paid tests, repeats that keep the joint guarantee."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.service.serving import COUNT, running_app, survey_settings, write_survey

import reticent as rt
from reticent.errors import QueryError
from reticent.service.settings import TableSettings

ENGINE = {"engine": "tuned", "queries": 100, "warm_start": None, "epsilon": None, "delta": None, "rho": 500.0}


def engine_table(folder: Path) -> TableSettings:
    return replace(survey_settings(folder).tables[0], **ENGINE)


def test_questions_are_tested_paid_and_repeated(tmp_path: Path) -> None:
    table = engine_table(tmp_path)
    with running_app(tmp_path, tables=(table,)) as service:
        first = service.ask({"query": COUNT}, key="one").json()["result"]
        assert first["certified"]
        assert first["price"] > 0
        assert first["origin"] in ("tested", "measured")
        ages = pyarrow.parquet.read_table(tmp_path / "survey.parquet")["age"].to_numpy()
        assert abs(first["value"] - (ages >= 45).mean()) <= first["error"]
        again = service.ask({"query": COUNT}, service.bob).json()["result"]
        assert (again["value"], again["price"]) == (first["value"], 0)
        grouped = service.ask({"sql": "SELECT sex, COUNT(*) FROM survey GROUP BY sex"}).json()["result"]
        assert len(grouped["rows"]) == 2
        spent = service.client.get("/v1/tables/survey/budget", headers=service.custodian).json()["spent"]
        assert spent == pytest.approx(first["price"] + grouped["price"])


def test_readers_need_the_default_engine(tmp_path: Path) -> None:
    write_survey(tmp_path)
    with pytest.raises(QueryError, match="set readers to 0"):
        survey_settings(tmp_path, tables=(engine_table(tmp_path),), readers=1)
    with pytest.raises(QueryError, match="give one of them"):
        replace(engine_table(tmp_path), support=10, smoothness=0.1)


def test_losses_are_tested_paid_and_repeated(tmp_path: Path) -> None:
    """A convex engine: one error for all losses, planned from a file; what was paid for is free for everybody."""
    loss = rt.Logistic(features=["age"], label="sex", radius=1)
    (tmp_path / "losses.json").write_text(json.dumps([loss.to_dict()]))
    changes = {**ENGINE, "engine": "convex-tuned", "rho": 1e5, "queries": 20, "losses": str(tmp_path / "losses.json")}
    write_survey(tmp_path)
    table = replace(survey_settings(tmp_path).tables[0], **changes)
    with running_app(tmp_path, tables=(table,)) as service:
        body, path = {"loss": loss.to_dict()}, "/v1/tables/survey/minimize"
        (first,) = service.client.post(path, json=body, headers=service.alice).json()["result"]["models"]
        assert first["certified"]
        assert first["origin"] in ("tested", "measured")
        assert first["price"] > 0
        (again,) = service.client.post(path, json=body, headers=service.bob).json()["result"]["models"]
        assert (again["theta"], again["price"], again["error"]) == (first["theta"], 0, first["error"])
        finer = service.client.post(path, json=body | {"error": first["error"] / 50}, headers=service.alice)
        assert finer.status_code == 422
        assert "use engine='default'" in finer.text
        spent = service.client.get("/v1/tables/survey/budget", headers=service.custodian).json()["spent"]
        assert spent == pytest.approx(first["price"])
        asked = [service.ask({"query": COUNT, "error": 0.4}, who) for who in (service.alice, service.bob)]
        assert [reply.status_code for reply in asked] == [200, 200], asked[0].text
        told, repeated = (reply.json()["result"] for reply in asked)
        assert told["certified"]
        assert told["origin"] in ("tested", "measured")
        assert (repeated["value"], repeated["error"], repeated["price"]) == (told["value"], told["error"], 0)
        after = service.client.get("/v1/tables/survey/budget", headers=service.custodian).json()["spent"]
        assert after == pytest.approx(spent + told["price"])
