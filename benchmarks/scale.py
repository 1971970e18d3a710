"""How cost grows with rows, attributes and questions, and what counting on demand saves over one query per set."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from reticent.domain import Attribute, Categorical, Domain, Integer, Numeric
from reticent.kernel.counting import SMALL_ROWS, tally
from reticent.sources import Table
from reticent.sources.grouping import HOLD

BUILD_MOST = 1.5
MEMORY_MOST_GIB = 4.0
ON_DEMAND_LEAST = 5.0
COLUMNS = 12
PROFILES = 1 << 20
"""Rows repeat this many kinds of records, the first ones more often, as the rows of real tables do."""
_SAMPLED_SETS = 10

_KINDS: tuple[tuple[Attribute, str], ...] = (
    (Numeric(lower=0, upper=100, bins=8), "{u} * 100"),
    (Integer(6), "CAST(floor({u} * {u} * 6) AS INTEGER)"),
    (Categorical([f"kind {i}" for i in range(5)]), "'kind ' || CAST(floor({u} * 5) AS INTEGER)"),
    (
        Numeric(edges=[date(year, 1, 1) for year in range(1990, 1996)]),
        "DATE '1990-01-01' + CAST({u} * 1800 AS INTEGER)",
    ),
)


def domain_of(columns: int) -> Domain:
    """Numbers, integers, texts and dates in turn."""
    return Domain({f"c{i}": _KINDS[i % len(_KINDS)][0] for i in range(columns)})


def rows_sql(rows: int, columns: int, profile: str) -> str:
    """A SELECT whose columns are functions of the row's profile; `profile` is SQL over the row's number `range`."""
    listed = [
        _KINDS[i % len(_KINDS)][1].format(u=f"(hash(profile * 1009 + {i}) / 18446744073709551616.0)") + f" AS c{i}"
        for i in range(columns)
    ]
    return f"SELECT {', '.join(listed)} FROM (SELECT CAST({profile} AS UBIGINT) AS profile FROM range({rows}))"


def generate(path: Path, rows: int, columns: int) -> None:
    """Write Parquet, the same rows whenever it is called: the row's number stands for the seed."""
    skewed = f"floor(pow(hash(range) / 18446744073709551616.0, 2) * {PROFILES})"
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false; SET preserve_insertion_order = false")
    connection.execute(f"COPY ({rows_sql(rows, columns, skewed)}) TO '{path}' (FORMAT parquet)")
    connection.close()


def _binned(domain: Domain, name: str) -> str:
    """What an analyst would write for DuckDB: a searched CASE per column."""
    attribute = domain[name]
    if isinstance(attribute, Integer):
        return name
    if isinstance(attribute, Categorical):
        cases = [f"WHEN '{value}' THEN {code}" for code, value in enumerate(attribute.values)]
        return f"CASE {name} {' '.join(cases)} ELSE {attribute.misfit_code} END"
    assert isinstance(attribute, Numeric)
    edges = [f"DATE '{e}'" if attribute.kind == "date" else f"CAST({e} AS DOUBLE)" for e in attribute.edges[1:-1]]
    cases = [f"WHEN {name} < {edge} THEN {code}" for code, edge in enumerate(edges)]
    return f"CASE WHEN {name} IS NULL THEN {attribute.missing_code} {' '.join(cases)} ELSE {attribute.known - 1} END"


def plain_group_by(path: Path, names: Sequence[str], domain: Domain) -> None:
    """DuckDB's own way to the distinct records of some columns."""
    binned = ", ".join(f"{_binned(domain, name)} AS {name}" for name in names)
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    statement = f"SELECT {', '.join(names)}, COUNT(*) FROM (SELECT {binned} FROM '{path}') GROUP BY ALL"
    connection.sql(statement).to_arrow_table()
    connection.close()


def _timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _measured(action: Callable[..., Any], arguments: tuple[Any, ...], results: Any) -> None:
    # The compiler's first second is the process's, not the table's.
    tally(np.zeros((1, SMALL_ROWS + 1), np.uint8), np.ones(SMALL_ROWS + 1, np.int64), [0], [1], 1)
    start, cpu = time.perf_counter(), time.process_time()
    action(*arguments)
    seconds = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    # Not ru_maxrss, which a process inherits from the one that started it.
    held = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    results.put(seconds | {"peak_gib": int(held[0].split()[1]) / 2**20})


