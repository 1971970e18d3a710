"""Settings of a server: every value has a type and a range, which are checked before anything is opened or paid."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.service.serving import write_survey

from reticent.cli import cli
from reticent.errors import QueryError
from reticent.service import server
from reticent.service.setting_rules import Flag, Number, OneOf, Rule, Text, rules_of
from reticent.service.settings import Settings, TableSettings, read_settings

TABLE: dict[str, Any] = {
    "table": "survey.parquet",
    "domain": "survey.toml",
    "ledger": "a.ledger",
    "epsilon": 1.0,
    "delta": 1e-9,
}
SECTIONS: list[tuple[type, str]] = [(Settings, "server"), (TableSettings, "tables.a")]
OF_THE_FILE = {"tables"}
"""Fields that no section states."""
WRONG_TYPES: list[object] = ["x", "2", 5, 0.5, True, [1], {"a": 1}, date(2026, 1, 1)]
CASES = [
    pytest.param(section, name, rule, id=f"{section}-{name}")
    for kind, section in SECTIONS
    for name, rule in rules_of(kind).items()
]


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml(each)}" for name, each in value.items()) + "}"
    return (
        value.isoformat()
        if isinstance(value, date)
        else json.dumps(value).replace("Infinity", "inf").replace("NaN", "nan")
    )


def written(folder: Path, server: dict[str, Any], table: dict[str, Any]) -> Path:
    lines = ["[server]", *(f"{name} = {toml(value)}" for name, value in server.items())]
    lines += ["[tables.a]", *(f"{name} = {toml(value)}" for name, value in table.items())]
    path = folder / "server.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(folder: Path, section: str, name: str, value: object) -> str:
    changed = {name: value}
    path = written(folder, *((changed, TABLE) if section == "server" else ({}, TABLE | changed)))
    with pytest.raises(QueryError) as caught:
        read_settings(path)
    return str(caught.value)


def outside(rule: Rule) -> list[object]:
    """Values of the right type beyond each bound."""
    match rule:
        case OneOf():
            return ["", "x"]
        case Flag():
            return []
        case Text():
            long = [] if rule.longest is None else ["x" * (rule.longest + 1)]
            return ["a\0b", *long, *([] if rule.empty else ["", " "])]
        case Number():
            bounds = [(rule.least, -1), (rule.most, 1), (rule.over, 0), (rule.under, 0)]
            beyond = [bound + step for bound, step in bounds if bound is not None]
            return beyond if rule.whole else [*beyond, float("inf"), float("nan"), 10**400]
    raise AssertionError(rule)


@pytest.mark.parametrize(("kind", "section"), SECTIONS)
def test_every_setting_is_documented(kind: type, section: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
    told = page.partition("## Configuration")[2].partition("## Roles")[0]
    named = told.replace("[tables.", "name = [tables.")  # the section's own name is the table's
    assert [name for name in rules_of(kind) if not re.search(rf"\b{name}\b", named)] == [], section


@pytest.mark.parametrize("kind", [Settings, TableSettings])
def test_every_setting_has_a_rule(kind: type) -> None:
    assert {item.name for item in fields(kind)} - OF_THE_FILE == set(rules_of(kind))


@pytest.mark.parametrize(("section", "name", "rule"), CASES)
def test_every_wrong_type_is_refused_by_name(section: str, name: str, rule: Rule, tmp_path: Path) -> None:
    wrong = [value for value in WRONG_TYPES if not rule.typed(value)]
    assert len(wrong) >= len(WRONG_TYPES) - 3
    for value in wrong:
        said = refusal(tmp_path, section, name, value)
        assert f"server.toml: [{section}] {name} is " in said
        assert f"; give {rule.wanted}" in said
        unquoted = isinstance(value, str)
        assert said.endswith(", in quotes" if rule.quoted else ", without quotes" if unquoted else rule.wanted)


@pytest.mark.parametrize(("section", "name", "rule"), CASES)
def test_every_value_beyond_its_range_is_refused_by_name(section: str, name: str, rule: Rule, tmp_path: Path) -> None:
    for value in outside(rule):
        said = refusal(tmp_path, section, name, value)
        assert f"server.toml: [{section}] {name} is " in said
        assert said.endswith(f"; give {rule.wanted}")


@pytest.mark.parametrize(("section", "name", "rule"), CASES)
def test_defaults_and_bounds_are_in_range(section: str, name: str, rule: Rule) -> None:
    kind = next(kind for kind, found in SECTIONS if found == section)
    default = next(item.default for item in fields(kind) if item.name == name)
    if isinstance(default, (bool, int, float, str)):
        assert rule.typed(default)
        assert rule.holds(default)
    if isinstance(rule, Number):
        assert all(rule.holds(bound) for bound in (rule.least, rule.most) if bound is not None)


@pytest.mark.parametrize(
    ("section", "name", "value", "complaint"),
    [
        ("server", "rate", "x", '[server] rate is "x" (text); give a number of at least 0, without quotes'),
        ("server", "port", 70_000, "[server] port is 70000; give a whole number from 0 to 65,535"),
        ("server", "tokens", 5, "[server] tokens is 5 (a number); give the name of a file, in quotes"),
        ("server", "waiting", 0, "[server] waiting is 0; give a whole number from 1 to 1,000,000,000"),
        ("tables.a", "numbers", "yes", '[tables.a] numbers is "yes" (text); give true or false, without quotes'),
        ("tables.a", "confidence", 95, "[tables.a] confidence is 95; give a number above 0 and below 1"),
        ("tables.a", "warm_start", 0.99, "table a: warm_start=0.99 is a share of the budget from 0 to 0.95"),
        ("tables.a", "engine", "x", "table a: engine='x' is unknown"),
    ],
)
def test_the_command_refuses_before_it_writes_a_file(
    section: str, name: str, value: object, complaint: str, tmp_path: Path
) -> None:
    write_survey(tmp_path)
    changed = {name: value}
    path = written(tmp_path, *((changed, TABLE) if section == "server" else ({}, TABLE | changed)))
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(cli, ["serve", "--config", str(path)])
    assert isinstance(result.exception, QueryError), result.exception
    assert complaint in str(result.exception)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["table", "domain", "ledger"])
def test_a_missing_setting_is_named_with_an_example(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, {}, {key: value for key, value in TABLE.items() if key != name})
    with pytest.raises(QueryError, match=rf"server\.toml: \[tables\.a\] states no {name}; add {name} = \"a\.\w+\"$"):
        read_settings(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "at least one table"),
        ("[server]\nport = 1\n", "at least one table"),
        ("server = 5\n", r"server must be a section: write \[server\]"),
        ("tables = [1]\n", r"tables must be a section: write \[tables\.NAME\]"),
        ("[tables]\nledger = 'a'\n", r"'ledger' of its own: write it under \[tables\.NAME\]"),
        ("port = 1\n", "has no place for 'port'"),
        ("[server]\ntables = 5\n", "no setting 'tables'"),
        ("[tables.a]\ntable = 'a'\ndomain = 'b'\nledger = 'c'\n", r"\[tables\.a\] state a budget"),
    ],
)
def test_a_file_of_another_shape_is_refused_with_the_right_one(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(text)
    with pytest.raises(QueryError, match=complaint):
        read_settings(path)


def test_a_refused_address_of_a_database_keeps_its_password(tmp_path: Path) -> None:
    said = refusal(tmp_path, "tables.a", "table", "postgresql://ana:secret@db/a\0")
    assert "zero byte" in said
    assert "secret" not in said


def test_the_file_of_losses_lies_beside_the_settings(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=re.escape(str(tmp_path / "losses.toml"))):
        read_settings(written(tmp_path, {}, TABLE | {"losses": "losses.toml"}))


@pytest.mark.parametrize("host", ["a..b", "no such host"])
def test_an_address_that_cannot_be_used_is_one_line(host: str) -> None:
    table = TableSettings("a", "a.csv", "a.toml", "a.ledger", rho=0.1)
    with pytest.raises(QueryError, match="cannot be used"):
        server.bind_listener(Settings(tables=(table,), tokens="t", host=host))


def test_every_table_is_read_before_the_first_ledger_is_opened(tmp_path: Path) -> None:
    write_survey(tmp_path)
    good = TableSettings(
        "a",
        str(tmp_path / "survey.parquet"),
        str(tmp_path / "survey.toml"),
        str(tmp_path / "a.ledger"),
        epsilon=1.0,
        delta=1e-9,
    )
    bad = TableSettings("b", str(tmp_path / "absent.csv"), good.domain, str(tmp_path / "b.ledger"), rho=0.1)
    with pytest.raises(Exception, match=r"absent\.csv"):
        server.open_tables(Settings(tables=(good, bad), tokens=str(tmp_path / "tokens")))
    assert not (tmp_path / "a.ledger").exists()
