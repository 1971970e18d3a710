"""Interactions of ordered attributes: a smooth part whose cosines shrink with frequency, as released numbers tell.

Along an ordered attribute (bins of a `Numeric`, the integers of an `Integer`) neighbouring codes often behave alike:
income changes slowly with age. The log-linear parameters of a set then are the sum of two parts, one of the cells, as
of any set, and a smooth one, `lambda = U theta`, with U the cosines along every ordered axis and `theta` of standard
deviation `amplitude / max(frequency, 1)^decline`. The departures of the measured cells from what lower orders predict
say by their marginal likelihood how large either part is; where the smooth part does not explain them clearly better,
there is none and the fit is what it is for unordered attributes (spec planning.md 6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.domain import Integer

if TYPE_CHECKING:
    from reticent.domain import Attribute, Domain

__all__ = [
    "AMPLITUDES",
    "LARGEST_MATRIX",
    "SmoothPart",
    "Smoothness",
    "add_losses",
    "cosine_table",
    "learn_smoothness",
    "ordered_codes",
    "smooth_part",
]

LEAST_CODES = 5
"""In order, along an axis: fewer have no frequencies to tell apart."""
DECLINES = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Powers of the frequency: 1 is a random walk, 2 one of slopes; 0 would be no smoothness."""
ROUGH = (0.0, 0.03, 0.1, 0.3)
"""Standard deviations of the cells' own part over the amplitude."""
AMPLITUDES = np.geomspace(0.03, 30.0, 31)
"""As the scales of cells, and beyond: a smooth table of m codes has cosines of root m times its cells' size."""
WORTH = 0.2
"""Of the squared error that is expected without a smooth part, which one must save. Where measurements decide, nothing
is to be gained, and a prior of the wrong form costs a little. From 0 to 0.4 the total variation of generated pairs
differed by a twentieth (docs/validation.md, constants of the plan)."""
CLEARLY = 4.0
"""Twice the difference of log-likelihoods that two more parameters gain by chance (Akaike)."""
GROUPS = {1: 96, 2: 10}
"""By the number of ordered axes, at most so many groups of codes along each: a hundred numbers are compared at once."""
COLUMNS = 32
"""Codes of the other attributes from which smoothness is learnt, those with the most records."""


def ordered_codes(attribute: Attribute) -> int:
    """How many codes from the first on are in order; 0 for attributes without an order, or too few codes."""
    ordered = attribute.ordered or isinstance(attribute, Integer)
    return attribute.known if ordered and attribute.known >= LEAST_CODES else 0


LARGEST_MATRIX = 1024
"""Codes in order up to which cosines are a matrix. A fast transform gives the same numbers but for their last bits, and
fits of versions without one, which replays repeat, had matrices."""


def _waves(run: int, count: int) -> np.ndarray:
    """The first `count` orthonormal cosines on `run` codes, by rising frequency, as columns."""
    waves = np.cos(np.pi * np.outer(np.arange(run) + 0.5, np.arange(count)) / run) * np.sqrt(2 / run)
    waves[:, 0] *= np.sqrt(0.5)
    return waves


class _Matrix:
    """The basis along one axis: cosines of the first `run` codes, then the other codes themselves; as a matrix."""

    def __init__(self, run: int, size: int) -> None:
        self._basis = np.eye(size)
        self._basis[:run, :run] = _waves(run, run)
        self._basis.setflags(write=False)

    def table(self, coefficients: np.ndarray, axis: int) -> np.ndarray:
        return _along(axis, coefficients, self._basis.T)

    def coefficients(self, table: np.ndarray, axis: int) -> np.ndarray:
        return _along(axis, table, self._basis)

    def curvatures(self, cells: np.ndarray, axis: int) -> np.ndarray:
        return _along(axis, cells, self._basis * self._basis)


