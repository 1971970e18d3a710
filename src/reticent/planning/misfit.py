"""What a fit leaves of its measurements beyond their noise, learnt from released numbers alone.

A fit shrinks interactions that are smaller than the noise of their cells. If many cells have errors of the same sign,
the error of a range over them may be far above its noise. Such misfit is visible in the residuals, that is, in the
measured values minus the fitted ones. Let f be the fit, T the table, y = T + z the measurement and p = f(y), all as
coefficients of cosines along every axis of the residual of a set of attributes, where the noise has one variance. To
first order f keeps the share h of a coefficient, so that

    residual        y - p = (1 - h) (T + z)
    error           T - p = (1 - h) T - h z.

If S were the table, a fit f(S + z') would have the residual (1 - h) (S + z') and the error (1 - h) S - h z', both of
which can be computed for a simulated table S near the fit (`prediction.py`). In the mean square, residual and error
differ from these by the same amount, (1 - h)^2 (T^2 - S^2). The excess of the actual residual over that of the refit
therefore estimates the excess of the table's error over that of the refit (it is Stein's estimate of the error, with
the refit in place of the derivative of f).

The excess b of a coefficient is modelled as normal. Its standard deviation is drawn, for each set of attributes and
each level of frequencies (1, 2-3, 4-7, ...), from a distribution that all sets of the same number of attributes share:
a mixture over a grid of standard deviations with maximum likelihood weights (Kiefer and Wolfowitz 1956). Sets with
little noise, in small tables, thus determine what is expected of sets whose noise exceeds their interactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np

from reticent.hypotheses.fitting.consistent import Consistent, others, subsets_of

Set = tuple[str, ...]
Band = tuple[int, int]
"""A number of attributes, and a level of frequencies."""

SPREADS = 24
"""Of a mixture's grid, from a quarter of the lowest noise to the largest coefficient: factors of about 1.3."""
LOWEST = 0.25
STEPS = 200
"""Of expectation and maximisation: weights move by less than a hundredth in the last half of them."""
LEAST_VARIANCE = 1e-12
"""Of what refits leave of the noise, as a share of it: fits of single attributes may leave nothing at all."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """The distribution of the excess of a band over its sets: weights of variances on a grid."""

    variances: np.ndarray
    weights: np.ndarray
    """Of sets that were not measured."""
    own: Mapping[Set, np.ndarray]
    """The distribution of each set's excess, given its residuals."""

    @classmethod
    def likeliest(cls, sets: Sequence[Set], counts: np.ndarray, squares: np.ndarray, noise: np.ndarray) -> Self:
        """The maximum likelihood mixture, from the number of coefficients of each set, the sum of their squares, and
        the variance of their noise.
        """
        lowest = LOWEST * sqrt(float(noise.min()))
        largest = max(2 * lowest, sqrt(float((squares / counts).max())))
        variances = np.concatenate([[0.0], np.geomspace(lowest, largest, SPREADS) ** 2])
        spread = noise[:, None] + variances
        logs = -(counts[:, None] * np.log(spread) + squares[:, None] / spread) / 2
        likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights = np.full(variances.size, 1 / variances.size)
        own = likelihoods * weights
        for _ in range(STEPS):
            own = likelihoods * weights
            own /= own.sum(axis=1, keepdims=True)
            weights = own.mean(axis=0)
        return cls(variances, weights, dict(zip(sets, own, strict=True)))

    def draw(self, names: Set, generator: np.random.Generator) -> float:
        """Draw a variance of the excess."""
        return float(generator.choice(self.variances, p=self.own.get(names, self.weights)))


