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
from reticent.knowledge.free import UNMEASURED
from reticent.releases.measured import LARGEST, SMALLEST, read_measurements
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


@pytest.mark.parametrize("mean", [31.0, 47.5])
def test_a_mean_is_measured_in_the_unit_of_its_answer(mean: float) -> None:
    domain = rt.Domain(age=rt.Numeric(edges=[0, 20, 40, 60, 80], other=False), sex=2)
    fitted = rt.fit(domain, [rt.Measurement(rt.mean("age"), mean, sd=0.01)], records=1000)
    assert fitted.notes["converged"]
    assert fitted.answer(rt.mean("age")).value == pytest.approx(mean, abs=0.05)


def test_a_mean_is_weighed_by_noise_in_its_unit() -> None:
    domain = rt.Domain(b=rt.Integer(11))
    known = [rt.Measurement(rt.mean("b"), 2.0, sd=0.3), rt.Measurement(rt.mean("b"), 3.0, sd=0.1)]
    assert rt.fit(domain, known, records=1000).answer(rt.mean("b")).value == pytest.approx(2.9, abs=0.02)


SHARES = rt.Measurement(rt.marginal("sex"), [0.5, 0.5], sd=SD)


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize(
    "queries",
    [
        [(rt.marginal("sex"), [0.9, 0.1]), (rt.marginal("sex"), [0.1, 0.9])],
        [(rt.count(rt.col("sex") == "f"), 0.1), (rt.count(rt.col("sex") == "f"), 0.9)],
        [
            (rt.marginal("sex", "town"), [[0.3, 0.3, 0.3], [0.1, 0.0, 0.0]]),
            (rt.marginal("town", "sex"), [[0.1, 0.3], [0.0, 0.3], [0.0, 0.3]]),
        ],
        [
            (rt.marginal("sex", "town"), [[0.3, 0.3, 0.3], [0.1, 0.0, 0.0]]),
            (rt.marginal("sex", "age"), [[0.1] * 5, [0.1] * 5]),
        ],
        [(rt.marginal("sex"), [0.9, 0.1]), (rt.count(), 3.0)],
        [(rt.count(), 3.0)],
    ],
)
def test_contradictions_are_reported_whatever_is_joined_before_the_fit(
    queries: list[tuple[rt.Query, object]], laplace: bool
) -> None:
    noise = {"mechanism": "Laplace"} if laplace else None
    known = [rt.Measurement(query, np.array(values), SD, noise) for query, values in queries]  # pyright: ignore[reportArgumentType]
    notes = rt.fit(DOMAIN, known, records=1000).notes
    assert not notes["converged"]
    assert "contradict" in notes["fit"]


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_repeats_within_their_noise_are_no_contradiction(seed: int, laplace: bool) -> None:
    noise = {"mechanism": "Laplace"} if laplace else None
    table = truth(seed)
    known = [*measured(table, seed), *measured(table, seed + 10), rt.Measurement(rt.count(), 1 + 2 * SD, sd=SD)]
    known = [rt.Measurement(m.query, m.values, m.sd, noise) for m in known]
    assert rt.fit(DOMAIN, known, records=1000).notes["fit"] == "converged"


@pytest.mark.parametrize(
    ("query", "value", "sd", "message"),
    [
        (rt.count(rt.col("sex") == "f"), 0.5, 1e-300, r"sd=1e-300; a fit takes 1\.1e-16 to 2\.1e\+09"),
        (rt.count(rt.col("sex") == "f"), 0.5, 1e300, r"sd=1e\+300; a fit takes"),
        (rt.count(rt.col("sex") == "f"), 0.5, 10**400, "beyond all floating-point numbers"),
        (rt.count(rt.col("sex") == "f"), 1e300, 0.1, r"the value 1e\+300; a fit takes at most 2\.1e\+09"),
        (rt.count(rt.col("sex") == "f"), -1e300, 0.1, r"the value -1e\+300"),
        (rt.count(), 1e300, 0.1, r"the value 1e\+300"),
        (rt.marginal("sex"), [0.5, 1e300], 0.1, r"the value 1e\+300"),
    ],
)
def test_numbers_that_no_fit_holds_are_refused_in_one_line(
    query: rt.Query, value: object, sd: float, message: str
) -> None:
    measurement = rt.Measurement(query, np.array(value), sd=sd)  # pyright: ignore[reportArgumentType]
    with pytest.raises(rt.QueryError, match=message) as refused:
        rt.fit(DOMAIN, [measurement], records=10)
    assert "\n" not in str(refused.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sd", [SMALLEST, 1e-6, 1.0, LARGEST])
@pytest.mark.parametrize("value", [0.0, -LARGEST, LARGEST])
def test_the_largest_and_smallest_numbers_are_fitted(value: float, sd: float) -> None:
    for query, values in (
        (rt.marginal("sex"), [value, 0.2]),
        (rt.count(rt.col("sex") == "f"), value),
        (rt.marginal("sex", "town"), [[value] * 3, [0.2] * 3]),
    ):
        fitted = rt.fit(DOMAIN, [rt.Measurement(query, np.array(values), sd=sd), SHARES], records=10)
        assert np.isfinite(np.asarray(fitted.answer(rt.marginal("sex", "town")).value)).all()


@pytest.mark.filterwarnings("error")
def test_a_number_far_from_any_share_is_fitted_beside_others() -> None:
    domain = rt.Domain(a=3, b=4)
    pair = rt.Measurement(rt.marginal("a", "b"), np.full((3, 4), 1 / 12), sd=0.01)
    single = rt.Measurement(rt.marginal("a"), [-(2.0**30), 0.2, 0.7], sd=0.1)
    assert "contradict" in rt.fit(domain, [single, pair], records=10).notes["fit"]


def test_a_mean_that_is_the_same_on_every_table_is_refused() -> None:
    domain = rt.Domain(c=rt.Categorical([7], other=False), sex=2)
    with pytest.raises(rt.QueryError, match="on every table"):
        rt.fit(domain, [rt.Measurement(rt.mean("c"), 7.0, sd=0.1)], records=10)


def test_uniform_measurements_are_measurements() -> None:
    fitted = rt.fit(DOMAIN, [rt.Measurement(rt.marginal("sex"), [0.5, 0.5], sd=SD)], records=10)
    for release in (fitted, rt.Release.from_bytes(fitted.to_bytes())):
        assert "nothing measured" not in repr(release)
        assert release.answer(rt.marginal("sex")).note == ""
        assert release.answer(rt.marginal("age")).note == UNMEASURED


def test_rules_that_leave_no_record_are_refused() -> None:
    domain = rt.Domain({"a": 2, "b": 2}, impossible=["a = 0", "a = 1"])
    with pytest.raises(rt.DomainError, match="exclude every record"):
        rt.fit(domain, [rt.Measurement(rt.marginal("b"), [0.5, 0.5], sd=SD)], records=10)


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
