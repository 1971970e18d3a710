"""Guesses that are kept from round to round are those of the hypothesis as it is."""

from __future__ import annotations

import numpy as np
import pytest

import reticent as rt
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.junction_tree.factored import FactoredHypothesis
from reticent.hypotheses.support import SupportHypothesis
from reticent.kernel.counting.records import Records
from reticent.kernel.linear_scores import LinearScores
from reticent.kernel.statistics import CellScores
from reticent.queries.base import Linear
from reticent.queries.linear import Conjunction, Range
from reticent.queries.workload import Workload
from reticent.releases.query_class import Learner, QueryClass

RECORDS = 1000.0
RULED = rt.Domain({"a": 3, "b": 4, "c": 2, "d": 5, "e": 3}, impossible=["a = 0 AND e = 2"])
DOMAINS = {
    "dense": rt.Domain({"a": 3, "b": 4, "c": 2, "d": 5, "e": 3}),
    "ruled": RULED,
    "factored": rt.Domain({f"x{i}": size for i, size in enumerate([2, 3, 10, 4, 2, 7, 2, 5, 12, 3, 9, 8, 6])}),
}
SMALL_TREE = 200
"""Cells: a few updates outgrow it."""


def queries_of(domain: rt.Domain, count: int, seed: int) -> list[Linear]:
    """Cells, boxes, disjunctions and means of one to three attributes."""
    generator = np.random.default_rng(seed)
    found: dict[Linear, None] = {}
    while len(found) < count:
        width = int(generator.integers(1, 4))
        names = [str(name) for name in generator.choice(domain.names, width, replace=False)]
        codes = {name: int(generator.integers(domain[name].size)) for name in names}
        one = names[0]
        asked: list[Linear] = [
            Conjunction(codes),
            Range({name: (0, code) for name, code in codes.items()}),
            rt.count(rt.col(one) == codes[one]) if width == 1 else rt.count(_either(codes)),
            rt.linear(one, values=generator.random(domain[one].size)),
        ]
        found[asked[int(generator.integers(len(asked)))]] = None
    return list(found)


def _either(codes: dict[str, int]) -> rt.Predicate:
    first, second, *_ = codes
    return (rt.col(first) == codes[first]) | (rt.col(second) <= codes[second])


@pytest.mark.parametrize("tree_cells", [None, SMALL_TREE])
@pytest.mark.parametrize("name", DOMAINS)
def test_kept_guesses_are_those_of_the_hypothesis(name: str, tree_cells: int | None) -> None:
    domain = DOMAINS[name]
    asked = queries_of(domain, 25, 1)
    classes = {
        "single queries": QueryClass(Workload(asked).on(domain), domain),
        "cells": QueryClass(rt.marginals(domain, 2).on(domain), domain),
    }
    for queries in classes.values():
        learner = Learner.uniform(queries, tree_cells, "test")
        generator = np.random.default_rng(2)
        for turn, query in enumerate(asked[:12]):
            kept = guessed(learner.scores(RECORDS, []), domain)
            fresh = guessed(queries.scores(learner.hypothesis, RECORDS), domain)
            assert np.abs(kept - fresh).max() <= 1 + 1e-9 * np.abs(fresh).max()
            if turn % 2:
                learner.reweight(query, float(generator.normal()))
            else:
                learner.replay([(query, float(generator.uniform(0.1, 0.9)), 0.01)])


def guessed(scores: CellScores | LinearScores, domain: rt.Domain) -> np.ndarray:
    """Scores of a table without records: guesses, on the grid."""
    nothing = np.zeros(0, dtype=np.int64)
    return scores.evaluate(Records.of_codes(domain, dict.fromkeys(domain.names, nothing), nothing), 1)


def test_only_what_an_update_moved_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = DOMAINS["factored"]
    queries = QueryClass(rt.marginals(domain, 2).on(domain), domain)
    learner = Learner.uniform(queries, None, "test")
    assert isinstance(learner.hypothesis, FactoredHypothesis)
    read: list[tuple[str, ...]] = []
    plain = type(learner.hypothesis).marginals

    def spied(hypothesis: FactoredHypothesis, sets: list[tuple[str, ...]]) -> list[np.ndarray]:
        read[:] = sets
        return plain(hypothesis, sets)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(type(learner.hypothesis), "marginals", spied)
    learner.scores(RECORDS, [])
    assert set(read) == {(name,) for name in domain.names}  # all are independent as yet
    for query, part in (
        (Conjunction({"x0": 1, "x3": 2}), {"x0", "x3"}),
        (Conjunction({"x5": 1}), {"x5"}),
        (Conjunction({"x3": 0, "x5": 2}), {"x0", "x3", "x5"}),
        (Conjunction({"x0": 0}), {"x0", "x3", "x5"}),
    ):
        learner.reweight(query, 0.5)
        learner.scores(RECORDS, [])
        assert all(set(names) <= part for names in read)
        assert {name for names in read for name in names} == part


def test_a_hypothesis_that_did_not_begin_uniform_is_read_whole() -> None:
    domain = DOMAINS["dense"]
    hypothesis = DenseHypothesis(domain)
    hypothesis.reweight(Conjunction({"a": 1, "b": 2}), 2.0)
    queries = QueryClass(rt.marginals(domain, 2).on(domain), domain)
    learner = Learner(queries, hypothesis)
    before = guessed(learner.scores(RECORDS, []), domain)
    learner.reweight(Conjunction({"a": 0}), 1.0)
    after = guessed(learner.scores(RECORDS, []), domain)
    fresh = guessed(queries.scores(hypothesis, RECORDS), domain)
    assert np.abs(after - fresh).max() <= 1
    assert np.abs(after - before).max() > 1


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", DOMAINS)
def test_cells_move_as_their_records_do(name: str, kept: bool) -> None:
    domain = DOMAINS[name]
    generator = np.random.default_rng(3)
    one, other = (SupportHypothesis.uniform(domain, 500, np.random.default_rng(4)) for _ in range(2))
    asked = queries_of(domain, 12, 5)
    sets = list(dict.fromkeys(query.compile(domain).attributes for query in asked))
    pairs = rt.marginals(domain, 2).on(domain).marginals
    if kept:
        one.marginals([*sets, *pairs])
    assert all(one.marginal(names).tobytes() == other.marginal(names).tobytes() for names in sets)
    for query in asked:
        form, eta = query.compile(domain), float(generator.normal(scale=3))
        one.reweight_cells(form, eta)
        other.reweight(form, eta)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9, atol=1e-300)
