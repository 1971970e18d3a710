"""The machine's own limits, measured in the same run as everything that is held against them."""

from __future__ import annotations

import os
import platform
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shown import Grid, Shown


def run(quick: bool) -> dict[str, Any]:
    """Memory bandwidth of one thread, durable commits per second, cores and load."""
    cells = np.ones(1 << (22 if quick else 24))
    reading = min(_seconds(cells.sum) for _ in range(5))
    scaling = min(_seconds(lambda: np.multiply(cells, 1.0000001, out=cells)) for _ in range(5))
    gigabytes = cells.nbytes / 1e9
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load before": os.getloadavg()[0],
        "python": platform.python_version(),
        "read-sum GB/s": gigabytes / reading,
        "in-place scale GB/s": 2 * gigabytes / scaling,
        "durable SQLite commits per second": _commits(50 if quick else 200),
    }


def _seconds(action: Any) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _commits(count: int) -> float:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        connection = sqlite3.connect(Path(folder) / "commits.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE t (x)")
        spent = _seconds(lambda: [connection.execute("INSERT INTO t VALUES (1)") for _ in range(count)])
        connection.close()
    return count / spent


def present(found: dict[str, Any]) -> list[Shown]:
    units = {"read-sum GB/s": "GB/s", "in-place scale GB/s": "GB/s"}
    rows = [{"": name.removesuffix(" GB/s"), "measured": v, "unit": units.get(name, "")} for name, v in found.items()]
    return ["What the suites below are held against.", Grid("", {"": "", "measured": "", "unit": ""}, rows)]
