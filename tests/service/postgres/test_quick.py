"""A simple query whose answer is remembered is answered as it arrives, and nobody can tell."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from tests.service.postgres.doors import OpenDoor

from reticent.service.postgres import connection as wire
from reticent.service.postgres.failures import Refusal
from reticent.service.postgres.session import WireSession

GROUPS = "SELECT sex, count(*) AS n, avg(age) AS mean FROM survey GROUP BY sex ORDER BY sex"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each simple query on an idle connection was answered as it arrived."""
    answered: list[bool] = []
    ask = WireSession.quick

    def noted(session: WireSession, text: bytes) -> bytes | None:
        found = ask(session, text)
        answered.append(found is not None)
        return found

    monkeypatch.setattr(WireSession, "quick", noted)
    return answered


def asked(connection: psycopg.Connection, sql: str) -> tuple[Any, ...]:
    """Everything that a client sees of a statement."""
    told: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        told.append(f"{notice.severity} {notice.message_primary}")

    connection.add_notice_handler(note)
    cursor = connection.execute(sql.encode())
    connection.remove_notice_handler(note)
    kinds = [(column.name, column.type_code) for column in cursor.description or ()]
    return kinds, cursor.fetchall(), cursor.statusmessage, told, connection.info.transaction_status


def test_both_ways_say_the_same_and_are_counted_the_same(door: OpenDoor, quick: list[bool]) -> None:
    with door.connect() as connection:
        first = asked(connection, GROUPS)
    before = door.log.tell()
    with door.connect() as connection:
        assert asked(connection, GROUPS) == first
    assert quick == [False, True]
    door.log.seek(before)
    line = next(json.loads(line) for line in door.log if '"request"' in line)
    door.log.seek(0, 2)
    assert line["who"] == "alice"
    assert (line["route"], line["method"], line["status"], line["paid"]) == ("postgres", "postgres", 200, False)


def test_settings_are_part_of_what_is_remembered(door: OpenDoor, quick: list[bool]) -> None:
    with door.connect() as connection:
        plain = asked(connection, GROUPS)
        connection.execute("SET reticent.errors = off")
        bare = asked(connection, GROUPS)
        assert len(bare[0]) < len(plain[0])
        assert asked(connection, GROUPS)[:3] == bare[:3]
        connection.execute("RESET ALL")
        connection.execute("SET client_min_messages = error")
        assert asked(connection, GROUPS)[3] == []
        assert asked(connection, GROUPS)[3] == []


def test_what_is_learned_is_told_at_once(door: OpenDoor, quick: list[bool]) -> None:
    sql = "SELECT count(*) FROM survey WHERE age >= 35 AND region = 'south'"
    with door.connect() as connection:
        first = asked(connection, sql)
        assert asked(connection, sql) == first
        assert quick[-2:] == [False, True]
        connection.execute("SET reticent.error = '60 records'")
        bought = asked(connection, sql)
        connection.execute("RESET reticent.error")
        again = asked(connection, sql)
        assert not quick[-1]
        assert again[1][0][1] <= bought[1][0][1] < first[1][0][1]


def test_a_failed_transaction_refuses_what_is_remembered(door: OpenDoor, quick: list[bool]) -> None:
    with door.connect(autocommit=False) as connection:
        first = asked(connection, GROUPS)
        assert asked(connection, GROUPS) == first
        assert quick[-1]
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing FROM survey")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute(GROUPS)
        assert not quick[-1]
        connection.rollback()
        assert asked(connection, GROUPS) == first


def test_whoever_may_not_see_a_table_is_told_so(door: OpenDoor, quick: list[bool]) -> None:
    with door.connect() as connection:
        asked(connection, GROUPS)
        asked(connection, GROUPS)
    _, text = door.tokens.create("ines", "analyst", tables=["another"])
    with door.connect("ines", password=text) as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute(GROUPS)


def test_queries_that_are_answered_as_they_arrive_keep_the_connection_open() -> None:
    async def waits() -> tuple[float, list[float]]:
        door: Any = SimpleNamespace(settings=SimpleNamespace(body_limit=100, head_seconds=1.0, body_seconds=1.0))
        connection: Any = wire.WireConnection(door)
        clock, patience = [0.0], list[float]()
        connection._loop = SimpleNamespace(time=lambda: clock[0])

        async def arrival(seconds: float) -> bool:
            patience.append(seconds)
            clock[0] += seconds
            if len(patience) == 1:
                connection._answered_at = 4.0
            return False

        connection._arrival = arrival
        with pytest.raises(Refusal):
            await connection._when(lambda: None, 10.0)
        return clock[0], patience

    assert asyncio.run(waits()) == (14.0, [10.0, 4.0])
