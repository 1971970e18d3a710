"""Records against brute force, covers against their definition, and a table that tells nothing."""

from __future__ import annotations

import copy
import io
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.errors import QueryError, SourceError
from reticent.kernel.counting import marginals as counting
from reticent.kernel.counting.marginals import Cache, covering, summed, tally
from reticent.kernel.counting.records import Records
from reticent.kernel.statistics import FINE, LARGEST_GUESS, CellScores, ConjunctionScores, MaxError
from reticent.kernel.table import PERSON_GRIDS, QUERY_GRID, WEIGHT_LIMIT, Table, person_grid
from reticent.queries.conjunctions import Conjunctions

SHAPE = {"a": 3, "b": 1, "c": 300, "d": 2, "e": 70_000}


@pytest.fixture(scope="module")
def drawn() -> tuple[Domain, dict[str, np.ndarray], np.ndarray, Records]:
    rng = np.random.default_rng(7)
    columns = {name: rng.integers(0, size, 500) for name, size in SHAPE.items()}
    weights = rng.integers(0, 1000, 500)
    domain = Domain(SHAPE)
    return domain, columns, weights, Records.of_codes(domain, columns, weights)


def brute_force(domain: Domain, columns: dict, weights: np.ndarray, attributes: tuple[str, ...]) -> np.ndarray:
    if not attributes:
        return np.asarray(weights.sum())
    counts = np.zeros(domain.shape_of(attributes), dtype=np.int64)
    np.add.at(counts, tuple(columns[name] for name in attributes), weights)
    return counts


def test_marginals_equal_brute_force(drawn) -> None:
    domain, columns, weights, records = drawn
    sets = [s for k in range(4) for s in itertools.combinations(domain.names, k) if domain.cells(s) < 10**7]
    for attributes, found in zip(sets, records.marginals(sets), strict=True):
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, brute_force(domain, columns, weights, attributes))
    assert records.total() == weights.sum()


def test_the_compiled_kernel_counts_like_numpy(drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, columns, weights, _ = drawn
    sets = [("a", "c"), ("c", "d"), ("e",)]
    plain = Records.of_codes(domain, columns, weights).marginals(sets)
    monkeypatch.setattr(counting, "SMALL_ROWS", 0)
    compiled = Records.of_codes(domain, columns, weights).marginals(sets)
    for left, right in zip(plain, compiled, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_large_table_counted_by_every_core_keeps_its_order() -> None:
    """More covering sets than cores, of different sizes: each must come back in its own place."""
    rng = np.random.default_rng(3)
    domain = Domain({f"a{i}": size for i, size in enumerate((200, 150, 100, 90, 3))})
    columns = {name: rng.integers(0, domain[name].size, counting.SMALL_ROWS + 1) for name in domain.names}
    weights = rng.integers(0, 5, counting.SMALL_ROWS + 1)
    sets = list(itertools.combinations(domain.names, 2))
    for names, found in zip(sets, Records.of_codes(domain, columns, weights).marginals(sets), strict=True):
        np.testing.assert_array_equal(found, brute_force(domain, columns, weights, names))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_covers_serve_every_set_once(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=7))
    axes = st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=4).map(lambda s: tuple(sorted(s)))
    sets = data.draw(st.lists(axes, min_size=1, max_size=12, unique=True))
    limit = data.draw(st.sampled_from([16, 256, 4096]))
    covers = covering(sets, shape, limit)
    assert sorted(position for cover in covers for position in cover.serves) == list(range(len(sets)))
    for cover in covers:
        cells = np.prod([shape[axis] for axis in cover.axes])
        assert cells <= limit or cover.axes in sets
        assert all(set(sets[position]) <= set(cover.axes) for position in cover.serves)


def test_covers_are_far_fewer_than_sets() -> None:
    sets = list(itertools.combinations(range(13), 3))
    assert len(covering(sets, [4] * 13)) <= 13  # each cover holds 8 attributes, so 56 of the 286 triples


