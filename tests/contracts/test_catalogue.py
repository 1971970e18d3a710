"""`reticent domain new` on PostgreSQL: enumerations, check constraints, domains and comments; no row is read."""

from __future__ import annotations

import tomllib

import psycopg
import pytest

from reticent.custodian.declared import declared_columns
from reticent.domain.draft import draft_text
from reticent.errors import SourceError

SECRET = "plugh"
COLUMNS = """
key integer PRIMARY KEY, shade colour, share percent NOT NULL, sex char(1) CHECK (sex IN ('f', 'm')),
age integer CHECK (age BETWEEN 0 AND 120), active boolean NOT NULL, born date, seen timestamptz,
place text REFERENCES places, free text, price numeric(10, 2)
"""


@pytest.fixture(scope="module")
def url(postgres: str) -> str:
    with psycopg.connect(postgres, autocommit=True) as connection:
        for statement in (
            "CREATE TYPE colour AS ENUM ('red', 'green')",
            "CREATE DOMAIN percent AS integer CHECK (VALUE >= 0 AND VALUE <= 100)",
            "CREATE TABLE places (code text PRIMARY KEY)",
            f"INSERT INTO places VALUES ('{SECRET}')",
            f"CREATE TABLE drafted ({COLUMNS})",
            "COMMENT ON COLUMN drafted.age IS 'Age in years'",
            f"INSERT INTO drafted VALUES (1, 'red', 5, 'f', 3, true, now(), now(), '{SECRET}', '{SECRET}', 1)",
        ):
            connection.execute(statement)
    return postgres


def test_the_catalogue_fills_a_draft(url: str) -> None:
    read, columns = declared_columns(url, query="SELECT *, age + 1 AS older FROM drafted;")
    text = draft_text("a database", columns, read=read)
    assert SECRET not in text
    assert "catalogue of its database: no value was read" in text
    found = tomllib.loads(text)
    assert "key" not in found
    assert found["shade"] == {"values": ["red", "green"], "nullable": True}
    assert found["share"] == {"type": "numeric", "whole": True, "lower": 0, "upper": 100}
    assert found["sex"]["values"] == ["f", "m"]
    assert found["age"] == {"type": "numeric", "whole": True, "lower": 0, "upper": 120, "nullable": True}
    assert "# Age in years" in text
    assert found["active"] == {"values": [True, False]}
    assert found["born"]["type"] == "date"
    assert found["seen"]["type"] == "datetime"
    assert found["place"]["values"] == []
    assert "points to places.code" in text
    assert found["free"]["values"] == []
    assert found["price"] == {"type": "numeric", "edges": [], "nullable": True}
    assert found["older"]["whole"] is True
    _, public = declared_columns(url, query="SELECT place FROM drafted", public_dictionaries=True)
    assert public[0].values == (SECRET,)


def test_a_query_that_does_not_run_is_one_line(url: str) -> None:
    with pytest.raises(SourceError, match="does not exist") as refused:
        declared_columns(url, query="SELECT * FROM nowhere")
    assert "\n" not in str(refused.value)
