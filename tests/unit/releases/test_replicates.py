"""Replicates: reproducible, spread as sampling and noise are, small on disk, and no part of what was paid for."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.cli import cli
from reticent.errors import QueryError, ReticentError
from reticent.hypotheses import DenseHypothesis
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting import descent, loglinear
from reticent.hypotheses.fitting.unfitted import unfitted
from reticent.hypotheses.replicates import Replicates, difference, drawn_table
from reticent.hypotheses.support import SupportHypothesis
from reticent.releases import replicates as making
from reticent.releases.replicates import made_replicates
from reticent.releases.synthesize import row_variances

BUDGET = rt.Budget(epsilon=1, delta=1e-9)
ROWS = 4000
COUNT = 20
DOMAIN = rt.Domain({"a": 4, "b": 3, "c": 3, "d": 6})


def people(neighbours: str = "replace-one") -> rt.Table:
    generator = np.random.default_rng(7)
    a = generator.choice(4, ROWS, p=[0.4, 0.3, 0.2, 0.1])
    b = np.where(generator.random(ROWS) < 0.6, np.minimum(a, 2), generator.integers(0, 3, ROWS))
    c = generator.integers(0, 3, ROWS)
    d = np.minimum(5, a + generator.integers(0, 3, ROWS))
    return rt.Table.of(pa.table({"a": a, "b": b, "c": c, "d": d}), DOMAIN, neighbours=neighbours, name="people")


@pytest.fixture(scope="module")
def release() -> rt.Release:
    return rt.release(people(), rt.marginals(DOMAIN, 2), BUDGET)


@pytest.fixture(scope="module")
def replicated(release: rt.Release) -> rt.Release:
    return release.replicates(COUNT)


def held(release: rt.Release) -> Replicates:
    assert release.replicated is not None
    return release.replicated


def test_the_seed_alone_decides(release: rt.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(making, "LEAST_CELLS", 0)
    first = release.replicates(10, seed=3, progress=seen.append)
    assert [p.step for p in seen] == list(range(1, 11))
    assert first.replicates(10, seed=3) is first
    monkeypatch.setattr(making, "THREADS", 1)
    again = release.replicates(10, seed=3)
    assert all(np.array_equal(x, y) for x, y in zip(held(again).tables, held(first).tables, strict=True))
    assert not np.array_equal(held(release.replicates(10, seed=4)).tables[0], held(first).tables[0])
    assert release.replicated is None


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_singles_spread_as_sampling_and_noise_do(neighbours: str) -> None:
    """One attribute, all of the budget: nothing is shrunk, so the variance is p(1-p)/n and the noise's.

    Shares add up to 1, which takes the mean of the four cells' noise away: a quarter of its variance.
    """
    domain = rt.Domain({"a": 4})
    generator = np.random.default_rng(2)
    table = rt.Table.of(pa.table({"a": generator.integers(0, 4, 50_000)}), domain, neighbours=neighbours)
    release = rt.release(table, rt.marginals(domain, 1), rt.Budget(epsilon=0.05, delta=1e-9))
    measured = max(release.measurements, key=lambda one: len(one.query.names))
    spread = held(release.replicates(120)).marginal(("a",)).std(axis=0)
    expected = np.sqrt(0.25 * 0.75 / 50_000 + 0.75 * measured.sd**2)
    assert measured.sd > 0.5 * np.sqrt(0.25 * 0.75 / 50_000), "noise must matter here, or the test would not see it"
    assert np.sqrt(np.mean(spread**2)) == pytest.approx(expected, rel=0.12)


def test_replicates_lie_around_the_release(release: rt.Release, replicated: rt.Release) -> None:
    for names in (("a",), ("a", "b"), ("c", "d"), ("b", "d")):
        many = held(replicated).marginal(names)
        away = many.mean(axis=0) - release.hypothesis.marginal(names)
        spread = many.std(axis=0, ddof=1) / np.sqrt(len(many))
        assert np.sqrt(np.mean((away / spread) ** 2)) < 3.5
        assert many.sum(axis=tuple(range(1, many.ndim))) == pytest.approx(np.ones(COUNT))


def test_a_drowned_histogram_has_replicates_of_its_own() -> None:
    """There the mean of all likely tables is published; replicates are drawn from them."""
    domain = rt.Domain(dict.fromkeys("abcdef", 2))
    rows = np.random.default_rng(3).integers(0, 2, (60, 6))
    table = rt.Table.of(pa.table(dict(zip("abcdef", rows.T, strict=True))), domain)
    release = rt.release(table, rt.marginals(domain, 3), rt.Budget(epsilon=1))
    assert release.notes["fit"] == "posterior mean"
    many = held(release.replicates(30)).marginal(("a",))[:, 1]
    assert many.std() > np.sqrt(0.25 / 60)


def test_records_of_a_support_are_reweighted() -> None:
    algorithm = rt.Adaptive(dense_cells=1, histogram_cells=0, support=512)
    release = rt.release(people(), rt.marginals(DOMAIN, 2), BUDGET, algorithm=algorithm)
    assert isinstance(release.hypothesis, SupportHypothesis)
    replicated = rt.Release.from_bytes(release.replicates(12).to_bytes())
    many = held(replicated).marginal(("a",))
    sampling = np.sqrt(0.3 * 0.7 / ROWS)
    assert sampling * 0.5 < many[:, 1].std() < sampling * 4
    rows = replicated.synthesize(replicates=12, seed=1)
    assert rows.num_rows == 4 * ROWS


def test_they_survive_the_disk(release: rt.Release, replicated: rt.Release, tmp_path: Path) -> None:
    path = replicated.save(tmp_path / "people.release")
    loaded = rt.Release.load(path)
    assert loaded.to_bytes() == replicated.to_bytes()
    assert np.array_equal(held(loaded).marginal(("a", "b")), held(replicated).marginal(("a", "b")))
    assert loaded.digest == release.digest
    own = len(replicated.to_bytes()) - len(release.to_bytes())
    assert own < 2 * sum(table.size for table in held(replicated).tables) + 300 * (1 + len(held(replicated).tables))


def test_damaged_replicates_are_refused_in_one_line(replicated: rt.Release) -> None:
    short = Replicates(
        replicated.hypothesis, 1, held(replicated).sets, tuple(t[:, :1] for t in held(replicated).tables)
    )
    with pytest.raises(ReticentError, match="not a saved release"):
        rt.Release.from_bytes(replicated._with(short).to_bytes())
    bad = tuple(np.full_like(t, np.nan) for t in held(replicated).tables)
    with pytest.raises(ReticentError, match="no numbers"):
        rt.Release.from_bytes(
            replicated._with(Replicates(replicated.hypothesis, 1, held(replicated).sets, bad)).to_bytes()
        )


def test_the_ledger_knows_a_release_with_replicates(tmp_path: Path) -> None:
    from click.testing import CliRunner

    ledger = tmp_path / "people.ledger"
    release = rt.release(people(), rt.marginals(DOMAIN, 1), BUDGET, ledger=ledger)
    path = release.replicates(10).save(tmp_path / "people.release")
    shown = CliRunner().invoke(cli, ["ledger", "verify", str(ledger), "--release", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "published by event" in shown.output


@pytest.mark.parametrize("count", [0, 9, 1001, 80.5])
def test_a_senseless_number_is_refused(release: rt.Release, count: float) -> None:
    with pytest.raises(QueryError, match="replicates"):
        release.replicates(count)  # pyright: ignore[reportArgumentType]


def test_other_algorithms_are_refused() -> None:
    release = rt.release(people(), rt.marginals(DOMAIN, 1), BUDGET, algorithm=rt.MWEM(rounds=3))
    with pytest.raises(QueryError, match="made by MWEM"):
        release.replicates(10)


def test_a_difference_is_exact(release: rt.Release) -> None:
    """Tables by attribute set, or by cell where no model says what the weights are."""
    hypothesis = release.hypothesis
    moved = hypothesis.copy()
    moved.project(rt.count(rt.col("a") == 1).resolve(DOMAIN), 0.5)
    found = difference(hypothesis, moved)
    assert list(found) == [DOMAIN.names]
    twin = Replicates.of(hypothesis, 0, [found]).hypothesis(0)
    assert np.allclose(twin.marginal(("a", "c")), moved.marginal(("a", "c")), atol=1e-4)


def test_a_drawn_table_has_whole_records(release: rt.Release) -> None:
    drawn = drawn_table(release.hypothesis, 100, np.random.default_rng(0)).marginal(("a",)) * 100
    assert np.allclose(drawn, np.round(drawn))
    assert drawn.sum() == pytest.approx(100)


# -- rows with weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("independent", [False, True])
def test_weights_carry_rows_to_their_replicate(replicated: rt.Release, independent: bool) -> None:
    rows = replicated.synthesize(4 * ROWS, replicates=COUNT, seed=5, independent=independent)
    assert rows.column_names == [*DOMAIN.names, *(f"repwt{i}" for i in range(1, COUNT + 1))]
    inside = rows["a"].to_numpy() == 1
    own = inside.mean()
    for place in range(COUNT):
        weights = rows[f"repwt{place + 1}"].to_numpy().astype(float)
        assert weights.min() >= 0
        assert weights.mean() == pytest.approx(1, abs=0.06)
        # The rows' own sampling, once drawn and once by the random factor; a fifth of it where rows are systematic.
        allowed = 6 * np.sqrt((2 if independent else 0.4) * own * (1 - own) / rows.num_rows)
        share = float((weights * inside).sum() / weights.sum())
        assert share == pytest.approx(held(replicated).marginal(("a",))[place, 1], abs=allowed)


def shares_of(rows: pa.Table) -> tuple[float, np.ndarray]:
    """Of records with `a` zero: with equal weights, and with each replicate's."""
    inside = rows["a"].to_numpy() == 0
    weights = np.stack([rows[f"repwt{i}"].to_numpy().astype(float) for i in range(1, COUNT + 1)])
    return float(inside.mean()), (weights * inside).sum(axis=1) / weights.sum(axis=1)


