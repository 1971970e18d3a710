"""--numbers, --purpose and --useful: what a session keeps, and what it does with its budget, from outside Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import reticent as rt
from reticent.cli import cli
from reticent.service.server import open_tables
from reticent.service.settings import Settings, TableSettings

RECORDS, PLACE = 20_000, 13.0
"""Every number lies at one place of a bin from 0 to 100."""
STATEMENT = "SELECT AVG(x) FROM t"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = np.full(RECORDS, PLACE)
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(map(str, rows)) + "\n")
    declared = rt.Numeric(edges=[0, 100], other=False, nullable=False)
    rt.Domain(x=declared).write(tmp_path / "t.toml")
    return tmp_path


def shell(folder: Path, *options: str, text: str = STATEMENT) -> Any:
    words = ["shell", str(folder / "t.csv"), "--domain", str(folder / "t.toml"), "--ledger", str(folder / "t.ledger")]
    return CliRunner().invoke(cli, [*words, "--rho", "1", "--error", "1", "--yes", "--json", *options], input=text)


def test_the_shell_sells_numbers_that_were_kept(folder: Path) -> None:
    refused = shell(folder, "--purpose", "few")
    assert refused.exit_code != 0
    assert "finer bins for x" in refused.output
    sold = shell(folder, "--numbers")
    assert sold.exit_code == 0, sold.output
    table = rt.Table.read(folder / "t.csv", rt.Domain.read(folder / "t.toml"))
    with rt.Session.open(folder / "t.ledger", table, rt.Budget(rho=1)) as session:
        assert session.opening is not None
        assert "No warm start was bought" in session.opening
        found = session.ask(STATEMENT)
        assert abs(found.rows[0][0] - PLACE) < 5
        assert found.errors[0][0] <= 1
    assert json.loads(sold.stdout)["rows"][0][0] == pytest.approx(found.rows[0][0])


def test_a_purpose_beside_a_share_is_refused_unspent(folder: Path) -> None:
    refused = shell(folder, "--purpose", "few", "--warm-start", "0.5")
    assert refused.exit_code != 0
    assert "purpose= has no effect" in str(refused.exception)


@pytest.mark.parametrize("option", [("--numbers",), ("--purpose", "few"), ("--useful", "0.1")])
@pytest.mark.parametrize("target", ["t.release", "http://127.0.0.1:9"])
def test_what_has_no_effect_is_refused(target: str, option: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["shell", target, *option])
    assert result.exit_code != 0
    assert f"{option[0]} has no effect" in str(result.exception)


def test_a_server_s_table_may_state_all_three(folder: Path) -> None:
    facts: dict[str, Any] = {"table": str(folder / "t.csv"), "domain": str(folder / "t.toml"), "rho": 1.0}
    few = TableSettings(name="t", ledger=str(folder / "few.ledger"), purpose="few", numbers=True, **facts)
    useful = TableSettings(name="u", ledger=str(folder / "useful.ledger"), useful=1e-9, **facts)
    plain = TableSettings(name="p", ledger=str(folder / "plain.ledger"), **facts)
    assert few.reading["numbers"] is True
    assert "numbers" not in plain.reading
    served = open_tables(Settings(tables=(few, useful, plain), tokens=str(folder / "tokens")))
    try:
        sessions = {name: table.session for name, table in served.items()}
        assert sessions["t"].spent == sessions["u"].spent == 0
        assert sessions["p"].spent >= 0.5
        assert sessions["t"].ask(STATEMENT, error=1.0).errors[0][0] <= 1
        with pytest.raises(rt.QueryError, match="finer bins"):
            sessions["p"].ask(STATEMENT, error=1.0)
    finally:
        for table in served.values():
            table.close()
