"""What the fourth review found: each test failed before its cure."""

from __future__ import annotations

import pickle
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Exponential, Laplace, Sensitivity
from reticent.queries.linear import Weighted
from reticent.releases.textbook import textbook_plan
from reticent.sessions.models import charged

DOMAIN = rt.Domain(a=3, b=4, c=2)
MIXED = rt.Domain(x=rt.Numeric(edges=[0, 1, 2, 3]), y=rt.Numeric(edges=[0, 1, 2]), z=2)


def table(records: int = 20_000, seed: int = 0) -> rt.Table:
    generator = np.random.default_rng(seed)
    rows = {
        "a": generator.integers(0, 3, records),
        "b": generator.integers(0, 4, records) ** 2 // 3,
        "c": (generator.random(records) < 0.2).astype(int),
    }
    return rt.Table.of(pa.table(rows), DOMAIN)


def mixed(records: int = 200_000) -> rt.Table:
    generator = np.random.default_rng(1)
    x = generator.random(records) * 3
    y = np.clip(x / 2 + generator.normal(0, 0.3, records), 0, 1.99)
    return rt.Table.of(pa.table({"x": x, "y": y, "z": generator.integers(0, 2, records)}), MIXED)


# -- what rests on another ledger's money says so ------------------------------------------------------------


def test_a_session_that_starts_from_a_release_states_both_prices(tmp_path: Path) -> None:
    rows, weak = table(), rt.Budget(epsilon=5, delta=1e-9)
    first = rt.release(rows, rt.marginals(DOMAIN, 2), weak)
    with rt.Session.open(None, rows, rt.Budget(epsilon=0.1), start=first) as session:
        published = session.release()
        assert session.describe()["guarantee"]["epsilon"][1e-9] > 4.9
        assert session.describe()["generalisation"]["expected_bias"] > 0.3
        page = session.report(tmp_path / "session.html").read_text()
    assert "0.1 (pure)" not in published.report(tmp_path / "release.html").read_text()
    assert "1.11 times" not in page
    assert published.facts["privacy"]["rho"] >= first.facts["privacy"]["rho"]
    assert rt.Budget.from_dict(published.facts["budget"]) == weak + rt.Budget(epsilon=0.1)


def test_a_chain_of_releases_never_states_less(tmp_path: Path) -> None:
    rows, release, rho = table(), None, 0.0
    for step in range(3):
        with rt.Session.open(tmp_path / f"{step}", rows, rt.Budget(rho=0.1), start=release) as session:
            session.ask(rt.count(rt.col("a") == step), error=0.0008)
            release = session.release()
        assert release.facts["privacy"]["rho"] > rho
        rho = release.facts["privacy"]["rho"]
    assert release is not None
    release.save(tmp_path / "kept.release")
    assert rt.Release.load(tmp_path / "kept.release").facts["publications"] == release.facts["publications"]


def test_a_release_of_the_same_ledger_is_not_charged_twice(tmp_path: Path) -> None:
    rows, budget = table(), rt.Budget(rho=1)
    first = rt.release(rows, rt.marginals(DOMAIN, 2), rt.Budget(rho=0.3), ledger=_begun(tmp_path / "l", rows, budget))
    with rt.Session.open(tmp_path / "l", rows, budget, start=first) as session:
        assert session.describe()["builds_on"] == []
        assert session.release().facts["privacy"]["rho"] == pytest.approx(session.spent)


def _begun(path: Path, rows: rt.Table, budget: rt.Budget) -> Path:
    Ledger.open(path, identity=rows.identity, budget=budget).close()
    return path


def test_a_release_for_persons_starts_no_session_about_records() -> None:
    rows = table()
    first = rt.release(rows, rt.marginals(DOMAIN, 1), rt.Budget(rho=0.1))
    first.facts["unit"] = "person"
    with pytest.raises(rt.QueryError, match="unit of privacy"):
        rt.Session.open(None, rows, rt.Budget(rho=0.1), start=first)


def test_the_noise_of_a_start_is_the_one_it_was_drawn_with() -> None:
    rows = table()
    pure = rt.release(rows, rt.marginals(DOMAIN, 2), rt.Budget(epsilon=0.01), algorithm=rt.Adaptive(histogram_cells=0))
    bounds = []
    start = pure
    for _ in range(2):
        with rt.Session.open(None, rows, rt.Budget(rho=0.1), start=start) as session:
            bounds.append(session.ask(rt.marginal("b"), confidence=0.999999).error)
            start = session.release()
    assert bounds[0] == bounds[1]


