"""Ranges in the default release: levels of blocks, their shares, and the table joined from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.fitting.consistent import MeasuredForm
from reticent.hypotheses.fitting.levels import (
    FitLevel,
    block_sums,
    cell_sd,
    divided_levels,
    estimate_cells,
    least_squares,
    residual_precisions,
)
from reticent.hypotheses.fitting.proportional import move_onto
from reticent.kernel.statistics import of_one_marginal
from reticent.releases.budgeting import noise_costing
from reticent.releases.levels import cell_energies, level_plans, range_energies, shares_of_levels

SHAPES = [(8,), (16,), (13,), (4, 8), (5, 6)]


def every_range(size: int, known: int, prefixes: bool) -> np.ndarray:
    ends = [(0, j) for j in range(known)] if prefixes else [(i, j) for i in range(known) for j in range(i, known)]
    return np.array([[float(i <= c <= j) for c in range(size)] for i, j in ends])


def averaging(size: int, width: int) -> np.ndarray:
    """Projects onto tables that are constant on blocks."""
    blocks = np.arange(size) // width
    alike = (blocks[:, None] == blocks[None]).astype(float)
    return alike / alike.sum(axis=1)


def levels_of(cells: np.ndarray, sds: dict[tuple[int, ...], float], rng: np.random.Generator) -> list[FitLevel]:
    return [
        FitLevel(widths, (sums := block_sums(cells, widths)) + rng.normal(0, sd, sums.shape), sd)
        for widths, sd in sds.items()
    ]


def some_sds(shape: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    return {(1,) * len(shape): 2.0, (2,) * len(shape): 1.0, (4, *(1,) * (len(shape) - 1)): 0.5, shape: 3.0}


@pytest.mark.parametrize(("size", "known"), [(8, 8), (16, 13), (11, 10), (2, 2)])
@pytest.mark.parametrize("prefixes", [False, True])
def test_energies_are_those_of_the_listed_ranges(size: int, known: int, prefixes: bool) -> None:
    queries = every_range(size, known, prefixes)
    expected = []
    for exponent in range((size - 1).bit_length() + 1):
        expected.append(((queries @ averaging(size, 2**exponent)) ** 2).sum() / len(queries))
    found = range_energies(size, known, prefixes)
    np.testing.assert_allclose(found[::-1].cumsum()[::-1], expected, rtol=1e-12)
    assert (found >= -1e-12).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_least_squares_solve_the_normal_equations(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    cells = rng.poisson(20, shape).astype(float)
    levels = levels_of(cells, some_sds(shape), rng)
    size = cells.size
    rows, values = [], []
    for level in levels:
        design = np.stack([block_sums(unit.reshape(shape), level.widths).ravel() for unit in np.eye(size)], axis=1)
        rows.append(design / level.sd)
        values.append(level.values.ravel() / level.sd)
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(values), rcond=None)[0]
    np.testing.assert_allclose(least_squares(levels, shape).ravel(), expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(16,), (4, 8)])
def test_the_noise_of_cells_and_ranges_is_what_the_plan_says(shape: tuple[int, ...]) -> None:
    """Exactly, from the covariance of least squares, where widths divide sizes."""
    size = int(np.prod(shape))
    levels = [FitLevel(widths, np.zeros(1), sd) for widths, sd in some_sds(shape).items()]
    information = np.zeros((size, size))
    for level in levels:
        design = np.stack([block_sums(unit.reshape(shape), level.widths).ravel() for unit in np.eye(size)], axis=1)
        information += design.T @ design / level.sd**2
    covariance = np.linalg.inv(information)
    precisions = residual_precisions(levels, shape)
    assert cell_sd(precisions, shape) ** 2 == pytest.approx(np.trace(covariance) / size)
    energies = np.ones(())
    queries = np.ones((1, 1))
    for length in shape:
        energies = np.multiply.outer(energies, range_energies(length, length, False))
        queries = np.kron(queries, every_range(length, length, False))
    variances = np.einsum("qi,ij,qj->q", queries, covariance, queries)
    assert (energies / precisions).sum() == pytest.approx(variances.mean())


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("shape", [(64,), (100,), (4096,), (8, 16)])
def test_planned_shares_beat_every_tree(shape: tuple[int, ...], pure: bool) -> None:
    """Of equal shares on widths 1, b, b^2, ..., with and without the whole table; each b that is a power of two."""
    energies = np.ones(())
    for size in shape:
        energies = np.multiply.outer(energies, range_energies(size, size, False))
    shares, error = shares_of_levels(energies, pure=pure)
    assert shares.sum() == pytest.approx(1)
    exponents = list(np.ndindex(energies.shape))
    for step in range(1, max(energies.shape)):
        kept = [e for e in exponents if all(x % step == 0 for x in e) and max(e) == min(e)]
        for tree in (kept, [e for e in kept if all(x < n - 1 for x, n in zip(e, energies.shape, strict=True))]):
            if not tree:
                continue
            known = np.zeros(energies.shape)
            for e in tree:
                precision = len(tree) ** (-2.0 if pure else -1.0)
                known[tuple(slice(x, None) for x in e)] += 2.0 ** sum(e) * precision
            assert error <= (energies / known).sum() * (1 + 1e-3), step


@pytest.mark.parametrize("shape", SHAPES)
def test_a_joined_table_is_positive_and_keeps_its_total(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    cells = np.zeros(shape)
    cells.flat[3] = 50.0
    found = estimate_cells(levels_of(cells, some_sds(shape), rng), shape, 50.0)
    assert found.min() > 0
    assert found.sum() == pytest.approx(50.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_without_noise_the_table_comes_back(shape: tuple[int, ...]) -> None:
    cells = np.random.default_rng(3).poisson(30, shape).astype(float)
    levels = [FitLevel(w, block_sums(cells, w), 1e-6) for w in some_sds(shape)]
    np.testing.assert_allclose(estimate_cells(levels, shape, cells.sum()), cells, atol=1e-4)


def test_noise_on_an_even_table_is_averaged_out() -> None:
    """Differences that noise explains are divided evenly: far below the least squares' own error."""
    rng = np.random.default_rng(4)
    cells = np.full(256, 10.0)
    levels = levels_of(cells, {(1,): 50.0, (16,): 50.0}, rng)
    plain = least_squares(levels, (256,))
    found = divided_levels(plain, levels, cells.sum())
    assert np.abs(found - cells).mean() < np.abs(plain - cells).mean() / 3