def test_the_convention_gives_the_variance(replicated: rt.Release) -> None:
    """scale 1/R around the equal weights: sampling of records, noise, and the rows' own sampling."""
    rows = replicated.synthesize(4 * ROWS, replicates=COUNT, seed=6, independent=True)
    share, shares = shares_of(rows)
    variance = np.mean((shares - share) ** 2)
    direct = held(replicated).marginal(("a",))[:, 0].var()
    assert variance == pytest.approx(direct + share * (1 - share) / rows.num_rows, rel=0.6)


def test_systematic_rows_add_next_to_nothing(replicated: rt.Release) -> None:
    """Independent rows add a quarter of the sampling variance of records to it; systematic ones a tenth of that."""
    share, shares = shares_of(replicated.synthesize(4 * ROWS, replicates=COUNT, seed=6))
    exact, replicas = replicated.hypothesis.marginal(("a",))[0], held(replicated).marginal(("a",))[:, 0]
    assert share == pytest.approx(exact, abs=60 / (4 * ROWS)), "each of 54 cells is less than a row off"
    added = shares - replicas
    assert np.mean(added**2) < 0.4 * share * (1 - share) / (4 * ROWS)


@pytest.mark.parametrize("expected", [0.3, 1.0, 2.5, 17.8])
def test_what_is_left_of_the_sampling_of_systematic_rows(expected: float) -> None:
    """Over all starts a cell has the whole number below or above: its variance, by each of its rows."""
    starts = (np.arange(10_000) + 0.5) / 10_000
    counts = np.floor(expected + starts)
    left = float(row_variances(np.array([expected]))[0])
    assert expected * left == pytest.approx(float(counts.var()), abs=1e-3)
    assert float(row_variances(np.array([expected]), hidden=1.0)[0]) == 1.0


