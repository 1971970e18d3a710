"""Ledgers and releases of version 0.1 open, verify, say the same again, and go on spending."""

from __future__ import annotations

import json
import lzma
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.compatibility.scenarios import (
    APPROXIMATE,
    COARSE,
    FILES,
    FREE,
    LOSSES,
    PAID,
    RELEASES,
    SESSIONS,
    SQL,
    Session,
    answered,
    workload,
)
from tests.evidence.second_reader import READER
from tests.session_tables import forbidden, table

import reticent as rt
from reticent.kernel.ledger.verify import verify

NEW = rt.count((rt.col("a") == 2) & (rt.col("b") == 0) & (rt.col("c") >= 1))


def unpacked(name: str, folder: Path) -> Path:
    """The files of one scenario as they were written."""
    for packed in FILES.glob(f"{name}.*.xz"):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    return folder / f"{name}.ledger"


def said(name: str) -> dict[str, Any]:
    return json.loads(lzma.decompress((FILES / f"{name}.json.xz").read_bytes()))


@pytest.mark.parametrize("scenario", SESSIONS, ids=lambda scenario: scenario.name)
def test_a_session_says_the_same_and_goes_on(scenario: Session, tmp_path: Path) -> None:
    path, before = unpacked(scenario.name, tmp_path), said(scenario.name)
    verify(path, anchor=path.with_suffix(".anchor"))
    with scenario.open(path) as session:
        assert session.spent >= before["spent"]
        for key, expected in before["paid"].items():
            assert answered(scenario.ask(session, key)) == expected
        if "sql" in before:
            # Bought by a cold session, when errors of counts were shares of the table; free in the others.
            error = 0.02 if scenario.name == "cold" else "2%"
            repeated = json.loads(json.dumps(session.ask(SQL, error=error, key="sql").to_dict(), default=str))
            assert {name: repeated[name] for name in ("columns", "rows") if name in before["sql"]} == {
                name: before["sql"][name] for name in ("columns", "rows") if name in before["sql"]
            }
        for key, theta in before["models"].items():
            np.testing.assert_array_equal(session.minimize(LOSSES[key], error=0.05, key=key).theta, theta)
        assert session.spent == pytest.approx(before["spent"])
        for name, query in FREE.items():
            expected, now = before["free"][name], session.ask(query)
            # What was certified stays certified, at least as tightly; a value may become better, never the claim worse.
            assert now.certified == expected["certified"]
            if now.certified:
                assert now.error <= expected["error"] * (1 + 1e-9)
                assert np.all(np.abs(np.asarray(now.value) - expected["value"]) <= now.error + expected["error"])
            else:
                np.testing.assert_allclose(now.value, expected["value"], atol=1e-9)
        if scenario.lost is not None:
            redeemed = scenario.ask(session, scenario.lost)
            assert redeemed.value is not None
            assert answered(scenario.ask(session, scenario.lost)) == answered(redeemed)
        fresh = session.ask(NEW, error=None if scenario.threshold else 0.004)
        assert fresh.certified or scenario.threshold
    verify(path, anchor=path.with_suffix(".anchor"))


@pytest.mark.parametrize("scenario", [s for s in SESSIONS if s.lost is None], ids=lambda scenario: scenario.name)
def test_what_was_paid_is_known_without_rows(scenario: Session, tmp_path: Path) -> None:
    path, before = unpacked(scenario.name, tmp_path), said(scenario.name)
    source = forbidden(scenario.table())
    with rt.Session.open(
        path, source, scenario.budget, anchor=path.with_suffix(".anchor"), **scenario.options
    ) as session:
        for key, expected in before["paid"].items():
            assert answered(scenario.ask(session, key)) == expected


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_read_back_and_found_in_its_ledger(name: str, tmp_path: Path) -> None:
    path, before = unpacked(name, tmp_path), said(name)
    release = rt.Release.load(tmp_path / f"{name}.release")
    assert json.loads(json.dumps([c.to_dict() for c in release.certificates])) == before["certificates"]
    again = rt.release(
        forbidden(table(2000, weight=50)), workload(), APPROXIMATE, algorithm=RELEASES[name](), ledger=path
    )
    for query, asked in FREE.items():
        for source in (release, again):
            now = source.answer(asked)
            np.testing.assert_allclose(now.value, before[query]["value"], atol=1e-9)
            assert now.certified == before[query]["certified"]
            assert (now.error or 0) <= (before[query]["error"] or 0) * (1 + 1e-9)


