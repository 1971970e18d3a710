"""Which private minimiser suits a loss, and why: the families of spec 8.4 compared by their own bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.kernel.minimizers import (
    MINIMIZERS,
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    RidgeGLM,
    SufficientStatistics,
)
from reticent.queries.convex import ConvexLoss, checked_loss

LADDER = (-16 * 30, 16 * 8)
"""Prices considered: powers of 2^(1/16) from 1e-9 to 256."""
WHY = {
    NoisyGradientDescent: "Lipschitz on a ball: noisy gradient descent, error ~ sqrt(d)",
    OutputPerturbation: "strongly convex: the minimiser moves little, so it is perturbed itself",
    RidgeGLM: "generalised linear: a small ridge and perturbed parameters, error free of the dimension",
    SufficientStatistics: "squared loss: noisy second moments once, the rest is free",
}


@dataclass(frozen=True, eq=False)
class Choice:
    """The minimiser, the reason in one line, and what each candidate guarantees."""

    minimizer: Minimizer
    reason: str
    bounds: dict[str, float]

    def __str__(self) -> str:
        others = ", ".join(f"{name} {bound:.3g}" for name, bound in self.bounds.items())
        return f"{self.reason} (guaranteed excess risk: {others})"


def choose_minimizer(
    loss: ConvexLoss, domain: Domain, *, neighbours: str, records: float, rho: float | Fraction, failure: float = 0.05
) -> Choice:
    """Sufficient statistics for squared loss, whose bound is the loosest of all; else the smallest bound."""
    found = list(candidates(loss, domain, neighbours, records, rho))
    if not found:
        raise QueryError(f"no private minimiser serves {loss!r}; use fewer or coarser features")
    best = next((m for m in found if isinstance(m, SufficientStatistics)), None)
    best = best or min(found, key=lambda m: m.bound(failure))
    return Choice(best, WHY[type(best)], {type(m).__name__: m.bound(failure) for m in found})


def candidates(
    loss: ConvexLoss, domain: Domain, neighbours: str, records: float, rho: float | Fraction
) -> Iterator[Minimizer]:
    """Every minimiser that takes this loss; bad losses are refused before."""
    checked_loss(loss).on(domain)
    for kind in MINIMIZERS:
        try:
            yield kind(loss, domain, neighbours=neighbours, records=records, rho=rho)
        except QueryError:
            continue


def cheapest_within(
    loss: ConvexLoss,
    domain: Domain,
    *,
    neighbours: str,
    records: float,
    error: float,
    failure: float,
    most: float,
    spread: float = 0.0,
) -> Minimizer | None:
    """The minimiser of least price whose bound is at most `error`; None if even `most` of rho does not do.

    Prices come from a fixed ladder, so that the same question names the same minimiser whatever is left. `spread` is
    how far `records` may lie from the true number, as a share of it.
    """
    best: Minimizer | None = None
    for roomy in candidates(loss, domain, neighbours, records, _price(LADDER[1])):
        low, high = LADDER
        fitting = roomy
        while high - low > 1 and roomy.bound(failure, spread) <= error:
            middle = (low + high) // 2
            trial = type(roomy)(loss, domain, neighbours=neighbours, records=records, rho=_price(middle))
            if trial.bound(failure, spread) <= error:
                high, fitting = middle, trial
            else:
                low = middle
        if fitting.bound(failure, spread) <= error and (best is None or fitting.rho < best.rho):
            best = fitting
    return best if best is not None and best.rho <= most else None


def _price(rung: int) -> Fraction:
    """2^(rung/16), as a short exact number."""
    return Fraction(2.0 ** (rung / 16)).limit_denominator(10**12)