def test_weights_need_rows(replicated: rt.Release) -> None:
    with pytest.raises(QueryError, match=str(4 * ROWS)):
        replicated.synthesize(4 * ROWS - 1, replicates=COUNT)
    assert replicated.synthesize(seed=1).num_rows == ROWS


def test_uneven_weights_are_refused(replicated: rt.Release) -> None:
    steep = tuple(
        (8 * np.random.default_rng(0).normal(size=t.shape)).astype(np.float16) for t in held(replicated).tables
    )
    uneven = replicated._with(Replicates(replicated.hypothesis, 1, held(replicated).sets, steep))
    with pytest.raises(QueryError, match="less than a third"):
        uneven.synthesize(replicates=COUNT)


def test_the_command_writes_both(tmp_path: Path) -> None:
    from click.testing import CliRunner
    from pyarrow import csv, parquet

    rows = np.random.default_rng(1).integers(0, 2, (400, 2))
    csv.write_csv(pa.table({"x": rows[:, 0], "y": rows[:, 1]}), tmp_path / "t.csv")
    rt.Domain({"x": 2, "y": 2}).write(tmp_path / "t.toml")
    words = [
        "release",
        str(tmp_path / "t.csv"),
        "--domain",
        str(tmp_path / "t.toml"),
        "--epsilon",
        "1",
        "--delta",
        "1e-9",
    ]
    places = ["--save", str(tmp_path / "t.release"), "--out", str(tmp_path / "t.parquet")]
    shown = CliRunner().invoke(cli, [*words, *places, "--replicates", "10"])
    assert shown.exit_code == 0, shown.output
    assert held(rt.Release.load(tmp_path / "t.release")).count == 10
    assert "repwt10" in parquet.read_table(tmp_path / "t.parquet").column_names
    refused = CliRunner().invoke(cli, [*words, "--replicates", "10"])
    assert refused.exit_code != 0
    refused = CliRunner().invoke(cli, [*words, *places, "--replicates", "5"])
    assert refused.exit_code != 0


