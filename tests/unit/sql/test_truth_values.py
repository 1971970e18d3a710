"""Truth values: `(other)` is NULL in SQL, because no truth value is another one; in predicates it keeps its meaning."""

from __future__ import annotations

import re
from functools import cache

import pytest
from tests.unit.sql.comparison import difference
from tests.unit.sql.sql_table import Exact

from reticent.domain import Categorical, Domain
from reticent.queries import col
from reticent.sql.rules import condition_text, read_rule

DOMAIN = Domain(
    f=Categorical([True, False]),
    g=Categorical([True, False], nullable=True, other=True),
    sole=Categorical([True]),
    word=Categorical(["a", "b"], other=False),
)
CONDITIONS = [
    "f",
    "NOT f",
    "f = FALSE",
    "f <> TRUE",
    "f <> FALSE",
    "f = 'false'",
    "f IS TRUE",
    "f IS FALSE",
    "f IS NOT TRUE",
    "f IS NOT FALSE",
    "f IS NULL",
    "f IS NOT NULL",
    "f OR NOT f",
    "f AND NOT f",
    "NOT (f = FALSE)",
    "NOT (f <> FALSE)",
    "f IN (FALSE)",
    "f NOT IN (FALSE)",
    "f IN (TRUE, FALSE)",
    "f NOT IN (TRUE, FALSE)",
    "f IS DISTINCT FROM TRUE",
    "f IS NOT DISTINCT FROM FALSE",
    "f IS DISTINCT FROM NULL",
    "f IS NOT DISTINCT FROM NULL",
    "f = g",
    "f <> g",
    "NOT (f AND g)",
    "CASE WHEN f THEN FALSE ELSE TRUE END",
    "CASE f WHEN TRUE THEN FALSE WHEN FALSE THEN TRUE END",
    "COALESCE(f, TRUE)",
    "NOT COALESCE(f, FALSE)",
    "(f OR word = 'a') IS NULL",
    "NOT (f AND word = 'a')",
    "sole <> TRUE",
    "NOT sole",
]
SELECTS = [
    "SELECT COUNT(f), COUNT(g), COUNT(sole) FROM t",
    "SELECT SUM(f), AVG(CAST(g AS INT)) FROM t",
    "SELECT SUM(CASE WHEN NOT f THEN 1 ELSE 0 END), COUNT(*) FILTER (WHERE NOT g) FROM t",
    "SELECT COUNT(DISTINCT f), MODE(f) FROM t",
    "SELECT BOOL_AND(f), BOOL_OR(NOT f), COUNT_IF(NOT f) FROM t",
    "SELECT f, COUNT(*) FROM t GROUP BY f",
    "SELECT g, COUNT(*) FROM t GROUP BY g",
    "SELECT g, word, COUNT(*) FROM t GROUP BY g, word",
    "SELECT NOT f, COUNT(*) FROM t GROUP BY 1",
    "SELECT f IS NULL, COUNT(*) FROM t GROUP BY 1",
    "SELECT COALESCE(f, g), COUNT(*) FROM t GROUP BY 1",
    "SELECT f, COUNT(*) FROM t GROUP BY f HAVING NOT f",
    "SELECT f, COUNT(*) FROM t GROUP BY ROLLUP (f)",
    "SELECT a.f, a.n FROM (SELECT f, COUNT(*) AS n FROM t GROUP BY f) a WHERE NOT a.f",
]


@cache
def flags() -> Exact:
    return Exact(DOMAIN, 8)


@pytest.mark.parametrize("column", ["f", "g"])
def test_every_condition_on_a_truth_value_means_what_duckdb_says(column: str) -> None:
    conditions = [re.sub(r"\bf\b", column, where) for where in CONDITIONS]
    found = [difference(flags(), f"SELECT COUNT(*) FROM t WHERE {where}") for where in conditions]
    assert not any(found), "\n".join(filter(None, found))


def test_aggregates_and_groups_of_truth_values_are_duckdbs() -> None:
    found = [difference(flags(), text) for text in SELECTS]
    assert not any(found), "\n".join(filter(None, found))


def test_records_without_a_truth_value_are_one_group() -> None:
    groups = flags().ask("SELECT g, COUNT(*) FROM t GROUP BY g").rows
    assert [key for key, _ in groups].count(None) == 1


def test_other_can_be_asked_for_by_name() -> None:
    named, missing = (
        flags().ask(f"SELECT COUNT(*) FROM t WHERE {where}").rows[0][0] for where in ("f = '(other)'", "f IS NULL")
    )
    assert named == missing != 0.0


@pytest.mark.parametrize("predicate", [col("f") != True, ~(col("f") == True), col("g").isin([True])], ids=repr)  # noqa: E712
def test_a_rule_keeps_the_meaning_of_predicates(predicate: object) -> None:
    """Rules of domains in use were read so; a rule is written as SQL and read back as the same predicate."""
    form = predicate.compile(DOMAIN)  # type: ignore[attr-defined]
    _, read = read_rule(condition_text(predicate), DOMAIN)  # type: ignore[arg-type]
    assert [vector.tolist() for vector in read.vectors] == [vector.tolist() for vector in form.vectors]  # type: ignore[attr-defined]


def test_an_unequal_truth_value_includes_other_in_a_predicate() -> None:
    unequal = (col("f") != True).compile(DOMAIN)  # noqa: E712
    assert unequal.vectors[0].tolist() == [0.0, 1.0, 1.0]  # type: ignore[attr-defined]
