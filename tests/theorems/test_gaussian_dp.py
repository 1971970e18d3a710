"""Discrete Gaussian noise is as private as its GDP price says (docs/proofs/gaussian-dp.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import log_ndtr, ndtri, ndtri_exp

import reticent as rt
from reticent.errors import LedgerError, QueryError
from reticent.kernel import accounting
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
from reticent.knowledge.publications import composing
from reticent.releases.budgeting import noise_costing
from reticent.releases.dualquery.analysis import amplified_run
from reticent.sessions.threshold import ThresholdEngine
from reticent.sources import open_undeclared

ONE = Sensitivity.scalar()
SCALES = [1.1, 1.15, 1.3, 1.5, 1.66, 1.67, 1.9, 2, 2.01, 2.5, 3, math.pi, 5, 8, 13.7, 40]


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


@pytest.mark.parametrize(
    ("sigma", "shift"), [(1.1, 1), (1.1, 2), (1.4, 3), (2, 1), (2, 3), (2.5, 7), (6, 1), (6, 20), (30, 31)]
)
def test_every_delta_of_a_release(sigma: float, shift: int) -> None:
    check_deltas(sigma, shift)


@pytest.mark.parametrize("check", [lambda: check_steps(1.1), lambda: check_steps(2), lambda: check_deltas(2, 1)])
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


def tradeoff(here: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Type I and II errors of the best tests between two distributions, at the corners of their curve."""
    order = np.argsort(-(np.log(there) - np.log(here)), kind="stable")
    return np.cumsum(here[order])[:-1], np.cumsum(there[order][::-1])[::-1][1:]


def check_tradeoff(here: np.ndarray, there: np.ndarray, price: Price) -> None:
    """No test does better than between N(0, 1) and N(mu, 1); of a polygon the corners decide."""
    assert price.gaussian is not None
    first, second = tradeoff(here / here.sum(), there / there.sum())
    assert (-ndtri(first) - ndtri(second)).max() <= math.sqrt(2 * price.gaussian) * (1 + 1e-9)


def check_laplace(scale: float, shift: int) -> None:
    places = np.arange(-int(40 * scale), int(40 * scale) + shift)
    check_tradeoff(
        np.exp(-np.abs(places) / scale),
        np.exp(-np.abs(places - shift) / scale),
        Laplace(scale).price(Sensitivity.scalar(shift)),
    )


def check_selection(epsilon: float, moved: Sequence[int]) -> None:
    """Candidates with equal scores, each moved by -1, 0 or 1."""
    price = Exponential(epsilon).price()
    check_tradeoff(np.ones(len(moved)), np.exp(epsilon / 2 * np.array(moved)), price)


def check_response(epsilon: float) -> None:
    """Randomised response tells all that pure epsilon allows."""
    lie = 1 / (1 + math.exp(epsilon))
    check_tradeoff(np.array([1 - lie, lie]), np.array([lie, 1 - lie]), Price.of_pure(Fraction(epsilon)))


@pytest.mark.parametrize("scale", [0.4, 1, 3, 20])
@pytest.mark.parametrize("shift", [1, 4])
def test_laplace_noise(scale: float, shift: int) -> None:
    check_laplace(scale, shift)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 5])
@pytest.mark.parametrize("moved", [[1, -1], [1, -1, -1, -1, -1], [1, 0, 0, -1], [-1] * 40 + [1]])
def test_selections(epsilon: float, moved: list[int]) -> None:
    check_selection(epsilon, moved)


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1, 3, 20])
def test_whatever_is_pure(epsilon: float) -> None:
    check_response(epsilon)


@pytest.mark.parametrize(
    "check", [lambda: check_laplace(20, 1), lambda: check_selection(0.01, [1, -1]), lambda: check_response(0.1)]
)
def test_the_zcdp_price_of_other_noise_is_noticed(check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "BESIDE_GAUSSIAN", Fraction(3, 2))
    with pytest.raises(AssertionError):
        check()


def test_the_slope_is_largest_in_the_middle() -> None:
    """Claim 5: Phi^-1 of the logistic function bends toward the axis everywhere."""
    z = np.linspace(1e-3, 8, 4000)
    slope = np.exp(log_ndtr(z) + log_ndtr(-z) + z**2 / 2)
    assert (np.diff(slope) < 0).all()
    assert Fraction(355, 226) > Fraction(math.pi) / 2


