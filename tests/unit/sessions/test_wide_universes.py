"""Universes beyond any tensor: paid answers survive whatever learning does, and the ledgers of before open."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.session_tables import of_codes

import reticent as rt
from reticent.domain import Domain
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import CLIQUE_CELLS, TREE_CELLS, choose, learned
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.table import Table, exact_counts
from reticent.knowledge.certificates import LONGEST_AUDIT
from reticent.knowledge.guarantees import Outcome
from reticent.knowledge.risks import dual_certificate, loss_difference, of_support, project, step
from reticent.losses.risk import certificate_tensor, loss_tensor
from reticent.queries.base import Linear
from reticent.releases.release import Algorithm
from reticent.sessions import warm_start as warmup
from reticent.sessions.session import Session

BUDGET = rt.Budget(rho=1)


def drawn(columns: int, codes: int = 2) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(columns)
    return {f"c{i}": np.minimum(generator.geometric(0.4, 400) - 1, codes - 1) for i in range(columns)}


def wide(columns: int = 30, codes: int = 2, **facts: Any) -> Table:
    return of_codes(Domain({f"c{i}": codes for i in range(columns)}), drawn(columns, codes), 10**6, **facts)


def triples(domain: Domain, count: int) -> list[Linear]:
    """ORs, so that none of them is bought as a marginal."""
    generator = np.random.default_rng(5)
    found = []
    for _ in range(count):
        a, b, c = (rt.col(str(name)) == 0 for name in generator.choice(domain.names, 3, replace=False))
        found.append(rt.count((a & b) | c))
    return found


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_warm_session_on_a_large_universe_opens_and_reopens(tmp_path: Path, neighbours: str) -> None:
    """Its start measures marginals, which it answers from; residuals are for releases."""
    domain = Domain({f"c{i}": 2 for i in range(24)})
    rows = of_codes(domain, drawn(24), 100, neighbours=neighbours)
    few = rt.Workload([rt.marginal("c0", "c1"), rt.marginal("c1", "c2", "c3")])
    asked = [rt.count(rt.col("c0") == 0), rt.marginal("c1", "c2"), *triples(domain, 2)]
    budget = rt.Budget(rho=0.01)
    with Session.open(tmp_path / "a.ledger", rows, budget, workload=few, warm_start=0.5) as session:
        first = [session.ask(query) for query in asked]
        assert first[0].certified
    with Session.open(tmp_path / "a.ledger", rows, budget) as session:
        for query, before in zip(asked, first, strict=True):
            assert np.array_equal(np.asarray(session.ask(query).value), np.asarray(before.value))


def test_a_cold_session_on_a_large_universe_starts_from_a_support(tmp_path: Path) -> None:
    rows = wide()
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        assert session.describe()["hypothesis"] == {"representation": "support", "notes": []}
        first = [session.ask(query, error=1e-4, key=str(i)) for i, query in enumerate(triples(rows.domain, 6))]
        digest = session.state.knowledge.current.digest
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        again = [session.ask(query, error=1e-4, key=str(i)) for i, query in enumerate(triples(rows.domain, 6))]
        assert [a.to_dict() for a in again] == [a.to_dict() for a in first]
        assert session.state.knowledge.current.digest == digest


@pytest.fixture(autouse=True)
def small_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the suite stays quick."""
    monkeypatch.setattr(sys.modules["reticent.hypotheses.choose"], "SUPPORT_RECORDS", 2**13)


