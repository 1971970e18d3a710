"""MWEM and the textbook algorithm over the real kernel."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.unit.releases.released import DOMAIN, KEY, ROWS, opened, source, truth, worst

from reticent.domain import Domain
from reticent.errors import BudgetError, QueryError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.kernel.accounting import Budget
from reticent.queries.linear import Conjunction
from reticent.queries.workload import Workload, marginals
from reticent.releases.mwem import MWEM, default_rounds
from reticent.releases.query_class import Learner, QueryClass
from reticent.releases.textbook import TextbookPMW, textbook_plan

WORKLOAD = marginals(DOMAIN, 2).on(DOMAIN)
UNIFORM = max(float(np.abs(t - 1 / t.size).max()) for t in truth(WORKLOAD.marginals))


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("budget", [Budget(epsilon=2), Budget(rho=0.05)], ids=["pure", "rho"])
def test_mwem_learns_within_its_budget(budget, neighbours):
    curator, ledger = opened(budget, neighbours)
    outcome = MWEM(rounds=20).run(curator, WORKLOAD, allowance=budget.limit, key=KEY)
    assert 0 <= ledger.remaining <= 100
    assert len(outcome.measurements) == 20
    assert worst(outcome.hypothesis, WORKLOAD.marginals) < 0.4 * UNIFORM


def test_mwem_resumes_and_repeats_itself():
    budget = Budget(rho=0.05)
    curator, ledger = opened(budget)
    first = MWEM(rounds=5).run(curator, WORKLOAD, allowance=budget.limit, key=KEY)
    left = ledger.remaining
    second = MWEM(rounds=5).run(curator, WORKLOAD, allowance=budget.limit, key=KEY)
    assert ledger.remaining == left
    assert first.hypothesis.to_bytes() == second.hypothesis.to_bytes()


def test_replay_uses_what_was_measured():
    budget = Budget(rho=0.2)
    errors = []
    for again in (True, False):
        curator, _ = opened(budget)
        outcome = MWEM(rounds=30, replay=again).run(curator, WORKLOAD, allowance=budget.limit, key=KEY)
        residuals = [abs(float(m.values) - outcome.hypothesis.expect(m.query)) for m in outcome.measurements]
        errors.append(float(np.mean(residuals)))
    assert errors[0] < 0.5 * errors[1]


def test_mwem_refuses_what_it_cannot_do():
    budget = Budget(rho=0.05)
    curator, ledger = opened(budget)
    with pytest.raises(QueryError, match="rounds"):
        MWEM(rounds=0)
    with pytest.raises(BudgetError):
        MWEM(rounds=20).run(curator, WORKLOAD, allowance=30, key=KEY)
    with pytest.raises(QueryError, match="workload is empty"):
        MWEM().run(curator, Workload([]).on(DOMAIN), allowance=budget.limit, key=KEY)
    assert ledger.remaining == budget.limit


def test_more_budget_means_more_rounds():
    few, many = (default_rounds(10_000, 5.0, Budget(rho=1), units) for units in (10**6, 10**8))
    assert 10 <= few < many <= 200
    assert default_rounds(10**9, 5.0, Budget(epsilon=1), 10**9) == 200


def test_indices_name_cells_and_their_complements():
    cells = QueryClass(WORKLOAD, DOMAIN)
    scores = cells.scores(DenseHypothesis(DOMAIN), ROWS)
    values = scores.evaluate(source(), 1) / scores.resolution(1)
    assert values.size == 2 * cells.size
    for index in (0, 21, cells.size - 1):
        query, complement = cells.query(index)
        again, other = cells.query(index + cells.size)
        assert (query, complement, other) == (again, False, True)
        names = DOMAIN.canonical(query.attributes)
        count = truth([names])[0][tuple(dict(query.codes)[name] for name in names)] * ROWS
        expected = count - ROWS / DOMAIN.cells(names)
        assert values[index] == pytest.approx(expected, abs=1e-4)
        assert values[index + cells.size] == pytest.approx(-expected, abs=1e-4)


@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(rho=0.02)], ids=["pure", "rho"])
def test_textbook_rounds_cost_no_more_than_the_budget(budget):
    plan = textbook_plan(0.1, 0.05, 500, 6.0, budget, budget.limit)
    assert plan.rounds == math.ceil(4 * 6.0 / 0.01)
    amount = Fraction(budget.limit - 2 * plan.rounds, 10**9)  # the ledger rounds every price up
    spent = 2 * plan.rounds * plan.epsilon if budget.pure else plan.rounds * plan.epsilon**2 * Fraction(5, 8)
    assert spent <= amount
    assert float(spent) == pytest.approx(float(amount), rel=1e-9)
    needed = 2 * math.log(2 * 1000 * plan.rounds / 0.05) / (float(plan.epsilon) * 0.1)
    assert plan.records_needed == pytest.approx(needed)


def test_textbook_keeps_its_promise_and_stops_early():
    budget = Budget(rho=8)
    curator, ledger = opened(budget)
    said = []
    algorithm = TextbookPMW(error=0.05)
    outcome = algorithm.run(curator, WORKLOAD, allowance=budget.limit, key=KEY, report=lambda p: said.append(p.message))
    assert "errs at most 0.2" in said[0]
    assert worst(outcome.hypothesis, WORKLOAD.marginals) <= 4 * 0.05
    assert 1 < outcome.notes["rounds"] < outcome.notes["planned"]
    assert ledger.remaining > 0


def test_textbook_refuses_a_vacuous_promise_before_spending():
    budget = Budget(epsilon=1, delta=1e-9)
    curator, ledger = opened(budget)
    with pytest.raises(QueryError, match=r"vacuous.*Adaptive"):
        TextbookPMW(error=0.3).run(curator, WORKLOAD, allowance=budget.limit, key=KEY)
    with pytest.raises(QueryError, match=r"promised only from .* records"):
        TextbookPMW(error=0.01).run(curator, WORKLOAD, allowance=budget.limit, key=KEY)
    private, _ = opened(budget, "add-remove")
    with pytest.raises(QueryError, match="replace-one"):
        TextbookPMW(error=0.1).run(private, WORKLOAD, allowance=budget.limit, key=KEY)
    assert ledger.remaining == budget.limit


def test_textbook_advice_can_be_followed():
    budget = Budget(rho=1)
    with pytest.raises(QueryError) as refusal:
        TextbookPMW(error=0.01).plan(ROWS, 500, 6.0, budget, budget.limit)
    advised = float(str(refusal.value).split("use error=")[1].split(" ")[0])
    assert TextbookPMW(error=advised).plan(ROWS, 500, 6.0, budget, budget.limit).records_needed <= ROWS


@pytest.mark.parametrize("options", [{"error": 0}, {"error": 1.5}, {"error": 0.1, "failure": 0}])
def test_textbook_refuses_options_that_mean_nothing(options):
    with pytest.raises(QueryError):
        TextbookPMW(**options)


def test_textbook_measures_nothing_where_one_cell_is_all():
    one, budget = Domain({"a": 1}), Budget(rho=1)
    plan = TextbookPMW(error=0.2).plan(ROWS, 1, math.log(one.size), budget, budget.limit)
    assert (plan.rounds, plan.records_needed) == (0, 0)


def test_noise_rules_no_cell_out():
    """Answers far below zero leave every cell possible: a released zero would be an infinite relative entropy."""
    hypothesis = DenseHypothesis(DOMAIN)
    query = Conjunction({"a": 1, "c": 0})
    learner = Learner(QueryClass(WORKLOAD, DOMAIN), hypothesis)
    learner.replay([(query, -5.0, 0.1), (query, -5.0, 0.1), (Conjunction({"b": 0}), 7.0, 0.1)])
    assert hypothesis.expect(query) == pytest.approx(0.05, rel=0.3)
    assert hypothesis.probabilities().min() > 0
