"""A private number of records: never stated as exact, and its error counts in every bound that divides by it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.small_tables import DOMAIN, uniform

import reticent as rt
from reticent.errors import QueryError
from reticent.hypotheses.dense.dense import DenseHypothesis
from reticent.hypotheses.snapshot import Snapshot
from reticent.kernel.accounting import Budget
from reticent.kernel.mechanisms.base import Gaussian, Laplace
from reticent.knowledge.certificates import Certificate
from reticent.knowledge.knowledge import Knowledge
from reticent.knowledge.measured import MeasuredMarginal, MeasuredQuery
from reticent.knowledge.tails import RECORDS_FAILURE, Shares, counted
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


# -- counts, which need no number of all records ------------------------------------------------------------

BUDGET = Budget(epsilon=1, delta=1e-9)
HALF = rt.col("a") == 0


def small(records: int = 400) -> Session:
    """A session on so few records that their number is known within a fifth of it, or less well."""
    opened = Session.open(None, uniform(records, neighbours="add-remove"), BUDGET, purpose="few", progress=False)
    assert opened.state.knowledge.records_error > 0.1
    return opened


def true_count(records: int = 400) -> int:
    return int(np.sum(np.random.default_rng(3).integers(0, DOMAIN["a"].size, records) == 0))


def test_a_count_is_answered_whatever_is_known_of_the_number_of_records() -> None:
    """Of 400 records at epsilon 1 no count could be had: 80 records were "not above 0.5 of the table"."""
    with small() as session:
        table = session.ask("SELECT COUNT(*) FROM t WHERE a = 0", error=80)
        assert table.certified
        assert abs(table.rows[0][0] - true_count()) <= table.errors[0][0] <= 80 * (1 + 1e-9)
        groups = session.ask("SELECT b, COUNT(*) FROM t GROUP BY b", error=60)
        assert max(row[1] for row in groups.errors) <= 60 * (1 + 1e-9)
        answer = session.ask(rt.count(rt.col("c") == 1), error=rt.records(50))
        assert answer.certified
        assert answer.error * session.state.knowledge.records <= 50 * (1 + 1e-9)
        assert "released number" in answer.basis
        assert "the count is within 50" in answer.basis


def test_the_price_of_a_count_is_that_of_its_noise_alone() -> None:
    with small() as session:
        price = session.cost(rt.count(HALF), error=rt.records(80))
    # A private number of records leaves 19/20 of 1/20, less one in two million; a record covers the grid.
    noise = Gaussian(79 / NormalDist().inv_cdf(1 - 0.05 * 0.95 / 2))
    assert price == pytest.approx(1 / (2 * noise.sd**2), rel=1e-3)


def test_a_share_is_refused_where_counts_are_not_and_says_so() -> None:
    with small(1) as session:
        with pytest.raises(QueryError, match=r"rt\.records"):
            session.ask(rt.count(HALF), error=0.2)
        assert session.ask(rt.count(HALF), error=rt.records(30)).certified


def test_what_a_count_bought_does_not_become_a_share_of_the_table() -> None:
    """The same measurement, asked as a share: with the error of the number of records."""
    with small() as session:
        counted_as = session.ask(rt.count(HALF), error=rt.records(40))
        share = session.ask(rt.count(HALF))
        assert counted_as.error * session.state.knowledge.records <= 40 * (1 + 1e-9)
        assert not share.certified or share.error > counted_as.error + session.state.knowledge.records_error / 2


def test_a_mean_of_a_selection_needs_no_number_of_all_records() -> None:
    domain = rt.Domain(x=rt.Numeric(edges=[0, 1, 2, 3, 4]), g=2)
    g = np.random.default_rng(1)
    rows = pa.table({"x": g.integers(0, 4, 1_000) + 0.5, "g": g.integers(0, 2, 1_000)})
    table = rt.Table.of(rows, domain, neighbours="add-remove")
    with Session.open(None, table, BUDGET, purpose="few", progress=False) as session:
        found = session.ask(rt.mean("x", where=rt.col("g") == 1), error=1.5)
    assert found.certified
    assert found.error <= 1.5 * (1 + 1e-9)


def known(records: float, error: float) -> Knowledge:
    snapshot = Snapshot(DenseHypothesis(DOMAIN))
    return Knowledge(snapshot, records, error, shares=Shares(joint=True, in_records=True))


def test_statements_about_counts_do_not_have_the_error_of_the_number() -> None:
    """300 records were released, give or take half: measured counts have their noise, audits theirs, and no more."""
    bare, noise, form = known(300.0, 0.5), Gaussian(10), known(300.0, 0.5).form(Range({"a": (0, 0)}))
    query = MeasuredQuery(Range({"a": (0, 0)}), 0.4, noise, 1, binary=True, shares=bare.shares)
    cells = MeasuredMarginal(("a",), np.full(3, 0.4), noise, 300.0, 0.5, 2, shares=bare.shares)
    reading = Certificate(
        "boxes", (("a",),), bare.current.digest, 0.05, noise.describe(), 0.0, 300.0, 0.5, 1, 0.95, joint=True
    )
    exact = Certificate(
        "boxes", (("a",),), bare.current.digest, 0.05, noise.describe(), 0.0, 300.0, 1e-300, 1, 0.95, joint=True
    )
    for knowledge, expected in (
        (bare.with_query(query, bare.current), query.error_at(0.95, 300.0, 1e-300)),
        (
            bare.with_marginal(cells.for_all),
            MeasuredMarginal(
                ("a",), np.full(3, 0.4), noise, 300.0, 1e-300, 2, declared=False, shares=bare.shares
            ).error_of(form, 0.95),
        ),
        (bare.with_certificate(bare.current, reading), exact.bound_at(0.95)),
    ):
        of_table, of_counts = (
            one.readings(Range({"a": (0, 0)}), 0.95)[0].error for one in (knowledge, knowledge.of_counts)
        )
        assert of_counts == pytest.approx(expected, rel=1e-4)
        assert of_table >= of_counts + 0.5 * (1 - 1e-5)


def test_all_records_are_as_many_as_their_number_allows() -> None:
    """A count may exceed the released number; what holds for every record is known as well as their number."""
    counts = known(300.0, 0.4).of_counts
    assert counts.whole == (0.0, 1.4)
    found = counts.free(Count(), 0.95, None)
    assert found is not None
    assert (found.compute(), found.error) == (1.0, pytest.approx(0.4))
    assert known(300.0, 0.0).of_counts.whole == (0.0, 1.0)


def test_a_part_of_all_records_has_the_error_of_their_number_once() -> None:
    with small() as session:
        session.ask("SELECT COUNT(*) FROM t WHERE a = 0", error=20)
        known = session.state.knowledge
        table = session.ask("SELECT SUM(CASE WHEN a = 0 THEN 1 ELSE 0 END) / COUNT(*) FROM t")
        value, error = table.rows[0][0], table.errors[0][0]
    if error is not None:
        low, high = true_count() / 400 - (value + error), true_count() / 400 - (value - error)
        assert low <= 0 <= high
        assert error <= (value + 20 / known.records) / (1 - known.records_error) - value + 1e-6


def test_earlier_sessions_keep_their_prices() -> None:
    """Ledgers whose terms do not say so counted the error of the number in what they bought: keys find it again."""
    assert not Shares(joint=True).in_records
    bare = Knowledge(Snapshot(DenseHypothesis(DOMAIN)), 300.0, 0.4, shares=Shares(joint=True))
    assert bare.of_counts is bare


def numbers(records: int, budget: Budget) -> Session:
    """A session on a column whose numbers differ within bins."""
    domain = rt.Domain(x=rt.Numeric(edges=[0, 10, 20, 40, 100], other=False), z=2)
    g = np.random.default_rng(5)
    rows = pa.table({"x": g.random(records) * 99, "z": g.integers(0, 2, records)})
    table = rt.Table.of(rows, domain, neighbours="add-remove", numbers=True)
    return Session.open(None, table, budget, purpose="few", progress=False)


def test_sums_that_cannot_be_paid_for_are_answered_as_they_are_known() -> None:
    """A quote whose knowledge was that of counts was made again, without its error: a failed assertion."""
    for records in (30, 100, 400):
        with numbers(records, Budget(epsilon=5)) as session:
            for text in ("AVG(x) FROM t WHERE z = 0", "SUM(x) FROM t WHERE z = 0", "z, AVG(x) FROM t GROUP BY z"):
                for error in (25, 8, 2):
                    try:
                        spent = session.spent
                        session.ask(f"SELECT {text}", error=error)
                    except QueryError:
                        assert session.spent == spent


def test_sums_of_numbers_do_not_have_the_error_of_the_number_of_records() -> None:
    with numbers(2_000, BUDGET) as session:
        known = session.state.knowledge
        assert known.records_error > 0.02
        wanted = 0.01 * 100 * known.records
        found = session.ask("SELECT SUM(x) FROM t WHERE z = 0", error=wanted * 2)
        again = session.ask("SELECT SUM(x) FROM t WHERE z = 0")
    g = np.random.default_rng(5)
    x, z = g.random(2_000) * 99, g.integers(0, 2, 2_000)
    for table in (found, again):
        value, error = table.rows[0][0], table.errors[0][0]
        assert error is not None
        assert error <= wanted * 2 * (1 + 1e-9)
        assert abs(value - x[z == 0].sum()) <= 3 * error
    assert found.certified
