"""Checks of privacy claims, as plain functions that raise AssertionError, so planted bugs can be aimed at them.

Distributions are computed from the scales that the mechanism object itself hands to its samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
from scipy import stats

from reticent.domain import Domain
from reticent.kernel.accounting import NANO, Budget, Price
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms import above_threshold as threshold_module
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace, Noise, Sensitivity, Watch
from reticent.kernel.statistics import AnswerErrors
from reticent.kernel.table import Table
from reticent.queries.linear import Conjunction

ROUNDING = 1e-9
"""Relative float error allowed to the exact sums."""
TIGHT = 0.97
"""A worst case that stays below this share of the price means that the check looks at the wrong neighbours."""
ORDERS = (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)
FALSE_ALARM = 1e-9
"""Chance that a right sampler fails a sampled check."""
SAMPLES = 60_000
SHORT = 16
"""Entries of a short vector, drawn call by call."""
SHORT_SAMPLES = 12_000
"""Calls are slow; still 5 standard deviations beyond the alarm at 0.9 and 1.1 of a scale."""


# ---- distributions


def laplace_log_pmf(scale: float, support: np.ndarray) -> np.ndarray:
    return -np.abs(support) / scale + math.log(math.tanh(1 / (2 * scale)))


def gaussian_log_pmf(sigma: float, support: np.ndarray) -> np.ndarray:
    log_weights = -(support.astype(float) ** 2) / (2 * sigma**2)
    reach = np.arange(-int(40 * sigma) - 40, int(40 * sigma) + 41)
    return log_weights - np.log(np.exp(-(reach.astype(float) ** 2) / (2 * sigma**2)).sum())


def log_pmf(mechanism: Noise, grid: int, support: np.ndarray) -> np.ndarray:
    scale = float(mechanism.grid_scale(grid))
    return laplace_log_pmf(scale, support) if isinstance(mechanism, Laplace) else gaussian_log_pmf(scale, support)


def renyi(log_p: np.ndarray, log_q: np.ndarray, order: float) -> float:
    exponent = order * log_p + (1 - order) * log_q
    top = exponent.max()
    return (top + math.log(np.exp(exponent - top).sum())) / (order - 1)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


# ---- additive noise


def check_noise_price(mechanism: Noise, sensitivity: Sensitivity, shift: Iterable[int], grid: int) -> None:
    """The Rényi loss and the pure loss of moving by `shift` (grid units, one entry per coordinate) are priced."""
    price = mechanism.price(sensitivity)
    scale = float(mechanism.grid_scale(grid))
    reach = int(80 * scale) + 80 + 64 * max(abs(step) for step in shift)
    support = np.arange(-reach, reach + 1)
    shifts = list(shift)
    for order in ORDERS:
        divergence = sum(
            renyi(log_pmf(mechanism, grid, support), log_pmf(mechanism, grid, support - step), order) for step in shifts
        )
        assert divergence <= order * float(price.rho) * (1 + ROUNDING), (order, divergence, price)
    if isinstance(mechanism, Gaussian):
        worst = divergence / ORDERS[-1]
        assert worst >= TIGHT * float(price.rho)
        assert price.pure is None
        return
    pure = sum(
        np.max(np.abs(log_pmf(mechanism, grid, support) - log_pmf(mechanism, grid, support - step))) for step in shifts
    )
    assert price.pure is not None
    assert TIGHT * float(price.pure) <= pure <= float(price.pure) * (1 + ROUNDING), (pure, price)


def draw_noise(mechanism: Noise, table: np.ndarray, grid: int = 1) -> np.ndarray:
    """Many releases of the same table, one after another, flattened."""
    total = SHORT_SAMPLES if table.size <= SHORT else SAMPLES
    return np.concatenate([mechanism.release(table, grid).ravel() for _ in range(-(-total // table.size))])


def check_released_scale(mechanism: Noise, grid: int, shape: tuple[int, ...]) -> None:
    """What `release` really adds has the scale that was priced, and neither 0.9 nor 1.1 of it."""
    noise = draw_noise(mechanism, np.zeros(shape, dtype=np.int64), grid)
    priced = mechanism.scale if isinstance(mechanism, Laplace) else mechanism.sigma  # type: ignore[attr-defined]
    size = float(priced * grid)
    kind = "laplace" if isinstance(mechanism, Laplace) else "gaussian"
    assert has_scale(noise, kind, size)
    assert not has_scale(noise, kind, 0.9 * size)
    assert not has_scale(noise, kind, 1.1 * size)


def has_scale(noise: np.ndarray, kind: str, scale: float) -> bool:
    """Whether mean absolute value (Laplace, geometric) or mean square (Gaussian) fits the exact moments of `scale`."""
    values = np.abs(noise).astype(float)
    ratio = math.exp(-1 / scale)
    if kind == "gaussian":
        support = np.arange(-int(40 * scale) - 40, int(40 * scale) + 41, max(1, int(scale / 50)))
        weights = softmax(-(support.astype(float) ** 2) / (2 * scale**2))
        statistic = values**2
        mean = float(weights @ support.astype(float) ** 2)
        variance = float(weights @ support.astype(float) ** 4) - mean**2
    elif kind == "laplace":
        mean = 2 * ratio / (1 - ratio**2)
        second = 2 * ratio / (1 - ratio) ** 2
        statistic, variance = values, second - mean**2
    else:
        mean, variance, statistic = ratio / (1 - ratio), ratio / (1 - ratio) ** 2, values
    deviation = (statistic.mean() - mean) / math.sqrt(variance / len(values))
    return abs(deviation) < stats.norm.isf(FALSE_ALARM / 2)


def check_frequencies(observed: np.ndarray, probabilities: np.ndarray) -> None:
    """Pearson's test of counts against exact probabilities; cells expected less than 20 times are pooled."""
    total = observed.sum()
    expected = probabilities * total
    rare = expected < 20
    if total - expected[~rare].sum() < 20:
        rare[np.where(rare, np.inf, expected).argmin()] = True
    counts = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], total - expected[~rare].sum())
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, len(counts) - 1) > FALSE_ALARM


