"""Free numbers whose parts must agree: after a purchase their values are still those of one distribution."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt

N = 2000
GROUPS = ("a", "b", "c")


def opened(*, numbers: bool = False, low: float = 0.0) -> rt.Session:
    """A session that knows nothing: the working hypothesis is uniform."""
    generator = np.random.default_rng(3)
    table = pa.table(
        {
            "c": generator.choice(GROUPS, N, p=[0.9, 0.07, 0.03]),
            "x": generator.integers(0, 10, N),
            "y": low + np.clip(generator.normal(60, 15, N), 0, 100),
        }
    )
    domain = rt.Domain(
        c=rt.Categorical(GROUPS, other=False),
        x=rt.Numeric(edges=range(11), whole=True, other=False),
        y=rt.Numeric(edges=[low + edge for edge in range(0, 101, 10)], other=False),
    )
    table = rt.Table.of(table, domain, numbers=numbers)
    return rt.Session.open(None, table, rt.Budget(epsilon=2, delta=1e-9), warm_start=0)


@pytest.mark.parametrize("low", [0.0, -50.0, 1000.0])
def test_averages_stay_those_of_the_fit_when_only_counts_were_bought(low: float) -> None:
    session = opened(low=low)
    text = "SELECT c, COUNT(*), AVG(y), SUM(y), SUM(y) * 1.0 / COUNT(*), STDDEV(y), AVG(x), SUM(x) FROM t GROUP BY c"
    before = session.ask(text).rows[0]
    counts = session.ask("SELECT c, COUNT(*) FROM t GROUP BY c", error=40)
    rows: Any = session.ask(text).rows
    for row in rows:
        _, count, mean, total, quotient, spread, x_mean, x_total = row
        assert mean == pytest.approx(before[2], abs=1e-9)
        assert quotient == pytest.approx(before[2], abs=1e-9)
        assert spread == pytest.approx(before[5], rel=0.05)  # STDDEV of a sample knows the number of records
        assert x_mean == pytest.approx(before[6])
        # A group sums no more than its records have.
        assert total == pytest.approx(count * mean, abs=1e-6)
        assert x_total == pytest.approx(count * x_mean)
    assert [row[:2] for row in session.ask(text).rows] == list(counts.rows)


def test_a_part_of_a_bought_group_is_no_larger_than_the_group() -> None:
    session = opened()
    session.ask("SELECT c, COUNT(*) FROM t GROUP BY c", error=40)
    rows: Any = session.ask("SELECT c, COUNT(*), COUNT(*) FILTER (WHERE y < 30) FROM t GROUP BY c").rows
    for row in rows:
        assert row[2] == pytest.approx(0.3 * row[1])


def test_a_mean_asked_from_python_is_that_of_the_fit() -> None:
    session = opened()
    session.ask("SELECT c, COUNT(*) FROM t GROUP BY c", error=40)
    for group in GROUPS:
        assert float(session.ask(rt.mean("y", rt.col("c") == group)).value) == pytest.approx(50)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize(
    "bought",
    [
        ("SELECT y, COUNT(*) FROM t GROUP BY y", 40),
        ("SELECT AVG(x) FROM t", 2),
        ("SELECT AVG(y) FROM t", 12),
    ],
)
def test_moments_of_two_columns_come_from_one_distribution(bought: tuple[str, float], *, numbers: bool) -> None:
    session = opened(numbers=numbers)
    session.ask(bought[0], error=bought[1])
    asked = "SELECT CORR(x, y), COVAR_POP(x, y), REGR_SLOPE(y, x) FROM t"
    # Independent columns in every fit: what a purchase says of one column says nothing of their relation.
    assert session.ask(asked).rows[0] == pytest.approx((0, 0, 0), abs=1e-6)
    session.refit()
    assert abs(session.ask(rt.correlation("x", "y")).value) < 0.2


def test_what_was_bought_keeps_its_value() -> None:
    session = opened(numbers=True)
    text = "SELECT AVG(y) FROM t WHERE c = 'a'"
    bought = session.ask(text, error=10)
    assert session.ask(text, error=10).rows == bought.rows
    assert session.ask(text).rows[0] == pytest.approx(bought.rows[0])
    assert bought.rows[0][0] == pytest.approx(60, abs=10)