def test_an_interrupted_release_ends(tmp_path: Path) -> None:
    path = unpacked("interrupted", tmp_path)
    release = rt.release(table(2000, weight=50), workload(), APPROXIMATE, ledger=path)
    # Its fit was not stored: only a processor with the same vector instructions finds the same bits again.
    assert release.certificates or "other floating-point instructions" in release.notes["uncertified"]
    again = rt.release(forbidden(table(2000, weight=50)), workload(), APPROXIMATE, ledger=path)
    assert again.to_bytes() == release.to_bytes()
    verify(path)


@pytest.mark.parametrize("name", COARSE)
def test_small_noise_that_was_charged_on_the_table_s_own_grid_is_redeemed(name: str, tmp_path: Path) -> None:
    """The key continues with the noise that it was charged for; what is bought afterwards has finer noise."""
    path = unpacked(name, tmp_path)
    begun = events(path)[-1]
    assert begun["kind"] == "reserve"
    assert COARSE[name].dies in begun["key"]
    spent = COARSE[name].run(path)
    assert [event["kind"] for event in events(path) if event["key"] == begun["key"]] == ["reserve", "redeem", "settle"]
    drawn, settled = begun["payload"]["request"]["mechanisms"][0], events(path)[begun["sequence"] + 1 :]
    read = next(event["sequence"] for event in settled if (event["key"], event["kind"]) == (begun["key"], "settle"))
    stated = [event["payload"] for event in settled if event["payload"].get("ledger_id") == read]
    assert all(one["noise"] == drawn for one in stated), "bounds follow from the noise that was drawn"
    assert len(stated) == (COARSE[name].dies in ("session:audit", "session:typical"))
    assert COARSE[name].run(path) == spent
    verify(path)
    assert READER.main([str(path)]) == 0


def test_the_bound_of_a_redeemed_audit_follows_from_the_noise_that_was_drawn(tmp_path: Path) -> None:
    path, budget = unpacked("coarse-release", tmp_path), rt.Budget(epsilon=5, delta=1e-9)
    drawn = events(path)[-1]["payload"]["request"]["mechanisms"][0]
    release = rt.release(table(2000, weight=1), workload(), budget, ledger=path, progress=False)
    assert drawn in [one.noise for one in release.certificates]


def events(path: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as file:
        return [json.loads(body) for (body,) in file.execute("SELECT body FROM events ORDER BY sequence")]


def test_every_paid_question_is_in_some_file() -> None:
    assert {key for scenario in SESSIONS for key in said(scenario.name)["paid"]} == set(PAID)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_queries_measured_without_their_rest_are_read_and_continued(neighbours: Any, tmp_path: Path) -> None:
    """A release of single queries, and a run that died when it had measured them; their error was audited then."""
    path = unpacked(f"queries-{neighbours}", tmp_path)
    done = unpacked(f"queries-{neighbours}-published", tmp_path).with_suffix(".release")
    asked = [rt.count(rt.col("x") < 20), rt.count(rt.col("x") < 45)]
    release = rt.Release.load(done)
    assert release.to_bytes() == rt.Release.from_bytes(done.read_bytes()).to_bytes()
    assert [guarantee.reading is not None for guarantee in release.guarantees] == [True]
    assert all(release.answer(query).certified for query in asked)
    rows = rt.Table.of(pa.table({"x": np.arange(2000) % 60}), rt.Domain(x=60), neighbours=neighbours)
    with rt.Ledger.open(path, identity=rows.identity, budget=APPROXIMATE) as ledger:
        measured = ledger.keys("release:", "measure")
    made = rt.release(rows, rt.Workload(asked), APPROXIMATE, ledger=path, progress=False)
    assert all(made.answer(query).certified for query in asked)
    assert bool(made.guarantees[0].measured) == (neighbours == "replace-one")
    with rt.Ledger.open(path, identity=rows.identity, budget=APPROXIMATE) as ledger:
        assert ledger.remaining >= 0
        later = ledger.keys("release:", "measure")[len(measured) :]
    # Nothing is measured again.
    assert not {key.split(":")[2] for key in measured} & {key.split(":", 2)[2] for key in later}
    verify(path)
