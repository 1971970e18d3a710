"""What the command line says in extreme cases: nothing certified, hardly any budget, an output that is closed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called

Call = Callable[..., Called]
RELEASE = ("release", "people.csv", "--domain", "people.toml", "--save", "s.release")
SIGPIPE_ENDED = 141


def test_a_bound_of_more_than_the_table_is_not_certified(people: Path, call: Call) -> None:
    rows = Path("people.csv").read_text().splitlines()[:6]
    Path("people.csv").write_text("\n".join(rows) + "\n")
    shown = call(*RELEASE, "--epsilon", "0.001", "--neighbours", "add-remove", "--report", "r.html")
    assert shown.code == 0
    assert "not certified, too few records for this budget" in shown.out
    assert "certified within" not in shown.out
    assert "typically within" not in shown.out
    assert "at once" not in shown.out
    report = Path("r.html").read_text(encoding="utf-8")
    assert "No error bound was bought (too few records for this budget)" in report
    assert "differs from the true one" not in report


@pytest.mark.parametrize("k", [0, 9])
def test_orders_of_marginals_have_one_range(k: int, people: Path, call: Call) -> None:
    refused = call(*RELEASE, "--epsilon", "1", "--workload", f"marginals:{k}")
    assert refused.code == 2
    assert f"k={k} must be a whole number, at least 1 and at most 3" in refused.err


@pytest.mark.parametrize("epsilon", ["4.9e-08", "3e-09"])
def test_a_refused_budget_is_named_as_given(epsilon: str, people: Path, call: Call) -> None:
    refused = call(*RELEASE, "--epsilon", epsilon)
    assert refused.code == 3
    assert epsilon in refused.err


@pytest.mark.parametrize("words", [("--help",), (*RELEASE, "--epsilon", "1")])
def test_a_closed_output_is_no_violated_claim(words: tuple[str, ...], people: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "reticent", *words], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == SIGPIPE_ENDED
    assert not ended.stderr
    assert Path("s.release").exists() is ("--save" in words)
