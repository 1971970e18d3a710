"""A release is refused before it spends anything, or published (spec answers.md 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.errors import ResourceError
from reticent.queries.base import Query
from reticent.queries.ranges import AllRanges
from reticent.releases import adaptive

Neighbours = Literal["replace-one", "add-remove"]
APPROXIMATE, PURE = rt.Budget(epsilon=1, delta=1e-9), rt.Budget(epsilon=1)
SIZES = {"a": 8, "b": 8, "c": 40, "d": 2}
LARGE = 1e6
"""An epsilon whose noise is far below the errors that a wrong audit would make."""


def table(sizes: dict[str, int], records: int, neighbours: Neighbours = "replace-one", seed: int = 0) -> rt.Table:
    generator = np.random.default_rng(seed)
    rows = {name: pa.array(generator.integers(0, size, records)) for name, size in sizes.items()}
    return rt.Table.of(pa.table(rows), rt.Domain(sizes), neighbours=neighbours)


def spent_by_refusal(held: rt.Table, workload: Any, budget: rt.Budget, algorithm: Any, error: type[Exception]) -> int:
    """What a ledger was charged for a release that is refused."""
    ledger = rt.Ledger.memory(budget, held.identity)
    with pytest.raises(error):
        rt.release(held, workload, budget, algorithm=algorithm, ledger=ledger, progress=False)
    return ledger.spent


def boxes_and(query: Query, domain: rt.Domain) -> rt.Workload:
    return rt.ranges(("a", "b")) + rt.Workload([query], domain=domain)


def unions(columns: tuple[str, ...], number: int, sizes: dict[str, int]) -> list[Query]:
    """Counts whose compiled form is a tensor over all columns."""
    generator = np.random.default_rng(3)
    asked = []
    for _ in range(number):
        limits = [rt.col(name) < int(generator.integers(1, sizes[name])) for name in columns]
        either = limits[0]
        for limit in limits[1:]:
            either |= limit
        asked.append(rt.count(either))
    return asked


@pytest.mark.parametrize("budget", [APPROXIMATE, PURE], ids=["approximate", "pure"])
@pytest.mark.parametrize("query", [rt.count(rt.col("c") < 20), rt.mean("c")], ids=["count", "mean"])
def test_boxes_beside_a_single_query_are_published(budget: rt.Budget, query: Query) -> None:
    held = table(SIZES, 5000)
    made = rt.release(held, boxes_and(query, held.domain), budget, progress=False)
    for release in (made, rt.Release.from_bytes(made.to_bytes())):
        (guarantee,) = release.guarantees
        assert len(guarantee.measured) == 1
        assert guarantee.error_of(query.compile(held.domain)) == guarantee.bound < 1  # pyright: ignore[reportAttributeAccessIssue]
        assert {certificate.kind for certificate in release.certificates} == {"cells", "boxes"}
        assert release.answer(rt.count(rt.col("a").between(2, 5) & (rt.col("b") < 4))).certified
    assert rt.Release.from_bytes(made.to_bytes()).to_bytes() == made.to_bytes()


def test_what_is_not_a_single_query_is_not_in_their_guarantee() -> None:
    held = table(SIZES, 5000)
    made = rt.release(held, boxes_and(rt.mean("c"), held.domain) + rt.ranges("d"), APPROXIMATE, progress=False)
    (guarantee,) = made.guarantees
    assert guarantee.error_of(rt.count(rt.col("d") == 1).compile(held.domain)) == np.inf


def test_queries_that_are_read_off_levels_are_audited_beside_tables() -> None:
    """A query inside a column of ranges is not measured itself, so all single queries are audited."""
    held = table(SIZES, 5000)
    inside = rt.count(rt.col("a") < 3)
    workload = boxes_and(rt.mean("c"), held.domain) + rt.Workload([inside], domain=held.domain)
    made = rt.release(held, workload, APPROXIMATE, progress=False)
    for release in (made, rt.Release.from_bytes(made.to_bytes())):
        own, audit = release.guarantees
        assert len(own.measured) == 1
        assert audit.singles
        assert audit.error_of(inside.compile(held.domain)) == audit.bound < 1
        assert audit.covered == "every single query of the workload"


def test_an_audit_that_began_with_tables_goes_on_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, path = table(SIZES, 5000), tmp_path / "a.ledger"
    workload = rt.ranges("a") + rt.Workload([rt.mean("c"), rt.count(rt.col("a") < 3)], domain=held.domain)

    def formerly(*given: Any, **named: Any) -> None:
        audit(*given, **{**named, "tables": True})
        raise KeyboardInterrupt

    audit = adaptive.audited
    with monkeypatch.context() as patched:
        patched.setattr(adaptive, "audited", formerly)
        with pytest.raises(KeyboardInterrupt):
            rt.release(held, workload, APPROXIMATE, ledger=path)
    _, guarantee = rt.release(held, workload, APPROXIMATE, ledger=path).guarantees
    assert not guarantee.singles
    assert guarantee.error_of(rt.count(rt.col("a") < 3).compile(held.domain)) < 1


def test_large_predicates_are_audited_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the audit holds, and is tight only if each query is compared with its own guess."""
    for place in ("queries.scalars", "releases.workload_audit"):
        monkeypatch.setattr(f"reticent.{place}.MOST_TENSOR_CELLS", 1000, raising=False)
    held = table(SIZES, 5000)
    asked = unions(("a", "b", "c"), 6, SIZES)
    made = rt.release(held, rt.Workload(asked), rt.Budget(epsilon=LARGE), progress=False)
    (guarantee,) = made.guarantees
    assert guarantee.bound < 1e-3
    again = table(SIZES, 5000)
    exact = rt.release(again, rt.marginals(held.domain, 3), rt.Budget(epsilon=LARGE), progress=False)
    for query in asked:
        assert made.answer(query).value == pytest.approx(exact.answer(query).value, abs=2e-3)


