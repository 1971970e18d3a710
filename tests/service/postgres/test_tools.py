"""Statements of the kind that dashboards and their drivers send, written from knowledge of these tools.

They were neither copied from the documentation of the tools nor recorded from them: JDBC and Metabase, Npgsql and Power
BI, psqlODBC and Excel, DBeaver, Tableau, and the extension of DuckDB. What Superset sends is recorded: `superset.sql`.
"""

from __future__ import annotations

import select
from pathlib import Path

import psycopg
import pytest
from tests.service.postgres.doors import OpenDoor

STATEMENTS = (Path(__file__).parent / "tools.sql").read_text().split("-- What charts ask.")
CATALOGUE, DASHBOARDS = ([line[:-1] for line in part.splitlines() if line.endswith(";")] for part in STATEMENTS)


@pytest.mark.parametrize("statement", CATALOGUE, ids=lambda statement: statement[:40])
def test_the_catalogue_answers(door: OpenDoor, statement: str) -> None:
    with door.connect() as connection:
        assert connection.execute(statement.encode(), prepare=False) is not None


@pytest.mark.parametrize("statement", DASHBOARDS, ids=lambda statement: statement[:60])
def test_dashboards_are_answered_for_nothing(door: OpenDoor, statement: str) -> None:
    before = door.spent
    with door.connect() as connection:
        assert connection.execute(statement.encode(), prepare=False).fetchall()
    assert door.spent == before


def test_drivers_tell_arrays_by_how_they_are_read(door: OpenDoor) -> None:
    """The JDBC driver asks so for every type that it does not know."""
    asked = "SELECT typname FROM pg_catalog.pg_type WHERE typinput = 'pg_catalog.array_in'::regproc"
    with door.connect() as connection:
        names = [name for (name,) in connection.execute(asked)]
        assert "_text" in names
        assert "text" not in names
        with pytest.raises(psycopg.Error, match='function "nothing" does not exist'):
            connection.execute("SELECT 1 FROM pg_type WHERE typinput = 'nothing'::regproc")


@pytest.mark.parametrize(
    ("condition", "oid"),
    [("region = ANY($1)", 1009), ("age = ANY ($1)", 1016), ("region = ANY($1::text[])", 1009), ("region = $1", 25)],
)
def test_a_parameter_without_a_type_may_be_an_array(door: OpenDoor, condition: str, oid: int) -> None:
    """asyncpg leaves all types to the server, and packs values as the server says."""
    statement = f"SELECT count(*) FROM survey WHERE {condition}".encode()
    with door.connect() as connection:
        raw = connection.pgconn
        # libpq's blocking calls would keep the server's thread from running.
        raw.send_prepare(b"one", statement)
        assert finished(raw).status == psycopg.pq.ExecStatus.COMMAND_OK
        raw.send_describe_prepared(b"one")
        assert finished(raw).param_type(0) == oid


def finished(raw: psycopg.pq.abc.PGconn) -> psycopg.pq.abc.PGresult:
    found = None
    raw.flush()
    while True:
        while raw.is_busy():
            select.select([raw.socket], [], [], 10)
            raw.consume_input()
        if (result := raw.get_result()) is None:
            assert found is not None
            return found
        found = result
