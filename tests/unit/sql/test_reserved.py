"""Names of columns that are words of SQL: quoted where statements are written, told of in refusals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

import reticent as rt
from reticent.errors import QueryError
from reticent.sql.names import RESERVED, quoted_name
from reticent.sql.parse import parse_one
from reticent.sql.statement import compile_sql

STATEMENTS = (
    "SELECT {0}, AVG({0}) FROM t WHERE {0} = 1 GROUP BY {0}",
    "SELECT COUNT(*) FROM t WHERE {0} IN (1, 2) AND {0} IS NULL AND ({0} >= 1 OR {0} = 2)",
    "SELECT b, {0}, COUNT(*) FROM t GROUP BY b, {0} ORDER BY b, {0} LIMIT 3",
)


def _words() -> list[str]:
    """Every single word that the tokenizer or the parser treats in a way of its own."""
    known = {*DuckDB.Tokenizer.KEYWORDS, *DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS, *DuckDB.Parser.FUNCTIONS}
    return sorted({word.lower() for word in known if re.fullmatch(r"[A-Za-z_]+", word)})


def _read_as_a_column(name: str, bare: str) -> bool:
    try:
        for statement in STATEMENTS:
            found = [c for c in parse_one(statement.format(name)).find_all(exp.Column) if c.name.lower() == bare]
            if len(found) != statement.count("{0}"):
                return False
    except QueryError:
        return False
    return True


def test_every_word_is_quoted_that_the_parser_would_not_read_as_a_name() -> None:
    words = [word for word in _words() if word != "all"]  # sqlglot takes ORDER BY "all" for ORDER BY ALL
    assert len(words) > 500
    assert [word for word in words if not _read_as_a_column(quoted_name(word), word)] == []


@pytest.mark.parametrize(
    ("name", "written"), [("age", "age"), ("Alter", '"Alter"'), ("a b", '"a b"'), ('a"b', '"a""b"')]
)
def test_names_as_statements_write_them(name: str, written: str) -> None:
    assert quoted_name(name) == written


def test_the_page_quotes_the_same_words() -> None:
    page = Path(rt.__file__).parent / "service" / "static" / "builder.js"
    listed = re.search(r"const RESERVED = new Set\(`(.*?)`", page.read_text(), re.S)
    assert listed is not None
    assert set(listed[1].split()) == RESERVED


@pytest.mark.parametrize(
    "text",
    ["SELECT COUNT(*) FROM t WHERE Alter > 50", "EXPLAIN SELECT alter, COUNT(*) FROM t WHERE alter = 1 GROUP BY 1"],
)
def test_a_refusal_reminds_of_quotes(text: str) -> None:
    domain = rt.Domain(Alter=rt.Numeric(edges=[0, 50, 100], whole=True), sex=rt.Categorical(["f", "m"]))
    with pytest.raises(QueryError, match=r'like a word of SQL stands in double quotes: "Alter"$'):
        compile_sql(text, domain)


def test_it_reminds_of_no_column_that_needs_none() -> None:
    domain = rt.Domain(Alter=rt.Numeric(edges=[0, 50, 100], whole=True), sex=rt.Categorical(["f", "m"]))
    with pytest.raises(QueryError) as told:
        compile_sql("SELECT COUNT(*) FROM t WHERE sex >", domain)
    assert "quotes" not in str(told.value)
    with pytest.raises(QueryError) as told:
        compile_sql('SELECT COUNT(*) FROM t WHERE "Alter" >', domain)
    assert "quotes" not in str(told.value)
