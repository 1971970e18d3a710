"""The risk of a loss on a public hypothesis, for every representation of its marginals.

The result of a private minimiser gives a public function of the record whose mean differs on data and hypothesis.
Moving the hypothesis along it brings it closer to the data (spec 8.3; 001, Fig. 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reticent.domain import Domain
from reticent.errors import CapacityError, QueryError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.choose import DENSE_CELLS
from reticent.hypotheses.support import SupportHypothesis
from reticent.losses.public import Problem
from reticent.losses.risk import (
    LARGEST_TENSOR,
    ListedRisk,
    QuadraticRisk,
    Risk,
    TensorRisk,
    certificate_tensor,
    loss_tensor,
)
from reticent.losses.solver import minimum
from reticent.queries.forms import Dense

SMALL_TENSOR = 2**17
"""Beyond this many cells a hypothesis that is itself a list of records is used as one."""
SAMPLED_ROWS = 200_000
"""Public records drawn where a loss spans too many cells for a tensor; their own error is about dimension / rows."""


class RiskSource(Protocol):
    """The methods of a hypothesis that a risk needs."""

    @property
    def domain(self) -> Domain: ...

    def marginal(self, attributes: Sequence[str]) -> np.ndarray: ...


def public_risk(distribution: RiskSource, problem: Problem) -> Risk:
    """The risk by pairs for squared loss, as a tensor if it fits, otherwise on weighted records (spec 8.5)."""
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

    The minimiser of a sample of the hypothesis may have a gap of up to the loss' range.
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
    """The risk of records drawn from the hypothesis: close to its risk, without a bound."""


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


@dataclass(frozen=True, eq=False)
class Direction:
    """A public function u of the record with different means on data and hypothesis, as a query in [0, 1]."""

    form: Dense
    low: float
    high: float

    @classmethod
    def of(cls, problem: Problem, values: np.ndarray) -> Direction | None:
        """The direction; None if u is constant and nothing can be learned."""
        low, high = float(values.min()), float(values.max())
        if not high - low > 1e-12 * problem.scale:
            return None
        return cls(Dense(problem.attributes, np.clip((values - low) / (high - low), 0.0, 1.0)), low, high)

    def mean(self, hypothesis: Hypothesis) -> float:
        return self.low + (self.high - self.low) * hypothesis.expect(self.form)

    def project(self, hypothesis: Hypothesis, target: float) -> None:
        hypothesis.project(self.form, (target - self.low) / (self.high - self.low))

    def tilt(self, hypothesis: Hypothesis, eta: float) -> None:
        hypothesis.reweight(self.form, -eta * (self.high - self.low))


@dataclass(frozen=True, eq=False)
class ListedDirection:
    """The same by its values on the records of a support, for losses over too many cells for a tensor."""

    values: np.ndarray

    @property
    def low(self) -> float:
        return float(self.values.min())

    @property
    def high(self) -> float:
        return float(self.values.max())

    def mean(self, hypothesis: Hypothesis) -> float:
        return float(self._support(hypothesis).weights @ self.values)

    def project(self, hypothesis: Hypothesis, target: float) -> None:
        self._support(hypothesis).project_values(self.values, target)

    def tilt(self, hypothesis: Hypothesis, eta: float) -> None:
        self._support(hypothesis).reweight_values(self.values, -eta)

    @staticmethod
    def _support(hypothesis: Hypothesis) -> SupportHypothesis:
        assert isinstance(hypothesis, SupportHypothesis), "values on records belong to a support"
        return hypothesis


def loss_difference(
    hypothesis: Hypothesis, problem: Problem, there: np.ndarray, here: np.ndarray
) -> Direction | ListedDirection | None:
    """u = loss(there) - loss(here), which needs neither gradients nor convexity (spec 8.3); None if it is constant."""
    if (records := _too_many(hypothesis, problem)) is not None:
        risk = of_support(records, problem)
        return _varying(ListedDirection(risk.losses(there) - risk.losses(here)), problem)
    return Direction.of(problem, loss_tensor(problem, there) - loss_tensor(problem, here))


def dual_certificate(
    hypothesis: Hypothesis, problem: Problem, there: np.ndarray, here: np.ndarray
) -> Direction | ListedDirection | None:
    """u = <there - here, gradient at here>, the paper's choice; None if it is constant."""
    if (records := _too_many(hypothesis, problem)) is not None:
        return _varying(ListedDirection(of_support(records, problem).certificates(there, here)), problem)
    return Direction.of(problem, certificate_tensor(problem, there, here))


def _too_many(hypothesis: Hypothesis, problem: Problem) -> SupportHypothesis | None:
    """The support, for losses whose tensor would be too large; None if a tensor fits."""
    cells = hypothesis.domain.cells(problem.attributes)
    if cells <= DENSE_CELLS:
        return None
    if not isinstance(hypothesis, SupportHypothesis):
        raise CapacityError(f"the loss spans {cells} cells, a tensor at most {DENSE_CELLS}: use a sampled support")
    return hypothesis


def _varying(direction: ListedDirection, problem: Problem) -> ListedDirection | None:
    return direction if direction.high - direction.low > 1e-12 * problem.scale else None


def project(hypothesis: Hypothesis, direction: Direction | ListedDirection | None, margin: float) -> float:
    """Move the hypothesis to mean u = -margin, where the data lie at or below (spec 4.3, 8.3); 0 if already there.

    Returns a lower bound on the decrease of the relative entropy of the data to the hypothesis.
    """
    if direction is None:
        return 0.0
    lead = direction.mean(hypothesis) + margin
    if lead <= 0:
        return 0.0
    direction.project(hypothesis, -margin)
    return 2 * (lead / (direction.high - direction.low)) ** 2


def step(hypothesis: Hypothesis, direction: Direction | ListedDirection | None, eta: float, margin: float) -> float:
    """p' ~ p exp(-eta u): weight moves away from large u (spec 9 on the printed sign). Returns the same as `project`.

    Hoeffding's lemma: the entropy falls by at least eta (u(p) - u(D)) - eta^2 range^2 / 8.
    """
    if direction is None:
        return 0.0
    lead = direction.mean(hypothesis) + margin
    direction.tilt(hypothesis, eta)
    return eta * lead - (eta * (direction.high - direction.low)) ** 2 / 8
