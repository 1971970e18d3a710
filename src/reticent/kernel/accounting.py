"""Prices, budgets and the conversion between them, in exact numbers (spec 3; docs/proofs/accounting.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Number, Rational
from typing import Any

import numpy as np

from reticent.errors import QueryError

NANO = 10**9
"""Ledger units in one unit of epsilon or rho."""

LARGEST_BUDGET = 10**6
SMALLEST_DELTA = Fraction(1, 10**300)
REPORTED_DELTAS = (1e-6, 1e-9, 1e-12)

Real = int | float | Fraction | Decimal | np.integer | np.floating
"""What callers may write."""


def exact(value: Real, name: str, largest: int | None = None, *, remedy: str = "") -> Fraction:
    """The positive number the caller wrote: 0.3 means 3/10, the decimal typed, not its binary neighbour."""
    number = None
    if isinstance(value, Rational) and not isinstance(value, bool):
        number = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, Decimal) and value.is_finite():
        number = Fraction(value)
    elif isinstance(value, float | np.floating) and math.isfinite(value):
        number = Fraction(repr(float(value)))
    if number is None or number <= 0:
        given = f"{value!s:.40}" if isinstance(value, Number) else f"of type {type(value).__name__}"
        raise QueryError(f"{name} is {given}; it must be a finite number above 0{remedy}")
    if largest is not None and number > largest:
        raise QueryError(f"{name} is {float(number):.3g}, above {largest:,}: that protects nobody; give a smaller one")
    return number


@dataclass(frozen=True)
class Price:
    """What a release costs; `pure` is None where no pure guarantee exists."""

    pure: Fraction | None
    rho: Fraction

    def __post_init__(self) -> None:
        if self.rho < 0 or (self.pure is not None and self.pure < 0):
            raise QueryError(f"a price cannot be negative; got pure {self.pure}, rho {self.rho}")

    @classmethod
    def free(cls) -> Price:
        return cls(Fraction(0), Fraction(0))

    @classmethod
    def of_pure(cls, epsilon: Fraction) -> Price:
        """Pure epsilon implies zCDP epsilon^2 / 2 (Bun and Steinke 2016, Prop. 1.4; spec 3.2)."""
        return cls(epsilon, epsilon**2 / 2)

    def __add__(self, other: Price) -> Price:
        pure = None if self.pure is None or other.pure is None else self.pure + other.pure
        return Price(pure, self.rho + other.rho)

    def __mul__(self, count: int) -> Price:
        if count < 0:
            raise QueryError(f"a price cannot be paid {count} times; the count must be 0 or more")
        if count == 0:
            return Price.free()
        return Price(None if self.pure is None else self.pure * count, self.rho * count)

    __rmul__ = __mul__


def epsilon_of(rho: Real, delta: Real) -> float:
    """The tight epsilon at delta of rho-zCDP, rounded up (Canonne, Kamath, Steinke 2020, Prop. 12)."""
    d = _probability(delta)
    log_inverse_delta = math.log(d.denominator) - math.log(d.numerator)
    r = max(float(exact(rho, "rho")), 1e-300)

    # epsilon = min over a > 1 of  a rho + ln(1/(a delta))/(a - 1) + ln(1 - 1/a)
    # every a gives a valid bound, so an imperfect minimiser errs to the safe side
    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return (1 + excess) * r + (log_inverse_delta - math.log1p(excess)) / excess + (log_excess - math.log1p(excess))

    centre = 0.5 * math.log(log_inverse_delta / r)
    low = min((centre + step * 0.25 for step in range(-120, 41)), key=bound) - 0.25
    best = _golden_minimum(bound, low, low + 0.5)
    return max(0.0, best + 1e-12 * (1 + abs(best)))


def rho_of(epsilon: Real, delta: Real) -> float:
    """The largest rho whose tight conversion stays at or below epsilon at delta, rounded down (spec 3.1)."""
    target, d = float(exact(epsilon, "epsilon")), _probability(delta)
    low, high = 0.0, target
    while high > 0 and epsilon_of(high, d) <= target:
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high) or high - low <= 1e-14 * high:
            break
        low, high = (middle, high) if epsilon_of(middle, d) <= target else (low, middle)
    return low


def _golden_minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """The smallest value seen by golden section search on [low, high]."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    best = min(at_left, at_right)
    for _ in range(40):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
        best = min(best, at_left, at_right)
    return best


