"""Rules of a domain from end to end: no algorithm publishes or draws a record that the domain declares impossible."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.domain.impossible import impossible_cells, impossible_rows
from reticent.errors import DomainError, QueryError
from reticent.hypotheses.base import Measurement
from reticent.hypotheses.fitting.histogram import estimate

RULES = ["age < 15 AND job <> 'none'", "age >= 60 AND school = 'yes'", "job = 'guard' AND sex = 'f' AND school = 'yes'"]
BUDGET = rt.Budget(epsilon=5, delta=1e-6)


def people(rules: list[str] = RULES) -> rt.Domain:
    return rt.Domain(
        age=rt.Numeric(edges=range(0, 91, 15), outside="clamp"),
        job=rt.Categorical(["none", "clerk", "guard"]),
        school=rt.Categorical(["no", "yes"]),
        sex=rt.Categorical(["f", "m"]),
        impossible=rules,
    )


def rows_of(domain: rt.Domain, count: int, seed: int, *, violating: int = 0) -> pa.Table:
    """Uneven records, of which the given number violate a rule."""
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, each.known, 8 * count) for each in domain.values()], axis=1)
    ruled = impossible_rows(domain, codes)
    kept = np.concatenate([codes[~ruled][: count - violating], codes[ruled][:violating]])
    kept[: count // 3, 3] = 0
    kept = kept[~impossible_rows(domain, kept)] if not violating else kept
    columns = {}
    for place, (name, attribute) in enumerate(domain.items()):
        columns[name] = pa.array([attribute.value(int(code)) for code in kept[:, place]])
    return pa.table(columns)


def violations(rows: pa.Table, rules: list[str] = RULES) -> int:
    """Counted by another engine than ours."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows", rows)
    where = " OR ".join(f"({rule})" for rule in rules)
    return connection.execute(f"SELECT count(*) FROM rows WHERE {where}").fetchone()[0]


