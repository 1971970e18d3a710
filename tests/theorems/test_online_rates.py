"""The planner's formulas have the papers' exponents: n against error, questions and universe."""

from __future__ import annotations

import math

import pytest

import reticent as rt
from reticent.domain import Domain
from reticent.errors import QueryError
from reticent.planning.formulas import rates, records_needed, slope
from reticent.planning.plan import Setting

PURE = Setting(records=1, log_universe=20 * math.log(2), queries=10_000, failure=0.05, pure=True, amount=1.0)
ZCDP = Setting(records=1, log_universe=20 * math.log(2), queries=10_000, failure=0.05, pure=False, amount=0.015)
LOGARITHM = 0.35
"""Room for the logarithms that the exponents leave out."""

# (setting, mechanism, exponent of the error, of ln|U|): n ~ log k log|U| / a^3 pure, log k sqrt(log|U|) / a^2 zCDP
EXPONENTS = [
    (PURE, "textbook PMW (online)", -3, 1),
    (PURE, "tuned PMW (online)", -3, 1),
    (PURE, "textbook PMW (offline)", -3, 1),
    (ZCDP, "textbook PMW (online)", -2, 0.5),
    (ZCDP, "tuned PMW (online)", -2, 0.5),
    (ZCDP, "textbook PMW (offline)", -2, 0.5),
    (ZCDP, "Gaussian + cache", -1, 0),
    (PURE, "Laplace", -1, 0),
]


@pytest.mark.parametrize(("setting", "mechanism", "error", "universe"), EXPONENTS)
def test_exponents_of_error_and_universe(setting: Setting, mechanism: str, error: float, universe: float) -> None:
    rows = [{"error": a, "needed": {mechanism: records_needed(mechanism, setting, a)}} for a in (0.2, 0.01)]
    assert slope(rows, "error", mechanism) == pytest.approx(error, abs=LOGARITHM)
    wide = [(size, Setting(**{**vars(setting), "log_universe": size})) for size in (10.0, 1000.0)]
    rows = [{"log_universe": s, "needed": {mechanism: records_needed(mechanism, v, 0.05)}} for s, v in wide]
    assert slope(rows, "log_universe", mechanism) == pytest.approx(universe, abs=LOGARITHM)


def test_multiplicative_weights_pays_the_logarithm_of_the_questions() -> None:
    """Plain noise needs sqrt(k) or k records, PMW only log k: the whole point."""
    rows = rates(ZCDP, "queries", [10**3, 10**12])
    assert slope(rows, "queries", "Gaussian + cache") == pytest.approx(0.5, abs=0.1)
    assert slope(rows, "queries", "Laplace") == pytest.approx(0.5, abs=0.15)
    for mechanism in ("tuned PMW (online)", "textbook PMW (online)", "textbook PMW (offline)"):
        assert slope(rows, "queries", mechanism) < 0.12
        assert rows[-1]["needed"][mechanism] < rows[-1]["needed"]["Gaussian + cache"]


def test_more_records_and_more_budget_never_hurt() -> None:
    for setting, mechanism, *_ in EXPONENTS:
        fewer = records_needed(mechanism, Setting(**{**vars(setting), "amount": 4 * setting.amount}), 0.05)
        assert fewer < records_needed(mechanism, setting, 0.05)
    with pytest.raises(QueryError, match="unknown"):
        records_needed("magic", PURE, 0.1)


def test_the_needed_budget_reaches_the_wanted_error() -> None:
    plan = rt.plan(records=50_000, domain=Domain({"a": 16, "b": 16}), budget=rt.Budget(epsilon=1, delta=1e-9))
    for name, factor in plan.needed(0.02).items():
        assert factor > 0, name
    gaussian = plan.needed(0.02)["Gaussian + cache"]
    option = next(o.error for o in plan.options if o.name == "Gaussian + cache")
    assert option / math.sqrt(gaussian) == pytest.approx(0.02, rel=1e-6)