def _probability(delta: Real) -> Fraction:
    number = exact(delta, "delta", remedy=": drop delta for a pure budget")
    if not SMALLEST_DELTA <= number < 1:
        raise QueryError(f"delta is {float(number):.3g}; it must lie between 1e-300 and 1, best far below 1/records")
    return number


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """All that may ever be spent on one table: pure epsilon, zCDP rho, or (epsilon, delta) as its rho."""

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    limit: int

    def __init__(self, *, epsilon: Real | None = None, delta: Real | None = None, rho: Real | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise QueryError("a budget is epsilon, epsilon with delta, or rho; give exactly one of epsilon and rho")
        if rho is not None and delta is not None:
            raise QueryError("a rho budget takes no delta; drop delta, or give epsilon with delta")
        exact_epsilon = None if epsilon is None else exact(epsilon, "epsilon", LARGEST_BUDGET)
        exact_rho = None if rho is None else exact(rho, "rho", LARGEST_BUDGET)
        exact_delta = None if delta is None else _probability(delta)
        if exact_epsilon is not None and exact_delta is not None:
            exact_rho = Fraction(rho_of(exact_epsilon, exact_delta))
        amount = exact_epsilon if exact_rho is None else exact_rho
        assert amount is not None
        limit = math.floor(amount * NANO)
        if limit == 0:
            raise QueryError(f"the budget {float(amount):.3g} is below the smallest unit 1e-9; give a larger one")
        for name, value in (
            ("epsilon", exact_epsilon),
            ("delta", exact_delta),
            ("rho", exact_rho),
            ("limit", limit),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        written = ", ".join(f"{name}={float(Fraction(text)):g}" for name, text in self.to_dict().items())
        return f"Budget({written})"

    @property
    def pure(self) -> bool:
        """Whether the guarantee is pure epsilon; then only mechanisms with a pure price run."""
        return self.rho is None

    @property
    def unit(self) -> str:
        return "epsilon" if self.pure else "rho"

    def cost(self, price: Price) -> int:
        """Ledger units this price takes from this budget, rounded up."""
        if not self.pure:
            return math.ceil(price.rho * NANO)
        if price.pure is None:
            raise QueryError("a pure budget cannot pay for Gaussian noise; use Laplace, or a budget with delta or rho")
        return math.ceil(price.pure * NANO)

    def price(self, units: int) -> Price:
        """The price that so many ledger units of this budget paid."""
        paid = Fraction(units, NANO)
        return Price.of_pure(paid) if self.pure else Price(None, paid)

    def __add__(self, other: Budget) -> Budget:
        """What two budgets spent on one table guarantee together: pure only where both are (spec 3.2)."""
        total = self._whole + other._whole
        return Budget(rho=total.rho) if total.pure is None else Budget(epsilon=total.pure)

    @property
    def _whole(self) -> Price:
        return Price.of_pure(self.epsilon or Fraction(0)) if self.rho is None else Price(None, self.rho)

    def amount(self, units: int) -> float:
        """Ledger units as epsilon (pure) or rho, for display."""
        return units / NANO

    def guarantee(self, units: int | None = None) -> dict[str, Any]:
        """What `units` (default: all) guarantee: pure epsilon, or rho and epsilon at several deltas."""
        spent = self.limit if units is None else units
        if self.pure:
            return {"epsilon": spent / NANO}
        rho, own = Fraction(spent, NANO), () if self.delta is None else (float(self.delta),)
        deltas: list[float] = sorted({*REPORTED_DELTAS, *own}, reverse=True)
        return {
            "rho": float(rho),
            "epsilon": {delta: epsilon_of(rho, delta) if rho else 0.0 for delta in deltas},
        }

    def describe(self, units: int | None = None) -> str:
        """One line for reports."""
        facts = self.guarantee(units)
        if self.pure:
            return f"pure epsilon {facts['epsilon']:.6g}"
        pairs = ", ".join(f"epsilon {value:.4g} at delta {delta:.0e}" for delta, value in facts["epsilon"].items())
        return f"zCDP rho {facts['rho']:.6g}: {pairs}"

    def to_dict(self) -> dict[str, str]:
        """The parameters as the custodian wrote them, exact; `from_dict` restores an equal budget."""
        if self.epsilon is None:
            return {"rho": str(self.rho)}
        return {"epsilon": str(self.epsilon)} | ({} if self.delta is None else {"delta": str(self.delta)})

    @classmethod
    def from_dict(cls, written: Mapping[str, str]) -> Budget:
        return cls(**{name: Fraction(text) for name, text in written.items()})
