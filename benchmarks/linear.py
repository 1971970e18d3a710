"""Baselines: plain Gaussian noise with consistency, ResidualPlanner's allocation, and the product of noisy one-ways.

The first two, from the papers, answer a workload of marginals without any model. A marginal S is the sum of the
residuals of its subsets A (its table of A with the mean along every axis taken off), each spread evenly over the
attributes of S outside A. Plain noise measures every marginal asked for with the same budget; its residuals are then
averaged by inverse variance over the marginals that tell them, which is weighted least squares. ResidualPlanner
measures the residuals themselves, each with the precision that the workload's errors call for. The product takes
attributes for independent. Noise is NumPy's: nothing here is private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

__all__ = ["noisy_product", "plain_gaussian", "residual_planner", "residuals_of"]

Set = tuple[str, ...]
Sizes = Mapping[str, int]
Truth = Mapping[Set, np.ndarray]
"""Exact counts of each marginal that is asked for, one axis for each attribute."""

ROUNDS = 8
"""Of the fixed-point iteration for roots of variances; the shares moved by less than a thousandth after five."""


def plain_gaussian(truth: Truth, sizes: Sizes, rho: float, generator: np.random.Generator) -> dict[Set, np.ndarray]:
    """Every marginal with an equal part of `rho` (add-remove), made consistent by least squares; in fractions."""
    sd = (len(truth) / (2 * rho)) ** 0.5
    sums: dict[Set, np.ndarray] = {}
    weights: dict[Set, float] = {}
    for names, counts in truth.items():
        noisy = counts + generator.normal(0.0, sd, counts.shape)
        for inner, residual in residuals_of(names, noisy).items():
            weight = 1.0 / _outside(names, inner, sizes)
            sums[inner] = sums.get(inner, 0.0) + weight * residual
            weights[inner] = weights.get(inner, 0.0) + weight
    return _answers(truth, sizes, {inner: total / weights[inner] for inner, total in sums.items()})


def residual_planner(truth: Truth, sizes: Sizes, rho: float, generator: np.random.Generator) -> dict[Set, np.ndarray]:
    """Every residual with the precision that minimises the workload's expected total variation (add-remove)."""
    precisions = planned_precisions(list(truth), sizes, rho)
    exact: dict[Set, np.ndarray] = {}
    for names, counts in truth.items():
        exact |= {a: r for a, r in residuals_of(names, counts).items() if a not in exact}
    noisy = {
        inner: residual + centred(generator.normal(0.0, precisions[inner] ** -0.5, residual.shape))
        for inner, residual in exact.items()
    }
    return _answers(truth, sizes, noisy)


def noisy_product(
    singles: Mapping[str, np.ndarray], sets: Sequence[Set], rho: float, generator: np.random.Generator
) -> dict[Set, np.ndarray]:
    """Products of single attributes' shares, each measured with an equal part of `rho` (add-remove)."""
    sd, shares = (len(singles) / (2 * rho)) ** 0.5, {}
    for name, counts in singles.items():
        noisy = np.maximum(counts + generator.normal(0.0, sd, counts.shape), 0.0)
        shares[name] = noisy / noisy.sum() if noisy.any() else np.full(counts.shape, 1 / counts.size)
    answers = {}
    for names in sets:
        table = np.ones(())
        for name in names:
            table = np.multiply.outer(table, shares[name])
        answers[names] = table
    return answers


def planned_precisions(sets: Sequence[Set], sizes: Sizes, rho: float) -> dict[Set, float]:
    """Precisions t_A with `sum p_A t_A = 2 rho` that minimise the sum over the workload of `sqrt(cells V_S)`.

    `V_S = sum_A p_A cells_A / (t_A outside)` is the squared error of a marginal, `p_A = prod (1 - 1/d)` the share of
    noise that centring leaves and the price of A. For given derivatives w_A the optimum is `t_A ~ sqrt(w_A cells_A)`.
    """
    closed = sorted({a for s in sets for k in range(len(s) + 1) for a in combinations(s, k)}, key=lambda a: (len(a), a))
    cells = {a: float(prod(sizes[name] for name in a)) for a in closed}
    kept = {a: prod(1 - 1 / sizes[name] for name in a) for a in closed}
    inside = {s: [(a, _outside(s, a, sizes)) for k in range(len(s) + 1) for a in combinations(s, k)] for s in sets}
    found = dict.fromkeys(closed, 1.0)
    for _ in range(ROUNDS):
        worth = dict.fromkeys(closed, 0.0)
        for s in sets:
            variance = sum(kept[a] * cells[a] / (found[a] * outside) for a, outside in inside[s])
            for a, outside in inside[s]:
                worth[a] += (cells[s] / max(variance, np.finfo(float).tiny)) ** 0.5 / outside
        found = {a: (worth[a] * cells[a]) ** 0.5 for a in closed}
        factor = 2 * rho / sum(kept[a] * found[a] for a in closed)
        found = {a: t * factor for a, t in found.items()}
    return found


def residuals_of(names: Set, counts: np.ndarray) -> dict[Set, np.ndarray]:
    """The residual of every subset of a marginal's attributes."""
    found = {}
    for order in range(len(names) + 1):
        for kept in combinations(range(len(names)), order):
            summed = counts.sum(axis=tuple(axis for axis in range(len(names)) if axis not in kept))
            found[tuple(names[axis] for axis in kept)] = centred(summed)
    return found


def centred(table: np.ndarray) -> np.ndarray:
    """The table with the mean along every axis taken off."""
    table = np.asarray(table, dtype=np.float64)
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _outside(names: Set, inner: Set, sizes: Sizes) -> float:
    """Cells of the attributes that a marginal has beyond a residual's."""
    return float(prod(sizes[name] for name in names if name not in inner))


def _answers(truth: Truth, sizes: Sizes, residuals: Mapping[Set, np.ndarray]) -> dict[Set, np.ndarray]:
    """Each marginal from its residuals, as fractions of the noisy number of records."""
    records = float(residuals[()])
    answers = {}
    for names in truth:
        table = np.zeros([sizes[name] for name in names])
        for order in range(len(names) + 1):
            for inner in combinations(names, order):
                shape = [sizes[name] if name in inner else 1 for name in names]
                table += residuals[inner].reshape(shape) / _outside(names, inner, sizes)
        answers[names] = table / records
    return answers
