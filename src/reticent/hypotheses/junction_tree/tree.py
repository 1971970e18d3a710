"""A junction tree: cliques of attributes, joined so that exact inference takes two passes of messages.

Also the rules of a domain on a junction tree: impossible cells by attribute set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from reticent.domain.impossible import impossible_cells
from reticent.errors import CapacityError, DomainError
from reticent.hypotheses.junction_tree.elimination import (
    DEFAULT_LIMIT,
    DEFAULT_RESTARTS,
    Triangulation,
    positions_of,
    sizes_of,
    triangulate,
)

if TYPE_CHECKING:
    from reticent.domain import Domain


class JunctionTree:
    """The structure alone: cliques, their parents and separators; tables are in `Propagation` and `FactoredEngine`.

    Sets whose cliques need more than `limit` cells in all are refused before anything is allocated.
    """

    def __init__(
        self,
        domain: Mapping[str, object],
        sets: Iterable[Iterable[str]],
        *,
        limit: int | None = DEFAULT_LIMIT,
        restarts: int = DEFAULT_RESTARTS,
    ) -> None:
        self.names, self.sizes = sizes_of(domain)
        self._position = {name: i for i, name in enumerate(self.names)}
        self.sets = tuple(dict.fromkeys(self.positions(s) for s in sets))
        self.triangulation = triangulate(self.sizes, self.sets, restarts=restarts)
        if limit is not None:
            check_size(self.triangulation, limit)
        self.cells = self.triangulation.cells
        self._link()

    def _link(self) -> None:
        """Link the cliques: a maximum-weight spanning tree over separators has the running intersection property. The
        largest clique is the root.
        """
        cliques = self.triangulation.cliques
        members = np.zeros((len(cliques), len(self.sizes)), np.int64)
        for row, clique in enumerate(cliques):
            members[row, list(clique)] = 1
        overlap = members @ members.T
        cells = [prod(self.sizes[p] for p in clique) for clique in cliques]
        root = int(np.argmax(cells))
        order, parent = [root], {root: -1}
        nearest, weight = np.full(len(cliques), root), overlap[root].copy()
        weight[root] = -1
        for _ in range(len(cliques) - 1):
            chosen = int(np.argmax(weight))
            parent[chosen] = int(nearest[chosen])
            order.append(chosen)
            weight[chosen] = -1
            better = (overlap[chosen] > weight) & (weight >= 0)
            weight[better] = overlap[chosen][better]
            nearest[better] = chosen
        rank = {clique: i for i, clique in enumerate(order)}
        # parents precede children, so the reversed numbering is an upward pass
        self.cliques = tuple(cliques[c] for c in order)
        self.parents = tuple(rank.get(parent[c], -1) for c in order)
        self.separators = tuple(
            tuple(p for p in clique if up >= 0 and p in self.cliques[up])
            for clique, up in zip(self.cliques, self.parents, strict=True)
        )

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        below: list[list[int]] = [[] for _ in self.cliques]
        for clique, parent in enumerate(self.parents):
            if parent >= 0:
                below[parent].append(clique)
        return tuple(tuple(c) for c in below)

    @cached_property
    def _masks(self) -> tuple[int, ...]:
        return tuple(sum(1 << p for p in clique) for clique in self.cliques)

    @cached_property
    def clique_cells(self) -> tuple[int, ...]:
        return tuple(prod(self.sizes[p] for p in clique) for clique in self.cliques)

    @property
    def log2_cells(self) -> float:
        return self.triangulation.log2_cells

    def with_set(
        self, positions: tuple[int, ...], *, held: Iterable[tuple[int, ...]] = (), limit: int | None
    ) -> JunctionTree:
        """A tree for one more set; sets inside it are dropped, because it contains them.

        A set of `held` that only a fill-in clique of this tree contains need not fit a clique of the new tree. It then
        becomes a set of its own, which may cost another such set its clique, and so on.
        """
        sets = [s for s in self.sets if not set(s) <= set(positions)]
        tree = self._over([*sets, positions], limit)
        while missing := [s for s in held if tree.host(s) is None]:
            tree = self._over([*tree.sets, *missing], limit)
        return tree

    def _over(self, sets: Iterable[tuple[int, ...]], limit: int | None) -> JunctionTree:
        names = [[self.names[p] for p in s] for s in sets]
        return JunctionTree(dict(zip(self.names, self.sizes, strict=True)), names, limit=limit)

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        """Attribute positions in domain order."""
        return positions_of(self._position, names)

    def shape_of(self, positions: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.sizes[p] for p in positions)

    def host(self, positions: Iterable[int]) -> int | None:
        """The smallest clique that holds all of these attributes, if any."""
        wanted = sum(1 << p for p in positions)
        fitting = [c for c, mask in enumerate(self._masks) if wanted & ~mask == 0]
        return min(fitting, key=lambda c: self.clique_cells[c]) if fitting else None

    def assign(self, sets: Sequence[tuple[int, ...]]) -> list[int]:
        """The host clique of each set."""
        hosts = [self.host(s) for s in sets]
        for positions, host in zip(sets, hosts, strict=True):
            if host is None:
                names = ", ".join(self.names[p] for p in positions)
                raise DomainError(f"no clique holds ({names}): build the junction tree with this set")
        return [h for h in hosts if h is not None]

    def calibrate(self, factors: Mapping[tuple[str, ...], np.ndarray]):
        """Beliefs of p(x) ~ exp(sum of factors): a `Propagation`, whose messages are computed on demand and kept."""
        from reticent.hypotheses.junction_tree.propagation import Propagation

        return Propagation(self, {self.positions(s): np.asarray(f) for s, f in factors.items()})


def check_size(triangulation: Triangulation, limit: int) -> None:
    if triangulation.cells > limit:
        raise CapacityError(
            f"the junction tree would hold 2^{triangulation.log2_cells:.1f} cells, the limit is "
            f"2^{np.log2(limit):.1f}: measure fewer or more overlapping attribute sets, or use a sampled support"
        )


__all__ = ["check_rules", "rule_masks", "rule_tree_cells"]

MAX_TREE_CELLS = 2**17
"""Largest junction tree of the rules alone, in cells: as many as the default release allows its tree
(`Adaptive.model_cells`).
"""


def rule_masks(domain: Domain) -> dict[tuple[str, ...], np.ndarray]:
    """Impossible cells by attribute set; sets inside another rule's set are part of that rule."""
    sets = dict.fromkeys(rule.attributes for rule in domain.impossible)
    widest = [names for names in sets if not any(set(names) < set(other) for other in sets)]
    masks = {}
    for names in widest:
        mask = impossible_cells(domain, names)
        assert mask is not None  # a rule is on these names
        masks[names] = mask
    return masks


def rule_tree_cells(domain: Domain) -> int:
    """Cells of a junction tree that holds all rules and single attributes; 0 without rules."""
    if not domain.impossible:
        return 0
    return JunctionTree(domain, [*((name,) for name in domain.names), *rule_masks(domain)], limit=None).cells


def check_rules(domain: Domain) -> None:
    """DomainError if the rules leave no record, or need a tree that is too large; before anything is spent."""
    if not domain.impossible:
        return
    from reticent.hypotheses.junction_tree.propagation import Propagation

    masks = rule_masks(domain)
    try:
        tree = JunctionTree(domain, masks, limit=MAX_TREE_CELLS)
    except CapacityError:
        raise DomainError(
            f"the impossible rules together need a junction tree of more than {MAX_TREE_CELLS} cells: "
            "use coarser columns, or rules that share fewer columns"
        ) from None
    logs = {tree.positions(names): np.where(mask, -np.inf, 0.0) for names, mask in masks.items()}
    if any(mask.all() for mask in masks.values()) or Propagation(tree, logs).log_partition == -np.inf:
        raise DomainError("the impossible rules together exclude every record; leave one out")
