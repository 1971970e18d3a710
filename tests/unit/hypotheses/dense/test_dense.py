"""The dense tensor where it is special: compiled boxes, the running total, fused passes, its limits.

The vectorised exponential: as exact as NumPy's, and quiet at the edges.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.errors import DomainError
from reticent.hypotheses import DenseHypothesis, Measurement
from reticent.hypotheses.dense.dense import CellBox, softmax_in_place
from reticent.hypotheses.dense.kernels import exponentiate
from reticent.queries.forms import Dense, Product
from reticent.queries.linear import Marginal

LARGE = Domain({f"a{place}": size for place, size in enumerate((8, 3, 16, 2, 5, 4, 16))})


def one_hot(size: int, *codes: int) -> np.ndarray:
    vector = np.zeros(size)
    vector[list(codes)] = 1.0
    return vector


def random_box(domain: Domain, random: np.random.Generator) -> Product:
    names = domain.canonical(random.choice(domain.names, random.integers(1, 4), replace=False))
    vectors = [one_hot(domain[name].size, *np.flatnonzero(random.random(domain[name].size) < 0.6)) for name in names]
    return Product(names, tuple(vectors))


@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=7),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_a_box_lists_exactly_its_cells_in_order(shape: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    axes = np.sort(random.choice(len(shape), random.integers(0, len(shape) + 1), replace=False))
    vectors = [random.integers(0, 2, shape[axis]).astype(float) for axis in axes]
    box = CellBox.of(np.array(shape), axes.tolist(), vectors)
    assert box is not None
    cells = [
        np.arange(row + start, row + start + length)
        for row in box.rows
        for start, length in zip(box.starts, box.lengths, strict=True)
    ]
    inside = np.ones(shape)
    for axis, vector in zip(axes, vectors, strict=True):
        inside *= vector.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    np.testing.assert_array_equal(np.concatenate([np.empty(0), *cells]), np.flatnonzero(inside))
    assert box.cells == np.count_nonzero(inside)
    assert CellBox.of(np.array([4, 3]), [1], [np.array([0.0, 0.5, 1.0])]) is None


def test_large_universes_agree_with_enumeration() -> None:
    random = np.random.default_rng(2)
    start = random.random(LARGE.shape)
    hypothesis, p = DenseHypothesis(LARGE, start), start / start.sum()
    for _ in range(20):
        box = random_box(LARGE, random)
        names = LARGE.canonical(random.choice(LARGE.names, 3, replace=False))
        product = Product(names, tuple(random.random(size) for size in LARGE.shape_of(names)))
        dense = Dense(names[:2], random.random(LARGE.shape_of(names[:2])))
        for query in (box, product, dense):
            aligned = [LARGE[n].size if n in query.attributes else 1 for n in LARGE.names]
            q = query.tensor().reshape(aligned)
            assert hypothesis.expect(query) == pytest.approx(float((p * q).sum()), rel=1e-11)
            target = query.range[0] + float(random.uniform(0.2, 0.8)) * (query.range[1] - query.range[0])
            eta = hypothesis.project(query, target)
            p = p * np.exp(eta * q)
            p /= p.sum()
    np.testing.assert_allclose(hypothesis.probabilities(), p, rtol=1e-10, atol=1e-60)


def test_the_running_total_stays_exact_over_thousands_of_boxes() -> None:
    random = np.random.default_rng(4)
    domain = Domain({"a": 64, "b": 32, "c": 64})
    hypothesis = DenseHypothesis(domain)
    for _ in range(4000):
        query = random_box(domain, random)
        hypothesis.project(query, float(random.choice([1e-9, 0.02, 0.4, 0.97, 1 - 1e-9])))
    assert float(hypothesis.probabilities().sum()) == pytest.approx(1.0, abs=1e-12)


def test_weights_that_run_away_are_brought_back() -> None:
    domain = Domain({"a": 256, "b": 256})
    hypothesis = DenseHypothesis(domain)
    query = Product(("a",), (one_hot(256, 3),))
    for _ in range(10):
        hypothesis.reweight(query, 300.0)
        hypothesis.reweight(query, -280.0)
    odds = math.exp(200.0) / 255.0
    assert hypothesis.expect(query) == pytest.approx(odds / (1 + odds))
    hypothesis.reweight(query, 5000.0)
    assert hypothesis.expect(query) == pytest.approx(1.0)
    hypothesis.reweight(query, -9000.0)
    assert math.isfinite(hypothesis.expect(query))


def test_the_fused_pass_equals_two_passes() -> None:
    random = np.random.default_rng(6)
    start = random.random(LARGE.shape)
    for first, second in itertools.product([("a0", "a2"), ("a1",), ("a5", "a6")], repeat=2):
        fused, plain = DenseHypothesis(LARGE, start), DenseHypothesis(LARGE, start)
        query = Product(first, tuple(random.random(size) for size in LARGE.shape_of(first)))
        upcoming = Dense(second, random.random(LARGE.shape_of(second)))
        plain.reweight(query, -1.3)
        assert fused.reweight_and_expect(query, -1.3, upcoming) == pytest.approx(plain.expect(upcoming), rel=1e-12)
        np.testing.assert_allclose(fused.probabilities(), plain.probabilities(), rtol=1e-12)


@pytest.mark.parametrize("sizes", [{"a": 3, "b": 2}, {"a": 256, "b": 512}])
def test_the_fused_pass_serves_boxes_and_small_universes_too(sizes: dict[str, int]) -> None:
    domain = Domain(sizes)
    fused, plain = DenseHypothesis(domain), DenseHypothesis(domain)
    query, upcoming = Product(("a",), (one_hot(sizes["a"], 1),)), Product(("b",), (np.linspace(0, 1, sizes["b"]),))
    plain.reweight(query, 0.7)
    assert fused.reweight_and_expect(query, 0.7, upcoming) == pytest.approx(plain.expect(upcoming), rel=1e-12)


def test_the_product_of_one_way_distributions() -> None:
    domain = Domain({"a": 2, "b": 3})
    hypothesis = DenseHypothesis.product(domain, {"b": np.array([0.2, 0.3, 0.5])})
    np.testing.assert_allclose(hypothesis.marginal(["a", "b"]), np.outer([0.5, 0.5], [0.2, 0.3, 0.5]))


def test_what_cannot_be_held_is_refused() -> None:
    with pytest.raises(DomainError, match="exceeds"):
        DenseHypothesis(Domain({f"a{place}": 2 for place in range(29)}))
    domain = Domain({"a": 2, "b": 2})
    for weights in (np.zeros((2, 2)), np.full((2, 2), np.nan), np.array([[1.0, -1.0], [1.0, 1.0]])):
        with pytest.raises(DomainError, match="non-negative"):
            DenseHypothesis(domain, weights)
    with pytest.raises(DomainError, match="do not fit"):
        DenseHypothesis(domain, np.ones(4))


def test_a_small_universe_never_waits_for_the_compiler() -> None:
    script = """
