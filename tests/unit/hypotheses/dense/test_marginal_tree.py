"""The reduction tree: exact sums and broadcasts for any list of sets, in little more than one read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.hypotheses.dense import marginal_tree as module
from reticent.hypotheses.dense.marginal_tree import MarginalTree

ROUNDING = 1e-12


def summed(tensor: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return tensor.sum(axis=tuple(axis for axis in range(tensor.ndim) if axis not in axes))


def broadcast_sum(shape: tuple[int, ...], sets: list[tuple[int, ...]], arrays: list[np.ndarray]) -> np.ndarray:
    total = np.zeros(shape)
    for axes, array in zip(sets, arrays, strict=True):
        total += array.reshape([size if axis in axes else 1 for axis, size in enumerate(shape)])
    return total


def check(shape: tuple[int, ...], sets: list[tuple[int, ...]], seed: int) -> None:
    random = np.random.default_rng(seed)
    tree, tensor = MarginalTree(shape, sets), random.random(shape)
    marginals = tree.reduce(tensor)
    for axes, marginal in zip(sets, marginals, strict=True):
        np.testing.assert_allclose(marginal, summed(tensor, axes), rtol=ROUNDING)
    arrays = [random.random(marginal.shape) for marginal in marginals]
    expected = broadcast_sum(shape, sets, arrays)
    np.testing.assert_allclose(tree.expand(arrays), expected, rtol=ROUNDING)
    stale = np.full(shape, np.nan)
    assert tree.expand(arrays, stale) is not None
    np.testing.assert_allclose(stale, expected, rtol=ROUNDING)


@st.composite
def shapes_and_sets(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=8)))
    axes = st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=6).map(lambda a: tuple(sorted(a)))
    return shape, draw(st.lists(axes, min_size=1, max_size=12))


@pytest.mark.parametrize("compiled_from", [1, 1 << 40], ids=["compiled", "plain"])
@given(case=shapes_and_sets(), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_any_list_of_sets(compiled_from: int, case: tuple[tuple[int, ...], list[tuple[int, ...]]], seed: int) -> None:
    before = module.COMPILED_CELLS
    module.COMPILED_CELLS = compiled_from
    try:
        check(*case, seed)
    finally:
        module.COMPILED_CELLS = before


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_all_sets_of_one_order_above_the_compiled_size(order: int) -> None:
    shape = (2,) * 16
    check(shape, list(itertools.combinations(range(16), order)), order)


def test_orders_mixed_on_an_uneven_shape() -> None:
    shape = (7, 1, 9, 4, 8, 16, 5)
    check(shape, [axes for order in range(4) for axes in itertools.combinations(range(7), order)], 1)


@pytest.mark.parametrize(("shape", "order"), [((2,) * 20, 3), ((8,) * 8, 3), ((16,) * 6, 3), ((2,) * 24, 2)])
def test_all_marginals_read_little_more_than_the_tensor(shape: tuple[int, ...], order: int) -> None:
    tree = MarginalTree(shape, list(itertools.combinations(range(len(shape)), order)))
    assert tree.cells_read <= 1.3 * np.prod(shape)


def test_small_sets_come_from_computed_supersets() -> None:
    large = MarginalTree((4,) * 8, list(itertools.combinations(range(8), 3)))
    mixed = MarginalTree((4,) * 8, [axes for k in range(4) for axes in itertools.combinations(range(8), k)])
    assert mixed.cells_read <= 1.05 * large.cells_read


def test_expand_is_the_adjoint_of_reduce() -> None:
    random = np.random.default_rng(5)
    sets = [(0, 2), (1,), (1, 2, 3), ()]
    tree, tensor = MarginalTree((3, 4, 2, 5), sets), random.random((3, 4, 2, 5))
    arrays = [random.random(marginal.shape) for marginal in tree.reduce(tensor)]
    left = sum(float(np.vdot(a, m)) for a, m in zip(arrays, tree.reduce(tensor), strict=True))
    assert left == pytest.approx(float(np.vdot(tree.expand(arrays), tensor)), rel=ROUNDING)


def test_results_are_the_callers_own() -> None:
    tensor = np.ones((2, 3))
    whole, part = MarginalTree((2, 3), [(0, 1), (0,)]).reduce(tensor)
    whole[...] = 7.0
    part[...] = 7.0
    assert (tensor == 1.0).all()


def test_bad_sets_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="below 2"):
        MarginalTree((2, 3), [(0, 2)])
    with pytest.raises(ValueError, match="distinct"):
        MarginalTree((2, 3), [(0, 0)])
    tree = MarginalTree((2, 3), [(0,)])
    with pytest.raises(ValueError, match="does not fit"):
        tree.reduce(np.ones(5))
    with pytest.raises(ValueError, match="1 sets"):
        tree.expand([])
    with pytest.raises(ValueError, match="is needed"):
        tree.expand([np.ones(3)])
