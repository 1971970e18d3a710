"""Prices in closed form, plans within their budget, analyses in their proven order."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import BudgetError, QueryError
from reticent.kernel.accounting import Budget, Price, epsilon_of
from reticent.releases.dualquery.analysis import amplified, analyse, sample_size
from reticent.releases.dualquery.plan import DRAWS_PER_ATTRIBUTE, MOST_DRAWS, DualQueryPlan, textbook, tuned


@given(
    st.integers(2, 10**6),
    st.integers(1, 40),
    st.integers(1, 9),
    st.fractions(min_value=Fraction(1, 100), max_value=9, max_denominator=100),
)
def test_the_price_is_the_sum_of_its_draws(records, rounds, draws, step):
    plan = DualQueryPlan(records, rounds, draws, step)
    total = Price.free()
    for turn in range(2, rounds + 1):
        total = total + plan.mechanism(turn).price() * draws
    assert plan.price == total


@settings(max_examples=30, deadline=None)
@given(
    st.integers(200, 10**6),
    st.sampled_from([Budget(epsilon=1), Budget(epsilon=0.2, delta=1e-9), Budget(rho=0.01)]),
    st.integers(1, 500),
)
def test_a_tuned_plan_spends_its_budget_and_no_more(records, budget, attributes):
    plan = tuned(records, budget, attributes=attributes)
    assert plan.cost(budget) <= budget.limit
    assert plan.cost(budget) > 0.98 * budget.limit - plan.rounds
    assert not replace(plan, step=plan.step * Fraction(11, 10)).fits(budget, budget.limit)


def test_what_is_given_is_kept():
    budget = Budget(epsilon=1, delta=1e-9)
    plan = tuned(10_000, budget, rounds=30, draws=4, step=Fraction(1, 2))
    assert (plan.rounds, plan.draws, plan.step) == (30, 4, Fraction(1, 2))
    assert tuned(10_000, budget, rounds=30).rounds == 30
    assert tuned(10_000, budget, units=budget.limit // 100).rounds < tuned(10_000, budget).rounds


@pytest.mark.parametrize(
    "arguments",
    [
        {"rounds": 10_000, "step": Fraction(9)},
        {"step": Fraction(10**6)},
        {"rounds": 10_000, "draws": 10**9},
        {"units": 0},
    ],
)
def test_what_cannot_be_paid_is_refused_with_both_amounts(arguments):
    with pytest.raises(BudgetError) as caught:
        tuned(1_000, Budget(epsilon=1, delta=1e-9), **arguments)
    assert caught.value.requested > caught.value.remaining


def test_textbook_parameters():
    plan = textbook(10**9, 1000, 20.0, error=0.1, failure=0.05)
    assert plan.rounds == math.ceil(16 * math.log(1000) / 0.01)
    assert plan.step == Fraction(1, 40)
    assert plan.draws == math.ceil(48 * (20 + math.log(2 * plan.rounds / 0.05)) / 0.01)
    assert (plan.replies, plan.memory) == (1, 1)
    with pytest.raises(QueryError, match="between 0 and 1"):
        textbook(10, 10, 1.0, error=1.5)


def test_analyses_keep_their_proven_order():
    """At small rho: half of 002's epsilon, 3.5 times below the original (spec 7.2), more by the tight conversion."""
    plan = DualQueryPlan(10**6, 100, 20, Fraction(1))
    found = analyse(plan, 1e-9)
    assert found.loss_distribution is not None
    assert found.loss_distribution < found.bounded_range < found.paper < found.original
    assert found.paper / found.bounded_range == pytest.approx(2, rel=0.1)
    plain = 2 * math.sqrt(float(plan.price.rho) * math.log(1e9))
    assert found.original / plain == pytest.approx(2 * math.sqrt(3), rel=0.02)
    assert found.bounded_range < plain
    assert len(found.lines()) == 5


def test_the_loss_distribution_is_exact_for_one_draw():
    """Two rounds, one draw: the profile itself, (exp(e/2) - exp(l/2))^2 / (exp(e) - 1)."""
    plan = DualQueryPlan(2, 2, 1, Fraction(1))
    level = analyse(plan, 0.05).loss_distribution
    assert level is not None
    profile = (math.exp(0.5) - math.exp(level / 2)) ** 2 / math.expm1(1.0)
    assert profile == pytest.approx(0.05, rel=0.1)
    assert profile <= 0.05 * (1 + 1e-6)


