"""Budgets, prices and conversion: the paper's numbers, safe rounding, one-line refusals."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from reticent.errors import QueryError
from reticent.kernel import accounting
from reticent.kernel.accounting import (
    NANO,
    Budget,
    Price,
    epsilon_of,
    exact,
    gaussian_epsilon_of,
    gaussian_rho_of,
    rho_of,
)

REFUSED = [
    {"epsilon": 0},
    {"epsilon": -1},
    {"epsilon": math.inf},
    {"epsilon": math.nan},
    {"epsilon": "1"},
    {"epsilon": True},
    {"epsilon": 1e300},
    {"epsilon": np.array([1.0])},
    {"epsilon": Decimal("NaN")},
    {"epsilon": 1, "delta": 0},
    {"epsilon": 1, "delta": 1},
    {"epsilon": 1, "delta": 1.5},
    {"epsilon": 1, "delta": -1e-9},
    {"epsilon": 1, "delta": math.nan},
    {"epsilon": 1, "delta": Fraction(1, 10**301)},
    {"epsilon": 1, "rho": 1},
    {"rho": 0},
    {"rho": 1e7},
    {"rho": 1e-12},
    {"rho": 1, "delta": 1e-9},
    {"delta": 1e-9},
    {},
]


@pytest.mark.parametrize("parameters", REFUSED, ids=str)
def test_impossible_budgets_are_refused_in_one_line(parameters: dict) -> None:
    with pytest.raises(QueryError) as caught:
        Budget(**parameters)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 160


def test_refusals_name_the_kind_and_the_way_out() -> None:
    with pytest.raises(QueryError, match="epsilon is of type str; it must be a finite number above 0"):
        Budget(epsilon="1")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"delta is 0; .*: drop delta for a pure budget"):
        Budget(epsilon=1, delta=0)


def test_the_conversion_of_the_specification() -> None:
    assert rho_of(1, 1e-9) == pytest.approx(0.01497, abs=5e-6)
    assert Budget(epsilon=1, delta=1e-9).limit == math.floor(Fraction(rho_of(1, 1e-9)) * NANO)


@settings(max_examples=60)
@given(st.floats(1e-3, 30), st.floats(1e-15, 0.01))
def test_conversions_round_to_the_safe_side_and_invert(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * (1 + 1e-6), delta) > epsilon * (1 - 1e-9)


@settings(max_examples=60)
@given(st.floats(1e-8, 100), st.floats(1e-12, 0.1), st.floats(1.0001, 1000))
def test_no_order_beats_the_minimum(rho: float, delta: float, order: float) -> None:
    bound = order * rho + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)
    assert epsilon_of(rho, delta) <= max(bound, 0) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(("rho", "sigma"), [(0.5, 1.0), (0.02, 5.0), (0.005, 10.0)])
def test_conversion_covers_the_exact_gaussian_curve(rho: float, sigma: float) -> None:
    """Sound and not silly: the analytic Gaussian epsilon lies below, within 20%."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(e: float) -> float:
        return norm.cdf(1 / (2 * sigma) - e * sigma) - math.exp(e) * norm.cdf(-1 / (2 * sigma) - e * sigma) - 1e-6

    true = float(brentq(excess, 0, 50))
    assert true <= epsilon_of(rho, 1e-6) <= 1.2 * true


@pytest.mark.parametrize("noise", [None, "gaussian"])
def test_a_delta_set_aside_is_taken_off_before_the_conversion_and_in_every_statement(noise: str | None) -> None:
    """Mechanisms may fail with it beside what the conversion fails with: both together are at most delta."""
    implied, back = (rho_of, epsilon_of) if noise is None else (gaussian_rho_of, gaussian_epsilon_of)
    taken, rest = Fraction(4, 10**7), Fraction(6, 10**7)
    budget = Budget(epsilon=1, delta=1e-6, approximate=taken, noise=noise)
    assert budget.rho == Fraction(implied(1, rest)) < implied(1, 1e-6)
    stated = budget.guarantee()
    rho = Fraction(budget.limit, NANO)
    assert set(stated["epsilon"]) == {1e-6}, "smaller deltas are used up"
    assert stated["epsilon"][1e-6] == back(rho, rest) > back(rho, 1e-6)
    assert stated["epsilon"][1e-6] <= 1
    assert stated["approximate"] == float(taken)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