# ---- selection


def check_exponential_price(mechanism: Exponential, scores: np.ndarray, neighbour: np.ndarray) -> None:
    """Scores move by at most 1; the exact probabilities stay within the pure and the zCDP price."""
    slope = float(mechanism.epsilon) / 2
    log_p, log_q = (np.log(softmax(slope * u)) for u in (scores, neighbour))
    price = mechanism.price()
    assert price.pure is not None
    assert np.max(np.abs(log_p - log_q)) <= float(price.pure) * (1 + ROUNDING)
    for order in ORDERS:
        assert renyi(log_p, log_q, order) <= order * float(price.rho) * (1 + ROUNDING)


def check_exponential_draws(mechanism: Exponential, scores: np.ndarray, grid: int = 1) -> None:
    """Draws follow the exact softmax that the price e^2/8 needs."""
    drawn = mechanism.draw(scores, 1, grid, SAMPLES)
    probabilities = softmax(float(mechanism.epsilon) / (2 * grid) * scores.astype(float))
    check_frequencies(np.bincount(drawn, minlength=len(scores)), probabilities)


# ---- AboveThreshold


def scales_drawn(mechanism: AboveThreshold, sensitivity: int) -> tuple[float, float]:
    """The scales that an open epoch really asks of its samplers: threshold, then query."""
    asked: list[Fraction] = []

    def record(scale: Fraction, count: int) -> np.ndarray:
        asked.append(scale)
        return np.zeros(count, dtype=np.int64)

    originals = threshold_module.geometric, threshold_module.discrete_laplace
    threshold_module.geometric = threshold_module.discrete_laplace = record
    try:
        mechanism.open(0, sensitivity).exceeds(-1)
    finally:
        threshold_module.geometric, threshold_module.discrete_laplace = originals
    assert len(asked) == 2
    return float(asked[0]), float(asked[1])


def _log_above(one_sided: bool, scale: float, gap: np.ndarray) -> np.ndarray:
    """ln P(nu >= gap), exact for integers."""
    if one_sided:
        return -np.maximum(gap, 0) / scale
    log_tail = -math.log1p(math.exp(-1 / scale))
    # P(nu >= g) = e^(-g/B)/(1 + e^(-1/B)) for g >= 1, and 1 - P(nu >= 1 - g) below
    positive = -np.maximum(gap, 1) / scale + log_tail
    negative = np.log1p(-np.exp(-np.maximum(1 - gap, 1) / scale + log_tail))
    return np.where(gap >= 1, positive, negative)


