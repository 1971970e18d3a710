"""What was bought and is asked again for nothing, without an error, is not stated wider than it was bought."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.kernel.mechanisms.base import Noise
from reticent.sql.result import ResultTable

ROUNDING = 1 + 1e-9


def strayed(monkeypatch: pytest.MonkeyPatch, deviations: float) -> None:
    """Every release strays by so many standard deviations."""

    def release(noise: Noise, counts: np.ndarray, grid: int = 1) -> np.ndarray:
        parts = noise.refinement(grid)
        return counts * parts + round(deviations * noise.sd * grid * parts)

    monkeypatch.setattr(Noise, "release", release)


def people(records: int = 5000) -> rt.Table:
    generator = np.random.default_rng(0)
    rows = {
        "x": generator.gamma(2, 30, records),
        "g": np.array(list("abcd"))[generator.choice(4, records, p=[0.6, 0.3, 0.08, 0.02])],
    }
    domain = rt.Domain(x=rt.Numeric(edges=[0, 10, 20, 40, 80, 160, 320]), g=rt.Categorical(list("abcd")))
    return rt.Table.of(pa.table(rows), domain, neighbours="add-remove", numbers=True, name="t")


def errors(table: ResultTable) -> list[float]:
    return [error for row in table.errors for error in row if error is not None]


def announced(warm_start: float | None = None) -> rt.Session:
    """A session that sells each question by itself, so that nearly all of the failure probability is its purchases'."""
    budget = rt.Budget(epsilon=1, delta=1e-6)
    return rt.Session.open(None, people(), budget, warm_start=warm_start, error=0.01, queries=100)


@pytest.mark.parametrize("deviations", [-1.5, 1.5])
def test_a_mean_that_was_bought_is_not_stated_wider_for_nothing(
    monkeypatch: pytest.MonkeyPatch, deviations: float
) -> None:
    statement = "SELECT AVG(x) FROM t"
    with announced() as session:
        strayed(monkeypatch, deviations)
        bought, again = session.ask(statement, error="10%"), session.ask(statement)
    assert bought.price > 0 == again.price
    assert errors(again)[0] <= errors(bought)[0] * ROUNDING


@pytest.mark.parametrize("deviations", [-0.5, 0.0, 0.5])
def test_groups_that_were_bought_are_cut_by_what_else_is_certified(
    monkeypatch: pytest.MonkeyPatch, deviations: float
) -> None:
    statement = "SELECT g, COUNT(*) FROM t GROUP BY g"
    with announced(warm_start=0.5) as session:
        before = session.ask(statement)
        strayed(monkeypatch, deviations)
        bought, again = session.ask(statement, error=60), session.ask(statement)
    assert bought.price > 0 == again.price
    assert len(errors(before)) == len(errors(again)) == len(errors(bought)) == 5
    for stated, paid in zip(errors(again), errors(bought), strict=True):
        assert stated <= paid * ROUNDING


def test_what_is_read_of_a_purchase_and_of_all_else_is_nowhere_wider_than_either() -> None:
    query = rt.marginal("g")
    with announced(warm_start=0.5) as session:
        before, bought = session.ask(query), session.ask(query, error=0.035)
        again = session.ask(query)
    assert bought.price > 0 == again.price
    assert again.interval is not None
    assert bought.interval is not None
    assert before.interval is not None
    for low, high in (bought.interval, before.interval):
        assert np.all(again.interval[0] >= np.asarray(low) - 1e-12)
        assert np.all(again.interval[1] <= np.asarray(high) + 1e-12)
    assert again.error is not None
    assert bought.error is not None
    assert again.error <= bought.error * ROUNDING
