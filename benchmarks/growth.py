"""How time and memory grow with rows, attributes, questions, universe and analysts: one process for every point."""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.generated import domain_of, generated
from reticent.domain import Domain
from reticent.kernel.accounting import Budget
from reticent.kernel.counting.marginals import SMALL_ROWS, tally
from reticent.kernel.curator import Curator
from reticent.kernel.ledger.ledger import Ledger
from reticent.kernel.mechanisms.base import Laplace
from reticent.queries.linear import Conjunction, Marginal
from reticent.queries.workload import Workload
from reticent.releases.release import release
from reticent.sources import Table
from reticent.sources.weighing import HOLD

COLUMNS = 12
RELEASED_ROWS = 10**5
ASKED = 200
"""Paid answers of each number of analysts."""


def timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _measured(action: Callable[..., Any], arguments: tuple[Any, ...], results: Any) -> None:
    # The compiler's first second is the process's, not the table's.
    tally(np.zeros((1, SMALL_ROWS + 1), np.uint8), np.ones(SMALL_ROWS + 1, np.int64), [0], [1], 1)
    start, cpu = time.perf_counter(), time.process_time()
    own = action(*arguments)
    found = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu, **(own or {})}
    # Not ru_maxrss, which a process inherits from the one that started it.
    held = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    results.put(found | {"peak_gib": int(held[0].split()[1]) / 2**20})


def alone(action: Callable[..., dict[str, float] | None], *arguments: Any) -> dict[str, float]:
    """Seconds, processor seconds and peak memory of a process that does nothing else; an action may say its own."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_measured, args=(action, arguments, results))
    process.start()
    found = results.get()
    process.join()
    return found


def read(path: str, columns: int, hold: int = HOLD) -> None:
    Table.read(path, domain_of(columns), hold=hold)


def slopes(points: Sequence[Mapping[str, Any]], by: str, *what: str) -> dict[str, float]:
    """Least squares on logarithms: cost grows like size to this power."""
    sizes = np.log([float(point[by]) for point in points])
    return {name: float(np.polyfit(sizes, np.log([point[name] for point in points]), 1)[0]) for name in what}


def with_rows(folder: Path, sizes: Sequence[int]) -> dict[str, Any]:
    """A Table from Parquet, twelve columns."""
    points = []
    for rows in sizes:
        with generated(folder, rows, COLUMNS) as path:
            points.append({"rows": rows, **alone(read, str(path), COLUMNS)})
    return {"points": points, "slopes": slopes(points, "rows", "seconds", "cpu_seconds", "peak_gib")}


def with_attributes(folder: Path, sizes: Sequence[int], rows: int) -> dict[str, Any]:
    points = []
    for columns in sizes:
        with generated(folder, rows, columns) as path:
            points.append({"attributes": columns, **alone(read, str(path), columns)})
    found = slopes(points, "attributes", "seconds", "cpu_seconds", "peak_gib")
    return {"points": points, "slopes": found, "rows": rows}


def count_marginals(path: str, way: int) -> dict[str, float]:
    domain = domain_of(COLUMNS)
    source = Table.read(path, domain)._source
    sets = list(itertools.combinations(domain.names, way))
    start = time.process_time()
    seconds = timed(lambda: source.marginals(sets))
    return {"seconds": seconds, "cpu_seconds": time.process_time() - start}


def with_workload(folder: Path, ways: Sequence[int], rows: int) -> dict[str, Any]:
    """All k-way marginals of twelve attributes, counted exactly from a table in memory."""
    domain = domain_of(COLUMNS)
    points = []
    with generated(folder, rows, COLUMNS) as path:
        for way in ways:
            sets = list(itertools.combinations(domain.names, way))
            cells = sum(domain.cells(each) for each in sets)
            points.append({"way": way, "sets": len(sets), "cells": cells, **alone(count_marginals, str(path), way)})
    found = slopes(points, "cells", "seconds", "cpu_seconds", "peak_gib")
    return {"points": points, "slopes": found, "rows": rows}


def release_chain(attributes: int) -> dict[str, Any]:
    """A release of every pair of neighbours among binary attributes: the workload grows as the universe's logarithm."""
    domain = Domain({f"x{i}": 2 for i in range(attributes)})
    generator = np.random.default_rng(0)
    common = generator.random(RELEASED_ROWS)
    columns = {
        name: ((common * (place + 3)) % 1 < 0.7 * generator.random(RELEASED_ROWS)).astype(np.int8)
        for place, name in enumerate(domain.names)
    }
    table = Table.of(pa.table(columns), domain)
    workload = Workload([Marginal(pair) for pair in itertools.pairwise(domain.names)])
    # The first one also pays for imports and compilation.
    made = release(table, workload, Budget(rho=0.1))
    cpu = time.process_time()
    seconds = timed(lambda: release(table, workload, Budget(rho=0.1)))
    kind = type(made.hypothesis).__name__.removesuffix("Hypothesis").lower()
    return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu, "representation": kind}


def with_universe(sizes: Sequence[int]) -> dict[str, Any]:
    points = [{"attributes": d, "log10_universe": d * float(np.log10(2)), **alone(release_chain, d)} for d in sizes]
    found = slopes(points, "attributes", "seconds", "cpu_seconds", "peak_gib")
    return {"points": points, "slopes": found, "rows": RELEASED_ROWS}


def pay(analysts: int) -> dict[str, float]:
    """Seconds of one paid answer, ledger on disk, when so many analysts have caps and ask in turn."""
    domain = Domain(a=4, b=3)
    table = Table.of(pa.table({"a": [0, 1, 2, 3] * 25, "b": [0, 1, 2, 0] * 25}), domain)
    names = [f"analyst {i}" for i in range(analysts)]
    # On the disk of the working directory, not on a memory disk.
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        budget = Budget(epsilon=10**6)
        with Ledger.open(Path(folder) / "a.ledger", identity=table.identity, budget=budget) as ledger:
            for name in names:
                ledger.set_cap(name, 10**12)
            curator, question, noise = Curator(table, ledger), Conjunction({"a": 1}), Laplace(10)
            asking = itertools.islice(itertools.cycle(names), ASKED)
            seconds = sorted(timed(lambda n=n: curator.measure([question], noise, analyst=n)) for n in asking)
    return {"seconds": seconds[ASKED // 2]}


def with_analysts(sizes: Sequence[int]) -> dict[str, Any]:
    points = [{"analysts": analysts, **alone(pay, analysts)} for analysts in sizes]
    return {"points": points, "slopes": slopes(points, "analysts", "seconds", "peak_gib")}
