"""Expectations and marginals of attribute sets that no clique holds: variable elimination on the calibrated tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import log2, prod

import numpy as np

from reticent.errors import CapacityError
from reticent.hypotheses.junction_tree.potentials import combine, reduce
from reticent.hypotheses.junction_tree.propagation import Propagation, zero_safe_quotient

Table = tuple[tuple[int, ...], np.ndarray]
"""Attribute positions, ascending, and an array with these axes."""


Memo = dict[tuple[int, frozenset[int]], Table]
"""Messages already computed on one calibrated tree: by clique and by the kept attributes below it."""


def across(
    beliefs: Propagation,
    vectors: Mapping[int, np.ndarray],
    keep: Collection[int],
    *,
    limit: int,
    memo: Memo | None = None,
) -> np.ndarray:
    """E[product of vectors; kept attributes = .], an array over `keep`; a number for none.

    Only cliques between the attributes' own topmost cliques are visited. Refuses tables above `limit` cells. A memo
    lets marginals (no vectors) of the same tree share messages.
    """
    tree = beliefs.tree
    _refuse_large(tree.shape_of(tuple(keep)), limit)
    pending: dict[int, tuple[list[Table], set[int]]] = {}
    for position in {*vectors, *keep}:
        top = next(c for c, clique in enumerate(tree.cliques) if position in clique)
        tables, kept = pending.setdefault(top, ([], set()))
        if position in vectors:
            tables.append(((position,), np.asarray(vectors[position], np.float64)))
        if position in keep:
            kept.add(position)
    while len(pending) > 1:
        clique = max(pending)  # children have higher numbers than parents
        tables, kept = pending.pop(clique)
        key = clique, frozenset(kept)
        message = memo.get(key) if memo is not None else None
        if message is None:
            message = _message(beliefs, clique, tables, kept, limit)
            if memo is not None:
                memo[key] = message
        above, kept_above = pending.setdefault(tree.parents[clique], ([], set()))
        above.append(message)
        kept_above |= kept
    clique, (tables, _) = pending.popitem()
    return _absorb(beliefs, clique, beliefs.belief(clique), tables, set(keep), limit)[1]


def _message(beliefs: Propagation, clique: int, tables: list[Table], kept: set[int], limit: int) -> Table:
    """E[product of tables; kept = . | separator], over both."""
    separator = beliefs.tree.separators[clique]
    table, sums = beliefs.conditional(clique)
    axes, message = _absorb(beliefs, clique, table, tables, {*separator, *kept}, limit)
    below = np.broadcast_to(_spread(sums.reshape(beliefs.tree.shape_of(separator)), separator, axes), message.shape)
    return axes, zero_safe_quotient(message, below)


def _absorb(
    beliefs: Propagation, clique: int, flat: np.ndarray, tables: list[Table], wanted: set[int], limit: int
) -> Table:
    """Multiply tables into a clique's and sum onto the wanted attributes."""
    members = beliefs.tree.cliques[clique]
    # first the table after which most can be summed out: the axes that it alone still needs
    shared = Counter(a for axes, _ in tables for a in axes)
    shared.update(wanted)
    size = beliefs.tree.sizes
    tables = sorted(tables, key=lambda t: -prod(size[a] for a in t[0] if shared[a] == 1))
    inside = wanted.union(*(axes for axes, _ in tables))
    kept = tuple(p for p in members if p in inside)
    shape = beliefs.tree.shape_of(members)
    current: Table = (
        kept,
        reduce(shape, flat, tuple(members.index(p) for p in kept)).reshape(beliefs.tree.shape_of(kept)),
    )
    for index, other in enumerate(tables):
        needed = wanted.union(*(axes for axes, _ in tables[index + 1 :]))
        current = contract(current, other, needed, limit)
    return current


def contract(first: Table, second: Table, needed: Collection[int], limit: int) -> Table:
    """The product of two tables, summed onto the needed axes.

    One batched matrix product, or two passes over the first table when it has all axes of the second.
    """
    (one, left_table), (two, right_table) = first, second
    if set(two) <= set(one):
        shape, every = left_table.shape, tuple(range(len(one)))
        inside = tuple(one.index(a) for a in two)
        product = combine(shape, left_table.reshape(-1), every, right_table.reshape(-1), inside)
        rest = tuple(i for i in every if one[i] in needed)
        return tuple(one[i] for i in rest), reduce(shape, product, rest).reshape([shape[i] for i in rest])
    size = dict(zip((*one, *two), (*left_table.shape, *right_table.shape), strict=True))
    batch = [a for a in one if a in two and a in needed]
    joint = [a for a in one if a in two and a not in needed]
    left = [a for a in one if a not in two]
    right = [a for a in two if a not in one]
    out = [*batch, *(a for a in left if a in needed), *(a for a in right if a in needed)]
    _refuse_large([size[a] for a in out], limit)
    a, left = _arranged(left_table, one, batch, left, joint, needed)
    b, right = _arranged(right_table, two, batch, right, joint, needed)
    product = np.matmul(a, b.swapaxes(1, 2)).reshape([size[x] for x in (*batch, *left, *right)])
    axes = (*batch, *left, *right)
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    return tuple(sorted(axes)), product.transpose(order).copy()


def _refuse_large(shape: Sequence[int], limit: int) -> None:
    cells = prod(shape)
    if cells > limit:
        raise CapacityError(
            f"this marginal needs a table of 2^{log2(cells):.1f} cells, the limit is 2^{log2(limit):.1f}: "
            "ask for fewer attributes, or for attributes measured together"
        )


def _arranged(
    table: np.ndarray,
    axes: Sequence[int],
    batch: list[int],
    own: list[int],
    joint: list[int],
    needed: Collection[int],
) -> tuple[np.ndarray, list[int]]:
    """(batch, own, joint) as three dimensions, own axes that nobody needs summed out first."""
    dropped = tuple(i for i, a in enumerate(axes) if a in own and a not in needed)
    if dropped:
        table = table.sum(axis=dropped)
        axes = [a for i, a in enumerate(axes) if i not in dropped]
    own = [a for a in own if a in needed]
    arranged = table.transpose([axes.index(a) for a in (*batch, *own, *joint)])
    lengths = [prod(table.shape[axes.index(a)] for a in group) for group in (batch, own, joint)]
    return arranged.reshape(lengths), own


def _spread(table: np.ndarray, axes: Sequence[int], onto: Sequence[int]) -> np.ndarray:
    """A view that broadcasts against an array over `onto`, which contains the axes."""
    place = {a: table.shape[i] for i, a in enumerate(axes)}
    return table.reshape([place.get(a, 1) for a in onto])
