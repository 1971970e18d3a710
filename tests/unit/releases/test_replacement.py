"""Prices of residuals where records are replaced: those of the kernel, and plans that no other plan beats by much."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from tests.unit.releases.test_residual_plan import BINARY, MIXED, curator, unknown

from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.mechanisms.base import Gaussian
from reticent.queries.linear import Residual
from reticent.releases.allocation import Allocation
from reticent.releases.candidates import measured_sets
from reticent.releases.replacement import ReplacementPrices
from reticent.releases.residual_plan import ResidualPlan

SMALL_AND_LARGE = Domain({"a": 2, "b": 2, "c": 2, "d": 2, "e": 20, "f": 20})
WIDE = Domain({f"c{i}": 2 for i in range(20)})
SHAPES = [(MIXED, 3), (BINARY, 3), (SMALL_AND_LARGE, 2)]
IDS = ["mixed", "binary", "small and large"]


def planned(domain: Domain, order: int, *, replacing: bool) -> ResidualPlan:
    targets = dict.fromkeys(combinations(domain.names, order), 1.0)
    return ResidualPlan(domain, measured_sets(domain, targets, 2**20), targets, total=False, replacing=replacing)


@pytest.mark.parametrize(("domain", "order"), [*SHAPES, (WIDE, 2)], ids=[*IDS, "wide"])
def test_costs_are_the_kernels(domain: Domain, order: int) -> None:
    sets = planned(domain, order, replacing=True).sets
    held, prices = curator(domain, "replace-one", Budget(rho=10)), ReplacementPrices(domain, sets)
    assert prices.exact == (domain is not WIDE)
    generator = np.random.default_rng(5)
    for _ in range(3):
        precisions = generator.exponential(1e-4, len(sets)) * generator.integers(0, 2, len(sets)) + 1e-9
        noises = [Gaussian(Fraction(precision**-0.5)) for precision in precisions]
        paid = float(held.price([Residual(s) for s in sets], noises).rho)
        assert prices.cost(precisions) == pytest.approx(paid, rel=1e-6)


@pytest.mark.parametrize(("domain", "order"), SHAPES, ids=IDS)
def test_neither_marginals_nor_add_remove_plans_do_better(domain: Domain, order: int) -> None:
    """Without a bound on each target, so that all three have the same aim."""
    ours, theirs = (planned(domain, order, replacing=replacing) for replacing in (True, False))
    nothing, cost = np.zeros(len(ours.sets)), ReplacementPrices(domain, ours.sets).cost
    found = ours.fill(1.0, nothing, unknown(ours), most_error=1e9)
    assert cost(found) == pytest.approx(1.0)
    added = theirs.fill(1.0, nothing, unknown(ours), most_error=1e9)
    assert cost(added) > 1.02
    targets = dict.fromkeys(combinations(domain.names, order), 1.0)
    allocation = Allocation(domain, measured_sets(domain, targets, 2**20), targets)
    none = np.zeros(len(allocation.sets))
    marginals = allocation.fill(1.0, none, none, [None] * len(none))
    told = ours.told_by(dict(zip(allocation.sets, marginals, strict=True)))
    assert cost(told) == pytest.approx(1.0)
    for other in (added / cost(added), told):
        assert ours.objective(found, unknown(ours)) < 0.995 * ours.objective(other, unknown(ours))


@pytest.mark.parametrize(("domain", "order"), SHAPES, ids=IDS)
def test_every_target_keeps_its_bound_at_the_true_price(domain: Domain, order: int) -> None:
    plan = planned(domain, order, replacing=True)
    found = plan.fill(1.0, np.zeros(len(plan.sets)), unknown(plan))
    assert float(plan.noise_over_plain(1.0, found).max()) < 1.21


def test_the_adversary_begins_with_the_prices_of_add_remove() -> None:
    """No D costs more than another where nothing is measured: weights stay those of a uniform second record."""
    sets = planned(MIXED, 2, replacing=True).sets
    prices = ReplacementPrices(MIXED, sets)
    cost, learnt = prices.learn(np.zeros(len(sets)))
    assert cost == 0.0
    assert learnt == pytest.approx(prices.least)


def test_a_plan_of_the_same_numbers_is_the_same_again() -> None:
    """A run that goes on after a crash plans as the first one did."""
    plan = planned(BINARY, 2, replacing=True)
    nothing = np.zeros(len(plan.sets))
    first = plan.fill(1.0, nothing, unknown(plan))
    assert np.array_equal(first, plan.fill(1.0, nothing, unknown(plan)))
