"""Ranges and prefixes: the widths at which blocks of codes are measured, and the share of a budget for each width.

Blocks of w consecutive codes (times blocks of other attributes) are disjoint, so all blocks of one width, called a
level, cost as much as a marginal. The space of tables is the orthogonal sum of differences of neighbouring blocks at
widths 1, 2, 4, ... and the mean. A level of width w with precision tau reveals differences at widths of at least w with
precision w tau. The variance of a range is the sum over widths of its energy g there divided by the precision there, so
the plan minimises sum_l g_l / t_l with t_l = sum_{j <= l} w_j tau_j (spec planning.md 6). Widths that do not pay get
nothing. The compared plans include b-ary trees for every b that is a power of two, and for several attributes quadtrees
and grids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from reticent.domain import Domain
from reticent.hypotheses.fitting.levels import tops
from reticent.kernel.statistics import MARGINAL_CELLS
from reticent.queries.ranges import AllRanges
from reticent.queries.workload import Workload

__all__ = ["LevelPlan", "level_plans", "level_sets", "range_energies", "shares_of_levels"]

Set = tuple[str, ...]
Shape = tuple[int, ...]

ITERATIONS = 400
"""Iterations of the multiplicative update; on all tested shapes the objective changed by less than a thousandth after
200.
"""
LEAST_SHARE = 1e-3
"""The smallest share of a set's budget; levels with less are left out, which changes no error by a larger share."""


@dataclass(frozen=True)
class LevelPlan:
    """The widths of blocks for one set of attributes, and each level's share of the set's budget."""

    names: Set
    widths: tuple[Shape, ...]
    shares: tuple[float, ...]


