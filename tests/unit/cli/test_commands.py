"""Every command: help with an example, JSON, plain output, and what `release` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from tests.unit.cli.cli_people import RECORDS, Called

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
    from reticent.service import server as running

    def stop_at_once(settings: Any, listener: Any, tables: dict[str, Any], tokens: Any, _: Any) -> None:
        for opened in (listener, tokens, *tables.values()):
            opened.close()

    monkeypatch.setattr(running, "serve", stop_at_once)
    words = ("serve", *TABLE, "--ledger", "people.ledger", *BUDGET, "--port", "0")
    found = call(*words, "--json").json
    assert found["url"].startswith("http://127.0.0.1:")
    assert found["tables"] == ["people"]
    assert Path(found["custodian_token_file"]).exists()
    assert "Serving people on http://127.0.0.1:" in call(*words).out


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
    assert "GDP mu" in shown.out, "as new ledgers of default sessions compose"
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


def test_true_scores_are_in_the_custodians_copy_alone(people: Path, call: Call) -> None:
    words = ("--workload", "marginals:2", "--report", "r.html", "--custodian-copy", "c.html")
    shown = call("release", *TABLE, *BUDGET, *words)
    assert shown.code == 0, shown.err
    assert "custodian's copy, not private: c.html" in shown.out
    copy, report = Path("c.html"), Path("r.html").read_text()
    for text in ("not private", "NIST 3-marginal score", "as SDMetrics", "when trained on what is published"):
        assert text in copy.read_text()
        assert text not in report
    assert copy.stat().st_mode & 0o077 == 0


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
    found = call("release", *TABLE, *BUDGET, "--workload", "w.sql", "--save", "p.release", "--json")
    assert found.code == 0, found.err
    assert found.json["workload"]["queries"] or found.json["workload"]["marginals"]


def test_the_default_workload_fits_small_tables(people: Path, call: Call) -> None:
    Path("two.json").write_text('{"age": 100, "sex": {"values": ["Female", "Male"]}}')
    assert call("release", "people.csv", "--domain", "two.json", *BUDGET, "--save", "p.release", "--json").code == 0


MISFIT = """
[age]
edges = [17, 25, 45, 65, 90]

