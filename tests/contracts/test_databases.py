"""A database by URL or Ibis expression gives the table of a file; its failures are one line without secrets."""

from __future__ import annotations

import sqlite3
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.contracts.servers import PASSWORD

from reticent.domain import Categorical, Domain, Numeric
from reticent.errors import SourceError
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Laplace
from reticent.kernel.table import exact_counts
from reticent.queries.linear import Marginal
from reticent.sources import Table

BUDGET = Budget(epsilon=1.0)
CELL = "plugh"
DOMAIN = Domain(age=Numeric(edges=[0, 18, 65, 120], whole=True), sex=Categorical(["f", "m"]))
ROWS = pa.table(
    {"age": [10, 44, 90, None, 17, 18], "sex": ["f", "m", None, CELL, "m", "f"], "who": [1, 1, 2, 3, 3, None]}
)


@pytest.fixture(scope="module")
def url(postgres: str) -> str:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (age integer, sex text, who integer)")
        for row in ROWS.to_pylist():
            connection.execute("INSERT INTO visits VALUES (%(age)s, %(sex)s, %(who)s)", row)
        connection.execute("CREATE TYPE mood AS ENUM ('f', 'm')")
        connection.execute("CREATE TABLE odd AS SELECT age::numeric * 1e400 AS age, 'm'::mood AS sex FROM visits")
        connection.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    return postgres


