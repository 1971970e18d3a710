"""Single queries of a workload are measured themselves where their tables would tell them worse."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.knowledge.publications import composing
from reticent.queries.base import Linear
from reticent.queries.partitions import values_on
from reticent.queries.workload import Workload
from reticent.releases.candidates import target_sets
from reticent.releases.direct import DirectQueries, NoiseCosts

RECORDS = 20_000
CODES = 2_000
BUDGETS = {"pure": rt.Budget(epsilon=1), "approximate": rt.Budget(epsilon=1, delta=1e-9)}


def table(neighbours: Any = "replace-one") -> tuple[rt.Table, np.ndarray]:
    generator = np.random.default_rng(5)
    x = np.minimum(generator.exponential(CODES * 0.06, RECORDS).astype(int), CODES - 1)
    rows = pa.table({"x": x, "a": (x // 50) % 20, "b": generator.integers(0, 20, RECORDS)})
    return rt.Table.of(rows, rt.Domain(x=CODES, a=20, b=20), neighbours=neighbours), x


def plain_error(budget: rt.Budget, queries: int) -> float:
    """The standard deviation of each of so many counts that share the budget, as a share of the table."""
    if budget.rho is None:
        assert budget.epsilon is not None
        return sqrt(2) * queries / float(budget.epsilon) / RECORDS
    return sqrt(queries / (2 * float(budget.rho))) / RECORDS


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("limits", [(120,), tuple(range(40, 440, 40))])
def test_counts_of_a_wide_column_are_as_near_as_plain_noise(kind: str, limits: tuple[int, ...]) -> None:
    """The largest of all errors: typical errors and single attributes take 2 of 25 parts of the budget.

    Twice the error of plain noise at a quantile of one in a thousand (Laplace noise has the wider tail) is exceeded by
    chance in fewer of the runs; a noisy table of the column was off by 80 to 500 times as much.
    """
    held, x = table()
    budget = BUDGETS[kind]
    queries = [rt.count(rt.col("x") < limit) for limit in limits]
    made = rt.release(held, rt.Workload(queries), budget, progress=False)
    errors = [abs(made.answer(q).value - (x < limit).mean()) for q, limit in zip(queries, limits, strict=True)]
    assert made.notes["queries"] == len(limits)
    assert max(errors) < 10 * plain_error(budget, len(limits))
    for query in queries:
        bound = made.answer(query).error
        assert bound is not None
        assert bound < 12 * plain_error(budget, len(limits))


def test_a_mean_and_predicates_under_add_remove() -> None:
    held, x = table("add-remove")
    asked = [rt.mean("x"), rt.count((rt.col("a") < 10) | (rt.col("b") < 3))]
    made = rt.release(held, rt.Workload(asked), BUDGETS["approximate"], progress=False)
    mean = made.answer(asked[0])
    # The mean and the count share the budget with the number of records, which divides both.
    assert abs(mean.value - x.mean()) < 40 * plain_error(BUDGETS["approximate"], 3) * CODES
    assert made.records == pytest.approx(RECORDS, abs=40 * plain_error(BUDGETS["approximate"], 3) * RECORDS)


REPLACED = NoiseCosts(ratio=2.0, pure=False, public=True)
"""Gaussian noise under replace-one."""
ADDED = NoiseCosts(ratio=1.0, pure=False, public=False)


def chosen(queries: list[Any], domain: rt.Domain, terms: NoiseCosts = REPLACED, weights: Any = None) -> DirectQueries:
    workload = Workload(queries, domain=domain, weights=weights)
    return DirectQueries.of(workload, domain, target_sets(workload, domain), terms)


def below(*limits: int, column: str = "x") -> list[Linear]:
    return [rt.count(rt.col(column) < limit) for limit in limits]


def test_nested_counts_are_measured_by_parts() -> None:
    domain = rt.Domain(x=CODES, a=20)
    few = below(100, 700, 1000)
    found = chosen(few, domain)
    # Of four parts a query holds one, two or three: variances 2 of 3/4, 1 and 3/4, where three alone have 3 each.
    assert found.measured == {tuple(few): pytest.approx(2.0)}
    assert found.complete
    # One query, and its two parts, need the same.
    assert set(chosen(below(100), domain).measured) == {tuple(below(100))}
    # Under add-remove three queries with their rests have 2 each on average: what three of four parts have at most.
    assert chosen(few, domain, ADDED).measured == {(query,): pytest.approx(2 / 3) for query in few}
    assert set(chosen(few, domain, ADDED._replace(pure=True)).measured) == {tuple(few)}


def test_overlapping_queries_with_many_parts_are_measured_alone() -> None:
    domain = rt.Domain(x=CODES)
    codes = np.arange(CODES)
    bits: list[Linear] = [rt.linear("x", values=(codes >> place) & 1) for place in range(5)]
    assert set(chosen(bits, domain).measured) == {(query,) for query in bits}  # 32 parts: variance 16, alone 5
    mixed = [*below(100, 700, 1000), rt.mean("a")]
    found = chosen(mixed, rt.Domain(x=CODES, a=rt.Numeric(edges=list(range(21)), other=False)))
    assert set(found.measured) == {tuple(mixed[:3]), (mixed[3],)}


def test_a_weight_that_parts_would_lose_is_kept() -> None:
    """Parts give all their queries about the same noise; plain noise gives a heavy one less."""
    domain = rt.Domain(x=CODES)
    assert len(chosen(below(100, 700, 1000), domain).measured) == 1
    assert len(chosen(below(100, 700, 1000), domain, weights=[1, 60, 1]).measured) == 3


def test_tables_of_several_columns_are_left_to_rounds() -> None:
    domain = rt.Domain(a=20, b=3)
    cells: list[Linear] = [rt.count((rt.col("a") == a) & (rt.col("b") == b)) for a in range(20) for b in range(3)]
    found = chosen(cells, domain)
    assert found.measured == {}
    assert found.tables == {("a", "b"): 60.0}
    assert not found.complete
    # A single column is measured in one round whatever it shows, so its parts are measured with their own share.
    assert list(chosen([rt.count(rt.col("a") == code) for code in range(20)], domain).measured) != []


def test_queries_that_a_table_tells_worse_than_plain_noise_are_measured_beside_it() -> None:
    domain = rt.Domain(x=CODES, a=20)
    beside = chosen([rt.marginal("x", "a"), *below(100)], domain)
    assert set(beside.measured) == {tuple(below(100))}
    assert beside.tables == {("x", "a"): 1.0}
    assert beside.share(domain) == pytest.approx(0.5)
    told = chosen([rt.marginal("a"), rt.count(rt.col("a") == 3)], domain, weights=[3, 1])
    assert told.measured == {}
    assert told.tables == {("a",): 4.0}


def test_tables_and_queries_divide_the_budget_as_plain_noise_does() -> None:
    held, x = table()
    asked = [rt.marginal("a"), rt.count(rt.col("x") < 120)]
    made = rt.release(held, rt.Workload(asked, weights=[1, 8]), BUDGETS["approximate"], progress=False)
    single = [m for m in made.measurements if isinstance(m.query, Linear)]
    assert len(single) == 1
    # A weight of 8 counts as its power of 2/3, so 4 of 5 parts are the count's; exact prices are 1% above rho here.
    share = (plain_error(composing(BUDGETS["approximate"]), 1) / single[0].sd) ** 2
    assert share == pytest.approx(0.8 * 0.92, rel=0.02)
    assert abs(made.answer(rt.count(rt.col("x") < 120)).value - (x < 120).mean()) < 10 * single[0].sd


def test_tables_keep_their_part_beside_queries() -> None:
    """All rounds of the tables are measured: a run once took what queries had spent for what a round had."""
    held, _ = table()
    made = rt.release(held, rt.Workload([rt.marginal("a", "b"), *below(120)]), BUDGETS["approximate"], progress=False)
    assert sum(m.query.attributes == {"a", "b"} for m in made.measurements) == 3


def test_a_query_of_every_record_is_not_measured() -> None:
    domain = rt.Domain(x=CODES)
    found = chosen([rt.count(rt.col("x") >= 0), rt.count(rt.col("x") < 9)], domain)
    assert list(found.measured) == [tuple(below(9))]


def test_a_stopped_release_goes_on_with_the_same_measurements(tmp_path: Path, monkeypatch: Any) -> None:
    held, _ = table()
    workload = rt.Workload([rt.count(rt.col("x") < 120), rt.count(rt.col("x") < 500)])
    path, seen = tmp_path / "counts.ledger", []

    class StoppedError(Exception):
        pass

    def stop(_: Any, collection: Any, *rest: Any) -> None:
        seen.extend(single.values.tolist() for single in collection.singles)
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(rt.Adaptive, "_whole", stop)
        with pytest.raises(StoppedError):
            rt.release(held, workload, BUDGETS["approximate"], ledger=path, progress=False)
    made = rt.release(held, workload, BUDGETS["approximate"], ledger=path, progress=False)
    found = [float(m.values) * RECORDS for m in made.measurements if isinstance(m.query, Linear)]
    assert found == pytest.approx(seen[0], abs=1e-6)
    assert len(found) == 3
    with rt.Ledger.open(path, identity=held.identity, budget=BUDGETS["approximate"]) as ledger:
        assert ledger.remaining >= 0


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", BUDGETS)
def test_no_workload_loses_to_plain_noise(kind: str, neighbours: str) -> None:
    """Generated workloads of counts, predicates, numbers and tables on small domains.

    Plain noise knows the number of records, shares the budget by the weights and buys nothing else. Of 64 runs the root
    mean square has a sampling error of an eighth at most; that of the 8 runs of one workload reaches 2.2 by chance in
    fewer than one of a thousand, with Laplace noise and a single query.
    """
    random = np.random.default_rng(17)
    budget, squares = BUDGETS[kind], []
    for _ in range(8):
        data, domain, queries, tables = generated(random)
        weights = [float(random.choice([1, 1, 4])) for _ in (*queries, *tables)]
        shares = np.array(weights) ** (1 / 2 if kind == "pure" else 2 / 3)
        shares /= shares.sum()
        plain = plain_error(budget, 1) / (shares if kind == "pure" else np.sqrt(shares))
        held = rt.Table.of(pa.table(data), domain, neighbours=neighbours)  # pyright: ignore[reportArgumentType]
        counts = np.zeros(domain.shape)
        np.add.at(counts, tuple(data[name] for name in domain.names), 1 / len(next(iter(data.values()))))
        truth = [float(np.vdot(counts, values_on(query, domain.names, domain))) for query in queries]
        scale = RECORDS / len(next(iter(data.values())))
        errors = []
        for _ in range(8):
            made = rt.release(held, rt.Workload([*queries, *tables], weights=weights), budget, progress=False)
            errors.append([made.answer(query).value - true for query, true in zip(queries, truth, strict=True)])
        relative = np.square(np.array(errors) / (scale * plain[: len(queries)])).mean()
        assert relative < 2.2**2, (domain, queries, tables, weights)
        squares.append(relative)
    assert np.mean(squares) < 1.25**2


def generated(random: np.random.Generator) -> tuple[dict[str, np.ndarray], rt.Domain, list[Any], list[Any]]:
    """Rows, their domain, single queries, and in every third case a table."""
    sizes = {f"c{place}": int(random.choice([2, 5, 20, 150])) for place in range(int(random.integers(1, 4)))}
    while np.prod(list(sizes.values())) > 3000:
        sizes[max(sizes, key=lambda name: sizes[name])] = 5
    records = int(random.choice([500, 5000]))
    data = {name: (random.random(records) ** random.choice([1, 3]) * size).astype(int) for name, size in sizes.items()}

    def asked() -> Any:
        names = list(random.choice(list(sizes), min(len(sizes), int(random.integers(1, 3))), replace=False))
        name, size = str(names[0]), sizes[str(names[0])]
        kinds = [
            rt.count(rt.col(name) < int(random.integers(1, size))),
            rt.count(rt.col(name) == int(random.integers(size))),
            rt.count(rt.col(name).isin(random.choice(size, int(random.integers(1, size)), replace=False).tolist())),
            rt.linear(name, values=np.arange(size) / (size - 1)),
            rt.count((rt.col(name) >= size // 2) | (rt.col(str(names[-1])) < 1)),
            rt.count((rt.col(name) >= size // 3) & (rt.col(str(names[-1])) != 0)),
        ]
        return kinds[int(random.integers(len(kinds)))]

    queries = list(dict.fromkeys(asked() for _ in range(int(random.choice([1, 3, 8])))))
    tables = [rt.marginal(*list(sizes)[:2])] if random.random() < 1 / 3 else []
    return data, rt.Domain(**sizes), queries, tables  # pyright: ignore[reportArgumentType]


def test_bounds_hold_as_often_as_they_say() -> None:
    """Sixty releases of three counts whose bounds hold together: more than nine failures have one chance in a
    thousand.
    """
    _, x = table()
    held = rt.Table.of(pa.table({"x": x}), rt.Domain(x=CODES), neighbours="add-remove")
    queries, failed = below(60, 120, 400), 0
    for _ in range(60):
        made = rt.release(held, rt.Workload(queries), BUDGETS["pure"], progress=False)
        answers = [made.answer(query) for query in queries]
        failed += any(
            abs(answer.value - (x < limit).mean()) > (answer.error or 0.0)
            for answer, limit in zip(answers, (60, 120, 400), strict=True)
        )
    assert failed <= 9


def test_it_is_saved_and_has_replicates(tmp_path: Path) -> None:
    held, _ = table()
    query = rt.count(rt.col("x") < 120)
    made = rt.release(held, rt.Workload([query]), BUDGETS["approximate"], progress=False).replicates(10, progress=False)
    made.save(tmp_path / "counts.release")
    loaded = rt.Release.load(tmp_path / "counts.release")
    assert loaded.answer(query).value == made.answer(query).value
    assert loaded.answer(query).error == made.answer(query).error
    spread = loaded.answer(query).population()
    assert spread.error is not None
    # Sampling alone: the standard deviation of a share of RECORDS records, times two, within a factor of three.
    share = loaded.answer(query).value
    assert 2 / 3 < spread.error / sqrt(share * (1 - share) / RECORDS) < 6


def test_nested_ranges_are_fitted_to_what_was_measured() -> None:
    """Descent from the base stalled a hundred standard deviations off; the convex start does not."""
    _, x = table()
    domain = rt.Domain(x=CODES)
    shares = [float((x < limit).mean()) for limit in range(40, 440, 40)]
    measured = [
        rt.Measurement(rt.count(rt.col("x") < limit), np.asarray(share), sd=1e-3)
        for limit, share in zip(range(40, 440, 40), shares, strict=True)
    ]
    single = rt.Measurement(rt.marginal("x"), np.bincount(x, minlength=CODES) / x.size, sd=2e-3)
    fitted = rt.fit(domain, [*measured, single], records=RECORDS)
    for one, share in zip(measured, shares, strict=True):
        assert abs(fitted.answer(one.query).value - share) < 1e-3  # pyright: ignore[reportArgumentType]
