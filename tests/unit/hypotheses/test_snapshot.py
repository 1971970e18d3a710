"""Snapshots: frozen, shared by threads, bounded in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.hypotheses import DenseHypothesis, Snapshot
from reticent.hypotheses import snapshot as module
from reticent.queries.forms import Product

DOMAIN = Domain({"a": 8, "b": 16, "c": 32, "d": 64})


def random_product(random: np.random.Generator) -> Product:
    names = DOMAIN.canonical(random.choice(DOMAIN.names, random.integers(1, 5), replace=False))
    return Product(names, tuple(random.random(size).round() for size in DOMAIN.shape_of(names)))


@pytest.fixture
def hypothesis() -> DenseHypothesis:
    return DenseHypothesis(DOMAIN, np.random.default_rng(0).random(DOMAIN.shape))


def test_threads_get_the_same_answers(hypothesis: DenseHypothesis, monkeypatch: pytest.MonkeyPatch) -> None:
    # a small limit sends some questions to the hypothesis itself and makes the kept marginals change places
    monkeypatch.setattr(module, "_SMALL", 1 << 14)
    monkeypatch.setattr(module, "_KEPT_CELLS", 1 << 14)
    random = np.random.default_rng(1)
    queries = [random_product(random) for _ in range(300)]
    expected = [hypothesis.expect(query) for query in queries]
    snapshot = Snapshot(hypothesis)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            np.testing.assert_allclose(list(pool.map(snapshot.expect, queries)), expected, rtol=1e-11)
    assert snapshot._kept_cells <= 1 << 14
    assert snapshot._kept_cells == sum(marginal.size for marginal in snapshot._kept.values())


def test_marginals_are_shared_and_read_only(hypothesis: DenseHypothesis) -> None:
    snapshot = Snapshot(hypothesis)
    first = snapshot.marginal(["b", "a"])
    assert snapshot.marginal(["a", "b"]) is first
    together = snapshot.marginals([["a"], ["a", "b"], ["c"], ["a"]])
    assert snapshot.marginals([["a"], ["b", "a"], ["c"], ["a"]])[1] is together[1]
    np.testing.assert_allclose(together[1], first)
    np.testing.assert_allclose(together[2], hypothesis.marginal(["c"]))
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1.0


def test_a_snapshot_outlives_changes_and_thaws(hypothesis: DenseHypothesis) -> None:
    snapshot = Snapshot(hypothesis)
    query = Product(("a",), (np.eye(8)[0],))
    before = hypothesis.expect(query)
    hypothesis.project(query, 0.9)
    assert snapshot.expect(query) == pytest.approx(before)
    thawed = snapshot.thaw()
    thawed.project(query, 0.1)
    assert snapshot.expect(query) == pytest.approx(before)
    assert snapshot.log_size == thawed.log_size
    assert snapshot.domain == DOMAIN
    assert snapshot.sample(5, np.random.default_rng(0)).shape == (5, 4)
