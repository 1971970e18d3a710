"""ADBC's PostgreSQL driver at the door: Arrow tables by COPY in binary form, schemas, objects, and data frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from tests.service.postgres.doors import OpenDoor

adbc = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="the package adbc-driver-postgresql is not installed")

GROUPED = "SELECT sex, count(*) AS n FROM survey GROUP BY sex ORDER BY sex"
COLUMNS = {"age": pa.int64(), "sex": pa.string(), "smoker": pa.string(), "region": pa.string()}


def address(door: OpenDoor) -> str:
    return f"postgresql://alice:{door.secrets['alice']}@127.0.0.1:{door.port}/reticent"


@pytest.fixture
def connection(door: OpenDoor) -> Iterator[Any]:
    with adbc.connect(address(door), autocommit=True) as opened:
        yield opened


def arrow(connection: Any, sql: str, values: tuple = (), **options: str) -> pa.Table:
    with connection.cursor() as cursor:
        if options:
            cursor.adbc_statement.set_options(**{name.replace("__", "."): text for name, text in options.items()})
        cursor.execute(sql, values or None)
        return cursor.fetch_arrow_table()


def test_an_answer_is_an_arrow_table(door: OpenDoor, connection: Any) -> None:
    spent = door.spent
    truth = door.tables["survey"].session.ask(GROUPED)
    found = arrow(connection, GROUPED)
    assert found.schema.types == [pa.string(), pa.float64(), pa.float64()]
    rows = [(*row, bound[1]) for row, bound in zip(truth.rows, truth.errors, strict=True)]
    assert [tuple(row.values()) for row in found.to_pylist()] == rows
    assert arrow(connection, GROUPED, adbc__postgresql__use_copy="false").to_pylist() == found.to_pylist()
    assert door.spent == spent


def test_values_of_all_kinds(connection: Any) -> None:
    sql = "SELECT min(age) AS low, true AS t, 1.5 AS x, 'ü' AS s, DATE '2024-12-31' AS d, NULL AS z FROM survey"
    found = arrow(connection, sql).to_pylist()[0]
    assert (found["low"], found["t"], found["x"], found["s"], found["z"]) == (17, True, 1.5, "ü", None)
    assert str(found["d"]) == "2024-12-31"
    assert arrow(connection, "SELECT region FROM survey WHERE false").num_rows == 0
    assert arrow(connection, "SELECT 1").to_pydict() == {"?column?": [1]}
    lists = arrow(connection, "SELECT conname, conkey FROM pg_constraint")
    assert lists.schema.types[1] == pa.list_(pa.int16())


def test_parameters_are_values(door: OpenDoor, connection: Any) -> None:
    truth = door.tables["survey"].session.ask("SELECT count(*) FROM survey WHERE age >= 45 AND sex = 'Male'")
    found = arrow(connection, "SELECT count(*) AS n FROM survey WHERE age >= $1 AND sex = $2", (45, "Male"))
    assert found["n"].to_pylist() == [truth.rows[0][0]]
    with connection.cursor() as cursor:
        prepared = cursor.adbc_prepare("SELECT count(*) FROM survey WHERE age >= $1 AND sex = $2")
        assert prepared.types == [pa.int64(), pa.string()]
        assert cursor.adbc_execute_schema(GROUPED).names == ["sex", "n", "n_error"]


def test_the_catalog_as_adbc_reads_it(connection: Any) -> None:
    schema = connection.adbc_get_table_schema("survey", db_schema_filter="public")
    assert {field.name: field.type for field in schema} == COLUMNS
    assert {"table", "view"} <= set(connection.adbc_get_table_types())
    (database,) = connection.adbc_get_objects(db_schema_filter="public").read_all().to_pylist()
    assert database["catalog_name"] == "reticent"
    tables = database["catalog_db_schemas"][0]["db_schema_tables"]
    assert {table["table_name"]: table["table_type"] for table in tables} == {
        "survey": "table",
        "survey_synthetic": "view",
    }
    described = {column["column_name"]: column for column in tables[0]["table_columns"]}
    assert {name: described[name]["xdbc_type_name"] for name in COLUMNS} == {
        "age": "int8",
        "sex": "text",
        "smoker": "text",
        "region": "text",
    }
    filtered = connection.adbc_get_objects(depth="tables", table_name_filter="surv%", table_types_filter=["view"])
    listed = filtered.read_all().to_pylist()[0]["catalog_db_schemas"][0]["db_schema_tables"]
    assert [table["table_name"] for table in listed] == ["survey_synthetic"]
    assert connection.adbc_get_info()["vendor_name"] == "PostgreSQL"


def test_refusals_leave_the_connection_usable(connection: Any) -> None:
    for sql, told in (("SELECT nope FROM survey", "unknown column"), ("DELETE FROM survey", "read-only")):
        with pytest.raises(adbc.Error, match=told):
            arrow(connection, sql)
    assert arrow(connection, "SELECT count(*) AS n FROM survey").num_rows == 1


def test_data_frames_by_adbc(door: OpenDoor, connection: Any) -> None:
    frame = pandas.read_sql(GROUPED, connection)
    assert list(frame.columns) == ["sex", "n", "n_error"]
    assert frame["n"].dtype.kind == "f"
    rows = pandas.read_sql_table("survey_synthetic", connection)
    assert list(rows.columns) == list(COLUMNS)
    assert polars.read_database(GROUPED, connection).schema == polars.Schema(
        {"sex": polars.String, "n": polars.Float64, "n_error": polars.Float64}
    )
    found = polars.read_database_uri(GROUPED, address(door), engine="adbc")
    assert found["sex"].to_list() == ["Female", "Male"]