def alone(action: Callable[..., Any], *arguments: Any) -> dict[str, float]:
    """Seconds, processor seconds and peak memory of a process that does nothing else."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_measured, args=(action, arguments, results))
    process.start()
    found = results.get()
    process.join()
    return found


def read(path: str, columns: int, hold: int = HOLD) -> None:
    Table.read(path, domain_of(columns), hold=hold)


def read_plainly(path: str, columns: int) -> None:
    domain = domain_of(columns)
    plain_group_by(Path(path), domain.names, domain)


def _slope(points: dict[int, dict[str, float]], what: str) -> float:
    """Least squares on logarithms: cost grows like size to this power."""
    sizes = np.log([float(size) for size in points])
    return float(np.polyfit(sizes, np.log([point[what] for point in points.values()]), 1)[0])


def _grown(points: dict[int, dict[str, float]]) -> dict[str, Any]:
    return {"points": points, "slopes": {what: _slope(points, what) for what in ("seconds", "cpu", "peak_gib")}}


def growth_with_rows(folder: Path, sizes: Sequence[int]) -> dict[str, Any]:
    points = {}
    for rows in sizes:
        path = folder / f"rows-{rows}.parquet"
        generate(path, rows, COLUMNS)
        points[rows] = alone(read, str(path), COLUMNS)
        points[rows]["group_by"] = alone(read_plainly, str(path), COLUMNS)["seconds"]
        os.remove(path)
    return _grown(points)


def growth_with_attributes(folder: Path, sizes: Sequence[int], rows: int) -> dict[str, Any]:
    points = {}
    for columns in sizes:
        path = folder / f"columns-{columns}.parquet"
        generate(path, rows, columns)
        points[columns] = alone(read, str(path), columns)
        os.remove(path)
    return _grown(points)


def growth_with_workload(folder: Path, ways: Sequence[int], rows: int) -> dict[str, Any]:
    """All k-way marginals of twelve attributes: cost of counting against the number of cells."""
    path = folder / "workload.parquet"
    generate(path, rows, COLUMNS)
    domain = domain_of(COLUMNS)
    Table.read(path, domain)._source.marginals([domain.names[:1]])
    points: dict[int, dict[str, float]] = {}
    for way in ways:
        sets = list(itertools.combinations(domain.names, way))
        # A fresh table, because marginals are kept.
        source = Table.read(path, domain)._source
        seconds = _timed(lambda source=source, sets=sets: source.marginals(sets))
        points[sum(domain.cells(each) for each in sets)] = {"seconds": seconds, "sets": len(sets)}
    os.remove(path)
    return {"points": points, "slopes": {"seconds": _slope(points, "seconds")}}


def on_demand(folder: Path, rows: int, columns: int) -> dict[str, float]:
    """All pairs of many attributes without holding records, against one query per pair (a sample of them)."""
    path = folder / "wide.parquet"
    generate(path, rows, columns)
    domain = domain_of(columns)
    pairs = list(itertools.combinations(domain.names, 2))
    sampled = pairs[:: max(len(pairs) // _SAMPLED_SETS, 1)]
    with Table.read(path, domain, hold=1) as table:
        table._source.marginals(pairs[:3])
        own = _timed(lambda: table._source.marginals(pairs))
    each = [_timed(lambda pair=pair: plain_group_by(path, pair, domain)) for pair in sampled]
    os.remove(path)
    return {"pairs": len(pairs), "all_seconds": own, "one_by_one_seconds": sum(each) / len(each) * len(pairs)}


def building(folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """Table ready against the plain GROUP BY, alternating in one process, and the memory of a process of its own."""
    path = folder / "building.parquet"
    generate(path, rows, COLUMNS)
    domain = domain_of(COLUMNS)
    own, plain = [], []
    for _ in range(repeats):
        plain.append(_timed(lambda: plain_group_by(path, domain.names, domain)))
        own.append(_timed(lambda: Table.read(path, domain)))
    peak = alone(read, str(path), COLUMNS)["peak_gib"]
    os.remove(path)
    return {"rows": rows, "read_seconds": min(own), "group_by_seconds": min(plain), "peak_gib": peak}


def run(quick: bool) -> dict[str, Any]:
    """Growth and the marks of large tables; quick: a tenth of the rows."""
    largest = 10**6 if quick else 10**7
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = building(folder, largest, 2)
        wide = on_demand(folder, largest, 40)
        growth = {
            "rows": growth_with_rows(folder, [10**5, 10**6] if quick else [10**5, 10**6, 10**7]),
            "attributes": growth_with_attributes(
                folder, [5, 25, 100] if quick else [5, 10, 25, 50, 100], largest // 10
            ),
            "workload": growth_with_workload(folder, [1, 2, 3] if quick else [1, 2, 3, 4], largest // 10),
        }
    ratios = {
        "table over GROUP BY (at most 1.5)": built["read_seconds"] / built["group_by_seconds"],
        "peak GiB over 4 (at most 1)": built["peak_gib"] / MEMORY_MOST_GIB,
        "one query per pair over counting on demand (at least 5)": wide["one_by_one_seconds"] / wide["all_seconds"],
    }
    most, memory, least = ratios.values()
    met = most <= BUILD_MOST and memory <= 1 and least >= ON_DEMAND_LEAST
    return {"name": "scale", "rows": largest, "ratios": ratios, "seconds": built | wide, "growth": growth, "met": met}


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(run("--quick" in sys.argv), indent=2))
