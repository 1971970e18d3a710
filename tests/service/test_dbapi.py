"""DB-API 2.0 over a server: what PEP 249 asks for, and errors that say what happened."""

from __future__ import annotations

import warnings

import pandas
import pytest
from tests.service.serving import Service

from reticent import dbapi

GROUPED = "SELECT sex, count(*) AS n FROM survey GROUP BY sex ORDER BY sex"


def opened(service: Service, **terms: object) -> dbapi.Connection:
    url, token = str(service.client.base_url), service.alice["Authorization"].split()[1]
    return dbapi.connect(url, token, **terms)  # type: ignore[arg-type]


def test_a_cursor_hands_out_rows_with_their_errors(service: Service) -> None:
    with opened(service) as connection, connection.cursor() as cursor:
        cursor.execute(GROUPED)
        assert [column[0] for column in cursor.description or ()] == ["sex", "n", "n_error"]
        assert [column[1] for column in cursor.description or ()] == [dbapi.STRING, dbapi.NUMBER, dbapi.NUMBER]
        assert cursor.rowcount == 2
        first = cursor.fetchone()
        assert first is not None
        assert first[0] == "Female"
        assert [row[0] for row in cursor] == ["Male"]
        assert cursor.fetchone() is None
        assert cursor.fetchmany(5) == cursor.fetchall() == []
        assert cursor.result is not None
        assert cursor.result.price == 0
        connection.commit()
        connection.rollback()
    with pytest.raises(dbapi.InterfaceError):
        connection.cursor()
    with pytest.raises(dbapi.InterfaceError):
        cursor.execute(GROUPED)


def test_parameters_are_values(service: Service) -> None:
    with opened(service, errors=False) as connection:
        cursor = connection.cursor()
        sql = "SELECT count(*) AS n FROM survey WHERE age >= %s AND region IN %s AND sex LIKE 'M%%'"
        plain = "SELECT count(*) AS n FROM survey WHERE age >= 45 AND region IN ('north', 'west') AND sex LIKE 'M%'"
        found = cursor.execute(sql, (45, ["north", "west"])).fetchall()
        assert found == cursor.execute(plain).fetchall()
        named = sql.replace("%s", "%(edge)s", 1).replace("%s", "%(where)s", 1)
        assert cursor.execute(named, {"edge": 45, "where": ["north", "west"]}).fetchall() == found
        for wrong in ((45,), (45, ["north"], 1), {"edge": 45}):
            with pytest.raises(dbapi.ProgrammingError):
                cursor.execute(sql, wrong)
        with pytest.raises(dbapi.DataError):
            cursor.execute(sql, (float("nan"), ["north"]))
        with pytest.raises(dbapi.ProgrammingError, match="not one of the 2 declared values"):
            cursor.execute("SELECT count(*) FROM survey WHERE sex = %s", ("x' OR 'x' = 'x",))
        with pytest.raises(dbapi.NotSupportedError):
            cursor.executemany(sql, [])


def test_refusals_and_purchases(service: Service) -> None:
    with opened(service) as connection, pytest.raises(dbapi.ProgrammingError, match="nope"):
        connection.cursor().execute("SELECT nope FROM survey")
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(str(service.client.base_url), "rt_000000000000_" + "x" * 43)
    with (
        opened(service, error="0.5%", max_price=0.0) as connection,
        pytest.raises(dbapi.OperationalError, match="you allowed 0"),
    ):
        connection.cursor().execute("SELECT count(*) FROM survey WHERE smoker = 'yes'")


def test_pandas_reads_from_a_connection(service: Service) -> None:
    with opened(service) as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas names the few drivers that it tests
        frame = pandas.read_sql(GROUPED, connection)
    assert list(frame.columns) == ["sex", "n", "n_error"]
