"""A non-negative table from noisy counts of blocks of consecutive codes, measured at several widths.

All blocks of one width are a level: disjoint, so that a level costs what a marginal does. The levels are joined by
least squares; the result is then divided from the whole table down to its cells, every block between its two halves.
What a half gets lies between what was measured and what an even division gives, as far as the noise warrants
(`halves.py`), and is never negative. A block's sum is never changed by what
happens inside it: what noise does to cells does not reach ranges that hold whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from reticent.hypotheses.fitting.halves import ANY_LAW, DividedBlocks, hints_of_nothing, log_tails

__all__ = [
    "FitLevel",
    "block_sums",
    "cell_sd",
    "divided_levels",
    "estimate_cells",
    "least_squares",
    "residual_precisions",
    "tops",
]

TOLERANCE = 1e-9
"""Of the right-hand side's norm: far below any noise."""
LEAST_KEPT = 0.01
SWEEPS = 10
"""Of proportional fitting: what is left after them is far below the noise."""
ITERATIONS = 2000
"""Conjugate gradients end after as many steps as the levels have combinations where widths divide sizes."""
TINY = 1e-300

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FitLevel:
    """Counts of all blocks with `widths` codes along each axis (the last ones may be shorter), and their noise."""

    widths: Shape
    values: np.ndarray
    sd: float
    laplace: bool = False
    """Whether it is Laplace noise; else it is normal."""


def tops(shape: Shape) -> Shape:
    """For each axis how often 1 must be doubled to reach its size."""
    return tuple((size - 1).bit_length() for size in shape)


def block_sums(cells: np.ndarray, widths: Shape) -> np.ndarray:
    """Sums over blocks of consecutive codes; the last block of an axis may be shorter."""
    for axis, width in enumerate(widths):
        if width > 1:
            cells = np.add.reduceat(cells, np.arange(0, cells.shape[axis], width), axis=axis)
    return cells


