"""Three first hours as new users spend them, from the command line, a notebook and a browser; steps are counted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet
import pytest
from tests.first_hours.dirty import EDITED, PERSONS, WARDS, write_visits
from tests.service.browser import CHROMIUM, DRIVER, chromium
from tests.service.serving import bearer, write_survey

pytestmark = pytest.mark.slow

RETICENT = [sys.executable, "-m", "reticent"]
READING = ["--person", "Patient No", "--neighbours", "add-remove"]
BUDGET = ["--epsilon", "1", "--delta", "1e-9"]
MOST_COMMANDS = 6
STARTING = 180.0
"""Seconds; a first start spends its warm start and compiles."""


class Desk:
    """A folder, a shell in it, and how often somebody typed a command or edited a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[str] = []
        self.edits = 0

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a command to its end; what it printed on both streams."""
        self.commands.append(" ".join(words))
        done = subprocess.run(
            [*RETICENT, *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=STARTING,
            env=self.surroundings,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    @property
    def surroundings(self) -> dict[str, str]:
        return os.environ | {"OMP_NUM_THREADS": "1"}

    def edit(self, name: str, text: str) -> None:
        self.edits += 1
        (self.folder / name).write_text(text)

    @contextmanager
    def serve(self, *words: str) -> Iterator[str]:
        """A server until the block ends, stopped as an operator stops it; yields its address."""
        self.commands.append(" ".join(("serve", *words)))
        with (self.folder / "out").open("w") as out, (self.folder / "log").open("w") as log:
            command = [*RETICENT, "serve", *words, "--port", "0"]
            process = subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=log, env=self.surroundings)
        try:
            yield self._address(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, -signal.SIGTERM)
        finally:
            process.kill()
            process.wait(60)

    def _address(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + STARTING
        while time.monotonic() < deadline and process.poll() is None:
            found = re.search(r"http://\S+", (self.folder / "out").read_text())
            if found is not None:
                return found.group()
            time.sleep(0.1)
        raise AssertionError((self.folder / "out").read_text() + (self.folder / "log").read_text())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_custodian_from_a_dirty_file_to_a_published_table_and_a_page(desk: Desk) -> None:
    write_visits(desk.folder / "visits.csv")
    # 1: names only; identifiers and dates are told by their names.
    draft = desk.run("domain", "new", "visits.csv", "--whole", "Age", "--number", "Charge", "--out", "draft.toml")
    assert "State what is open" in draft
    drafted = (desk.folder / "draft.toml").read_text()
    assert "--person 'Patient No' makes it the unit" in drafted
    assert '["Visit Date"]\ntype = "date"' in drafted
    desk.edit("draft.toml", EDITED)
    # 2: what no codebook says is found privately.
    account = ["--ledger", "discovery.ledger", "--out", "visits.toml"]
    desk.run(
        "domain",
        "discover",
        "visits.csv",
        "--draft",
        "draft.toml",
        "--epsilon",
        "0.5",
        "--delta",
        "1e-9",
        *READING,
        *account,
    )
    # 3: every cell is read, whatever its spelling.
    fitting = json.loads(desk.run("check", "visits.csv", "--domain", "visits.toml", "--person", "Patient No", "--json"))
    assert fitting["units"] == PERSONS
    assert all(column["unfit"] == 0 for column in fitting["attributes"])
    # 4: a published table, a release to ask, a report.
    made = [
        "--out",
        "synthetic.parquet",
        "--save",
        "visits.release",
        "--report",
        "report.html",
        "--ledger",
        "visits.ledger",
    ]
    told = desk.run(
        "release", "visits.csv", "--domain", "visits.toml", *READING, *BUDGET, "--workload", "marginals:2", *made
    )
    assert "with its discovered domain" in told
    synthetic = pyarrow.parquet.read_table(desk.folder / "synthetic.parquet")
    assert synthetic.column_names == ["Visit Date", "Sex", "Age", "Charge", "Ward"]
    assert {ward for ward in synthetic["Ward"].to_pylist() if ward != "(other)"} <= {ward.lower() for ward in WARDS}
    assert (desk.folder / "report.html").stat().st_size > 10_000
    # 5: the same ledger behind a page; nothing is paid twice.
    with desk.serve("visits.csv", "--domain", "visits.toml", *READING, *BUDGET, "--ledger", "visits.ledger") as url:
        token = (desk.folder / "visits.ledger.tokens.custodian").read_text().strip()
        budget = httpx.get(f"{url}/v1/tables/visits/budget", headers=bearer(token), timeout=30).json()
        assert budget["spent"] <= budget["limit"]
        assert budget["remaining"] == pytest.approx(budget["limit"] - budget["spent"], abs=1e-12)
        if CHROMIUM is not None and DRIVER is not None:
            look_at_the_page(url, token)
    assert len(desk.commands) <= MOST_COMMANDS, desk.commands
    assert desk.edits == 1
    logged = [json.loads(line) for line in (desk.folder / "log").read_text().splitlines() if line.startswith("{")]
    assert logged
    assert token not in (desk.folder / "log").read_text()


def look_at_the_page(url: str, token: str) -> None:
    """Sign in, ask by clicking, read the answer."""
    with chromium() as window:
        window.size(1280, 900)
        window.open(url)
        window.type("input[type=password]", token)
        window.click_text("Sign in", "form button")
        window.sees("left", "header")
        window.click("[aria-label='Group by Ward']")
        window.click_text("Ask", "form button")
        window.sees("Free", ".result")
        window.sees("cardiology", ".result")
        assert window.console() == []


NOTEBOOK = """
import reticent as rt
domain = rt.Domain.read("survey.toml")
table = rt.Table.read("survey.parquet", domain)
session = rt.Session.open("survey.ledger", table, rt.Budget(epsilon=1, delta=1e-9))
answer = session.ask("SELECT region, COUNT(*) AS n FROM survey GROUP BY region")
"""


def test_an_analyst_in_a_kernel(desk: Desk) -> None:
    """Read, ask, pay, plot, release, report: a cell each, nothing printed that was not asked for."""
    pytest.importorskip("ipykernel")
    jupyter_client = pytest.importorskip("jupyter_client")
    write_survey(desk.folder)
    manager = jupyter_client.KernelManager()
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel(cwd=str(desk.folder), env=desk.surroundings)
    client = manager.client()
    client.start_channels()

    def cell(code: str) -> dict[str, Any]:
        heard: list[dict[str, Any]] = []
        reply = client.execute_interactive(code, timeout=STARTING, output_hook=heard.append)["content"]
        assert reply["status"] == "ok", reply
        assert not [each for each in heard if each["msg_type"] == "stream"]
        values = [each["content"]["data"] for each in heard if each["msg_type"] == "execute_result"]
        return values[0] if values else {}

    try:
        client.wait_for_ready(timeout=STARTING)
        cell("import sys; sys.modules['ipywidgets'] = None")
        cell(NOTEBOOK)
        assert "<table" in cell("answer")["text/html"]
        assert "image/png" in cell("answer.plot()")
        assert float(cell("session.cost(rt.count(rt.col('smoker') == 'yes'), error='1%')")["text/plain"]) > 0
        assert "price 0.0" in cell("session.ask(rt.count(rt.col('smoker') == 'yes'), error='1%')")["text/plain"]
        frame = cell("import pandas as pd; pd.DataFrame(answer)")["text/html"]
        assert "n_error" in frame
        cell("release = session.release(); release.save('survey.release'); page = session.report('report.html')")
        assert cell("len(release.synthesize(500))")["text/plain"] == "500"
        cell("session.close()")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (desk.folder / "report.html").stat().st_size > 1_000
    # What the notebook saved opens in the shell.
    assert "north" in desk.run("ask", "survey.release", "SELECT region, COUNT(*) FROM survey GROUP BY region")


CONFIG = """
[server]
tokens = "people.tokens"

