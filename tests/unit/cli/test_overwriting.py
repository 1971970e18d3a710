"""No output replaces what the command reads, its ledger, or another output: refused before anything is spent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called

Call = Callable[..., Called]
BUDGET = ("--epsilon", "1", "--delta", "1e-9", "--ledger", "p.ledger")
RELEASE = ("release", "people.csv", "--domain", "people.toml", "--workload", "marginals:1", *BUDGET)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*RELEASE, "--out", "people.csv"), "--out people.csv would overwrite the input"),
        ((*RELEASE, "--out", "../{folder}/people.csv"), "would overwrite the input"),
        ((*RELEASE, "--out", "linked.csv"), "would overwrite the input"),
        ((*RELEASE, "--save", "people.toml"), "--save people.toml would overwrite --domain"),
        ((*RELEASE, "--report", "p.ledger"), "--report p.ledger would overwrite --ledger"),
        ((*RELEASE, "--report", "p.ledger.anchor"), "would overwrite --ledger"),
        ((*RELEASE, "--anchor", "p.marks", "--custodian-copy", "p.marks"), "would overwrite --anchor"),
        ((*RELEASE, "--save", "one.html", "--report", "one.html"), "--report one.html would overwrite --save"),
        ((*RELEASE, "--report", "other.ledger"), "other.ledger: is a database, such as a ledger"),
        ((*RELEASE, "--anchor", "p.ledger"), "is the ledger's own file"),
        (
            ("fit", "people.csv", "losses.json", "--domain", "people.toml", *BUDGET, "--out", "losses.json"),
            "--out losses.json would overwrite the input",
        ),
        (
            ("domain", "discover", "people.csv", "--draft", "draft.toml", *BUDGET, "--out", "draft.toml"),
            "--out draft.toml would overwrite --draft",
        ),
    ],
)
def test_what_is_read_or_paid_is_never_overwritten(people: Path, call: Call, words: tuple[str, ...], told: str) -> None:
    (people / "losses.json").write_text(
        '[{"loss": "logistic", "features": ["age"], "label": "smoker", "positive": "yes"}]'
    )
    (people / "draft.toml").write_text("[age]\ntype = 'numeric'\nedges = []\n")
    (people / "other.ledger").write_bytes(b"SQLite format 3\0" + bytes(84))
    os.link(people / "people.csv", people / "linked.csv")
    before = {path.name: path.read_bytes() for path in people.iterdir()}
    shown = call(*(word.format(folder=people.name) for word in words))
    assert shown.code == 2
    assert told in shown.err
    assert shown.err.count("\n") == 1
    after = {path.name: path.read_bytes() for path in people.iterdir() if path.suffix != ".lock"}
    assert after == before


def test_what_is_told_of_the_anchor_is_one_line_whatever_the_name(people: Path, call: Call) -> None:
    """Found by the fuzz: a name with a line break."""
    words = ("domain", "discover", "people.csv", "--draft", "draft.toml", "--epsilon", "1", "--ledger", "a\nb")
    (people / "draft.toml").write_text("[age]\ntype = 'numeric'\nedges = []\n")
    shown = call(*words)
    assert shown.code == 0
    assert shown.err.count("\n") == 1
    assert "in a b.anchor: restoring" in shown.err


def test_an_older_output_is_replaced(people: Path, call: Call) -> None:
    for _ in range(2):
        assert call(*RELEASE, "--save", "p.release").code == 0
