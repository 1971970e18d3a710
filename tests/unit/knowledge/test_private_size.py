"""A private number of records: never stated as exact, and its error counts in every bound that divides by it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import pytest
from tests.small_tables import DOMAIN, uniform

from reticent.errors import QueryError
from reticent.kernel.accounting import Budget
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.measured import MeasuredQuery
from reticent.knowledge.tails import RECORDS_FAILURE, counted
from reticent.queries.linear import Count, Range
from reticent.queries.workload import marginals
from reticent.releases.adaptive import Adaptive
from reticent.releases.dualquery.dualquery import DualQuery
from reticent.releases.mwem import MWEM
from reticent.releases.release import release
from reticent.sessions.session import Session


@pytest.mark.parametrize("algorithm", [DualQuery(rounds=8), MWEM(rounds=4), Adaptive(audit_share=0)])
def test_a_private_size_is_never_stated_as_exact(algorithm: Any) -> None:
    """COUNT(*) of a release without certificates was the noisy total with an error of zero, at probability one."""
    released = release(
        uniform(400, neighbours="add-remove"), marginals(DOMAIN, 2), Budget(rho=0.05), algorithm=algorithm
    )
    table = released.ask("SELECT COUNT(*) FROM people")
    assert abs(table.rows[0][0] - 400) <= table.errors[0][0]
    assert table.errors[0][0] > 0
    assert table.confidence < 1
    assert released.knowledge.records_error > 0


@pytest.mark.parametrize(("pure", "noise"), [(True, Laplace(10)), (False, Gaussian(10))])
def test_a_released_size_strays_as_rarely_as_its_bound_says(pure: bool, noise: Laplace | Gaussian) -> None:
    """Five standard deviations are one in two million for Gaussian noise, and one in 1,200 for Laplace noise."""
    count, error = counted(1000.0, noise.sd, pure=pure)
    reached = error * count
    tail = math.exp(-reached / 10) if pure else 2 * (1 - NormalDist().cdf(reached / 10))
    assert tail <= RECORDS_FAILURE


def test_a_size_that_is_hardly_known_certifies_nothing() -> None:
    count, error = counted(20.0, 50.0, pure=False)
    assert error > 1
    measured = MeasuredQuery(Count(), 1.0, Gaussian(1), 1, True)
    assert measured.error_at(0.95, count, error) > 1
    certificate = Certificate("cells", (("a",),), "x", 0.0, Gaussian(1).describe(), 0.0, count, error, 1, 0.95)
    assert certificate.bound == math.inf


def test_confidence_beyond_that_of_the_size_is_not_promised() -> None:
    measured = MeasuredQuery(Count(), 1.0, Gaussian(1), 1, True)
    assert measured.error_at(1 - 1e-9, 1000.0, 0.0) < math.inf
    assert measured.error_at(1 - 1e-9, 1000.0, 0.01) == math.inf


def test_where_the_size_is_hardly_known_no_larger_error_is_asked_for() -> None:
    """Fifty records, give or take three hundred: "ask for an error above 6" told nobody what to do."""
    budget = Budget(epsilon=1, delta=1e-9)
    with Session.open(None, uniform(50, neighbours="add-remove"), budget, purpose="few", progress=False) as session:
        with pytest.raises(QueryError, match="no share of the table can be certified"):
            session.ask(Range({DOMAIN.names[0]: (0, 0)}), error=0.3)
        spent = session.spent
    assert spent <= float(budget.amount(budget.limit)) / 40
