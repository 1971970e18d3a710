"""How version 0.1 fitted: pairs first, then all, each from zero at full precision.

Kept for runs that it began and that were interrupted during their audit: their ledger holds a paid reading about the
fitted distribution but not the distribution, which has to come out the same again, to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reticent.hypotheses.base import FitReport
from reticent.hypotheses.fitting.loglinear import FitProblem, LogLinear, MakeEngine, Term
from reticent.hypotheses.fitting.quasi_newton import DescentResult, Objective, descend

if TYPE_CHECKING:
    from reticent.hypotheses.fitting.loglinear import Key

__all__ = ["fit_staged"]

TOLERANCE, PROGRESS, ITERATIONS = 1e-4, 1e-3, 400


def fit_staged(
    terms: dict[Key, Term],
    base: dict[str, np.ndarray],
    make_engine: MakeEngine,
    start: LogLinear | None,
    progress: float | None,
) -> tuple[LogLinear, FitReport]:
    """The MAP fit of version 0.1, which stops when ten steps gain less than `progress` of half the number of cells."""
    known = dict(start.parameters) if start is not None else {}
    model, last = LogLinear((), ()), None
    iterations = evaluations = 0
    for keys in _stages(terms, known):
        problem = FitProblem([terms[key] for key in keys], base, make_engine)
        point = np.concatenate([np.zeros(0), *(known.get(key, np.zeros(terms[key].values.size)) for key in keys)])
        for share in (0.2, 0.8):
            last = descend(
                Objective(problem.value, problem.gradient),
                point,
                preconditioner=problem.preconditioner(point),
                gap_bound=problem.gap_bound,
                tolerance=TOLERANCE * problem.unit,
                progress=(PROGRESS if progress is None else progress) * problem.unit,
                iterations=round(share * ITERATIONS),
            )
            point = last.point
            iterations += last.iterations
            evaluations += last.evaluations + 1
        known |= {key: point[place] for key, place in zip(keys, problem.places, strict=True)}
        scales = {key: terms[key].scale for key in keys}
        model = LogLinear(problem.sets, tuple(problem.potentials(point)), {key: known[key] for key in keys}, scales)
    return model, _report(last, iterations, evaluations)


def _stages(terms: dict[Key, Term], known: dict[Key, np.ndarray]) -> list[list[Key]]:
    low = [key for key, term in terms.items() if term.order <= 2]
    return [list(terms)] if known or len(low) in (0, len(terms)) else [low, list(terms)]


def _report(last: DescentResult | None, iterations: int, evaluations: int) -> FitReport:
    if last is None:
        return FitReport(0.0, 0.0, 0, 0, True, "staged", "nothing was measured")
    message = "" if last.certified else "stopped on small progress: the gap bound was not reached"
    return FitReport(last.objective, last.gap, iterations, evaluations, last.certified, "staged", message)
