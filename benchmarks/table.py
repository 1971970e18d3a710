"""A Table against DuckDB's own GROUP BY: building it from Parquet, and all 3-way marginals of 13 attributes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.shown import Claim, Plot, Shown
from reticent.domain import Categorical, Domain, Integer, Numeric
from reticent.kernel.counting.records import Records
from reticent.sources import Table

BUILD_MOST = 1.5
MARGINALS_LEAST = 20.0
MEMORY_MOST_GIB = 2.0
UNITS = ("seconds", "cpu_seconds")

DOMAIN = Domain(
    age=Numeric(edges=[17, 25, 35, 45, 55, 65, 97], whole=True),
    income=Numeric(lower=0, upper=100_000, bins=20),
    hours=Numeric(lower=0, upper=60, bins=10),
    gain=Numeric(lower=0, upper=10_000, bins=32),
    born=Numeric(edges=[f"{year}-01-01" for year in range(1990, 2019)]),
    schooling=Integer(17),
    sex=Categorical(["Female", "Male"]),
    work=Categorical([f"work {i}" for i in range(8)]),
    marital=Categorical([f"status {i}" for i in range(7)], nullable=True),
    region=Categorical(list("abcde")),
)
_ROWS = """
    SELECT CAST(random() * 80 + 17 AS INTEGER) AS age, random() * random() * 100000 AS income,
        random() * random() * 60 AS hours, pow(random(), 3) * 10000 AS gain,
        DATE '1990-01-01' + CAST(random() * 10000 AS INTEGER) AS born, CAST(random() * 16 AS INTEGER) AS schooling,
        CASE WHEN random() < 0.5 THEN 'Female' ELSE 'Male' END AS sex,
        'work ' || CAST(random() * 7 AS INTEGER) AS work,
        CASE WHEN random() < 0.95 THEN 'status ' || CAST(random() * random() * 7 AS INTEGER) END AS marital,
        substr('abcdef', 1 + CAST(random() * 5 AS INTEGER), 1) AS region
    FROM range({rows})
"""


def _binned(name: str) -> str:
    """What an analyst would write for DuckDB: a searched CASE per column."""
    attribute = DOMAIN[name]
    if isinstance(attribute, Integer):
        return name
    if isinstance(attribute, Categorical):
        cases = [f"WHEN '{value}' THEN {code}" for code, value in enumerate(attribute.values)]
        return f"CASE {name} {' '.join(cases)} ELSE {attribute.misfit_code} END"
    edges = [f"DATE '{e}'" if attribute.kind == "date" else f"CAST({e} AS DOUBLE)" for e in attribute.edges[1:-1]]
    cases = [f"WHEN {name} < {edge} THEN {code}" for code, edge in enumerate(edges)]
    return f"CASE WHEN {name} IS NULL THEN {attribute.missing_code} {' '.join(cases)} ELSE {attribute.known - 1} END"


def _connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def _group_by(path: Path) -> pa.Table:
    connection = _connected()
    binned = ", ".join(f"{_binned(name)} AS {name}" for name in DOMAIN.names)
    statement = f"SELECT {', '.join(DOMAIN.names)}, COUNT(*) FROM (SELECT {binned} FROM '{path}') GROUP BY ALL"
    return connection.sql(statement).to_arrow_table()


def _timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _costs(action: Callable[[], Any]) -> tuple[float, float]:
    """By the clock, and of the processor: the latter says the same on a busy machine."""
    cpu = time.process_time()
    return _timed(action), time.process_time() - cpu


def _peak_of_reading(path: str, results: Any) -> None:
    Table.read(path, DOMAIN)
    results.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def _peak_gib(path: Path) -> float:
    """The memory of a process that does nothing but read the table."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_peak_of_reading, args=(str(path), results))
    process.start()
    peak = results.get()
    process.join()
    return peak


