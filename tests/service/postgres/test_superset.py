"""What Apache Superset sends, recorded from a run with dashboards of forty charts: answered, right, and for nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.service.postgres.doors import OpenDoor, open_door

import reticent as rt
from reticent.service.settings import TableSettings

ROWS = 20_000
RECORDED = (Path(__file__).parent / "superset.sql").read_text().split("-- What charts, filters")
CATALOG, CHARTS = ([line[:-1] for line in part.splitlines() if line.endswith(";")] for part in RECORDED)
BINNED = ("SELECT amount AS amount", "SELECT items AS items", "SELECT ordered_on AS ordered_on", "SELECT MIN(amount)")
"""Grouped by bins, which exact rows do not have; a declared range; or rows themselves."""
EDGES = [datetime.date(2023 + month // 12, month % 12 + 1, 1) for month in range(24)] + [datetime.date(2024, 12, 31)]
DOMAIN = rt.Domain(
    ordered_on=rt.Numeric(edges=EDGES, other=False),
    region=rt.Categorical(["North", "South", "East", "West", "Overseas"], other=False),
    channel=rt.Categorical(["web", "store", "phone"], other=False),
    category=rt.Categorical(["books", "garden", "kitchen", "music", "sport", "toys"], other=False),
    amount=rt.Numeric(edges=[0, 50, 100, 200, 500], other=False),
    items=rt.Numeric(edges=[1, 3, 9], whole=True, other=False),
)


def orders() -> pa.Table:
    """Regions, channels and categories are far enough apart for noise not to change their order."""
    chance = np.random.default_rng(5)
    month, day = chance.integers(0, 24, ROWS), chance.integers(0, 28, ROWS)
    return pa.table(
        {
            "ordered_on": [EDGES[m] + datetime.timedelta(days=int(d)) for m, d in zip(month, day, strict=True)],
            "region": chance.choice(DOMAIN["region"].values, ROWS, p=[0.32, 0.26, 0.2, 0.14, 0.08]),
            "channel": chance.choice(DOMAIN["channel"].values, ROWS, p=[0.5, 0.3, 0.2]),
            "category": chance.choice(DOMAIN["category"].values, ROWS, p=[0.3, 0.25, 0.2, 0.1, 0.08, 0.07]),
            "amount": chance.uniform(0, 400, ROWS).round(2),
            "items": chance.integers(1, 9, ROWS),
        }
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    folder = tmp_path_factory.mktemp("shop")
    pyarrow.parquet.write_table(orders(), folder / "orders.parquet")
    DOMAIN.write(folder / "orders.toml")
    table = TableSettings(
        name="orders",
        table=str(folder / "orders.parquet"),
        domain=str(folder / "orders.toml"),
        ledger=str(folder / "orders.ledger"),
        epsilon=8.0,
        delta=1e-9,
        title="Orders",
        synthetic_rows=True,
    )
    with open_door(folder, tables=(table,)) as opened:
        yield opened


@pytest.fixture(scope="module")
def exact() -> duckdb.DuckDBPyConnection:
    """The table itself, in a database that knows PostgreSQL's functions."""
    engine = duckdb.connect()
    engine.register("rows", orders())
    engine.execute("CREATE SCHEMA public")
    engine.execute("CREATE TABLE public.orders AS SELECT * FROM rows")
    engine.execute("CREATE MACRO to_date(day, pattern) AS day::DATE")
    engine.execute("SET search_path = 'public,main'")
    return engine


def test_what_it_asks_of_the_catalog(shop: OpenDoor) -> None:
    with shop.connect() as connection:
        for statement in CATALOG:
            connection.execute(statement.encode(), prepare=False)
        listed = connection.execute(next(text for text in CATALOG if "relkind in ('r', 'p')" in text).encode())
        assert listed.fetchall() == [("orders",)]
        columns = connection.execute(next(text for text in CATALOG if "SELECT a.attname, pg_catalog" in text).encode())
        assert [row[0] for row in columns] == list(DOMAIN)


def key_of(row: Any, places: list[int]) -> tuple[Any, ...]:
    return tuple(str(row[place]) for place in places)


@pytest.mark.parametrize("statement", CHARTS, ids=lambda text: text[7:67])
def test_charts_are_right_and_free(shop: OpenDoor, exact: duckdb.DuckDBPyConnection, statement: str) -> None:
    spent = shop.tables["orders"].session.spent
    with shop.connect() as connection:
        connection.execute("SET reticent.confidence = 0.999999")
        cursor = connection.execute(statement.encode(), prepare=False)
        names = [column.name for column in cursor.description or ()]
        ours = cursor.fetchall() if names else []
    assert shop.tables["orders"].session.spent == spent
    if not names or "FROM public.orders_synthetic" in statement or "(" not in statement:
        assert ours or not names
        return
    if statement.startswith(BINNED) or "HAVING" in statement:
        return
    shown = [place for place, name in enumerate(names) if not name.endswith("_error")]
    numbers = [place for place in shown if f"{names[place]}_error" in names]
    keys = [place for place in shown if place not in numbers]
    theirs = {key_of(row, [shown.index(p) for p in keys]): row for row in exact.execute(statement).fetchall()}
    assert {key_of(row, keys) for row in ours} == set(theirs)
    for row in ours:
        for place in numbers:
            true, error = theirs[key_of(row, keys)][shown.index(place)], row[names.index(f"{names[place]}_error")]
            assert (true is None) == (row[place] is None)
            # A mean of few records may have no bound with this confidence.
            assert true is None or error is None or abs(row[place] - float(true)) <= error + 1e-9
            assert error is not None or "amount" in names[place] or names[place] == "mean"


def test_days_of_months_are_refused_with_what_works(shop: OpenDoor) -> None:
    """Superset's charts over time begin with days."""
    text = "SELECT DATE_TRUNC('{}', ordered_on) AS ordered_on, COUNT(*) AS count FROM public.orders GROUP BY 1"
    with shop.connect() as connection:
        for unit in ("DAY", "WEEK"):
            with pytest.raises(Exception, match=r"use DATE_TRUNC\('MONTH', ordered_on\)"):
                connection.execute(text.format(unit).encode())
        assert len(connection.execute(text.format("MONTH").encode()).fetchall()) == 24


def test_times_are_read_by_their_pattern(shop: OpenDoor) -> None:
    """Columns of timestamps are filtered by TO_TIMESTAMP, those of dates by TO_DATE."""
    sql = "SELECT COUNT(*) FROM orders WHERE ordered_on >= {} AND ordered_on < DATE '2024-07-01'"
    written = "TO_TIMESTAMP('2024-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')"
    with shop.connect() as connection:
        wanted = connection.execute(sql.format("DATE '2024-02-01'").encode()).fetchall()
        assert connection.execute(sql.format(written).encode()).fetchall() == wanted
        assert connection.execute(sql.format("TO_DATE('01.02.2024', 'DD.MM.YYYY')").encode()).fetchall() == wanted
        for refused in ("TO_TIMESTAMP('2024', 'YYYY-MM')", "TO_TIMESTAMP('2024-02', 'YYYYYYYY')", "TO_TIMESTAMP(17)"):
            with pytest.raises(Exception, match=r"write TO_TIMESTAMP\('2024"):
                connection.execute(sql.format(refused).encode())