def _spread(blocks: np.ndarray, widths: Shape, shape: Shape) -> np.ndarray:
    """The adjoint: every cell has its block's value."""
    for axis, (width, size) in enumerate(zip(widths, shape, strict=True)):
        if width > 1:
            blocks = np.take(blocks, np.arange(size) // width, axis=axis)
    return blocks


def least_squares(levels: Sequence[FitLevel], shape: Shape) -> np.ndarray:
    """The table whose block sums are nearest to all levels, each in units of its noise; one level has width 1."""
    weights = np.array([level.sd**-2.0 for level in levels])
    weights /= weights.max()

    def applied(cells: np.ndarray) -> np.ndarray:
        return spread([block_sums(cells, level.widths) for level in levels])

    def spread(blocks: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros(shape)
        for weight, level, values in zip(weights, levels, blocks, strict=True):
            total += weight * _spread(values, level.widths, shape)
        return total

    right = spread([level.values for level in levels])
    found = np.zeros(shape)
    left, direction = right.copy(), right.copy()
    size = start = float(np.vdot(left, left))
    for _ in range(ITERATIONS):
        if size <= TOLERANCE**2 * start:
            break
        moved = applied(direction)
        step = size / float(np.vdot(direction, moved))
        found += step * direction
        left -= step * moved
        former, size = size, float(np.vdot(left, left))
        direction = left + (size / former) * direction
    return found


def residual_precisions(levels: Sequence[FitLevel], shape: Shape) -> np.ndarray:
    """What is known of the differences between neighbouring blocks of every combination of widths 1, 2, 4, ...

    A level of blocks of v cells tells differences of larger blocks, v times as precisely as a cell of its own.
    """
    known = np.zeros([top + 1 for top in tops(shape)])
    for level in levels:
        exponents = tuple((width - 1).bit_length() for width in level.widths)
        known[tuple(slice(e, None) for e in exponents)] += prod(level.widths) / level.sd**2
    return known


def estimate_cells(levels: Sequence[FitLevel], shape: Shape, total: float) -> np.ndarray:
    """Positive counts of all cells with a given sum.

    Noise rules no cell out: together they have a hundredth of the noise of one cell, divided evenly, at least.
    """
    plain, precisions = least_squares(levels, shape), residual_precisions(levels, shape)
    cells = divided_levels(plain, levels, total)
    if len(shape) > 1:
        cells = _with_sides(cells, _sides(cells, plain, precisions))
        cells *= total / cells.sum()
    least = min(LEAST_KEPT, LEAST_KEPT * min(level.sd for level in levels) / total)
    return (1 - least) * cells + least * total / cells.size


def _sides(cells: np.ndarray, plain: np.ndarray, precisions: np.ndarray) -> list[np.ndarray]:
    """Sums along each single axis, moved toward least squares: dividing nearly square blocks may lose long strips.

    At every width only as far as the distances exceed what noise explains (positive-part James-Stein).
    """
    found = []
    for axis in range(cells.ndim):
        others = tuple(place for place in range(cells.ndim) if place != axis)
        known = precisions[tuple(slice(None) if place == axis else -1 for place in range(cells.ndim))]
        known = known / prod(2.0 ** (precisions.shape[place] - 1) for place in others)
        side = cells.sum(axis=others)
        away, moved = plain.sum(axis=others) - side, np.zeros(1)
        for exponent in range(known.size - 2, -1, -1):
            first, second = _halves(block_sums(away, (2**exponent,)), 0)
            paired = np.arange(first.size) < side.size / 2**exponent // 2
            half = (first - second) / 2
            explained = _contrast_sd([exponent], 0, known) ** 2 * np.count_nonzero(paired)
            kept = max(0.0, 1 - explained / max(float((half[paired] ** 2).sum()), TINY))
            half = np.where(paired, kept * half, moved / 2)  # a last block without a neighbour is not divided
            moved = _join((moved / 2 + half, moved / 2 - half), 0, -(-side.size // 2**exponent))
        found.append(np.maximum(side + moved, LEAST_KEPT * side))
    return found


def _with_sides(cells: np.ndarray, sides: Sequence[np.ndarray]) -> np.ndarray:
    """The nearest table with these sums along each axis, by proportional fitting."""
    for _ in range(SWEEPS):
        for axis, side in enumerate(sides):
            sums = cells.sum(axis=tuple(place for place in range(cells.ndim) if place != axis))
            ratio = np.where(sums > 0, side / np.maximum(sums, np.finfo(float).tiny), 1.0)
            cells = cells * ratio.reshape([-1 if place == axis else 1 for place in range(cells.ndim)])
    return cells


def cell_sd(precisions: np.ndarray, shape: Shape) -> float:
    """The noise of an average cell after least squares."""
    blocks = []
    for top in tops(shape):
        count = 2.0 ** (top - np.arange(top + 1))
        blocks.append(count - np.array([*count[1:], 0.0]))
    left = 1 / precisions
    for count in reversed(blocks):
        left = left @ count
    return float(left / prod(2.0**top for top in tops(shape))) ** 0.5


def divided_levels(cells: np.ndarray, levels: Sequence[FitLevel], total: float) -> np.ndarray:
    """Non-negative cells near those of least squares, which may be negative.

    From the cells up it is learnt how evenly the blocks of each depth are divided, and whether a half may hold nothing;
    from the whole table down every block is divided.
    """
    precisions = residual_precisions(levels, cells.shape)
    depths = _depths(cells, levels, precisions)
    laws, law = [], ANY_LAW
    for depth in reversed(depths):
        laws.append(depth.blocks.learn(np.maximum(depth.whole, 0.0), law))
        law = laws[-1].for_coarser()
    found = np.full((1,) * cells.ndim, float(total))
    for depth, law in zip(depths, reversed(laws), strict=True):
        first = depth.blocks.first(found.ravel(), law).reshape(found.shape)
        found = _join((first, found - first), depth.axis, depth.size)
    return found


@dataclass(frozen=True, eq=False)
class _Depth:
    """Blocks that are divided along one axis, into halves of which there are `size` along it."""

    axis: int
    size: int
    whole: np.ndarray
    blocks: DividedBlocks


def _depths(cells: np.ndarray, levels: Sequence[FitLevel], precisions: np.ndarray) -> list[_Depth]:
    """From the whole table, which is one block, to its cells."""
    sizes = np.ones(cells.shape)
    inside = _Inside()
    found = []
    for exponents, axis in reversed(_divisions(cells.shape)):
        widths = tuple(2**e for e in exponents)
        sums = block_sums(cells, widths)
        noise = _contrast_sd(exponents, None, precisions)
        inside.add(log_tails(sums, noise, _laplaces(levels, widths)))
        nothing = _halves(inside.hints(), axis)
        inside.double(axis)
        halves, room = _halves(sums, axis), _halves(block_sums(sizes, widths), axis)
        even, whole = room[0] / (room[0] + room[1]), halves[0] + halves[1]
        blocks = DividedBlocks(
            even.ravel(),
            (halves[0] - even * whole).ravel(),
            _contrast_sd(exponents, axis, precisions),
            (nothing[0].ravel(), nothing[1].ravel()),
        )
        found.append(_Depth(axis, sums.shape[axis], whole.ravel(), blocks))
    return found[::-1]


def _divisions(shape: Shape) -> list[tuple[Shape, int]]:
    """Exponents of the halves' widths, and the axis along which they are neighbours: the longest side is divided."""
    exponents = list(tops(shape))
    found = []
    while any(exponents):
        axis = int(np.argmax(exponents))
        exponents[axis] -= 1
        found.append((tuple(exponents), axis))
    return found


class _Inside:
    """The least probable sum inside every block, at each depth from the cells up, if nothing but noise is there.

    A half whose own sum may be noise is not empty if a few of its codes clearly hold records.
    """

    def __init__(self) -> None:
        self._least: list[np.ndarray] = []
        self._counts: list[int] = []

    def add(self, log_p: np.ndarray) -> None:
        self._least.append(log_p)
        self._counts.append(1)

    def hints(self) -> np.ndarray:
        """Of every block; its sums at all depths are as many tries (Bonferroni)."""
        tries = np.log(len(self._counts)) + np.log(self._counts)
        return hints_of_nothing(np.min([p + t for p, t in zip(self._least, tries, strict=True)], axis=0))

    def double(self, axis: int) -> None:
        self._least = [np.minimum(*_halves(p, axis)) for p in self._least]
        self._counts = [2 * count for count in self._counts]


def _laplaces(levels: Sequence[FitLevel], widths: Shape) -> float:
    """Of how many equal Laplace noises the sum of a block has the kurtosis; infinite if noise is normal."""
    told = [level for level in levels if all(v <= w for v, w in zip(level.widths, widths, strict=True))]
    precisions = np.array([prod(level.widths) / level.sd**2 for level in told])
    counts = np.array([prod(level.widths) / prod(widths) if level.laplace else 0.0 for level in told])
    excess = float(((precisions / precisions.sum()) ** 2 * counts).sum())
    return 1 / excess if excess else np.inf


def _halves(blocks: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second halves of the larger blocks; a missing last one is empty."""
    first = blocks.take(np.arange(0, blocks.shape[axis], 2), axis=axis)
    second = blocks.take(np.arange(1, blocks.shape[axis], 2), axis=axis)
    if second.shape != first.shape:
        gap = [(0, 1 if place == axis else 0) for place in range(blocks.ndim)]
        second = np.pad(second, gap)
    return first, second


def _join(halves: tuple[np.ndarray, np.ndarray], axis: int, size: int) -> np.ndarray:
    joined = np.stack(halves, axis=axis + 1)
    shape = list(halves[0].shape)
    shape[axis] *= 2
    return joined.reshape(shape).take(np.arange(size), axis=axis)


def _contrast_sd(exponents: Sequence[int], axis: int | None, precisions: np.ndarray) -> float:
    """Noise of half the difference of two blocks that are neighbours along an axis, after least squares; without an
    axis, of a block.

    Along the axis it is a difference at one width; along the others the sum over a block, which is made of differences
    at all larger widths and the mean: 2^2e / 2^(m+1) of its square at width 2^m, and 2^2e / 2^top of the mean.
    """
    parts = []
    for place, exponent in enumerate(exponents):
        energies = np.zeros(precisions.shape[place])
        if place == axis:
            energies[exponent] = 2.0**exponent / 2
        else:
            top = precisions.shape[place] - 1
            wider = np.arange(exponent, top + 1)
            energies[wider] = 4.0**exponent / 2.0 ** np.minimum(wider + 1, top)
        parts.append(energies)
    left = 1 / precisions
    for energies in reversed(parts):
        left = left @ energies
    return float(left) ** 0.5