def building(rows: int, repeats: int) -> dict[str, float]:
    """Least seconds of `Table.read` and of the GROUP BY alone, alternating in one process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        quiet = _connected()
        quiet.execute(f"SELECT setseed(0.5); COPY ({_ROWS.format(rows=rows)}) TO '{path}'")
        own, plain = [], []
        for _ in range(repeats):
            plain.append(_costs(lambda: _group_by(path)))
            own.append(_costs(lambda: Table.read(path, DOMAIN)))
        least = {"read": map(min, zip(*own, strict=True)), "group_by": map(min, zip(*plain, strict=True))}
        named = {f"{name}_{unit}": x for name, xs in least.items() for unit, x in zip(UNITS, xs, strict=True)}
        return named | {"peak_gib": _peak_gib(path)}


def counting(rows: int) -> dict[str, float]:
    """All 286 marginals here against 286 GROUP BYs on encoded bytes, DuckDB's best case: all timed, all cores each."""
    rng = np.random.default_rng(1)
    sizes = [2, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 12, 16]
    domain = Domain({f"a{i}": size for i, size in enumerate(sizes)})
    columns = {name: rng.integers(0, domain[name].size, rows, dtype=np.uint8) for name in domain.names}
    weights = np.ones(rows, dtype=np.int64)
    sets = list(itertools.combinations(domain.names, 3))
    Records.of_codes(domain, columns, weights).marginals(sets[:1])
    own = min(_timed(lambda: Records.of_codes(domain, columns, weights).marginals(sets)) for _ in range(2))
    connection = _connected()
    connection.register("arrow", pa.table(columns | {"w": weights}))
    connection.execute("CREATE TABLE encoded AS SELECT * FROM arrow")
    each = _timed(lambda: [_sums(connection, attributes) for attributes in sets])
    return {"marginals_seconds": own, "group_bys_seconds": each}


def _sums(connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
    return connection.sql(f"SELECT {', '.join(names)}, SUM(w) FROM encoded GROUP BY ALL").to_arrow_table()


def run(quick: bool) -> dict[str, Any]:
    """Building and counting; quick: a tenth of the rows."""
    rows = 10**6 if quick else 10**7
    return {"rows": rows, "threads": os.cpu_count(), "seconds": building(rows, 1 if quick else 4) | counting(rows)}


def present(found: dict[str, Any]) -> list[Shown]:
    seconds, rows, threads = found["seconds"], f"{found['rows']:,}", found["threads"]
    counted = seconds["group_bys_seconds"] / seconds["marginals_seconds"]
    read, spent = (seconds[f"read_{unit}"] / seconds[f"group_by_{unit}"] for unit in UNITS)
    bars = {
        "Table": [("from Parquet", seconds["read_seconds"]), ("286 marginals", seconds["marginals_seconds"])],
        "DuckDB": [
            ("from Parquet", seconds["group_by_seconds"]),
            ("286 marginals", seconds["group_bys_seconds"]),
        ],
    }
    built = f"{rows} rows x 10 columns of Parquet become a Table in {threads} threads, beside the same GROUP BY. "
    triples = (
        f"The 286 triples of 13 attributes are counted from {rows} records in {threads} threads; DuckDB groups the "
    )
    triples += "same bytes 286 times, all of them timed, in as many."
    expected = "Expected: building alike, counting far apart, because one pass serves many triples."
    return [
        built + triples,
        Claim("Table ready, over DuckDB's own GROUP BY", read, at_most=BUILD_MOST),
        Claim("the same in processor seconds", spent, at_most=BUILD_MOST),
        Claim("peak memory", seconds["peak_gib"], at_most=MEMORY_MOST_GIB, unit="GiB"),
        Claim("all triples, faster than one GROUP BY each", counted, at_least=MARGINALS_LEAST, unit="times"),
        Plot("seconds", "Building and counting", "", "seconds", bars, log="y", expected=expected),
    ]


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(run("--quick" in sys.argv), indent=2))
