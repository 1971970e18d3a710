"""Ranks by noisy keys that are certainly equal: the keys after them decide, as in DuckDB."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.unit.sql.comparison import difference
from tests.unit.sql.sql_table import DOMAIN, ROWS, Exact, people

from reticent.domain import Domain, Numeric
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


OF_BINS = [
    "SELECT income, COUNT(*) AS n FROM t GROUP BY ROLLUP (income)",
    "SELECT income, COUNT(*) AS n FROM t GROUP BY CUBE (sex, income)",
    "SELECT income, COUNT(*) AS n FROM t GROUP BY income UNION ALL SELECT NULL, COUNT(*) FROM t",
    (
        "SELECT b.income FROM (SELECT income FROM t GROUP BY 1) a LEFT JOIN "
        "(SELECT income FROM t WHERE income < 20 GROUP BY 1) b ON a.income = b.income"
    ),
    (
        "SELECT income FROM (SELECT income FROM t WHERE income < 20 GROUP BY 1) a FULL JOIN "
        "(SELECT income FROM t GROUP BY 1) b USING (income)"
    ),
    "SELECT LAG(income) OVER (ORDER BY income) AS income FROM (SELECT income FROM t GROUP BY 1)",
    "SELECT MAX(income) AS income FROM (SELECT sex, income FROM t GROUP BY 1, 2) GROUP BY income",
    "SELECT ANY_VALUE(income) AS income FROM (SELECT sex, income FROM t GROUP BY 1, 2) GROUP BY income",
    "SELECT ARG_MIN(income, sex) AS income FROM (SELECT sex, income FROM t GROUP BY 1, 2) GROUP BY income",
]
"""Bins beside NULL, or in rows that may not be there."""


@pytest.mark.parametrize("inner", OF_BINS)
def test_bins_keep_their_order(inner: str) -> None:
    """They were compared by their texts: [10, 20) stood before [5, 10)."""
    domain = Domain({**DOMAIN.attributes, "income": Numeric(edges=[0, 5, 10, 20, 50, 1000], other=False)})
    table = Exact(domain, 3)
    found = table.ask(f"SELECT income FROM ({inner}) ORDER BY income NULLS LAST")
    shown = [row[0] for row in found.rows]
    bins = [text for text in dict.fromkeys(shown) if text is not None]
    assert bins == [text for text in domain["income"].group_keys if text in shown]
    assert {type(text) for text in bins} == {str}
    assert None not in shown[: shown.index(bins[-1])]
    assert table.ask(f"SELECT MAX(income), MIN(income) FROM ({inner})").rows == ((bins[-1], bins[0]),)
