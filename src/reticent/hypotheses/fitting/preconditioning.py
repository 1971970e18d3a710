"""Steps of a descent in directions that hardly disturb each other: what a pair's cell does to single attributes is
taken back by their own parameters.

A parameter of a pair's cell (a, b) moves the distributions of both attributes as well. Where these are known precisely,
it can only move together with theirs, in proportions that a diagonal knows nothing of: of a pair whose first codes hold
nearly everything, parameters that leave single attributes alone change a thousandth of what each does by itself. So
pairs are moved less their conditional means given either attribute, by the distribution that the descent has reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import FitProblem, Term
    from reticent.hypotheses.fitting.quasi_newton import Preconditioner

__all__ = ["MOST_COUPLED", "PAIR", "Nested", "PreciselyCoupled", "centred_curvature"]

MOST_COUPLED = 64
"""Single queries whose slopes a descent computes at every refresh, the most precise ones: they cost what as many
gradients do, about as much as a short leg of the descent."""
PAIR = 2
"""Attributes of the sets that are nested. Higher orders are mostly left to their prior, and have many more cells."""


def centred_curvature(cells: np.ndarray) -> np.ndarray:
    """What the squares of a set's cells change by, were its attributes independent, in each direction that leaves them.

    Of a cell q of codes with shares q_i, the direction changes cells by the product over attributes of
    `q_i (1 - q_i)` in the code and `-q_i q_j` elsewhere: squared and summed, `q_i^2 (1 - 2 q_i + sum of q_j^2)`.
    """
    found = cells * cells
    for axis in range(cells.ndim):
        others = tuple(i for i in range(cells.ndim) if i != axis)
        shares = cells.sum(axis=others)
        found = found * np.expand_dims(1 - 2 * shares + shares @ shares, others)
    return np.maximum(found, 0.0)


class Nested:
    """The inverse of an approximate Hessian, `T D T'`: D is diagonal, T takes conditional means off pairs.

    Args:
        problem: Whose moving parameters it is applied to.
        marginals: Of the problem's sets at the point of the descent.
        scaling: D, for the moving parameters.
    """

    def __init__(self, problem: FitProblem, marginals: Sequence[np.ndarray], scaling: np.ndarray) -> None:
        self._moving, self._size, self._scaling = problem.moving, problem.size, scaling
        singles = {t.attributes[0]: p for t, p in zip(problem.terms, problem.places, strict=True) if _is_of(t, 1)}
        links, conditionals, listed = list[tuple[int, ...]](), list[np.ndarray](), 0
        for term, place in zip(problem.terms, problem.places, strict=True):
            for axis, name in enumerate(term.attributes) if _is_of(term, PAIR) else ():
                if name in singles:
                    cells = marginals[problem.place(term.attributes)]
                    shares = cells.sum(axis=1 - axis, keepdims=True)
                    conditional = np.divide(cells, shares, out=np.zeros(cells.shape), where=shares > 0)
                    links.append((place.start, singles[name].start, *cells.shape, axis, listed))
                    conditionals.append(conditional.ravel())
                    listed += cells.size
        self._links = np.array(links, dtype=np.int64).reshape(-1, 6)
        self._conditionals = np.concatenate([np.empty(0), *conditionals])

    def apply(self, gradient: np.ndarray) -> np.ndarray:
        from reticent.hypotheses.fitting.preconditioning_kernels import take_back

        step = np.zeros(self._size)
        step[self._moving] = self._scaling * self._nested(gradient)
        take_back(step, self._links, self._conditionals)
        return step[self._moving]

    def square(self, gradient: np.ndarray) -> float:
        """The gradient times what it is applied to."""
        nested = self._nested(gradient)
        return float(nested @ (self._scaling * nested))

    def _nested(self, gradient: np.ndarray) -> np.ndarray:
        """T': what each direction gains."""
        from reticent.hypotheses.fitting.preconditioning_kernels import gain

        full = np.zeros(self._size)
        full[self._moving] = gradient
        gain(full, self._links, self._conditionals)
        return full[self._moving]


class PreciselyCoupled:
    """A preconditioner of an objective to which precise single numbers are added, each a function of many parameters.

    A number with precision t and slopes g adds the matrix `t g g'` to the Hessian. The inverse of the sum of all
    follows from that of the rest by Woodbury's identity: directions that leave these numbers alone keep their steps,
    and others take short ones, where a diagonal would have to shorten the steps of every parameter.

    Args:
        others: Of the rest of the objective.
        slopes: Of each number, row by row.
        precisions: Of each number.
    """

    def __init__(self, others: Preconditioner, slopes: np.ndarray, precisions: np.ndarray) -> None:
        self._others = others
        self._moved = np.stack([others.apply(row) for row in slopes])
        self._inner = np.linalg.inv(np.diag(1 / precisions) + slopes @ self._moved.T)

    def apply(self, gradient: np.ndarray) -> np.ndarray:
        return self._others.apply(gradient) - (self._inner @ (self._moved @ gradient)) @ self._moved

    def square(self, gradient: np.ndarray) -> float:
        """The gradient times what it is applied to."""
        return float(gradient @ self.apply(gradient))


def _is_of(term: Term, order: int) -> bool:
    return term.whole and term.order == order
