"""Synthetic rows in SQL: a fixed public table drawn from the certified snapshot, marked in every result."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.knowledge.free import ROWS

LISTED = [
    "SELECT * FROM t LIMIT 7",
    "SELECT * FROM t",
    "SELECT age, sex FROM t WHERE sex = 'F' ORDER BY age DESC LIMIT 5",
    "SELECT x.age + 1 AS next FROM t AS x LIMIT 3",
    "WITH young AS (SELECT * FROM t WHERE age < 50) SELECT * FROM young LIMIT 4",
    "SELECT * FROM (SELECT age FROM t) LIMIT 2 OFFSET 3",
    "SELECT * EXCLUDE (sex) FROM t LIMIT 2",
]


@cache
def session() -> rt.Session:
    generator = np.random.default_rng(0)
    ages, sexes = generator.integers(0, 100, 3000), generator.choice(["F", "M"], 3000, p=[0.7, 0.3])
    domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), sex=rt.Categorical(["F", "M"]))
    table = rt.Table.of(pa.table({"age": ages, "sex": sexes}), domain)
    return rt.Session.open(None, table, rt.Budget(epsilon=1, delta=1e-9), purpose="unlimited")


def test_rows_are_marked_free_and_stay_the_same() -> None:
    first = session().ask("SELECT * FROM t_synthetic LIMIT 5")
    assert (first.columns, len(first), first.origin, first.price) == (("age", "sex"), 5, "synthetic", 0)
    assert first.guarantee == "uncertified"
    assert "synthetic" in first.note
    assert "none of which is a record" in repr(first)
    assert all(error is None for row in first.errors for error in row)
    again = session().ask("SELECT * FROM t_synthetic LIMIT 10 OFFSET 2")
    assert again.rows[:3] == first.rows[2:]
    assert first.to_arrow().column_names == ["age", "sex"]


def test_the_table_can_be_asked_anything_and_says_what_it_is_of() -> None:
    result = session().ask("SELECT sex, COUNT(*) AS n, AVG(age) FROM t_synthetic GROUP BY sex ORDER BY n DESC")
    assert sum(row[1] for row in result.rows) == ROWS
    assert result.rows[0][0] == "F"
    assert result.origin == "synthetic"
    assert all(error is None for row in result.errors for error in row)


def test_synthetic_counts_are_those_of_the_snapshot_up_to_sampling() -> None:
    """Six standard deviations of a binomial: one in 10^8 seeds would fail."""
    cells = session().state.knowledge.newest.snapshot.marginal(("age", "sex"))
    result = session().ask("SELECT FLOOR(age / 10), sex, COUNT(*) FROM t_synthetic GROUP BY 1, 2")
    labels = session().domain["sex"].labels
    drawn = np.zeros(cells.shape)
    for bin_of, sex, count in result.rows:
        drawn[-1 if bin_of is None else int(bin_of), labels.index(sex)] = count
    assert (np.abs(drawn - ROWS * cells) <= 6 * np.sqrt(ROWS * cells * (1 - cells)) + 1).all()


@pytest.mark.parametrize("text", LISTED)
def test_lists_of_records_are_synthetic_where_the_setting_allows(text: str) -> None:
    with pytest.raises(rt.QueryError):
        session().ask(text)
    session().synthetic_rows = True
    try:
        result = session().ask(text)
    finally:
        session().synthetic_rows = False
    assert result.origin == "synthetic"
    assert "none of which is a record" in result.note
    assert len(result) > 0


def test_the_setting_leaves_aggregates_of_records_alone() -> None:
    session().synthetic_rows = True
    try:
        result = session().ask("SELECT sex, COUNT(*) FROM t GROUP BY sex")
    finally:
        session().synthetic_rows = False
    assert result.origin != "synthetic"
    assert result.certified


def test_rows_of_a_session_that_measured_nothing_say_so() -> None:
    """They were shown as rows of the published distribution, which nothing had been measured of."""
    rows = pa.table({"age": np.arange(3000) % 100, "sex": ["F", "M", "M"] * 1000})
    domain = rt.Domain(age=rt.Numeric(edges=range(0, 101, 10)), sex=rt.Categorical(["F", "M"]))
    with rt.Session.open(None, rt.Table.of(rows, domain), rt.Budget(epsilon=1, delta=1e-9), warm_start=0) as session:
        assert "nothing was measured here yet" in session.ask("SELECT * FROM t_synthetic LIMIT 5").note
        session.ask(rt.count(rt.col("sex") == "F"), error=0.05)
        assert "nothing was measured here yet" not in session.ask("SELECT sex FROM t_synthetic LIMIT 5").note