ALGORITHMS = {
    "adaptive": rt.Adaptive(),
    "histogram": rt.Adaptive(histogram_cells=2**15, audit_share=0),
    "support": rt.Adaptive(dense_cells=1, histogram_cells=0),
    "mwem": rt.MWEM(rounds=6),
    "textbook": rt.TextbookPMW(error=0.2),
    "dualquery": rt.DualQuery(rounds=12, seed=3),
    "dualquery-exact": rt.DualQuery(rounds=4, player="exact", work=20, seed=3),
    "dualquery-refined": rt.DualQuery(rounds=8, refine=0.3, seed=3),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("violating", [0, 40])
def test_no_impossible_row_is_published(name: str, violating: int) -> None:
    """Also where the private table holds some: rules are declared, and do not depend on rows."""
    domain = people()
    table = rt.Table.of(rows_of(domain, 6000, 1, violating=violating), domain)
    release = rt.release(table, rt.marginals(domain, 2), BUDGET, algorithm=ALGORITHMS[name], progress=False)
    for names in itertools.combinations(domain.names, 3):
        ruled = impossible_cells(domain, names)
        if ruled is not None:
            assert (release.hypothesis.marginal(names)[ruled] == 0).all()
    for independent in (False, True):
        assert violations(release.synthesize(700, seed=5, independent=independent)) == 0
    again = rt.Release.from_bytes(release.to_bytes())
    assert again.domain == domain
    assert violations(again.synthesize(300, seed=6)) == 0
    child = (rt.col("age") < 15) & (rt.col("job") != "none")
    assert release.answer(rt.count(child)).value == 0


@pytest.mark.parametrize("sd", [0.3, 0.001])
def test_a_measured_histogram_keeps_its_zeros(sd: float) -> None:
    """Where noise drowns it, likely tables are averaged, none of which holds an impossible cell."""
    domain = rt.Domain({f"a{place}": 2 for place in range(5)}, impossible=["a0 = 0 AND a1 = 1", "a2 = 1 AND a3 = 1"])
    ruled = impossible_cells(domain, domain.names)
    assert ruled is not None
    random = np.random.default_rng(1)
    truth = np.where(ruled, 0.0, 1.0) / (~ruled).sum()
    measured = Measurement(rt.marginal(*domain.names), truth + random.normal(0, sd, truth.shape), sd)
    cells, how = estimate(domain, measured, [domain.names], laplace=False, generator=random)
    assert how == ("posterior mean" if sd > 0.1 else "fit and cells of their own")
    assert (cells[ruled] == 0).all()
    assert (cells[~ruled] > 0).all()
    assert cells.sum() == pytest.approx(1)


def test_certificates_hold_where_records_violate_the_rules() -> None:
    """An audit compares the hypothesis with the table as it is: its bound covers the violating records.

    A bound of confidence 1 - 1e-7 fails once in ten million runs.
    """
    domain = people()
    rows = rows_of(domain, 4000, 2, violating=400)
    table = rt.Table.of(rows, domain)
    workload = rt.marginals(domain, 2)
    release = rt.release(table, workload, BUDGET, algorithm=rt.Adaptive(confidence=1 - 1e-7), progress=False)
    child = (rt.col("age") < 15) & (rt.col("job") == "clerk")
    answer = release.answer(rt.count(child))
    assert answer.confidence == pytest.approx(1 - 1e-7, abs=1e-12)
    truth = violations(rows, ["age < 15 AND job = 'clerk'"]) / rows.num_rows
    assert truth > 0.01
    assert answer.value == 0
    assert answer.certified
    assert abs(answer.value - truth) <= answer.error


def test_sessions_answer_zero_and_statements_show_it() -> None:
    domain = people()
    table = rt.Table.of(rows_of(domain, 6000, 3), domain, name="people")
    with rt.Session.open(None, table, BUDGET, progress=False) as session:
        child = (rt.col("age") < 15) & (rt.col("job") != "none")
        answer = session.ask(rt.count(child))
        assert answer.value == 0
        found = session.ask(rt.marginal("age", "job"))
        assert (np.asarray(found.value)[0, 1:3] == 0).all()
        result = session.ask("SELECT age, job, count(*) AS n FROM people WHERE age < 15 GROUP BY age, job")
        assert {row[1]: row[2] for row in result.rows if row[1] != "none"} == dict.fromkeys(
            ("clerk", "guard", "(other)"), 0
        )
        assert session.describe()["impossible"] == RULES


@pytest.mark.parametrize("engine", ["textbook", "tuned"])
def test_threshold_engines_start_without_impossible_records(engine: str) -> None:
    domain = people()
    table = rt.Table.of(rows_of(domain, 60_000, 4), domain)
    with rt.Session.open(None, table, rt.Budget(epsilon=20, delta=1e-6), engine=engine, progress=False) as session:
        assert session.ask(rt.count((rt.col("age") < 15) & (rt.col("job") == "clerk"))).value < 0.05
        assert session.state.knowledge.current.marginal(("age", "job"))[0, 1:3].sum() == 0


def test_replicates_keep_zeros() -> None:
    domain = people()
    table = rt.Table.of(rows_of(domain, 3000, 5), domain)
    release = rt.release(table, rt.marginals(domain, 2), BUDGET, progress=False).replicates(10, progress=False)
    ruled = impossible_cells(domain, ("age", "job"))
    assert release.replicated is not None
    for marginal in release.replicated.marginal(("age", "job")):
        assert (marginal[ruled] == 0).all()


def test_rules_without_a_record_left_cost_nothing(tmp_path: Path) -> None:
    domain = rt.Domain({"a": 2, "b": 2}, impossible=["a = 0", "a = 1 AND b = 0", "a = 1 AND b = 1"])
    table = rt.Table.of(pa.table({"a": [0, 1], "b": [0, 1]}), domain)
    with pytest.raises(DomainError, match="exclude every record"):
        rt.release(table, rt.marginals(domain, 1), BUDGET, ledger=tmp_path / "a.ledger")
    assert not (tmp_path / "a.ledger").exists()
    with pytest.raises(DomainError, match="exclude every record"):
        rt.Session.open(None, table, BUDGET)


def test_a_model_too_small_for_the_rules_is_refused_before_anything_is_spent() -> None:
    domain = people()
    table = rt.Table.of(rows_of(domain, 100, 1), domain)
    with pytest.raises(QueryError, match="cannot hold the domain's impossible rules"):
        rt.release(table, rt.marginals(domain, 2), BUDGET, algorithm=rt.Adaptive(dense_cells=1, model_cells=30))


@pytest.mark.parametrize("name", ["adaptive", "support"])
def test_a_fit_that_rows_contradict_names_the_rules(name: str) -> None:
    domain = people()
    budget = rt.Budget(rho=100)
    rows = rows_of(domain, 2000, 3, violating=1000)
    made = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), budget, algorithm=ALGORITHMS[name])
    assert not made.notes["converged"]
    assert "rows probably break an impossible rule" in made.notes["fit"]
    without = people([])
    free = rt.release(rt.Table.of(rows, without), rt.marginals(without, 2), budget, algorithm=ALGORITHMS[name])
    assert "rule" not in free.notes["fit"]
