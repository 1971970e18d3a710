"""docs/scale.md is what the recorded results say, and its arithmetic is right."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from benchmarks import scale_page
from benchmarks.__main__ import RESULTS


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return json.loads((RESULTS / "full.json").read_text())


def test_the_page_on_disk_is_current(record: dict[str, Any]) -> None:
    assert scale_page.DOCUMENT.read_text() == scale_page.render(record), "run `python -m benchmarks --render`"


def test_every_engine_gave_the_same_integers_and_none_was_left_out(record: dict[str, Any]) -> None:
    found = record["engines"]["found"]
    assert found["absent"] == []
    assert {point["engine"] for point in found["points"]} == {"DuckDB", "PostgreSQL", "Spark, local mode"}
    assert all(point["same integers"] for point in found["points"])


def test_curves_span_what_was_asked(record: dict[str, Any]) -> None:
    growth = record["scale"]["found"]["growth"]
    assert [point["rows"] for point in growth["rows"]["points"]] == [10**5, 10**6, 10**7, 10**8]
    attributes = [point["attributes"] for point in growth["attributes"]["points"]]
    assert (min(attributes), max(attributes)) == (5, 100)
    for name in ("rows", "attributes", "workload", "universe", "analysts"):
        assert all(point["seconds"] > 0 and point["peak_gib"] > 0 for point in growth[name]["points"]), name


def test_a_projection_follows_its_measurement(record: dict[str, Any]) -> None:
    """Twice the processor time of the largest table is twice the core-hours, and the page says so."""
    changed = copy.deepcopy(record)
    largest = changed["scale"]["found"]["growth"]["rows"]["points"][-1]
    largest["cpu_seconds"] = 36.0 * largest["rows"] / 10**8
    facts = scale_page.projected(changed["scale"]["found"], changed["engines"]["found"])
    # 360 ns x 10^10 = 3600 s = 1 core-hour, and 56 s on 64 cores
    assert facts["duckdb_row"] == "360"
    assert facts["duckdb_hours"] == "1"
    assert float(facts["duckdb_minutes"]) == pytest.approx(60 / scale_page.CORES, rel=0.01)
    assert scale_page.render(changed) != scale_page.render(record)