# -- releases, sessions and fits -----------------------------------------------------------------------------


def test_a_count_over_many_wide_attributes_does_not_lose_the_release() -> None:
    wide = rt.Domain(**{f"a{i}": 60 for i in range(7)})
    generator = np.random.default_rng(0)
    rows = rt.Table.of(pa.table({name: generator.integers(0, 60, 2000) for name in wide.names}), wide)
    one = reduce(and_, (rt.col(name) == 1 for name in wide.names[:5]))
    workload = rt.Workload([rt.count(one), rt.marginal("a0", "a1")])
    release = rt.release(rows, workload, rt.Budget(epsilon=1, delta=1e-9))
    assert release.answer(rt.marginal("a0", "a1")).certified


def test_pairs_too_wide_to_hold_are_refused_before_anything_is_spent() -> None:
    wide = rt.Domain(a=10_000, b=10_000)
    budget = rt.Budget(rho=0.1)
    rows = rt.Table.of(pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}), wide)
    ledger = Ledger.memory(identity=rows.identity, budget=budget)
    with pytest.raises(rt.QueryError, match="coarser bins"):
        rt.release(rows, rt.marginals(wide, 2), budget, ledger=ledger)
    assert ledger.spent == 0


def test_a_resumed_session_knows_what_waits_for_a_refit(tmp_path: Path) -> None:
    rows, budget = table(), rt.Budget(rho=1)
    with rt.Session.open(tmp_path / "l", rows, budget, warm_start=0) as session:
        session.ask(rt.marginal("b"), error=0.01)
        session.ask(rt.count((rt.col("a") == 1) | (rt.col("c") == 1)), error=0.01)
        session.ask_all([Weighted({"a": [i / 60, 0.5, 0.9 - i / 80]}) for i in range(60)], error=0.4)
        waiting = session.state.knowledge.unfitted
    with rt.Session.open(tmp_path / "l", rows, budget, warm_start=0) as session:
        assert session.state.knowledge.unfitted == waiting == 2
        measured = session.state.knowledge.marginals[0].values
        np.testing.assert_allclose(session.release().answer(rt.marginal("b")).value, measured, atol=0.02)


def test_models_use_the_tightest_certificate_not_the_newest() -> None:
    loss = rt.Squared(features=["x"], label="y")
    with rt.Session.open(None, mixed(), rt.Budget(rho=1), warm_start=0.5) as session:
        session.certify("predicates", order=2, amount=0.1)
        good = session.minimize(loss).error
        session.ask(rt.marginal("z"), error=0.00005)
        session.certify("predicates", order=2, amount=1e-6)
        assert session.minimize(loss).error == good
        assert session.cost(loss, error=good * 1.01) == 0


def test_a_keyed_fit_is_priced_whole_however_often_it_is_asked() -> None:
    loss = rt.Squared(features=["x"], label="y")
    with rt.Session.open(None, mixed(), rt.Budget(rho=1), warm_start=0) as session:
        first, again = (session.minimize(loss, error=0.05, key="alice/k", analyst="alice") for _ in range(2))
        assert first.to_dict() == again.to_dict()
        assert first.price == session.spent_by("alice") > 0
        assert session.budget.amount(charged(session.state, "alice/k")) == first.price


def test_free_keyed_statements_leave_no_trace(tmp_path: Path) -> None:
    with rt.Session.open(tmp_path / "l", table(), rt.Budget(rho=1), warm_start=0.5) as session:
        before = sum(1 for _ in session.state.ledger.events())
        for turn in range(3):
            session.ask("SELECT a, COUNT(*) FROM t GROUP BY a", error="20%", key=f"k{turn}")
        assert sum(1 for _ in session.state.ledger.events()) == before


def test_the_cost_of_a_batch_bounds_its_charge() -> None:
    batch = [Weighted({"a": [i / 60, 0.5, 0.9 - i / 80]}) for i in range(60)]
    with rt.Session.open(None, table(), rt.Budget(rho=1), warm_start=0) as session:
        most = session.cost(batch, error=0.01)
        session.ask_all(batch, error=0.01)
        assert 0 < session.spent <= most


