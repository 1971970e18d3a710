# ruff: noqa: E501 - statements stand one to a line, as an analyst would type them
"""Work is weighed before it is done: whatever a text says, compiling and running it has a bound in time and memory."""

from __future__ import annotations

import gc
import re
import time
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.domain import Categorical, Domain, Integer
from reticent.errors import QueryError
from reticent.knowledge.answer import Answer
from reticent.queries import Groups, col
from reticent.sql.expressions import Run, Sum
from reticent.sql.intervals import Interval
from reticent.sql.refusals import MAX_STEPS
from reticent.sql.scalars import Matcher
from reticent.sql.statement import KEPT_BYTES, STATEMENTS, Kept, compile_sql

WIDE = Domain({f"c{number}": Integer(16) for number in range(12)} | {"word": Categorical(["a" * 40, "b" * 40])})
TEXT = 20_000
"""Characters that the service takes."""
LONGEST = 4 * MAX_STEPS / 1e6
"""Seconds; steps are about microseconds on one idle processor, and tests run on busy ones."""


def repeated(head: str, piece: str, tail: str, joint: str = ", ") -> str:
    count = (TEXT - len(head) - len(tail)) // (len(piece) + len(joint) + 4)
    return head + joint.join(piece.replace("#", str(number % 16)) for number in range(count)) + tail


def doubled() -> str:
    """Each alias is twice the one before: 2^60 operations in a few hundred characters."""
    steps = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(60))
    return f"SELECT COUNT(*) AS a0, {steps} FROM t"


