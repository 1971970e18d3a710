"""Elimination orders: valid, near the optimum, fast, and stopped before they blow up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reticent.errors import DomainError
from reticent.hypotheses.junction_tree.elimination import GrowingGraph, hypothetical_size, triangulate

ADULT_14 = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)


def cheapest_by_enumeration(sizes: list[int], sets: list[tuple[int, ...]]) -> int:
    """Total cells of maximal cliques over all elimination orders."""
    best = math.inf
    for order in itertools.permutations(range(len(sizes))):
        adjacent = {i: {j for s in sets if i in s for j in s} | {i} for i in range(len(sizes))}
        bags: list[set[int]] = []
        for vertex in order:
            bag = adjacent[vertex]
            for other in bag:
                adjacent[other] = (adjacent[other] | bag) - {vertex}
            if not any(bag <= kept for kept in bags):
                bags.append(set(bag))
        best = min(best, sum(math.prod(sizes[i] for i in bag) for bag in bags))
    return int(best)


@pytest.mark.parametrize("seed", range(25))
def test_small_orders_are_optimal(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 9, 6).tolist()
    sets = [tuple(generator.choice(6, 2 + seed % 2, replace=False).tolist()) for _ in range(5)]
    assert triangulate(sizes, sets).cells == cheapest_by_enumeration(sizes, sets)


@pytest.mark.parametrize("seed", range(50))
def test_every_set_has_a_clique_and_no_clique_contains_another(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sets = [tuple(generator.choice(20, 3, replace=False).tolist()) for _ in range(12)]
    found = triangulate([2] * 20, sets)
    assert all(found.hosts(s) for s in sets)
    for one, two in itertools.permutations(found.cliques, 2):
        assert not set(one) <= set(two)
    assert set().union(*found.cliques) == set(range(20))


@pytest.mark.parametrize("seed", range(20))
def test_a_growing_graph_has_the_cells_of_the_tree(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 5, 15).tolist()
    sets = [tuple(generator.choice(15, 1 + i % 3, replace=False).tolist()) for i in range(20)]
    grown = GrowingGraph.of(sizes, sets[:10])
    for i in range(10, 20):
        larger = grown.with_set(sets[i])
        assert grown.cells == triangulate(sizes, sets[:i], restarts=0).cells
        grown = larger
    assert grown.cells == triangulate(sizes, sets, restarts=0).cells


def test_a_wheel_of_more_than_64_vertices_has_its_hub_in_every_clique() -> None:
    """Neighbours are bits of several words then."""
    rim = [(i, (i + 1) % 130) for i in range(130)]
    found = triangulate([2] * 130 + [3], [*rim, *((i, 130) for i in range(130))], restarts=0)
    assert all(130 in clique for clique in found.cliques)
    assert found.cells == 128 * 2**3 * 3


def test_restarts_help_and_repeat() -> None:
    generator = np.random.default_rng(1)
    sets = [tuple(generator.choice(100, 3, replace=False).tolist()) for _ in range(75)]
    greedy, searched = triangulate([2] * 100, sets, restarts=0), triangulate([2] * 100, sets)
    assert searched.cells < greedy.cells
    assert searched == triangulate([2] * 100, sets)


def test_the_size_of_a_huge_clique_is_known_without_building_it() -> None:
    domain = {f"a{i}": size for i, size in enumerate(ADULT_14)}
    assert hypothetical_size(domain, [tuple(domain)]) == pytest.approx(sum(map(math.log2, ADULT_14)))
    assert hypothetical_size(domain, []) == pytest.approx(math.log2(sum(ADULT_14)))


def test_unknown_attributes_are_named() -> None:
    with pytest.raises(DomainError, match="colour"):
        hypothetical_size({"size": 3}, [("colour",)])
    with pytest.raises(DomainError, match="outside"):
        triangulate([2, 2], [(0, 2)])
