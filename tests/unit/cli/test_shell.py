"""The SQL prompt: piped and live, free and paid, with completion from the domain."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from tests.unit.cli.cli_people import Called
from tests.unit.cli.pseudo_terminal import Terminal

from reticent.cli.shell import COMMANDS, SqlCompleter, statements
from reticent.domain import Domain

Call = Callable[..., Called]
LOCAL = ("people.csv", "--domain", "people.toml", "--ledger", "p.ledger", "--rho", "2")
BY_SEX = "SELECT sex, COUNT(*) FROM people GROUP BY sex"


@pytest.fixture
def pipe(call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Called]:
    def run(text: str, *words: str) -> Called:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return call("shell", *words)

    return run


def test_a_file_that_is_not_there(call: Call) -> None:
    """It asked for --domain and --ledger of a table that does not exist."""
    assert call("shell", "nothing.csv").err.startswith("reticent: nothing.csv does not exist; give a table")


def test_a_release_answers_what_is_piped(release_file: Path, pipe: Callable[..., Called]) -> None:
    shown = pipe(f"{BY_SEX};\nSELECT AVG(age)\nFROM people WHERE smoker = 'yes';\n", str(release_file))
    assert shown.code == 0, shown.err
    assert "Female" in shown.out
    assert "avg(age)" in shown.out
    assert shown.out.count("free") == 2
    assert "█" in shown.out


def test_results_as_json(release_file: Path, pipe: Callable[..., Called]) -> None:
    found = pipe(BY_SEX, str(release_file), "--json").json
    assert found["columns"] == ["sex", "count(*)"]
    assert len(found["rows"]) == 2


def test_commands_of_the_prompt(release_file: Path, pipe: Callable[..., Called]) -> None:
    shown = pipe("\\domain\n\\domain smoker\n\\budget\n\\help\n\\quit\nnonsense", str(release_file))
    assert shown.code == 0, shown.err
    assert "no, yes, (null)" in shown.out
    assert "Everything is free" in shown.out
    for name in COMMANDS:
        assert name in shown.out


@pytest.mark.parametrize("leave", ["\\q", "\\quit", "exit", "quit;", "EXIT"])
def test_what_other_shells_call_these_commands(leave: str, release_file: Path, pipe: Callable[..., Called]) -> None:
    shown = pipe(f"\\d smoker\n\\h\n{leave}\nnonsense", str(release_file))
    assert shown.code == 0, shown.err
    assert "no, yes, (null)" in shown.out
    assert "\\budget" in shown.out


def test_a_pipe_goes_on_after_a_refusal_and_fails_in_the_end(release_file: Path, pipe: Callable[..., Called]) -> None:
    shown = pipe(f"SELECT MODE(age) FROM people;\n\\frob\n{BY_SEX};", str(release_file))
    assert shown.code == 2
    assert shown.err.count("\n") == 2
    assert "Female" in shown.out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT ARRAY_AGG(age) FROM people", "ARRAY_AGG"),
        ("SELECT sex FROM", ""),
        ("\\frob", "\\help"),
        ("\\error 5", "answers from a release are free and as accurate as it allows; leave \\error out"),
        ("\\error off", "leave \\error out"),
        ("\\domain income", "income"),
        ("\\cost SELECT COUNT(*) FROM people", "every answer from a release is free"),
        ("SELECT COUNT(*) FROM people WHERE sex = 'Femal'", "Female"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    text: str, expected: str, release_file: Path, pipe: Callable[..., Called]
) -> None:
    refused = pipe(text, str(release_file))
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert expected in refused.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\error -1", "above 0"),
        ("\\error much", "above 0"),
        ("\\cost SELECT COUNT(*) FROM people", "\\error 1%"),
    ],
)
def test_errors_that_cannot_be_wanted_of_a_table(
    text: str, expected: str, people: Path, pipe: Callable[..., Called]
) -> None:
    refused = pipe(text, *LOCAL, "--anchor", "p.anchor", "--warm-start", "0")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert expected in refused.err
    assert "wanted error 0.01" in pipe("\\error 0.01", *LOCAL, "--anchor", "p.anchor", "--warm-start", "0").out


def test_a_pipe_pays_only_when_told_to(people: Path, pipe: Callable[..., Called]) -> None:
    question = "SELECT COUNT(*) FROM people WHERE age >= 45 AND smoker = 'yes'"
    refused = pipe(question, *LOCAL, "--error", "0.15%")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert re.search(r"rho \d", refused.err)
    priced = pipe(f"\\budget\n\\cost {question}\n", *LOCAL, "--error", "0.15%")
    cost = float(re.findall(r"rho ([\d.e-]+) \([\d.]+% of the budget\)", priced.out)[-1])
    paid = pipe(question, *LOCAL, "--error", "0.15%", "--yes", "--json")
    assert paid.code == 0, paid.err
    assert 0 < paid.json["price"] <= cost * 1.0001
    assert pipe(question, *LOCAL, "--error", "0.15%", "--json").json["price"] == 0, "known by now"


def test_a_server_is_asked_like_a_table(
    people: Path, pipe: Callable[..., Called], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of tests/service, played by a session: same calls."""
    import reticent as rt
    from reticent import client
    from reticent.sessions.session import Session

    table = rt.Table.read("people.csv", rt.Domain.read("people.toml"))
    session = Session.open(None, table, rt.Budget(rho=2))
    monkeypatch.setattr(session, "describe", lambda: {"budget": "rho 2"})
    asked: list[tuple[str, str, str | None]] = []

    def connect(url: str, token: str, *, table: str | None = None) -> Session:
        asked.append((url, token, table))
        return session

    monkeypatch.setattr(client, "connect", connect)
    monkeypatch.setenv("RETICENT_TOKEN", "rt_secret")
    shown = pipe(f"{BY_SEX}\n\n\\budget\n", "https://stats.example", "--table", "survey")
    assert shown.code == 0, shown.err
    assert asked == [("https://stats.example", "rt_secret", "survey")]
    assert "Female" in shown.out
    assert f"rho {session.budget.amount(session.state.ledger.spent):.6g} spent" in shown.out
    assert "rt_secret" not in shown.out + shown.err


