"""Prices, budgets and the conversion between them, in exact numbers (spec 3; docs/proofs/accounting.md).

`Described` is the base of every mechanism: it names the proof and writes the parameters as exact text for the ledger.
"""

# Arguments are checked at run time too, for callers without a type checker.
# pyright: reportUnnecessaryIsInstance=false, reportMissingTypeStubs=false
from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from numbers import Number, Rational
from typing import Any, ClassVar

import numpy as np

from reticent.errors import QueryError, whole_number

NANO = 10**9
"""Ledger units in one unit of epsilon or rho."""

LARGEST_BUDGET = 10**6
SMALLEST_DELTA = Fraction(1, 10**300)
REPORTED_DELTAS = (1e-6, 1e-9, 1e-12)
GAUSSIAN, ANY = "gaussian", "any"
"""How the prices of a budget compose: as those of Gaussian noise (docs/proofs/gaussian-dp.md), or as zCDP."""
BESIDE_GAUSSIAN = Fraction(355, 226)
"""Above pi/2: the GDP price of other noise over its zCDP price (claim 5)."""
SMALLEST_GAUSSIAN = Fraction(11, 10)
"""In grid steps: from here on discrete Gaussian noise is known to be as private as its GDP price says (claim 1)."""

_FRACTION = re.compile(r"\d{1,1200}(/0*[1-9]\d{0,1200})?", re.ASCII)

Real = int | float | Fraction | Decimal | np.integer | np.floating
"""What callers may write."""


def is_zero(value: object) -> bool:
    """Whether the argument is the number zero; an array or a frame given by mistake is not compared."""
    return isinstance(value, Real) and value == 0


def exact(value: Real, name: str, largest: int | None = None, *, remedy: str = "") -> Fraction:
    """The positive number that the caller wrote: 0.3 means 3/10, the decimal as typed, not the nearest double."""
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
        raise QueryError(f"{name} is {_shown(number)}, above {largest:,}: that protects nobody; give a smaller one")
    return number


def written_fraction(text: object) -> Fraction:
    """Parse a number as `str(Fraction)` writes it, the only form in files: a short text never yields a huge number."""
    if not isinstance(text, str) or _FRACTION.fullmatch(text) is None:
        raise QueryError("a stored number must be one integer, or two integers joined by a slash")
    return Fraction(text)


def _shown(number: Fraction) -> str:
    """A short approximate text, also for numbers beyond the range of floats."""
    return f"{float(number):.3g}" if number < 1e300 else "beyond 1e300"


@dataclass(frozen=True)
class Price:
    """The price of a release; `pure` is None if it has no pure guarantee.

    `delta` is the probability with which the release is not covered by `rho`: delta-approximate zCDP (Bun and Steinke
    2016, Def. 8.1). Deltas add like rho (docs/proofs/accounting.md). `gaussian` is half of mu squared where the release
    is mu-GDP; None where it is not known to be (docs/proofs/gaussian-dp.md).
    """

    pure: Fraction | None
    rho: Fraction
    delta: Fraction = Fraction(0)
    gaussian: Fraction | None = None

    def __post_init__(self) -> None:
        if self.delta < 0 or any(part is not None and part < 0 for part in (self.pure, self.rho, self.gaussian)):
            raise QueryError(f"a price cannot be negative; got pure {self.pure}, rho {self.rho}, delta {self.delta}")
        if self.delta and (self.pure is not None or self.gaussian is not None):
            raise QueryError("a release that fails with some probability has no pure or GDP price; leave them out")

    @classmethod
    def free(cls) -> Price:
        return cls(Fraction(0), Fraction(0), gaussian=Fraction(0))

    @classmethod
    def of_pure(cls, epsilon: Fraction) -> Price:
        """Pure epsilon implies zCDP epsilon^2 / 2 (Bun and Steinke 2016, Prop. 1.4; spec 3.2)."""
        return cls.bounded(epsilon, epsilon**2 / 2)

    @classmethod
    def bounded(cls, epsilon: Fraction, rho: Fraction) -> Price:
        """The price of Laplace noise or a selection, from its pure and its zCDP price (gaussian-dp.md, claim 5)."""
        return cls(epsilon, rho, gaussian=rho * BESIDE_GAUSSIAN)

    def __add__(self, other: Price) -> Price:
        pure = None if self.pure is None or other.pure is None else self.pure + other.pure
        gaussian = None if self.gaussian is None or other.gaussian is None else self.gaussian + other.gaussian
        return Price(pure, self.rho + other.rho, self.delta + other.delta, gaussian)

    def __mul__(self, count: int) -> Price:
        if count < 0:
            raise QueryError(f"a price cannot be paid {count} times; the count must be 0 or more")
        if count == 0:
            return Price.free()
        pure = None if self.pure is None else self.pure * count
        gaussian = None if self.gaussian is None else self.gaussian * count
        return Price(pure, self.rho * count, self.delta * count, gaussian)

    __rmul__ = __mul__