def reached(plan: DualQueryPlan, ends: list[float], level: float) -> float:
    """The hockey-stick divergence of draws with losses at both ends of intervals whose upper ends are given."""
    total = 0.0
    draws = [(float(plan.epsilon(turn)), end) for turn, end in zip(range(2, plan.rounds + 1), ends, strict=True)]
    for outcome in itertools.product((True, False), repeat=plan.draws * len(draws)):
        chance, loss = 1.0, 0.0
        for place, up in enumerate(outcome):
            epsilon, end = draws[place // plan.draws]
            high = (1 - math.exp(end - epsilon)) / (1 - math.exp(-epsilon))
            chance *= high if up else 1 - high
            loss += end if up else end - epsilon
        total += chance * max(0.0, -math.expm1(level - loss))
    return total


@pytest.mark.parametrize(("step", "delta"), [(Fraction(1), 0.02), (Fraction(1, 4), 1e-3), (Fraction(1, 10), 1e-4)])
def test_the_loss_distribution_bounds_every_composition_and_is_nearly_reached(step: Fraction, delta: float) -> None:
    """No choice of intervals reaches delta at the level found; at a slightly lower one some choice does."""
    plan = DualQueryPlan(10, 4, 2, step)
    level = analyse(plan, delta).loss_distribution
    assert level is not None
    shares = (0.0, 0.2, 0.35, 0.45, 0.5, 0.55, 0.65, 0.8, 1.0)
    choices = [[share * float(plan.epsilon(t)) for t, share in zip((2, 3, 4), each, strict=True)]
               for each in itertools.product(shares, repeat=3)]  # fmt: skip
    assert max(reached(plan, ends, level) for ends in choices) <= delta * (1 + 1e-9)
    assert max(reached(plan, ends, 0.9 * level) for ends in choices) > delta


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("records", [1, 1000])
@pytest.mark.parametrize(("epsilon", "given"), [(1000, {}), (1000, {"rounds": 2}), (100_000, {"step": 50})])
@pytest.mark.parametrize("delta", [None, 1e-9])
def test_plans_of_any_budget_are_analysed(
    records: int, epsilon: int, given: dict[str, int], delta: float | None
) -> None:
    budget = Budget(epsilon=epsilon) if delta is None else Budget(epsilon=epsilon, delta=delta)
    analyses = analyse(tuned(records, budget, **given), 1e-9).to_dict()
    assert all(value is None or math.isfinite(value) for value in analyses.values())


def test_a_sample_buys_no_privacy():
    plan = DualQueryPlan(50_000, 100, 10, Fraction(2))
    whole = amplified(plan, 50_000, 1e-9)
    assert whole.epsilon == pytest.approx(whole.whole_epsilon)
    for sample in (40_000, 10_000, 1_000):
        found = amplified(plan, sample, 1e-9)
        assert found.inner_rho == pytest.approx(float(plan.price.rho) * (50_000 / sample) ** 2)
        inner = epsilon_of(Fraction(found.inner_rho), 1e-9 * 50_000 / sample)
        assert found.inner_epsilon == pytest.approx(inner)
        assert found.whole_epsilon < found.epsilon < found.inner_epsilon
    assert sample_size(1000, error=0.1, failure=0.05) == math.ceil(2 * math.log(80_000) / 0.01)
    with pytest.raises(QueryError, match="between 1 and"):
        amplified(plan, 60_000, 1e-9)


@pytest.mark.parametrize("change", [{"rounds": 0}, {"draws": 0}, {"step": Fraction(0)}, {"replies": 0}, {"memory": 0}])
def test_a_plan_validates_itself(change):
    with pytest.raises(QueryError):
        replace(DualQueryPlan(10, 2, 1, Fraction(1)), **change)


def test_draws_a_round_are_limited_by_the_attributes():
    """A large budget buys rounds, not ever longer rounds."""
    budget = Budget(rho=1)
    assert tuned(10**6, budget, attributes=396).draws == DRAWS_PER_ATTRIBUTE * 396
    assert tuned(10**6, budget, attributes=41).draws == MOST_DRAWS
    assert tuned(10**6, budget, attributes=41, draws=5000).draws == 5000
