"""One record moves the score of any linear query by at most one: enumerated over all neighbours of small tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.special import log_softmax

import reticent as rt
from reticent.domain import Domain, Integer
from reticent.errors import QueryError
from reticent.kernel import statistics
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.linear_scores import LargestError, LinearScores
from reticent.kernel.mechanisms.base import Exponential, Laplace
from reticent.kernel.statistics import fine
from reticent.kernel.table import Table
from reticent.queries.conjunctions import Conjunctions
from reticent.queries.linear import Weighted
from reticent.queries.scalars import ScalarQueries

DOMAIN = Domain(a=Integer(3), b=Integer(2))
CELLS = [divmod(cell, 2) for cell in range(6)]
GENERATOR = np.random.default_rng(7)
VALUES = GENERATOR.random((3, 2))
MIXED = rt.Workload(
    [
        rt.marginal("b"),
        rt.marginal("a", "b"),
        rt.count((rt.col("a") == 0) | (rt.col("b") == 1)),
        rt.mean("a"),
        rt.linear("a", "b", values=VALUES),
        Weighted({"a": [0.3, 1.0, 0.2], "b": [1.0, 0.7]}),
        Weighted({"a": [1.0, 0.0, 1.0]}),
        rt.count(),
    ],
    weights=[1, 0.5, 1, 0.37, 1, 0.71, 0.05, 0.9],
) + rt.ranges("a")


def source(counts: tuple[int, ...]) -> Records:
    codes = {name: np.array([cell[place] for cell in CELLS]) for place, name in enumerate(DOMAIN.names)}
    return Records.of_codes(DOMAIN, codes, np.array(counts, dtype=np.int64))


def tables(grid: int) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], list[tuple[int, ...]]]]:
    """Every table of up to two records on the grid: itself, its replace-one and its larger add-remove neighbours."""
    one = [tuple(grid if i == j else 0 for i in range(6)) for j in range(6)]
    if grid > 1:  # a person with two rows
        one += [tuple((i == j) + (i == k) for i in range(6)) for j, k in itertools.combinations(range(6), 2)]
    for size in (0, 1):
        for rest in itertools.combinations_with_replacement(one, size):
            base = tuple(map(sum, zip(*rest, strict=True))) if rest else (0,) * 6
            larger = [tuple(x + y for x, y in zip(base, extra, strict=True)) for extra in one]
            yield base, larger, [other for first in larger for other in larger if first != other]


def scores(counts: tuple[int, ...], queries: ScalarQueries, weights: np.ndarray | None, grid: int) -> np.ndarray:
    made = LinearScores(queries, np.zeros(queries.size), weights=weights)
    return made.evaluate(source(counts), grid)


def check_sensitivity_of_scores(grid: int = 1) -> None:
    """In exact integers: no neighbour moves any score by more than one record."""
    queries = ScalarQueries(MIXED, DOMAIN)
    unit = fine(grid) * grid
    for base, larger, replaced in tables(grid):
        before = scores(base, queries, queries.weights, grid)
        after = [scores(other, queries, queries.weights, grid) for other in larger]
        assert all(np.abs(other - before).max() <= unit for other in after), "add-remove"
        for first, second in itertools.combinations(after, 2):
            assert np.abs(first - second).max() <= unit, "replace-one"
        assert replaced


def largest(counts: tuple[int, ...], queries: ScalarQueries, guesses: np.ndarray, grid: int) -> int:
    return int(LargestError(queries, guesses).evaluate(source(counts), grid))


@pytest.mark.parametrize("grid", [1, 2])
def test_one_record_moves_the_largest_error_by_at_most_one(grid: int) -> None:
    queries, unit = ScalarQueries(MIXED, DOMAIN), fine(grid) * grid
    guesses = np.random.default_rng(3).random(queries.size)
    moved = 0
    for base, larger, _ in tables(grid):
        found = [largest(counts, queries, guesses, grid) for counts in (base, *larger)]
        assert max(found) - min(found[1:]) <= unit
        assert max(found[1:]) - found[0] <= unit
        moved = max(moved, *np.abs(np.diff(found)).tolist())
    assert moved > unit / 2, "a bound that nothing comes near would show nothing"


def test_the_largest_error_is_the_worst_query_of_the_list() -> None:
    queries, counts = ScalarQueries(MIXED, DOMAIN), (1, 2, 3, 0, 5, 0)
    exact = scores(counts, queries, None, 1)[: queries.size] / fine(1)
    guesses = np.random.default_rng(4).normal(exact, 2)
    assert largest(counts, queries, guesses, 1) / fine(1) == pytest.approx(np.abs(exact - guesses).max(), abs=1e-5)


def check_values() -> None:
    """Each record counts its query's value, to the rounding of the grid."""
    queries = ScalarQueries(MIXED, DOMAIN)
    weights = queries.weights
    assert weights is not None
    for place, codes in enumerate(CELLS):
        found = scores(tuple(int(i == place) for i in range(6)), queries, weights, 1)[: queries.size] / fine(1)
        for index in range(queries.size):
            form = queries.query(index).compile(DOMAIN)
            cell = tuple(codes[DOMAIN.index(name)] for name in form.attributes)
            assert found[index] == pytest.approx(weights[index] * form.tensor()[cell], abs=2 / fine(1))


