"""Records by their answers to queries, on small tables counted by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import reticent as rt
from reticent.errors import QueryError
from reticent.kernel.statistics import PartitionCounts
from reticent.kernel.table import exact_counts
from reticent.queries.partitions import partition_of

DOMAIN = rt.Domain(a=5, b=3)
ROWS = {"a": [0, 1, 1, 3, 4, 4, 4], "b": [0, 0, 1, 2, 2, 1, 0]}
TABLE = rt.Table.of(pa.table(ROWS), DOMAIN)


def counted(*queries: rt.Query) -> np.ndarray:
    statistic = PartitionCounts(queries, DOMAIN)  # pyright: ignore[reportArgumentType]
    return statistic.evaluate(exact_counts(TABLE), 1) / statistic.resolution(1)


def test_a_query_and_its_rest() -> None:
    assert counted(rt.count(rt.col("a") >= 3)).tolist() == [3, 4]
    half = counted(rt.linear("a", values=[0, 0.5, 0.5, 1, 0.25]))
    assert half == pytest.approx([7 - 2.75, 2.75])
    assert half.sum() == 7


def test_parts_are_ordered_by_their_answers() -> None:
    low, wide = rt.count(rt.col("a") < 1), rt.count(rt.col("a") < 4)
    statistic = PartitionCounts([wide, low], DOMAIN)
    assert statistic.answers.tolist() == [[False, False], [True, False], [True, True]]
    assert counted(wide, low).tolist() == [3, 3, 1]
    assert statistic.parts.tolist() == [2, 1, 1, 1, 0]


def test_parts_of_queries_on_different_columns() -> None:
    found = counted(rt.count(rt.col("a") >= 3), rt.count(rt.col("b") == 0))
    assert found.tolist() == [1, 2, 3, 1]


def test_more_queries_than_bits_of_a_number() -> None:
    domain = rt.Domain(a=100)
    queries = [rt.count(rt.col("a") < limit) for limit in range(1, 100)]
    _, parts, answers = partition_of(queries, domain)
    assert parts.tolist() == list(range(99, -1, -1))
    assert answers.sum(axis=1).tolist() == list(range(100))


@pytest.mark.parametrize(
    ("queries", "what"),
    [
        ([], "at least one query"),
        ([rt.count(rt.col("a") < 1), rt.linear("a", values=[0, 0.5, 0, 0, 0])], "the values 0 and 1"),
    ],
)
def test_what_is_no_partition_is_refused(queries: list[rt.Query], what: str) -> None:
    with pytest.raises(QueryError, match=what):
        PartitionCounts(queries, DOMAIN)  # pyright: ignore[reportArgumentType]
