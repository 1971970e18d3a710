"""Rows from a distribution: independent draws, and rows whose marginals are closer than chance allows.

All of it is post-processing of public numbers; the generator is public too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from reticent.errors import QueryError

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.hypotheses.base import Hypothesis

__all__ = [
    "TARGET_CELLS",
    "TARGET_SETS",
    "low_variance_rows",
    "refined_rows",
    "sample_cells",
    "systematic_cells",
    "three_way_sets",
]

_CHUNK = 1 << 20
# Refinement stops when a sweep over all rows lowers the squared distance by less than this share of it: on the tables
# of `benchmarks/release.py` the first sweep takes off nine tenths, and from the third on total variation stands still.
_LEAST_FALL = 0.05
_MOST_SWEEPS = 40
# What the targets of a refinement may weigh: cells and attribute sets.
TARGET_CELLS = 1 << 24
TARGET_SETS = 4096


def sample_cells(weights: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Independent cells, each with probability proportional to its weight, in random order."""
    cells = _cells_at(weights, np.sort(generator.random(_checked(rows))))
    return generator.permutation(cells)


def systematic_cells(weights: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Cells at one random start and then equal steps along the cumulative weight: each cell is off by less than one
    row.
    """
    positions = (np.arange(_checked(rows)) + generator.random()) / max(rows, 1)
    return generator.permutation(_cells_at(weights, positions))


def _checked(rows: int) -> int:
    if rows < 0:
        raise QueryError(f"cannot sample {rows} rows; ask for 0 or more")
    return rows


def _cells_at(weights: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The cells at ascending shares of the total weight; in chunks, so that no second tensor is needed."""
    flat = weights.reshape(-1)
    chunk_sums = np.array([flat[start : start + _CHUNK].sum() for start in range(0, flat.size, _CHUNK)])
    ends = np.cumsum(chunk_sums)
    heights = positions * ends[-1]
    # the last chunk with weight takes what rounding would push past the end
    chunks = np.minimum(np.searchsorted(ends, heights, side="right"), np.flatnonzero(chunk_sums)[-1])
    cells = np.empty(positions.size, dtype=np.int64)
    borders = np.searchsorted(chunks, np.arange(chunk_sums.size + 1))
    for chunk in np.unique(chunks):
        inside = slice(borders[chunk], borders[chunk + 1])
        part = flat[chunk * _CHUNK : (chunk + 1) * _CHUNK]
        climb = np.cumsum(part)
        start = ends[chunk - 1] if chunk else 0.0
        found = np.searchsorted(climb, heights[inside] - start, side="right")
        cells[inside] = chunk * _CHUNK + np.minimum(found, np.flatnonzero(part)[-1])
    return cells


def three_way_sets(domain: Domain, asked: Iterable[Sequence[str]] = ()) -> list[tuple[str, ...]]:
    """All sets of three attributes if they are affordable; otherwise sets of two or one, and those of `asked`
    that fit.
    """
    if len(domain) <= 2:
        return [domain.names]
    sets: list[tuple[str, ...]] = [(name,) for name in domain.names]
    for order in (3, 2):
        if math.comb(len(domain), order) > TARGET_SETS:
            continue
        every = list(itertools.combinations(domain.names, order))
        if sum(domain.cells(names) for names in every) <= TARGET_CELLS:
            sets = every
            break
    left = TARGET_CELLS - sum(domain.cells(names) for names in sets)
    more = {domain.canonical(names) for names in asked} - set(sets)
    for names in sorted(more, key=lambda names: (domain.cells(names), names)):
        left -= domain.cells(names)
        if left < 0 or len(sets) == TARGET_SETS:
            break
        sets.append(names)
    return sets


def low_variance_rows(
    hypothesis: Hypothesis,
    rows: int,
    generator: np.random.Generator,
    sets: Sequence[Sequence[str]] | None = None,
    asked: Iterable[Sequence[str]] = (),
) -> np.ndarray:
    """Rows whose marginals on the given sets stay close to the hypothesis; default: `three_way_sets`.

    Starts from a draw, then changes one value of one row at a time if this brings the counts of the sets closer, in
    squared distance, to their expectations.
    """
    domain = hypothesis.domain
    start = getattr(hypothesis, "systematic", hypothesis.sample)
    codes = np.ascontiguousarray(start(_checked(rows), generator), dtype=np.int64)
    if rows == 0:
        return codes.astype(np.int32)
    wanted = [domain.canonical(names) for names in (three_way_sets(domain, asked) if sets is None else sets)]
    wanted = [names for names in dict.fromkeys(wanted) if names]
    targets = np.concatenate([np.ravel(m) * rows for m in hypothesis.marginals(wanted)] or [np.empty(0)])
    return refined_rows(codes, domain, wanted, targets, generator).astype(np.int32)


def refined_rows(
    codes: np.ndarray,
    domain: Domain,
    sets: Sequence[tuple[str, ...]],
    targets: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Rows whose counts on some sets are closer to given counts: the marginals of the sets, flattened and concatenated.

    Coordinate descent on the squared distance. It modifies `codes`, contiguous 64-bit integers, in place.
    """
    from reticent.hypotheses.sampling_kernels import sweep

    strides = np.zeros((len(sets), len(domain)), dtype=np.int64)
    offsets = np.zeros(len(sets), dtype=np.int64)
    position = 0
    excess = np.empty(targets.size)
    for place, names in enumerate(sets):
        offsets[place] = position
        shape = domain.shape_of(names)
        # Codes of the largest attribute lie side by side: all of them are read for every row that may move.
        inner = sorted(range(len(names)), key=shape.__getitem__)
        step = 1
        for axis in reversed(inner):
            strides[place, domain.index(names[axis])] = step
            step *= shape[axis]
        wanted = targets[position : position + step].reshape(shape)
        excess[position : position + step] = -wanted.transpose(inner).ravel()
        position += step
    # Half the memory of the default integers: on wide tables this array is the largest of a release.
    cells = np.empty((codes.shape[0], len(sets)), dtype=np.int32 if position < 2**31 else np.int64)
    for place, end in enumerate([*offsets[1:], position]):
        inside = codes @ strides[place]
        excess[offsets[place] : end] += np.bincount(inside, minlength=end - offsets[place])
        cells[:, place] = inside + offsets[place]
    touching = [np.flatnonzero(strides[:, axis]) for axis in range(len(domain))]
    borders = np.cumsum([0, *(sets_of.size for sets_of in touching)])
    listed = np.concatenate([*touching, np.empty(0, dtype=np.int64)]).astype(np.int64)
    sizes = np.array(domain.shape, dtype=np.int64)
    rules = _rule_tables(codes, domain)
    distance = float(excess @ excess)
    for _ in range(_MOST_SWEEPS):
        sweep(codes, cells, excess, generator.permutation(codes.shape[0]), strides, sizes, listed, borders, *rules)
        before, distance = distance, float(excess @ excess)
        if distance >= (1 - _LEAST_FALL) * before:
            break
    return codes


def _rule_tables(codes: np.ndarray, domain: Domain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The index of each row in each rule's table, the concatenated tables, and the strides of the axes in them."""
    steps = np.zeros((len(domain.impossible), len(domain)), dtype=np.int64)
    tables, ruled, position = [np.empty(0, dtype=bool)], [], 0
    for place, rule in enumerate(domain.impossible):
        step = 1
        for name, size in reversed(list(zip(rule.attributes, rule.cells.shape, strict=True))):
            steps[place, domain.index(name)] = step
            step *= size
        tables.append(rule.cells.ravel())
        ruled.append(codes @ steps[place] + position)
        position += step
    inside = np.stack(ruled, axis=1) if ruled else np.empty((len(codes), 0), dtype=np.int64)
    return np.ascontiguousarray(inside), np.concatenate(tables), steps