@pytest.mark.parametrize("grid", [1, 2])
def test_one_record_moves_a_score_by_at_most_one(grid: int) -> None:
    check_sensitivity_of_scores(grid)


def test_scores_are_weighted_counts_of_the_queries() -> None:
    check_values()


def test_a_draw_from_the_scores_stays_within_its_price() -> None:
    queries, mechanism = ScalarQueries(MIXED, DOMAIN), Exponential(1.3)
    offsets = GENERATOR.normal(size=queries.size)
    for base, larger, _ in tables(1):
        exact = [
            LinearScores(queries, offsets, weights=queries.weights).evaluate(source(counts), 1) / fine(1)
            for counts in (base, *larger)
        ]
        logs = [log_softmax(float(mechanism.epsilon) / 2 * each) for each in exact]
        for one, two in itertools.permutations(logs, 2):
            assert (one - two).max() <= float(mechanism.epsilon)
            assert np.ptp(one - two) <= float(mechanism.epsilon) + 1e-9, "bounded range"


def unweighted(self: statistics.Scores) -> None:
    """Plants the bug that weights are taken as they come."""


def raised(values: np.ndarray, steps: int, weight: float) -> np.ndarray:
    return np.ceil(values * steps * weight + 1).astype(np.int64)


def twice(values: np.ndarray, steps: int, weight: float) -> np.ndarray:
    return np.rint(values * steps * 2 * weight).astype(np.int64)


@pytest.mark.parametrize("bug", [raised, twice])
def test_planted_rounding_is_noticed(bug: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_on_steps", bug)
    with pytest.raises(AssertionError, match=r"add-remove|replace-one"):
        check_sensitivity_of_scores()


def test_planted_weights_above_one_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = ScalarQueries(MIXED, DOMAIN)
    with pytest.raises(QueryError, match="at most 1"):
        LinearScores(queries, np.zeros(queries.size), weights=np.full(queries.size, 2.0))
    monkeypatch.setattr(statistics.Scores, "__post_init__", unweighted)
    monkeypatch.setattr(ScalarQueries, "weights", np.full(queries.size, 2.0))
    with pytest.raises(AssertionError, match=r"add-remove|replace-one"):
        check_sensitivity_of_scores()


def test_the_list_is_selected_from_and_never_measured() -> None:
    table = Table(source((1, 2, 3, 0, 1, 0)), DOMAIN, records=7)
    curator = Curator(table, Ledger.memory(identity=table.identity, budget=rt.Budget(epsilon=5)))
    queries = ScalarQueries(MIXED, DOMAIN)
    made = LinearScores(queries, np.zeros(queries.size))
    assert 0 <= int(curator.select(made, Exponential(1)).values[0][0]) < 2 * queries.size
    with pytest.raises(QueryError, match="scores to select from"):
        curator.measure([made], Laplace(1))


def test_conjunctions_are_counted_as_a_list() -> None:
    listed = Conjunctions(DOMAIN, np.array([[0, 1], [1, -1]]), np.array([[2, 0], [1, 0]]))
    queries = ScalarQueries(listed, DOMAIN)
    made = LinearScores(queries, np.zeros(2)).evaluate(source((1, 2, 3, 0, 5, 0)), 1)
    assert (made[:2] / fine(1)).tolist() == [5, 2]
    assert [queries.query(i).text for i in range(2)] == ["conjunction(a=2, b=0)", "conjunction(b=1)"]