def test_the_same_workload_has_marginals_ranges_and_prefixes_in_one_plan() -> None:
    domain = rt.Domain(a=64, b=3)
    workload = rt.ranges("a") + rt.prefixes("a") + rt.Workload([rt.marginal("a"), rt.marginal("a", "b")])
    plans = level_plans(workload.on(domain), domain, pure=False, public_records=True)
    assert list(plans) == [("a",)]
    assert plans["a",].widths[0] == (1,)
    alone = level_plans(rt.ranges("a").on(domain), domain, pure=False, public_records=True)["a",]
    assert plans["a",].shares[0] > alone.shares[0]  # single codes are asked too


def test_cell_energies_are_those_of_single_codes() -> None:
    for size in (8, 13):
        sums = [np.trace(averaging(size, 2**e)) / size for e in range((size - 1).bit_length() + 1)]
        np.testing.assert_allclose(cell_energies(size)[::-1].cumsum()[::-1], sums)


def test_a_hypothesis_moves_onto_tables() -> None:
    domain = rt.Domain(a=4, b=3)
    hypothesis = DenseHypothesis(domain, np.arange(1.0, 13.0).reshape(4, 3))
    tables = {("a",): np.array([0.1, 0.2, 0.3, 0.4]), ("b",): np.array([0.5, 0.3, 0.2])}
    move_onto(hypothesis, tables)
    for names, table in tables.items():
        np.testing.assert_allclose(hypothesis.marginal(names), table, atol=1e-8)


