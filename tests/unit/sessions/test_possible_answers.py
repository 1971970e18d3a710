"""Random statements on noisy sessions: no count below zero or above its total, no mean outside the bins it is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.session_tables import of_codes

import reticent as rt
from reticent.kernel.table import Table
from reticent.queries.linear import Ratio, Total
from reticent.queries.predicate import Everything
from reticent.sessions.session import Session

SIZES = {"a": 9, "b": 6, "c": 4, "d": 3}
RECORDS = 900
BUDGETS = (rt.Budget(epsilon=0.3, delta=1e-6), rt.Budget(epsilon=3, delta=1e-6))
"""Noise above most cells, and below many."""


def skewed(seed: int) -> Table:
    """Most cells are empty, so that noise has every chance."""
    generator = np.random.default_rng(seed)
    columns = {n: np.minimum(generator.geometric(0.5, RECORDS) - 1, size - 1) for n, size in SIZES.items()}
    columns["b"] = np.where(generator.random(RECORDS) < 0.6, columns["a"] % 6, columns["b"])
    return of_codes(rt.Domain(SIZES), {name: column.astype(np.int64) for name, column in columns.items()})


def condition(generator: np.random.Generator) -> tuple[str, dict[str, tuple[int, int]]]:
    names = generator.choice(list(SIZES), int(generator.integers(0, 3)), replace=False).tolist()
    ranges: dict[str, tuple[int, int]] = {}
    for name in names:
        low, high = sorted(generator.integers(0, SIZES[name], 2).tolist())
        ranges[name] = low, high
    told = " AND ".join(f"{name} BETWEEN {low} AND {high}" for name, (low, high) in ranges.items())
    return (f" WHERE {told}" if told else ""), ranges


def wrong(session: Session, generator: np.random.Generator, statements: int) -> int:
    """Numbers that no table could have, in so many statements; a few of them are paid for."""
    found = 0
    for _ in range(statements):
        where, ranges = condition(generator)
        by = str(generator.choice(list(SIZES)))
        paid: dict[str, Any] = {"error": "30%"} if generator.random() < 0.05 else {}
        if generator.random() < 0.5:
            of = str(generator.choice(list(SIZES)))
            low, high = ranges.get(of, (0, SIZES[of] - 1))
            found += sum(not low <= v <= high for v in _numbers(session, f"AVG({of})", where, by, {}))
        else:
            found += sum(not 0 <= v <= RECORDS for v in _numbers(session, "COUNT(*)", where, by, paid))
    return found


def _numbers(session: Session, what: str, where: str, by: str, paid: dict[str, Any]) -> Iterator[float]:
    rows = session.ask(f"SELECT {by}, {what} FROM t{where} GROUP BY {by}", **paid).rows
    yield from (float(row[-1]) for row in rows if row[-1] is not None)


def lives(statements: int, seeds: range) -> int:
    """In sessions with a start, with none, and on noise that drowns everything."""
    found = 0
    for seed in seeds:
        generator, rows = np.random.default_rng(seed), skewed(seed)
        for budget in BUDGETS:
            for share in (0.0, 0.5):
                with Session.open(None, rows, budget, warm_start=share, progress=False) as session:
                    found += wrong(session, generator, statements)
    return found


def test_no_answer_is_impossible() -> None:
    assert lives(30, range(1)) == 0


@pytest.mark.slow
def test_no_answer_of_ten_thousand_is_impossible() -> None:
    assert lives(500, range(5)) == 0


@pytest.mark.parametrize("engine", ["default", "tuned"])
def test_a_total_over_other_records_is_no_mean(engine: str) -> None:
    """It was cut to the range of the column's numbers, and certified there."""
    generator = np.random.default_rng(1)
    columns = {"a": generator.integers(0, 4, 2000), "c": generator.integers(3, 5, 2000)}
    rows = of_codes(rt.Domain({"a": 4, "c": 5}), columns, 10_000)
    asked = Ratio(Total("c", Everything()), rt.count(rt.col("a") == 0))
    true = columns["c"].sum() / np.count_nonzero(columns["a"] == 0)
    options: dict[str, Any] = {} if engine == "default" else {"engine": engine, "queries": 100}
    with Session.open(None, rows, rt.Budget(rho=5), confidence=1 - 1e-6, progress=False, **options) as session:
        answer = session.ask(asked, error=0.5 if engine == "default" else None)
        assert true > 4, "beyond the largest number of the column"
        assert abs(float(answer.value) - true) <= (answer.error or 1.0)
        assert answer.interval is None or answer.interval[0] <= true <= answer.interval[1]
