"""The privacy cost of one DualQuery plan under every analysis of it, side by side (spec 7.2, 7.4)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np

from reticent.errors import QueryError
from reticent.kernel.accounting import Budget, epsilon_of, gaussian_epsilon_of
from reticent.releases.dualquery.plan import DualQueryPlan

LOSS_CELLS = 1 << 12
LOSS_SPREAD = 10.0
"""Half the width of the loss grid, in standard deviations."""
MANY_POSITIONS = np.linspace(0.0, 1.0, 257)
FEW_POSITIONS = np.concatenate([[0.0, 0.12, 0.24, 0.29], np.linspace(0.34, 0.66, 22), [0.71, 0.76, 0.88, 1.0]])
"""Upper ends of the loss interval, as shares of its length. If they must be few, they are denser in the middle, where
the worst one lies while epsilon is small; near the ends the loss spreads less, so longer steps do no harm.
"""
REPORTED_DELTA = 1e-9
MOST_WORK = 4e9
"""Limit on steps of composing losses; more would take too long for a report."""
LARGEST_LOSS = 700.0
"""The largest epsilon of one draw whose exponential is a floating-point number."""


@dataclass(frozen=True)
class Analyses:
    """Epsilon of the same run at one delta. The charge is `bounded_range` (or `pure`); the others are for
    comparison.
    """

    delta: float
    pure: float
    bounded_range: float
    """zCDP e^2/8 per draw."""
    paper: float
    """zCDP e^2/2 per draw (002), by the tight conversion."""
    original: float | None
    """Advanced composition with the last round's epsilon for every draw (Gaboardi et al. 2014); None beyond floats."""
    loss_distribution: float | None
    """Privacy losses composed numerically and adaptively; None if there are too many draws, or beyond floats."""

    def to_dict(self) -> dict[str, float | None]:
        """For the notes of a release."""
        return asdict(self)

    def lines(self) -> list[str]:
        """One line per analysis, for reports."""
        named = [
            ("bounded range, zCDP e^2/8 (charged)", self.bounded_range),
            ("zCDP e^2/2", self.paper),
            ("advanced composition, 2014", self.original),
            ("privacy loss distribution", self.loss_distribution),
            ("pure (delta 0)", self.pure),
        ]
        return [f"epsilon {value:10.4g}  {name}" for name, value in named if value is not None]


def analyse(plan: DualQueryPlan, delta: float) -> Analyses:
    """All statements about one plan at one delta."""
    price = plan.price
    if price.pure is None or not 0 < delta < 1:
        raise QueryError(f"delta={delta} must lie strictly between 0 and 1")
    rho = price.rho
    return Analyses(
        delta,
        float(price.pure),
        epsilon_of(rho, delta) if rho else 0.0,
        epsilon_of(4 * rho, delta) if rho else 0.0,
        advanced_composition(plan, delta),
        loss_distribution(plan, delta),
    )


def advanced_composition(plan: DualQueryPlan, delta: float) -> float | None:
    """`e (sqrt(2 k ln(1/delta)) + k (exp(e) - 1))`, k = s (T-1) draws, e that of the last round (002, section 3).

    None if the exponential is beyond floats.
    """
    worst, draws = float(plan.epsilon(plan.rounds)), plan.draws * (plan.rounds - 1)
    if worst > LARGEST_LOSS:
        return None
    return worst * (math.sqrt(2 * draws * math.log(1 / delta)) + draws * math.expm1(worst))


def loss_distribution(plan: DualQueryPlan, delta: float) -> float | None:
    """Epsilon at delta from the privacy loss itself, composed over the rounds; None if this takes too long, or if
    likelihood ratios are beyond floats.

    Given the past, the losses of a round's draws lie in one interval of length `e_t` that contains 0. The pair with the
    two ends as losses dominates every pair with losses in the interval. Backwards from the last round, `v(x)` is the
    largest hockey-stick divergence that can still be reached from a loss of x so far, over all positions of the
    interval, chosen again in each round: adaptive composition. `v(-epsilon)` is then delta. As a function of `exp(-x)`
    it is convex, so chords between grid points are upper bounds; positions between two grid positions are covered by a
    longer interval (docs/proofs/dualquery.md).
    """
    cells = LOSS_CELLS * max(1, math.ceil(math.sqrt(plan.rounds / 500)))
    work = plan.rounds * (plan.draws + 1) * cells
    if work * len(FEW_POSITIONS) > MOST_WORK or plan.rounds < 2 or plan.epsilon(plan.rounds) > LARGEST_LOSS:
        return None
    positions = MANY_POSITIONS if work * len(MANY_POSITIONS) <= MOST_WORK / 10 else FEW_POSITIONS
    from reticent.releases.dualquery.loss_kernels import worst_case

    epsilons = np.array([float(plan.epsilon(turn)) for turn in range(2, plan.rounds + 1)])
    deviation = math.sqrt(plan.draws * float(epsilons @ epsilons)) / 2
    charged = epsilon_of(plan.price.rho, delta)
    low, high = -(charged + LOSS_SPREAD * deviation), LOSS_SPREAD * deviation
    losses = np.linspace(low, high, cells)
    step = losses[1] - losses[0]
    reached = -np.expm1(-np.maximum(0.0, losses))
    for epsilon in epsilons[::-1]:
        reached = worst_case(reached, *_choices(epsilon * positions, epsilon, plan.draws, step))
    # The last loss from which delta is not reached; the next one may reach it.
    place = int(np.searchsorted(reached, delta, side="right"))
    found = charged if place == 0 else -float(losses[max(0, place - 1)])
    return min(charged, found)


