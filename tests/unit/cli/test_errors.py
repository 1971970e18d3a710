"""Bad input: exit code 2 or 3, one line on stderr that names the trouble and the remedy, nothing spent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called

Call = Callable[..., Called]
TABLE = ("people.csv", "--domain", "people.toml")
BUDGET = ("--epsilon", "1", "--delta", "1e-9")


@pytest.fixture
def files(people: Path) -> Path:
    (people / "bad.toml").write_text("age\n")
    (people / "other.toml").write_text('[income]\nvalues = ["low", "high"]\n')
    (people / "sets.json").write_text('[["age", "income"]]')
    (people / "wide.json").write_text('{"age": 4000, "sex": 3000, "smoker": 2000}')
    return people


REFUSED: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("check", "people.csv", "--domain", "nosuch.toml"), ("nosuch.toml",)),
    (("check", "people.csv", "--domain", "bad.toml"), ("bad.toml", "line 1")),
    (("check", "nosuch.csv", "--domain", "people.toml"), ("nosuch.csv", "check the path")),
    (("check", "people.csv", "--domain", "other.toml"), ("people.csv", "'income'", "'age'")),
    (("plan", "--records", "0", "--domain", "people.toml", *BUDGET), ("records", "at least 1")),
    (("plan", "--domain", "people.toml", *BUDGET), ("--records",)),
    (("release", *TABLE), ("--epsilon 1",)),
    (("release", *TABLE, "--epsilon", "0"), ("epsilon", "above 0")),
    (("release", *TABLE, "--epsilon", "-1"), ("epsilon", "above 0")),
    (("release", *TABLE, "--epsilon", "1e9"), ("1e+09", "smaller")),
    (("release", *TABLE, "--epsilon", "nan"), ("epsilon",)),
    (("release", *TABLE, "--epsilon", "much"), ("--epsilon", "much")),
    (("release", *TABLE, "--epsilon", "1", "--delta", "0"), ("delta", "above 0", "drop delta")),
    (("release", *TABLE, "--epsilon", "1", "--delta", "2"), ("delta", "between")),
    (("release", *TABLE, "--rho", "1", "--delta", "0.1"), ("rho", "delta")),
    (("release", *TABLE, *BUDGET, "--workload", "sets.json"), ("sets.json", "income", "age")),
    (("release", *TABLE, *BUDGET, "--workload", "ranges:income"), ("income", "age")),
    (("release", *TABLE, *BUDGET, "--workload", "marginals:9"), ("9", "3")),
    (("release", *TABLE, *BUDGET, "--workload", "nosuch.json"), ("nosuch.json",)),
    (("release", *TABLE, *BUDGET, "--workload", "nosuch.sql"), ("nosuch.sql",)),
    (("release", *TABLE, *BUDGET, "--workload", "everything"), ("everything", "marginals:3")),
    (("release", *TABLE, *BUDGET, "--out", "rows.txt"), ("rows.txt", ".parquet")),
    (("release", *TABLE, *BUDGET, "--report", "nowhere/r.html"), ("nowhere", "create it")),
    (("release", *TABLE, *BUDGET, "--algorithm", "textbook"), ("--error",)),
    (("release", *TABLE, *BUDGET, "--algorithm", "textbook", "--error", "0.01"), ("records", "Adaptive")),
    (("release", *TABLE, *BUDGET, "--algorithm", "mwem", "--rounds", "0"), ("rounds",)),
    (("release", *TABLE, *BUDGET, "--model-cells", "0"), ("model_cells",)),
    (
        (
            "release",
            "people.csv",
            "--domain",
            "wide.json",
            *BUDGET,
            "--workload",
            "marginals:1",
            "--model-cells",
            "5",
            "--accept-misfits",
        ),
        ("model_cells=5", "9000"),
    ),
    (("release", *TABLE, *BUDGET, "--rows", "0", "--out", "s.csv"), ("rows",)),
    (("ledger", "verify", "nosuch.ledger"), ("nosuch.ledger", "check the path")),
    (("ledger", "show", "people.csv"), ("people.csv",)),
    (("shell", "nosuch.release"), ("nosuch.release",)),
    (("ask", "nosuch.release", "SELECT COUNT(*) FROM t"), ("nosuch.release",)),
    (("ask", "nosuch.release", "SELECT COUNT(*) FROM t", "--key", "k"), ("no options",)),
    (("ask", "localhost:8000", "SELECT COUNT(*) FROM t"), ("localhost:8000", "http://")),
    (("serve", *TABLE, *BUDGET, "--ledger", "l", "--port", "99999"), ("99999", "65,535")),
    (("shell", "people.csv"), ("people.csv", "--domain", "--ledger")),
    (("shell", "http://127.0.0.1:9"), ("RETICENT_TOKEN",)),
    (("ask", "http://127.0.0.1:9", "SELECT 1"), ("RETICENT_TOKEN",)),
    (("audit", "--seconds", "0"), ("seconds",)),
    (("frobnicate",), ("frobnicate", "reticent --help")),
    (("relase",), ("'relase'", "did you mean release?")),
    (("ledger", "shwo", "p.ledger"), ("'shwo'", "did you mean show?")),
    (("release", "--frobnicate"), ("--frobnicate",)),
]


@pytest.mark.parametrize(("words", "named"), REFUSED, ids=[" ".join(words)[:70] for words, _ in REFUSED])
def test_refused_in_one_line(
    words: tuple[str, ...], named: tuple[str, ...], files: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RETICENT_TOKEN", raising=False)
    ledger = ("--ledger", "p.ledger") if words[0] == "release" else ()
    refused = call(*words, *ledger)
    assert refused.code == 2, refused.err
    assert refused.err.startswith("reticent: ")
    assert refused.err.count("\n") == 1
    assert "Traceback" not in refused.err
    for text in named:
        assert text in refused.err
    assert not refused.out
    if Path("p.ledger").exists():
        assert call("ledger", "show", "p.ledger", "--json").json["spent"] == 0


def test_an_empty_budget_is_exit_code_3(people: Path, call: Call) -> None:
    first = ("release", *TABLE, *BUDGET, "--ledger", "p.ledger", "--json")
    assert call(*first, "--workload", "marginals:1").code == 0
    spent = call("ledger", "show", "p.ledger", "--json").json["spent"]
    refused = call(*first, "--workload", "marginals:2")
    assert refused.code == 3
    assert refused.err.startswith("reticent: p.ledger: ")
    assert refused.err.count("\n") == 1
    assert call("ledger", "show", "p.ledger", "--json").json["spent"] == spent
    again = call(*first, "--workload", "marginals:1")
    assert again.code == 0, "the same command finds what it paid for"


def test_an_attribute_with_one_value_is_no_trouble(people: Path, call: Call) -> None:
    Path("one.toml").write_text('[sex]\nvalues = ["Female"]\nother = false\n[smoker]\nvalues = ["no", "yes"]\n')
    words = ("release", "people.csv", "--domain", "one.toml", *BUDGET, "--json", "--accept-misfits")
    published = call(*words, "--save", "p.release")
    assert published.code == 0, published.err


def test_errors_hold_no_value_from_the_table(people: Path, call: Call) -> None:
    secret = "Zanzibar-7731"
    text = Path("people.csv").read_text().replace("Female", secret)
    Path("people.csv").write_text(text)
    for words in (("--workload", "ranges:income"), ("--out", "x.txt"), ("--algorithm", "textbook", "--error", "0.01")):
        refused = call("release", *TABLE, *BUDGET, "--save", "p.release", *words)
        assert refused.code == 2
        assert secret not in refused.err + refused.out
