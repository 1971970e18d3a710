"""The public facts from which plans for convex losses are computed, and the plan of the offline algorithm (001, 1.2).

Proven in docs/proofs/offline-convex.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.accounting import NANO
from reticent.kernel.minimizers.excess_risk import FLOATS, GAP
from reticent.kernel.minimizers.families import MINIMIZERS, Minimizer
from reticent.kernel.minimizers.solvers import records_moved
from reticent.knowledge.minimizers import crossing, least_rho
from reticent.knowledge.tails import noise_failure, z_score
from reticent.losses.base import ConvexLoss
from reticent.losses.losses import checked_loss
from reticent.queries.base import domain_order

HIDDEN = 1 / 50
"""The share of the error that the tests' approximate minima may hide; their work then hardly grows with the records."""
SOLVED = 1e-5
"""How far a public minimum may lie above the hypothesis' own, as a share of the losses' range."""
LARGEST_RECORDS_ERROR = 0.1
"""Beyond this, the uncertain number of records would account for half of a test's reading."""
AUDITED = 1 / 100
"""The largest deviation of the closing audit's noise, as a share of the error."""
ROUND_ROUNDING = 3 / NANO
"""A round has three prices, each charged in whole nano-units."""
SMALLEST = 1e-12
"""The smallest error for which a plan is sought, as a share of the losses' range."""
MARGINS, MINIMA = np.linspace(0.1, 0.8, 36)[:, None], np.linspace(0.02, 0.6, 30)[None, :]
"""Shares of the error that are tried for the margin and the private minimiser."""


