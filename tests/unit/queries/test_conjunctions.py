"""Conjunctions as arrays: what they hold, what they refuse, and their exact counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.counting.conjunctions import conjunction_counts
from reticent.queries.conjunctions import Conjunctions

DOMAIN = Domain(a=3, b=4, c=2, d=5)


def slow(conjunctions: Conjunctions, codes: np.ndarray, weights: np.ndarray) -> list[int]:
    found = []
    for index in range(len(conjunctions)):
        met = np.ones(len(codes), dtype=bool)
        for name, code in conjunctions.literals_of(index).items():
            met &= codes[:, DOMAIN.index(name)] == code
        found.append(int(weights[met].sum()))
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 200), st.sampled_from(["ones", "equal", "any", "heavy"]))
def test_counts_equal_a_plain_loop(seed, rows, kind):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, DOMAIN.shape, size=(rows, 4))
    # From 2^26 in all, weights are bit planes.
    heavy = generator.integers(0, 2**36, rows)
    kinds = {"ones": np.ones(rows), "equal": np.full(rows, 7), "any": generator.integers(0, 9, rows), "heavy": heavy}
    weights = kinds[kind].astype(int)
    wide = Conjunctions.random(DOMAIN, 3, 20, generator)
    mixed = Conjunctions.stack([wide, Conjunctions.of_cells(DOMAIN, [("c",), ("a", "d")])])
    counts = conjunction_counts(mixed, lambda attribute: codes[:, attribute], weights)
    assert counts.tolist() == slow(mixed, codes, weights)
    assert mixed.tally(codes).tolist() == slow(mixed, codes, np.ones(rows, dtype=int))


def test_cells_come_in_c_order_set_after_set():
    cells = Conjunctions.of_cells(DOMAIN, [("a", "c"), ("b",)])
    assert len(cells) == 3 * 2 + 4
    assert cells.literals_of(0) == {"a": 0, "c": 0}
    assert cells.literals_of(1) == {"a": 0, "c": 1}
    assert cells.literals_of(5) == {"a": 2, "c": 1}
    assert cells.literals_of(7) == {"b": 1}


def test_equal_lists_have_equal_digests_whatever_the_order_of_literals():
    first = Conjunctions(DOMAIN, np.array([[0, 3]]), np.array([[1, 4]]))
    second = Conjunctions(DOMAIN, np.array([[3, 0]]), np.array([[4, 1]]))
    other = Conjunctions(DOMAIN, np.array([[0, 3]]), np.array([[1, 3]]))
    assert first.digest == second.digest != other.digest
    assert first.to_dict() == {"conjunctions": 1, "width": 2, "digest": first.digest}
    assert first.on(Domain(a=3, b=4, c=2, d=5)) is first
    assert "1 of at most 2" in repr(first)
    with pytest.raises(QueryError, match="another domain"):
        first.on(Domain(a=3))


def test_random_conjunctions_are_different_and_cover_all_attributes():
    drawn = Conjunctions.random(DOMAIN, 2, 60, np.random.default_rng(0))
    texts = {tuple(sorted(drawn.literals_of(index).items())) for index in range(len(drawn))}
    assert len(texts) == len(drawn) == 60
    assert set(np.unique(drawn.attributes)) == {0, 1, 2, 3}
    total = len(Conjunctions.of_cells(DOMAIN, [("a", "b")]))
    with pytest.raises(QueryError, match="ask for fewer"):
        Conjunctions.random(Domain(a=3, b=4), 2, total + 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("attributes", "codes", "message"),
    [
        ([[0, 0]], [[1, 1]], "twice"),
        ([[0, 4]], [[1, 1]], "positions 0..3"),
        ([[0, 1]], [[3, 1]], "between 0 and 2"),
        ([[-1, -1]], [[0, 0]], "holds for everyone"),
        ([[0.5]], [[0]], "whole numbers"),
        ([[0, 1]], [[0]], "two equal tables"),
        (np.empty((0, 2), int), np.empty((0, 2), int), "two equal tables"),
    ],
)
def test_malformed_conjunctions_are_refused(attributes, codes, message):
    with pytest.raises(QueryError, match=message):
        Conjunctions(DOMAIN, np.asarray(attributes), np.asarray(codes))


def test_lists_of_different_domains_are_not_stacked():
    first = Conjunctions.of_cells(DOMAIN, [("a",)])
    with pytest.raises(QueryError, match="one domain"):
        Conjunctions.stack([first, Conjunctions.of_cells(Domain(a=3), [("a",)])])
    with pytest.raises(QueryError, match="at least one set"):
        Conjunctions.of_cells(DOMAIN, [])
    with pytest.raises(QueryError, match="between 1 and"):
        Conjunctions.random(DOMAIN, 5, 1, np.random.default_rng(0))