def same(left: Table, right: Table) -> None:
    sets = [(), ("age",), ("sex",), ("age", "sex")]
    for one, other in zip(exact_counts(left).marginals(sets), exact_counts(right).marginals(sets), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("options", [{"records": 6}, {"person": "who", "records": 3}, {"neighbours": "add-remove"}])
@pytest.mark.parametrize("hold", [1 << 20, 1])
def test_a_url_gives_the_table_of_the_rows(url: str, options: dict, hold: int) -> None:
    table = Table.read(url, DOMAIN, query="SELECT * FROM visits;", hold=hold, **options)
    same(table, Table.of(ROWS, DOMAIN, **options))
    assert table.name == "postgresql postgres"


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis, when it lists DuckDB's columns
def test_ibis_expressions(url: str) -> None:
    for backend in (ibis.connect(url), duckdb_backend()):
        visits = backend.table("visits")
        same(Table.of(visits, DOMAIN), Table.of(ROWS, DOMAIN))
        adults = visits.filter(visits.age >= 18)
        with pytest.raises(SourceError, match="may filter rows"):
            Table.of(adults, DOMAIN)
        assert exact_counts(Table.of(adults, DOMAIN, records=3)).total() == 3
        assert exact_counts(Table.of(adults, DOMAIN, records=3, person="who", hold=1)).total() == 2 * 720720
        backend.disconnect()
    with pytest.raises(SourceError, match="must be a table"):
        Table.of(visits.age, DOMAIN)


pandas_options = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")  # Ibis, when SQLite answers


@pandas_options
@pytest.mark.parametrize("hold", [1 << 20, 1])
@pytest.mark.parametrize("backend", ["sqlite", "polars"])
def test_whatever_else_ibis_speaks_is_streamed(backend: str, hold: int, tmp_path: Path) -> None:
    """Columns come as Arrow and are counted here, in whichever thread the driver wants."""
    in_sqlite = backend == "sqlite"
    visits = sqlite_backend(tmp_path / "a.db").table("visits") if in_sqlite else polars_table()
    with Table.of(visits, DOMAIN, hold=hold) as table:
        same(table, Table.of(ROWS, DOMAIN))
    adults = visits.filter(visits.age >= 18)
    with pytest.raises(SourceError, match="may filter rows"):
        Table.of(adults, DOMAIN)
    for person, total in ((None, 3), ("who", 2 * 720720)):
        with Table.of(adults, DOMAIN, records=3, person=person, hold=hold) as table:
            assert exact_counts(table).total() == total


@pandas_options
def test_large_numbers_beside_nulls_are_streamed_exactly(tmp_path: Path) -> None:
    backend, large = sqlite_backend(tmp_path / "a.db"), 2**53
    backend.con.execute(f"UPDATE visits SET who = {large} + age WHERE age IN (17, 18)")
    table = Table.of(backend.table("visits"), Domain(who=Categorical([str(large + 17), str(large + 18)])))
    assert exact_counts(table).marginal(("who",)).tolist() == [1, 1, 4]


@pandas_options
def test_a_streamed_table_that_went_is_one_line_and_its_return_resumes(tmp_path: Path) -> None:
    backend = sqlite_backend(tmp_path / "a.db")
    with Table.of(backend.table("visits"), DOMAIN, hold=1) as table, Ledger.memory(BUDGET, table.identity) as ledger:
        backend.con.execute("ALTER TABLE visits RENAME TO elsewhere")
        with pytest.raises(SourceError, match="does not return these columns") as raised:
            Curator(table, ledger).measure([Marginal(("sex",))], Laplace(10))
        assert_tells_nothing(raised.value)
        assert ledger.spent == 0
        backend.con.execute("ALTER TABLE elsewhere RENAME TO visits")
        Curator(table, ledger).measure([Marginal(("sex",))], Laplace(10))
        assert ledger.spent > 0


def polars_table() -> Any:
    return ibis.polars.connect().create_table("visits", ROWS)


def sqlite_backend(path: Path) -> Any:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (age INTEGER, sex TEXT, who INTEGER)")
        connection.executemany("INSERT INTO visits VALUES (:age, :sex, :who)", ROWS.to_pylist())
    connection.close()
    return ibis.sqlite.connect(path)


def duckdb_backend() -> Any:
    backend = ibis.duckdb.connect()
    backend.create_table("visits", ROWS)
    return backend


def test_numbers_beyond_doubles_and_enumerations(url: str) -> None:
    table = Table.read(url, DOMAIN, query="SELECT * FROM odd", records=6)
    assert exact_counts(table).marginal(("age",)).tolist() == [0, 0, 5, 1]
    assert exact_counts(table).marginal(("sex",)).tolist() == [0, 6, 0]


BAD = {
    "missing table": ("SELECT * FROM nowhere", "table of the query does not exist"),
    "missing column": ("SELECT age FROM visits", "no column 'sex'"),
    "unknown column": ("SELECT nothing FROM visits", "column of the query does not exist"),
    "syntax": ("SELEC", "the query does not run"),
    "fails on a cell": ("SELECT age, sex::integer AS sex FROM visits", "fails on a value"),
    "two statements": ("SELECT 1; DROP TABLE visits", "the query does not run"),
    "writes": ("WITH gone AS (DELETE FROM visits RETURNING *) SELECT * FROM gone", "PostgreSQL|postgresql"),
    "timeout": ("SELECT age, sex FROM visits, pg_sleep(5)", "statement timeout"),
}


@pytest.mark.parametrize("case", BAD)
def test_failing_queries_are_one_line(url: str, case: str) -> None:
    query, message = BAD[case]
    address = f"{url}?options=-cstatement_timeout%3D300" if case == "timeout" else url
    with pytest.raises(SourceError, match=message) as raised:
        Table.read(address, DOMAIN, query=query, records=6)
    assert_tells_nothing(raised.value)
    assert exact_counts(Table.read(url, DOMAIN, query="SELECT * FROM visits", records=6)).total() == 6


def test_refused_connections(url: str) -> None:
    other_port = url.replace("127.0.0.1:", "127.0.0.1:1")[:-1]
    cases = {
        url.replace(PASSWORD, "xyzzy"): "password was refused",
        url.replace("keeper", "nobody"): "password was refused",
        url.replace("/postgres", "/nowhere").replace("postgresql:/nowhere", "postgresql:/"): "does not exist",
        other_port: "no connection",
        url.replace("keeper", "guest"): "permission denied",
        "postgresql://%zz": "no connection",
    }
    for address, message in cases.items():
        with pytest.raises(SourceError, match=message) as raised:
            Table.read(address, DOMAIN, query="SELECT * FROM visits", records=6)
        assert_tells_nothing(raised.value)


def test_a_lost_connection_spends_nothing_and_can_be_tried_again(url: str) -> None:
    slow = "SELECT age, sex FROM visits, pg_sleep(20)"
    killer = threading.Thread(target=kill_sleepers, args=(url,))
    killer.start()
    with pytest.raises(SourceError, match=r"connection was lost|shutting down") as raised:
        Table.read(url, DOMAIN, query=slow, records=6)
    killer.join()
    assert_tells_nothing(raised.value)
    assert exact_counts(Table.read(url, DOMAIN, query="SELECT * FROM visits", records=6)).total() == 6


def kill_sleepers(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(100):
            found = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            ).fetchall()
            if found:
                return
            time.sleep(0.05)


def assert_tells_nothing(error: BaseException) -> None:
    assert "\n" not in str(error)
    assert error.__context__ is None
    told = "".join(traceback.format_exception(error))
    assert CELL not in told
    assert PASSWORD not in told
    assert "xyzzy" not in told
