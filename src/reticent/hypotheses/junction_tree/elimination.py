"""Elimination orders: which cliques exact inference must hold, and how large they are, before any table is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Self

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
def _neighbours(adjacency, alive, vertex, found):  # pragma: no cover - compiled
    count = 0
    for other in range(adjacency.shape[0]):
        if alive[other] and adjacency[vertex, other]:
            found[count] = other
            count += 1
    return count


@numba.njit(cache=True)
def _joined(adjacency, found, count):  # pragma: no cover - compiled
    """Whether some vertices are all neighbours of each other."""
    for i in range(count):
        for j in range(i):
            if not adjacency[found[i], found[j]]:
                return False
    return True


@numba.njit(cache=True)
def _uniform(seed, step):  # pragma: no cover - compiled
    """splitmix64: public numbers, the same on every machine."""
    mixed = np.uint64(seed) * np.uint64(0x632BE59BD9B4E019) + np.uint64(step) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


_ONE = np.uint64(1)
_PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@numba.njit(cache=True)
def _ones(bits):  # pragma: no cover - compiled
    """How many bits of a word are set."""
    bits = bits - ((bits >> np.uint64(1)) & _PAIRS)
    bits = (bits & _NIBBLES) + ((bits >> np.uint64(2)) & _NIBBLES)
    bits = (bits + (bits >> np.uint64(4))) & _BYTES
    return np.int64((bits * _SUM) >> np.uint64(56))


@numba.njit(cache=True)
def _lowest(bits):  # pragma: no cover - compiled
    """The place of the lowest bit of a word that has one."""
    return _ones((bits & (~bits + _ONE)) - _ONE)


@numba.njit(cache=True)
def _rows(graph):  # pragma: no cover - compiled
    """Of every vertex, its neighbours as bits: most of a search looks for neighbours that are not joined."""
    size = graph.shape[0]
    rows = np.zeros((size, (size + 63) // 64), np.uint64)
    for vertex in range(size):
        for other in range(size):
            if graph[vertex, other]:
                rows[vertex, other >> 6] |= _ONE << np.uint64(other & 63)
    return rows


@numba.njit(cache=True)
def _members(row, found):  # pragma: no cover - compiled
    count = 0
    for word in range(row.size):
        bits = row[word]
        while bits:
            found[count] = word * 64 + _lowest(bits)
            bits &= bits - _ONE
            count += 1
    return count


@numba.njit(cache=True)
def _missing(rows, own, other, word):  # pragma: no cover - compiled
    """A word of the neighbours of a vertex that are below another one of them and not joined to it."""
    bits = own[word] & ~rows[other, word]
    return bits & ((_ONE << np.uint64(other & 63)) - _ONE) if word == other >> 6 else bits


@numba.njit(cache=True)
def _score(rows, weights, vertex, found, rule):  # pragma: no cover - compiled
    """Rule 0: fill edges; 1: their weight; 2: log2 of the clique's cells."""
    own = rows[vertex]
    count = _members(own, found)
    total = 0.0
    if rule == 2:
        total = weights[vertex]
        for i in range(count):
            total += weights[found[i]]
        return total
    if rule == 0:
        filled = 0
        for i in range(count):
            for word in range((found[i] >> 6) + 1):
                filled += _ones(_missing(rows, own, found[i], word))
        return np.float64(filled)
    for i in range(count):
        for word in range((found[i] >> 6) + 1):
            bits = _missing(rows, own, found[i], word)
            while bits:
                total += weights[found[i]] * weights[word * 64 + _lowest(bits)]
                bits &= bits - _ONE
    return total


@numba.njit(cache=True)
def _remove(rows, vertex, found, stale):  # pragma: no cover - compiled
    """Join an eliminated vertex's neighbours; marks every vertex whose score may have changed."""
    own = rows[vertex]
    count = _members(own, found)
    for i in range(count):
        rows[found[i], vertex >> 6] &= ~(_ONE << np.uint64(vertex & 63))
    for word in range(own.size):
        stale[word] |= own[word]
    for i in range(count):
        first = found[i]
        for word in range((first >> 6) + 1):
            bits = _missing(rows, own, first, word)
            while bits:
                second = word * 64 + _lowest(bits)
                bits &= bits - _ONE
                rows[first, second >> 6] |= _ONE << np.uint64(second & 63)
                rows[second, first >> 6] |= _ONE << np.uint64(first & 63)
                for k in range(own.size):
                    stale[k] |= rows[first, k] & rows[second, k]


@numba.njit(cache=True)
def _eliminate(neighbours, weights, rule, noise, seed, best, order):  # pragma: no cover - compiled
    """Write one greedy order and return its total cells, infinite as soon as `best` is exceeded."""
    size = neighbours.shape[0]
    rows = neighbours.copy()
    alive = np.ones(size, np.bool_)
    scores = np.empty(size)
    changed, found = np.empty(size, np.int64), np.empty(size, np.int64)
    stale = np.zeros(rows.shape[1], np.uint64)
    for vertex in range(size):
        scores[vertex] = _score(rows, weights, vertex, found, rule)
    total = 0.0
    for step in range(size):
        for i in range(_members(stale, changed)):
            scores[changed[i]] = _score(rows, weights, changed[i], found, rule)
        chosen = -1
        lowest = np.inf
        for vertex in range(size):
            if alive[vertex]:
                jitter = noise * _uniform(seed, step * size + vertex) if noise > 0.0 else 0.0
                value = scores[vertex] * (1.0 + jitter) + 1e-9 * (weights[vertex] + jitter)
                if value < lowest:
                    lowest = value
                    chosen = vertex
        total += 2.0 ** _score(rows, weights, chosen, found, 2)
        if total > best:
            return np.inf
        order[step] = chosen
        alive[chosen] = False
        stale[:] = np.uint64(0)
        _remove(rows, chosen, found, stale)
    return total


