"""Drafts say what is public and what is to state; unfinished ones are refused in one line; codebooks fill them in."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reticent.custodian.declared import constrained, declared_columns
from reticent.domain import Categorical, Domain, Numeric, Undeclared
from reticent.domain.codebooks import merged, read_codebook
from reticent.domain.draft import ColumnFacts, draft_text, looks_like_an_identifier, read_draft
from reticent.errors import DomainError, SourceError

SECRET = "xyzzy"
TABLE = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "age": pa.array([3, 4], pa.int32()),
        "score": pa.array([0.5, 1.5]),
        "member": pa.array([True, False]),
        "born": pa.array([datetime.date(2000, 1, 1)] * 2),
        "seen": pa.array([datetime.datetime(2000, 1, 1)] * 2, pa.timestamp("us")),
        "city": pa.array([SECRET, "b"]),
        "grade": pa.array([SECRET, "b"]).dictionary_encode(),
        "tiny": pa.array([1, 2], pa.uint8()),
        "odd name €": pa.array(["x", "y"]),
        "photo": pa.array([b"x", b"y"]),
        "address": pa.array([{"street": SECRET}, {"street": "b"}]),
        "tags": pa.array([[SECRET], ["b"]]),
        "at": pa.array([datetime.time(1), datetime.time(2)]),
    }
)
UNREAD = ("photo", "address", "tags", "at")


def drafted(columns: list[ColumnFacts]) -> dict[str, Any]:
    return tomllib.loads(draft_text("t", columns, read="its schema"))


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_schema_is_drafted_without_its_values(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    if ending == ".parquet":
        pq.write_table(TABLE, path)
    else:
        with pa.ipc.new_file(path, TABLE.schema) as file:
            file.write_table(TABLE)
    read, columns = declared_columns(path)
    text = draft_text(path.name, columns, read=read)
    assert "no value was read" in text
    assert SECRET not in text
    found = tomllib.loads(text)
    assert "id" not in found
    assert not set(UNREAD) & set(found), "values of these types fit nowhere"
    for name in UNREAD:
        assert re.search(rf'^# \["{name}"\] +# .*: values of this type fit nowhere; leave it out', text, re.M)
    assert found["age"] == {"type": "numeric", "whole": True, "edges": [], "nullable": True}
    assert found["score"] == {"type": "numeric", "edges": [], "nullable": True}
    assert found["member"] == {"values": [True, False], "nullable": True}
    assert found["born"]["type"] == "date"
    assert found["seen"]["type"] == "datetime"
    assert found["city"] == {"type": "categorical", "values": [], "nullable": True}
    assert found["grade"]["values"] == []
    assert "--dictionary-is-public" in text
    assert "its type holds 0 to 255" in text
    assert found["odd name €"]["values"] == []
    _, public = declared_columns(path, public_dictionaries=True)
    assert drafted(public)["grade"]["values"] == sorted([SECRET, "b"])
    assert drafted(public)["city"]["values"] == []


def test_a_header_alone_is_read_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"\ufeffage;sex ;patient_id\n{SECRET};{SECRET};1\n")
    read, columns = declared_columns(path)
    assert [column.name for column in columns] == ["age", "sex", "patient_id"]
    text = draft_text(path.name, columns, read=read)
    assert SECRET not in text
    assert '# ["patient_id"]' in text
    assert tomllib.loads(text)["age"] == {"type": "categorical", "values": []}


def test_names_tell_dates_and_are_quoted_for_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Visit Date,date_of_birth,update,Patient No\n")
    read, columns = declared_columns(path)
    text = draft_text(path.name, columns, read=read)
    found = tomllib.loads(text)
    assert found["Visit Date"] == found["date_of_birth"] == {"type": "date", "edges": []}
    assert found["update"]["type"] == "categorical"
    assert "--person 'Patient No'" in text


def test_sources_that_cannot_be_drafted(tmp_path: Path) -> None:
    for source, options, word in (
        (tmp_path / "none.csv", {}, "does not exist"),
        (tmp_path, {}, "no .parquet"),
        (tmp_path / "t.csv", {"query": "SELECT 1"}, "--query is for a database"),
        ("postgresql://localhost/x", {}, "needs --query"),
    ):
        with pytest.raises(SourceError, match=word):
            declared_columns(source, **options)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("CHECK (((age >= 0) AND (age <= 120)))", {"lower": 0, "upper": 120}),
        ("CHECK ((age BETWEEN 1 AND 5))", {"lower": 1, "upper": 5}),
        ("CHECK ((120 >= age))", {"upper": 120}),
        ("CHECK ((age > '-3'::integer))", {"lower": -3}),
        ("CHECK ((born >= '1900-01-01'::date))", {"lower": datetime.date(1900, 1, 1)}),
        ("CHECK ((sex = ANY (ARRAY['f'::bpchar, 'm'::bpchar])))", {"values": ("f", "m")}),
        (
            "CHECK (((sex)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[])))",
            {"values": ("a", "b")},
        ),
        ("CHECK ((VALUE = ANY (ARRAY[1, 2, 3])))", {"values": (1, 2, 3)}),
        ("CHECK ((x > y))", {}),
        ("CHECK (((a = 1) OR (a = 2)))", {}),
        ("CHECK ((length(name) > ))", {}),
    ],
)
def test_check_constraints_are_understood_or_quoted(check: str, expected: dict[str, Any]) -> None:
    found = constrained(ColumnFacts("x"), check)
    assert {name: getattr(found, name) for name in ("values", "lower", "upper") if getattr(found, name)} == {
        name: value for name, value in expected.items() if value
    }
    assert bool(found.notes) == (not expected)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("id", True),
        ("patientId", True),
        ("User ID", True),
        ("email", True),
        ("Patient No", True),
        ("case-number", True),
    ],
)
def test_identifiers_by_name(name: str, is_one: bool) -> None:
    assert looks_like_an_identifier(name) is is_one
    for plain in ("age", "idea", "width", "country_name", "paid", "no", "number", "casino"):
        assert not looks_like_an_identifier(plain)


UNFINISHED = """
age = 4
[sex]
type = "categorical"
values = []
[job]
type = "categorical"
[income]
type = "numeric"
edges = []
decimal = ","
[born]
type = "date"
lower = 1900-01-01
upper = 2020-01-01
format = "%d/%m/%Y"
[hours]
type = "numeric"
values = []
whole = true
[done]
values = ["a"]
"""


def test_an_unfinished_draft_says_what_to_state(tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text(UNFINISHED)
    with pytest.raises(DomainError) as refused:
        Domain.read(tmp_path / "d.toml")
    said = str(refused.value)
    assert 'state values of "sex", "job"; edges of "income", "born", "hours"' in said
    assert "\n" not in said
    assert "domain discover" in said


def test_a_draft_reads_into_open_and_declared_columns(tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text(UNFINISHED)
    found = read_draft(tmp_path / "d.toml")
    assert found["sex"] == Undeclared("text")
    assert found["income"] == Undeclared("number", decimal=",")
    bounds = (datetime.date(1900, 1, 1), datetime.date(2020, 1, 1))
    assert found["born"] == Undeclared("date", format="%d/%m/%Y", lower=bounds[0], upper=bounds[1])
    assert found["hours"] == Undeclared("number", whole=True)
    assert found["done"] == Categorical(["a"])
    (tmp_path / "d.toml").write_text('[a]\ntype = "numeric"\nedges = []\ncolour = 1\n')
    with pytest.raises(DomainError, match="not understood"):
        read_draft(tmp_path / "d.toml")


def test_types_date_and_datetime_are_checked() -> None:
    day = datetime.date(2000, 1, 1)
    assert Domain.from_dict({"a": {"type": "date", "edges": [day, "2001-01-01"]}})["a"] == Numeric(
        edges=[day, datetime.date(2001, 1, 1)]
    )
    with pytest.raises(DomainError, match="type date but the edges are numbers"):
        Domain.from_dict({"a": {"type": "date", "edges": [0, 1]}})


FRICTIONLESS = {
    "fields": [
        {"name": "who", "type": "integer", "constraints": {"unique": True}},
        {
            "name": "sex",
            "type": "string",
            "constraints": {"enum": ["f", "m"], "required": True},
            "title": "Sex at birth",
        },
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "paid", "type": "number", "decimalChar": ",", "groupChar": ".", "bareNumber": False},
        {"name": "born", "type": "date", "format": "%d/%m/%Y", "constraints": {"minimum": "1900-01-01"}},
        {"name": "seen", "type": "datetime", "format": "any"},
        {"name": "member", "type": "boolean", "trueValues": ["yes", "true"], "falseValues": ["no"]},
        {
            "name": "fruit",
            "type": "integer",
            "categories": [{"value": 1, "label": "apple"}, {"value": 2, "label": "pear"}],
        },
        {"name": "place", "type": "geopoint"},
    ],
    "missingValues": ["", "NA"],
}
SDV = {
    "columns": {
        "who": {"sdtype": "id"},
        "mail": {"sdtype": "email", "pii": True},
        "sex": {"sdtype": "categorical"},
        "age": {"sdtype": "numerical", "computer_representation": "Int64"},
        "born": {"sdtype": "datetime", "datetime_format": "%d.%m.%Y"},
        "seen": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
        "member": {"sdtype": "boolean"},
    },
    "primary_key": "who",
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
}


def written(folder: Path, content: Any) -> Path:
    (folder / "book.json").write_text(json.dumps(content))
    return folder / "book.json"


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_table_schema_fills_a_draft(tmp_path: Path, wrapped: bool) -> None:
    content = {"resources": [{"path": "t.csv", "schema": FRICTIONLESS}]} if wrapped else FRICTIONLESS
    book = read_codebook(written(tmp_path, content))
    text = draft_text("t", [merged(ColumnFacts(name), book[name]) for name in book], read="its header")
    found = tomllib.loads(text)
    assert "who" not in found
    assert found["sex"] == {"values": ["f", "m"], "missing": ["NA"]}
    assert "# Sex at birth" in text
    assert found["age"]["lower"] == 0
    assert found["age"]["upper"] == 120
    assert found["paid"]["decimal"] == ","
    assert found["paid"]["thousands"] == "."
    assert "state units" in text
    assert found["born"] == {
        "type": "date",
        "lower": datetime.date(1900, 1, 1),
        "edges": [],
        "nullable": True,
        "format": "%d/%m/%Y",
        "missing": ["NA"],
    }
    assert "state a format" in text
    assert found["member"]["aliases"] == {"yes": True, "no": False}
    assert found["fruit"]["values"] == ["apple", "pear"]
    assert found["fruit"]["aliases"] == {"1": "apple", "2": "pear"}
    finished = Domain.from_dict({name: found[name] for name in ("sex", "member", "fruit")})
    assert finished["fruit"].encode([1, "pear", "NA"]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("wrapped", [False, True])
def test_sdv_metadata_fills_a_draft(tmp_path: Path, wrapped: bool) -> None:
    content = {"tables": {"t": SDV}, "METADATA_SPEC_VERSION": "V1"} if wrapped else SDV
    book = read_codebook(written(tmp_path, content))
    found = drafted([merged(ColumnFacts(name), book[name]) for name in book])
    assert set(found) == {"sex", "age", "born", "seen", "member"}
    assert found["age"]["whole"] is True
    assert found["born"] == {"type": "date", "edges": [], "nullable": True, "format": "%d.%m.%Y"}
    assert found["seen"]["type"] == "datetime"
    assert found["member"] == {"values": [True, False], "nullable": True}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"a": 1}, "neither fields"),
        ([1], "neither fields"),
        (5, "not a Frictionless"),
        ({"fields": [{"type": "string"}]}, "not a Frictionless"),
        ({"tables": {"a": SDV, "b": SDV}}, "2 tables"),
        ({"columns": {"a": {}}}, "not a Frictionless"),
    ],
)
def test_other_files_are_no_codebooks(tmp_path: Path, content: Any, word: str) -> None:
    with pytest.raises(DomainError, match=word):
        read_codebook(written(tmp_path, content))
    (tmp_path / "book.json").write_text("{")
    with pytest.raises(DomainError, match="no JSON"):
        read_codebook(tmp_path / "book.json")


def test_names_cannot_leave_their_comment() -> None:
    text = draft_text(
        "a\nb", [ColumnFacts("x\ny = 1", title="t\n[evil]", notes=("n\n[evil]",)), ColumnFacts("id\n[evil]")], read="r"
    )
    assert "evil" not in tomllib.loads(text)


def test_a_remark_stands_apart_from_a_long_list() -> None:
    """It followed the bracket at once where a list of values was longer than the column of remarks."""
    column = ColumnFacts("grade", "text", values=("a rather long value", "another one"), declared="dictionary")
    assert '"another one"]  # dictionary' in draft_text("t", [column], read="its schema")
