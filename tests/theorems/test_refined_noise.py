"""Noise that is drawn on a finer grid than the table's costs what continuous noise costs (docs/proofs/gaussian-dp.md,
claim 2): every budget composes exactly, and more epsilon never buys less.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evidence.second_reader import READER
from tests.privacy.curator_checks import curator
from tests.theorems.test_gaussian_dp import ONE, scores

import reticent as rt
from reticent.errors import QueryError
from reticent.kernel.accounting import Budget
from reticent.kernel.mechanisms import noise
from reticent.kernel.mechanisms.base import Gaussian, Laplace, Sensitivity, restore
from reticent.kernel.minimizers.families import SufficientStatistics
from reticent.knowledge.publications import composing
from reticent.queries.linear import Count, Marginal, Residual
from reticent.releases.budgeting import noise_costing

CASES = [(0.02, 1), (0.3, 1), (0.7, 1), (0.7, 3), (1.1, 1), (2.5, 7), (9, 1), (31.9, 1), (32, 1), (0.7, 64)]


def check_as_drawn(sigma: float, grid: int) -> None:
    """What `release` adds to neighbours that are one record apart: its exact tradeoff and its zCDP price."""
    mechanism, scales = Gaussian(sigma).refined(), []

    def record(scale: Fraction, count: int) -> np.ndarray:
        scales.append(scale)
        return np.zeros(count, dtype=np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "discrete_gaussian", record)
        here, there = (int(mechanism.release(np.array([x], dtype=np.int64), grid)[0]) for x in (0, grid))
    parts, price = mechanism.refinement(grid), mechanism.price(ONE)
    assert there - here == grid * parts, "values lie on the grid that readers divide by"
    assert Fraction(there - here) ** 2 / (2 * scales[0] ** 2) <= price.rho
    z = scores(float(scales[0]))  # of k = 1, 2, ...; those of 1 - k are their negatives
    z = np.concatenate([-z[::-1], z])
    assert price.gaussian is not None
    assert (z[there:] - z[:-there]).max() <= math.sqrt(2 * price.gaussian) * (1 + 1e-12)


@pytest.mark.parametrize(("sigma", "grid"), CASES)
def test_what_is_drawn_is_as_private_as_its_price(sigma: float, grid: int) -> None:
    check_as_drawn(sigma, grid)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("refinement", lambda self, grid: 1),  # priced as refined, drawn on the table's grid
        ("grid_scale", lambda self, grid: Fraction(self.sigma)),  # counts in parts, noise in records
    ],
)
def test_planted_bugs_are_noticed(name: str, bug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, name, bug)
    with pytest.raises(AssertionError):
        check_as_drawn(0.7, 1)


scales = st.fractions(Fraction(1, 10**9), Fraction(10**6)).filter(bool)


@given(scales)
def test_refined_noise_has_an_exact_price_near_that_of_continuous_noise(sigma: Fraction) -> None:
    refined = Gaussian(sigma).refined()
    price = refined.price(ONE)
    assert price.rho == Gaussian(sigma).price(ONE).rho
    assert price.gaussian is not None
    most = Fraction(1, 2000) if sigma >= Fraction(noise.FINE, noise.FINEST) else 1
    assert 1 < price.gaussian / price.rho <= 1 + most
    assert refined.refined() == restore(refined.describe()) == refined
    assert (refined == Gaussian(sigma)) == ("steps" not in refined.describe()) == (sigma >= noise.FINE)


@given(st.floats(1e-9, 1e6), st.sampled_from([ONE, Sensitivity(2, 2), Sensitivity(Fraction(1, 2), Fraction(1, 4))]))
def test_noise_of_a_price_costs_that_price(rho: float, sensitivity: Sensitivity) -> None:
    price = Gaussian.costing(sensitivity=sensitivity, rho=rho, exactly=True).price(sensitivity).gaussian
    assert price is not None
    assert 0.999 * rho <= price <= Fraction(repr(rho))


@given(st.floats(0.001, 1000), st.floats(1, 1.2), st.sampled_from([1e-5, 1e-9, 1e-12]))
def test_more_epsilon_never_buys_less(epsilon: float, factor: float, delta: float) -> None:
    """It did just above 3.92 (delta 1e-5) and 5.55 (1e-9), where exact composition ended."""
    budgets = [composing(Budget(epsilon=e, delta=delta)) for e in (epsilon, epsilon * factor)]
    assert budgets[0].gaussian
    assert budgets[0].limit <= budgets[1].limit
    bought = [noise_costing(budget, ONE, budget.limit).sd for budget in budgets]
    assert bought[1] <= bought[0] * 1.001


def test_no_row_can_make_the_product_overflow() -> None:
    """Neighbours are no further apart after clipping, whatever they were."""
    refined = Gaussian(Fraction(1, 10**9)).refined()
    parts = refined.refinement(1)
    assert parts == noise.FINEST
    largest = np.iinfo(np.int64).max
    shown = refined.release(np.array([largest, largest - 1, -largest, 2**32 - 2, 7], dtype=np.int64))
    ends = [largest // parts * parts, largest // parts * parts, -(largest // parts) * parts]
    assert np.abs(shown - np.array([*ends, (2**32 - 2) * parts, 7 * parts])).max() < 100


@pytest.mark.parametrize("steps", [0, -1, 2**32, 1.5, "2"])
def test_only_whole_numbers_of_steps(steps) -> None:
    with pytest.raises(QueryError, match="steps"):
        Gaussian(1, steps)


def test_other_noise_stays_as_it_is() -> None:
    assert Laplace(0.1).refined() == Laplace(0.1)
    assert Laplace(0.1).refinement(1) == 1


EXACT = Budget(epsilon=300, delta=1e-9, noise="gaussian")
ASKED = [Count(), Marginal(("a", "b")), Residual(("a", "b"))]


def test_values_are_read_in_records_live_and_again() -> None:
    """The noise is small beside one record, so that a wrong grid would show."""
    private, ledger = curator(budget=EXACT)
    first = private.measure(ASKED, Gaussian(0.3), key="ask")
    assert private.measure(ASKED, Gaussian(0.3), key="ask").ledger_id == first.ledger_id
    for live, exact in zip(
        first.values, [3, [[1, 1, 0], [0, 0, 1]], [[1 / 6, 1 / 2, -2 / 3], [-1 / 6, -1 / 2, 2 / 3]]], strict=True
    ):
        assert np.abs(live - exact).max() < 0.3 * 8
        assert (live != np.rint(live)).any()
    assert ledger.spent == EXACT.cost(private.price(ASKED, Gaussian(0.3)))


@pytest.mark.parametrize("settled", [True, False])
def test_a_key_that_an_earlier_version_began_keeps_its_noise(settled: bool) -> None:
    """Settled or interrupted, its request is the one that was charged."""
    private, ledger = curator(budget=EXACT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gaussian, "refined", lambda self: self)
        if not settled:
            patch.setattr(Gaussian, "release", None)
        try:
            private.measure([Count()], Gaussian(2), key="ask")
        except TypeError:
            assert not settled
    charged = ledger.spent
    again = private.measure([Count()], Gaussian(2), key="ask")
    assert again.values[0] == np.rint(again.values[0])
    assert ledger.spent == charged > EXACT.cost(private.price([Count()], Gaussian(2)))


def test_a_minimiser_that_an_earlier_version_charged_more_for_is_redeemed() -> None:
    private, ledger = curator(budget=EXACT)
    loss = rt.Squared(features=["a"], label="b")

    def minimiser() -> SufficientStatistics:
        return SufficientStatistics(loss, private.domain, neighbours="replace-one", records=3, rho=Fraction(1, 2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gaussian, "on_grid", lambda self, steps: replace(self, steps=8))
        patch.setattr(SufficientStatistics, "release", None)
        with pytest.raises(TypeError):
            private.minimize(minimiser(), key="fit")
    charged = ledger.spent
    assert charged > EXACT.cost(minimiser().price())
    assert private.minimize(minimiser(), key="fit").cost == charged == ledger.spent


def test_a_ledger_of_a_large_budget_is_read_by_the_second_reader(tmp_path: Path) -> None:
    file, rows = tmp_path / "large.ledger", {"a": [0, 1] * 300, "b": [0, 0, 1] * 200}
    table = rt.Table.of(pa.table(rows), rt.Domain({"a": 2, "b": 2}))
    with rt.Session.open(file, table, rt.Budget(epsilon=20, delta=1e-9)) as session:
        assert session.budget.gaussian
        answer = session.ask(rt.count(rt.col("a") == 1), error=rt.records(2))
        assert answer.interval[0] * 600 <= 300 <= answer.interval[1] * 600
        assert session.minimize(rt.Logistic(features=["a"], label="b", radius=2), error=0.03).price > 0
        spent = session.spent
    assert READER.main([str(file)]) == 0
    with rt.Session.open(file, table, rt.Budget(epsilon=20, delta=1e-9)) as session:
        assert session.spent == spent
        assert session.ask(rt.count(rt.col("a") == 1), error=rt.records(2)).value == answer.value
