"""Rows from a calibrated junction tree: clique after clique, each given what its separator already holds."""

from __future__ import annotations

import numpy as np

from reticent.hypotheses.junction_tree.propagation import Propagation

_GOLDEN = 0.6180339887498949


def ancestral_rows(beliefs: Propagation, rows: int, generator: np.random.Generator, *, systematic: bool) -> np.ndarray:
    """Codes, one row each, attributes in domain order.

    Systematic: rows that agree on a separator share one random start and equal steps along the conditional, so each
    of its cells is off by less than one row; starts of neighbouring groups are spread evenly, so errors cancel.
    """
    tree = beliefs.tree
    codes = np.zeros((rows, len(tree.sizes)), np.int32)
    if rows == 0:
        return codes
    for clique, (members, separator) in enumerate(zip(tree.cliques, tree.separators, strict=True)):
        fresh = tuple(p for p in members if p not in separator)
        table = beliefs.conditional(clique)[0].reshape(tree.shape_of(members))
        table = table.transpose([members.index(p) for p in (*separator, *fresh)])
        width = int(np.prod(tree.shape_of(fresh)))
        groups, member_of = np.unique(_flat_index(codes, tree.sizes, separator), return_inverse=True)
        climb = np.cumsum(table.reshape(-1, width)[groups], axis=1)
        climb /= climb[:, -1:]
        heights = _systematic_heights if systematic else _independent_heights
        cells = _cells_at(climb, member_of, heights(member_of, len(groups), generator))
        for position, column in zip(fresh, np.unravel_index(cells, tree.shape_of(fresh)), strict=True):
            codes[:, position] = column
    return codes


def _flat_index(codes: np.ndarray, sizes: tuple[int, ...], positions: tuple[int, ...]) -> np.ndarray:
    index = np.zeros(len(codes), np.int64)
    for position in positions:
        index = index * sizes[position] + codes[:, position]
    return index


def _independent_heights(member_of: np.ndarray, groups: int, generator: np.random.Generator) -> np.ndarray:
    return generator.random(len(member_of))


def _systematic_heights(member_of: np.ndarray, groups: int, generator: np.random.Generator) -> np.ndarray:
    """(rank in the group + start) / (size of the group), ranks in random order."""
    shuffled = generator.permutation(len(member_of))
    order = shuffled[np.argsort(member_of[shuffled], kind="stable")]
    counts = np.bincount(member_of, minlength=groups)
    first = np.cumsum(counts) - counts
    rank = np.empty(len(member_of), np.int64)
    rank[order] = np.arange(len(member_of)) - np.repeat(first, counts)
    start = (generator.random() + _GOLDEN * np.arange(groups)) % 1.0
    return (rank + start[member_of]) / counts[member_of]


def _cells_at(climb: np.ndarray, member_of: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """In each row's own cumulative distribution, the cell where its height falls."""
    groups, width = climb.shape
    stacked = (climb + np.arange(groups)[:, None]).ravel()
    found = np.searchsorted(stacked, member_of + heights, side="right") - member_of * width
    # Rounding may push a height past its row's end: the last cell that holds something takes it.
    last = (climb < climb[:, -1:]).sum(axis=1)
    return np.clip(found, 0, last[member_of])
