"""What durable payment costs: reserve + settle against two bare commits, and a whole paid answer against its parts.

And what opening, following, paying and verifying cost on ledgers of up to a million events.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp

from benchmarks.long_ledgers import measured
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.records import Records
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Laplace
from reticent.kernel.table import Table
from reticent.queries.linear import Conjunction

RATIO_MOST = 2.5  # four flushes against two, and the hashing
MEASURED_MOST = 3.0
LENGTHS = (4_000, 40_000, 100_000, 500_000)
"""Paid answers; a ledger has twice as many events."""
OPEN_MOST = 10.0
FLAT_MOST = 1.5
RECORDS = 1000
SCALE = 50


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


def bare_measurement(commits: Callable[[], None]) -> Callable[[], None]:
    """OpenDP's scalar Laplace on the same integer grid, made beforehand, and two commits."""
    dp.enable_features("contrib")
    noisy = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=float(SCALE))

    def measure() -> None:
        noisy(RECORDS // 4)
        commits()

    return measure


def table() -> Table:
    domain = Domain(a=4)
    codes = {"a": np.arange(4, dtype=np.uint8)}
    return Table(Records.of_codes(domain, codes, np.full(4, RECORDS // 4)), domain, records=RECORDS)


def measurement(curator: Curator) -> Callable[[], None]:
    """One question from end to end: checks, price, exact count, reservation, noise, settlement, answer."""
    question, noise = Conjunction({"a": 1}), Laplace(SCALE)

    def measure() -> None:
        curator.measure([question], noise)

    return measure


def seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run(quick: bool) -> dict[str, Any]:
    """The ledger's marks as ratios of medians; on the disk of the working directory, not on a memory disk."""
    rounds = 40 if quick else 400
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder, private, budget = Path(name), table(), Budget(epsilon=10**6)
        with Ledger.open(folder / "a.ledger", identity=private.identity, budget=budget) as ledger:
            commits = bare_commits(folder)
            actions = {
                "two_bare_commits": commits,
                "reserve_and_settle": paid_answer(ledger),
                "in_memory": paid_answer(Ledger.memory(budget)),
                "opendp_and_two_commits": bare_measurement(commits),
                "measurement": measurement(Curator(private, ledger)),
            }
            times = [{kind: seconds(action) for kind, action in actions.items()} for _ in range(rounds)]
    medians = {kind: statistics.median(each[kind] for each in times) for kind in actions}
    return {"rounds": rounds, "seconds": medians, "lengths": [measured(n) for n in LENGTHS[: 1 if quick else None]]}


def present(found: dict[str, Any]) -> list[Shown]:
    seconds = found["seconds"]
    paid = seconds["reserve_and_settle"] / seconds["two_bare_commits"]
    whole = seconds["measurement"] / seconds["opendp_and_two_commits"]
    names = {
        "two_bare_commits": "two bare durable commits",
        "reserve_and_settle": "reserve and settle",
        "in_memory": "the same in memory",
        "opendp_and_two_commits": "OpenDP's call and two commits",
        "measurement": "a paid answer, end to end",
    }
    bars = {"median": [(name, 1e3 * seconds[kind]) for kind, name in names.items()]}
    setting = f"Medians of {found['rounds']} rounds, all kinds in turn in one process, on the working disk. "
    expected = "Expected: flushes outweigh all else."
    return [
        setting + "An answer is durable twice, and each time the anchor follows: four flushes against two.",
        Claim("reserve + settle, over two bare durable commits", paid, at_most=RATIO_MOST),
        Claim("a Laplace measurement, over OpenDP's call and two durable commits", whole, at_most=MEASURED_MOST),
        Plot("payment", "What a paid answer costs", "", "milliseconds", bars, expected=expected),
        *_lengths(found.get("lengths", [])),
    ]


def _lengths(found: list[dict[str, float]]) -> list[Shown]:
    """Nothing where a result was recorded before lengths were measured."""
    if not found:
        return []
    units = {"events": "", "open": "s", "open_gib": "GiB", "follow": "s", "pay": "ms", "refresh": "ms", "verify": "s"}
    scale = {"ms": 1000.0}
    rows = [{name: one[name] * scale.get(unit, 1.0) for name, unit in units.items()} for one in found]
    shortest, longest = found[0], found[-1]
    return [
        "Processor time of one process each. An opening reads what the newest checkpoint and index do not cover.",
        Claim(f"opening a session on {longest['events']:.0f} events", longest["open"], at_most=OPEN_MOST, unit="s"),
        Claim("a paid answer there, over the shortest", longest["pay"] / shortest["pay"], at_most=FLAT_MOST),
        Claim(
            "a reader's refresh there, over the shortest", longest["refresh"] / shortest["refresh"], at_most=FLAT_MOST
        ),
        Grid("Long ledgers", units, rows),
    ]


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(run("--quick" in sys.argv), indent=2))
