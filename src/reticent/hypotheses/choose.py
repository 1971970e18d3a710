"""Which representation a domain and a workload call for, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from reticent.errors import DomainError
from reticent.hypotheses.base import Hypothesis
from reticent.hypotheses.dense import MAX_CELLS, DenseHypothesis
from reticent.hypotheses.support import SupportHypothesis

if TYPE_CHECKING:
    from reticent.domain import Domain
    from reticent.queries.workload import Workload

__all__ = ["Choice", "choose"]

# Up to here a fit over every cell takes seconds (engines.md); above it the tensor still serves single updates.
DENSE_CELLS = 1 << 24
# One query or marginal over more cells than this fits no clique.
CLIQUE_CELLS = 1 << 24
SUPPORT_RECORDS = 1 << 17


@dataclass(frozen=True)
class Choice:
    """A representation by name, the reason in one line, and how to build the uniform start."""

    representation: str
    reason: str
    domain: Domain

    def build(self, generator: np.random.Generator | None = None) -> Hypothesis:
        """The uniform distribution; a support needs a (public) generator to draw its records."""
        return _BUILDERS[self.representation](self.domain, generator)


def choose(domain: Domain, workload: Workload | None = None, *, representation: str | None = None) -> Choice:
    """Dense while every cell can be held, factored while each question fits a clique, else a sampled support."""
    if representation is not None:
        if representation not in _BUILDERS:
            known = ", ".join(sorted(_BUILDERS))
            raise DomainError(f"unknown representation {representation!r}; use one of {known}")
        if representation == "dense" and domain.size > MAX_CELLS:
            raise DomainError(f"{domain.size} cells do not fit a dense tensor of {MAX_CELLS}; use factored")
        return Choice(representation, "chosen by the caller", domain)
    universe = f"the universe has 2^{log2(domain.size):.1f} cells"
    if domain.size <= DENSE_CELLS:
        return Choice("dense", f"{universe}, at most 2^{log2(DENSE_CELLS):.0f}: every cell is held", domain)
    largest = _largest_set(domain, workload)
    if largest <= CLIQUE_CELLS:
        reason = f"{universe}, too many to hold; the largest question spans 2^{log2(max(largest, 1)):.1f} of them"
        return Choice("factored", reason, domain)
    reason = f"{universe} and one question spans 2^{log2(largest):.1f} of them, too many for a clique"
    if domain.size <= MAX_CELLS:
        return Choice("dense", f"{reason}; the tensor still fits memory, fits will be slow", domain)
    return Choice("support", f"{reason}: {SUPPORT_RECORDS} sampled records, uncertified unless audited", domain)


def _largest_set(domain: Domain, workload: Workload | None) -> int:
    if workload is None:
        return 1
    queries = (domain.canonical(query.attributes) for query in workload.queries)
    return max((domain.cells(names) for names in (*workload.marginals, *queries)), default=1)


def _factored(domain: Domain, _: np.random.Generator | None) -> Hypothesis:
    from reticent.hypotheses.factored import FactoredHypothesis

    return FactoredHypothesis(domain)


def _support(domain: Domain, generator: np.random.Generator | None) -> Hypothesis:
    if generator is None:
        raise DomainError("a support is drawn at random; give build() a generator")
    return SupportHypothesis.uniform(domain, SUPPORT_RECORDS, generator)


_BUILDERS: dict[str, Callable[[Domain, np.random.Generator | None], Hypothesis]] = {
    "dense": lambda domain, _: DenseHypothesis(domain),
    "factored": _factored,
    "support": _support,
}
