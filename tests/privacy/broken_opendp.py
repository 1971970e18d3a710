"""The exact law of the noise that OpenDP drew before 0.14.2, computed without that package.

OpenDP draws Bernoulli(exp(-x)) by the alternating series of Canonne et al. (2020, Alg. 1), which needs Bernoulli(x/k)
for k = 1, 2, ... Its rational numbers divided a/b by k as (a/g) / (floor(b/g) k) with g = gcd(a, k), which is a/(bk)
only where g divides b. So 2/3 divided by 2 was 1/2, and Laplace noise of scale 6 had the sizes 4, 10, 16, ... a fifth
too often.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

NEGLIGIBLE = 1e-18


def chance_of_exp(exponent: Fraction) -> float:
    """What was drawn for Bernoulli(exp(-exponent))."""
    whole = max(0, math.ceil(exponent) - 1)
    rest, total, reached, k = exponent - whole, 0.0, 1.0, 1
    while reached > NEGLIGIBLE:
        common = math.gcd(rest.numerator, k)
        chance = (rest.numerator // common) / (rest.denominator // common * k)
        total += reached * (1 - chance) * (k % 2)
        reached, k = reached * chance, k + 1
    return math.exp(-whole) * total


def laplace_sizes(scale: Fraction) -> np.ndarray:
    """P(|noise| = 0), P(|noise| = 1), ..."""
    length = int(40 * scale) + 40
    kept = [chance_of_exp(Fraction(u, scale.numerator)) for u in range(scale.numerator)]
    weights = np.zeros(length)
    for step in range(length * scale.denominator):
        blocks, rest = divmod(step, scale.numerator)
        weights[step // scale.denominator] += kept[rest] * math.exp(-blocks)
    weights[0] /= 2  # minus zero is drawn again
    return weights / weights.sum()


def gaussian_sizes(sigma: Fraction) -> np.ndarray:
    proposal = Fraction(math.floor(sigma) + 1)
    weights = laplace_sizes(proposal)
    for size in range(len(weights)):
        weights[size] *= chance_of_exp((size - sigma**2 / proposal) ** 2 / (2 * sigma**2))
    return weights / weights.sum()


SIZES = {"laplace": laplace_sizes, "gaussian": gaussian_sizes}


def draw(kind: str, scale: Fraction, count: int, random: np.random.Generator) -> np.ndarray:
    """Noise of the broken law."""
    law = SIZES[kind](scale)
    return random.choice(len(law), size=count, p=law) * random.choice([-1, 1], size=count)


def largest_loss(kind: str, scale: Fraction) -> float:
    """The largest log-ratio of two adjacent outputs that are not negligible: what a count with this noise loses."""
    law = SIZES[kind](scale)
    law[1:] /= 2
    likely = law[law > 1e-6]
    return float(np.abs(np.diff(np.log(likely))).max())