def _along(axis: int, table: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    if axis == table.ndim - 1:
        return table @ matrix
    return matrix.T @ table if table.ndim == 2 else np.swapaxes(np.swapaxes(table, axis, -1) @ matrix, axis, -1)


class _Transform:
    """The same basis by the fast cosine transform, for axes whose matrix would be large."""

    def __init__(self, run: int) -> None:
        self._run = run

    def table(self, coefficients: np.ndarray, axis: int) -> np.ndarray:
        from scipy.fft import idct

        return self._moved(coefficients, axis, lambda waves: np.asarray(idct(waves, type=2, norm="ortho", axis=0)))

    def coefficients(self, table: np.ndarray, axis: int) -> np.ndarray:
        from scipy.fft import dct

        return self._moved(table, axis, lambda cells: np.asarray(dct(cells, type=2, norm="ortho", axis=0)))

    def curvatures(self, cells: np.ndarray, axis: int) -> np.ndarray:
        return self._moved(cells, axis, self._squares)

    def _squares(self, cells: np.ndarray) -> np.ndarray:
        """Sums of cells times squared cosines: half the sum of the cells, and half that with cosines of twice the
        frequency. Frequencies m and 2 run - m have opposite sums, because codes lie half way between whole numbers.
        """
        from scipy.fft import dct

        run, sums = self._run, np.asarray(dct(cells, type=2, axis=0)) / 2
        doubled = np.zeros(sums.shape)
        half = (run + 1) // 2
        doubled[:half] = sums[0 : 2 * half : 2]
        upper = np.arange(run // 2 + 1, run)
        doubled[upper] = -sums[2 * (run - upper)]
        squares = (sums[0] + doubled) / run
        squares[0] = sums[0] / run
        return squares

    def _moved(self, table: np.ndarray, axis: int, act: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The table with the codes in order replaced by what `act` makes of them; the others as they are."""
        moved = np.moveaxis(np.array(table, dtype=np.float64), axis, 0)
        moved[: self._run] = act(moved[: self._run])
        return np.moveaxis(moved, 0, axis)


@lru_cache(maxsize=64)
def _cosines(run: int, size: int) -> _Matrix | _Transform:
    return _Matrix(run, size) if run <= LARGEST_MATRIX else _Transform(run)


@dataclass(frozen=True)
class Smoothness:
    """Of one set of attributes: `amplitude / max(frequency, 1)^decline`, and the scale of the cells' own part."""

    amplitude: float
    decline: float
    rough: float
    plain: float = 0.0
    """The scale that cells of their own have where nothing is taken to be smooth."""


class SmoothPart:
    """The smooth part of a set's parameters: its basis, and the prior scale of every coefficient.

    Args:
        shape: Of the set's tables.
        runs: For each axis how many of its codes are in order; 0 leaves an axis as it is.
        smoothness: What was learnt about them.
    """

    def __init__(self, shape: Sequence[int], runs: Sequence[int], smoothness: Smoothness) -> None:
        self.shape, self.smoothness = tuple(shape), smoothness
        sizes = enumerate(zip(runs, shape, strict=True))
        self._along = [(axis, _cosines(run, size)) for axis, (run, size) in sizes if run]
        self._ordered = tuple(axis for axis, _ in self._along)
        squares = np.zeros(self.shape)
        for axis, (run, size) in enumerate(zip(runs, shape, strict=True)):
            along = np.where(np.arange(size) < run, np.arange(size), 0).astype(float)
            squares += (along**2).reshape([-1 if i == axis else 1 for i in range(len(self.shape))])
        self.scales = (smoothness.amplitude * np.maximum(squares, 1.0) ** (-smoothness.decline / 2)).ravel()

    def table(self, coefficients: np.ndarray) -> np.ndarray:
        """The table with these coefficients."""
        table = coefficients.reshape(self.shape)
        for axis, basis in self._along:
            table = basis.table(table, axis)
        return table

    def coefficients(self, table: np.ndarray) -> np.ndarray:
        """The adjoint of `table`, and its inverse: cosines are orthonormal."""
        for axis, basis in self._along:
            table = basis.coefficients(table, axis)
        return table.ravel()

    def curvatures(self, cells: np.ndarray) -> np.ndarray:
        """The diagonal, in this basis, of a matrix that has `cells` as its diagonal in the basis of cells."""
        cells = cells.reshape(self.shape)
        for axis, basis in self._along:
            cells = basis.curvatures(cells, axis)
        return cells.ravel()

    def variances(self, expected: np.ndarray) -> np.ndarray:
        """Of coefficients of a table around the expected one, whose cells count by their mean square along the order.

        The cells' own part is included: it has the same variance in every basis.
        """
        weights = np.square(expected).mean(axis=self._ordered, keepdims=True)
        return weights * (self.scales.reshape(self.shape) ** 2 + self.smoothness.rough**2)

    def saved(self, expected: np.ndarray, sd: float) -> float:
        """The share of the expected squared error that shrinking by frequency saves over shrinking all cells alike."""
        signal, noise = self.variances(expected), sd * sd
        alike = np.square(expected).mean(axis=self._ordered, keepdims=True) * self.smoothness.plain**2
        kept = alike / (alike + noise)
        plain = float((signal * (1 - kept) ** 2 + noise * kept**2).sum())
        return 1 - float((signal * noise / (signal + noise)).sum()) / plain


def cosine_table(domain: Domain, names: Sequence[str], coefficients: np.ndarray) -> np.ndarray:
    """The cells of a smooth part with these coefficients, whatever its scales."""
    runs = [ordered_codes(domain[name]) for name in names]
    return SmoothPart(domain.shape_of(names), runs, Smoothness(1.0, 0.0, 0.0)).table(coefficients)


def smooth_part(
    domain: Domain, names: Sequence[str], values: np.ndarray, sd: float, expected: np.ndarray
) -> SmoothPart | None:
    """The smooth part of a measured set, learnt from it; None without ordered attributes, or if nothing is smooth."""
    runs = [ordered_codes(domain[name]) for name in names]
    # Where nothing is possible, what was measured is noise alone.
    found = learn_smoothness(np.where(expected > 0, values, 0.0), sd, expected, runs) if any(runs) else None
    if found is None:
        return None
    part = SmoothPart(expected.shape, runs, found)
    return part if part.saved(expected, sd) >= WORTH else None


def learn_smoothness(values: np.ndarray, sd: float, expected: np.ndarray, runs: Sequence[int]) -> Smoothness | None:
    """The likeliest smoothness of measured cells around `expected`; None where none is clearly likelier than none.

    To first order parameters of covariance K move cells q by covariance `diag(q) K diag(q)`, noise adds `sd^2`. Codes
    are grouped where there are many; different codes of the other attributes are independent.

    Args:
        values: Measured cells.
        sd: Their noise.
        expected: What the model without this set's parameters expects of them.
        runs: For each axis how many of its codes are in order; 0 for axes without an order.
    """
    ordered = [axis for axis, run in enumerate(runs) if run]
    if len(ordered) not in GROUPS:
        return None
    inner = tuple(slice(run) if run else slice(None) for run in runs)
    columns = [_columns(table[inner], ordered) for table in (expected, values - expected)]
    weights = np.square(columns[0]).sum(axis=tuple(range(len(ordered))))
    heaviest = np.argsort(-weights, kind="stable")[: min(COLUMNS, np.count_nonzero(weights))]
    if not heaviest.size:
        return None
    grouped = _Grouped(columns[0].shape[:-1], GROUPS[len(ordered)])
    rough_losses = np.zeros(AMPLITUDES.size)
    losses = np.zeros((len(DECLINES), len(ROUGH), AMPLITUDES.size))
    for shape, members in _alike(columns[0][..., heaviest]):
        sizes = np.array([factor for _, factor in members])
        away = np.stack([grouped.sums(columns[1][..., heaviest[place]]) for place, _ in members], axis=1)
        own, waves = grouped.own(shape), grouped.waves(shape)
        rough_losses += _own_losses(own, away, sizes, sd)
        for i, decline in enumerate(DECLINES):
            smooth = (waves * grouped.frequencies ** (-2 * decline)) @ waves.T
            for j, rough in enumerate(ROUGH):
                add_losses(smooth + np.diag(rough * rough * own), away, sizes, sd, losses[i, j])
    if losses.min() > rough_losses.min() - CLEARLY:
        return None
    i, j, k = np.unravel_index(int(np.argmin(losses)), losses.shape)
    amplitude = float(AMPLITUDES[k])
    plain = float(AMPLITUDES[int(np.argmin(rough_losses))])
    return Smoothness(amplitude, DECLINES[i], ROUGH[j] * amplitude, plain)


def _own_losses(spread: np.ndarray, away: np.ndarray, sizes: np.ndarray, sd: float) -> np.ndarray:
    """Minus twice the log-likelihood of every amplitude; one column of `away` for each size of the expected cells."""
    variances = np.multiply.outer(AMPLITUDES**2, np.outer(spread, sizes**2)) + sd * sd
    return (np.log(variances) + np.square(away) / variances).sum(axis=(1, 2))


@lru_cache(maxsize=1)
def _reflections() -> tuple[Callable[..., Any], ...]:
    """LAPACK's reduction of a symmetric matrix to a tridiagonal one, and the product with its reflections."""
    from scipy.linalg import get_lapack_funcs

    return tuple(get_lapack_funcs(("sytrd", "ormqr"), dtype=np.float64))


def add_losses(covariance: np.ndarray, away: np.ndarray, sizes: np.ndarray, sd: float, losses: np.ndarray) -> None:
    """Add minus twice the log-likelihood of every amplitude to `losses`: of the columns of `away`, each of its size.

    Reflections make the covariance tridiagonal for all amplitudes at once, in a quarter of the time that its
    eigenvectors take.
    """
    from reticent.hypotheses.fitting.smoothness_kernels import tridiagonal_losses

    tridiagonal, reflect = _reflections()
    turned = np.array(away, order="F")
    reflected, diagonal, beside, factors, _ = tridiagonal(covariance, lower=1)
    if len(away) > 1:
        turned[1:], _, _ = reflect("L", "T", reflected[1:, :-1], factors, turned[1:], max(64 * len(away), 1))
    scales = np.multiply.outer(sizes**2, AMPLITUDES**2)
    tridiagonal_losses(diagonal, beside, turned, scales, sd * sd, losses)


def _columns(table: np.ndarray, ordered: Sequence[int]) -> np.ndarray:
    """Ordered axes first, all others as one."""
    moved = np.moveaxis(table, ordered, range(len(ordered)))
    return moved.reshape(*moved.shape[: len(ordered)], -1)


def _alike(columns: np.ndarray) -> list[tuple[np.ndarray, list[tuple[int, float]]]]:
    """Columns that are multiples of each other, as those of a product are, with their places and factors."""
    found: dict[bytes, tuple[np.ndarray, list[tuple[int, float]]]] = {}
    for place in range(columns.shape[-1]):
        column = columns[..., place]
        factor = float(column.max())
        shape = np.round(column / factor, 6)
        found.setdefault(shape.tobytes(), (shape, []))[1].append((place, factor))
    return list(found.values())


class _Grouped:
    """Codes of ordered axes in groups of nearly equal width; sums are divided by the root of a group's cells."""

    def __init__(self, shape: Sequence[int], most: int) -> None:
        self._starts = [np.linspace(0, size, min(size, most), endpoint=False).astype(int) for size in shape]
        widths = [np.diff([*starts, size]) for starts, size in zip(self._starts, shape, strict=True)]
        self._roots = np.sqrt(widths[0] if len(widths) == 1 else np.multiply.outer(widths[0], widths[1])).astype(float)
        self._bases = [_waves(size, starts.size) for starts, size in zip(self._starts, shape, strict=True)]
        rising = [np.arange(starts.size, dtype=float) ** 2 for starts in self._starts]
        squares = rising[0] if len(rising) == 1 else np.add.outer(rising[0], rising[1])
        self.frequencies = np.sqrt(np.maximum(squares, 1.0)).ravel()

    def sums(self, table: np.ndarray) -> np.ndarray:
        return (self._added(table) / self._roots).ravel()

    def own(self, expected: np.ndarray) -> np.ndarray:
        """The variance of every group's sum if each cell has a parameter of its own."""
        return (self._added(expected * expected) / self._roots**2).ravel()

    def waves(self, expected: np.ndarray) -> np.ndarray:
        """What every cosine adds to every group's sum."""
        both = expected
        for axis, (starts, basis) in enumerate(zip(self._starts, self._bases, strict=True)):
            waves = [both * wave.reshape([-1 if i == axis else 1 for i in range(both.ndim)]) for wave in basis.T]
            both = np.stack([np.add.reduceat(moved, starts, axis=axis) for moved in waves], axis=-1)
        return both.reshape(self._roots.size, -1) / self._roots.reshape(-1, 1)

    def _added(self, table: np.ndarray) -> np.ndarray:
        for axis, starts in enumerate(self._starts):
            table = np.add.reduceat(table, starts, axis=axis)
        return table
