"""The cells of a workload's marginals as one class of counting queries, closed under complement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.projection import conservative_target
from reticent.kernel.statistics import CellScores
from reticent.queries.linear import Conjunction
from reticent.queries.workload import Workload

__all__ = ["CellClass"]


class CellClass:
    """Query i < size is a cell whose count exceeds the guess; query i + size is its complement."""

    def __init__(self, workload: Workload, domain: Domain, algorithm: str) -> None:
        if workload.queries or workload.ranges or not workload.marginals:
            raise QueryError(
                f"{algorithm} selects among cells of marginals; give a workload of marginals, or use Adaptive()"
            )
        self.sets = workload.marginals
        self._domain = domain
        self._starts = [0, *accumulate(domain.cells(names) for names in self.sets)]

    @property
    def size(self) -> int:
        return self._starts[-1]

    def scores(self, hypothesis: Hypothesis, records: float) -> CellScores:
        """Signed errors in records: count - guess for every cell, then the same of its complement."""
        guesses = [marginal * records for marginal in hypothesis.marginals(self.sets)]
        return CellScores(self.sets, tuple(-guess for guess in guesses))

    def query(self, index: int) -> tuple[Conjunction, bool]:
        """The cell behind an index, and whether the complement was meant."""
        complement, cell = divmod(index, self.size)
        place = int(np.searchsorted(self._starts, cell, side="right")) - 1
        names = self.sets[place]
        codes = np.unravel_index(cell - self._starts[place], self._domain.shape_of(names))
        return Conjunction(dict(zip(names, map(int, codes), strict=True))), bool(complement)


def replay(hypothesis: Hypothesis, answers: Sequence[tuple[Conjunction, float, float]]) -> None:
    """Project once onto every past answer (query, value, margin), oldest first (spec 4.4)."""
    for query, value, margin in answers:
        current = hypothesis.expect(query)
        target = conservative_target(measured=value, bound=margin, guess=current)
        if target is not None:
            # Noise cannot rule a cell out: nothing falls below half a margin unless it was lower before.
            floor = min(margin / 2, current, 1 - current)
            hypothesis.project(query, min(max(target, floor), 1 - floor))
