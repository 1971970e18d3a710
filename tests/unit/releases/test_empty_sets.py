"""A workload may list the marginal of no columns, which is the number of records, among others."""

from __future__ import annotations

import pytest
from tests.small_tables import uniform

import reticent as rt

BUDGETS = [rt.Budget(rho=20), rt.Budget(epsilon=40)]
NAMED = rt.Workload([rt.marginal("a"), rt.count(rt.col("c") == 0)])
WITH_ALL = rt.Workload([rt.marginal(), rt.marginal("a"), rt.count(rt.col("c") == 0)])


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("algorithm", [rt.Adaptive(), rt.MWEM(rounds=2)])
def test_the_number_of_records_among_tables(
    algorithm: rt.Adaptive | rt.MWEM, neighbours: str, budget: rt.Budget
) -> None:
    table = uniform(2_000, neighbours=neighbours)
    release = rt.release(table, WITH_ALL, budget, algorithm=algorithm, progress=False)
    plain = rt.release(table, NAMED, budget, algorithm=algorithm, progress=False)
    assert release.answer(rt.marginal()).value == pytest.approx(1)
    assert [(one.kind, one.sets) for one in release.certificates] == [(o.kind, o.sets) for o in plain.certificates]


def test_textbook_weights_leave_out_the_number_of_records() -> None:
    release = rt.release(uniform(9_000), WITH_ALL, rt.Budget(rho=50), algorithm=rt.TextbookPMW(error=0.05))
    assert release.answer(rt.marginal("a")).certified
