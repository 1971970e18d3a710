"""What cannot be written is refused before payment; what fails after it loses neither the release nor other outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.cli_people import RECORDS, Called

import reticent as rt
from reticent.cli import outputs
from reticent.errors import ReticentError
from reticent.releases import synthesize

Call = Callable[..., Called]
PAID = ("release", "people.csv", "--domain", "people.toml", "--epsilon", "1", "--delta", "1e-9")
WRITTEN = ("--out", "o.csv", "--save", "s.release", "--ledger", "p.ledger")
CLASH = "sex,repwt3\n" + "Female,a\n" * 100
CLASH_DOMAIN = """
[sex]
values = ["Female", "Male"]
[repwt3]
values = ["a", "b"]
"""


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--workload", "ranges:age", "--replicates", "10"), ("ranges",)),
        (("--workload", "marginals:2+prefixes:age", "--replicates", "10"), ("ranges",)),
        (("--replicates", "10", "--rows", "10"), (str(4 * RECORDS), "at least")),
        (("--replicates", "5"), ("replicates", "10")),
        (("--replicates", "5000"), ("replicates", "1000")),
        (("--rows", "99999999999"), ("rows", "2147483647")),
        (("--rows", "2000000000"), ("2,000,000,000", "MiB", "fewer rows")),
        (("--rows", "0"), ("rows=0", "at least 1")),
        (("--workload", ""), ("workload", "marginals:3")),
    ],
    ids=lambda words: " ".join(words),
)
def test_refused_before_anything_is_paid(
    words: tuple[str, ...], named: tuple[str, ...], people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent.hypotheses.memory.available", lambda: 2**34)
    refused = call(*PAID, *WRITTEN, *words)
    assert refused.code == 2, refused.err
    assert refused.err.count("\n") == 1
    for text in named:
        assert text in refused.err
    assert not Path("p.ledger").exists(), "no ledger was opened"


def test_a_column_named_like_a_weight_is_refused_before_payment(people: Path, call: Call) -> None:
    Path("people.csv").write_text(CLASH)
    Path("people.toml").write_text(CLASH_DOMAIN)
    refused = call(*PAID, *WRITTEN, "--replicates", "10")
    assert refused.code == 2
    assert "repwt3" in refused.err
    assert not Path("p.ledger").exists()
    saved = call(*PAID, "--save", "s.release", "--ledger", "p.ledger", "--replicates", "10", "--json")
    assert saved.code == 0, "without rows there are no weights"


def test_uneven_weights_leave_the_release_and_plain_rows(
    people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesize, "LEAST_EFFECTIVE", 2.0)
    refused = call(*PAID, *WRITTEN, "--replicates", "10", "--report", "r.html")
    assert refused.code == 2
    line = refused.err.splitlines()[-1]
    for text in ("most uneven replicate", "s.release", "o.csv (2,000 rows, without weights)", "r.html", "p.ledger"):
        assert text in line
    kept = rt.Release.load("s.release")
    assert kept.replicated is not None
    assert kept.replicated.count == 10
    assert Path("o.csv").read_text().count("\n") == RECORDS + 1
    assert "repwt1" not in Path("o.csv").read_text()


def test_a_ledger_gives_the_release_back_without_cost(
    people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(outputs, "write_rows", _disk_full)
        refused = call(*PAID, "--out", "o.csv", "--ledger", "p.ledger")
    assert refused.code == 2
    assert "disk full" in refused.err
    assert "p.ledger keeps the paid release" in refused.err
    assert not list(Path().glob("*.release"))
    again = call(*PAID, "--out", "other.csv", "--ledger", "p.ledger", "--json")
    assert again.code == 0
    assert again.json["charged_now"] == 0


def test_without_a_ledger_the_release_is_rescued(people: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "write_rows", _disk_full)
    refused = call(*PAID, "--out", "o.csv", "--report", "r.html")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    (rescued,) = Path().glob("*.release")
    assert rescued.name in refused.err
    assert Path("r.html").exists()
    assert rt.Release.load(rescued).synthesize(7).num_rows == 7


def test_a_full_disk_at_save_is_rescued_elsewhere(
    people: Path, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(elsewhere))
    save = rt.Release.save

    def full_here(release: rt.Release, path: str | Path) -> Path:
        if Path(path).absolute().parent == people:
            _disk_full()
        return save(release, path)

    monkeypatch.setattr(rt.Release, "save", full_here)
    refused = call(*PAID, "--save", "s.release", "--out", "o.csv")
    assert refused.code == 2
    (rescued,) = elsewhere.glob("*.release")
    assert rescued.name in refused.err
    assert "o.csv (2,000 rows)" in refused.err


@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError])
def test_interrupted_replicates_do_not_lose_the_release(
    problem: type[BaseException], people: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: Any, **options: Any) -> Any:
        raise problem

    monkeypatch.setattr(rt.Release, "replicates", stopped)
    ended = call(*PAID, "--out", "o.csv", "--replicates", "10")
    assert ended.code in (70, 130)
    (rescued,) = Path().glob("*.release")
    assert rescued.name in ended.err


def _disk_full(*arguments: Any) -> None:
    raise ReticentError("o.csv: cannot be written (disk full); choose another place")