@dataclass(frozen=True, eq=False)
class Task:
    """The public facts of a plan: example losses, their number, the table, and the private minimisers."""

    losses: tuple[ConvexLoss, ...]
    domain: Domain
    neighbours: str
    records: float
    count: int
    failure: float
    log_size: float
    records_error: float = 0.0
    kinds: tuple[type[Minimizer], ...] = MINIMIZERS
    rounding: float = 0.0
    """The amount that rounding of prices may add to an epoch; the rates of the paper ignore it."""
    prices: dict[tuple[float, float], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.losses:
            raise QueryError("a plan for losses needs at least one loss like those to come")
        for loss in self.losses:
            checked_loss(loss).on(self.domain)
        if self.count < 1 or not 0 < self.failure < 1 or not self.noise_failure > 0:
            raise QueryError("plan for at least one loss and a failure probability between 0 and 1")
        if not 0 <= self.records_error < LARGEST_RECORDS_ERROR:
            raise QueryError(
                f"the number of records is known to within {self.records_error:.2g} of it, which leaves an update"
                f" nothing to go by; count them to within {LARGEST_RECORDS_ERROR:g}"
            )

    @property
    def noise_failure(self) -> float:
        """The failure probability left for noise after the number of records has taken its share."""
        return noise_failure(1 - self.failure, self.records_error)

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes of the losses: the universe of the updates (spec 8.5)."""
        return domain_order(self.domain, {name for loss in self.losses for name in loss.on(self.domain).attributes})

    @property
    def scale(self) -> float:
        """The largest range of the losses."""
        return max(loss.on(self.domain).scale for loss in self.losses)

    @property
    def steep(self) -> float:
        """The paper's S: a bound on <theta - theta', gradient of one record's loss>, without the ridge."""
        problems = [loss.on(self.domain) for loss in self.losses]
        return max(2 * problem.lipschitz * problem.radius for problem in problems)

    def minimized(self, error: float, failure: float) -> float:
        """The price of a private minimiser of the most expensive loss within `error`."""
        # Kept for errors and failures that differ by less than prices do.
        name = (float(f"{error:.3g}"), float(f"{failure:.2g}"))
        if name not in self.prices:
            self.prices[name] = self._least(self._dearest, error, failure)
        return self.prices[name]

    @cached_property
    def _dearest(self) -> ConvexLoss:
        """The loss that is most expensive to minimise within a hundredth of the range; plans assume it."""
        if len(self.losses) == 1:
            return self.losses[0]
        error = min(loss.on(self.domain).scale for loss in self.losses) / 100
        return max(self.losses, key=lambda loss: self._least(loss, error, self.noise_failure))

    def _least(self, loss: ConvexLoss, error: float, failure: float) -> float:
        return least_rho(
            self.kinds, loss, self.domain, neighbours=self.neighbours, records=self.records, error=error,
            failure=failure, spread=self.records_error,
        )  # fmt: skip

    def with_records(self, records: float) -> Task:
        return replace(self, records=records, prices={})

    def with_kinds(self, kinds: Sequence[type[Minimizer]]) -> Task:
        return replace(self, kinds=tuple(kinds), prices={})

    @property
    def rounded(self) -> float:
        """The excess that the solver's gap and the rounding of a private minimum may hide."""
        return float(GAP + FLOATS) * self.scale / self.records

    def moves(self, error: float) -> float:
        """By how many records' worth one record changes an excess risk, including what such a plan hides."""
        return records_moved(self.neighbours) + HIDDEN * error / self.scale + float(GAP + FLOATS)


@dataclass(frozen=True)
class OfflinePlan:
    """At most `rounds` rounds, each of which selects the worst loss, measures its excess and minimises it.

    When the measured excess falls below `stop`, every loss has an error of at most `error`, including the closing
    audit's noise. This fails with probability at most `failure`.
    """

    error: float
    failure: float
    rounds: int
    stop: float
    margin: float
    measured: float
    """A bound on the excess risk of every private minimiser."""
    selected: float
    """How far the excess of the selected loss may lie below the largest one."""
    strayed: float
    """How far a measured excess may lie from the true one."""
    price: float
    audit: float
    """The price of the closing audit, as rho."""

    @property
    def guarantee(self) -> str:
        return (
            f"every declared loss within an excess risk of {self.error:.3g} with probability {1 - self.failure:.4g};"
            f" up to {self.rounds} rounds"
        )


def offline_plan(task: Task, error: float) -> OfflinePlan | None:
    """The cheapest division of this error; None if the error is too small for any plan."""
    scale = task.scale
    # Hidden twice: from the selection that ends the run, and from the closing audit.
    usable = error * (1 - 2 * HIDDEN - 2 * AUDITED) - 2 * task.rounded
    if usable <= 0 or task.records_error > 0:
        return None
    found, at = None, usable / 4
    for _ in range(2):
        margins, minima = MARGINS * usable, MINIMA * usable
        surely = margins - SOLVED * scale
        rest = usable - margins - minima
        with np.errstate(divide="ignore", invalid="ignore"):
            rounds = np.maximum(1.0, np.floor(task.log_size * (2 * scale) ** 2 / (2 * surely**2)))
            looked = np.where(rest > 0, sum(_roots(task, error, rounds)) ** 3 / rest**2, np.inf)
        usual = task.noise_failure / (3 * float(np.median(rounds)))
        here, there = (task.minimized(at * share, usual) for share in (1.0, 0.5))
        if not math.isfinite(here):
            return None
        power = math.log2(there / here) if math.isfinite(there) and here > 0 else 2.0
        total = rounds * (looked + here * (minima / at) ** -power + task.rounding)
        total = np.where((surely > 0) & (rest > 0), total, np.inf)
        i, j = np.unravel_index(int(np.argmin(total)), total.shape)
        if not np.isfinite(total[i, j]):
            return None
        margin, at, count = float(margins[i, 0]), float(minima[0, j]), float(rounds[i, 0])
        minimized = task.minimized(at, task.noise_failure / (3 * count))
        first, second = (float(root) for root in _roots(task, error, count))
        room = float(rest[i, j])
        selected, strayed = room * first / (first + second), room * second / (first + second) / 2
        each = float(looked[i, j]) + minimized + task.rounding
        unit = task.moves(error) * scale / task.records
        audit = (z_score(task.noise_failure / 2) * unit / (AUDITED * error)) ** 2 / 2
        found = OfflinePlan(
            error=error,
            failure=task.failure,
            rounds=int(count),
            stop=margin + at + strayed,
            margin=margin,
            measured=at,
            selected=selected,
            strayed=strayed,
            price=count * each + audit,
            audit=audit,
        )
    return found


def _roots(task: Task, error: float, rounds: Any) -> tuple[Any, Any]:
    """Cube roots of the costs of selection and measurement at a room of one each; they give the best shares of a common
    room.

    Selection within r of the worst costs (unit L / r)^2 / 2, measurement within r/2 costs 2 (z unit / r)^2.
    """
    unit, third = task.moves(error) * task.scale / task.records, task.noise_failure / 3
    tail = np.log(task.count * rounds / third)
    z = np.vectorize(lambda count: z_score(third / (2 * count)))(rounds)
    return np.cbrt((unit * tail) ** 2 / 2), np.cbrt(2 * (z * unit) ** 2)


def least_offline_error(task: Task, amount: float) -> float:
    """The smallest error whose rounds `amount` of rho pays for; infinite if it does not even pay for the
    losses' range.
    """

    def price(error: float) -> float:
        plan = offline_plan(task, error)
        return math.inf if plan is None else plan.price

    return crossing(price, amount, SMALLEST * task.scale, task.scale)