def test_what_such_a_budget_pays_for() -> None:
    budget = Budget(epsilon=1, delta=1e-9, noise="gaussian")
    for price in (Laplace(30).price(ONE), Exponential(Fraction(1, 10)).price(3)):
        more = budget.cost(price) / Budget(rho=1).cost(price)
        assert more == pytest.approx(math.pi / 2, abs=1e-5)
        assert budget.amount_of_other_noise(budget.cost(price)) == pytest.approx(price.rho, abs=1e-8)
    for refused, words in {
        Price(None, Fraction(1, NANO)): "1.1 steps",
        Price(None, Fraction(1, NANO), Fraction(1, 10**12)): "may fail",
    }.items():
        with pytest.raises(QueryError, match=words):
            budget.cost(refused)
    assert budget.cost(Gaussian(1).price(ONE)) > budget.limit  # more than there is, in any unit
    assert budget.cost(Gaussian(9).price(ONE) * 3) > 0
    assert (budget + budget).gaussian
    assert not (budget + Budget(rho=1)).gaussian
    with_pure = budget + Budget(epsilon=0.05)
    assert with_pure.gaussian
    assert with_pure.limit == pytest.approx(budget.limit + math.pi / 4 * 0.0025 * NANO, rel=1e-6)
    with pytest.raises(QueryError, match="pure"):
        Budget(epsilon=1, noise="gaussian")
    with pytest.raises(QueryError, match="noise"):
        Budget(epsilon=1, delta=1e-9, noise="laplace")


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.01, 1e-5), (1, 1e-9), (2, 1e-6), (5.5, 1e-9), (6, 1e-9), (100, 1e-5)]
)
def test_new_ledgers_for_gaussian_noise_compose_it_exactly(epsilon: float, delta: float) -> None:
    whole = composing(Budget(epsilon=epsilon, delta=delta))
    assert whole == Budget(epsilon=epsilon, delta=delta, noise="gaussian")
    # Whatever Gaussian noise it pays for has an exact price, also the least that the whole budget buys.
    least = Gaussian.costing(sensitivity=ONE, rho=whole.amount(whole.limit), exactly=True)
    assert least.price(ONE).gaussian is not None


@pytest.mark.parametrize(
    "budget",
    [
        Budget(epsilon=1),
        Budget(rho=0.01),
        Budget(epsilon=1, delta=1e-9, noise="any"),
        Budget(epsilon=1, delta=1e-9, noise="gaussian"),
    ],
)
def test_other_budgets_stay_as_they_are(budget: Budget) -> None:
    assert composing(budget) is budget
    assert Budget.from_dict(budget.to_dict()) == budget


@pytest.fixture
def small() -> rt.Table:
    generator = np.random.default_rng(2)
    domain = rt.Domain({"a": 3, "b": 4, "c": 2})
    rows = pa.table({name: generator.integers(0, domain[name].size, 20_000) for name in domain})
    return rt.Table.of(rows, domain)


STATED = Budget(epsilon=1, delta=1e-9)


def test_the_first_opening_decides(small: rt.Table, tmp_path: Path) -> None:
    """Default sessions and releases compose exactly; later openings and other noise go by the ledger."""
    asked, file = rt.marginals(small.domain, 2), tmp_path / "new.ledger"
    with rt.Session.open(file, small, STATED, warm_start=0.3) as session:
        assert session.budget.gaussian
        spent = session.spent
    with rt.Session.open(file, small, STATED) as session:
        assert session.spent == spent
        assert session.ask(rt.count(rt.col("a") == 1), error=0.01).certified
    for algorithm in (rt.MWEM(rounds=3), rt.DualQuery(), None):
        made = rt.release(small, asked, Budget(epsilon=0.3, delta=1e-9), algorithm=algorithm, ledger=file)
        assert made.facts["budget"]["noise"] == "gaussian"
        assert 0 < made.facts["spent"] <= Budget(epsilon=0.3, delta=1e-9, noise="gaussian").limit
    with rt.Ledger.open(file, identity=small.identity, budget=STATED) as ledger:
        assert ledger.remaining > 0
    with pytest.raises(LedgerError, match="budget"):
        rt.Session.open(file, small, Budget(epsilon=1, delta=1e-9, noise="any"))


@pytest.mark.parametrize("pure", [0.01, 0.1, 0.5, 2])
def test_a_sum_with_a_pure_budget_states_the_smaller_epsilon(pure: float) -> None:
    """It holds as GDP and as zCDP; beside a large pure budget zCDP says more."""
    parts = Budget(epsilon=0.3, delta=1e-9, noise="gaussian"), Budget(epsilon=pure)
    prices = sum((part.price(part.limit) for part in parts), Price.free())
    assert prices.gaussian is not None
    least = min(gaussian_epsilon_of(prices.gaussian, 1e-9), epsilon_of(prices.rho, 1e-9))
    assert (parts[0] + parts[1]).guarantee()["epsilon"][1e-9] == pytest.approx(least, rel=1e-6)
    assert parts[0] + parts[1] == parts[1] + parts[0]


