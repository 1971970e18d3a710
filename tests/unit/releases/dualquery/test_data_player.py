"""Every data player against brute force over all records."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.queries.forms import Dense, Form, Product
from reticent.releases.dualquery.data_player import Clauses, Search, merged_clauses
from reticent.releases.dualquery.exact_player import ExactPlayer, IntegerProgram
from reticent.releases.dualquery.tables import VALUE, DrawnTables


@st.composite
def instances(draw) -> tuple[Clauses, np.ndarray, np.ndarray]:
    """Clauses of one to three literals, some negated, over a few attributes of one to four codes."""
    sizes = np.array(draw(st.lists(st.integers(1, 4), min_size=3, max_size=5)))
    count = draw(st.integers(1, 20))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    attributes = np.stack([generator.permutation(len(sizes))[:3] for _ in range(count)])
    attributes[generator.random(count) < 0.2, 2] = -1
    codes = np.where(attributes < 0, 0, generator.integers(0, sizes[attributes]))
    clauses = merged_clauses(attributes, codes, generator.choice([-1, 1], count))
    return clauses, sizes, generator.integers(0, sizes)


def best(clauses: Clauses, sizes: np.ndarray) -> int:
    return max(clauses.satisfied(np.array(record)) for record in itertools.product(*map(range, sizes)))


@settings(max_examples=40, deadline=None)
@given(instances())
def test_search_reports_what_its_record_wins_and_finds_the_best(instance):
    clauses, sizes, start = instance
    reply = Search().respond(clauses, sizes, start, 1)
    assert reply.satisfied == clauses.satisfied(reply.record)
    assert (reply.record >= 0).all()
    assert (reply.record < sizes).all()
    assert reply.satisfied == best(clauses, sizes)


@settings(max_examples=25, deadline=None)
@given(instances())
def test_the_exact_player_proves_its_optimum(instance):
    clauses, sizes, start = instance
    reply = ExactPlayer().respond(clauses, sizes, start, 1)
    assert reply.satisfied == clauses.satisfied(reply.record) == best(clauses, sizes) == reply.bound


@st.composite
def table_instances(draw) -> tuple[DrawnTables, np.ndarray, np.ndarray]:
    """Sets of codes, fractional vectors and their products, and tensors, some worth missing."""
    sizes = np.array(draw(st.lists(st.integers(1, 4), min_size=3, max_size=5)))
    names = [f"a{place}" for place in range(len(sizes))]
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    forms: list[Form] = []
    for _ in range(draw(st.integers(1, 12))):
        which = np.sort(generator.permutation(len(sizes))[: generator.integers(1, 4)])
        chosen = tuple(names[place] for place in which)
        kind = generator.integers(3)
        vectors = tuple(generator.random(sizes[place]) for place in which)
        if kind == 0:
            vectors = tuple((vector < 0.6).astype(float) for vector in vectors)
        forms.append(Dense(chosen, generator.random(sizes[which])) if kind == 2 else Product(chosen, vectors))
    gains = generator.choice([-3, -1, 1, 2], len(forms))
    drawn = DrawnTables(Domain(dict(zip(names, sizes.tolist(), strict=True))), forms, gains)
    return drawn, sizes, generator.integers(0, sizes)


NEARLY = 0.05
"""Of the drawn weight: annealing may end a little below the best, in about one instance of a hundred."""


def worth(drawn: DrawnTables, record: tuple[int, ...]) -> float:
    """What a record wins, in floating point from the forms themselves."""
    names = [f"a{place}" for place in range(len(record))]
    total = 0.0
    for form, gain in zip(drawn.forms, drawn.gains, strict=True):
        value = form.tensor()[tuple(record[names.index(name)] for name in form.attributes)]
        total += gain * value if gain > 0 else -gain * (1 - value)
    return total


@settings(max_examples=40, deadline=None)
@given(table_instances())
def test_the_search_finds_the_best_record_for_any_linear_queries(instance):
    drawn, sizes, start = instance
    reply = Search().respond(drawn, sizes, start, 1)
    values = [worth(drawn, record) for record in itertools.product(*map(range, sizes))]
    rounding = 4 * drawn.total / VALUE
    assert reply.satisfied == drawn.satisfied(reply.record) == pytest.approx(worth(drawn, reply.record), abs=rounding)
    assert ((reply.record >= 0) & (reply.record < sizes)).all()
    assert reply.satisfied >= max(values) - rounding - NEARLY * drawn.total


@settings(max_examples=25, deadline=None)
@given(table_instances())
def test_the_integer_program_proves_its_optimum_for_any_linear_queries(instance):
    drawn, sizes, start = instance
    reply = IntegerProgram().respond(drawn, sizes, start, 1)
    best_value = max(worth(drawn, record) for record in itertools.product(*map(range, sizes)))
    assert reply.bound is not None
    assert reply.bound >= best_value - 4 * drawn.total / VALUE
    assert reply.satisfied >= reply.bound - 1e-4 * (1 + drawn.total)
    again = IntegerProgram().respond(drawn, sizes, start, 1)
    np.testing.assert_array_equal(reply.record, again.record)


@settings(max_examples=20, deadline=None)
@given(instances())
def test_the_integer_program_counts_nodes_and_proves_the_optimum_of_conjunctions(instance):
    clauses, sizes, start = instance
    reply = IntegerProgram(nodes=500).respond(clauses, sizes, start, 1)
    assert reply.satisfied == best(clauses, sizes) == reply.bound
    with pytest.raises(QueryError, match="nodes"):
        IntegerProgram(nodes=0)


def test_the_search_repeats_and_follows_its_seed():
    generator = np.random.default_rng(0)
    sizes = np.full(40, 3)
    attributes = np.stack([generator.permutation(40)[:3] for _ in range(60)])
    clauses = merged_clauses(attributes, generator.integers(0, 3, attributes.shape), np.ones(60, dtype=np.int64))
    start = np.zeros(40, dtype=np.int64)
    records = [Search(500).respond(clauses, sizes, start, seed).record for seed in (5, 5, 6)]
    np.testing.assert_array_equal(records[0], records[1])
    assert (records[0] != records[2]).any()


def test_the_search_is_close_to_the_proven_optimum_on_hard_instances():
    """Near misses are allowed, a broken move set is not."""
    generator = np.random.default_rng(2)
    sizes = np.full(12, 2)
    for _ in range(3):
        attributes = np.stack([generator.permutation(12)[:3] for _ in range(60)])
        signs = generator.choice([-1, 1, 1], 60)
        clauses = merged_clauses(attributes, generator.integers(0, 2, attributes.shape), signs)
        exact = ExactPlayer(60.0).respond(clauses, sizes, np.zeros(12, dtype=np.int64), 0)
        assert exact.satisfied == exact.bound
        assert Search().respond(clauses, sizes, np.zeros(12, dtype=np.int64), 0).satisfied >= 0.95 * exact.satisfied


def test_untouched_attributes_keep_their_start():
    clauses = merged_clauses(np.array([[1, 2, -1]]), np.array([[1, 1, 0]]), np.array([1]))
    reply = Search().respond(clauses, np.array([5, 2, 2, 7]), np.array([4, 0, 0, 6]), 0)
    np.testing.assert_array_equal(reply.record, [4, 1, 1, 6])


def test_a_query_drawn_with_its_complement_cancels():
    clauses = merged_clauses(np.array([[0], [0], [1]]), np.array([[1], [1], [0]]), np.array([1, -1, 1]))
    np.testing.assert_array_equal(clauses.attributes, [[1]])
    np.testing.assert_array_equal(clauses.gains, [1])
    empty = merged_clauses(np.array([[0], [0]]), np.array([[1], [1]]), np.array([1, -1]))
    assert Search().respond(empty, np.array([2]), np.array([1]), 0).satisfied == 0


def test_players_refuse_nonsense():
    with pytest.raises(QueryError, match="at least 1"):
        Search(0)
    with pytest.raises(QueryError, match="above 0"):
        ExactPlayer(0.0)
    with pytest.raises(QueryError, match="one for each"):
        Clauses(np.zeros((2, 1), int), np.zeros((2, 1), int), np.ones(3, int))
    with pytest.raises(QueryError, match="two equal tables"):
        Clauses(np.zeros((2, 1), int), np.zeros((2, 2), int), np.ones(2, int))