def test_a_hypothesis_on_tables_keeps_to_measured_queries() -> None:
    """Nearest in relative entropy: what it was multiplied by is one factor for each code and one for each query."""
    generator = np.random.default_rng(6)
    start = generator.dirichlet(np.ones(60)).reshape(6, 5, 2)
    hypothesis, truth = DenseHypothesis(rt.Domain(a=6, b=5, c=2), start), generator.dirichlet(np.ones(30)).reshape(6, 5)
    forms = [np.zeros((6, 5)), np.zeros((6, 5))]
    forms[0][2:, :3], forms[1][4:, :2] = 1.0, 1.0
    measured = [MeasuredForm(("a", "b"), form, float((form * truth).sum()), 1e-4) for form in forms]
    tables = {("a",): truth.sum(axis=1), ("b",): truth.sum(axis=0)}
    move_onto(hypothesis, tables, {("a", "b"): measured})
    pair = hypothesis.marginal(("a", "b"))
    for names, table in tables.items():
        np.testing.assert_allclose(hypothesis.marginal(names), table, atol=measured[0].sd / 4)
    for query in measured:
        assert float((query.form * pair).sum()) == pytest.approx(query.value, abs=query.sd / 2)
    np.testing.assert_allclose(
        hypothesis.marginal(("a", "b", "c")) / pair[:, :, None], start / start.sum(axis=2)[:, :, None]
    )
    logs = np.log(pair / start.sum(axis=2)).ravel()
    codes = [
        np.repeat(np.eye(6), 5, axis=0),
        np.tile(np.eye(5), (6, 1)),
        np.stack([form.ravel() for form in forms], axis=1),
    ]
    factors = np.concatenate(codes, axis=1)
    np.testing.assert_allclose(factors @ np.linalg.lstsq(factors, logs, rcond=None)[0], logs, atol=1e-5)


def ranges_error(found: np.ndarray, truth: np.ndarray) -> float:
    """Root mean square over all ranges, in records."""
    away = np.concatenate([[0.0], np.cumsum(found - truth)])
    return float(np.sqrt(2 * len(away) / (len(away) - 1) * away.var()))


HEAPS = [162, 99, 6, 10, 348, 5, 48, 346, 8911, 13, 52]


