"""How fast a session answers: free answers in process, durable paid ones, and SQL from its text on."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import reticent as rt
from benchmarks.ledger import bare_commits
from reticent.kernel.counting.records import Records
from reticent.kernel.table import Table
from reticent.queries.linear import Count
from reticent.sessions.session import Session

BUDGET = rt.Budget(epsilon=1, delta=1e-9)
RECORDS = 100_000
Asked = list[tuple[str, str, Any]]


def table_on(domain: rt.Domain) -> Table:
    generator = np.random.default_rng(0)
    codes = {name: generator.integers(0, domain[name].size, RECORDS) for name in domain.names}
    return Table(Records.of_codes(domain, codes, np.ones(RECORDS, dtype=np.int64)), domain, records=RECORDS)


def universe() -> rt.Domain:
    """2^17 records: binned numbers and categories."""
    sizes = {"age": 8, "hours": 8, "income": 4, "rooms": 4, "children": 4, "visits": 4}
    numbers = {n: rt.Numeric(edges=list(range(0, 10 * s + 1, 10)), other=False) for n, s in sizes.items()}
    words = {name: rt.Categorical(["no", "yes"], other=False) for name in ("smoker", "insured", "urban")}
    domain = rt.Domain(**numbers, **words)
    assert domain.size == 2**17
    return domain


def comparisons(domain: rt.Domain, count: int) -> list[Asked]:
    """Two or three attributes each; built into predicates later, as users write them."""
    generator, found = np.random.default_rng(1), []
    for _ in range(count):
        names = generator.choice(domain.names, int(generator.integers(2, 4)), replace=False).tolist()
        found.append([_comparison(domain, name, generator) for name in names])
    return found


def _comparison(domain: rt.Domain, name: str, generator: np.random.Generator) -> tuple[str, str, Any]:
    if isinstance(domain[name], rt.Categorical):
        return name, "==", ("no", "yes")[int(generator.integers(2))]
    edge = 10 * int(generator.integers(1, domain[name].size))
    return name, "<" if generator.random() < 0.5 else ">=", edge


def built(asked: Asked) -> Count:
    predicate = None
    for name, op, value in asked:
        column = rt.col(name)
        part = column == value if op == "==" else column < value if op == "<" else column >= value
        predicate = part if predicate is None else predicate & part
    return rt.count(predicate)


def free_answers(count: int) -> dict[str, float]:
    """Every question is a new object, built and asked as in a user's loop; both are timed apart."""
    domain = universe()
    with Session.open(None, table_on(domain), BUDGET) as session:
        questions, spent = comparisons(domain, count), session.spent
        for asked in questions[: count // 10]:
            session.ask(built(asked))
        building, answering = np.empty(count), np.empty(count)
        for place, asked in enumerate(questions):
            start = time.perf_counter()
            question = built(asked)
            middle = time.perf_counter()
            answer = session.ask(question)
            answering[place], building[place] = time.perf_counter() - middle, middle - start
            assert answer.certified
        assert session.spent == spent
    return {
        "free answers per second": count / answering.sum(),
        "free answers per second, with building the predicate": count / (answering.sum() + building.sum()),
        "building a predicate, median µs": 1e6 * float(np.median(building)),
        "a free answer, median µs": 1e6 * float(np.median(answering)),
        "a free answer, 99th percentile ms": 1e3 * float(np.quantile(answering, 0.99)),
    }


def paid_answers(rounds: int) -> dict[str, float]:
    """One durable answer of a session beside two bare durable commits, in turn, on the working disk."""
    domain = rt.Domain({"a": 10, "b": 7, "c": 2})
    generator = np.random.default_rng(2)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        commits = bare_commits(folder)
        budget = rt.Budget(rho=10**6)
        with Session.open(folder / "paid.ledger", table_on(domain), budget, warm_start=0) as session:
            bare, paid = [], []
            for turn in range(rounds):
                question = rt.count((rt.col("a") >= 1 + int(generator.integers(8))) & (rt.col("c") == 1))
                bare.append(_seconds(commits))
                # A smaller error each time, so that no answer is known already.
                paid.append(_seconds(lambda q=question, e=0.01 * 0.99**turn: session.ask(q, error=e)))
                assert session.ask(question).origin == "cache"
    return {
        "two bare durable commits, median ms": 1e3 * statistics.median(bare),
        "a durable paid answer, median ms": 1e3 * statistics.median(paid),
        "a durable paid answer over two bare commits": statistics.median(paid) / statistics.median(bare),
    }


def sql_answers(count: int) -> dict[str, float]:
    """Texts never seen before, from SELECT to the table with its errors."""
    domain = rt.Domain(
        age=rt.Numeric(edges=list(range(15, 66)), other=False),
        education=rt.Categorical([f"level {code}" for code in range(20)], other=False),
        sex=rt.Categorical(["Female", "Male"], other=False),
        job=rt.Categorical([f"job {code}" for code in range(16)], other=False),
        hours=rt.Numeric(edges=list(range(0, 81, 10)), other=False),
    )
    plain = "SELECT COUNT(*) FROM t WHERE age >= {} AND job = 'job {}' AND sex = 'Female'"
    grouped = "SELECT age, education, COUNT(*) FROM t WHERE job <> 'job {1}' AND job <> 'job {0}' GROUP BY 1, 2"
    involved = (
        "SELECT education, job, sex, COUNT(*) AS n, AVG(age), 100.0 * COUNT(*) FILTER (WHERE age >= {}) / COUNT(*) p "
        "FROM t WHERE hours >= 10 OR job <> 'job {}' GROUP BY 1, 2, 3 HAVING n > 5 ORDER BY p DESC"
    )
    pairs = [(16 + place % 40, place // 40) for place in range(count)]
    with Session.open(None, table_on(domain), BUDGET) as session:
        found = {}
        for name, text, rows in (
            ("a 3-attribute predicate", plain, 1),
            ("a GROUP BY of 1,000 groups", grouped, 1000),
            ("an involved GROUP BY of 640 groups", involved, None),
        ):
            texts = [text.format(*(pair if text is not grouped else (pair[0] % 16, pair[1]))) for pair in pairs]
            texts = list(dict.fromkeys(texts))
            assert rows is None or len(session.ask(texts[0])) == rows
            times = [_seconds(lambda t=text: session.ask(t)) for text in texts[1:]]
            found[f"{name}, median ms"] = 1e3 * statistics.median(times)
            found[f"{name}, 99th percentile ms"] = 1e3 * float(np.quantile(times, 0.99))
    return found


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


MARKS: Sequence[tuple[str, str]] = (
    ("free answers per second", "at least 20000"),
    ("a free answer, 99th percentile ms", "at most 1"),
    ("a durable paid answer over two bare commits", "at most 4"),
    ("a 3-attribute predicate, median ms", "at most 2"),
    ("a GROUP BY of 1,000 groups, median ms", "at most 20"),
    ("an involved GROUP BY of 640 groups, median ms", "at most 20"),
)


def speeds(quick: bool) -> tuple[dict[str, float], dict[str, float]]:
    """All figures, and those held against marks."""
    found = free_answers(4_000 if quick else 40_000) | paid_answers(20 if quick else 200)
    found |= sql_answers(40 if quick else 400)
    return found, {f"{name} ({mark})": found[name] for name, mark in MARKS}


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(speeds("--quick" in sys.argv)[0], indent=2))
