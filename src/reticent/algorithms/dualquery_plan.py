"""A DualQuery plan is its rounds, draws and step, fixed before the data is touched, and what they cost (spec 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from reticent.errors import BudgetError, QueryError
from reticent.kernel.accounting import Budget, Price
from reticent.kernel.mechanisms import Exponential

# Chosen on adult_reduced7 and confirmed on tables not used for that choice (docs/dualquery.md).
DRAWS = 2
STEP = Fraction(3)
MEMORY = 4
REPLIES = 16
STEP_GRID = 10**6
MOST_ROUNDS = 20_000


@dataclass(frozen=True)
class DualQueryPlan:
    """`rounds` (T), `draws` per round (s) and `step` (eta); `replies` and `memory` are the data player's and cost nothing.

    Each round the data player sees the draws of the last `memory` rounds and answers with `replies` records.
    """

    records: int
    rounds: int
    draws: int
    step: Fraction
    replies: int = REPLIES
    memory: int = MEMORY

    def __post_init__(self) -> None:
        for name in ("records", "rounds", "draws", "replies", "memory"):
            if getattr(self, name) < 1:
                raise QueryError(f"{name}={getattr(self, name)} must be at least 1")
        if self.step <= 0:
            raise QueryError(f"step={self.step} must be above 0")

    def epsilon(self, turn: int) -> Fraction:
        """`e_t` of one draw in round `turn`, counted from 1: its weights saw the data `turn - 1` times (spec 7.2)."""
        return 2 * self.step * (turn - 1) / self.records

    def mechanism(self, turn: int) -> Exponential:
        """The exponential mechanism of round `turn`, from 2 on; round 1 is uniform and free."""
        return Exponential(self.epsilon(turn))

    @property
    def price(self) -> Price:
        """All rounds together: pure `eta s T (T-1) / n`, zCDP `s eta^2 T (T-1) (2T-1) / (12 n^2)` (spec 7.2)."""
        t, n = self.rounds, self.records
        pure = self.step * self.draws * t * (t - 1) / n
        rho = self.draws * self.step**2 * t * (t - 1) * (2 * t - 1) / (12 * n * n)
        return Price(Fraction(pure), Fraction(rho))

    def cost(self, budget: Budget) -> int:
        """Ledger units of all rounds, each rounded up as the ledger will."""
        return sum(budget.cost(self.mechanism(turn).price() * self.draws) for turn in range(2, self.rounds + 1))

    def at_most(self, budget: Budget, units: int) -> bool:
        """Whether `units` pay for every round; the closed form decides where it can, rounding adds one unit a round."""
        whole = budget.cost(self.price)
        if whole > units or whole + self.rounds <= units:
            return whole <= units
        return self.cost(budget) <= units


def tuned(
    records: int,
    budget: Budget,
    *,
    units: int | None = None,
    rounds: int | None = None,
    draws: int | None = None,
    step: Fraction | None = None,
    replies: int = REPLIES,
    memory: int = MEMORY,
) -> DualQueryPlan:
    """The plan for `units` of a budget (default: all); whatever is given is kept, the rest is chosen. Public facts only."""
    allowed = budget.limit if units is None else units
    plan = DualQueryPlan(records, 1, draws or DRAWS, step or STEP, replies, memory)
    if rounds is None:
        rounds = _largest(lambda t: replace(plan, rounds=t).at_most(budget, allowed), MOST_ROUNDS)
        if rounds < 2:
            raise BudgetError(
                f"the budget allows no round that sees the data: two rounds of {plan.draws} draws with step "
                f"{float(plan.step):g} cost {budget.amount(replace(plan, rounds=2).cost(budget)):.3g}, there is "
                f"{budget.amount(allowed):.3g}; take a smaller step or fewer draws",
                requested=budget.amount(replace(plan, rounds=2).cost(budget)),
                remaining=budget.amount(allowed),
            )
    plan = replace(plan, rounds=rounds)
    if step is not None:
        if not plan.at_most(budget, allowed):
            raise BudgetError(
                f"{rounds} rounds of {plan.draws} draws with step {float(step):g} cost "
                f"{budget.amount(plan.cost(budget)):.3g}, there is {budget.amount(allowed):.3g}; lower one of them",
                requested=budget.amount(plan.cost(budget)),
                remaining=budget.amount(allowed),
            )
        return plan
    # Rounds are whole, so the step takes up the slack; with rounds given it is the only thing left to choose.
    most = 1000 * STEP_GRID
    units_of_step = _largest(
        lambda k: replace(plan, step=Fraction(k, STEP_GRID)).at_most(budget, allowed), most
    )
    if units_of_step < 1:
        raise BudgetError(
            f"{rounds} rounds of {plan.draws} draws do not fit the budget at any step; lower one of them",
            requested=budget.amount(replace(plan, step=Fraction(1, STEP_GRID)).cost(budget)),
            remaining=budget.amount(allowed),
        )
    return replace(plan, step=Fraction(units_of_step, STEP_GRID))


def textbook(
    records: int, queries: int, log_universe: float, *, error: float, failure: float = 0.05
) -> DualQueryPlan:
    """The parameters of spec 7.3, for `queries` counted after closing under complement; one reply, no memory.

    The error holds with probability `1 - failure`; what it costs is whatever it costs.
    """
    if not (0 < error < 1 and 0 < failure < 1):
        raise QueryError(f"error={error} and failure={failure} must lie between 0 and 1")
    rounds = math.ceil(16 * math.log(queries) / error**2)
    draws = math.ceil(48 * (log_universe + math.log(2 * rounds / failure)) / error**2)
    return DualQueryPlan(records, rounds, draws, Fraction(repr(error)) / 4, replies=1, memory=1)


def _largest(fits, most: int) -> int:
    """The largest whole number up to `most` that fits, 0 if 1 does not; `fits` must be monotone."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