[sex]
values = ["female", "male"]
"""


def test_release_stops_before_spending_where_a_column_fits_nowhere(people: Path, call: Call) -> None:
    Path("misfit.toml").write_text(MISFIT)
    words = ("release", "people.csv", "--domain", "misfit.toml", *BUDGET, "--ledger", "m.ledger", "--json")
    refused = call(*words)
    assert refused.code == 2
    assert "over 25% of column 'sex' does not fit" in refused.err
    assert "--accept-misfits" in refused.err
    assert refused.err.count("\n") == 1
    assert "Female" not in refused.err
    assert not Path("m.ledger").exists()
    assert call(*words, "--accept-misfits").code == 0


def test_a_wrong_number_of_records_is_refused_before_anything_is_paid(people: Path, call: Call) -> None:
    """`--records 5` is no number of synthetic rows: it was taken for the size of the table, and the budget spent."""
    words = ("people.csv", "--domain", "people.toml", "--records", "5", *BUDGET, "--ledger", "wrong.ledger")
    for command in (("release", *words, "--out", "rows.csv"), ("serve", *words)):
        refused = call(*command)
        assert refused.code == 2
        assert "records=5 differs by over 25%" in refused.err
    assert not Path("wrong.ledger").exists()
    checked = call("check", *words[:5])
    assert (checked.code, "records=5 was declared but there are" in checked.out) == (2, True)
    add_remove = call("release", *words, "--out", "rows.csv", "--neighbours", "add-remove")
    assert "records= is private under add-remove" in add_remove.err


def test_check_shows_examples_with_hints_and_fails_above_the_limit(people: Path, call: Call) -> None:
    Path("misfit.toml").write_text(MISFIT)
    shown = call("check", "people.csv", "--domain", "misfit.toml")
    assert shown.code == 2
    assert re.search(r"sex: such as '(Fem|M)ale', '(Fem|M)ale' \(differs from \"(fe)?male\" in case", shown.out)
    assert "casefold = true" in shown.out
    assert "over 25% of column 'sex'" in shown.err
    assert call("check", "people.csv", "--domain", "misfit.toml", "--limit", "1").code == 0
    assert call("check", "people.csv", "--domain", "misfit.toml", "--limit", "2").code == 2
    assert call("check", "people.csv", "--domain", "misfit.toml", "--json").out.count('"over": [') == 1


def test_serve_stops_before_it_opens_a_ledger_where_a_column_fits_nowhere(people: Path, call: Call) -> None:
    Path("misfit.toml").write_text(MISFIT)
    words = ("serve", "people.csv", "--domain", "misfit.toml", "--ledger", "m.ledger", *BUDGET, "--port", "0")
    refused = call(*words)
    assert refused.code == 2
    assert "does not fit" in refused.err
    assert not Path("m.ledger").exists()


def test_a_ledger_in_no_folder_is_refused_with_its_folder(people: Path, call: Call) -> None:
    served = call("serve", "people.csv", "--domain", "people.toml", *BUDGET, "--ledger", "nowhere/p.ledger")
    assert served.code == 2
    assert "nowhere does not exist; create it first" in served.err


def test_sessions_and_releases_in_python_never_look(people: Path) -> None:
    """What an analyst can trigger is not refused for its rows."""
    import reticent as rt

    Path("misfit.toml").write_text(MISFIT)
    table = rt.Table.read("people.csv", rt.Domain.read("misfit.toml"))
    with rt.Session.open("m.ledger", table, rt.Budget(epsilon=1), warm_start=0) as session:
        assert session.budget.unit == "epsilon"


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


def test_an_audit_takes_the_minutes_it_is_given(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import reticent.auditing as auditing

    given: list[auditing.Effort] = []
    monkeypatch.setattr(auditing, "audit", lambda effort, **_: given.append(effort) or auditing.Audit(()))
    assert call("audit", "--minutes", "20").code == 0
    lines = len(auditing.PROGRAMS) + sum(case.weight for case in auditing.all_cases())
    assert given[0].seconds * lines == pytest.approx(20 * 60)
    for wrong in (["--minutes", "0"], ["--minutes", "nan"], ["--minutes", "1e9"], ["--minutes", "5", "--deep"]):
        assert call("audit", *wrong).code == 2
    assert len(given) == 1


def test_audit_says_what_is_violated(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import reticent.auditing as auditing
    from reticent.auditing import VerdictLine

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(auditing, "all_cases", list)
    green = call("audit", "--seconds", "0.01")
    assert green.code == 0
    assert "no run contradicts" in green.out
    for name in auditing.PROGRAMS:
        assert f"{name} " in green.out, "every line says what it checked, on narrow terminals too"
    wrong = [
        VerdictLine("the broken one", "toy", False, "epsilon", 1.0, 1.7, 1000),
        VerdictLine("release: toy", "toy", False, runs=7, note="pair 6: one draw more: " + "a long description " * 9),
    ]
    monkeypatch.setattr(auditing, "exact_lines", lambda: wrong)
    red = call("audit", "--seconds", "0.01")
    assert red.code == 1
    assert "VIOLATED: the broken one" in red.out
    assert "release: toy: pair 6: one draw more" in red.out
    assert call("audit", "--seconds", "0.01", "--json").json["lines"][0]["seen"] == 1.7


def test_demo(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("demo", "--out", str(tmp_path / "d"))
    assert shown.code == 0, shown.err
    assert max(map(len, shown.out.splitlines())) <= 80 or str(tmp_path) in shown.out
    for text in ("Certified", "±", "person-year", "synthetic.parquet", "█"):
        assert text in shown.out
    assert {path.name for path in (tmp_path / "d").iterdir()} == {"synthetic.parquet", "report.html", "visits.release"}


def test_dualquery_takes_all_its_parameters_and_states_its_analyses(people: Path, call: Call) -> None:
    told = call(
        *("release", "people.csv", "--domain", "people.toml", "--workload", "marginals:2", "--epsilon", "2"),
        *("--delta", "1e-6", "--algorithm", "dualquery", "--rounds", "6", "--draws", "3", "--step", "0.5"),
        *("--sample", "150", "--player", "search", "--work", "500", "--seed", "3", "--replies", "2", "--memory", "2"),
        *("--json", "--report", "page.html"),
    )
    assert told.code == 0, told.err
    described = told.json["algorithm"]
    assert (described["rounds"], described["draws"], described["sample"]) == (6, 3, 150)
    analyses = told.json["analyses"]
    assert analyses["bounded_range"] < analyses["paper"] < analyses["original"]
    alone = told.json["amplified"]
    assert alone["sample"] == 150
    assert alone["epsilon"] < alone["inner_epsilon"]
    page = (people / "page.html").read_text()
    assert "zCDP e²/2 per draw (002)" in page
    assert "if nothing else is ever released" in page


def test_options_of_another_algorithm_are_refused(people: Path, call: Call) -> None:
    for words, expected in (
        (("--algorithm", "mwem", "--draws", "3"), "only with dualquery"),
        (("--error", "0.1"), "only with textbook, convex and dualquery"),
        (("--algorithm", "dualquery", "--sample", "theorem"), "together with error="),
        (("--algorithm", "dualquery", "--error", "0.2", "--rounds", "5"), "give it alone"),
    ):
        refused = call("release", "people.csv", "--domain", "people.toml", "--rho", "1", "--save", "p.release", *words)
        assert refused.code == 2
        assert expected in refused.err


def test_the_version_of_the_rows_is_part_of_what_a_ledger_is_for(people: Path, call: Call) -> None:
    """A ledger that was opened with a version in Python could not be used from here."""
    words = ("release", "people.csv", "--domain", "people.toml", "--workload", "marginals:1", "--rho", "0.1")
    account = (*words, "--ledger", "p.ledger", "--save", "p.release")
    assert call(*account, "--version", "2026-11").code == 0
    assert call(*account, "--version", "2026-11").code == 0
    other = call(*account, "--version", "2026-12")
    assert (other.code, other.err.count("\n")) == (2, 1)
    assert 'version "2026-11", not "2026-12"' in other.err


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "people.release", "losses.json", "--most", "3"),
        ("fit", "people.release", "losses.json", "--version", "1"),
        ("shell", "people.release", "--anchor", "a"),
        ("shell", "people.release", "--version", "1"),
    ],
)
def test_what_a_release_has_no_use_for_is_refused(words: tuple[str, ...], people: Path, call: Call) -> None:
    shown = call(*words)
    assert shown.code == 2
    assert f"{words[-2]} has no effect" in shown.err
