"""Which cells of a fit's terms have parameters: of large sets on chosen records, those that a record has.

A million cells of three attributes may have thirty thousand records. The others have no probability whatever the
parameters are: what was measured of them adds a constant to the objective, and a vector that holds them is mostly
theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import Term

__all__ = ["TermVector"]


class TermVector:
    """One vector with the numbers of all terms, one after the other.

    Args:
        terms: The terms of a fit.
        kept: Of each term the places of its numbers that the vector holds, rising; None for all.
    """

    def __init__(self, terms: Sequence[Term], kept: Sequence[np.ndarray | None]) -> None:
        self.kept = list(kept)
        self._full = [term.values.size for term in terms]
        sizes = [full if k is None else k.size for full, k in zip(self._full, kept, strict=True)]
        ends = np.cumsum([0, *sizes]).tolist()
        self.places = [slice(a, b) for a, b in pairwise(ends)]
        self.size = int(ends[-1])
        self.numbers = sum(self._full)
        """How many numbers the terms have, with those that are left out."""
        self.lost_numbers, self.lost_distance, self.lost_misfit = 0, 0.0, 0.0
        """Of the measured numbers that are left out: how many, the squared distance of zero from all, and the largest
        of one, in standard deviations of their noise."""
        for term, k in zip(terms, kept, strict=True):
            if k is not None and not term.free:
                left = np.delete(term.values.ravel(), k) / term.sd
                self.lost_numbers += left.size
                self.lost_distance += float(left @ left)
                self.lost_misfit = max(self.lost_misfit, float(np.abs(left).max(initial=0.0)))
        self._rest: dict[int, np.ndarray] = {}

    def of_term(self, index: int, numbers: np.ndarray) -> np.ndarray:
        """Those of one term's numbers that the vector holds."""
        kept = self.kept[index]
        return np.ravel(numbers) if kept is None else np.ravel(numbers)[kept]

    def packed(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The vector of all terms' numbers."""
        return np.concatenate([np.empty(0), *(self.of_term(i, numbers) for i, numbers in enumerate(arrays))])

    def hold(self, parameters: Sequence[np.ndarray]) -> np.ndarray:
        """The vector of all terms' parameters; those left out stay as they are here."""
        self._rest = {i: np.ravel(p) for i, p in enumerate(parameters) if self.kept[i] is not None and np.any(p)}
        return self.packed(parameters)

    def parameters(self, index: int, flat: np.ndarray) -> np.ndarray:
        """All parameters of one term."""
        part, kept = flat[self.places[index]], self.kept[index]
        return part if kept is None else self._filled(index, part, self._rest.get(index))

    def changes(self, index: int, flat: np.ndarray) -> np.ndarray:
        """One term's numbers, those left out zero."""
        part, kept = flat[self.places[index]], self.kept[index]
        return part if kept is None else self._filled(index, part, None)

    def _filled(self, index: int, part: np.ndarray, rest: np.ndarray | None) -> np.ndarray:
        found = np.zeros(self._full[index]) if rest is None else rest.copy()
        found[self.kept[index]] = part
        return found
