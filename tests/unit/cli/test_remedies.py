"""What the command line says before a mistake costs something, in a form that can be read and copied."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.text import Text
from tests.unit.cli.cli_people import RECORDS, Called

import reticent as rt
from reticent.cli import options, publish
from reticent.cli.demo import conclude
from reticent.cli.targets import Target

Call = Callable[..., Called]
TABLE = ("people.csv", "--domain", "people.toml")
WEAK = ("--epsilon", "1", "--delta", "0.01")
TOLD = f"delta 0.01 is not below 1/{RECORDS}: whole records may be revealed; use 1e-9\n"


@pytest.mark.parametrize("kept", [(), ("--json",), ("--custodian-copy", "c.html")])
def test_a_release_that_nothing_would_keep_is_refused(kept: tuple[str, ...], people: Path, call: Call) -> None:
    refused = call("release", *TABLE, "--epsilon", "1", *kept)
    assert refused.code == 2
    assert refused.err == "reticent: nothing would be kept: give --out, --save, --report or --ledger\n"
    assert {file.name for file in people.iterdir()} == {"people.csv", "people.toml"}


@pytest.mark.parametrize(
    "words",
    [
        ("release", *TABLE, *WEAK, "--workload", "marginals:1", "--save", "p.release"),
        ("shell", *TABLE, *WEAK, "--ledger", "p.ledger", "--anchor", "p.anchor", "--warm-start", "0"),
        ("plan", "--domain", "people.toml", "--records", str(RECORDS), *WEAK),
    ],
)
def test_a_delta_that_reveals_records_is_told(
    words: tuple[str, ...], people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False, __iter__=lambda _: iter(())))
    monkeypatch.setattr("reticent.cli.shell._piped", lambda prompt: 0)
    told = call(*words)
    assert told.code == 0
    assert told.err == TOLD


def test_nothing_is_told_of_a_number_that_is_private(people: Path, call: Call) -> None:
    """The rows of two tables differ in number; no line may tell them apart."""
    words = ("release", *TABLE, *WEAK, "--workload", "marginals:1", "--neighbours", "add-remove")
    whole = call(*words, "--save", "a.release")
    rows = (people / "people.csv").read_text().splitlines()
    (people / "people.csv").write_text("\n".join(rows[:51]) + "\n")
    few = call(*words, "--save", "b.release")
    assert whole.code == few.code == 0
    assert whole.err == few.err == ""


@pytest.mark.parametrize(
    ("neighbours", "told"), [("replace-one", f"people: {TOLD}"), ("add-remove", "")], ids=["public", "private"]
)
def test_a_server_tells_of_the_delta_of_each_table(
    neighbours: str, told: str, people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(settings: Any, listener: Any, tables: dict[str, Any], *_: object) -> None:
        listener.close()
        for served in tables.values():
            served.close()

    monkeypatch.setattr("reticent.service.server.serve", serve)
    words = ("serve", *TABLE, *WEAK, "--ledger", "people.ledger", "--anchor", "people.anchor", "--purpose", "few")
    shown = call(*words, "--neighbours", neighbours, "--port", "0", "--tick", "0")
    assert shown.code == 0
    assert shown.err == told


@pytest.mark.parametrize(
    ("delta", "records", "told"),
    [
        (0.01, 100, "delta 0.01 is not below 1/100: whole records may be revealed; use 1e-9\n"),
        (0.0099, 100, ""),
        (1e-6, 3_000_000, "delta 1e-6 is not below 1/3000000: whole records may be revealed; use 1e-13\n"),
        (0.5, 2, "delta 0.5 is not below 1/2: whole records may be revealed; use 1e-9\n"),
        (0.5, 1, ""),
        (0.5, None, ""),
    ],
)
def test_which_delta_is_told(delta: float, records: int | None, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    options.warn_of_delta(rt.Budget(epsilon=1, delta=delta), records)
    assert capsys.readouterr().err == told


def test_budgets_without_delta_have_nothing_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    for budget in (rt.Budget(epsilon=1), rt.Budget(rho=1)):
        options.warn_of_delta(budget, 1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [("release", "people.csv", "--epsilon", "1"), ("check", "people.csv")])
def test_a_missing_domain_names_what_drafts_it(command: tuple[str, ...], people: Path, call: Call) -> None:
    refused = call(*command)
    assert refused.code == 2
    assert "Missing option '--domain'; `reticent domain new TABLE --out domain.toml` drafts" in refused.err


def test_a_larger_budget_on_a_spent_ledger_is_named(people: Path, call: Call) -> None:
    words = ("release", *TABLE, "--delta", "1e-9", "--ledger", "p.ledger", "--workload")
    assert call(*words, "marginals:1", "--epsilon", "1").code == 0
    refused = call(*words, "marginals:2", "--epsilon", "2")
    assert refused.code == 3
    assert (
        "opened for Budget(epsilon=1, delta=1e-09, noise='gaussian'), which a release with Budget(epsilon=2"
        in refused.err
    )
    assert "opened for" not in call(*words, "marginals:2", "--epsilon", "1").err


def test_a_ledger_is_shown_with_one_line_for_each_event(people: Path, call: Call) -> None:
    words = (
        "release",
        *TABLE,
        "--epsilon",
        "1",
        "--delta",
        "1e-9",
        "--ledger",
        "p.ledger",
        "--workload",
        "marginals:1",
    )
    assert call(*words).code == 0
    events = [event["key"] for event in call("ledger", "show", "p.ledger", "--json").json["events"]]
    table, total = call("ledger", "show", "p.ledger").out.split("rho spent")
    head, *lines = table.splitlines()
    assert head.split()[0] == "event"
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(events) + 1))
    assert "epsilon 1 at delta 1e-09" in " ".join(total.split())
    for key, line in zip(events, lines, strict=True):
        if key is not None:
            assert line[head.index("key") :].startswith(key[:16])
        assert len(line) <= 80


def test_a_long_key_is_not_cut_where_the_terminal_ends(people: Path, call: Call) -> None:
    key, analyst = "k" * 40, "a" * 50
    ledger = rt.Ledger.open(people / "p.ledger", identity={}, budget=rt.Budget(rho=1))
    with ledger:
        ledger.reserve(key, "measure", 10, {}, analyst=analyst)
    line = call("ledger", "show", "p.ledger").out.splitlines()[2]
    assert line.endswith(f"{key}  {analyst}")


def test_facts_of_a_release_that_go_on_are_indented(monkeypatch: pytest.MonkeyPatch, people: Path, call: Call) -> None:
    monkeypatch.setattr(options.console, "_width", 40)
    place = "a-rather-long-name-for-a-file-that-is-kept.release"
    shown = call("release", *TABLE, "--epsilon", "1", "--delta", "1e-9", "--save", place).out
    lines = shown.split("\n\n")[0].splitlines()
    facts = lines[next(place for place, line in enumerate(lines) if line.startswith("  certified within")) :]
    assert all(line.startswith("  ") for line in facts)
    assert f"  release: {place}" in facts
    assert all(line == line.rstrip() for line in facts)


def test_a_fact_keeps_its_style(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Text] = []
    monkeypatch.setattr(publish.console, "_width", 20)
    monkeypatch.setattr(publish.console, "print", printed.append)
    publish._item("one [bold]two[/bold] three four five six")
    assert [line.plain for line in printed] == ["  one two three four", "  five six"]
    assert [(span.start, span.end) for span in printed[0].spans] == [(6, 9)]


def test_the_demos_last_command_can_be_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options.console, "_width", 30)
    place = Path("a folder with a long name/demo-output")
    conclude(place, 3.0)
    lines = capsys.readouterr().out.splitlines()
    command = next(line for line in lines if " shell " in line)
    assert shlex.split(command)[-2:] == ["shell", str(place / "visits.release")]
    assert "person stands behind" not in " ".join(lines)


def test_a_price_has_its_unit_and_what_is_left() -> None:
    asked = Target(SimpleNamespace(spent=0.01, remaining=0.03), "census", "rho")
    assert asked.priced(0.00212) == "rho 0.00212 (5.30% of the budget), 0.03 is left"
