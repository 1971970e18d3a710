"""A DualQuery plan is its rounds, draws and step, fixed before the data is touched, and what they cost (spec 7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from reticent.errors import BudgetError, QueryError
from reticent.kernel.accounting import NANO, Budget, Price
from reticent.kernel.mechanisms.base import Exponential

# Tuned on public Adult and KDD tables (docs/dualquery.md), never on the table at hand; privacy does not depend on them.
STEP = Fraction(5, 2)
REPLIES = 16
FEWEST_DRAWS = 2
DRAWS_SCALE = 30_000
FEWEST_ROUNDS = 16
FEWEST_MEMORY = 4
REMEMBERED = Fraction(5, 3)
"""Conjunctions of recent rounds that the data player sees, per attribute of a record."""

MOST_DRAWS, DRAWS_PER_ATTRIBUTE = 400, Fraction(5, 2)
"""More draws per round than the larger of the two do not improve accuracy (kdd99 in one-hot form) and take long to
answer.
"""

STEP_GRID = 10**6
MOST_ROUNDS = 20_000


@dataclass(frozen=True)
class DualQueryPlan:
    """`rounds` (T), `draws` per round (s) and `step` (eta); `replies` and `memory` are the data player's, and free.

    Each round the data player sees the draws of the last `memory` rounds and answers with `replies` records.
    """

    records: int
    rounds: int
    draws: int
    step: Fraction
    replies: int = REPLIES
    memory: int = FEWEST_MEMORY

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
        return Price.bounded(Fraction(pure), Fraction(rho))

    def cost(self, budget: Budget) -> int:
        """Ledger units of all rounds, each rounded up as the ledger will."""
        return sum(budget.cost(self.mechanism(turn).price() * self.draws) for turn in range(2, self.rounds + 1))

    def fits(self, budget: Budget, units: int) -> bool:
        """Whether `units` pay for every round; rounding adds at most one unit a round to the closed form."""
        whole = budget.cost(self.price)
        if whole > units or whole + self.rounds <= units:
            return whole <= units
        return self.cost(budget) <= units


def tuned(
    records: int,
    budget: Budget,
    *,
    attributes: int = 1,
    units: int | None = None,
    rounds: int | None = None,
    draws: int | None = None,
    step: Fraction | None = None,
    replies: int = REPLIES,
    memory: int | None = None,
) -> DualQueryPlan:
    """The plan for `units` of a budget (default: all); given parameters are kept, the others are chosen from public
    facts.
    """
    allowed = budget.limit if units is None else units
    if allowed < 1:
        raise BudgetError("nothing is left to play with; raise the budget", requested=1 / NANO, remaining=0.0)
    chosen = _draws(records, attributes, budget, allowed) if draws is None else draws
    remembered = max(FEWEST_MEMORY, math.ceil(REMEMBERED * attributes / chosen)) if memory is None else memory
    plan = DualQueryPlan(records, 2, chosen, step or STEP, replies, remembered)
    if rounds is None:
        rounds = _largest(lambda t: replace(plan, rounds=t).fits(budget, allowed), MOST_ROUNDS)
    plan = replace(plan, rounds=max(rounds, 2))
    if step is None:
        # Rounds are whole, so the step takes up the slack; with rounds given it is all that is left to choose.
        steps = _largest(lambda k: replace(plan, step=Fraction(k, STEP_GRID)).fits(budget, allowed), 10**9)
        plan = replace(plan, step=Fraction(max(steps, 1), STEP_GRID))
    if not plan.fits(budget, allowed):
        cost = budget.amount(plan.cost(budget))
        raise BudgetError(
            f"{plan.rounds} rounds of {plan.draws} draws with step {float(plan.step):g} cost {budget.unit} {cost:.3g}, "
            f"there is {budget.amount(allowed):.3g}; lower one of them or raise the budget",
            requested=cost,
            remaining=budget.amount(allowed),
        )
    return plan


def textbook(records: int, queries: int, log_universe: float, *, error: float, failure: float = 0.05) -> DualQueryPlan:
    """The parameters of spec 7.3, for `queries` counted after closing under complement; one reply, no memory.

    With probability `1 - failure` every query has an error of at most `error`; the price is not limited.
    """
    if not (0 < error < 1 and 0 < failure < 1):
        raise QueryError(f"error={error} and failure={failure} must lie between 0 and 1")
    rounds = math.ceil(16 * math.log(queries) / error**2)
    draws = math.ceil(48 * (log_universe + math.log(2 * rounds / failure)) / error**2)
    return DualQueryPlan(records, rounds, draws, Fraction(repr(error)) / 4, replies=1, memory=1)


def _draws(records: int, attributes: int, budget: Budget, units: int) -> int:
    """More draws per round if the budget is large or a record has many attributes, as long as enough rounds remain."""
    amount = float(budget.amount_of_other_noise(units))
    if budget.pure:
        # The zCDP size of the run that a pure budget buys at the fewest draws.
        rounds = math.sqrt(records * amount / (FEWEST_DRAWS * float(STEP)))
        size = FEWEST_DRAWS * float(STEP) ** 2 * rounds**3
    else:
        size = 6 * records**2 * amount
    wanted = round(attributes * math.sqrt(size) / DRAWS_SCALE)
    wanted = min(wanted, max(MOST_DRAWS, round(DRAWS_PER_ATTRIBUTE * attributes)))
    short = DualQueryPlan(records, FEWEST_ROUNDS, 1, STEP)
    most = _largest(lambda draws: replace(short, draws=draws).fits(budget, units), 10**6)
    return max(FEWEST_DRAWS, min(wanted, most))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest whole number up to `most` that fits, 0 if 1 does not; `fits` must be monotone."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
