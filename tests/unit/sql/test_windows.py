"""Frames of window functions, and what is computed from groups that noise may remove or from truth values."""

from __future__ import annotations

import pytest
from tests.unit.sql.comparison import difference, misses
from tests.unit.sql.sql_table import DOMAIN, ROWS, Exact, people

from reticent.domain import Categorical, Domain, Numeric
from reticent.errors import QueryError
from reticent.sql import run
from reticent.sql.statement import compile_sql

FRAMES = [
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 2 FOLLOWING AND 9 FOLLOWING",
    "ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "",
]
FUNCTIONS = [
    "SUM(COUNT(*))",
    "MIN(COUNT(*))",
    "COUNT(*)",
    "SUM(COUNT(*)) FILTER (WHERE children <> 1)",
    "FIRST_VALUE(children)",
    "LAST_VALUE(children)",
    "NTH_VALUE(children, 2)",
]
HAVING = ["", " HAVING COUNT(*) > 1000", " HAVING children <> 1"]
NOISY_KEYS = ["COUNT(*)", "COUNT(*) DESC", "SIGN(COUNT(*) - 700)", "AVG(age)"]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("having", HAVING)
def test_frames_are_of_the_rows_that_having_leaves(frame: str, having: str) -> None:
    for function in FUNCTIONS:
        window = f"{function} OVER (ORDER BY children {frame})"
        assert not difference(people(), f"SELECT children, {window} AS w FROM t GROUP BY children{having}")


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("key", NOISY_KEYS)
def test_a_frame_is_certain_only_where_noise_cannot_move_its_row(frame: str, key: str) -> None:
    """The row that comes last by estimate need not be the last: its frame is not known to hold all others."""
    raw, found = people().raw("even", 2), []
    for function in FUNCTIONS[:4]:
        text = f"SELECT children, {function} OVER (ORDER BY {key} {frame}) AS w FROM t GROUP BY children"
        public = [False, False]
        for seed in range(6):
            result = run(text, DOMAIN, people().blurred(0.6, seed).answer, records=ROWS)
            found += misses(people(), raw, text, result, public)[1]
    assert not found, "\n".join(found)


OF_TRUTH = [
    "SELECT MAX(o), MIN(o), ANY_VALUE(o) FROM (SELECT sex, COUNT(*) > 100 AS o FROM t GROUP BY sex)",
    "SELECT children, MAX(o) FROM (SELECT children, sex, COUNT(*) > 450 AS o FROM t GROUP BY 1, 2) GROUP BY children",
    "SELECT children, COALESCE(n > 900, TRUE), NULLIF(n > 900, TRUE), GREATEST(n > 900, FALSE) FROM g",
    "SELECT children, MAX(n > 1000) OVER (ORDER BY children), LAG(n > 1000, 1, TRUE) OVER (ORDER BY children) FROM g",
    "SELECT QUANTILE_DISC(n > 1000, 0.5), ARG_MAX(n > 1000, children) FROM g",
    "SELECT MAX(n > 10) FROM (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) UNION ALL SELECT TRUE",
    "SELECT BOOL_AND(smoker) AS x FROM t UNION ALL SELECT MODE(children) FROM t",
]


@pytest.mark.parametrize("text", OF_TRUTH)
def test_what_is_computed_from_truth_values_is_a_truth_value(text: str) -> None:
    text = text.replace("FROM g", "FROM (SELECT children, COUNT(*) AS n FROM t GROUP BY children)")
    result = people().ask(text)
    for row in result.rows:
        assert all(
            (kind == "truth") == isinstance(cell, bool)
            for cell, kind in zip(row, result.types, strict=True)
            if cell is not None
        )
    assert not difference(people(), text)


def test_the_row_picked_by_arg_max_has_a_value() -> None:
    inner = "SELECT NULLIF(children, {}) AS a, COUNT(*) AS n FROM t GROUP BY 1"
    for left_out in range(4):
        assert not difference(people(), f"SELECT ARG_MAX(a, n), ARG_MIN(a, n) FROM ({inner.format(left_out)})")


@pytest.mark.parametrize("outer", ["COUNT(*)", "SUM(m)", "MIN(m)", "MAX(m)", "COUNT(DISTINCT g)", "AVG(m)"])
def test_a_group_of_a_cut_condition_may_not_exist(outer: str) -> None:
    """No record is as old as the end of its bin, so no group exists; records of the bin do not show the contrary."""
    table = Exact(Domain(age=Numeric(edges=[0, 50, 99], other=False), g=Categorical(["a", "b"], other=False)), 4)
    text = f"SELECT {outer} AS x FROM (SELECT g, COUNT(*) + 5 AS m FROM t WHERE age >= 90 GROUP BY g)"
    true = table.raw("low", 1).execute(text).fetchone()
    result = run(text, table.domain, table.blurred(0.05, 1).answer, records=ROWS)
    (value,), (error,) = result.rows[0], result.errors[0]
    assert true is not None
    if error is not None and value is not None and true[0] is not None:
        assert abs(value - true[0]) <= error
    else:
        assert error is None or value is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT income, COUNT(*) FROM t GROUP BY ROLLUP (income)",
        "SELECT visit, COUNT(*) FROM t GROUP BY CUBE (visit)",
        "SELECT LAG(age) OVER (ORDER BY age), age FROM t GROUP BY age",
        "SELECT MAX(visit), MIN(income) FROM (SELECT visit, income, COUNT(*) FROM t GROUP BY 1, 2)",
    ],
)
def test_bins_among_other_values_are_texts(text: str) -> None:
    result = people().ask(text)
    held = {kind for row in result.rows for cell, kind in zip(row, result.types, strict=True) if isinstance(cell, str)}
    assert held == {"text"}


def test_zero_has_no_sign() -> None:
    result = people().ask("SELECT MIN(n) FROM (SELECT sex, COUNT(*) - COUNT(*) AS n FROM t GROUP BY sex)")
    assert str(result.rows[0][0]) == "0.0"
    assert compile_sql(result.sql, DOMAIN)


@pytest.mark.parametrize("groups", ["sex", "ROLLUP (sex)", "CUBE (sex)"])
def test_refusals_use_the_words_of_the_statement(groups: str) -> None:
    """Under ROLLUP they named columns that stand for its keys and aggregates inside."""
    with pytest.raises(QueryError, match=r"^GREATEST\(COUNT\(\*\), MEDIAN\(visit\)\) mixes dates and numbers"):
        people().ask(f"SELECT sex, GREATEST(COUNT(*), MEDIAN(visit)) FROM t GROUP BY {groups}")