def epsilon_of(rho: Real, delta: Real) -> float:
    """The tight epsilon at delta of rho-zCDP, rounded up (Canonne, Kamath, Steinke 2020, Prop. 12)."""
    d = _probability(delta)
    log_inverse_delta = math.log(d.denominator) - math.log(d.numerator)
    r = max(float(exact(rho, "rho")), 1e-300)

    # epsilon = min over a > 1 of  a rho + ln(1/(a delta))/(a - 1) + ln(1 - 1/a)
    # every a gives a valid bound, so an imperfect minimiser errs in the safe direction
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
    return _turning(lambda rho: epsilon_of(rho, d) <= target, target)[0]


def gaussian_epsilon_of(rho: Real, delta: Real) -> float:
    """The epsilon at delta of mu-GDP with mu^2 / 2 = rho, rounded up (Dong, Roth, Su 2022, Cor. 2.13)."""
    mu, log_delta = math.sqrt(2 * max(float(exact(rho, "rho")), 1e-300)), _log(_probability(delta))
    if _log_gaussian_delta(0.0, mu) <= log_delta:
        return 0.0
    return _turning(lambda epsilon: _log_gaussian_delta(epsilon, mu) > log_delta, 1.0)[1]


def gaussian_rho_of(epsilon: Real, delta: Real) -> float:
    """The largest mu^2 / 2 that implies (epsilon, delta), rounded down."""
    target, log_delta = float(exact(epsilon, "epsilon")), _log(_probability(delta))
    start = rho_of(epsilon, delta)
    return _turning(lambda rho: _log_gaussian_delta(target, math.sqrt(2 * rho)) <= log_delta, start)[0]


def _turning(holds: Callable[[float], bool], high: float) -> tuple[float, float]:
    """Where `holds`, true at 0, turns false: two floats next to each other there, searched upwards from `high`."""
    low = 0.0
    while high > 0 and holds(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high) or high - low <= 1e-14 * high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _log_gaussian_delta(epsilon: float, mu: float) -> float:
    """ln delta of mu-GDP at epsilon, rounded up: Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)."""
    from scipy.special import log_ndtr

    if mu == 0:
        return -math.inf
    first, second = float(log_ndtr(-epsilon / mu + mu / 2)), float(log_ndtr(-epsilon / mu - mu / 2))
    # The difference of the logarithms is known to about 1e-13 of their size.
    slack = 1e-12 * (1 + abs(first))
    return first + math.log(min(1.0, -math.expm1(epsilon + second - first) + slack)) + slack


