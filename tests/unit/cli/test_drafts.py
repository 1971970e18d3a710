"""A draft is checked before its discovery is paid for: what its rules do not read is told first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.cli_people import Called

import reticent as rt

Call = Callable[..., Called]
DRAFT = """
[sex]
values = ["f", "m"]

[station]
values = []

[cost]
type = "numeric"
edges = []
{rules}
[seen]
type = "date"
edges = []
format = "%d.%m.%Y"
"""
BUDGET = ("--epsilon", "2", "--delta", "1e-6", "--ledger", "v.discovery", "--out", "v.toml")


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{'F' if i % 2 else 'm'};ward {i % 3};{i % 90},5{i % 10};{1 + i % 28}.12.2023" for i in range(3000)]
    (tmp_path / "visits.csv").write_text("\n".join(["sex;station;cost;seen", *rows]))
    (tmp_path / "draft.toml").write_text(DRAFT.format(rules=""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_draft_is_checked_as_far_as_it_goes(visits: Path, call: Call) -> None:
    shown = call("check", "visits.csv", "--domain", "draft.toml")
    counts = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines()[3:6]}
    assert counts == {"sex": ["0", "1500", "0"], "cost": ["0", "3000", "0"], "seen": ["0", "0", "0"]}
    assert 'decimal = ","' in shown.out
    assert shown.code == 2
    assert "not finished: state values of" in shown.err


def test_discovery_stops_before_it_pays_for_what_it_cannot_read(visits: Path, call: Call) -> None:
    stopped = call("domain", "discover", "visits.csv", "--draft", "draft.toml", *BUDGET)
    assert stopped.code == 2
    assert "over 25% of column 'cost' cannot be read as numbers" in stopped.err
    assert "--accept-misfits" in stopped.err
    assert not (visits / "v.discovery").exists()
    (visits / "draft.toml").write_text(DRAFT.format(rules='decimal = ","\n'))
    paid = call("domain", "discover", "visits.csv", "--draft", "draft.toml", *BUDGET)
    assert paid.code == 0, paid.err


def test_missing_values_do_not_stop_it(visits: Path, call: Call) -> None:
    text = (visits / "visits.csv").read_text().replace(",5", ".5")
    blank = [
        line if i % 2 == 0 else ";".join([*line.split(";")[:2], "", line.split(";")[3]])
        for i, line in enumerate(text.split("\n"))
    ]
    (visits / "visits.csv").write_text("\n".join(blank))
    assert call("domain", "discover", "visits.csv", "--draft", "draft.toml", *BUDGET).code == 0


def test_whoever_accepts_misfits_pays(visits: Path, call: Call) -> None:
    paid = call("domain", "discover", "visits.csv", "--draft", "draft.toml", *BUDGET, "--accept-misfits")
    assert paid.code == 0, paid.err
    assert (visits / "v.discovery").exists()


def test_a_draft_of_texts_alone_has_nothing_to_check(visits: Path, call: Call) -> None:
    (visits / "texts.toml").write_text("[station]\nvalues = []\n")
    assert "not finished" in call("check", "visits.csv", "--domain", "texts.toml").err
    assert call("domain", "discover", "visits.csv", "--draft", "texts.toml", *BUDGET).code == 0


def test_every_code_of_a_domain_is_shown(tmp_path: Path, call: Call) -> None:
    (tmp_path / "d.toml").write_text(
        '[sex]\nvalues = ["f", "m"]\nnullable = true\nother = true\n\n[pay]\nedges = [0, 1234567, 23456789]\n'
    )
    sex, pay, _ = call("domain", "show", str(tmp_path / "d.toml")).out.splitlines()
    assert sex.split("codes  ")[1] == "f, m, (other), (null)"
    assert pay.split("codes  ")[1] == "2 bins from 0 to 23456789, (other)"


def test_a_discovery_says_which_sums_will_be_clipped(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outer bins end soon beyond the outer medians; a heavy tail reaches further, which only SQL's `basis` said."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{(i % 1000) ** 3},{i % 90},{1990 + i % 30}-06-01" for i in range(3000)]
    (tmp_path / "v.csv").write_text("\n".join(["income,age,seen", *rows]))
    draft = """
        [income]
        type = "numeric"
        edges = []
        lower = 0
        [age]
        type = "numeric"
        edges = []
        lower = 0
        upper = 100
        [seen]
        type = "date"
        edges = []
    """
    (tmp_path / "draft.toml").write_text(draft)
    found = call("domain", "discover", "v.csv", "--draft", "draft.toml", *BUDGET)
    assert found.code == 0, found.err
    income = rt.Domain.read("v.toml")["income"]
    assert isinstance(income, rt.Numeric)
    upper = max(map(float, income.edges))  # pyright: ignore[reportArgumentType]
    noted = [line for line in found.out.splitlines() if "clipped" in line]
    assert [line.split(":")[0] for line in noted] == ["income", "seen"]
    assert float(noted[0].split("above ")[1].split()[0]) == upper
    assert "below" not in noted[0]
    assert "give the upper bound in the draft" in noted[0]
    assert "give the lower and upper bound" in noted[1]
    assert upper < 9 * 10**8
