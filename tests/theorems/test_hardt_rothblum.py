"""The constants of Hardt and Rothblum's own paper (003, Definition 3.1), and 004's certificate of 3a/4."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from tests.session_tables import forbidden
from tests.theorems.test_online import ALL, cube_table, predicate, stingy, worst

import reticent as rt
from reticent.errors import QueryError
from reticent.planning.formulas import records_needed
from reticent.planning.plan import (
    LEDGER_ROUNDING,
    Setting,
    hardt_rothblum_constants,
    hardt_rothblum_online,
    textbook_parameter,
)
from reticent.planning.thresholds import epoch_plan
from reticent.sessions.session import Session

LARGE = rt.Budget(epsilon=10, delta=0.01)
"""At usual budgets the constants say something from 10^10 records on: the planner shows it, a test needs fewer."""
SETTING = Setting(
    records=10**8, log_universe=12.0, queries=10_000, failure=0.05, pure=False, amount=0.01497, delta=1e-9
)


def test_the_constants_are_those_of_the_definition() -> None:
    found = hardt_rothblum_constants(SETTING)
    assert found is not None
    n, epsilon = SETTING.records, 1.0
    assert found["sigma"] == pytest.approx(10 * math.log(1e9) * 12**0.25 / (math.sqrt(n) * epsilon), rel=1e-3)
    assert found["step"] == pytest.approx(12**0.25 / math.sqrt(n))
    assert found["threshold"] == pytest.approx(4 * found["sigma"] * math.log(3 * 10_000 / 0.05), rel=1e-9)
    assert found["epochs"] <= n * math.sqrt(12)
    assert hardt_rothblum_online(SETTING) == pytest.approx(1.5 * found["threshold"])
    assert hardt_rothblum_constants(replace(SETTING, delta=None)) is None
    assert hardt_rothblum_constants(replace(SETTING, pure=True)) is None


def test_the_rate_is_that_of_theorem_three_one() -> None:
    """n ~ (log(1/delta) log^(1/4)|U| log(k/b) / (epsilon a))^2: the fourth root of ln N, not of N (errata)."""
    name = "Hardt-Rothblum (online)"
    base = records_needed(name, SETTING, 0.2)
    assert math.log(records_needed(name, SETTING, 0.02) / base) / math.log(10) == pytest.approx(2, abs=0.05)
    wide = records_needed(name, replace(SETTING, log_universe=1200.0), 0.2)
    assert math.log(wide / base) / math.log(100) == pytest.approx(0.5, abs=0.05)


def test_the_planner_shows_it_vacuous_or_not() -> None:
    domain = rt.Domain({f"a{i}": 2 for i in range(17)})
    small, large = (rt.plan(records=n, domain=domain, budget=rt.Budget(epsilon=1, delta=1e-9)) for n in (10**6, 10**11))
    shown = [next(o for o in plan.options if o.name.startswith("Hardt")) for plan in (small, large)]
    assert [option.vacuous for option in shown] == [True, False]
    with pytest.raises(QueryError, match="says nothing"):
        Session.open(None, cube_table(0)[0], rt.Budget(epsilon=1, delta=1e-9), engine="hardt-rothblum")
    with pytest.raises(QueryError, match="epsilon and delta"):
        Session.open(None, cube_table(0)[0], rt.Budget(rho=1), engine="hardt-rothblum")


@pytest.mark.parametrize("adversary", [worst, stingy])
def test_answers_hold_and_updates_stay_below_the_lemma(adversary, tmp_path: Path) -> None:
    rows, exact = cube_table(1, records=40_000_000)
    path, generator = tmp_path / "hr.ledger", np.random.default_rng(0)
    with Session.open(path, rows, LARGE, engine="hardt-rothblum", queries=200, confidence=1 - 1e-6) as session:
        epochs = session.answering.epochs
        origins = set()
        for _ in range(60):
            guess = epochs.snapshot.marginal(("x", "y", "z")).ravel()
            mask = adversary(exact, guess, generator, epochs.plan.error)
            if mask.all() or not mask.any():
                mask = ALL[generator.integers(len(ALL))]
            answer = session.ask(predicate(mask))
            origins.add(answer.origin)
            assert answer.certified
            assert abs(answer.value - exact[mask].sum()) <= answer.error
        assert "measured" in origins
        assert epochs.updates <= epochs.plan.epochs
        digest, spent = epochs.snapshot.digest, session.spent
    with Session.open(path, forbidden(rows), LARGE, engine="hardt-rothblum") as session:
        assert (session.answering.epochs.snapshot.digest, session.spent) == (digest, spent)


def test_each_update_takes_from_the_divergence_what_lemma_three_three_says() -> None:
    rows, exact = cube_table(2, records=40_000_000)
    session = Session.open(None, rows, LARGE, engine="hardt-rothblum", queries=200)
    epochs, divergences = session.answering.epochs, []
    for mask in sorted(ALL, key=lambda cells: -abs((exact - 1 / 8)[cells].sum()))[:40]:
        guess = epochs.snapshot.marginal(("x", "y", "z")).ravel()
        if len(divergences) <= epochs.updates:
            divergences.append(float(np.sum(exact * np.log(exact / guess))))
        session.ask(predicate(mask))
    plan = epochs.plan
    assert epochs.updates >= 2
    assert min(-np.diff(divergences)) >= plan.step * (plan.threshold / 2 - plan.step)


def test_what_is_planned_is_within_the_budget() -> None:
    plan = epoch_plan("hardt-rothblum", replace(SETTING, records=10**11))
    each = plan.mechanism.price().rho + 1 / (2 * plan.measurement.scale**2)
    assert min(plan.epochs, plan.queries) * (float(each) + 3e-9) <= SETTING.amount


def test_the_textbook_certifies_three_quarters() -> None:
    """004: a threshold of a/2 and two noises of at most a/8."""
    plan, a = epoch_plan("textbook", SETTING), textbook_parameter(replace(SETTING, rounding=LEDGER_ROUNDING))
    assert plan.error == pytest.approx(0.75 * a, rel=1e-4)
    assert plan.threshold == pytest.approx(a / 2)
    assert plan.measured == pytest.approx(a / 8, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["textbook", "tuned"])
def test_a_session_fails_no_more_often_than_planned_repeats_included(engine: str) -> None:
    """200 sessions at 95%: a true failure rate of 5% exceeds the limit with probability below 1e-4."""
    runs, failed = 200, 0
    for seed in range(runs):
        rows, exact = cube_table(seed)
        session = Session.open(None, rows, rt.Budget(epsilon=1, delta=1e-9), engine=engine, queries=200)
        generator, missed = np.random.default_rng(seed), False
        for _ in range(25):
            guess = session.answering.epochs.snapshot.marginal(("x", "y", "z")).ravel()
            mask = exact > guess if generator.random() < 0.5 else ALL[generator.integers(len(ALL))]
            if mask.all() or not mask.any():
                continue
            for _ in range(2):
                answer = session.ask(predicate(mask))
                missed |= answer.certified and abs(answer.value - exact[mask].sum()) > answer.error
        failed += missed
    assert failed <= binom.isf(1e-4, runs, 0.05)
