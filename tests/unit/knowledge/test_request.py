"""A wanted error has a unit; one that says nothing is refused, one that could not be paid for is told."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.knowledge.population import generalisation

RECORDS = 4000
DOMAIN = rt.Domain(
    v=rt.Categorical([0, 10, 20], other=False),
    s=rt.Categorical(["a", "b"], other=False),
    one=rt.Categorical([7], other=False),
)
SOME = rt.count(rt.col("s") == "a")
SQL = "SELECT COUNT(*) FROM t WHERE s = 'a'"


def table() -> rt.Table:
    generator = np.random.default_rng(0)
    columns = {
        "v": generator.choice([0, 10, 20], RECORDS),
        "s": generator.choice(["a", "b"], RECORDS, p=[0.2, 0.8]),
        "one": [7] * RECORDS,
    }
    return rt.Table.of(pa.table(columns), DOMAIN, name="t")


@pytest.fixture
def session() -> rt.Session:
    return rt.Session.open(None, table(), rt.Budget(rho=0.02), warm_start=0)


def test_records_percent_and_shares_are_one_error(session: rt.Session) -> None:
    prices = {
        session.cost(SOME, error=0.02),
        session.cost(SOME, error=rt.records(80)),
        session.cost(SOME, error="2%"),
    }
    assert len(prices) == 1
    assert session.cost(SQL, error=80) == pytest.approx(prices.pop(), rel=1e-3)
    assert session.cost(SQL, error="2%") == session.cost(SQL, error=80) == session.cost(SQL, error=rt.records(80))
    answer = session.ask(SQL, error=80)
    assert answer.errors[0][0] <= 80 * (1 + 1e-9)
    assert answer.note == ""


def test_a_mean_takes_its_own_unit(session: rt.Session) -> None:
    assert session.cost(rt.mean("v"), error=2.0) == session.cost(rt.mean("v"), error="10%")
    answer = session.ask("SELECT AVG(v) FROM t", error=2.0)
    assert answer.errors[0][0] <= 2.0 * (1 + 1e-9)


REFUSED: list[tuple[Any, Any, str]] = [
    (SOME, 80, r"rt\.records\(80\)"),
    (SOME, 0.5, "says nothing"),
    (SOME, rt.records(2000), "says nothing"),
    (SOME, "50%", "says nothing"),
    (SOME, "x", "percentage"),
    (SOME, "0%", "percentage"),
    (SOME, 0, "above 0"),
    (SOME, float("nan"), "above 0"),
    (SOME, True, "number"),
    (rt.marginal("s", "v"), 0.7, "says nothing"),
    (rt.mean("v"), 10, "half the range"),
    (rt.mean("v", rt.col("s") == "a"), 10, "half the range"),
    (rt.mean("v"), rt.records(80), "not a count"),
    (SQL, 0.02, "'2%'"),
    (SQL, 2000, "half the range"),
    (SQL, 1_059_590, "half the range"),
    ("SELECT AVG(v) FROM t WHERE s = 'a'", 10, "half the range"),
    ("SELECT AVG(v) FROM t WHERE s = 'a'", rt.records(80), "not counted in records"),
    ("SELECT SUM(v) FROM t WHERE s = 'a'", 1e9, "half the range"),
    ("SELECT ROUND(AVG(v), 1) FROM t", 1e12, "or more, 0 to 20,"),
    ("SELECT AVG(v) * 3 - 1 FROM t WHERE s = 'a'", 30, "or more, -1 to 59,"),
    ("SELECT AVG(v) - AVG(one) FROM t WHERE s = 'a'", 1000, "or more, -7 to 13,"),
    ("SELECT s, ROUND(AVG(v), 1) FROM t GROUP BY s", 10, "or more, 0 to 20,"),
    ("SELECT CORR(v, CASE WHEN s = 'a' THEN 1 ELSE 0 END) FROM t", 1e12, "or more, -1 to 1,"),
    ("SELECT STDDEV_POP(v) FROM t", 5, "or more, 0 to 10,"),
    ("SELECT MEDIAN(v) FROM t", 10, "or more, 0 to 20,"),
    (rt.median("v"), 11, "or more, 0 to 20,"),
    (rt.correlation("v", "one"), 1.0, "NULL whatever the rows are"),
    ("SELECT 1.0 * COUNT(*) FILTER (WHERE s = 'a') / COUNT(*) FROM t WHERE v > 0", "5%", "no range"),
]


@pytest.mark.parametrize(("question", "error", "named"), REFUSED, ids=lambda part: str(part)[:40])
def test_a_wish_in_the_wrong_unit_or_without_meaning_costs_nothing(
    session: rt.Session, question: Any, error: Any, named: str
) -> None:
    for call in (session.ask, session.cost):
        with pytest.raises(rt.QueryError, match=named):
            call(question, error=error)
    assert session.spent == 0


@pytest.mark.parametrize("wish", [0.01, 0.3, 0.5, 0.99])
def test_an_error_below_one_record_is_refused_with_examples_that_work(session: rt.Session, wish: float) -> None:
    with pytest.raises(rt.QueryError, match="less than one record") as refusal:
        session.ask(SQL, error=wish)
    found = re.search(r"for example (\d+), .* as text: '([0-9.]+%)'", str(refusal.value))
    assert found is not None
    assert session.cost(SQL, error=int(found[1])) > 0
    assert session.cost(SQL, error=found[2]) > 0


def test_a_wish_below_half_the_range_is_not_called_vacuous() -> None:
    """The bins of a column may hide all of its spread: then it has a range all the same."""
    domain = rt.Domain(y=rt.Numeric(edges=[0, 100], other=False), s=rt.Categorical(["a", "b"], other=False))
    rows = pa.table({"y": np.linspace(0, 100, 200), "s": ["a", "b"] * 100})
    session = rt.Session.open(None, rt.Table.of(rows, domain), rt.Budget(rho=1), warm_start=0)
    with pytest.raises(rt.QueryError, match=r"cannot reach an error of 1 at any price.*finer bins for y"):
        session.ask("SELECT STDDEV(y) FROM t", error=1)
    assert session.spent == 0


def test_what_cannot_be_paid_is_told(session: rt.Session) -> None:
    for question, wanted in ((SOME, 0.002), (rt.marginal("s", "v"), 0.002), (rt.mean("v"), 0.04)):
        answer = session.ask(question, error=wanted)
        assert answer.wanted == wanted
        assert "was wanted and not reached" in answer.note
        assert answer.note in repr(answer)
        assert type(answer).from_dict(answer.to_dict()).wanted == wanted
    assert "not reached" in session.ask(SQL, error=8).note
    assert session.ask(SOME, error=0.04).wanted is None
    assert session.spent > 0


def test_the_mean_of_a_column_with_one_value_is_known(session: rt.Session) -> None:
    for question in (rt.mean("one"), rt.mean("one", rt.col("s") == "a")):
        for error in (None, 0.1):
            answer = session.ask(question, error=error)
            assert (answer.value, answer.error, answer.price, answer.certified) == (7.0, 0.0, 0.0, True)
        assert session.cost(question, error=0.1) == 0
        assert session.release().ask(question).value == 7.0
    assert session.spent == 0


def test_quotients_of_unrelated_counts_are_not_cut() -> None:
    from reticent.knowledge.free import quotient_error
    from reticent.queries import Count, Ratio

    session = rt.Session.open(None, table(), rt.Budget(epsilon=4, delta=1e-9))
    few, many = Count(rt.col("s") == "a"), Count(rt.col("s") == "b")
    above = session.ask(Ratio(many, few))
    assert above.value > 2
    assert above.error is not None
    assert above.error > 0
    part = session.ask(Ratio(Count((rt.col("s") == "a") & (rt.col("v") == 10)), few))
    assert part.value + part.error <= 1.0
    assert not Ratio(many, few).bounded(DOMAIN)
    assert Ratio(few, Count()).bounded(DOMAIN)
    either = Count((rt.col("s") == "a") | (rt.col("v") == 10))
    assert Ratio(few, either).bounded(DOMAIN)
    assert not Ratio(either, few).bounded(DOMAIN)
    assert quotient_error(0.5, 0.1, 0.5, 0.1) == pytest.approx(0.5)
    assert quotient_error(0.5, 0.1, 0.5, 0.1, 1.0) == pytest.approx(1 / 3)


def test_bounds_of_unrelated_quotients_hold() -> None:
    """Both parts off by their whole error in opposite directions: the quotient's bound must cover it."""
    from reticent.knowledge.free import quotient_error

    generator = np.random.default_rng(2)
    for _ in range(500):
        top, bottom = generator.uniform(0.05, 1, 2)
        top_error, bottom_error = generator.uniform(0, 0.04, 2)
        bound = quotient_error(top, top_error, bottom, bottom_error)
        for signs in ((1, -1), (-1, 1)):
            truth = (top + signs[0] * top_error) / (bottom + signs[1] * bottom_error)
            assert abs(truth - top / bottom) <= bound * (1 + 1e-12)


def test_the_population_bound_covers_every_certificate_in_force() -> None:
    session = rt.Session.open(None, table(), rt.Budget(rho=0.005), warm_start=0)
    whole = session.remaining
    session.ask(rt.marginal("s", "v"), error=0.1)
    poor = session.certify("boxes", order=2, amount=whole / 50)
    good = session.certify("cells", order=1, amount=whole / 4)
    assert good.bound < poor.bound
    stated = session.describe()["generalisation"]["population_error"]
    newest = generalisation(session.budget, lambda b: good.bound_at(1 - b), failure=0.05)
    oldest = generalisation(session.budget, lambda b: poor.bound_at(1 - b), failure=0.05)
    assert stated == pytest.approx(oldest)
    assert stated > newest