def test_impossible_cells_do_not_widen_the_rest() -> None:
    """Half of the pairs never occur: fits begun at the release's own optimum ended far away from it there."""
    generator, domain = np.random.default_rng(0), rt.Domain({"a": 3, "b": 4})
    a = generator.integers(0, 3, 3000)
    table = rt.Table.of(pa.table({"a": a, "b": (a + generator.integers(0, 2, 3000)) % 4}), domain)
    release = rt.release(table, rt.marginals(domain, 2), BUDGET).replicates(10)
    spread = held(release).marginal(("a",)).std(axis=0)
    assert spread.max() < 4 * np.sqrt(2 / 9 / 3000)


def test_replicates_take_the_path_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their values carry the noise twice: held against noise once, fits were taken for worse than the measurements."""
    domain, generator = rt.Domain(dict.fromkeys("abcde", 4)), np.random.default_rng(5)
    rows = generator.integers(0, 4, (3000, 5))
    rows[:, 1] = np.where(generator.random(3000) < 0.5, rows[:, 0], rows[:, 1])
    counts = np.zeros(domain.shape)
    np.add.at(counts, tuple(rows.T), 1)
    measurements = [
        Measurement(rt.marginal(*names), table + generator.normal(0, 0.02, table.shape), 0.02)
        for names in combinations(domain.names, 2)
        for table in [DenseHypothesis(domain, counts).marginal(names)]
    ]
    begun = []
    start = descent.proportional_start
    monkeypatch.setattr(descent, "proportional_start", lambda *given: (begun.append(1), start(*given))[1])
    published = DenseHypothesis(domain)
    published.fit(measurements)
    assert not begun, "this release is kept as it was fitted"
    made_replicates(published, measurements, records=3000, public_records=True, count=10)
    assert not begun
    monkeypatch.setattr(loglinear, "PERTURBED", 1.0)
    made_replicates(published, measurements, records=3000, public_records=True, count=10)
    assert begun


SCORES = np.arange(8.0) - 3.5


def trend() -> tuple[DenseHypothesis, list[Measurement]]:
    """A pair whose cells all lean to one side, each within its noise: a fit holds them near independence."""
    domain, generator = rt.Domain({"a": 8, "b": 2}), np.random.default_rng(8)
    truth = np.full((8, 2), 1 / 16) * (1 + 0.05 * np.outer(SCORES, [-1, 1]))
    sd = 0.02
    measured = [
        Measurement(rt.marginal("a"), truth.sum(axis=1), 1e-4),
        Measurement(rt.marginal("b"), truth.sum(axis=0), 1e-4),
        Measurement(rt.marginal("a", "b"), truth + generator.normal(0, sd / 4, truth.shape), sd),
    ]
    published = DenseHypothesis(domain)
    published.fit(measured)
    return published, measured


def leaning(cells: np.ndarray) -> np.ndarray:
    return np.tensordot(cells, np.outer(SCORES, [-1, 1]), axes=([-2, -1], [0, 1]))


def test_what_the_fit_left_is_part_of_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The squared distance between measured and fitted, of a statistic that adds up many cells."""
    published, measured = trend()
    own = float(leaning(published.marginal(("a", "b"))))
    left = float(leaning(unfitted(published, measured)["a", "b"]))
    made = made_replicates(published, measured, records=100_000, public_records=True, count=80)
    values = leaning(made.marginal(("a", "b")))
    assert left > 0.6 * own, "the fit must shrink, or there is nothing to see"
    assert (values[0::2].mean() - values[1::2].mean()) / 2 == pytest.approx(left, rel=0.35)
    monkeypatch.setattr(making, "_sign", lambda _: 0)
    unmoved = leaning(
        made_replicates(published, measured, records=100_000, public_records=True, count=80).marginal(("a", "b"))
    )
    assert np.mean((values - own) ** 2) > np.mean((unmoved - own) ** 2) + 0.5 * left**2


def test_a_drowned_histogram_is_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws from its posterior are spread as far as the prior and the noise leave it already."""
    domain = rt.Domain(dict.fromkeys("abcdef", 2))
    rows = np.random.default_rng(3).integers(0, 2, (60, 6))
    table = rt.Table.of(pa.table(dict(zip("abcdef", rows.T, strict=True))), domain)
    release = rt.release(table, rt.marginals(domain, 3), rt.Budget(epsilon=1))
    monkeypatch.setattr(making, "factors_moving", lambda *_: pytest.fail("moved"))
    release.replicates(10)
