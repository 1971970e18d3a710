"""The transfer theorem's constants, and what other neighbours make of them."""

from __future__ import annotations

import math

import pytest

import reticent as rt
from reticent.kernel.accounting import epsilon_of
from reticent.knowledge.population import expected_bias, generalisation


def test_a_pure_budget_adds_what_privacy_allows() -> None:
    """error + (exp(epsilon) - 1) + c, the failure c times smaller; constant errors make the least c best."""
    bound = generalisation(rt.Budget(epsilon=0.05), lambda failure: 0.01, failure=0.05)
    assert bound == pytest.approx(0.01 + math.expm1(0.05) + 1e-5)


def test_an_approximate_budget_spends_half_its_failure_on_delta() -> None:
    asked: list[float] = []

    def sample_error(failure: float) -> float:
        asked.append(failure)
        return 0.01

    budget = rt.Budget(rho=1e-4)
    assert budget.rho is not None
    bound = generalisation(budget, sample_error, failure=0.05)
    powers = [10.0**power for power in range(-14, -3)]
    expected = min(math.expm1(epsilon_of(budget.rho, delta)) + 4 * delta / 0.05 for delta in powers) + 0.01 + 1e-5
    assert bound == pytest.approx(expected)
    assert min(asked) == pytest.approx(0.025 * 1e-5)


@pytest.mark.parametrize("budget", [rt.Budget(epsilon=0.05), rt.Budget(rho=1e-4)])
def test_replacing_a_record_is_two_steps_under_add_remove(budget: rt.Budget) -> None:
    one = generalisation(budget, lambda failure: 0.0, failure=0.05)
    two = generalisation(budget, lambda failure: 0.0, failure=0.05, neighbours="add-remove")
    assert 2 * one < two < 3 * one


def test_the_expected_bias_is_that_of_mutual_information() -> None:
    assert expected_bias(rt.Budget(rho=0.02)) == pytest.approx(0.1)
    assert expected_bias(rt.Budget(epsilon=0.2)) == pytest.approx(0.1)
    assert expected_bias(rt.Budget(epsilon=100)) == 1.0


def test_nothing_is_claimed_beyond_one() -> None:
    assert generalisation(rt.Budget(epsilon=5), lambda failure: 0.01, failure=0.05) == 1.0
