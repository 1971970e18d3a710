"""The planner's labelled assumption meets what was measured, and its formulas count what a budget pays."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.planning.plan import PRACTICAL, Setting, plain_answers

ADULT = rt.Domain({"education": 16, "marital": 7, "occupation": 15, "race": 5, "sex": 2, "income": 2, "age": 10})
BUDGET = rt.Budget(epsilon=1, delta=1e-9)


@pytest.mark.parametrize(("records", "seen"), [(48_842, 1e3), (10**6, 3e3), (10**7, 7e3)])
def test_the_crossover_is_near_the_one_that_was_seen(records: int, seen: float) -> None:
    """Figures of online.md, section 4; within a factor of two."""
    plan = rt.plan(records=records, domain=ADULT, budget=BUDGET, queries=10**5)
    assert plan.crossover is not None
    assert seen / 2 < plan.crossover < 2 * seen


@pytest.mark.parametrize(("records", "bound"), [(48_842, 0.0117), (10**6, 0.0011), (10**7, 0.00016)])
def test_the_expectation_is_near_what_audits_certified(records: int, bound: float) -> None:
    plan = rt.plan(records=records, domain=ADULT, budget=BUDGET)
    practical = next(option.error for option in plan.options if option.name == PRACTICAL)
    assert bound / 2 < practical < 2 * bound


def test_plain_answers_are_as_many_as_the_budget_pays() -> None:
    setting = Setting(
        records=48_842, log_universe=math.log(2), queries=1, failure=0.05, pure=False, amount=float(BUDGET.rho or 0)
    )
    # One costs z^2 / (2 n^2 a^2) of rho, z = 1.96.
    one = 1.959964**2 / (2 * (48_842 * 0.01) ** 2)
    assert plain_answers(setting, 0.01) == pytest.approx(float(BUDGET.rho or 0) / one, abs=2)


def test_plans_state_the_budget_that_a_new_ledger_composes() -> None:
    """In print, in notebooks and for losses: default sessions and releases compose (1, 1e-9) exactly."""
    composed = rt.Budget(epsilon=1, delta=1e-9, noise="gaussian")
    loss = rt.Logistic(features=["age", "race"], label="sex", radius=2)
    queries = rt.plan(records=9000, domain=ADULT, budget=BUDGET)
    losses = rt.plan(records=900_000, domain=ADULT, losses=loss, budget=BUDGET, count=2)
    for text in (str(queries), queries._repr_html_(), queries.guarantee, str(losses), losses._repr_html_()):
        assert composed.describe() in text
    same = rt.plan(records=900_000, domain=ADULT, losses=loss, budget=rt.Budget(rho=composed.rho), count=2)
    values = [{row.mechanism: row.value for row in plan.rows} for plan in (losses, same)]
    for mechanism in ("a minimiser each", "an audit each (default)"):
        assert values[0][mechanism] == pytest.approx(values[1][mechanism], rel=1e-6)
    assert values[0]["ConvexPMW (offline)"] >= values[1]["ConvexPMW (offline)"]


def test_the_least_budget_for_losses_is_the_one_that_reaches_their_error() -> None:
    facts = {"domain": ADULT, "losses": rt.Logistic(features=["age"], label="sex", radius=1), "records": 10**5}
    found = rt.plan(error=0.05, count=1, **facts)
    assert found.choice.mechanism == "one private minimiser"
    epsilon = float(found.advice.split("epsilon ")[1].split()[0])
    for factor, reached in ((1.02, True), (0.95, False)):
        again = rt.plan(budget=rt.Budget(epsilon=epsilon * factor, delta=1e-9), count=1, **facts)
        assert (again.choice.value <= 0.05) == reached


def test_plans_of_the_same_facts_are_equal() -> None:
    facts = {"domain": ADULT, "budget": BUDGET}
    one, two = rt.plan(records=900, queries=5, **facts), rt.plan(records=np.int64(900), queries=np.int64(5), **facts)
    assert one == two
    assert hash(one) == hash(two)
    assert one != rt.plan(records=901, queries=5, **facts)
    assert json.loads(json.dumps(two.to_dict()))["records"] == 900


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"budget": 1.0}, "budget is of type float; give rt.Budget"),
        ({"domain": {"a": 3}}, "domain is of type dict; give rt.Domain"),
        ({"records": None}, "give a public estimate"),
        ({"records": 2.5}, "records=2.5 must be a whole number, at least 1"),
        ({"queries": "many"}, "queries is of type str; give a whole number"),
        ({"queries": -(10**5000)}, "too long to show"),
        ({"confidence": "high"}, "confidence is of type str"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_plan_refuses_what_it_cannot_use_in_one_line(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(rt.QueryError, match=told) as refused:
        rt.plan(**{"records": 900, "domain": ADULT, "budget": BUDGET, **changed})
    assert "\n" not in str(refused.value)


def test_records_budget_and_error_follow_from_each_other() -> None:
    """Each from the other two, for every mechanism whose formula reaches the error at all."""
    domain, budget, error = rt.Domain({f"a{i}": 2 for i in range(12)}), rt.Budget(epsilon=2, delta=1e-6), 0.2
    made = rt.plan(records=10**6, domain=domain, budget=budget, queries=500)
    for name, needed in made.records_needed(error).items():
        if needed == float("inf"):
            continue
        enough = rt.plan(records=round(needed), domain=domain, budget=budget, queries=500)
        assert next(o.error for o in enough.options if o.name == name) <= error
        fewer = rt.plan(records=round(0.99 * needed), domain=domain, budget=budget, queries=500)
        assert next(o.error for o in fewer.options if o.name == name) > error * 0.995
        if name != "Hardt-Rothblum (online)":
            assert enough.needed(error)[name] == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"losses": rt.Logistic(features=["sex"], label="race"), "queries": 400, "records": 900}, "count="),
        ({"records": 900, "count": 400}, "queries="),
        ({"records": 900, "neighbours": "add-remove"}, "is for losses"),
    ],
)
def test_what_would_have_no_effect_is_refused(given: dict[str, Any], remedy: str) -> None:
    with pytest.raises(rt.QueryError, match=remedy):
        rt.plan(domain=ADULT, budget=BUDGET, **given)
