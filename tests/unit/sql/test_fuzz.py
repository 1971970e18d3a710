# ruff: noqa: E501, SIM905 - statements stand one to a line, as an analyst would type them
"""Whatever text or predicate arrives: an answer or one line, before any data is looked at."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from tests.unit.sql.comparison import match
from tests.unit.sql.sql_breadth import AS_TYPED, IN_ORDER, RELATIONS
from tests.unit.sql.sql_refusals import REFUSED
from tests.unit.sql.sql_statements import ORDERED, UNORDERED
from tests.unit.sql.sql_table import DOMAIN, ROWS, people, view

from reticent.errors import QueryError
from reticent.knowledge.answer import Answer
from reticent.queries import Query, predicate_from_dict
from reticent.queries.linear import Count
from reticent.sql import compile_sql

CI_STATEMENTS = 4000
CI_PREDICATES = 6000
CI_COMPARISONS = 2000
SLOW_SECONDS = 600
LONGEST_LINE = 400

_TOKEN = re.compile(r"\s+|'[^']*'|\"[^\"]*\"|[A-Za-z_]+|[0-9.]+|[<>=!]+|.", re.DOTALL)
_SPICE = [
    "COUNT(*)",
    "SUM(",
    "AVG(",
    "(",
    ")",
    ",",
    "*",
    "/",
    "+",
    "-",
    "=",
    "<",
    ">=",
    "<>",
    ".",
    ";",
    "::",
    "?",
    "$1",
    "@x",
    "{}",
    "[]",
    "\\",
    "'",
    '"',
    "--",
    "/*",
    "*/",
    "NULL",
    "TRUE",
    "0",
    "1",
    "45",
    "1e999",
    "NOT",
    "AND",
    "OR",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "FILTER",
    "OVER",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "SELECT",
    "FROM",
    "WITH",
    "AS",
    "JOIN",
    "UNION",
    "DISTINCT",
    "EXISTS",
    "CAST",
    "DATE",
    "INTERVAL",
    "t",
    "x",
    "'north'",
    "''",
    "'%'",
    "(SELECT",
    "age",
    "sex",
    "region",
    "income",
    "smoker",
    "children",
    "visit",
    "\x00",
    "é",
    "\u202e",
]
_LEAVES = [*DOMAIN.names, "45", "0.5", "-1", "'north'", "NULL", "TRUE", "COUNT(*)", "DATE '2024-04-01'"]
_PLAIN = [None, True, 0, 45, -1, 1.5, 1e400, "north", "", "\ud800", [], {}, {"date": "2024-04-01"}, {"date": 3}, 2**70]
_OPS = ["==", "!=", "<", "<=", ">", ">=", "in", "and", "or", "not", "is_null", "is_known", "everything", "x"]


def mutated(generator: random.Random, seeds: list[str]) -> str:
    """A known statement with a few tokens deleted, doubled, swapped, replaced, or spliced with another."""
    tokens = _TOKEN.findall(generator.choice(seeds))
    for _ in range(generator.randint(1, 4)):
        place = generator.randrange(len(tokens) + 1)
        kind = generator.randrange(6)
        if kind == 0:
            del tokens[place : place + generator.randint(1, 3)]
        elif kind == 1:
            tokens[place:place] = [" ", generator.choice(_SPICE), " "]
        elif kind == 2:
            tokens[place : place + 1] = [generator.choice(_SPICE)]
        elif kind == 3:
            tokens[place:place] = tokens[place : place + generator.randint(1, 6)]
        elif kind == 4 and len(tokens) > 1:
            other = generator.randrange(len(tokens))
            here = min(place, len(tokens) - 1)
            tokens[here], tokens[other] = tokens[other], tokens[here]
        else:
            other_tokens = _TOKEN.findall(generator.choice(seeds))
            tokens[place:] = other_tokens[generator.randrange(len(other_tokens) + 1) :]
        tokens = tokens or ["SELECT"]
    return "".join(tokens)


_FUNCTIONS = """MEDIAN STDDEV VAR_POP MODE MAX SQRT LN EXP LOWER LENGTH TRIM REVERSE YEAR QUARTER FLOOR CEIL SIGN STRFTIME
    DAYNAME LAST_DAY IF GROUPING ANY_VALUE BOOL_AND STRING_AGG""".split()
_TWO = """CORR COVAR_POP REGR_SLOPE QUANTILE_CONT QUANTILE_DISC POWER MOD LEFT CONCAT GREATEST NULLIF COALESCE ARG_MAX LOG
    DATE_PART SUBSTR LPAD REPEAT STARTS_WITH""".split()
_WINDOWS = [
    "SUM(#)",
    "RANK()",
    "ROW_NUMBER()",
    "LAG(#)",
    "LEAD(#, 2, 0)",
    "AVG(#)",
    "NTILE(3)",
    "FIRST_VALUE(#)",
    "COUNT(*)",
]
_OVER = [
    "",
    "ORDER BY #",
    "PARTITION BY sex",
    "PARTITION BY # ORDER BY n",
    "ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
]


def grown(generator: random.Random, depth: int = 4) -> str:
    """A random expression that is often meaningful."""
    if depth == 0 or generator.random() < 0.2:
        return generator.choice(_LEAVES)
    one, two = grown(generator, depth - 1), grown(generator, depth - 1)
    shapes = [
        f"({one} {generator.choice(['+', '-', '*', '/', '%', '||'])} {two})",
        f"{one} {generator.choice(['=', '<>', '<', '<=', '>', '>=', 'LIKE', 'IS DISTINCT FROM'])} {two}",
        f"({one} {generator.choice(['AND', 'OR'])} {two})",
        f"NOT {one}",
        f"{one} IN ({two}, 1, 'north')",
        f"{one} BETWEEN {two} AND 65",
        f"{one} IS {generator.choice(['NULL', 'NOT NULL', 'TRUE', 'NOT FALSE'])}",
        f"CASE WHEN {one} THEN {two} ELSE {grown(generator, depth - 1)} END",
        f"{generator.choice(['COUNT', 'SUM', 'AVG', 'MIN', 'ROUND', 'ABS', 'COALESCE', 'UPPER', 'NULLIF'])}({one})",
        f"{generator.choice(['COUNT(*)', f'SUM({one})', f'AVG({one})'])} FILTER (WHERE {two})",
        f"CAST({one} AS {generator.choice(['DOUBLE', 'BIGINT', 'VARCHAR', 'DATE'])})",
        f"{generator.choice(_FUNCTIONS)}({one})",
        f"{generator.choice(_TWO)}({one}, {two})",
        f"{generator.choice(_WINDOWS)} OVER ({generator.choice(_OVER)})".replace("#", one),
        f"DATE_TRUNC('{generator.choice(['month', 'quarter', 'year', 'x'])}', {one})",
        f"EXTRACT({generator.choice(['YEAR', 'MONTH', 'DOW'])} FROM {one})",
        f"(SELECT {one} FROM t)",
        f"{one} IN (SELECT {two} FROM t GROUP BY 1)",
        f"({one})::{generator.choice(['INT', 'TEXT', 'BOOLEAN', 'DECIMAL(5,1)', 'TIMESTAMP'])}",
        f"{one} + INTERVAL {generator.choice(['1 DAY', '2 MONTH'])}",
    ]
    return generator.choice(shapes)


def statement(generator: random.Random) -> str:
    source = generator.choice(
        ["t"] * 6 + [f"(SELECT {grown(generator, 2)} AS x, sex, region FROM t)", "g", "g JOIN h USING (sex)"]
    )
    text = f"SELECT {grown(generator)}, COUNT(*) AS n FROM {source}"
    if generator.random() < 0.7:
        text += f" WHERE {grown(generator)}"
    if generator.random() < 0.5:
        keys = ["1", "sex", "region, age", grown(generator, 2), "ROLLUP(sex, region)", "CUBE(1, sex)", "ALL"]
        text += f" GROUP BY {generator.choice(keys)}"
    if generator.random() < 0.3:
        text += f" HAVING {grown(generator, 3)}"
    if generator.random() < 0.3:
        text += f" ORDER BY {generator.choice(['1', 'n DESC', grown(generator, 2)])} LIMIT {grown(generator, 0)}"
    if generator.random() < 0.1:
        text += f" UNION {generator.choice(['ALL ', ''])}SELECT {grown(generator, 2)}, {grown(generator, 2)} FROM t"
    if "g" in source.split():
        text = f"WITH g AS ({_NAMED}), h AS (SELECT sex, AVG({grown(generator, 1)}) AS x FROM t GROUP BY sex) {text}"
    return text


_NAMED = "SELECT sex, region, COUNT(*) AS n FROM t GROUP BY ALL"


def texts(seed: int) -> Iterator[str]:
    generator = random.Random(seed)
    seeds = [*UNORDERED[::7], *ORDERED, *AS_TYPED[::3], *RELATIONS, *IN_ORDER, *(text for text, _ in REFUSED)]
    while True:
        yield mutated(generator, seeds) if generator.random() < 0.5 else statement(generator)


def refusal_of(text: str, asked: list[Query]) -> str | None:
    """The message of a refusal, None if the statement was answered."""

    def answer(query: Query) -> Answer:
        asked.append(query)
        return view().answer(query)

    try:
        repr(compile_sql(text, DOMAIN).run(answer, records=ROWS))
    except QueryError as refusal:
        return str(refusal)
    return None


def survives(text: str) -> bool:
    """Whether it was answered; a refusal is one line, and comes before any answer is asked."""
    asked: list[Query] = []
    message = refusal_of(text, asked)
    if message is None:
        return True
    assert not asked, f"a refusal is judged on the domain alone: {text}"
    assert "\n" not in message, text
    assert len(message) <= LONGEST_LINE, text
    assert "not understood" not in message, f"an unforeseen shape: {text}"
    return False


def test_any_text_is_answered_or_refused_in_one_line() -> None:
    answered = sum(survives(text) for _, text in zip(range(CI_STATEMENTS), texts(6), strict=False))
    assert answered >= CI_STATEMENTS // 100, "the fuzzer must also reach statements that work"


def compared(text: str) -> bool:
    """Whether both engines answered; then their rows must agree, but for groups of no records."""
    try:
        ours, theirs = people().rows(text), people().decoded.execute(text).fetchall()
    except (QueryError, duckdb.Error):
        return False
    for row in ours:
        found = next((other for other in theirs if match(row, other)), None)
        if found is not None:
            theirs.remove(found)
        else:
            assert "GROUP BY" in text.upper(), f"{text}: {row} is not DuckDB's"
            assert not any(cell for cell in row if isinstance(cell, float)), f"{text}: {row} is not DuckDB's"
    assert not theirs, text
    return True


def test_mutated_statements_still_mean_what_duckdb_says() -> None:
    generator = random.Random(8)
    seeds = [*UNORDERED, *AS_TYPED]
    agreed = sum(compared(mutated(generator, seeds)) for _ in range(CI_COMPARISONS))
    assert agreed >= CI_COMPARISONS // 40


@pytest.mark.slow
@pytest.mark.timeout(SLOW_SECONDS + 120)
def test_any_text_for_ten_minutes() -> None:
    until = time.monotonic() + SLOW_SECONDS
    for text in texts(random.SystemRandom().getrandbits(32)):
        survives(text)
        if time.monotonic() > until:
            return


def description(generator: random.Random, depth: int = 4) -> Any:
    """A random JSON value that is often nearly a predicate."""
    if depth == 0 or generator.random() < 0.1:
        return generator.choice(_PLAIN)
    column = generator.choice([*DOMAIN.names, "nobody", "", None])
    op = generator.choice(_OPS)
    entry: dict[str, Any] = {"op": op}
    if op in ("and", "or"):
        entry["of"] = [description(generator, depth - 1) for _ in range(generator.randint(1, 3))]
    elif op == "not":
        entry["of"] = description(generator, depth - 1)
    elif op != "everything":
        entry["column"] = column
        if op == "in":
            entry["values"] = generator.choices(_PLAIN, k=generator.randint(0, 3))
        elif op not in ("is_null", "is_known"):
            entry["value"] = generator.choice([*_PLAIN, 45, "north", "Male", 2])
    if generator.random() < 0.05:
        entry[generator.choice(["op", "of", "extra"])] = generator.choice(_PLAIN)
    return entry


def compiles(entry: Any) -> str | None:
    try:
        Count(predicate_from_dict(entry)).compile(DOMAIN)
    except QueryError as refusal:
        return str(refusal)
    return None


def test_any_predicate_description_compiles_or_is_refused_in_one_line() -> None:
    generator = random.Random(7)
    messages = [compiles(description(generator)) for _ in range(CI_PREDICATES)]
    assert not any("\n" in message for message in messages if message is not None)
    assert messages.count(None) >= CI_PREDICATES // 50, "the fuzzer must also reach predicates that work"
