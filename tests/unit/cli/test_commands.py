"""Every command: help with an example, JSON, plain output, and what `release` writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from cli_people import RECORDS, Called

from reticent.cli import COMMANDS, cli

Call = Callable[..., Called]
BUDGET = ("--epsilon", "1", "--delta", "1e-9")
TABLE = ("people.csv", "--domain", "people.toml")


def leaves() -> list[tuple[str, ...]]:
    found = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        subcommands = command.commands if isinstance(command, click.Group) else None
        found += [(name,)] if subcommands is None else [(name, sub) for sub in subcommands]
    return found


@pytest.mark.parametrize("words", [(), ("ledger",), *leaves()], ids=" ".join)
def test_help_has_an_example(words: tuple[str, ...], call: Call) -> None:
    shown = call(*words, "--help")
    assert shown.code == 0
    assert f"Example:  reticent {' '.join(words)}".strip() in " ".join(shown.out.split("\n")) or not words


@pytest.mark.parametrize("words", [(), ("ledger",)], ids=" ".join)
def test_a_group_without_a_command_shows_its_help(words: tuple[str, ...], call: Call) -> None:
    shown = call(*words)
    assert shown == call(*words, "--help")
    assert shown.code == 0


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_command_can_speak_json(words: tuple[str, ...], call: Call) -> None:
    assert "--json" in call(*words, "--help").out


def test_a_server_says_where_it_listens(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from reticent.service import running

    def stop_at_once(settings: Any, listener: Any, desks: dict[str, Any], tokens: Any) -> None:
        for opened in (listener, tokens, *desks.values()):
            opened.close()

    monkeypatch.setattr(running, "serve", stop_at_once)
    words = ("serve", *TABLE, "--ledger", "people.ledger", *BUDGET, "--port", "0")
    found = call(*words, "--json").json
    assert found["url"].startswith("http://127.0.0.1:")
    assert found["tables"] == ["people"]
    assert Path(found["custodian_token_file"]).exists()
    assert "Serving people on http://127.0.0.1:" in call(*words).err


def test_the_list_of_commands_is_whole(call: Call) -> None:
    shown = call("--help").out
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name}" in shown
        assert summary.split(":")[0] in " ".join(shown.split())


def test_check(people: Path, call: Call) -> None:
    shown = call("check", *TABLE)
    assert shown.code == 0
    assert "NOT PRIVATE" in shown.out
    assert call("check", *TABLE, "--json").json["rows"] == RECORDS


def test_plan(people: Path, call: Call) -> None:
    words = ("plan", "--records", "2000", "--domain", "people.toml", *BUDGET, "--queries", "1000", "--error", "0.05")
    shown = call(*words)
    assert "Choose measure - fit - audit" in " ".join(shown.out.split())
    assert max(map(len, shown.out.splitlines())) <= 80
    found = call(*words, "--json").json
    assert found["choice"] == "measure - fit - audit"
    assert found["needed"].keys() == {option["name"] for option in found["options"]}


def test_release_writes_what_was_asked_for(people: Path, call: Call) -> None:
    import pyarrow.parquet

    shown = call(
        "release", *TABLE, *BUDGET, "--workload", "marginals:2", "--out", "s.parquet", "--save", "p.release",
        "--report", "r.html", "--rows", "500",
    )  # fmt: skip
    assert shown.code == 0, shown.err
    assert "certified within" in shown.out
    assert "epsilon 1" in shown.out
    assert "█" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert pyarrow.parquet.read_table("s.parquet").num_rows == 500
    assert "<html" in Path("r.html").read_text()


def test_release_as_json_and_csv(people: Path, call: Call) -> None:
    found = call(
        "release", *TABLE, "--epsilon", "2", "--algorithm", "mwem", "--rounds", "3", "--out", "s.csv", "--json"
    )
    assert found.json["algorithm"]["algorithm"] == "MWEM"
    assert found.json["spent"] <= 2e9
    assert found.json["spent_unit"] == "nano-epsilon"
    assert Path("s.csv").read_text().count("\n") == RECORDS + 1
    assert not found.err


def test_a_workload_may_be_sql(people: Path, call: Call) -> None:
    Path("w.sql").write_text("SELECT sex, COUNT(*) FROM people WHERE age >= 45 GROUP BY sex;\n")
    found = call("release", *TABLE, *BUDGET, "--workload", "w.sql", "--json")
    assert found.code == 0, found.err
    assert found.json["workload"]["queries"] or found.json["workload"]["marginals"]


def test_the_default_workload_fits_small_tables(people: Path, call: Call) -> None:
    Path("two.json").write_text('{"age": 100, "smoker": 2}')
    assert call("release", "people.csv", "--domain", "two.json", *BUDGET, "--json").code == 0


def test_ledger_show_and_verify(people: Path, call: Call) -> None:
    assert call("release", *TABLE, *BUDGET, "--workload", "marginals:1", "--ledger", "p.ledger", "--json").code == 0
    shown = call("ledger", "show", "p.ledger")
    assert "rho spent" in shown.out
    assert call("ledger", "show", "p.ledger", "--json").json["events"][0]["kind"] == "open"
    assert "chain intact" in call("ledger", "verify", "p.ledger").out
    assert call("ledger", "verify", "p.ledger", "--json").json["verified"] is True
    assert call("ledger", "verify", "p.ledger", "--json").json["unit"] == "nano-rho"
    damaged = Path("p.ledger").read_bytes().replace(b"release:", b"release;", 1)
    Path("p.ledger").write_bytes(damaged)
    assert call("ledger", "verify", "p.ledger").code == 2


def test_audit_says_what_is_violated(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import reticent.auditing as auditing
    from reticent.auditing import Line

    monkeypatch.setattr(auditing, "all_cases", list)
    green = call("audit", "--seconds", "0.01")
    assert green.code == 0
    assert "no run contradicts" in green.out
    wrong = [Line("the broken one", "toy", False, "epsilon", 1.0, 1.7, 1000)]
    monkeypatch.setattr(auditing, "exact_lines", lambda: wrong)
    red = call("audit", "--seconds", "0.01")
    assert red.code == 1
    assert "VIOLATED: the broken one" in red.out
    assert call("audit", "--seconds", "0.01", "--json").json["lines"][0]["seen"] == 1.7


def test_demo(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("demo", "--out", str(tmp_path / "d"))
    assert shown.code == 0, shown.err
    assert max(map(len, shown.out.splitlines())) <= 80 or str(tmp_path) in shown.out
    for text in ("Certified", "±", "person-year", "synthetic.parquet", "█"):
        assert text in shown.out
    assert {path.name for path in (tmp_path / "d").iterdir()} == {"synthetic.parquet", "report.html", "visits.release"}
