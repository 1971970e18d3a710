"""Rows of a person from the command line and from a server's file: every row weighs one, of at most so many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import reticent as rt
from reticent.cli import cli
from reticent.errors import SourceError
from reticent.service.settings import TableSettings


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Persons with one to five visits."""
    lines = ["patient,ward"]
    for person in range(2000):
        lines += [f"{person},{'ab'[(person + visit) % 2]}" for visit in range(1 + person % 5)]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    rt.Domain(ward=rt.Categorical(["a", "b"], other=False)).write(tmp_path / "visits.toml")
    return tmp_path


def test_a_release_of_rows_counts_rows_and_says_who_is_protected(visits: Path) -> None:
    arguments = ["release", str(visits / "visits.csv"), "--domain", str(visits / "visits.toml"), "--person", "patient"]
    arguments += ["--most", "2", "--workload", "marginals:1", "--rho", "0.5", "--save", str(visits / "v.release")]
    result = CliRunner().invoke(cli, [*arguments, "--report", str(visits / "v.html"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["unit"] == "row"
    loaded = rt.Release.load(visits / "v.release")
    kept = 2000 + 1600  # the second row of four fifths of them
    assert abs(loaded.records - kept) < 200
    assert "any one person, with all rows," in (visits / "v.html").read_text()


def test_a_server_s_table_may_bound_its_rows(visits: Path) -> None:
    facts = {"table": str(visits / "visits.csv"), "domain": str(visits / "visits.toml"), "ledger": "l", "rho": 1.0}
    settings = TableSettings(name="visits", person="patient", most=2, **facts)  # pyright: ignore[reportArgumentType]
    table = rt.Table.read(settings.table, rt.Domain.read(settings.domain), **settings.reading)
    assert (table.unit, table.most) == ("row", 2)
    alone = TableSettings(name="visits", most=2, **facts)  # pyright: ignore[reportArgumentType]
    with pytest.raises(SourceError, match="needs person="):
        rt.Table.read(alone.table, rt.Domain.read(alone.domain), **alone.reading)