@numba.njit(cache=True)
def _peel(graph):  # pragma: no cover - compiled
    """Vertices whose neighbours are joined already, removed one after another: every order must pay for them."""
    size = graph.shape[0]
    alive = np.ones(size, np.bool_)
    stale = np.ones(size, np.bool_)
    found = np.empty(size, np.int64)
    peeled = np.empty(size, np.int64)
    done = 0
    again = True
    while again:
        again = False
        for vertex in range(size):
            if not (alive[vertex] and stale[vertex]):
                continue
            stale[vertex] = False
            count = _neighbours(graph, alive, vertex, found)
            if _joined(graph, found, count):
                alive[vertex] = False
                peeled[done] = vertex
                done += 1
                again = True
                for i in range(count):
                    stale[found[i]] = True
    return peeled[:done], alive


@numba.njit(cache=True)
def _search(graph, weights, restarts):  # pragma: no cover - compiled
    """The best of the greedy orders and of their randomised variants."""
    best_order = np.arange(graph.shape[0])
    order = best_order.copy()
    rows = _rows(graph)
    best = np.inf
    for attempt in range(restarts + 3):
        noise = 0.0 if attempt < 3 else 0.15 * (1 + attempt % 5)
        total = _eliminate(rows, weights, attempt % 3, noise, attempt, best, order)
        if total < best:
            best = total
            best_order[:] = order
    return best_order


def _graph(count: int, sets: Sequence[Sequence[int]]) -> np.ndarray:
    graph = np.zeros((count, count), np.bool_)
    for members in sets:
        index = np.asarray(members, np.int64)
        graph[index[:, None], index[None, :]] = True
    np.fill_diagonal(graph, False)
    return graph


@numba.njit(cache=True)
def _cells(graph, sizes, order):  # pragma: no cover - compiled
    """Cells of the maximal bags of an elimination order: a whole number, rounded if it exceeds 2^53."""
    count = graph.shape[0]
    adjacency = graph.copy()
    alive = np.ones(count, np.bool_)
    found = np.empty(count, np.int64)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    left = np.zeros(count, np.int64)
    total = 0.0
    for vertex in order:
        alive[vertex] = False
        degree = _neighbours(adjacency, alive, vertex, found)
        cells = sizes[vertex]
        for i in range(degree):
            cells *= sizes[found[i]]
            for j in range(i):
                adjacency[found[i], found[j]] = True
                adjacency[found[j], found[i]] = True
        # a bag inside an earlier one is all that this one, or the last of its heirs, left behind
        if left[vertex] <= degree:
            total += cells
        if degree:
            heir = found[np.argmin(place[found[:degree]])]
            left[heir] = max(left[heir], degree)
    return total


def _bags(order: Sequence[int], sets: Sequence[Sequence[int]], count: int) -> list[int]:
    """Maximal bags of an elimination order, as bit masks."""
    adjacent = [0] * count
    for members in sets:
        mask = sum(1 << m for m in members)
        for m in members:
            adjacent[m] |= mask
    maximal: list[int] = []
    rests: set[int] = set()
    for vertex in order:
        bag = adjacent[vertex] | (1 << vertex)
        rest = bag & ~(1 << vertex)
        remaining = rest
        while remaining:
            low = remaining & -remaining
            adjacent[low.bit_length() - 1] |= rest
            adjacent[low.bit_length() - 1] &= ~(1 << vertex)
            remaining ^= low
        # a bag inside an earlier one equals what that one, or the last of its heirs, left behind
        if bag not in rests:
            maximal.append(bag)
        rests.add(rest)
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
    order = _order(_graph(len(sizes), members), np.log2(np.asarray(sizes, dtype=np.float64)), restarts)
    bags = _bags(order.tolist(), members, len(sizes))
    cliques = tuple(sorted(tuple(i for i in range(len(sizes)) if bag >> i & 1) for bag in bags))
    return Triangulation(cliques, sum(prod(int(sizes[i]) for i in clique) for clique in cliques))


def _order(graph: np.ndarray, weights: np.ndarray, restarts: int) -> np.ndarray:
    peeled, alive = _peel(graph)
    core = np.flatnonzero(alive)
    searched = _search(graph[np.ix_(core, core)], weights[core], restarts)
    return np.concatenate([peeled, core[searched]])


@dataclass(frozen=True, eq=False)
class GrowingGraph:
    """Attribute sets, given by position, to which others are added: the size of the tree is known before and after."""

    sizes: np.ndarray
    graph: np.ndarray
    """Which attributes are in a set together."""

    @classmethod
    def of(cls, sizes: Sequence[int], sets: Iterable[Sequence[int]]) -> Self:
        return cls(np.asarray(sizes, dtype=np.float64), _graph(len(sizes), list(sets)))

    @property
    def cells(self) -> float:
        """Of `triangulate(sizes, sets, restarts=0)`; rounded if they exceed 2^53."""
        return float(_cells(self.graph, self.sizes, _order(self.graph, np.log2(self.sizes), 0)))

    def with_set(self, members: Sequence[int]) -> Self:
        """The same with one more set."""
        graph = self.graph.copy()
        graph[np.ix_(members, members)] = True
        np.fill_diagonal(graph, False)
        return replace(self, graph=graph)


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
