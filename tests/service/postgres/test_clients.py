"""Real clients at the door: psycopg, psql, SQLAlchemy, pandas, polars."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import subprocess
import warnings

import pandas
import polars
import psycopg
import pytest
import sqlalchemy
from tests.service.postgres.doors import OpenDoor

GROUPED = "SELECT sex, count(*) AS n FROM survey GROUP BY sex ORDER BY sex"


def test_an_answer_has_its_bound_beside_it(door: OpenDoor) -> None:
    truth = door.tables["survey"].session.ask(GROUPED)
    with door.connect() as connection:
        cursor = connection.execute(GROUPED)
        assert [column.name for column in cursor.description or ()] == ["sex", "n", "n_error"]
        assert [column.type_code for column in cursor.description or ()] == [25, 701, 701]
        rows = cursor.fetchall()
        assert rows == [(*row, bound[1]) for row, bound in zip(truth.rows, truth.errors, strict=True)]
        connection.execute("SET reticent.errors = off")
        assert connection.execute(GROUPED).fetchall() == list(truth.rows)
        assert connection.execute("SHOW reticent.errors").fetchone() == ("off",)
        connection.execute("RESET ALL")
        assert len(connection.execute("SELECT count(*) FROM survey").description or ()) == 2


def test_text_and_binary_prepared_and_pipelined_agree(door: OpenDoor) -> None:
    sql = "SELECT region, count(*) FROM survey WHERE age >= %s AND sex = %s GROUP BY region"
    with door.connect() as connection:
        plain = connection.execute(sql, (45, "Male")).fetchall()
        for _ in range(3):
            assert connection.execute(sql, (45, "Male"), prepare=True).fetchall() == plain
        with connection.cursor(binary=True) as cursor:
            assert cursor.execute(sql, (45, "Male")).fetchall() == plain
        with connection.pipeline():
            first = connection.execute(sql, (45, "Male"))
            second = connection.execute("SELECT 1")
        assert (first.fetchall(), second.fetchall()) == (plain, [(1,)])
        listed = "SELECT region, count(*) FROM survey WHERE region = ANY(%s) GROUP BY region"
        assert {row[0] for row in connection.execute(listed, (["north", "west"],))} == {"north", "west"}
        streamed = connection.cursor().stream(sql.replace("%s", "45", 1).replace("%s", "'Male'"))
        assert list(streamed) == plain


def result_of(raw: psycopg.pq.abc.PGconn) -> psycopg.pq.abc.PGresult:
    """The only result of what was sent; libpq's blocking calls would keep the server's thread from running."""
    found = []
    while True:
        raw.flush()
        select.select([raw.socket], [], [], 0.01)
        raw.consume_input()
        while not raw.is_busy():
            result = raw.get_result()
            if result is None:
                assert len(found) == 1
                assert not found[0].error_message
                return found[0]
            found.append(result)


def test_a_statement_is_described_before_it_has_values(door: OpenDoor) -> None:
    with door.connect() as connection:
        raw = connection.pgconn
        raw.send_prepare(b"q", b"SELECT sex, count(*) FROM survey WHERE age >= $1 AND smoker = $2 GROUP BY sex")
        result_of(raw)
        raw.send_describe_prepared(b"q")
        described = result_of(raw)
        assert [described.param_type(place) for place in range(described.nparams)] == [20, 25]
        assert [described.ftype(place) for place in range(described.nfields)] == [25, 701, 701]
        raw.send_query_prepared(b"q", [b"45", b"yes"])
        assert result_of(raw).ntuples == 2


def test_copy_to_a_client(door: OpenDoor) -> None:
    with door.connect() as connection, connection.cursor() as cursor:
        rows = connection.execute(GROUPED).fetchall()
        with cursor.copy(f"COPY ({GROUPED}) TO STDOUT (FORMAT BINARY)") as copy:
            copy.set_types(["text", "float8", "float8"])
            assert list(copy.rows()) == rows
        with cursor.copy(f"COPY ({GROUPED}) TO STDOUT WITH (FORMAT csv, HEADER true)") as copy:
            text = b"".join(copy).decode()
        assert text.splitlines()[0] == "sex,n,n_error"
        assert len(text.splitlines()) == 3


def test_async_psycopg(door: OpenDoor) -> None:
    async def asked() -> list[tuple]:
        where = {"host": "127.0.0.1", "port": door.port, "dbname": "reticent"}
        async with await psycopg.AsyncConnection.connect(
            user="alice", password=door.secrets["alice"], **where
        ) as connection:
            return await (await connection.execute(GROUPED)).fetchall()

    assert [row[0] for row in asyncio.run(asked())] == ["Female", "Male"]


def test_transactions_keep_and_undo_settings(door: OpenDoor) -> None:
    with door.connect(autocommit=False) as connection:
        connection.execute("SET reticent.errors = off")
        connection.rollback()
        assert connection.execute("SHOW reticent.errors").fetchone() == ("on",)
        connection.execute("SET reticent.errors = off")
        connection.commit()
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("SELECT nope FROM survey")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SHOW reticent.errors").fetchone() == ("off",)


def test_reset_goes_back_to_what_the_connection_stated(door: OpenDoor) -> None:
    """Pools send DISCARD ALL between two users of a connection."""
    with door.connect(options="-c reticent.errors=off") as connection:
        for sql in ("SET reticent.errors = on", "RESET reticent.errors", "SET reticent.errors = on", "DISCARD ALL"):
            connection.execute(sql)
        assert connection.execute("SHOW reticent.errors").fetchone() == ("off",)
        assert connection.execute("SHOW reticent.error").fetchone() == ("off",)


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELECT * FROM nope", "42P01"),
        ("INSERT INTO survey VALUES (1)", "25006"),
        ("SELECT 'open", "42601"),
        ("SELECT median(nope) FROM survey", "0A000"),
        ("SET reticent.eror = 5", "42704"),
        ("SET reticent.error = 'much'", "22023"),
        ("SHOW nothing", "42704"),
        ("SELECT * FROM read_csv('/etc/passwd'), pg_class", "42P01"),
        ("SELECT * FROM pg_class, read_csv('/etc/passwd')", "0A000"),
        ("SELECT pg_read_file('/etc/passwd')", "0A000"),
        ("SELECT * FROM pg_catalog.pg_shadow", "42P01"),
        ("SELECT count(*) FROM pg_class, generate_series(1, 100000000000)", "57014"),
    ],
)
def test_refusals_have_their_sqlstate(door: OpenDoor, sql: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent.service.postgres.answering.CATALOG_SECONDS", 0.3)
    with door.connect() as connection:
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(sql)
        assert refused.value.sqlstate == state
        assert connection.execute("SELECT 1").fetchone() == (1,)


def psql(door: OpenDoor, *commands: str) -> str:
    program = shutil.which("psql")
    if program is None:
        pytest.skip("the program psql is not on this machine")
    arguments = [program, "-X", "-h", "127.0.0.1", "-p", str(door.port), "-U", "alice", "-d", "reticent"]
    for command in commands:
        arguments += ["-c", command]
    environment = os.environ | {"PGPASSWORD": door.secrets["alice"], "PAGER": "cat"}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_psql_lists_describes_and_asks(door: OpenDoor) -> None:
    shown = psql(door, r"\dt", r"\d survey", r"\l", r"\dn", r"\du", r"\df", GROUPED, r"\d nope")
    assert "public | survey | table | reticent" in shown
    assert "age    | bigint" in shown
    assert "smoker | text   |           |          |" in shown
    assert "n_error" in shown
    assert 'Did not find any relation named "nope"' in shown
    assert "ERROR" not in shown
    told = psql(door, r"\dv+", r"\dF", r"\dO", r"\dc", r"\dx", r"\sv survey_synthetic", r"\df boolin", r"\dn+", r"\l+")
    assert "ERROR" not in told
    assert "boolin" in told
    assert "count_star" not in psql(door, "SELECT count(*) FROM pg_namespace")


def test_sqlalchemy_reflects_and_selects(door: OpenDoor) -> None:
    engine = sqlalchemy.create_engine(door.sqlalchemy)
    try:
        inspector = sqlalchemy.inspect(engine)
        assert inspector.get_table_names() == ["survey"]
        assert inspector.get_view_names() == ["survey_synthetic"]
        assert inspector.get_table_comment("survey") == {"text": "Survey"}
        metadata = sqlalchemy.MetaData()
        metadata.reflect(engine)
        survey = metadata.tables["survey"]
        assert [(c.name, str(c.type), c.nullable) for c in survey.columns] == [
            ("age", "BIGINT", False),
            ("sex", "TEXT", False),
            ("smoker", "TEXT", True),
            ("region", "TEXT", False),
        ]
        count = sqlalchemy.func.count().label("n")
        statement = (
            sqlalchemy.select(survey.c.sex, count)
            .where(survey.c.age >= 45, survey.c.region.in_(["north", "south"]))
            .group_by(survey.c.sex)
            .order_by(sqlalchemy.desc("n"))
        )
        with engine.connect() as connection:
            assert {row[0] for row in connection.execute(statement)} == {"Female", "Male"}
    finally:
        engine.dispose()


def test_data_frames(door: OpenDoor) -> None:
    engine = sqlalchemy.create_engine(door.sqlalchemy)
    try:
        frame = pandas.read_sql(GROUPED, engine)
        assert list(frame.columns) == ["sex", "n", "n_error"]
        assert frame["n"].dtype == float
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert polars.read_database(GROUPED, engine).shape == (2, 3)
    finally:
        engine.dispose()


PROBES = """
SELECT version()
SELECT current_schema(), current_database(), current_user, session_user
SHOW TRANSACTION ISOLATION LEVEL
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname
SELECT relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'public' AND c.relkind in ('r', 'p')
SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME,
  CASE c.relkind WHEN 'r' THEN 'TABLE' ELSE NULL END AS TABLE_TYPE, d.description AS REMARKS
  FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d
  ON (c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass)
  WHERE c.relnamespace = n.oid ORDER BY TABLE_TYPE, TABLE_SCHEM, TABLE_NAME
SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns
  WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY ordinal_position
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atttypid::regtype
  FROM pg_catalog.pg_attribute a WHERE a.attrelid = '"public"."survey"'::regclass AND a.attnum > 0
SELECT tc.constraint_name FROM information_schema.table_constraints tc
  JOIN information_schema.key_column_usage k ON tc.constraint_name = k.constraint_name
SELECT typname, oid, typarray, typtype, typelem FROM pg_type WHERE typtype IN ('b', 'e', 'r') ORDER BY oid
SELECT setting FROM pg_settings WHERE name = 'max_index_keys'
SELECT has_table_privilege('survey', 'select'), has_schema_privilege('public', 'usage')
SET extra_float_digits = 3
SET application_name = 'Metabase'
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY
SELECT "public"."survey"."sex" AS "sex", COUNT(*) AS "count" FROM "public"."survey"
  GROUP BY "public"."survey"."sex" ORDER BY "public"."survey"."sex" ASC
SELECT sex AS sex, COUNT(*) AS "COUNT(*)" FROM public.survey GROUP BY sex ORDER BY "COUNT(*)" DESC LIMIT 1000
DISCARD ALL
""".strip().replace("\n  ", " ")
"""What Metabase, Superset, Grafana, DBeaver, Npgsql and JDBC ask when they connect."""


def test_what_tools_ask_when_they_connect(door: OpenDoor) -> None:
    with door.connect() as connection:
        for probe in PROBES.splitlines():
            connection.execute(probe)
        named = connection.execute(PROBES.splitlines()[-2]).description or ()
        assert [column.name for column in named] == ["sex", "COUNT(*)", "COUNT(*)_error"]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM public.survey WHERE 1 = 0", ["age", "sex", "smoker", "region"]),
        ('SELECT TRUE FROM "public"."survey" WHERE 1 <> 1 LIMIT 0', ["?column?"]),
        ("SELECT survey.sex, age FROM survey LIMIT 0", ["sex", "age"]),
        ('SELECT TRUE AS "_" FROM "public"."survey" WHERE 1 <> 1 LIMIT 0', ["_"]),
        ("SELECT s.sex AS a, age b, 1 AS one FROM survey s WHERE 1 = 0", ["a", "b", "one"]),
    ],
)
def test_a_statement_for_no_rows_tells_the_declared_columns(door: OpenDoor, sql: str, names: list[str]) -> None:
    """Tools probe permissions and columns so; a condition that some row could meet is a question like any other."""
    with door.connect() as connection:
        cursor = connection.execute(sql)
        assert [column.name for column in cursor.description or ()] == names
        assert cursor.fetchall() == []
        for refused in ("SELECT * FROM survey LIMIT 1", "SELECT * FROM survey WHERE 1 = 1", "SELECT age FROM survey"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(refused)
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("SELECT nope FROM survey LIMIT 0")


def test_a_dashboard_costs_nothing(door: OpenDoor) -> None:
    """Some hundred different GROUP BYs, none foreseen: all answered, nothing spent."""
    spent, asked = door.spent, 0
    columns = ["age", "sex", "smoker", "region"]
    with door.connect() as connection:
        for first in columns:
            for second in columns:
                for edge in (25, 35, 45, 55, 65):
                    for side in ("<", ">="):
                        keys = first if first == second else f"{first}, {second}"
                        sql = f"SELECT {keys}, count(*) AS n FROM survey WHERE age {side} {edge} GROUP BY {keys}"
                        assert connection.execute(sql).fetchall()
                        asked += 1
    assert asked == 160
    assert door.spent == spent


def test_buying_a_bound_is_in_the_audit_trail(door: OpenDoor) -> None:
    """SET reticent.error buys through the same path as HTTP: charged, kept, and then free."""
    spent = door.spent
    sql = "SELECT count(*) AS n FROM survey WHERE smoker = 'yes' AND region = 'west' AND sex = 'Male'"
    told: list[str] = []
    with door.connect("bob") as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.execute("SET reticent.error = '40 records'")
        connection.execute("SET reticent.max_price = 0")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="you allowed 0"):
            connection.execute(sql)
        assert door.spent == spent
        connection.execute("SET reticent.max_price = off")
        (value, error) = connection.execute(sql).fetchone() or (None, None)
        assert error is not None
        assert error <= 40
        assert door.spent > spent
        assert any("bought for" in message for message in told)
        paid = door.spent
        assert connection.execute(sql).fetchone() == (value, error)
        assert door.spent == paid
    entries, _ = door.tables["survey"].answers.page("bob", None, 10)
    assert [entry.analyst for entry in entries] == ["bob"]
    assert door.tables["survey"].ledger.spent_by("bob") > 0
    logged = [json.loads(line) for line in door.log.getvalue().splitlines()]
    assert any(line["who"] == "bob" and line.get("paid") for line in logged if line["event"] == "request")
    assert "smoker" not in door.log.getvalue()
