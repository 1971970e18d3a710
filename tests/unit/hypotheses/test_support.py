"""Weights on chosen records, where they differ from a whole universe."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.domain import Domain
from reticent.errors import DomainError, QueryError
from reticent.hypotheses import Measurement, RecordsHypothesis, SupportHypothesis
from reticent.queries.forms import Product
from reticent.queries.linear import Marginal

HUGE = Domain({f"a{place}": 10 for place in range(40)})


def test_a_universe_of_any_size_is_answered() -> None:
    random = np.random.default_rng(0)
    support = SupportHypothesis.uniform(HUGE, 5000, random)
    assert support.log_size == pytest.approx(math.log(5000))
    query = Product(HUGE.names, tuple(np.append(np.ones(9), 0.0) for _ in HUGE.names))
    expected = (support.codes < 9).all(axis=1).mean()
    assert support.expect(query) == pytest.approx(expected)
    support.project(query, 0.5)
    assert support.expect(query) == pytest.approx(0.5, abs=1e-12)
    with pytest.raises(QueryError, match="name fewer"):
        support.marginal(HUGE.names[:9])


def test_a_product_support_follows_its_one_ways_and_knows_its_density() -> None:
    domain = Domain({"a": 3, "b": 2})
    one_ways = {"a": np.array([0.7, 0.2, 0.1])}
    support = SupportHypothesis.product(domain, one_ways, 40_000, np.random.default_rng(1))
    np.testing.assert_allclose(support.marginal(["a"]), one_ways["a"], atol=0.012)
    np.testing.assert_allclose(support.marginal(["b"]), [0.5, 0.5], atol=0.012)
    # a fit to uniform measurements must undo the way the records were drawn
    uniform = [
        Measurement(Marginal((name,)), np.full(domain[name].size, 1 / domain[name].size), 1e-3) for name in domain
    ]
    support.fit(uniform)
    np.testing.assert_allclose(support.marginal(["a", "b"]), np.full((3, 2), 1 / 6), atol=0.01)


def test_records_keep_order_and_repetitions() -> None:
    domain = Domain({"a": 3, "b": 2})
    rows = np.array([[2, 1], [0, 0], [2, 1], [1, 0]])
    records = RecordsHypothesis(domain, rows)
    np.testing.assert_array_equal(records.codes, rows)
    np.testing.assert_allclose(records.weights, 0.25)
    assert records.expect(Product(("a",), (np.array([0.0, 0.0, 1.0]),))) == 0.5
    weighted = RecordsHypothesis(domain, rows, np.array([1.0, 0.0, 0.0, 3.0]))
    np.testing.assert_allclose(weighted.marginal(["a"]), [0.0, 0.75, 0.25])
    counts = np.bincount(records.systematic(400, np.random.default_rng(0))[:, 0], minlength=3)
    np.testing.assert_array_equal(counts, [100, 100, 200])


def test_bad_records_are_refused() -> None:
    domain = Domain({"a": 3, "b": 2})
    with pytest.raises(DomainError, match="must be"):
        SupportHypothesis(domain, np.zeros((0, 2), dtype=int))
    with pytest.raises(DomainError, match="must be"):
        SupportHypothesis(domain, np.zeros((4, 3), dtype=int))
    for row in ([3, 0], [0, -1]):
        with pytest.raises(DomainError, match="outside"):
            SupportHypothesis(domain, np.array([row]))
    with pytest.raises(DomainError, match="as many"):
        SupportHypothesis(domain, np.array([[0, 0]]), np.ones(2))
    with pytest.raises(DomainError, match="non-negative"):
        SupportHypothesis(domain, np.array([[0, 0]]), np.array([-1.0]))
