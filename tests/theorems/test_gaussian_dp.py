"""Discrete Gaussian noise is as private as its GDP price says (docs/proofs/gaussian-dp.md)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri_exp

import reticent as rt
from reticent.errors import QueryError
from reticent.kernel.accounting import (
    NANO,
    Budget,
    Price,
    epsilon_of,
    gaussian_epsilon_of,
    gaussian_rho_of,
    rho_of,
)
from reticent.kernel.mechanisms import noise
from reticent.kernel.mechanisms.base import Exponential, Gaussian, Laplace, Sensitivity
from reticent.releases.budgeting import noise_costing

ONE = Sensitivity.scalar()
SCALES = [2, 2.01, 2.5, 3, math.pi, 5, 8, 13.7, 40]


def scores(sigma: float) -> np.ndarray:
    """z(k) for k = 1, 2, ...: far beyond where a step of the lattice is as wide as the tail."""
    last = int(10 * sigma**2 + 12 * sigma + 8)
    places = np.arange(last + int(40 * sigma) + 60)
    tails = np.logaddexp.accumulate((-(places**2) / (2 * sigma**2))[::-1])[::-1]
    return -ndtri_exp(tails[1:last] - np.logaddexp(0, math.log(2) + tails[1]))


def check_steps(sigma: float) -> None:
    """No shift by one moves a normal score further than the price says."""
    z = scores(sigma)
    farthest = max(2 * z[0], np.diff(z).max())
    stated = math.sqrt(2 * float(Gaussian(sigma).price(ONE).gaussian or 0))
    assert farthest <= stated * (1 + 1e-12), f"{farthest} > {stated}"


@pytest.mark.parametrize("sigma", SCALES)
def test_one_step_of_the_lattice(sigma: float) -> None:
    check_steps(sigma)


def check_deltas(sigma: float, shift: int) -> None:
    """The exact delta of one release at every epsilon where it bends lies below that of the claimed mu."""
    reach = int(20 * sigma) + shift
    places = np.arange(-reach, reach + 1)
    here, there = (-((places - moved) ** 2) / (2 * sigma**2) for moved in (0, shift))
    total = np.logaddexp.reduce(here)
    price = Gaussian(sigma).price(Sensitivity.scalar(shift)).gaussian
    assert price is not None
    for epsilon in np.linspace(0, 6, 25):
        delta = np.maximum(np.exp(there - total) - np.exp(epsilon + here - total), 0).sum()
        if delta > 1e-14:
            assert gaussian_epsilon_of(price, float(delta)) >= epsilon - 1e-9


@pytest.mark.parametrize(("sigma", "shift"), [(2, 1), (2, 3), (2.5, 7), (6, 1), (6, 20), (30, 31)])
def test_every_delta_of_a_release(sigma: float, shift: int) -> None:
    check_deltas(sigma, shift)


@pytest.mark.parametrize("check", [lambda: check_steps(2), lambda: check_deltas(2, 1)])
def test_the_price_of_continuous_noise_is_noticed(check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_excess", lambda sigma: Fraction(1))
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize(("epsilon", "delta", "more"), [(1, 1e-9, 0.1058), (1, 1e-5, 0.1757), (3, 1e-12, 0.0776)])
def test_a_budget_of_gaussian_noise_holds_more(epsilon: float, delta: float, more: float) -> None:
    plain, whole = Budget(epsilon=epsilon, delta=delta), Budget(epsilon=epsilon, delta=delta, noise="gaussian")
    assert whole.limit / plain.limit - 1 == pytest.approx(more, abs=1e-3)
    assert gaussian_epsilon_of(gaussian_rho_of(epsilon, delta), delta) <= epsilon * (1 + 1e-9)
    assert gaussian_epsilon_of(rho_of(epsilon, delta), delta) < epsilon_of(rho_of(epsilon, delta), delta)
    assert Budget.from_dict(whole.to_dict()) == whole != plain
    assert "mu" in whole.guarantee()
    assert "gaussian" in repr(whole)


@pytest.mark.parametrize("units", [1, 1000, 10**6, 10**9])
def test_noise_that_units_pay_for_costs_no_more(units: int) -> None:
    budget = Budget(rho=10, noise="gaussian")
    for sensitivity in (ONE, Sensitivity(2, 2), Sensitivity(10, 50)):
        bought = noise_costing(budget, sensitivity, units)
        assert budget.cost(bought.price(sensitivity)) <= units


def test_such_a_budget_pays_for_nothing_else() -> None:
    budget = Budget(epsilon=1, delta=1e-9, noise="gaussian")
    others = [Laplace(30).price(ONE), Exponential(Fraction(1, 10)).price(), Gaussian(1.9).price(ONE)]
    for price in (*others, Price(None, Fraction(1, NANO)), Gaussian(9).price(ONE) + others[0]):
        with pytest.raises(QueryError, match="Gaussian noise"):
            budget.cost(price)
    assert budget.cost(Gaussian(9).price(ONE) * 3) > 0
    assert (budget + budget).gaussian
    assert not (budget + Budget(rho=1)).gaussian
    with pytest.raises(QueryError, match="pure"):
        Budget(epsilon=1, noise="gaussian")
    with pytest.raises(QueryError, match="noise"):
        Budget(epsilon=1, delta=1e-9, noise="laplace")


def test_sessions_and_releases_run_on_it() -> None:
    """What default settings buy has a GDP price, and a ledger says so when it is opened again."""
    import pyarrow as pa

    generator = np.random.default_rng(2)
    domain = rt.Domain({"a": 3, "b": 4, "c": 2})
    rows = pa.table({name: generator.integers(0, domain[name].size, 20_000) for name in domain})
    table = rt.Table.of(rows, domain)
    budget = Budget(epsilon=1, delta=1e-9, noise="gaussian")
    with rt.Session.open(None, table, budget) as session:
        assert session.ask(rt.count(rt.col("a") == 1), error=0.01).certified
        assert session.spent <= float(budget.rho or 0)
    published = rt.release(table, rt.marginals(domain, 2), budget)
    assert "gaussian" in published.privacy
    with pytest.raises(QueryError, match="Gaussian noise"):
        rt.release(table, rt.marginals(domain, 2), budget, algorithm=rt.MWEM())