def test_weigh_is_exact(drawn) -> None:
    _, columns, weights, records = drawn
    rng = np.random.default_rng(3)
    for names, high in ((("a", "d"), 1000), (("a", "c", "e"), 100), ((), 1)):
        vectors = {name: rng.integers(0, high, SHAPE[name]) for name in names}
        expected = weights.copy()
        for name in names:
            expected *= vectors[name][columns[name]]
        assert records.weigh(vectors) == expected.sum()


def test_weigh_at_the_edge_of_int64() -> None:
    records = Records.of_codes(Domain(a=2), {"a": np.array([0, 1])}, np.array([2**42, 2**42 - 1]))
    assert records.weigh({"a": np.array([QUERY_GRID, QUERY_GRID])}) == (2**43 - 1) * 2**20
    with pytest.raises(QueryError, match="at most 1048576"):
        records.weigh({"a": np.array([QUERY_GRID + 1, 0])})


def test_conjunctions_are_weighed(drawn) -> None:
    domain, columns, weights, records = drawn
    asked = Conjunctions(domain, np.array([[0, 2], [3, -1]]), np.array([[1, 7], [0, -1]]))
    both = weights[(columns["a"] == 1) & (columns["c"] == 7)].sum()
    assert records.conjunctions(asked).tolist() == [both, weights[columns["d"] == 0].sum()]


@pytest.mark.parametrize("vector", [np.ones(3), np.ones(2, dtype=int), np.ones((3, 1), dtype=int)])
def test_weigh_refuses_vectors_off_the_grid(drawn, vector: np.ndarray) -> None:
    with pytest.raises(QueryError, match="3 whole numbers"):
        drawn[3].weigh({"a": vector})


def test_returned_marginals_cannot_be_spoiled(drawn) -> None:
    with pytest.raises(ValueError, match="read-only"):
        drawn[3].marginal(("a",))[0] = 5


def test_a_marginal_too_large_for_memory_is_refused(drawn) -> None:
    records = Records.of_codes(Domain(a=70_000, b=70_000), dict.fromkeys("ab", np.array([0])), np.array([1]))
    with pytest.raises(QueryError, match="4900000000 cells"):
        records.marginal(("a", "b"))


def test_the_cache_forgets_the_oldest() -> None:
    cache = Cache(limit=3 * 80)
    arrays = {(name,): np.arange(10) for name in "abcd"}
    for key, array in arrays.items():
        cache.put(key, array)
        cache.get(("a",))
    assert cache.get(("a",)) is not None
    assert cache.get(("b",)) is None
    assert cache.get(("d",)) is not None


def test_tally_sums_weights_beyond_32_bits() -> None:
    planes = np.zeros((1, 3), dtype=np.uint8)
    assert tally(planes, np.array([2**41, 2**41, 5]), [0], [1], 1).tolist() == [2**42 + 5]


@pytest.mark.parametrize("records", [None, 1, 1000, 10**7, 10**9, 10**12, WEIGHT_LIMIT - 1])
def test_person_grid_keeps_sums_exact(records: int | None) -> None:
    grid = person_grid(records)
    assert grid in PERSON_GRIDS
    assert (records or 2**30) * grid * QUERY_GRID < 2**63
    larger = [g for g in PERSON_GRIDS if g > grid]
    assert not larger or (records or 2**30) * larger[0] * QUERY_GRID >= 2**63


def facts(drawn, **changed) -> dict:
    return {"source": drawn[3], "domain": drawn[0], "records": 500} | changed


def test_repr_and_identity_are_public(drawn) -> None:
    table = Table(**facts(drawn, name="census", version="2024"))
    assert repr(table) == "<Table 'census': 500 records, 5 attributes, replace-one, version '2024'>"
    private = Table(**facts(drawn, records=None, neighbours="add-remove", unit="person"))
    assert repr(private) == "<Table 'table': size private, 5 attributes, add-remove>"
    assert private.records is None
    assert private.identity["unit"] == "person"
    assert repr(drawn[3]) == "<Records: private>"


