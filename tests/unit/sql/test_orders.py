"""Ranks by noisy keys that are certainly equal: the keys after them decide, as in DuckDB."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.unit.sql.comparison import difference
from tests.unit.sql.sql_table import DOMAIN, ROWS, people

from reticent.sql import run
from reticent.sql.expressions import Expr, Run
from reticent.sql.intervals import Interval
from reticent.sql.ordering import Ranking, rank_positions

FIRST = [
    "CASE WHEN COUNT(*) > 1 THEN 1 ELSE 0 END DESC",
    "SIGN(COUNT(*))",
    "FLOOR(COUNT(*) / 1000000)",
    "COUNT(DISTINCT sex) DESC",
    "CASE WHEN COUNT(*) > 1 THEN 'many' END",
]
RANKS = ["RANK()", "ROW_NUMBER()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(3)", "SUM(1)"]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("rank", RANKS)
def test_the_second_key_decides_between_equal_first_ones(first: str, rank: str) -> None:
    window = f"{rank} OVER (ORDER BY {first}, children DESC)"
    text = f"SELECT children, {window} AS place FROM t GROUP BY children"
    assert not difference(people(), text)
    bounded = run(text, DOMAIN, people().blurred(0.0, 1).answer, records=ROWS)
    assert bounded.certified
    assert [cells for _, cells in bounded.errors] == [0.0] * len(bounded.rows), bounded


def test_a_total_that_equals_its_only_group_is_ranked_by_the_next_key() -> None:
    text = "SELECT sex, children, RANK() OVER (ORDER BY SIGN(COUNT(*)), sex, children) FROM t GROUP BY ROLLUP (1, 2)"
    assert not difference(people(), text)


class _Column(Expr):
    """A key whose bounds are given."""

    kind = "number"

    def __init__(self, numbers: Interval) -> None:
        self.numbers = numbers

    @property
    def rows(self) -> int:  # type: ignore[override]
        return len(self.numbers.value)

    def evaluate(self, run: Run) -> Interval:
        return self.numbers


@pytest.mark.parametrize("seed", range(40))
def test_positions_contain_those_of_every_truth(seed: int) -> None:
    """By enumeration: both keys take every whole number within their bounds, or NULL where they may be NULL."""
    generator = np.random.default_rng(seed)
    rows, order, choices = 4, [], []
    for _ in range(2):
        low = generator.integers(0, 3, rows).astype(float)
        high = low + generator.integers(0, 2, rows) * (generator.random(rows) < 0.4)
        null = generator.random(rows) < 0.15
        column = _Column(Interval(low, low, high, null if null.any() else None))
        order.append(Ranking(column, bool(generator.random() < 0.5), bool(generator.random() < 0.5)))
        for place in range(rows):
            choices.append([*np.unique([low[place], high[place]]).tolist(), *([None] if null[place] else [])])
    parts = np.array([0, 0, 0, 1])
    found = rank_positions(Run((), Interval.exactly(1.0, 1)), order, parts, None)
    least, most, beside = np.full(rows, np.inf), np.full(rows, -np.inf), np.full(rows, -np.inf)
    for truth in itertools.product(*choices):
        keys = [
            (parts[row], *(_signed(truth[row + rows * place], ranking) for place, ranking in enumerate(order)))
            for row in range(rows)
        ]
        for row in range(rows):
            others = [keys[other] for other in range(rows) if other != row and parts[other] == parts[row]]
            before = sum(key < keys[row] for key in others)
            least[row], most[row] = min(least[row], before), max(most[row], before)
            beside[row] = max(beside[row], sum(key <= keys[row] for key in others))
    assert found.least.tolist() == least.tolist()
    assert found.most.tolist() == most.tolist()
    assert found.level_most.tolist() == beside.tolist()


def _signed(value: float | None, ranking: Ranking) -> float:
    if value is None:
        return -np.inf if ranking.nulls_first else np.inf
    return -value if ranking.descending else value
