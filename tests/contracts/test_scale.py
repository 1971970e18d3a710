"""Ten million rows in CI, a hundred million in the slow suite: DuckDB's own time, little memory, the same integers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from benchmarks.engines import SETS, fill
from benchmarks.generated import domain_of, generated, plain_group_by
from benchmarks.growth import COLUMNS, alone, read
from benchmarks.scale import BUILD_MOST, MEMORY_MOST_GIB, ON_DEMAND_LEAST, on_demand
from tests.contracts.servers import spark_session

from reticent.kernel.accounting import Budget
from reticent.kernel.table import exact_counts
from reticent.queries.linear import Marginal
from reticent.queries.workload import marginals
from reticent.releases.release import release
from reticent.sources import Table

ROWS = 10**7
DOMAIN = domain_of(COLUMNS)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with generated(tmp_path_factory.mktemp("scale"), ROWS, COLUMNS) as path:
        yield path


def processor_seconds(action: Callable[[], Any]) -> float:
    """Of all threads: unlike the clock it does not depend on who else uses the machine."""
    start = time.process_time()
    action()
    return time.process_time() - start


def check_reading(path: Path, rows: int) -> None:
    own, plain = [], []
    for _ in range(2):
        plain.append(processor_seconds(lambda: plain_group_by(path, DOMAIN.names, DOMAIN)))
        own.append(processor_seconds(lambda: Table.read(path, DOMAIN)))
    assert min(own) <= BUILD_MOST * min(plain), f"{own} against {plain}"
    assert alone(read, str(path), COLUMNS)["peak_gib"] < MEMORY_MOST_GIB
    table = Table.read(path, DOMAIN)
    assert table.records == rows
    counted = duckdb.sql(f"SELECT c1, COUNT(*) FROM '{path}' GROUP BY c1 ORDER BY c1").fetchall()
    assert exact_counts(table).marginal(("c1",)).tolist() == [count for _, count in counted]


def test_ten_million_rows_of_parquet(parquet: Path) -> None:
    check_reading(parquet, ROWS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_million_rows_of_parquet(tmp_path: Path) -> None:
    with generated(tmp_path, 10 * ROWS, COLUMNS) as path:
        check_reading(path, 10 * ROWS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_pairs_on_demand_against_one_query_each(tmp_path: Path) -> None:
    found = on_demand(tmp_path, ROWS)
    assert found["one_by_one_seconds"] >= ON_DEMAND_LEAST * found["all_seconds"]


def same_counts(one: Table, other: Table) -> None:
    for left, right in zip(exact_counts(one).marginals(SETS), exact_counts(other).marginals(SETS), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_million_rows_in_postgres_end_to_end(postgres: str, parquet: Path) -> None:
    fill(postgres, "many", parquet)
    with Table.read(postgres, DOMAIN, query="SELECT * FROM many", records=ROWS) as table:
        same_counts(table, Table.read(parquet, DOMAIN))
        made = release(table, marginals(DOMAIN, 2), Budget(epsilon=1.0, delta=1e-9))
        truth = exact_counts(table).marginal(("c0", "c1")) / ROWS
        assert np.abs(made.answer(Marginal(("c0", "c1"))).value - truth).max() < 0.01


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_million_rows_in_spark(parquet: Path) -> None:
    options = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC", "spark.sql.shuffle.partitions": "4"}
    with spark_session(threads=2, **{"spark.driver.memory": "2g", **options}) as session:
        table = Table.of(session.read.parquet(str(parquet)), DOMAIN, records=ROWS)
        same_counts(table, Table.read(parquet, DOMAIN))
