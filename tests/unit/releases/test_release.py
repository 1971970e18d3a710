"""A release: what it answers, what it keeps on disk, how it shares a ledger, and what it refuses."""

from __future__ import annotations

import copy
import json
import pickle
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.small_tables import skewed

import reticent as rt
from reticent.errors import DomainError, QueryError
from reticent.kernel.ledger.events import sha256
from reticent.kernel.ledger.ledger import Ledger
from reticent.knowledge.answer import Answer
from reticent.knowledge.guarantees import Progress
from reticent.knowledge.publications import composing

DOMAIN = rt.Domain({"a": 3, "b": 4, "c": 2})
ROWS = 900
BUDGET = rt.Budget(epsilon=1, delta=1e-9)


@pytest.fixture(scope="module")
def table() -> rt.Table:
    rng = np.random.default_rng(1)
    cells = rng.choice(24, size=ROWS, p=rng.dirichlet(np.full(24, 0.5)))
    a, b, c = np.unravel_index(cells, (3, 4, 2))
    return rt.Table.of(pa.table({"a": a, "b": b, "c": c}), DOMAIN, name="people")


@pytest.fixture(scope="module")
def release(table: rt.Table) -> rt.Release:
    return rt.release(table, rt.marginals(DOMAIN, 2), BUDGET)


def test_answers_carry_their_certificate(release: rt.Release) -> None:
    cell = release.answer(rt.count((rt.col("a") == 1) & (rt.col("b") == 2)))
    assert cell.certified
    assert cell.error is not None
    assert cell.error <= min(c.bound for c in release.certificates) * 1.001
    assert cell.count == pytest.approx(cell.value * ROWS)
    wide = release.answer(rt.count((rt.col("a") == 1) & (rt.col("b") == 2) & (rt.col("c") == 0)))
    assert not wide.certified
    assert wide.origin == "hypothesis"
    both = release.answer(rt.marginal("c", "a"))
    assert both.value.shape == (2, 3)
    assert both.value.sum() == pytest.approx(1)
    assert both.to_arrow().num_rows == 6
    assert "uncertified" not in repr(cell)


def test_a_bound_wider_than_the_table_is_not_called_certified() -> None:
    domain = rt.Domain(a=2, b=3)
    table = rt.Table.of(pa.table({"a": [0, 1, 1], "b": [0, 1, 2]}), domain, neighbours="add-remove")
    release = rt.release(table, rt.marginals(domain, 2), rt.Budget(rho=0.01), progress=False)
    assert not release.answer(rt.marginal("a", "b")).certified
    assert "workload cells not certified: too few records for this budget>" in repr(release)


