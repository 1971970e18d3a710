"""What one DualQuery plan costs under every analysis of it, side by side (spec 7.2, 7.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from reticent.algorithms.dualquery_plan import DualQueryPlan
from reticent.errors import QueryError
from reticent.kernel.accounting import epsilon_of

LOSS_CELLS = 1 << 16
LOSS_SPREAD = 30.0
"""Half the width of the loss grid, in standard deviations."""

MOST_ROUNDS = 2_000
"""Beyond, composing loss distributions takes too long for a report."""


@dataclass(frozen=True)
class Analyses:
    """Epsilon of the same run at one delta; charged is `bounded_range` (or `pure`), the rest is for comparison."""

    delta: float
    pure: float
    bounded_range: float
    """zCDP e^2/8 per draw."""
    paper: float
    """zCDP e^2/2 per draw (002), by the tight conversion."""
    original: float
    """Advanced composition with the last round's epsilon for every draw (Gaboardi et al. 2014)."""
    loss_distribution: float | None
    """Privacy loss distributions of the worst bounded-range mechanism, composed numerically."""

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
        loss_distribution(plan, delta) if 1 < plan.rounds <= MOST_ROUNDS else None,
    )


def advanced_composition(plan: DualQueryPlan, delta: float) -> float:
    """`e (sqrt(2 k ln(1/delta)) + k (exp(e) - 1))`, k = s (T-1) draws, e that of the last round (002, section 3)."""
    worst, draws = float(plan.epsilon(plan.rounds)), plan.draws * (plan.rounds - 1)
    return worst * (math.sqrt(2 * draws * math.log(1 / delta)) + draws * math.expm1(worst))


def loss_distribution(plan: DualQueryPlan, delta: float) -> float:
    """Epsilon at delta from composed privacy loss distributions.

    A mechanism of range e has privacy profile at most `(exp(e/2) - exp(l/2))^2 / (exp(e) - 1)` at level l in [-e, e],
    the maximum over all two-point pairs of that range; as one pair it spreads like a uniform loss, variance e^2/3
    against the e^2/4 behind e^2/8. So it wins only where e is large.
    """
    epsilons = [float(plan.epsilon(turn)) for turn in range(2, plan.rounds + 1)]
    deviation = math.sqrt(plan.draws * sum(e * e for e in epsilons) / 3)
    mean = plan.draws * sum(e * e for e in epsilons) / 6
    width = 2 * (LOSS_SPREAD * deviation + 2 * mean + max(epsilons))
    step = width / LOSS_CELLS
    spectrum = np.ones(LOSS_CELLS // 2 + 1, dtype=np.complex128)
    for epsilon in epsilons:
        spectrum *= np.fft.rfft(_loss_masses(epsilon, step)) ** plan.draws
    masses = np.roll(np.fft.irfft(spectrum, LOSS_CELLS), LOSS_CELLS // 2)
    losses = (np.arange(LOSS_CELLS) - LOSS_CELLS // 2) * step
    low, high = 0.0, float(losses[-1])
    for _ in range(60):
        middle = (low + high) / 2
        above = losses > middle
        spent = float(np.sum(masses[above] * -np.expm1(middle - losses[above])))
        low, high = (middle, high) if spent > delta else (low, middle)
    return high


def _loss_masses(epsilon: float, step: float) -> np.ndarray:
    """The loss of one draw on the grid, index 0 for loss 0 and negative losses wrapped to the end.

    The profile is convex in exp(l), so replacing it by its chords between grid points only raises it: the safe side.
    """
    reach = math.ceil(epsilon / step) + 1
    levels = step * np.arange(-reach, reach + 1)
    inside = np.clip(levels, -epsilon, epsilon)
    profile = (math.exp(epsilon / 2) - np.exp(inside / 2)) ** 2 / math.expm1(epsilon)
    profile += np.where(levels < -epsilon, np.exp(inside) - np.exp(levels), 0.0)
    points = np.exp(levels)
    slopes = np.concatenate([[-1.0], np.diff(profile) / np.diff(points), [0.0]])
    masses = np.zeros(LOSS_CELLS)
    np.add.at(masses, np.arange(-reach, reach + 1), np.diff(slopes) * points)
    return masses


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


def amplified(plan: DualQueryPlan, sample: int, delta: float) -> Amplified:
    """The plan's rounds, draws and step on `sample` of its records: `ln(1 + (m/n)(exp(e') - 1))` at delta (spec 7.4).

    The inner run is priced with m in place of n, at delta' = delta n/m; a zCDP ledger is charged its rho unamplified.
    """
    if not 1 <= sample <= plan.records:
        raise QueryError(f"a sample of {sample} must have between 1 and {plan.records} records")
    share = sample / plan.records
    inner = replace(plan, records=sample).price.rho
    inner_epsilon = epsilon_of(inner, min(delta / share, 0.999)) if inner else 0.0
    # ln(1 + share (exp(e) - 1)), without overflow for the large e that small samples pay.
    outer = math.log1p(share * math.expm1(inner_epsilon)) if inner_epsilon < 500 else inner_epsilon + math.log(share)
    whole = epsilon_of(plan.price.rho, delta) if plan.price.rho else 0.0
    return Amplified(sample, delta, float(inner), inner_epsilon, outer, whole)