@dataclass(frozen=True, eq=False)
class Misfit:
    """The excess of the residuals, by bands, from which errors are drawn."""

    left: Mapping[Set, np.ndarray]
    """Coefficients of what was measured less what was fitted, as densities: of a table of c cells, root c times."""
    noise: Mapping[Set, float]
    """The variance of the noise that was added to them."""
    kept: Mapping[Band, float]
    """Of this variance, what a refit leaves."""
    mixtures: Mapping[Band, Mixture]
    growth: Mapping[int, float]
    """How much larger the root mean square error of cells is than that of a refit, by the number of attributes."""

    @classmethod
    def of(
        cls,
        measured: Consistent,
        fitted: Mapping[Set, np.ndarray],
        simulated: Mapping[Set, np.ndarray],
        refits: Iterable[tuple[Consistent, Mapping[Set, np.ndarray]]],
    ) -> Self:
        """The misfit from measured and fitted residuals, and the same of refits to the residuals of another table."""
        left = {names: coefficients(measured.residuals[names] - table) for names, table in fitted.items()}
        noise = {names: table.size / measured.precisions[names] for names, table in left.items()}
        spent: dict[Band, list[float]] = {}
        energy = {len(names): np.zeros(3) for names in left}  # own, refits' and errors' squares, in units of noise
        for names, table in left.items():
            energy[len(names)][0] += float((table**2).sum()) / noise[names]
        refits = list(refits)
        for drawn, tables in refits:
            for names, table in tables.items():
                squares = coefficients(drawn.residuals[names] - table) ** 2 / noise[names]
                for band, places in bands(squares.shape).items():
                    spent.setdefault(band, []).extend((float(squares[places].sum()), float(places.sum())))
                strayed = float((coefficients(simulated[names] - table) ** 2).sum()) / noise[names]
                energy[len(names)][1:] += np.array([float(squares.sum()), strayed]) / len(refits)
        kept = {band: max(LEAST_VARIANCE, sum(told[::2]) / sum(told[1::2])) for band, told in spent.items()}
        growth = {
            order: sqrt(1 + max(0.0, own - seen) / errors) if errors > 0 else 1.0
            for order, (own, seen, errors) in energy.items()
        }
        gathered: dict[Band, list[tuple[Set, int, float]]] = {}
        for names, table in left.items():
            for band, places in bands(table.shape).items():
                told = names, int(places.sum()), float((table[places] ** 2).sum())
                gathered.setdefault(band, []).append(told)
        mixtures = {}
        for band, told in gathered.items():
            sets, counts, squares = zip(*told, strict=True)
            variances = kept[band] * np.array([noise[names] for names in sets])
            mixtures[band] = Mixture.likeliest(sets, np.array(counts), np.array(squares), variances)
        return cls(left, noise, kept, mixtures, growth)

    def draw(self, shapes: Mapping[Set, tuple[int, ...]], generator: np.random.Generator) -> dict[Set, np.ndarray]:
        """Draw the excess of the residual of every set, given the residuals; sets without measurements are drawn as the
        others.
        """
        return {names: from_coefficients(self._drawn(names, shape, generator)) for names, shape in shapes.items()}

    def _drawn(self, names: Set, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
        drawn, left = np.zeros(shape), self.left.get(names)
        for band, places in bands(shape).items():
            mixture = self.mixtures.get(band)
            if mixture is None:
                continue
            variance = mixture.draw(names, generator)
            fresh = generator.standard_normal(int(places.sum()))
            if left is None:
                drawn[places] = sqrt(variance) * fresh
            elif variance:
                noise = self.kept[band] * self.noise[names]
                share = variance / (variance + noise)
                drawn[places] = share * left[places] + sqrt(share * noise) * fresh
        return drawn


def bands(shape: tuple[int, ...]) -> dict[Band, np.ndarray]:
    """Positions of coefficients by level: the power of two of the highest frequency; no frequency is zero in a
    residual.
    """
    axes = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij", sparse=True)
    highest, inside = np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=bool)
    for axis in axes:
        highest, inside = np.maximum(highest, axis), inside & (axis > 0)
    levels = np.where(inside, np.frexp(highest)[1] - 1, -1)
    return {(len(shape), int(level)): levels == level for level in np.unique(levels) if level >= 0}


def coefficients(residual: np.ndarray) -> np.ndarray:
    """Coefficients of cosines along every axis, scaled as densities, so that sums over half of the cells do not depend
    on their number.
    """
    from scipy.fft import dctn

    return np.asarray(dctn(residual, norm="ortho")) * sqrt(residual.size)


def from_coefficients(found: np.ndarray) -> np.ndarray:
    """The inverse of `coefficients`."""
    from scipy.fft import idctn

    return np.asarray(idctn(found / sqrt(found.size), norm="ortho"))


def table_with(residuals: Mapping[Set, np.ndarray], names: Set, shape: tuple[int, ...]) -> np.ndarray:
    """The table of a set that has these residuals."""
    table = np.zeros(shape)
    for kept, inner in subsets_of(names):
        if inner in residuals:
            part = residuals[inner]
            table += part.size / table.size * np.expand_dims(part, others(names, kept))
    return table
