"""Choice of a private minimiser for a loss: the families of spec 8.4, compared by their own bounds.

`crossing` finds where a decreasing function reaches a level: plans and prices are solved with a few evaluations of
their formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from reticent.domain import Domain
from reticent.errors import KeyReusedError, QueryError
from reticent.kernel.minimizers.families import (
    MINIMIZERS,
    LongDescent,
    Minimizer,
    NoisyGradientDescent,
    OutputPerturbation,
    PhasedERM,
    RidgeGLM,
    SufficientStatistics,
    UnconstrainedGLM,
)
from reticent.losses.losses import ConvexLoss, checked_loss

LADDER = (-16 * 30, 16 * 8)
"""Prices considered: powers of 2^(1/16) from 1e-9 to 256."""
FORMULA_RHO = (1e-36, 1e3)
"""Between which a formula is solved for its price."""
WHY = {
    NoisyGradientDescent: "Lipschitz on a ball: noisy gradient descent, error ~ sqrt(d)",
    LongDescent: "Lipschitz on a ball, few cells: noisy gradient descent of many rounds, error ~ sqrt(d)",
    OutputPerturbation: "strongly convex: the minimiser moves little, so it is perturbed itself",
    PhasedERM: "convex: minimised in phases, each starting from the noisy answer before it, error ~ sqrt(d)",
    RidgeGLM: "generalised linear: a small ridge and perturbed parameters, drawn back into the ball",
    UnconstrainedGLM: "generalised linear: a small ridge and perturbed parameters, error free of the dimension",
    SufficientStatistics: "squared loss: noisy second moments once, the rest is free",
}


@dataclass(frozen=True, eq=False)
class Choice:
    """The minimiser, the reason in one line, and the guarantees of all candidates."""

    minimizer: Minimizer
    reason: str
    bounds: dict[str, float]

    def __str__(self) -> str:
        others = ", ".join(f"{name} {bound:.3g}" for name, bound in self.bounds.items())
        return f"{self.reason} (guaranteed excess risk: {others})"


def choose_minimizer(
    loss: ConvexLoss, domain: Domain, *, neighbours: str, records: float, rho: float | Fraction, failure: float = 0.05
) -> Choice:
    """Sufficient statistics for squared loss, although their bound is the loosest; otherwise the smallest bound."""
    found = [m for m in candidates(loss, domain, neighbours, records, rho) if _feasible(m)]
    if not found:
        raise QueryError(f"no private minimiser serves {loss!r}; use fewer or coarser features")
    best = next((m for m in found if isinstance(m, SufficientStatistics)), None)
    best = best or min(found, key=lambda m: m.bound(failure))
    return Choice(best, WHY[type(best)], {type(m).__name__: m.bound(failure) for m in found})


def candidates(
    loss: ConvexLoss,
    domain: Domain,
    neighbours: str,
    records: float,
    rho: float | Fraction,
    kinds: Sequence[type[Minimizer]] = MINIMIZERS,
) -> Iterator[Minimizer]:
    """Every minimiser for this loss; invalid losses are refused before."""
    checked_loss(loss).on(domain)
    for kind in kinds:
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
    kinds: Sequence[type[Minimizer]] = MINIMIZERS,
) -> Minimizer | None:
    """The cheapest minimiser whose bound is at most `error`; None if even `most` of rho does not suffice.

    Prices come from a fixed ladder, so that the same question names the same minimiser, independent of the remaining
    budget. `spread` bounds the relative distance of `records` from the true number.
    """
    best: Minimizer | None = None
    for roomy in candidates(loss, domain, neighbours, records, _price(LADDER[1]), kinds):
        low, high = LADDER
        fitting = roomy
        while high - low > 1 and roomy.bound(failure, spread) <= error:
            middle = (low + high) // 2
            trial = type(roomy)(loss, domain, neighbours=neighbours, records=records, rho=_price(middle))
            if trial.bound(failure, spread) <= error:
                high, fitting = middle, trial
            else:
                low = middle
        # Less rho never means more work: fewer noisy rounds, a larger ridge.
        able = fitting.bound(failure, spread) <= error and _feasible(fitting)
        if able and (best is None or fitting.rho < best.rho):
            best = fitting
    return best if best is not None and best.rho <= most else None


def smallest_bound(
    loss: ConvexLoss,
    domain: Domain,
    *,
    neighbours: str,
    records: float,
    rho: Fraction,
    failure: float,
    spread: float = 0.0,
    kinds: Sequence[type[Minimizer]] = MINIMIZERS,
) -> Minimizer | None:
    """The minimiser of this price with the smallest bound; None if none serves the loss."""
    found = [m for m in candidates(loss, domain, neighbours, records, rho, kinds) if _feasible(m)]
    return min(found, key=lambda minimizer: minimizer.bound(failure, spread), default=None)


def least_rho(
    kinds: Sequence[type[Minimizer]],
    loss: ConvexLoss,
    domain: Domain,
    *,
    neighbours: str,
    records: float,
    error: float,
    failure: float,
    spread: float = 0.0,
) -> float:
    """The smallest rho at which one of these guarantees `error`, by its formula alone, without the ladder of prices or
    limits on work.
    """
    best = math.inf
    for kind in kinds:

        def bound(rho: float, kind: type[Minimizer] = kind) -> float:
            try:
                minimizer = kind(loss, domain, neighbours=neighbours, records=records, rho=Fraction(rho))
                return minimizer.bound(failure, spread)
            except QueryError:  # another family's, or noise beyond what is ever drawn
                return math.inf

        if bound(FORMULA_RHO[1]) <= error:
            best = min(best, crossing(bound, error, *FORMULA_RHO, guess=best if best < math.inf else None))
    return best


def _feasible(minimizer: Minimizer) -> bool:
    try:
        minimizer.refuse_infeasible()
    except QueryError:
        return False
    return True


def recorded_minimizer(request: Mapping[str, Any], loss: ConvexLoss, domain: Domain, neighbours: str) -> Minimizer:
    """The minimiser that a ledger's request describes, independent of the current choice."""
    told = request.get("minimizer", {})
    kind = next((kind for kind in MINIMIZERS if kind.__name__ == told.get("minimizer")), None)
    if kind is None or told.get("loss") != loss.to_dict():
        raise KeyReusedError("this key belongs to another request: use a new key")
    facts = {name: Fraction(told[name]) for name in ("records", "rho")}
    return kind(loss, domain, neighbours=neighbours, **facts)


