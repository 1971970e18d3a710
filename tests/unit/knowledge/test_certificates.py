"""A certificate's error for a query must bound the true difference whatever the two distributions are."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.counting.boxes import largest_box
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.tails import box_reach, noise_within, reach, sum_reach, z_score
from reticent.queries.forms import Dense, Product

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
VALUES = st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.25, 0.5])


def certificate(kind: str, bound: float, sets: tuple[tuple[str, ...], ...]) -> Certificate:
    """A certificate whose bound is exactly `bound`: the reading makes up for the noise's reach."""
    noise = Gaussian(1)
    stray = reach(noise, 0.05 / 2) / 1e6
    return Certificate(kind, sets, "s", bound - stray, noise.describe(), 0.0, 1e6, 0.0, 1, 0.95)  # pyright: ignore


def largest(kind: str, difference: np.ndarray) -> float:
    if kind == "cells":
        return float(np.abs(difference).max())
    if kind == "predicates":
        return float(difference[difference > 0].sum())
    spans = [[(i, j) for i in range(n) for j in range(i + 1, n + 1)] for n in difference.shape]
    return max(abs(float(difference[tuple(slice(i, j) for i, j in box)].sum())) for box in product(*spans))


def form(data: st.DataObject, names: tuple[str, ...]) -> Product | Dense:
    shape = DOMAIN.shape_of(names)
    if data.draw(st.booleans()):
        return Product(names, tuple(np.array(data.draw(st.lists(VALUES, min_size=n, max_size=n))) for n in shape))
    cells = int(np.prod(shape))
    return Dense(names, np.array(data.draw(st.lists(VALUES, min_size=cells, max_size=cells))).reshape(shape))


@settings(max_examples=300, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["cells", "boxes", "predicates"]))
def test_a_certified_error_bounds_the_true_difference(data: st.DataObject, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    truth, guess = (rng.dirichlet(np.full(24, 0.3)).reshape(3, 4, 2) for _ in range(2))
    sets = [s for size in (1, 2, 3) for s in combinations(DOMAIN.names, size)]

    def marginal(p: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
        return p.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in names))

    differences = {s: marginal(truth, s) - marginal(guess, s) for s in sets}
    bound = max(largest(kind, d) for d in differences.values())
    issued = certificate(kind, bound, tuple(sets))
    names = data.draw(st.sampled_from(sets))
    query = form(data, names)
    error = abs(float((differences[names] * query.tensor()).sum()))
    assert error <= issued.error_of(query) + 1e-12


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.lists(st.integers(1, 5), min_size=0, max_size=4))
def test_the_largest_box_is_found_without_listing_boxes(seed: int, shape: list[int]) -> None:
    difference = np.random.default_rng(seed).integers(-50, 50, size=shape)
    expected = largest("boxes", difference.astype(float)) if shape else abs(float(difference))
    assert largest_box(difference) == expected


def test_the_largest_box_is_exact_at_the_ends_of_int64() -> None:
    """Sums from the first code on leave int64 and come back: the box itself fits."""
    rng = np.random.default_rng(2)
    near = 2**63 - 1
    for signs in product((1, -1), repeat=3):
        parts = np.array([near // 3 * sign for sign in signs], dtype=np.int64)
        for shape in [(3,), (3, 1), (1, 3, 1), (1, 1, 3)]:
            runs = [abs(sum(map(int, parts[i:j]))) for i in range(3) for j in range(i + 1, 4)]
            assert largest_box(parts.reshape(shape)) == max(runs)
    whole = rng.integers(0, 2**58, (2, 3, 4))
    assert largest_box(whole) == sum(map(int, whole.ravel()))
    assert largest_box(-whole) == sum(map(int, whole.ravel()))


def test_a_certificate_says_nothing_beyond_its_sets() -> None:
    issued = certificate("boxes", 0.01, (("a", "b"),))
    beyond = Product(("a", "c"), (np.array([1.0, 0, 0]), np.array([1.0, 0])))
    inside = Product(("a",), (np.array([1.0, 1.0, 0]),))
    unconstrained = Product(("a", "c"), (np.array([1.0, 0, 0]), np.array([1.0, 1.0])))
    assert issued.error_of(beyond) == np.inf
    assert issued.error_of(inside) == pytest.approx(0.01)
    assert issued.error_of(unconstrained) == pytest.approx(0.01), "an attribute left free is not constrained"


def test_pieces_of_boxes_and_cells() -> None:
    split = Product(("b",), (np.array([1.0, 0, 1, 0]),))
    assert split.outline.boxes == 2
    assert split.outline.cells == 2
    ordered_mean = Product(("b",), (np.array([0, 0.25, 0.5, 1.0]),))
    assert ordered_mean.outline.boxes == 1, "a mean of ordered bins is an integral of boxes"
    hole = Product(("b",), (np.array([1.0, 0, 1, 1]),))
    assert hole.outline.boxes == 1, "the complement of a box"


@settings(max_examples=50, deadline=None)
@given(confidence=st.floats(0.6, 0.999999), more=st.floats(1e-7, 0.3))
def test_bounds_grow_with_confidence(confidence: float, more: float) -> None:
    issued = certificate("boxes", 0.01, (("a",),))
    higher = min(0.9999999, confidence + more)
    assert issued.bound_at(higher) >= issued.bound_at(confidence)


def test_certificates_survive_a_round_trip() -> None:
    import json

    issued = certificate("cells", 0.02, (("a", "b"),))
    assert Certificate.from_dict(json.loads(json.dumps(issued.to_dict()))) == issued


MISSES = 0.05
RUNS = 400
LARGEST_SHARE = 0.085
"""Three standard deviations above a share of MISSES among RUNS."""


@pytest.mark.parametrize("noise", [Gaussian(20), Laplace(15)])
def test_reach_is_a_true_quantile(noise: Gaussian | Laplace) -> None:
    drawn = noise.release(np.zeros(RUNS * 50, dtype=np.int64))
    share = float((drawn > reach(noise, MISSES) + 1).mean())
    assert 0.8 * MISSES < share < 1.2 * MISSES


def test_adaptive_sums_of_measured_cells_stay_within_their_bounds() -> None:
    """The worst sums are chosen after the noise is seen: all positive cells, the best box."""
    rng, shape = np.random.default_rng(7), (6, 8)
    missed_sums = missed_boxes = 0
    for _ in range(RUNS):
        noise = rng.normal(size=shape)
        j = int((noise > 0).sum())
        missed_sums += noise[noise > 0].sum() > sum_reach(1.0, j, noise.size, MISSES)
        spans = [[(a, b) for a in range(n) for b in range(a + 1, n + 1)] for n in shape]
        sums = ((noise[a:b, c:d].sum(), (b - a) * (d - c)) for (a, b), (c, d) in product(*spans))
        missed_boxes += any(abs(total) > box_reach(1.0, size, shape, MISSES) for total, size in sums)
    assert missed_sums / RUNS <= LARGEST_SHARE
    assert missed_boxes / RUNS <= LARGEST_SHARE


def test_noise_within_meets_the_error_it_promises() -> None:
    for pure in (True, False):
        noise = noise_within(100.0, 0.01, pure=pure)
        assert reach(noise, 0.005) <= 100.0 * (1 + 1e-6)
    with pytest.raises(QueryError, match="ask for a larger one"):
        noise_within(0.0, 0.01, pure=False)
    assert z_score(0.025) == pytest.approx(1.959964, rel=1e-6)