# -- one ledger, one knowledge -------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("algorithm", [rt.Adaptive(), rt.MWEM(rounds=10), rt.DualQuery()], ids=repr)
def test_a_session_on_a_spent_ledger_answers_from_what_was_published(
    tmp_path: Path, neighbours: Any, algorithm: Any
) -> None:
    generator = np.random.default_rng(3)
    rows = pa.table({name: generator.integers(0, DOMAIN[name].size, 5000) ** 2 // 3 for name in DOMAIN.names})
    private, budget = rt.Table.of(rows, DOMAIN, neighbours=neighbours), rt.Budget(epsilon=1, delta=1e-9)
    release = rt.release(private, rt.marginals(DOMAIN, 2), budget, algorithm=algorithm, ledger=tmp_path / "l")
    query = rt.count(rt.col("b") == 0)
    for _ in range(2):
        with rt.Session.open(tmp_path / "l", private, budget) as session:
            answer, published = session.ask(query), release.answer(query)
            assert answer.value == pytest.approx(published.value, abs=2 * (published.error or 0))
            assert answer.certified == published.certified
            assert session.describe()["builds_on"] == []


def test_what_a_release_measured_is_known_to_a_session_that_can_still_pay(tmp_path: Path) -> None:
    rows, budget, share = table(), rt.Budget(rho=0.1), rt.Budget(rho=0.03)
    path = _begun(tmp_path / "l", rows, budget)
    rt.release(rows, rt.marginals(DOMAIN, 2), share, ledger=path)
    with rt.Session.open(path, rows, budget) as session:
        own = sum(len(bought.queries) for bought in session.state.journal.bought("session:warm"))
        assert len(session.state.knowledge.marginals) > own > 0
        before = len(session.state.knowledge.marginals)
    rt.release(rows, rt.marginals(DOMAIN, 1), share, ledger=path)
    for _ in range(2):
        with rt.Session.open(path, rows, budget) as session:
            assert len(session.state.knowledge.marginals) == before + 3
            assert session.state.knowledge.unfitted == 0


def test_free_answers_name_no_ledger_event() -> None:
    with rt.Session.open(None, table(), rt.Budget(rho=1), warm_start=0.5) as session:
        assert session.ask(rt.count(rt.col("a") == 1)).ledger_id is None
        query = rt.count((rt.col("a") == 1) | (rt.col("c") == 1))
        assert session.ask(query, error=0.0003).ledger_id is not None
        assert session.ask(query, error=0.0003).ledger_id is None


@pytest.mark.parametrize("budget", [rt.Budget(epsilon=1000), rt.Budget(epsilon=1000, delta=1e-9), rt.Budget(rho=1000)])
def test_a_budget_that_promises_nothing_is_still_reported(tmp_path: Path, budget: rt.Budget) -> None:
    with rt.Session.open(None, table(100), budget) as session:
        assert "e^" in session.report(tmp_path / "s.html").read_text()
        assert session.describe()["generalisation"]["expected_bias"] == 1


def test_a_refused_budget_names_amounts_in_its_own_unit() -> None:
    with pytest.raises(rt.BudgetError) as refused:
        rt.release(table(), rt.marginals(DOMAIN, 2), rt.Budget(rho=4e-9))
    assert refused.value.remaining <= 4e-9 < refused.value.requested < 1e-7
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.requested) == (str(refused.value), refused.value.requested)


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    release = rt.release(table(), rt.marginals(DOMAIN, 1), rt.Budget(rho=0.1))
    for write in (release.save, release.report):
        with pytest.raises(rt.ReticentError, match="cannot be written"):
            write(tmp_path / "missing" / "file")
        with pytest.raises(rt.ReticentError, match="cannot be written"):
            write(tmp_path)


@pytest.mark.parametrize("budget", [rt.Budget(epsilon=1), rt.Budget(epsilon=1, delta=1e-9), rt.Budget(rho=3e-7)])
@pytest.mark.parametrize("error", [0.05, 0.2, 0.9])
def test_every_planned_round_of_the_textbook_can_be_paid(budget: rt.Budget, error: float) -> None:
    plan = textbook_plan(error, 0.05, 1000, 5.0, budget, budget.limit)
    if plan.epsilon:
        prices = Exponential(plan.epsilon).price(), Laplace(1 / plan.epsilon).price(Sensitivity.scalar())
        assert plan.rounds * sum(map(budget.cost, prices)) <= budget.limit