def test_other_mechanisms_of_a_plan_for_such_a_budget_get_what_it_pays_for() -> None:
    """Selections and thresholds cost more there: no plan promises what a ledger of this budget would not buy."""
    domain, loss = rt.Domain({"a": 3, "b": 2}), rt.Logistic(features=["a"], label="b", radius=2)
    rows = {}
    for composed in (None, "any", "gaussian"):
        budget = Budget(epsilon=1, delta=1e-9, noise=composed)
        made = rt.plan(losses=[loss], domain=domain, records=10**7, budget=budget, count=10)
        rows[composed] = {row.mechanism: row.value for row in made.rows}
    assert rows["gaussian"]["a minimiser each"] < rows["any"]["a minimiser each"]
    # What opens a new ledger decides how it composes: a default session does so exactly, the papers' engines do not.
    assert rows[None]["a minimiser each"] == rows["gaussian"]["a minimiser each"]
    for online in (name for name in rows["any"] if "line)" in name):
        assert rows["gaussian"][online] > rows["any"][online] == rows[None][online]


def test_discovery_on_such_a_ledger_stays_within_its_budget() -> None:
    rows = pa.table({"x": np.random.default_rng(1).normal(size=5000)})
    with open_undeclared(rows, rt.Domain(x=rt.Undeclared("number"))) as table:
        ledger = rt.Ledger.memory(Budget(epsilon=1, delta=1e-9, noise="gaussian"), table.identity)
        found = rt.discover(rows, {"x": "number"}, STATED, ledger=ledger)
    assert 0.9 * ledger.budget.limit < ledger.spent <= ledger.budget.limit
    assert Budget.from_dict(found.discovered[-1]["budget"]).gaussian


def test_a_secret_sample_on_such_a_ledger_states_its_own_curve() -> None:
    budget = Budget(epsilon=1, delta=1e-9, noise="gaussian")
    alone = amplified_run(budget, budget.limit, sample=1000, records=10_000)
    assert alone["inner_epsilon"] == gaussian_epsilon_of(Fraction(budget.limit, NANO), 1e-8)


def test_whoever_creates_the_ledger_decides(small: rt.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process created it after this one looked: its composition is kept, also by default openings."""
    file, asked = tmp_path / "raced.ledger", rt.marginals(small.domain, 1)
    rt.Ledger.open(file, identity=small.identity, budget=STATED).close()
    for look in ("sessions.session.opening_facts", "releases.release.opening"):
        monkeypatch.setattr(f"reticent.{look}", lambda path: None, raising=False)
    with rt.Session.open(file, small, STATED, warm_start=0.1) as session:
        assert not session.budget.gaussian
    assert "noise" not in rt.release(small, asked, STATED, ledger=file).facts["budget"]
    with pytest.raises(LedgerError, match="budget's noise null"):
        rt.Session.open(file, small, Budget(epsilon=1, delta=1e-9, noise="gaussian"))


def test_algorithms_that_select_compose_as_zcdp(small: rt.Table, tmp_path: Path) -> None:
    asked, file = rt.marginals(small.domain, 2), tmp_path / "old.ledger"
    made = rt.release(small, asked, STATED, algorithm=rt.MWEM(rounds=3), ledger=file)
    assert "noise" not in made.facts["budget"]
    with rt.Session.open(tmp_path / "tuned.ledger", small, STATED, engine="tuned", queries=10) as session:
        assert not session.budget.gaussian
    with pytest.raises(QueryError, match="exact composition"):
        rt.release(small, asked, Budget(epsilon=0.1, delta=1e-9, noise="gaussian"), ledger=file)


def test_sums_with_zcdp_stay_zcdp(small: rt.Table, tmp_path: Path) -> None:
    start = rt.release(small, rt.marginals(small.domain, 1), Budget(rho=0.001))
    with rt.Session.open(None, small, STATED, start=start) as session:
        assert not session.budget.gaussian
    start = rt.release(small, rt.marginals(small.domain, 1), Budget(epsilon=0.1, delta=1e-9))
    with rt.Session.open(None, small, STATED, start=start) as session:
        assert session.budget.gaussian
        assert session.release().facts["budget"]["noise"] == "gaussian"


def test_threshold_engines_plan_for_such_a_ledger(tmp_path: Path) -> None:
    """All epochs of a plan can be paid at the prices of a ledger that composes exactly."""
    domain, file = rt.Domain({"a": 2}), tmp_path / "shared.ledger"
    table = rt.Table.of(pa.table({"a": [0, 1] * 100_000}), domain)
    whole = Budget(epsilon=1, delta=1e-9, noise="gaussian")
    rt.Ledger.open(file, identity=table.identity, budget=whole).close()
    with rt.Session.open(file, table, STATED, engine="tuned", queries=20) as session:
        engine = session.answering
        assert isinstance(engine, ThresholdEngine)
        plan = engine.epochs.plan
        each = whole.cost(plan.mechanism.price() + plan.measurement.price(ONE))
        assert whole.limit / 2 < each * plan.epochs <= whole.limit
