"""Reserve + settle with its anchor against two bare durable SQLite commits, in turn in one process."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reticent.kernel.accounting import Budget
from reticent.kernel.ledger import Ledger

RATIO_MOST = 2.5  # four flushes against two, and the hashing


def bare_commits(folder: Path) -> Callable[[], None]:
    """Two commits of a row as long as a ledger event, as durable as the ledger's."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE rows (body TEXT)"):
        connection.execute(statement)

    def commit() -> None:
        for _ in range(2):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows VALUES (?)", ("x" * 700,))
            connection.execute("COMMIT")

    return commit


def paid_answer(ledger: Ledger) -> Callable[[], None]:
    def pay() -> None:
        ledger.settle(ledger.reserve(None, "measure", 1, {"query": "x" * 200}), {"value": 1})

    return pay


def seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run(quick: bool) -> dict[str, Any]:
    """The ledger's mark as a ratio of medians; on the disk of the working directory, not on a memory disk."""
    rounds = 40 if quick else 400
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder, budget = Path(name), Budget(rho=1)
        with Ledger.open(folder / "a.ledger", identity={"records": 1}, budget=budget) as ledger:
            actions = (bare_commits(folder), paid_answer(ledger), paid_answer(Ledger.memory(budget)))
            times = zip(*([seconds(action) for action in actions] for _ in range(rounds)), strict=True)
            bare, paid, memory = (statistics.median(column) for column in times)
    return {
        "name": "ledger",
        "rounds": rounds,
        "ratios": {"reserve + settle over two bare durable commits (at most 2.5)": paid / bare},
        "seconds": {"two_bare_commits": bare, "reserve_and_settle": paid, "in_memory": memory},
        "met": paid / bare <= RATIO_MOST,
    }


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(run("--quick" in sys.argv), indent=2))
