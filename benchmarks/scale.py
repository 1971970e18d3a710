"""Large tables: a Table against DuckDB's own GROUP BY, counting on demand against one query per set, and growth."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.generated import domain_of, generated, plain_group_by
from benchmarks.growth import (
    COLUMNS,
    alone,
    read,
    timed,
    with_analysts,
    with_attributes,
    with_rows,
    with_universe,
    with_workload,
)
from benchmarks.shown import Claim, Grid, Plot, Shown
from reticent.sources import Table

BUILD_MOST = 1.5
MEMORY_MOST_GIB = 4.0
ON_DEMAND_LEAST = 5.0
WIDE = 40
_EVERY = 10
"""Of 780 pairs every tenth is asked of DuckDB and the mean taken for all; all would take a quarter of an hour."""

GROWING = {
    "rows": ("A Table from Parquet, 12 columns", "rows", "rows", "Expected: slope 1 for time once start-up is paid."),
    "attributes": ("A Table from a million rows", "attributes", "attributes", "Expected: slope at most 1."),
    "workload": (
        "All k-way marginals of 12 attributes, a million rows in memory",
        "cells",
        "cells of the workload",
        "Expected: slope below 1, because one pass serves many marginals.",
    ),
    "universe": (
        "A release of neighbouring pairs of binary attributes",
        "attributes",
        "attributes (universe 2 to this power)",
        "Expected: up to 2^20 cells all are visited; beyond, cost follows the attributes.",
    ),
    "analysts": (
        "One paid answer, ledger on disk",
        "analysts",
        "analysts with caps",
        "Expected: slope 0: an answer pays for itself alone.",
    ),
}
"""What grows: title, the field it grows with, the name of that axis, and what was expected before measuring."""

COLUMN_NAMES = {
    "way": "way",
    "sets": "marginals",
    "seconds": "time",
    "cpu_seconds": "processor",
    "peak_gib": "peak",
    "representation": "representation",
}
UNITS = {"seconds": "s", "cpu_seconds": "s", "peak_gib": "GiB"}


def on_demand(folder: Path, rows: int) -> dict[str, float]:
    """All pairs of many attributes without holding records, against one query per pair (every tenth of them)."""
    domain = domain_of(WIDE)
    pairs = list(itertools.combinations(domain.names, 2))
    with generated(folder, rows, WIDE) as path:
        with Table.read(path, domain, hold=1) as table:
            table._source.marginals(pairs[:3])
            own = timed(lambda: table._source.marginals(pairs))
        each = [timed(lambda pair=pair: plain_group_by(path, pair, domain)) for pair in pairs[::_EVERY]]
    one_by_one = sum(each) / len(each) * len(pairs)
    found = {"rows": rows, "pairs": len(pairs), "pairs_asked": len(each)}
    return found | {"all_seconds": own, "one_by_one_seconds": one_by_one}


def building(folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """Table ready against the plain GROUP BY, alternating in one process, and the memory of a process of its own."""
    domain = domain_of(COLUMNS)
    own, plain = [], []
    with generated(folder, rows, COLUMNS) as path:
        for _ in range(repeats):
            plain.append(timed(lambda: plain_group_by(path, domain.names, domain)))
            own.append(timed(lambda: Table.read(path, domain)))
        peak, size = alone(read, str(path), COLUMNS)["peak_gib"], path.stat().st_size
    return {"rows": rows, "bytes": size, "read_seconds": min(own), "group_by_seconds": min(plain), "peak_gib": peak}


def run(quick: bool) -> dict[str, Any]:
    """Growth and the marks of large tables; quick: a hundredth of the rows."""
    largest = 10**6 if quick else 10**8
    middle, small = (10**6, 10**5) if quick else (10**7, 10**6)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wide = on_demand(folder, middle)
        with generated(folder, largest, COLUMNS):
            built = building(folder, largest, 2)
            growth = {"rows": with_rows(folder, [10**5, 10**6] if quick else [10**5, 10**6, 10**7, 10**8])}
        growth["attributes"] = with_attributes(folder, [5, 25, 100] if quick else [5, 10, 25, 50, 100], small)
        growth["workload"] = with_workload(folder, [1, 2, 3] if quick else [1, 2, 3, 4, 5], small)
    growth["universe"] = with_universe([8, 16, 64] if quick else [8, 12, 16, 20, 24, 50, 100])
    growth["analysts"] = with_analysts([1, 10] if quick else [1, 10, 100, 1000])
    return {
        "building": built | {"ratio": built["read_seconds"] / built["group_by_seconds"]},
        "on_demand": wide | {"ratio": wide["one_by_one_seconds"] / wide["all_seconds"]},
        "growth": growth,
        "threads": os.cpu_count(),
    }


def present(found: dict[str, Any]) -> list[Shown]:
    """Marks first, then one plot and one table for each thing that grows."""
    built, wide, growth = found["building"], found["on_demand"], found["growth"]
    rows = f"{built['rows']:,} rows x {COLUMNS} columns of Parquet"
    pairs = f"{wide['pairs']} pairs of {WIDE} attributes over {wide['rows']:,} rows"
    threads = f"Generated tables; every reading and the GROUP BY beside it in {found['threads']} threads. "
    sampled = f"One query per pair is the mean of {wide['pairs_asked']} of them, times their number. "
    return [
        threads + sampled + "Every point of a curve is a process of its own.",
        Claim(f"{rows}: Table ready, over DuckDB's own GROUP BY", built["ratio"], at_most=BUILD_MOST),
        Claim(f"{rows}: peak memory", built["peak_gib"], at_most=MEMORY_MOST_GIB, unit="GiB"),
        Claim(f"{pairs} on demand, faster than one query each", wide["ratio"], at_least=ON_DEMAND_LEAST, unit="times"),
        *(part for name in GROWING for part in (curve(name, growth[name]), points_of(name, growth[name]))),
    ]


def curve(name: str, found: dict[str, Any]) -> Plot:
    """Seconds and memory on logarithmic axes, with the fitted slopes."""
    title, by, label, expected = GROWING[name]
    fitted = found["slopes"]
    series = {
        f"{unit}, slope {fitted[key]:.2f}": [(point[by], point[key]) for point in found["points"]]
        for key, unit in (("seconds", "seconds"), ("peak_gib", "GiB"))
    }
    return Plot(name, title, label, "seconds, GiB", series, log="xy", expected=expected)


def points_of(name: str, found: dict[str, Any]) -> Grid:
    title, by, label, _ = GROWING[name]
    columns = {by: label, **COLUMN_NAMES}
    # A cost without a slope is that of the whole process, not of what the row says.
    told = {key for key in found["points"][0] if key not in UNITS or key in found["slopes"]}
    kept = {key: shown for key, shown in columns.items() if key in told}
    units = {shown: UNITS.get(key, "") for key, shown in kept.items()}
    return Grid(title, units, [{kept[key]: point[key] for key in kept} for point in found["points"]])


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(run("--quick" in sys.argv), indent=2))