def _log(number: Fraction) -> float:
    return math.log(number.numerator) - math.log(number.denominator)


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
        raise QueryError(f"delta is {_shown(number)}; it must lie between 1e-300 and 1, best far below 1/records")
    return number


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """The total privacy budget of one table.

    Args:
        epsilon: Pure epsilon, or epsilon at `delta`.
        delta: The failure probability of epsilon; it should be far below 1/records.
        rho: The parameter of zero-concentrated differential privacy, instead of epsilon and delta.
        noise: How prices compose. "gaussian" composes Gaussian noise exactly, which buys 10% to 20% more of it for an
            (epsilon, delta) budget, and prices all other noise at 1.57 times its zCDP price. "any" composes all noise
            as zCDP. Left out, the first opening of a ledger decides: "gaussian" for sessions and releases with default
            settings, which need no other noise, "any" for the papers' algorithms.
        approximate: The part of delta that is reserved for mechanisms with their own delta (private discovery of
            categories); it is subtracted from delta before the conversion to rho.

    Raises:
        QueryError: The parameters contradict each other or give no protection.

    Example:
        >>> float(Budget(epsilon=1, delta=1e-9).rho), float(Budget(epsilon=1, delta=1e-9, noise="gaussian").rho)
        (0.01497..., 0.01655...)
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    limit: int
    approximate: Fraction
    noise: str | None

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        noise: str | None = None,
        approximate: Real | None = None,
    ) -> None:
        if (epsilon is None) == (rho is None):
            raise QueryError("a budget is epsilon, epsilon with delta, or rho; give exactly one of epsilon and rho")
        if rho is not None and delta is not None:
            raise QueryError("a rho budget takes no delta; drop delta, or give epsilon with delta")
        if noise is not None and not (isinstance(noise, str) and noise in (GAUSSIAN, ANY)):
            raise QueryError('noise may be "gaussian", to compose Gaussian noise exactly, or "any"; or leave it out')
        if noise == GAUSSIAN and rho is None and delta is None:
            raise QueryError('a pure budget cannot pay for Gaussian noise; give delta, or leave out noise="gaussian"')
        exact_epsilon = None if epsilon is None else exact(epsilon, "epsilon", LARGEST_BUDGET)
        exact_rho = None if rho is None else exact(rho, "rho", LARGEST_BUDGET)
        exact_delta = None if delta is None else _probability(delta)
        taken = Fraction(0) if approximate is None or is_zero(approximate) else _probability(approximate)
        if taken and exact_epsilon is not None and (exact_delta is None or taken >= exact_delta):
            raise QueryError(f"approximate={_shown(taken)} must be less than delta; give more delta, or less of it")
        if exact_epsilon is not None and exact_delta is not None:
            implied = gaussian_rho_of if noise == GAUSSIAN else rho_of
            exact_rho = Fraction(implied(exact_epsilon, exact_delta - taken))
        amount = exact_epsilon if exact_rho is None else exact_rho
        assert amount is not None
        limit = math.floor(amount * NANO)
        if limit == 0:
            raise QueryError(f"the budget {float(amount):.3g} is below the smallest unit 1e-9; give a larger one")
        stated = {"epsilon": exact_epsilon, "delta": exact_delta, "rho": exact_rho}
        for name, value in (stated | {"limit": limit, "approximate": taken, "noise": noise}).items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        numbers = ((name, text) for name, text in self.to_dict().items() if name != "noise")
        written = ", ".join(f"{name}={float(Fraction(text)):g}" for name, text in numbers)
        return f"Budget({written}{'' if self.noise is None else f', noise={self.noise!r}'})"

    @property
    def gaussian(self) -> bool:
        """Whether prices compose as Gaussian noise does, by mu^2 / 2 of GDP; otherwise as zCDP, or as pure epsilon."""
        return self.noise == GAUSSIAN

    def composed_like(self, noise: str | None) -> Budget:
        """This budget in the units of a ledger.

        Args:
            noise: The `noise` of the ledger's budget.

        Returns:
            This budget; if it leaves `noise` out and states epsilon and delta, with that of the ledger.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(epsilon=1, delta=1e-9).composed_like("gaussian")
            Budget(epsilon=1, delta=1e-09, noise='gaussian')
        """
        if noise != GAUSSIAN or self.noise is not None or self.delta is None:
            return self
        return Budget(epsilon=self.epsilon, delta=self.delta, approximate=self.approximate, noise=noise)

    @property
    def pure(self) -> bool:
        """Whether the guarantee is pure epsilon; only mechanisms with a pure price are then allowed."""
        return self.rho is None

    @property
    def unit(self) -> str:
        return "epsilon" if self.pure else "rho"

    def cost(self, price: Price) -> int:
        """The cost of a price under this budget, in ledger units.

        Args:
            price: The price of a mechanism.

        Returns:
            Nano-units, rounded up. The price's delta is counted separately.

        Raises:
            QueryError: This kind of budget does not allow this kind of noise.

        Example:
            >>> from fractions import Fraction
            >>> import reticent as rt
            >>> from reticent.kernel.accounting import Price
            >>> rt.Budget(epsilon=1).cost(Price.of_pure(Fraction(1, 2)))
            500000000
        """
        if self.pure and price.delta:
            raise QueryError("a pure budget cannot pay for a threshold, which fails with some delta; give delta, too")
        if self.gaussian:
            return self._gaussian_cost(price)
        if not self.pure:
            return math.ceil(price.rho * NANO)
        if price.pure is None:
            raise QueryError("a pure budget cannot pay for Gaussian noise; use Laplace, or a budget with delta or rho")
        return math.ceil(price.pure * NANO)

    def _gaussian_cost(self, price: Price) -> int:
        if price.gaussian is not None:
            return math.ceil(price.gaussian * NANO)
        # Beyond the whole budget, the amount says so better than the kind of noise.
        if (least := math.ceil(price.rho * NANO)) > self.limit:
            return least
        kind = "a threshold, which may fail" if price.delta else "Gaussian noise below 1.1 steps of its grid"
        raise QueryError(f'this budget composes exactly, which {kind} cannot; open the ledger with noise="any"')

    def amount_of_other_noise(self, units: int) -> Fraction:
        """The amount of Laplace noise or selections for which a number of ledger units pays.

        Args:
            units: Nano-units.

        Returns:
            Their largest price: pure epsilon of a pure budget, otherwise rho.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(rho=1).amount_of_other_noise(250_000_000)
            Fraction(1, 4)
        """
        return Fraction(units, NANO) / (BESIDE_GAUSSIAN if self.gaussian else 1)

    def price(self, units: int) -> Price:
        """The price that a number of ledger units of this budget paid.

        Args:
            units: Nano-units.

        Returns:
            The price.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(epsilon=1).price(500_000_000).pure
            Fraction(1, 2)
        """
        paid = Fraction(units, NANO)
        return Price.of_pure(paid) if self.pure else Price(None, paid, gaussian=paid if self.gaussian else None)

    def __add__(self, other: Budget) -> Budget:
        """The joint guarantee of two budgets spent on one table; pure only if both are (spec 3.2).

        Gaussian and pure budgets together hold as GDP and as zCDP: what implies less epsilon is stated.
        """
        total = self._whole + other._whole
        if total.pure is not None:
            return Budget(epsilon=total.pure)
        exact_rho, delta = total.gaussian, REPORTED_DELTAS[1]
        if exact_rho is not None and gaussian_epsilon_of(exact_rho, delta) <= epsilon_of(total.rho, delta):
            return Budget(rho=exact_rho, noise=GAUSSIAN)
        return Budget(rho=total.rho, approximate=total.delta)

    @property
    def _whole(self) -> Price:
        if self.rho is None:
            return Price.of_pure(self.epsilon or Fraction(0))
        # A mechanism that may fail has no GDP price.
        gaussian = self.rho if self.gaussian and not self.approximate else None
        return Price(None, self.rho, self.approximate, gaussian)

    def for_group(self, size: int) -> Budget:
        """The budget that gives any group of `size` records the guarantee of this one (group privacy).

        Neighbours `size` records apart are `size` steps apart: pure losses add, and rho grows with the square
        (Bun and Steinke 2016, Proposition 27), as mu^2 / 2 of Gaussian noise does (Dong, Roth, Su 2022, Thm 2.14).

        Args:
            size: The number of records that are protected together, for example those of a household.

        Returns:
            A pure budget of epsilon / size, or a budget of rho / size^2; for Gaussian noise only if this one is.

        Raises:
            QueryError: `size` is not a whole number of at least 1, or the result would be zero.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(epsilon=1).for_group(4)
            Budget(epsilon=0.25)
            >>> rt.Budget(rho=0.08).for_group(2)
            Budget(rho=0.02)
        """
        size = whole_number(size, "size", 1)
        if self.rho is None:
            assert self.epsilon is not None, "a pure budget"
            return Budget(epsilon=self.epsilon / size)
        # The rho of a Gaussian budget is half of mu squared; as plain zCDP it would give a weaker guarantee.
        return self if size == 1 else Budget(rho=self.rho / size**2, noise=self.noise)

    def amount(self, units: int) -> float:
        """Convert ledger units to epsilon (pure budgets) or rho, for display.

        Args:
            units: Ledger units; one thousand million units are an amount of 1.

        Returns:
            The amount.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(rho=1).amount(250_000_000)
            0.25
        """
        return units / NANO

    def guarantee(self, units: int | None = None) -> dict[str, Any]:
        """The guarantee after spending `units`: pure epsilon, or rho and epsilon at several deltas.

        Each delta includes the failure probability of the mechanisms; deltas no larger than that are left out.

        Args:
            units: Ledger units; by default the whole budget.

        Returns:
            Plain values.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(epsilon=1).guarantee()
            {'epsilon': 1.0}
        """
        spent = self.limit if units is None else units
        if self.pure:
            return {"epsilon": spent / NANO}
        rho, own = Fraction(spent, NANO), () if self.delta is None else (float(self.delta),)
        taken = self.approximate
        deltas: list[float] = sorted({*REPORTED_DELTAS, *own}, reverse=True)
        implied = gaussian_epsilon_of if self.gaussian else epsilon_of
        rests = {delta: exact(delta, "delta") - taken for delta in deltas}
        epsilons = {delta: implied(rho, rest) if rho else 0.0 for delta, rest in rests.items() if rest > 0}
        if not epsilons:  # every usual delta is used up: a report still states one
            delta = float(2 * taken)
            epsilons = {delta: implied(rho, exact(delta, "delta") - taken) if rho else 0.0}
        stated = {"rho": float(rho), "epsilon": epsilons} | ({"approximate": float(taken)} if taken else {})
        return stated | ({"mu": math.sqrt(2 * rho)} if self.gaussian else {})

    def describe(self, units: int | None = None) -> str:
        """The budget in one line, for reports.

        Args:
            units: Ledger units spent; by default the whole budget.

        Returns:
            The text.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(epsilon=1).describe()
            'pure epsilon 1'
        """
        facts = self.guarantee(units)
        if self.pure:
            return f"pure epsilon {facts['epsilon']:.6g}"
        pairs = ", ".join(f"epsilon {value:.4g} at delta {delta:.0e}" for delta, value in facts["epsilon"].items())
        approximate = f", approximate at delta {facts['approximate']:.3g}" if self.approximate else ""
        curve = f" and GDP mu {facts['mu']:.4g}" if self.gaussian else ""
        return f"zCDP rho {facts['rho']:.6g}{curve}{approximate}: {pairs}"

    def to_dict(self) -> dict[str, str]:
        """The exact parameters as the custodian wrote them.

        Returns:
            The fields; `from_dict` restores an equal budget.

        Example:
            >>> import reticent as rt
            >>> rt.Budget(epsilon=1).to_dict()
            {'epsilon': '1'}
        """
        terms = {"approximate": str(self.approximate)} if self.approximate else {}
        terms |= {} if self.noise is None else {"noise": self.noise}
        if self.epsilon is None:
            return {"rho": str(self.rho)} | terms
        return {"epsilon": str(self.epsilon)} | ({} if self.delta is None else {"delta": str(self.delta)}) | terms

    @classmethod
    def from_dict(cls, written: Mapping[str, str]) -> Budget:
        """Restore a budget from the fields that `to_dict` returned.

        Args:
            written: The fields.

        Returns:
            The budget.

        Raises:
            QueryError: A field is unknown or not a number.

        Example:
            >>> import reticent as rt
            >>> rt.Budget.from_dict({"epsilon": "1"})
            Budget(epsilon=1)
        """
        known = {"epsilon", "delta", "rho", "approximate", "noise"}
        if not isinstance(written, Mapping) or not set(written) <= known:
            raise QueryError(
                "a stored budget has epsilon, epsilon and delta, or rho, and optionally approximate or noise"
            )
        numbers = {name: written_fraction(text) for name, text in written.items() if name != "noise"}
        return cls(**numbers, noise=written.get("noise"))


class Described:
    """Base of the mechanisms, all frozen dataclasses of exact numbers."""

    proof: ClassVar[str]

    def describe(self) -> dict[str, str]:
        """Name and exact parameters; `mechanisms.restore` reads them, so that past charges can be recomputed."""
        parameters = {field.name: str(getattr(self, field.name)) for field in fields(self)}  # pyright: ignore[reportArgumentType]
        return {"mechanism": type(self).__name__, **parameters}
