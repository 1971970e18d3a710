"""A read tells its stages and nothing of its values; interrupted, it leaves no file, thread or payment behind."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from reticent.domain import Domain
from reticent.errors import LedgerError
from reticent.kernel.accounting import Budget
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Laplace
from reticent.kernel.table import Table as PlainTable
from reticent.kernel.table import exact_counts
from reticent.queries.linear import Marginal
from reticent.sessions.session import Session
from reticent.sources import ReadProgress, Table
from reticent.sources.duckdb import DuckDBEngine
from reticent.sources.on_demand import OnDemand

DOMAIN = Domain(a=3, b=2)
ROWS = pa.table({"a": [0, 1, 2, 2], "b": [0, 1, 0, 1]})
BUDGET = Budget(epsilon=1.0)
# Hours of grouping, so that only an interruption can end it within a test.
ENDLESS = "SELECT x.range % 3 AS a, (x.range * y.range) % 2 AS b FROM range(10000000) AS x, range(10000000) AS y"
SOON = 120.0
"""Seconds, far below the hours and far above what a busy machine makes of half a second."""


@pytest.fixture
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of a read would appear."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def parquet(folder: Path) -> Path:
    path = folder / "rows.parquet"
    duckdb.from_arrow(ROWS).write_parquet(str(path))
    return path


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("reticent-read")]


@pytest.mark.parametrize("hold", [100, 1])
def test_stages_come_in_order(tmp_path: Path, hold: int) -> None:
    told: list[ReadProgress] = []
    Table.read(parquet(tmp_path), DOMAIN, hold=hold, progress=told.append)
    stages = list(dict.fromkeys(step.stage for step in told))
    assert stages == ["opening", "grouping", "receiving", "ready"]
    assert [step.seconds for step in told] == sorted(step.seconds for step in told)
    assert set(ReadProgress.__dataclass_fields__) == {"stage", "seconds", "fraction"}


def test_objects_are_read_with_progress_too() -> None:
    told: list[str] = []
    Table.of(ROWS, DOMAIN, progress=lambda step: told.append(step.stage))
    assert told[0] == "opening"
    assert told[-1] == "ready"


class Enough(Exception):
    pass


def test_a_listener_that_raises_cancels_the_read(tmp_path: Path, spill: Path) -> None:
    beats: list[ReadProgress] = []

    def stop_at_third(step: ReadProgress) -> None:
        beats.append(step)
        assert list(spill.glob("reticent-*")), "the read should be under way"
        if len([beat for beat in beats if beat.stage == "grouping"]) == 3:
            raise Enough

    def listen(step: ReadProgress) -> None:
        if step.stage != "opening":
            stop_at_third(step)

    begun = time.monotonic()
    with pytest.raises(Enough):
        Table.read(parquet(tmp_path), DOMAIN, query=ENDLESS, records=4, progress=listen)
    assert time.monotonic() - begun < SOON
    assert not list(spill.iterdir())
    assert not readers()
    assert all(beat.fraction is None or 0 <= beat.fraction <= 1 for beat in beats)


def interrupt_when_reading() -> threading.Timer:
    """Ctrl-C a moment after now."""
    timer = threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_control_c_ends_a_long_read_at_once(tmp_path: Path, spill: Path) -> None:
    path = parquet(tmp_path)
    begun = time.monotonic()
    interrupt_when_reading()
    with pytest.raises(KeyboardInterrupt):
        Table.read(path, DOMAIN, query=ENDLESS, records=4)
    assert time.monotonic() - begun < SOON
    assert not list(spill.iterdir())
    assert not readers()
    assert exact_counts(Table.read(path, DOMAIN)).total() == 4


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_control_c_while_counting_on_demand_spends_nothing() -> None:
    """The engine would count for hours; the ledger has reserved nothing when it is interrupted."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE first AS SELECT 0 AS a, 0 AS b UNION ALL SELECT 1, 1")
    connection.execute(f"CREATE VIEW rows AS {ENDLESS}")
    engine = DuckDBEngine.of_connection(connection, label="endless", query=None)
    table = PlainTable(OnDemand(engine, DOMAIN), DOMAIN, records=10**6)
    with Ledger.memory(BUDGET, table.identity) as ledger:
        curator = Curator(table, ledger)
        interrupt_when_reading()
        with pytest.raises(KeyboardInterrupt):
            curator.measure([Marginal(("a",))], Laplace(10))
        assert ledger.spent == 0
        connection.execute("CREATE OR REPLACE VIEW rows AS SELECT * FROM first")
        assert curator.measure([Marginal(("a",))], Laplace(10)).cost > 0
    connection.close()


def test_a_session_refuses_another_declared_version(tmp_path: Path) -> None:
    rows, path = parquet(tmp_path), tmp_path / "a.ledger"
    with Session.open(path, Table.read(rows, DOMAIN, version="2026-03"), BUDGET, warm_start=0.1) as session:
        spent = session.spent
    for version in ("2026-04", None):
        with pytest.raises(LedgerError, match="version"):
            Session.open(path, Table.read(rows, DOMAIN, version=version), BUDGET, warm_start=0.1)
    with Session.open(path, Table.read(rows, DOMAIN, version="2026-03"), BUDGET, warm_start=0.1) as session:
        assert session.spent == spent > 0
