"""Fits to measurements that were made elsewhere: right answers, no statement of privacy anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.cli import main
from reticent.errors import ReticentError
from reticent.releases.measured import read_measurements
from reticent.releases.release import UNSTATED

DOMAIN = rt.Domain(
    age=rt.Numeric(edges=[0, 20, 40, 60, 80]),
    sex=rt.Categorical(["f", "m"], other=False),
    town=rt.Categorical(["a", "b", "c"], other=False),
)
SD = 1e-3


def truth(seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).dirichlet(np.full(DOMAIN.size, 0.5))
    return weights.reshape(DOMAIN.shape)


def measured(table: np.ndarray, seed: int) -> list[rt.Measurement]:
    """Two pairs, one of them named against the domain's order, and a count, with normal noise."""
    generator = np.random.default_rng(seed)

    def noisy(values: np.ndarray) -> np.ndarray:
        return values + generator.normal(scale=SD, size=np.shape(values))

    return [
        rt.Measurement(rt.marginal("sex", "age"), noisy(table.sum(axis=2).T), sd=SD),
        rt.Measurement(rt.marginal("sex", "town"), noisy(table.sum(axis=0)), sd=SD),
        rt.Measurement(rt.count(rt.col("town") == "b"), noisy(table[..., 1].sum()), sd=SD),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_what_was_measured_is_answered(seed: int) -> None:
    table = truth(seed)
    fitted = rt.fit(DOMAIN, measured(table, seed), records=10_000)
    for names, axes in ((("age", "sex"), 2), (("sex", "town"), 0)):
        found = np.asarray(fitted.answer(rt.marginal(*names)).value)
        assert np.abs(found - table.sum(axis=axes)).max() < 6 * SD
    assert fitted.answer(rt.count()).value == pytest.approx(1)
    assert fitted.synthesize(50, seed=1).num_rows == 50
    assert not fitted.answer(rt.count(rt.col("sex") == "f")).certified


def test_nothing_states_privacy(tmp_path: Path) -> None:
    fitted = rt.fit(DOMAIN, measured(truth(0), 0), records=10_000)
    assert not fitted.stated
    assert fitted.privacy == UNSTATED
    assert UNSTATED in repr(fitted)
    loaded = rt.Release.load(fitted.save(tmp_path / "fit.release"))
    assert loaded.to_bytes() == fitted.to_bytes()
    assert not loaded.stated
    page = loaded.report(tmp_path / "fit.html").read_text()
    assert "states no privacy" in page
    assert not any(word in page for word in ("differential privacy", "What this means for one person", "ε"))
    rows = pa.table({"age": [10.0] * 10_000, "sex": ["f"] * 10_000, "town": ["a"] * 10_000})
    with pytest.raises(rt.QueryError, match="states no privacy"):
        rt.Session.open(None, rt.Table.of(rows, DOMAIN), rt.Budget(rho=1), start=loaded)
    with pytest.raises(rt.QueryError, match="replicates"):
        loaded.replicates(10)


def test_a_file_with_bounds_but_no_statement_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"age": [10.0] * 1000, "sex": ["f"] * 1000, "town": ["a"] * 1000})
    made = rt.release(rt.Table.of(rows, DOMAIN), rt.marginals(DOMAIN, 1), rt.Budget(rho=1), progress=False)
    assert made.certificates
    made.facts["budget"] = None
    with pytest.raises(ReticentError, match="without a statement of privacy"):
        rt.Release.from_bytes(made.to_bytes())


WIDE = rt.Domain({f"x{i}": 4 for i in range(40)})


def test_a_universe_too_large_to_hold_is_fitted() -> None:
    shares = np.array([[0.4, 0.1, 0.0, 0.0], [0.1, 0.1, 0.0, 0.0], [0.0, 0.0, 0.2, 0.0], [0.0, 0.0, 0.0, 0.1]])
    known = [rt.Measurement(rt.marginal(f"x{i}", f"x{i + 1}"), shares, sd=1e-3) for i in range(0, 40, 2)]
    fitted = rt.fit(WIDE, known, records=1000)
    assert np.abs(np.asarray(fitted.answer(rt.marginal("x6", "x7")).value) - shares).max() < 6e-3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no measurements"),
        ("shares", "must be a list"),
        ([3], "measurement"),
        ([rt.Measurement(rt.marginal("sex"), np.array([0.1, 0.2, 0.7]), sd=0.1)], r"shape \(3,\); it needs \(2,\)"),
        ([rt.Measurement(rt.count(rt.col("sex") == "f"), np.array([0.1]), sd=0.1)], r"shape \(1,\); it needs \(\)"),
        ([rt.Measurement(rt.marginal("salary"), np.array([0.1]), sd=0.1)], "salary"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given: object, message: str) -> None:
    with pytest.raises(ReticentError, match=message) as refused:
        rt.fit(DOMAIN, given, records=10)  # pyright: ignore[reportArgumentType]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("sd", [0, -1, float("nan"), "wide", None])
def test_a_measurement_needs_its_noise(sd: object) -> None:
    with pytest.raises(rt.QueryError, match="sd="):
        rt.Measurement(rt.marginal("sex"), np.array([0.5, 0.5]), sd=sd)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "[1]",
        '[{"query": {"query": "marginal", "attributes": ["sex"]}, "values": ["a", "b"], "sd": 1}]',
        '[{"query": {"query": "marginal", "attributes": ["sex"]}, "values": [[1], [1, 2]], "sd": 1}]',
        '[{"query": {"query": "marginal", "attributes": ["sex"]}, "values": [1, 2], "sd": "x"}]',
        '[{"query": {"query": "marginal", "attributes": ["sex"]}, "values": [1, 2]}]',
        f'[{{"query": {{"query": "marginal", "attributes": ["sex"]}}, "values": [1, {10**400}], "sd": 1}}]',
        '[{"query": {"query": "marginal", "attributes": ["sex"]}, "values": [1, NaN], "sd": 1}]',
    ],
)
def test_a_damaged_file_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    place = tmp_path / "measured.json"
    place.write_text(text)
    with pytest.raises(ReticentError, match=r"measured\.json: ") as refused:
        read_measurements(place)
    assert "\n" not in str(refused.value)


def test_the_command_fits_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = measured(truth(1), 1)
    entries = [{"query": m.query.to_dict(), "values": m.values.tolist(), "sd": m.sd} for m in known]
    (tmp_path / "measured.json").write_text(json.dumps(entries))
    DOMAIN.write(tmp_path / "domain.toml")
    given = [str(tmp_path / "measured.json"), "--domain", str(tmp_path / "domain.toml"), "--records", "1000"]
    with pytest.raises(SystemExit) as stopped:
        main(["estimate", *given, "--out", str(tmp_path / "rows.csv"), "--save", str(tmp_path / "a.release")])
    assert stopped.value.code == 0
    assert UNSTATED.split(":")[0] in capsys.readouterr().out
    assert (tmp_path / "rows.csv").read_text().count("\n") == 1001
    with pytest.raises(SystemExit):
        main(["estimate", *given, "--json"])
    assert json.loads(capsys.readouterr().out)["budget"] is None
