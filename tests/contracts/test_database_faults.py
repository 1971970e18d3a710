"""A database that fails, is cancelled or changes midway: one line without secrets, nothing spent, resumable."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from tests.contracts.servers import PASSWORD

from reticent.domain import Domain
from reticent.errors import SourceError
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Laplace
from reticent.kernel.table import exact_counts
from reticent.queries.linear import Marginal
from reticent.sources import ReadProgress, Table

CELL = "plugh"
DOMAIN = Domain(a=3, b=2)
BUDGET = Budget(epsilon=1.0)
SOON = 120.0


@pytest.fixture
def visits(postgres: str) -> str:
    """The name of a table of a hundred rows."""
    name = f"t{uuid.uuid4().hex}"
    administer(postgres, f"CREATE TABLE {name} AS SELECT i % 3 AS a, i % 2 AS b FROM generate_series(1, 100) AS i")
    return name


def administer(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def others(url: str) -> int:
    """Connections beside the one that asks."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    return administer(url, asked)[0][0]


def disconnect_others(url: str) -> None:
    administer(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    )


def eventually(condition: Callable[[], bool]) -> bool:
    """A server notices a closed connection a moment later."""
    end = time.monotonic() + SOON
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def tells_nothing(error: BaseException) -> bool:
    return (
        "\n" not in str(error) and error.__context__ is None and PASSWORD not in str(error) and CELL not in str(error)
    )


