"""Elimination orders: which cliques exact inference must hold, and how large they are, before any table is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod

import numba
import numpy as np

from reticent.errors import DomainError

DEFAULT_RESTARTS = 24
"""Randomised orders tried besides the three greedy ones; their seeds are public constants (replay is bit-identical)."""

DEFAULT_LIMIT = 2**24
"""Total clique cells above which a tree is refused (engines.md: ceiling about 2^24)."""


@dataclass(frozen=True)
class Triangulation:
    """Maximal cliques (sorted attribute positions) of a chordal completion, and their cells in all."""

    cliques: tuple[tuple[int, ...], ...]
    cells: int

    @property
    def log2_cells(self) -> float:
        return log2(self.cells)

    def hosts(self, members: Iterable[int]) -> bool:
        """Whether some clique contains all members: then adding them as a set changes nothing."""
        wanted = frozenset(members)
        return any(wanted.issubset(clique) for clique in self.cliques)


@numba.njit(cache=True)
def _score(adjacency, alive, weights, vertex, rule):  # pragma: no cover - compiled
    size = adjacency.shape[0]
    if rule == 2:
        total = weights[vertex]
        for first in range(size):
            if alive[first] and adjacency[vertex, first]:
                total += weights[first]
        return total
    fill = 0.0
    for first in range(size):
        if not (alive[first] and adjacency[vertex, first]):
            continue
        for second in range(first + 1, size):
            if alive[second] and adjacency[vertex, second] and not adjacency[first, second]:
                fill += 1.0 if rule == 0 else weights[first] * weights[second]
    return fill


@numba.njit(cache=True)
def _eliminate(graph, weights, rule, noise, seed, best):  # pragma: no cover - compiled
    """One greedy order; returns (order, total cells), giving up as soon as `best` is exceeded."""
    size = graph.shape[0]
    adjacency = graph.copy()
    alive = np.ones(size, np.bool_)
    scores = np.empty(size)
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
    for vertex in range(size):
        scores[vertex] = _score(adjacency, alive, weights, vertex, rule)
    order = np.empty(size, np.int64)
    total = 0.0
    neighbours = np.empty(size, np.int64)
    stale = np.zeros(size, np.bool_)
    for step in range(size):
        chosen = -1
        lowest = np.inf
        for vertex in range(size):
            if not alive[vertex]:
                continue
            # splitmix64: public, fixed seeds
            state += np.uint64(0x9E3779B97F4A7C15)
            mixed = state
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            uniform = np.float64((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
            value = scores[vertex] * (1.0 + noise * uniform) + 1e-9 * weights[vertex] + 1e-10 * noise * uniform
            if value < lowest:
                lowest = value
                chosen = vertex
        count = 0
        cells = weights[chosen]
        for vertex in range(size):
            if alive[vertex] and adjacency[chosen, vertex]:
                neighbours[count] = vertex
                count += 1
                cells += weights[vertex]
        total += 2.0**cells
        if total > best:
            return order, np.inf
        order[step] = chosen
        alive[chosen] = False
        stale[:] = False
        for i in range(count):
            first = neighbours[i]
            stale[first] = True
            for j in range(i + 1, count):
                second = neighbours[j]
                if not adjacency[first, second]:
                    adjacency[first, second] = True
                    adjacency[second, first] = True
                    # a new edge changes the fill of everything adjacent to both ends
                    for vertex in range(size):
                        if adjacency[first, vertex] and adjacency[second, vertex]:
                            stale[vertex] = True
        for vertex in range(size):
            if alive[vertex] and stale[vertex]:
                scores[vertex] = _score(adjacency, alive, weights, vertex, rule)
    return order, total


@numba.njit(cache=True)
def _search(graph, weights, restarts):  # pragma: no cover - compiled
    """The best of the greedy orders and of their randomised variants."""
    best_order = np.arange(graph.shape[0])
    best = np.inf
    for attempt in range(restarts + 3):
        noise = 0.0 if attempt < 3 else 0.15 * (1 + attempt % 5)
        order, total = _eliminate(graph, weights, attempt % 3, noise, attempt, best)
        if total < best:
            best = total
            best_order = order
    return best_order, best


def _graph(count: int, sets: Sequence[Sequence[int]]) -> np.ndarray:
    graph = np.zeros((count, count), np.bool_)
    for members in sets:
        index = np.asarray(members, np.int64)
        graph[index[:, None], index[None, :]] = True
    np.fill_diagonal(graph, False)
    return graph


def _bags(order: Sequence[int], sets: Sequence[Sequence[int]], count: int) -> list[int]:
    """Maximal bags of an elimination order, as bit masks."""
    adjacent = [0] * count
    for members in sets:
        mask = sum(1 << m for m in members)
        for m in members:
            adjacent[m] |= mask
    maximal: list[int] = []
    for vertex in order:
        bag = adjacent[vertex] | (1 << vertex)
        rest = bag & ~(1 << vertex)
        remaining = rest
        while remaining:
            low = remaining & -remaining
            adjacent[low.bit_length() - 1] |= rest
            adjacent[low.bit_length() - 1] &= ~(1 << vertex)
            remaining ^= low
        # a bag is swallowed only by an earlier one: later bags no longer hold its vertex
        if not any(bag & ~other == 0 for other in maximal):
            maximal.append(bag)
    return maximal


def triangulate(
    sizes: Sequence[int], sets: Iterable[Sequence[int]], *, restarts: int = DEFAULT_RESTARTS
) -> Triangulation:
    """The cheapest triangulation found for attribute sets given by position; uncovered attributes stand alone."""
    members = [tuple(sorted({int(i) for i in s})) for s in sets]
    for positions in members:
        if positions and not 0 <= positions[0] <= positions[-1] < len(sizes):
            raise DomainError(f"attribute set {positions} is outside 0..{len(sizes) - 1}: name known attributes")
    if not sizes:
        return Triangulation((), 0)
    weights = np.log2(np.asarray(sizes, dtype=np.float64))
    order, _ = _search(_graph(len(sizes), members), weights, restarts)
    bags = _bags(order.tolist(), members, len(sizes))
    cliques = tuple(sorted(tuple(i for i in range(len(sizes)) if bag >> i & 1) for bag in bags))
    return Triangulation(cliques, sum(prod(int(sizes[i]) for i in clique) for clique in cliques))


def hypothetical_size(
    domain: Mapping[str, object], sets: Iterable[Iterable[str]], *, restarts: int = DEFAULT_RESTARTS
) -> float:
    """log2 of the total clique cells a junction tree over these sets would hold; builds no table."""
    names, sizes = sizes_of(domain)
    position = {name: i for i, name in enumerate(names)}
    return triangulate(sizes, [positions_of(position, s) for s in sets], restarts=restarts).log2_cells


def sizes_of(domain: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names and sizes of a Domain, or of a plain mapping from names to sizes."""
    sizes = tuple(int(getattr(attribute, "size", attribute)) for attribute in domain.values())  # pyright: ignore[reportArgumentType]
    return tuple(domain), sizes


def positions_of(position: Mapping[str, int], names: Iterable[str]) -> tuple[int, ...]:
    try:
        return tuple(sorted({position[name] for name in names}))
    except KeyError as missing:
        raise DomainError(f"attribute {missing} is not in the domain: use one of {', '.join(position)}") from None
