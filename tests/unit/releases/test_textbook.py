"""The plan of the textbook release."""

from __future__ import annotations

import pytest

import reticent as rt
from reticent.kernel.mechanisms.base import Exponential, Laplace, Sensitivity
from reticent.releases.textbook import textbook_plan


@pytest.mark.parametrize("budget", [rt.Budget(epsilon=1), rt.Budget(epsilon=1, delta=1e-9), rt.Budget(rho=3e-7)])
@pytest.mark.parametrize("error", [0.05, 0.2, 0.9])
def test_every_planned_round_of_the_textbook_can_be_paid(budget: rt.Budget, error: float) -> None:
    plan = textbook_plan(error, 0.05, 1000, 5.0, budget, budget.limit)
    if plan.epsilon:
        prices = Exponential(plan.epsilon).price(), Laplace(1 / plan.epsilon).price(Sensitivity.scalar())
        assert plan.rounds * sum(map(budget.cost, prices)) <= budget.limit