def test_a_connection_lost_between_questions_spends_nothing_and_resumes(
    postgres: str, visits: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.ledger"
    query = f"SELECT * FROM {visits}"
    table = Table.read(postgres, DOMAIN, query=query, records=100, version="1", hold=1)
    with Ledger.open(path, identity=table.identity, budget=BUDGET) as ledger:
        curator = Curator(table, ledger)
        curator.measure([Marginal(("a",))], Laplace(10))
        spent = ledger.spent
        disconnect_others(postgres)
        for _ in range(2):
            with pytest.raises(SourceError, match=r"connection was lost|shutting down") as raised:
                curator.measure([Marginal(("b",))], Laplace(10))
            assert tells_nothing(raised.value)
        assert ledger.spent == spent > 0
    again = Table.read(postgres, DOMAIN, query=query, records=100, version="1", hold=1)
    with again, Ledger.open(path, identity=again.identity, budget=BUDGET) as ledger:
        assert ledger.spent == spent
        Curator(again, ledger).measure([Marginal(("b",))], Laplace(10))
        assert ledger.spent > spent


def test_a_connection_lost_among_the_records_leaves_no_part_of_a_table(postgres: str) -> None:
    """More distinct records than any buffer holds: the first block has come, the others never will."""
    domain = Domain(a=1000, b=1000)
    query = "SELECT i % 1000 AS a, i / 1000 AS b FROM generate_series(0, 999999) AS i"
    stages: list[str] = []

    def cut(told: ReadProgress) -> None:
        if told.stage == "receiving" and "receiving" not in stages:
            disconnect_others(postgres)
        stages.append(told.stage)

    with pytest.raises(SourceError, match=r"connection was lost|shutting down") as raised:
        Table.read(postgres, domain, query=query, records=10**6, progress=cut)
    assert tells_nothing(raised.value)
    assert stages[-1] == "receiving"
    assert exact_counts(Table.read(postgres, domain, query=query, records=10**6)).total() == 10**6


def test_a_timeout_between_questions_spends_nothing_and_the_next_one_works(postgres: str, visits: str) -> None:
    """The same table and ledger go on: a cancelled statement costs its transaction only."""
    administer(postgres, f"CREATE TABLE {visits}_naps AS SELECT 0.0 AS nap")
    query = f"SELECT {visits}.* FROM {visits}, (SELECT pg_sleep(nap) FROM {visits}_naps) AS napped"
    address = f"{postgres}?options=-cstatement_timeout%3D500"
    table = Table.read(address, DOMAIN, query=query, records=100, hold=1)
    with table, Ledger.memory(BUDGET, table.identity) as ledger:
        curator = Curator(table, ledger)
        exact_counts(table)._engine._connection.rollback()  # type: ignore[attr-defined]  # a new snapshot sees the naps
        administer(postgres, f"UPDATE {visits}_naps SET nap = 30")
        with pytest.raises(SourceError, match="statement timeout") as raised:
            curator.measure([Marginal(("b",))], Laplace(10))
        assert tells_nothing(raised.value)
        assert ledger.spent == 0
        administer(postgres, f"UPDATE {visits}_naps SET nap = 0")
        curator.measure([Marginal(("b",))], Laplace(10))
        assert ledger.spent > 0


def test_a_column_that_went_is_named_and_its_return_resumes(postgres: str, visits: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"

    def read() -> Table:
        return Table.read(postgres, DOMAIN, query=f"SELECT * FROM {visits}", records=100, version="1")

    table = read()
    with Ledger.open(path, identity=table.identity, budget=BUDGET) as ledger:
        Curator(table, ledger).measure([Marginal(("a",))], Laplace(10))
        spent = ledger.spent
    administer(postgres, f"ALTER TABLE {visits} RENAME COLUMN b TO c")
    with pytest.raises(SourceError, match="no column 'b'; it has 'a', 'c'"):
        read()
    administer(postgres, f"ALTER TABLE {visits} RENAME COLUMN c TO b")
    # Another type with the same values is the same table: codes are of values, not of types.
    administer(postgres, f"ALTER TABLE {visits} ALTER COLUMN b TYPE text")
    assert exact_counts(read()).marginal(("b",)).tolist() == exact_counts(table).marginal(("b",)).tolist()
    with Ledger.open(path, identity=read().identity, budget=BUDGET) as ledger:
        assert ledger.spent == spent > 0


def test_an_open_table_is_one_snapshot_until_it_is_closed(postgres: str, visits: str) -> None:
    """Added rows are not seen, and columns cannot change while their lock is held."""
    drift = f"SET lock_timeout = '200ms'; ALTER TABLE {visits} DROP COLUMN b"
    with Table.read(postgres, DOMAIN, query=f"SELECT * FROM {visits}", records=100, hold=1) as table:
        administer(postgres, f"INSERT INTO {visits} VALUES (0, 0)")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            administer(postgres, drift)
        assert exact_counts(table).marginal(("b",)).tolist() == [50, 50]
        assert exact_counts(table).marginal(("a", "b")).sum() == 100
    administer(postgres, drift)


def interrupt_when(condition: Callable[[], bool]) -> threading.Thread:
    """Ctrl-C as soon as the engine is at work."""

    def watch() -> None:
        if eventually(condition):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_control_c_cancels_in_postgres_and_closes_the_connection(postgres: str, visits: str) -> None:
    assert eventually(lambda: others(postgres) == 0)

    def sleeping() -> bool:
        return administer(postgres, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")[0][0] > 0

    begun = time.monotonic()
    watcher = interrupt_when(sleeping)
    with pytest.raises(KeyboardInterrupt):
        Table.read(postgres, DOMAIN, query=f"SELECT a, b FROM {visits}, pg_sleep(600)", records=100)
    watcher.join()
    assert time.monotonic() - begun < SOON
    assert eventually(lambda: others(postgres) == 0)


def test_files_of_a_folder_that_disagree(tmp_path: Path) -> None:
    duckdb.sql("SELECT 1 AS a, 0 AS b").write_parquet(str(tmp_path / "one.parquet"))
    duckdb.sql("SELECT 1 AS a, 0 AS c").write_parquet(str(tmp_path / "two.parquet"))
    with pytest.raises(SourceError, match=tmp_path.name) as raised:
        Table.read(tmp_path, DOMAIN)
    assert tells_nothing(raised.value)


def test_failures_in_spark_are_one_line(spark: Any, tmp_path: Path) -> None:
    """A missing column, a cell that fails in the query, and files that went after the frame was made."""
    frame = spark.sql("SELECT id % 3 AS a, id % 2 AS b FROM range(100)")
    with pytest.raises(SourceError, match="no column 'b'; it has 'a'"):
        Table.of(frame.select("a"), DOMAIN, records=100)
    failing = spark.sql(f"SELECT 1 AS a, CAST(concat('{CELL}', id) AS INT) AS b FROM range(100)")
    with pytest.raises(SourceError, match="fails on a value") as raised:
        Table.of(failing, DOMAIN, records=100)
    assert tells_nothing(raised.value)
    frame.write.parquet(str(tmp_path / "rows"))
    stored = spark.read.parquet(str(tmp_path / "rows"))
    table = Table.of(stored, DOMAIN, records=100, hold=1)
    for file in (tmp_path / "rows").glob("*.parquet"):
        file.rename(file.with_suffix(".away"))
    with table, Ledger.memory(BUDGET, table.identity) as ledger:
        with pytest.raises(SourceError, match="failed on the cluster") as raised:
            Curator(table, ledger).measure([Marginal(("b",))], Laplace(10))
        assert tells_nothing(raised.value)
        assert ledger.spent == 0
        for file in (tmp_path / "rows").glob("*.away"):
            file.rename(file.with_suffix(".parquet"))
        Curator(table, ledger).measure([Marginal(("b",))], Laplace(10))
        assert ledger.spent > 0


def test_control_c_cancels_in_spark_and_drops_the_view(spark: Any) -> None:
    views = spark.catalog.listTables()
    tracker = spark.sparkContext.statusTracker()
    begun = time.monotonic()
    watcher = interrupt_when(lambda: bool(tracker.getActiveJobsIds()))
    frame = spark.sql("SELECT (x.id * y.id) % 3 AS a, x.id % 2 AS b FROM range(10000000) AS x, range(10000000) AS y")
    with pytest.raises(KeyboardInterrupt):
        Table.of(frame, DOMAIN, records=100)
    watcher.join()
    assert time.monotonic() - begun < 2 * SOON
    assert eventually(lambda: not tracker.getActiveJobsIds())
    assert spark.catalog.listTables() == views
