"""Sessions that start from a release: they know what it measured and state what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.small_tables import DOMAIN, begun_ledger, skewed, uniform

import reticent as rt
from reticent.knowledge.publications import composing


def test_a_session_that_starts_from_a_release_states_both_prices(tmp_path: Path) -> None:
    rows, weak = skewed(), rt.Budget(epsilon=5, delta=1e-9)
    first = rt.release(rows, rt.marginals(DOMAIN, 2), weak)
    with rt.Session.open(None, rows, rt.Budget(epsilon=0.1), start=first) as session:
        published = session.release()
        assert session.describe()["guarantee"]["epsilon"][1e-9] > 4.9
        assert session.describe()["generalisation"]["expected_bias"] > 0.3
        page = session.report(tmp_path / "session.html").read_text()
    assert "0.1 (pure)" not in published.report(tmp_path / "release.html").read_text()
    assert "1.11 times" not in page
    assert published.facts["privacy"]["rho"] >= first.facts["privacy"]["rho"]
    assert rt.Budget.from_dict(published.facts["budget"]) == composing(weak) + rt.Budget(epsilon=0.1)


def test_a_chain_of_releases_never_states_less(tmp_path: Path) -> None:
    rows, release, rho = skewed(), None, 0.0
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
    rows, budget = skewed(), rt.Budget(rho=1)
    first = rt.release(
        rows, rt.marginals(DOMAIN, 2), rt.Budget(rho=0.3), ledger=begun_ledger(tmp_path / "l", rows, budget)
    )
    with rt.Session.open(tmp_path / "l", rows, budget, start=first) as session:
        assert session.describe()["builds_on"] == []
        assert session.release().facts["privacy"]["rho"] == pytest.approx(session.spent)


def test_a_release_for_persons_starts_no_session_about_records() -> None:
    rows = skewed()
    first = rt.release(rows, rt.marginals(DOMAIN, 1), rt.Budget(rho=0.1))
    first.facts["unit"] = "person"
    with pytest.raises(rt.QueryError, match="unit of privacy"):
        rt.Session.open(None, rows, rt.Budget(rho=0.1), start=first)


def test_the_noise_of_a_start_is_the_one_it_was_drawn_with() -> None:
    rows = skewed()
    pure = rt.release(rows, rt.marginals(DOMAIN, 2), rt.Budget(epsilon=0.01), algorithm=rt.Adaptive(histogram_cells=0))
    bounds = []
    start = pure
    for _ in range(2):
        with rt.Session.open(None, rows, rt.Budget(rho=0.1), start=start) as session:
            bounds.append(session.ask(rt.marginal("b"), confidence=0.999999).error)
            start = session.release()
    assert bounds[0] == bounds[1]


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
    rows, budget, share = skewed(), rt.Budget(rho=0.1), rt.Budget(rho=0.03)
    path = begun_ledger(tmp_path / "l", rows, budget)
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


def test_what_was_measured_on_a_sample_certifies_nothing_about_the_table() -> None:
    held = uniform(5_000)
    algorithm = rt.DualQuery(rounds=4, sample=20, refine=0.9)
    released = rt.release(held, rt.marginals(DOMAIN, 1), rt.Budget(rho=50), algorithm=algorithm)
    with rt.Session.open(None, held, rt.Budget(rho=1), start=released) as session:
        assert not session.ask(rt.marginal("b")).certified
