"""Sets that share tables are counted as each by itself would be."""

import itertools
import math

import numpy as np
import pytest

from reticent.hypotheses import support_kernels
from reticent.hypotheses.fitting.support_engine import SupportEngine, shared_tables

SHAPE = (2, 3, 2, 4, 5, 2)
SETS = [(0,), (4,), (0, 1), (1, 3), (0, 1, 3), (2, 4, 5), (1, 4), (0, 5)]


def engine(records, *, shared, seed=0):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, SHAPE, (records, len(SHAPE)))

    def cells(axes):
        return np.ravel_multi_index(tuple(codes[:, i] for i in axes), [SHAPE[i] for i in axes])

    return SupportEngine(SHAPE, SETS, cells, generator.normal(0, 1, records), shared=shared)


def tables(seed):
    generator = np.random.default_rng(seed)
    return [generator.normal(0, 1, [SHAPE[i] for i in axes]) for axes in SETS]


@pytest.mark.parametrize("records", [7, 300, 5000])
def test_sharing_changes_no_marginal_and_no_covariance(records):
    alone, shared = (engine(records, shared=shared) for shared in (False, True))
    (first, marginals), (second, same) = alone.evaluate(tables(1)), shared.evaluate(tables(1))
    assert second == pytest.approx(first)
    for one, other, third, fourth in zip(
        marginals, same, alone.covary(tables(2)), shared.covary(tables(2)), strict=True
    ):
        assert other == pytest.approx(one, abs=1e-14)
        assert fourth == pytest.approx(third, abs=1e-14)


@pytest.mark.parametrize("most", [1, 20, 100, 10**4])
def test_a_set_joins_the_table_that_grows_least(most):
    generator = np.random.default_rng(most)
    shape = generator.integers(1, 6, 9).tolist()
    axis_sets = [tuple(sorted(generator.choice(9, i % 4, replace=False).tolist())) for i in range(40)]

    def cells(axes):
        return math.prod(shape[axis] for axis in axes)

    tables = []
    for place in sorted(range(40), key=lambda i: (-cells(axis_sets[i]), axis_sets[i])):
        grown = [(cells({*axes, *axis_sets[place]}), i) for i, (axes, _) in enumerate(tables)]
        fitting = [(c / cells(tables[i][0]), i) for c, i in grown if c in (cells(tables[i][0]), min(c, most))]
        if not fitting:
            tables.append((set(), []))
        axes, members = tables[min(fitting)[1] if fitting else -1]
        axes |= set(axis_sets[place])
        members.append(place)
    assert [(set(t.axes), t.members) for t in shared_tables(shape, axis_sets, most)] == tables


def test_rescaling_reaches_the_aim_in_a_shared_table():
    shared, aim = engine(5000, shared=True), np.random.default_rng(3).dirichlet(np.ones(12)).reshape(3, 4)
    shared.evaluate(tables(4))
    before = shared.probabilities.copy()
    factor = shared.rescale(3, lambda marginal: aim / marginal)
    again = shared.rescale(3, lambda marginal: np.ones(marginal.shape) * marginal)
    assert again == pytest.approx(aim)
    assert np.ptp(before) > 0
    assert factor.shape == (3, 4)


def test_every_set_has_a_table_that_holds_it_and_none_is_too_large():
    axis_sets = list(itertools.combinations(range(len(SHAPE)), 3))
    for most in (1, 50, 200):
        found = shared_tables(SHAPE, axis_sets, most)
        assert sorted(i for table in found for i in table.members) == list(range(len(axis_sets)))
        for table in found:
            assert all(set(axis_sets[i]) <= set(table.axes) for i in table.members)
            cells = np.prod([SHAPE[i] for i in table.axes])
            assert cells <= most or table.axes in axis_sets
    assert len(shared_tables(SHAPE, axis_sets, 10**6)) == 1
    assert len(shared_tables(SHAPE, axis_sets, 1)) == len(axis_sets)


def test_cells_are_occupied_that_have_a_record():
    few = engine(7, shared=True)
    marginals = few.evaluate([np.zeros([SHAPE[i] for i in axes]) for axes in SETS])[1]
    for occupied, marginal in zip(few.occupied(), marginals, strict=True):
        assert np.array_equal(occupied, marginal > 0)
    assert not all(occupied.all() for occupied in few.occupied())


def test_two_halves_at_once_give_the_same_bits(monkeypatch):
    found = []
    for processors in (1, 2):
        monkeypatch.setattr(support_kernels, "_PROCESSORS", processors)
        monkeypatch.setattr(support_kernels, "_WORTH", 1)
        halved = engine(5000, shared=True)
        found.append([*halved.evaluate(tables(1))[1], *halved.covary(tables(2)), halved.probabilities])
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


def test_cells_without_records_are_left_out_of_large_sets():
    few = engine(40, shared=True)
    full = few.evaluate(tables(1))[1]
    assert any(kept is not None for kept in few.flat.kept)
    for index, (kept, cells) in enumerate(zip(few.flat.kept, few.occupied(), strict=True)):
        assert kept is None or np.array_equal(kept, np.flatnonzero(cells))
        assert few.held(index, full[index]).sum() == pytest.approx(1)


def test_a_half_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its places would be empty, and the fit wrong."""
    monkeypatch.setattr(support_kernels, "_PROCESSORS", 2)

    def loop(first: int, _: int) -> None:
        if first == 0:
            raise MemoryError

    with pytest.raises(MemoryError):
        support_kernels.in_two(loop, 2, 1 << 30)