def test_it_survives_the_disk_to_the_bit(release: rt.Release, tmp_path: Path) -> None:
    path = release.save(tmp_path / "people.release")
    again = rt.Release.load(path)
    question = rt.count(rt.col("b") >= 2)
    assert again.answer(question).to_dict() == release.answer(question).to_dict()
    assert again.hypothesis.to_bytes() == release.hypothesis.to_bytes()
    assert len(again.measurements) == len(release.measurements)
    assert again.synthesize(50, seed=3).equals(release.synthesize(50, seed=3))
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["facts"]["budget"] == composing(BUDGET).to_dict()


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_other_files_are_refused_in_one_line(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.release"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(rt.ReticentError) as problem:
        rt.Release.load(path)
    assert "\n" not in str(problem.value)


def test_a_ledger_is_shared_and_a_second_call_spends_nothing(table: rt.Table, tmp_path: Path) -> None:
    path, half = tmp_path / "people.ledger", rt.Budget(rho=0.005)
    with rt.Ledger.open(path, identity=table.identity, budget=rt.Budget(rho=0.02)):
        pass
    first = rt.release(table, rt.marginals(DOMAIN, 2), half, ledger=path)
    again = rt.release(table, rt.marginals(DOMAIN, 2), half, ledger=path)
    assert first.hypothesis.to_bytes() == again.hypothesis.to_bytes()
    other = rt.release(table, rt.marginals(DOMAIN, 1), half, ledger=path)
    assert first.facts["spent"] == again.facts["spent"] <= half.limit
    with rt.Ledger.open(path, identity=table.identity, budget=rt.Budget(rho=0.02)) as ledger:
        assert ledger.spent == first.facts["spent"] + other.facts["spent"]
    with pytest.raises(rt.QueryError, match="one kind"):
        rt.release(table, rt.marginals(DOMAIN, 1), rt.Budget(epsilon=1), ledger=path)


@pytest.mark.parametrize(
    ("whole", "asked"),
    [
        (rt.Budget(rho=0.02), rt.Budget(epsilon=0.02)),
        (rt.Budget(epsilon=1, delta=1e-9, noise="gaussian"), rt.Budget(epsilon=0.01)),
        (rt.Budget(epsilon=4), rt.Budget(rho=4)),
    ],
)
def test_an_open_ledger_pays_in_its_own_unit_only(table: rt.Table, whole: rt.Budget, asked: rt.Budget) -> None:
    """Charged in rho, a release would otherwise state as many units of pure epsilon, which is much more."""
    ledger = Ledger.memory(identity=table.identity, budget=whole)
    with pytest.raises(rt.QueryError, match="one kind"):
        rt.release(table, rt.marginals(DOMAIN, 1), asked, ledger=ledger)
    assert ledger.spent == 0


def test_an_exhausted_ledger_refuses_before_it_measures(table: rt.Table, tmp_path: Path) -> None:
    path, budget = tmp_path / "people.ledger", rt.Budget(rho=0.01)
    rt.release(table, rt.marginals(DOMAIN, 2), budget, ledger=path)
    with pytest.raises(rt.BudgetError, match=r"people\.ledger: nothing is left of this ledger's rho to pay") as refused:
        rt.release(table, rt.marginals(DOMAIN, 1), budget, ledger=path)
    assert "\n" not in str(refused.value)


class Crash(Exception):
    pass


def crash(progress: Progress) -> None:
    if progress.step >= 4:
        raise Crash


def test_dualquery_resumes_by_its_first_plan_and_stops_where_others_left_too_little(table, tmp_path: Path) -> None:
    """What is left now would make another plan, whose rounds are not those already paid."""
    path, workload, wanted = tmp_path / "people.ledger", rt.marginals(DOMAIN, 2), rt.Budget(rho=0.02)
    with rt.Ledger.open(path, identity=table.identity, budget=wanted):
        pass
    with pytest.raises(Crash):
        rt.release(table, workload, wanted, algorithm=rt.DualQuery(), ledger=path, progress=crash)
    rt.release(table, rt.marginals(DOMAIN, 1), rt.Budget(rho=0.008), ledger=path)
    resumed = rt.release(table, workload, wanted, algorithm=rt.DualQuery(), ledger=path)
    undisturbed = rt.release(table, workload, wanted, algorithm=rt.DualQuery())
    assert 4 < resumed.notes["rounds"] < undisturbed.notes["rounds"]
    assert resumed.notes["step"] == undisturbed.notes["step"]
    assert resumed.notes["unpaid rounds"] == undisturbed.notes["rounds"] - resumed.notes["rounds"]
    assert resumed.facts["spent"] <= 0.013e9
    again = rt.release(table, workload, wanted, algorithm=rt.DualQuery(), ledger=path)
    assert resumed.hypothesis.to_bytes() == again.hypothesis.to_bytes()


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("budget", [rt.Budget(epsilon=2), rt.Budget(rho=0.05)], ids=["pure", "zcdp"])
def test_every_algorithm_publishes(neighbours: str, budget: rt.Budget) -> None:
    rng = np.random.default_rng(2)
    rows = pa.table({name: rng.integers(0, DOMAIN[name].size, 4000) for name in DOMAIN.names})
    private = rt.Table.of(rows, DOMAIN, neighbours=neighbours)  # pyright: ignore[reportArgumentType]
    for algorithm in (rt.Adaptive(), rt.MWEM(rounds=4), rt.DualQuery(rounds=6, draws=4)):
        published = rt.release(private, rt.marginals(DOMAIN, 2), budget, algorithm=algorithm)
        assert published.facts["spent"] <= budget.limit
        assert published.hypothesis.marginal(("a",)).sum() == pytest.approx(1)
        assert rt.evaluate(published, private, rt.marginals(DOMAIN, 2)).max_error < 0.5


def test_a_secret_sample_is_charged_for_its_own_size(table: rt.Table) -> None:
    published = rt.release(
        table, rt.marginals(DOMAIN, 2), BUDGET, algorithm=rt.DualQuery(rounds=5, draws=2, sample=300)
    )
    assert published.records == ROWS
    assert published.notes["sample"] == 300
    assert 0 < published.facts["spent"] <= BUDGET.limit
    with pytest.raises(rt.SourceError, match="between 1 and 900"):
        rt.release(table, rt.marginals(DOMAIN, 2), BUDGET, algorithm=rt.DualQuery(sample=901))


def test_bad_input_is_one_line_and_spends_nothing(table: rt.Table, tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    with rt.Ledger.open(path, identity=table.identity, budget=BUDGET):
        pass
    calls = [
        lambda: rt.release(table, rt.Workload([rt.marginal("a", "nobody")]), BUDGET, ledger=path),
        lambda: rt.release(table, rt.Workload([]), BUDGET, ledger=path),
        lambda: rt.release(table, rt.marginals(DOMAIN, 2), BUDGET, algorithm=rt.TextbookPMW(error=0.01), ledger=path),
        lambda: rt.Adaptive(audit_share=0.9),
        lambda: rt.Adaptive(model_cells=0),
        lambda: rt.Budget(epsilon=0),
        lambda: rt.Budget(epsilon=-1),
        lambda: rt.Budget(epsilon=1e9),
        lambda: rt.Budget(epsilon=1, delta=0),
        lambda: rt.Budget(epsilon=1, delta=1),
    ]
    for call in calls:
        with pytest.raises((rt.ReticentError, DomainError)) as problem:
            call()
        assert "\n" not in str(problem.value)
    with rt.Ledger.open(path, identity=table.identity, budget=BUDGET) as ledger:
        assert ledger.spent == 0


def test_an_attribute_with_one_value_is_harmless() -> None:
    domain = rt.Domain({"a": 3, "only": 1})
    rows = pa.table({"a": np.arange(300) % 3, "only": np.zeros(300, dtype=int)})
    published = rt.release(rt.Table.of(rows, domain), rt.marginals(domain, 2), BUDGET)
    assert published.answer(rt.count(rt.col("only") == 0)).value == pytest.approx(1)


def test_rows_are_counted_by_the_custodian_only(release: rt.Release, table: rt.Table) -> None:
    found = rt.evaluate(release, table, rt.marginals(DOMAIN, 2))
    assert "NOT PRIVATE" in str(found)
    rows = rt.evaluate(release.synthesize(ROWS), table, rt.marginals(DOMAIN, 2))
    assert rows.mean_total_variation is not None
    assert found.mean_total_variation is not None
    assert rows.mean_total_variation < found.mean_total_variation + 0.02


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"table": None}, "table is of type NoneType; give rt.Table"),
        ({"table": pa.table({"a": [4711]})}, "table is of type Table; give rt.Table"),
        ({"workload": "marginals:2"}, "workload is of type str; give rt.marginals"),
        ({"budget": 1.0}, "budget is of type float; give rt.Budget"),
        ({"algorithm": "mwem"}, r"algorithm is of type str; give an instance, for example rt.MWEM\(\)"),
        ({"algorithm": rt.MWEM}, "algorithm is the class MWEM; give an instance"),
    ],
    ids=["table", "rows", "workload", "budget", "name of an algorithm", "class of an algorithm"],
)
def test_an_argument_of_another_kind_is_refused_in_one_line(table: rt.Table, changed: dict, told: str) -> None:
    arguments = {"table": table, "workload": rt.marginals(DOMAIN, 1), "budget": BUDGET} | changed
    with pytest.raises(QueryError, match=told) as refused:
        rt.release(**arguments)
    assert "4711" not in str(refused.value), "a value from the rows"
    if not changed.keys() & {"workload", "algorithm"}:
        with pytest.raises(QueryError, match=told):
            rt.Session.open(None, arguments["table"], arguments["budget"])