@pytest.mark.parametrize("leak", [pickle.dumps, copy.copy, copy.deepcopy, len, iter, vars, bool])
def test_nothing_of_a_table_leaks(drawn, leak) -> None:
    for holder in (Table(**facts(drawn)), drawn[3]):
        if leak is bool:
            assert bool(holder) is True
            continue
        with pytest.raises(TypeError) as raised:
            leak(holder)
        assert "500" not in str(raised.value)


def test_a_table_is_fixed(drawn) -> None:
    table = Table(**facts(drawn))
    with pytest.raises(AttributeError, match="fixed"):
        table.neighbours = "add-remove"
    with pytest.raises(AttributeError, match="fixed"):
        del table.records
    out = io.StringIO()
    print(table, file=out)
    assert "private" not in out.getvalue()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"records": None}, "declare records="),
        ({"records": 0}, "at least 1"),
        ({"records": -5}, "at least 1"),
        ({"records": 2.5}, "whole number"),
        ({"records": True}, "whole number"),
        ({"records": 2**43}, "too many"),
        ({"neighbours": "add-remove"}, "private under add-remove"),
        ({"neighbours": "both"}, "use 'replace-one' or 'add-remove'"),
        ({"unit": "family"}, "use 'record', 'person' or 'row'"),
    ],
)
def test_inconsistent_facts_are_refused(drawn, changed: dict, message: str) -> None:
    with pytest.raises(SourceError, match=message) as raised:
        Table(**facts(drawn, **changed))
    assert "\n" not in str(raised.value)


def test_weights_beyond_the_grid_are_refused_while_loading() -> None:
    with pytest.raises(SourceError, match="too large for its integer grid"):
        Records.of_codes(Domain(a=2), {"a": np.array([0, 1])}, np.array([2**42, 2**42]))


def test_no_score_or_error_wraps_at_the_largest_table() -> None:
    """The largest total beside the largest guesses: every difference is the exact one, computed in whole numbers."""
    domain, most = Domain(a=2), WEIGHT_LIMIT - 1
    records = Records.of_codes(domain, {"a": np.array([0, 1])}, np.array([most - 3, 3]))
    guess = np.array([-(LARGEST_GUESS * 0.999) / FINE, 0.0])
    exact = (most - 3) * FINE - int(np.rint(guess[0] * FINE))
    scores = CellScores((("a",),), (-guess,)).evaluate(records, 1)
    assert [int(score) for score in scores] == [exact, 3 * FINE, -exact, -3 * FINE]
    assert int(MaxError("cells", (("a",),), (guess,)).evaluate(records, 1)) == exact
    assert int(MaxError("predicates", (("a",),), (guess,)).evaluate(records, 1)) == exact + 3 * FINE
    listed = Conjunctions(domain, np.array([[0], [0]]), np.array([[0], [1]]))
    assert int(ConjunctionScores(listed, -guess).evaluate(records, 1)[0]) == exact


def test_a_table_beyond_the_grid_is_refused_in_one_line() -> None:
    domain = Domain(a=2)
    with pytest.raises(SourceError, match="too large for its integer grid") as problem:
        Records.of_codes(domain, {"a": np.array([0, 1])}, np.array([WEIGHT_LIMIT - 1, 1]))
    assert "\n" not in str(problem.value)
    with pytest.raises(SourceError, match="too many"):
        Table(Records.of_codes(domain, {"a": np.array([0])}, np.array([1])), domain, records=WEIGHT_LIMIT)


@given(st.lists(st.integers(1, 3), max_size=6), st.sets(st.integers(0, 5)), st.integers(0, 99))
def test_axes_summed_by_runs_are_axes_summed_at_once(shape: list[int], dropped: set[int], seed: int) -> None:
    table = np.random.default_rng(seed).integers(-9, 9, shape)
    axes = tuple(sorted(axis for axis in dropped if axis < len(shape)))
    np.testing.assert_array_equal(summed(table, axes), table.sum(axis=axes) if axes else table)