def _price(rung: int) -> Fraction:
    """2^(rung/16), as a short exact number."""
    return Fraction(2.0 ** (rung / 16)).limit_denominator(10**12)


MOST = 200
"""Evaluations; halving alone needs far fewer."""


def crossing(
    function: Callable[[float], float],
    level: float,
    low: float,
    high: float,
    *,
    guess: float | None = None,
    within: float = 2e-3,
) -> float:
    """The smallest x from `low` to `high` with function(x) <= level, to a factor of 1 + `within`, rounded up.

    The function decreases, roughly as a power of x: secants of its logarithm approach the crossing from both sides,
    with bisection where it is infinite or zero. Infinite if it exceeds the level at `high`.
    """
    left, right = math.log(low), math.log(high)
    reached = False
    at = math.log(guess) if guess is not None and low < guess < high else (left + right) / 2
    last: tuple[float, float] | None = None
    power = -1.0
    for _ in range(MOST):
        found = _height(function(math.exp(at)), level)
        if found <= 0:
            right, reached = at, True
        else:
            left = at
        if right - left <= within:
            break
        if math.isfinite(found):
            if last is not None and (slope := (found - last[1]) / (at - last[0])) < -1e-3:
                power = slope
            last = at, found
            # Slightly beyond the secant's root, so that the next point lies on the other side.
            at = at - found / power + math.copysign(within / 3, found)
        if not (math.isfinite(found) and left < at < right):
            at = (left + right) / 2
    return math.exp(right) if reached or function(high) <= level else math.inf


def _height(value: float, level: float) -> float:
    """log(value / level); infinite if the value is, minus infinity if it is zero."""
    if not value < math.inf:
        return math.inf
    return math.log(value / level) if value > 0 else -math.inf
