"""`Minimizer`: the base of private minimisers, each of which draws and prices its own noise (spec 8.4).

Each is a frozen public declaration. `records` is the public number by which the sums are divided: it scales the answer.
Privacy does not depend on it being the true number: sensitivities hold for any number, and the allowance for float
errors is that of the largest table that can be loaded. `bound(failure)` bounds the excess risk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isfinite, sqrt
from typing import Any, ClassVar

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import Price, Real, exact
from reticent.kernel.minimizers.solvers import float_slack, longest_sum, records_moved, refuse_long, refuse_wide
from reticent.kernel.table import CountSource
from reticent.losses.losses import ConvexLoss, checked_loss
from reticent.losses.public import Problem


@dataclass(frozen=True, eq=False)
class Minimizer(ABC):
    """Base of all minimisers: a loss of the closed list, verified on the domain, and a zCDP price."""

    loss: ConvexLoss
    domain: Domain
    neighbours: str
    records: Fraction
    rho: Fraction

    proof: ClassVar[str]

    def __init__(self, loss: ConvexLoss, domain: Domain, *, neighbours: str, records: Real, rho: Real) -> None:
        if neighbours not in ("replace-one", "add-remove"):
            raise QueryError(f"neighbours={neighbours!r} is unknown: use 'replace-one' or 'add-remove'")
        fields = {
            "loss": checked_loss(loss),
            "domain": domain,
            "neighbours": neighbours,
            "records": exact(records, "records"),
            "rho": exact(rho, "rho"),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check(self.problem)

    @cached_property
    def problem(self) -> Problem:
        return self.loss.on(self.domain)

    @cached_property
    def smooth(self) -> Problem:
        """The minimised loss: its kinks, if any, are smoothed by at most `rounding`."""
        return self.problem.rounded(self.rounding)

    @property
    @abstractmethod
    def rounding(self) -> float:
        """The height by which kinks are smoothed, from public facts; 0 if there are none."""

    @property
    def kinked(self) -> bool:
        return not isfinite(self.problem.smoothness)

    @property
    def gradient_spread(self) -> float:
        """The noise per coordinate of the mean gradient if one Gaussian release of it took the whole price, without
        rounding.
        """
        return records_moved(self.neighbours) * self.problem.lipschitz / float(self.records) / sqrt(2 * float(self.rho))

    @abstractmethod
    def _check(self, problem: Problem) -> None:
        """Refuse a loss of the wrong family, on public facts."""

    @abstractmethod
    def price(self) -> Price: ...

    @property
    @abstractmethod
    def work(self) -> int:
        """The number of cells visited in all steps: the same on every table (docs/threat-model.md)."""

    def refuse_infeasible(self) -> None:
        """Refuse a loss that would take too many steps or cells, by public facts; a plan may still price it."""
        refuse_wide(self.problem)
        refuse_long(self.work)

    @abstractmethod
    def fetch(self, source: CountSource, person_grid: int) -> Any:
        """Read everything that the release needs from the rows; called before the ledger reserves."""

    @abstractmethod
    def release(self, exact: Any) -> np.ndarray: ...

    def bound(self, failure: float, spread: float = 0.0) -> float:
        """An upper bound that the excess risk exceeds with probability at most `failure`.

        The true number n of records may differ from `records` by the share `spread` of it. The true risk then differs
        from the minimised one by (1 - n / records) times the rows' own risk, whose differences are at most `scale`.
        """
        scale = self.problem.scale
        return min(scale, self._excess(failure, 1 + spread) + (1 + spread) * self.rounding + spread * scale)

    @abstractmethod
    def _excess(self, failure: float, weight: float) -> float:
        """The excess of the smoothed loss, if rows have a weight of at most `weight` times `records`."""

    def describe(self) -> dict[str, Any]:
        return {
            "minimizer": type(self).__name__,
            "loss": self.loss.to_dict(),
            "records": str(self.records),
            "rho": str(self.rho),
        }

    def slack(self) -> Fraction:
        return float_slack(longest_sum(self.problem), float(self.records))