def _choices(ends: np.ndarray, epsilon: float, draws: int, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intervals that the adversary may choose: how far each outcome of the draws moves the loss, and its
    probability.
    """
    from scipy.stats import binom  # half a second that no other release should wait for

    # Losses in [t - e, t] with t between two neighbouring ends lie in [lower end - e, upper end].
    upper, lower = ends[1:, None], ends[:-1, None] - epsilon
    high, low = np.exp(upper), np.exp(lower)
    chance = high * (1 - low) / (high - low)
    met = np.arange(draws + 1)[None, :]
    moved = (met * upper + (draws - met) * lower) / step
    cells = np.floor(moved)
    parts = -np.expm1(-(moved - cells) * step) / -math.expm1(-step)
    return cells.astype(np.int64), parts, binom.pmf(met, draws, chance)


def game_bound(
    plan: DualQueryPlan, queries: int, log_universe: float, *, rounds: int, shortfall: float, failure: float
) -> float:
    """A bound on the error of every query after `rounds` rounds, with probability 1 - `failure`
    (docs/proofs/dualquery.md).

    `queries` are counted after closing under complement, `log_universe` over the attributes they name. The bound is the
    sum of the query player's regret, `ln K / (eta T) + eta / 2`; the sampling error of the draws, over all records,
    `sqrt(2 (ln|U| + ln(1/b)/T) / s)`; and `shortfall`, the mean over the rounds by which the replies missed the best
    ones.
    """
    step, draws = float(plan.step), plan.draws
    regret = math.log(queries) / (step * rounds) + step / 2
    hidden = math.sqrt(2 * (log_universe + math.log(1 / failure) / rounds) / draws)
    return regret + hidden + shortfall


def sample_error(queries: int, *, sample: int, failure: float) -> float:
    """How far a sample may lie from its table on all queries at once, closed under complement (Hoeffding)."""
    return math.sqrt(math.log(queries / failure) / (2 * sample))


def sample_size(queries: int, *, error: float, failure: float) -> int:
    """Records that represent the table within `error / 2` on all queries, closed under complement (spec 7.4)."""
    return math.ceil(2 * math.log(4 * queries / failure) / error**2)


@dataclass(frozen=True)
class Amplified:
    """One stand-alone run on a secret sample: its epsilon, and that of the same run on the whole table."""

    sample: int
    delta: float
    inner_rho: float
    inner_epsilon: float
    epsilon: float
    whole_epsilon: float


def amplified_run(budget: Budget, units: int, *, sample: int, records: int) -> dict[str, float]:
    """The guarantee of a run that was charged `units` on a secret sample, if nothing else is ever released (spec 7.4).

    It is for the notes of a release; a ledger is charged without amplification, because it holds more than one run.
    """
    share, price = sample / records, budget.price(units)
    delta = 0.0 if budget.pure else float(budget.delta or REPORTED_DELTA)
    if budget.pure:
        inner = float(price.pure or 0)
    else:
        implied = gaussian_epsilon_of if budget.gaussian else epsilon_of
        inner = implied(price.rho, min(delta / share, 0.999)) if price.rho else 0.0
    return {
        "sample": sample,
        "inner_epsilon": inner,
        "inner_delta": min(delta / share, 0.999),
        "epsilon": _amplified_epsilon(inner, share),
        "delta": delta,
    }


def _amplified_epsilon(inner: float, share: float) -> float:
    """ln(1 + share (exp(e) - 1)), without overflow for the large e that small samples pay."""
    return math.log1p(share * math.expm1(inner)) if inner < 500 else inner + math.log(share)


def amplified(plan: DualQueryPlan, sample: int, delta: float) -> Amplified:
    """The plan's rounds, draws and step on `sample` of its records: `ln(1 + (m/n)(exp(e') - 1))` at delta (spec 7.4).

    The inner run is priced with m in place of n, at delta' = delta n/m; a zCDP ledger is charged its rho unamplified.
    """
    if not 1 <= sample <= plan.records:
        raise QueryError(f"a sample of {sample} must have between 1 and {plan.records} records")
    share = sample / plan.records
    inner = replace(plan, records=sample).price.rho
    inner_epsilon = epsilon_of(inner, min(delta / share, 0.999)) if inner else 0.0
    outer = _amplified_epsilon(inner_epsilon, share)
    whole = epsilon_of(plan.price.rho, delta) if plan.price.rho else 0.0
    return Amplified(sample, delta, float(inner), inner_epsilon, outer, whole)
