"""Commands in a pseudo-terminal: progress comes and goes, tables fit the width, Ctrl-C leaves what can resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.pseudo_terminal import Terminal

BUDGET = ("--epsilon", "1", "--delta", "1e-9")
RELEASE = (
    "release",
    "people.csv",
    "--domain",
    "people.toml",
    *BUDGET,
    "--workload",
    "marginals:2",
    "--save",
    "p.release",
)

WIDE: list[tuple[tuple[str, ...], str]] = [
    (("check", "people.csv", "--domain", "people.toml"), "NOT PRIVATE"),
    (("plan", "--records", "2000", "--domain", "people.toml", *BUDGET), "Choose"),
    ((*RELEASE, "--ledger", "p.ledger"), "certified within"),
    (("ledger", "show", "p.ledger"), "rho spent"),
    (("ledger", "verify", "p.ledger"), "chain intact"),
    (("demo", "--out", "d"), "seconds"),
]


@pytest.mark.parametrize("width", [80, 120])
def test_commands_fit_the_terminal(width: int, people: Path) -> None:
    for words, expected in WIDE if width == 80 else WIDE[1:3]:
        with Terminal(words, people, width=width) as terminal:
            assert terminal.finish() == 0, terminal.text
        assert expected in terminal.text
        shown = terminal.text.splitlines()[-8:]  # before that, the transient progress bar
        assert max(map(len, shown)) <= width


@pytest.mark.slow
def test_the_audit_on_a_terminal(people: Path) -> None:
    with Terminal(("audit", "--seconds", "0.01"), people) as terminal:
        assert terminal.finish() == 0, terminal.text
    assert "release: Adaptive" in terminal.text, "the bar names what runs"
    assert "no run contradicts" in terminal.text


def test_progress_is_shown_on_a_terminal_and_nowhere_else(people: Path) -> None:
    with Terminal((*RELEASE, "--json"), people) as terminal:
        assert terminal.finish() == 0
    assert "spent" in json.loads(terminal.text), "with --json nothing but JSON is shown"
    # What ends within half a second shows no bar.
    with Terminal((*RELEASE, "--algorithm", "mwem", "--rounds", "300"), people) as bar:
        assert bar.finish() == 0
    assert "% spent" in bar.text
    command = [sys.executable, "-c", "from reticent.cli import main; main()", *RELEASE]
    piped = subprocess.run(command, cwd=people, capture_output=True, text=True, check=True)
    assert not piped.stderr
    assert "\x1b" not in piped.stdout


SLOW = """
import sys, time
from reticent.kernel import curator
from reticent.cli import main

original, calls = curator.Curator.measure, []

def measure(self, *arguments, **options):
    settled = original(self, *arguments, **options)
    calls.append(settled)
    print("measured", len(calls), flush=True)
    if len(calls) == 4:
        time.sleep(60)
    return settled

curator.Curator.measure = measure
main(sys.argv[1:])
"""
MWEM = (*RELEASE, "--algorithm", "mwem", "--rounds", "6", "--ledger", "p.ledger", "--json")


def test_an_interrupted_release_resumes_with_what_it_measured(people: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *MWEM], cwd=people, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while "measured 4" not in process.stdout.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert complaint.strip() == (
        "reticent: interrupted; what was measured is kept in the ledger, if one was given: run the same command again"
    )
    paid = _reserved(people)
    again = subprocess.run(
        [sys.executable, "-c", "from reticent.cli import main; main()", *MWEM],
        cwd=people,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(again.stdout)["spent"] <= json.loads(again.stdout)["privacy"]["rho"] * 1e9 + 1
    after = _reserved(people)
    assert len(paid) == 8
    assert after[:8] == paid, "what was paid before is not paid again"
    assert len(after) == 13, "six rounds and the closing audit"


def _reserved(folder: Path) -> list[tuple[str, int]]:
    from reticent.kernel.ledger.verify import verify

    return [(e.key or "", e.cost) for e in verify(folder / "p.ledger").events if e.kind == "reserve"]
