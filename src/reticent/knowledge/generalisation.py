"""How far adaptively asked answers stray from the population: privacy itself limits overfitting (spec 8.7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from reticent.kernel.accounting import Budget, epsilon_of

_DELTAS = tuple(10.0**power for power in range(-14, -3))
_SPENT = tuple(np.geomspace(1e-5, 0.3, 40).tolist())


class Bound(Protocol):
    """A certificate or a guarantee: how far the answers it covers are from the table's, at any confidence."""

    def bound_at(self, confidence: float) -> float: ...


def generalisation(
    budget: Budget, sample_error: Callable[[float], float], *, failure: float, neighbours: str = "replace-one"
) -> float:
    """A bound on abs(answer - population value) that all answers meet together but with probability `failure`.

    Records drawn independently from the population, queries with values in [0, 1], chosen adaptively. If answers are
    within `sample_error(b)` of the table but with probability b, and the session is (e, d)-DP, then for all c, g > 0
    they are within sample_error + (exp(e) - 1) + c + 2 g of the population but with probability b/c + d/g (Jung,
    Ligett, Neel, Roth, Sharifi-Malvajerdi, Shenfeld 2020, transfer theorem; sharper than Bassily et al. 2016).
    The theorem replaces a record by another: under add-remove that is two steps, rho four times as large.
    One where nothing is known: fractions differ by at most 1.
    """
    best = 1.0
    for epsilon, delta in _guarantees(budget, 1 if neighbours == "replace-one" else 2):
        half = failure / 2 if delta else failure
        strayed = math.expm1(min(epsilon, 1.0)) + (4 * delta / failure)  # beyond one, nothing is known anyway
        for c in _SPENT:
            best = min(best, sample_error(half * c) + strayed + c)
    return best


def expected_bias(budget: Budget) -> float:
    """A bound on abs(E[table value - population value]) of any one query chosen from the session's answers.

    rho-zCDP bounds the mutual information of n independent records with the transcript by n rho (Bun and Steinke
    2016; by comparison with the table without the record under add-remove too), and so the bias of a query with values
    in [0, 1] by sqrt(rho / 2) (Russo and Zou 2016; Xu and Raginsky 2017).
    """
    rho = (
        float(budget.epsilon) ** 2 / 2 if budget.rho is None and budget.epsilon is not None else float(budget.rho or 0)
    )
    return min(1.0, math.sqrt(rho / 2))


def population_facts(
    budget: Budget,
    certificates: Sequence[Bound],
    *,
    guarantees: Sequence[Bound] = (),
    confidence: float,
    neighbours: str,
) -> dict[str, Any]:
    """What reports say about the population: true for every bound in force.

    All certificates hold together at any one confidence; guarantees fail apart from them, so each takes its own part.
    """
    facts: dict[str, Any] = {"expected_bias": expected_bias(budget), "confidence": confidence}
    bounds = [*certificates, *guarantees]
    if bounds:
        parts = bool(certificates) + len(guarantees)

        def widest(b: float) -> float:
            return max(bound.bound_at(1 - b / parts) for bound in bounds)

        bound = generalisation(budget, widest, failure=1 - confidence, neighbours=neighbours)
        facts["population_error"] = bound if bound < 1 else None
    return facts


def _guarantees(budget: Budget, steps: int) -> list[tuple[float, float]]:
    """(epsilon, delta) for tables so many neighbours apart: epsilon grows with the steps, rho with their square."""
    if budget.rho is None:
        return [(steps * float(budget.epsilon or 0), 0.0)]
    return [(epsilon_of(budget.rho * steps**2, delta), delta) for delta in _DELTAS]