def test_no_audit_of_the_default_release_lists_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(AllRanges, "answers", refused)
    monkeypatch.setattr(AllRanges, "spans", refused)
    held = table({"a": 2000, "b": 2}, 3000)
    either = rt.count((rt.col("a") < 1000) | (rt.col("b") == 1))
    workload = rt.ranges("a") + rt.Workload([either], domain=held.domain)
    made = rt.release(held, workload, APPROXIMATE, progress=False)
    assert made.answer(either).certified
    assert made.answer(rt.count(rt.col("a").between(10, 900))).certified


@pytest.mark.parametrize("algorithm", [rt.MWEM(rounds=1), rt.DualQuery(rounds=2, draws=2)], ids=["mwem", "dualquery"])
def test_a_selection_among_too_many_ranges_is_refused(algorithm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12,502,500 ranges, MWEM takes 85 bytes each at least: 1.06 GB in all, measured."""
    monkeypatch.setattr("reticent.hypotheses.memory.available", lambda: 10**9)
    held = table({"a": 5000, "b": 2}, 100)
    assert spent_by_refusal(held, rt.ranges("a"), APPROXIMATE, algorithm, ResourceError) == 0


def test_a_budget_below_two_audits_is_told_how_to_leave_them_out() -> None:
    held, budget = table(SIZES, 100), rt.Budget(epsilon=1e-3, delta=1e-12)
    with pytest.raises(rt.BudgetError, match=r"rt\.Adaptive\(audit_share=0\)"):
        rt.release(held, rt.marginals(held.domain, 1), budget, progress=False)
    followed = rt.release(
        held, rt.Workload([rt.marginal("a")]), budget, algorithm=rt.Adaptive(audit_share=0), progress=False
    )
    assert followed.certificates == ()


def test_units_that_single_queries_leave_pay_for_some_of_the_tables() -> None:
    held = table({"a": 3, "b": 2, "c": 60, "d": 60}, 50)
    workload = rt.Workload([rt.mean("b"), *rt.ranges("a").ranges], weights=[10, 0.001], domain=held.domain)
    made = rt.release(held, workload, rt.Budget(epsilon=1e-6), algorithm=rt.Adaptive(audit_share=0), progress=False)
    assert made.notes["queries"] == 1


def test_mwem_without_a_public_number_of_records_is_refused_before_it_counts_them() -> None:
    held = table(SIZES, 50, "add-remove")
    workload = rt.marginals(held.domain, 1)
    assert spent_by_refusal(held, workload, rt.Budget(rho=2e-8), rt.MWEM(rounds=20), rt.BudgetError) == 0


def test_dualquery_refuses_its_plan_before_it_refines() -> None:
    held = table(SIZES, 50)
    algorithm = rt.DualQuery(refine=0.1, rounds=50, draws=50, step=2)
    assert spent_by_refusal(held, rt.marginals(held.domain, 1), PURE, algorithm, rt.BudgetError) == 0


def test_dualquery_that_has_counted_the_records_is_published_without_the_rounds_it_cannot_pay() -> None:
    held = table(SIZES, 50, "add-remove")
    made = rt.release(
        held, rt.marginals(held.domain, 1), PURE, algorithm=rt.DualQuery(rounds=50, draws=50, step=2), progress=False
    )
    assert made.notes["rounds"] == 1


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_dualquery_refuses_large_predicates_before_it_measures(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent.queries.scalars.MOST_TENSOR_CELLS", 1000)
    held = table(SIZES, 500, neighbours)
    workload = rt.Workload(unions(("a", "b", "c"), 3, SIZES))
    assert spent_by_refusal(held, workload, PURE, rt.DualQuery(refine=0.1), rt.QueryError) == 0


BUDGETS = [
    APPROXIMATE,
    PURE,
    rt.Budget(rho=0.1),
    rt.Budget(epsilon=100),
    rt.Budget(epsilon=0.01, delta=1e-12),
    rt.Budget(epsilon=0.001, delta=1e-12),
    rt.Budget(epsilon=1e-6),
    rt.Budget(rho=2e-9),
    rt.Budget(rho=8e-8),
]
ALGORITHMS = [
    rt.Adaptive(),
    rt.Adaptive(),
    rt.Adaptive(audit_share=0),
    rt.MWEM(),
    rt.MWEM(rounds=3),
    rt.DualQuery(rounds=3),
    rt.DualQuery(refine=0.1, rounds=4),
    rt.DualQuery(error=0.5),
    rt.DualQuery(rounds=20, draws=30, step=2),
]
KINDS = ["marginal", "ranges", "prefixes", "boxes", "count", "union", "mean"]


def drawn(generator: np.random.Generator, sizes: dict[str, int]) -> Query:
    """A query or a set of ranges, over columns and limits by chance."""
    names = [str(name) for name in generator.permutation(list(sizes))]
    kind = generator.choice(KINDS)
    if kind == "marginal":
        return rt.marginal(*names[: int(generator.integers(1, 3))])
    if kind in ("ranges", "prefixes"):
        return AllRanges(names[0], kind == "prefixes")
    if kind == "boxes":
        return AllRanges(names[0], bool(generator.integers(0, 2)), (names[1],))
    if kind == "mean":
        return rt.mean(names[0])
    limits = [rt.col(name) >= int(generator.integers(0, sizes[name])) for name in names[: generator.integers(1, 4)]]
    condition = limits[0]
    for limit in limits[1:]:
        condition = condition | limit if kind == "union" else condition & limit
    return rt.count(condition)


def refused_unpaid_or_published(seed: int, codes: list[int]) -> None:
    generator = np.random.default_rng(seed)
    sizes = {f"a{place}": int(generator.choice(codes)) for place in range(generator.integers(2, 6))}
    neighbours: Neighbours = "add-remove" if generator.integers(0, 2) else "replace-one"
    records = [1, 50, 3000] + ([0] if neighbours == "add-remove" else [])
    held = table(sizes, int(generator.choice(records)), neighbours, seed)
    queries = [drawn(generator, sizes) for _ in range(generator.integers(1, 6))]
    weights = [float(generator.choice([1, 1, 1e-3, 10])) for _ in queries]
    budget, algorithm = BUDGETS[generator.integers(len(BUDGETS))], ALGORITHMS[generator.integers(len(ALGORITHMS))]
    ledger = rt.Ledger.memory(budget, held.identity)
    try:
        workload = rt.Workload(queries, weights=weights, domain=held.domain)
        made = rt.release(held, workload, budget, algorithm=algorithm, ledger=ledger, progress=False)
    except rt.ReticentError:
        assert ledger.spent == 0, f"paid and refused: {budget}, {algorithm}, {sizes}, {queries}, {weights}"
    else:
        assert ledger.spent <= budget.limit
        assert rt.Release.from_bytes(made.to_bytes()).digest == made.digest


@pytest.mark.parametrize("seed", range(40))
def test_any_release_is_refused_unpaid_or_published(seed: int) -> None:
    refused_unpaid_or_published(seed, [2, 3, 8, 20])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_any_larger_release_is_refused_unpaid_or_published(seed: int) -> None:
    refused_unpaid_or_published(seed, [2, 8, 60, 100])
