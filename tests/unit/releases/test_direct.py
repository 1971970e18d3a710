"""Single queries of a workload are measured themselves where their tables would tell them worse."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.queries.base import Linear
from reticent.queries.workload import Workload
from reticent.releases.candidates import target_sets
from reticent.releases.direct import DirectQueries

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
    """The largest of all errors: audits, typical errors and single attributes take 3 of 25 parts of the budget.

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
        assert bound < 0.05


def test_a_mean_and_predicates_under_add_remove() -> None:
    held, x = table("add-remove")
    asked = [rt.mean("x"), rt.count((rt.col("a") < 10) | (rt.col("b") < 3))]
    made = rt.release(held, rt.Workload(asked), BUDGETS["approximate"], progress=False)
    mean = made.answer(asked[0])
    # The mean and the count share the budget with the number of records, which divides both.
    assert abs(mean.value - x.mean()) < 40 * plain_error(BUDGETS["approximate"], 3) * CODES
    assert made.records == pytest.approx(RECORDS, abs=40 * plain_error(BUDGETS["approximate"], 3) * RECORDS)


def chosen(queries: list[Linear], domain: rt.Domain, *, pure: bool = False, ratio: float = 2.0) -> DirectQueries:
    workload = Workload(queries, domain=domain)
    return DirectQueries.of(workload, domain, target_sets(workload, domain), ratio, pure=pure)


def test_the_choice_follows_from_the_variances() -> None:
    domain = rt.Domain(x=CODES, a=20)
    few = [rt.count(rt.col("x") < limit) for limit in (100, 1000)]
    assert set(chosen(few, domain).queries) == set(few)
    assert chosen(few, domain).tables == {}
    # Of K queries each has K times the variance of one; one of a code has less in the table than a 20th of the budget.
    cells: list[Linear] = [rt.count(rt.col("a") == code) for code in range(20)]
    assert chosen(cells, domain).queries == {}
    assert chosen(cells, domain).tables == {("a",): 20.0}
    # Half of the codes: a quarter of each cell's variance, 5 of 20, times 2; so 9 queries pay and 10 do not.
    halves: list[Linear] = [rt.count(rt.col("a").isin([k, *range(10, 19)])) for k in range(10)]
    assert len(chosen(halves[:9], domain).queries) == 9
    assert chosen(halves, domain).queries == {}


def test_tables_that_are_asked_tell_their_queries() -> None:
    domain = rt.Domain(x=CODES, a=20)
    asked = [rt.marginal("x", "a"), rt.count(rt.col("x") < 100)]
    workload = Workload(asked, domain=domain)
    found = DirectQueries.of(workload, domain, target_sets(workload, domain), 2.0, pure=False)
    assert found.queries == {}
    assert set(found.tables) == {("x",), ("x", "a")}


def test_tables_and_queries_divide_the_budget_as_plain_noise_does() -> None:
    held, x = table()
    asked = [rt.marginal("a"), rt.count(rt.col("x") < 120)]
    made = rt.release(held, rt.Workload(asked, weights=[1, 8]), BUDGETS["approximate"], progress=False)
    single = [m for m in made.measurements if isinstance(m.query, Linear)]
    assert len(single) == 1
    # A weight of 8 counts as its power of 2/3, so 4 of 5 parts are the count's.
    share = (plain_error(BUDGETS["approximate"], 1) / single[0].sd) ** 2
    assert share == pytest.approx(0.8 * 0.92, rel=0.01)
    assert abs(made.answer(rt.count(rt.col("x") < 120)).value - (x < 120).mean()) < 10 * single[0].sd


def test_a_query_of_every_record_is_not_measured() -> None:
    domain = rt.Domain(x=CODES)
    found = chosen([rt.count(rt.col("x") >= 0), rt.count(rt.col("x") < 9)], domain)
    assert [query.text for query in found.queries] == [rt.count(rt.col("x") < 9).text]


def test_a_stopped_release_goes_on_with_the_same_measurements(tmp_path: Path, monkeypatch: Any) -> None:
    held, _ = table()
    workload = rt.Workload([rt.count(rt.col("x") < 120), rt.count(rt.col("x") < 500)])
    path, seen = tmp_path / "counts.ledger", []

    class StoppedError(Exception):
        pass

    def stop(_: Any, collection: Any, *rest: Any) -> None:
        seen.extend(value for _, value, _ in collection.singles)
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(rt.Adaptive, "_whole", stop)
        with pytest.raises(StoppedError):
            rt.release(held, workload, BUDGETS["approximate"], ledger=path, progress=False)
    made = rt.release(held, workload, BUDGETS["approximate"], ledger=path, progress=False)
    found = [float(m.values) * RECORDS for m in made.measurements if isinstance(m.query, Linear)]
    assert found == pytest.approx(seen, abs=1e-6)
    assert len(found) == 2
    with rt.Ledger.open(path, identity=held.identity, budget=BUDGETS["approximate"]) as ledger:
        assert ledger.remaining >= 0


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
        rt.Measurement(rt.count(rt.col("x") < limit), share, sd=1e-3)
        for limit, share in zip(range(40, 440, 40), shares, strict=True)
    ]
    single = rt.Measurement(rt.marginal("x"), np.bincount(x, minlength=CODES) / x.size, sd=2e-3)
    fitted = rt.fit(domain, [*measured, single], records=RECORDS)
    for one, share in zip(measured, shares, strict=True):
        assert abs(fitted.answer(one.query).value - share) < 1e-3  # pyright: ignore[reportArgumentType]