def test_smaller_marginals_are_certified_as_tightly_as_those_of_the_workload(release: rt.Release) -> None:
    whole, part = release.answer(rt.marginal("a", "b")), release.answer(rt.marginal("a"))
    assert whole.certified
    assert part.certified
    assert part.error == whole.error


def test_publishing_again_with_the_same_ledger_says_that_nothing_was_charged(table: rt.Table, tmp_path: Path) -> None:
    ledger = tmp_path / "l"
    first = rt.release(table, rt.marginals(DOMAIN, 1), BUDGET, ledger=ledger)
    again = rt.release(table, rt.marginals(DOMAIN, 1), BUDGET, ledger=ledger)
    assert first.facts["charged_now"] == first.facts["spent"] > 0
    assert (again.facts["charged_now"], again.facts["spent"]) == (0, first.facts["spent"])


def test_the_same_release_has_the_same_bytes_whenever_it_is_saved(
    release: rt.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = release.to_bytes()
    moment = time.localtime(10**9)
    monkeypatch.setattr(time, "localtime", lambda *_: moment)
    assert release.to_bytes() == before
    assert rt.Release.from_bytes(before).to_bytes() == before
    assert sha256(release.save(tmp_path / "a.release").read_bytes()) == release.digest


def test_an_anchor_elsewhere_is_used_and_one_without_a_file_refused(table: rt.Table, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere.anchor"
    rt.release(table, rt.marginals(DOMAIN, 1), BUDGET, ledger=tmp_path / "l", anchor=place)
    assert place.exists()
    assert not (tmp_path / "l.anchor").exists()
    with pytest.raises(rt.QueryError, match="anchor="):
        rt.release(table, rt.marginals(DOMAIN, 1), BUDGET, anchor=place)


def test_a_stub_of_a_ledger_is_made_anew_by_a_release(table: rt.Table, tmp_path: Path) -> None:
    (tmp_path / "l").touch()
    rt.release(table, rt.marginals(DOMAIN, 1), BUDGET, ledger=tmp_path / "l")


def test_answers_are_equal_where_their_content_is(release: rt.Release) -> None:
    for query in (rt.count(rt.col("a") == 1), rt.marginal("a", "b")):
        one, two = release.answer(query), release.answer(query)
        assert one == two == Answer.from_dict(json.loads(json.dumps(one.to_dict())))
        assert hash(one) == hash(two)
        assert one != replace(two, value=np.asarray(two.value) + 1e-9)
        assert one != replace(two, error=0.5)
    assert release.answer(rt.marginal("a", "b")) != release.answer(rt.marginal("b", "a"))
    assert release.ask("SELECT COUNT(*) FROM t") == release.ask("SELECT COUNT(*) FROM t")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))])
