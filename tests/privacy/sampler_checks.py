"""A battery for samplers of integer noise, with stated power, and OpenDP's samplers beside ours as an oracle.

The battery looks at the mean size, the mean square, symmetry, four tails, all frequencies and all adjacent ratios. A
right sampler fails with probability below FALSE_ALARM. At 100,000 draws one whose scale is off by 10% fails with
probability above 1 - 1e-9: the mean size (Laplace) has a relative standard deviation of 1/316 and the mean square
(Gaussian) one of 1/223, so that a tenth more or less stands over 20 standard deviations beyond the alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

from reticent.kernel.mechanisms.sampler_check import magnitudes
from reticent.kernel.mechanisms.sampling import discrete_gaussian, discrete_laplace, geometric

Sampler = Callable[[Fraction, int], np.ndarray]
OWN: dict[str, Sampler] = {"laplace": discrete_laplace, "gaussian": discrete_gaussian, "geometric": geometric}
CASES = [
    ("laplace", Fraction(3, 2)),
    ("laplace", Fraction(3)),
    ("laplace", Fraction(6)),
    ("gaussian", Fraction(2)),
]
ONE_SIDED = ("geometric", Fraction(6))
DRAWS = 100_000
FALSE_ALARM = 1e-6


class WrongSampler(AssertionError):
    """The draws do not follow the law."""


def fails(drawn: np.ndarray, kind: str, scale: Fraction, alarm: float = FALSE_ALARM) -> bool:
    try:
        check_draws(drawn, kind, scale, alarm)
    except WrongSampler:
        return True
    return False


def check_draws(drawn: np.ndarray, kind: str, scale: Fraction, alarm: float = FALSE_ALARM) -> None:
    """Raise WrongSampler where one of the statistics is out of bounds; the alarm is shared among them all."""
    if kind == "geometric" and drawn.min() < 0:
        raise WrongSampler(f"{kind} {scale}: one-sided noise of {drawn.min()}")
    total = len(drawn)
    law = magnitudes(kind, float(scale))
    sizes = np.arange(len(law), dtype=float)
    observed = np.minimum(np.abs(drawn), len(law) - 1).astype(np.int64)
    counts = np.bincount(observed, minlength=len(law)).astype(float)
    scores = {} if kind == "geometric" else {"symmetry": np.sign(drawn).sum() / np.sqrt(total * (1 - law[0]))}
    for name, values in (("mean size", sizes), ("mean square", sizes**2)):
        mean = law @ values
        spread = np.sqrt((law @ values**2 - mean**2) / total)
        scores[name] = (counts @ values / total - mean) / spread
    for share in (0.3, 0.1, 0.01, 0.003):
        first = int(np.argmax(law[::-1].cumsum()[::-1] <= share))
        beyond = law[first:].sum()
        scores[f"tail from {first}"] = (counts[first:].sum() - total * beyond) / np.sqrt(total * beyond * (1 - beyond))
    large = np.flatnonzero(law * total >= 400)
    for place in large:
        scores[f"size {place}"] = (counts[place] - total * law[place]) / np.sqrt(total * law[place] * (1 - law[place]))
    for place in large[:-1]:
        ratio = np.log(counts[place] / counts[place + 1]) - np.log(law[place] / law[place + 1])
        scores[f"ratio {place}"] = ratio / np.sqrt(1 / counts[place] + 1 / counts[place + 1])
    limit = stats.norm.isf(alarm / len(scores) / 2)
    wrong = {name: round(float(score), 1) for name, score in scores.items() if not abs(score) < limit}
    if wrong:
        raise WrongSampler(f"{kind} {scale}: standard deviations off, alarm at {limit:.1f}: {wrong}")


def scaled(sampler: Sampler, factor: Fraction) -> Sampler:
    """A planted bug: the scale is off by a factor."""
    return lambda scale, count: sampler(scale * factor, count)


def tilted(sampler: Sampler, error: float, random: np.random.Generator) -> Sampler:
    """A planted bug: the log-ratio of the sizes 1 and 2 is off by `error`; their sum and all others are right."""

    def draw(scale: Fraction, count: int) -> np.ndarray:
        drawn = sampler(scale, count)
        one, two = 1.0, np.exp(-1 / float(scale))
        wrong = (one + two) / (1 + two * np.exp(-error))
        source, step, share = (2, -1, (wrong - one) / two) if wrong > one else (1, 1, one - wrong)
        moved = (np.abs(drawn) == source) & (random.random(count) < share)
        drawn[moved] += step * np.sign(drawn[moved])
        return drawn

    return draw


def opendp_sampler(kind: str) -> Sampler:
    """OpenDP's sampler of the same law; slow, so only the tests draw from it."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64"))

    def measurement(scale: Fraction) -> Any:
        if kind == "laplace":
            return make_laplace(space, l1_distance(T="i64"), float(scale))
        return make_gaussian(space, l2_distance(T="f64"), float(scale))

    return lambda scale, count: np.array(measurement(scale)(np.zeros(count, dtype=np.int64)), dtype=np.int64)
