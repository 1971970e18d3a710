"""The same rows through DuckDB, PostgreSQL and Spark: seconds until a Table is ready, and that its counts are equal.

Server and session are those of the tests (`make databases`); an engine that is not installed is left out and said so.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.generated import domain_of, generated
from benchmarks.growth import COLUMNS, timed
from benchmarks.shown import Grid, Plot, Shown
from reticent.sources import Table

POSTGRES_TYPES = ("double precision", "integer", "text", "date")
DOMAIN = domain_of(COLUMNS)
SETS = [*itertools.combinations(DOMAIN.names, 2), DOMAIN.names[:5], ()]
Reader = Callable[[], Table]


def csv_blocks(parquet: Path) -> Iterator[bytes]:
    """DuckDB writes CSV into a pipe that is read block by block, so that no copy of the table is made."""
    copying = f"SET enable_progress_bar = false; COPY (FROM '{parquet}') TO '/dev/stdout' (FORMAT csv, HEADER false)"
    program = f"import duckdb; duckdb.execute({copying!r})"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        while block := writer.stdout.read(1 << 22):
            yield block


def fill(url: str, table: str, parquet: Path) -> None:
    """Copy generated rows into a new table of a PostgreSQL server."""
    import psycopg

    columns = ", ".join(f"c{i} {POSTGRES_TYPES[i % len(POSTGRES_TYPES)]}" for i in range(COLUMNS))
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE UNLOGGED TABLE {table} ({columns})")
        with cursor.copy(f"COPY {table} FROM STDIN (FORMAT CSV)") as copy:
            for block in csv_blocks(parquet):
                copy.write(block)


@contextmanager
def duckdb_reader(files: dict[int, Path]) -> Iterator[dict[int, Reader]]:
    yield {rows: lambda path=path: Table.read(path, DOMAIN) for rows, path in files.items()}


@contextmanager
def postgres_reader(files: dict[int, Path]) -> Iterator[dict[int, Reader]]:
    from servers import postgres_server

    with postgres_server() as url:
        for rows, path in files.items():
            fill(url, f"rows{rows}", path)
        yield {
            rows: lambda rows=rows: Table.read(url, DOMAIN, query=f"SELECT * FROM rows{rows}", records=rows)
            for rows in files
        }


@contextmanager
def spark_reader(files: dict[int, Path]) -> Iterator[dict[int, Reader]]:
    from servers import spark_session

    options = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC", "spark.sql.shuffle.partitions": "4"}
    with spark_session(threads=2, **{"spark.driver.memory": "2g", **options}) as session:
        yield {
            rows: lambda rows=rows, path=path: Table.of(session.read.parquet(str(path)), DOMAIN, records=rows)
            for rows, path in files.items()
        }


ENGINES = {"DuckDB": duckdb_reader, "PostgreSQL": postgres_reader, "Spark, local mode": spark_reader}


def run(quick: bool) -> dict[str, Any]:
    """Two sizes through every engine; their difference is the cost of a row without the engine's start."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "contracts"))
    sizes = (10**4, 10**5) if quick else (10**6, 10**7)
    points, absent = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with generated(folder, sizes[0], COLUMNS) as small, generated(folder, sizes[1], COLUMNS) as large:
            files = dict(zip(sizes, (small, large), strict=True))
            truth = {rows: Table.read(path, DOMAIN)._source.marginals(SETS) for rows, path in files.items()}
            for engine, opened in ENGINES.items():
                try:
                    with opened(files) as readers:
                        points += [_point(engine, rows, read, truth[rows]) for rows, read in readers.items()]
                except pytest.skip.Exception as reason:
                    absent.append(f"{engine}: {reason}")
    return {"points": points, "absent": absent, "seconds_a_million_rows": _rates(points, sizes)}


def _point(engine: str, rows: int, read: Reader, truth: list[np.ndarray]) -> dict[str, Any]:
    """The second reading is timed: the first one starts compilers and fills the server's memory."""
    counts = read()._source.marginals(SETS)
    same = all(np.array_equal(found, expected) for found, expected in zip(counts, truth, strict=True))
    return {"engine": engine, "rows": rows, "seconds": timed(read), "same integers": same}


def _rates(points: list[dict[str, Any]], sizes: tuple[int, int]) -> dict[str, float]:
    seconds = {(point["engine"], point["rows"]): point["seconds"] for point in points}
    apart = (sizes[1] - sizes[0]) / 10**6
    return {e: (seconds[e, sizes[1]] - s) / apart for (e, rows), s in seconds.items() if rows == sizes[0]}


def present(found: dict[str, Any]) -> list[Shown]:
    points = found["points"]
    series: dict[str, list[tuple[int, float]]] = {}
    for point in points:
        series.setdefault(point["engine"], []).append((point["rows"], point["seconds"]))
    expected = "Expected: slope 1 once the engine's own start is paid."
    told = "Twelve columns, two threads each; `same integers`: 68 marginals equal DuckDB's, cell by cell. "
    return [
        told + ("Left out: " + "; ".join(found["absent"]) if found["absent"] else "All engines were there."),
        Plot("ready", "Table ready, by engine", "rows", "seconds", series, log="xy", expected=expected),
        Grid("Engines", {"engine": "", "rows": "", "seconds": "s", "same integers": ""}, points),
    ]


if __name__ == "__main__":
    import json

    print(json.dumps(run("--quick" in sys.argv), indent=2))