[tables.survey]
table = "survey.parquet"
domain = "survey.toml"
ledger = "survey.ledger"
anchor = "anchors/survey.anchor"
epsilon = 1.0
delta = 1e-9

[tables.second]
table = "survey.parquet"
domain = "survey.toml"
ledger = "second.ledger"
anchor = "anchors/second.anchor"
epsilon = 1.0
delta = 1e-9
"""


def test_an_operator_with_two_tables(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backup while it runs, a purchase after it, a dead disk, restore, a refusal, accept, and nothing is refunded."""
    write_survey(desk.folder)
    (desk.folder / "anchors").mkdir()
    desk.edit("server.toml", CONFIG)
    with desk.serve("--config", "server.toml") as url:
        monkeypatch.setenv("RETICENT_TOKEN", (desk.folder / "people.tokens.custodian").read_text().strip())
        assert "verified" in desk.run("ledger", "backup", "survey.ledger", "monday.ledger")
        assert "north" in desk.run("ask", url, "SELECT region, COUNT(*) FROM second GROUP BY region")
        paid = desk.run("ask", url, "SELECT COUNT(*) FROM survey WHERE age >= 45", "--error", "40", "--json")
        assert json.loads(paid)["price"] > 0
        unknown = desk.run("ask", url, "SELECT COUNT(*) FROM surveys", code=2)
        assert "survey, second" in unknown
        metrics = httpx.get(f"{url}/metrics", headers=bearer(os.environ["RETICENT_TOKEN"]), timeout=30).text
        spent = {
            name: float(value) for name, value in re.findall(r'budget_spent\{table="(\w+)",unit="rho"\} (\S+)', metrics)
        }
        assert spent["survey"] > spent["second"] > 0
    for line in (desk.folder / "log").read_text().splitlines():
        assert json.loads(line)["event"]
    assert sorted(path.name for path in desk.folder.glob("*.ledger*")) == sorted(
        ["survey.ledger", "survey.ledger.lock", "second.ledger", "second.ledger.lock", "monday.ledger"]
    )
    # The disk dies; Monday's backup is put back.
    whole = (desk.folder / "survey.ledger").read_bytes()
    (desk.folder / "survey.ledger").write_bytes(whole[:3000])
    place = ["--anchor", "anchors/survey.anchor"]
    restored = desk.run("ledger", "restore", "monday.ledger", "survey.ledger", *place)
    assert "then: reticent ledger accept-rollback survey.ledger --anchor anchors/survey.anchor" in restored
    refused = desk.run("serve", "--config", "server.toml", "--port", "0", code=2)
    assert "table survey, " in refused
    assert "reticent ledger accept-rollback" in refused
    desk.run("ledger", "accept-rollback", "survey.ledger", *place, "--yes")
    assert "agrees with its anchor" in desk.run("ledger", "verify", "survey.ledger", *place)
    with desk.serve("--config", "server.toml") as url:
        headers = bearer(os.environ["RETICENT_TOKEN"])
        budget = httpx.get(f"{url}/v1/tables/survey/budget", headers=headers, timeout=30).json()
        assert budget["spent"] >= spent["survey"] - 1e-9, "nothing is refunded"
