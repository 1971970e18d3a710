"""A hypothesis is a public distribution over the universe; it sees released numbers, never rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np

from reticent.errors import QueryError
from reticent.queries.forms import Dense, Product

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.queries.linear import Linear, Marginal
    from reticent.queries.residual import Residual

__all__ = ["FitReport", "Hypothesis", "Measurement", "average", "form_of"]


@dataclass(frozen=True, eq=False)
class Measurement:
    """A released noisy answer, in fractions: one number for a query, one array for a marginal or a residual.

    `rt.fit` takes a list of them.

    Args:
        query: What was measured: a linear query, or a marginal.
        values: Noisy shares of the table.
        sd: Standard deviation of the noise of each share.
        noise: How the mechanism describes itself; may be left out.

    Raises:
        QueryError: Values that are no finite numbers, or a deviation that is not positive.

    Example:
        >>> import reticent as rt
        >>> rt.Measurement(rt.marginal("sex"), [0.48, 0.52], sd=0.01).values.shape
        (2,)
    """

    query: Linear | Marginal | Residual
    values: np.ndarray
    sd: float
    noise: Mapping[str, str] | None = None
    """How its mechanism describes itself, in records; None where the values were taken from something larger."""

    def __post_init__(self) -> None:
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError):
            raise QueryError("values must be numbers, in a table with one axis for each attribute") from None
        values.setflags(write=False)
        if not np.isfinite(values).all():
            raise QueryError("a measurement must be finite; divide noisy counts by a positive number of records")
        if not (isinstance(self.sd, Real) and math.isfinite(self.sd) and self.sd > 0):
            raise QueryError(f"a measurement needs its noise: sd={self.sd!r} must be positive and finite")
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class FitReport:
    """What a fit reached: `gap` bounds objective minus optimum, infinite when nothing is certified."""

    objective: float
    gap: float
    iterations: int
    evaluations: int
    converged: bool
    method: str
    message: str = ""
    misfit: float = 0.0
    """The largest distance of a measured cell from the fit, in standard deviations of its noise."""


@runtime_checkable
class Hypothesis(Protocol):
    """What every algorithm asks of a distribution over the universe (spec 4)."""

    @property
    def kind(self) -> str:
        """The name of the representation, in its saved bytes."""
        ...

    @property
    def domain(self) -> Domain: ...

    @property
    def log_size(self) -> float:
        """Natural logarithm of the number of records that may carry weight: ln|U|, or ln M (spec 6.4)."""
        ...

    def expect(self, query: Linear | Product | Dense) -> float:
        """q(p), a fraction."""
        ...

    def marginal(self, attributes: Sequence[str]) -> np.ndarray:
        """The distribution of some attributes, axes in domain order."""
        ...

    def marginals(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Many marginals at once, sharing the work."""
        ...

    def project(self, query: Linear | Product | Dense, target: float) -> float:
        """Move to the nearest distribution (in KL) with q(p) = target; returns eta, 0.0 if q is constant."""
        ...

    def reweight(self, query: Linear | Product | Dense, eta: float) -> None:
        """p(x) becomes proportional to p(x) exp(eta q(x))."""
        ...

    def fit(self, measurements: Sequence[Measurement]) -> FitReport:
        """Refit to noisy measurements of different precision; free post-processing (spec 4.4)."""
        ...

    def sample(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Independent records as codes, one row each, columns in domain order."""
        ...

    def copy(self) -> Self: ...

    def to_bytes(self) -> bytes: ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...


def form_of(query: Linear | Product | Dense, domain: Domain) -> Product | Dense:
    """The compiled form of a query; forms pass through."""
    if not isinstance(query, Product | Dense):
        return query.compile(domain)
    last = -1
    for name in query.attributes:
        place = domain.index(name)
        if place <= last:
            raise QueryError(f"attributes {', '.join(query.attributes)} must come in the domain's order")
        last = place
    return query


def average(form: Product | Dense, marginal: np.ndarray) -> float:
    """Sum of weight times q over the form's own attributes, one vector at a time for products."""
    if not isinstance(form, Product):
        return float(np.vdot(marginal, form.values))
    if not form.vectors:
        return float(marginal)
    left = marginal
    # `dot` on two dimensions at most: half the overhead of a matrix product, and questions come by the thousand.
    for vector in form.vectors[:0:-1]:
        left = left.reshape(-1, vector.size).dot(vector)
    return float(left.dot(form.vectors[0]))