def range_energies(size: int, known: int, prefixes: bool) -> np.ndarray:
    """Mean energy of all ranges of the first `known` codes at block widths 1, 2, 4, ...; the last entry is that of the
    mean.

    Codes i <= j are together in (i + 1)(known - j) ranges and in known - j prefixes. The energy of a range on blocks of
    one width is the sum over blocks of its squared overlap divided by the block's size.
    """
    codes = np.arange(size)
    ends = np.where(codes < known, known - codes, 0).astype(float)
    begins = np.where(codes < known, 1 if prefixes else codes + 1, 0).astype(float)
    queries = known if prefixes else known * (known + 1) / 2
    sums = np.cumsum(begins)
    coarse = []
    for exponent in range(tops((size,))[0] + 1):
        starts = np.arange(0, size, 2**exponent)
        before = np.where(starts > 0, sums[starts - 1], 0.0)[codes // 2**exponent]
        overlaps = np.add.reduceat(2 * ends * (sums - before) - begins * ends, starts)
        coarse.append(float((overlaps / np.diff([*starts, size])).sum()) / queries)
    return np.array(coarse) - np.array([*coarse[1:], 0.0])


def cell_energies(size: int) -> np.ndarray:
    """The same for all single codes."""
    blocks = [-(-size // 2**exponent) / size for exponent in range(tops((size,))[0] + 1)]
    return np.array(blocks) - np.array([*blocks[1:], 0.0])


def shares_of_levels(energies: np.ndarray, *, pure: bool) -> tuple[np.ndarray, float]:
    """The share of each level, and the mean squared error if the whole budget buys one table with noise one."""
    shares, error = _shares(energies.tobytes(), energies.shape, pure)
    return shares.copy(), error


@lru_cache(maxsize=64)
def _shares(data: bytes, shape: Shape, pure: bool) -> tuple[np.ndarray, float]:
    energies = np.frombuffer(data).reshape(shape)
    exponents = np.array(list(np.ndindex(energies.shape)))
    told = (exponents[None] <= exponents[:, None]).all(axis=2) * 2.0 ** exponents.sum(axis=1)[None]
    wanted = energies.ravel()
    best, least = np.ones(wanted.size), np.inf
    for start in _starts(exponents) if pure else [np.ones(wanted.size)]:
        shares = start / start.sum()
        for _ in range(ITERATIONS):
            known = told @ (shares * shares if pure else shares)
            slopes = told.T @ (wanted / known**2)
            # With one level alone both powers reach the optimum in one step.
            shares = shares * (shares * slopes) ** (1 / 3) if pure else shares * np.sqrt(slopes)
            shares /= shares.sum()
        error = float((wanted / (told @ (shares * shares if pure else shares))).sum())
        if error < least:
            best, least = shares, error
    return best.reshape(energies.shape), least


def _starts(exponents: np.ndarray) -> list[np.ndarray]:
    """Trees to start from: with a pure budget precision grows with the square of a share, so few levels do better than
    many.

    Branching factors are 2, 4, 8, ..., as quadtrees and as grids of widths, with and without the widest level.
    """
    top = exponents.max(axis=0)
    found = []
    for step in range(1, max(2, int(top.max()) + 1)):
        on_step = (exponents % step == 0).all(axis=1)
        alike = exponents.max(axis=1) == exponents.min(axis=1)
        for kept in (on_step, on_step & alike):
            inner = kept & ((exponents < top).all(axis=1) | (exponents == 0).all(axis=1))
            found += [np.where(chosen, 1.0, 1e-12) for chosen in (kept, inner)]
    return list({start.tobytes(): start for start in found}.values())


def level_sets(workload: Workload, domain: Domain) -> dict[Set, list[tuple[AllRanges, float]]]:
    """The sets of attributes that are measured in levels, with the ranges or prefixes that the workload asks of each.

    Sets with too many cells for one table, and with an attribute of a single code, are measured otherwise.
    """
    entries: dict[Set, list[tuple[AllRanges, float]]] = {}
    for entry, weight in zip(workload.ranges, workload.range_weights, strict=True):
        names = domain.canonical(entry.attributes)
        if domain.cells(names) <= MARGINAL_CELLS and min(domain.shape_of(names)) > 1:
            entries.setdefault(names, []).append((entry, weight))
    return entries


def level_plans(workload: Workload, domain: Domain, *, pure: bool, public_records: bool) -> dict[Set, LevelPlan]:
    """A plan for every set of attributes whose ranges or prefixes are in the workload."""
    marginals = dict(zip(workload.marginals, workload.marginal_weights, strict=True))
    plans = {}
    for names, asked in level_sets(workload, domain).items():
        wanted = [(_energies(domain, names, entry), weight) for entry, weight in asked]
        if names in marginals:
            wanted.append((_product([cell_energies(size) for size in domain.shape_of(names)]), marginals[names]))
        plans[names] = _plan(domain, names, wanted, pure=pure, public_records=public_records)
    return plans


def _energies(domain: Domain, names: Set, entry: AllRanges) -> np.ndarray:
    return _product([range_energies(domain[name].size, domain[name].known, entry.prefixes) for name in names])


def _product(vectors: Sequence[np.ndarray]) -> np.ndarray:
    energies = np.ones(())
    for vector in vectors:
        energies = np.multiply.outer(energies, vector)
    return energies


def _plan(
    domain: Domain, names: Set, wanted: Sequence[tuple[np.ndarray, float]], *, pure: bool, public_records: bool
) -> LevelPlan:
    """A plan in which each class of questions is weighted relative to the smallest error that it could have alone."""
    for energies, _ in wanted:
        if public_records:
            energies[(-1,) * energies.ndim] = 0.0
    if len(wanted) > 1:
        parts = [energies * (weight / shares_of_levels(energies, pure=pure)[1]) for energies, weight in wanted]
    else:
        parts = [energies for energies, _ in wanted]
    shares, _ = shares_of_levels(np.sum(parts, axis=0), pure=pure)
    shape = domain.shape_of(names)
    kept = [e for e in product(*(range(top + 1) for top in tops(shape))) if shares[e] >= LEAST_SHARE or not any(e)]
    widths = tuple(tuple(min(2**e, size) for e, size in zip(exponents, shape, strict=True)) for exponents in kept)
    return LevelPlan(names, widths, tuple(float(shares[e]) for e in kept))
