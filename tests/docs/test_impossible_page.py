"""docs/impossible.md states what the plan computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reticent as rt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "impossible.md"
DOMAIN = rt.Domain({"education": 16, "marital": 7, "occupation": 15, "race": 5, "sex": 2, "income": 2, "age": 10})


USUAL = rt.Logistic(features=["education", "sex", "age"], label="income").radius


def of_400(radius: float = 2) -> dict[str, float]:
    loss = rt.Logistic(features=["education", "sex", "age"], label="income", radius=radius)
    plan = rt.plan(domain=DOMAIN, losses=[loss], count=400, records=48842, error=0.05)
    return {row.mechanism: row.value for row in plan.rows if row.family != "generalised linear"}


def test_numbers_of_the_page_are_those_of_the_plan() -> None:
    page = dict(re.findall(r"^\| ([^|]+?) \| ([0-9.]+) \|$", PAGE.read_text(), re.MULTILINE))
    planned = of_400()
    stated = {
        "a private minimiser each": planned["a minimiser each"],
        "the online mechanism (`convex-tuned`)": planned["convex-tuned (online)"],
        "an audit each of the hypothesis' own models": planned["an audit each (default)"],
    }
    assert set(page) == set(stated)
    for way, rho in stated.items():
        assert float(page[way]) == pytest.approx(rho, rel=0.01), way


def test_the_default_radius_costs_what_the_page_says() -> None:
    assert f"default radius of {USUAL:g}" in PAGE.read_text()
    name, text = "an audit each (default)", PAGE.read_text()
    assert of_400(USUAL)[name] / of_400()[name] == pytest.approx(
        float(*re.findall(r"costs (\d+) times", text)), rel=0.05
    )
    budget = rt.Budget(epsilon=1, delta=1e-9)
    most = int(400 * budget.amount(budget.limit) / of_400(USUAL)[name])
    assert f"audits at most {most} such" in text
