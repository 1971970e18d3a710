"""Excess risk on the population from the excess risk on the table (docs/proofs/population.md, 15, 16).

Simple random samples only. For a loss that was chosen beforehand the bound holds for all parameters; for a loss chosen
after seeing answers it is that of the transfer theorem, which is not vacuous at small epsilon only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import NamedTuple

from reticent.errors import QueryError
from reticent.kernel.accounting import Budget
from reticent.knowledge.population import BEFOREHAND, SAMPLED, generalisation
from reticent.knowledge.tails import check_confidence
from reticent.losses.public import Problem


class LossSample(NamedTuple):
    """What a model was fitted to: enough to say what its bound means for the population."""

    records: float
    """No more than the table has."""
    unit: str = "record"
    neighbours: str = "replace-one"
    budget: Callable[[], Budget] | None = None
    """Of all that was published about the table; looked up where it is needed."""


@dataclass(frozen=True)
class PopulationExcess:
    """How far the risk of a model on the population may lie above the least one, in the unit of the loss.

    `error` holds with probability `confidence`, over the drawing of the records and all noise, for a loss that was
    chosen before any answer was seen; `adaptive_error` for one that was chosen from answers. None where parameters of
    zero do as well on any population, or nothing is known.
    """

    error: float | None
    adaptive_error: float | None
    confidence: float
    note: str


def population_excess(
    problem: Problem, error: float, stated: float, sample: LossSample, confidence: float
) -> PopulationExcess:
    """What an excess risk of `error` on the table, at confidence `stated`, says about the population."""
    confidence = check_confidence(confidence)
    if confidence >= stated:
        raise QueryError(
            f"the model's bound on the table holds at {stated:g}: state a lower confidence than that, or ask for the"
            " model at a higher one"
        )
    found = inf
    if sample.unit == "record":
        found = error + uniform_deviation(problem, sample.records, stated - confidence)
    beforehand = found if found < problem.zero_excess else None
    adaptive = _adaptive_excess(problem, error, stated, sample, confidence)
    note = f"{SAMPLED}; {BEFOREHAND.replace('question', 'loss')}"
    if beforehand is None:
        unsaid = "parameters of zero do as well" if sample.unit == "record" else "nothing is certified for persons"
        note = f"{note}; {unsaid}"
    if adaptive is not None:
        note = f"{note}; within {adaptive:.3g} whatever was asked before"
    return PopulationExcess(beforehand, adaptive, confidence, note)


def _adaptive_excess(
    problem: Problem, error: float, stated: float, sample: LossSample, confidence: float
) -> float | None:
    """The transfer theorem for the loss of a record less that at the population's own minimiser: twice the range."""
    if sample.budget is None:
        return None
    whole, missed = 2 * problem.scale, 1 - stated
    bound = whole * generalisation(
        sample.budget(),
        lambda failure: error / whole if failure >= missed else inf,
        failure=1 - confidence,
        neighbours=sample.neighbours,
    )
    return bound if bound < problem.zero_excess else None


def uniform_deviation(problem: Problem, records: float, failure: float) -> float:
    """How far, for any parameters of the ball, their excess over the best ones may differ on table and population.

    Symmetrisation and contraction bound its mean by the size of a ball of linear functions, without the dimension;
    one record moves it by twice the loss' range over n (McDiarmid).
    """
    # For several outputs, a vector contraction (Maurer 2016) over all of them.
    contraction = 1.0 if problem.outputs == 1 else sqrt(2 * problem.outputs)
    mean = 2 * contraction * problem.lipschitz * problem.radius / sqrt(records)
    return mean + 2 * problem.scale * sqrt(log(1 / failure) / (2 * records))
