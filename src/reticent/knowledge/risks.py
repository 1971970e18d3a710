"""The risk of a loss on a public hypothesis, in whatever form the hypothesis holds its marginals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import CapacityError, QueryError
from reticent.hypotheses.support import SupportHypothesis
from reticent.losses.public import Problem
from reticent.losses.risk import LARGEST_TENSOR, ListedRisk, QuadraticRisk, Risk, TensorRisk
from reticent.losses.solver import minimum

SMALL_TENSOR = 2**17
"""Beyond this many cells a hypothesis that is itself a list of records is used as one."""
SAMPLED_ROWS = 200_000
"""Public records drawn where a loss spans too many cells for a tensor; their own error is about dimension / rows."""


class RiskSource(Protocol):
    """What a risk needs of a hypothesis."""

    @property
    def domain(self) -> Domain: ...

    def marginal(self, attributes: Sequence[str]) -> np.ndarray: ...


def public_risk(distribution: RiskSource, problem: Problem) -> Risk:
    """Pairs for squared loss, a tensor while it fits, else weighted records (spec 8.5)."""
    try:
        return _exact_risk(distribution, problem)
    except CapacityError:  # a junction tree without room for these marginals
        return _sampled(distribution, problem)


def _exact_risk(distribution: RiskSource, problem: Problem) -> Risk:
    if problem.loss.quadratic:
        many = getattr(distribution, "marginals", None)
        marginals = many or (lambda sets: [distribution.marginal(names) for names in sets])
        return QuadraticRisk.of_marginals(problem, marginals, 1.0)
    cells = distribution.domain.cells(problem.attributes)
    support = _support(distribution) if cells > SMALL_TENSOR else None
    if support is not None:
        return of_support(support, problem)
    if cells <= LARGEST_TENSOR:
        return TensorRisk(problem, distribution.marginal(problem.attributes))
    return _sampled(distribution, problem)


def public_minimum(distribution: RiskSource, problem: Problem) -> tuple[np.ndarray, float]:
    """The hypothesis' own minimiser and its certified gap: the free answer to a loss.

    What minimises a sample of the hypothesis may be anything up to the loss' range away from its minimum.
    """
    risk = public_risk(distribution, problem)
    theta, gap = minimum(risk)
    return theta, max(gap, problem.scale) if isinstance(risk, SampledRisk) else gap


def _support(distribution: Any) -> SupportHypothesis | None:
    held = distribution.thaw() if hasattr(distribution, "thaw") else distribution
    return held if isinstance(held, SupportHypothesis) else None


def of_support(held: SupportHypothesis, problem: Problem) -> ListedRisk:
    """The risk on the records of a support."""
    axes = [held.domain.index(name) for name in problem.attributes]
    return ListedRisk(problem, held.codes[:, axes], held.weights)


class SampledRisk(ListedRisk):
    """Of records drawn from the hypothesis: near its risk, without a bound."""


def _sampled(distribution: Any, problem: Problem) -> SampledRisk:
    domain = distribution.domain
    if not hasattr(distribution, "sample"):
        raise QueryError(
            f"a loss over {', '.join(problem.attributes)} spans {domain.cells(problem.attributes)} cells; "
            f"at most {LARGEST_TENSOR} here: use fewer or coarser features"
        )
    axes = [domain.index(name) for name in problem.attributes]
    # A fixed public seed: the same snapshot gives the same model.
    rows = distribution.sample(SAMPLED_ROWS, np.random.default_rng(8))[:, axes]
    return SampledRisk(problem, rows, np.full(len(rows), 1.0 / len(rows)))
