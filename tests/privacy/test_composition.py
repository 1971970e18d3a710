"""Prices add exactly; integers charged never undercut them."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from tests.privacy.exact_checks import check_cost_rounds_up

from reticent.kernel.accounting import NANO, Budget, Price
from reticent.kernel.mechanisms.base import AboveThreshold, Exponential, Gaussian, Laplace, Sensitivity

fractions = st.fractions(min_value=Fraction(1, 10**6), max_value=50, max_denominator=10**6)
prices = st.one_of(
    st.builds(lambda scale: Laplace(scale).price(Sensitivity(2, 2)), fractions),
    st.builds(lambda epsilon: Exponential(epsilon).price(), fractions),
    st.builds(lambda a, b: AboveThreshold(threshold_epsilon=a, query_epsilon=b).price(), fractions, fractions),
)
counts = st.integers(1, 40)


@given(prices, counts)
def test_composing_k_times_equals_once_with_count_k(price: Price, count: int) -> None:
    assert sum([price] * count, Price.free()) == price * count == count * price


deltas = st.fractions(min_value=0, max_value=Fraction(1, 10), max_denominator=10**6)


@given(deltas, deltas, counts)
def test_failure_probabilities_add_too(one: Fraction, other: Fraction, count: int) -> None:
    """Of mechanisms, and of the budgets of several ledgers about one table."""
    first, second = Price(None, Fraction(1, 3), one), Price(None, Fraction(1, 7), other)
    assert (first + second).delta == (second + first).delta == one + other
    assert (first * count).delta == one * count
    if one and other:
        both = Budget(rho=1, approximate=one) + Budget(rho=2, approximate=other)
        assert (both.rho, both.approximate) == (3, one + other)


@given(st.builds(lambda sigma: Gaussian(sigma).price(Sensitivity.scalar(1)), fractions), prices, counts)
def test_gaussian_makes_the_whole_not_pure(gaussian: Price, other: Price, count: int) -> None:
    total = gaussian * count + other
    assert total.pure is None
    assert total.rho == count * gaussian.rho + other.rho


@given(fractions, counts)
def test_draws_cost_as_much_as_single_draws(epsilon: Fraction, draws: int) -> None:
    assert Exponential(epsilon).price(draws) == Exponential(epsilon).price() * draws


@given(st.lists(prices, min_size=1, max_size=20), st.booleans())
def test_charges_cover_the_sum_over_events(events: list[Price], pure: bool) -> None:
    budget = Budget(epsilon=1) if pure else Budget(rho=1)
    check_cost_rounds_up(budget, events)
    together = sum(events, Price.free())
    assert budget.cost(together) <= sum(budget.cost(event) for event in events) <= budget.cost(together) + len(events)


@given(st.lists(prices, min_size=1, max_size=20), fractions)
def test_what_the_filter_admits_stays_within_the_budget(events: list[Price], rho: Fraction) -> None:
    """Greedy filter in ledger units; the exact prices of what it admits never exceed the exact budget."""
    budget = Budget(rho=rho)
    spent, admitted = 0, Price.free()
    for event in events:
        if spent + budget.cost(event) <= budget.limit:
            spent += budget.cost(event)
            admitted = admitted + event
    assert admitted.rho <= rho
    assert admitted.rho * NANO <= spent


def test_ten_tenths_fit_into_one() -> None:
    """0.1 means 1/10: ten releases at 0.03 fill a budget of 0.3 and no nano-unit is lost to binary floats."""
    budget = Budget(epsilon=0.3)
    assert 10 * budget.cost(Exponential(0.03).price()) == budget.limit
