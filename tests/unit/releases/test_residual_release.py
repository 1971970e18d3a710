"""Releases that measure residuals: when they do, what is kept of them, and what sessions make of it."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.unit.releases.released import DOMAIN, KEY, ROWS, opened, table, truth, variation

import reticent as rt
from reticent.domain import Domain
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.consistent import centred
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Table
from reticent.knowledge.measured import combined_marginals
from reticent.knowledge.tails import SINGLE
from reticent.knowledge.typical import expected_variation
from reticent.queries.linear import Marginal, Residual
from reticent.queries.workload import Workload, marginals, ranges
from reticent.releases import rounds
from reticent.releases.adaptive import Adaptive
from reticent.releases.release import Release, release
from reticent.sessions.session import Session

BUDGET = Budget(rho=0.05)
PLAIN = Adaptive(histogram_cells=0)
TRIPLES = marginals(DOMAIN, 3).on(DOMAIN)


def kinds(measurements: tuple[Measurement, ...]) -> set[type]:
    return {type(m.query) for m in measurements}


def made(neighbours: str = "add-remove", workload: Workload = TRIPLES, **options: object) -> Release:
    return release(table(neighbours), workload, BUDGET, algorithm=PLAIN, **options)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_normal_noise_measures_residuals_of_all_that_is_asked(neighbours: str) -> None:
    published = made(neighbours)
    assert Residual in kinds(published.measurements)
    inside = {s for order in (1, 2, 3) for s in combinations(DOMAIN.names, order)}
    found = {DOMAIN.canonical(m.query.attributes) for m in published.measurements}
    assert found == inside | ({()} if neighbours == "add-remove" else set())
    assert variation(published.hypothesis, TRIPLES.marginals) < 0.1


RULED = Domain(dict(DOMAIN), impossible=["a = 0 AND b > 0", "b = 0 AND a > 0"])


def ruled_table() -> Table:
    random = np.random.default_rng(4)
    columns = {name: random.integers(0, size, 4000) for name, size in zip(RULED.names, RULED.shape, strict=True)}
    columns["b"] = np.where(columns["a"] == 0, 0, np.maximum(columns["b"], 1))
    return Table(Records.of_codes(RULED, columns, np.ones(4000, dtype=np.int64)), RULED, neighbours="add-remove")


def test_domains_with_rules_are_measured_by_residuals_too() -> None:
    """Rules are kept by the hypothesis, whatever was measured."""
    published = release(ruled_table(), marginals(RULED, 3), BUDGET, algorithm=PLAIN)
    assert kinds(published.measurements) == {Residual}
    cells = published.hypothesis.marginal(("a", "b"))
    assert cells[0, 1:].sum() == cells[1:, 0].sum() == 0.0
    assert abs(cells[0, 0] - 1 / RULED["a"].size) < 0.05


def test_a_ruled_run_that_began_with_marginals_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.memory(BUDGET, ruled_table().identity)
    curator, workload = Curator(ruled_table(), ledger), marginals(RULED, 3).on(RULED)
    with monkeypatch.context() as former:
        former.setattr(rounds, "measurable", lambda domain, sets: False)
        first = PLAIN.run(curator, workload, allowance=BUDGET.limit, key=KEY)
    assert kinds(first.measurements) == {Marginal}
    left = ledger.remaining
    again = PLAIN.run(curator, workload, allowance=BUDGET.limit, key=KEY)
    assert ledger.remaining == left
    assert again.hypothesis.to_bytes() == first.hypothesis.to_bytes()


def test_marginals_are_measured_where_residuals_do_not_serve() -> None:
    curator, _ = opened(Budget(epsilon=4))
    pure = PLAIN.run(curator, TRIPLES, allowance=Budget(epsilon=4).limit, key=KEY)
    curator, _ = opened(BUDGET)
    once = Adaptive(histogram_cells=0, at_once=True).run(curator, TRIPLES, allowance=BUDGET.limit, key=KEY)
    ordered = made(workload=(marginals(DOMAIN, 2) + ranges("a")).on(DOMAIN))
    for measurements in (pure.measurements, once.measurements, ordered.measurements):
        assert kinds(measurements) == {Marginal}


def test_a_release_with_residuals_is_saved_and_read_and_estimated(tmp_path: Path) -> None:
    published = made()
    again = Release.load(published.save(tmp_path / "a"))
    assert again.to_bytes() == published.to_bytes()
    assert [m.query for m in again.measurements] == [m.query for m in published.measurements]
    estimates = expected_variation(again.hypothesis, again.measurements)
    assert set(estimates) >= {s for order in (1, 2, 3) for s in combinations(DOMAIN.names, order)}
    assert max(estimates.values()) < 0.2
    replicated = again.replicates(10).replicated
    assert replicated is not None
    assert replicated.count == 10


def test_a_run_that_began_with_marginals_goes_on_and_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that an earlier version began, and that was interrupted after its first round."""
    curator, ledger = opened(BUDGET, "add-remove")

    class Stop(Exception):
        pass

    def interrupt(progress: object) -> None:
        if progress.step == 1:  # pyright: ignore[reportAttributeAccessIssue]
            raise Stop

    with monkeypatch.context() as former:
        former.setattr(rounds, "measurable", lambda domain, sets: False)
        with pytest.raises(Stop):
            PLAIN.run(curator, TRIPLES, allowance=BUDGET.limit, key=KEY, report=interrupt)
    outcome = PLAIN.run(curator, TRIPLES, allowance=BUDGET.limit, key=KEY)
    assert kinds(outcome.measurements) == {Marginal, Residual}
    assert 0 <= ledger.remaining < BUDGET.limit / 10**5
    left = ledger.remaining
    second = PLAIN.run(curator, TRIPLES, allowance=BUDGET.limit, key=KEY)
    assert ledger.remaining == left
    assert second.hypothesis.to_bytes() == outcome.hypothesis.to_bytes()
    with monkeypatch.context() as former:
        # What a round began with counts, not what the plan of this version would be.
        former.setattr(rounds, "measurable", lambda domain, sets: False)
        third = PLAIN.run(curator, TRIPLES, allowance=BUDGET.limit, key=KEY)
    assert third.hypothesis.to_bytes() == outcome.hypothesis.to_bytes()