def log_run_probability(
    scales: tuple[float, float], one_sided: bool, below: tuple[int, int], last: int | None
) -> float:
    """ln P(`count` queries at `value` all below, then one at `last` above), threshold 0, summed over its noise."""
    count, value = below
    reach = int(45 * max(scales))
    noise = np.arange(0 if one_sided else -reach, reach + 1)
    log_weight = -np.abs(noise) / scales[0]
    log_weight += math.log(-math.expm1(-1 / scales[0]) if one_sided else math.tanh(1 / (2 * scales[0])))
    if count:
        with np.errstate(divide="ignore"):
            log_weight = log_weight + count * np.log(-np.expm1(_log_above(one_sided, scales[1], noise - value)))
    if last is not None:
        log_weight = log_weight + _log_above(one_sided, scales[1], noise - last)
    top = log_weight.max()
    return top + math.log(np.exp(log_weight - top).sum())


def check_above_threshold(mechanism: AboveThreshold, sensitivity: int) -> None:
    """Worst neighbours (all low queries one way, the last the other way): loss at most the price, and near it."""
    scales = scales_drawn(mechanism, sensitivity)
    price = mechanism.price()
    assert price.pure is not None
    worst = 0.0
    width = int(max(scales))
    for count in (0, 1, 30, 10**4, 10**7):
        for value in (-4 * width, -width, 0, 2 * width):
            for last in (None, -12 * width, -2 * width, value, 2 * width):
                for move in (-sensitivity, sensitivity):
                    first = log_run_probability(scales, mechanism.one_sided, (count, value), last)
                    moved = None if last is None else last - move
                    second = log_run_probability(scales, mechanism.one_sided, (count, value + move), moved)
                    if math.isfinite(first) and math.isfinite(second):
                        worst = max(worst, abs(first - second))
    assert worst <= float(price.pure) * (1 + 1e-6), (worst, price)
    assert worst >= TIGHT * float(price.pure), (worst, price)


def check_shared_epoch(moved: Fraction) -> None:
    """An epoch stated for values that one person moves by up to `moved` has noise for them, whatever it tests first.

    A count, which one person moves by one, comes first; the exact loss of tests that move by `moved` is the price.
    """
    domain = Domain({"x": 2})
    source = Records.of_codes(domain, {"x": np.array([0, 1])}, np.array([3, 2]))
    table = Table(source, domain, records=5)
    mechanism, opened = AboveThreshold(threshold_epsilon=1, query_epsilon=1), list[int]()
    curator = Curator(table, Ledger.memory(Budget(rho=100), table.identity))
    count = AnswerErrors((Conjunction({"x": 1}),), np.array([2.0]), domain)
    grid = count.resolution(table.grid) * table.grid
    original = AboveThreshold.open

    def record(self: AboveThreshold, threshold: int, sensitivity: int) -> Watch:
        opened.append(sensitivity)
        return original(self, threshold, sensitivity)

    AboveThreshold.open = record
    try:
        curator.exceeds(count, curator.watch(1e6, mechanism, moved=moved))
    finally:
        AboveThreshold.open = original
    # The same run on a coarser grid, on which one person moves a value by `step`: sums over all integers stay short.
    step, price = 100, mechanism.price().pure
    scales = scales_drawn(mechanism, math.ceil(Fraction(step * opened[0]) / (moved * grid)))
    assert price is not None
    for times in (1, 30):
        for last in (-step, 0, step):
            first = log_run_probability(scales, mechanism.one_sided, (times, 0), last)
            second = log_run_probability(scales, mechanism.one_sided, (times, step), last - step)
            assert abs(first - second) <= float(price) * (1 + 1e-6)


# ---- accounting and sensitivity


def check_cost_rounds_up(budget: Budget, prices: Iterable[Price]) -> None:
    """The integers charged never sum to less than the exact prices."""
    prices = list(prices)
    exact = [price.pure if budget.pure else price.rho for price in prices]
    charged = sum(budget.cost(price) for price in prices)
    assert charged >= sum(part for part in exact if part is not None) * NANO


def check_sensitivity(
    declared: Sensitivity, statistic: Callable[[np.ndarray], np.ndarray], pairs: Iterable[tuple]
) -> None:
    """No pair of neighbouring tables moves the statistic further than declared; some pair reaches it."""
    moves = [statistic(first).astype(np.int64) - statistic(second).astype(np.int64) for first, second in pairs]
    assert max(int(np.abs(move).sum()) for move in moves) == declared.l1
    assert max(int((move**2).sum()) for move in moves) == declared.l2_squared