def test_a_release_can_be_copied_and_pickled(release: rt.Release, again: Callable[[rt.Release], rt.Release]) -> None:
    twin, query = again(release), rt.marginal("a", "b")
    assert twin.answer(query) == release.answer(query)
    assert twin.certificates == release.certificates
    assert twin.facts["spent"] == release.facts["spent"]


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("SELECT COUNT(*) FROM t", r"accepted by ask\(...\) only"),
        (rt.col("a") == 1, r"wrap it: rt.count\(...\)"),
        (None, "the question is of type NoneType; give rt.count"),
    ],
    ids=["SQL", "condition", "nothing"],
)
def test_what_is_no_query_is_refused_with_the_way_to_ask_it(release: rt.Release, question: Any, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        release.answer(question)
    if not isinstance(question, str):
        with pytest.raises(QueryError, match=told):
            release.ask(question)


def test_whole_numbers_of_numpy_are_taken_everywhere(release: rt.Release, tmp_path: Path) -> None:
    assert release.synthesize(np.int64(5), seed=np.int64(1)) == release.synthesize(5, seed=1)  # type: ignore[arg-type]
    for rows, seed in ((2.5, 1), (0, 1), (True, 1), (5, "a")):
        with pytest.raises(QueryError, match="whole number"):
            release.synthesize(rows, seed=seed)  # type: ignore[arg-type]
    declared = rt.Table.of(pa.table({"a": [0], "b": [0], "c": [0]}), DOMAIN, records=np.int64(900))  # type: ignore[arg-type]
    mwem = rt.MWEM(rounds=np.int64(2))  # type: ignore[arg-type]
    rt.release(declared, rt.marginals(DOMAIN, 1), BUDGET, algorithm=mwem, ledger=tmp_path / "l")


@pytest.mark.parametrize("path", [3, None, b"x"])
def test_a_release_is_loaded_from_a_named_file(path: Any) -> None:
    with pytest.raises(QueryError, match="path is of type"):
        rt.Release.load(path)


def test_an_evaluation_refuses_what_it_cannot_compare(release: rt.Release, table: rt.Table) -> None:
    rows, workload = pa.table({"a": [2], "b": [3], "c": [1]}), rt.marginals(DOMAIN, 1)
    nobody = rt.Table.of(rows.slice(0, 0), DOMAIN, neighbours="add-remove")
    for arguments, told in (
        ((release, table, [rt.marginal("a")]), "workload is of type list"),
        ((release, rows, workload), "table is of type Table; give the private rt.Table"),
        ((release, nobody, workload), "the table has no rows"),
        ((rows.slice(0, 0), table, workload), "what was published has no rows"),
    ):
        with pytest.raises(QueryError, match=told):
            rt.evaluate(*arguments)


@pytest.mark.parametrize("algorithm", [rt.Adaptive(), rt.MWEM(), rt.DualQuery()], ids=lambda a: type(a).__name__)
def test_a_budget_of_ten_units_is_refused_as_too_little(algorithm: Any) -> None:
    private = rt.Table.of(pa.table({"a": [0], "b": [0], "c": [0]}), DOMAIN, neighbours="add-remove")
    with pytest.raises(rt.BudgetError, match="rho 1e-08 cannot pay for") as refused:
        rt.release(private, rt.marginals(DOMAIN, 1), rt.Budget(rho=1e-8), algorithm=algorithm)
    assert refused.value.requested > refused.value.remaining


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


def test_a_refused_budget_names_amounts_in_its_own_unit() -> None:
    with pytest.raises(rt.BudgetError) as refused:
        rt.release(skewed(), rt.marginals(DOMAIN, 2), rt.Budget(rho=4e-9))
    assert refused.value.remaining <= 4e-9 < refused.value.requested < 1e-7
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.requested) == (str(refused.value), refused.value.requested)


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    release = rt.release(skewed(), rt.marginals(DOMAIN, 1), rt.Budget(rho=0.1))
    for write in (release.save, release.report):
        with pytest.raises(rt.ReticentError, match="cannot be written"):
            write(tmp_path / "missing" / "file")
        with pytest.raises(rt.ReticentError, match="cannot be written"):
            write(tmp_path)