def test_where_residuals_cost_too_much_together_marginals_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all rounds; only in tables so wide that the joint price of residuals is a bound, here of three attributes."""
    monkeypatch.setattr(
        "reticent.releases.budgeting.Collection.price_of_residuals", lambda self, precisions: 100.0 * BUDGET.limit
    )
    assert kinds(made("replace-one").measurements) == {Residual}
    monkeypatch.setattr("reticent.kernel.residual_counts.TOGETHER", 3)
    assert kinds(made("replace-one").measurements) == {Marginal}
    assert Residual in kinds(made("add-remove").measurements)


def test_where_residuals_serve_a_wide_table_all_rounds_measure_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent.kernel.residual_counts.TOGETHER", 3)
    monkeypatch.setattr("reticent.releases.budgeting.Collection.price_of_residuals", lambda self, precisions: 1.0)
    assert kinds(made("replace-one").measurements) == {Residual}


def test_sessions_derive_marginals_from_residuals_and_fit_the_residuals(tmp_path: Path) -> None:
    rows, path = table("add-remove"), tmp_path / "a.ledger"
    published = release(rows, TRIPLES, Budget(rho=0.05), algorithm=PLAIN)
    with Session.open(path, rows, Budget(rho=0.01), start=published) as session:
        knowledge = session.state.knowledge
        assert kinds(tuple(knowledge.measurements())) == {Residual}
        assert all(m.combined for m in knowledge.marginals)
        cells = truth([("a", "b")])[0]
        derived = next(m for m in knowledge.marginals if m.attributes == ("a", "b"))
        for (a, b), share in np.ndenumerate(cells):
            form = knowledge.form(rt.count((rt.col("a") == a) & (rt.col("b") == b)))
            assert abs(derived.value_of(form) - share) <= derived.error_of(form, 1 - 1e-7)
    with Session.open(path, rows, Budget(rho=0.01)) as session:
        assert len(session.state.knowledge.residuals) == len(published.measurements)


def test_a_session_learns_what_releases_on_its_ledger_measured(tmp_path: Path) -> None:
    rows, path = table("replace-one"), tmp_path / "a.ledger"
    Ledger.open(path, identity=rows.identity, budget=Budget(rho=0.05)).close()
    release(rows, TRIPLES, Budget(rho=0.03), ledger=path, algorithm=PLAIN)
    with Session.open(path, rows, Budget(rho=0.05), warm_start=0.0) as session:
        learned = session.state.knowledge
        answer = session.ask(rt.marginal("a"))
    assert learned.marginals
    assert answer.price == 0
    assert np.asarray(answer.value) == pytest.approx(truth([("a",)])[0], abs=0.05)


def test_the_noise_of_a_combined_marginal_bounds_every_sum() -> None:
    """The largest eigenvalue of its covariance is the stated variance, in fractions."""
    generator, names = np.random.default_rng(9), ("a", "c", "d")
    inside = [s for order in (1, 2, 3) for s in combinations(names, order)]
    sds = dict(zip(inside, generator.uniform(0.001, 0.01, len(inside)), strict=True))
    shape = DOMAIN.shape_of(names)

    def lifted(inner: tuple[str, ...], unit: np.ndarray) -> np.ndarray:
        extents = [DOMAIN[name].size if name in inner else 1 for name in names]
        spread = np.broadcast_to(centred(unit).reshape(extents), shape)
        return (spread * unit.size / DOMAIN.cells(names)).ravel()

    covariance = np.zeros((DOMAIN.cells(names),) * 2)
    for inner in inside:
        for unit in np.eye(DOMAIN.cells(inner)):
            column = lifted(inner, unit.reshape(DOMAIN.shape_of(inner))) * sds[inner]
            covariance += np.outer(column, column)
    measured = [Measurement(Residual(s), np.zeros(DOMAIN.shape_of(s)), sds[s]) for s in inside]
    made_of = {m.attributes: m for m in combined_marginals(measured, DOMAIN, float(ROWS), 0.0, SINGLE)}
    assert made_of[names].sd ** 2 == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=1e-6)
    assert made_of[names].values == pytest.approx(np.full(shape, 1 / DOMAIN.cells(names)))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_histogram_is_measured_only_where_noise_drowns_the_table(neighbours: str) -> None:
    """384 cells with noise of 6 records or more: of 30 records nothing could be told, of 100,000 all."""
    domain = Domain(dict.fromkeys("abcde", 2) | {"f": 3, "g": 4})
    workload, budget = marginals(domain, 5).on(domain), Budget(epsilon=1, delta=1e-9)
    for records, drowned in ((30, True), (100_000, False)):
        codes = np.random.default_rng(records).integers(0, domain.shape, (64, 7))
        weights = np.full(64, records // 64 or 1, dtype=np.int64)[: min(64, records)]
        source = Records.of_codes(domain, dict(zip(domain.names, codes[: len(weights)].T, strict=True)), weights)
        known = int(weights.sum()) if neighbours == "replace-one" else None
        rows = Table(source, domain, records=known, neighbours=neighbours)  # pyright: ignore[reportArgumentType]
        curator = Curator(rows, Ledger.memory(identity=rows.identity, budget=budget))
        outcome = Adaptive().run(curator, workload, allowance=budget.limit, key=KEY)
        whole = [m for m in outcome.measurements if isinstance(m.query, Marginal)]
        assert len(whole) == drowned
        assert (outcome.notes["fit"] == "posterior mean") == drowned
        again = Adaptive().run(curator, workload, allowance=budget.limit, key=KEY)
        assert again.hypothesis.to_bytes() == outcome.hypothesis.to_bytes()


def test_many_sets_and_little_budget_still_have_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Residuals are paid together: what each set would have alone does not matter. A run in one round is read back."""
    budget = Budget(rho=0.00002)
    curator, ledger = opened(budget)
    with monkeypatch.context() as former:
        former.setattr(rounds, "LEAST_UNITS", 10**9)
        once = PLAIN.run(curator, TRIPLES, allowance=budget.limit, key=KEY)
    left = ledger.remaining
    again = PLAIN.run(curator, TRIPLES, allowance=budget.limit, key=KEY)
    assert ledger.remaining == left
    assert again.hypothesis.to_bytes() == once.hypothesis.to_bytes()
    fresh = PLAIN.run(opened(budget)[0], TRIPLES, allowance=budget.limit, key=KEY)
    singles = [m for m in fresh.measurements if m.query == Residual(("a",))]
    assert len(singles) == 3