def test_the_delta_of_gaussian_noise_is_rounded_up(epsilon: float, mu: float) -> None:
    """By more than what floats lose, in logarithms (docs/proofs/gaussian-dp.md, claim 4)."""
    plain = [float(log_ndtr(sign * mu / 2 - epsilon / mu)) for sign in (1, -1)]
    unpadded = plain[0] + math.log(-math.expm1(epsilon + plain[1] - plain[0]))
    assert 5e-13 < accounting._log_gaussian_delta(epsilon, mu) - unpadded < 1e-8 * (1 + abs(unpadded))


def test_floats_mean_the_decimal_that_was_written() -> None:
    assert exact(0.1, "x") == exact(Decimal("0.1"), "x") == exact(np.float64(0.1), "x") == Fraction(1, 10)
    assert exact(np.int64(3), "x") == 3


def test_limits_round_down_and_costs_up() -> None:
    budget = Budget(rho=Fraction(1, 3))
    assert budget.limit == NANO // 3
    assert budget.cost(Price(None, Fraction(1, 3))) == NANO // 3 + 1
    assert budget.cost(Price.free()) == 0


def test_a_pure_budget_pays_only_pure_prices() -> None:
    with pytest.raises(QueryError, match="Laplace"):
        Budget(epsilon=1).cost(Price(None, Fraction(1, 100)))
    assert Budget(epsilon=1).cost(Price.of_pure(Fraction(1, 2))) == NANO // 2
    assert Budget(rho=1).cost(Price.of_pure(Fraction(1, 2))) == NANO // 8


def test_prices_are_never_negative() -> None:
    with pytest.raises(QueryError):
        Price(Fraction(-1), Fraction(0))
    with pytest.raises(QueryError):
        Price.free() * -1


@pytest.mark.parametrize("budget", [Budget(epsilon=0.3), Budget(epsilon=1, delta=1e-9), Budget(rho=0.05)])
def test_budget_survives_its_text_form(budget: Budget) -> None:
    assert Budget.from_dict(budget.to_dict()) == budget


def test_budget_shows_what_was_written() -> None:
    assert repr(Budget(epsilon=1, delta=1e-9)) == "Budget(epsilon=1, delta=1e-09)"
    assert repr(Budget(rho=0.05)) == "Budget(rho=0.05)"


def test_reports_state_rho_and_epsilon_at_several_deltas() -> None:
    budget = Budget(epsilon=1, delta=1e-5)
    stated = budget.guarantee()
    assert list(stated["epsilon"]) == sorted(stated["epsilon"], reverse=True)
    assert {1e-5, 1e-6, 1e-9, 1e-12} == set(stated["epsilon"])
    assert 0.999 < stated["epsilon"][1e-5] <= 1
    assert "rho" in budget.describe()
    assert "delta 1e-09" in budget.describe()
    assert budget.guarantee(0)["epsilon"][1e-6] == 0
    assert Budget(epsilon=2).describe() == "pure epsilon 2"


def test_a_group_has_the_guarantee_of_the_whole_budget() -> None:
    """Pure losses add over the members of a group, rho grows with the square of their number."""
    pure, zcdp, pair = Budget(epsilon=2), Budget(rho=0.02), Budget(epsilon=1, delta=1e-9)
    for size in (1, 2, 7):
        assert pure.for_group(size).epsilon * size == pure.epsilon
        assert zcdp.for_group(size).rho * size**2 == zcdp.rho
        assert epsilon_of(pair.for_group(size).rho * size**2, pair.delta) <= 1 + 1e-9
        group = Budget(epsilon=1, delta=1e-9, noise="gaussian").for_group(size)
        convert = gaussian_epsilon_of if group.gaussian else epsilon_of
        assert group.rho is not None
        assert convert(group.rho * size**2, 1e-9) <= 1 + 1e-9
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(QueryError, match="size"):
            pair.for_group(wrong)
    with pytest.raises(QueryError, match="smallest unit"):
        Budget(rho=1e-8).for_group(10)