import sys
import numpy as np
from reticent.domain import Domain
from reticent.hypotheses import DenseHypothesis, Snapshot
from reticent.queries.forms import Product
h = DenseHypothesis(Domain({"a": 8, "b": 8}))
h.project(Product(("a",), (np.eye(8)[0],)), 0.3)
h.marginals([["a"], ["b"]])
Snapshot(h).expect(Product(("a",), (np.eye(8)[0],)))
sys.exit("numba" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_warm_start_of_a_fit_is_saved_too() -> None:
    domain = Domain({"a": 3, "b": 4})
    random = np.random.default_rng(8)
    first, second = (
        [Measurement(Marginal(domain.names), random.dirichlet(np.ones(12)).reshape(3, 4), 0.01)] for _ in "ab"
    )
    hypothesis = DenseHypothesis(domain)
    hypothesis.fit(first)
    loaded = DenseHypothesis.from_bytes(hypothesis.to_bytes())
    assert loaded.fit(second) == hypothesis.fit(second)
    assert loaded.to_bytes() == hypothesis.to_bytes()


TWO_ULPS = 2.0**-51


def test_every_magnitude_is_right_to_two_units_in_the_last_place() -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([-random.random(50_000) * 700, -(10.0 ** random.uniform(-18, 2.8, 50_000)), [0.0]])
    result = x.copy()
    total = exponentiate(result, 0.0)
    np.testing.assert_allclose(result, np.exp(x), rtol=TWO_ULPS)
    assert total == pytest.approx(math.fsum(np.exp(x)), rel=1e-14)
    assert result[-1] == 1.0


def test_what_underflows_is_zero() -> None:
    x = np.array([-math.inf, -1e300, -745.0, -708.5, -707.9, 0.0])
    exponentiate(x, 0.0)
    np.testing.assert_array_equal(x[:4], 0.0)
    np.testing.assert_allclose(x[4:], np.exp([-707.9, 0.0]), rtol=1e-12)


@pytest.mark.parametrize("shape", [(3, 5), (64, 32, 40)])
def test_softmax_sums_to_one_and_returns_the_log_partition(shape: tuple[int, ...]) -> None:
    logits = np.random.default_rng(1).normal(300.0, 20.0, shape)
    probabilities = logits.copy()
    log_partition = softmax_in_place(probabilities)
    assert log_partition == pytest.approx(logits.max() + math.log(np.exp(logits - logits.max()).sum()), rel=1e-14)
    np.testing.assert_allclose(probabilities, np.exp(logits - log_partition), rtol=1e-12)
