"""A self-test of the samplers at first use: frequencies, adjacent ratios, symmetry and mean size, with stated power.

It takes some tens of milliseconds once per process and reads no data. A correct sampler fails it with probability below
1e-8; docs/proofs/sampler.md states the errors that it detects with near certainty.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from importlib import metadata

import numpy as np

from reticent.errors import ReticentError
from reticent.kernel.mechanisms.sampling import discrete_gaussian, discrete_laplace, geometric

Sampler = Callable[[Fraction, int], np.ndarray]

BLOCK = 1 << 15
BLOCKS = 2
ALARM = 7.0
"""In standard deviations; P(|Z| > 7) < 3e-12, and fewer than 1,000 comparisons are made."""
LEAST_EXPECTED = 400
"""Cells expected less often are pooled into the tail: a Poisson count of 400 is near enough to normal at the alarm."""

OPENDP_FLOOR = (0, 14, 2)
"""Before this version OpenDP's Laplace of scale 6 loses .335 where .167 is priced."""


class SamplerError(ReticentError):
    """Random draws do not follow the priced distribution; nothing may be released."""


@lru_cache(maxsize=1)
def verify_samplers() -> None:
    """Check this process's samplers once; on failure raise SamplerError, again at every call."""
    check_samplers({"laplace": discrete_laplace, "gaussian": discrete_gaussian, "geometric": geometric})


def check_samplers(samplers: Mapping[str, Sampler]) -> None:
    """Check each sampler at scales that are small and odd enough to reveal one wrong cell or ratio."""
    for kind, scale in (
        ("laplace", Fraction(6)),
        ("gaussian", Fraction(2)),
        ("geometric", Fraction(6)),
        ("laplace", Fraction(3, 2)),
    ):
        if kind in samplers:
            _check(samplers[kind], kind, scale)


def _check(sampler: Sampler, kind: str, scale: Fraction) -> None:
    probabilities = magnitudes(kind, float(scale))
    kept = int((probabilities * BLOCK >= LEAST_EXPECTED).sum())
    probabilities = np.append(probabilities[:kept], 1 - probabilities[:kept].sum())
    counts, balance = np.zeros(kept + 1), 0.0
    for block in range(1, BLOCKS + 1):
        drawn = sampler(scale, BLOCK)
        counts += np.bincount(np.minimum(np.abs(drawn), kept).astype(np.int64), minlength=kept + 1)
        balance += float(np.sign(drawn).sum())
        worst = _deviation(counts, probabilities, block * BLOCK)
        if kind != "geometric":
            worst = max(worst, abs(balance) / math.sqrt(block * BLOCK * (1 - probabilities[0])))
        if not worst < ALARM:
            raise SamplerError(
                f"the {kind} sampler is {worst:.1f} standard deviations off its distribution: reinstall reticent"
            )


def _deviation(counts: np.ndarray, probabilities: np.ndarray, total: int) -> float:
    """The largest of the standardised cells, adjacent log-ratios and mean size."""
    cells = (counts - total * probabilities) / np.sqrt(total * probabilities * (1 - probabilities))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.diff(np.log(counts)) - np.diff(np.log(probabilities))
        ratios /= np.sqrt(1 / counts[1:] + 1 / counts[:-1])
    sizes = np.arange(len(counts))
    mean = probabilities @ sizes
    spread = math.sqrt((probabilities @ sizes**2 - mean**2) / total)
    found = [*np.abs(cells), *np.abs(ratios), abs(counts @ sizes / total - mean) / spread]
    return math.inf if np.isnan(found).any() else float(max(found))


def magnitudes(kind: str, scale: float) -> np.ndarray:
    """P(|noise| = 0), P(|noise| = 1), ...: the exact distribution of the absolute value."""
    sizes = np.arange(int(40 * scale) + 40, dtype=np.float64)
    weights = np.exp(-(sizes**2) / (2 * scale**2)) if kind == "gaussian" else np.exp(-sizes / scale)
    if kind != "geometric":
        weights[1:] *= 2
    return weights / weights.sum()


def refuse_old_opendp() -> None:
    """Refuse an installed OpenDP with faulty samplers, because tests use it as an oracle and scripts as a sampler."""
    try:
        installed = metadata.version("opendp")
    except metadata.PackageNotFoundError:
        return
    parts = tuple(int(digits) for digits in re.findall(r"\d+", installed)[:3])
    if parts < OPENDP_FLOOR:
        wanted = ".".join(map(str, OPENDP_FLOOR))
        raise ImportError(
            f"opendp {installed} draws noise that costs more privacy than its price: pip install 'opendp>={wanted}'"
        )