def test_live_prompt_asks_before_paying(people: Path) -> None:
    with Terminal(("shell", *LOCAL), people) as terminal:
        terminal.until("reticent>")
        terminal.type("\\error 0.15%\r")
        terminal.until("wanted error 0.15%")
        terminal.until("reticent>")
        terminal.type("SELECT COUNT(*) FROM people WHERE sex = 'Male' AND age >= 45\r")
        terminal.until("Pay? [y/N]")
        terminal.type("n\r")
        terminal.until("not asked")
        terminal.until("reticent>")
        terminal.type("\x1b[A\r")  # the same from history
        terminal.until("Pay? [y/N]")
        terminal.type("y\r")
        terminal.until("measured for this question")
        terminal.until("reticent>")
        terminal.type("\x03")  # Ctrl-C clears the line, it does not leave
        terminal.until("reticent>")
        terminal.type("SELECT nonsense\r")
        terminal.until("reticent: ")
        terminal.until("reticent>")
        terminal.type("\x04")
        assert terminal.finish() == 0, terminal.text
    history = people / "reticent" / "history"
    assert "sex = 'Male'" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_live_completion(release_file: Path, tmp_path: Path) -> None:
    with Terminal(("shell", str(release_file)), tmp_path) as terminal:
        terminal.until("reticent>")
        terminal.type("SELECT COUNT(*) FROM people WHERE smok\t")
        terminal.until("er")
        terminal.type(" = 'y\t")
        terminal.until("es'")
        terminal.type("\r")
        terminal.until("count(*)")
        terminal.until("reticent>")
        terminal.type("\\quit\r")
        assert terminal.finish() == 0
    assert "smoker = 'yes'" in (tmp_path / "reticent" / "history").read_text()


DOMAIN = Domain.from_dict(
    json.loads(
        '{"age": {"type": "numeric", "edges": [0, 10, 20]}, "marital status": {"type": "categorical",'
        ' "values": ["married", "single"]}, "city": {"type": "categorical", "values": ["O\'Hara", "York"]}}'
    )
)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("SEL", {"SELECT"}),
        ("\\co", {"\\cost"}),
        ("SELECT ag", {"age"}),
        ("SELECT COUNT(*) FROM t WHERE mar", set()),
        ('SELECT COUNT(*) FROM t WHERE "mar', {'"marital status"'}),
        ('... WHERE "marital status" = ', {"'married'", "'single'"}),
        ("... WHERE city = 'o", {"'O''Hara'"}),
        ("... WHERE city IN ('York', ", {"'O''Hara'", "'York'"}),
        ("... WHERE city <> y", {"'York'"}),
        ("... WHERE age = 1", set()),
    ],
)
def test_completion(typed: str, offered: set[str]) -> None:
    found = SqlCompleter(DOMAIN, "t").get_completions(Document(typed), CompleteEvent())
    assert {completion.text for completion in found} == offered


def test_statements_of_a_pipe() -> None:
    text = "SELECT 1; SELECT\n 2;\n\\error 0.1\nSELECT ';' AS \"a;b\"\n\nSELECT 3"
    assert list(statements(io.StringIO(text))) == [
        "SELECT 1",
        "SELECT\n 2",
        "\\error 0.1",
        "SELECT ';' AS \"a;b\"",
        "SELECT 3",
    ]


def test_a_threshold_engine_answers_at_the_prompt(people: Path, pipe: Callable[..., Called]) -> None:
    """All questions within one error, which nobody need state; a test that opens an epoch is agreed to."""
    engine = (*LOCAL[:-1], "20000", "--engine", "tuned", "--queries", "50")
    count = "SELECT COUNT(*) FROM people WHERE sex = 'Female'"
    refused = pipe(count, *engine)
    assert refused.code == 2
    assert "--yes" in refused.err
    told = pipe(count, *engine, "--yes", "--json")
    assert told.code == 0, told.err
    assert told.json["price"] > 0
    told = pipe(f"{count};\n{count};\n", *engine, "--yes")
    assert told.code == 0, told.err
    assert "±" in told.out
    assert "free" in told.out, "a repeat is free"
    other = pipe(count, *LOCAL[:-1], "20000", "--yes")
    assert other.code == 2
    assert "'tuned'" in other.err
    unused = pipe(count, *LOCAL[:-1], "20000", "--engine", "tuned", "--gamma", "0.1")
    assert unused.code == 2
    assert "smoothness" in unused.err