def test_a_ledger_whose_tree_overflows_opens_and_repeats_what_was_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sessions before wrote them: a junction tree in the first snapshot, and more purchases than it can hold."""
    rows = wide()
    with monkeypatch.context() as patched:
        patched.setattr(warmup, "_cold", lambda domain: FactoredHypothesis(domain, limit=72))
        with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
            first = [session.ask(query, error=1e-4, key=str(i)) for i, query in enumerate(triples(rows.domain, 8))]
            notes = session.describe()["hypothesis"]["notes"]
            digest = session.state.knowledge.current.digest
    assert len(notes) == 1
    assert "the junction tree would hold" in notes[0]
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, warm_start=0) as session:
        assert session.state.knowledge.current.digest == digest
        again = [session.ask(query, error=1e-4, key=str(i)) for i, query in enumerate(triples(rows.domain, 8))]
        assert [a.to_dict() for a in again] == [a.to_dict() for a in first]
        assert session.refit(), "a fit that the tree cannot hold runs on the support"
        assert isinstance(session.release().hypothesis, SupportHypothesis)


@pytest.mark.parametrize("engine", ["tuned", "textbook"])
def test_a_threshold_session_goes_on_beyond_its_tree_and_claims_no_end_of_updates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr("reticent.sessions.open.TREE_CELLS", 100)
    rows = wide()
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, engine=engine, queries=200) as session:
        asked = triples(rows.domain, 10)
        first = [session.ask(query, key=str(i)) for i, query in enumerate(asked)]
        assert session.describe()["hypothesis"]["representation"] == "support"
        digest = session.state.knowledge.current.digest
        epochs = session.answering.epochs
        assert epochs is not None
        assert epochs.updates > 3
        epochs.updates = epochs.plan.epochs
        assert not epochs.finished, "the bound on updates rests on the whole universe"
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, engine=engine, queries=200) as session:
        assert session.state.knowledge.current.digest == digest
        paid = [(i, answer) for i, answer in enumerate(first) if answer.price]
        assert paid
        assert [session.ask(asked[i], key=str(i)).to_dict() for i, _ in paid] == [
            answer.to_dict() for _, answer in paid
        ]


def test_threshold_sessions_older_than_the_ceiling_replay_on_the_largest_tree(tmp_path: Path) -> None:
    rows = wide()
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, engine="tuned", queries=50) as session:
        settings = session.state.journal.settings()
        assert settings is not None
        assert settings["tree_cells"] == TREE_CELLS
        session.state.journal.save_settings({name: value for name, value in settings.items() if name != "tree_cells"})
    with Session.open(tmp_path / "a.ledger", rows, BUDGET, engine="tuned", queries=50) as session:
        current = session.state.knowledge.current
        assert current.digest == _digest(FactoredHypothesis(rows.domain, limit=CLIQUE_CELLS))


def _digest(hypothesis: FactoredHypothesis) -> str:
    from reticent.hypotheses.snapshot import Snapshot

    return Snapshot(hypothesis).digest


@dataclass(frozen=True)
class Recorder:
    """Notes the tree that a run is given."""

    seen: list[int | None]
    tree_cells: int | None = None

    def describe(self) -> dict[str, Any]:
        return {"algorithm": "Recorder"}

    def terms(self) -> dict[str, Any]:
        return {"tree_cells": self.tree_cells}

    def resumed(self, begun: Mapping[str, Any]) -> Recorder:
        return replace(self, tree_cells=begun.get("tree_cells", CLIQUE_CELLS))

    def run(self, curator: Curator, *_: Any, **options: Any) -> Outcome:
        self.seen.append(self.tree_cells)
        return Outcome(choose(curator.domain).build(), (), (), float(curator.records or 0))


def test_a_release_goes_on_with_the_tree_it_began_with(tmp_path: Path) -> None:
    rows, seen = wide(4), []
    workload, algorithm = rt.marginals(rows.domain, 1), Recorder(seen)
    checked: Algorithm = algorithm
    rt.release(rows, workload, BUDGET, algorithm=checked, ledger=tmp_path / "new.ledger")
    old = Ledger.open(tmp_path / "old.ledger", identity=rows.identity, budget=BUDGET)
    new = Ledger.open(tmp_path / "new.ledger", identity=rows.identity, budget=BUDGET)
    begun = next(event.payload for event in new.events() if event.kind == "release")
    assert begun["tree_cells"] is None
    old.append("release", {name: value for name, value in begun.items() if name != "tree_cells"})
    rt.release(rows, workload, BUDGET, algorithm=checked, ledger=old)
    rt.release(rows, workload, BUDGET, algorithm=checked, ledger=new)
    old.close()
    new.close()
    assert seen == [None, CLIQUE_CELLS]  # the finished one is read back, not run again


@pytest.mark.parametrize("columns", [26, 69, 100])
def test_mwem_and_textbook_run_to_their_end_on_wide_tables(columns: int) -> None:
    rows = wide(columns)
    sets = [(f"c{i}", f"c{i + 3}", f"c{i * i % 7 + 17}") for i in range(12)]
    workload = rt.Workload([rt.marginal(*names) for names in sets])
    mwem = rt.release(rows, workload, BUDGET, algorithm=rt.MWEM(rounds=12, tree_cells=2 * columns + 16))
    assert mwem.notes["learning"]
    assert isinstance(mwem.hypothesis, SupportHypothesis)
    textbook = rt.release(rows, workload, BUDGET, algorithm=rt.TextbookPMW(error=0.05, tree_cells=2 * columns + 16))
    assert textbook.notes["guarantee"].startswith(("every query errs", "none:"))
    worst = max(float(np.abs(textbook.hypothesis.marginal(s) - _truth(columns, s)).max()) for s in sets)
    assert worst <= 4 * 0.05 or textbook.notes["guarantee"].startswith("none:")


def _truth(columns: int, names: tuple[str, ...]) -> np.ndarray:
    found = drawn(columns)
    return np.histogramdd(np.stack([found[name] for name in names], axis=1), bins=2, density=False)[0] / 400


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("plain", ["singles", "count", "ranges"])
def test_a_workload_without_a_pair_is_released_on_a_large_universe(plain: str, neighbours: str) -> None:
    table = wide(26, neighbours=neighbours)
    workload = {
        "singles": rt.marginals(table.domain, 1),
        "count": rt.Workload([rt.count(rt.col("c3") == 0)]),
        "ranges": rt.ranges("c3", "c5"),
    }[plain]
    release = rt.release(table, workload, BUDGET, algorithm=rt.Adaptive(support=2**10))
    assert release.ask(rt.count(rt.col("c3") == 0)).value == pytest.approx(_truth(26, ("c3",))[0], abs=0.05)


def test_a_default_session_on_a_few_columns_of_two_thousand_codes_opens_and_sells_a_cell() -> None:
    rows = wide(3, codes=2000)
    with Session.open(None, rows, BUDGET, warm_start=0.2) as session:
        cell = rt.count((rt.col("c0") == 0) & (rt.col("c1") == 0) & (rt.col("c2") == 0))
        answer = session.ask(cell, error=1e-4)
        assert answer.origin == "measured"
        assert answer.price > 0


@pytest.mark.parametrize("rule", ["projection", "textbook"])
def test_a_paid_loss_over_more_cells_than_a_tensor_is_learned_on_records(rule: str) -> None:
    domain = wide(26, codes=3).domain
    names = tuple(domain.names)
    problem = rt.Squared(features=names[:20], label=names[20], radius=1).on(domain)
    here, there = np.zeros(problem.dimension), np.full(problem.dimension, 0.1)
    margin = 0.02

    def move(held: Hypothesis) -> bool:
        if rule == "projection":
            return project(held, loss_difference(held, problem, there, here), margin) > 0
        return step(held, dual_certificate(held, problem, there, here), 0.05, margin) != 0

    found = learned(FactoredHypothesis(domain), move)
    assert found.moved
    assert "the loss spans 10460353203 cells" in found.note
    support = found.hypothesis
    assert isinstance(support, SupportHypothesis)
    records = of_support(support, problem)
    difference = float(support.weights @ (records.losses(there) - records.losses(here)))
    if rule == "projection":
        assert difference == pytest.approx(-margin)
    else:
        assert difference < float(np.mean(records.losses(there) - records.losses(here)))


def test_losses_of_records_are_those_of_the_tensor() -> None:
    domain = Domain({"a": 3, "b": 2, "y": 4})
    generator = np.random.default_rng(3)
    support = SupportHypothesis.uniform(domain, 50, generator)
    for loss in (
        rt.Squared(features=("a", "b"), label="y", radius=1),
        rt.Logistic(features=("a", "y"), label="b", radius=2),
    ):
        problem = loss.on(domain)
        records = of_support(support, problem)
        places = tuple(support.codes[:, domain.index(name)] for name in problem.attributes)
        there, here = generator.normal(size=(2, problem.dimension)) / 4
        assert records.losses(there) == pytest.approx(loss_tensor(problem, there)[places])
        assert records.certificates(there, here) == pytest.approx(certificate_tensor(problem, there, here)[places])


def large(columns: int) -> Table:
    """4.6 million dependent records of binary columns."""
    generator = np.random.default_rng(columns)
    hidden = generator.random((4600, 3))
    codes = {
        f"c{i}": (hidden[:, i % 3] + generator.random(4600) > generator.uniform(0.6, 1.4)).astype(np.int64)
        for i in range(columns)
    }
    return of_codes(Domain(dict.fromkeys(codes, 2)), codes, 1000)


def disjunctions(domain: Domain, count: int) -> Iterator[tuple[Linear, tuple[str, ...]]]:
    """(a and b) or c, and the columns."""
    generator = np.random.default_rng(9)
    for _ in range(count):
        names = tuple(str(name) for name in generator.choice(domain.names, 3, replace=False))
        a, b, c = (rt.col(name) == 0 for name in names)
        yield rt.count((a & b) | c), names


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "columns"), [("tuned", 30), ("textbook", 69), ("tuned", 100)])
def test_a_wide_threshold_session_answers_hundreds_of_questions_and_reopens(
    tmp_path: Path, engine: str, columns: int
) -> None:
    rows, path, asked = large(columns), tmp_path / "a.ledger", 400
    questions = list(disjunctions(rows.domain, asked))
    digest, missed = "", 0
    for life in range(4):
        with Session.open(path, rows, rt.Budget(rho=0.2), engine=engine, queries=2 * asked) as session:
            assert not digest or session.answering.epochs.snapshot.digest == digest
            for query, names in questions[life * asked // 4 : (life + 1) * asked // 4]:
                answer = session.ask(query)
                assert answer.certified
                table = exact_counts(rows).marginal(names) / rows.records
                order = [sorted(names, key=rows.domain.names.index).index(name) for name in names]
                a, b, c = (np.indices(table.shape)[axis] == 0 for axis in order)
                missed += abs(answer.value - table[(a & b) | c].sum()) > answer.error
            digest = session.answering.epochs.snapshot.digest
    assert missed == 0


# ---- openings take about as long as releases: their work is bounded by public sizes


@pytest.mark.parametrize("columns", [3, 20, 30, 31, 69, 147, 200, 256, 257, 2000])
def test_first_measurements_and_audits_of_many_columns_are_few(columns: int) -> None:
    """All 52,394 triples of 69 columns were measured and audited: an opening took many minutes."""
    domain = Domain({f"c{i}": 2 for i in range(columns)})
    sets = [domain.canonical(names) for names in warmup.default_workload(domain).marginals]
    assert len(sets) <= warmup.MOST_PAIRS
    assert len(sets[0]) == (3 if columns <= 30 else 2 if columns <= 256 else 1)
    order = warmup.default_order(domain)
    assert comb(columns, order) * warmup.SET_STEPS <= LONGEST_AUDIT
    assert order == (3 if columns <= 57 else 2 if columns <= 247 else 1)


@pytest.mark.parametrize("crash", [1, 2, 3], ids=["measurements", "audit", "typical error"])
def test_an_opening_that_another_bound_began_goes_on(
    crash: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version measured and audited triples of any number of columns, and stopped before an answer."""
    domain = Domain({f"c{i}": 2 for i in range(8)})
    table, settle, settled = of_codes(domain, drawn(8), 100), Ledger.settle, 0

    def stopped(*arguments: Any, **options: Any) -> Any:
        nonlocal settled
        settled += 1
        if settled == crash:
            raise KeyboardInterrupt
        return settle(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "settle", stopped)
        patch.setattr(warmup, "SET_STEPS", 0)
        with pytest.raises(KeyboardInterrupt):
            Session.open(tmp_path / "a.ledger", table, BUDGET, warm_start=0.5)
    monkeypatch.setattr(warmup, "TARGET_SETS", 10)
    monkeypatch.setattr(warmup, "SET_STEPS", LONGEST_AUDIT)
    with Session.open(tmp_path / "a.ledger", table, BUDGET, warm_start=0.5) as session:
        (certificate,) = session.certificates
        assert len(certificate.sets) == (8 if crash == 1 else comb(8, 3))
        assert all(not reservation.pending for reservation in session.state.ledger.reservations("measure"))


@pytest.mark.slow
def test_a_session_of_sixty_nine_columns_measures_and_audits_pairs() -> None:
    domain = Domain({f"c{i}": 2 for i in range(69)})
    with Session.open(None, of_codes(domain, drawn(69), 100), BUDGET, warm_start=0.5) as session:
        assert {len(marginal.attributes) for marginal in session.state.knowledge.marginals} == {1, 2}
        (certificate,) = session.certificates
        assert len(certificate.sets) == comb(69, 2)
        assert session.ask(rt.count((rt.col("c0") == 0) & (rt.col("c1") == 0))).certified
