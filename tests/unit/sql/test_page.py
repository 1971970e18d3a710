"""docs/sql.md: examples are answered as DuckDB answers them, refusals are word for word, no function is missing."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp
from tests.unit.sql.comparison import difference
from tests.unit.sql.sql_table import ask, people

from reticent.errors import QueryError
from reticent.sql.aggregates import AGGREGATES
from reticent.sql.compilers import FUNCTIONS as OVER_ROWS
from reticent.sql.functions import Compiler

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
TEMPLATES = {
    "Aggregates over records": "SELECT {} FROM t",
    "Conditions": "SELECT COUNT(*) FROM t WHERE {}",
    "Functions of columns": "SELECT {} AS k, COUNT(*) FROM t GROUP BY 1",
    "Functions of results": "SELECT {} FROM (SELECT COUNT(*) AS n, AVG(age) AS a FROM t) g",
    "Window functions over groups": "SELECT region, COUNT(*) AS n, {} FROM t GROUP BY region",
    "Aggregates over groups": "SELECT {} FROM (SELECT region, COUNT(*) AS n FROM t GROUP BY region) g",
}
NO_NAME = (exp.And, exp.Or, exp.Anonymous, exp.Case)
WRITTEN_AS = {
    "DATE_BIN": "TIME_BUCKET",
    "DATE_FROM_PARTS": "MAKE_DATE",
    "GROUP_CONCAT": "STRING_AGG",
    "PAD": "LPAD",
    "REGEXP_I_LIKE": "REGEXP_MATCHES",
    "REGEXP_LIKE": "REGEXP_MATCHES",
    "STR_POSITION": "STRPOS",
    "TIMESTAMP_TRUNC": "DATE_TRUNC",
    "TIME_TO_STR": "STRFTIME",
    "TIME_TO_UNIX": "EPOCH",
    "UNIX_TO_TIME": "TO_TIMESTAMP",
}
"""By sqlglot's name, where DuckDB has another."""


def section(title: str) -> str:
    return re.split(r"^##+ ", PAGE.split(f"### {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def examples() -> list[str]:
    found = []
    for title, template in TEMPLATES.items():
        cells = [line.split("|", 2)[2] for line in section(title).replace("\\|", "\0").splitlines() if line[:1] == "|"]
        spans = [span.replace("\0", "|") for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
        assert len(spans) >= 10, title
        found += [template.format(span) for span in spans]
    block = re.search(r"```sql\n(.*?)```", section("Statements"), flags=re.S)
    assert block is not None
    return found + [text for text in block[1].split(";\n") if text.strip()]


@pytest.mark.parametrize("text", examples())
def test_every_example_is_answered_as_duckdb_answers_it(text: str) -> None:
    try:
        people().decoded.execute(text)
    except duckdb.Error:
        assert ask(text).rows  # a function of other databases
    else:
        assert difference(people(), text) == ""


def test_refusals_are_word_for_word() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE.split("## What is refused", 1)[1], flags=re.M)
    assert len(rows) >= 10
    for text, words in rows:
        with pytest.raises(QueryError) as caught:
            ask(text)
        assert str(caught.value) == words


def test_no_function_is_missing() -> None:
    known = {one for one in (*Compiler.handlers, *AGGREGATES, *OVER_ROWS) if issubclass(one, exp.Func)}
    assert len(known) > 100
    for one in known - set(NO_NAME):
        names = [WRITTEN_AS.get(name, name) for name in one.sql_names()]
        assert any(re.search(rf"\b{name}\b", PAGE) for name in names), names