WIDE_OR = " OR ".join(f"c{number} = 1" for number in range(5))
ATTACKS = {
    "counts": repeated("SELECT ", "COUNT(*)", " FROM t"),
    "different counts": repeated("SELECT ", "COUNT(*) FILTER (WHERE c0 = #)", " FROM t"),
    "sums": repeated("SELECT ", "COUNT(*)", " FROM t", " + "),
    "aliases": doubled(),
    "wide tensors": repeated("SELECT ", f"COUNT(*) FILTER (WHERE c9 < # AND ({WIDE_OR}))", " FROM t"),
    "wide groups": repeated("SELECT c5, c6, c7, ", f"SUM(c9 + #) FILTER (WHERE {WIDE_OR})", " FROM t GROUP BY 1, 2, 3"),
    "many numbers": repeated("SELECT c0, c1, c2, c3, ", "COUNT(*)", " FROM t GROUP BY 1, 2, 3, 4"),
    "quotients": repeated("SELECT c0, c1, c2, ", "AVG(c4) / (1 + COUNT(*))", " FROM t GROUP BY 1, 2, 3"),
    "cases": "SELECT SUM("
    + repeated("", "CASE WHEN c0 = # OR c1 > # THEN # ELSE c2 END", "", " + ")[: TEXT - 100].rpartition(" + ")[0]
    + ") FROM t",
    "filtered cases": repeated("SELECT ", "SUM(CASE WHEN c0 = # THEN c1 WHEN c2 = # THEN c3 ELSE c4 END)", " FROM t"),
    "negations": "SELECT c0, COUNT(*) FROM t GROUP BY c0 HAVING " + "NOT " * 60 + "COUNT(*) > 1",
    "having": repeated("SELECT c0, c1, COUNT(*) AS n FROM t GROUP BY 1, 2 HAVING ", "n > # AND c0 = #", "", " OR "),
    "long alias": repeated("SELECT ", "COUNT(*)", " AS n FROM t HAVING ", " + ")[: TEXT // 2].rpartition(" +")[0]
    + " AS n FROM t HAVING "
    + " AND ".join(["n > 1"] * 900),
    "keys": repeated("SELECT COUNT(*) FROM t GROUP BY ", "CASE WHEN c0 = # THEN 1 ELSE 1 END", ""),
    "long lists": f"SELECT COUNT(*) FROM t WHERE c0 IN ({', '.join(str(n % 16) for n in range(5000))})",
    "long where": repeated("SELECT ", "COUNT(*) FILTER (WHERE c1 = #)", "")[: TEXT // 2].rpartition(",")[0]
    + " FROM t WHERE "
    + " AND ".join(f"c{n % 12} <> {n % 16}" for n in range(700)),
    "patterns": repeated("SELECT COUNT(*) FROM t WHERE ", f"word LIKE '{'%a' * 8}%c'", "", " OR "),
    "long patterns": repeated("SELECT COUNT(*) FROM t WHERE ", f"word LIKE '{'%a_' * 200}c'", "", " OR "),
    "brackets": "SELECT COUNT(*) FROM t WHERE c0" + "[1]" * 6000 + " = 1",
    "nesting": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 200 + "t" + ")" * 200,
    "computed tables": "WITH v0 AS (SELECT c0 AS x FROM t), "
    + ", ".join(f"v{n} AS (SELECT x + x AS x FROM v{n - 1})" for n in range(1, 60)) + " SELECT SUM(x) FROM v59",
    "wide cells": repeated("SELECT COUNT(*) FROM t WHERE ", "c0 + c1 + c2 + c3 > #", "", " OR "),
    "wide keys": repeated("SELECT COUNT(*) FROM t GROUP BY ", "(c0 + c1 * c2 - c3) % 7", ""),
    "wide sums": repeated("SELECT ", "SUM(c0 * c1 + c2 * c3 + #)", " FROM t"),
    "medians": repeated("SELECT ", "MEDIAN(c1) FILTER (WHERE c0 <> #)", " FROM t"),
    "medians of groups": repeated("SELECT c5, c6, c7, ", "MEDIAN(c#)", " FROM t GROUP BY 1, 2, 3").replace("c14", "c4").replace("c15", "c4").replace("c13", "c4").replace("c12", "c4"),
    "correlations": repeated("SELECT c0, ", "CORR(c1 + #, c2)", " FROM t GROUP BY c0"),
    "windows": repeated("SELECT c0, c1, c2, ", "SUM(COUNT(*)) OVER (ORDER BY c0, c1, c2)", " FROM t GROUP BY 1, 2, 3"),
    "ranks": repeated("SELECT c0, c1, c2, ", "RANK() OVER (PARTITION BY c0 ORDER BY COUNT(*))", " FROM t GROUP BY 1, 2, 3"),
    "unions": repeated("", "SELECT COUNT(*) FROM t WHERE c0 = #", "", " UNION ALL "),
    "unions of groups": repeated("", "SELECT c0, c1, c2, c3, COUNT(*) FROM t GROUP BY ALL", "", " UNION ALL "),
    "cubes": "SELECT COUNT(*) FROM t GROUP BY CUBE(c0, c1, c2, c3, c4, c5)",
    "rollups": repeated("SELECT c0, c1, c2, ", "AVG(c4 + #)", " FROM t GROUP BY ROLLUP(c0, c1, c2)"),
    "joins": "WITH g AS (SELECT c0, c1, c2, COUNT(*) AS n FROM t GROUP BY ALL) SELECT COUNT(*) FROM g a JOIN g b ON a.c0 = b.c0",
    "products": "WITH g AS (SELECT c0, c1, COUNT(*) AS n FROM t GROUP BY ALL) SELECT COUNT(*) FROM g a, g b, g c",
    "texts": "SELECT COUNT(*) FROM t WHERE REPEAT(word, 1000000000) = 'a'",
    "longer texts": "SELECT COUNT(*) FROM t WHERE " + "REPLACE(" * 60 + "word" + ", 'a', 'aaaaaaaaaa')" * 60 + " = 'a'",
    "powers": repeated("SELECT ", "POWER(POWER(10, 300), COUNT(*))", " FROM t"),
    "subqueries": repeated("SELECT ", "(SELECT AVG(c0) FROM t WHERE c1 = #)", ""),
    "members": repeated("SELECT COUNT(*) FROM t WHERE ", "c0 IN (SELECT c0 FROM t GROUP BY c0 HAVING COUNT(*) > #)", "", " AND "),
    "distinct": repeated("SELECT c0, c1, ", "COUNT(DISTINCT c3)", " FROM t GROUP BY c0, c1"),
    "existence": repeated("SELECT COUNT(*) FROM t WHERE ", "EXISTS (SELECT 1 FROM t x WHERE x.c0 = t.c0 AND x.c1 = t.c1)", "", " OR "),
    "nested existence": "SELECT COUNT(*) FROM t t0 WHERE " + "".join(f"EXISTS (SELECT 1 FROM t t{n + 1} WHERE t{n + 1}.c0 = t{n}.c0 AND " for n in range(100)) + "c1 = 1" + ")" * 100,
    "values of outer rows": repeated("SELECT c0, c1, ", "(SELECT AVG(c2) FROM t x WHERE x.c0 = t.c0 AND x.c1 = t.c1)", " FROM t GROUP BY c0, c1"),
    "rows of members": repeated("SELECT COUNT(*) FROM t WHERE ", "(c0, c1, c2) NOT IN (SELECT c0, c1, c2 FROM t GROUP BY ALL)", "", " AND "),
    "nulls of members": "SELECT COUNT(*) FROM (SELECT NULLIF(c0, c0) AS x, c1, c2 FROM t GROUP BY ALL) WHERE (x, c1, c2) NOT IN (SELECT NULLIF(c0, 1), NULLIF(c1, 1), c2 FROM t GROUP BY ALL)",
    "except": repeated("", "SELECT c0, c1, c2 FROM t GROUP BY ALL", "", " EXCEPT "),
    "unions of equals": repeated("", "SELECT c0, c1, c2, COUNT(*) FROM t GROUP BY ALL", "", " UNION "),
    "compared with all": repeated("SELECT COUNT(*) FROM t WHERE ", "c0 > ALL (SELECT AVG(c1) FROM t GROUP BY c2)", "", " AND "),
    "one row for all": "WITH m AS (SELECT AVG(c0) AS a FROM t) " + repeated("SELECT COUNT(*) FROM t, m WHERE ", "c# > a", "", " AND ").replace("c12", "c2").replace("c13", "c3").replace("c14", "c4").replace("c15", "c5"),
    "levels": repeated("SELECT ", f"QUANTILE_CONT(c0, [{', '.join(f'0.{n}' for n in range(10, 60))}])", " FROM t"),
    "names in brackets": repeated("SELECT ", "[c0]", " FROM t") + "[" * 200,
    "lists of texts": repeated("SELECT c0, c1, c2, ", "STRING_AGG(DISTINCT c3, ',')", " FROM t GROUP BY 1, 2, 3"),
    "decode": "SELECT COUNT(*) FROM t WHERE " + "DECODE(c0, 1, " * 600 + "2" + ", 3)" * 600 + " = 1",
    "pivot": "PIVOT t ON c0, c1, c2 USING COUNT(*)",
    "named tables": "WITH " + ", ".join(f"v{n} AS (SELECT * FROM {'t' if n == 0 else f'v{n - 1}'})" for n in range(400))
    + " SELECT COUNT(*) FROM v399",
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_text_takes_long_to_compile_or_to_refuse(attack: str) -> None:
    text = ATTACKS[attack]
    assert len(text) <= 1.1 * TEXT
    started = time.thread_time()
    refusal, steps = "", 0
    try:
        steps = compile_sql(text, WIDE).steps
    except QueryError as error:
        refusal = str(error)
    assert len(refusal) < 300
    assert steps <= MAX_STEPS
    assert time.thread_time() - started < LONGEST


def test_a_long_list_of_counts_is_no_work_at_all() -> None:
    """27,000 characters of COUNT(*) took 8.7 seconds: each name was looked for from the first on."""
    text = f"SELECT {', '.join(['COUNT(*)'] * 2700)} FROM t"
    started = time.thread_time()
    statement = compile_sql(text, WIDE)
    assert time.thread_time() - started < 2.0
    assert [field.name for field in statement.fields[:3]] == ["count(*)", "count(*)_2", "count(*)_3"]
    assert len({field.name for field in statement.fields}) == 2700


def test_repeated_names_are_numbered_past_those_that_are_taken() -> None:
    statement = compile_sql("SELECT COUNT(*) AS a, COUNT(*) AS a_2, COUNT(*) AS a, COUNT(*) AS a FROM t", WIDE)
    assert [field.name for field in statement.fields] == ["a", "a_2", "a_3", "a_4"]


@pytest.mark.parametrize("depth", [1, 2, 30])
def test_what_is_used_again_is_computed_once(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """NOT NOT ... COUNT(*) > 1, and aliases that are each twice the one before: one evaluation of the count."""
    calls = 0
    evaluate = Sum.evaluate

    def counted(self: Sum, run: Run) -> Interval:
        nonlocal calls
        calls += 1
        return evaluate(self, run)

    monkeypatch.setattr(Sum, "evaluate", counted)
    twice = ", ".join(f"ABS(a{n}) + ABS(a{n}) AS a{n + 1}" for n in range(depth))
    text = f"SELECT c0, COUNT(*) AS a0, {twice} FROM t GROUP BY c0 HAVING {'NOT ' * depth} a0 > 1"
    statement = compile_sql(text, WIDE)
    statement.run(
        lambda query: Answer(query.text, np.full(16, 1 / 16), None, 0.01, 0.95, "measured", True), records=100
    )
    assert calls == 1


def test_kept_statements_have_a_bound_in_bytes() -> None:
    """Each of these held 35 MB: a compiled form that grouped questions kept whatever its size."""
    where = " OR ".join(f"c{number} = 1" for number in range(5))
    STATEMENTS.clear()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, column in product(range(6), ("c5", "c6", "c7")):
            text = f"SELECT {column}, COUNT(*) FROM t WHERE c0 <> {number} AND ({where}) GROUP BY 1"
            for query in compile_sql(text, WIDE).queries:
                assert isinstance(query, Groups)
                query.form(WIDE)  # as answering does
        for number in range(4):
            filters = ", ".join(f"COUNT(*) FILTER (WHERE c3 = {n} OR c4 = {n} OR c2 = {number})" for n in range(16))
            for query in compile_sql(f"SELECT {filters} FROM t", WIDE).queries:
                query.compile(WIDE)  # type: ignore[attr-defined]
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        STATEMENTS.clear()
    print(f"kept {grown / 2**20:.1f} MiB of {KEPT_BYTES / 2**20:.0f}")
    assert grown <= KEPT_BYTES + 2**23, f"{grown / 2**20:.1f} MiB; the masks of the domain itself are a few"


def test_a_form_too_large_to_keep_is_the_same_each_time() -> None:
    query = Groups(["c5"], (col("c0") == 1) | (col("c1") == 1) | (col("c2") == 1) | (col("c3") == 2) | (col("c4") == 3))
    first, second = query.form(WIDE), query.form(WIDE)
    assert first is not second
    assert first.digest == second.digest
    assert query.span(WIDE) == ("c0", "c1", "c2", "c3", "c4", "c5")


def test_what_is_kept_is_bounded_by_entries_and_bytes() -> None:
    kept: Kept[int, str] = Kept(entries=4, size=80)
    for number in range(10):
        kept.put(number, str(number), 10)
    assert [kept.get(number) for number in range(10)] == [None] * 6 + ["6", "7", "8", "9"]
    assert kept.held == 40
    kept.put(6, "again", 8)
    assert (kept.get(6), kept.held, len(kept)) == ("again", 38, 4)
    kept.put(99, "too large", 11)
    assert kept.get(99) is None


def expression(pattern: str, escape: str, ignore_case: bool) -> re.Pattern[str]:
    """What LIKE means, as a regular expression."""
    pieces, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            pieces.append(re.escape(next(characters, escape)))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(pieces), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


LETTERS = st.text(alphabet="aAbßſsKk%_!\n", max_size=8)


@given(LETTERS, LETTERS, st.sampled_from(["", "!"]), st.booleans())
def test_like_means_what_the_regular_expression_means(pattern: str, text: str, escape: str, ignore_case: bool) -> None:
    wanted = expression(pattern, escape, ignore_case).fullmatch(text) is not None
    assert Matcher.of(pattern, escape, ignore_case=ignore_case).matches(text) is wanted


def test_like_takes_time_in_proportion_to_the_text() -> None:
    """Eight % took 15 seconds on texts of this kind."""
    matcher = Matcher.of("%a" * 12 + "%b")
    started = time.thread_time()
    assert not matcher.matches("a" * 200_000)
    assert time.thread_time() - started < 2.0