@pytest.mark.parametrize("pure", [False, True])
def test_no_kind_of_table_is_answered_worse_than_by_least_squares(pure: bool) -> None:
    """On average over tables of a kind; the slack is four standard errors of the differences.

    A sparse one was: half of its codes have two small heaps, and were taken to be empty.
    """
    size, records, sd = 500, 10_000, 3.0
    rng = np.random.default_rng(11)
    plan = level_plans(rt.ranges("x").on(domain := rt.Domain(x=size)), domain, pure=pure, public_records=True)["x",]
    sds = {w: sd / (share if pure else share**0.5) for w, share in zip(plan.widths, plan.shares, strict=True)}
    codes = np.arange(size)
    heaps = np.bincount([3, 29, 34, 93, 111, 117, 184, 193, 232, 250, 421], HEAPS, size)
    kinds = {
        "sparse": lambda: heaps,
        "permuted": lambda: rng.permutation(1 / (1.0 + codes)),
        "steps": lambda: np.repeat(rng.pareto(2.0, 10) + 0.1, size // 10),
        "heaped": lambda: np.where(codes % 10 == rng.integers(10), 10.0, 1.0),
        "even": lambda: np.ones(size),
    }
    for kind, draw in kinds.items():
        worse = []
        for _ in range(100 if kind == "sparse" else 12):
            weights = draw()
            cells = rng.multinomial(records, weights / weights.sum()).astype(float)
            levels = []
            for widths, own in sds.items():
                sums = block_sums(cells, widths)
                drawn = rng.laplace(0, own / 2**0.5, sums.shape) if pure else rng.normal(0, own, sums.shape)
                levels.append(FitLevel(widths, sums + drawn, own, pure))
            plain = least_squares(levels, (size,))
            plain += (records - plain.sum()) / size
            found = estimate_cells(levels, (size,), records)
            worse.append(ranges_error(found, cells) / ranges_error(plain, cells) - 1)
        assert np.mean(worse) < 4 * np.std(worse) / len(worse) ** 0.5, kind


def table_of(columns: dict[str, np.ndarray], domain: rt.Domain, neighbours: Any = "replace-one") -> rt.Table:
    return rt.Table.of(pa.table(columns), domain, neighbours=neighbours)


SIZE = 256
COUNTS = {
    "smooth": np.round(400 * np.exp(-0.5 * ((np.arange(SIZE) - 90) / 30) ** 2)).astype(int),
    "spiky": np.where(np.arange(SIZE) % 37 == 5, 3000, 0),
    "heavy tail": np.round(20000 / (1 + np.arange(SIZE))).astype(int),
}


@pytest.mark.parametrize("shape", COUNTS)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("pure", [False, True])
def test_ranges_of_a_release_err_as_the_plan_says(shape: str, neighbours: str, pure: bool) -> None:
    """Never far above the plan's error, whatever the table; the audits have 8% of the budget.

    A mean square of noise with more than ten degrees of freedom exceeds ten times its expectation with probability
    below 1e-7, Laplace's tails included.
    """
    counts = COUNTS[shape]
    table = table_of({"x": np.repeat(np.arange(SIZE), counts)}, rt.Domain(x=SIZE), neighbours)
    budget = rt.Budget(epsilon=0.5) if pure else rt.Budget(epsilon=0.5, delta=1e-9)
    made = rt.release(table, rt.ranges("x"), budget)
    _, least = shares_of_levels(range_energies(SIZE, SIZE, False), pure=pure)
    sd = noise_costing(budget, of_one_marginal(neighbours), budget.limit).sd
    found = made.hypothesis.marginal(("x",)) * counts.sum()
    assert ranges_error(found, counts) < (10 * least) ** 0.5 * sd
    assert made.notes["levels"] > 1
    assert len(made.certificates) == 2


def test_boxes_over_two_columns() -> None:
    rng = np.random.default_rng(5)
    domain = rt.Domain(x=16, y=16)
    rows = {name: np.clip(rng.normal(8, 3, 40_000), 0, 15).astype(int) for name in ("x", "y")}
    table = table_of(rows, domain)
    workload = rt.ranges(("x", "y"))
    made = rt.release(table, workload, rt.Budget(epsilon=1, delta=1e-9))
    judged = rt.evaluate(made, table, workload)
    assert judged.mean_error < 0.01


def test_a_mixed_workload_answers_ranges_and_pairs() -> None:
    rng = np.random.default_rng(6)
    domain = rt.Domain(age=100, sex=2, group=5)
    age = np.clip(rng.normal(40, 15, 30_000), 0, 99).astype(int)
    rows = {"age": age, "sex": rng.integers(0, 2, age.size), "group": np.minimum(age // 20, 4)}
    table = table_of(rows, domain)
    workload = rt.ranges("age") + rt.marginals(domain, 2) + rt.Workload([rt.count(rt.col("age") >= 60)])
    made = rt.release(table, workload, rt.Budget(epsilon=2, delta=1e-9))
    assert made.notes["levels"] > 1
    assert rt.evaluate(made, table, rt.ranges("age")).mean_error < 0.01
    assert (rt.evaluate(made, table, rt.marginals(domain, 2)).mean_total_variation or 0.0) < 0.2
    with pytest.raises(rt.QueryError, match="levels of ranges"):
        made.replicates(10)


def test_boxes_are_refused_where_they_are_not_answered() -> None:
    domain = rt.Domain(x=4, y=4)
    table = table_of({"x": np.arange(100) % 4, "y": np.arange(100) % 3}, domain)
    for algorithm in (rt.MWEM(), rt.TextbookPMW(error=0.1), rt.DualQuery()):
        with pytest.raises(rt.QueryError, match="boxes over several columns"):
            rt.release(table, rt.ranges(("x", "y")), rt.Budget(epsilon=1, delta=1e-9), algorithm=algorithm)


def test_boxes_are_read_written_and_listed() -> None:
    domain = rt.Domain(x=3, y=2)
    workload = rt.ranges(("x", "y"), domain=domain) + rt.prefixes("x")
    assert workload.size == 6 * 3 + 3
    again = rt.Workload.from_dict(workload.to_dict()).on(domain)
    assert again == workload
    assert rt.Workload.parse("ranges:x*y+prefixes:x", domain) == workload
    boxes = workload.ranges[0]
    counts = np.arange(6).reshape(3, 2)
    listed = [q.compile(domain).tensor() for q in rt.ranges(("x", "y"), domain=domain).scalars(domain)]
    np.testing.assert_array_equal(boxes.answers(domain, counts), [(t * counts).sum() for t in listed])
    with pytest.raises(rt.QueryError, match="each column once"):
        rt.ranges(("x", "x"))
